"""RDC: canonical correlation of random functions of the ranks.

The arguments of the functions are small, so that independent parts of the functions are as small as
1e-7 of their size, the rounding of float32.  Sinusoids of one variable are therefore expanded in
Chebyshev polynomials.  Their coefficients fall off with the degree, and each is exact to rounding
(Jacobi & Anger): only the polynomials are evaluated, and elimination works on the coefficients.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import DTypeLike
from numpy.typing import ArrayLike

from hgr_jax._arrays import is_traced
from hgr_jax._checks import as_key, as_pair, as_positive, check_count, check_kernel
from hgr_jax.core.fits import TransformedPair, as_new_data, check_single, takes_one_value
from hgr_jax.core.linalg import factorise, matmul
from hgr_jax.core.numerics import fill_padding, row_count, row_mean, safe_divide, safe_norm
from hgr_jax.core.rows import first_rows, over_rows, pad_rows, padded_length, row_by_row
from hgr_jax.core.solvers import CanonicalPair, top_pair
from hgr_jax.measures.classical import average_ranks

DEGREES = 16
"""Largest degree of the Chebyshev polynomials; later coefficients are below rounding."""

LARGEST_ARGUMENT = 2.0
"""Half of the largest change of a sinusoid's argument over all ranks, for `DEGREES` to suffice."""

TERMS = 11
"""Number of terms of the series of Bessel functions, for such arguments."""

DEPENDENT_NORM = 1e-7
"""Residual share of its norm below which a function is dependent: that of ``qr`` in R."""

WAVES = ("sin", "cos")

Functions = str | Callable[[Array], Array]
"""Names of functions, or one of an array, applied entry by entry."""


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

    The sinusoids span nearly the low powers of the ranks: with the default ridge little beyond
    degree 3 counts.  ``regularization=None`` is the rule of the published code in R: it leaves out
    each function whose residual given the earlier ones is below 1e-7 of its norm.  That keeps 3 to
    5 of 20 functions, and higher degrees: for ``b = (a^2 - 1/2)^2``, n = 1,000, the value is 0.99
    instead of 0.52.  It depends on the draw: take the median over ``repeats``.

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

    In float32 the rule of R holds for sinusoids of one variable.  For several variables, other
    functions, or a scale above about 2 it takes 1.2e-4 for 1e-7: use float64 there.

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
    traced, static = _checked_options(scale, regularization, projections, functions, a.dtype)
    value: Array = _rdc(a, b, keys, traced, **static, fit=False)
    return value


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
      An `RDCFit`.  With a ridge the correlation of ``f(a)`` and ``g(b)`` may differ a little from
      ``correlation``.

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
    keys = jax.random.split(as_key(key), 1)
    traced, static = _checked_options(scale, regularization, projections, functions, a.dtype)
    fit: RDCFit = _rdc(a, b, keys, traced, **static, fit=True)
    f, g = (
        dataclasses.replace(side, sample=first_rows(side.sample, a.shape[0]))
        for side in (fit.f, fit.g)
    )
    return dataclasses.replace(fit, f=f, g=g)


