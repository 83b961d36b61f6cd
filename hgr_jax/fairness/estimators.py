"""Constrained networks as scikit-learn estimators, and a score for its searches."""

from __future__ import annotations

import abc
import copy
import dataclasses
import functools
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike, NDArray

from hgr_jax._archive import load_archive, save_archive
from hgr_jax._checks import (
    as_nonnegative,
    as_positive,
    check_choice,
    check_count,
    check_flag,
    check_indexes,
    check_level,
)
from hgr_jax._optional import require
from hgr_jax.fairness.certificate import Certificate, NoSolutionFound, fit_certified
from hgr_jax.fairness.columns import MISSING_CHOICES, Inputs, column_names
from hgr_jax.fairness.data import (
    Protected,
    TrainingData,
    attribute_numbers,
    check_distinct,
    check_squares,
    numbers,
    standardisation,
)
from hgr_jax.fairness.history import History
from hgr_jax.fairness.networks import ACTIVATIONS, decaying_adamw, initialised_mlp
from hgr_jax.fairness.penalties import LagrangianDual, Penalty, as_penalties
from hgr_jax.fairness.report import penalty_value, predict_and_encode, score_of
from hgr_jax.fairness.statistics import HGR, KB, SK, Neural, Total
from hgr_jax.fairness.training import FairTrainer, TrainingError

base = require("sklearn.base")
validation = require("sklearn.utils.validation")
sklearn_utils = require("sklearn.utils")
multiclass = require("sklearn.utils.multiclass")
routing = require("sklearn.utils.metadata_routing")
ConvergenceWarning = require("sklearn.exceptions").ConvergenceWarning

DIVERGED = 2.0
"""Ratio of the last loss to the first above which a training counts as diverged."""

_FITTED_TO = ("_limits", "n_features_in_", "feature_names_in_")
"""Attributes of fitted estimators of both classes that a training may leave out."""

MODEL = "model"
"""Kind of the archives of estimators."""

_PARAMETERS = """
    Inputs are standardised (except columns of zeros and ones).  Predictions (logits of two
    classes) are clipped to the range of the training rows: an outlying row would make a dependence.

    Args:
      hidden_layer_sizes: widths of the hidden layers.
      activation: "relu", "tanh", "logistic" or "identity".
      penalty: a `Penalty`; a statistic as ``KB(3, 3)``, its name as "kb" or "hgr", or a
        function ``(z, prediction) -> scalar``: for each attribute; or a list, one for each of
        several attributes; None for no constraint.
      threshold: in (0, 1]; None for that of the penalty, by default 0.2.
      given: what the constraint is conditional on: ``"target"`` (equalised odds), or names or
        positions of columns of X (conditional parity): within each level of a category or of at
        most 10 numbers, and within 5 quantile bins of other numbers.  None for nothing, or what
        ``given`` of the penalty says.
      intersections: constrain one attribute, the combinations of all (numbers in 4 quantile bins).
      missing: what becomes of missing values: ``"raise"`` an error; ``"drop"``, their rows are left
        out of the training, and a warning says how many; ``"level"``, missing texts are a level,
        and missing numbers of a data frame an input that says so, beside the mean.
      alpha: decoupled weight decay (AdamW) of hidden layers; 0 for none; None for 100 p / n, with p
        inputs and n training rows, but at least 1 and at most 10: small tables need more of it.
      steps: gradient steps.
      batch_size: rows of a step; None for all.
      learning_rate: of Adam, in the first half of the steps; it falls to 0 in the second, except
        with ``guarantee``.
      multiplier_learning_rate: of the ascent of the multiplier.
      penalty_weight: a constant weight of the penalty in place of a multiplier.
      early_stopping: hold out ``validation_fraction`` of the rows; stop after ``n_iter_no_change``
        evaluations on them (one every 25 steps) without improvement, and return the best model (see
        ``patience`` of `FairTrainer.fit`).
      guarantee: a confidence level as 0.95: hold back ``guarantee_fraction`` of the rows, and
        return the last model that they certify (see `fit_certified`), or raise `NoSolutionFound`,
        whose ``model`` is the safest one.  What is promised, for new rows, is
        P(a model is returned and breaks its threshold) <= 1 - level.
      constraint_fraction: share of the rows that the network is not trained on, but whose HGR is
        kept below the threshold too (see ``constraint_rows`` of `FairTrainer.fit`).
      random_state: int, RandomState or None; the same int gives the same weights.
      verbose: show a progress bar.

    Attributes:
      coefs_, intercepts_: weights of the layers.
      history_: the `History` of the training; with a guarantee it goes on after the model's steps.
      multipliers_: final multipliers of the penalised values.
      n_iter_: number of steps.
      certificate_: with ``guarantee``, the `Certificate`; a tuple of them for several attributes.
      n_features_in_, feature_names_in_: as everywhere in scikit-learn.
      inputs_: what the columns of a data frame are as inputs; None of an array.
"""


