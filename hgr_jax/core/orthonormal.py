"""Bases that are orthonormal on the data: coordinates for copula transformations.

* `PolynomialBasis`: polynomials of one variable, held as a recurrence, as in Gautschi,
  "Orthogonal Polynomials: Computation and Approximation" (2004); fitted by `fit_polynomials`.
* `FeatureBasis`: a linear map of a kernel's features; fitted by `fit_features`.

Both are near-orthonormal on the data they were fitted to, and constants under differentiation: they
are a choice of coordinates, on which no result depends.

Polynomials are fitted by the discrete Stieltjes procedure, in one pass over long data instead of
one per degree:

1. *Sketch*: `orthonormal_polynomials` on a few hundred points (a strided sample and the extremes
   of strided groups, so that far outliers are among them).
2. *Measure*: one pass over the data gives the Gram matrix of these polynomials.  If it is well
   conditioned, its Cholesky factor makes them orthonormal exactly.
3. *Repair*: else (far outliers, a sketch that missed rare values) a correction to its recurrence
   orthogonalises the first bad polynomial, and another pass measures the Gram matrix: one
   polynomial a pass, because the rounding errors of later polynomials depend on it.

Short data need only the first step, on all rows, and the Cholesky factor.  All
variables are stacked throughout, so that each step is compiled once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from hgr_jax.core.linalg import inverse_cholesky, matmul
from hgr_jax.core.numerics import (
    any_in_batch,
    equal_weights,
    extremes,
    largest_power,
    on_shards_of,
    reciprocal_power,
    safe_divide,
    safe_rsqrt,
)
from hgr_jax.core.rows import WHOLE_ROWS, inner_products, mean_product


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PolynomialBasis:
    """Polynomials ``p_1 .. p_d`` of one variable, near-orthonormal on the data they were fitted to.

    With ``x = a * scale - center``, ``p_0 = 1`` and

        p_{j+1} = step_j * (((x - diagonal_j) p_j - coupling_j p_{j-1}) - sum_i correction_ij p_i)

    The first bracket is the three-term recurrence of orthogonal polynomials.  On data with far
    outliers it alone loses orthogonality (it must cancel at an outlier to more digits than a
    float has); the correction is the second Gram-Schmidt pass that restores it.  A direction that
    the data does not support (fewer distinct values than degrees) is dead: its step is 0, and it
    and all later ones are 0.

    Several variables may be stacked: every leaf has their axis first, and points are
    ``(variables, n)``.

    Attributes:
      frame: ``(..., 2)``, scale and center.
      recurrence: ``(..., 3 + d, d)``; column j is ``diagonal_j``, ``coupling_j``, ``step_j`` (0 in
        a dead direction) and ``correction_0j .. correction_(d-1)j``.  One array, as each part
        would leave and enter programs by a small program of its own.
    """

    frame: Array
    recurrence: Array

    @property
    def degree(self) -> int:
        """The number of directions, dead ones included."""
        return self.recurrence.shape[-1]

    @property
    def step(self) -> Array:
        """The factors ``(..., d)`` that normalise."""
        return self.recurrence[..., 2, :]

    @property
    def correction(self) -> Array:
        """The second pass ``(..., d, d)``."""
        return self.recurrence[..., 3:, :]

    @property
    def in_span(self) -> Array:
        """Which directions ``(..., d)`` the data supports."""
        return self.step != 0

    def select(self, v: int, degree: int | None) -> PolynomialBasis:
        """Return one variable's polynomials, up to a degree (None: all)."""
        size = None if degree is None else 3 + degree
        return PolynomialBasis(self.frame[v], self.recurrence[v, :size, :degree])

    def polynomials(
        self, a: Array, ones: Array | None = None, *, corrected: bool = True
    ) -> list[Array]:
        """Return ``[p_0, ..., p_d]`` at the points ``a (..., n)``, each of the shape of ``a``.

        ``ones`` replaces p_0, and a 0 in it makes all polynomials 0.  ``corrected`` may be False
        where all corrections are 0.
        """
        scale, center = _split(self.frame)
        x = a * scale - center
        p = [jnp.ones_like(x) if ones is None else jnp.broadcast_to(ones, x.shape)]
        if not corrected:
            # The step is multiplied into the few coefficients, which saves long data a product.
            shift, back = (_split(self.recurrence[..., i, :] * self.step) for i in (0, 1))
            step = _split(self.step)
            for j in range(self.degree):
                v = (x * step[j] - shift[j]) * p[j]
                p.append(v - back[j] * p[j - 1] if j else v)
            return p
        entries = _split(self.recurrence.reshape(*self.recurrence.shape[:-2], -1))
        for j in range(self.degree):
            shift_j, back_j, step_j, *corrections = entries[j :: self.degree]
            v = (x - shift_j) * p[j]
            if j:
                v = v - back_j * p[j - 1]
            for p_i, c in zip(p, corrections, strict=False):
                v = v - c * p_i
            p.append(step_j * v)
        return p

    def functions(self, a: Array) -> Array:
        """Return 1 and the basis at the points ``a (..., n)``, as ``(1 + d, ..., n)``."""
        return jnp.stack(self.polynomials(a))

    def combine(self, coefficients: Array, a: Array) -> Array:
        """Return ``sum_j c_j p_j(a)``, elementwise, for ``coefficients (..., 1 + d)``."""
        terms = map(jnp.multiply, _split(coefficients), self.polynomials(a))
        return functools.reduce(jnp.add, terms)

    def slope(self, coefficients: Array, a: Array, values: Array) -> Array:
        """Return the derivative ``(n,)`` of one variable's `combine` at points ``a (n,)``.

        ``values (1 + d, n)`` are the polynomials there.  The result is linear in them, so that they
        may be multiplied by a factor of each point.
        """
        scale, center = self.frame
        x = a * scale - center
        total, slopes = jnp.zeros_like(x), list[Array]()
        for j in range(self.degree):
            shift, back, step, *corrections = _split(self.recurrence[:, j])
            v = scale * values[j]
            if j:
                v = v + (x - shift) * slopes[-1]
            if j > 1:
                v = v - back * slopes[-2]
            for slope, c in zip(slopes, corrections[1:], strict=False):
                v = v - c * slope
            slopes.append(step * v)
            total = total + coefficients[j + 1] * slopes[-1]
        return total

    def monomials(self) -> Array:
        """Return ``(d + 1, d + 1)``: column j expands ``p_j`` on ``1, a, ...``."""
        d = self.degree
        scale, center = self.frame
        diagonal, coupling, step = self.recurrence[:3]
        expansion = self.correction + jnp.diag(diagonal) + jnp.diag(coupling[1:], 1)

        def next_column(j: Array, columns: Array) -> Array:
            last = columns[:, j]
            times_x = scale * jnp.roll(last, 1) - center * last
            earlier = jnp.sum(expansion[:, j][None, :] * columns[:, :d], axis=1)
            # A step of 0 is not enough: in small units the powers of data overflow.
            column = jnp.where(step[j] == 0, 0, step[j] * (times_x - earlier))
            return columns.at[:, j + 1].set(column)

        columns = jnp.zeros((d + 1, d + 1), step.dtype).at[0, 0].set(1)
        return lax.fori_loop(0, d, next_column, columns)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FeatureBasis:
    """The combinations ``(features - mean) @ transform``; columns of dead directions are zero."""

    mean: Array
    transform: Array
    in_span: Array

    def functions(self, features: Array) -> Array:
        """Return 1 and the basis at ``features (n, m)``, as ``(1 + m, n)``."""
        rows = matmul(self.transform.T, (features - self.mean[None, :]).T)
        return jnp.concatenate([jnp.ones_like(rows, shape=(1, rows.shape[1])), rows])

    def combine(self, coefficients: Array, features: Array) -> Array:
        """Return the combination of 1 and the basis with ``coefficients (1 + m,)``, ``(n,)``."""
        weights = matmul(self.transform, coefficients[1:])
        return matmul(features - self.mean[None, :], weights) + coefficients[0]


