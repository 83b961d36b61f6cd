"""RDC: canonical correlation of random functions of the ranks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax
from numpy.typing import ArrayLike

from hgr_jax._checks import check_count
from hgr_jax.core.arrays import as_key, as_pair, as_positive
from hgr_jax.core.linalg import matmul
from hgr_jax.core.numerics import fill_padding, row_count, row_mean, safe_divide
from hgr_jax.core.rows import over_rows, padded_length
from hgr_jax.core.solvers import top_pair
from hgr_jax.measures.classical import average_ranks

RIDGE = 1e-10
"""Added to the variances of the principal directions, relative to the largest."""


def rdc(
    a: ArrayLike,
    b: ArrayLike,
    *,
    key: Array,
    projections: int = 20,
    scale: ArrayLike = 1 / 6,
) -> Array:
    """Return RDC, the top canonical correlation of random functions of the ranks.

        RDC(a, b) = max over alpha, beta of rho( sin([u, 1] W_a) alpha, sin([v, 1] W_b) beta )

    with u and v the ranks of a and b over n (their empirical copula), and the weights W of
    ``projections`` sinusoids drawn from ``N(0, (scale / 2)^2)``.

    The sinusoids span nearly the low powers of the ranks.  Their principal directions have a ridge
    of 1e-10 of the largest variance, which is what float32 resolves: little beyond degree 3 counts
    at the default scale.  The published code in R leaves out functions instead, by a rule whose
    result depends on the draw; then higher degrees count: for ``b = (a^2 - 1/2)^2``, n = 1,000, its
    value is 0.99, this one 0.52.

    Args:
      a, b: real arrays ``(n,)``, traced.
      key: a random key, as ``jax.random.key(0)`` makes, traced.
      projections: number of random functions of each variable, static.
      scale: standard deviation of the random weights, times 2; > 0, traced.

    Returns:
      A scalar in [0, 1], of the floating dtype of ``a`` and ``b``; the same for the same key.

    Raises:
      TypeError, ValueError: for other shapes or dtypes, keys or options than the above.

    Derivatives: zero, as ranks are piecewise constant.  Degenerate data: a constant ``a`` or ``b``
    gives 0; NaN or infinity gives NaN, and so does a traced scale that is not above 0.  Cost:
    O(n log n + n projections^2), with arrays of n x projections.

    Source: Lopez-Paz, Hennig & Schölkopf, "The Randomized Dependence Coefficient" (2013).

    Example:
      >>> import jax, jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 1001)
      >>> print(f"{hgr_jax.rdc(a, a**2, key=jax.random.key(0)):.3f}")
      1.000
    """
    a, b = as_pair(a, b, max_ndim=1)
    scale = lax.stop_gradient(as_positive("scale", scale, a.dtype))
    count = check_count("projections", projections)
    value: Array = _rdc(a, b, as_key(key), scale, projections=count)
    return value


@over_rows(columns=2, static=("projections",))
def _rdc(
    a: Array, b: Array, key: Array, scale: Array, *, projections: int, count: Array | None
) -> Array:
    rows, length = len(a), padded_length(len(a))
    if count is None:  # the rounding of small directions depends on the shape that LAPACK gets
        a, b = (jnp.pad(x, (0, length - rows), mode="edge") for x in (a, b))
        count = lax.optimization_barrier(jnp.int32(rows))
    directions = []
    for x, part in zip((a, b), jax.random.split(key), strict=True):
        share = average_ranks(x, count) / row_count(count, x)
        weights = scale / 2 * jax.random.normal(part, (2, projections), x.dtype)
        waves = jnp.sin(share[:, None] * weights[None, 0] + weights[None, 1])
        for _ in range(2):  # the rounding of a mean would correlate both variables
            waves = fill_padding(waves - row_mean(waves, count)[None, :], count)
        directions.append(_principal_directions(jnp.where(jnp.any(share != share[:1]), waves, 0)))
    cross = matmul(directions[0].T, directions[1])
    finite = jnp.all(jnp.isfinite(cross))
    value = top_pair(jnp.where(finite, cross, 0)).correlation
    return jnp.where(finite, jnp.minimum(value, 1), jnp.nan)


def _principal_directions(x: Array) -> Array:
    """Return orthogonal directions ``(n, k)`` of the columns of ``x``, shrunk by the ridge."""
    q, triangle = jnp.linalg.qr(x)  # a Gram matrix would lose half of the digits
    u, size, _ = jnp.linalg.svd(triangle, full_matrices=False)
    share = safe_divide(size, size[0])
    return matmul(q, u * safe_divide(share, jnp.sqrt(share**2 + RIDGE))[None, :])
