"""A scan of all pairs as one HTML file: table, heat map and pictures, without any network."""

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

Value = str | float | int | None
"""An entry of the table of pairs; None where there is none."""

TABLE_DIGITS = 6
MATRIX_DECIMALS = 4
PICTURE_DIGITS = 4

SCRIPTS = ("page.js", "table.js", "heat_map.js", "details.js", "report.js")


@dataclasses.dataclass(frozen=True)
class Curve:
    """One variable's copula transformation.

    Attributes:
      x: a grid of values in ascending order, or the levels of a category.
      y: the transformation of each.
    """

    x: Sequence[float] | Sequence[str]
    y: Sequence[float]


@dataclasses.dataclass(frozen=True)
class Detail:
    """A pair to be shown in full.

    Attributes:
      a, b: names of the two columns.
      points: ``(value of a, value of b)`` of some of the rows, about 1000 at most; a text for a
        category.
      f, g: the transformations of a and of b.
      transformed: ``(f(a), g(b))`` of the same rows.
      note: what else to say, such as the formulas in words; may be empty.
      facts: the measures of the pair in a line; if empty, those of the heat map.
      pearson, correlation: of all rows, signed, as they are and transformed; if None, those of the
        rows drawn are shown.
      marked: which of the points makes a large part of the correlation, or None.
    """

    a: str
    b: str
    points: Sequence[tuple[float | str, float | str]]
    f: Curve
    g: Curve
    transformed: Sequence[tuple[float, float]]
    note: str = ""
    facts: str = ""
    pearson: float | None = None
    correlation: float | None = None
    marked: int | None = None


@dataclasses.dataclass(frozen=True)
class HtmlPage:
    """The contents of the page.  All texts are shown as they are, never read as markup.

    Attributes:
      title: of the page.
      summary: names and values of the facts below the title.
      names: of the p columns, in the order of the heat map.
      correlation: ``(p, p)``, symmetric, drawn above the diagonal; NaN where there is none.  An
        entry that is NaN on one side of the diagonal is taken from the other.
      pearson: likewise, its absolute value drawn below the diagonal.
      columns: headers of the table of pairs; the first two columns hold the names of a pair.
      rows: one for each pair, in the order in which they are first shown.
      details: pairs to be shown in full, about 20 at most.
      skipped: names of columns left out, and of those with a note, and what to say of each.
      measure: short name of ``correlation``.
      explanations: what a header means.
      probabilities: headers of p-values: small ones are the strongest.
      ordered_by: the header that the rows are sorted by.
    """

    title: str
    summary: Mapping[str, str]
    names: Sequence[str]
    correlation: ArrayLike
    pearson: ArrayLike
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]
    details: Sequence[Detail] = ()
    skipped: Sequence[tuple[str, str]] = ()
    measure: str = "KB"
    explanations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    probabilities: Collection[str] = ()
    ordered_by: str = ""


def write_html(report: HtmlPage, path: str | Path) -> None:
    """Write a report to one HTML file that loads nothing else.

    Folders on the way are created.  The file appears when it is complete: a failure leaves no
    file behind, nor harms one that was there.

    Args:
      report: what to show.
      path: of the file.

    Raises:
      ValueError: if parts of the report do not fit together; see `render`.
      OSError: if the file cannot be written.

    Example:
      >>> import pathlib, tempfile
      >>> from hgr_jax.cli.html.page import HtmlPage, write_html
      >>> table = {"columns": ("column a", "column b", "KB"), "rows": [("age", "income", 0.81)]}
      >>> values = [[1.0, 0.81], [0.81, 1.0]]
      >>> report = HtmlPage("A scan", {"rows": "200"}, ("age", "income"), values, values, **table)
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = pathlib.Path(folder) / "scans" / "report.html"
      ...     write_html(report, path)
      ...     path.read_text(encoding="utf-8")[:15]
      '<!DOCTYPE html>'
    """
    page = render(report)
    with atomic_write(path) as partial:
        partial.write_text(page, encoding="utf-8", errors="backslashreplace", newline="\n")


def render(report: HtmlPage) -> str:
    """Return the page of a report, as text.

    Args:
      report: what to show.

    Raises:
      ValueError: if ``correlation`` or ``pearson`` is not ``(p, p)``, there are fewer than two
        headers, a row has another length than the headers, a curve's ``y`` another than its
        ``x``, or ``transformed`` another than ``points``.

    Example:
      >>> from hgr_jax.cli.html.page import HtmlPage, render
      >>> page = render(HtmlPage("<b>", {}, (), [], [], ("column a", "column b"), []))
      >>> "<title>&lt;b&gt;</title>" in page
      True
    """
    text = json.dumps(_page(report), allow_nan=False, separators=(",", ":"))
    for character in "<>&":  # U+2028 and U+2029 are escaped already: json.dumps writes ASCII only
        text = text.replace(character, f"\\u{ord(character):04x}")
    return string.Template(_asset("report.html")).substitute(
        title=html.escape(report.title),
        style=_asset("report.css"),
        script="\n".join(map(_asset, SCRIPTS)),
        data=text,
    )


def _asset(name: str) -> str:
    return (resources.files("hgr_jax.cli.html") / name).read_text(encoding="utf-8")


