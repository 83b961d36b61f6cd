"""Reports: score of a model, and dependence of its predictions on a protected attribute."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgr_jax._checks import check_count
from hgr_jax._optional import require
from hgr_jax._texts import html_table
from hgr_jax.fairness.data import (
    Encoding,
    Protected,
    TrainingData,
    attribute_numbers,
    in_one_order,
    numbers,
    way_of_conditioning,
)
from hgr_jax.fairness.networks import auc_or_accuracy, r2
from hgr_jax.fairness.penalties import Penalty
from hgr_jax.fairness.statistics import HGR, KB, SK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST_DECIMAL = 1e7
"""Size from which figures in a table have an exponent."""


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
        are groups; other numbers are cut at their quantiles.  Or several attributes, a frame or a
        mapping.  Rows of pandas objects are matched by their labels.
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
    data.check_protected()
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
    z = attribute_numbers(*data.single())
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


@dataclasses.dataclass(frozen=True, repr=False)
class FairnessReport:
    """The figures of models on the same rows; ``str(report)`` is a table.

    Attributes:
      figures: by model: ``score``, ``kb`` and ``sk`` (HGR-KB, HGR-SK), ``kb_corrected`` (with less
        of its upward bias), ``kb_given`` (the largest HGR-KB within the groups of what is given),
        ``pearson`` with its two-sided p-value ``pearson_p`` (not for a category; no p-value with
        weights), and `didi`.
      score_name: ``"R2"``, or ``"AUC"`` where y has two classes.
      rows: number of rows.
      statistic: the HGR-KB of the figures.
      name: of the attribute.
      z, predictions: the attribute, and the predictions of each model.
    """

    figures: Mapping[str, Mapping[str, float]]
    score_name: str
    rows: int
    statistic: KB
    name: str
    z: NDArray[Any] = dataclasses.field(repr=False)
    predictions: Mapping[str, NDArray[Any]] = dataclasses.field(repr=False)

    def to_frame(self) -> Any:
        """Return a pandas data frame, one row a model.

        Raises:
          ImportError: without pandas, naming the command that installs it.
        """
        return require("pandas").DataFrame(self.figures).T

    def plot(self) -> Figure:
        """Draw prediction against attribute with f and g, one row of panels a model.

        Raises:
          ImportError: without matplotlib, naming the command that installs it.
          ValueError: for a category.
        """
        from hgr_jax.plotting import plot_predictions

        h, k = self.statistic.h, self.statistic.k
        if callable(h) or callable(k):
            raise ValueError("a picture is of degrees h and k, not of kernels.")
        return plot_predictions(self.z, self.predictions, name=self.name, h=h, k=k)

    def __str__(self) -> str:
        heads, rows = self.table()
        width = max(len(name) for name, *_ in rows)
        lines = [" " * width + "".join(f"  {head:>9}" for head in heads)]
        lines += [f"{n:<{width}}" + "".join(f"  {c:>9}" for c in cells) for n, *cells in rows]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"{self._title()}\n{self}"

    def _repr_html_(self) -> str:
        """Return the figures as a small table, for notebooks."""
        heads, rows = self.table()
        return html_table(self._title(), ("", *heads), rows)

    def _title(self) -> str:
        return f"FairnessReport of {self.name!r}, {self.rows:,} rows"

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return heads of the figures, and a row for each model that starts with its name."""
        columns = list(next(iter(self.figures.values())))
        heads = {
            "score": self.score_name,
            "kb_corrected": "corrected",
            "kb_given": "kb given",
            "pearson_p": "p-value",
        }
        rows = [
            [name, *(_as_cell(column, of[column]) for column in columns)]
            for name, of in self.figures.items()
        ]
        return [heads.get(column, column) for column in columns], rows


def _as_cell(column: str, value: float) -> str:
    if column == "pearson_p":
        return f"{value:.1e}"
    return f"{value:.3f}" if abs(value) < LARGEST_DECIMAL else f"{value:.4g}"


