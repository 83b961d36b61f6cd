"""One column of any kind (arrays, objects, frames) as numbers, dates or levels of a category."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import numbers
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hgr_jax._optional import require
from hgr_jax.core.host.linalg import memberships
from hgr_jax.tables.texts import MISSING, Form, infer, is_number, tell_lost_digits


@dataclasses.dataclass(frozen=True)
class Category:
    """A category: the level ``(n,)`` of every row, -1 where it is missing, and the levels.

    ``pooled`` are the rare levels that the last one stands for, if any.
    """

    codes: NDArray[np.integer]
    levels: tuple[str, ...]
    pooled: tuple[str, ...] = ()

    def one_hot(self) -> NDArray[np.float64]:
        """Return a column of zeros and ones for each level, ``(n, levels)``."""
        return memberships(self.codes, len(self.levels)).T.astype(np.float64)


def encode_texts(
    texts: Sequence[Any] | NDArray[Any], missing: NDArray[np.bool_] | None = None
) -> Category:
    """Return texts (of other objects, their texts) as a category; its levels are sorted.

    Args:
      texts: of n rows, without those that are missing.
      missing: ``(n,)``, which rows are; none if None.
    """
    # An empty one more keeps an array of texts where there is none.
    levels, codes = np.unique(np.array([*map(str, texts), ""])[:-1], return_inverse=True)
    return _category(levels.tolist(), codes, missing)


def encode_numbers(array: NDArray[Any]) -> Category:
    """Return the distinct values of a column of numbers as levels; infinite ones are missing."""
    missing = ~np.isfinite(array)
    levels, codes = np.unique(array[~missing], return_inverse=True)
    return _category([number_as_text(level) for level in levels], codes, missing)


def encode_known(texts: NDArray[Any], levels: Sequence[str]) -> NDArray[np.intp]:
    """Return the positions of texts among levels, -1 for one that is not there."""
    position = {level: i for i, level in enumerate(levels)}
    return np.array([position.get(text, -1) for text in texts.tolist()], np.intp)


def _category(
    levels: list[str], codes: NDArray[np.intp], missing: NDArray[np.bool_] | None
) -> Category:
    if missing is None:
        return Category(codes, tuple(levels))
    of_all = np.full(len(missing), -1, np.intp)
    of_all[~missing] = codes
    return Category(of_all, tuple(levels))


def number_as_text(number: Any) -> str:
    """Return a NumPy number in the few digits that tell it from all others of its type."""
    short = f"{float(number):g}"
    read = number.dtype.type(short) if number.dtype.kind == "f" else float(short)
    return short if read == number.item() else str(number).removesuffix(".0")


@dataclasses.dataclass(frozen=True)
class Unusable:
    """Why a column cannot be used."""

    reason: str


class Settled(NamedTuple):
    """A column as it can be used, a remark on it, and how its texts are written, if it has any."""

    values: NDArray[Any] | Category | Unusable
    note: str = ""
    form: Form | None = None


def unique_names(given: Sequence[str]) -> list[str]:
    """Return a name of its own for every column: by its position if it has none, or numbered.

    A made-up name is never one of those given.

    Example:
      >>> from hgr_jax.tables.convert import unique_names
      >>> unique_names(["x", "", "x"])
      ['x', 'column 2', 'x (2)']
    """
    taken = set(given)
    found: dict[str, None] = {}
    for position, own in enumerate(given, 1):
        name = own or f"column {position}"
        unique, number = name, 2
        while unique in found or (unique != own and unique in taken):
            unique, number = f"{name} ({number})", number + 1
        found[unique] = None
    return list(found)


def name_columns(given: Sequence[Any]) -> tuple[list[str], dict[str, str]]:
    """Return `unique_names`, and a remark on each that is made up."""
    own = [str(name) for name in given]
    names, notes = unique_names(own), {}
    for name, unique in zip(own, names, strict=True):
        if unique != name:
            notes[unique] = f"another column is called {name!r} too" if name else "it has no name"
    return names, notes


def add_note(notes: dict[str, str], name: str, remark: str) -> None:
    """Add a remark on a column."""
    notes[name] = f"{notes[name]}; {remark}" if name in notes else remark


def plain(table: Any) -> Any:
    """Return a matrix without a mask, and of a type that NumPy knows."""
    if isinstance(table, np.ma.MaskedArray):
        if table.dtype.kind in "fiub":
            return np.ma.filled(table.astype(np.float64), np.nan)
        objects = table.data.astype(object)
        objects[np.ma.getmaskarray(table)] = None
        return objects
    if jnp.issubdtype(table.dtype, jnp.floating) and table.dtype.kind == "V":
        return table.astype(np.float32)
    return np.asarray(table) if isinstance(table, np.ndarray) else table


def from_values(name: Any, values: Any) -> NDArray[Any]:
    """Return a column of a mapping as an array, of objects where NumPy would make text of them."""
    if isinstance(values, np.ma.MaskedArray):
        return np.asarray(plain(values))
    try:
        array = np.asarray(values)
    except ValueError:  # ragged
        array = None
    if array is not None and array.ndim == 0:
        raise TypeError(f"column {name!r} must hold a value for every row; got {values!r:.60}.")
    if array is None or (array.dtype.kind in "US" and not isinstance(values, np.ndarray)):
        array = np.array([*values, None], dtype=object)[:-1]
    return array


def settle(
    column: Any,
    *,
    point: str | None = None,
    form: Form | None = None,
    also_missing: Collection[str] = (),
    where: Callable[[int], str] = "in row {}".format,
    numbers_in_text: bool = False,
) -> Settled:
    """Return a NumPy column as numbers, booleans, dates, durations or levels, and a remark.

    Texts are what `infer` finds in them.  Texts that all are plain numbers stay texts: what reads
    files makes numbers of those, so somebody has made texts of them.  ``numbers_in_text`` says
    that nobody has.

    Args:
      column: ``(n,)``, or what is settled already.
      point: the decimal point of texts; None to find it out.
      form: how texts are written; None to find it out.
      also_missing: texts, in lower case, that stand for a missing value too.
      where: says where a row is.
    """
    if isinstance(column, Unusable | Category):
        return Settled(column)
    array = np.asarray(column)
    if array.ndim != 1:
        return Settled(Unusable(f"values of shape {array.shape[1:]}, neither numbers nor text"))
    if array.dtype.kind in "iu":
        return Settled(array, _tell_lost_digits_of_integers(array))
    if array.dtype.kind in "fbmM":
        return Settled(array)
    if array.dtype.kind in "USO":
        try:
            return _settle_objects(array, point, form, also_missing, where, numbers_in_text)
        except Exception as error:  # of the objects' own methods
            reason = f"values that cannot be read as numbers or text ({type(error).__name__})"
            return Settled(Unusable(reason))
    return Settled(Unusable(f"values of type {array.dtype}, neither numbers nor text"))


def as_array(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column that is settled as numbers: dates and durations as days."""
    if column.dtype == object:  # booleans, with None
        return np.array([np.nan if value is None else value for value in column], np.float64)
    return _days(column) if column.dtype.kind in "mM" else column


