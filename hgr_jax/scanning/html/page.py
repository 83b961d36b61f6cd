"""Write the page of a scan as one HTML file that needs no network."""

from __future__ import annotations

import dataclasses
import html
import json
import math
import string
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgr_jax._files import atomic_write
from hgr_jax._limits import SMALLEST_OF_TAIL
from hgr_jax._texts import SMALLEST_PVALUE, counted
from hgr_jax.scanning.findings import FINDING_HEADERS, Finding, finding_cells

TABLE_DIGITS = 6
MAX_LETTERS = 40
MATRIX_DECIMALS = 4
PICTURE_DIGITS = 4

LARGEST_ROUNDED = 1e300
"""Range of values from which on they are not rounded, which might make them infinite."""

SCRIPTS = ("page.js", "table.js", "heat_map.js", "axes.js", "details.js", "columns.js", "report.js")


Value = str | float | int | None
"""An entry of the table of pairs; None if it is empty."""


@dataclasses.dataclass(frozen=True)
class Curve:
    """A copula transformation: ``y`` at ascending values or at the levels ``x`` of a category.

    ``turns`` are the points where it turns.
    """

    x: Sequence[float] | Sequence[str]
    y: Sequence[float]
    turns: Sequence[tuple[float, float]] = ()


@dataclasses.dataclass(frozen=True)
class Detail:
    """The pictures and measures of one pair.

    Attributes:
      points: ``(value of a, value of b)`` of at most about 1000 rows; texts for a category.
      f, g: transformations of both columns.
      facts: what is known of the pair in one line.
      medians: of two numbers, ``(median of a, median of b, its 95% limits)`` in bins of a; and the
        same with a and b exchanged.
      marked: the point that makes a large part of the correlation.
      dates: for a and b, the first date in seconds since 1970 (UTC) if the values are days.
    """

    a: str
    b: str
    points: Sequence[tuple[float | str, float | str]]
    f: Curve
    g: Curve
    facts: str = ""
    marked: int | None = None
    dates: tuple[float | None, float | None] = (None, None)
    medians: tuple[Sequence[Sequence[float]], Sequence[Sequence[float]]] = ((), ())


@dataclasses.dataclass(frozen=True)
class Profile:
    """A summary of one column; values and alerts in words, None for unknown numbers."""

    name: str
    kind: str
    distinct: int | None
    missing: int | None
    values: str
    bars: Sequence[int] = ()
    alerts: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Sample:
    """The values of a column in the rows that the picture of any two columns shows.

    Missing values are NaN, or "" of a category, which has ``levels``.  Dates are days after
    ``first``, in seconds since 1970 (UTC).
    """

    name: str
    values: Sequence[float | str]
    levels: Sequence[str] = ()
    first: float | None = None


@dataclasses.dataclass(frozen=True)
class HtmlPage:
    """The contents of the page.  Texts are never read as markup.

    Attributes:
      summary: names and values of the facts below the title.
      findings: lists of findings with their titles.
      copies: groups of columns of nearly the same ranks.
      remarks: remarks on the table as a whole.
      names: of the p columns of the heat map, in order.
      correlation, below: ``(p, p)``; the first is drawn above the diagonal, the absolute value of
        the second below.  A NaN is replaced by the value on the other side of the diagonal.
      columns: headers of the table of pairs; the first two columns hold the names of a pair.
      rows: the pairs, in the order in which they are first shown.
      details: pictures of the findings.
      skipped: names of columns that were left out or have a note, and the reason or note.
      measure, measure_below: short names of ``correlation`` and ``below``.
      explanations: the meaning of headers.
      probabilities: headers of p-values, of which small ones are the strongest.
      ordered_by: the header by which the rows are sorted.
      profiles: a summary of every column.
      pairs: the number of all pairs if ``rows`` holds only the first, else None.
      left_out: what the page leaves out, in sentences.
      samples: values of every used column in the same rows.
    """

    title: str
    summary: Mapping[str, str]
    names: Sequence[str]
    correlation: ArrayLike
    below: ArrayLike
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]
    findings: Sequence[tuple[str, Sequence[Finding]]] = ()
    copies: Sequence[Sequence[str]] = ()
    remarks: Sequence[str] = ()
    details: Sequence[Detail] = ()
    skipped: Sequence[tuple[str, str]] = ()
    measure: str = "KB"
    measure_below: str = "|Pearson|"
    explanations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    probabilities: Collection[str] = ()
    ordered_by: str = ""
    profiles: Sequence[Profile] = ()
    pairs: int | None = None
    left_out: Sequence[str] = ()
    samples: Sequence[Sample] = ()