@dataclasses.dataclass(eq=False, repr=False)
class FairMLP(base.BaseEstimator, abc.ABC):  # type: ignore[misc,name-defined]
    """The base of both estimators."""

    _task: ClassVar[str]
    _fitted: ClassVar[tuple[str, ...]] = ("coefs_", "intercepts_", "n_iter_", "_center", "_scale")
    _limits = (-np.inf, np.inf)

    hidden_layer_sizes: Sequence[int] = (32, 32)
    activation: str = "relu"
    _: dataclasses.KW_ONLY
    penalty: Any = "kb"
    threshold: float | None = None
    given: Any = None
    intersections: bool = False
    missing: str = "raise"
    alpha: float | None = None
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

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        protected: Protected = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on inputs ``X (n, p)``, targets ``y (n,)`` and protected attributes.

        A `sklearn.exceptions.ConvergenceWarning` warns of a training that ends above its threshold.

        Args:
          X: array of numbers, or data frame (pandas, polars, pyarrow), whose columns of text and
            categories become indicators of their levels, booleans 0 and 1, and dates days.
          y: numbers; of a classifier, labels.
          protected: ``(n,)`` numbers or text, the name or position of a column of X (which stays
            an input), or several attributes: names of columns, a frame or a mapping, each with a
            multiplier of its own.  Levels of fewer than 10 rows are pooled, with a warning, or
            refused.  Without it nothing is constrained, and a warning says so.
          sample_weight: non-negative observation weights ``(n,)`` of loss, score and dependences,
            of which only ratios matter; or None.

        Rows of pandas objects are matched by their labels.

        Raises:
          ValueError, TypeError: for data that cannot be trained on, and parameters out of range.
          TrainingError: if the loss stops being finite, or ends far above where it began.
          NoSolutionFound: with ``guarantee``, if no model has it.
        """
        earlier = (*self._fitted, "multipliers_", "certificate_", "history_")
        for name in (*earlier, "_limits", "n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        data = self._checked(TrainingData.of(X, y, protected, self.given, sample_weight))
        random = sklearn_utils.check_random_state(self.random_state)
        seed = int(random.randint(np.iinfo(np.int32).max))
        if self.guarantee is not None:
            self._check_guarantee(data)
        penalties, held = self._penalties(data), None
        by_groups = any(p.given is not None and not p.given_polynomials for p in penalties)
        if by_groups and not data.given:  # groups are named by the caller's own values
            data = dataclasses.replace(data, given={"y": data.y})
        if self.guarantee is not None:
            data, held = self._split(data, "guarantee_fraction", seed)
        # From all rows not held back: a column may hardly vary in fewer rows.
        self._center, self._scale = standardisation(data.x, data.weights)
        held_back = 0 if held is None else len(held.y)
        weighted = data.weights is not None
        self._rows = {"rows": len(data.y), "held back": held_back, "weighted": weighted}
        targets, outputs = self._learn_targets(data.y)
        data = dataclasses.replace(data, x=self._scaled(data.x), y=targets)
        self._train(data, held, penalties, outputs, seed)
        return self

    def _checked(self, data: TrainingData) -> TrainingData:
        """Return the rows to train on, their inputs as numbers and attributes crossed if asked."""
        check_choice("missing", self.missing, MISSING_CHOICES)
        x, lacking = data.x, dict[str, Any]()
        self.inputs_: Inputs | None = None
        if column_names(x):
            check_distinct("X", column_names(x))
            validation.validate_data(self, _with_text_names(x), skip_check_array=True)
            self.inputs_ = Inputs.learn(x, self.missing)
            x, lacking = self.inputs_.encode(x)
        elif self.missing == "drop" and getattr(x, "dtype", np.dtype(object)).kind == "f":
            lacking = {str(i): np.isnan(column) for i, column in enumerate(x.T)}
        data = dataclasses.replace(data, x=x).complete(self.missing, lacking)
        numeric: dict[str, Any] = {"y_numeric": self._task == "squared_error"}
        numeric["dtype"] = np.float64
        with np.errstate(invalid="ignore"):  # it adds up huge numbers, whatever their signs
            if self.inputs_ is None:
                x, y = validation.validate_data(self, data.x, data.y, **numeric)
            else:
                x, y = sklearn_utils.check_X_y(data.x, data.y, **numeric)
        data = dataclasses.replace(data, x=numbers("X", x), y=np.asarray(y))
        data = data.crossed() if check_flag("intersections", self.intersections) else data
        return data.with_pooled_levels()

    def described(self) -> dict[str, Any]:
        """Return what a model card says of the training: rows, inputs, weights."""
        validation.check_is_fitted(self, "coefs_")
        names = list(getattr(self, "feature_names_in_", ()))
        return {"inputs": names if self.inputs_ is None else self.inputs_.names, **self._rows}

    def save(self, path: str | Path) -> None:
        """Save what the model needs to predict in one ``.npz`` file, which executes nothing.

        Raises:
          ValueError: where the penalty is a function, which a file cannot hold.
        """
        validation.check_is_fitted(self, "coefs_")
        settings: dict[str, Any] = {"class": type(self).__name__, "multipliers": self.multipliers_}
        settings["rows"] = self._rows
        settings["inputs"] = None if self.inputs_ is None else self.inputs_.as_json()
        settings["parameters"] = {
            name: _to_json(name, value) for name, value in self.get_params().items()
        }
        arrays: dict[str, Any] = {}
        for name in (*self._fitted, *_FITTED_TO):
            value = getattr(self, name, None)
            if isinstance(value, list):
                arrays |= {f"{name}.{i}": array for i, array in enumerate(value)}
            elif value is not None:
                array = np.asarray(value)
                arrays[name] = array.astype(np.str_) if array.dtype == object else array
        save_archive(path, MODEL, settings, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load the model that `save` wrote; a ValueError for any other file."""
        settings, arrays = _read_model(path)
        if (kind := settings.get("class")) != cls.__name__:
            raise ValueError(f"{path} holds a {kind}; load it with {kind}.load.")
        try:
            model = cls(**{n: _from_json(value) for n, value in settings["parameters"].items()})
            model.multipliers_ = dict(settings["multipliers"])
            model._rows = dict(settings["rows"])
            columns = settings["inputs"]
            model.inputs_ = None if columns is None else Inputs.from_json(columns)
            model._take_arrays(arrays)
            model._check_loaded()
        except Exception as error:  # of whatever is in it
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ValueError(f"{path} does not hold a {cls.__name__}: {reason}") from error
        return model

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Set the attributes that `save` wrote, and no others."""
        layers: dict[str, list[Any]] = {"coefs_": [], "intercepts_": []}
        for name, array in arrays.items():
            attribute, _, layer = name.partition(".")
            if layer:
                layers[attribute].append(array)
            elif name in (*self._fitted, *_FITTED_TO):
                array = array.astype(object) if name == "feature_names_in_" else array
                setattr(self, name, array if array.ndim else array.item())
        self.coefs_, self.intercepts_ = layers["coefs_"], layers["intercepts_"]

    def _check_loaded(self) -> None:
        """Raise unless the weights, scales and limits are such as `fit` leaves."""
        check_choice("activation", self.activation, tuple(ACTIVATIONS))
        columns, inputs = self.n_features_in_, self.n_features_in_
        if self.inputs_ is not None:
            columns, inputs = len(self.inputs_.columns), len(self.inputs_.names)
        sizes = [inputs, *(len(array) for array in self.intercepts_)]
        expected: dict[str, tuple[Any, tuple[int, ...]]] = {
            "_center": (self._center, (sizes[0],)),
            "_scale": (self._scale, (sizes[0],)),
            "_limits": (self._limits, (2,)),
        }
        for i, kernel in enumerate(zip(self.coefs_, self.intercepts_, strict=True)):
            expected[f"coefs_.{i}"] = (kernel[0], (sizes[i], sizes[i + 1]))
            expected[f"intercepts_.{i}"] = (kernel[1], (sizes[i + 1],))
        for name, (array, shape) in expected.items():
            array = np.asarray(array)
            if array.shape != shape or array.dtype.kind != "f":
                raise ValueError(f"{name} must be {shape} numbers; got {array.dtype} {array.shape}")
            usable = {"_limits": ~np.isnan(array), "_scale": np.isfinite(array) & (array > 0)}
            if not usable.get(name, np.isfinite(array)).all():
                raise ValueError(f"{name} has a number that no training gives")
        if len(getattr(self, "feature_names_in_", range(columns))) != columns:
            raise ValueError(f"feature_names_in_ must be {columns} names")
        if columns != self.n_features_in_:
            raise ValueError(f"there must be {self.n_features_in_} columns of inputs")
        self._check_outputs(sizes[-1] if len(sizes) > 1 else 0)

    @abc.abstractmethod
    def _check_outputs(self, outputs: int) -> None:
        """Raise unless a loaded network has as many outputs as the targets need."""

    @abc.abstractmethod
    def _learn_targets(self, y: NDArray[Any]) -> tuple[NDArray[Any], int]:
        """Return the targets of the network, and the number of its outputs."""

    def _penalties(self, data: TrainingData) -> tuple[Penalty, ...]:
        """Return the penalties of a training; without a constraint, one that only measures."""
        if not data.z:
            if self.penalty is not None:
                warnings.warn(
                    "no protected attribute was given, so nothing is constrained; give"
                    " fit(X, y, protected=...), or set penalty=None",
                    UserWarning,
                    stacklevel=3,
                )
            return ()
        penalties = as_penalties(self.penalty, self.threshold) or (Penalty(threshold=None),)
        return data.penalties_of(penalties, self.given)

    def _check_guarantee(self, data: TrainingData) -> None:
        if not data.z or self.penalty is None:
            lacking = "penalty=None" if data.z else "no protected attribute"
            raise ValueError(
                f"a guarantee needs fit(X, y, protected=...) and a penalty; got {lacking}."
            )
        if data.weights is not None:
            raise ValueError(
                "a guarantee is of a population in which rows count the same; leave out"
                " sample_weight, or set guarantee=None."
            )
        if self.early_stopping:
            raise ValueError(
                "guarantee and early_stopping exclude each other: a training with a guarantee"
                " stops where it no longer holds."
            )

    def _split(
        self, data: TrainingData, share: str, seed: int
    ) -> tuple[TrainingData, TrainingData]:
        """Split off the share of the rows that the option ``share`` sets."""
        by_class = self._task == "log_loss"
        return data.split(share, getattr(self, share), seed, by_class=by_class)

    def _train(
        self,
        data: TrainingData,
        held: TrainingData | None,
        penalties: tuple[Penalty, ...],
        outputs: int,
        seed: int,
    ) -> None:
        """Train the network on scaled rows, and keep its weights."""
        trainer = self._trainer(data.x.shape, outputs, penalties, seed)
        test = constraint = None
        if self.early_stopping:
            data, test = self._split(data, "validation_fraction", seed)
        if self.constraint_fraction is not None and data.z and self.penalty is not None:
            data, constraint = self._split(data, "constraint_fraction", seed)
        patience = check_count("n_iter_no_change", self.n_iter_no_change)

        def named(part: TrainingData) -> dict[str, NDArray[Any]]:
            return part.attributes_of(penalties)

        fit: dict[str, Any] = {
            "steps": check_count("steps", self.steps),
            "constraint_rows": None if constraint is None else (constraint.x, named(constraint)),
            "progress": bool(self.verbose),
        }
        if data.weights is not None:
            fit["sample_weight"] = data.weights
        if data.given:
            fit["given"] = data.given
        certificates: tuple[Certificate, ...] = ()
        if held is None:
            fit["validation"] = None
            if test is not None:
                fit["validation"] = test.x, test.y, named(test), test.given or None, test.weights
            fit["patience"] = patience if self.early_stopping else None
            trainer.fit(data.x, data.y, named(data), **fit)
        else:
            fit["held_out"] = self._scaled(held.x), named(held)
            if held.given:
                fit["held_out"] += tuple(held.given.values())
            fit["level"] = check_level("guarantee", self.guarantee)
            try:
                certificates = fit_certified(trainer, data.x, data.y, named(data), **fit)
            except NoSolutionFound as error:
                error.model = copy.copy(self)  # this estimator stays without a model
                error.model._keep(trainer, data)
                error.model.certificate_ = error.certificate
                raise
        self._keep(trainer, data)
        if certificates:
            self.certificate_ = certificates[0] if len(certificates) == 1 else certificates
        elif not self.early_stopping and self.penalty_weight is None:
            _warn_of_silent_multipliers(trainer.history, self.multiplier_learning_rate)

    def _trainer(
        self, shape: tuple[int, int], outputs: int, penalties: tuple[Penalty, ...], seed: int
    ) -> FairTrainer:
        rows, inputs = shape
        sizes = self.hidden_layer_sizes
        widths = (sizes,) if isinstance(sizes, int | np.integer) else tuple(sizes)
        network = initialised_mlp(
            inputs,
            tuple(check_count("hidden_layer_sizes", width) for width in widths),
            outputs,
            check_choice("activation", self.activation, tuple(ACTIVATIONS)),
            jax.random.key(seed),
        )
        rate = _checked_number("learning_rate", self.learning_rate)
        alpha = float(np.clip(100 * inputs / rows, 1, 10))
        if self.alpha is not None:
            alpha = _checked_number("alpha", self.alpha, as_nonnegative)
        steps = check_count("steps", self.steps)
        dual = _ascent(_checked_number("multiplier_learning_rate", self.multiplier_learning_rate))
        weight = self.penalty_weight
        if weight is not None:
            weight = _checked_number("penalty_weight", weight, as_nonnegative)
        return FairTrainer(
            network,
            penalties=penalties,
            task=self._task,
            optimizer=decaying_adamw(rate, alpha, None if self.guarantee is not None else steps),
            dual=dual if weight is None else weight,
            batch_size=self.batch_size,
            seed=seed,
        )

    def _keep(self, trainer: FairTrainer, data: TrainingData) -> None:
        """Keep the trained weights, unless the training diverged."""
        assert trainer.state is not None
        layers = trainer.network.layers
        coefs = [np.asarray(layer.kernel[...]) for layer in layers]
        intercepts = [np.asarray(layer.bias[...]) for layer in layers]
        output = _forward(self.activation, coefs, intercepts, data.x)
        weighted = {} if data.weights is None else {"weights": jnp.asarray(data.weights)}
        loss = float(trainer.task.loss(jnp.asarray(output), jnp.asarray(data.y), **weighted))
        _check_not_diverged(trainer.history, loss, constant=not np.ptp(output, axis=0).any())
        self.coefs_, self.intercepts_ = coefs, intercepts
        self.history_, self.multipliers_ = trainer.history, trainer.multipliers
        self.n_iter_ = int(trainer.state.step)
        if output.ndim == 1:  # as `fit_certified` does
            self._limits = float(output.min()), float(output.max())

    def _scaled(self, x: NDArray[Any]) -> NDArray[Any]:
        with np.errstate(over="ignore"):
            return numbers("X", (x - self._center) / self._scale, np.float32)

    def _output(self, X: ArrayLike) -> NDArray[Any]:
        validation.check_is_fitted(self, "coefs_")
        if self.inputs_ is not None and column_names(X):
            named = _with_text_names(X)
            validation.validate_data(self, named, reset=False, skip_check_array=True)
            x = TrainingData.complete_inputs(self.inputs_, X)
        else:
            with np.errstate(invalid="ignore"):
                x = validation.validate_data(self, X, reset=False, dtype=np.float64)
            if x.shape[1] != len(self._center):
                raise ValueError(
                    "X must be a data frame, as in fit: the model was trained on columns of text,"
                    f" and its {x.shape[1]} columns are {len(self._center)} inputs."
                )
        x = self._scaled(numbers("X", x))
        return np.clip(_forward(self.activation, self.coefs_, self.intercepts_, x), *self._limits)


class FairMLPRegressor(base.RegressorMixin, FairMLP):  # type: ignore[misc,name-defined]  # noqa: D101
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
    _fitted = (*FairMLP._fitted, "_low", "_range")

    def _learn_targets(self, y: NDArray[Any]) -> tuple[NDArray[Any], int]:
        y = numbers("y", y)
        check_squares("y", y)
        self._low, self._range = float(y.min()), float(np.ptp(y)) or 1.0
        return (y - self._low) / self._range, 1

    def _check_outputs(self, outputs: int) -> None:
        if outputs != 1 or not np.isfinite([self._low, self._range]).all():
            raise ValueError(f"a regression has one output, in a finite range; got {outputs}")

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return R2; labelled rows have to be in one order."""
        check_indexes(X=X, y=y, sample_weight=sample_weight)
        return float(super().score(X, y, sample_weight))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return predictions ``(n,)``, in the unit of y."""
        output = self._output(X).astype(np.float64)
        return self._low + self._range * output


class FairMLPClassifier(base.ClassifierMixin, FairMLP):  # type: ignore[misc,name-defined]  # noqa: D101
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
    _fitted = (*FairMLP._fitted, "classes_")

    def _learn_targets(self, y: NDArray[Any]) -> tuple[NDArray[Any], int]:
        multiclass.check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must have at least two classes; got 1 class, {self.classes_[0]!r}."
            )
        outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
        return codes.astype(np.float64), outputs

    def _check_outputs(self, outputs: int) -> None:
        classes = len(np.unique(self.classes_))
        if classes != len(self.classes_) or outputs != (1 if classes == 2 else classes):
            raise ValueError(f"{outputs} outputs are not those of {len(self.classes_)} classes")

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy; labelled rows have to be in one order."""
        check_indexes(X=X, y=y, sample_weight=sample_weight)
        return float(super().score(X, y, sample_weight))

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Return probabilities ``(n, classes)``."""
        output = self._output(X).astype(np.float64)
        if output.ndim == 1:
            output = np.stack([np.zeros_like(output), output], axis=1)
        odds = np.exp(output - output.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable label of each row."""
        chosen = self.predict_proba(X).argmax(axis=1)
        return self.classes_[chosen]


