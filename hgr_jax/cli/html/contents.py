"""What the page of a scan shows: columns, pairs, and some of them in full."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from numpy.typing import ArrayLike

Value = str | float | int | None
"""An entry of the table of pairs; None where there is none."""


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
      dates: of a and of b, where they hold dates in days: the first, in seconds since 1970 (UTC).
      copies: names of other columns that hold the same as a, and as b.
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
    """One column of the table, as it was read.

    Attributes:
      name: of the column.
      kind: what it was read as, in words.
      distinct, missing: how many values there are, and how many rows without; None if unknown.
      values: the range of a number, or the levels that occur most, in words.
      bars: heights of a small histogram, of the range or of those levels; may be empty.
      alerts: what to look at, in words.
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
    """A column's values in the rows that a picture of any two columns shows.

    Attributes:
      name: of the column.
      values: of these rows, NaN or "" where there is none; texts of a category.
      levels: of a category, in their order; else empty.
      first: of dates in days, the first, in seconds since 1970 (UTC).
    """

    name: str
    values: Sequence[float | str]
    levels: Sequence[str] = ()
    first: float | None = None


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
      profiles: a summary of every column.
      pairs: how many there are in all, where the rows are only the first of them; else None.
      left_out: what this page leaves out, in sentences.
      samples: of every column that was used, the same rows; left out if they would take more than
        2 MB.
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
