"""Make the page of a scan: all pairs, details of the first pairs, and each column."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax._texts import counted, shortened
from hgr_jax.cli.html.page import Curve, Detail, HtmlPage, Profile, Sample
from hgr_jax.scanning.findings import FALSE_DISCOVERY_RATE
from hgr_jax.scanning.fits import HostTransformation, Influence, PairDetails
from hgr_jax.scanning.result import Pair, Scan
from hgr_jax.tables.columns import Category, Columns

ALMOST_ONE = 0.9995
"""Smallest correlation that is shown as 1.000."""


def copies_of(result: Scan) -> dict[str, list[str]]:
    """Return, for each column, the names of the column and its copies, in order.

    Two columns are copies if their ranks agree (|Spearman| and HGR of ranks are 1.000), or if HGR
    is 1.000 and their repeated values correspond one to one.
    """
    parent = list(range(len(result.names)))

    def root(i: int) -> int:
        while parent[i] != i:
            i = parent[i]
        return i

    value = np.fmax(result.correlation, result.rank_correlation)
    i, j = result.pairs.T
    for a, b in result.pairs[value[i, j] >= ALMOST_ONE].tolist():
        one, other = sorted((root(a), root(b)))
        if one != other and _are_copies(result, a, b):
            parent[other] = one
    groups: dict[int, list[str]] = {}
    for i, name in enumerate(result.names):
        groups.setdefault(root(i), []).append(name)
    return {name: group for group in groups.values() for name in group}


def _are_copies(result: Scan, i: int, j: int) -> bool:
    monotone = min(result.spearman[i, j], result.rank_correlation[i, j])  # NaN with a category
    if monotone >= ALMOST_ONE:
        return True
    a, b = (result.values(result.names[k]) for k in (i, j))
    return result.correlation[i, j] >= ALMOST_ONE and _one_to_one(a, b)


def _one_to_one(a: Floats, b: Floats) -> bool:
    """Return whether values correspond one to one; False if most of them are distinct."""
    present = ~(np.isnan(a) | np.isnan(b))
    (u, x), (v, y) = (np.unique(c[present], return_inverse=True) for c in (a, b))
    if len(u) != len(v) or 2 * len(u) > len(x):
        return False
    return len(np.unique(x * len(v) + y)) == len(u)


def without_copies(pairs: list[Pair], groups: dict[str, list[str]], count: int) -> list[Pair]:
    """Return the first ``count`` pairs, without further pairs of copies of their columns."""
    kept: dict[frozenset[str], Pair] = {}
    for pair in pairs:
        if len(kept) == count:
            break
        kept.setdefault(frozenset((groups[pair.a][0], groups[pair.b][0])), pair)
    return list(kept.values())


MAX_BARS = 16
MAX_CODES = 12
"""Largest number of distinct integers that are called codes."""

MIN_ALERT_ROWS = 20
"""Smallest number of rows for which a column is called an identifier or codes."""

MIN_DISTINCT_SHARE = 0.98
"""Smallest share of distinct values of an identifier."""

MIN_MEDIAN_POSITION = 0.1
"""Smallest distance of the median of identifiers from the ends of their range, as a share of it:
amounts, which are mostly small, have a smaller one."""

MISSING_MARKS = (-1, -9, *(sign * (10**n - 1) for n in range(2, 7) for sign in (-1, 1)))
"""Numbers that stand for a missing value in some tables: -1, -9, -99, 99, ..."""

MIN_MARK_GAP = 0.5
"""Smallest distance of a missing mark from the other values, in units of their central range."""

MAX_INTEGER = 1e12

MAX_LEVELS_SHOWN = 3
MAX_LEVEL_LETTERS = 18
SECONDS_PER_DAY = 86400


def profiles_of(result: Scan, table: Any = None) -> list[Profile]:
    """Return a summary of each column of a scan, given the ``table`` that was scanned."""
    columns = result.data
    number_at = {int(position): i for i, position in enumerate(columns.number_positions)}
    categories = dict(zip(columns.category_positions.tolist(), columns.categories, strict=True))
    profiles = []
    for position, name in enumerate(columns.names):
        if position in number_at and name not in result.skipped:
            values = np.asarray(columns.numbers[:, number_at[position]], np.float64)
            profiles.append(_number_profile(name, values, columns.dates.get(name)))
            continue
        distinct, missing, alerts = _raw_summary(_raw_values(table, columns, position))
        if position in categories and name not in result.skipped:
            profiles.append(_category_profile(name, categories[position], distinct))
        else:
            reasons = [result.skipped.get(name, ""), *alerts]
            profiles.append(Profile(name, "left out", distinct, missing, "", (), reasons))
    return profiles


def _number_profile(name: str, column: Floats, first: float | None) -> Profile:
    present = column[~np.isnan(column)]
    values, counts = np.unique(present, return_counts=True)
    low, high = float(values[0]), float(values[-1])
    whole = bool((values == np.floor(values)).all())
    if first is not None:
        kind, ends = "date", [as_date(first, value) for value in (low, high)]
    else:
        kind, ends = "whole number" if whole else "number", [_number_text(v) for v in (low, high)]
    return Profile(
        name=name,
        kind=kind,
        distinct=len(values),
        missing=len(column) - len(present),
        values=" to ".join(ends),
        bars=np.histogram(present, MAX_BARS)[0].tolist() if np.isfinite(high - low) else (),
        alerts=[] if first is not None else _number_alerts(name, values, counts, whole=whole),
    )


def _number_alerts(name: str, values: Floats, counts: Integers, *, whole: bool) -> list[str]:
    """Return alerts for a column with these distinct values and their counts."""
    alerts = []
    rows, distinct = int(counts.sum()), len(values)
    if whole and rows >= MIN_ALERT_ROWS:
        if distinct >= MIN_DISTINCT_SHARE * rows and _is_spread_out(values):
            alerts.append("nearly all values are distinct whole numbers: an identifier?")
        if 2 < distinct <= MAX_CODES:
            how = f"--categories {shlex.quote(name)} makes levels"
            alerts.append(f"{distinct} whole numbers: codes? read as a number; {how}")
    is_mark = np.isin(values, MISSING_MARKS)
    others = values[~is_mark]
    if is_mark.any() and len(others) > 1:
        low, high = _central_range(others, counts[~is_mark])
        for mark, count in zip(values[is_mark], counts[is_mark], strict=True):
            if np.abs(others - mark).min() > MIN_MARK_GAP * (high - low):
                alerts.append(
                    f"{mark:g} in {counted(count, 'row')}, far from the rest: a missing value?"
                )
    return alerts


def _is_spread_out(values: Floats) -> bool:
    """Return whether values fill their range evenly, as identifiers do and amounts do not."""
    position = (np.median(values) - values[0]) / (values[-1] - values[0])
    return bool(abs(position - 0.5) <= 0.5 - MIN_MEDIAN_POSITION)


def _number_text(value: float) -> str:
    """Write a number, with all digits if it is an integer below `MAX_INTEGER`."""
    return f"{value:,.0f}" if value == round(value) and abs(value) < MAX_INTEGER else f"{value:.6g}"


def _central_range(values: Floats, counts: Integers) -> tuple[float, float]:
    """Return the 1% and 99% quantiles."""
    shares = np.cumsum(counts) / counts.sum()
    return float(values[shares >= 0.01][0]), float(values[shares >= 0.99][0])


def _category_profile(name: str, category: Category, distinct: int | None) -> Profile:
    codes = category.codes
    counts = np.bincount(codes[codes >= 0], minlength=len(category.levels))
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    listed = [
        f"{shortened(category.levels[i], MAX_LEVEL_LETTERS)} ({counts[i]:,})"
        for i in order[:MAX_LEVELS_SHOWN]
    ]
    return Profile(
        name=name,
        kind="category",
        distinct=len(order) if distinct is None else distinct,
        missing=int((codes < 0).sum()),
        values=", ".join(listed) + (", …" if len(order) > MAX_LEVELS_SHOWN else ""),
        bars=counts[order[:MAX_BARS]].tolist(),
    )


def _raw_values(table: Any, columns: Columns, position: int) -> list[Any] | None:
    """Return the original values of a column, None if they were not kept."""
    if isinstance(table, Mapping):
        return list(list(table.values())[position])
    if columns.frame is not None:
        return list(columns.frame[:, position].to_list())
    return None


def _raw_summary(values: list[Any] | None) -> tuple[int | None, int | None, list[str]]:
    """Return the numbers of distinct and of missing values, and alerts."""
    if values is None:
        return None, None, []
    texts = [str(value) for value in values]
    texts = [text for text in texts if text not in ("", "None", "nan", "NaT", "<NA>")]
    distinct = len(set(texts))
    many = len(texts) >= MIN_ALERT_ROWS and distinct >= MIN_DISTINCT_SHARE * len(texts)
    alerts = ["nearly all texts are distinct: an identifier?"] if many else []
    return distinct, len(values) - len(texts), alerts


def as_date(first: float, days: float) -> str:
    """Write the date that lies ``days`` after ``first``, which is in seconds since 1970."""
    seconds = round(first + days * SECONDS_PER_DAY)
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    except OverflowError:  # a year beyond Python's dates
        return f"year {1970 + seconds / SECONDS_PER_DAY / 365.2425:.0f}"
    return f"{moment:%Y-%m-%d}" if seconds % SECONDS_PER_DAY == 0 else f"{moment:%Y-%m-%d %H:%M}"


def samples_of(result: Scan, rows: Integers) -> list[Sample]:
    """Return the values of every used column in the given rows, as they were read."""
    columns = result.data
    samples: dict[int, Sample] = {}
    for i, position in enumerate(columns.number_positions):
        name = columns.names[position]
        values = np.asarray(columns.numbers[rows, i], np.float64).tolist()
        samples[int(position)] = Sample(name, values, first=columns.dates.get(name))
    for category, position in zip(columns.categories, columns.category_positions, strict=True):
        levels = (*category.levels, "")  # the code -1 of missing values selects the last
        texts = [levels[code] for code in category.codes[rows].tolist()]
        samples[int(position)] = Sample(columns.names[position], texts, category.levels)
    used = [i for i in sorted(samples) if columns.names[i] not in result.skipped]
    return [samples[position] for position in used]


MAX_POINTS_DRAWN = 600
"""Largest number of rows that a picture shows."""

CURVE_POINTS = 120
DETAILS = 12

MAX_LISTED = 100_000
"""Largest number of pairs in the table; a pair takes some 100 bytes of the page."""

MAX_MAPPED = 1000
"""Largest number of columns of the heat map; a pair of columns takes some 14 bytes."""

HEADERS = {
    "column a": ("a", ""),
    "column b": ("b", ""),
    "KB": ("correlation", "HGR-KB: the largest correlation between polynomials of the two columns"),
    "HGR": (
        "rank_correlation",
        "HGR: the largest correlation between any functions of the two columns, by their ranks",
    ),
    "|Spearman|": ("spearman", "what a monotone relation explains; none with a category"),
    "excess": (
        "rank_excess",
        "HGR above |Spearman| or level means: the non-monotone part",
    ),
    "|Pearson|": ("pearson", "what a straight line explains; none with a category"),
    "p-value": ("pvalue", "probability that ranks of independent columns depend as much"),
    "adjusted p": (
        "adjusted_pvalue",
        "the p-value for so many pairs (Benjamini-Hochberg): at most 0.05 is more than chance",
    ),
    "null 95%": ("null_95", "95% quantile of HGR-KB of ranks of independent columns"),
    "corrected": ("corrected", "HGR-KB less its upward bias"),
    "one row": ("one_row", "largest influence of a single row on the correlation (first pairs)"),
    "rows": ("n_obs", "rows where both columns are present"),
    "p-value from": (
        "pvalue_source",
        (
            "a law of ranks at several degrees; for a category, Roy's law; exact for two columns of"
            " two values; permutations of ranks (sampled: of a sample of the rows); random signs"
            " given other columns"
        ),
    ),
}
"""Headers of the table of pairs: the attribute of `Pair` that each shows, and its explanation."""

OF_KB = ("KB", "null 95%", "corrected")
"""Headers of a scan of HGR-KB; a scan of HGR does not have them."""

PROBABILITIES = ("p-value", "adjusted p")

ORDERED_BY = {
    "rank_excess": ("excess", "HGR above |Spearman|, significant pairs first"),
    "correlation": ("{0}", "largest {1}"),
    "excess": ("{0}", "largest excess of {1} over |Pearson|"),
    "pvalue": ("p-value", "smallest p-value"),
}
"""The header that each order sorts by, and the order in words; 0 and 1 are names of the measure."""


def is_of_hgr(result: Scan) -> bool:
    """Return whether the measure of a scan is HGR, and not HGR-KB."""
    return bool(result.settings["measure"] == "hgr")


def order_in_words(result: Scan, by: str) -> tuple[str, str]:
    """Return the header that an order sorts by, and the order in words."""
    names = ("HGR", "HGR") if is_of_hgr(result) else ("KB", "HGR-KB")
    header, words = ORDERED_BY[by]
    return header.format(*names), words.format(*names)


def headers_of(result: Scan) -> dict[str, tuple[str, str]]:
    """Return the headers of the table of pairs of a scan."""
    left_out = OF_KB if is_of_hgr(result) else ()
    return {name: header for name, header in HEADERS.items() if name not in left_out}


DetailsOfPairs = Mapping[tuple[str, str], PairDetails | None]
"""Details of pairs by their names; None for a pair without a correlation."""


def influence_on(pair_details: DetailsOfPairs, a: str, b: str) -> Influence | None:
    """Return the largest influence of a single row on a pair, None without details."""
    pair = pair_details.get((a, b))
    return None if pair is None else pair.influence


def count_discoveries(result: Scan) -> int:
    """Return how many pairs are significant at the false discovery rate."""
    return int(np.sum(result.to_dict()["adjusted_pvalue"] <= FALSE_DISCOVERY_RATE))


def as_report(
    result: Scan,
    title: str,
    pair_details: DetailsOfPairs | None = None,
    table: Any = None,
    *,
    by: str = "rank_excess",
) -> HtmlPage:
    """Return the page of a scan: its pairs, a heat map, details of the first pairs, its columns.

    The table lists at most `MAX_LISTED` pairs, and the heat map shows their columns.  Details show
    one of several copies of a column.  Columns are described from the scanned ``table``.
    """
    pair_details = {} if pair_details is None else pair_details
    settings = result.settings
    similar, left_out = result.clustered(), []
    order = _heat_map_columns(result, similar, by)
    part = np.ix_(order, order)
    pairs = result.top(MAX_LISTED, by=by)
    if len(pairs) < len(result):
        left_out.append(
            f"The table lists, searches and sorts the first {len(pairs):,} of {len(result):,}"
            " pairs; pairs.csv has all of them."
        )
    if len(order) < len(similar):
        left_out.append(f"The heat map is of {len(order):,} columns, those of the first pairs.")
    summary = {
        "rows": f"{settings['rows']:,}",
        "columns": f"{len(result.used):,}",
        "pairs": f"{len(result):,}",
        "more than chance": f"{count_discoveries(result):,}",
    }
    if not is_of_hgr(result):
        summary["degrees"] = f"{settings['h']} and {settings['k']}"
    if "top" in settings:
        totals = settings["top"]
        summary["the first of"] = f"{totals['pairs']:,} pairs of {totals['columns']:,} columns"
        summary["of these more than chance"] = f"{totals['discoveries']:,}"
    if "sample_rows" in settings:
        summary["pictures"] = f"of {settings['sample_rows']:,} rows"
    if settings["measure"].startswith("rank_"):
        summary["values"] = "ranks"
    if settings["given"]:
        summary["given"] = ", ".join(settings["given"])
    messages = (("left out", result.skipped), ("note", result.notes))
    groups, headers = copies_of(result), headers_of(result)
    sample = _rows_to_draw(np.arange(result.data.rows), ())
    skipped = [(n, f"{label}: {text}") for label, texts in messages for n, text in texts.items()]
    return HtmlPage(
        title=title,
        summary=summary,
        names=[result.names[i] for i in order],
        correlation=result.correlation[part],
        pearson=result.pearson[part],
        columns=tuple(headers),
        rows=[_row(pair, pair_details, headers) for pair in pairs],
        details=[
            as_detail(result, pair, pair_details, groups)
            for pair in without_copies(pairs, groups, DETAILS)
        ],
        skipped=skipped,
        explanations={header: text for header, (_, text) in headers.items()},
        probabilities=PROBABILITIES,
        ordered_by=order_in_words(result, by)[0],
        measure="HGR" if is_of_hgr(result) else "KB",
        pairs=len(result),
        left_out=left_out,
        profiles=profiles_of(result, table),
        samples=samples_of(result, sample) if len(result) else (),
    )


def _heat_map_columns(result: Scan, columns: Integers, by: str) -> Integers:
    """Return the columns of the heat map: all, or the `MAX_MAPPED` columns of the first pairs."""
    if len(columns) <= MAX_MAPPED:
        return columns
    paired, first_places = np.unique(result.order(by), return_index=True)
    return columns[np.isin(columns, paired[np.argsort(first_places)[:MAX_MAPPED]])]


def _row(
    pair: Pair, pair_details: DetailsOfPairs, headers: Mapping[str, tuple[str, str]]
) -> list[Any]:
    influence = influence_on(pair_details, pair.a, pair.b)
    one_row = None if influence is None else influence.share
    return [one_row if name == "one_row" else getattr(pair, name) for name, _ in headers.values()]


def as_detail(
    result: Scan, pair: Pair, pair_details: DetailsOfPairs, groups: Mapping[str, Sequence[str]]
) -> Detail:
    """Return the data, transformations and copies of columns that the page shows of a pair."""
    names = (pair.a, pair.b)
    shown = pair_details.get(names) or result.details(*names)
    assert shown is not None, "only a pair with a correlation is in the list"
    values = [result.values(name) for name in names]
    categories = [result.category(name) for name in names]
    present = ~(np.isnan(values[0]) | np.isnan(values[1]))
    if shown.residuals is not None:
        present &= ~np.isnan(shown.residuals[0])
    influence = shown.influence
    rows = _rows_to_draw(np.flatnonzero(present), influence.rows)
    transformed, points, curves = [], [], []
    for i, (transform, column, category) in enumerate(
        zip((shown.f, shown.g), values, categories, strict=True)
    ):
        residuals = shown.residuals
        heights = transform(column[rows]) if residuals is None else residuals[i][rows]
        transformed.append(heights.tolist())
        points.append(_numbers_or_levels(column[rows], category))
        curves.append(_curve(transform, column[present], category))
    note = ""
    if not any(categories) and not is_of_hgr(result):
        note = f"f = {shown.f.formula('a')};  g = {shown.g.formula('b')}"
    ranked = result.settings["measure"].startswith("rank_")
    dates = [None if ranked else result.data.dates.get(name) for name in names]
    since = [
        f"{letter} in days since {as_date(first, 0)}"
        for letter, first in zip("ab", dates, strict=True)
        if first is not None and not any(categories)
    ]
    note = "; ".join(filter(None, [note, *since]))
    group_a, group_b = (groups[name] for name in names)
    marked = int(np.searchsorted(rows, influence.row)) if influence.dominates else None
    signed = None
    if not any(categories) and shown.residuals is None:
        with np.errstate(invalid="ignore"):  # a column may be constant on these rows
            signed = float(np.corrcoef(values[0][present], values[1][present])[0, 1])
    return Detail(
        a=pair.a,
        b=pair.b,
        facts=_facts(pair, influence, "HGR" if is_of_hgr(result) else "KB"),
        pearson=signed,
        correlation=pair.correlation,
        marked=marked,
        points=list(zip(*points, strict=True)),
        f=curves[0],
        g=curves[1],
        transformed=list(zip(*transformed, strict=True)),
        note=note,
        dates=(dates[0], dates[1]),
        copies=(
            [name for name in group_a if name not in names],
            [name for name in group_b if name not in (*names, *group_a)],
        ),
    )


def _rows_to_draw(rows: Integers, influential: Sequence[int]) -> Integers:
    """Return a sample of the rows that includes the influential ones."""
    if len(rows) <= MAX_POINTS_DRAWN:
        return rows
    sample = np.random.default_rng(0).choice(rows, MAX_POINTS_DRAWN, replace=False)
    return np.union1d(sample, np.asarray(influential, rows.dtype))


def _facts(pair: Pair, influence: Influence, measure: str) -> str:
    """Return the measures of a pair in one line."""
    facts = [f"{measure} {pair.correlation:.3f}"]
    if measure != "HGR" and not np.isnan(pair.rank_correlation):
        facts.append(f"HGR {pair.rank_correlation:.3f}")
    if not np.isnan(pair.spearman):
        facts.append(f"|Spearman| {pair.spearman:.3f}")
    if not np.isnan(pair.pearson):
        facts.append(f"|Pearson| {pair.pearson:.3f}")
    if influence.dominates:
        facts.append(
            f"row {influence.row} makes {influence.share:.0%} of it:"
            f" {influence.value_without:.3f} without"
        )
    return " · ".join(facts)


def _numbers_or_levels(values: Any, category: Category | None) -> list[Any]:
    if category is None:
        return list(values.tolist())
    return [category.levels[level] for level in values.astype(int)]


def _curve(transform: HostTransformation, values: Any, category: Category | None) -> Curve:
    if category is None:
        grid = np.linspace(values.min(), values.max(), CURVE_POINTS)
        return Curve(grid.tolist(), transform(grid).tolist())
    levels = np.unique(values.astype(int))
    return Curve([category.levels[level] for level in levels], transform(levels).tolist())
