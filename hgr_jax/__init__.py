"""HGR maximal correlation with polynomial kernels: exact, differentiable, in JAX.

``kb(a, b, h=5, k=5)`` is the largest correlation between polynomials of ``a`` and of ``b``;
``sk(a, b, d=5)`` between a polynomial of one and the other itself.  ``kb_fit`` and ``sk_fit``
return the transformations too.  The other measures of dependence, from ``ace`` to ``spearman``,
are called in the same way.  ``scan(table)`` estimates all pairs of columns, with p-values,
``hgr_matrix(table)`` their values alone; ``select_degrees`` chooses degrees.  The measures work
under `jax.jit`, `jax.vmap` and `jax.grad`, and return JAX scalars: ``float(kb(a, b))`` is a number.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hgr_jax import measures
from hgr_jax._version import __version__ as __version__
from hgr_jax.core.fits import CopulaTransform, KBFit, SKFit
from hgr_jax.core.kernels import polynomial_kernel
from hgr_jax.core.status import Status

if TYPE_CHECKING:
    from hgr_jax.inference.degrees import DegreeSelection, select_degrees
    from hgr_jax.measures import *  # noqa: F403
    from hgr_jax.scanning.api import scan
    from hgr_jax.scanning.matrix import hgr_matrix
    from hgr_jax.scanning.pair import Pair
from hgr_jax.scanning.result import Scan

_LAZY = {
    "DegreeSelection": "hgr_jax.inference.degrees",
    "Pair": "hgr_jax.scanning.pair",
    "Scan": "hgr_jax.scanning.result",
    "hgr_matrix": "hgr_jax.scanning.matrix",
    "scan": "hgr_jax.scanning.api",
    "select_degrees": "hgr_jax.inference.degrees",
}
"""Names that load their module, and SciPy, on first use."""

_MODULES = ("datasets", "fairness", "inference", "kernels", "plotting")
"""Likewise, with what they need."""

__all__ = [
    "CopulaTransform",
    "DegreeSelection",
    "KBFit",
    "Pair",
    "SKFit",
    "Scan",
    "Status",
    "hgr_matrix",
    "polynomial_kernel",
    "scan",
    "select_degrees",
]
__all__ += measures.__all__
__all__.sort()


def __getattr__(name: str) -> Any:
    if name in measures.__all__:
        value = getattr(measures, name)
    elif name in _MODULES:
        value = importlib.import_module(f"{__name__}.{name}")
    elif name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *_MODULES, "measures", "__version__"]
