"""Reports: score of a model, and dependence of its predictions on a protected attribute."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgr_jax._checks import check_count
from hgr_jax._optional import require
from hgr_jax.fairness.data import (
    Encoding,
    Protected,
    TrainingData,
    attribute_numbers,
    in_one_order,
    numbers,
    way_of_conditioning,
)
from hgr_jax.fairness.penalties import Penalty, as_penalties
from hgr_jax.fairness.statistics import HGR, KB, Projection
from hgr_jax.inference.intervals import corrected_on_host


def didi(
    prediction: ArrayLike,
    protected: Protected,
    *,
    bins: int = 5,
    sample_weight: ArrayLike | None = None,
) -> Any:
    """Return the disparate impact discrimination index: distances of group means from the mean.

        DIDI = sum over groups v of | mean(prediction) - mean(prediction where z in v) |

    Args:
      prediction: ``(n,)`` numbers; the result is in their unit.
      protected: ``(n,)``, or one-hot ``(n, c)``. Text, or numbers of no more than ``bins`` values,
        are groups; other numbers are cut at their quantiles.  Or a frame of several attributes.
        Rows of pandas objects are matched by their labels.
      bins: number of quantile groups.
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
    prediction = numbers("prediction", data.x)
    if prediction.ndim != 1 or not len(prediction):
        raise ValueError(f"prediction must have shape (n,), n >= 1; got {prediction.shape}.")
    bins = check_count("bins", bins, least=2)
    found = {
        name: _didi(prediction, attribute_numbers(name, z), bins, data.weights)
        for name, z in data.z.items()
    }
    return found if len(found) > 1 else found[next(iter(data.z))]


def demographic_parity_hgr(
    y_true: Any, y_pred: ArrayLike, *, sensitive_features: Protected
) -> float:
    """Return HGR of predictions and an attribute, as a metric in the manner of fairlearn.

        max over f, g of rho(f(attribute), g(prediction))

    It is 0 where predictions do not depend on the attribute, whatever their form, and takes numbers
    where ``fairlearn.metrics.demographic_parity_difference`` needs groups.

    Args:
      y_true: targets, which do not matter; for the shape that metrics have.
      y_pred: predictions ``(n,)``: numbers, or classes 0 and 1.
      sensitive_features: ``(n,)``, numbers or text, or one-hot ``(n, c)``.  Rows of pandas objects
        are matched by their labels.

    Raises:
      TypeError, ValueError: for other shapes, or values that are not finite.

    Source: as `hgr_jax.hgr`.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.fairness import demographic_parity_hgr
      >>> age = np.linspace(20, 60, 100)
      >>> f"{demographic_parity_hgr(None, abs(age - 40), sensitive_features=age):.2f}"
      '1.00'
    """
    del y_true
    data = TrainingData.of(y_pred, None, sensitive_features)
    ((name, values),) = data.z.items()
    z = attribute_numbers(name, values)
    return penalty_value(Penalty(HGR()), z, one_per_row(data.x, len(z)))