def _split(x: Any) -> Any:
    """Return the entries ``(..., 1)`` of ``x (..., m)``."""
    return lax.split(x, [1] * x.shape[-1], axis=x.ndim - 1)  # one primitive, traced once


Basis = PolynomialBasis | FeatureBasis

WHOLE_SKETCH = 2048
"""Largest number of rows of short data, which are all in the sketch."""

MIN_REMAINDER = 0.5
"""Smallest residual of a polynomial given the lower ones, as a share of its norm, if a basis is
well conditioned."""

MAX_NORM = 16.0
"""Largest norm of a polynomial of a well-conditioned basis, and inverse of the smallest."""

CLEAR_NORM = 1.25
"""Ratio to the rounding noise from which the norm of a direction is surely not noise."""


class FittedPolynomials(NamedTuple):
    """Bases of all variables, stacked and padded to the largest degree.

    Attributes:
      basis: directions beyond a variable's degree are dead.
      gram: mean products ``(m, m)`` of ``[1, p_1 .. p_top]`` of all variables, one after the other.
      whitener: block diagonal ``(m, m)``, makes the polynomials of each variable orthonormal.  Rows
        of dead directions are those of the identity (short data) or 0 (long data).
      well_conditioned: whether all bases are, and have as many directions as the distinct values
        support (an outlier beyond the dtype's resolution hides the other values).
      finite: whether data and weights are finite.
      values: for short data, the polynomials at all rows times the roots of the rows' weights,
        ``(v, 1 + top, n)``; None for long data.
    """

    basis: PolynomialBasis
    gram: Array
    whitener: Array
    well_conditioned: Array
    finite: Array
    values: Array | None


