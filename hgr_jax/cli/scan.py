"""``hgr-jax scan``: a ranked table in the terminal, all pairs in files, a report to open."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hgr_jax._files import atomic_write
from hgr_jax.cli.html.page import Curve, Detail, HtmlPage, write_html
from hgr_jax.plotting import save_figure
from hgr_jax.scanning.api import scan
from hgr_jax.scanning.result import FALSE_DISCOVERY_RATE, Pair, Scan
from hgr_jax.tables.encoding import Category
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.files import Reading, read_any

POINTS = 600
"""Rows of a pair that its picture shows."""

GRID = 120
DETAILS = 12
WIDEST_NAME = 32

HEADERS = {
    "column a": "a",
    "column b": "b",
    "KB": "correlation",
    "|Pearson|": "pearson",
    "excess": "excess",
    "p-value": "pvalue",
    "adjusted p": "adjusted_pvalue",
    "null 95%": "null_95",
    "corrected": "corrected",
    "rows": "n_obs",
    "p-value from": "pvalue_source",
}
"""Headers of the table of pairs, and the attribute of a `Pair` below each."""


@dataclasses.dataclass(frozen=True)
class ScanOptions:
    """The options of the command, by their names."""

    h: int = 5
    k: int = 5
    target: Sequence[str] = ()
    categories: Sequence[str] = ()
    rank: bool = False
    top: int = 20
    sort: str = "correlation"
    permutations: int = 999
    seed: int = 0


def report_file(
    path: Path, settings: ScanOptions, folder: Path, reading: Reading | None = None
) -> None:
    """Scan the columns of a file: a ranked table in the terminal, and all pairs in a folder."""
    frame = read_any(path, reading)
    report_scan(frame, Path(frame.source).name, settings, folder)


def report_scan(table: Any, title: str, settings: ScanOptions, folder: Path) -> Scan:
    """Scan a table that has been read, and report as `report_file` does."""
    if folder.exists() and not folder.is_dir():
        raise TableError(f"cannot write to {printable(str(folder))}: it is a file")
    try:
        found = scan(
            table,
            h=settings.h,
            k=settings.k,
            target=list(settings.target) or None,
            transform="rank" if settings.rank else None,
            permutations=settings.permutations,
            key=jax.random.key(settings.seed),
            categories=settings.categories,
            progress=sys.stderr.isatty(),
        )
    except ValueError as error:
        raise TableError(printable(str(error))) from error
    # All but what prints before what is printed: a reader such as `head` may end that early.
    _write_pairs(found, settings.sort, folder)
    found.save(folder / "scan.npz")
    page = folder / "report.html"
    write_html(as_report(found, title, by=settings.sort), page)
    _say(found, title, settings)
    if len(found):
        save_figure(found.plot(), folder / "heat_map.png")
    else:  # that of an earlier scan would be wrong
        (folder / "heat_map.png").unlink(missing_ok=True)
    print(f"all pairs: {printable(str(folder / 'pairs.csv'))} (and .parquet, scan.npz)")
    print(f"open in a browser: {printable(str(page))}")
    return found


def _say(found: Scan, title: str, settings: ScanOptions) -> None:
    used = len(found.names) - len(found.skipped)
    print(
        f"{printable(title)}: {_count(len(found), 'pair')} of {_count(used, 'column')},"
        f" {_count(found.settings['rows'], 'row')},"
        f" polynomials of degree {settings.h} and {settings.k}"
        + (" of ranks" if settings.rank else "")
    )
    for label, messages in (("skipped", found.skipped), ("note", found.notes)):
        for name, reason in messages.items():
            print(f"{label}: {printable(name)}: {printable(reason)}")
    if not len(found):
        print("no pair of columns is left to scan")
        return
    listed = found.top(settings.top, by=settings.sort)
    width = max(
        8, min(WIDEST_NAME, max(len(_short_name(n)) for pair in listed for n in (pair.a, pair.b)))
    )
    order = {"correlation": "largest HGR-KB", "excess": "HGR-KB most exceeds |Pearson|"}
    print(f"\nPairs by {order.get(settings.sort, 'smallest p-value')}\n")
    print(
        f"{'':>3}  {'column a':<{width}}  {'column b':<{width}}  {'KB':>6}  {'|Pearson|':>9}"
        f"  {'p-value':>8}  {'adjusted':>8}  {'null 95%':>8}  {'rows':>7}"
    )
    for rank, pair in enumerate(listed, 1):
        chance, adjusted = _probability(pair.pvalue), _probability(pair.adjusted_pvalue)
        print(
            f"{rank:>3}  {_short_name(pair.a):<{width}}  {_short_name(pair.b):<{width}}"
            f"  {pair.correlation:>6.3f}  {_cell(pair.pearson):>9}  {chance:>8}"
            f"  {adjusted:>8}  {_cell(pair.null_95):>8}"
            f"  {pair.n_obs:>7}"
        )
    found_some = int(np.sum(found.to_dict()["adjusted_pvalue"] <= FALSE_DISCOVERY_RATE))
    print(
        f"\n{found_some:,} of {len(found):,} pairs are more than chance at a false discovery rate"
        f" of {FALSE_DISCOVERY_RATE:.0%}\nnull 95%: what ranks of independent columns stay below,"
        " 95 times of 100 (values with tails reach higher)\n"
    )


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _short_name(name: str) -> str:
    name = printable(name)
    return name if len(name) <= WIDEST_NAME else name[: WIDEST_NAME - 3] + "..."


def _cell(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3f}"


def _probability(value: float) -> str:
    if np.isnan(value):
        return ""
    if value < 1e-99:
        return "<1e-99"
    return f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"


def _write_pairs(found: Scan, by: str, folder: Path) -> None:
    frame = found.to_frame(by=by, library="pandas")
    shown = frame.assign(a=frame["a"].map(harmless), b=frame["b"].map(harmless))
    for name, write in (("pairs.csv", shown.to_csv), ("pairs.parquet", frame.to_parquet)):
        with atomic_write(folder / name) as partial:
            write(partial, index=False)


def harmless(name: str) -> str:
    """Return a name with a quote before what a spreadsheet would take for a formula."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name


