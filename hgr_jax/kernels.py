"""Kernels to pass as ``h`` or ``k``, beside degrees and functions of your own.

* `splines`: piecewise polynomials between keypoints;
* `fourier`: waves of a period;
* `Indicators`: all functions of the codes of a category.
"""

from hgr_jax.core.indicators import Indicators
from hgr_jax.core.kernels import (
    KernelLike,
    fourier,
    polynomial_kernel,
    splines,
)

__all__ = [
    "Indicators",
    "KernelLike",
    "fourier",
    "polynomial_kernel",
    "splines",
]
