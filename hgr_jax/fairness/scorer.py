"""A score for scikit-learn's searches that puts the constraint first (the extra ``fairness``)."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hgr_jax._optional import require
from hgr_jax.fairness.attributes import as_column, is_one_hot, is_text, named_column, numbers
from hgr_jax.fairness.evaluation import measured, predicted, scored
from hgr_jax.fairness.penalties import Penalty
from hgr_jax.tables.convert import encode_texts

sklearn_base = require("sklearn.base", "fairness")
routing = require("sklearn.utils.metadata_routing", "fairness")

BROKEN = -200.0
"""Below what 100 folds, each of a score between -1 and 1, can make up for."""


@dataclasses.dataclass(eq=False, repr=False)
class FairnessScorer(sklearn_base.BaseEstimator):  # type: ignore[misc,name-defined]
    """A scorer of scikit-learn: what a model scores where HGR keeps below a threshold.

        score = s                            where HGR(protected, prediction) <= threshold, s >= 0
              = s / (1 - s)                  the same, where s < 0
              = -200 - (HGR - threshold)     elsewhere

    with s the R2 or AUC, all on the rows that are scored; s / (1 - s) is between -1 and 0.  The
    mean over at most 100 folds therefore prefers a model that keeps the threshold in every fold to
    any that breaks it in one, and of those that break it everywhere the one that is nearest.  The
    score is AUC where y has two classes.  A sample value is biased upward, more so in small folds:
    see `hgr_jax.inference.roys_root.mean`, and ``bias_corrected``.

    Args:
      threshold: in (0, 1], of HGR.
      protected: the name of a column of the data frame X, or the position of a column of an array
        X; None where scikit-learn passes the attribute on (see `set_score_request` there).
      penalty: "kb" or "sk", or any other measure of `Penalty`.
      h, k: degrees of the attribute and of the prediction, static.
      bias_corrected: take away part of the upward bias, see `corrected`.

    Raises:
      TypeError, ValueError: when it scores, for these out of range, without an attribute, and for
        classifiers of more than two classes.

    Example:
      >>> from sklearn.model_selection import GridSearchCV
      >>> from hgr_jax.datasets import load_diabetes
      >>> from hgr_jax.fairness import FairMLPRegressor, FairnessScorer
      >>> data = load_diabetes()
      >>> age = data.features.index("age")
      >>> search = GridSearchCV(
      ...     FairMLPRegressor(steps=50, random_state=0),
      ...     {"threshold": [0.1, 0.3]},
      ...     scoring=FairnessScorer(threshold=0.3, protected=age, h=2, k=2),
      ...     cv=2,
      ... )
      >>> search = search.fit(data.x, data.y, protected=data.z)
      >>> bool(search.best_score_ > -1)  # kept in both folds
      True
    """

    # It is the first argument of every scorer, nothing to pass on.
    __metadata_request__score = {"estimator": routing.UNUSED}  # noqa: RUF012

    threshold: float
    _: dataclasses.KW_ONLY
    protected: str | int | None = None
    penalty: Any = "kb"
    h: int = 5
    k: int = 5
    bias_corrected: bool = False

    def __call__(self, estimator: Any, X: Any, y: ArrayLike, **metadata: Any) -> float:  # noqa: N803
        """Return the score, as `score` does."""
        return self.score(estimator, X, y, **metadata)

    def score(
        self,
        estimator: Any,
        X: Any,  # noqa: N803
        y: ArrayLike,
        protected: ArrayLike | str | int | None = None,
    ) -> float:
        """Return the score of a fitted estimator on some rows.

        Args:
          estimator: what has ``predict``, and ``predict_proba`` if it is a classifier.
          X: inputs of the estimator.
          y: targets ``(n,)``.
          protected: ``(n,)`` numbers or text, or as the argument of this name of the scorer,
            which it takes the place of.

        Raises:
          TypeError, ValueError: as the scorer says.
        """
        penalty = Penalty(
            self.penalty,
            self.threshold,
            h=self.h,
            k=self.k,
            bias_corrected=self.bias_corrected,
        )
        prediction, targets, kind = predicted(estimator, X, np.asarray(y))
        value = measured(penalty, self._attribute(X, protected, len(targets)), prediction)
        if value > self.threshold:
            return BROKEN - (value - self.threshold)
        score = scored(prediction, targets, kind)[0]
        return score if score >= 0 else score / (1 - score)

    def _attribute(self, X: Any, protected: Any, rows: int) -> Any:  # noqa: N803
        given = self.protected if protected is None else protected
        if given is None:
            raise ValueError(
                "there is no protected attribute to score with; name a column of X,"
                " FairnessScorer(threshold, protected=...), or have scikit-learn pass it on:"
                " sklearn.set_config(enable_metadata_routing=True), then"
                " set_fit_request(protected=True) of the estimator and"
                " set_score_request(protected=True) of the scorer."
            )
        z = as_column("protected", named_column(X, given), rows)
        if is_text(z):
            return encode_texts(z).one_hot()
        if z.ndim == 2 and not is_one_hot(z):
            raise ValueError(f"protected must have shape (n,) or be one-hot; got {z.shape}.")
        return numbers("protected", z)
