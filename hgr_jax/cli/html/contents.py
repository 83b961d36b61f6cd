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
      points: ``(value of a, value of b)`` of at most about 1000 rows; texts for a category.
      transformed: ``(f(a), g(b))`` of the same rows.
      note: a further text, such as the formulas.
      facts: the measures of the pair in one line; if empty, the page shows those of the heat map.
      pearson, correlation: signed correlations of all rows, before and after transformation; if
        None, the page computes them from ``points`` and ``transformed``.
      marked: the point that makes a large part of the correlation.
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
    """The contents of the page.  All texts are shown as they are, never read as markup.

    Attributes:
      summary: names and values of the facts below the title.
      names: of the p columns of the heat map, in order.
      correlation, pearson: ``(p, p)``; the first is drawn above the diagonal, the absolute value of
        the second below.  A NaN is replaced by the value on the other side of the diagonal.
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
