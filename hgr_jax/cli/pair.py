"""``hgr-jax pair``, and the scan of the demo: one pair in words and a picture."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats
from hgr_jax._optional import require
from hgr_jax.cli.outputs import free_path, save_shown
from hgr_jax.cli.scan import ScanOptions, report_scan
from hgr_jax.core.fits import KBFit, Status
from hgr_jax.inference.resampling import cross_fitted
from hgr_jax.measures import kb, kb_fit, sk_fit
from hgr_jax.plotting import plot_fit
from hgr_jax.scanning.api import scan
from hgr_jax.scanning.result import FALSE_DISCOVERY_RATE
from hgr_jax.tables.columns import Frame
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.files import Reading, read_any

MIN_ROWS_TO_SPLIT = 20

LEVELS_LISTED = 100
"""Heights that are printed of a category: more are no text that anyone reads."""


def breast_cancer() -> dict[str, NDArray[np.float64]]:
    """Return the breast-cancer table that scikit-learn ships: 30 measurements of 569 patients."""
    bunch = require("sklearn.datasets", "cli").load_breast_cancer()
    return dict(zip(map(str, bunch.feature_names), np.asarray(bunch.data, float).T, strict=True))


def report_scan_demo(settings: ScanOptions, folder: Path) -> None:
    """Scan a real table; the pairs that Pearson misses first, and the first of them in words."""
    table = breast_cancer()
    found = report_scan(table, "breast cancer", settings, folder)
    sure = [
        pair
        for pair in found.top(len(found), by="rank_excess")
        if pair.adjusted_pvalue <= FALSE_DISCOVERY_RATE
    ]
    first = sure[0]
    print(f"\nThe first of them that is more than chance: {first.a} and {first.b}\n")
    a, b = table[first.a], table[first.b]
    fit = kb_fit(a, b, settings.h, settings.k)
    _say_transformations(fit, (first.a, first.b), a, b)
    print()
    save_shown(lambda: plot_fit(fit, a, b, names=(first.a, first.b)), folder / "top_pair.png")


def report_pair(
    path: Path,
    names: tuple[str, str],
    h: int,
    k: int,
    folder: Path,
    reading: Reading | None = None,
) -> None:
    """Print the measures of two columns of a file, the transformations in words, a picture."""
    reading = dataclasses.replace(reading or Reading(), columns=names)
    frame = read_any(path, reading).in_days()
    for name in names:
        if frame.missing(name).all():
            raise TableError(f"{frame.source}: every value of column {name!r} is missing")
    if any(map(frame.is_text, names)):
        _report_categories(frame, names, h, k, folder)
        return
    a, b = map(frame.column, names)
    usable = np.isfinite(a) & np.isfinite(b)
    rows, dropped = int(usable.sum()), int((~usable).sum())
    if rows < 2:
        raise TableError(
            f"{frame.source} has {rows} row(s) with a number in both"
            f" {names[0]!r} and {names[1]!r}; at least 2 are needed"
        )
    a, b = a[usable], b[usable]
    shown = (printable(names[0]), printable(names[1]))
    left_out = f", {dropped} with a missing or infinite value left out" if dropped else ""
    print(f"{shown[0]} and {shown[1]}: {rows} rows{left_out}")
    _say_notes(frame.notes)
    fit = kb_fit(a, b, h, k)
    single = sk_fit(a, b, max(h, k))
    print(f"{f'HGR-KB({h}, {k})':<12} {float(fit.correlation):.4f}")
    print(f"{f'HGR-SK({max(h, k)})':<12} {float(single.correlation):.4f}   {single.explains}")
    print(f"{'|Pearson|':<12} {float(kb(a, b, 1, 1)):.4f}")
    if rows >= MIN_ROWS_TO_SPLIT:
        tested = cross_fitted(a, b, h, k, key=jax.random.key(0))
        print(f"{'held out':<12} {tested:.4f}   KB on rows that f and g were not fitted to")
    print(f"\n{fit.message}\n")
    _say_transformations(fit, shown, a, b)
    print()
    save_shown(lambda: plot_fit(fit, a, b, names=names), free_path(folder / "pair.png"))


def _report_categories(frame: Frame, names: tuple[str, str], h: int, k: int, folder: Path) -> None:
    """Print what `report_pair` does of two columns of which one is a category, or both are."""
    if names[0] == names[1]:
        raise TableError(
            f"{frame.source}: {names[0]!r} holds text; expected another column beside it"
        )
    pair = dataclasses.replace(frame, columns={name: frame.column(name) for name in names})
    found = scan(pair, h=h, k=k, test=None)
    for name, reason in found.skipped.items():
        raise TableError(f"{frame.source}: column {name!r} cannot be used: {printable(reason)}")
    rows, shown = int(found.n_obs[0, 1]), [printable(name) for name in names]
    if rows < 2:
        raise TableError(
            f"{frame.source} has {rows} row(s) with a value in both {names[0]!r} and {names[1]!r};"
            " at least 2 are needed"
        )
    dropped = frame.rows - rows
    left_out = f", {dropped} with a missing or infinite value left out" if dropped else ""
    print(f"{shown[0]} and {shown[1]}: {rows} rows{left_out}")
    _say_notes(found.notes)
    print(f"{f'HGR-KB({h}, {k})':<12} {found.correlation[0, 1]:.4f}\n")
    fit = found.fit(*names)
    values = [found.values(name) for name in names]
    categories = [found.category(name) for name in names]
    there = np.isfinite(values[0]) & np.isfinite(values[1])
    for letter, transform, name, column, category in zip(
        "fg", (fit.f, fit.g), names, values, categories, strict=True
    ):
        if category is None:
            low, high = column[there].min(), column[there].max()
            grid = np.linspace(low, high, 5)
            heights = zip((f"{x:.4g}" for x in grid), np.asarray(transform(grid)), strict=True)
        else:
            levels = np.unique(column[there]).astype(int)
            heights = zip(
                (category.levels[level] for level in levels),
                np.asarray(transform(levels.astype(float))),
                strict=True,
            )
        print(f"{letter} of {printable(name)}:")
        for level, height in itertools.islice(heights, LEVELS_LISTED):
            print(f"  {height:>7.3f}  {printable(level)}")
        if category is not None and len(levels) > LEVELS_LISTED:
            print(f"  ... and {len(levels) - LEVELS_LISTED:,} other levels")
    print()
    a, b = (column[there] for column in values)
    save_shown(lambda: plot_fit(fit, a, b, names=names), free_path(folder / "pair.png"))


def _say_notes(notes: Mapping[str, str]) -> None:
    for name, note in notes.items():
        print(f"note: {printable(name)}: {printable(note)}")
    print()


def _say_transformations(fit: KBFit, names: Sequence[str], a: Floats, b: Floats) -> None:
    print(f"f = {fit.f.formula('a')}\n    with a = {names[0]}")
    print(f"g = {fit.g.formula('b')}\n    with b = {names[1]}")
    degrees = np.asarray(fit.degrees)
    print(f"effective degrees: {degrees[0]} and {degrees[1]}")
    if int(fit.status) == Status.ONE_ROW:
        row = int(fit.influential_row)
        print(
            f"one row alone, {names[0]} {a[row]:g} and {names[1]} {b[row]:g}, makes up"
            f" {float(fit.leverage):.0%} of the correlation: look at the picture"
        )
