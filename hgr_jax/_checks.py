"""Check arguments, with one clear message for each error.

Shapes, dtypes and static values are concrete even under tracing, and are always checked.  Values
are never checked: inside `jax.jit` a fit's status reports NaN or a constant column.  NumPy arrays
that lose digits in JAX's dtype cause a warning.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import PartitionSpec
from jax.typing import DTypeLike
from numpy.typing import ArrayLike, NDArray

from hgr_jax._arrays import as_dtype, on_host
from hgr_jax._limits import MAX_DEGREE

_COMPUTED = (np.dtype(np.float32), np.dtype(np.float64))

Checked = TypeVar("Checked")


def without_mask(value: Any) -> Any:
    """Return a masked array with missing values: NaN among numbers, None among others."""
    if not isinstance(value, np.ma.MaskedArray):
        return value
    if value.dtype.kind in "biuf":
        return np.ma.filled(value.astype(np.float64), np.nan)
    return np.ma.filled(value.astype(object), None)


def as_real_array(name: str, value: Any, *, max_ndim: int = 2, warn: bool = True) -> Array:
    """Return ``value`` as a JAX array ``(n,)`` or ``(n, p)`` of float32 or wider."""
    if not isinstance(value, Array):
        value = _from_host(name, value, warn=warn)
    elif _is_discrete(value.dtype) and not isinstance(value, jax.core.Tracer) and on_host(value):
        value = _from_host(name, np.asarray(value), warn=warn)
    value = _gathered(value)
    if value.dtype in _COMPUTED and 1 <= value.ndim <= max_ndim and 0 not in value.shape:
        return value
    _check_kind_and_shape(name, value, max_ndim)
    if _is_discrete(value.dtype):
        return as_dtype(value, jnp.result_type(float))
    return as_dtype(value, jnp.float32) if value.dtype.itemsize < 4 else value


def _gathered(x: Array) -> Array:
    """Return an array whole on each device of an explicit mesh: measures are of all rows."""
    parts = getattr(jax.typeof(x).sharding, "spec", ())
    return jax.sharding.reshard(x, PartitionSpec(*[None] * x.ndim)) if any(parts) else x


def as_host_column(name: str, value: Any, rows: int | None = None) -> NDArray[np.float64]:
    """Return a variable as an array of NumPy ``(n,)``, in float64."""
    column = np.asarray(value) if isinstance(value, Array) else _as_host_array(name, value)
    _check_kind_and_shape(name, column, 1)
    if rows is not None and len(column) != rows:
        raise ValueError(f"{name} must have {rows} rows, as a and b; got {len(column)}.")
    return column.astype(np.float64, copy=False)


def as_host_pair(a: ArrayLike, b: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return both variables ``(n,)`` as `as_pair` does, but as arrays of NumPy.

    None if one of them is traced, or is not on the CPU.
    """
    for x in (a, b):
        if isinstance(x, Array) and (isinstance(x, jax.core.Tracer) or not on_host(x)):
            return None
    check_indexes(a=a, b=b)
    x, y = _as_host_vector("a", a), _as_host_vector("b", b)
    _check_same_rows(x, y)
    dtype = np.promote_types(x.dtype, y.dtype)
    return x.astype(dtype, copy=False), y.astype(dtype, copy=False)


def _as_host_vector(name: str, value: Any) -> NDArray[Any]:
    host = np.asarray(value) if isinstance(value, Array) else _as_host_array(name, value)
    _check_kind_and_shape(name, host, 1)
    dtype = jnp.result_type(float) if _is_discrete(host.dtype) else host.dtype
    dtype = jax.dtypes.canonicalize_dtype(dtype if dtype.itemsize >= 4 else np.float32)
    if dtype == host.dtype:
        return host
    with np.errstate(over="ignore"):
        kept = host.astype(dtype)
        if dtype.itemsize < host.dtype.itemsize or _is_discrete(host.dtype):
            warn_of_few_steps(name, host, kept)
    return kept


def _check_kind_and_shape(name: str, value: Any, max_ndim: int) -> None:
    if not (jnp.issubdtype(value.dtype, jnp.floating) or _is_discrete(value.dtype)):
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


