"""Reports: score of a model, and dependence of its predictions on a protected attribute."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgr_jax._checks import check_indexes
from hgr_jax._optional import require
from hgr_jax.fairness.data import Encoding, Protected, TrainingData, is_text, numbers
from hgr_jax.fairness.penalties import Penalty, as_penalties
from hgr_jax.fairness.statistics import KB

BINS = 5
"""Quantile groups of an attribute of numbers, of `didi`."""


def didi(
    prediction: ArrayLike, protected: Protected, *, sample_weight: ArrayLike | None = None
) -> Any:
    """Return the disparate impact discrimination index: distances of group means from the mean.

        DIDI = sum over groups v of | mean(prediction) - mean(prediction where z in v) |

    Args:
      prediction: ``(n,)`` numbers; the result is in their unit.
      protected: ``(n,)``, or one-hot ``(n, c)``. Text, or numbers of at most
        five values, are groups; other numbers are cut at four quantiles.  Or a frame of several
        attributes.  Pandas objects need equal labels.
      sample_weight: observation weights ``(n,)`` of the means, or None.

    Returns:
      A float; of several attributes a dict by name.

    Raises:
      TypeError, ValueError: for other shapes, or values that are missing or not finite.

    Source: Aghaei, Azizi & Vayanos, "Learning optimal and fair decision trees for
    non-discriminative decision-making" (2019).

    Example:
      >>> from hgr_jax.fairness import didi
      >>> didi([0.0, 0.0, 1.0, 1.0], ["a", "a", "b", "b"])
      1.0
    """
    data = TrainingData.of(prediction, None, protected, sample_weight=sample_weight)
    if not data.z:
        raise ValueError("protected must be given: an attribute, or several.")
    prediction = one_per_row(data.x, len(next(iter(data.z.values()))))
    found = {name: _didi(prediction, z, data.weights) for name, z in data.z.items()}
    return found if len(found) > 1 else found[next(iter(found))]


def _didi(prediction: NDArray[Any], z: NDArray[Any], weights: NDArray[Any] | None) -> float:
    """Return `didi` of an attribute as numbers, texts or one-hot."""
    codes = z.argmax(axis=1) if z.ndim == 2 else np.unique(z, return_inverse=True)[1]
    if z.ndim == 1 and not is_text(z) and codes.max() >= BINS:
        edges = np.unique(np.quantile(z, np.arange(1, BINS) / BINS))
        codes = np.searchsorted(edges, z, side="right")
    w = np.ones(len(z)) if weights is None else weights
    means = [
        np.average(prediction[codes == code], weights=w[codes == code]) for code in np.unique(codes)
    ]
    return float(np.abs(np.array(means) - np.average(prediction, weights=w)).sum())


def report(
    model: Any,
    X: Any,
    y: ArrayLike,
    protected: Protected,
    *,
    baseline: Any = None,
    statistic: Any = None,
    sample_weight: ArrayLike | None = None,
) -> Any:
    """Report score and dependence of a model on some rows, and beside a baseline.

    Args:
      model: an object with ``predict_proba`` (of which the second class is taken) or ``predict``;
        or predictions ``(n,)``.
      X: inputs of the model.
      y: targets ``(n,)``.
      protected: the attribute ``(n,)``, numbers or text; one-hot ``(n, c)``; the name of a column
        of X; or several attributes: names, or a frame.  Pandas objects need equal labels.
      baseline: another model, for instance one trained without the constraint; or None.
      statistic: what is measured: a statistic as ``KB(3, 3)``, its name, or a `Penalty`, with whose
        threshold it is compared (with ``given`` the largest value within groups of y); None for
        what the model was constrained in, else HGR-KB(5, 5).
      sample_weight: observation weights ``(n,)`` of all figures, or None.

    Returns:
      A pandas data frame, a row for each attribute and model, with the columns ``R2``, or ``AUC``
      where y has two classes; the measure, such as ``HGR-KB(5, 5)``, of a penalty also ``kept``;
      ``pearson`` (not of a category); `didi`.

    Raises:
      TypeError, ValueError: for other shapes, or values that are missing or not finite.
      ImportError: without pandas or scikit-learn, naming the command that installs them.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.fairness import report
      >>> z = np.linspace(-1, 1, 101)
      >>> found = report(z**2, None, z**2 + 0.1 * z, z)
      >>> found[["HGR-KB(5, 5)", "pearson"]].round(2).abs().values.tolist()
      [[1.0, 0.0]]
    """
    data = TrainingData.of(X, y, protected, sample_weight)
    penalties = data.penalties_of(_measured(model, statistic))
    models = {"model": model} if baseline is None else {"before": baseline, "after": model}
    rows = {}
    for title, one in models.items():
        if not hasattr(one, "predict"):
            check_indexes(prediction=one, X=X, y=y)
        prediction, targets, score_name, score = score_of(one, data)
        known = dataclasses.replace(data, y=targets)
        for penalty in penalties:
            z = data.attribute_of(penalty)
            value, statistic = largest_value(penalty, known, prediction), penalty.statistic
            figures: dict[str, Any] = {score_name: score, statistic.title: value}
            if penalty.threshold is not None:
                figures["kept"] = bool(value <= float(np.asarray(penalty.threshold)))
            if z.ndim == 1 and not is_text(z):
                figures["pearson"] = _correlation(z, prediction, data.weights)
            figures["didi"] = _didi(prediction, z, data.weights)
            rows[penalty.name, title] = figures
    ordered = [(penalty.name, title) for penalty in penalties for title in models]
    pandas = require("pandas")
    index = pandas.MultiIndex.from_tuples(ordered, names=["attribute", "model"])
    return pandas.DataFrame([rows[place] for place in ordered], index)


def _measured(model: Any, statistic: Any) -> tuple[Penalty, ...]:
    """Return what `report` measures: what a model was constrained in, or what is asked for."""
    if statistic is None:
        found = as_penalties(getattr(model, "penalty", None), getattr(model, "threshold", None))
        return found or (Penalty(KB(5, 5), threshold=None),)
    asked = statistic if isinstance(statistic, list | tuple) else [statistic]
    return tuple(one if isinstance(one, Penalty) else Penalty(one, threshold=None) for one in asked)


def score_of(model: Any, data: TrainingData) -> tuple[NDArray[Any], NDArray[Any], str, float]:
    """Return predictions ``(n,)`` of a model, targets as numbers, and the score with its name.

    It is the AUC where the targets have two classes, else R2.
    """
    labels = np.asarray(data.y)
    if hasattr(model, "predict_proba"):
        classes = list(model.classes_)
        if len(classes) != 2 or not np.isin(labels, classes).all():
            raise ValueError(
                "the classifier must have two classes, and y no other labels; it knows"
                f" {', '.join(map(str, classes))}, and y has {', '.join(map(str, set(labels)))}."
            )
        labels = np.array([classes.index(label) for label in labels.tolist()])
        output = np.asarray(model.predict_proba(data.x))[:, 1]
    else:
        output = model.predict(data.x) if hasattr(model, "predict") else model
    prediction, targets = one_per_row(output, len(labels)), numbers("y", labels)
    metrics, classes_of_y = require("sklearn.metrics"), set(np.unique(targets))
    if classes_of_y == {0.0, 1.0}:
        score = metrics.roc_auc_score(targets, prediction, sample_weight=data.weights)
        return prediction, targets, "AUC", float(score)
    if hasattr(model, "predict_proba"):  # of rows of one class
        return prediction, targets, "AUC", 0.5
    score = metrics.r2_score(targets, prediction, sample_weight=data.weights)
    return prediction, targets, "R2", float(score)


def one_per_row(output: Any, rows: int) -> NDArray[np.float64]:
    """Return the output of a model as numbers, or raise unless there is one for each row."""
    prediction = numbers("prediction", output)
    if prediction.shape != (rows,):
        raise ValueError(
            f"the model must give one prediction a row, shape ({rows},); got {prediction.shape}."
        )
    return prediction


def largest_value(penalty: Penalty, data: TrainingData, prediction: NDArray[Any]) -> float:
    """Return the largest value of a penalty on a prediction ``(n,)``, in double precision."""
    encoding = Encoding.learn(penalty, data.attribute_of(penalty), data.given)
    z = encoding.encode(data.attribute_of(penalty))
    group = encoding.group(data.given[1])
    with jax.enable_x64(True):
        a, b, c, w = jax.device_put((z, prediction, group, data.weights))
        values, _ = penalty.values(penalty.init(a, b), a, b, c, encoding.groups, w)
        return float(values.max())


def _correlation(a: NDArray[Any], b: NDArray[Any], weights: NDArray[Any] | None) -> float:
    """Return Pearson's correlation, 0 of a constant."""
    covariance = np.cov(a, b, aweights=weights)
    scale = np.sqrt(covariance[0, 0] * covariance[1, 1])
    return float(covariance[0, 1] / scale) if scale > 0 else 0.0
