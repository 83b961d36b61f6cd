"""The oracle: Pearson's correlation under transformations that are known."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from hgr_jax._arrays import as_dtype, is_traced
from hgr_jax._checks import as_pair, as_real_array
from hgr_jax.core.rows import first_rows, over_rows, pad_rows, padded_length
from hgr_jax.measures.pearson import sample_correlation


def oracle(
    a: ArrayLike, b: ArrayLike, *, f: Callable[[Array], Array], g: Callable[[Array], Array]
) -> Array:
    """Return the absolute correlation under the copula transformations that generated the data.

        oracle(a, b; f, g) = |rho(f(a), g(b))|

    What an estimator of HGR is compared with where the relation is known, as those of
    `hgr_jax.datasets.synthetic` are: with noise it is a lower bound on HGR, since other
    transformations may do better still.

    Args:
      a, b: real arrays ``(n,)``, traced.
      f, g: callables ``(n,) -> (n,)``, of `a` and of `b`, that map every value by itself: outside
        of `jax.jit` they are called on a few rows more, so that these can be dropped again.

    Returns:
      A scalar in [0, 1], of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: for other shapes or dtypes, of the data or of what f or g returns.

    Derivatives: those of f, g and `pearson`.  Degenerate data: a constant ``a`` or ``b`` gives 0
    with zero derivatives; NaN gives NaN, as does what f or g makes into NaN or infinity.

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
