"""HGR maximal correlation with polynomial kernels: exact, differentiable, in JAX.

``kb(a, b, h=5, k=5)`` is the largest correlation between polynomials of ``a`` and of ``b``;
``sk(a, b, d=5)`` between a polynomial of one and the other itself.  ``kb_fit`` and ``sk_fit``
return the transformations too.  The other measures of dependence, from ``ace`` to ``spearman``,
are called in the same way.  ``scan(table)`` estimates all pairs of columns, with p-values;
``select_degrees`` chooses degrees.  The measures work under `jax.jit`, `jax.vmap` and `jax.grad`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hgr_jax import measures
from hgr_jax.core.fits import CopulaTransform, Fit, SingleKernelFit, Status
from hgr_jax.core.kernels import polynomial_kernel
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
    from hgr_jax.inference.degrees import DegreeSelection, select_degrees
    from hgr_jax.measures import NeuralFit, NeuralTransform, neural, neural_fit
    from hgr_jax.pairwise import Pair, Scan, scan

_LAZY = {
    "DegreeSelection": "hgr_jax.inference.degrees",
    "Pair": "hgr_jax.pairwise",
    "Scan": "hgr_jax.pairwise",
    "scan": "hgr_jax.pairwise",
    "select_degrees": "hgr_jax.inference.degrees",
}
"""Names that load their module, and SciPy, on first use."""

__all__ = [
    "AceCurve",
    "AceFit",
    "CopulaTransform",
    "DegreeSelection",
    "Fit",
    "NeuralFit",
    "NeuralTransform",
    "Pair",
    "RandomizedFit",
    "RandomizedTransform",
    "Scan",
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
    "scan",
    "select_degrees",
    "sk",
    "sk_fit",
    "spearman",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in measures.LAZY:
        return getattr(measures, name)
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