def as_report(found: Scan, title: str, *, by: str = "correlation") -> HtmlPage:
    """Return a scan as a page: all pairs, the heat map, and the first pairs in full."""
    settings = found.settings
    order = found.clustered()
    part = np.ix_(order, order)
    pairs = found.top(max(1, len(found)), by=by)
    summary = {
        "rows": f"{settings['rows']:,}",
        "columns": f"{len(found.names) - len(found.skipped)}",
        "pairs": f"{len(found):,}",
        "degrees": f"{settings['h']} and {settings['k']}",
    }
    if settings["transform"]:
        summary["transform"] = "ranks"
    messages = (("left out", found.skipped), ("note", found.notes))
    skipped = [(n, f"{label}: {text}") for label, texts in messages for n, text in texts.items()]
    return HtmlPage(
        title=title,
        summary=summary,
        names=[found.names[i] for i in order],
        correlation=found.correlation[part],
        pearson=found.pearson[part],
        columns=tuple(HEADERS),
        rows=[[getattr(pair, name) for name in HEADERS.values()] for pair in pairs],
        details=[as_detail(found, pair) for pair in pairs[:DETAILS]],
        skipped=skipped,
    )


def as_detail(found: Scan, pair: Pair) -> Detail:
    """Return a pair in full: its data and its transformations."""
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        fit = found.fit(pair.a, pair.b)
    names = (pair.a, pair.b)
    values = [found.values(name) for name in names]
    categories = [found.category(name) for name in names]
    present = ~(np.isnan(values[0]) | np.isnan(values[1]))
    rows = np.flatnonzero(present)
    if len(rows) > POINTS:
        rows = np.sort(np.random.default_rng(0).choice(rows, POINTS, replace=False))
    transforms = (fit.f, fit.g)
    transformed = [np.asarray(t(v[rows])) for t, v in zip(transforms, values, strict=True)]
    shown = [_points(v[rows], category) for v, category in zip(values, categories, strict=True)]
    curves = [
        _curve(t, v[present], category)
        for t, v, category in zip(transforms, values, categories, strict=True)
    ]
    note = "" if any(categories) else f"f = {fit.f.formula('a')};  g = {fit.g.formula('b')}"
    note = "; ".join(filter(None, [note, *(str(one.message) for one in messages)]))
    return Detail(
        a=pair.a,
        b=pair.b,
        points=list(zip(*shown, strict=True)),
        f=curves[0],
        g=curves[1],
        transformed=list(zip(*(t.tolist() for t in transformed), strict=True)),
        note=note,
    )


def _points(values: Any, category: Category | None) -> list[Any]:
    if category is None:
        return list(values.tolist())
    return [category.levels[level] for level in values.astype(int)]


def _curve(transform: Any, values: Any, category: Category | None) -> Curve:
    if category is None:
        grid = np.linspace(values.min(), values.max(), GRID)
        return Curve(grid.tolist(), np.asarray(transform(grid)).tolist())
    positions = np.arange(max(GRID, len(category.levels)), dtype=float)  # of one shape, mostly
    heights = np.asarray(transform(positions))
    levels = np.unique(values.astype(int))
    return Curve([category.levels[level] for level in levels], heights[levels].tolist())