def _is_discrete(dtype: DTypeLike) -> bool:
    return jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.bool_)


def _as_host_array(name: str, value: Any) -> NDArray[Any]:
    """Return what is no array of JAX as an array of floats or booleans."""
    try:
        host = np.asarray(without_mask(value))
    except ValueError as error:  # ragged nested sequences
        raise ValueError(f"{name} cannot be made into an array: {error}") from error
    if host.dtype.kind in "iu" or host.dtype == np.longdouble:
        # Without 64-bit mode JAX would wrap integers beyond 2^31.
        host = host.astype(np.float64)
    if host.dtype.kind not in "fb" and not jnp.issubdtype(host.dtype, jnp.floating):
        raise TypeError(
            f"{name} must hold real numbers (floats, integers or booleans); got"
            f" {type(value).__name__} of dtype {host.dtype}."
            " Make one-hot features of categories, and numbers of dates; scan and hgr read both as"
            " they are."
        )
    return host


def _from_host(name: str, value: Any, *, warn: bool) -> Array:
    host = _as_host_array(name, value)
    array = jax.device_put(host)
    if warn and host.ndim and host.size and array.dtype.itemsize < host.dtype.itemsize:
        with np.errstate(over="ignore"):
            warn_of_few_steps(name, host, host.astype(array.dtype))  # the array may be traced
    return array


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
    if not np.array_equal(given, rounded):
        warnings.warn(
            f"{name} lies so far from 0 that {kept.dtype} keeps fewer than {FEW_STEPS} different"
            f" values of it: subtract its center first ({name} - {name}[0]), or use float64,"
            " jax.config.update('jax_enable_x64', True).",
            UserWarning,
            stacklevel=2,
        )


def as_pair(
    a: ArrayLike, b: ArrayLike, *, max_ndim: int = 2, warn: bool = True, **alongside: Any
) -> tuple[Array, Array]:
    """Return both variables as arrays of one floating dtype and the same number of rows.

    ``warn=False`` omits the warning of lost digits; pandas objects ``alongside`` (weights, given)
    must have the same index.
    """
    check_indexes(a=a, b=b, **alongside)
    a = as_real_array("a", a, max_ndim=max_ndim, warn=warn)
    b = as_real_array("b", b, max_ndim=max_ndim, warn=warn)
    _check_same_rows(a, b)
    dtype = np.promote_types(a.dtype, b.dtype)
    return as_dtype(a, dtype), as_dtype(b, dtype)


def _check_same_rows(a: Any, b: Any) -> None:
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


def as_weights(weights: ArrayLike | None, rows: int, dtype: DTypeLike) -> Array | None:
    """Return observation weights as an array ``(n,)``, or None."""
    if weights is None:
        return None
    weights = as_real_array("weights", weights, max_ndim=1)
    if weights.shape != (rows,):
        raise ValueError(
            f"weights must have shape ({rows},), one weight per row;"
            f" got shape {tuple(weights.shape)}."
        )
    if not isinstance(weights, jax.core.Tracer):
        check_weights(np.asarray(weights))
    return as_dtype(weights, dtype)


def check_weights(weights: NDArray[Any]) -> None:
    """Refuse weights that are negative, infinite or missing, and those that are all 0."""
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError("weights must be finite and not negative, and not all 0.")


def as_given(given: Any, rows: int, dtype: DTypeLike) -> Array | None:
    """Return the conditioning variables, ``(n,)`` or ``(n, p)``, or None."""
    if given is None:
        return None
    try:
        array = as_real_array("given", given)
    except TypeError as error:
        raise TypeError(f"{error} scan and independence_test take text as given.") from None
    if array.shape[0] != rows:
        raise ValueError(f"given must have {rows} rows, as a and b; got {array.shape[0]}.")
    return array.astype(dtype)


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
        got = "text" if array.ndim and array.dtype.kind in "UST" else _describe_value(order)
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
    if isinstance(x, Array):
        return jax.device_put(np.asarray(x)[order])
    return x[order] if hasattr(x, "dtype") else np.asarray(x)[order]


