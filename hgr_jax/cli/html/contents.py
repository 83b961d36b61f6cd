"""What the page of a scan shows: columns, pairs, and details of the first pairs."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from numpy.typing import ArrayLike

Value = str | float | int | None
"""An entry of the table of pairs; None if it is empty."""


@dataclasses.dataclass(frozen=True)
class Curve:
    """A copula transformation: ``y`` at ascending values or at the levels ``x`` of a category."""

    x: Sequence[float] | Sequence[str]
    y: Sequence[float]


@dataclasses.dataclass(frozen=True)
class Detail:
    """The pictures and measures of one pair.

    Attributes:
      a, b: names of the two columns.
      points: ``(value of a, value of b)`` of at most about 1000 rows; texts for a category.
      f, g: the transformations of a and of b.
      transformed: ``(f(a), g(b))`` of the same rows.
      note: a further text, such as the formulas; may be empty.
      facts: the measures of the pair in one line; if empty, the page shows those of the heat map.
      pearson, correlation: signed correlations of all rows, before and after transformation; if
        None, the page computes them from ``points`` and ``transformed``.
      marked: the point that makes a large part of the correlation, or None.
      dates: for a and b, the first date in seconds since 1970 (UTC) if the values are days.
      copies: names of other columns that are copies of a, and of b.
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
    dates: tuple[float | None, float | None] = (None, None)
    copies: tuple[Sequence[str], Sequence[str]] = ((), ())


@dataclasses.dataclass(frozen=True)
class Profile:
    """A summary of one column.

    Attributes:
      name: the name of the column.
      kind: the kind of its values, in words.
      distinct, missing: numbers of distinct and of missing values; None if unknown.
      values: the range of numbers, or the most frequent levels, in words.
      bars: heights of a small histogram; may be empty.
      alerts: warnings about the column, in words.
    """

    name: str
    kind: str
    distinct: int | None
    missing: int | None
    values: str
    bars: Sequence[int] = ()
    alerts: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Sample:
    """A column's values in the rows that the picture of any two columns shows.

    Attributes:
      name: the name of the column.
      values: numbers, NaN where missing; or texts of a category, "" where missing.
      levels: the levels of a category in order, else empty.
      first: the first date in seconds since 1970 (UTC), if the values are days.
    """

    name: str
    values: Sequence[float | str]
    levels: Sequence[str] = ()
    first: float | None = None


@dataclasses.dataclass(frozen=True)
class HtmlPage:
    """The contents of the page.  All texts are shown as they are, never read as markup.

    Attributes:
      title: the title.
      summary: names and values of the facts below the title.
      names: names of the p columns of the heat map, in order.
      correlation: ``(p, p)``, symmetric, drawn above the diagonal; NaN if undefined.  A NaN on one
        side of the diagonal is replaced by the value on the other side.
      pearson: the same, but its absolute value is drawn below the diagonal.
      columns: headers of the table of pairs; the first two columns hold the names of a pair.
      rows: the pairs, in the order in which they are first shown.
      details: pictures and measures of about 20 pairs at most.
      skipped: names of columns that were left out or have a note, and the reason or note.
      measure: short name of ``correlation``.
      explanations: the meaning of headers.
      probabilities: headers of p-values, of which small ones are the strongest.
      ordered_by: the header by which the rows are sorted.
      profiles: a summary of every column.
      pairs: the number of all pairs if ``rows`` holds only the first, else None.
      left_out: what the page leaves out, in sentences.
      samples: values of every used column in the same rows; left out if they take more than 2 MB.
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
    profiles: Sequence[Profile] = ()
    pairs: int | None = None
    left_out: Sequence[str] = ()
    samples: Sequence[Sample] = ()
