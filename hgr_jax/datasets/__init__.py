"""Data to measure dependence on: synthetic relationships, each with its oracle."""

from hgr_jax.datasets import synthetic

__all__ = ["synthetic"]