_Fitted = tuple[PolynomialBasis, Array, Array, Array]
"""Basis, gram, whitener and well_conditioned of `FittedPolynomials`."""


def fit_polynomials(
    columns: Sequence[Array],
    degrees: Sequence[int],
    weights: Array | None,
    count: Array | None = None,
) -> FittedPolynomials:
    """Fit polynomials up to ``degrees[v]`` to each ``columns[v] (n,)``; weights have sum 1."""
    short = columns[0].shape[0] <= WHOLE_SKETCH
    frame, points, shares, distinct = sketch_columns(columns, weights, count)
    basis, values = orthonormal_polynomials(max(degrees), frame, points, shares, twice=short)
    if short:
        fitted = _finish_short(basis, values, degrees)
    else:
        # Corrections would cost every row of long data; where the Gram matrix is well conditioned,
        # its Cholesky factor orthogonalises exactly.
        fitted = _finish_long(basis, columns, degrees, weights, count)
    basis, gram, whitener, good = fitted
    supported = jnp.minimum(distinct - 1, np.asarray(degrees, np.int32))
    good &= jnp.all(jnp.sum(basis.in_span, axis=1, dtype=jnp.int32) >= supported)
    good &= jnp.all(_clear_of_rounding(basis))
    finite = jnp.isfinite(jnp.sum(frame) + jnp.sum(shares))
    return FittedPolynomials(basis, gram, whitener, good, finite, values if short else None)