def _didi(
    prediction: NDArray[Any], z: NDArray[Any], bins: int, weights: NDArray[Any] | None
) -> float:
    """Return `didi` of an attribute as numbers, or one-hot."""
    codes = z.argmax(axis=1) if z.ndim == 2 else np.unique(z, return_inverse=True)[1]
    if z.ndim == 1 and codes.max() >= bins:
        edges = np.unique(np.quantile(z, np.arange(1, bins) / bins))
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
    bins: int = 5,
    given: Any = None,
    sample_weight: ArrayLike | None = None,
) -> Any:
    """Report score and dependence of a model on some rows, and beside a baseline.

    Args:
      model: an object with ``predict_proba`` (of which the second class is taken) or ``predict``;
        or predictions ``(n,)``.
      X: inputs of the model.
      y: targets ``(n,)``.
      protected: the attribute ``(n,)``, numbers or text; one-hot ``(n, c)``; the name of a column
        of X; or several attributes: names, or a frame.  Rows of pandas objects are matched by their
        labels.
      baseline: another model, for instance one trained without the constraint; or None.
      statistic: what is measured: a statistic as ``KB(3, 3)``, its name, or a `Penalty`, with whose
        threshold it is compared; None for what the model was constrained in, else HGR-KB(5, 5).
      bins: as of `didi`.
      given: ``"target"``, or a column of X, to report the dependence within groups too, as
        ``given`` of `FairMLPRegressor`.
      sample_weight: observation weights ``(n,)`` of all figures, or None.

    Returns:
      A pandas data frame, a row for each attribute and model, with the columns ``R2``, or ``AUC``
      where y has two classes; the measure, such as ``HGR-KB(5, 5)``, of a penalty also ``kept``;
      of `KB` and `SK` ``corrected``, with less of its upward bias (`hgr_jax.inference.corrected`);
      the largest value within groups of what is given; ``pearson`` (not of a category); `didi`.

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
    data = TrainingData.of(X, y, protected, given, sample_weight)
    if not data.z:
        raise ValueError("protected must be given: an attribute, or several.")
    penalties = data.penalties_of(_measured(model, statistic))
    attributes = data.attributes_of(penalties)
    models = {"model": model} if baseline is None else {"before": baseline, "after": model}
    rows = {}
    for title, one in models.items():
        if not hasattr(one, "predict"):
            one = _in_order_of(X if y is None else y, one, sample_weight)
        prediction, targets, kind = predict_and_encode(one, data.x, np.asarray(data.y))
        score, score_name = score_of(prediction, targets, kind, data.weights)
        known = dataclasses.replace(data, y=targets)
        for penalty in penalties:
            z = attribute_numbers(penalty.name, attributes[penalty.name])
            figures = _figures(penalty, z, prediction, known, given)
            means = _didi(prediction, z, bins, data.weights)
            rows[penalty.name, title] = {score_name: score, **figures, "didi": means}
    pandas = require("pandas")
    ordered = [(penalty.name, title) for penalty in penalties for title in models]
    index = pandas.MultiIndex.from_tuples(ordered, names=["attribute", "model"])
    return pandas.DataFrame([rows[place] for place in ordered], index)


def _measured(model: Any, statistic: Any) -> tuple[Penalty, ...]:
    """Return what `report` measures: what a model was constrained in, or what is asked for."""
    if statistic is None:
        found = as_penalties(getattr(model, "penalty", None), getattr(model, "threshold", None))
        return found or (Penalty(KB(5, 5), threshold=None),)
    asked = statistic if isinstance(statistic, list | tuple) else [statistic]
    return tuple(one if isinstance(one, Penalty) else Penalty(one, threshold=None) for one in asked)


def _figures(
    penalty: Penalty, z: NDArray[Any], prediction: NDArray[Any], data: TrainingData, given: Any
) -> dict[str, float | bool]:
    """Return the dependences of a prediction on an attribute, by the columns of `report`."""
    weights, statistic = data.weights, penalty.statistic
    value = penalty_value(penalty, z, prediction, data.given, weights)
    found: dict[str, float | bool] = {statistic.title: value}
    if penalty.threshold is not None:
        found["kept"] = bool(value <= float(np.asarray(penalty.threshold)))
    levels = None if z.ndim == 1 else z.shape[1]
    functions = statistic.functions(levels) if isinstance(statistic, Projection) else None
    if functions is not None and penalty.given is None:
        found["corrected"] = float(
            corrected_on_host(value, _effective(weights, len(z)), sum(functions) - 1)
        )
    if given is not None:
        inside = dataclasses.replace(penalty, given=way_of_conditioning(np.asarray(data.given[1])))
        found[f"{statistic.title} given {data.given[0]}"] = penalty_value(
            inside, z, prediction, data.given, weights
        )
    if z.ndim == 1:
        found["pearson"] = _correlation(z, prediction, weights)
    return found


def _in_order_of(rows: Any, prediction: Any, sample_weight: Any) -> Any:
    """Return predictions in the order of labelled rows, without those of weight 0."""
    weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
    _, prediction, *weights = in_one_order({"y": rows, "prediction": prediction}, weighted)
    if weights and np.shape(weights[0]) == np.shape(prediction)[:1]:
        prediction = np.asarray(prediction)[np.asarray(weights[0]) != 0]
    return prediction


def predict_and_encode(
    model: Any, X: ArrayLike, y: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], str]:
    """Return predictions ``(n,)``, numeric targets, and "regression" or "classification"."""
    kind, labels = "regression", y
    if hasattr(model, "predict_proba"):
        classes = list(model.classes_)
        unknown = sorted({str(label) for label in y.tolist() if label not in classes})
        if unknown:
            raise ValueError(
                f"y has the label(s) {', '.join(unknown[:5])}, which the model does not know; it"
                f" knows {', '.join(map(str, classes))}."
            )
        if len(classes) != 2:
            raise ValueError(f"the classifier must have two classes; this has {len(classes)}.")
        labels = np.array([classes.index(label) for label in y.tolist()])
        output, kind = np.asarray(model.predict_proba(X))[:, 1], "classification"
    else:
        output = model.predict(X) if hasattr(model, "predict") else model
    targets = numbers("y", labels)
    if set(np.unique(targets)) == {0.0, 1.0}:
        kind = "classification"
    return one_per_row(output, len(y)), targets, kind


def one_per_row(output: Any, rows: int) -> NDArray[np.float64]:
    """Return the output of a model as numbers, or raise unless there is one for each row."""
    prediction = numbers("prediction", output)
    if prediction.shape != (rows,):
        raise ValueError(
            f"the model must give one prediction a row, shape ({rows},); got {prediction.shape}."
        )
    return prediction


def score_of(
    prediction: NDArray[Any], y: NDArray[Any], kind: str, weights: NDArray[Any] | None = None
) -> tuple[float, str]:
    """Return the score of the results of `predict_and_encode`, and its name."""
    metrics = require("sklearn.metrics")
    if kind == "classification":
        one_class = len(np.unique(y)) < 2
        value = 0.5 if one_class else metrics.roc_auc_score(y, prediction, sample_weight=weights)
        return float(value), "AUC"
    return float(metrics.r2_score(y, prediction, sample_weight=weights)), "R2"


def penalty_value(
    penalty: Penalty,
    z: NDArray[Any],
    prediction: NDArray[Any],
    condition: tuple[str, Any] | None = None,
    weights: NDArray[Any] | None = None,
) -> float:
    """Return the largest value of a penalty on a prediction ``(n,)``, in double precision.

    ``z`` is an attribute as numbers or one-hot; ``condition`` has the name and values of what a
    penalty with ``given`` is conditional on.
    """
    group, groups = None, 1
    if penalty.given is not None and condition is not None:
        encoding = Encoding.learn(penalty, z, condition)
        groups, labels = encoding.groups, encoding.group(condition[1])
        group = numbers(*condition) if labels is None else labels.astype(np.int64)
    with jax.enable_x64(True):
        a, b = jax.device_put(z), jax.device_put(prediction)
        c, w = (None if x is None else jax.device_put(x) for x in (group, weights))
        values, _ = penalty.values(penalty.init(a, b), a, b, c, groups, w)
        return float(values.max())


def _effective(weights: NDArray[Any] | None, rows: int) -> float:
    """Return Kish's effective number of rows."""
    return rows if weights is None else float(weights.sum() ** 2 / (weights**2).sum())


def _correlation(a: NDArray[Any], b: NDArray[Any], weights: NDArray[Any] | None) -> float:
    """Return Pearson's correlation, 0 of a constant."""
    a, b = (x - np.average(x - x[0], weights=weights) - x[0] for x in (a, b))
    scale = np.sqrt(np.average(a**2, weights=weights) * np.average(b**2, weights=weights))
    return float(np.average(a * b, weights=weights) / scale) if scale > 0 else 0.0
