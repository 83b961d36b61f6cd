"""Dependence measures, of one shape: ``measure(a, b, *, ...) -> scalar``.

A module checks the arguments, documents its measures, and compiles them for few numbers of rows; a
``*_fit`` twin returns the transformations too.

* `hgr`: HGR itself, by functions of the ranks; `conditional_hgr`: given other variables;
* `kb`, `sk`: HGR by kernels; `spectrum`: all modes, and their `total`;
* `ace`, `rdc`, `kde` (with `chi2`) and `neural_network` (`neural`, which imports optax
  when it is first asked for): other estimates of HGR;
* `pair_sums`: `distance_correlation` and `hsic`; `kernel_cca`: also `kernel_ica_contrast`;
* `classical`: `pearson`, `spearman`, and `oracle`, under known transformations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hgr_jax._optional import names_in_modules
from hgr_jax.core.fits import CopulaTransform, SKFit
from hgr_jax.core.modes import SpectrumTransform
from hgr_jax.measures.ace import AceCurve, AceFit, ace, ace_fit
from hgr_jax.measures.classical import oracle, pearson, spearman
from hgr_jax.measures.hgr import hgr
from hgr_jax.measures.kb import kb, kb_fit
from hgr_jax.measures.kde import chi2, kde
from hgr_jax.measures.kernel_cca import kernel_cca, kernel_ica_contrast
from hgr_jax.measures.pair_sums import distance_correlation, hsic
from hgr_jax.measures.rdc import rdc
from hgr_jax.measures.sk import sk, sk_fit
from hgr_jax.measures.spectrum import spectrum, spectrum_fit, total

if TYPE_CHECKING:
    from hgr_jax.measures.neural_network import NeuralFit, NeuralTransform, neural, neural_fit

__all__ = [
    "AceCurve",
    "AceFit",
    "CopulaTransform",
    "NeuralFit",
    "NeuralTransform",
    "SKFit",
    "SpectrumTransform",
    "ace",
    "ace_fit",
    "chi2",
    "distance_correlation",
    "hgr",
    "hsic",
    "kb",
    "kb_fit",
    "kde",
    "kernel_cca",
    "kernel_ica_contrast",
    "neural",
    "neural_fit",
    "oracle",
    "pearson",
    "rdc",
    "sk",
    "sk_fit",
    "spearman",
    "spectrum",
    "spectrum_fit",
    "total",
]


__getattr__ = names_in_modules(
    __name__,
    {"neural_network": ("NeuralFit", "NeuralTransform", "neural", "neural_fit")},  # loads optax
)


def __dir__() -> list[str]:
    return __all__
