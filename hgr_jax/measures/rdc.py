"""RDC: canonical correlation of random sinusoids of the ranks."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from hgr_jax.arguments import as_key, as_pair, as_positive, check_count
from hgr_jax.copula import TransformedPair, as_new_data, check_single
from hgr_jax.measures.spearman import average_ranks
from hgr_jax.solvers import CanonicalPair, top_pair

_matmul = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)


def rdc(
    a: Any,
    b: Any,
    *,
    key: Any,
    projections: int = 20,
    scale: Any = 1 / 6,
    regularization: Any = 1e-10,
    repeats: int = 1,
) -> Array:
    """Randomized dependence coefficient, the top canonical correlation of random sinusoids.

        RDC(a, b) = max over alpha, beta of rho( sin([u, 1] W_a) alpha, sin([v, 1] W_b) beta )

    with u and v the ranks of a and b over n (their empirical copula), and the weights W of
    ``projections`` sinusoids drawn from ``N(0, (scale / (p + 1))^2)``.

    With the usual scale the arguments of the sinusoids are small, so that their span is nearly
    that of low powers of the ranks, and what bounds RDC is not the draw but the regularisation:
    without any, 20 sinusoids would act like polynomials of degree 20.  With the default, float32
    and float64 agree, and draws differ little from each other.

    Args:
      a, b: real arrays ``(n,)``, or ``(n, p)`` (ranks column by column), traced.
      key: a random key, as ``jax.random.key(0)`` makes, traced.
      projections: number of sinusoids of each variable, static.
      scale: standard deviation of the random weights, times p + 1; > 0, traced.
      regularization: ridge added to the variances of the principal directions of the
        sinusoids, relative to the largest; > 0, traced.  Below 1e-12, float32 has only noise.
      repeats: the median over so many independent draws is returned; static.

    Returns:
      A scalar in [0, 1], of the floating dtype of ``a`` and ``b``; the same for the same key.

    Raises:
      TypeError, ValueError: for other shapes or dtypes, keys or options than the above.

    Derivatives: zero, by the options too, as ranks are piecewise constant.  Degenerate data: a
    constant ``a`` or ``b`` gives 0; NaN or infinity gives NaN, and so does a traced option that
    is not above 0.  Cost: O(n log n + n projections^2), with arrays of n x projections, for each
    repeat.

    Source: Lopez-Paz, Hennig & Schölkopf, "The Randomized Dependence Coefficient" (2013).

    Example:
      >>> import jax, jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 1001)
      >>> print(f"{hgr_jax.rdc(a, a**2, key=jax.random.key(0)):.3f}")
      1.000
    """
    a, b = as_pair(a, b)
    keys = jax.random.split(as_key(key), check_count("repeats", repeats))
    options = _options(scale, regularization, a.dtype)
    return _rdc(a, b, keys, *options, projections=check_count("projections", projections))


def rdc_fit(
    a: Any,
    b: Any,
    *,
    key: Any,
    projections: int = 20,
    scale: Any = 1 / 6,
    regularization: Any = 1e-10,
) -> RandomizedFit:
    """RDC of one draw, with its transformations.

    Degenerate data, cost and source as in `rdc`, whose value (with ``repeats=1``) is the
    ``correlation`` of the result.

    Args:
      a, b, key, projections, scale, regularization: as in `rdc`.

    Returns:
      A `RandomizedFit`, a frozen pytree: ``correlation``; ``f`` and ``g``, callable on new data;
      and ``score`` for held-out data.  Because of the ridge the correlation of ``f(a)`` and
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
    return _rdc_fit(a, b, key, *options, projections=check_count("projections", projections))


def _options(scale: Any, regularization: Any, dtype: Any) -> tuple[Array, Array]:
    options = (
        as_positive("scale", scale, dtype),
        as_positive("regularization", regularization, dtype),
    )
    return lax.stop_gradient(options)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RandomizedTransform:
    """A transformation of RDC: a combination of sinusoids of the ranks in the fitted sample."""

    sample: Array
    weights: Array
    mean: Array
    coefficients: Array

    def __call__(self, x: Any) -> Array:
        """Values ``(n,)`` at ``x``, of as many columns as the fitted data."""
        check_single(self.sample.shape[:-2])
        columns = self.sample.shape[1]
        return _evaluate(self, as_new_data(x, columns, self.sample.dtype).reshape(-1, columns))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RandomizedFit(TransformedPair):
    """A fit of RDC: ``correlation``, transformations ``f`` and ``g``, and ``score``."""


