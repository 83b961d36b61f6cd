"""Kernels: the spaces in which copula transformations live.

A *kernel* maps a variable to features: the powers ``x, x^2, ..., x^h``, all monomials of total
degree h of several variables, or anything the caller computes.  HGR depends only on the space
that the features span, so the package never works with raw powers (in float32 the square of
``1e4 + noise`` has lost the noise): it works in a basis of that space (`orthonormal`).

* `polynomial_kernel`: the paper's matrix P; `Encoder`, `encode`: a kernel as applied to data;
* `splines`, `fourier`: kernels of one variable for what polynomials cannot follow: kinks, jumps,
  waves.  Each is a frozen dataclass: equal kernels share their compiled programs.
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

from hgr_jax._arrays import is_traced
from hgr_jax._checks import check_count, check_kernel
from hgr_jax.core.arrays import as_given, as_pair, as_real_array, as_weights
from hgr_jax.core.monomials import check_monomials, monomial_exponents
from hgr_jax.core.orthonormal import PolynomialBasis, fit_polynomials

KernelLike = int | Callable[[Array], Array]
"""A degree, or a callable from ``x (n,)`` to features ``(n, m)``."""


def polynomial_kernel(x: Array, degree: int) -> Array:
    """Return raw monomials of ``x`` up to total degree ``degree``, the kernel P of the paper.

    ``P[i, :] = [x_i, x_i^2, ..., x_i^degree]``; for several variables all monomials with
    ``1 <= total degree <= degree``, interactions included, by rising total degree and, within
    one, lexicographically (``x_0^2, x_0 x_1, x_1^2``).  There is no constant column.  The measures
    span the same space with orthonormal polynomials: powers overflow or lose all digits.

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


def check_given(
    given: ArrayLike | None, given_degree: Any, a: Array
) -> tuple[Array | None, KernelLike]:
    """Return conditioning variables with the rows of ``a``, and their kernel, both checked."""
    kernel = check_kernel("given_degree", given_degree)
    conditioning = as_given(given, a.shape[0], a.dtype)
    if isinstance(kernel, int) and kernel > 1 and _are_indicators(conditioning):
        kernel = 1  # products of levels of one category add nothing
    return conditioning, kernel if conditioning is None else check_monomials(
        "given_degree", kernel, conditioning
    )


def _are_indicators(x: Array | None) -> bool:
    """Return whether concrete columns ``(n, p)``, p > 1, are levels of one category."""
    if x is None or x.ndim < 2 or x.shape[1] < 2 or is_traced(x):
        return False
    values = np.asarray(x)
    return bool(((values == 0) | (values == 1)).all() and (values.sum(axis=1) <= 1).all())