def _checked_options(
    scale: ArrayLike,
    regularization: ArrayLike | None,
    projections: Any,
    functions: Any,
    dtype: DTypeLike,
) -> tuple[tuple[Array, Array | None], dict[str, Any]]:
    """Return the traced and the static options."""
    ridge = None
    if regularization is not None:
        ridge = as_positive("regularization", regularization, dtype)
    traced = lax.stop_gradient((as_positive("scale", scale, dtype), ridge))
    if callable(functions):
        check_kernel("functions", functions)
    elif functions not in WAVES:
        raise ValueError(
            f"functions must be 'sin', 'cos', or a function of an array; got {functions!r}."
        )
    return traced, {"projections": check_count("projections", projections), "functions": functions}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RDCTransform:
    """A transformation of RDC: a combination of random functions of the ranks in the sample.

    Attributes:
      sample: each column of the data in increasing order, ``(n, p)``.
      weights: of the random functions, ``(p + 1, projections)``.
      mean: of the random functions in the data, ``(projections,)``.
      coefficients: of the random functions, ``(projections,)``; 0 if ``polynomials`` are used.
      polynomials: coefficients ``(17,)`` of the Chebyshev polynomials of ``2 u - 1``, from degree 0
        on, with u the rank of x in the sample over n; 0 if ``coefficients`` are used.
      functions: the option `functions` of `rdc_fit`.
    """

    sample: Array
    weights: Array
    mean: Array
    coefficients: Array
    polynomials: Array
    functions: Functions = dataclasses.field(metadata={"static": True})

    @takes_one_value
    def __call__(self, x: ArrayLike) -> Array:
        """Return values ``(n,)`` at ``x``, of as many columns as the fitted data.

        A scalar at one number.
        """
        check_single(self.sample.shape[:-2])
        rows, columns = self.sample.shape
        x = as_new_data(x, columns, self.sample.dtype)
        transform, size = self, None
        if not is_traced(self, x):
            sample = pad_rows(self.sample, padded_length(rows))
            transform, size = dataclasses.replace(self, sample=sample), np.int32(rows)
        return _evaluate_sinusoids(x, transform, size)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RDCFit(TransformedPair):
    """A fit of RDC: ``correlation``, transformations ``f`` and ``g``, and ``score``."""


@row_by_row(columns=1)
def _evaluate_sinusoids(x: Array, transform: RDCTransform, size: Array | None) -> Array:
    rows = transform.sample.shape[0] if size is None else size
    x = x.reshape(x.shape[0], -1)

    def share(sample: Array, column: Array) -> Array:
        """Return ranks in the first ``rows`` of the sample, over their number."""
        below = jnp.minimum(jnp.searchsorted(sample, column, side="left"), rows)
        up_to = jnp.minimum(jnp.searchsorted(sample, column, side="right"), rows)
        return (below + up_to + 1).astype(x.dtype) / jnp.asarray(2 * rows, x.dtype)

    shares = jax.vmap(share, in_axes=(1, 1), out_axes=1)(transform.sample, x)
    features = _random_functions(shares, transform.weights, transform.functions)
    values = matmul(features - transform.mean[None, :], transform.coefficients)
    polynomials = transform.polynomials
    values = values + polynomials[0] + matmul(_chebyshev(shares[:, 0]), polynomials[1:])
    return jnp.where(jnp.all(jnp.isfinite(x), axis=1), values, jnp.nan)


@over_rows(columns=2, static=("projections", "functions", "fit"))
def _rdc(
    a: Array,
    b: Array,
    keys: Array,
    options: tuple[Array, Array | None],
    *,
    projections: int,
    functions: Functions,
    fit: bool,
    count: Array | None,
) -> Any:
    """Return the median over the keys, or the fit of the first."""
    padded, number = _pad_like_outside_jit((a, b), count)
    shares = _shares(padded[0], number), _shares(padded[1], number)
    scale, regularization = options

    def draw(key: Array) -> tuple[_Arrays, CanonicalPair, _Sides]:
        weights = _weights(key, shares, scale, projections)
        return weights, *_best_pair(shares, weights, regularization, functions, number)

    if not fit:  # one after the other, to save memory
        return jnp.median(lax.map(lambda key: draw(key)[1].correlation, keys))
    weights, pair, sides = draw(keys[0])
    f, g = (
        _transform(x, w, side, direction, functions, count)
        for x, w, side, direction in zip((a, b), weights, sides, (pair.u, pair.v), strict=True)
    )
    return RDCFit(pair.correlation, f, g)


