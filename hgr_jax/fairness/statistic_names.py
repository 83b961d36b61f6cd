"""Statistics by names and options: as a penalty may give them, and as files hold them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from jax import Array

from hgr_jax import measures
from hgr_jax.core.kernels import KernelLike
from hgr_jax.fairness.statistic import Statistic
from hgr_jax.fairness.statistics import KB, SK, Function, Neural, Total


def absolute_pearson(z: Array, prediction: Array) -> Array:
    """Return |Pearson's correlation|."""
    return jnp.abs(measures.pearson(z, prediction))


def _plain(function: Callable[..., Array], *, categorical: bool = False) -> Function:
    return Function(function, categorical=categorical, weighted=False, partial=False)


_WITHOUT_OPTIONS = {
    "ace": _plain(measures.ace),
    "chi2": _plain(measures.chi2),
    "distance_correlation": _plain(measures.distance_correlation, categorical=True),
    "hsic": _plain(measures.hsic, categorical=True),
    "kde": _plain(measures.kde),
    "kernel_cca": _plain(measures.kernel_cca, categorical=True),
    "pearson": _plain(absolute_pearson),
}

DIFFERENTIABLE = tuple(sorted((*_WITHOUT_OPTIONS, "kb", "neural", "sk")))
"""Measures that can be penalised by name: on a scale from 0 to 1, with a derivative."""


def statistic_by_name(
    name: str, h: KernelLike = 5, k: KernelLike = 5, *, warm_start: bool = True
) -> Statistic:
    """Return one of `DIFFERENTIABLE`, with kernels and a warm start where it has them."""
    if name == "kb":
        return KB(h, k)
    if name == "sk":
        return SK(k)
    return Neural(warm_start=warm_start) if name == "neural" else _WITHOUT_OPTIONS[name]


CATEGORICAL_MEASURES = tuple(name for name in DIFFERENTIABLE if statistic_by_name(name).categorical)
"""Names of measures that take the one-hot columns of a categorical attribute."""


_IN_FILES = {kind.__name__: kind for kind in (KB, SK, Total, Neural)}

_MARK = "statistic"


def to_plain(value: Any) -> Any:
    """Return the class and options of a statistic as a dictionary, and anything else as it is."""
    if type(value) not in _IN_FILES.values():
        return value
    # Not `asdict`, which would make dictionaries of kernels too: those no file can hold.
    options = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {_MARK: type(value).__name__} | options


def from_plain(value: Any) -> Any:
    """Return what `to_plain` was given.

    Raises:
      TypeError, ValueError: for a dictionary that is of no statistic.
    """
    if not isinstance(value, Mapping) or _MARK not in value:
        return value
    options = dict(value)
    name = options.pop(_MARK)
    if name not in _IN_FILES:
        raise ValueError(f"statistic must be one of {', '.join(_IN_FILES)}; got {name!r}.")
    return _IN_FILES[name](**options)
