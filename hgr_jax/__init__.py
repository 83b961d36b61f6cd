"""HGR maximal correlation with polynomial kernels: exact, differentiable, in JAX.

``hgr(a, b)`` estimates the maximal correlation itself, of ranks, with degrees chosen by the data.
``kb(a, b, h=5, k=5)`` is the largest correlation between polynomials of ``a`` and of ``b``;
``sk(a, b, d=5)`` between a polynomial of one and the other itself.  ``kb_fit`` and ``sk_fit``
return the transformations too.  The other measures of dependence, from ``ace`` to ``spearman``,
are called in the same way.  ``scan(table)`` estimates all pairs of columns, with p-values,
``hgr_matrix(table)`` their values alone; ``select_degrees`` chooses degrees.  The measures work
under `jax.jit`, `jax.vmap` and `jax.grad`, and return JAX scalars: ``float(kb(a, b))`` is a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hgr_jax._optional import names_in_modules
from hgr_jax._version import __version__ as __version__

if TYPE_CHECKING:
    from hgr_jax.core.fits import KBFit
    from hgr_jax.core.kernels import polynomial_kernel
    from hgr_jax.core.modes import SpectrumFit
    from hgr_jax.core.status import Status
    from hgr_jax.inference.hgr_fits import HGRFit, hgr_fit
    from hgr_jax.inference.independence import ConditionalTests, independence_test
    from hgr_jax.inference.results import IndependenceTest
    from hgr_jax.inference.selection import select_degrees
    from hgr_jax.measures import (
        AceFit,
        NeuralFit,
        ace,
        ace_fit,
        chi2,
        distance_correlation,
        hgr,
        hsic,
        kb,
        kb_fit,
        kde,
        kernel_cca,
        kernel_ica_contrast,
        neural,
        neural_fit,
        oracle,
        pearson,
        rdc,
        sk,
        sk_fit,
        spearman,
        spectrum,
        spectrum_fit,
        total,
    )
    from hgr_jax.scanning.api import hgr_matrix, scan
    from hgr_jax.scanning.request import Categories, Execution, Given, Test, Top
    from hgr_jax.scanning.result import Scan
    from hgr_jax.tables.columns import Frame
    from hgr_jax.tables.files import read_table
    from hgr_jax.tables.reading import Reading

__all__ = [
    "AceFit",
    "Categories",
    "ConditionalTests",
    "Execution",
    "Frame",
    "Given",
    "HGRFit",
    "IndependenceTest",
    "KBFit",
    "NeuralFit",
    "Reading",
    "Scan",
    "SpectrumFit",
    "Status",
    "Test",
    "Top",
    "ace",
    "ace_fit",
    "chi2",
    "distance_correlation",
    "hgr",
    "hgr_fit",
    "hgr_matrix",
    "hsic",
    "independence_test",
    "kb",
    "kb_fit",
    "kde",
    "kernel_cca",
    "kernel_ica_contrast",
    "neural",
    "neural_fit",
    "oracle",
    "pearson",
    "polynomial_kernel",
    "rdc",
    "read_table",
    "scan",
    "select_degrees",
    "sk",
    "sk_fit",
    "spearman",
    "spectrum",
    "spectrum_fit",
    "total",
]

_HOMES = {
    "core.fits": ("KBFit",),
    "core.status": ("Status",),
    "core.kernels": ("polynomial_kernel",),
    "core.modes": ("SpectrumFit",),
    "inference.hgr_fits": ("HGRFit", "hgr_fit"),
    "inference.independence": ("ConditionalTests", "independence_test"),
    "inference.results": ("IndependenceTest",),
    "inference.selection": ("select_degrees",),
    "scanning.api": ("hgr_matrix", "scan"),
    "scanning.request": ("Categories", "Execution", "Given", "Test", "Top"),
    "scanning.result": ("Scan",),
    "tables.columns": ("Frame",),
    "tables.files": ("read_table",),
    "tables.reading": ("Reading",),
}
_MODULES = [
    "causal",
    "datasets",
    "fairness",
    "inference",
    "kernels",
    "measures",
    "plotting",
    "sklearn",
    "torch",
]
_elsewhere = {name for names in _HOMES.values() for name in names}

__getattr__ = names_in_modules(
    __name__, _HOMES | {"measures": [*{*__all__} - _elsewhere]}, _MODULES
)


def __dir__() -> list[str]:
    return [*__all__, *_MODULES, "__version__"]
