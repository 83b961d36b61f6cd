"""Constrained networks as scikit-learn estimators (the extra ``fairness``)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgr_jax._optional import require
from hgr_jax.fairness.estimator_base import FairMLP, base

multiclass = require("sklearn.utils.multiclass", "fairness")

_PARAMETERS = """
    Inputs are standardised within (columns of zeros and ones are left as they are).  Predictions
    (logits of two classes) stay within those of the training rows: a row with inputs as none that
    were seen would be predicted far from all others, a dependence of its own.

    Args:
      hidden_layer_sizes: widths of the hidden layers.
      activation: "relu", "tanh", "logistic" or "identity".
      penalty: "kb", "sk" or any other measure of `Penalty`, a statistic as ``KB(3, 3)``, or a
        function ``(z, prediction) -> scalar``; None for no constraint.
      threshold: in (0, 1], of the penalty.
      h, k: degrees, for "kb" (and ``k`` for "sk"); a statistic has its own.
      given: None, "classes", a number of bins of y, or "polynomials": constrain what is left
        given y, see `Penalty`.
      bias_corrected: see `Penalty`.
      alpha: decoupled weight decay (AdamW): every step takes ``alpha`` times the learning rate of
        each weight of a hidden layer away; 0 for none.  What a network cannot memorise, it cannot
        hide a dependence in.
      steps: gradient steps.
      batch_size: rows of a step; None for all.
      learning_rate: of Adam.  It is constant in the first half of the steps, and falls to 0 in the
        second, so that the training ends at the threshold and not on its way around it; with
        ``guarantee``, where every step may be the last, it stays.
      multiplier_learning_rate: of the ascent of the multiplier.
      penalty_weight: a constant weight of the penalty in place of a multiplier, see `FairTrainer`.
      early_stopping: hold out ``validation_fraction`` of the rows and go back to the best
        evaluation on them: the one where the measure that is penalised, with less of its upward
        bias, violates the threshold least, then that of the highest score; stop after
        ``n_iter_no_change`` evaluations (one every 25 steps) without a better.
      guarantee: a level as 0.95: hold back ``guarantee_fraction`` of the rows, and return the last
        model, of more and more accurate ones, of which they say, with that confidence, that its
        HGR-KB in the population is at most ``threshold`` (see `fit_certified`), or raise
        `NoSolutionFound`.  ``steps`` are
        those of all models that are tried; as many, at most, come before the first.
      constraint_fraction: share of the rows that the network is not trained on, and whose HGR is
        kept below the threshold too, so that it does not hide in what the network memorises (see
        ``constraint_rows`` of `FairTrainer.fit`); None for no such rows.
      random_state: int, RandomState or None; the same int gives the same weights.
      verbose: show a progress bar.

    Attributes:
      coefs_, intercepts_: weights of the layers.
      history_: the `History` of the training; with a guarantee also of steps after the model's.
      multipliers_: of the penalised values, at the end.
      n_iter_: steps made.
      certificate_: with ``guarantee``, the `Certificate` of the model.
      n_features_in_, feature_names_in_: as everywhere in scikit-learn.
"""


class FairMLPRegressor(base.RegressorMixin, FairMLP):  # type: ignore[misc]  # noqa: D101
    __doc__ = f"""A network for regression whose prediction depends little on a protected attribute.

        minimise  mean((prediction - y)^2)   subject to   HGR(protected, prediction) <= threshold

    A scikit-learn estimator around `FairTrainer`; the target is scaled to [0, 1] within.
    {_PARAMETERS}
    Example:
      >>> from hgr_jax.datasets import load_diabetes
      >>> from hgr_jax.fairness import FairMLPRegressor
      >>> data = load_diabetes()
      >>> model = FairMLPRegressor(threshold=0.2, steps=100, random_state=0)
      >>> model = model.fit(data.x, data.y, protected=data.z)
      >>> bool(model.history_.last["hgr_train_z"] < 0.4)
      True
    """

    _task = "squared_error"
    _kept = (*FairMLP._kept, "_low", "_range")

    def _learn_targets(self, y: NDArray[Any]) -> tuple[NDArray[Any], int]:
        y = np.asarray(y, np.float64)
        self._low, self._range = float(y.min()), float(np.ptp(y)) or 1.0
        return (y - self._low) / self._range, 1

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return predictions ``(n,)``, in the unit of y."""
        output = self._output(X).astype(np.float64)
        return self._low + self._range * output


class FairMLPClassifier(base.ClassifierMixin, FairMLP):  # type: ignore[misc]  # noqa: D101
    __doc__ = f"""A network for classification whose probabilities depend little on an attribute.

        minimise  cross-entropy   subject to   HGR(protected, probability) <= threshold

    A scikit-learn estimator around `FairTrainer`.  With more than two classes the probability of
    each is constrained.
    {_PARAMETERS}      classes_: the labels.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.datasets import load_diabetes
      >>> from hgr_jax.fairness import FairMLPClassifier
      >>> data = load_diabetes()
      >>> label = np.where(data.y > 140, "worse", "better")
      >>> model = FairMLPClassifier(threshold=0.2, steps=100, random_state=0)
      >>> model.fit(data.x, label, protected=data.z).predict_proba(data.x).shape
      (442, 2)
    """

    _task = "log_loss"
    _kept = (*FairMLP._kept, "classes_")

    def _learn_targets(self, y: NDArray[Any]) -> tuple[NDArray[Any], int]:
        multiclass.check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must have at least two classes; got 1 class, {self.classes_[0]!r}."
            )
        outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
        return codes.astype(np.float64), outputs

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return probabilities ``(n, classes)``."""
        output = self._output(X).astype(np.float64)
        if output.ndim == 1:
            output = np.stack([np.zeros_like(output), output], axis=1)
        odds = np.exp(output - output.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return the most probable label of each row."""
        chosen = self.predict_proba(X).argmax(axis=1)
        return self.classes_[chosen]
