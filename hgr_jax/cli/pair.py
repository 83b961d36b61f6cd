"""``hgr-jax pair``: show two columns of a file in words and a picture."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hgr_jax._texts import pvalue_as_text
from hgr_jax.cli.options import ScanOptions
from hgr_jax.cli.outputs import check_sizes, print_messages, save_picture, unused_path
from hgr_jax.core.describe import MAX_PVALUE, NO_DEPENDENCE, number_in_words
from hgr_jax.core.status import Status
from hgr_jax.plotting import plot_fit, plot_given
from hgr_jax.scanning.api import scan
from hgr_jax.scanning.facts import TableFacts
from hgr_jax.scanning.fits import HostPair
from hgr_jax.scanning.remarks import ExaminedPair, RemarkFinder
from hgr_jax.scanning.request import Categories
from hgr_jax.scanning.result import Scan
from hgr_jax.tables.columns import Frame
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.files import read_table
from hgr_jax.tables.reading import Reading

MEANS_LISTED = 10
"""Largest number of conditional means that are printed."""


def report_pair(
    path: Path,
    names: tuple[str, str],
    options: ScanOptions,
    folder: Path,
    reading: Reading,
) -> None:
    """Print the measures of two columns of a file, and save a picture.

    HGR; with ``h`` or ``k``, HGR-KB at these degrees.  With ``given``, what they have in common
    beyond these columns; HGR-KB of that has no picture.
    """
    needed = (*names, *options.given, *options.row_columns)
    frame = read_table(path, dataclasses.replace(reading, columns=needed))
    check_sizes(frame, (*names, *options.given))
    if options.h is None and options.k is None:
        _report_columns(frame, names, options, folder)
        return
    import jax  # HGR is estimated without it

    with jax.enable_x64(True):
        _report_columns(frame, names, options, folder)


def _report_columns(
    frame: Frame, names: tuple[str, str], options: ScanOptions, folder: Path
) -> None:
    result = _scan_columns(frame, (*names, *options.given), options)
    pair, rows = result[names], int(result.n_obs[0, 1])
    is_kb = options.h is not None or options.k is not None
    value = HostPair.of_ranks(result, *names).value if is_kb else pair.correlation
    examined = ExaminedPair.of(result, names, value)
    picture = unused_path(folder / "pair.png")
    kernels: Any = None
    drawn = ""
    # Before printing: it may not be possible.
    if not options.given:
        fit = result.fit(*names)
        both = np.stack([result.values(name) for name in names])
        a, b = both[:, np.isfinite(both).all(axis=0)]
        drawn = save_picture(lambda: plot_fit(fit, a, b, names=names), picture)
        kernels = fit if is_kb else None
    elif examined is not None and not is_kb:
        sides = examined.pair.columns, examined.left, (examined.f, examined.g)
        drawn = save_picture(lambda: plot_given(*sides, names), picture)
    elif is_kb:
        drawn = "no picture: given other columns there is one of HGR alone, without --h and --k"

    dropped = frame.rows - rows
    left_out = f", {dropped} with a missing or infinite value left out" if dropped else ""
    print(f"{printable(names[0])} and {printable(names[1])}: {rows} rows{left_out}")
    print_messages("note", result.notes)
    print()
    given = ", ".join(map(printable, options.given))
    remarks = [f"given {given}"] if given else []
    measure = "HGR"
    if is_kb:
        measure = f"HGR-KB({options.h or 5}, {options.k or 5})"
    else:
        low, high = result.interval(*names)
        remarks += [] if np.isnan(low) else [f"95% interval {low:.3f} to {high:.3f}"]
    _print_measure(measure, pair.correlation, ", ".join(remarks))
    if kernels is not None and not any(map(frame.is_text, names)):
        from hgr_jax.measures.sk import sk_fit  # needs JAX

        degree = max(options.h or 5, options.k or 5)
        single = sk_fit(a, b, degree)
        _print_measure(f"HGR-SK({degree})", float(single.correlation), single.explains)
    law = f" given {given}" if given else f", {result.settings['law']}"
    print(f"{'p-value':<12} {pvalue_as_text(pair.pvalue)}   of independence{law}")
    for name, value in (("|Spearman|", pair.spearman), ("|Pearson|", pair.pearson)):
        if not np.isnan(value):
            _print_measure(name, value)
    if kernels is not None:
        print(f"\n{kernels.message}")
        if int(kernels.status) == Status.ONE_ROW:
            row = int(kernels.influential_row)
            print(f"that row: {printable(names[0])} {a[row]:g}, {printable(names[1])} {b[row]:g}")
    print()
    if examined is not None:
        _print_remarks(result, examined)
    if kernels is not None and not any(map(frame.is_text, names)):
        _print_polynomials(kernels, names)
    if drawn:
        print(f"\n{drawn}")


def _scan_columns(frame: Frame, names: Sequence[str], options: ScanOptions) -> Scan:
    """Scan columns, the pair first; raise for one that is left out, or a pair without a value."""
    named = (*names, *options.row_columns)
    if len(set(named)) < len(named):
        raise TableError(
            f"{frame.source}: expected columns that differ, got {', '.join(map(printable, named))}"
        )
    try:
        result = scan(
            dataclasses.replace(frame, columns={name: frame.column(name) for name in named}),
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
        raise TableError(
            f"{frame.source}: {names[0]!r} and {names[1]!r} share too few rows for a value, or one"
            " of them is constant in these"
        )
    return result


def _print_measure(name: str, value: float, remark: str = "") -> None:
    print(f"{name:<12} {value:.4f}" + (f"   {remark}" if remark else ""))


def _print_remarks(result: Scan, examined: ExaminedPair) -> None:
    """Print the sentence, the most influential row, remarks, and conditional means."""
    names = examined.names
    rejected = result[names].pvalue <= MAX_PVALUE
    if sentence := examined.sentence(result):
        print(printable(sentence) if rejected else NO_DEPENDENCE)
    influence = examined.details.influence.in_table(result.data)
    if not np.isnan(influence.share):
        said = f"most influential row: {influence.row}, {influence.share:.0%} of the correlation"
        without = influence.value_without
        print(said if np.isnan(without) else f"{said}; {without:.3f} without it")
    found = RemarkFinder(result, TableFacts(result)).remarks(examined) if rejected else []
    for remark in found:
        print(f"remark: {printable(remark.text)}" + (" (explains it)" if remark.explains else ""))
    for side in (0, 1):
        if result.category(names[1 - side]) is None:
            _print_means(examined, side, result)
    if rejected and result.settings["measure"] == "hgr":
        for line in examined.in_full(result):
            print(printable(line))
    print()


def _print_means(examined: ExaminedPair, side: int, result: Scan) -> None:
    """Print the means of a number in the levels of a category, or in bins of another number.

    Bins are its ends and the neighbourhoods of its turns, or fifths of the rows.  Given other
    columns, the means of what these leave of its ranks.
    """
    a, b = (printable(examined.names[i]) for i in (side, 1 - side))
    x, y = (examined.pair.columns[i] for i in (side, 1 - side))
    category, what, forms = result.category(examined.names[side]), b, examined.units(result)[1]
    form, form_of_mean = forms[side], forms[1 - side]
    if result.settings["given"]:
        given = ", ".join(map(printable, result.settings["given"]))
        what, y = f"what {given} leaves of the ranks of {b} (sd 1)", examined.left[1 - side]
        form_of_mean = number_in_words
    print(f"mean of {what}, with its standard error, given {a}:")
    if category is None:
        shape = examined.means[side].along(x)
        edges = shape.edges if shape.turns else np.quantile(x, (0.2, 0.4, 0.6, 0.8))
        codes = np.searchsorted(np.unique(edges), x)
    else:
        codes = x.astype(int)
    for code in np.unique(codes)[:MEANS_LISTED]:
        inside = codes == code
        low, high = x[inside].min(), x[inside].max()
        of_bin = " to ".join(dict.fromkeys((form(low), form(high))))
        label = of_bin if category is None else category.levels[code]
        error = y[inside].std() / np.sqrt(inside.sum())
        print(f"  {form_of_mean(y[inside].mean()):>10} +- {error:.2g}  {printable(label)}")


def _print_polynomials(fit: Any, names: tuple[str, str]) -> None:
    """Print the polynomials f and g of two columns of numbers."""
    print(f"f = {fit.f.formula('a')}\n    with a = {printable(names[0])}")
    print(f"g = {fit.g.formula('b')}\n    with b = {printable(names[1])}")
