"""Kernels to pass as ``h``, ``k`` or ``d``, beside degrees and functions of your own."""

from hgr_jax.core.kernels import Indicators, KernelLike, polynomial_kernel

__all__ = ["Indicators", "KernelLike", "polynomial_kernel"]
