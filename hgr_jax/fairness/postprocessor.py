"""Any model's predictions, moved until they depend little on an attribute (extra ``fairness``)."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgr_jax._checks import check_count, check_level
from hgr_jax._optional import require
from hgr_jax.fairness.attributes import Attribute, learn_attribute, named_column, numbers
from hgr_jax.fairness.certificate import Candidate, Certificate, NoSolutionFound, bounded
from hgr_jax.fairness.estimator_base import (
    base,
    checked_share,
    sklearn_utils,
    split_rows,
    validation,
)
from hgr_jax.fairness.estimators import multiclass
from hgr_jax.fairness.evaluation import measured
from hgr_jax.fairness.penalties import Penalty
from hgr_jax.fairness.transport import Transport, mixed

metaestimators = require("sklearn.utils.metaestimators", "fairness")
metrics = require("sklearn.metrics", "fairness")
selection = require("sklearn.model_selection", "fairness")

STRENGTHS = tuple(i / 40 for i in range(41))
"""That are tried."""

Positions = NDArray[np.intp]


def _is_a_classifier(model: FairPostprocessor) -> bool:
    return bool(base.is_classifier(model.estimator))


@dataclasses.dataclass(eq=False, repr=False)
class FairPostprocessor(base.MetaEstimatorMixin, base.BaseEstimator):  # type: ignore[misc]
    """Any model, whose predictions are moved until they depend little on a protected attribute.

        p_t = (1 - t) p + t Q(U(z, p))

    with U the rank of the prediction p among those of its neighbours in the attribute z, Q the
    quantile function of all predictions, and t the smallest strength that keeps HGR-KB(z, p_t) at
    most the threshold.  At t = 0 predictions are those of the model; at t = 1 they have about the
    same distribution for every z.  Rows of the same z keep their order at every t.

    p is the prediction of a regressor, or the probability of the second class of a classifier of
    two classes.  U and Q are of out-of-fold predictions, which are of the kind that new rows
    have.  (Those of neighbours are moved to z along their least-squares line before p is ranked
    among them, and ranks are drawn to 1/2 where z is beyond them.)  The model itself is fitted
    as ever, and z is needed at prediction.

    Args:
      estimator: a regressor of scikit-learn, a classifier with ``predict_proba``, or a pipeline or
        search that ends in one.
      threshold: in (0, 1], of HGR-KB.
      h, k: degrees of the attribute and of the prediction.
      guarantee: a level as 0.95: hold back ``guarantee_fraction`` of the rows.  Strengths are
        bounded on them from 1 downward, as by `certify`; the last before the first whose bound
        exceeds the threshold is taken, or `NoSolutionFound` raised if t = 1 already has none.
        Without it (None) t is the smallest at which the sample value of HGR-KB of out-of-fold
        predictions is at most the threshold, their transport learned on the other folds.  That
        value is biased upward, so on few rows t is rather too large than too small.
      guarantee_fraction: of the rows, with ``guarantee``.
      n_neighbors: how many rows in z make the rank; None for the root of their number.  Rows with
        the same z count too.  Of a category the neighbours are the rows of the same level.
      cv: number of folds, of shuffled rows; or what scikit-learn takes as ``cv``.
      random_state: int, RandomState or None: of the folds and of the rows held back.

    Attributes:
      strength_: t, one of 0, 1/40, ..., 1.
      estimator_: the model, fitted to all rows that are not held back.
      transport_: what gives U and Q; None where nothing is constrained.
      certificate_: with ``guarantee``, the `Certificate`; its candidates are strengths.
      classes_: the labels, of a classifier.
      n_features_in_, feature_names_in_: as everywhere in scikit-learn.

    Degenerate cases: a prediction beyond those of its neighbours has the rank of the outermost.
    Predictions of few distinct values, and attributes of few rows nearby, leave a dependence even
    at t = 1.  Few rows in a tail of z can make most of it: guarantees then fail more often than
    they say, as `certify` tells; take ranks of such an attribute.

    Source: Chzhen, Denis, Hebiri, Oneto & Pontil, "Fair regression with Wasserstein barycenters"
    (2020).

    Example:
      >>> import numpy as np
      >>> from sklearn.linear_model import LinearRegression
      >>> from hgr_jax import kb
      >>> from hgr_jax.fairness import FairPostprocessor
      >>> rng = np.random.default_rng(0)
      >>> X = rng.normal(size=(1000, 3)); z = X[:, 0]; y = X.sum(axis=1)
      >>> model = FairPostprocessor(LinearRegression(), threshold=0.2, random_state=0)
      >>> model = model.fit(X, y, protected=z)
      >>> print(f"{kb(z, model.estimator_.predict(X)):.1f} {kb(z, model.predict(X, z)):.1f}")
      0.6 0.2
    """

    estimator: Any
    _: dataclasses.KW_ONLY
    threshold: float = 0.2
    h: int = 5
    k: int = 5
    guarantee: float | None = None
    guarantee_fraction: float = 0.4
    n_neighbors: int | None = None
    cv: Any = 5
    random_state: Any = None

    def fit(self, X: Any, y: ArrayLike, protected: ArrayLike | str | int | None = None) -> Self:  # noqa: N803
        """Fit the model, and learn how far its predictions are to be moved.

        Args:
          X: inputs of the model, ``(n, p)``.
          y: targets ``(n,)``.
          protected: ``(n,)`` numbers or text, or the name or position of a column of X, which
            `predict` then finds by itself.  Without it nothing is constrained, and a warning
            says so.

        Returns:
          The estimator itself.

        Raises:
          ValueError, TypeError: for data that cannot be used, and parameters out of range.
          NoSolutionFound: with ``guarantee``, if no strength has it.
        """
        for name in ("certificate_", "estimator_", "strength_", "transport_", "classes_"):
            self.__dict__.pop(name, None)  # of an earlier fit, should this one fail
        X, y = validation.validate_data(self, X, y, skip_check_array=True)  # noqa: N806
        X, y = sklearn_utils.indexable(X, y)  # noqa: N806
        labels = self._checked_targets(y)
        column = protected if isinstance(protected, str | int | np.integer) else None
        z = named_column(X, protected)
        if z is None:
            if self.guarantee is not None:
                raise ValueError("a guarantee needs fit(X, y, protected=...); it was not given.")
            warnings.warn(
                "no protected attribute was given, so nothing is constrained; give"
                " fit(X, y, protected=...)",
                UserWarning,
                stacklevel=2,
            )
            model = base.clone(self.estimator).fit(X, labels)
            self._keep(model, 0.0, None, None, None)
            return self
        penalty = Penalty(
            "kb",
            self.threshold,
            h=check_count("h", self.h),
            k=check_count("k", self.k),
            name=column if isinstance(column, str) else "z",
        )
        attribute = learn_attribute(penalty, z, np.zeros(len(labels)))
        encoded, penalty = attribute.encode(z, len(labels)), attribute.suited(penalty)
        random = sklearn_utils.check_random_state(self.random_state)
        seed = int(random.randint(np.iinfo(np.int32).max))
        if self.guarantee is None:
            model, p, folds = self._fit_model(X, labels, seed)
            strength = _least_strength(penalty, encoded, p, self._other_folds(encoded, p, folds))
            transport = self._learn(encoded, p)
        else:
            level = check_level("guarantee", self.guarantee)
            share = checked_share("guarantee_fraction", self.guarantee_fraction)
            stratified = labels if _is_a_classifier(self) else None
            train, held = split_rows(np.arange(len(labels)), share, seed, stratified)
            part, test = (sklearn_utils._safe_indexing(X, rows) for rows in (train, held))
            model, p, _ = self._fit_model(part, labels[train], seed)
            transport = self._learn(encoded[train], p)
            p, z = self._model_output(model, test), encoded[held]
            strength, certificate = _certified(penalty, z, p, transport(z, p), level)
            self.certificate_ = certificate
        self._keep(model, strength, transport, attribute, column)
        return self

    def predict(
        self,
        X: Any,  # noqa: N803
        protected: ArrayLike | str | int | None = None,
    ) -> NDArray[Any]:
        """Return predictions ``(n,)``; of a classifier, labels.

        Args:
          X: inputs of the model.
          protected: the attribute of these rows, as in `fit`.  Where `fit` got the name or the
            position of a column, None is the same column.

        Raises:
          ValueError, TypeError: without the attribute, and for one that cannot be used, as one
            with a level that the rows of the fit lack.
        """
        validation.check_is_fitted(self, "estimator_")
        if _is_a_classifier(self):
            chosen = self._probabilities(X, protected).argmax(axis=1)
            return np.asarray(self.classes_[chosen])
        return self._moved(self._model_output(self.estimator_, X), X, protected)

    @metaestimators.available_if(_is_a_classifier)  # type: ignore[untyped-decorator]
    def predict_proba(
        self,
        X: Any,  # noqa: N803
        protected: ArrayLike | str | int | None = None,
    ) -> NDArray[Any]:
        """Return probabilities ``(n, 2)`` of a classifier; arguments and errors as `predict`."""
        validation.check_is_fitted(self, "estimator_")
        return self._probabilities(X, protected)

    def score(
        self,
        X: Any,  # noqa: N803
        y: ArrayLike,
        protected: ArrayLike | str | int | None = None,
    ) -> float:
        """Return R2, of a classifier the accuracy; arguments and errors as `predict`."""
        score = metrics.accuracy_score if _is_a_classifier(self) else metrics.r2_score
        return float(score(y, self.predict(X, protected)))

    def __sklearn_tags__(self) -> Any:
        """Return the tags of the model, which has one target here, of two classes or a number."""
        tags, of_model = super().__sklearn_tags__(), sklearn_utils.get_tags(self.estimator)
        for name in (
            "estimator_type",
            "classifier_tags",
            "regressor_tags",
            "target_tags",
            "input_tags",
        ):
            setattr(tags, name, getattr(of_model, name))
        tags.target_tags.multi_output = False
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_class = False
        return tags

    def _keep(
        self,
        model: Any,
        strength: float,
        transport: Transport | None,
        attribute: Attribute | None,
        column: Any,
    ) -> None:
        self.estimator_, self.strength_, self.transport_ = model, strength, transport
        self._attribute, self._column = attribute, column
        if _is_a_classifier(self):
            self.classes_ = model.classes_

    def _checked_targets(self, y: Any) -> NDArray[Any]:
        y = np.asarray(sklearn_utils.column_or_1d(y, warn=True))
        sklearn_utils.assert_all_finite(y, input_name="y")
        if not len(y):
            raise ValueError("X and y must have rows; they have none.")
        if not _is_a_classifier(self):
            return y
        if not hasattr(self.estimator, "predict_proba"):
            raise TypeError(
                "a classifier must have predict_proba, whose probability is what is moved;"
                f" {type(self.estimator).__name__} has none."
            )
        multiclass.check_classification_targets(y)
        classes = np.unique(y)
        if len(classes) > 2:  # in scikit-learn's words, which its checks look for
            raise ValueError(
                "Only binary classification is supported. The type of the target is"
                f" {multiclass.type_of_target(y)}: y has {len(classes)} classes."
            )
        if len(classes) == 1:
            raise ValueError(f"y must have two classes; got 1 class, {classes[0]!r}.")
        return y

    def _fit_model(
        self,
        X: Any,  # noqa: N803
        y: NDArray[Any],
        seed: int,
    ) -> tuple[Any, NDArray[np.float64], list[tuple[Positions, Positions]]]:
        """Return the model of these rows, their out-of-fold predictions, and the folds."""
        classifier, splitter = _is_a_classifier(self), self.cv
        if isinstance(splitter, int | np.integer):
            kind = selection.StratifiedKFold if classifier else selection.KFold
            splitter = kind(check_count("cv", splitter, 2), shuffle=True, random_state=seed)
        folds = list(selection.check_cv(splitter, y, classifier=classifier).split(X, y))
        output = selection.cross_val_predict(
            self.estimator,
            X,
            y,
            cv=folds,
            method="predict_proba" if classifier else "predict",
        )
        p = _one_column(output[:, 1] if classifier else output, len(y))
        return base.clone(self.estimator).fit(X, y), p, folds

    def _learn(self, z: NDArray[Any], p: NDArray[np.float64]) -> Transport:
        neighbors = self.n_neighbors
        return Transport.learn(
            z, p, None if neighbors is None else check_count("n_neighbors", neighbors)
        )

    def _other_folds(
        self, z: NDArray[Any], p: NDArray[np.float64], folds: Iterable[tuple[Positions, Positions]]
    ) -> NDArray[np.float64]:
        """Return predictions transported by what the other folds say."""
        found = np.empty_like(p)
        for rest, fold in folds:
            found[fold] = self._learn(z[rest], p[rest])(z[fold], p[fold])
        return found

    def _model_output(self, model: Any, X: Any) -> NDArray[np.float64]:  # noqa: N803
        if _is_a_classifier(self):
            return np.asarray(model.predict_proba(X)[:, 1], np.float64)
        output = model.predict(X)
        return _one_column(output, len(output))

    def _probabilities(self, X: Any, protected: Any) -> NDArray[Any]:  # noqa: N803
        found = np.asarray(self.estimator_.predict_proba(X))
        second = self._moved(found[:, 1], X, protected)
        return found if self.strength_ == 0 else np.stack([1 - second, second], axis=1)

    def _moved(self, p: NDArray[Any], X: Any, protected: Any) -> NDArray[Any]:  # noqa: N803
        if self.transport_ is None or self._attribute is None:
            return p
        z = named_column(X, self._column if protected is None else protected)
        if z is None:
            raise ValueError(
                "predictions need the protected attribute of their rows: give predict(X,"
                " protected), or name a column of X in fit."
            )
        encoded = self._attribute.encode(z, len(p))
        if self.strength_ == 0:
            return p
        p = np.asarray(p, np.float64)
        return mixed(p, self.transport_(encoded, p), self.strength_)


def _one_column(output: Any, rows: int) -> NDArray[np.float64]:
    found = numbers("the prediction", output)
    if found.shape != (rows,):
        raise ValueError(
            f"the model must give one prediction a row, shape ({rows},); got {found.shape}."
        )
    return found


def _least_strength(
    penalty: Penalty,
    z: NDArray[Any],
    p: NDArray[np.float64],
    transported: NDArray[np.float64],
) -> float:
    """Return the smallest strength that keeps the threshold on these rows; 1 if none does."""
    value = 1.0
    for strength in STRENGTHS:
        value = measured(penalty, z, mixed(p, transported, strength))
        if value <= float(np.asarray(penalty.threshold)):
            return strength
    h, k = penalty.h, penalty.k
    warnings.warn(
        f"no strength is enough: at 1, HGR-KB({h}, {k}) of {penalty.name} and out-of-fold"
        f" predictions is {value:.3f}, above the threshold {penalty.threshold:g}. Predictions have"
        " strength 1; more rows, lower degrees h and k or a higher threshold are needed.",
        UserWarning,
        stacklevel=3,
    )
    return 1.0


def _certified(
    penalty: Penalty,
    z: NDArray[Any],
    p: NDArray[np.float64],
    transported: NDArray[np.float64],
    level: float,
) -> tuple[float, Certificate]:
    """Return the last strength, from 1 downward, that rows held back accept, and its certificate.

    Raises:
      NoSolutionFound: if 1 is not accepted.
    """
    tried: list[Candidate] = []
    kept: tuple[float, Certificate] | None = None
    for strength in reversed(STRENGTHS):
        found = bounded(penalty, z, mixed(p, transported, strength), level)
        tried.append(Candidate(strength, 0, found.value, found.bound, found.holds))
        if not found.holds:
            break
        kept = strength, found
    if kept is None:
        raise NoSolutionFound(dataclasses.replace(found, candidates=tuple(tried)))
    return kept[0], dataclasses.replace(kept[1], candidates=tuple(tried))