def _days(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return dates as days since the first, durations as days; NaN where missing."""
    missing = np.isnat(array)
    first = array[~missing].min() if array.dtype.kind == "M" and not missing.all() else None
    span = array - first if first is not None else array.astype("m8[us]")
    return np.where(missing, np.nan, span / np.timedelta64(1, "D"))


def _settle_objects(
    array: NDArray[Any],
    point: str | None,
    form: Form | None,
    also_missing: Collection[str],
    where: Callable[[int], str],
    numbers_in_text: bool,
) -> Settled:
    values = array.tolist()
    if set(map(type, values)) <= {str, type(None)}:
        missing = np.array([not value for value in values], bool)
        present = [value for value in values if value]
        made = not numbers_in_text
        return _settle_texts(present, missing, point, form, also_missing, where, made_texts=made)
    missing = np.array([_is_missing(value) for value in array], bool)
    present = list(array[~missing])
    found = _numbers_of_objects(present)
    if found is not None:
        empty = np.datetime64("NaT") if found.dtype.kind in "mM" else None
        if found.dtype.kind == "b" and not missing.any():
            return Settled(found)
        kind = object if found.dtype.kind == "b" else found.dtype
        whole = np.full(len(array), np.nan if found.dtype.kind == "f" else empty, kind)
        whole[~missing] = found
        integers = [int(v) if isinstance(v, numbers.Integral) else None for v in present]
        places = np.flatnonzero(~missing)
        note = ""
        if found.dtype.kind == "f":
            exact = dict(zip(places.tolist(), integers, strict=True))
            note = tell_lost_digits(whole, lambda rows: [exact[row] for row in rows.tolist()])
        return Settled(whole, note)
    if all(isinstance(value, str | numbers.Real | datetime.time) for value in present):
        made = not numbers_in_text and all(isinstance(value, str) for value in present)
        return _settle_texts(present, missing, point, form, also_missing, where, made_texts=made)
    return Settled(encode_texts(present, missing))


def _settle_texts(
    present: list[Any],
    missing: NDArray[np.bool_],
    point: str | None,
    form: Form | None,
    also_missing: Collection[str],
    where: Callable[[int], str],
    *,
    made_texts: bool,
) -> Settled:
    """Return what texts, some of them perhaps numbers, are; ``made_texts``: they may be codes."""
    known = MISSING.union(also_missing)
    position: dict[Any, int] = {}
    codes = np.array([position.setdefault(value, len(position)) for value in present], np.intp)
    trimmed = [str(value).strip() for value in position]
    clean = ["" if text.lower() in known else text for text in trimmed]
    texts = np.full(len(missing), "", object)
    texts[~missing] = np.array([*clean, None], object)[codes]
    note = ""
    if present and made_texts and form is None and all(map(is_number, filter(None, trimmed))):
        note = "texts that all are numbers are a category; convert them to have numbers"
    else:
        inferred = infer(texts, point=point, form=form, where=where)
        if not holds_texts(inferred.values):
            return Settled(inferred.values, inferred.note, inferred.form)
    gone = [i for i, (old, new) in enumerate(zip(trimmed, clean, strict=True)) if old != new]
    if gone:
        count, first = int(np.isin(codes, gone).sum()), trimmed[gone[0]]
        note = "; ".join(filter(None, [note, f"{count:,} texts such as {first!r} are missing"]))
    return Settled(encode_texts(texts[texts != ""], texts == ""), note)


def holds_texts(column: NDArray[Any]) -> bool:
    """Return whether a column that is settled holds texts (and not booleans, with None)."""
    return column.dtype == object and any(isinstance(value, str) for value in column)


def _tell_lost_digits_of_integers(array: NDArray[Any]) -> str:
    return tell_lost_digits(array.astype(np.float64), lambda rows: array[rows].tolist())


def _is_missing(value: Any) -> bool:
    """Return whether it is None, "", NaN or NaT (unequal to themselves), or pandas.NA."""
    if value is None or isinstance(value, str):
        return not value
    return type(value).__name__ == "NAType" or value != value


def _numbers_of_objects(values: list[Any]) -> NDArray[Any] | None:
    """Return numbers, booleans, dates or durations; None for values not all of one kind."""
    if not values:
        return None
    if all(isinstance(v, bool | np.bool_) for v in values):
        return np.array(values, bool)
    if all(isinstance(v, numbers.Real | decimal.Decimal | np.bool_) for v in values):
        return np.array([_as_float(value) for value in values])
    if all(isinstance(v, datetime.datetime) for v in values):
        if len({v.tzinfo is None for v in values}) > 1:
            return None
        if values[0].tzinfo is not None:
            values = [value.astimezone(datetime.UTC).replace(tzinfo=None) for value in values]
        return np.array(values, "M8[us]")
    for kinds in ((datetime.date, np.datetime64), (datetime.timedelta, np.timedelta64)):
        if all(isinstance(v, kinds) and not isinstance(v, datetime.datetime) for v in values):
            return np.array(values, "M8[us]" if kinds[0] is datetime.date else "m8[us]")
    return None


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def as_frame(table: Any) -> tuple[Any, list[str]]:
    """Return a data frame as narwhals sees it, and the names of its columns, perhaps not unique."""
    narwhals = require("narwhals.stable.v2", "table")
    known = narwhals.dependencies
    if known.is_pandas_like_dataframe(table) and not table.columns.is_unique:
        frame = narwhals.from_native(table.set_axis(range(table.shape[1]), axis=1))
        return frame, [str(name) for name in table.columns]
    if known.is_pyarrow_table(table) and len(set(table.column_names)) < table.num_columns:
        renamed = table.rename_columns([str(i) for i in range(table.num_columns)])
        return narwhals.from_native(renamed), list(table.column_names)
    try:
        frame = narwhals.from_native(table, eager_only=True)
    except TypeError as error:
        raise TypeError(
            "table must be an array (n, p), a mapping of names to columns, or a data frame"
            f" (pandas, polars, pyarrow); got {type(table).__name__}."
        ) from error
    return frame, [str(name) for name in frame.columns]


def from_frame(frame: Any, position: int) -> Any:
    """Return a column of a data frame as NumPy numbers, dates, levels, or the reason against it."""
    narwhals = require("narwhals.stable.v2", "table")
    series = frame[:, position]
    dtype = series.dtype
    if series.is_null().all():
        return np.full(len(series), np.nan)
    if dtype == narwhals.Boolean:
        return np.array(series.to_list(), bool if not series.is_null().any() else object)
    if dtype.is_numeric():
        wide = dtype in (narwhals.Int128, narwhals.UInt128)
        whole = dtype.is_integer() and not wide and not series.is_null().any()
        return series.to_numpy() if whole else _floats(narwhals, series)
    if dtype == narwhals.Date or dtype == narwhals.Datetime:
        moments = series.cast(narwhals.Datetime("us")) if dtype == narwhals.Date else series
        return _whole(_floats(narwhals, moments.dt.timestamp("us")), "M8[us]")
    if dtype == narwhals.Duration:
        return _whole(_floats(narwhals, series.dt.total_microseconds()), "m8[us]")
    if dtype in (narwhals.Categorical, narwhals.Enum):
        texts = series.cast(narwhals.String).to_list()
        missing = np.array([text is None for text in texts])
        return encode_texts([text for text in texts if text is not None], missing)
    if dtype == narwhals.String:
        return np.array(series.to_list(), dtype=object)
    if dtype == narwhals.Object or dtype == narwhals.Time:
        return np.array([*series.to_list(), None], dtype=object)[:-1]
    shown = getattr(series.to_native(), "dtype", dtype) if dtype == narwhals.Unknown else dtype
    return Unusable(f"values of type {shown}, neither numbers nor text")


def _floats(narwhals: Any, series: Any) -> NDArray[np.float64]:
    values = series.cast(narwhals.Float64).to_numpy()
    return np.asarray(values, np.float64)


def _whole(values: NDArray[np.float64], dtype: str) -> NDArray[Any]:
    """Return microseconds as dates or durations, NaT where NaN."""
    there = np.isfinite(values)
    found = np.where(there, values, 0).astype(np.int64).astype(dtype)
    found[~there] = np.timedelta64("NaT") if dtype[0] == "m" else np.datetime64("NaT")
    return found


def whole_values(column: NDArray[Any]) -> float:
    """Return how many distinct values a column of integers has; infinity for any other."""
    present = column[np.isfinite(column)]
    return len(np.unique(present)) if np.array_equal(present, np.floor(present)) else np.inf


def holds_flags(column: NDArray[Any]) -> bool:
    """Return whether all values that are present are booleans."""
    if column.dtype == object:
        return all(value is None or isinstance(value, bool | np.bool_) for value in column)
    return column.dtype.kind == "b"