def _pad_like_outside_jit(
    columns: tuple[Array, Array], count: Array | None
) -> tuple[tuple[Array, Array], Array]:
    """Pad the columns under `jax.jit` too, and count the rows that are data.

    The rounding of the smallest directions, and so the value in float32, depends on the shape that
    LAPACK gets, and on whether XLA knows the count.
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
    side: _SideFunctions,
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


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _SideFunctions:
    """Functions in the span of a variable's random functions, which canonical correlation combines.

    Attributes:
      directions: ``(k, k)``, coordinates of the functions in an orthonormal basis.
      polynomials: ``(17, k)``, their coefficients in Chebyshev polynomials of ``2 u - 1``, or 0.
      loadings: ``(k, k)``, their coefficients in the random functions, or 0.
      mean: ``(k,)``, means of the random functions.
    """

    directions: Array
    polynomials: Array
    loadings: Array
    mean: Array


_Sides = tuple[_SideFunctions, _SideFunctions]
_Arrays = tuple[Array, Array]
"""One array of either variable."""


def _best_pair(
    shares: _Arrays,
    weights: _Arrays,
    regularization: Array | None,
    functions: Functions,
    count: Array | None,
) -> tuple[CanonicalPair, _Sides]:
    """Return the top canonical pair of both variables' random functions of ranks, and its sides."""

    def by_values() -> tuple[Array, _Sides]:
        features = [
            _random_functions(u, w, functions) for u, w in zip(shares, weights, strict=True)
        ]
        means = [row_mean(f, count) for f in features]
        for _ in range(2):  # the rounding of a mean would correlate both variables
            features = [fill_padding(f - row_mean(f, count)[None, :], count) for f in features]
        f, g = (jnp.where(jnp.any(u != u[:1]), f, 0) for u, f in zip(shares, features, strict=True))
        if regularization is None:
            return _independent_functions((f, g), means, count)
        return _principal_directions((f, g), means, regularization, count)

    def by_coefficients() -> tuple[Array, _Sides]:
        assert isinstance(functions, str)
        return _independent_sinusoids(shares, weights, functions, count)

    one_each = all(u.shape[1] == 1 for u in shares)
    if regularization is not None or callable(functions) or not one_each:
        cross, sides = by_values()
    else:
        cross, sides = lax.cond(_has_expansion(weights), by_coefficients, by_values)
    finite = jnp.all(jnp.isfinite(cross))
    pair = top_pair(jnp.where(finite, cross, 0), "svd")
    value = jnp.where(finite, jnp.minimum(pair.correlation, 1), jnp.nan)
    return dataclasses.replace(pair, correlation=value), sides


def _random_functions(shares: Array, weights: Array, functions: Functions) -> Array:
    """Return the random functions ``(n, k)`` of ranks."""
    arguments = matmul(shares, weights[:-1]) + weights[-1][None, :]
    if not callable(functions):
        return {"sin": jnp.sin, "cos": jnp.cos}[functions](arguments)
    values = jnp.asarray(functions(arguments), arguments.dtype)
    if values.shape != arguments.shape:
        raise ValueError(
            f"functions must return an array of the shape of its argument, {arguments.shape};"
            f" got shape {values.shape}."
        )
    return values


def _has_expansion(weights: _Arrays) -> Array:
    """Return whether the Chebyshev expansions of all sinusoids are exact to rounding."""
    return jnp.all(jnp.stack([jnp.max(jnp.abs(w[0])) for w in weights]) <= 2 * LARGEST_ARGUMENT)


