"""Arrays of JAX: arguments of measures, checked and converted.

Shapes, dtypes and static values are concrete even under tracing, and are always checked.  Values
are never checked: inside `jax.jit` a fit's status reports NaN or a constant column.  NumPy arrays
that lose digits in JAX's dtype cause a warning.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import PartitionSpec
from jax.typing import DTypeLike
from numpy.typing import ArrayLike, NDArray

from hgr_jax._checks import (
    as_host_array,
    check_indexes,
    check_kind_and_shape,
    check_same_rows,
    check_weights,
    describe_value,
    warn_of_few_steps,
)

_COMPUTED = (np.dtype(np.float32), np.dtype(np.float64))


def on_host(x: Array) -> bool:
    """Return whether a concrete ``x`` is on the CPU, where NumPy can read it."""
    return all(device.platform == "cpu" for device in x.devices())


def as_dtype(x: Array, dtype: DTypeLike) -> Array:
    """Return ``x`` as ``dtype``; NumPy converts a concrete array on the CPU.

    JAX would compile a program for every shape.
    """
    if x.dtype == dtype:
        return x
    if isinstance(x, jax.core.Tracer) or not on_host(x):
        return x.astype(dtype)
    with np.errstate(over="ignore"):
        return jax.device_put(np.asarray(x).astype(dtype))


def as_vector(x: Array) -> Array:
    """Return one column ``(n, 1)`` as ``(n,)``, without a compiled program, as `as_dtype` does."""
    if isinstance(x, jax.core.Tracer) or not on_host(x):
        return x.reshape(x.shape[0])
    return jax.device_put(np.asarray(x).reshape(x.shape[0]))


def scalar_of(value: float, dtype: DTypeLike) -> Array:
    """Return a number as a scalar of JAX, in a quarter of the time of `jax.device_put`."""
    with jax.transfer_guard_host_to_device("allow"):  # explicit, as device_put is
        return _identity(np.asarray(value, dtype))


@jax.jit
def _identity(x: Array) -> Array:
    return x


def as_real_array(name: str, value: Any, *, max_ndim: int = 2, warn: bool = True) -> Array:
    """Return ``value`` as a JAX array ``(n,)`` or ``(n, p)`` of float32 or wider."""
    if not isinstance(value, Array):
        value = _from_host(name, value, warn=warn)
    elif _is_discrete(value.dtype) and not isinstance(value, jax.core.Tracer) and on_host(value):
        value = _from_host(name, np.asarray(value), warn=warn)
    value = _gathered(value)
    if value.dtype in _COMPUTED and 1 <= value.ndim <= max_ndim and 0 not in value.shape:
        return value
    check_kind_and_shape(name, value, max_ndim)
    if _is_discrete(value.dtype):
        return as_dtype(value, jnp.result_type(float))
    return as_dtype(value, jnp.float32) if value.dtype.itemsize < 4 else value


def _gathered(x: Array) -> Array:
    """Return an array whole on each device of an explicit mesh: measures are of all rows."""
    parts = getattr(jax.typeof(x).sharding, "spec", ())
    return jax.sharding.reshard(x, PartitionSpec(*[None] * x.ndim)) if any(parts) else x


def _is_discrete(dtype: DTypeLike) -> bool:
    return jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.bool_)


def as_host_pair(a: ArrayLike, b: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return both variables ``(n,)`` as `as_pair` does, but as arrays of NumPy.

    None if one of them is traced, or is not on the CPU.
    """
    for x in (a, b):
        if isinstance(x, Array) and (isinstance(x, jax.core.Tracer) or not on_host(x)):
            return None
    check_indexes(a=a, b=b)
    x, y = _as_host_vector("a", a), _as_host_vector("b", b)
    check_same_rows(x, y)
    dtype = np.promote_types(x.dtype, y.dtype)
    return x.astype(dtype, copy=False), y.astype(dtype, copy=False)


def _as_host_vector(name: str, value: Any) -> NDArray[Any]:
    host = np.asarray(value) if isinstance(value, Array) else as_host_array(name, value)
    check_kind_and_shape(name, host, 1)
    dtype = jnp.result_type(float) if _is_discrete(host.dtype) else host.dtype
    dtype = jax.dtypes.canonicalize_dtype(dtype if dtype.itemsize >= 4 else np.float32)
    if dtype == host.dtype:
        return host
    with np.errstate(over="ignore"):
        kept = host.astype(dtype)
        if dtype.itemsize < host.dtype.itemsize or _is_discrete(host.dtype):
            warn_of_few_steps(name, host, kept)
    return kept


def _from_host(name: str, value: Any, *, warn: bool) -> Array:
    host = as_host_array(name, value)
    array = jax.device_put(host)
    if warn and host.ndim and host.size and array.dtype.itemsize < host.dtype.itemsize:
        with np.errstate(over="ignore"):
            warn_of_few_steps(name, host, host.astype(array.dtype))  # the array may be traced
    return array


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
    check_same_rows(a, b)
    dtype = np.promote_types(a.dtype, b.dtype)
    return as_dtype(a, dtype), as_dtype(b, dtype)


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


def as_estimate(measure: Any, a: Array, b: Array, options: dict[str, Any]) -> Array:
    """Return ``measure(a, b, **options)``, which must be one number."""
    if not callable(measure):
        raise TypeError(f"measure must be a callable (a, b) -> scalar; got {measure!r}.")
    value = measure(a, b, **options)
    if not isinstance(value, Array | float) or jnp.shape(value) != ():
        got = describe_value(value) if isinstance(value, Array) else type(value).__name__
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
        f"key must be a random key, as jax.random.key(0) makes; got {describe_value(key)}."
    )


def as_scalar(name: str, value: Any, dtype: DTypeLike) -> Array:
    """Return a real number, traced or not, as an array ``()`` of ``dtype``."""
    number = isinstance(value, int | float | np.number | np.ndarray | Array)
    if number and np.shape(value) != ():
        raise ValueError(f"{name} must be one number; got shape {np.shape(value)}.")
    given = value.dtype if isinstance(value, Array) else np.asarray(value).dtype
    if not number or not (jnp.issubdtype(given, np.integer) or jnp.issubdtype(given, np.floating)):
        raise TypeError(f"{name} must be a real number; got {describe_value(value)}.")
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
