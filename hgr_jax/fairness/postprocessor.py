"""Move any model's predictions until they depend little on an attribute (extra ``cli``)."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgr_jax._checks import check_count, check_indexes, check_level
from hgr_jax._optional import require
from hgr_jax.fairness.certificate import bounded, check_certifiable, last_accepted
from hgr_jax.fairness.data import (
    Encoding,
    Protected,
    TrainingData,
    check_varies,
    is_names,
)
from hgr_jax.fairness.estimators import base, multiclass, sklearn_utils, validation
from hgr_jax.fairness.penalties import Penalty, as_penalties
from hgr_jax.fairness.report import largest_value, one_per_row
from hgr_jax.fairness.statistics import HGR

metaestimators = require("sklearn.utils.metaestimators")
metrics = require("sklearn.metrics")
selection = require("sklearn.model_selection")

Vector = NDArray[np.float64]

Positions = NDArray[np.intp]

RESOLUTION = 1e-9
"""Smallest difference of predictions that makes two ranks, as a share of their range."""

STRENGTHS = tuple(i / 40 for i in range(41))
"""Strengths of a transport that are tried, in order."""

MOST_HIDDEN = 0.1
"""By how much HGR of ranks must exceed a threshold, for a warning."""


@dataclasses.dataclass(frozen=True)
class Transport:
    """A map of predictions, learned from a sorted attribute and the predictions in its order.

        T(z, p) = Q(U(z, p))

    with U the rank, from 0 to 1, of p among the predictions of the ``neighbors`` rows nearest to z
    (and all rows tied with them), and Q the quantile function of all predictions.  Both are linear
    between distinct values, and constant beyond.  Predictions of neighbours are first shifted to z
    along their least-squares line.  Where z is farther from the mean of its neighbours than half of
    their width, ranks shrink towards 1/2, which they reach at a whole width.
    """

    z: Vector
    p: Vector
    neighbors: int

    @classmethod
    def learn(cls, z: NDArray[Any], p: Vector, neighbors: int | None = None) -> Transport:
        """Learn the map from an attribute, or one-hot columns, and out-of-fold predictions.

        The number of neighbours is the root of that of the rows if None.
        """
        if z.ndim == 2:
            neighbors = 1
        elif neighbors is None:
            neighbors = round(np.sqrt(len(z)))
        z = _as_numbers(z)
        order = np.argsort(z, kind="stable")
        return cls(z[order], np.asarray(p, np.float64)[order], min(neighbors, len(z)))

    def __call__(self, z: NDArray[Any], p: Vector) -> Vector:
        """Return T(z, p) of each row, ``(m,)``; non-decreasing in p where z is the same."""
        values, ranks = _midranks(self.p)
        return np.interp(self.rank(z, p), ranks, values)

    def rank(self, z: NDArray[Any], p: Vector) -> Vector:
        """Return U(z, p) of each row, ``(m,)``."""
        z = _as_numbers(z)
        first, end = self._windows(z)
        # Rows with the same neighbours share a sort.
        windows, window = np.unique(first * (len(self.z) + 1) + end, return_inverse=True)
        order = np.argsort(window, kind="stable")
        groups = np.split(order, np.searchsorted(window[order], np.arange(1, len(windows))))
        placed, unit = np.empty(len(p)), RESOLUTION * (np.ptp(self.p) or 1.0)
        for rows in groups:
            near = slice(first[rows[0]], end[rows[0]])
            center, slope = _regression_line(self.z[near], self.p[near])
            ranked = (self.p[near] - slope * (self.z[near] - center)) / unit
            # Rounded, so that predictions that are a line of the attribute have ties, not noise.
            queries = np.round((p[rows] - slope * (z[rows] - center)) / unit)
            ranks = np.interp(queries, *_midranks(np.round(ranked)))
            width = max(self.z[near.stop - 1] - self.z[near.start], 1e-290)
            away = np.abs(z[rows] - center) / width
            placed[rows] = 0.5 + np.clip(2 - 2 * away, 0, 1) * (ranks - 0.5)
        return placed

    def _windows(self, z: Vector) -> tuple[Positions, Positions]:
        """Return the start and the end of the neighbours of each value."""
        k = self.neighbors
        # The nearest begin at the smallest i for which row i is not farther than row i + k.
        middles = self.z[:-k] / 2 + self.z[k:] / 2
        nearest = np.searchsorted(middles, z)
        first = np.searchsorted(self.z, self.z[nearest], side="left")
        end = np.searchsorted(self.z, self.z[nearest + k - 1], side="right")
        return first, end


def _mixed(p: Vector, transported: Vector, strength: float) -> Vector:
    """Interpolate between predictions and their transport, exactly at strengths 0 and 1."""
    return (1 - strength) * p + strength * transported


def _as_numbers(z: NDArray[Any]) -> Vector:
    return np.asarray(z.argmax(axis=1) if z.ndim == 2 else z, np.float64)


def _midranks(values: Vector) -> tuple[Vector, Vector]:
    """Return the distinct values in order, and their midranks as shares of the rows."""
    distinct, counts = np.unique(values, return_counts=True)
    shares = counts / len(values)
    return distinct, np.cumsum(shares) - shares / 2


def _regression_line(z: Vector, p: Vector) -> tuple[float, float]:
    """Return the mean of z and the slope of the least-squares line, 0 where z hardly varies."""
    if z[0] == z[-1]:
        return float(z[0]), 0.0
    center = z.mean()
    centered = z - center
    square = centered @ centered
    slope = centered @ p / square if square >= np.finfo(np.float64).tiny else 0.0
    return float(center), float(slope)


def _is_a_classifier(model: FairPostprocessor) -> bool:
    return bool(base.is_classifier(model.estimator))


@dataclasses.dataclass(eq=False, repr=False)
class FairPostprocessor(
    base.MetaEstimatorMixin,  # type: ignore[misc]
    base.BaseEstimator,  # type: ignore[misc]
):
    """A model whose predictions are moved until they depend little on a protected attribute.

        p_t = (1 - t) p + t Q(U(z, p))

    with U the rank of the prediction p among those of its neighbours in the attribute z (the root
    of the number of rows; of a category the rows of the same level), Q the quantile function of all
    predictions, and t the smallest strength that keeps HGR(z, p_t) at most the threshold.  At t = 0
    predictions are those of the model; at t = 1 they have about the same distribution for every z.
    Rows of the same z keep their order at every t.

    p is the prediction of a regressor, or the probability of the second class of a classifier of
    two classes.  U and Q are learned from out-of-fold predictions.  z is needed at prediction.

    Args:
      estimator: a regressor of scikit-learn, a classifier with ``predict_proba``, or a pipeline or
        search that ends in one.
      penalty: a `Penalty` without ``given``, a statistic, or its name: what is kept low.
      threshold: in (0, 1]; None for that of the penalty, by default 0.2.
      guarantee: a confidence level as 0.95: hold back ``guarantee_fraction`` of the rows, bound
        strengths from 1 downward on them as by `certify`, and take the last one before a bound
        exceeds the threshold, or raise `NoSolutionFound`: P(a model is returned and breaks its
        threshold) <= 1 - level.  Without it, t is the smallest strength
        at which the sample value is at most the threshold, for out-of-fold predictions and
        transports learned on the other folds.
      guarantee_fraction: share of the rows to hold back, with ``guarantee``.
      cv: number of folds of shuffled rows, or another ``cv`` of scikit-learn.
      random_state: int, RandomState or None: of the folds and of the rows held back.

    Attributes:
      strength_: t, one of 0, 1/40, ..., 1.
      estimator_: the model, fitted to all rows that are not held back.
      transport_: the map of predictions; None without a protected attribute.
      certificate_: with ``guarantee``, the `Certificate`; its candidates are strengths.
      classes_: the labels, of a classifier.
      n_features_in_, feature_names_in_: as everywhere in scikit-learn.

    Degenerate cases: a prediction beyond those of its neighbours has the rank of the outermost one.
    Predictions of few distinct values stay dependent even at t = 1.

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
    penalty: Any = "kb"
    threshold: float | None = None
    guarantee: float | None = None
    guarantee_fraction: float = 0.4
    cv: Any = 5
    random_state: Any = None

    def fit(self, X: Any, y: ArrayLike, protected: Protected = None) -> Self:
        """Fit the model, and learn the transport of its predictions and its strength.

        Args:
          X: inputs of the model, ``(n, p)``.
          y: targets ``(n,)``.
          protected: one attribute: ``(n,)`` numbers or text, one-hot ``(n, c)``, or the name of a
            column of X, which `predict` then finds.  (Join several: ``df.a + df.b``.)  Without it
            nothing is constrained, and a warning says so.

        Raises:
          ValueError, TypeError: for data that cannot be used, and parameters out of range.
          NoSolutionFound: with ``guarantee``, if no strength has it.
        """
        for name in ("certificate_", "estimator_", "strength_", "transport_", "classes_"):
            self.__dict__.pop(name, None)  # of an earlier fit, should this one fail
        data = TrainingData.of(X, y, protected)
        X, y = validation.validate_data(self, data.x, data.y, skip_check_array=True)
        X, y = sklearn_utils.indexable(X, y)
        data = dataclasses.replace(data, x=X, y=self._checked_targets(y))
        if data.z:
            self._learn_strength(data)
            self._columns = protected if is_names(protected, len(data.y)) else None
        elif self.guarantee is not None:
            raise ValueError("a guarantee needs fit(X, y, protected=...); it was not given.")
        else:
            warnings.warn(
                "no protected attribute was given, so nothing is constrained; give"
                " fit(X, y, protected=...)",
                UserWarning,
                stacklevel=2,
            )
            self.estimator_ = base.clone(self.estimator).fit(X, data.y)
            self.strength_: float = 0.0
            self.transport_: Any = None
        if _is_a_classifier(self):
            self.classes_ = self.estimator_.classes_
        return self

    def _learn_strength(self, data: TrainingData) -> None:
        """Fit the model, and learn the transport and its strength."""
        if len(data.z) > 1:
            raise ValueError(
                "FairPostprocessor takes one attribute: join several as df.a + df.b, or train a"
                " network, which takes them."
            )
        penalties = data.penalties_of(as_penalties(self.penalty, self.threshold))
        if len(penalties) != 1 or not penalties[0].penalised or penalties[0].given:
            raise ValueError(f"penalty must have a threshold, and no given; got {self.penalty!r}.")
        (penalty,), random = penalties, sklearn_utils.check_random_state(self.random_state)
        check_varies(penalty.name, data.attribute_of(penalty))
        self._encoder = Encoding.learn(penalty, data.attribute_of(penalty))
        seed = int(random.randint(np.iinfo(np.int32).max))
        if self.guarantee is None:
            judged, z = data, self._encode(data)
            model, p, folds = self._fit_model(data, seed)
            transport, transported = Transport.learn(z, p), np.empty_like(p)
            for others, fold in folds:
                transported[fold] = Transport.learn(z[others], p[others])(z[fold], p[fold])
            strength = _least_strength(penalty, data, p, transported)
        else:
            check_certifiable(penalties)
            level = check_level("guarantee", self.guarantee)
            train, judged = data.split(
                "guarantee_fraction", self.guarantee_fraction, seed, by_class=_is_a_classifier(self)
            )
            model, p, _ = self._fit_model(train, seed)
            transport = Transport.learn(self._encode(train), p)
            p = self._model_output(model, judged.x)
            transported = transport(self._encode(judged), p)

            def bounds(strength: float) -> list[Any]:
                moved = dataclasses.replace(judged, x=_mixed(p, transported, strength))
                return [bounded(penalty, self._encoder, moved, level)]

            strengths = (([t], 0, t) for t in reversed(STRENGTHS))
            strength, (self.certificate_,) = last_accepted(strengths, bounds)
        _warn_of_hidden_dependence(penalty, judged, _mixed(p, transported, strength))
        self.estimator_, self.strength_, self.transport_ = model, strength, transport

    def predict(self, X: Any, protected: Protected = None) -> NDArray[Any]:
        """Return predictions ``(n,)``; of a classifier, labels.

        Args:
          X: inputs of the model.
          protected: the attribute of these rows, as in `fit`; None is the column that `fit` got
            by its name.

        Raises:
          ValueError, TypeError: without the attribute, or for levels that the fit did not have.
        """
        validation.check_is_fitted(self, "estimator_")
        if _is_a_classifier(self):
            chosen = self.predict_proba(X, protected).argmax(axis=1)
            return np.asarray(self.classes_[chosen])
        return self._transport_predictions(self._model_output(self.estimator_, X), X, protected)

    @metaestimators.available_if(_is_a_classifier)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, protected: Protected = None) -> NDArray[Any]:
        """Return probabilities ``(n, 2)`` of a classifier; arguments and errors as `predict`."""
        validation.check_is_fitted(self, "estimator_")
        probabilities = np.asarray(self.estimator_.predict_proba(X))
        second = self._transport_predictions(probabilities[:, 1], X, protected)
        return probabilities if self.strength_ == 0 else np.stack([1 - second, second], axis=1)

    def score(self, X: Any, y: ArrayLike, protected: Protected = None) -> float:
        """Return R2, of a classifier the accuracy; arguments and errors as `predict`."""
        check_indexes(X=X, y=y, protected=protected)
        score = metrics.accuracy_score if _is_a_classifier(self) else metrics.r2_score
        return float(score(y, self.predict(X, protected)))

    def __sklearn_tags__(self) -> Any:
        """Return the tags of the model, for a single target of two classes or numbers."""
        tags = copy.deepcopy(sklearn_utils.get_tags(self.estimator))
        tags.target_tags.multi_output = False
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_class = False
        return tags

    def _checked_targets(self, y: Any) -> NDArray[Any]:
        y = np.asarray(sklearn_utils.column_or_1d(y, warn=True))
        sklearn_utils.assert_all_finite(y, input_name="y")
        if not _is_a_classifier(self):
            return y
        multiclass.check_classification_targets(y)
        classes = np.unique(y)
        if len(classes) != 2:  # in scikit-learn's words, which its checks look for
            raise ValueError(
                "Only binary classification is supported. The type of the target is"
                f" {multiclass.type_of_target(y)}: y has {len(classes)} class(es)."
            )
        return y

    def _fit_model(
        self, data: TrainingData, seed: int
    ) -> tuple[Any, Vector, list[tuple[Positions, Positions]]]:
        """Fit the model; return it, its out-of-fold predictions, and the folds."""
        X, y, splitter, classifier = data.x, data.y, self.cv, _is_a_classifier(self)
        if isinstance(splitter, int | np.integer):
            kind = selection.StratifiedKFold if classifier else selection.KFold
            splitter = kind(check_count("cv", splitter, 2), shuffle=True, random_state=seed)
        folds = list(selection.check_cv(splitter, y, classifier=classifier).split(X, y))
        method = "predict_proba" if classifier else "predict"
        output = selection.cross_val_predict(self.estimator, X, y, cv=folds, method=method)
        p = one_per_row(output[:, 1] if classifier else output, len(y))
        return base.clone(self.estimator).fit(X, y), p, folds

    def _encode(self, data: TrainingData) -> NDArray[Any]:
        """Return the attribute of rows, encoded as in the fit."""
        return self._encoder.encode(next(iter(data.z.values())))

    def _model_output(self, model: Any, X: Any) -> Vector:
        if _is_a_classifier(self):
            return np.asarray(model.predict_proba(X)[:, 1], np.float64)
        output = model.predict(X)
        return one_per_row(output, len(output))

    def _transport_predictions(self, p: NDArray[Any], X: Any, protected: Any) -> NDArray[Any]:
        """Transport predictions of the model by the strength."""
        if self.transport_ is None:
            return p
        data = TrainingData.of(X, None, self._columns if protected is None else protected)
        if not data.z:
            raise ValueError(
                "predictions need the protected attribute of their rows: give predict(X,"
                " protected), or name a column of X in fit."
            )
        z, p = self._encode(data), np.asarray(p, np.float64)
        return _mixed(p, self.transport_(z, p), self.strength_)