@jax.jit
def _evaluate(transform: RandomizedTransform, x: Array) -> Array:
    rows = transform.sample.shape[0]

    def share(sample: Array, column: Array) -> Array:
        below = jnp.searchsorted(sample, column, side="left")
        up_to = jnp.searchsorted(sample, column, side="right")
        return (below + up_to + 1).astype(x.dtype) / (2 * rows)

    shares = jax.vmap(share, in_axes=(1, 1), out_axes=1)(transform.sample, x)
    features = _sinusoids(shares, transform.weights) - transform.mean[None, :]
    return jnp.where(
        jnp.all(jnp.isfinite(x), axis=1), _matmul(features, transform.coefficients), jnp.nan
    )


@functools.partial(jax.jit, static_argnames=("projections",))
def _rdc(
    a: Array, b: Array, keys: Array, scale: Array, regularization: Array, *, projections: int
) -> Array:
    shares = _shares(a), _shares(b)

    def once(key: Array) -> Array:
        weights = _weights(key, shares, scale, projections)
        return _best_pair(shares, weights, regularization)[0].correlation

    return jnp.median(jax.vmap(once)(keys))


@functools.partial(jax.jit, static_argnames=("projections",))
def _rdc_fit(
    a: Array, b: Array, key: Array, scale: Array, regularization: Array, *, projections: int
) -> RandomizedFit:
    shares = _shares(a), _shares(b)
    weights = _weights(key, shares, scale, projections)
    pair, sides = _best_pair(shares, weights, regularization)
    f, g = (
        _transform(x, w, side, direction)
        for x, w, side, direction in zip((a, b), weights, sides, (pair.u, pair.v), strict=True)
    )
    return RandomizedFit(pair.correlation, f, g)


def _shares(x: Array) -> Array:
    """Ranks over n, column by column, ``(n, p)``; all NaN if any value is not finite."""
    columns = x.reshape(x.shape[0], -1)
    return jax.vmap(average_ranks, in_axes=1, out_axes=1)(columns) / x.shape[0]


def _weights(
    key: Array, shares: tuple[Array, Array], scale: Array, projections: int
) -> tuple[Array, Array]:
    """Weights ``(p + 1, projections)`` of either variable; the last row is the offset's."""
    draws = []
    for part, u in zip(jax.random.split(key), shares, strict=True):
        rows = u.shape[1] + 1
        draws.append(scale / rows * jax.random.normal(part, (rows, projections), u.dtype))
    return draws[0], draws[1]


def _sinusoids(shares: Array, weights: Array) -> Array:
    return jnp.sin(_matmul(shares, weights[:-1]) + weights[-1][None, :])


@dataclasses.dataclass(frozen=True)
class _Whitened:
    """Principal directions of centred sinusoids, shrunk by the ridge.

    ``directions`` are in coordinates of an orthonormal basis that both variables share.
    """

    directions: Array
    loadings: Array
    mean: Array


def _best_pair(
    shares: tuple[Array, Array], weights: tuple[Array, Array], regularization: Array
) -> tuple[CanonicalPair, tuple[_Whitened, _Whitened]]:
    features = jnp.stack([_sinusoids(u, w) for u, w in zip(shares, weights, strict=True)])
    means = jnp.mean(features, axis=1)
    centred = features - means[:, None, :]
    # With one factorisation for both, only its triangle is needed and nothing else of size n.
    r = jnp.linalg.qr(jnp.concatenate([centred[0], centred[1]], axis=1), mode="r")
    u, size, vt = jnp.linalg.svd(jnp.stack(jnp.split(r, 2, axis=1)), full_matrices=False)
    varies = jnp.stack([jnp.any(x != x[:1]) for x in shares])[:, None]
    largest = size[:, :1]
    relative = size / jnp.where(largest > 0, largest, 1)
    ridged = largest * jnp.sqrt(relative**2 + regularization)
    inverse = jnp.where(varies, 1 / jnp.where(varies, ridged, 1), 0)
    directions = u * (size * inverse)[:, None, :]
    loadings = vt.swapaxes(1, 2) * inverse[:, None, :]
    cross = _matmul(directions[0].T, directions[1])
    finite = jnp.all(jnp.isfinite(cross))
    pair = top_pair(jnp.where(finite, cross, 0), "svd")
    value = jnp.where(finite, jnp.minimum(pair.correlation, 1), jnp.nan)
    sides = [_Whitened(*side) for side in zip(directions, loadings, means, strict=True)]
    return dataclasses.replace(pair, correlation=value), (sides[0], sides[1])


def _transform(x: Array, weights: Array, side: _Whitened, direction: Array) -> RandomizedTransform:
    spread = jnp.linalg.norm(_matmul(side.directions, direction)) / x.shape[0] ** 0.5
    unit = jnp.where(spread > 0, direction / jnp.where(spread > 0, spread, 1), 0)
    sample = jnp.sort(lax.stop_gradient(x).reshape(x.shape[0], -1), axis=0)
    return RandomizedTransform(sample, weights, side.mean, _matmul(side.loadings, unit))
