"""``hgr-jax scan``: a ranked table in the terminal, all pairs in files, a report to open."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hgr_jax._arrays import Integers
from hgr_jax._files import atomic_write
from hgr_jax._texts import shortened
from hgr_jax.cli.html.page import Curve, Detail, HtmlPage, write_html
from hgr_jax.plotting import save_figure
from hgr_jax.scanning.api import scan
from hgr_jax.scanning.influence import Influence
from hgr_jax.scanning.result import FALSE_DISCOVERY_RATE, Pair, Scan
from hgr_jax.tables.encoding import Category
from hgr_jax.tables.files import TableError, printable, read_any

POINTS = 600
"""Rows of a pair that its picture shows."""

GRID = 120
DETAILS = 12
WIDEST_NAME = 32

HEADERS = {
    "column a": ("a", ""),
    "column b": ("b", ""),
    "KB": ("correlation", "HGR-KB: the largest correlation between polynomials of the two columns"),
    "of ranks": (
        "rank_correlation",
        "the same of the ranks of their values, which no single row can make",
    ),
    "|Spearman|": ("spearman", "what a monotone relation explains; none with a category"),
    "excess": (
        "rank_excess",
        "HGR-KB of ranks, less its upward bias, above |Spearman|: what is not monotone",
    ),
    "|Pearson|": ("pearson", "what a straight line explains; none with a category"),
    "p-value": ("pvalue", "how often independent columns reach such a value"),
    "adjusted p": (
        "adjusted_pvalue",
        "the p-value for so many pairs (Benjamini-Hochberg): at most 0.05 is more than chance",
    ),
    "null 95%": ("null_95", "what ranks of independent columns stay below, 95 times of 100"),
    "corrected": ("corrected", "HGR-KB less its upward bias"),
    "one row": (
        "one_row",
        "the largest part of the correlation that one row makes (of the first pairs)",
    ),
    "rows": ("n_obs", "rows where both columns are present"),
    "p-value from": ("pvalue_source", "the law of Roy's largest root of ranks, or permutations"),
}
"""Headers of the table of pairs: the attribute of a `Pair` below each, and what it means."""

PROBABILITIES = ("p-value", "adjusted p")

ORDERED_BY = {
    "rank_excess": ("excess", "what ranks show beyond |Spearman|, those more than chance first"),
    "correlation": ("KB", "largest HGR-KB"),
    "excess": ("KB", "HGR-KB most exceeds |Pearson|"),
    "pvalue": ("p-value", "smallest p-value"),
}
"""The header that an order is by, and the order in words."""


@dataclasses.dataclass(frozen=True)
class ScanOptions:
    """The options of the command, by their names."""

    h: int = 5
    k: int = 5
    target: Sequence[str] = ()
    categories: Sequence[str] = ()
    rank: bool = False
    top: int = 20
    sort: str = "rank_excess"
    permutations: int = 999
    seed: int = 0


def report_file(path: Path, settings: ScanOptions, folder: Path) -> None:
    """Scan the columns of a file: a ranked table in the terminal, and all pairs in a folder."""
    report_scan(read_any(path), path.name, settings, folder)


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
    shown = found.top(max(settings.top, DETAILS), by=settings.sort)
    influences = {(pair.a, pair.b): found.influence(pair.a, pair.b) for pair in shown}
    _write_pairs(found, influences, settings.sort, folder)
    found.save(folder / "scan.npz")
    page = folder / "report.html"
    write_html(as_report(found, title, influences, by=settings.sort), page)
    _say(found, title, influences, settings)
    if len(found):
        save_figure(found.plot(), folder / "heat_map.png")
    else:  # that of an earlier scan would be wrong
        (folder / "heat_map.png").unlink(missing_ok=True)
    print(f"all pairs: {printable(str(folder / 'pairs.csv'))} (and .parquet, scan.npz)")
    print(f"open in a browser: {printable(str(page))}")
    return found


Influences = Mapping[tuple[str, str], Influence | None]
"""Of the pairs that are shown, by their names."""


def _say(found: Scan, title: str, influences: Influences, settings: ScanOptions) -> None:
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
    print(f"\nPairs by {ORDERED_BY[settings.sort][1]}\n")
    print(
        f"{'':>3}  {'column a':<{width}}  {'column b':<{width}}  {'KB':>6}   {'of ranks':>8}"
        f"  {'|Spearman|':>10}  {'|Pearson|':>9}  {'adjusted p':>10}  {'null 95%':>8}  {'rows':>7}"
        "  one row"
    )
    for place, pair in enumerate(listed, 1):
        mark = "*" if pair.ranks_disagree else " "
        print(
            f"{place:>3}  {_short_name(pair.a):<{width}}  {_short_name(pair.b):<{width}}"
            f"  {pair.correlation:>6.3f}{mark}  {_cell(pair.rank_correlation):>8}"
            f"  {_cell(pair.spearman):>10}  {_cell(pair.pearson):>9}"
            f"  {_probability(pair.adjusted_pvalue):>10}  {_cell(pair.null_95):>8}"
            f"  {pair.n_obs:>7}  {_one_row(influences[pair.a, pair.b])}"
        )
    print(
        f"\n{_more_than_chance(found):,} of {len(found):,} pairs are more than chance at a false"
        f" discovery rate of {FALSE_DISCOVERY_RATE:.0%}\n"
        "null 95%: what ranks of independent columns stay below, 95 times of 100 (values with"
        " tails reach higher)"
    )
    if any(pair.ranks_disagree for pair in listed):
        print("*: the value and that of the ranks disagree: few rows make one of them")
    print(
        "one row: the largest part of the correlation that one row makes; if that is much, which"
        " row (from 0), and KB without it\n"
    )


def _more_than_chance(found: Scan) -> int:
    return int(np.sum(found.to_dict()["adjusted_pvalue"] <= FALSE_DISCOVERY_RATE))


def _one_row(influence: Influence | None) -> str:
    if influence is None:
        return "-"
    text = f"{influence.part:.0%}"
    if influence.dominates:
        text += f", {influence.row}: {influence.without:.3f}"
    return text


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _short_name(name: str) -> str:
    return shortened(printable(name), WIDEST_NAME, mark="...")


def _cell(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


def _probability(value: float) -> str:
    if np.isnan(value):
        return "-"
    if value < 1e-99:
        return "<1e-99"
    return f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"


def _write_pairs(found: Scan, influences: Influences, by: str, folder: Path) -> None:
    frame = found.to_frame(by=by, library="pandas")
    listed = [influences.get(pair) for pair in zip(frame["a"], frame["b"], strict=True)]
    for name, column in (("part", "one_row_part"), ("row", "one_row"), ("without", "without_it")):
        frame[column] = [np.nan if one is None else getattr(one, name) for one in listed]
    for name, write in (("pairs.csv", frame.to_csv), ("pairs.parquet", frame.to_parquet)):
        with atomic_write(folder / name) as partial:
            write(partial, index=False)


def as_report(
    found: Scan, title: str, influences: Influences | None = None, *, by: str = "rank_excess"
) -> HtmlPage:
    """Return a scan as a page: all pairs, the heat map, and the first pairs in full."""
    influences = {} if influences is None else influences
    settings = found.settings
    order = found.clustered()
    part = np.ix_(order, order)
    pairs = found.top(max(1, len(found)), by=by)
    summary = {
        "rows": f"{settings['rows']:,}",
        "columns": f"{len(found.names) - len(found.skipped)}",
        "pairs": f"{len(found):,}",
        "more than chance": f"{_more_than_chance(found):,}",
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
        rows=[_row(pair, influences) for pair in pairs],
        details=[as_detail(found, pair) for pair in pairs[:DETAILS]],
        skipped=skipped,
        explanations={header: text for header, (_, text) in HEADERS.items()},
        probabilities=PROBABILITIES,
        ordered_by=ORDERED_BY[by][0],
    )


def _row(pair: Pair, influences: Influences) -> list[Any]:
    influence = influences.get((pair.a, pair.b))
    known = {"one_row": None if influence is None else influence.part}
    return [known.get(name, getattr(pair, name, None)) for name, _ in HEADERS.values()]


def as_detail(found: Scan, pair: Pair) -> Detail:
    """Return a pair in full: its data and its transformations."""
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        fit = found.fit(pair.a, pair.b)
    names = (pair.a, pair.b)
    values = [found.values(name) for name in names]
    categories = [found.category(name) for name in names]
    present = ~(np.isnan(values[0]) | np.isnan(values[1]))
    influence = found.influence(pair.a, pair.b)
    rows = _rows_to_draw(np.flatnonzero(present), () if influence is None else influence.rows)
    transforms = (fit.f, fit.g)
    transformed = [np.asarray(t(v[rows])) for t, v in zip(transforms, values, strict=True)]
    shown = [_points(v[rows], category) for v, category in zip(values, categories, strict=True)]
    curves = [
        _curve(t, v[present], category)
        for t, v, category in zip(transforms, values, categories, strict=True)
    ]
    note = "" if any(categories) else f"f = {fit.f.formula('a')};  g = {fit.g.formula('b')}"
    note = "; ".join(filter(None, [note, *(str(one.message) for one in messages)]))
    marked = None
    if influence is not None and influence.dominates:
        marked = int(np.searchsorted(rows, influence.row))
    signed = None
    if not any(categories):
        with np.errstate(invalid="ignore"):  # of a column that is constant on these rows
            signed = float(np.corrcoef(values[0][present], values[1][present])[0, 1])
    return Detail(
        a=pair.a,
        b=pair.b,
        facts=_facts(pair, influence),
        pearson=signed,
        correlation=pair.correlation,
        marked=marked,
        points=list(zip(*shown, strict=True)),
        f=curves[0],
        g=curves[1],
        transformed=list(zip(*(t.tolist() for t in transformed), strict=True)),
        note=note,
    )


def _rows_to_draw(rows: Integers, influential: Sequence[int]) -> Integers:
    """Return a sample of the rows, with those that make most of the correlation."""
    if len(rows) <= POINTS:
        return rows
    sample = np.random.default_rng(0).choice(rows, POINTS, replace=False)
    return np.union1d(sample, np.asarray(influential, rows.dtype))


def _facts(pair: Pair, influence: Influence | None) -> str:
    """Return a pair in a line."""
    facts = [f"KB {pair.correlation:.3f}"]
    if not np.isnan(pair.rank_correlation):
        facts.append(f"of ranks {pair.rank_correlation:.3f}")
    if not np.isnan(pair.pearson):
        facts.append(f"|Pearson| {pair.pearson:.3f}")
    if influence is not None and influence.dominates:
        facts.append(
            f"row {influence.row} makes {influence.part:.0%} of it: {influence.without:.3f} without"
        )
    return " · ".join(facts)


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