def write_html(report: HtmlPage, path: str | Path) -> None:
    """Write a page to one HTML file that loads no other file."""
    page = render(report)
    with atomic_write(path) as partial:
        partial.write_text(page, encoding="utf-8", errors="backslashreplace", newline="\n")


def render(report: HtmlPage) -> str:
    """Return the HTML of a page."""
    text = json.dumps(_page(report), allow_nan=False, separators=(",", ":"))
    for character in "<>&":  # json.dumps escapes U+2028 and U+2029: it writes ASCII only
        text = text.replace(character, f"\\u{ord(character):04x}")
    return string.Template(_asset("report.html")).substitute(
        title=html.escape(report.title),
        hidden="" if report.findings or report.copies or report.remarks else " hidden",
        style=_asset("report.css"),
        script="\n".join(map(_asset, SCRIPTS)),
        findings=_findings(report),
        data=text,
    )


def _findings(report: HtmlPage) -> str:
    """Return the findings, and groups of copies, as HTML that needs no script."""
    parts = []
    if report.findings:
        cards = {(detail.a, detail.b): i for i, detail in enumerate(report.details)}
        head = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in FINDING_HEADERS)
        lists = "".join(_finding_list(*titled, cards) for titled in report.findings)
        parts.append(f"<table><thead><tr>{head}</tr></thead>{lists}</table>")
    if report.copies:
        groups = "".join(f"<li>{html.escape(', '.join(group))}</li>" for group in report.copies)
        title = f"Columns of (nearly) the same ranks ({counted(len(report.copies), 'group')})"
        parts.append(f"<details><summary>{title}</summary><ul>{groups}</ul></details>")
    parts += [f'<p class="hint">{html.escape(text)}</p>' for text in report.remarks]
    return "\n".join(parts)


def _finding_list(
    title: str, findings: Sequence[Finding], cards: Mapping[tuple[str, str], int]
) -> str:
    """Return a list of findings as rows, of which the first cell links to the picture."""
    span = len(FINDING_HEADERS)
    rows = [f'<tr><th scope="rowgroup" colspan="{span}">{html.escape(title)}</th></tr>']
    for finding in findings:
        names, *values, _ = finding_cells(finding, MAX_LETTERS)
        names = html.escape(names)
        card = cards.get((finding.a, finding.b))
        link = names if card is None else f'<a href="#detail-{card}">{names}</a>'
        cells = "".join(f"<td>{html.escape(value)}</td>" for value in values)
        remark = html.escape("; ".join(filter(None, [finding.sentence, finding.remark])))
        rows.append(f'<tr><th scope="row">{link}</th>{cells}<td class="remark">{remark}</td></tr>')
    return f"<tbody>{''.join(rows)}</tbody>"


def _asset(name: str) -> str:
    return (resources.files("hgr_jax.scanning.html") / name).read_text(encoding="utf-8")


def _page(report: HtmlPage) -> dict[str, Any]:
    return {
        "title": report.title,
        "measure": report.measure,
        "measure_below": report.measure_below,
        "summary": [[name, str(value)] for name, value in report.summary.items()],
        "names": list(report.names),
        "above": _triangle(report.correlation),
        "below": _triangle(report.below),
        "rows": len(report.rows),
        "pairs": len(report.rows) if report.pairs is None else report.pairs,
        "left_out": list(report.left_out),
        "columns": [
            column
            | {
                "help": report.explanations.get(column["name"], ""),
                "smallest": SMALLEST_PVALUE if column["name"] in report.probabilities else None,
                "floor": SMALLEST_OF_TAIL,
                "ordering": column["name"] == report.ordered_by,
            }
            for column in _table_columns(report.columns, report.rows)
        ],
        "details": [_detail(detail) for detail in report.details],
        "skipped": [list(pair) for pair in report.skipped],
        "profiles": [dataclasses.asdict(profile) for profile in report.profiles],
        "samples": _samples(report.samples),
    }


