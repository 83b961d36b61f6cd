"""``hgr-jax pair``, and the scan of the demo: show one pair in words and a picture."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats
from hgr_jax._optional import require
from hgr_jax._texts import pvalue_as_text
from hgr_jax.cli.inputs import check_numbers
from hgr_jax.cli.options import ScanOptions
from hgr_jax.cli.outputs import print_messages, save_picture, unused_path
from hgr_jax.cli.scan import report_scan
from hgr_jax.core.fits import KBFit, Status
from hgr_jax.core.ranks import LEAST_ROWS
from hgr_jax.inference.hgr_fits import HGRFit, hgr_fit
from hgr_jax.inference.independence import independence_test
from hgr_jax.inference.resampling import cross_fitted
from hgr_jax.measures import kb, kb_fit, sk_fit, spearman
from hgr_jax.plotting import plot_fit
from hgr_jax.scanning.api import scan
from hgr_jax.scanning.findings import law_in_words, spearman_interval
from hgr_jax.scanning.remarks import ExaminedPair, RemarkFinder
from hgr_jax.scanning.request import Categories
from hgr_jax.scanning.result import Scan
from hgr_jax.tables.columns import Frame
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.files import read_table
from hgr_jax.tables.levels import Category
from hgr_jax.tables.reading import Reading

MIN_ROWS_TO_SPLIT = 20

LEVELS_LISTED = 100
"""Largest number of levels of a category that are printed."""

MAX_PVALUE = 0.05
"""Largest p-value of a pair on which remarks are printed."""

NULL = "mean correlation of as many functions, if the columns were independent"

LEAST_SHOWN = 0.001
"""Smallest correlation of a further pair of functions that is printed."""

MEANS_LISTED = 10
"""Largest number of conditional means that are printed."""


def wine() -> dict[str, NDArray[Any]]:
    """Return the wine table that scikit-learn ships: 13 measurements of 178 wines, and cultivars.

    In another order, as that of the table is by cultivar.
    """
    bunch = require("sklearn.datasets").load_wine()
    order = np.random.default_rng(0).permutation(len(bunch.data))
    names, columns = map(str, bunch.feature_names), np.asarray(bunch.data, float)[order].T
    table: dict[str, NDArray[Any]] = dict(zip(names, columns, strict=True))
    return table | {"cultivar": np.array(["A", "B", "C"], object)[bunch.target[order]]}


def report_scan_demo(settings: ScanOptions, folder: Path) -> None:
    """Scan a real table, and describe the first pair that is not monotone."""
    table = wine()
    result = report_scan(table, "wine", settings, folder)
    first = result.findings().not_monotone[0]
    print(f"\nThe first that is not monotone: {first.a} and {first.b}\n")
    a, b = table[first.a], table[first.b]
    fit = _fit_columns(a, b, settings.h, settings.k)
    _print_transformations(fit, (first.a, first.b), a, b)
    print()
    names = (first.a, first.b)
    print(save_picture(lambda: plot_fit(fit, a, b, names=names), folder / "top_pair.png"))


def report_pair(
    path: Path,
    names: tuple[str, str],
    options: ScanOptions,
    folder: Path,
    reading: Reading,
) -> None:
    """Print the measures and transformations of two columns of a file, and save a picture.

    HGR; with ``h`` or ``k``, HGR-KB at these degrees.  With ``given``, what they have in common
    beyond these columns, without a picture.
    """
    h, k = options.h, options.k
    needed = (*names, *options.given, *options.row_columns)
    reading = dataclasses.replace(reading, columns=needed)
    frame = read_table(path, reading).in_days()
    for name in names:
        if frame.missing(name).all():
            raise TableError(f"{frame.source}: every value of column {name!r} is missing")
    check_numbers(frame, (*names, *options.given), needed=names)
    if options.given:
        _report_given(frame, names, options)
        return
    if any(map(frame.is_text, names)):
        _report_categories(frame, names, options, folder)
        return
    a, b = map(frame.column, names)
    usable = np.isfinite(a) & np.isfinite(b)
    a, b, rows = a[usable], b[usable], int(usable.sum())
    _check_rows_of(frame, names, rows, "number", LEAST_ROWS if h is None and k is None else 2)
    fit = _fit_columns(a, b, h, k)
    # Of rows in an order or in groups, the p-value is that of a scan.
    dependent = _scan_of(frame, names, options) if options.order or options.groups else None
    drawn = _save_fit(fit, a, b, names, folder)  # before printing: it may not be possible
    notes = frame.notes if dependent is None else dependent.notes
    _print_heading(frame, names, rows, notes)
    if isinstance(fit, HGRFit):
        test = independence_test(a, b)
        pvalue = test.pvalue if dependent is None else float(dependent.pvalue[0, 1])
        # 0 is in the interval exactly where this test does not reject.
        low, high = dataclasses.replace(fit, _pvalue=pvalue).interval()
        _print_measure("HGR", fit.correlation, f"95% interval {low:.3f} to {high:.3f}")
        _print_pvalue(pvalue, law_in_words({} if dependent is None else dependent.settings))
        if dependent is None:
            _print_measure("chance", test.null_mean, NULL)
        rank_correlation = float(abs(spearman(a, b)))
        ends = "95% interval {:.3f} to {:.3f}".format(*spearman_interval(rank_correlation, rows))
        _print_measure("|Spearman|", rank_correlation, "" if "nan" in ends else ends)
    else:
        of_a, of_b = h or 5, k or 5
        single = sk_fit(a, b, max(of_a, of_b))
        _print_measure(f"HGR-KB({of_a}, {of_b})", float(fit.correlation))
        _print_measure(f"HGR-SK({max(of_a, of_b)})", float(single.correlation), single.explains)
        if rows >= MIN_ROWS_TO_SPLIT:
            tested = cross_fitted(a, b, of_a, of_b, key=jax.random.key(0))
            _print_measure("held out", tested, "KB on rows that f and g were not fitted to")
    _print_measure("|Pearson|", float(kb(a, b, 1, 1)))
    if isinstance(fit, KBFit):
        print(f"\n{fit.message}")
    print()
    if names[0] != names[1]:
        alone = scan(_columns_of(frame, names)) if dependent is None else dependent
        _print_remarks(alone, names)
    _print_transformations(fit, [printable(name) for name in names], a, b)
    print(f"\n{drawn}")


def _save_fit(fit: HGRFit | KBFit, a: Floats, b: Floats, names: Sequence[str], folder: Path) -> str:
    """Save the picture of a pair under a new name, and return the line that says where."""
    return save_picture(lambda: plot_fit(fit, a, b, names=names), unused_path(folder / "pair.png"))


def _columns_of(frame: Frame, names: Sequence[str]) -> Frame:
    return dataclasses.replace(frame, columns={name: frame.column(name) for name in names})


def _report_given(frame: Frame, names: tuple[str, str], options: ScanOptions) -> None:
    """Print what two columns have in common beyond others."""
    given, h, k = options.given, options.h, options.k
    result = _scan_of(frame, (*names, *given), options)
    rows = int(result.n_obs[0, 1])
    _check_rows_of(frame, names, rows, "value")
    _print_heading(frame, names, rows, result.notes)
    pair = result[names]
    words = f"given {', '.join(map(printable, given))}"
    _print_measure(_measure_of(h, k), pair.correlation, words)
    print(f"{'p-value':<12} {pvalue_as_text(pair.pvalue)}   of independence {words}")
    for name, value in (("|Spearman|", pair.spearman), ("|Pearson|", pair.pearson)):
        if not np.isnan(value):
            _print_measure(name, value, words)
    print()
    _print_remarks(result, names)


def _measure_of(h: int | None, k: int | None) -> str:
    return "HGR" if h is None and k is None else f"HGR-KB({h or 5}, {k or 5})"


def _scan_of(frame: Frame, names: Sequence[str], options: ScanOptions) -> Scan:
    """Scan some columns; raise for one that is left out, or a pair without a value."""
    named = (*names, *options.row_columns)
    if len(set(named)) < len(named):
        raise TableError(
            f"{frame.source}: expected columns that differ, got {', '.join(map(printable, named))}"
        )
    try:
        result = scan(
            _columns_of(frame, named),
            h=options.h,
            k=options.k,
            given=list(options.given) or None,
            order=options.row_order,
            groups=options.groups,
            categories=Categories(missing="level" if options.missing_level else None),
        )
    except ValueError as error:
        raise TableError(f"{frame.source}: {error}") from error
    for name, reason in result.skipped.items():
        if name not in options.given:
            raise TableError(f"{frame.source}: column {name!r} cannot be used: {printable(reason)}")
    if names[:2] not in result:
        raise TableError(f"{frame.source}: {names[0]!r} and {names[1]!r} have no value together")
    return result


def _print_remarks(result: Scan, names: tuple[str, str]) -> None:
    """Print further modes, the most influential row, conditional means, and remarks."""
    if names not in result:
        return
    pair = result[names]
    examined = ExaminedPair.of(result, names, pair.correlation)
    if examined is None:
        return
    modes = [mode for mode in examined.pair.modes()[1:4] if mode >= LEAST_SHOWN]
    if modes:
        print(f"further pairs of functions: {', '.join(f'{mode:.3f}' for mode in modes)}")
    influence = examined.details.influence.in_table(result.data)
    if not np.isnan(influence.share):
        print(
            f"most influential row: {influence.row}, {influence.share:.0%} of the correlation;"
            f" {influence.value_without:.3f} without it"
        )
    found = RemarkFinder(result).remarks(examined) if pair.pvalue <= MAX_PVALUE else []
    for remark in found:
        print(f"remark: {printable(remark.text)}" + (" (explains it)" if remark.explains else ""))
    if not result.settings["given"]:
        for (a, x), (b, y) in itertools.permutations(
            zip(names, examined.pair.columns, strict=True)
        ):
            if result.category(b) is None:
                _print_means(a, x, b, y, result.category(a))
    print()


def _print_means(a: str, x: Floats, b: str, y: Floats, category: Category | None) -> None:
    """Print the means of a number in the levels of a category, or in fifths of another number."""
    print(f"mean of {printable(b)}, with its standard error, given {printable(a)}:")
    if category is None:
        codes = np.searchsorted(np.unique(np.quantile(x, (0.2, 0.4, 0.6, 0.8))), x)
    else:
        codes = x.astype(int)
    for code in np.unique(codes)[:MEANS_LISTED]:
        inside = codes == code
        low, high = x[inside].min(), x[inside].max()
        label = f"{low:.4g} to {high:.4g}" if category is None else category.levels[code]
        error = y[inside].std() / np.sqrt(inside.sum())
        print(f"  {y[inside].mean():>10.4g} +- {error:.2g}  {printable(label)}")


def _fit_columns(a: Floats, b: Floats, h: int | None, k: int | None) -> HGRFit | KBFit:
    """Fit HGR, or HGR-KB where a degree is asked for."""
    if h is None and k is None:
        return hgr_fit(a, b)
    return kb_fit(a, b, h or 5, k or 5)


def _print_measure(name: str, value: float, remark: str = "") -> None:
    print(f"{name:<12} {value:.4f}" + (f"   {remark}" if remark else ""))


def _print_pvalue(pvalue: float, law: str) -> None:
    print(f"{'p-value':<12} {pvalue_as_text(pvalue)}   of independence, {law}")


def _report_categories(
    frame: Frame, names: tuple[str, str], options: ScanOptions, folder: Path
) -> None:
    """Report a pair with a category, as `report_pair` does."""
    h, k = options.h, options.k
    result = _scan_of(frame, names, options)
    rows = int(result.n_obs[0, 1])
    _check_rows_of(frame, names, rows, "value")
    fit = result.fit(*names)
    a, b = (result.values(name) for name in names)
    present = np.isfinite(a) & np.isfinite(b)
    a, b = a[present], b[present]
    drawn = _save_fit(fit, a, b, names, folder)
    _print_heading(frame, names, rows, result.notes)
    interval = "95% interval {:.3f} to {:.3f}".format(*result.interval(*names))
    is_hgr = result.settings["measure"] == "hgr" and "nan" not in interval
    _print_measure(_measure_of(h, k), result.correlation[0, 1], interval if is_hgr else "")
    _print_pvalue(result.pvalue[0, 1], law_in_words(result.settings))
    print()
    _print_remarks(result, names)
    categories = [result.category(name) for name in names]
    _print_values(fit, names, (a, b), categories)
    print(f"\n{drawn}")


def _check_rows_of(
    frame: Frame, names: Sequence[str], rows: int, value: str, least: int = 2
) -> None:
    """Raise for too few usable rows."""
    if rows < least:
        raise TableError(
            f"{frame.source} has {rows} row(s) with a {value} in both {names[0]!r} and"
            f" {names[1]!r}; at least {least} are needed"
        )


def _print_heading(frame: Frame, names: Sequence[str], rows: int, notes: Mapping[str, str]) -> None:
    """Print the names, the number of usable rows and the notes."""
    dropped = frame.rows - rows
    left_out = f", {dropped} with a missing or infinite value left out" if dropped else ""
    print(f"{printable(names[0])} and {printable(names[1])}: {rows} rows{left_out}")
    print_messages("note", notes)
    print()


def _print_transformations(fit: HGRFit | KBFit, names: Sequence[str], a: Floats, b: Floats) -> None:
    degrees = np.asarray(fit.degrees)
    if isinstance(fit, HGRFit):
        _print_values(fit, names, (a, b), (None, None))
        print(f"functions of ranks: {degrees[0]} and {degrees[1]}")
        return
    print(f"f = {fit.f.formula('a')}\n    with a = {names[0]}")
    print(f"g = {fit.g.formula('b')}\n    with b = {names[1]}")
    print(f"effective degrees: {degrees[0]} and {degrees[1]}")
    if int(fit.status) == Status.ONE_ROW:
        row = int(fit.influential_row)
        print(
            f"one row alone, {names[0]} {a[row]:g} and {names[1]} {b[row]:g}, makes up"
            f" {float(fit.leverage):.0%} of the correlation: look at the picture"
        )


def _print_values(
    fit: HGRFit | KBFit,
    names: Sequence[str],
    columns: Sequence[Floats],
    categories: Sequence[Category | None],
) -> None:
    """Print values of both transformations: at quantiles of a number, and at levels."""
    for letter, transform, name, column, category in zip(
        "fg", (fit.f, fit.g), names, columns, categories, strict=True
    ):
        if category is None:
            points = np.unique(np.quantile(column, (0, 0.1, 0.25, 0.5, 0.75, 0.9, 1)))
            labels = [f"{x:.4g}" for x in points]
        else:
            points = np.unique(column)
            labels = [printable(category.levels[int(level)]) for level in points]
        print(f"{letter} of {printable(name)}:")
        heights = np.asarray(transform(points))
        for label, height in zip(labels[:LEVELS_LISTED], heights, strict=False):
            print(f"  {height:>7.3f}  {label}")
        if len(labels) > LEVELS_LISTED:
            print(f"  ... and {len(labels) - LEVELS_LISTED:,} other levels")
