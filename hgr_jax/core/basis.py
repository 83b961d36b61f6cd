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

    With ``x = (a - center) * scale``, ``p_0 = 1`` and

        p_{j+1} = step_j * (((x - diagonal_j) p_j - coupling_j p_{j-1}) - sum_i correction_ij p_i)

    The first bracket is the three-term recurrence of orthogonal polynomials.  On data with far
    outliers it alone loses orthogonality (it must cancel at an outlier to more digits than a
    float has); the correction, subtracted after the cancellation, is the second Gram-Schmidt
    pass that restores it.  A direction that the data does not support (fewer distinct values
    than degrees) is dead: what it holds is rounding noise, 0 after `living`.

    Several variables may be stacked: then every leaf has their axis first, and points are
    ``(variables, n)``.
    """

    center: Array
    scale: Array
    diagonal: Array
    coupling: Array
    step: Array
    correction: Array
    alive: Array

    def select(self, v: int, degree: int | None) -> PolynomialBasis:
        """Return one variable's polynomials, up to a degree (None: all)."""
        return PolynomialBasis(
            center=self.center[v],
            scale=self.scale[v],
            diagonal=self.diagonal[v, :degree],
            coupling=self.coupling[v, :degree],
            step=self.step[v, :degree],
            correction=self.correction[v, :degree, :degree],
            alive=self.alive[v, :degree],
        ).living()

    def living(self) -> PolynomialBasis:
        """Return these polynomials with dead directions exactly 0, wherever they are evaluated."""
        return dataclasses.replace(self, step=jnp.where(self.alive, self.step, 0))

    def polynomials(
        self, a: Array, ones: Array | None = None, *, corrected: bool = True
    ) -> list[Array]:
        """Return ``[p_0, ..., p_d]`` at the points ``a (..., n)``, each of the shape of ``a``.

        Args:
          ones: stands for p_0; 0 in a row makes all its polynomials 0.
          corrected: False where the corrections are known to be 0.
        """
        x = (a - self.center[..., None]) * self.scale[..., None]
        p = [jnp.ones_like(x) if ones is None else jnp.broadcast_to(ones, x.shape)]
        step = _by_degree(self.step)
        if corrected:
            shift, back = _by_degree(self.diagonal), _by_degree(self.coupling)
            corrections = [_by_degree(c[..., 0]) for c in _by_degree(self.correction)]
            for j in range(len(step)):
                v = (x - shift[j]) * p[j]
                if j:
                    v = v - back[j] * p[j - 1]
                for p_i, c in zip(p, corrections[j], strict=False):
                    v = v - c * p_i
                p.append(step[j] * v)
            return p
        # The step is multiplied into the few coefficients, which saves long data a product.
        shift, back = _by_degree(self.diagonal * self.step), _by_degree(self.coupling * self.step)
        for j in range(len(step)):
            v = (x * step[j] - shift[j]) * p[j]
            p.append(v - back[j] * p[j - 1] if j else v)
        return p

    def rows(self, a: Array) -> Array:
        """Return the basis at the points ``a (..., n)``, as ``(d, ..., n)``."""
        return jnp.stack(self.polynomials(a)[1:])

    def combine(self, coefficients: Array, a: Array) -> Array:
        """Return ``sum_j coefficients_j p_j(a)``, elementwise; coefficients are ``(..., d)``."""
        weights = jnp.moveaxis(coefficients, -1, 0)[..., None]
        terms = [c * p for c, p in zip(weights, self.polynomials(a)[1:], strict=True)]
        return functools.reduce(jnp.add, terms)

    def monomials(self) -> Array:
        """Return ``(d + 1, d + 1)``: column j expands ``p_j`` on ``1, a, ...``."""
        d = self.step.shape[-1]
        expansion = self.correction + jnp.diag(self.diagonal) + jnp.diag(self.coupling[1:], 1)

        def next_column(j: Array, columns: Array) -> Array:
            last = columns[:, j]
            times_x = self.scale * (jnp.roll(last, 1) - self.center * last)
            known = jnp.sum(expansion[:, j][None, :] * columns[:, :d], axis=1)
            return columns.at[:, j + 1].set(self.step[j] * (times_x - known))

        columns = jnp.zeros((d + 1, d + 1), self.step.dtype).at[0, 0].set(1)
        return lax.fori_loop(0, d, next_column, columns)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FeatureBasis:
    """The combinations ``(features - mean) @ transform``; columns of dead directions are zero."""

    mean: Array
    transform: Array
    alive: Array

    def rows(self, features: Array) -> Array:
        """Return the basis at ``features (n, m)``, as ``(m, n)``."""
        return matmul(self.transform.T, (features - self.mean[None, :]).T)

    def combine(self, coefficients: Array, features: Array) -> Array:
        """Return the combination of basis functions with these coefficients, ``(n,)``."""
        return matmul(features - self.mean[None, :], matmul(self.transform, coefficients))


def _by_degree(x: Array) -> Sequence[Array]:
    """The entries ``(..., 1)`` of ``x (..., d)``; by one primitive, which is traced once."""
    return lax.split(x, [1] * x.shape[-1], axis=x.ndim - 1)


Basis = PolynomialBasis | FeatureBasis
