"""One column of any kind (arrays, objects, data frames) as numbers or levels."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import numbers
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hgr_jax._optional import require
from hgr_jax.tables.encoding import Category, encode_texts


@dataclasses.dataclass(frozen=True)
class Unusable:
    """Why a column cannot be used."""

    reason: str


@dataclasses.dataclass(frozen=True)
class Dates:
    """Dates as days since the first of them, and that one in seconds since 1970 (UTC)."""

    days: NDArray[np.float64]
    first: float


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


def as_array(column: Any) -> NDArray[Any] | Dates | Category | Unusable:
    """Return numbers (booleans, days) or levels from a NumPy column, or the reason against it."""
    array = np.asarray(column)
    if array.ndim != 1:
        return Unusable(f"values of shape {array.shape[1:]}, neither numbers nor text")
    if array.dtype.kind in "fiub":
        return array
    if array.dtype.kind in "mM":
        return _days(array)
    if array.dtype.kind in "USO":
        return _levels_of_objects(array)
    return Unusable(f"values of type {array.dtype}, neither numbers nor text")


def _days(array: NDArray[Any]) -> NDArray[np.float64] | Dates:
    """Return dates as days since the first, durations as days; NaN where missing."""
    missing = np.isnat(array)
    first = array[~missing].min() if array.dtype.kind == "M" and not missing.all() else None
    span = array - first if first is not None else array.astype("m8[us]")
    days = np.where(missing, np.nan, span / np.timedelta64(1, "D"))
    return days if first is None else Dates(days, float(first.astype("M8[s]").astype(np.int64)))


def _levels_of_objects(array: NDArray[Any]) -> NDArray[Any] | Dates | Category | Unusable:
    try:
        missing = np.array([_is_missing(value) for value in array], bool)
        present = list(array[~missing])
        values = _numbers_of_objects(present)
        if values is not None:
            whole = np.full(len(array), np.nan)
            whole[~missing] = values.days if isinstance(values, Dates) else values
            return Dates(whole, values.first) if isinstance(values, Dates) else whole
        return encode_texts(present, missing)
    except Exception as error:  # of the objects' own methods
        return Unusable(f"values that cannot be read as numbers or text ({type(error).__name__})")


def _is_missing(value: Any) -> bool:
    """Return whether it is None, "", NaN or NaT (unequal to themselves), or pandas.NA."""
    if value is None or isinstance(value, str):
        return not value
    return type(value).__name__ == "NAType" or value != value


def _numbers_of_objects(values: list[Any]) -> NDArray[np.float64] | Dates | None:
    """Return numbers, or days of dates and durations; None for values not all of one kind."""
    if not values:
        return None
    if all(isinstance(v, numbers.Real | decimal.Decimal | np.bool_) for v in values):
        return np.array([_as_float(value) for value in values])
    if all(isinstance(v, datetime.datetime) for v in values):
        if len({v.tzinfo is None for v in values}) > 1:
            return None
        first, day = min(values), datetime.timedelta(days=1)
        days = np.array([(value - first) / day for value in values])
        moment = first if first.tzinfo else first.replace(tzinfo=datetime.UTC)
        return Dates(days, moment.timestamp())
    for kinds in ((datetime.date, np.datetime64), (datetime.timedelta, np.timedelta64)):
        if all(isinstance(v, kinds) and not isinstance(v, datetime.datetime) for v in values):
            return _days(np.array(values, "M8[us]" if kinds[0] is datetime.date else "m8[us]"))
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
        seconds = _floats(narwhals, moments.dt.timestamp("us")) / 1e6
        there = np.isfinite(seconds)
        first = float(seconds[there].min()) if there.any() else 0.0
        return Dates((seconds - first) / 86400, first)
    if dtype == narwhals.Duration:
        return _floats(narwhals, series.dt.total_microseconds()) / 86400e6
    if dtype in (narwhals.String, narwhals.Categorical, narwhals.Enum):
        return np.array(series.cast(narwhals.String).to_list(), dtype=object)
    if dtype == narwhals.Object:
        return np.array([*series.to_list(), None], dtype=object)[:-1]
    shown = getattr(series.to_native(), "dtype", dtype) if dtype == narwhals.Unknown else dtype
    return Unusable(f"values of type {shown}, neither numbers nor text")


def _floats(narwhals: Any, series: Any) -> NDArray[np.float64]:
    values = series.cast(narwhals.Float64).to_numpy()
    return np.asarray(values, np.float64)


def whole_values(column: NDArray[Any]) -> float:
    """Return how many distinct values a column of integers has; infinity for any other."""
    present = column[np.isfinite(column)]
    return len(np.unique(present)) if np.array_equal(present, np.floor(present)) else np.inf


def holds_flags(column: NDArray[Any]) -> bool:
    """Return whether all values that are present are booleans."""
    if column.dtype == object:
        return all(value is None or isinstance(value, bool | np.bool_) for value in column)
    return column.dtype.kind == "b"