def _with_text_names(X: Any) -> Any:
    """Return a pandas frame whose names are of several types with texts in their place."""
    names = getattr(X, "columns", [])
    if hasattr(X, "set_axis") and len({isinstance(name, str) for name in names}) > 1:
        return X.set_axis([str(name) for name in names], axis=1)
    return X


def _forward(
    activation: str, coefs: Sequence[Any], intercepts: Sequence[Any], x: NDArray[Any]
) -> NDArray[Any]:
    """Return the output of a network with these weights."""
    for i, (kernel, bias) in enumerate(zip(coefs, intercepts, strict=True)):
        # In float64, as some BLAS round a row differently among other rows.
        x = x.astype(np.float64) @ np.asarray(kernel, np.float64) + bias
        if i + 1 < len(coefs):
            x = np.asarray(ACTIVATIONS[activation](x))
    return (x[:, 0] if x.shape[1] == 1 else x).astype(np.asarray(kernel).dtype)


def _check_not_diverged(history: History, loss: float, *, constant: bool) -> None:
    """Raise if the loss is far above the first one, or above it with ``constant`` predictions."""
    first = float(history.steps["task_loss"][0])
    if not loss <= (1 if constant else DIVERGED) * first:
        raise TrainingError(
            f"the training diverged: the loss on the training rows was {first:.3g} at first and is"
            f" {loss:.3g} at the end. A smaller learning rate usually helps."
        )