def _least_strength(penalty: Penalty, data: TrainingData, p: Vector, transported: Vector) -> float:
    """Return the smallest strength that keeps the threshold, or warn and return 1."""
    limit = float(np.asarray(penalty.threshold))
    for strength in STRENGTHS:
        value = largest_value(penalty, data, _mixed(p, transported, strength))
        if value <= limit:
            return strength
    warnings.warn(
        f"no strength is enough: at 1, {penalty.statistic.title} of {penalty.name} and predictions"
        f" is {value:.3f}, above {limit:g}; more rows, lower degrees or a higher threshold help.",
        UserWarning,
        stacklevel=4,
    )
    return 1.0


def _warn_of_hidden_dependence(penalty: Penalty, data: TrainingData, p: Vector) -> None:
    """Warn of a dependence of ranks that polynomials of few degrees hardly see."""
    ranked = dataclasses.replace(penalty, statistic=HGR())
    value, limit = largest_value(ranked, data, p), float(np.asarray(penalty.threshold))
    if value > limit + MOST_HIDDEN:
        warnings.warn(
            f"HGR of ranks of {penalty.name} and the moved predictions is {value:.3f}, above the"
            f" threshold {limit:g} that {penalty.statistic.title} keeps: no transport hides what"
            " predictions of few different values, or many rows with one value of"
            f" {penalty.name}, show. penalty='hgr' says what it reaches; a network trained with it"
            " may do better.",
            UserWarning,
            stacklevel=5,
        )
