"""Columns of texts: DuckDB reads plain numbers and dates, all others go by their distinct texts."""

from __future__ import annotations

import collections
import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hgr_jax._optional import require
from hgr_jax.tables.arrays import ParsedColumn, parsed_as
from hgr_jax.tables.arrow_columns import arrow
from hgr_jax.tables.date_texts import ISO_DATE, UNMARKED_ORDERS, read_date
from hgr_jax.tables.meanings import (
    Coded,
    Hints,
    Meaning,
    Tally,
    Texts,
    decide_meanings,
    is_gap_sign,
    is_missing,
    texts_of,
)

FIRST_ROWS = 400
"""Number of rows from which columns of plain values are told."""

EXAMPLES = 30
"""Number of texts that stand for all plain values of a column."""

MAX_EXACT_DIGITS = 15
"""Largest number of digits of integers that are surely exact in float64."""

_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")


class _Form(NamedTuple):
    """How columns of one kind of plain values are read at once.

    Attributes:
      all_are: the pattern of all first texts.
      some_are: the pattern of one of them at least; it can be of no other kind.
      value: SQL for the value of a ``TEXT``.
      doubt: SQL that tells which texts may be something else.
      point: the decimal point, ``""`` for dates.
    """

    all_are: re.Pattern[str]
    some_are: re.Pattern[str]
    value: str
    doubt: str
    point: str = ""


def _decimal(point: str, value: str, doubt: str) -> _Form:
    all_are = rf"[-+]?[0-9]+(?:[{point}][0-9]*)?"
    some_are = rf"(?:[0-9]+[{point}](?:[0-9]{{1,2}}|[0-9]{{4,}})|(?:0|[0-9]{{4,}})[{point}][0-9]+)"
    some_are = rf"[-+]?{some_are}"
    return _Form(re.compile(all_are), re.compile(some_are), value, doubt, point)


_AS_NUMBER = "nullif(try_cast({} AS DOUBLE), 'nan')"
_FORMS = (
    _Form(
        re.compile(ISO_DATE),
        re.compile(ISO_DATE),
        "try_cast(TEXT AS TIMESTAMP)",
        f"NOT regexp_full_match(TEXT, '{ISO_DATE}') OR starts_with(TEXT, '0000')",
    ),
    _decimal(".", _AS_NUMBER.format("TEXT"), "false"),
    _decimal(",", _AS_NUMBER.format("replace(TEXT, ',', '.')"), "contains(TEXT, '.')"),
    _Form(
        _INTEGER,
        _INTEGER,
        _AS_NUMBER.format("TEXT"),
        "starts_with(TEXT, '0') AND TEXT[2] BETWEEN '0' AND '9' OR TEXT LIKE '%.___'",
        ".",
    ),
)
"""Forms of plain values; of integers, a point may lie between thousands, a zero begin a code."""


class TextColumns(NamedTuple):
    """The columns of a table of texts.

    Attributes:
      columns: their names in SQL, and first texts of those that may be read at once, by name.
      run: returns an Arrow table of what is selected in SQL.
      underscores: whether texts may hold underscores; DuckDB takes 1_000 for a number.
    """

    columns: Mapping[str, tuple[str, Sequence[str]]]
    run: Callable[[str], Any]
    underscores: bool = True

    def read(self, hints: Mapping[str, Hints], *, at_once: bool) -> dict[str, Coded]:
        """Read the columns of which something is known; perhaps plain values at once."""
        forms, select = dict[str, _Form](), []
        for place, (name, hint) in enumerate(hints.items()):
            text, head = self.columns[name]
            form = _form_of(head, hint) if at_once and hint.type is None else None
            if form is None:
                select.append(f"{text} AS t{place}")
            else:
                forms[name] = form
                doubt = f"({form.doubt})" + self.underscores * " OR contains(TEXT, '_')"
                value = f"CASE WHEN NOT ({doubt}) THEN {form.value} END AS v{place}"
                odd = f"CASE WHEN v{place} IS NULL AND TEXT <> '' THEN TEXT END AS t{place}"
                select.append(f"{value}, {odd}".replace("TEXT", text))
        table = self.run(", ".join(select))
        found = {}
        for place, name in enumerate(hints):
            codes, levels = encoded_texts(table[f"t{place}"])
            found[name] = Coded(codes, [level.strip() for level in levels])
            if name in forms:
                missing = np.datetime64("NaT", "us") if not forms[name].point else np.nan
                values = as_numpy(table[f"v{place}"].combine_chunks(), missing)
                examples = _examples(self.columns[name][1], values)
                found[name] = Coded(*found[name][:2], values, examples, forms[name].point)
        return found