def _warn_of_silent_multipliers(history: History, learning_rate: float) -> None:
    """Warn if a training ends above its threshold, by more than batches differ."""
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
def _ascent(learning_rate: float) -> LagrangianDual:
    return LagrangianDual(optax.adam(learning_rate))


def _checked_number(name: str, value: Any, check: Any = as_positive) -> float:
    check(name, value, np.float32)
    return float(value)


_IN_FILES = {kind.__name__: kind for kind in (KB, SK, HGR, Total, Neural, Penalty)}


def _to_json(name: str, value: Any) -> Any:
    """Return a parameter as JSON: a statistic or penalty by its class and options."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [_to_json(name, item) for item in value]
    if type(value) in _IN_FILES.values():
        options = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {type(value).__name__: {n: _to_json(name, item) for n, item in options.items()}}
    if isinstance(value, int | float | str | type(None)):
        return value
    raise ValueError(
        "a file can hold numbers, texts, and penalties of statistics with degrees only; set"
        f" {name} to one before saving."
    )


def _from_json(value: Any) -> Any:
    """Return the parameter that `_to_json` wrote."""
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    ((kind, options),) = value.items()
    if kind not in _IN_FILES:
        raise ValueError(f"expected one of {', '.join(_IN_FILES)}; got {kind!r}.")
    return _IN_FILES[kind](**{name: _from_json(item) for name, item in options.items()})


def _read_model(path: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    try:
        return load_archive(path, MODEL)
    except ValueError as error:
        raise ValueError(f"{error}; expected a file that `save` of an estimator wrote.") from error


def load_model(path: str | Path) -> FairMLP:
    """Load an estimator of either class; errors as `FairMLP.load`."""
    kind = str(_read_model(path)[0].get("class"))
    classes = {cls.__name__: cls for cls in (FairMLPRegressor, FairMLPClassifier)}
    if kind not in classes:
        raise ValueError(f"{path} holds a {kind}, which this version does not know.")
    return classes[kind].load(path)


VIOLATION_SCORE = -200.0
"""Score of a broken threshold, too low for 100 folds of scores from -1 to 1 to make up for."""


@dataclasses.dataclass(eq=False, repr=False)
class FairnessScorer(base.BaseEstimator):  # type: ignore[misc,name-defined]
    """A scorer of scikit-learn: the score of a model, if HGR is below a threshold.

        score = s                            where HGR(protected, prediction) <= threshold, s >= 0
              = s / (1 - s)                  the same, where s < 0
              = -200 - (HGR - threshold)     elsewhere

    with s the R2, or the AUC where y has two classes.  By the mean over at most 100 folds, a model
    that keeps the threshold in every fold is better than one that breaks it in any fold.  A sample
    value is biased upward, more so in small folds: see ``bias_corrected`` of `Penalty`.

    Args:
      penalty: a threshold in (0, 1], of HGR-KB(5, 5); a `Penalty`; or a list of these, one for each
        of several attributes.  Of several values the largest excess counts.
      protected: names or positions of columns of X; None if scikit-learn passes the attribute (see
        its `set_score_request`).
      given: what the dependence is conditional on, as ``given`` of `FairMLPRegressor`.

    Raises:
      TypeError, ValueError: when it scores, for arguments out of range, without an attribute, and
        for classifiers of more than two classes.

    Example:
      >>> from sklearn.model_selection import GridSearchCV
      >>> from hgr_jax.datasets import load_diabetes
      >>> from hgr_jax.fairness import KB, FairMLPRegressor, FairnessScorer, Penalty
      >>> data = load_diabetes()
      >>> age = data.features.index("age")
      >>> search = GridSearchCV(
      ...     FairMLPRegressor(steps=50, random_state=0),
      ...     {"threshold": [0.1, 0.3]},
      ...     scoring=FairnessScorer(Penalty(KB(2, 2), 0.3), protected=age),
      ...     cv=2,
      ... )
      >>> search = search.fit(data.x, data.y, protected=data.z)
      >>> bool(search.best_score_ > -1)  # kept in both folds
      True
    """

    # Scikit-learn does not route the first argument of a scorer.
    __metadata_request__score = {"estimator": routing.UNUSED}  # noqa: RUF012

    penalty: Any
    _: dataclasses.KW_ONLY
    protected: Any = None
    given: Any = None

    def __call__(self, estimator: Any, X: Any, y: ArrayLike, **metadata: Any) -> float:
        """Return the score, as `score` does."""
        return self.score(estimator, X, y, **metadata)

    def score(
        self,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        protected: Protected = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the score of a fitted estimator on rows ``X``, ``y``.

        ``protected`` is as of `report`, in place of that of the scorer; ``sample_weight (n,)`` are
        observation weights, or None.
        """
        protected = self.protected if protected is None else protected
        if protected is None:
            raise ValueError(
                "there is no protected attribute to score with; name a column of X,"
                " FairnessScorer(threshold, protected=...), or have scikit-learn pass it on:"
                " sklearn.set_config(enable_metadata_routing=True), then"
                " set_fit_request(protected=True) of the estimator and"
                " set_score_request(protected=True) of the scorer."
            )
        penalties = as_penalties(self.penalty)
        if not penalties or not all(penalty.penalised for penalty in penalties):
            raise ValueError(f"penalty must be a threshold, or a Penalty; got {self.penalty!r}.")
        data = TrainingData.of(X, y, protected, self.given, sample_weight).complete("raise", {})
        if data.weights is not None:
            for penalty in penalties:
                penalty.check_takes_weights()
        prediction, targets, kind = predict_and_encode(estimator, data.x, np.asarray(data.y))
        data = dataclasses.replace(data, y=targets)
        penalties = data.penalties_of(penalties, self.given)
        attributes = data.attributes_of(penalties)
        excess = max(
            penalty_value(
                penalty,
                attribute_numbers(penalty.name, attributes[penalty.name]),
                prediction,
                data.condition,
                data.weights,
            )
            - float(np.asarray(penalty.threshold))
            for penalty in penalties
        )
        if excess > 0:
            return VIOLATION_SCORE - excess
        score = score_of(prediction, targets, kind, data.weights)[0]
        return score if score >= 0 else score / (1 - score)
