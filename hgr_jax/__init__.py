"""HGR maximal correlation with polynomial kernels: exact, differentiable, in JAX.

``kb(a, b, h=5, k=5)`` is the largest correlation between polynomials of ``a`` and of ``b``;
``sk(a, b, d=5)`` between a polynomial of one and the other itself.  ``kb_fit`` and ``sk_fit``
return the transformations too.  The other measures of dependence, from ``ace`` to ``spearman``,
are called in the same way.  All work under `jax.jit`, `jax.vmap` and `jax.grad`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hgr_jax import measures
from hgr_jax.copula import CopulaTransform, Fit, SingleKernelFit, Status
from hgr_jax.kernels import polynomial_kernel
from hgr_jax.measures import (
    AceCurve,
    AceFit,
    RandomizedFit,
    RandomizedTransform,
    ace,
    ace_fit,
    chi2,
    distance_correlation,
    gedi,
    hsic,
    kb,
    kb_fit,
    kde,
    kernel_cca,
    kernel_ica_contrast,
    nlc,
    oracle,
    pearson,
    rdc,
    rdc_fit,
    sk,
    sk_fit,
    spearman,
)

if TYPE_CHECKING:
    from hgr_jax.measures import NeuralFit, NeuralTransform, neural, neural_fit

__all__ = [
    "AceCurve",
    "AceFit",
    "CopulaTransform",
    "Fit",
    "NeuralFit",
    "NeuralTransform",
    "RandomizedFit",
    "RandomizedTransform",
    "SingleKernelFit",
    "Status",
    "ace",
    "ace_fit",
    "chi2",
    "distance_correlation",
    "gedi",
    "hsic",
    "kb",
    "kb_fit",
    "kde",
    "kernel_cca",
    "kernel_ica_contrast",
    "neural",
    "neural_fit",
    "nlc",
    "oracle",
    "pearson",
    "polynomial_kernel",
    "rdc",
    "rdc_fit",
    "sk",
    "sk_fit",
    "spearman",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in measures.LAZY:
        return getattr(measures, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
