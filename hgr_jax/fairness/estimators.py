"""Constrained networks as scikit-learn estimators, and a score for its searches."""

from __future__ import annotations

import abc
import dataclasses
import functools
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import jax
import numpy as np
import optax
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from hgr_jax._checks import check_count, check_indexes, check_level
from hgr_jax._optional import require
from hgr_jax.core.arrays import as_nonnegative, as_positive
from hgr_jax.fairness.certificate import certify_training
from hgr_jax.fairness.data import Protected, TrainingData, numbers, standardisation
from hgr_jax.fairness.networks import decaying_adamw, initialised_mlp
from hgr_jax.fairness.penalties import LagrangianDual, Penalty, as_penalties
from hgr_jax.fairness.report import largest_value, score_of
from hgr_jax.fairness.training import FairTrainer, TrainingError

base = require("sklearn.base")
validation = require("sklearn.utils.validation")
sklearn_utils = require("sklearn.utils")
multiclass = require("sklearn.utils.multiclass")
routing = require("sklearn.utils.metadata_routing")
ConvergenceWarning = require("sklearn.exceptions").ConvergenceWarning

DIVERGED = 2.0
"""Ratio of the last loss to the first above which a training counts as diverged."""

CONSTANT_SHARE = 0.98
"""Share of the loss of the best constant above which a network is hardly better than it."""

_PARAMETERS = """
    Inputs are standardised (except columns of zeros and ones).  Predictions (logits of two
    classes) are clipped to the range of the training rows: an outlying row would make a dependence.

    Args:
      hidden_layer_sizes: widths of the hidden layers, of rectified linear units.
      penalty: a `Penalty`; a statistic as ``KB(3, 3)``, its name as "kb" or "hgr", or a
        function ``(z, prediction) -> scalar``: for each attribute; or a list, one for each of
        several attributes; None for no constraint.
      threshold: in (0, 1]; None for that of the penalty, by default 0.2.
      alpha: decoupled weight decay (AdamW) of hidden layers; 0 for none; None for 100 p / n, with p
        inputs and n training rows, but at least 1 and at most 10: small tables need more of it.
      steps: gradient steps.
      batch_size: rows of a step; None for all.
      learning_rate: of Adam, in the first half of the steps; it falls to 0 in the second, except
        with ``guarantee``.
      multiplier_learning_rate: of the ascent of the multiplier.
      guarantee: a confidence level as 0.95: hold back ``guarantee_fraction`` of the rows, and
        train from a tenth of the threshold to the whole, and return the last of 19 models before
        one that these rows do not certify (see `certify`), or raise `NoSolutionFound`.  What is
        promised, for new rows, is P(a model is returned and breaks its threshold) <= 1 - level.
        It takes up to twice the steps.
      constraint_fraction: share of the rows that the network is not trained on, but whose HGR is
        kept below the threshold too: what it memorises of the others cannot hide the dependence.
      random_state: int, RandomState or None; the same int gives the same weights.

    Attributes:
      coefs_, intercepts_: weights of the layers.
      history_: the `History` of the training; with a guarantee it goes on after the model's steps.
      n_iter_: number of steps.
      certificate_: with ``guarantee``, the `Certificate`; a tuple of them for several attributes.
      n_features_in_, feature_names_in_: as everywhere in scikit-learn.
"""


