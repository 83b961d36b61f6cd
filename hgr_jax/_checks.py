"""Check arguments, with one clear message for each error, without JAX.

`hgr_jax.core.arrays` checks and converts those that are arrays of JAX.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgr_jax._arrays import is_traced
from hgr_jax._limits import MAX_DEGREE

Checked = TypeVar("Checked")


def without_mask(value: Any) -> Any:
    """Return a masked array with missing values: NaN among numbers, None among others."""
    if not isinstance(value, np.ma.MaskedArray):
        return value
    if value.dtype.kind in "biuf":
        return np.ma.filled(value.astype(np.float64), np.nan)
    return np.ma.filled(value.astype(object), None)


def as_host_column(name: str, value: Any, rows: int | None = None) -> NDArray[np.float64]:
    """Return a variable as an array of NumPy ``(n,)``, in float64."""
    column = as_host_array(name, value)
    check_kind_and_shape(name, column, 1)
    if rows is not None and len(column) != rows:
        raise ValueError(f"{name} must have {rows} rows, as a and b; got {len(column)}.")
    return column.astype(np.float64, copy=False)


def check_kind_and_shape(name: str, value: Any, max_ndim: int) -> None:
    """Refuse an array of NumPy or JAX of anything but real numbers, or of another shape."""
    if not _is_real(value.dtype):
        raise TypeError(
            f"{name} must hold real numbers (floats, integers or booleans); got dtype"
            f" {value.dtype}."
        )
    if not 1 <= value.ndim <= max_ndim or 0 in value.shape:
        expected = "(n,), n >= 1" if max_ndim == 1 else "(n,) or (n, p), n and p >= 1"
        single = max_ndim == 1 and value.ndim == 2 and value.shape[1] == 1
        hint = f" Pass the column alone: {name}[:, 0]." if single else ""
        raise ValueError(
            f"{name} must have shape {expected}; got shape {tuple(value.shape)}.{hint}"
        )


def _is_real(dtype: Any) -> bool:
    """Return whether numbers of a dtype, bfloat16 among them, are real."""
    return isinstance(dtype, np.dtype) and np.can_cast(dtype, np.longdouble)


def as_host_array(name: str, value: Any) -> NDArray[Any]:
    """Return what is no array of JAX as an array of floats or booleans."""
    try:
        host = np.asarray(without_mask(value))
    except ValueError as error:  # ragged nested sequences
        raise ValueError(f"{name} cannot be made into an array: {error}") from error
    if host.dtype.kind in "iu" or host.dtype == np.longdouble:
        # Without 64-bit mode JAX would wrap integers beyond 2^31.
        whole, host = host, host.astype(np.float64)
        if whole.dtype.kind in "iu" and whole.size:
            warn_of_few_steps(name, whole, host)
    if not _is_real(host.dtype):
        raise TypeError(
            f"{name} must hold real numbers (floats, integers or booleans); got"
            f" {type(value).__name__} of dtype {host.dtype}."
            " Make one-hot features of categories, and numbers of dates; scan, and hgr outside jit,"
            " read both as they are."
        )
    return host


FEW_STEPS = 256
"""Smallest number of values that a rounded variable can take without effect on an estimate."""


def warn_of_few_steps(name: str, host: NDArray[Any], kept: NDArray[Any]) -> None:
    """Warn if data lie so far from 0 that few of their values differ after rounding."""
    low, high = kept.min(axis=0), kept.max(axis=0)
    step = np.maximum(np.abs(low), np.abs(high)) * np.finfo(kept.dtype).eps
    if not np.any(high - low < FEW_STEPS * step):
        return
    coarse = ((high - low < FEW_STEPS * step) & (np.ptp(host, axis=0) > 0)).reshape(-1)
    given, rounded = (x.reshape(len(x), -1)[:, coarse] for x in (host, kept))
    with np.errstate(invalid="ignore"):  # an integer that is beyond its dtype
        rounded = rounded.astype(given.dtype)
    if not np.array_equal(given, rounded):
        warnings.warn(
            f"{name} lies so far from 0 that {kept.dtype} keeps fewer than {FEW_STEPS} different"
            f" values of it: subtract its center first ({name} - {name}[0]), or use float64,"
            " jax.config.update('jax_enable_x64', True).",
            UserWarning,
            stacklevel=2,
        )


def check_same_rows(a: Any, b: Any) -> None:
    """Refuse variables of different numbers of rows."""
    if a.shape[0] != b.shape[0]:
        raise ValueError(
            "a and b must have the same number of rows;"
            f" got shapes {tuple(a.shape)} and {tuple(b.shape)}."
        )


def check_indexes(**variables: Any) -> None:
    """Refuse pandas objects with different indexes, since rows are matched by position.

    The columns of a mapping are objects of their own.
    """
    for name, value in [*variables.items()]:
        if isinstance(value, Mapping):
            variables |= {f"{name}[{key!r}]": column for key, column in value.items()}
    indexes: dict[str, Any] = {n: getattr(value, "index", None) for n, value in variables.items()}
    labelled = [name for name, index in indexes.items() if hasattr(index, "equals")]
    for other in labelled[1:]:  # a list has a method `index`
        name = labelled[0]
        same_length = len(variables[name]) == len(variables[other])
        if same_length and not indexes[name].equals(indexes[other]):
            raise ValueError(
                f"{name} and {other} have different indexes, and rows are matched by position:"
                f" align them first ({name}.align({other}, join='inner'), or .loc of one index),"
                " or pass arrays (.to_numpy())."
            )


def check_weights(weights: NDArray[Any]) -> None:
    """Refuse weights that are negative, infinite or missing, and those that are all 0."""
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError("weights must be finite and not negative, and not all 0.")


def as_host_weights(weights: ArrayLike | None, rows: int) -> NDArray[np.float64] | None:
    """Return weights as a NumPy array ``(rows,)`` with maximum 1, or None."""
    if weights is None:
        return None
    try:
        array = np.asarray(without_mask(weights), np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"weights must be numbers; got {type(weights).__name__}.") from None
    if array.shape != (rows,):
        raise ValueError(f"weights must have shape ({rows},); got shape {array.shape}.")
    check_weights(array)
    return np.asarray(array / array.max())


def as_order(order: Any, rows: int) -> NDArray[np.intp]:
    """Return the place of each row in an order: True, or numbers or dates ``(rows,)``.

    Equal values have the same place.

    Raises:
      TypeError, ValueError: for another order, and for one with missing values.
    """
    if order is True:
        return np.arange(rows)
    array = np.asarray(without_mask(order))
    if array.dtype.kind not in "OfiubmM" or not array.ndim:
        got = "text" if array.ndim and array.dtype.kind in "UST" else describe_value(order)
        raise TypeError(
            "order must be True, where the rows are in order as they stand, or numbers or dates"
            f" ({rows},) to sort the rows by; got {got}."
        )
    if array.shape != (rows,):
        raise ValueError(f"order must have shape ({rows},); got shape {array.shape}.")
    _refuse_missing("order", array, "leave these rows out")
    try:
        return np.unique(array, return_inverse=True)[1].reshape(-1)
    except TypeError as error:
        raise TypeError(f"order must be numbers or dates, all of one kind: {error}.") from None


def as_groups(groups: Any, rows: int) -> NDArray[np.intp]:
    """Return the number of the group of each row, from labels ``(rows,)`` of any type.

    Raises:
      ValueError: for labels that are missing, or all equal or all different.
    """
    array = np.asarray(without_mask(groups))
    if array.shape != (rows,):
        raise ValueError(
            f"groups must have shape ({rows},), a label of each row; got shape {array.shape}."
        )
    _refuse_missing("groups", array, "leave these rows out, or give each a label of its own")
    numbers: dict[Any, int] = {}
    codes = np.array([numbers.setdefault(label, len(numbers)) for label in array.tolist()], np.intp)
    if len(numbers) in (1, rows):
        what = "all rows have the same label" if len(numbers) == 1 else "each row has its own label"
        raise ValueError(f"groups must have several rows a label, and several labels: {what}.")
    return codes


def _refuse_missing(name: str, array: NDArray[Any], advice: str) -> None:
    """Refuse NaN, NaT, None and NA."""
    if array.dtype.kind == "O":
        absent = np.array([_is_missing(value) for value in array.tolist()], bool)
    elif array.dtype.kind in "UT":
        absent = array == ""
    else:
        absent = array != array
    if absent.any():
        raise ValueError(
            f"{name} has {int(absent.sum())} missing value(s), the first in row"
            f" {int(np.argmax(absent))}: {advice}."
        )


def _is_missing(value: Any) -> bool:
    try:
        return value is None or value == "" or bool(value != value)
    except TypeError:  # NA of pandas is neither true nor false
        return True


def as_lags(lags: Any, rows: int) -> tuple[int, ...]:
    """Return distinct whole numbers of rows, each shorter than half of a series."""
    try:
        several = tuple(map(operator.index, lags if isinstance(lags, Iterable) else (lags,)))
    except TypeError:
        raise TypeError(
            f"lags must be an int or several, as range(-5, 6) is; got {lags!r}."
        ) from None
    if not several or len(set(several)) < len(several):
        raise ValueError(f"lags must be at least one, each another; got {lags!r}.")
    far = max(several, key=abs)
    if 2 * abs(far) >= rows:
        raise ValueError(f"lags must be shorter than half of a series, of {rows} rows; got {far}.")
    return several


def look_like_counts(weights: NDArray[Any]) -> bool:
    """Return whether weights are whole numbers, some above 1."""
    return bool((weights % 1 == 0).all() and (weights > 1).any() and np.ptp(weights) > 0)


def warn_of_counts(weights: ArrayLike | None) -> None:
    """Warn where weights look like numbers of equal rows."""
    if look_like_counts(np.asarray(weights)):
        warnings.warn(
            "weights are whole numbers above 1, and only their ratios matter. If they say how often"
            " a row occurred, repeat the rows instead: np.repeat(a, weights).",
            UserWarning,
            stacklevel=3,
        )


def rows_at(x: Any, order: NDArray[np.intp]) -> Any:
    """Return a column (an array, a list, a series), or columns, at the rows of ``order``."""
    if x is None:
        return None
    if isinstance(x, Mapping):
        return {name: rows_at(column, order) for name, column in x.items()}
    if hasattr(x, "iloc"):
        return x.iloc[order].reset_index(drop=True)
    return np.asarray(x)[order]


def one_or_pair(
    name: str, value: Any, check: Callable[..., Checked], *arguments: Any
) -> tuple[Checked, Checked]:
    """Check an option that is one value for a and b, or a pair ``(a, b)``; return the pair."""
    if not isinstance(value, tuple | list):
        return check(name, value, *arguments), check(name, value, *arguments)
    if len(value) != 2:
        raise ValueError(
            f"{name} must be one value for both, or a pair of these for (a, b); got {value!r}."
        )
    return check(f"{name}[0]", value[0], *arguments), check(f"{name}[1]", value[1], *arguments)


def check_flag(name: str, value: Any) -> bool:
    """Return a static switch, which must be True or False itself."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {describe_value(value)}.")
    return bool(value)