def _page(report: HtmlPage) -> dict[str, Any]:
    p = len(report.names)
    return {
        "title": report.title,
        "measure": report.measure,
        "summary": [[name, str(value)] for name, value in report.summary.items()],
        "names": list(report.names),
        "above": _triangle("correlation", report.correlation, p),
        "below": _triangle("pearson", report.pearson, p),
        "rows": len(report.rows),
        "columns": [
            column
            | {
                "help": report.explanations.get(column["name"], ""),
                "probability": column["name"] in report.probabilities,
                "ordering": column["name"] == report.ordered_by,
            }
            for column in _table_columns(report.columns, report.rows)
        ],
        "details": [_detail(detail) for detail in report.details],
        "skipped": [list(pair) for pair in report.skipped],
    }


def _triangle(name: str, values: ArrayLike, p: int) -> list[float | None]:
    """Return absolute values above the diagonal, row by row."""
    matrix = np.asarray(values, dtype=np.float64)
    if p == 0 and matrix.size == 0:
        return []
    if matrix.shape != (p, p):
        raise ValueError(f"{name} must be (p, p) for the p = {p} names; got {matrix.shape}.")
    matrix = np.abs(np.where(np.isfinite(matrix), matrix, matrix.T))
    upper: NDArray[np.float64] = matrix[np.triu_indices(p, 1)].round(MATRIX_DECIMALS)
    return [value if math.isfinite(value) else None for value in upper.tolist()]


def _table_columns(headers: Sequence[str], rows: Sequence[Sequence[Value]]) -> list[dict[str, Any]]:
    if len(headers) < 2:
        raise ValueError(f"columns must start with two of names; got {tuple(headers)!r}.")
    for i, row in enumerate(rows):
        if len(row) != len(headers):
            raise ValueError(f"row {i} has {len(row)} entries for {len(headers)} columns.")
    columns = zip(*rows, strict=True) if rows else ((),) * len(headers)
    return [
        {"name": header, **_column([_python_value(value) for value in column], is_text=i < 2)}
        for i, (header, column) in enumerate(zip(headers, columns, strict=True))
    ]


def _column(values: list[Any], *, is_text: bool) -> dict[str, Any]:
    """Return texts as levels and codes, -1 where there is none; numbers as they are."""
    if is_text or any(isinstance(value, str) for value in values):
        codes: dict[str, int] = {}
        texts = [_text(value) for value in values]
        found = [-1 if text is None else codes.setdefault(text, len(codes)) for text in texts]
        return {"values": found, "levels": list(codes)}
    if all(value is None or isinstance(value, int) for value in values):
        return {"values": values, "integer": True}
    return {"values": [None if value is None else _significant(value) for value in values]}


def _python_value(value: Any) -> Any:
    """Return a value of Python, where it was one of an array; truth values as words."""
    value = value.item() if isinstance(value, np.generic) else value
    return ("no", "yes")[value] if isinstance(value, bool) else value


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return f"{value:.{TABLE_DIGITS}g}" if math.isfinite(value) else None


def _significant(value: float) -> float | int | None:
    if isinstance(value, int):
        return value
    return float(f"{value:.{TABLE_DIGITS}g}") if math.isfinite(value) else None


def _detail(detail: Detail) -> dict[str, Any]:
    if len(detail.points) != len(detail.transformed):
        raise ValueError(
            f"transformed must have the {len(detail.points)} rows of points, for the pair "
            f"{detail.a!r}, {detail.b!r}; got {len(detail.transformed)}."
        )
    sides = [
        _side(name, [point[i] for point in detail.points], curve)
        | {"transformed": _drawn([float(pair[i]) for pair in detail.transformed])}
        for i, (name, curve) in enumerate(((detail.a, detail.f), (detail.b, detail.g)))
    ]
    facts = {name: getattr(detail, name) for name in ("note", "facts", "marked")}
    values = {
        name: None if (value := getattr(detail, name)) is None else _significant(float(value))
        for name in ("pearson", "correlation")
    }
    return {"sides": sides} | facts | values


def _side(name: str, values: Sequence[float | str], curve: Curve) -> dict[str, Any]:
    """Return one variable of a pair; a category as codes of its levels."""
    if len(curve.x) != len(curve.y):
        raise ValueError(
            f"y of the curve of {name!r} must have the {len(curve.x)} entries of x; "
            f"got {len(curve.y)}."
        )
    side: dict[str, Any] = {"name": name, "y": _drawn([float(y) for y in curve.y])}
    if not any(isinstance(value, str) for value in (*curve.x, *values)):
        grid = _drawn([float(x) for x in curve.x])
        return side | {"levels": None, "values": _drawn([float(v) for v in values]), "x": grid}
    codes: dict[str, int] = {}
    x = [codes.setdefault(str(level), len(codes)) for level in curve.x]
    points = [codes.setdefault(str(value), len(codes)) for value in values]
    return side | {"levels": list(codes), "values": points, "x": x}


def _drawn(values: Iterable[float]) -> list[float | None]:
    """Return values to as many decimals as a picture of all of them can show."""
    values = list(values)
    finite = [value for value in values if math.isfinite(value)]
    span = max(finite) - min(finite) if finite else 0.0
    if 0 < span < math.inf:
        decimals = PICTURE_DIGITS - math.floor(math.log10(span))
        values = [round(value, decimals) if math.isfinite(value) else value for value in values]
    return [value if math.isfinite(value) else None for value in values]
