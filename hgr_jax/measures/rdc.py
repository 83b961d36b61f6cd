"""RDC: canonical correlation of random functions of the ranks."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import DTypeLike
from numpy.typing import ArrayLike

from hgr_jax._arrays import is_traced
from hgr_jax._checks import as_key, as_pair, as_positive, check_count, check_kernel
from hgr_jax.core.fits import TransformedPair, as_new_data, check_single
from hgr_jax.core.linalg import matmul
from hgr_jax.core.numerics import fill_padding, row_count, safe_divide, safe_norm
from hgr_jax.core.rows import first_rows, over_rows, pad_rows, padded_length
from hgr_jax.measures._random_features import (
    WAVES,
    Functions,
    RandomSide,
    best_pair,
    chebyshev,
    random_functions,
)
from hgr_jax.measures.spearman import average_ranks


def rdc(
    a: ArrayLike,
    b: ArrayLike,
    *,
    key: Array,
    projections: int = 20,
    scale: ArrayLike = 1 / 6,
    functions: Functions = "sin",
    regularization: ArrayLike | None = 1e-10,
    repeats: int = 1,
) -> Array:
    """Return RDC, the top canonical correlation of random functions of the ranks.

        RDC(a, b) = max over alpha, beta of rho( sin([u, 1] W_a) alpha, sin([v, 1] W_b) beta )

    with u and v the ranks of a and b over n (their empirical copula), and the weights W of
    ``projections`` sinusoids drawn from ``N(0, (scale / (p + 1))^2)``.

    With the usual scale the sinusoids span nearly the low powers of the ranks: with the default
    ridge little beyond degree 3 counts.  ``regularization=None`` is the published code in R, whose
    ``cancor`` leaves out each function whose residual given those before it is below 1e-7 of its
    norm.  That keeps 3 to 5 of 20, and sees more: for ``b = (a^2 - 1/2)^2``, n = 1,000, it is 0.99
    instead of 0.52, and for a circle 1.00 instead of 0.88.  As the number depends on the draw, so
    does the value: take the median over ``repeats``.

    Args:
      a, b: real arrays ``(n,)``, or ``(n, p)`` (ranks column by column), traced.
      key: a random key, as ``jax.random.key(0)`` makes, traced.
      projections: number of random functions of each variable, static.
      scale: standard deviation of the random weights, times p + 1; > 0, traced.
      functions: ``"sin"``, ``"cos"``, or a hashable function of JAX that is applied to each of
        the random arguments, an array ``(n, projections)``; static.
      regularization: ridge added to the variances of the principal directions of the functions,
        relative to the largest; > 0, traced.  Below 1e-12, float32 has only noise.  Or None, for
        the rule of R.
      repeats: the median over so many independent draws is returned; static.

    Returns:
      A scalar in [0, 1], of the floating dtype of ``a`` and ``b``; the same for the same key.

    Raises:
      TypeError, ValueError: for other shapes or dtypes, keys or options than the above.

    In float32 the rule of R holds for sinusoids of one variable, whose coefficients in polynomials
    are known.  For several variables, other functions, or a scale above about 2 it takes 1.2e-4
    for 1e-7, and so keeps fewer functions: use float64 there.

    Derivatives: zero, by the options too, as ranks are piecewise constant.  Degenerate data: a
    constant ``a`` or ``b`` gives 0; NaN or infinity gives NaN, and so does a traced option that
    is not above 0.  Cost: O(n log n + n projections^2), with arrays of n x projections, for each
    repeat.

    Source: Lopez-Paz, Hennig & Schölkopf, "The Randomized Dependence Coefficient" (2013), with its
    code in R.

    Example:
      >>> import jax, jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 1001)
      >>> print(f"{hgr_jax.rdc(a, a**2, key=jax.random.key(0)):.3f}")
      1.000
    """
    a, b = as_pair(a, b)
    keys = jax.random.split(as_key(key), check_count("repeats", repeats))
    options = _options(scale, regularization, a.dtype)
    static = _checked_static(projections, functions)
    return _rdc(a, b, keys, *options, **static)


def rdc_fit(
    a: ArrayLike,
    b: ArrayLike,
    *,
    key: Array,
    projections: int = 20,
    scale: ArrayLike = 1 / 6,
    functions: Functions = "sin",
    regularization: ArrayLike | None = 1e-10,
) -> RDCFit:
    """Return RDC of one draw, with its transformations.

    Degenerate data, cost and source as in `rdc`, whose value (with ``repeats=1``) is the
    ``correlation`` of the result.

    Args:
      a, b, key, projections, scale, functions, regularization: as in `rdc`.

    Returns:
      A `RDCFit`, a frozen pytree: ``correlation``; ``f`` and ``g``, callable on new data;
      and ``score`` for held-out data.  With a ridge the correlation of ``f(a)`` and
      ``g(b)`` may differ a little from ``correlation``.

    Raises:
      TypeError, ValueError: as `rdc` does.

    Example:
      >>> import jax, jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 1001)
      >>> fit = hgr_jax.rdc_fit(a, a**2, key=jax.random.key(0))
      >>> print(f"{fit.score(a[::2], a[::2] ** 2):.3f}")
      1.000
    """
    a, b = as_pair(a, b)
    (key,) = jax.random.split(as_key(key), 1)
    options = _options(scale, regularization, a.dtype)
    fit = _rdc_fit(a, b, key, *options, **_checked_static(projections, functions))
    f, g = (
        dataclasses.replace(side, sample=first_rows(side.sample, a.shape[0]))
        for side in (fit.f, fit.g)
    )
    return dataclasses.replace(fit, f=f, g=g)


def _options(
    scale: ArrayLike, regularization: ArrayLike | None, dtype: DTypeLike
) -> tuple[Array, Array | None]:
    ridge = None
    if regularization is not None:
        ridge = as_positive("regularization", regularization, dtype)
    return lax.stop_gradient((as_positive("scale", scale, dtype), ridge))


def _checked_static(projections: Any, functions: Any) -> dict[str, Any]:
    if not callable(functions) and functions not in WAVES:
        raise ValueError(
            f"functions must be 'sin', 'cos', or a function of an array; got {functions!r}."
        )
    if callable(functions):
        check_kernel("functions", functions)
    return {"projections": check_count("projections", projections), "functions": functions}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RDCTransform:
    """A transformation of RDC: a combination of random functions of the ranks in the sample.

    Attributes:
      sample: each column of the data in increasing order, ``(n, p)``.
      weights: of the random functions, ``(p + 1, projections)``.
      mean: of the random functions in the data, ``(projections,)``.
      coefficients: of the random functions, ``(projections,)``; 0 where their span is known as...
      polynomials: ...coefficients ``(17,)`` of Chebyshev polynomials of ``2 u - 1``, u the share
        of the sample below, from degree 0 on; else 0.
      functions: which functions.
    """

    sample: Array
    weights: Array
    mean: Array
    coefficients: Array
    polynomials: Array
    functions: Functions = dataclasses.field(metadata={"static": True})

    def __call__(self, x: ArrayLike) -> Array:
        """Return values ``(n,)`` at ``x``, of as many columns as the fitted data."""
        check_single(self.sample.shape[:-2])
        rows, columns = self.sample.shape
        x = as_new_data(x, columns, self.sample.dtype)
        transform, size = self, None
        if not is_traced(self, x):
            sample = pad_rows(self.sample, padded_length(rows))
            transform, size = dataclasses.replace(self, sample=sample), np.int32(rows)
        return first_rows(_evaluate_sinusoids(x, transform, size), x.shape[0])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RDCFit(TransformedPair):
    """A fit of RDC: ``correlation``, transformations ``f`` and ``g``, and ``score``."""


@over_rows(columns=1)
def _evaluate_sinusoids(
    x: Array, transform: RDCTransform, size: Array | None, *, count: Array | None
) -> Array:
    del count  # the caller cuts the rows that are not data
    rows = transform.sample.shape[0] if size is None else size
    x = x.reshape(x.shape[0], -1)

    def share(sample: Array, column: Array) -> Array:
        """Return the share of the first ``rows`` of the sample below; others repeat its last."""
        below = jnp.minimum(jnp.searchsorted(sample, column, side="left"), rows)
        up_to = jnp.minimum(jnp.searchsorted(sample, column, side="right"), rows)
        return (below + up_to + 1).astype(x.dtype) / jnp.asarray(2 * rows, x.dtype)

    shares = jax.vmap(share, in_axes=(1, 1), out_axes=1)(transform.sample, x)
    features = random_functions(shares, transform.weights, transform.functions)
    values = matmul(features - transform.mean[None, :], transform.coefficients)
    polynomials = transform.polynomials
    values = values + polynomials[0] + matmul(chebyshev(shares[:, 0]), polynomials[1:])
    return jnp.where(jnp.all(jnp.isfinite(x), axis=1), values, jnp.nan)


@over_rows(columns=2, static=("projections", "functions"))
def _rdc(
    a: Array,
    b: Array,
    keys: Array,
    scale: Array,
    regularization: Array | None,
    *,
    projections: int,
    functions: Functions,
    count: Array | None,
) -> Array:
    (a, b), count = _padded((a, b), count)
    shares = _shares(a, count), _shares(b, count)

    def once(key: Array) -> Array:
        weights = _weights(key, shares, scale, projections)
        return best_pair(shares, weights, regularization, functions, count)[0].correlation

    return jnp.median(lax.map(once, keys))  # one after the other, to save memory


@over_rows(columns=2, static=("projections", "functions"))
def _rdc_fit(
    a: Array,
    b: Array,
    key: Array,
    scale: Array,
    regularization: Array | None,
    *,
    projections: int,
    functions: Functions,
    count: Array | None,
) -> RDCFit:
    padded, number = _padded((a, b), count)
    shares = _shares(padded[0], number), _shares(padded[1], number)
    weights = _weights(key, shares, scale, projections)
    pair, sides = best_pair(shares, weights, regularization, functions, number)
    f, g = (
        _transform(x, w, side, direction, functions, count)
        for x, w, side, direction in zip((a, b), weights, sides, (pair.u, pair.v), strict=True)
    )
    return RDCFit(pair.correlation, f, g)


def _padded(columns: tuple[Array, Array], count: Array | None) -> tuple[tuple[Array, Array], Array]:
    """Pad the columns under `jax.jit` as well, and count the rows that are data.

    What rounding leaves of the smallest directions depends on the shape that LAPACK is given, and
    with so small a ridge the value depends on it in float32.  (A count that XLA knows, it would
    round otherwise.)
    """
    if count is not None:
        return columns, count
    rows = columns[0].shape[0]
    first, second = (
        jnp.pad(x, [(0, padded_length(rows) - rows)] + [(0, 0)] * (x.ndim - 1), mode="edge")
        for x in columns
    )
    return (first, second), lax.optimization_barrier(jnp.int32(rows))


def _shares(x: Array, count: Array | None = None) -> Array:
    """Return ranks over n, column by column, ``(n, p)``; all NaN if any value is not finite."""
    columns = x.reshape(x.shape[0], -1)
    ranks = jax.vmap(average_ranks, in_axes=(1, None), out_axes=1)(columns, count)
    return ranks / row_count(count, columns)


def _weights(
    key: Array, shares: tuple[Array, Array], scale: Array, projections: int
) -> tuple[Array, Array]:
    """Draw weights ``(p + 1, projections)`` of either variable; the last row is the offset's."""
    draws = []
    for part, u in zip(jax.random.split(key), shares, strict=True):
        rows = u.shape[1] + 1
        draws.append(scale / rows * jax.random.normal(part, (rows, projections), u.dtype))
    return draws[0], draws[1]


def _transform(
    x: Array,
    weights: Array,
    side: RandomSide,
    direction: Array,
    functions: Functions,
    count: Array | None,
) -> RDCTransform:
    unit = safe_divide(direction, safe_norm(matmul(side.directions, direction)))
    columns = lax.stop_gradient(x).reshape(x.shape[0], -1)
    return RDCTransform(
        jnp.sort(fill_padding(columns, count, jnp.inf), axis=0),
        weights,
        side.mean,
        matmul(side.loadings, unit),
        matmul(side.polynomials, unit),
        functions,
    )
