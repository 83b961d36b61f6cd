"""Pearson's correlation: of the values, of their ranks, and under known transformations."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array, lax
from numpy.typing import ArrayLike

from hgr_jax._arrays import is_traced
from hgr_jax.core.arrays import as_dtype, as_host_pair, as_pair, as_real_array, scalar_of
from hgr_jax.core.host.correlations import pearson_of, spearman_of
from hgr_jax.core.numerics import fill_padding, row_mean, safe_divide, standardise
from hgr_jax.core.rows import first_rows, over_rows, pad_rows, padded_length


def pearson(a: ArrayLike, b: ArrayLike) -> Array:
    """Return Pearson's correlation, the degree of a linear relation, with its sign.

        rho(a, b) = cov(a, b) / (sd(a) sd(b))

    Args:
      a, b: real arrays ``(n,)``, traced.

    Returns:
      A scalar in [-1, 1], of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: for other shapes or dtypes.

    Derivatives: exact, of every order, in both modes.  Degenerate data: a constant ``a`` or
    ``b`` gives 0 with zero derivatives; NaN or infinity gives NaN.  Cost: O(n).

    Source: Pearson, "Notes on regression and inheritance in the case of two parents" (1895).

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 101)
      >>> print(f"{hgr_jax.pearson(a, -2 * a):.4f} {hgr_jax.pearson(a, a**3):.4f}")
      -1.0000 0.9166
    """
    host = as_host_pair(a, b)
    if host is not None:  # NumPy takes less time than it takes to call a compiled program
        return scalar_of(pearson_of(*host), host[0].dtype)
    return _pearson(*as_pair(a, b, max_ndim=1))


@over_rows(columns=2)
def _pearson(a: Array, b: Array, *, count: Array | None) -> Array:
    return sample_correlation(a, b, count)


def sample_correlation(a: Array, b: Array, count: Array | None = None) -> Array:
    """Return Pearson's correlation of the first ``count`` rows of ``a`` and ``b``, or of all."""
    x, y = standardise(a, count), standardise(b, count)
    # Mean squares are 1 up to rounding, so constants to derivatives.
    size = lax.stop_gradient(jnp.sqrt(row_mean(x * x, count) * row_mean(y * y, count)))
    product = safe_divide(row_mean(x * y, count), size)
    # Beyond 1 by rounding only; a clip would make the derivative there zero or a half.
    return product / jnp.maximum(lax.stop_gradient(jnp.abs(product)), 1)


def spearman(a: ArrayLike, b: ArrayLike) -> Array:
    """Return Spearman's rank correlation, the degree of a monotone relation, with its sign.

        rho_S(a, b) = pearson(rank(a), rank(b)),    ties sharing their mean rank

    Args:
      a, b: real arrays ``(n,)``, traced.

    Returns:
      A scalar in [-1, 1], of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: for other shapes or dtypes.

    Derivatives: zero, as ranks are piecewise constant.  Degenerate data: a constant ``a`` or
    ``b`` gives 0; NaN or infinity gives NaN.  Cost: two sorts, O(n log n).

    Source: Spearman, "The proof and measurement of association between two things" (1904).

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.arange(-50.0, 51.0)
      >>> print(f"{hgr_jax.spearman(a, a**3):.4f} {abs(hgr_jax.spearman(a, a**2)):.4f}")
      1.0000 0.0000
    """
    host = as_host_pair(a, b)
    if host is not None:  # NumPy sorts in less time than XLA
        return scalar_of(spearman_of(*host), host[0].dtype)
    return _spearman(*as_pair(a, b, max_ndim=1))


@over_rows(columns=2)
def _spearman(a: Array, b: Array, *, count: Array | None) -> Array:
    return sample_correlation(average_ranks(a, count), average_ranks(b, count), count)


def average_ranks(x: Array, count: Array | None = None) -> Array:
    """Return mean ranks, from 1, of ``x (n,)``; all NaN if a value is not finite."""
    x = lax.stop_gradient(x)
    ordered = jnp.sort(fill_padding(x, count, jnp.inf))
    less, up_to = (jnp.searchsorted(ordered, x, side=side) for side in ("left", "right"))
    ranks = (less + up_to + 1).astype(x.dtype) / 2
    return jnp.where(jnp.all(jnp.isfinite(x)), ranks, jnp.nan)


def oracle(
    a: ArrayLike, b: ArrayLike, *, f: Callable[[Array], Array], g: Callable[[Array], Array]
) -> Array:
    """Return the absolute correlation under known copula transformations.

        oracle(a, b; f, g) = |rho(f(a), g(b))|

    It is a lower bound on HGR: with noise, other transformations may do better.

    Args:
      a, b: real arrays ``(n,)``, traced.
      f, g: callables ``(n,) -> (n,)``, of `a` and of `b`, that act row by row: outside `jax.jit`
        their argument has a few rows more than the data.

    Returns:
      A scalar in [0, 1], of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: for other shapes or dtypes of the data, or of the values of f or g.

    Derivatives: those of f, g and `pearson`.  Degenerate data: a constant ``a`` or ``b`` gives 0
    with zero derivatives; NaN in the data, and NaN or infinity from f or g, gives NaN.

    Source: Giuliani & Lombardi, "Robust Non-Linear Correlations via Polynomial Regression".

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 101)
      >>> print(f"{hgr_jax.oracle(a, a**2, f=jnp.square, g=lambda b: b):.4f}")
      1.0000
    """
    a, b = as_pair(a, b, max_ndim=1)
    for name, transform in (("f", f), ("g", g)):
        if not callable(transform):
            raise TypeError(f"{name} must be a callable (n,) -> (n,); got {transform!r}.")
    return _oracle(a, b, _transformed("f", "a", f, a), _transformed("g", "b", g, b))


def _transformed(name: str, of: str, transform: Callable[[Array], Array], x: Array) -> Array:
    """Return ``transform(x)``, without a program for each length."""
    rows = x.shape[0]
    argument = x if is_traced(x) else jnp.asarray(pad_rows(x, padded_length(rows)))
    value = as_dtype(as_real_array(f"{name}({of})", transform(argument)), x.dtype)
    if value.shape != argument.shape:
        raise ValueError(
            f"{name} must map (n,) to (n,): it made {value.shape} of {argument.shape}."
        )
    return value[:rows] if is_traced(value) else first_rows(value, rows)


@over_rows(columns=4)
def _oracle(a: Array, b: Array, x: Array, y: Array, *, count: Array | None) -> Array:
    value = jnp.abs(sample_correlation(x, y, count))
    constant = jnp.all(a == a[0]) | jnp.all(b == b[0])
    return jnp.where(constant & ~jnp.isnan(value), 0, value)