def fit_features(features: Array, weights: Array | None) -> tuple[FeatureBasis, Array]:
    """Fit an orthonormal basis of the centred columns of ``features (n, m)``, and judge it.

    By Gram-Schmidt, twice for every column.  A column whose residual given the earlier ones is at
    most ``eps ** (2/3)`` of its norm is a dead direction; a basis is well conditioned if these
    residuals are rounding.
    """
    n, m = features.shape
    w = jnp.full(n, 1 / n, features.dtype) if weights is None else weights
    mean = jnp.sum(w[:, None] * features, axis=0)
    centred = features - mean[None, :]
    reach = jnp.max(jnp.abs(centred), axis=0)
    magnitude = jnp.max(jnp.abs(features), axis=0)
    tolerance = float(jnp.finfo(features.dtype).eps) ** (2 / 3)
    reach = jnp.where(reach > float(jnp.finfo(features.dtype).eps) * 8 * magnitude, reach, 0)
    unit = safe_divide(1.0, reach)
    columns = (centred * unit[None, :]).T

    def orthogonalise(j: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        basis, transform, in_span, well_conditioned = state
        start = jnp.sqrt(jnp.sum(w * columns[j] ** 2))

        def project(_: Array, pair: tuple[Array, Array]) -> tuple[Array, Array]:
            v, combination = pair
            c = matmul(basis, w * v)
            return v - matmul(c, basis), combination - matmul(transform, c)

        combination = (jnp.arange(m) == j).astype(features.dtype)
        combination = on_shards_of(columns, combination)
        v, combination = lax.fori_loop(0, 2, project, (columns[j], combination))
        norm = jnp.sqrt(jnp.sum(w * v * v))
        alive = norm > tolerance * start
        inverse = jnp.where(alive, safe_divide(1.0, norm), 0)
        return (
            basis.at[j].set(v * inverse),
            transform.at[:, j].set(combination * inverse),
            in_span.at[j].set(alive),
            well_conditioned & (alive | (norm <= 2 * rounding_noise(v.dtype) * start)),
        )

    basis, transform = jnp.zeros((m, n), columns.dtype), jnp.zeros((m, m), columns.dtype)
    empty = (basis, transform, jnp.zeros(m, bool), jnp.array(True))
    empty = on_shards_of(columns, empty)
    _, transform, in_span, well_conditioned = lax.fori_loop(0, m, orthogonalise, empty)
    return FeatureBasis(
        mean=mean, transform=unit[:, None] * transform, in_span=in_span
    ), well_conditioned


SKETCH_ROWS = 256
SKETCH_GROUPS = 128


def sketch_columns(
    columns: Sequence[Array], weights: Array | None, count: Array | None
) -> tuple[Array, Array, Array, Array]:
    """Sketch columns: frames ``(v, 2)``, framed points ``(v, m)``, weights, distinct values."""
    middle = _median_of_medians(columns, count)
    if columns[0].shape[0] <= WHOLE_ROWS:
        frame, points, shares = _sketch(jnp.stack(columns), middle, weights, count)
    else:  # long columns are not copied to one stack
        parts = [
            _sketch(column[None], middle[v : v + 1], weights, count)
            for v, column in enumerate(columns)
        ]
        frame, points = (jnp.concatenate(x) for x in zip(*(p[:2] for p in parts), strict=True))
        shares = parts[0][2]
    return frame, points, shares, _distinct_values(columns, weights, count)


def _sketch(
    x: Array, middle: Array, weights: Array | None, count: Array | None
) -> tuple[Array, Array, Array]:
    """Return frames, framed points and their weights, of ``x (v, n)``."""
    n = x.shape[1]
    if n <= WHOLE_SKETCH:
        points = x
        w = equal_weights(count, x.T) if weights is None else weights
    else:
        # A strided sample has the bulk of the data.  Far outliers that it misses would make the
        # polynomials huge elsewhere; so the extremes of groups of rows are points too.
        rows = n if count is None else count
        chosen = (rows // SKETCH_ROWS) * lax.iota(jnp.int32, SKETCH_ROWS)
        grouped = n // SKETCH_GROUPS * SKETCH_GROUPS
        groups = x[:, :grouped].reshape(len(x), -1, SKETCH_GROUPS)
        outermost = groups.min(axis=1), groups.max(axis=1)
        points = jnp.concatenate([x[:, chosen], *outermost, x[:, grouped:]], axis=1)
        if weights is None:
            sampled = jnp.full(SKETCH_ROWS, 1 / SKETCH_ROWS, x.dtype)
        else:
            sampled = safe_divide(weights[chosen], jnp.sum(weights[chosen]))
        # An extreme point has the weight of one row, a sampled point that of the rows around it.
        others = points.shape[1] - SKETCH_ROWS
        w = jnp.concatenate([sampled, np.full(others, 1 / n, x.dtype)]) / (1 + others / n)
    frame = _frames(points, middle)
    return frame, points * frame[:, :1] - frame[:, 1:], w


def _frames(points: Array, middle: Array) -> Array:
    """Return scales and centers that bring ``points (v, m)`` into [-1, 1], NaN for NaN."""
    # A scale is a power of two, so that multiplying before the center is subtracted loses no digit.
    # (In the other order the largest and smallest numbers of the dtype would not survive.)  The
    # center is in the bulk: even beside a far outlier the other rows keep their digits.
    low, high = (end[:, 0] for end in extremes(points, axis=1))
    unit = reciprocal_power(jnp.maximum(jnp.abs(low), jnp.abs(high)))
    low, middle, high = low * unit, middle * unit, high * unit
    reach = jnp.maximum(high - middle, middle - low)
    largest = largest_power(reach.dtype)
    scale = jnp.clip(unit * reciprocal_power(reach), 1 / largest, largest)
    scale = jnp.where(reach == 0, 0, scale)
    center = jnp.where(jnp.isfinite(reach), middle * (scale / unit), jnp.nan)
    return jnp.stack([scale, center], axis=1)


def _median_of_medians(columns: Sequence[Array], count: Array | None) -> Array:
    """Return a value ``(v,)`` in the bulk of each column: the median of medians of 3 x 3 rows."""
    n = columns[0].shape[0]
    rows = n if count is None else count
    chosen = rows // 9 * np.arange(9, dtype=np.int32) + rows // 18
    x = jnp.stack([column[chosen] for column in columns]).reshape(-1, 3, 3)
    for _ in range(2):
        one, two, three = x[:, 0], x[:, 1], x[:, 2]
        x = jnp.maximum(jnp.minimum(one, two), jnp.minimum(jnp.maximum(one, two), three))
    return x


def _distinct_values(columns: Sequence[Array], weights: Array | None, count: Array | None) -> Array:
    """Count the distinct values ``(v,)`` of a sample of the rows of positive weight."""
    n = columns[0].shape[0]
    size = min(n, 2 * SKETCH_ROWS)
    rows = n if count is None else count
    chosen = jnp.maximum(1, rows // SKETCH_ROWS) * lax.iota(jnp.int32, size)
    counts = chosen < rows
    chosen = jnp.minimum(chosen, n - 1)
    if weights is not None:
        counts &= weights[chosen] > 0
    sample = jnp.where(counts, jnp.stack([x[chosen] for x in columns]), jnp.nan)
    sample = lax.sort(sample, dimension=1)  # NaN last
    return 1 + jnp.sum(sample[:, 1:] > sample[:, :-1], axis=1, dtype=jnp.int32)


def orthonormal_polynomials(
    degree: int, frame: Array, points: Array, weights: Array, *, twice: bool
) -> tuple[PolynomialBasis, Array]:
    """Return orthonormal polynomials on weighted points, and their values times the weights' roots.

    ``frame (v, 2)`` brought the data to ``points (v, m)``; with ``twice``, static, a correction
    orthogonalises each polynomial against all lower ones.
    """
    dtype, variables = points.dtype, len(points)
    noise = rounding_noise(dtype) ** 2

    def add_polynomial(j: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        values, recurrence, expected = state
        shift, back = expected[:, :1], expected[:, 1:]
        current, previous = (
            lax.dynamic_index_in_dim(values, i, axis=1, keepdims=False)
            for i in (j, jnp.maximum(j - 1, 0))
        )
        v = (points - shift) * current - back * previous
        c = matmul(values, v[:, :, None]) if twice else jnp.zeros((variables, degree + 1, 1), dtype)
        if twice:
            v = v - matmul(jnp.swapaxes(c, 1, 2), values)[:, 0]
        moments = matmul(jnp.stack([v, points * v], axis=1), v[:, :, None])
        squared, first = jnp.split(moments[:, :, 0], 2, axis=1)
        projected = jnp.sum(c * c, axis=1) + shift * shift + back * back
        alive = squared > noise * (projected + squared)
        step = jnp.where(alive, lax.rsqrt(jnp.where(alive, squared, 1)), 0)
        values = lax.dynamic_update_index_in_dim(values, v * step, j + 1, 1)
        # A direction that a sketch lacks may yet be one of the data.
        factor = step if twice else jnp.where(alive, step, 1)
        column = jnp.concatenate([expected, factor, c[:, :-1, 0]], axis=1)
        recurrence = lax.dynamic_update_index_in_dim(recurrence, column, j, 2)
        expected = jnp.concatenate([first * step * step, squared * step], axis=1)
        return values, recurrence, expected

    values = jnp.zeros((variables, degree + 1, points.shape[1]), dtype)
    values = values.at[:, 0].set(jnp.sqrt(weights)[None, :])
    # XLA would compile a program to fill an array with a single number: so the recurrence, which
    # is overwritten, starts from several numbers, and one of the zeros has a sign.
    empty = np.arange(variables * (3 + degree) * degree, dtype=dtype)
    recurrence = jnp.asarray(empty.reshape(variables, 3 + degree, degree))
    expected = jnp.asarray(np.array([[0.0, -0.0]] * variables, dtype))
    if not twice:  # with a correction, that subtracts the mean
        mean = matmul(points, weights[:, None])
        expected = jnp.concatenate([mean, expected[:, 1:]], axis=1)
    start = values, recurrence, expected
    start = on_shards_of(points, start)
    values, recurrence, _ = lax.fori_loop(0, degree, add_polynomial, start)
    return PolynomialBasis(frame, recurrence), values


def rounding_noise(dtype: jnp.dtype) -> float:
    """Return the relative norm below which a direction is rounding noise."""
    return 32 * float(jnp.finfo(dtype).eps)


def _finish_short(basis: PolynomialBasis, values: Array, degrees: Sequence[int]) -> _Fitted:
    """Finish the fit of short data from ``values``, polynomials times the weights' roots."""
    within = _within_degrees(degrees)
    functions = np.pad(within, ((0, 0), (1, 0)), constant_values=True).reshape(-1)
    same = same_variable([1 + basis.degree] * len(degrees))
    gram = inner_products(values.reshape(-1, values.shape[2]))
    gram = jnp.where(functions[:, None] & functions[None, :], gram, 0)
    used = functions & _independent(gram, same)
    gram = jnp.where(used[:, None] & used[None, :], gram, 0)
    whitener = whitening(gram, same)
    # Its diagonal is the inverse of each residual norm.
    good = jnp.all(jnp.diagonal(whitener) < 1 / MIN_REMAINDER) & jnp.all(used == functions)
    in_span = used.reshape(len(degrees), -1)[:, 1:]
    return _kill_directions(basis, in_span), gram, whitener, good


def _independent(gram: Array, same: np.ndarray, most: float = 0.25) -> Array:
    """Return which functions have a sum of squared products with earlier ones below ``most``."""
    overlap = jnp.sum(jnp.where(np.tril(same, -1), gram * gram, 0), axis=1)
    return jnp.sum(jnp.where(np.tril(same), overlap[None, :], 0), axis=1) < most


def _clear_of_rounding(basis: PolynomialBasis) -> Array:
    """Return which directions ``(v, d)`` are dead, or clearly more than rounding."""
    step, noise = basis.step, rounding_noise(basis.step.dtype)
    clear = (CLEAR_NORM * noise) ** 2 * (1 + _squared_projections(basis) * step**2) < 1
    return clear & (noise * step < 1)


def _squared_projections(basis: PolynomialBasis) -> Array:
    """Return the squared norm ``(v, d)`` of the projection of ``x p_j`` on earlier polynomials."""
    # Column j of the recurrence, but for the step, expands x p_j on p_0 .. p_j.
    others = np.arange(basis.recurrence.shape[1]) != 2
    return jnp.sum(jnp.where(others[None, :, None], basis.recurrence**2, 0), axis=1)


def _within_degrees(degrees: Sequence[int]) -> np.ndarray:
    """Return which directions ``(v, top)`` are within each variable's degree."""
    return np.arange(max(degrees))[None, :] < np.asarray(degrees)[:, None]


def _kill_directions(basis: PolynomialBasis, in_span: Array | np.ndarray) -> PolynomialBasis:
    """Make the directions outside ``in_span (v, top)`` of a basis dead."""
    steps = np.arange(basis.recurrence.shape[1]) == 2
    dead = steps[None, :, None] & ~in_span[:, None, :]
    return PolynomialBasis(basis.frame, jnp.where(dead, 0, basis.recurrence))


def same_variable(sizes: Sequence[int]) -> np.ndarray:
    """Return which pairs of functions ``(m, m)`` share a variable, from the sizes of variables."""
    variable = np.repeat(np.arange(len(sizes)), sizes)
    return variable[:, None] == variable[None, :]


def whitening(gram: Array, same: np.ndarray) -> Array:
    """Return ``W (m, m)`` that orthonormalises the functions of each variable, 1 for zeros."""
    zero = np.eye(len(same), dtype=bool) & (gram == 0)
    return inverse_cholesky(jnp.where(zero, 1, jnp.where(same, gram, 0)))


class _State(NamedTuple):
    """Bases of all variables after some passes over the data."""

    passes: Array
    basis: PolynomialBasis
    gram: Array
    whitener: Array
    done: Array


def _finish_long(
    sketched: PolynomialBasis,
    columns: Sequence[Array],
    degrees: Sequence[int],
    weights: Array | None,
    count: Array | None,
) -> _Fitted:
    """Finish the fit of long data, from polynomials that are orthonormal on a sketch."""
    top = max(degrees)

    def measure(basis: PolynomialBasis, *, corrected: bool) -> Array:
        return mean_product(
            functools.partial(_polynomial_rows, basis, corrected), columns, weights, count
        )

    def assess(passes: Array, basis: PolynomialBasis, gram: Array) -> _State:
        return _State(passes, basis, gram, *_assess(basis, gram, degrees))

    def repair(state: _State) -> _State:
        repaired = _repair_degree(state.basis, state.gram, state.whitener, (state.passes + 1) // 2)
        new = assess(state.passes + 1, repaired, measure(repaired, corrected=True))
        # In a batch, bases that are done wait for the others.
        waiting = jax.tree.map(lambda x, y: jnp.where(state.done, x, y), state, new)
        return waiting._replace(passes=new.passes)

    def unfinished(state: _State) -> Array:
        return (state.passes <= 2 * top) & any_in_batch(~state.done)

    first = measure(sketched, corrected=False)
    state = on_shards_of(first, assess(jnp.ones((), jnp.int32), sketched, first))
    # A loop of no iterations costs XLA's CPU backend far more than a branch not taken.
    state = lax.cond(
        any_in_batch(~state.done),
        lambda state: lax.while_loop(unfinished, repair, state),
        lambda state: state,
        state,
    )
    # Polynomials that could not be repaired are dropped.
    same = same_variable([top + 1] * len(degrees))
    failed = ~jnp.isfinite(jnp.sum(state.whitener) + jnp.sum(state.gram))
    unit = safe_rsqrt(jnp.diagonal(state.gram))
    independent = _independent(state.gram * unit[:, None] * unit[None, :], same, most=1e-4)
    alone = jnp.where(independent, unit, 0)
    alone = jnp.where(np.eye(len(same), dtype=bool), alone, 0)
    whitener = jnp.where(failed, alone, state.whitener)
    used = jnp.diagonal(whitener) != 0
    gram = jnp.where(used[:, None] & used[None, :], state.gram, 0)
    in_span = used.reshape(-1, top + 1)[:, 1:]
    return _kill_directions(state.basis, in_span), gram, whitener, state.done & ~failed


def gram_matrix(basis: PolynomialBasis, columns: Sequence[Array], weights: Array | None) -> Array:
    """Return `FittedPolynomials.gram` of a basis, differentiable in data and weights."""
    return mean_product(functools.partial(_polynomial_rows, basis, True), columns, weights)


def _polynomial_rows(
    basis: PolynomialBasis, corrected: bool, inside: Array | None, *parts: Array
) -> Array:
    """Return all polynomials at a block of rows, one variable after the other."""
    values = basis.polynomials(jnp.stack(parts), inside, corrected=corrected)
    return jnp.stack(values, axis=1).reshape(-1, parts[0].shape[0])


def _assess(basis: PolynomialBasis, gram: Array, degrees: Sequence[int]) -> tuple[Array, Array]:
    """Return the whitener of each variable's polynomials, and whether all are well conditioned.

    A direction is dead, with a row of 0 in the whitener, when the residual of ``x p_j`` after
    projection on ``p_0 .. p_j`` is rounding noise, or when an earlier direction is dead.
    """
    top, variables = basis.degree, len(degrees)
    square = jnp.diagonal(gram)
    residual = square.reshape(variables, top + 1)[:, 1:] / basis.step**2
    in_span = ~(
        residual <= rounding_noise(gram.dtype) ** 2 * (_squared_projections(basis) + residual)
    )
    in_span &= _within_degrees(degrees)
    alive = [np.ones(variables, bool)]
    for j in range(top):
        alive.append(alive[-1] & in_span[:, j])
    used = jnp.stack(alive, axis=1).reshape(-1)
    of_used = jnp.where(used[:, None] & used[None, :], gram, 0)
    whitener = jnp.where(
        used[:, None], whitening(of_used, same_variable([top + 1] * len(degrees))), 0
    )
    norm = jnp.sqrt(square)
    orthogonal = jnp.diagonal(whitener) * norm < 1 / MIN_REMAINDER
    good = orthogonal & (norm < MAX_NORM) & (norm > 1 / MAX_NORM) | ~used
    return whitener, jnp.all(good)


def _repair_degree(
    basis: PolynomialBasis, gram: Array, whitener: Array, target: Array
) -> PolynomialBasis:
    """Orthonormalise the polynomials of one degree against lower ones, which are orthonormal."""
    size, variables = basis.degree, len(basis.frame)
    products = gram.reshape((variables, size + 1) * 2)
    column = lax.dynamic_index_in_dim(products, target, axis=3, keepdims=False)
    column = jnp.sum(column * np.eye(variables, dtype=gram.dtype)[:, None], axis=2)
    places = np.arange(size + 1, dtype=np.int32)
    # Lower polynomials are orthonormal, so that their products with this one are its projection on
    # them, and the squared norm of the residual is its square less theirs.
    projection = jnp.where(places[None, :] < target, column, 0)
    square = jnp.where(places[None, :] == target, column, -projection * projection)
    norm = jnp.sqrt(jnp.maximum(jnp.sum(square, axis=1, keepdims=True), 1e-6))
    alive = (jnp.diagonal(whitener) != 0).reshape(variables, size + 1)
    # Dead directions stay: normalised rounding would grow from one degree to the next.
    now = (places[None, 1:] == target) & alive[:, 1:]
    # The recurrence multiplies by the step after the correction.
    correction = projection[:, :-1, None] / basis.step[:, None, :]
    step = jnp.where(now, basis.step / norm, basis.step)
    correction = basis.correction + jnp.where(now[:, None, :], correction, 0)
    parts = basis.recurrence[:, :2], step[:, None, :], correction
    return PolynomialBasis(basis.frame, jnp.concatenate(parts, axis=1))