def _independent_sinusoids(
    shares: _Arrays, weights: _Arrays, wave: str, count: Array | None
) -> tuple[Array, _Sides]:
    """Return cross moments ``(k, k)`` of independent sinusoids of both variables, and the sides."""
    functions = []
    for u in shares:
        values = _chebyshev(u[:, 0])
        mean = row_mean(values, count)
        # Rounding of the mean would make functions of a constant.
        centred = jnp.where(jnp.any(u != u[:1]), fill_padding(values - mean[None, :], count), 0)
        functions.append((centred / jnp.sqrt(row_count(count, u)), mean))
    (f, f_mean), (g, g_mean) = functions

    def side(second_moments: Array, mean: Array, w: Array) -> tuple[Array, _SideFunctions]:
        least = 100 * jnp.finfo(w.dtype).eps * jnp.max(jnp.diagonal(second_moments))
        triangle, transform = factorise(second_moments, least)
        of_random = matmul(triangle, _chebyshev_coefficients(w, wave))
        basis, in_use, _ = _independent_columns(of_random, DEPENDENT_NORM)
        polynomials = matmul(transform.T, basis)
        whole = jnp.concatenate([-matmul(mean[None, :], polynomials), polynomials])
        zeros = jnp.zeros((w.shape[1], w.shape[1]), w.dtype)
        return polynomials, _SideFunctions(jnp.diag(in_use), whole, zeros, jnp.zeros_like(w[0]))

    moments = jnp.stack([matmul(x.T, x) for x in (f, g)])
    # Both at once, which halves the program.
    mapped = jax.vmap(side)(moments, jnp.stack([f_mean, g_mean]), jnp.stack(weights))
    (left, first), (right, second) = (jax.tree.map(lambda x, i=i: x[i], mapped) for i in (0, 1))
    return matmul(matmul(left.T, matmul(f.T, g)), right), (first, second)


def _independent_functions(
    features: _Arrays, means: Sequence[Array], count: Array | None
) -> tuple[Array, _Sides]:
    """Do what `_independent_sinusoids` does by centred values ``(n, k)`` of any functions."""
    parts = jnp.stack(_triangles(*features))
    k, dtype = parts.shape[2], parts.dtype
    tolerance = max(DEPENDENT_NORM, 1000 * float(jnp.finfo(dtype).eps))
    bases, in_use, loadings = jax.vmap(lambda part: _independent_columns(part, tolerance))(parts)
    loadings = loadings * jnp.sqrt(row_count(count, features[0]))
    zeros = jnp.zeros((DEGREES + 1, k), dtype)
    first, second = (
        _SideFunctions(jnp.diag(in_use[i]), zeros, loadings[i], mean)
        for i, mean in enumerate(means)
    )
    return matmul(bases[0].T, bases[1]), (first, second)


def _principal_directions(
    features: _Arrays, means: Sequence[Array], regularization: Array, count: Array | None
) -> tuple[Array, _Sides]:
    """Return cross moments of shrunk principal directions (not by a Gram matrix), and sides."""
    sides = []
    for part, mean in zip(_triangles(*features), means, strict=True):
        left, size, right = jnp.linalg.svd(part, full_matrices=False)
        ridged = size[0] * jnp.sqrt(safe_divide(size, size[0]) ** 2 + regularization)
        inverse = safe_divide(1, ridged)
        directions = left * (size * inverse)[None, :]
        loadings = right.T * inverse[None, :] * row_count(count, features[0]) ** 0.5
        zeros = jnp.zeros((DEGREES + 1, size.shape[0]), size.dtype)
        sides.append(_SideFunctions(directions, zeros, loadings, mean))
    return matmul(sides[0].directions.T, sides[1].directions), (sides[0], sides[1])


def _triangles(f: Array, g: Array) -> _Arrays:
    """Return coordinates of ``f`` and ``g (n, k)`` in a common orthonormal basis."""
    triangle = jnp.linalg.qr(jnp.concatenate([f, g], axis=1), mode="r")
    first, second = jnp.split(triangle, 2, axis=1)
    return first, second


def _chebyshev(u: Array) -> Array:
    """Return Chebyshev polynomials of degrees 1 to 16 of ``2 u - 1``, ``(n, 16)``."""
    t = 2 * u - 1
    values = [jnp.ones_like(t), t]
    while len(values) <= DEGREES:
        values.append(2 * t * values[-1] - values[-2])
    return jnp.stack(values[1:], axis=1)


