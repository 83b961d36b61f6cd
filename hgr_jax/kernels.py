"""Kernels: the spaces in which copula transformations live, and their coordinates.

A *kernel* maps a variable to features: the powers ``x, x^2, ..., x^h``, all monomials of total
degree h of several variables, or anything the caller computes.  HGR depends only on the space
that the features span, so the package never works with raw powers (in float32 the square of
``1e4 + noise`` has lost the noise): it works in a *basis* of that space.

* `PolynomialBasis`: polynomials of one variable, held as a recurrence, as in Gautschi,
  "Orthogonal Polynomials: Computation and Approximation" (2004).
* `FeatureBasis`: a linear map of given features.

Both are near-orthonormal on the data they were fitted to, and both are constants under
differentiation: they are a choice of coordinates, on which no result depends.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from hgr_jax.arguments import as_real_array, check_count

KernelLike = int | Callable[[Array], Array]


def polynomial_kernel(x: Array, degree: int) -> Array:
    """Raw monomials of ``x`` up to total degree ``degree``, the kernel P of the paper.

    ``P[i, :] = [x_i, x_i^2, ..., x_i^degree]``; for several variables all monomials with
    ``1 <= total degree <= degree``, interactions included, by rising total degree and, within
    one, lexicographically (``x_0^2, x_0 x_1, x_1^2``).  There is no constant column.

    This is for people who want the matrix.  The measures of this package span the same space
    with orthonormal polynomials, because powers of unscaled data overflow or lose all digits.

    Args:
      x: real array ``(n,)`` or ``(n, p)``, traced; integers and booleans are converted.
      degree: total degree, an int >= 1, static.

    Returns:
      ``(n, degree)`` for one variable, ``(n, C(p + degree, degree) - 1)`` for p of them, in the
      floating dtype of ``x``.

    Raises:
      TypeError, ValueError: if ``x`` or ``degree`` is not as above.

    Source: Giuliani & Lombardi, "Robust Non-Linear Correlations via Polynomial Regression".

    Example:
      >>> import jax.numpy as jnp
      >>> from hgr_jax import polynomial_kernel
      >>> print(polynomial_kernel(jnp.array([1.0, 2.0, 3.0]), 3))
      [[ 1.  1.  1.]
       [ 2.  4.  8.]
       [ 3.  9. 27.]]
    """
    x = as_real_array("x", x)
    degree = check_count("degree", degree)
    if x.ndim == 1:
        powers = itertools.accumulate([x] * degree, jnp.multiply)
        return jnp.stack(list(powers), axis=1)
    powers_of = [list(itertools.accumulate([column] * degree, jnp.multiply)) for column in x.T]
    return jnp.stack(
        [
            functools.reduce(jnp.multiply, [powers_of[i][e - 1] for i, e in enumerate(exps) if e])
            for exps in monomial_exponents(x.shape[1], degree)
        ],
        axis=1,
    )


@dataclasses.dataclass(frozen=True)
class Indicators:
    """The kernel of a category: ``x (n,)`` of codes 0, 1, ... to one-hot features ``(n, count)``.

    As ``h`` or ``k`` of `hgr_jax.kb` its functions are all functions of the category; with two of
    them KB is the first correlation of correspondence analysis.

    Attributes:
      count: how many levels there are; codes beyond them are in none.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> from hgr_jax.kernels import Indicators
      >>> species, size = jnp.array([0, 1, 2, 0, 1, 2]), jnp.array([3.0, 9.0, 3.1, 2.9, 9.0, 3.0])
      >>> print(f"{hgr_jax.kb(species, size, h=Indicators(3), k=1):.3f}")
      1.000
    """

    count: int

    def __call__(self, x: Array) -> Array:
        """The features of the codes ``x``."""
        levels = jnp.arange(self.count, dtype=x.dtype)
        return (x[:, None] == levels[None, :]).astype(x.dtype)


@functools.cache
def monomial_exponents(variables: int, degree: int) -> tuple[tuple[int, ...], ...]:
    """Exponents of the monomials of total degree 1 to ``degree``, in the kernel's order."""
    exponents = []
    for total in range(1, degree + 1):
        for chosen in itertools.combinations_with_replacement(range(variables), total):
            exponents.append(tuple(chosen.count(i) for i in range(variables)))
    return tuple(exponents)


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
    than degrees) has ``step = 0`` and is exactly zero from there on.
    """

    center: Array
    scale: Array
    diagonal: Array
    coupling: Array
    step: Array
    correction: Array
    alive: Array

    def polynomials(self, a: Array, *, corrected: bool = True) -> list[Array]:
        """``[p_0, ..., p_d]`` at the points ``a``, each of the shape of ``a``."""
        x = (a - self.center) * self.scale
        shift, back = self.diagonal * self.step, self.coupling * self.step
        correction = self.correction * self.step[None, :]
        p = [jnp.ones_like(x)]
        for j in range(self.step.shape[-1]):
            v = (x * self.step[j] - shift[j]) * p[j]
            if j:
                v = v - back[j] * p[j - 1]
            if corrected:
                for i in range(j + 1):
                    v = v - correction[i, j] * p[i]
            p.append(v)
        return p

    def rows(self, a: Array) -> Array:
        """The basis at the points ``a (n,)``, as ``(d, n)``."""
        return jnp.stack(self.polynomials(a)[1:])

    def combine(self, coefficients: Array, a: Array) -> Array:
        """``sum_j coefficients_j p_j(a)``, elementwise."""
        terms = [c * p for c, p in zip(coefficients, self.polynomials(a)[1:], strict=True)]
        return functools.reduce(jnp.add, terms)

    def monomials(self) -> Array:
        """``(d + 1, d + 1)``: column j holds the coefficients of ``p_j`` on ``1, a, a^2, ...``."""
        d = self.step.shape[-1]

        def times_x(c: Array) -> Array:
            return self.scale * (jnp.concatenate([jnp.zeros_like(c[:1]), c[:-1]]) - self.center * c)

        columns = [jnp.zeros(d + 1, self.step.dtype).at[0].set(1)]
        for j in range(d):
            c = times_x(columns[j]) - self.diagonal[j] * columns[j]
            if j:
                c = c - self.coupling[j] * columns[j - 1]
            for i in range(j + 1):
                c = c - self.correction[i, j] * columns[i]
            columns.append(c * self.step[j])
        return jnp.stack(columns, axis=1)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FeatureBasis:
    """The combinations ``(features - mean) @ transform``; columns of dead directions are zero."""

    mean: Array
    transform: Array
    alive: Array

    def rows(self, features: Array) -> Array:
        """The basis at ``features (n, m)``, as ``(m, n)``."""
        centred = features - self.mean[None, :]
        return jnp.matmul(self.transform.T, centred.T, precision=jax.lax.Precision.HIGHEST)

    def combine(self, coefficients: Array, features: Array) -> Array:
        """The combination of basis functions with these coefficients, ``(n,)``."""
        centred = features - self.mean[None, :]
        return jnp.matmul(
            centred, self.transform @ coefficients, precision=jax.lax.Precision.HIGHEST
        )


Basis = PolynomialBasis | FeatureBasis


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Encoder:
    """What a kernel does to a variable before a basis sees it; callable on new data.

    ``kernel`` is the caller's: an int degree or a callable.  ``factors`` (only for polynomials
    of several variables) are the orthonormal polynomials of each variable, stacked; the
    features are their products of total degree at most h, which span the same space as the
    monomials and are far better conditioned.
    """

    kernel: KernelLike = dataclasses.field(metadata={"static": True})
    factors: PolynomialBasis | None = None

    @property
    def variables(self) -> int | None:
        """Number of columns of a polynomial kernel's variable; None for a callable kernel."""
        if callable(self.kernel):
            return None
        return 1 if self.factors is None else self.factors.step.shape[-2]

    def __call__(self, x: Array) -> Array:
        """``x (n,)`` itself for a polynomial of one variable, else its features ``(n, m)``."""
        if callable(self.kernel):
            return self.kernel(x)
        if self.factors is None:
            return x.reshape(x.shape[0])
        values = jax.vmap(lambda basis, column: jnp.stack(basis.polynomials(column)))(
            self.factors, x.T
        )
        exponents = np.asarray(monomial_exponents(x.shape[1], self.kernel))
        chosen = [values[i][exponents[:, i]] for i in range(x.shape[1])]
        return functools.reduce(jnp.multiply, chosen).T

    def monomials(self) -> Array:
        """``(m, 1 + m)``: row i expands feature i on ``1`` and `polynomial_kernel`'s columns."""
        assert self.factors is not None
        assert not callable(self.kernel)
        tables = jax.vmap(PolynomialBasis.monomials)(self.factors)
        features = np.asarray(monomial_exponents(tables.shape[0], self.kernel))
        powers = np.concatenate([np.zeros_like(features[:1]), features])
        entries = [
            table[powers[:, i][None, :], features[:, i][:, None]] for i, table in enumerate(tables)
        ]
        return functools.reduce(jnp.multiply, entries)
