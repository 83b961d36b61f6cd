"""Conditioning: residuals of functions of two variables given other variables; differentiable.

Residuals of least squares are expressed in coordinates that are constant, as all bases.  Directions
that the conditioning variables explain up to rounding are 0: they would correlate noise.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from hgr_jax.core.canonical import OrthonormalFunctions, PreparedPair, Residuals, fit_basis, prepare
from hgr_jax.core.host.explained import LEAST_RESIDUAL
from hgr_jax.core.kernels import KernelLike, encode
from hgr_jax.core.linalg import matmul, symmetric_eigen
from hgr_jax.core.numerics import equal_weights, normalise_weights, without_dropped_rows
from hgr_jax.core.orthonormal import whitening

EXPLAINED = {"float32": 1e-5, "float64": LEAST_RESIDUAL}
"""Share of a function's variance, by dtype, below which its residual is rounding."""


def prepare_given(
    kernels: tuple[KernelLike, KernelLike],
    method: str,
    a: Array,
    b: Array,
    weights: Array | None,
    conditioning: tuple[Array | None, KernelLike],
    count: Array | None,
    *,
    names: tuple[str, str] = ("h", "k"),
) -> PreparedPair:
    """Prepare residuals given the ``conditioning`` variables and their kernel, or None for none."""
    given, given_kernel = conditioning
    if given is None:
        return prepare(kernels, method, a, b, weights, count, names=names)
    weights = equal_weights(count, a) if weights is None else normalise_weights(weights)
    a, b, given = (without_dropped_rows(x, weights) for x in (a, b, given))
    values, of_given, well_conditioned = _orthonormal_functions(
        given_kernel, given, weights, "given_degree"
    )
    coordinates, sides, explained = [], [], []
    for kernel, x, name in zip(kernels, (a, b), names, strict=True):
        functions, side, conditioned = _orthonormal_functions(kernel, x, weights, name)
        residual, rotation, slopes = _residualise(functions[1:], values, weights)
        coordinates.append(residual.T)
        sides.append(dataclasses.replace(side, rows=matmul(rotation, side.rows[1:])))
        explained.append(matmul(matmul(rotation, slopes), of_given.rows))
        well_conditioned &= conditioned
    residuals = Residuals(
        (sides[0], sides[1]), (explained[0], explained[1]), of_given, well_conditioned
    )
    pair = prepare((1, 1), method, coordinates[0], coordinates[1], weights)
    return dataclasses.replace(pair, residuals=residuals)


def _orthonormal_functions(
    kernel: KernelLike, x: Array, weights: Array, name: str
) -> tuple[Array, OrthonormalFunctions, Array]:
    """Return 1 and orthonormal functions ``(1 + m, n)``, their maps, and if well conditioned."""
    encoder, features = encode(kernel, x, weights, name)
    degree = None if callable(encoder.kernel) or features.ndim == 2 else encoder.kernel
    basis, conditioned = fit_basis(degree, *lax.stop_gradient((features, weights)))
    values = basis.functions(features)
    gram = matmul(values * weights[None, :], values.T)
    whitener = whitening(gram, np.ones(gram.shape, bool))
    return (
        matmul(whitener, values),
        OrthonormalFunctions(encoder, basis, whitener),
        conditioned,
    )


def _residualise(
    functions: Array, conditioning: Array, weights: Array
) -> tuple[Array, Array, Array]:
    """Return coordinates ``(m, n)`` of the residuals of functions given orthonormal ones.

    Also the constant rotation ``(m, m)`` to these coordinates, 0 in directions without residual,
    and the slopes ``(m, r)`` of the regression.
    """
    slopes = matmul(functions * weights[None, :], conditioning.T)
    residual = functions - matmul(slopes, conditioning)
    moments = lax.stop_gradient(matmul(residual * weights[None, :], residual.T))
    shares, coordinates = symmetric_eigen(jnp.where(jnp.isfinite(moments), moments, 0))
    clear = shares > EXPLAINED[str(residual.dtype)]
    rotation = jnp.where(clear[:, None], coordinates.T, 0)
    return matmul(rotation, residual), rotation, slopes
