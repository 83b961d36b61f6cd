"""What functions of given variables leave of the functions of two others; differentiable.

Least squares on orthonormal functions.  What is left has coordinates of its own (constants, as all
bases), in which directions that are explained but for rounding are 0: to take those for functions
would be to correlate noise.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from hgr_jax.core.canonical import (
    FunctionsOf,
    PreparedPair,
    Residuals,
    fit_basis,
    prepare,
)
from hgr_jax.core.kernels import KernelLike, encode
from hgr_jax.core.linalg import matmul, symmetric_eigen
from hgr_jax.core.numerics import equal_weights, normalised, without_dropped_rows
from hgr_jax.core.orthonormal import whitening

EXPLAINED = {"float32": 1e-5, "float64": 1e-12}
"""Share of the variance of a function: if no more is left of it, that is rounding."""


def prepare_given(
    kernels: tuple[KernelLike, KernelLike],
    method: str,
    a: Array,
    b: Array,
    weights: Array | None,
    given: Array | None,
    given_kernel: KernelLike,
    count: Array | None,
    *,
    names: tuple[str, str] = ("h", "k"),
) -> PreparedPair:
    """Prepare two variables whose functions are what those of ``given`` leave of them.

    Args:
      given: ``(n,)`` or ``(n, p)``; None for `canonical.prepare` alone.
      given_kernel: its kernel, checked.
      kernels, method, a, b, weights, count, names: as of `canonical.prepare`.
    """
    if given is None:
        return prepare(kernels, method, a, b, weights, count, names=names)
    weights = equal_weights(count, a) if weights is None else normalised(weights)
    a, b, given = (without_dropped_rows(x, weights) for x in (a, b, given))
    known, of_given, conditioned = _functions_of(given_kernel, given, weights, "given_degree")
    coordinates, sides, explained = [], [], []
    for kernel, x, name in zip(kernels, (a, b), names, strict=True):
        functions, side, good = _functions_of(kernel, x, weights, name)
        left, turn, slopes = _left_of(functions[1:], known, weights)
        coordinates.append(left.T)
        sides.append(dataclasses.replace(side, rows=matmul(turn, side.rows[1:])))
        explained.append(matmul(matmul(turn, slopes), of_given.rows))
        conditioned &= good
    residuals = Residuals((sides[0], sides[1]), (explained[0], explained[1]), of_given, conditioned)
    pair = prepare((1, 1), method, coordinates[0], coordinates[1], weights)
    return dataclasses.replace(pair, variables=(a, b), residuals=residuals)


def _functions_of(
    kernel: KernelLike, x: Array, weights: Array, name: str
) -> tuple[Array, FunctionsOf, Array]:
    """Return 1 and orthonormal functions of a variable at its rows, ``(1 + m, n)``.

    Those that the data do not support are 0.  And what they are elsewhere, and whether their basis
    is well conditioned.
    """
    encoder, features = encode(kernel, x, weights, name)
    degree = None if callable(encoder.kernel) or features.ndim == 2 else encoder.kernel
    basis, conditioned = fit_basis(degree, *lax.stop_gradient((features, weights)))
    values = basis.functions(features)
    gram = matmul(values * weights[None, :], values.T)
    whitener = whitening(gram, np.ones(gram.shape, bool))
    return matmul(whitener, values), FunctionsOf(encoder, basis, whitener, features), conditioned


def _left_of(functions: Array, known: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Return what orthonormal ``known (r, n)`` leave of ``functions (m, n)``, in coordinates.

    And the constants ``(m, m)`` that turn what is left into these, 0 where nothing is; and the
    slopes ``(m, r)`` of the regression.
    """
    slopes = matmul(functions * weights[None, :], known.T)
    left = functions - matmul(slopes, known)
    moments = lax.stop_gradient(matmul(left * weights[None, :], left.T))
    shares, coordinates = symmetric_eigen(jnp.where(jnp.isfinite(moments), moments, 0))
    clear = shares > EXPLAINED[str(left.dtype)]
    turn = jnp.where(clear[:, None], coordinates.T, 0)
    return matmul(turn, left), turn, slopes