@dataclasses.dataclass(eq=False, repr=False)
class FairMLP(base.BaseEstimator, abc.ABC):  # type: ignore[misc,name-defined]
    """The base of both estimators."""

    _task: ClassVar[str]

    hidden_layer_sizes: Sequence[int] = (32, 32)
    _: dataclasses.KW_ONLY
    penalty: Any = "kb"
    threshold: float | None = None
    alpha: float | None = None
    steps: int = 500
    batch_size: int | None = None
    learning_rate: float = 1e-3
    multiplier_learning_rate: float = 2e-3
    guarantee: float | None = None
    guarantee_fraction: float = 0.4
    constraint_fraction: float | None = None
    random_state: Any = None

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        protected: Protected = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on inputs ``X (n, p)``, targets ``y (n,)`` and protected attributes.

        A `sklearn.exceptions.ConvergenceWarning` says where the training did not end well, and why:
        above its threshold, or no better than a constant.

        Args:
          X: numbers: an array or a data frame.  Text and categories are encoded before, in a
            pipeline.
          y: numbers; of a classifier, labels.
          protected: ``(n,)`` numbers or text, the name of a column of X (which stays an input), or
            several attributes, each with a multiplier of its own: names of columns, or a frame.
            Without it nothing is constrained, and a warning says so.
          sample_weight: non-negative observation weights ``(n,)`` of loss and dependences, of which
            only ratios matter; or None.

        Pandas objects need equal labels.

        Raises:
          ValueError, TypeError: for data that cannot be trained on, and parameters out of range.
          TrainingError: if the loss stops being finite, or ends far above where it began.
          NoSolutionFound: with ``guarantee``, if no model has it.
        """
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)  # of an earlier fit, should this one fail
        data = self._checked(TrainingData.of(X, y, protected, sample_weight))
        random = sklearn_utils.check_random_state(self.random_state)
        seed = int(random.randint(np.iinfo(np.int32).max))
        if self.guarantee is not None and (self.penalty is None or sample_weight is not None):
            raise ValueError(
                "a guarantee needs a penalty, and is of a population in which rows count the same:"
                " leave out sample_weight, or set guarantee=None."
            )
        penalties, held = self._penalties(data), None
        data = dataclasses.replace(data, outcome=np.asarray(data.y))
        by_class = self._task == "log_loss"
        if self.guarantee is not None:
            share = self.guarantee_fraction
            data, held = data.split("guarantee_fraction", share, seed, by_class=by_class)
        # From all rows not held back: a column may hardly vary in fewer rows.
        self._center, self._scale = standardisation(data.x, data.weights)
        targets, outputs = self._learn_targets(data.y)
        data = dataclasses.replace(data, x=self._scaled(data.x), y=targets)
        self._train(data, held, penalties, outputs, seed)
        return self

    def _checked(self, data: TrainingData) -> TrainingData:
        """Return the rows to train on, their inputs as numbers."""
        numeric: dict[str, Any] = {"y_numeric": self._task == "squared_error", "dtype": np.float64}
        with np.errstate(invalid="ignore"):  # it adds up huge numbers, whatever their signs
            x, y = validation.validate_data(self, data.x, data.y, **numeric)
        return dataclasses.replace(data, x=numbers("X", x), y=np.asarray(y))

    @abc.abstractmethod
    def _learn_targets(self, y: NDArray[Any]) -> tuple[NDArray[Any], int]:
        """Return the targets of the network, and the number of its outputs."""

    def _penalties(self, data: TrainingData) -> tuple[Penalty, ...]:
        """Return the penalties of a training; without a constraint, one that only measures."""
        if not data.z:
            if self.guarantee is not None:
                raise ValueError("a guarantee needs fit(X, y, protected=...); it was not given.")
            if self.penalty is not None:
                warnings.warn(
                    "no protected attribute was given, so nothing is constrained; give"
                    " fit(X, y, protected=...), or set penalty=None",
                    UserWarning,
                    stacklevel=3,
                )
            return ()
        penalties = as_penalties(self.penalty, self.threshold) or (Penalty(threshold=None),)
        return data.penalties_of(penalties)

    def _train(
        self,
        data: TrainingData,
        held: TrainingData | None,
        penalties: tuple[Penalty, ...],
        outputs: int,
        seed: int,
    ) -> None:
        """Train the network on scaled rows, and keep its weights."""
        steps = check_count("steps", self.steps)
        trainer = self._trainer(data.x.shape, outputs, penalties, seed)
        constraint, every = None, data
        if self.constraint_fraction is not None and data.z and self.penalty is not None:
            share, by_class = self.constraint_fraction, self._task == "log_loss"
            data, constraint = data.split("constraint_fraction", share, seed, by_class=by_class)
        if held is None:
            trainer.train(data, constraint, steps)
            self._keep(trainer, data)
            found = trainer.shortfalls(every)
            for text in found or self._worse_than_constant(data):
                warnings.warn(text, ConvergenceWarning, stacklevel=4)
            return
        held = dataclasses.replace(held, x=self._scaled(held.x))
        level = check_level("guarantee", self.guarantee)
        certificates = certify_training(trainer, data, held, level, steps, constraint)
        self._keep(trainer, data)
        self.certificate_ = certificates[0] if len(certificates) == 1 else certificates

    def _trainer(
        self, shape: tuple[int, int], outputs: int, penalties: tuple[Penalty, ...], seed: int
    ) -> FairTrainer:
        rows, inputs = shape
        widths = np.atleast_1d(self.hidden_layer_sizes).tolist()
        network = initialised_mlp(
            inputs,
            tuple(check_count("hidden_layer_sizes", width) for width in widths),
            outputs,
            jax.random.key(seed),
        )
        rate = float(as_positive("learning_rate", self.learning_rate, np.float32))
        alpha = float(np.clip(100 * inputs / rows, 1, 10))
        if self.alpha is not None:
            alpha = float(as_nonnegative("alpha", self.alpha, np.float32))
        ascent = as_positive("multiplier_learning_rate", self.multiplier_learning_rate, np.float32)
        return FairTrainer(
            network,
            penalties=penalties,
            task=self._task,
            optimizer=decaying_adamw(rate, alpha, None if self.guarantee else self.steps),
            dual=_ascent(float(ascent)),
            batch_size=self.batch_size,
            seed=seed,
        )

    def _keep(self, trainer: FairTrainer, data: TrainingData) -> None:
        """Keep the trained weights, unless the training diverged."""
        assert trainer.state is not None
        layers = trainer.network.layers
        coefs = [np.asarray(layer.kernel[...]) for layer in layers]
        intercepts = [np.asarray(layer.bias[...]) for layer in layers]
        output = _forward(coefs, intercepts, data.x)
        first, last = trainer.history.steps["task_loss"][0], trainer.history.last["loss_train"]
        if not last <= DIVERGED * first:
            raise TrainingError(
                f"the training diverged: the loss on the training rows was {first:.3g} at first and"
                f" is {last:.3g} at the end. A smaller learning rate usually helps."
            )
        self.coefs_, self.intercepts_ = coefs, intercepts
        self.history_ = trainer.history
        self.n_iter_ = int(trainer.state.step)
        self._limits = -np.inf, np.inf
        if output.ndim == 1:  # as `certify_training` does
            self._limits = float(output.min()), float(output.max())

    def _worse_than_constant(self, data: TrainingData) -> list[str]:
        """Return a sentence on a loss that is hardly below that of the best constant."""
        y, weights = np.asarray(data.y), data.weights
        if self._task == "squared_error":
            constant = np.average((y - np.average(y, weights=weights)) ** 2, weights=weights)
        else:
            constant = stats.entropy(np.bincount(y.astype(int), weights))
        loss = self.history_.last["loss_train"]
        if not self.history_.penalised or loss <= CONSTANT_SHARE * constant:
            return []
        text = (
            f"the network predicts hardly better than a constant: its loss is {loss:.3g}, that of a"
            f" constant {constant:.3g}; a higher threshold, more steps or a smaller"
            " multiplier_learning_rate usually help"
        )
        return [text]

    def _scaled(self, x: NDArray[Any]) -> NDArray[Any]:
        with np.errstate(over="ignore"):
            return numbers("X", (x - self._center) / self._scale, np.float32)

    def _output(self, X: ArrayLike) -> NDArray[Any]:
        validation.check_is_fitted(self, "coefs_")
        with np.errstate(invalid="ignore"):
            x = validation.validate_data(self, X, reset=False, dtype=np.float64)
        x = self._scaled(numbers("X", x))
        return np.clip(_forward(self.coefs_, self.intercepts_, x), *self._limits)


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
      >>> print(model.history_.measures["z"], model.history_.kept["z"])
      HGR-KB(5, 5) True
    """

    _task = "squared_error"

    def _learn_targets(self, y: NDArray[Any]) -> tuple[NDArray[Any], int]:
        y = numbers("y", y)
        self._low, self._range = float(y.min()), float(np.ptp(y)) or 1.0
        return (y - self._low) / self._range, 1

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

    def _learn_targets(self, y: NDArray[Any]) -> tuple[NDArray[Any], int]:
        multiclass.check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must have at least two classes; got 1 class, {self.classes_[0]!r}."
            )
        outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
        return codes.astype(np.float64), outputs

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


