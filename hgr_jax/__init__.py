"""HGR maximal correlation with polynomial kernels: exact, differentiable, in JAX.

``kb(a, b, h=5, k=5)`` is the largest correlation between polynomials of ``a`` and of ``b``;
``sk(a, b, d=5)`` between a polynomial of one and the other itself.  ``kb_fit`` and ``sk_fit``
return the transformations too.  All work under `jax.jit`, `jax.vmap` and `jax.grad`.
"""

from hgr_jax.copula import CopulaTransform, Fit, SingleKernelFit, Status
from hgr_jax.kernels import polynomial_kernel
from hgr_jax.measures import kb, kb_fit, sk, sk_fit

__all__ = [
    "CopulaTransform",
    "Fit",
    "SingleKernelFit",
    "Status",
    "kb",
    "kb_fit",
    "polynomial_kernel",
    "sk",
    "sk_fit",
]

__version__ = "0.1.0"
