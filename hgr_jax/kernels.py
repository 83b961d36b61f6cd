"""Kernels to pass as ``h`` or ``k``, beside degrees and functions of your own.

* `hats`, `splines`: piecewise linear functions and piecewise polynomials, between `quantiles`;
* `fourier`: waves of a period;
* `indicators`: all functions of few values, as of the codes of a category.
"""

from hgr_jax.core.indicators import Indicators
from hgr_jax.core.kernels import (
    KernelLike,
    fourier,
    hats,
    indicators,
    polynomial_kernel,
    quantiles,
    splines,
)

__all__ = [
    "Indicators",
    "KernelLike",
    "fourier",
    "hats",
    "indicators",
    "polynomial_kernel",
    "quantiles",
    "splines",
]
