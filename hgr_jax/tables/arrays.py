"""Parse a column of an array, of objects, or of a data frame: numbers, dates, levels.

Data frames are read through narwhals.  A column that cannot be used has a reason, not an error.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import is_of_jax
from hgr_jax._checks import without_mask
from hgr_jax._optional import require
from hgr_jax.tables.arrow_columns import as_plain
from hgr_jax.tables.levels import Category, Unusable, encode_texts, object_array, positions_among
from hgr_jax.tables.meanings import Coded, Hints, Meaning, decide_meanings, texts_of


class ParsedColumn(NamedTuple):
    """A column in usable form, a note on it, and the word of the kind of its texts."""

    values: NDArray[Any] | Category | Unusable
    note: str = ""
    kind: str = ""


def host_values(array: Any) -> Any:
    """Return an array of a NumPy dtype, with masked entries missing."""
    array = without_mask(array)
    if array.dtype.kind == "V" and "float" in array.dtype.name:  # of JAX: bfloat16, float8
        return array.astype(np.float32)
    return np.asarray(array) if isinstance(array, np.ndarray) else array


def from_values(name: Any, values: Any) -> NDArray[Any]:
    """Return a column of a mapping as an array, of objects where NumPy would convert to text."""
    if isinstance(values, np.ma.MaskedArray):
        return np.asarray(host_values(values))
    try:
        array = np.asarray(values)
    except ValueError:  # ragged
        array = None
    if array is not None and array.ndim == 0:
        raise TypeError(f"column {name!r} must hold a value for every row; got {values!r:.60}.")
    if array is None or (array.dtype.kind in "US" and not isinstance(values, np.ndarray)):
        array = object_array(values)
    return array


def parse_column(column: Any, hints: Hints | None = None) -> ParsedColumn:
    """Parse a column ``(n,)`` into numbers, booleans, dates, durations or levels.

    What texts mean is decided as in files (`decide_meanings`).
    """
    if isinstance(column, ParsedColumn):
        return column
    if isinstance(column, Unusable | Category):
        return ParsedColumn(column)
    array = np.asarray(column)
    if array.ndim != 1:
        shape = array.shape[1:]
        return ParsedColumn(Unusable(f"values of shape {shape}, neither numbers nor text"))
    if array.dtype.kind in "iufbmM":
        return ParsedColumn(array)
    if array.dtype.kind not in "USOT":
        return ParsedColumn(Unusable(f"values of type {array.dtype}, neither numbers nor text"))
    try:
        return _parse_objects(array.tolist(), hints or Hints())
    except Exception as error:  # the objects' own methods may raise anything
        reason = f"values that cannot be read as numbers or text ({type(error).__name__})"
        return ParsedColumn(Unusable(reason))


def read_variable(name: str, value: Any) -> Any:
    """Return a variable that is not of numbers as `scan` reads a column of it.

    That is a `Category`, or numbers: objects that all are numbers, and dates in days.  Arrays of
    numbers, and what can't be read, are returned as they are.

    Raises:
      TypeError: for objects that are neither numbers nor text.
    """
    if is_of_jax(value):
        return value
    value = without_mask(value)
    try:
        host = np.asarray(value)
    except ValueError:  # ragged
        return value
    if host.ndim != 1 or not len(host):
        return value
    dtype = str(getattr(value, "dtype", ""))
    if dtype == "category":  # of pandas, of any values
        missing = np.array([is_null(level) for level in host])
        return _as_ordered(encode_texts(host[~missing], missing), _order_of(value)).values
    if dtype.startswith(("period", "interval")):
        host = value = _plain_values(value)
    if host.dtype.kind not in "OUSTmM":
        return value
    column = parse_column(from_values(name, value), Hints(typed=True)).values
    if isinstance(column, Unusable):
        raise TypeError(f"{name} must hold numbers or text; got {column.reason}.")
    return column if isinstance(column, Category) else as_numbers_in_days(column)


def as_numbers_in_days(column: NDArray[Any]) -> NDArray[Any]:
    """Return a parsed column as numbers: dates as days since the first date, durations as days."""
    if column.dtype.kind not in "mM":
        return column
    missing = np.isnat(column)
    first = column[~missing].min() if column.dtype.kind == "M" and not missing.all() else None
    span = column - first if first is not None else column.astype("m8[us]")
    return np.where(missing, np.nan, span / np.timedelta64(1, "D"))


def _parse_objects(values: list[Any], hints: Hints) -> ParsedColumn:
    values = [v.decode(errors="replace") if isinstance(v, bytes) else v for v in values]
    nested = next((value for value in values if isinstance(value, _NESTED)), None)
    if nested is not None:
        reason = f"values of several parts ({type(nested).__name__}): give each a column of its own"
        return ParsedColumn(Unusable(reason))
    missing = np.array([is_null(value) for value in values], bool)
    present = [value for value, absent in zip(values, missing, strict=True) if not absent]
    parsed = _numbers_of_objects(present)
    if parsed is not None:
        if parsed.dtype.kind == "b" and missing.any():
            parsed = parsed.astype(np.float64)
        if not missing.any():
            return ParsedColumn(parsed)
        column = np.full(len(values), np.nan if parsed.dtype.kind == "f" else "NaT", parsed.dtype)
        column[~missing] = parsed
        return ParsedColumn(column)
    if all(isinstance(v, str | numbers.Real | datetime.time | datetime.date) for v in present):
        return _parse_texts(present, missing, hints)
    return ParsedColumn(encode_texts(present, missing))


def _parse_texts(present: list[Any], missing: NDArray[np.bool_], hints: Hints) -> ParsedColumn:
    """Parse the present values of a column: texts, and perhaps numbers."""
    codes, distinct = np.full(len(missing), -1), dict[Any, int]()
    codes[~missing] = positions_among(present, distinct)
    column = Coded(codes, [str(value).strip() for value in distinct])
    if not all(isinstance(value, str) for value in distinct):
        hints = dataclasses.replace(hints, typed=False)
    parsed = parsed_as(
        decide_meanings({"": texts_of(column, hints.missing)}, {"": hints})[""], column, hints
    )
    texts = parsed.values
    if isinstance(texts, np.ndarray) and texts.dtype == object:
        return parsed._replace(values=encode_texts(texts[texts != ""], texts == ""), kind="")
    return parsed


def parsed_as(meaning: Meaning, column: Coded, hints: Hints) -> ParsedColumn:
    """Parse a column of texts by their meaning: texts are ``""`` where missing."""
    if meaning.skip:
        return ParsedColumn(Unusable(meaning.skip))
    return ParsedColumn(meaning.parse(column, hints.missing), meaning.note, meaning.kind.word)


def is_null(value: Any) -> bool:
    """Return whether a value is None, "", NaN or NaT (unequal to themselves), or pandas.NA."""
    if value is None or isinstance(value, str):
        return not value
    return type(value).__name__ == "NAType" or value != value


_NESTED = (list, dict, set, np.ndarray)


def _numbers_of_objects(values: list[Any]) -> NDArray[Any] | None:
    """Convert objects to numbers, booleans, dates or durations; None if they are mixed or other."""
    if not values:
        return None
    if all(isinstance(v, bool | np.bool_) for v in values):
        return np.array(values, bool)
    if all(isinstance(v, numbers.Real | decimal.Decimal | np.bool_) for v in values):
        return np.array([_as_float(value) for value in values])
    if all(isinstance(v, datetime.timedelta | np.timedelta64) for v in values):
        return np.array(values, "m8[us]")
    if not all(isinstance(v, datetime.date | np.datetime64) for v in values):
        return None
    zones = [getattr(value, "tzinfo", None) for value in values]
    if all(zones):
        values = [value.astimezone(datetime.UTC).replace(tzinfo=None) for value in values]
    return np.array(values, "M8[us]") if all(zones) or not any(zones) else None


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def as_frame(table: Any) -> tuple[Any, Any]:
    """Wrap a data frame in narwhals; return the names of its columns too, which may repeat.

    Those of pandas are its index.
    """
    narwhals = require("narwhals.stable.v2")
    is_arrow = narwhals.dependencies.is_pyarrow_table(table)
    is_pandas = narwhals.dependencies.is_pandas_like_dataframe(table)
    names = table.columns if is_pandas else table.column_names if is_arrow else None
    if names is not None and len(set(names)) < len(names):
        places = list(map(str, range(len(names))))
        table = table.set_axis(places, axis=1) if is_pandas else table.rename_columns(places)
    try:
        frame = narwhals.from_native(as_plain(table) if is_arrow else table, eager_only=True)
    except TypeError as error:
        raise TypeError(
            "table must be an array (n, p), a mapping of names to columns, or a data frame"
            f" (pandas, polars, pyarrow); got {type(table).__name__}."
        ) from error
    return frame, list(frame.columns) if names is None else names


def from_frame(frame: Any, position: int) -> Any:
    """Convert a column of a data frame to what `parse_column` takes."""
    narwhals = require("narwhals.stable.v2")
    try:
        return _from_series(narwhals, frame[:, position])
    except Exception:  # types that narwhals, or the library of the frame, does not know
        native = frame.to_native()
        types = getattr(getattr(native, "schema", None), "types", None)
        shown = types[position] if types else "that cannot be read"
        return Unusable(f"values of type {shown}, neither numbers nor text")


def _from_series(narwhals: Any, series: Any) -> Any:
    dtype, has_nulls = series.dtype, bool(series.is_null().any())
    if series.is_null().all():
        return np.full(len(series), np.nan)
    if dtype == narwhals.Boolean and not has_nulls:
        return np.array(series.to_list(), bool)
    if dtype.is_numeric() or dtype == narwhals.Boolean:
        wide = dtype in (narwhals.Int128, narwhals.UInt128)
        integers = dtype.is_integer() and not wide and not has_nulls
        return series.to_numpy() if integers else _floats(narwhals, series)
    if dtype in (narwhals.Date, narwhals.Datetime):
        moments = series.cast(narwhals.Datetime("us")) if dtype == narwhals.Date else series
        return _as_moments(_floats(narwhals, moments.dt.timestamp("us")), "M8[us]")
    if dtype == narwhals.Duration:
        return _as_moments(_floats(narwhals, series.dt.total_microseconds()), "m8[us]")
    if dtype in (narwhals.Categorical, narwhals.Enum):
        missing = np.asarray(series.is_null().to_numpy())
        texts = series.cast(narwhals.String).to_list()  # pandas 2 has "nan" for missing ones
        present = [text for text, absent in zip(texts, missing, strict=True) if not absent]
        return _as_ordered(encode_texts(present, missing), _order_of(series.to_native()))
    if dtype in (narwhals.String, narwhals.Object, narwhals.Time):
        return object_array(series.to_list())
    native = series.to_native()
    plain = _plain_values(native) if dtype == narwhals.Unknown else None
    if plain is not None and plain.dtype.kind in "iufM":
        return plain
    shown = getattr(native, "dtype", dtype) if dtype == narwhals.Unknown else dtype
    return Unusable(f"values of type {shown}, neither numbers nor text")


def _order_of(series: Any) -> list[str] | None:
    """Return the levels of an ordered category of any library in their order, None for others."""
    levels: Any = None
    if hasattr(series, "cat") and getattr(series.cat, "ordered", False):  # of pandas
        levels = series.cat.categories
    elif type(getattr(series, "dtype", None)).__name__ == "Enum":  # of polars
        levels = series.dtype.categories
    elif getattr(getattr(series, "type", None), "ordered", False):  # of pyarrow
        chunks = series.unify_dictionaries().chunks
        levels = chunks[0].dictionary.to_pylist() if chunks else None
    return None if levels is None else [str(level) for level in levels]


def _as_ordered(category: Category, order: Sequence[str] | None) -> ParsedColumn:
    """Make a category of three ordered levels or more numbers, with a note of its levels.

    A category of two levels has the same functions in any order.
    """
    if order is None or len(category.levels) < 3 or not {*category.levels} <= {*order}:
        return ParsedColumn(category)
    present = [level for level in order if level in category.levels]
    numbers = np.array([present.index(level) + 1.0 for level in category.levels] + [np.nan])
    shown = [f"{place} {level}" for place, level in enumerate(present, 1)]
    listed = ", ".join(shown[:8]) + (", ..." if len(shown) > 8 else "")
    return ParsedColumn(numbers[category.codes], f"levels in their order: {listed}")


def _plain_values(series: Any) -> NDArray[Any]:
    """Return a pandas column of a type of its own as an array.

    A period is the date on which it begins, an interval its middle.
    """
    kind = str(getattr(series, "dtype", ""))
    if kind.startswith("period"):
        return np.asarray(series.dt.to_timestamp())
    array = np.asarray(series.array.mid if kind.startswith("interval") else series)
    return array.astype(np.float64) if array.dtype.kind in "iuf" else array


def _floats(narwhals: Any, series: Any) -> NDArray[np.float64]:
    return np.asarray(series.cast(narwhals.Float64).to_numpy(), np.float64)


def _as_moments(values: NDArray[np.float64], dtype: str) -> NDArray[Any]:
    """Convert microseconds to dates or durations, NaT where NaN."""
    present = np.isfinite(values)
    moments = np.where(present, values, 0).astype(np.int64).astype(dtype)
    moments[~present] = "NaT"
    return moments


def count_missing_values(column: Any) -> int:
    """Count the missing and the infinite values of a column of a table in memory."""
    if isinstance(column, ParsedColumn):
        column = column.values
    if isinstance(column, Unusable):
        return 0
    if isinstance(column, Category):
        return int((column.codes < 0).sum())
    array = np.asarray(column)
    if array.dtype.kind == "O":
        return sum(map(is_null, array.ravel()))
    if array.dtype.kind in "mM":
        return int(np.isnat(array).sum())
    return int((~np.isfinite(array)).sum()) if array.dtype.kind in "fc" else 0
