"""Bases: coordinates of the spaces in which copula transformations live.

* `PolynomialBasis`: polynomials of one variable, held as a recurrence, as in Gautschi,
  "Orthogonal Polynomials: Computation and Approximation" (2004).
* `FeatureBasis`: a linear map of given features.

Both are near-orthonormal on the data they were fitted to (`fitting`), and both are constants under
differentiation: they are a choice of coordinates, on which no result depends.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import Array, lax

from hgr_jax.core.small_matrices import matmul


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PolynomialBasis:
    """Polynomials ``p_1 .. p_d`` of one variable, near-orthonormal on the data they were fitted to.

    With ``x = a * scale - center``, ``p_0 = 1`` and

        p_{j+1} = step_j * (((x - diagonal_j) p_j - coupling_j p_{j-1}) - sum_i correction_ij p_i)

    The first bracket is the three-term recurrence of orthogonal polynomials.  On data with far
    outliers it alone loses orthogonality (it must cancel at an outlier to more digits than a
    float has); the correction, subtracted after the cancellation, is the second Gram-Schmidt
    pass that restores it.  A direction that the data does not support (fewer distinct values
    than degrees) is dead: with a step of 0 it is 0, and so is all after it.

    Several variables may be stacked: then every leaf has their axis first, and points are
    ``(variables, n)``.

    Attributes:
      frame: ``(..., 2)``, scale and center.
      recurrence: ``(..., 3 + d, d)``, of which column j is ``diagonal_j``, ``coupling_j``,
        ``step_j`` (0 in a dead direction) and ``correction_0j .. correction_(d-1)j``.  One array,
        as it leaves and enters programs whole, and each part would be a small program of its own.
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

        Args:
          ones: stands for p_0; 0 in a row makes all its polynomials 0.
          corrected: False where the corrections are known to be 0.
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

        Args:
          coefficients: ``(1 + d,)``.
          values: ``[p_0, ..., p_d]`` there, ``(1 + d, n)``; if times a factor of the point, then
            so is the result, as the recurrence is linear.
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
            for each, c in zip(slopes, corrections[1:], strict=False):
                v = v - c * each
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
            known = jnp.sum(expansion[:, j][None, :] * columns[:, :d], axis=1)
            # Not only times a step of 0: in small units the powers of data overflow.
            return columns.at[:, j + 1].set(jnp.where(step[j] == 0, 0, step[j] * (times_x - known)))

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


def _split(x: Array) -> Sequence[Array]:
    """Return the entries ``(..., 1)`` of ``x (..., m)``; by one primitive, which is traced once."""
    return lax.split(x, [1] * x.shape[-1], axis=x.ndim - 1)


Basis = PolynomialBasis | FeatureBasis
