"""Make the page of a scan: all pairs, details of the first pairs, and each column."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any

import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax._texts import as_date, counted, shortened
from hgr_jax._threads import one_blas_thread
from hgr_jax.core.describe import Shape
from hgr_jax.core.host.linalg import clustered_order
from hgr_jax.plotting import conditional_medians
from hgr_jax.scanning.facts import is_spread_out, marks_of
from hgr_jax.scanning.findings import (
    FALSE_DISCOVERY_RATE,
    Finding,
    Findings,
    is_of_hgr,
)
from hgr_jax.scanning.fits import Transform, details_of
from hgr_jax.scanning.html.page import Curve, Detail, HtmlPage, Profile, Sample
from hgr_jax.tables.levels import Category

MAX_BARS = 16
MAX_CODES = 12
"""Largest number of distinct integers that are called codes."""

MIN_ALERT_ROWS = 20
"""Smallest number of rows for which a column is called an identifier or codes."""

MIN_DISTINCT_SHARE = 0.98
"""Smallest share of distinct values of an identifier."""

MAX_INTEGER = 1e12

MAX_LEVELS_SHOWN = 3
MAX_LEVEL_LETTERS = 18


def profiles_of(result: Any) -> list[Profile]:
    """Return a summary of each column of a scan."""
    columns = result.data
    number_at = {int(position): i for i, position in enumerate(columns.number_positions)}
    categories = dict(zip(columns.category_positions.tolist(), columns.categories, strict=True))
    profiles = []
    for position, name in enumerate(columns.names):
        if name in result.skipped:
            profile = Profile(name, "left out", None, None, "", (), [result.skipped[name]])
        elif position in number_at:
            values = np.asarray(columns.numbers[:, number_at[position]], np.float64)
            profile = _number_profile(name, values, columns.dates.get(name))
        else:
            profile = _category_profile(name, categories[position])
        missing = columns.missing_of(name, profile.missing)
        profiles.append(dataclasses.replace(profile, missing=missing))
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
        if distinct >= MIN_DISTINCT_SHARE * rows and is_spread_out(values):
            alerts.append("nearly all values are distinct whole numbers: an identifier?")
        if 2 < distinct <= MAX_CODES:
            how = f"--categories {shlex.quote(name)} makes levels"
            alerts.append(f"{distinct} whole numbers: codes? read as a number; {how}")
    alerts += [
        f"{mark:g} in {counted(rows, 'row')}, far from the rest: a missing value?"
        for mark, rows in marks_of(np.repeat(values, counts)).items()
    ]
    return alerts


def _number_text(value: float) -> str:
    """Write a number, with all digits if it is an integer below `MAX_INTEGER`."""
    return f"{value:,.0f}" if value == round(value) and abs(value) < MAX_INTEGER else f"{value:.6g}"


def _category_profile(name: str, category: Category) -> Profile:
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
        distinct=len(order),
        missing=int((codes < 0).sum()),
        values=", ".join(listed) + (", …" if len(order) > MAX_LEVELS_SHOWN else ""),
        bars=counts[order[:MAX_BARS]].tolist(),
    )


def samples_of(result: Any, rows: Integers) -> list[Sample]:
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


MAX_POINTS_DRAWN, MAX_VALUES_DRAWN = 600, 400_000
"""Largest number of rows that a picture shows, and of values of the rows of all columns."""

CURVE_POINTS = 120

MAX_LISTED = 100_000
"""Largest number of pairs in the table; a pair takes some 100 bytes of the page."""

MAX_MAPPED = 150
"""Largest number of columns of the heat map: a cell is then some five pixels wide."""

HEADERS = {
    "column a": ("a", ""),
    "column b": ("b", ""),
    "KB": ("correlation", "HGR-KB: the largest correlation between polynomials of the two columns"),
    "HGR": (
        "rank_correlation",
        "HGR: the largest correlation between any functions of the two columns, by their ranks",
    ),
    "|Spearman|": ("spearman", "the correlation of the ranks; none with a category"),
    "excess": (
        "rank_excess",
        "HGR above |Spearman| or level means: the non-monotone part",
    ),
    "|Pearson|": ("pearson", "what a straight line explains; none with a category"),
    "p-value": ("pvalue", "probability that ranks of independent columns depend as much"),
    "adjusted p": (
        "adjusted_pvalue",
        "the p-value for so many pairs (a false discovery rate): at most 0.05 is more than chance",
    ),
    "null 95%": ("null_95", "95% quantile of HGR-KB of ranks of independent columns"),
    "corrected": ("corrected", "HGR-KB less its upward bias"),
    "rows": ("n_obs", "rows where both columns are present"),
    "p-value from": (
        "pvalue_source",
        (
            "a law of ranks at several degrees; for a category, Roy's law; exact for two columns of"
            " two values; permutations of ranks; residuals of"
            " ranks given other columns; circular shifts of series; orders within groups"
        ),
    ),
    "remark": ("remark", "what else may make the dependence (of pairs that were examined)"),
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


def order_in_words(result: Any, by: str) -> tuple[str, str]:
    """Return the header that an order sorts by, and the order in words."""
    names = ("HGR", "HGR") if is_of_hgr(result) else ("KB", "HGR-KB")
    header, words = ORDERED_BY[by]
    return header.format(*names), words.format(*names)


def headers_of(result: Any) -> dict[str, tuple[str, str]]:
    """Return the headers of the table of pairs of a scan."""
    left_out = OF_KB if is_of_hgr(result) else ()
    return {name: header for name, header in HEADERS.items() if name not in left_out}


def monotone_part(scan: Any) -> tuple[str, str]:
    """Return the matrix of a `Scan` that heat maps show below the diagonal, and its name.

    It is `Scan.rank_linear`, or |Pearson| of a scan without HGR.
    """
    if not np.isfinite(scan._rows.rank_linear).any():
        return "pearson", "|Pearson|"
    has_categories = len(scan._numbers) < len(scan.used)
    return "rank_linear", "monotone part" if has_categories else "|Spearman|"


def heat_map_columns(scan: Any, by: str = "rank_excess") -> Integers:
    """Return the positions of the columns of a heat map, similar ones side by side.

    All that were used, or the `MAX_MAPPED` columns of the first pairs.
    """
    columns = scan._used
    if len(columns) > MAX_MAPPED:
        paired, first_places = np.unique(scan._ordered(by).pairs, return_index=True)
        columns = np.sort(paired[np.argsort(first_places)[:MAX_MAPPED]])
    order = clustered_order(scan._square("correlation", columns))
    return np.asarray(columns[order])


@one_blas_thread()
@np.errstate(over="ignore", invalid="ignore")  # of values near the largest of all
def as_report(
    result: Any,
    title: str,
    findings: Findings | None = None,
    *,
    by: str = "rank_excess",
) -> HtmlPage:
    """Return the page of a scan: findings with pictures, a heat map, all pairs, its columns.

    The table lists at most `MAX_LISTED` pairs, in the order ``by``, and the heat map shows their
    columns.
    """
    findings = result.findings() if findings is None else findings
    settings = result.settings
    order, left_out = heat_map_columns(result, by), []
    below, measure_below = monotone_part(result)
    pairs = result.top(MAX_LISTED, by=by)
    if len(pairs) < len(result):
        left_out.append(f"The table has the first {len(pairs):,} of {len(result):,} pairs.")
    if len(order) < len(result.used):
        left_out.append(f"The heat map is of {len(order):,} columns, those of the first pairs.")
    all_pairs = result._rows
    discovered = all_pairs.estimated & (all_pairs.adjusted_pvalue <= FALSE_DISCOVERY_RATE)
    summary = {
        "rows": f"{settings['rows']:,}",
        "columns": f"{len(result.used):,}",
        "pairs": f"{len(result):,}",
        "more than chance": f"{int(discovered.sum()):,}",
    }
    if not is_of_hgr(result):
        summary["degrees"] = f"{settings['h']} and {settings['k']}"
    if "top" in settings:
        totals = settings["top"]
        summary["the first of"] = f"{totals['pairs']:,} pairs of {totals['columns']:,} columns"
        summary["of these more than chance"] = f"{totals['discoveries']:,}"
    if "sample_rows" in settings:
        summary["pictures"] = f"of {settings['sample_rows']:,} rows"
    if settings["given"]:
        summary["given"] = ", ".join(settings["given"])
    summary["p-values"] = settings["law"]
    messages = (("left out", result.skipped), ("note", result.notes))
    headers = headers_of(result)
    most = min(MAX_POINTS_DRAWN, MAX_VALUES_DRAWN // max(len(result.used), 1))
    sample = _rows_to_draw(np.arange(result.data.rows), most)
    skipped = [(n, f"{label}: {text}") for label, texts in messages for n, text in texts.items()]
    drawn = dict.fromkeys((*findings, *findings.explained))
    remarks = {(finding.a, finding.b): finding.remark for finding in drawn}
    return HtmlPage(
        title=title,
        summary=summary,
        findings=findings.sections,
        copies=findings.copies,
        remarks=findings.remarks
        if any(True for _ in findings)
        else (findings.why_none, *findings.remarks),
        names=[result.names[i] for i in order],
        correlation=result._square("correlation", order),
        below=result._square(below, order),
        columns=tuple(headers),
        rows=[
            [
                remarks.get((pair.a, pair.b), "") if of == "remark" else getattr(pair, of)
                for of, _ in headers.values()
            ]
            for pair in pairs
        ],
        details=[d for finding in drawn if (d := as_detail(result, finding)) is not None],
        skipped=skipped,
        explanations={header: text for header, (_, text) in headers.items()},
        probabilities=PROBABILITIES,
        ordered_by=order_in_words(result, by)[0],
        measure="HGR" if is_of_hgr(result) else "KB",
        measure_below=measure_below,
        pairs=len(result),
        left_out=left_out,
        profiles=profiles_of(result),
        samples=samples_of(result, sample) if len(result) else (),
    )


def as_detail(result: Any, finding: Finding) -> Detail | None:
    """Return the data and transformations of a finding; None where there is no correlation."""
    names = finding.a, finding.b
    is_of_kb = result.settings["measure"] == "kb"
    shown = details_of(result, *names) if is_of_kb else finding.details
    if shown is None:
        return None
    values = result.values(names[0]), result.values(names[1])
    categories = [result.category(name) for name in names]
    present = ~(np.isnan(values[0]) | np.isnan(values[1]))
    if shown.residuals is not None:
        present &= ~np.isnan(shown.residuals[0])
    influence = shown.influence
    rows = np.union1d(_rows_to_draw(np.flatnonzero(present), MAX_POINTS_DRAWN), influence.rows)
    points, curves = [], []
    for transform, column, category in zip((shown.f, shown.g), values, categories, strict=True):
        points.append(_numbers_or_levels(column[rows], category))
        curves.append(_curve(transform, column[present], category))
    dates = [result.data.dates.get(name) for name in names]
    rows_of = [column[present] for column in values]
    medians: tuple[Any, ...] = ((), ())
    if not any(categories):
        medians = conditional_medians(*rows_of), conditional_medians(*rows_of[::-1])
    marked = int(np.searchsorted(rows, influence.row)) if influence.dominates else None
    return Detail(
        a=names[0],
        b=names[1],
        facts=" · ".join(
            filter(None, [f"HGR {finding.hgr:.3f}", finding.sentence, finding.remark])
        ),
        marked=marked,
        points=list(zip(*points, strict=True)),
        f=curves[0],
        g=curves[1],
        dates=(dates[0], dates[1]),
        medians=(medians[0], medians[1]),
    )


def _rows_to_draw(rows: Integers, most: int) -> Integers:
    """Return a sample of the rows."""
    if len(rows) <= most:
        return rows
    return np.random.default_rng(0).choice(rows, most, replace=False)


def _numbers_or_levels(values: Any, category: Category | None) -> list[Any]:
    if category is None:
        return list(values.tolist())
    return [category.levels[level] for level in values.astype(int)]


def _curve(transform: Transform, values: Any, category: Category | None) -> Curve:
    if category is None:
        grid = np.linspace(values.min(), values.max(), CURVE_POINTS)
        shape = Shape.of(values, transform(values))
        at = shape.points[list(shape.turns)]
        turns = [(x, transform(x)) for x in at.tolist()]
        return Curve(grid.tolist(), transform(grid).tolist(), turns)
    levels = np.unique(values.astype(int))
    return Curve([category.levels[level] for level in levels], transform(levels).tolist())
