"""Kernels: the spaces in which copula transformations live.

A *kernel* maps a variable to features: the powers ``x, x^2, ..., x^h``, all monomials of total
degree h of several variables, or anything the caller computes.  HGR depends only on the space
that the features span, so the package never works with raw powers (in float32 the square of
``1e4 + noise`` has lost the noise): it works in a *basis* of that space (`basis`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike

from hgr_jax._checks import as_given, as_pair, as_real_array, as_weights, check_count, check_kernel
from hgr_jax.core.basis import PolynomialBasis
from hgr_jax.core.fitting import fit_polynomials

KernelLike = int | Callable[[Array], Array]
"""A degree, or a callable from ``x (n,)`` to features ``(n, m)``."""


def polynomial_kernel(x: Array, degree: int) -> Array:
    """Return raw monomials of ``x`` up to total degree ``degree``, the kernel P of the paper.

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
        """Return the features of the codes ``x``."""
        levels = jnp.arange(self.count, dtype=x.dtype)
        return (x[:, None] == levels[None, :]).astype(x.dtype)


MAX_MONOMIALS = 1000


def check_monomials(name: str, kernel: KernelLike, x: Array) -> KernelLike:
    """Return the kernel called ``name``, if it does not have too many monomials of ``x``."""
    if not callable(kernel) and x.ndim == 2 and x.shape[1] > 1:
        count = math.comb(x.shape[1] + kernel, kernel) - 1
        if count > MAX_MONOMIALS:
            raise ValueError(
                f"the kernel {name} of total degree {kernel} of {x.shape[1]} variables (data of"
                f" shape {tuple(x.shape)}) has {count} monomials; at most {MAX_MONOMIALS} are"
                " supported. Lower the degree, or pass one variable as an array (n,)."
            )
    return kernel


def check_given(
    given: ArrayLike | None, given_degree: Any, a: Array
) -> tuple[Array | None, KernelLike]:
    """Return given variables of as many rows as ``a``, and their kernel."""
    kernel = check_kernel("given_degree", given_degree)
    found = as_given(given, a.shape[0], a.dtype)
    return found, kernel if found is None else check_monomials("given_degree", kernel, found)


def check_two_kernels(
    a: ArrayLike, b: ArrayLike, h: Any, k: Any, weights: ArrayLike | None
) -> tuple[tuple[Array, Array, Array | None], dict[str, KernelLike]]:
    """Return the data and weights, and the kernels by name, of a measure with one for each."""
    a, b = as_pair(a, b)
    return (a, b, as_weights(weights, a.shape[0], a.dtype)), {
        "h": check_monomials("h", check_kernel("h", h), a),
        "k": check_monomials("k", check_kernel("k", k), b),
    }


@functools.cache
def monomial_exponents(variables: int, degree: int) -> tuple[tuple[int, ...], ...]:
    """Return exponents of the monomials of total degree 1 to ``degree``, in the kernel's order."""
    exponents = []
    for total in range(1, degree + 1):
        for chosen in itertools.combinations_with_replacement(range(variables), total):
            exponents.append(tuple(chosen.count(i) for i in range(variables)))
    return tuple(exponents)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Encoder:
    """A kernel as applied to a variable, before a basis is fitted; callable on new data.

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
        return 1 if self.factors is None else len(self.factors.frame)

    def __call__(self, x: Array) -> Array:
        """Return ``x (n,)`` itself for a polynomial of one variable, else features ``(n, m)``."""
        if callable(self.kernel):
            return self.kernel(x)
        if self.factors is None:
            return x.reshape(x.shape[0])
        values = self.factors.functions(x.T)
        exponents = np.asarray(monomial_exponents(x.shape[1], self.kernel))
        chosen = [values[exponents[:, i], i] for i in range(x.shape[1])]
        return functools.reduce(jnp.multiply, chosen).T

    def monomials(self) -> Array:
        """Return ``(m, 1 + m)``: row i expands feature i on 1 and `polynomial_kernel`'s columns."""
        assert self.factors is not None
        assert not callable(self.kernel)
        tables = jax.vmap(PolynomialBasis.monomials)(self.factors)
        features = np.asarray(monomial_exponents(tables.shape[0], self.kernel))
        powers = np.concatenate([np.zeros_like(features[:1]), features])
        entries = [
            table[powers[:, i][None, :], features[:, i][:, None]] for i, table in enumerate(tables)
        ]
        return functools.reduce(jnp.multiply, entries)


def encode(kernel: KernelLike, x: Array, weights: Array | None, name: str) -> tuple[Encoder, Array]:
    """Return a kernel ready for new data, and the ``(n,)`` or ``(n, m)`` that it makes of ``x``."""
    factors = None
    if not callable(kernel) and x.ndim == 2 and x.shape[1] > 1:
        columns = lax.stop_gradient(tuple(x.T))
        weights = None if weights is None else lax.stop_gradient(weights)
        fitted = fit_polynomials(columns, (kernel,) * len(columns), weights)
        factors = lax.stop_gradient(fitted.basis)
    encoder = Encoder(kernel=kernel, factors=factors)
    features: Any = encoder(x)
    if callable(kernel):
        if isinstance(features, np.ndarray):
            features = jnp.asarray(features)
        shape = features.shape if isinstance(features, Array) else None
        if shape is None or len(shape) != 2 or shape[0] != len(x) or shape[1] == 0:
            raise ValueError(
                f"the kernel {name} must return features of shape (n, m) = ({len(x)}, m), m >= 1;"
                f" got {type(features).__name__ if shape is None else shape}."
            )
        if jnp.issubdtype(features.dtype, jnp.complexfloating):
            raise TypeError(f"the kernel {name} must return real features; got {features.dtype}.")
        features = features.astype(x.dtype)
    return encoder, features
