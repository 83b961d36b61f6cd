"""Pictures of fits and of tables of correlations (matplotlib, the extra ``plot``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hgr_jax.copula import Fit
from hgr_jax.extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_fit(fit: Fit, a: Any, b: Any, *, names: Sequence[str] = ("a", "b")) -> Figure:
    """A fitted pair in four panels: the data, f, g, and the transformed data.

    Args:
      fit: of `hgr_jax.kb_fit` or `hgr_jax.sk_fit`, on two variables ``(n,)``, not a batch.
      a, b: the data to draw, ``(n,)``; rows that are not finite are left out.
      names: of a and of b; shown as they are, never read as markup.

    Returns:
      A matplotlib figure; ``figure.savefig("fit.png")`` keeps it.

    Raises:
      ImportError: without matplotlib, naming the command that installs it.
      ValueError: if ``a`` and ``b`` are not ``(n,)``, or hold no finite row.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> from hgr_jax.plotting import plot_fit
      >>> a = jnp.linspace(-1, 1, 101)
      >>> figure = plot_fit(hgr_jax.kb_fit(a, a**2), a, a**2, names=("a", "a squared"))
    """
    a, b = np.asarray(a), np.asarray(b)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"a and b must have one shape (n,); got {a.shape} and {b.shape}.")
    if len(names) != 2:
        raise ValueError(f"names must be two, of a and of b; got {names!r}.")
    finite = np.isfinite(a) & np.isfinite(b)
    if not finite.any():
        raise ValueError("a and b have no row of two finite values to draw.")
    a, b = a[finite].astype(np.float64), b[finite].astype(np.float64)
    figure = require("matplotlib.figure", "plot").Figure(figsize=(13, 3.4), layout="constrained")
    data, left, right, projection = figure.subplots(1, 4)
    name_a, name_b = (literal(name) for name in names)
    size = 20 * min(1.0, (500 / len(a)) ** 0.5)
    points = {"s": size, "alpha": 0.6, "linewidths": 0, "color": "C0"}

    pearson = np.corrcoef(_scaled(a), _scaled(b))[0, 1] if np.ptp(a) > 0 < np.ptp(b) else 0.0
    data.scatter(a, b, **points)
    data.set(title=f"data: |Pearson| {abs(pearson):.3f}", xlabel=name_a, ylabel=name_b)
    for axes, transform, x, name, letter in (
        (left, fit.f, a, name_a, "f"),
        (right, fit.g, b, name_b, "g"),
    ):
        _draw_transform(axes, np.asarray(transform(x)), transform, x)
        axes.set(title=f"copula transformation {letter}", xlabel=name, ylabel=f"{letter}({name})")
    projection.scatter(np.asarray(fit.f(a)), np.asarray(fit.g(b)), **points)
    projection.set(
        title=f"projection: correlation {float(fit.correlation):.3f}",
        xlabel=f"f({name_a})",
        ylabel=f"g({name_b})",
    )
    return figure


def _scaled(x: np.ndarray) -> np.ndarray:
    """``x`` in units in which its square neither overflows nor vanishes."""
    return x / np.abs(x).max()


def _draw_transform(axes: Axes, values: np.ndarray, transform: Any, x: np.ndarray) -> None:
    grid = np.linspace(x.min(), x.max(), 200)
    axes.plot(grid, np.asarray(transform(grid)), color="C1", linewidth=2)
    axes.scatter(x, values, s=6, alpha=0.3, linewidths=0, color="C0")


def plot_correlations(
    kb: Any, pearson: Any, names: Sequence[str], *, title: str = "HGR-KB above, |Pearson| below"
) -> Figure:
    """Heat map of two symmetric tables of correlations: one above the diagonal, one below.

    Args:
      kb: ``(p, p)``, drawn above the diagonal.
      pearson: ``(p, p)``, drawn below it, by absolute value.
      names: of the p columns; shown as they are, never read as markup.
      title: of the figure.

    Raises:
      ImportError: without matplotlib, naming the command that installs it.
      ValueError: if a table is not ``(p, p)`` for p names.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.plotting import plot_correlations
      >>> kb, pearson = np.array([[1, 0.9], [0.9, 1]]), np.array([[1, -0.2], [-0.2, 1]])
      >>> figure = plot_correlations(kb, pearson, ["age", "income"])
    """
    kb, pearson = np.asarray(kb, float), np.abs(np.asarray(pearson, float))
    expected = (len(names), len(names))
    if kb.shape != expected or pearson.shape != expected:
        raise ValueError(
            f"kb and pearson must have shape {expected}, as there are {len(names)} names;"
            f" got {kb.shape} and {pearson.shape}."
        )
    both = np.where(np.tri(len(kb), dtype=bool), pearson, kb)
    np.fill_diagonal(both, np.nan)
    side = max(5.0, 0.28 * len(kb) + 2)
    figure = require("matplotlib.figure", "plot").Figure(
        figsize=(side + 1, side), layout="constrained"
    )
    axes = figure.subplots()
    image = axes.imshow(both, vmin=0, vmax=1, cmap="viridis")
    ticks = range(len(kb))
    axes.set_xticks(ticks, [literal(name) for name in names], rotation=90, fontsize=7)
    axes.set_yticks(ticks, [literal(name) for name in names], fontsize=7)
    axes.set_title(title)
    figure.colorbar(image, ax=axes, shrink=0.8, label="correlation")
    return figure


def literal(name: str) -> str:
    """``name`` so that matplotlib shows it and does not read it as mathematics."""
    shown = "".join(c if c.isprintable() else " " for c in str(name))
    return shown.replace("$", r"\$")