def check_two_kernels(
    data: tuple[ArrayLike, ArrayLike],
    kernels: tuple[Any, ...],
    weights: ArrayLike | None,
    conditioning: tuple[Any, Any] = (None, 1),
) -> tuple[tuple[Array, Array, Array | None, Array | None], tuple[KernelLike, ...]]:
    """Return the columns a, b, weights and given, and the kernels h, k and given_degree."""
    a, b = as_pair(*data, weights=weights, given=conditioning[0])
    w = as_weights(weights, a.shape[0], a.dtype)
    h, k = (
        check_monomials(name, check_kernel(name, kernel), x)
        for name, kernel, x in zip("hk", kernels, (a, b), strict=True)
    )
    c, given_degree = check_given(*conditioning, a)
    return (a, b, w, c), (h, k, given_degree)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Encoder:
    """A kernel fitted to a variable, callable on new data.

    For polynomials of several variables, ``factors`` are orthonormal polynomials of each variable,
    stacked.  Their products up to total degree h span the same space as the monomials, and are far
    better conditioned.
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
    """Fit a kernel to ``x``; return it and its ``(n,)`` or features ``(n, m)`` of ``x``."""
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


@dataclasses.dataclass(frozen=True)
class Splines:
    """The kernel that `splines` makes: ``x (n,)`` to all B-splines but the first."""

    keypoints: tuple[float, ...]
    degree: int

    def __call__(self, x: Array) -> Array:
        """Return the features ``(n, len(keypoints) - 2 + degree)``, by the recursion of de Boor."""
        x = _one_variable("splines", x)
        inner = np.asarray(self.keypoints, x.dtype)
        knots = np.pad(inner, self.degree, mode="edge")
        last = len(knots) - 1 - self.degree  # the place of the last keypoint
        at = jnp.clip(x, inner[0], inner[-1])[:, None]
        until = np.where(np.arange(len(knots) - 1) == last - 1, np.inf, knots[1:]).astype(x.dtype)
        values = ((at >= knots[None, :-1]) & (at < until[None, :])).astype(x.dtype)
        for order in range(1, self.degree + 1):
            width = knots[order:] - knots[:-order]
            # Functions of width 0 are 0 throughout.
            inverse = np.divide(1, width, out=np.zeros_like(width), where=width > 0)[None, :]
            rising = (at - knots[None, :-order]) * inverse
            values = rising[:, :-1] * values[:, :-1] + (1 - rising[:, 1:]) * values[:, 1:]
        # The functions sum to 1, and a constant is never needed.
        return jnp.where(jnp.isfinite(x)[:, None], values[:, 1:], jnp.nan)


def splines(keypoints: ArrayLike, degree: int = 3) -> Splines:
    """Return the kernel of piecewise polynomials of one variable, constant beyond its keypoints.

    Pieces between neighbouring keypoints have degree d, and d - 1 derivatives are continuous: the
    span of B-splines.

    Args:
      keypoints: at least 2 rising numbers, such as quantiles of the data; ends included.  They are
        static.
      degree: of the pieces, int >= 1; piecewise linear functions have degree 1.

    Returns:
      A hashable callable ``(n,) -> (n, m - 2 + degree)``, to pass as ``h`` or ``k``.

    Raises:
      TypeError, ValueError: for keypoints that are no rising finite numbers, or another degree;
        and where it is applied, for several variables.

    Source: de Boor, "A Practical Guide to Splines" (1978).

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> from hgr_jax.kernels import splines
      >>> a = jnp.linspace(-1, 1, 201)
      >>> b = jnp.cos(9 * a)
      >>> for kernel in (7, splines([-1, -0.5, 0, 0.5, 1])):  # 7 functions each
      ...     print(f"{hgr_jax.kb(a, b, h=kernel, k=1):.2f}")
      0.70
      0.83
    """
    return Splines(_rising("keypoints", keypoints), check_count("degree", degree))


@dataclasses.dataclass(frozen=True)
class Fourier:
    """The kernel that `fourier` makes."""

    terms: int
    period: float

    def __call__(self, x: Array) -> Array:
        """Return the features ``(n, 2 terms)``: cosines, then sines."""
        x = _one_variable("fourier", x)
        rates = np.arange(1, self.terms + 1) * (2 * math.pi / self.period)
        angle = x[:, None] * rates.astype(x.dtype)[None, :]
        return jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], axis=1)


def fourier(terms: int, period: float) -> Fourier:
    """Return the kernel of trigonometric polynomials: cosines and sines of up to ``terms`` waves.

        cos(2 pi j x / period), sin(2 pi j x / period),   j = 1 .. terms

    Args:
      terms: int >= 1.
      period: above 0, in the units of the variable: of an angle in radians 2 pi, of hours 24.

    Returns:
      A hashable callable ``(n,) -> (n, 2 terms)``, to pass as ``h`` or ``k``.

    Raises:
      TypeError, ValueError: for other terms or periods; and where it is applied, for several
        variables.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> from hgr_jax.kernels import fourier
      >>> hour = jnp.arange(100.0) % 24
      >>> load = jnp.cos(2 * jnp.pi * (hour - 18) / 24)
      >>> print(f"{hgr_jax.kb(hour, load, h=fourier(1, period=24), k=1):.3f}")
      1.000
    """
    length = _finite("period", period)
    if len(length) != 1 or length[0] <= 0:
        raise ValueError(f"period must be one number above 0; got {period!r}.")
    return Fourier(check_count("terms", terms), length[0])


def _one_variable(name: str, x: Array) -> Array:
    if x.ndim == 2 and x.shape[1] == 1:
        return x[:, 0]
    if x.ndim != 1:
        raise ValueError(
            f"the kernel {name} is one of a single variable (n,); got data of shape"
            f" {tuple(x.shape)}."
        )
    return x


def _finite(name: str, values: Any) -> list[float]:
    """Return static finite numbers, one or a sequence, as a list."""
    if is_traced(values):
        raise TypeError(f"{name} must be static numbers, but they are traced; close over them.")
    host = np.asarray(values)
    if host.dtype.kind not in "iuf" or host.ndim > 1:
        raise TypeError(f"{name} must be numbers; got {values!r}.")
    if not np.isfinite(host).all():
        raise ValueError(f"{name} must be finite; got {values!r}.")
    listed: list[float] = host.astype(np.float64).ravel().tolist()
    return listed


def _rising(name: str, values: Any) -> tuple[float, ...]:
    numbers = _finite(name, values)
    if len(numbers) < 2 or any(b <= a for a, b in itertools.pairwise(numbers)):
        raise ValueError(f"{name} must be at least 2 rising numbers; got {values!r}.")
    return tuple(numbers)
