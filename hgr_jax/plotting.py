"""Pictures of fits, of correlations, and of trainings (matplotlib, the extra ``cli``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from hgr_jax._arrays import in_unit
from hgr_jax._checks import check_indexes
from hgr_jax._optional import require
from hgr_jax._texts import shortened
from hgr_jax.core.describe import Shape

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MAX_HEAT_MAP_INCHES = 32.0
"""Largest side of a heat map."""

TICK_POINTS = 7
"""Size of the names beside a heat map."""

MAX_LABELS = 160
"""Largest number of columns whose names are shown beside a heat map."""

MAX_NAME = 60
"""Largest length of a name; longer ones are shortened."""

MAX_TICK_NAME = 28
"""Largest length of a name beside a heat map, where names take room from the cells."""

MAX_BINS = 20
"""Largest number of bins of conditional medians."""

MAX_ANNOTATED = 12
"""Largest number of rows or columns of a heat map with values written into its cells."""


def plot_fit(fit: Any, a: ArrayLike, b: ArrayLike, *, names: Sequence[str] = ("a", "b")) -> Figure:
    """Draw a fitted pair in four panels: the data, f, g, and the transformed data.

    Among the data are the medians of b in bins of a, with their 95% bands; dotted lines are where f
    and g turn.

    Args:
      fit: of `hgr_jax.hgr_fit`, `hgr_jax.kb_fit` or `hgr_jax.sk_fit`, on two variables ``(n,)``,
        not a batch.
      a, b: the data to draw, ``(n,)``; rows that are not finite are left out.
      names: of a and of b; shown as they are, never read as markup.

    Raises:
      ImportError: without matplotlib.
      TypeError: if ``a`` or ``b`` holds texts.
      ValueError: if ``a`` and ``b`` are not ``(n,)`` or hold no finite row, or the fit is of other
        shapes or conditional.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> from hgr_jax.plotting import plot_fit
      >>> a = jnp.linspace(-1, 1, 101)
      >>> figure = plot_fit(hgr_jax.kb_fit(a, a**2), a, a**2, names=("a", "a squared"))
    """
    if getattr(getattr(fit, "f", None), "explained", None) is not None:
        raise ValueError(
            "given other variables c, f and g are no curves: draw fit.f(a, given=c) against"
            " fit.g(b, given=c)."
        )
    a, b = np.asarray(a), np.asarray(b)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"a and b must have one shape (n,); got {a.shape} and {b.shape}.")
    if any(x.dtype.kind in "OUSTmM" for x in (a, b)):
        raise TypeError(
            "a and b must be numbers to be drawn, of a category the positions of its levels"
            f" (Scan.values); got dtypes {a.dtype} and {b.dtype}."
        )
    if len(names) != 2:
        raise ValueError(f"names must be two, of a and of b; got {names!r}.")
    finite = np.isfinite(a) & np.isfinite(b)
    if not finite.any():
        raise ValueError("a and b have no row of two finite values to draw.")
    x, y = a[finite].astype(np.float64), b[finite].astype(np.float64)
    figure = _new_figure(13, 3.4)
    *panels, projection = figure.subplots(1, 4)
    name_a, name_b = map(literal, names)
    pearson = 0.0
    if all(values.min() < values.max() for values in (x, y)):
        pearson = np.corrcoef(in_unit(x)[0], in_unit(y)[0])[0, 1]
    of_numbers = not any(map(_levels_of, (fit.f, fit.g)))
    title = f"data: |Pearson| {abs(pearson):.3f}" if of_numbers else "data"
    transformed = _draw_fit(panels, fit, (x, y), (name_a, name_b), title)
    projection.scatter(*transformed, **_point_style(len(x)))
    projection.set(
        title=f"projection: correlation {float(fit.correlation):.3f}",
        xlabel=f"f({name_a})",
        ylabel=f"g({name_b})",
    )
    return figure


def plot_given(
    columns: tuple[np.ndarray, np.ndarray],
    left: tuple[np.ndarray, np.ndarray],
    transformed: tuple[np.ndarray, np.ndarray],
    names: Sequence[str],
) -> Figure:
    """Draw what given variables leave of each of two others along the other, and f and g of it.

    Args:
      columns: the two variables, ``(n,)`` each: numbers, or positions of levels.
      left: residuals of their ranks, in standard deviations.
      transformed: transformations of the residuals that correlate most.
      names: of the variables; shown as they are, never read as markup.

    Raises:
      ImportError: without matplotlib.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.plotting import plot_given
      >>> a, b = np.random.default_rng(0).normal(size=(2, 100))
      >>> figure = plot_given((a, b), (a, b), (a, b), ("a", "b"))
    """
    figure = _new_figure(10, 3.4)
    *panels, projection = figure.subplots(1, 3)
    a, b = map(literal, names)
    for axes, side, by, of in ((panels[0], 0, a, b), (panels[1], 1, b, a)):
        along = columns[side], left[1 - side]
        axes.scatter(*along, **_point_style(len(along[0])))
        _draw_medians(axes, along)
        axes.set(title=f"what is left of {of}", xlabel=by, ylabel=f"ranks of {of} (sd 1)")
    projection.scatter(*transformed, **_point_style(len(transformed[0])))
    correlation = np.corrcoef(*transformed)[0, 1]
    projection.set(title=f"projection: correlation {correlation:.3f}", xlabel="f", ylabel="g")
    return figure


def _new_figure(width: float, height: float) -> Figure:
    figure: Figure = require("matplotlib.figure").Figure(
        figsize=(width, height), layout="constrained"
    )
    return figure


def _point_style(rows: int) -> dict[str, Any]:
    """Return the style of a scatter plot of so many points."""
    size = 20 * min(1.0, (500 / rows) ** 0.5)
    return {"s": size, "alpha": 0.6, "linewidths": 0, "color": "C0"}


def _draw_fit(
    panels: Sequence[Axes],
    fit: Any,
    columns: tuple[np.ndarray, np.ndarray],
    names: tuple[str, str],
    title: str,
) -> list[np.ndarray]:
    """Draw two columns and their transformations; return the transformed columns."""
    data, *curves = panels
    data.scatter(*columns, **_point_style(len(columns[0])))
    if not any(map(_levels_of, (fit.f, fit.g))):
        _draw_medians(data, columns)
    data.set(title=title, xlabel=names[0], ylabel=names[1])
    _name_levels(data.xaxis, fit.f)
    _name_levels(data.yaxis, fit.g)
    transformed = []
    for axes, transform, x, name, letter in zip(
        curves, (fit.f, fit.g), columns, names, "fg", strict=True
    ):
        grid = np.linspace(x.min(), x.max(), 200)
        transformed.append(np.asarray(transform(x)))
        axes.scatter(x, transformed[-1], s=6, alpha=0.3, linewidths=0, color="C0")
        if not _levels_of(transform):
            axes.plot(grid, np.asarray(transform(grid)), color="C1", linewidth=2)
            shape = Shape.of(x, transformed[-1])
            for turn in shape.turns:
                axes.axvline(shape.points[turn], color="gray", linewidth=0.8, linestyle=":")
        axes.set(title=f"copula transformation {letter}", xlabel=name, ylabel=f"{letter}({name})")
        _name_levels(axes.xaxis, transform)
    return transformed


def _levels_of(transform: Any) -> Sequence[str]:
    """Return the levels of a category that is transformed; none of a number."""
    levels: Sequence[str] = getattr(transform, "levels", ())
    return levels


def _name_levels(axis: Any, transform: Any) -> None:
    """Write the levels of a category along an axis."""
    labels = [literal(level, MAX_TICK_NAME) for level in _levels_of(transform)]
    if 0 < len(labels) <= MAX_ANNOTATED:
        axis.set_ticks(range(len(labels)), labels, fontsize=TICK_POINTS)


def _draw_medians(axes: Axes, columns: tuple[np.ndarray, np.ndarray]) -> None:
    """Draw the medians of the second column in bins of the first, with 95% bands."""
    points = np.array(conditional_medians(*columns)).reshape(-1, 4)
    if len(points) > 1:
        x, median, low, high = points.T
        axes.fill_between(x, low, high, color="C1", alpha=0.25, linewidth=0)
        axes.plot(x, median, color="C1", linewidth=1.5)


def conditional_medians(a: np.ndarray, b: np.ndarray) -> list[tuple[float, float, float, float]]:
    """Return the medians of b in bins of a, as `plot_fit` draws them.

    The ends of the bins, at most 20, are quantiles of a, denser in its tails: of n rows the outer
    bins have some 10 or more.

    Args:
      a, b: finite numbers ``(n,)``.

    Returns:
      For each bin of at least two rows, the median of a, the median of b, and the order statistics
      between which the latter is with 95%.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.plotting import conditional_medians
      >>> a = np.repeat([0.0, 1.0], 8)
      >>> conditional_medians(a, 3 * a)
      [(0.0, 0.0, 0.0, 0.0), (1.0, 3.0, 3.0, 3.0)]
    """
    bins = min(max(int(np.sqrt(len(a) / 4)), 3), MAX_BINS)
    order = np.argsort(a, kind="stable")
    shares = (1 - np.cos(np.pi * np.arange(1, bins) / bins)) / 2
    ends = np.unique(a[order[(shares * (len(a) - 1)).astype(int)]])
    found = []
    for inside in np.split(order, np.searchsorted(a[order], ends, side="right")):
        rows, place = len(inside), np.sort(a[inside])
        if rows < 2:
            continue
        y, half = np.sort(b[inside]), 0.98 * np.sqrt(rows)
        low, high = max(0, int(rows / 2 - half)), min(rows, int(np.ceil(rows / 2 + half))) - 1
        median = [float(z[(rows - 1) // 2] / 2 + z[rows // 2] / 2) for z in (place, y)]
        found.append((median[0], median[1], float(y[low]), float(y[high])))
    return found


def plot_correlations(
    above: ArrayLike,
    below: ArrayLike,
    names: Sequence[str],
    *,
    title: str = "HGR-KB above, |Pearson| below",
    ax: Axes | None = None,
) -> Figure:
    """Draw a heat map of two symmetric tables of correlations: above and below the diagonal.

    Args:
      above: ``(p, p)``, drawn above the diagonal, such as HGR.
      below: ``(p, p)``, drawn below it, by absolute value, such as Pearson's correlation.
      names: of the p columns; shown as they are, never read as markup, up to 160 of them.
      title: of the figure.
      ax: axes of matplotlib to draw into; default new ones.

    Returns:
      The figure, that of ``ax`` if it is given.

    Raises:
      ImportError: without matplotlib.
      ValueError: if a table is not ``(p, p)`` for p names.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.plotting import plot_correlations
      >>> kb, pearson = np.array([[1, 0.9], [0.9, 1]]), np.array([[1, -0.2], [-0.2, 1]])
      >>> figure = plot_correlations(kb, pearson, ["age", "income"])
    """
    upper, lower = np.asarray(above, float), np.abs(np.asarray(below, float))
    expected = (len(names), len(names))
    if upper.shape != expected or lower.shape != expected:
        raise ValueError(
            f"above and below must have shape {expected}, as there are {len(names)} names;"
            f" got {upper.shape} and {lower.shape}."
        )
    both = np.where(np.tri(len(names), dtype=bool), lower, upper)
    np.fill_diagonal(both, np.nan)
    ticks = range(len(names)) if len(names) <= MAX_LABELS else ()
    labels = [literal(names[tick], MAX_TICK_NAME) for tick in ticks]
    side = min(3 + 0.22 * len(names), MAX_HEAT_MAP_INCHES)
    axes: Any = ax or _new_figure(1.2 * side, side).subplots()
    figure: Any = axes.get_figure(root=True)
    image = axes.imshow(both, vmin=0, vmax=1, cmap="viridis")
    axes.set_xticks(ticks, labels, rotation=90, fontsize=TICK_POINTS)
    axes.set_yticks(ticks, labels, fontsize=TICK_POINTS)
    axes.set_title(title)
    if len(names) <= MAX_ANNOTATED:
        _write_values(axes, both, 0.5)
    figure.colorbar(image, ax=axes, shrink=0.8, label="correlation")
    drawn: Figure = figure
    return drawn


def _write_values(axes: Axes, table: np.ndarray, middle: float) -> None:
    """Write values into the cells of a heat map, in white below ``middle``."""
    for (i, j), value in np.ndenumerate(table):
        if np.isnan(value):
            continue
        color = "white" if value < middle else "black"
        axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color=color)


def plot_predictions(
    z: ArrayLike,
    predictions: Mapping[str, Any],
    *,
    name: str = "protected attribute",
    h: int = 5,
    k: int = 5,
) -> Figure:
    """Draw predictions against a protected attribute with f and g, a row of panels a model.

    Args:
      z: the attribute ``(n,)``.
      predictions: the predictions ``(n,)`` of each model by its name, which is shown as it is.
      name: name of the attribute.
      h, k: degrees of the attribute and of the prediction, static.

    Raises:
      ImportError: without matplotlib.
      ValueError: if there is no model, or an array is not ``(n,)``.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.plotting import plot_predictions
      >>> z = np.linspace(-1, 1, 101)
      >>> figure = plot_predictions(z, {"before": z**2, "after": np.sin(9 * z)}, name="age")
    """
    import jax  # medians of bins, which pages show, do without

    from hgr_jax.measures.kb import kb_fit

    check_indexes(z=z, predictions=predictions)
    z = np.asarray(z, float)
    arrays = {model: np.asarray(values, float) for model, values in predictions.items()}
    if not arrays:
        raise ValueError("predictions must hold at least one model.")
    for model, values in arrays.items():
        if z.ndim != 1 or values.shape != z.shape:
            raise ValueError(
                f"z and predictions must have one shape (n,); got {z.shape} and, of {model!r},"
                f" {values.shape}."
            )
    figure = _new_figure(11, 3.2 * len(arrays))
    panels = figure.subplots(len(arrays), 3, squeeze=False)
    for row, (model, values) in zip(panels, arrays.items(), strict=True):
        with jax.enable_x64(True):
            fit = kb_fit(z, values, h, k)
            title = f"{literal(model)}: HGR-KB {float(fit.correlation):.3f}"
            _draw_fit(row, fit, (z, values), (literal(name), "prediction"), title)
    return figure


def plot_history(history: Any) -> Figure:
    """Draw loss, dependence with its threshold, and multipliers over the steps of a training.

    Args:
      history: a `hgr_jax.fairness.History`.

    Raises:
      ImportError: without matplotlib.
      ValueError: if the history has no evaluation.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.fairness import History
      >>> from hgr_jax.plotting import plot_history
      >>> step = np.array([25, 50])
      >>> evaluations = {"step": step, "loss_train": 9 / step, "dependence_train_z": 9.0 / step}
      >>> steps = {"step": step, "multiplier_z": step / 99}
      >>> figure = plot_history(History(steps, evaluations, {"z": 0.2}))
    """
    if not history.evaluations:
        raise ValueError("the history is empty: nothing has been trained yet.")
    figure = _new_figure(11, 3.2)
    loss, dependence, multiplier = figure.subplots(1, 3)
    at = history.evaluations["step"]
    loss.plot(at, history.evaluations["loss_train"], color="C0")
    for i, name in enumerate(history.thresholds):
        column = history.evaluations[f"dependence_train_{name}"]
        dependence.plot(at, column, color=f"C{i % 10}", label=literal(name))
    for i, (name, threshold) in enumerate(history.thresholds.items()):
        if threshold is not None:
            dependence.axhline(threshold, color=f"C{i % 10}", linewidth=0.8, linestyle=":")
            column = history.steps.get(f"multiplier_{name}")
            if column is not None:
                at_steps = history.steps["step"]
                multiplier.plot(at_steps, column, color=f"C{i % 10}", label=literal(name))
    loss.set(title="loss", xlabel="step")
    measures = ", ".join(dict.fromkeys(history.measures.values())) or "dependence"
    dependence.set(title=f"{measures} (dotted: threshold)", xlabel="step", ylim=(0, 1))
    multiplier.set(title="multiplier", xlabel="step")
    for axes in (loss, dependence, multiplier):
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8)
    return figure


def literal(name: str, length: int = MAX_NAME) -> str:
    """Shorten a name to ``length``, and escape it so that matplotlib does not read mathematics."""
    text = "".join(c if c.isprintable() else " " for c in str(name))
    return shortened(text, length).replace("$", r"\$")