def check_fraction(name: str, value: Any) -> float:
    """Return a static number in [0, 1]."""
    if is_traced(value):
        raise TypeError(f"{name} must be a static number, but it is traced; close over it.")
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"{name} must be a number from 0 to 1; got {describe_value(value)}.")
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be from 0 to 1; got {value}.")
    return float(value)


def check_level(name: str, value: Any) -> float:
    """Return a static number in (0, 1)."""
    level = check_fraction(name, value)
    if not 0 < level < 1:
        raise ValueError(f"{name} must be above 0 and below 1; got {level}.")
    return level


def describe_value(value: Any) -> str:
    """Return a value as it is shown in a message."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"an array of shape {tuple(value.shape)} and dtype {value.dtype}"
    return repr(value)


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Return a static int of at least ``least``: a degree, a number of steps, ..."""
    if is_traced(value):
        raise TypeError(
            f"{name} must be a static int, but it is traced; mark it static"
            f' (jax.jit(..., static_argnames="{name}")) or close over it.'
        )
    try:
        count = operator.index(value)
    except TypeError:
        count = None
    if count is None or isinstance(value, bool):
        raise TypeError(f"{name} must be an int >= {least}; got {value!r}.")
    if count < least:
        raise ValueError(f"{name} must be at least {least}; got {count}.")
    return count


def check_degree(name: str, value: Any) -> int:
    """Return a static degree of a scan, from 1 to `MAX_DEGREE`."""
    degree = check_count(name, value)
    if degree > MAX_DEGREE:
        raise ValueError(f"{name} must be at most {MAX_DEGREE}; got {degree}.")
    return degree


def check_kernel(name: str, value: Any) -> int | Callable[[Any], Any]:
    """Return a kernel: a degree, or a callable from ``x`` to features."""
    if callable(value):
        try:
            hash(value)
        except TypeError:
            raise TypeError(f"{name} must be hashable (it is a static argument).") from None
        return value
    try:
        return check_count(name, value)
    except TypeError as error:
        if is_traced(value):
            raise
        raise TypeError(
            f"{name} must be a degree (an int >= 1) or a callable (n,) -> (n, m) of features;"
            f" got {value!r}."
        ) from error


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return a static option, which must be one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        expected = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {expected}; got {value!r}.")
    return value