def _triangle(values: ArrayLike) -> list[float | None]:
    """Return the absolute values above the diagonal, row by row."""
    matrix = np.asarray(values, dtype=np.float64)
    if not matrix.size:
        return []
    matrix = np.abs(np.where(np.isfinite(matrix), matrix, matrix.T))
    upper: NDArray[np.float64] = matrix[np.triu_indices(len(matrix), 1)].round(MATRIX_DECIMALS)
    return [value if math.isfinite(value) else None for value in upper.tolist()]


def _table_columns(headers: Sequence[str], rows: Sequence[Sequence[Value]]) -> list[dict[str, Any]]:
    columns = zip(*rows, strict=True) if rows else ((),) * len(headers)
    return [
        {"name": header, **_column(column, is_text=i < 2)}
        for i, (header, column) in enumerate(zip(headers, columns, strict=True))
    ]


def _column(values: Sequence[Any], *, is_text: bool) -> dict[str, Any]:
    """Return texts as levels and codes; numbers as they are."""
    if is_text or any(isinstance(value, str) for value in values):
        codes: dict[str, int] = {}
        return {
            "values": [codes.setdefault(text, len(codes)) for text in values],
            "levels": list(codes),
        }
    if all(isinstance(value, int) for value in values):
        return {"values": values, "integer": True}
    return {"values": _significant(values)}


def _significant(values: Iterable[float | None]) -> list[float | None]:
    return [
        None if value is None or not math.isfinite(value) else float(f"{value:.{TABLE_DIGITS}g}")
        for value in values
    ]


def _detail(detail: Detail) -> dict[str, Any]:
    sides = [
        _side(name, [point[i] for point in detail.points], curve, detail.dates[i])
        for i, (name, curve) in enumerate(((detail.a, detail.f), (detail.b, detail.g)))
    ]
    medians = [[_significant(point) for point in line] for line in detail.medians]
    return {"sides": sides, "medians": medians, "facts": detail.facts, "marked": detail.marked}


def _side(
    name: str, values: Sequence[float | str], curve: Curve, first: float | None
) -> dict[str, Any]:
    """Return one column of a pair; a category as codes and levels."""
    side: dict[str, Any] = {"name": name, "y": _drawn([float(y) for y in curve.y]), "first": first}
    if not any(isinstance(value, str) for value in (*curve.x, *values)):
        grid = _drawn([float(x) for x in curve.x])
        side |= {"turns": [_drawn(turn) for turn in curve.turns], "levels": None, "x": grid}
        return side | {"values": _drawn([float(v) for v in values])}
    codes: dict[str, int] = {}
    x = [codes.setdefault(str(level), len(codes)) for level in curve.x]
    points = [codes.setdefault(str(value), len(codes)) for value in values]
    return side | {"levels": list(codes), "values": points, "x": x}


def _samples(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    sides = []
    for sample in samples:
        codes = {level: i for i, level in enumerate(sample.levels)}
        values: list[Any] = (
            [codes.get(str(value)) for value in sample.values]
            if codes
            else _drawn([float(value) for value in sample.values])
        )
        side = {"name": sample.name, "values": values, "x": [], "first": sample.first}
        sides.append(side | {"levels": list(sample.levels) or None})
    return sides


def _drawn(values: Iterable[float]) -> list[float | None]:
    """Round values to the decimals that a picture of them can show."""
    values = list(values)
    finite = [value for value in values if math.isfinite(value)]
    span = max(finite) - min(finite) if finite else 0.0
    if 0 < span < LARGEST_ROUNDED:
        decimals = PICTURE_DIGITS - math.floor(math.log10(span))
        values = [round(value, decimals) if math.isfinite(value) else value for value in values]
        values = [int(v) if abs(v) < 2**53 and v.is_integer() else v for v in values]
    return [value if math.isfinite(value) else None for value in values]
