"""Dependence measures, one module each, of one shape: ``measure(a, b, *, ...) -> scalar``.

A module checks the arguments, documents the measure, and compiles it for few numbers of rows; a
``*_fit`` twin returns its transformations too.

* HGR by kernels: `kb`, `sk`, and all modes, `spectrum` and `total`;
* other estimates of HGR: `ace`, `rdc`, `kde` and `chi2`, `neural` (in
  `neural_network`, which imports flax and optax when it is first asked for), and `oracle`, under
  known transformations;
* in units of the data: `gedi`, `nlc`; on scales of their own: `distance_correlation`, `hsic`,
  `kernel_cca`, `kernel_ica_contrast`; classical: `pearson`, `spearman`.

Under these: `_pair_sums` (sums over pairs of rows, block by block), `_nystrom` (features of a
Gaussian kernel without its n x n matrix), `_random_features` (the random functions of RDC).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hgr_jax.measures.ace import AceCurve, AceFit, ace, ace_fit
from hgr_jax.measures.chi2 import chi2
from hgr_jax.measures.distance_correlation import distance_correlation
from hgr_jax.measures.gedi import gedi
from hgr_jax.measures.hsic import hsic
from hgr_jax.measures.kb import kb, kb_fit
from hgr_jax.measures.kde import kde
from hgr_jax.measures.kernel_cca import kernel_cca
from hgr_jax.measures.kernel_ica_contrast import kernel_ica_contrast
from hgr_jax.measures.nlc import nlc
from hgr_jax.measures.oracle import oracle
from hgr_jax.measures.pearson import pearson
from hgr_jax.measures.rdc import RDCFit, RDCTransform, rdc, rdc_fit
from hgr_jax.measures.sk import sk, sk_fit
from hgr_jax.measures.spearman import spearman
from hgr_jax.measures.spectrum import spectrum, spectrum_fit, total

if TYPE_CHECKING:
    from hgr_jax.measures.neural_network import NeuralFit, NeuralTransform, neural, neural_fit

__all__ = [
    "AceCurve",
    "AceFit",
    "NeuralFit",
    "NeuralTransform",
    "RDCFit",
    "RDCTransform",
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
    "rdc",
    "rdc_fit",
    "sk",
    "sk_fit",
    "spearman",
    "spectrum",
    "spectrum_fit",
    "total",
]


def __getattr__(name: str) -> Any:
    if name in ("NeuralFit", "NeuralTransform", "neural", "neural_fit"):  # they need flax and optax
        return getattr(importlib.import_module("hgr_jax.measures.neural_network"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