def _chebyshev_coefficients(weights: Array, wave: str) -> Array:
    """Return coefficients ``(16, k)`` of ``wave(w u + c)`` in Chebyshev polynomials of ``2 u - 1``.

    Those of ``sin(phi + v t)`` are ``2 J_j(v) sin(phi + j pi / 2)``, with Bessel functions J.
    """
    v = jnp.clip(weights[0] / 2, -LARGEST_ARGUMENT, LARGEST_ARGUMENT)
    phase = weights[1] + weights[0] / 2
    quarters = jnp.stack([jnp.sin(phase), jnp.cos(phase), -jnp.sin(phase), -jnp.cos(phase)])
    degrees = range(1, DEGREES + 1)
    series = jnp.zeros((DEGREES, v.shape[0]), v.dtype)
    for m in reversed(range(TERMS)):
        term = [1 / (math.factorial(m) * math.factorial(m + j)) for j in degrees]
        series = series * -((v[None, :] / 2) ** 2) + np.array(term, v.dtype)[:, None]
    powers = jnp.cumprod(jnp.broadcast_to(v[None, :] / 2, series.shape), axis=0)
    shift = WAVES.index(wave)
    return 2 * powers * series * quarters[np.array([(j + shift) % 4 for j in degrees])]


def _independent_columns(g: Array, tolerance: float) -> tuple[Array, Array, Array]:
    """Return orthonormal columns ``(m, k)`` that span those of ``g``, by Householder reflections.

    A column whose residual is less than ``tolerance`` of its norm is skipped, as by R's ``dqrdc2``.
    Small rows of ``g`` keep their digits.

    Returns:
      The columns, 0 from the rank on; 1 for columns before the rank, ``(k,)``; and ``loadings (k,
      k)``: the columns are ``g @ loadings``.
    """
    m, k = g.shape
    scale = jnp.max(jnp.abs(g), axis=0)
    g = safe_divide(g, scale[None, :])
    norms = jnp.sqrt(jnp.sum(g**2, axis=0))
    index, places = lax.iota(jnp.int32, m), lax.iota(jnp.int32, k)
    width = max(m, k)

    def step(j: Array, state: Any) -> Any:
        g, q, loadings, rank = state
        column = g[:, j]
        residual = jnp.where(index >= rank, column, 0)
        norm = jnp.sqrt(jnp.sum(residual**2))
        usable = (norm > tolerance * norms[j]) & (rank < m)
        pivot = jnp.sum(jnp.where(index == rank, residual, 0))
        diagonal = jnp.where(pivot < 0, norm, -norm)
        v = jnp.where(usable, residual - jnp.where(index == rank, diagonal, 0), 0)
        v = safe_divide(v, jnp.sqrt(jnp.sum(v**2)))
        before = jnp.pad(jnp.where(index < rank, column, 0), (0, width - m))
        new_row = (places == j).astype(g.dtype) - matmul(loadings, before)
        new_row = jnp.where(usable, safe_divide(new_row, diagonal), 0)
        here = (lax.iota(jnp.int32, width) == rank).astype(g.dtype)
        return (
            g - 2 * v[:, None] * matmul(v, g)[None, :],
            q - 2 * matmul(q, v)[:, None] * v[None, :],
            loadings + new_row[:, None] * here[None, :],
            rank + usable.astype(rank.dtype),
        )

    start = (g, jnp.eye(m, dtype=g.dtype), jnp.zeros((k, width), g.dtype), jnp.int32(0))
    _, q, loadings, rank = lax.fori_loop(0, k, step, start)
    in_use = (places < rank).astype(g.dtype)
    basis = jnp.pad(q, [(0, 0), (0, max(k - m, 0))])[:, :k] * in_use[None, :]
    return basis, in_use, safe_divide(loadings[:, :k], scale[:, None])
