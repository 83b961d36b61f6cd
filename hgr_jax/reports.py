"""What the command line computes and shows: a table of all pairs, and one pair in words."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hgr_jax.copula import Fit
from hgr_jax.extras import require
from hgr_jax.measures import kb, kb_fit, sk_fit
from hgr_jax.plotting import plot_correlations, plot_fit, save_figure
from hgr_jax.tables import TableError, printable, read_columns

Vector = NDArray[np.float64]

PAIRS_AT_ONCE = 64
LEAST_ROWS_TO_SPLIT = 20
DOMINANT_SHARE = 0.3


@dataclasses.dataclass(frozen=True)
class Table:
    """Named columns ``(n, p)``."""

    names: list[str]
    values: Vector


def breast_cancer() -> Table:
    """The breast-cancer table that scikit-learn ships: 30 measurements of 569 patients."""
    bunch = require("sklearn.datasets", "cli").load_breast_cancer()
    return Table([str(name) for name in bunch.feature_names], np.asarray(bunch.data, float))


def held_out(a: jax.Array, b: jax.Array, h: int, k: int) -> jax.Array:
    """Correlation of transformations on rows that they were not fitted to.

    Fitted on every other row and scored on the rest, both ways round, averaged.
    """
    first = kb_fit(a[::2], b[::2], h, k).score(a[1::2], b[1::2])
    second = kb_fit(a[1::2], b[1::2], h, k).score(a[::2], b[::2])
    return (first + second) / 2


def all_pairs(
    values: Vector, h: int, k: int, progress: Callable[[Iterable[int]], Iterable[int]]
) -> tuple[Vector, Vector]:
    """HGR-KB of every pair of columns and its `held_out` value, each ``(p, p)``, by `jax.vmap`.

    With ``h`` and ``k`` of different size, the first column of a pair is the one further left.
    """

    def measure(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.stack([kb(a, b, h, k), held_out(a, b, h, k)])

    measure_batch = jax.jit(jax.vmap(measure))
    columns = jnp.asarray(values.T)
    pairs = np.array(list(itertools.combinations(range(values.shape[1]), 2)))
    padded = np.resize(pairs, (-(-len(pairs) // PAIRS_AT_ONCE) * PAIRS_AT_ONCE, 2))
    parts = []
    for start in progress(range(0, len(padded), PAIRS_AT_ONCE)):
        first, second = padded[start : start + PAIRS_AT_ONCE].T
        parts.append(np.asarray(measure_batch(columns[first], columns[second])))
    found = np.concatenate(parts)[: len(pairs)]
    tables = np.stack([np.eye(values.shape[1])] * 2)
    tables[:, pairs[:, 0], pairs[:, 1]] = tables[:, pairs[:, 1], pairs[:, 0]] = found.T
    return tables[0], tables[1]


def report_table(table: Table, h: int, k: int, top: int, folder: Path) -> None:
    """Print the pairs whose KB most exceeds |Pearson|, the first of them in words, two pictures."""
    rows, count = table.values.shape
    print(
        f"{count * (count - 1) // 2} pairs of {count} columns, {rows} rows,"
        f" polynomials of degree {h} and {k}"
    )
    progress = functools.partial(require("tqdm", "cli").tqdm, desc="pairs", unit="batch")
    correlation, tested = all_pairs(table.values, h, k, progress)
    pearson = np.abs(np.corrcoef(table.values, rowvar=False))
    first, second = np.triu_indices(count, 1)
    order = np.argsort(pearson[first, second] - correlation[first, second], kind="stable")[:top]

    width = max(len(name) for name in table.names)
    print("\nPairs whose HGR-KB most exceeds |Pearson|\n")
    columns = f"{'KB':>6}  {'|Pearson|':>9}  {'held out':>8}"
    print(f"{'':>3}  {'column a':<{width}}  {'column b':<{width}}  {columns}")
    for rank, (i, j) in enumerate(zip(first[order], second[order], strict=True), 1):
        print(
            f"{rank:>3}  {table.names[i]:<{width}}  {table.names[j]:<{width}}"
            f"  {correlation[i, j]:>6.3f}  {pearson[i, j]:>9.3f}  {tested[i, j]:>8.3f}"
        )
    print("\nheld out: correlation on rows that the transformations were not fitted to")
    i, j = first[order[0]], second[order[0]]
    names = (table.names[i], table.names[j])
    print(f"\nThe first of them: {names[0]} and {names[1]}\n")
    fit = kb_fit(table.values[:, i], table.values[:, j], h, k)
    _say_transformations(fit, names, table.values[:, i], table.values[:, j])
    print()
    heat_map = plot_correlations(correlation, pearson, table.names)
    save_figure(heat_map, folder / "heat_map.png")
    save_figure(
        plot_fit(fit, table.values[:, i], table.values[:, j], names=names),
        folder / "top_pair.png",
    )


def report_pair(path: Path, names: tuple[str, str], h: int, k: int, folder: Path) -> None:
    """Print the measures of two columns of a file, the transformations in words, a picture."""
    a, b = read_columns(path, names)
    usable = np.isfinite(a) & np.isfinite(b)
    rows, dropped = int(usable.sum()), int((~usable).sum())
    if rows < 2:
        raise TableError(
            f"{printable(str(path))} has {rows} row(s) with a number in both"
            f" {names[0]!r} and {names[1]!r}; at least 2 are needed"
        )
    a, b = a[usable], b[usable]
    shown = (printable(names[0]), printable(names[1]))
    left_out = f", {dropped} with a missing or infinite value left out" if dropped else ""
    print(f"{shown[0]} and {shown[1]}: {rows} rows{left_out}\n")
    fit = kb_fit(a, b, h, k)
    single = sk_fit(a, b, max(h, k))
    print(f"{f'HGR-KB({h}, {k})':<12} {float(fit.correlation):.4f}")
    print(f"{f'HGR-SK({max(h, k)})':<12} {float(single.correlation):.4f}   {single.explains}")
    print(f"{'|Pearson|':<12} {float(kb(a, b, 1, 1)):.4f}")
    if rows >= LEAST_ROWS_TO_SPLIT:
        tested = float(held_out(jnp.asarray(a), jnp.asarray(b), h, k))
        print(f"{'held out':<12} {tested:.4f}   KB on rows that f and g were not fitted to")
    print(f"\n{fit.message}\n")
    _say_transformations(fit, shown, a, b)
    print()
    save_figure(plot_fit(fit, a, b, names=names), folder / "pair.png")


def _say_transformations(fit: Fit, names: Sequence[str], a: Vector, b: Vector) -> None:
    print(f"f = {fit.f.formula('a')}\n    with a = {names[0]}")
    print(f"g = {fit.g.formula('b')}\n    with b = {names[1]}")
    degrees = np.asarray(fit.degrees)
    print(f"effective degrees: {degrees[0]} and {degrees[1]}")
    parts = np.asarray(fit.f(a) * fit.g(b))
    share = parts.max() / parts.sum() if fit.correlation > 0 else 0.0
    if share > DOMINANT_SHARE and len(a) >= LEAST_ROWS_TO_SPLIT:
        print(
            f"one row alone, {names[0]} {a[parts.argmax()]:g} and {names[1]}"
            f" {b[parts.argmax()]:g}, makes up {share:.0%} of the correlation: look at the picture"
        )
