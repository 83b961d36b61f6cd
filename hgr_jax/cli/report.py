"""From a scan to its page: all pairs, the first of them in full, and the columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hgr_jax._arrays import Integers
from hgr_jax.cli.copies import copies_of, without_copies
from hgr_jax.cli.html.contents import Curve, Detail, HtmlPage
from hgr_jax.cli.profiles import as_date, profiles_of, samples_of
from hgr_jax.scanning.fits import HostTransformation, Influence, PairDetails
from hgr_jax.scanning.result import FALSE_DISCOVERY_RATE, Pair, Scan
from hgr_jax.tables.encoding import Category

POINTS = 600
"""Rows of a pair that its picture shows."""

GRID = 120
DETAILS = 12

MAX_LISTED = 100_000
"""Pairs in the table of the page: each takes some 100 letters of it."""

MAX_MAPPED = 1000
"""Columns of its heat map: each two take some 14 letters."""

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
        "HGR-KB of ranks, less its bias, above |Spearman| or level means: what is not monotone",
    ),
    "|Pearson|": ("pearson", "what a straight line explains; none with a category"),
    "p-value": ("pvalue", "how often independent columns show as much dependence, by their ranks"),
    "adjusted p": (
        "adjusted_pvalue",
        "the p-value for so many pairs (Benjamini-Hochberg): at most 0.05 is more than chance",
    ),
    "null 95%": (
        "null_95",
        "what HGR-KB of ranks stays below, 95 times of 100, where columns are independent",
    ),
    "corrected": ("corrected", "HGR-KB less its upward bias"),
    "one row": (
        "one_row",
        "the largest part of the correlation that one row makes (of the first pairs)",
    ),
    "rows": ("n_obs", "rows where both columns are present"),
    "p-value from": (
        "pvalue_source",
        (
            "a law of ranks, of several degrees at once; beside a category, Roy's law; exact of"
            " two columns of two values; permutations of ranks (sampled: of a sample of the rows);"
            " or, given other columns, random signs"
        ),
    ),
}
"""Headers of the table of pairs: the attribute of a `Pair` below each, and what it means."""

PROBABILITIES = ("p-value", "adjusted p")

ORDERED_BY = {
    "rank_excess": ("excess", "what ranks show beyond |Spearman|, those more than chance first"),
    "correlation": ("KB", "largest HGR-KB"),
    "excess": ("KB", "largest excess of HGR-KB over |Pearson|"),
    "pvalue": ("p-value", "smallest p-value"),
}
"""The header that an order is by, and the order in words."""

InFull = Mapping[tuple[str, str], PairDetails | None]
"""Pairs that are shown, by their names; None where there is no correlation."""


def influence_in(in_full: InFull, a: str, b: str) -> Influence | None:
    """Return what one row makes of a pair, if it is among those that are shown."""
    pair = in_full.get((a, b))
    return None if pair is None else pair.influence


def more_than_chance(found: Scan) -> int:
    """Return how many pairs are, at the false discovery rate."""
    return int(np.sum(found.to_dict()["adjusted_pvalue"] <= FALSE_DISCOVERY_RATE))


def as_report(
    found: Scan,
    title: str,
    in_full: InFull | None = None,
    table: Any = None,
    *,
    by: str = "rank_excess",
) -> HtmlPage:
    """Return a scan as a page: its pairs, the heat map, the first pairs in full, and the columns.

    Of very many pairs the first are listed, and the heat map is of their columns.  Of columns that
    are copies of one another, the pairs in full show one.  ``table`` is what was scanned, for what
    is said of columns left out.
    """
    in_full = {} if in_full is None else in_full
    settings = found.settings
    similar, left_out = found.clustered(), []
    order = _mapped(found, similar, by)
    part = np.ix_(order, order)
    pairs = found.top(MAX_LISTED, by=by)
    if len(pairs) < len(found):
        left_out.append(
            f"The table lists, searches and sorts the first {len(pairs):,} of {len(found):,} pairs;"
            " pairs.csv has all of them."
        )
    if len(order) < len(similar):
        left_out.append(f"The heat map is of {len(order):,} columns, those of the first pairs.")
    summary = {
        "rows": f"{settings['rows']:,}",
        "columns": f"{len(found.used):,}",
        "pairs": f"{len(found):,}",
        "more than chance": f"{more_than_chance(found):,}",
        "degrees": f"{settings['h']} and {settings['k']}",
    }
    if "top" in settings:
        of_all = settings["top"]
        summary["the first of"] = f"{of_all['pairs']:,} pairs of {of_all['columns']:,} columns"
        summary["of these more than chance"] = f"{of_all['discoveries']:,}"
    if "sample_rows" in settings:
        summary["pictures"] = f"of {settings['sample_rows']:,} rows"
    if settings["measure"].startswith("rank_"):
        summary["values"] = "ranks"
    if settings["given"]:
        summary["given"] = ", ".join(settings["given"])
    messages = (("left out", found.skipped), ("note", found.notes))
    groups = copies_of(found)
    sample = _rows_to_draw(np.arange(found.data.rows), ())
    skipped = [(n, f"{label}: {text}") for label, texts in messages for n, text in texts.items()]
    return HtmlPage(
        title=title,
        summary=summary,
        names=[found.names[i] for i in order],
        correlation=found.correlation[part],
        pearson=found.pearson[part],
        columns=tuple(HEADERS),
        rows=[_row(pair, in_full) for pair in pairs],
        details=[
            as_detail(found, pair, in_full, groups)
            for pair in without_copies(pairs, groups, DETAILS)
        ],
        skipped=skipped,
        explanations={header: text for header, (_, text) in HEADERS.items()},
        probabilities=PROBABILITIES,
        ordered_by=ORDERED_BY[by][0],
        pairs=len(found),
        left_out=left_out,
        profiles=profiles_of(found, table),
        samples=samples_of(found, sample) if len(found) else (),
    )


def _mapped(found: Scan, columns: Integers, by: str) -> Integers:
    """Return those of some columns that the heat map is of: where they are many, of first pairs."""
    if len(columns) <= MAX_MAPPED:
        return columns
    paired, places = np.unique(found.order(by), return_index=True)
    return columns[np.isin(columns, paired[np.argsort(places)[:MAX_MAPPED]])]


def _row(pair: Pair, in_full: InFull) -> list[Any]:
    influence = influence_in(in_full, pair.a, pair.b)
    own = {"one_row": None if influence is None else influence.share}
    return [own.get(name, getattr(pair, name, None)) for name, _ in HEADERS.values()]


def as_detail(
    found: Scan,
    pair: Pair,
    in_full: InFull,
    groups: Mapping[str, Sequence[str]] | None = None,
) -> Detail:
    """Return a pair in full: its data and its transformations, and the copies of its columns."""
    names = (pair.a, pair.b)
    shown = in_full.get(names) or found.details(*names)
    assert shown is not None, "only a pair with a correlation is in the list"
    values = [found.values(name) for name in names]
    categories = [found.category(name) for name in names]
    present = ~(np.isnan(values[0]) | np.isnan(values[1]))
    if shown.residuals is not None:
        present &= ~np.isnan(shown.residuals[0])
    influence = shown.influence
    rows = _rows_to_draw(np.flatnonzero(present), influence.rows)
    transforms = (shown.f, shown.g)
    transformed = [t(v[rows]) for t, v in zip(transforms, values, strict=True)]
    if shown.residuals is not None:
        transformed = [values[rows] for values in shown.residuals]
    points = [_points(v[rows], category) for v, category in zip(values, categories, strict=True)]
    curves = [
        _curve(t, v[present], category)
        for t, v, category in zip(transforms, values, categories, strict=True)
    ]
    note = "" if any(categories) else f"f = {shown.f.formula('a')};  g = {shown.g.formula('b')}"
    ranked = found.settings["measure"].startswith("rank_")
    dates = [None if ranked else found.data.dates.get(name) for name in names]
    since = [
        f"{letter} in days since {as_date(first, 0)}"
        for letter, first in zip("ab", dates, strict=True)
        if first is not None and note
    ]
    note = "; ".join(filter(None, [note, *since]))
    group_a, group_b = ((groups or {}).get(name, ()) for name in names)
    marked = None
    if influence.dominates:
        marked = int(np.searchsorted(rows, influence.row))
    signed = None
    if not any(categories) and shown.residuals is None:
        with np.errstate(invalid="ignore"):  # of a column that is constant on these rows
            signed = float(np.corrcoef(values[0][present], values[1][present])[0, 1])
    return Detail(
        a=pair.a,
        b=pair.b,
        facts=_facts(pair, influence),
        pearson=signed,
        correlation=pair.correlation,
        marked=marked,
        points=list(zip(*points, strict=True)),
        f=curves[0],
        g=curves[1],
        transformed=list(zip(*(t.tolist() for t in transformed), strict=True)),
        note=note,
        dates=(dates[0], dates[1]),
        copies=(
            [name for name in group_a if name not in names],
            [name for name in group_b if name not in (*names, *group_a)],
        ),
    )


def _rows_to_draw(rows: Integers, influential: Sequence[int]) -> Integers:
    """Return a sample of the rows, with those that make most of the correlation."""
    if len(rows) <= POINTS:
        return rows
    sample = np.random.default_rng(0).choice(rows, POINTS, replace=False)
    return np.union1d(sample, np.asarray(influential, rows.dtype))


def _facts(pair: Pair, influence: Influence) -> str:
    """Return a pair in a line."""
    facts = [f"KB {pair.correlation:.3f}"]
    if not np.isnan(pair.rank_correlation):
        facts.append(f"of ranks {pair.rank_correlation:.3f}")
    if not np.isnan(pair.pearson):
        facts.append(f"|Pearson| {pair.pearson:.3f}")
    if influence.dominates:
        facts.append(
            f"row {influence.row} makes {influence.share:.0%} of it:"
            f" {influence.value_without:.3f} without"
        )
    return " · ".join(facts)


def _points(values: Any, category: Category | None) -> list[Any]:
    if category is None:
        return list(values.tolist())
    return [category.levels[level] for level in values.astype(int)]


def _curve(transform: HostTransformation, values: Any, category: Category | None) -> Curve:
    if category is None:
        grid = np.linspace(values.min(), values.max(), GRID)
        return Curve(grid.tolist(), transform(grid).tolist())
    levels = np.unique(values.astype(int))
    return Curve([category.levels[level] for level in levels], transform(levels).tolist())
