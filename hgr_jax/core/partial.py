"""What functions of given variables leave of the functions of two others; differentiable.

Least squares on orthonormal functions.  What is left has coordinates of its own (constants, as all
bases), in which directions that are explained but for rounding are 0: to take those for functions
would be to correlate noise.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from hgr_jax.core.canonical import PreparedPair, prepare
from hgr_jax.core.fitting import whitening
from hgr_jax.core.kernels import KernelLike, encode
from hgr_jax.core.numerics import equal_weights, normalised, without_dropped_rows
from hgr_jax.core.small_matrices import matmul, symmetric_eigen
from hgr_jax.core.whitened import fit_basis

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
    known = _functions_of(given_kernel, given, weights, "given_degree")
    first, second = (
        _left_of(_functions_of(kernel, x, weights, name)[1:], known, weights).T
        for kernel, x, name in zip(kernels, (a, b), names, strict=True)
    )
    return prepare((1, 1), method, first, second, weights)


def _functions_of(kernel: KernelLike, x: Array, weights: Array, name: str) -> Array:
    """Return 1 and orthonormal functions of a variable at its rows, ``(1 + m, n)``.

    Those that the data do not support are 0.
    """
    encoder, features = encode(kernel, without_dropped_rows(x, weights), weights, name)
    degree = None if callable(encoder.kernel) or features.ndim == 2 else encoder.kernel
    basis, _ = fit_basis(degree, *lax.stop_gradient((features, weights)))
    values = basis.functions(features)
    gram = matmul(values * weights[None, :], values.T)
    return matmul(whitening(gram, np.ones(gram.shape, bool)), values)


def _left_of(functions: Array, known: Array, weights: Array) -> Array:
    """Return what orthonormal ``known (r, n)`` leave of ``functions (m, n)``, in coordinates."""
    left = functions - matmul(matmul(functions * weights[None, :], known.T), known)
    moments = lax.stop_gradient(matmul(left * weights[None, :], left.T))
    shares, coordinates = symmetric_eigen(jnp.where(jnp.isfinite(moments), moments, 0))
    clear = shares > EXPLAINED[str(left.dtype)]
    return matmul(jnp.where(clear[:, None], coordinates.T, 0), left)
