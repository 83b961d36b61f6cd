"""What the constrained estimators share: parameters, training, and files."""

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
    check_level,
)
from hgr_jax._optional import require
from hgr_jax.fairness.attributes import as_column, is_text, named_column, numbers, standardisation
from hgr_jax.fairness.certificate import Certificate
from hgr_jax.fairness.dual import LagrangianDual
from hgr_jax.fairness.guarantee import fit_certified
from hgr_jax.fairness.history import History
from hgr_jax.fairness.optimizer import decaying_adamw
from hgr_jax.fairness.penalties import Penalty
from hgr_jax.fairness.saved_models import read_estimator, write_estimator
from hgr_jax.fairness.steps import TrainingError
from hgr_jax.fairness.tasks import ACTIVATIONS, initialised_mlp
from hgr_jax.fairness.trainer import FairTrainer

base = require("sklearn.base", "fairness")
validation = require("sklearn.utils.validation", "fairness")
sklearn_utils = require("sklearn.utils", "fairness")
ConvergenceWarning = require("sklearn.exceptions", "fairness").ConvergenceWarning

DIVERGED = 2.0
"""A loss that ends at more than so many times the first; trainings that learn end below it."""


@dataclasses.dataclass(eq=False, repr=False)
class FairMLP(base.BaseEstimator, abc.ABC):  # type: ignore[misc,name-defined]
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
        "_limits",
    )
    _limits = (-np.inf, np.inf)

    hidden_layer_sizes: Sequence[int] = (32, 32)
    activation: str = "relu"
    _: dataclasses.KW_ONLY
    penalty: Any = "kb"
    threshold: float = 0.2
    h: int = 5
    k: int = 5
    given: str | int | None = None
    bias_corrected: bool = False
    alpha: float = 1.0
    steps: int = 500
    batch_size: int | None = None
    learning_rate: float = 1e-3
    multiplier_learning_rate: float = 2e-3
    penalty_weight: float | None = None
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    guarantee: float | None = None
    guarantee_fraction: float = 0.4
    constraint_fraction: float | None = None
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
          NoSolutionFound: with ``guarantee``, if no model has it.

        A `sklearn.exceptions.ConvergenceWarning` says that a training ends above its threshold.
        """
        protected = named_column(X, protected)
        numeric = self._task == "squared_error"
        x, y = validation.validate_data(self, X, y, dtype=np.float64, y_numeric=numeric)
        labels, held_out = np.asarray(y), None
        if protected is not None:
            protected = as_column("protected", protected, len(x))
        # Where this fails, neither a part of another model nor its certificate stays.
        fitted = {*self._kept, "certificate_", "history_", "multipliers_", "n_iter_"}
        for name in fitted - {"n_features_in_", "feature_names_in_"}:
            self.__dict__.pop(name, None)
        random = sklearn_utils.check_random_state(self.random_state)
        seed = int(random.randint(np.iinfo(np.int32).max))
        if self.guarantee is not None:
            train, held = self._hold_back(labels, protected, seed)
            z = np.asarray(protected)
            held_out = x[held], z[held]
            x, labels, protected = x[train], labels[train], z[train]
        # Of all inputs but those: a column that hardly varies among fewer rows would be far off on
        # others.
        self._center, self._scale = standardisation(x)
        targets, outputs = self._learn_targets(labels)
        self._train(x, targets, protected, outputs, seed, held_out)
        return self

    def save(self, path: str | Path) -> None:
        """Keep the fitted model in one ``.npz`` file: arrays and JSON, nothing that executes.

        What it needs to predict: not ``history_`` and ``certificate_``.

        Raises:
          ValueError: where the penalty is a function, which a file cannot hold.
        """
        validation.check_is_fitted(self, "coefs_")
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

    def _hold_back(
        self, y: NDArray[Any], protected: Any, seed: int
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the rows to train on, and those to test a guarantee on."""
        if protected is None or self.penalty is None:
            raise ValueError(
                "a guarantee needs fit(X, y, protected=...) and a penalty; got"
                f" {'no protected attribute' if protected is None else 'penalty=None'}."
            )
        if self.early_stopping:
            raise ValueError(
                "guarantee and early_stopping exclude each other: a training with a guarantee"
                " stops where it no longer holds."
            )
        share = checked_share("guarantee_fraction", self.guarantee_fraction)
        labels = y if self._task == "log_loss" else None
        return split_rows(np.arange(len(y)), share, seed, labels, np.asarray(protected))

    def _train(
        self,
        x: NDArray[Any],
        y: NDArray[Any],
        protected: Any,
        outputs: int,
        seed: int,
        held_out: tuple[NDArray[Any], NDArray[Any]] | None,
    ) -> None:
        penalty = self._penalty(protected)
        x = self._scaled(x)
        network = initialised_mlp(
            x.shape[1],
            _widths(self.hidden_layer_sizes),
            outputs,
            check_choice("activation", self.activation, tuple(ACTIVATIONS)),
            jax.random.key(seed),
        )
        dual = _dual(_checked_number("multiplier_learning_rate", self.multiplier_learning_rate))
        trainer = FairTrainer(
            network,
            penalties=() if penalty is None else penalty,
            task=self._task,
            optimizer=decaying_adamw(
                _checked_number("learning_rate", self.learning_rate),
                _checked_number("alpha", self.alpha, as_nonnegative),
                None if self.guarantee is not None else check_count("steps", self.steps),
            ),
            dual=None if self.penalty_weight is not None else dual,
            penalty_weight=self.penalty_weight,
            batch_size=self.batch_size,
            seed=seed,
        )
        rows, test = (x, y, protected), None
        steps, progress = check_count("steps", self.steps), bool(self.verbose)
        if self.early_stopping:
            share = checked_share("validation_fraction", self.validation_fraction)
            labels = y if self._task == "log_loss" else None
            z = None if protected is None else np.asarray(protected)
            parts = split_rows(np.arange(len(x)), share, seed, labels, z)
            rows, test = ((x[i], y[i], None if z is None else z[i]) for i in parts)
        constraint, certificates = None, tuple[Certificate, ...]()
        if self.constraint_fraction is not None and penalty is not None:
            share = checked_share("constraint_fraction", self.constraint_fraction)
            labels = rows[1] if self._task == "log_loss" else None
            z = np.asarray(rows[2])
            kept, other = split_rows(np.arange(len(z)), share, seed, labels, z)
            constraint = rows[0][other], z[other]
            rows = rows[0][kept], rows[1][kept], z[kept]
        if held_out is None:
            patience = check_count("n_iter_no_change", self.n_iter_no_change)
            trainer.fit(
                *rows,
                steps=steps,
                validation=test,
                patience=patience if self.early_stopping else None,
                constraint_rows=constraint,
                progress=progress,
            )
        else:
            certificates = fit_certified(
                trainer,
                *rows,
                held_out=(self._scaled(held_out[0]), held_out[1]),
                constraint_rows=constraint,
                level=check_level("guarantee", self.guarantee),
                steps=steps,
                progress=progress,
            )
        assert trainer.state is not None
        layers = trainer.network.layers
        coefs = [np.asarray(layer.kernel[...]) for layer in layers]
        intercepts = [np.asarray(layer.bias[...]) for layer in layers]
        output = _forward(self.activation, coefs, intercepts, rows[0])
        loss = float(trainer.task.loss(jnp.asarray(output), jnp.asarray(rows[1])))
        _check_not_diverged(trainer.history, loss, constant=not np.ptp(output, axis=0).any())
        if not (self.early_stopping or certificates or self.penalty_weight is not None):
            _warn_of_silent_multipliers(trainer.history, self.multiplier_learning_rate)
        self.coefs_, self.intercepts_ = coefs, intercepts
        self.history_, self.multipliers_ = trainer.history, trainer.multipliers
        self.n_iter_ = int(trainer.state.step)
        if certificates:
            (self.certificate_,) = certificates
        if output.ndim == 1:
            # As `fit_certified` does: one row with inputs as none that were seen would be predicted
            # far from all others, which is a dependence of its own.
            self._limits = float(output.min()), float(output.max())

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
        validation.check_is_fitted(self, "coefs_")
        x = self._scaled(validation.validate_data(self, X, reset=False, dtype=np.float64))
        return np.clip(_forward(self.activation, self.coefs_, self.intercepts_, x), *self._limits)