def report(
    model: Any,
    X: Any,
    y: ArrayLike,
    protected: Protected,
    *,
    baseline: Any = None,
    statistic: KB = KB(5, 5),  # noqa: B008 - frozen
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
      protected: the attribute ``(n,)``, numbers or text; one-hot ``(n, c)``; the name or the
        position of a column of X; or several attributes: names, a frame or a mapping.  Rows of
        pandas objects are matched by their labels.
      baseline: another model, for instance one trained without the constraint; or None.
      statistic: the HGR-KB that is reported, static; HGR-SK has its degree of the prediction.
      bins: as of `didi`.
      given: ``"target"``, or columns of X, to report ``kb_given`` too, as ``given`` of
        `FairMLPRegressor`.
      sample_weight: observation weights ``(n,)`` of all figures, or None.

    Returns:
      A `FairnessReport`; of several attributes a dict of them by name, and a last one of their
      combinations (numbers in 4 quantile bins).

    Raises:
      TypeError, ValueError: for other shapes, or values that are missing or not finite.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.fairness import report
      >>> z = np.linspace(-1, 1, 101)
      >>> found = report(z**2, None, z**2 + 0.1 * z, z)
      >>> print(f"{found.figures['model']['kb']:.3f} {found.figures['model']['pearson']:.3f}")
      1.000 0.000
    """
    data = TrainingData.of(X, y, protected, given, sample_weight)
    data.check_protected()
    data = data.complete("raise", {})
    models = {"model": model} if baseline is None else {"before": baseline, "after": model}
    scores, predictions, score_name = {}, {}, ""
    for title, one in models.items():
        if not hasattr(one, "predict"):
            one = _in_order_of(X if y is None else y, one, sample_weight)
        prediction, targets, kind = predict_and_encode(one, data.x, np.asarray(data.y))
        score, score_name = score_of(prediction, targets, kind, data.weights)
        scores[title], predictions[title] = score, prediction
    condition = None
    if given is not None:
        name, values = data.condition
        condition = name, targets if name == "y" and not data.given else values

    def of_attribute(name: str, z: NDArray[Any]) -> FairnessReport:
        z = attribute_numbers(name, z)
        measured = _Measured(name, z, condition, data.weights)
        figures = {
            title: {"score": scores[title], **measured.figures(prediction, statistic, bins)}
            for title, prediction in predictions.items()
        }
        return FairnessReport(figures, score_name, len(z), statistic, name, z, predictions)

    attributes = {**data.z, **(data.crossed().z if len(data.z) > 1 else {})}
    reports = {name: of_attribute(name, z) for name, z in attributes.items()}
    return reports if len(reports) > 1 else reports[next(iter(data.z))]


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
    with jax.enable_x64(True):
        score = auc_or_accuracy if kind == "classification" else r2
        weighted = {} if weights is None else {"weights": jax.device_put(weights)}
        value = score(jax.device_put(prediction), jax.device_put(y), **weighted)
    return float(value), "AUC" if kind == "classification" else "R2"


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


@dataclasses.dataclass(frozen=True)
class _Measured:
    """An attribute as numbers, what is given with its name, and weights."""

    name: str
    z: NDArray[Any]
    condition: tuple[str, Any] | None
    weights: NDArray[Any] | None

    def figures(self, prediction: NDArray[Any], statistic: KB, bins: int) -> dict[str, float]:
        """Return the dependences of a prediction, by the names of `FairnessReport.figures`."""
        z, weights = self.z, self.weights
        penalties = {
            "kb": Penalty(statistic),
            "kb_corrected": Penalty(statistic, bias_corrected=True),
            "sk": Penalty(SK(statistic.k)),
        }
        found = {
            name: penalty_value(penalty, z, prediction, weights=weights)
            for name, penalty in penalties.items()
        }
        if self.condition is not None:
            how = way_of_conditioning(self.condition[1])
            penalty = Penalty(statistic, given=how, name=self.name)
            found["kb_given"] = penalty_value(penalty, z, prediction, self.condition, weights)
        if z.ndim == 1 and weights is not None:
            found["pearson"] = _weighted_correlation(z, prediction, weights)
        elif z.ndim == 1:
            found |= {"pearson": 0.0, "pearson_p": 1.0}
            if len(z) > 2 and np.ptp(z) > 0 < np.ptp(prediction):
                # SciPy calls numbers that differ in late digits constant: count from the first one.
                shifted = z - z[0], prediction - prediction[0]
                result = require("scipy.stats").pearsonr(*shifted)
                found |= {"pearson": float(result.statistic), "pearson_p": float(result.pvalue)}
        return found | {"didi": _didi(prediction, z, bins, weights)}


def _weighted_correlation(a: NDArray[Any], b: NDArray[Any], weights: NDArray[Any]) -> float:
    """Return Pearson's correlation with weights, 0 of a constant."""
    a, b = (x - np.average(x, weights=weights) for x in (a, b))
    scale = np.sqrt(np.average(a**2, weights=weights) * np.average(b**2, weights=weights))
    return float(np.average(a * b, weights=weights) / scale) if scale > 0 else 0.0
