"""What Arrow columns of texts mean: decided from all rows, in one go or added up over batches.

The rows that Arrow parses in one go (plain numbers, ISO dates) are told apart by their looks, and
count as their first text; only the others are parsed one by one, by `texts`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax.tables.delimited import arrow
from hgr_jax.tables.texts import (
    DASHES,
    ISO_DATE,
    MAX_EXACT_DIGITS,
    MISSING,
    SAMPLE_SIZE,
    Form,
    Inferred,
    KindCounts,
    Meaning,
    as_integer,
    in_seconds,
    infer_meaning,
    lost_digits_note,
)

_WHOLE_NUMBERS = r"^[-+]?[0-9]+([eE][-+]?[0-9]+)?$"

LEVELS_SAMPLE, FEW_LEVELS = 1000, 100
"""Texts have few levels if so many of them have no more."""

_ISO_DATES = f"^{ISO_DATE}$"

_WORDS = "^[^0-9]*$"

_LOOKS = (
    _WHOLE_NUMBERS,
    r"^[-+]?[1-9][0-9]{0,2}\.[0-9]{3}$",
    r"^[-+]?[1-9][0-9]{0,2},[0-9]{3}$",
    r"^[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$",
    r"^[-+]?([0-9]+,[0-9]*|,[0-9]+)([eE][-+]?[0-9]+)?$",
    _ISO_DATES,
    _WORDS,
    r"^[A-Za-z]+[-_0-9]|([A-Za-z][^A-Za-z]*){12}",
)
"""Looks of texts.  Texts that match one of these, and none before it, are read alike by each kind:
whole numbers, numbers whose mark may separate thousands, other numbers, ISO dates, words, codes."""

_PLAIN = {
    point: rf"^[-+]?([0-9]+[{point}]?[0-9]*|[{point}][0-9]+)([eE][-+]?[0-9]+)?$" for point in ".,"
}
"""Plain numbers, by their decimal point."""

_WORDS_READ = sorted(
    {"true", "false", *(sign + word for sign in ("", "+", "-") for word in ("inf", "infinity"))}
    | DASHES
)
"""Texts without digits that some kind reads, or that count as missing."""


def present_texts(column: Any, also_missing: Collection[str] = ()) -> Any:
    """Return trimmed texts, null where missing; ``also_missing`` are in lower case."""
    compute = arrow().compute
    trim = compute.utf8_trim_whitespace(column)
    missing_texts = arrow().array(sorted(MISSING.union(also_missing)))
    return compute.if_else(compute.is_in(compute.utf8_lower(trim), missing_texts), None, trim)


def parse_present(
    present: Any,
    point: str | None,
    form: Form | None,
    where: Callable[[int], str],
) -> Inferred:
    """Parse a whole column of `present_texts`; arguments as of `texts.infer`."""
    if form is not None:
        point = form.point or "."
    values = _cast_numbers(present) if point != "," else None
    if values is not None:
        lost = lost_digits_note(values, _integers_of(present))
        return Inferred(values, lost, Form("numbers", _point_of(present)))
    texts = present.drop_null()
    sampled = np.arange(0, len(texts), max(1, len(texts) // SAMPLE_SIZE))

    def meaning_of(kinds: Sequence[Any]) -> Meaning | None:
        return count_kinds(present, kinds).decide(where, point=point)

    sample = texts.take(arrow().array(sampled)).to_pylist()
    meaning = infer_meaning(sample, meaning_of, form)
    if meaning is None:
        return Inferred(np.asarray(present.fill_null("").to_numpy(), object))
    return Inferred(parse_as(present, meaning), meaning.note, meaning.form, meaning.ambiguous)


def count_kinds(
    present: Any, kinds: Sequence[Any] = KindCounts.kinds, first_row: int = 0
) -> KindCounts:
    """Count which rows of `present_texts` each kind reads; ``first_row`` is their first."""
    counts, compute = KindCounts(kinds), arrow().compute
    rows = first_row + np.flatnonzero(compute.is_valid(present).to_numpy(zero_copy_only=False))
    texts = present.drop_null()
    for look in () if _have_few_levels(texts) else _LOOKS:
        if not len(texts):
            break
        alike = compute.match_substring_regex(texts, look)
        if look == _WORDS:
            alike = compute.and_not(alike, compute.is_in(compute.utf8_lower(texts), _words_read()))
        matches = alike.to_numpy(zero_copy_only=False)
        if not matches.any() or (look == _ISO_DATES and _cast_dates(texts.filter(alike)) is None):
            continue
        first = int(np.argmax(matches))
        counts.add([texts[first].as_py()], [int(matches.sum())], [int(rows[first])])
        if look == _WHOLE_NUMBERS:
            long = compute.greater(compute.utf8_length(texts), MAX_EXACT_DIGITS)
            places = np.flatnonzero(compute.and_(alike, long).to_numpy(zero_copy_only=False))
            integers = texts.take(arrow().array(places)).to_pylist()
            counts.count_lost(integers, [1] * len(places), rows[places].tolist())
        rows, texts = rows[~matches], texts.filter(compute.invert(alike))
    codes, levels = _encode(texts)
    first_places = np.zeros(len(levels), np.intp)
    first_places[codes[::-1]] = np.arange(len(codes))[::-1]
    of_levels = levels, np.bincount(codes).tolist(), rows[first_places].tolist()
    counts.add(*of_levels)
    counts.count_lost(*of_levels)
    return counts


def _have_few_levels(texts: Any) -> bool:
    """Return whether texts repeat so often that their levels are quicker to look at."""
    return len(texts) > LEVELS_SAMPLE and len(texts.slice(0, LEVELS_SAMPLE).unique()) <= FEW_LEVELS


def parse_as(present: Any, meaning: Meaning) -> NDArray[Any]:
    """Return the values of `present_texts` of a meaning, missing where they are of another."""
    compute, kind = arrow().compute, meaning.kind
    quick: Any = None
    if kind.point:
        if kind.point == "." and (quick := _cast_numbers(present)) is not None:
            return quick
        is_plain = compute.match_substring_regex(present, _PLAIN[kind.point])
        plain = compute.replace_substring(present, ",", ".") if kind.point == "," else present
        quick = _cast_numbers(compute.if_else(is_plain, plain, None))
    elif kind.order == "iso":
        is_plain = compute.match_substring_regex(present, _ISO_DATES)
        quick = _cast_dates(compute.if_else(is_plain, present, None))
    if quick is None:
        codes, levels = _encode(present)
        values = meaning.parse([*levels, ""] if present.null_count else levels)
        return values[codes]
    rest = np.flatnonzero(~is_plain.fill_null(True).to_numpy(zero_copy_only=False))
    if not len(rest):
        return np.asarray(quick)
    codes, levels = _encode(present.take(arrow().array(rest)))
    values = meaning.parse(levels)
    whole = quick.astype(np.promote_types(quick.dtype, values.dtype))
    whole[rest] = values[codes]
    return np.asarray(whole)


def decide_columns(
    counts: Mapping[str, KindCounts], where: Callable[[int], str], point: str | None = None
) -> dict[str, Meaning | None]:
    """Return what the columns of a file mean, which have one decimal point; None of texts."""
    meanings = {name: column.decide(where, point=point) for name, column in counts.items()}
    if any(meaning and meaning.form.point == "," for meaning in meanings.values()):
        for name, meaning in meanings.items():
            if meaning and meaning.ambiguous:
                meanings[name] = counts[name].decide(where, point=",")
    return meanings


def as_arrow_values(
    present: Any, meaning: Meaning | None, missing_numbers: Sequence[float] = ()
) -> Any:
    """Return `present_texts` as an Arrow array of their meaning; ``missing_numbers`` as missing."""
    pa = arrow()
    if meaning is None:
        return present.combine_chunks() if isinstance(present, pa.ChunkedArray) else present
    values = parse_as(present, meaning)
    if values.dtype.kind == "M":
        moments = pa.array(values.astype("M8[us]"))
        return moments.cast(pa.timestamp("us", "UTC")) if meaning.form.order == "zone" else moments
    if values.dtype.kind == "f":
        if missing_numbers:
            values = np.where(np.isin(values, missing_numbers), np.nan, values)
        return pa.array(values)
    return pa.array(values.tolist(), pa.bool_())


@functools.cache
def _words_read() -> Any:
    return arrow().array(_WORDS_READ)


def _encode(texts: Any) -> tuple[NDArray[np.intp], list[str]]:
    """Return the codes of texts, -1 where null, and the distinct texts in order of appearance."""
    if isinstance(texts, arrow().ChunkedArray):
        texts = texts.combine_chunks()
    encoded = texts.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes.astype(np.intp), encoded.dictionary.to_pylist()


def _point_of(present: Any) -> str:
    """Return the decimal point of plain numbers, ``""`` if no number shows it."""
    compute = arrow().compute
    return "." if compute.any(compute.match_substring(present, ".")).as_py() else ""


def _cast_numbers(present: Any) -> NDArray[np.float64] | None:
    """Return texts as numbers, None if any text is not a number."""
    try:
        numbers = arrow().compute.cast(present, arrow().float64())
    except arrow().ArrowInvalid:
        return None
    return np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)


def _cast_dates(present: Any) -> NDArray[Any] | None:
    """Return ISO dates, None if a day or time does not exist."""
    try:
        dates = arrow().compute.cast(present, arrow().timestamp("us"))
    except arrow().ArrowInvalid:
        return None
    return in_seconds(dates.to_numpy(zero_copy_only=False))


def _integers_of(present: Any) -> Callable[[NDArray[np.intp]], list[int | None]]:
    """Return the function that `lost_digits_note` asks for the integers of rows."""

    def integers(rows: NDArray[np.intp]) -> list[int | None]:
        return [as_integer(text) for text in present.take(arrow().array(rows)).to_pylist()]

    return integers