def _forward(
    activation: str, coefs: Sequence[Any], intercepts: Sequence[Any], x: NDArray[Any]
) -> NDArray[Any]:
    """Return the output of a network with these weights."""
    for i, (kernel, bias) in enumerate(zip(coefs, intercepts, strict=True)):
        # Some BLAS round a row otherwise in another place among others: not so that it shows in
        # float32.
        x = x.astype(np.float64) @ np.asarray(kernel, np.float64) + bias
        if i + 1 < len(coefs):
            x = np.asarray(ACTIVATIONS[activation](x))
    return (x[:, 0] if x.shape[1] == 1 else x).astype(np.asarray(kernel).dtype)


def _check_not_diverged(history: History, loss: float, *, constant: bool) -> None:
    """Raise a TrainingError if a training ended far above where it began, on the training rows.

    Such a network often gives one value to all rows, so that no threshold is broken: then it must
    not end above at all.
    """
    first = float(history.steps["task_loss"][0])
    if not loss <= (1 if constant else DIVERGED) * first:
        raise TrainingError(
            f"the training diverged: the loss on the training rows was {first:.3g} at first and is"
            f" {loss:.3g} at the end. A smaller learning rate usually helps."
        )


def _warn_of_silent_multipliers(history: History, learning_rate: float) -> None:
    """Warn where a training ends above its threshold, by more than batches differ."""
    for name, limit in zip(history.penalised, history.limits, strict=True):
        values = history.steps[f"value_{name}"]
        value = float(np.mean(values[-max(len(values) // 20, 1) :]))
        if value > 1.1 * limit + 0.02:
            warnings.warn(
                f"the training ends above its threshold: {value:.3g} of {name}, which is to be at"
                f" most {limit:g}. More steps, or a larger multiplier_learning_rate than"
                f" {learning_rate:g}, usually help.",
                ConvergenceWarning,
                stacklevel=4,
            )


@functools.lru_cache(maxsize=64)
def _dual(learning_rate: float) -> LagrangianDual:
    return LagrangianDual(optax.adam(learning_rate))


def split_rows(
    rows: NDArray[np.intp],
    share: float,
    seed: int,
    labels: NDArray[Any] | None = None,
    z: NDArray[Any] | None = None,
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Split rows at random, with equal shares of each label.

    Args:
      rows: positions ``(n,)``.
      share: of the second part, or the number of its rows.
      seed: of the choice.
      labels: ``(n,)``, or None.
      z: protected attribute of the rows, or None.  Rows of a text that no row of the first part has
        are put there: what is learned on it must know all of them.
    """
    split = require("sklearn.model_selection", "fairness").train_test_split
    try:
        first, second = split(rows, test_size=share, random_state=seed, stratify=labels)
    except ValueError as error:
        raise ValueError(
            f"{len(rows)} rows cannot be split into parts with a share of {share:g} for the second:"
            f" both need rows, of a classification of every class ({error})"
        ) from error
    if z is not None and is_text(z):
        rare = ~np.isin(z[second].astype(str), z[first].astype(str))
        first, second = np.concatenate([first, second[rare]]), second[~rare]
    return first, second


def _widths(value: Any) -> tuple[int, ...]:
    widths = (value,) if isinstance(value, int | np.integer) else tuple(value)
    return tuple(check_count("hidden_layer_sizes", width) for width in widths)


def checked_share(name: str, value: Any) -> float:
    """Return a share of the rows that leaves some on either side."""
    share = check_fraction(name, value)
    if share in (0, 1):
        raise ValueError(f"{name} must be between 0 and 1; got {value!r}.")
    return share


def _checked_number(name: str, value: Any, check: Any = as_positive) -> float:
    check(name, value, np.float32)
    return float(value)