def columns_of_arrow(table: Any) -> TextColumns:
    """Return the columns of an Arrow table of texts."""

    def run(select: str) -> Any:
        with contextlib.closing(require("duckdb").connect()) as database:
            database.register("texts", table.rename_columns(places))
            return database.sql(f"SELECT {select} FROM texts").to_arrow_table()

    places, head = [f"c{i}" for i in range(table.num_columns)], table.slice(0, FIRST_ROWS)
    texts = [[(text or "").strip() for text in column.to_pylist()] for column in head.columns]
    return TextColumns(
        dict(zip(table.column_names, zip(places, texts, strict=True), strict=True)), run
    )


def read_texts(
    table: TextColumns, hints: Mapping[str, Hints], wanted: Sequence[str]
) -> tuple[dict[str, ParsedColumn], dict[str, Texts]]:
    """Parse columns of texts by what is known of them; all of these decide together.

    Returns:
      The ``wanted`` columns by name, and the texts of those of them that are not text.
    """
    for at_once in (True, False):
        columns = table.read(hints, at_once=at_once)
        texts = {name: texts_of(columns[name], hint.missing) for name, hint in hints.items()}
        meanings = decide_meanings(texts, hints)
        if all(_holds(columns[name], meaning) for name, meaning in meanings.items()):
            break
    parsed = {n: parsed_as(meanings[n], columns[n], hints[n]) for n in wanted}
    return parsed, {name: texts[name] for name in wanted if not meanings[name].is_text}


def _holds(column: Coded, meaning: Meaning) -> bool:
    """Tell whether values that were read at once are what all texts of the column mean."""
    if column.values is None:
        return True
    if column.values.dtype.kind == "M":
        return meaning.kind.order == "iso"
    coded = (level[:1] == "0" and len(level) > 1 and level.isdecimal() for level in column.levels)
    return meaning.kind.point == column.point and not any(coded)


def _form_of(head: Sequence[str], hint: Hints) -> _Form | None:
    """Return the form of a column that begins with these texts, None if it may be anything."""
    texts = [text for text in head if not (is_missing(text, hint.missing) or is_gap_sign(text))]
    for form in _FORMS if texts else ():
        fits = hint.point in (None, form.point) or not form.point
        if not fits or not all(map(form.all_are.fullmatch, texts)):
            continue
        if form.all_are is _INTEGER and (
            all(map(_may_be_date, texts)) or max(map(len, texts)) > MAX_EXACT_DIGITS
        ):
            continue
        if any(map(form.some_are.fullmatch, texts)):
            return form
    return None


def _may_be_date(text: str) -> bool:
    orders = ("digits", "month", *(f"unmarked {order}" for order in UNMARKED_ORDERS))
    return any(read_date(text, order) is not None for order in orders)


def _examples(head: Sequence[str], values: NDArray[Any]) -> list[Tally]:
    """Return different first texts, and the longest; they stand for all values of a column."""
    first: dict[str, int] = {}
    for row in np.flatnonzero(values[: len(head)] == values[: len(head)]).tolist():
        first.setdefault(head[row], row)
    chosen = {*[*first][:EXAMPLES], *sorted(first, key=len)[-1:]}
    counts = collections.Counter(text for text in head if text in chosen)
    rows = int((values == values).sum())
    shares = {text: count * rows // counts.total() for text, count in counts.items()}
    for text in [*shares][:1]:
        shares[text] += rows - sum(shares.values())
    return [Tally(first[text], text, share) for text, share in shares.items()]


def encoded_texts(texts: Any) -> tuple[NDArray[np.int32], list[str]]:
    """Return the codes of an Arrow column of texts, -1 where null, and the distinct texts."""
    if texts.null_count == len(texts):
        return np.broadcast_to(np.int32(-1), len(texts)), []
    if texts.nbytes >= 2**31:
        texts = texts.cast(arrow().large_string())
    encoded = texts.combine_chunks().dictionary_encode()
    return as_numpy(encoded.indices, np.int32(-1)), encoded.dictionary.to_pylist()


def as_numpy(array: Any, missing: Any) -> NDArray[Any]:
    """Return an Arrow array of numbers of the type of ``missing``, which stands for null.

    The methods of pyarrow that do this import pandas.
    """
    bits, data = array.buffers()
    rows = slice(array.offset, array.offset + len(array))
    values = np.frombuffer(data, np.asarray(missing).dtype)[rows]
    if not array.null_count:
        return values
    valid = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[rows]
    return np.where(valid.astype(bool), values, missing)