def _forward(coefs: Sequence[Any], intercepts: Sequence[Any], x: NDArray[Any]) -> NDArray[Any]:
    """Return the output of a network with these weights."""
    for i, (kernel, bias) in enumerate(zip(coefs, intercepts, strict=True)):
        # In float64, as some BLAS round a row differently among other rows.
        x = x.astype(np.float64) @ np.asarray(kernel, np.float64) + bias
        if i + 1 < len(coefs):
            x = np.maximum(x, 0).astype(np.float32)
    return (x[:, 0] if x.shape[1] == 1 else x).astype(np.asarray(kernel).dtype)


@functools.lru_cache(maxsize=64)
def _ascent(learning_rate: float) -> LagrangianDual:
    return LagrangianDual(optax.adam(learning_rate))


VIOLATION_SCORE = -200.0
"""Score of a broken threshold, too low for 100 folds of scores from -1 to 1 to make up for."""


@dataclasses.dataclass(eq=False, repr=False)
class FairnessScorer(base.BaseEstimator):  # type: ignore[misc,name-defined]
    """A scorer of scikit-learn: the score of a model, if HGR is below a threshold.

        score = s                            where HGR(protected, prediction) <= threshold, s >= 0
              = s / (1 - s)                  the same, where s < 0
              = -200 - (HGR - threshold)     elsewhere

    with s the R2, or the AUC where y has two classes.  By the mean over at most 100 folds, a model
    that keeps the threshold in every fold is better than one that breaks it in any fold.  A warning
    says where a threshold is broken, as scores below -100 mean.  A sample value is biased upward,
    the more so in small folds: low degrees need fewer rows.

    Args:
      penalty: a threshold in (0, 1], of HGR-KB(5, 5); a `Penalty`; or a list of these, one for each
        of several attributes.  Of several values the largest excess counts.
      protected: names of columns of X; None if scikit-learn passes the attribute (see its
        `set_score_request`).

    Raises:
      TypeError, ValueError: when it scores, for arguments out of range, without an attribute, and
        for classifiers of more than two classes.

    Example:
      >>> import pandas as pd
      >>> from sklearn.model_selection import GridSearchCV
      >>> from hgr_jax.datasets import load_diabetes
      >>> from hgr_jax.fairness import KB, FairMLPRegressor, FairnessScorer, Penalty
      >>> data = load_diabetes()
      >>> patients = pd.DataFrame(data.x, columns=data.features)
      >>> search = GridSearchCV(
      ...     FairMLPRegressor(steps=50, random_state=0),
      ...     {"threshold": [0.1, 0.3]},
      ...     scoring=FairnessScorer(Penalty(KB(2, 2), 0.5), protected="age"),
      ...     cv=2,
      ... )
      >>> search = search.fit(patients, data.y, protected=data.z)
      >>> bool(search.best_score_ > -1)  # kept in both folds
      True
    """

    # Scikit-learn does not route the first argument of a scorer.
    __metadata_request__score = {"estimator": routing.UNUSED}  # noqa: RUF012

    penalty: Any
    _: dataclasses.KW_ONLY
    protected: Any = None

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
        data = TrainingData.of(X, y, protected, sample_weight)
        if data.weights is not None:
            for penalty in penalties:
                penalty.check_takes_weights()
        prediction, targets, _, score = score_of(estimator, data)
        data = dataclasses.replace(data, y=targets)
        penalties = data.penalties_of(penalties)
        values = [largest_value(penalty, data, prediction) for penalty in penalties]
        limits = [float(np.asarray(penalty.threshold)) for penalty in penalties]
        excess = np.subtract(values, limits)
        worst = int(excess.argmax())
        if excess[worst] > 0:
            warnings.warn(
                f"{penalties[worst].statistic.title} of {penalties[worst].name} is"
                f" {values[worst]:.3g} on the {len(prediction):,} rows that are scored, above the"
                f" threshold {limits[worst]:g}: the score is {VIOLATION_SCORE:g} and less",
                ConvergenceWarning,
                stacklevel=2,
            )
            return float(VIOLATION_SCORE - excess[worst])
        return score if score >= 0 else score / (1 - score)
