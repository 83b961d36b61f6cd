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
from hgr_jax.fairness.data import Protected, TrainingData, attribute_numbers, numbers
from hgr_jax.fairness.networks import auc_or_accuracy, r2
from hgr_jax.fairness.penalties import Penalty
from hgr_jax.fairness.statistics import KB, SK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST_DECIMAL = 1e7
"""Size from which figures in a table have an exponent."""


def didi(prediction: ArrayLike, protected: Protected, *, bins: int = 5) -> float:
    """Return the disparate impact discrimination index: distances of group means from the mean.

        DIDI = sum over groups v of | mean(prediction) - mean(prediction where z in v) |

    Args:
      prediction: ``(n,)`` numbers; the result is in their unit.
      protected: ``(n,)``, or one-hot ``(n, c)``. Text, or numbers of no more than ``bins`` values,
        are groups; other numbers are cut at their quantiles.  Rows of pandas objects are matched
        by their labels.
      bins: number of quantile groups.

    Raises:
      TypeError, ValueError: for other shapes, or values that are not finite.

    Source: Aghaei, Azizi & Vayanos, "Learning optimal and fair decision trees for
    non-discriminative decision-making" (2019).

    Example:
      >>> from hgr_jax.fairness import didi
      >>> didi([0.0, 0.0, 1.0, 1.0], ["a", "a", "b", "b"])
      1.0
    """
    data = TrainingData.of(prediction, None, protected)
    prediction = numbers("prediction", data.x)
    if prediction.ndim != 1 or not len(prediction):
        raise ValueError(f"prediction must have shape (n,), n >= 1; got {prediction.shape}.")
    bins = check_count("bins", bins, least=2)
    return _didi(prediction, attribute_numbers(*data.single()), bins)


def _didi(prediction: NDArray[Any], z: NDArray[Any], bins: int) -> float:
    """Return `didi` of an attribute as numbers, or one-hot."""
    codes = z.argmax(axis=1) if z.ndim == 2 else np.unique(z, return_inverse=True)[1]
    if z.ndim == 1 and codes.max() >= bins:
        edges = np.unique(np.quantile(z, np.arange(1, bins) / bins))
        codes = np.searchsorted(edges, z, side="right")
    means = [prediction[codes == code].mean() for code in np.unique(codes)]
    return float(np.abs(np.array(means) - prediction.mean()).sum())


@dataclasses.dataclass(frozen=True, repr=False)
class FairnessReport:
    """The figures of models on the same rows; ``str(report)`` is a table.

    Attributes:
      figures: by model: ``score``, ``kb`` and ``sk`` (HGR-KB, HGR-SK), ``kb_corrected`` (with less
        of its upward bias), ``pearson`` with its two-sided p-value ``pearson_p`` (not for a
        category), and `didi`.
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
        heads, rows = self._table()
        width = max(len(name) for name, *_ in rows)
        lines = [" " * width + "".join(f"  {head:>9}" for head in heads)]
        lines += [f"{n:<{width}}" + "".join(f"  {c:>9}" for c in cells) for n, *cells in rows]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"{self._title()}\n{self}"

    def _repr_html_(self) -> str:
        """Return the figures as a small table, for notebooks."""
        heads, rows = self._table()
        return html_table(self._title(), ("", *heads), rows)

    def _title(self) -> str:
        return f"FairnessReport of {self.name!r}, {self.rows:,} rows"

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Return heads of the figures, and a row for each model that starts with its name."""
        columns = list(next(iter(self.figures.values())))
        heads = {"score": self.score_name, "kb_corrected": "corrected", "pearson_p": "p-value"}
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
) -> FairnessReport:
    """Report score and dependence of a model on some rows, and beside a baseline.

    Args:
      model: an object with ``predict_proba`` (of which the second class is taken) or ``predict``;
        or predictions ``(n,)``.
      X: inputs of the model.
      y: targets ``(n,)``.
      protected: the attribute ``(n,)``, numbers or text; one-hot ``(n, c)``; or the name or the
        position of a column of X.  Rows of pandas objects are matched by their labels.
      baseline: another model, for instance one trained without the constraint; or None.
      statistic: the HGR-KB that is reported, static; HGR-SK has its degree of the prediction.
      bins: as of `didi`.

    Raises:
      TypeError, ValueError: for other shapes, or values that are not finite.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.fairness import report
      >>> z = np.linspace(-1, 1, 101)
      >>> found = report(z**2, None, z**2 + 0.1 * z, z)
      >>> print(f"{found.figures['model']['kb']:.3f} {found.figures['model']['pearson']:.3f}")
      1.000 0.000
    """
    data = TrainingData.of(X, y, protected)
    name, z = data.single()
    z, targets = attribute_numbers(name, z), np.asarray(data.y)
    models = {"model": model} if baseline is None else {"before": baseline, "after": model}
    figures, predictions, score_name = {}, {}, ""
    for title, one in models.items():
        prediction, labels, kind = predict_and_encode(one, data.x, targets)
        score, score_name = score_of(prediction, labels, kind)
        predictions[title] = prediction
        figures[title] = {"score": score, **_dependence(z, prediction, statistic, bins)}
    return FairnessReport(figures, score_name, len(z), statistic, name, z, predictions)


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


def score_of(prediction: NDArray[Any], y: NDArray[Any], kind: str) -> tuple[float, str]:
    """Return the score of the results of `predict_and_encode`, and its name."""
    with jax.enable_x64(True):
        score = auc_or_accuracy if kind == "classification" else r2
        value = score(jax.device_put(prediction), jax.device_put(y))
    return float(value), "AUC" if kind == "classification" else "R2"


def penalty_value(penalty: Penalty, z: NDArray[Any], prediction: NDArray[Any]) -> float:
    """Return the value of a penalty on a prediction ``(n,)``, in double precision."""
    with jax.enable_x64(True):
        a, b = jax.device_put(z), jax.device_put(prediction)
        return float(penalty.values(penalty.init(a, b), a, b)[0][0])


def _dependence(
    z: NDArray[Any], prediction: NDArray[Any], statistic: KB, bins: int
) -> dict[str, float]:
    penalties = {
        "kb": Penalty(statistic),
        "kb_corrected": Penalty(statistic, bias_corrected=True),
        "sk": Penalty(SK(statistic.k)),
    }
    figures = {name: penalty_value(penalty, z, prediction) for name, penalty in penalties.items()}
    if z.ndim == 1:
        figures |= {"pearson": 0.0, "pearson_p": 1.0}
        if len(z) > 2 and np.ptp(z) > 0 < np.ptp(prediction):
            # SciPy calls numbers that differ in late digits constant: count from the first one.
            shifted = z - z[0], prediction - prediction[0]
            from scipy import stats  # loads slowly

            result = stats.pearsonr(*shifted)
            figures |= {"pearson": float(result.statistic), "pearson_p": float(result.pvalue)}
    return figures | {"didi": _didi(prediction, z, bins)}