def as_estimate(measure: Any, a: Array, b: Array, options: dict[str, Any]) -> Array:
    """Return ``measure(a, b, **options)``, which must be one number."""
    if not callable(measure):
        raise TypeError(f"measure must be a callable (a, b) -> scalar; got {measure!r}.")
    value = measure(a, b, **options)
    if not isinstance(value, Array | float) or jnp.shape(value) != ():
        got = _describe_value(value) if isinstance(value, Array) else type(value).__name__
        raise TypeError(f"measure must return one number; got {got}.")
    return jnp.asarray(value, a.dtype)


def as_key(key: Array) -> Array:
    """Return a random key, made by `jax.random.key` or `jax.random.PRNGKey`."""
    if isinstance(key, Array):
        typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
        if typed and key.shape == ():
            return key
        raw = key.dtype == jnp.uint32
        if raw and key.shape == jax.random.key_data(jax.random.key(0)).shape:
            return jax.random.wrap_key_data(key)
        if typed or (raw and key.ndim > 1):
            raise ValueError(
                f"key must be one random key; got an array of them, of shape {tuple(key.shape)}."
                " Map over it: jax.vmap(lambda key: ...)(keys)."
            )
    raise TypeError(
        f"key must be a random key, as jax.random.key(0) makes; got {_describe_value(key)}."
    )


def as_scalar(name: str, value: Any, dtype: DTypeLike) -> Array:
    """Return a real number, traced or not, as an array ``()`` of ``dtype``."""
    number = isinstance(value, int | float | np.number | np.ndarray | Array)
    if number and np.shape(value) != ():
        raise ValueError(f"{name} must be one number; got shape {np.shape(value)}.")
    given = value.dtype if isinstance(value, Array) else np.asarray(value).dtype
    if not number or not (jnp.issubdtype(given, np.integer) or jnp.issubdtype(given, np.floating)):
        raise TypeError(f"{name} must be a real number; got {_describe_value(value)}.")
    if not isinstance(value, Array):
        value = np.asarray(value, np.float64)
    with np.errstate(over="ignore"):
        return jnp.asarray(value).astype(dtype)


def as_nonnegative(name: str, value: Any, dtype: DTypeLike, *, positive: bool = False) -> Array:
    """Return a finite number >= 0 as an array ``()``; an invalid traced value becomes NaN."""
    number = as_scalar(name, value, dtype)
    valid = ((number > 0) if positive else (number >= 0)) & (number < jnp.inf)
    if isinstance(number, jax.core.Tracer):
        return jnp.where(valid, number, jnp.nan)
    if not valid:
        bound = "above 0" if positive else "at least 0"
        rounded = f", which is {number} in {number.dtype}" if 0 < value < np.inf else ""
        raise ValueError(f"{name} must be {bound} and finite; got {value}{rounded}.")
    return number


def as_positive(name: str, value: Any, dtype: DTypeLike) -> Array:
    """Return a finite number above 0 as an array ``()``; an invalid traced value becomes NaN."""
    return as_nonnegative(name, value, dtype, positive=True)


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
        raise TypeError(f"{name} must be True or False; got {_describe_value(value)}.")
    return bool(value)


def check_fraction(name: str, value: Any) -> float:
    """Return a static number in [0, 1]."""
    if isinstance(value, jax.core.Tracer):
        raise TypeError(f"{name} must be a static number, but it is traced; close over it.")
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise TypeError(f"{name} must be a number from 0 to 1; got {_describe_value(value)}.")
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be from 0 to 1; got {value}.")
    return float(value)


def check_level(name: str, value: Any) -> float:
    """Return a static number in (0, 1)."""
    level = check_fraction(name, value)
    if not 0 < level < 1:
        raise ValueError(f"{name} must be above 0 and below 1; got {level}.")
    return level


def _describe_value(value: Any) -> str:
    if isinstance(value, np.ndarray | Array):
        return f"an array of shape {tuple(value.shape)} and dtype {value.dtype}"
    return repr(value)


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Return a static int of at least ``least``: a degree, a number of steps, ..."""
    if isinstance(value, jax.core.Tracer):
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


def check_kernel(name: str, value: Any) -> int | Callable[[Array], Array]:
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
        if isinstance(value, jax.core.Tracer):
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
