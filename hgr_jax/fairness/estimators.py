"""Constrained networks as scikit-learn estimators (the extra ``fairness``)."""

from __future__ import annotations

import abc
import dataclasses
import functools
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike, NDArray

from hgr_jax._checks import (
    as_nonnegative,
    as_positive,
    check_choice,
    check_count,
    check_fraction,
)
from hgr_jax._optional import require
from hgr_jax.fairness.attributes import as_column, named_column, numbers, standardisation
from hgr_jax.fairness.dual import LagrangianDual
from hgr_jax.fairness.history import History
from hgr_jax.fairness.penalties import Penalty
from hgr_jax.fairness.saved_models import read_estimator, write_estimator
from hgr_jax.fairness.steps import TrainingError
from hgr_jax.fairness.tasks import ACTIVATIONS, initialised_mlp
from hgr_jax.fairness.trainer import FairTrainer

base = require("sklearn.base", "fairness")
validation = require("sklearn.utils.validation", "fairness")
sklearn_utils = require("sklearn.utils", "fairness")
multiclass = require("sklearn.utils.multiclass", "fairness")

DIVERGED = 2.0
"""A loss that ends at more than so many times the first; trainings that learn end below it."""


@dataclasses.dataclass(eq=False, repr=False)
class _FairMLP(base.BaseEstimator, abc.ABC):  # type: ignore[misc,name-defined]
    """The common base of the two estimators."""

    _task: ClassVar[str]
    _kept: ClassVar[tuple[str, ...]] = (
        "n_features_in_",
        "feature_names_in_",
        "coefs_",
        "intercepts_",
        "n_iter_",
        "multipliers_",
        "_center",
        "_scale",
    )

    hidden_layer_sizes: Sequence[int] = (32, 32)
    activation: str = "relu"
    _: dataclasses.KW_ONLY
    penalty: Any = "kb"
    threshold: float = 0.2
    h: int = 5
    k: int = 5
    given: str | int | None = None
    bias_corrected: bool = False
    alpha: float = 0.0
    steps: int = 500
    batch_size: int | None = None
    learning_rate: float = 1e-3
    multiplier_learning_rate: float = 2e-3
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    random_state: Any = None
    verbose: bool = False

    def fit(self, X: ArrayLike, y: ArrayLike, protected: ArrayLike | str | None = None) -> Self:  # noqa: N803
        """Train on inputs ``X (n, p)``, targets ``y (n,)`` and a protected attribute.

        Args:
          X: array or data frame of numbers.
          y: numbers; of a classifier, labels.
          protected: ``(n,)`` numbers or text, or the name of a column of the data frame X (which
            stays an input).  Without it nothing is constrained, and a warning says so.

        Returns:
          The estimator itself.

        Raises:
          ValueError, TypeError: for data that cannot be trained on, and parameters out of range.
          TrainingError: if the training diverges: its loss stops being finite, or ends far above
            where it began.
        """
        protected = named_column(X, protected)
        numeric = self._task == "squared_error"
        x, y = validation.validate_data(self, X, y, dtype=np.float64, y_numeric=numeric)
        targets, outputs = self._learn_targets(np.asarray(y))
        self._train(x, targets, protected, outputs)
        return self

    def save(self, path: str | Path) -> None:
        """Keep the fitted model in one ``.npz`` file: arrays and JSON, nothing that executes.

        Raises:
          ValueError: where the penalty is a function, which a file cannot hold.
        """
        validation.check_is_fitted(self)
        write_estimator(path, self, self._kept)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load the model that `save` kept.

        Raises:
          ValueError: if the file is not a model of this class.
        """
        return read_estimator(path, cls, cls._kept)

    @abc.abstractmethod
    def _learn_targets(self, y: NDArray[Any]) -> tuple[NDArray[Any], int]:
        """Return what the network is trained to, and the number of its outputs."""

    def _train(self, x: NDArray[Any], y: NDArray[Any], protected: Any, outputs: int) -> None:
        penalty = self._penalty(protected)
        random = sklearn_utils.check_random_state(self.random_state)
        seed = int(random.randint(np.iinfo(np.int32).max))
        self._center, self._scale = standardisation(x)
        x = self._scaled(x)
        network = initialised_mlp(
            x.shape[1],
            _widths(self.hidden_layer_sizes),
            outputs,
            check_choice("activation", self.activation, tuple(ACTIVATIONS)),
            jax.random.key(seed),
        )
        trainer = FairTrainer(
            network,
            penalties=() if penalty is None else penalty,
            task=self._task,
            optimizer=_optimizer(
                _checked_number("learning_rate", self.learning_rate),
                _checked_number("alpha", self.alpha, as_nonnegative),
            ),
            dual=_dual(_checked_number("multiplier_learning_rate", self.multiplier_learning_rate)),
            batch_size=self.batch_size,
            seed=seed,
        )
        if protected is not None:
            protected = as_column("protected", protected, len(x))
        rows, test = (x, y, protected), None
        if self.early_stopping:
            if check_fraction("validation_fraction", self.validation_fraction) in (0, 1):
                raise ValueError(
                    "validation_fraction must be between 0 and 1; got"
                    f" {self.validation_fraction!r}."
                )
            labels = y if self._task == "log_loss" else None
            parts = split_rows(np.arange(len(x)), self.validation_fraction, seed, labels)
            z = None if protected is None else np.asarray(protected)
            rows, test = ((x[i], y[i], None if z is None else z[i]) for i in parts)
        history = trainer.fit(
            *rows,
            steps=check_count("steps", self.steps),
            validation=test,
            patience=check_count("n_iter_no_change", self.n_iter_no_change)
            if self.early_stopping
            else None,
            progress=bool(self.verbose),
        )
        layers = trainer.network.layers
        coefs = [np.asarray(layer.kernel[...]) for layer in layers]
        intercepts = [np.asarray(layer.bias[...]) for layer in layers]
        output = _forward(self.activation, coefs, intercepts, rows[0])
        _check_not_diverged(
            history, float(trainer.task.loss(jnp.asarray(output), jnp.asarray(rows[1])))
        )
        self.coefs_, self.intercepts_ = coefs, intercepts
        self.history_, self.multipliers_ = history, trainer.multipliers
        self.n_iter_ = int(history.last["step"])

    def _penalty(self, protected: Any) -> Penalty | None:
        if self.penalty is None or protected is None:
            if protected is None and self.penalty is not None:
                warnings.warn(
                    "no protected attribute was given, so nothing is constrained; give"
                    " fit(X, y, protected=...), or set penalty=None",
                    UserWarning,
                    stacklevel=4,
                )
            return (
                None if protected is None else Penalty(None, h=self.h, k=self.k, given=self.given)
            )
        return Penalty(
            self.penalty,
            self.threshold,
            h=self.h,
            k=self.k,
            given=self.given,
            bias_corrected=self.bias_corrected,
        )

    def _scaled(self, x: NDArray[Any]) -> NDArray[Any]:
        return numbers("X", (x - self._center) / self._scale, np.float32)

    def _output(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        validation.check_is_fitted(self)
        x = self._scaled(validation.validate_data(self, X, reset=False, dtype=np.float64))
        return _forward(self.activation, self.coefs_, self.intercepts_, x)


def _forward(
    activation: str, coefs: Sequence[Any], intercepts: Sequence[Any], x: NDArray[Any]
) -> NDArray[Any]:
    """Return the output of a network with these weights."""
    for i, (kernel, bias) in enumerate(zip(coefs, intercepts, strict=True)):
        x = x @ kernel + bias
        if i + 1 < len(coefs):
            x = np.asarray(ACTIVATIONS[activation](x))
    return x[:, 0] if x.shape[1] == 1 else x


def _check_not_diverged(history: History, loss: float) -> None:
    """Raise a TrainingError if a training ended far above where it began, on the training rows.

    Such a network often gives one value to all rows, so that no threshold is broken.
    """
    first = float(history.steps["task_loss"][0])
    if not loss <= DIVERGED * first:
        raise TrainingError(
            f"the training diverged: the loss on the training rows was {first:.3g} at first and is"
            f" {loss:.3g} at the end. A smaller learning rate usually helps."
        )


_PARAMETERS = """
    Inputs are standardised within (columns of zeros and ones are left as they are).

    Args:
      hidden_layer_sizes: widths of the hidden layers.
      activation: "relu", "tanh", "logistic" or "identity".
      penalty: "kb", "sk" or any other measure of `Penalty`, or a function ``(z, prediction) ->
        scalar``; None for no constraint.
      threshold: in (0, 1], of the penalty.
      h, k: degrees, for "kb" (and ``k`` for "sk").
      given: None, "classes", a number of bins of y, or "polynomials": constrain what is left
        given y, see `Penalty`.
      bias_corrected: see `Penalty`.
      alpha: decoupled weight decay (AdamW), in units of the learning rate.
      steps: gradient steps.
      batch_size: rows of a step; None for all.
      learning_rate: of Adam.
      multiplier_learning_rate: of the ascent of the multiplier.
      early_stopping: hold out ``validation_fraction`` of the rows and go back to the best
        evaluation on them: the one that violates the threshold least, then that of the highest
        score; stop after ``n_iter_no_change`` evaluations (one every 25 steps) without a better.
      random_state: int, RandomState or None; the same int gives the same weights.
      verbose: show a progress bar.

    Attributes:
      coefs_, intercepts_: weights of the layers.
      history_: the `History` of the training.
      multipliers_: of the penalised values, at the end.
      n_iter_: steps made.
      n_features_in_, feature_names_in_: as everywhere in scikit-learn.
"""


class FairMLPRegressor(base.RegressorMixin, _FairMLP):  # type: ignore[misc,name-defined]  # noqa: D101
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
    _kept = (*_FairMLP._kept, "_low", "_range")

    def _learn_targets(self, y: NDArray[Any]) -> tuple[NDArray[Any], int]:
        y = np.asarray(y, np.float64)
        self._low, self._range = float(y.min()), float(np.ptp(y)) or 1.0
        return (y - self._low) / self._range, 1

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """Return predictions ``(n,)``, in the unit of y."""
        output = self._output(X).astype(np.float64)
        return self._low + self._range * output


class FairMLPClassifier(base.ClassifierMixin, _FairMLP):  # type: ignore[misc,name-defined]  # noqa: D101
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
    _kept = (*_FairMLP._kept, "classes_")

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


@functools.lru_cache(maxsize=64)
def _optimizer(learning_rate: float, alpha: float) -> optax.GradientTransformation:
    """Return one object for equal settings, so that like fits compile nothing."""
    if alpha == 0:
        return optax.adam(learning_rate)
    return optax.adamw(learning_rate, weight_decay=alpha)


@functools.lru_cache(maxsize=64)
def _dual(learning_rate: float) -> LagrangianDual:
    return LagrangianDual(optax.adam(learning_rate))


def split_rows(
    rows: NDArray[np.intp], share: float, seed: int, labels: NDArray[Any] | None = None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Split rows at random, with equal shares of each label.

    Args:
      rows: positions ``(n,)``.
      share: of the second part, or the number of its rows.
      seed: of the choice.
      labels: ``(n,)``, or None.
    """
    split = require("sklearn.model_selection", "fairness").train_test_split
    first, second = split(rows, test_size=share, random_state=seed, stratify=labels)
    return first, second


def _widths(value: Any) -> tuple[int, ...]:
    widths = (value,) if isinstance(value, int | np.integer) else tuple(value)
    return tuple(check_count("hidden_layer_sizes", width) for width in widths)


def _checked_number(name: str, value: Any, check: Any = as_positive) -> float:
    check(name, value, np.float32)
    return float(value)
