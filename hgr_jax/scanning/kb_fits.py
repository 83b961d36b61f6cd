"""The fit of a pair of a scan by HGR-KB, whose transformations take labels."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from hgr_jax.core.fits import CopulaTransform, KBFit, takes_one_value
from hgr_jax.measures.kb import kb_fit
from hgr_jax.tables.levels import codes_of_labels

FIT_TOLERANCE = 1e-3
"""Largest difference between the values of a scan and a fit without a warning."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class CategoryTransform(CopulaTransform):
    """A copula transformation of a category: of its labels, or of their positions.

    Attributes:
      levels: levels of the category.
      pooled: rare labels, which the last level replaces.
    """

    levels: tuple[str, ...] = dataclasses.field(default=(), metadata={"static": True})
    pooled: tuple[str, ...] = dataclasses.field(default=(), metadata={"static": True})

    @takes_one_value
    def __call__(self, x: ArrayLike, given: ArrayLike | None = None) -> Array:
        """Return values ``(n,)`` at labels of the category, or at positions in its levels.

        A scalar at one of them.
        """
        host = None if isinstance(x, Array) else np.asarray(x)
        if host is None or host.dtype.kind not in "OUT" or host.ndim != 1:
            return CopulaTransform.__call__(self, x, given)
        codes = codes_of_labels(host, self.levels, self.pooled)
        return CopulaTransform.__call__(self, codes, given)


def kb_fit_of(scan: Any, names: tuple[str, str], kernels: tuple[Any, Any]) -> KBFit:
    """Fit two columns of a `Scan` by their kernels."""
    a, b = names
    first, second = scan.values(a), scan.values(b)
    keep = ~(np.isnan(first) | np.isnan(second))
    weights = scan._weights
    if not keep.all():  # weights of 0, not fewer rows, so that all pairs share a program
        weights = np.where(keep, 1.0 if weights is None else weights, 0.0)
    best = kb_fit(jnp.asarray(first), jnp.asarray(second), *kernels, weights=weights)
    scanned = scan._value("correlation", a, b)
    differs = not abs(float(best.correlation) - scanned) <= FIT_TOLERANCE
    if differs and np.isfinite(scanned):
        warnings.warn(
            f"the fit of {a!r} and {b!r} has correlation {float(best.correlation):.4f}, where"
            f" the scan found {scanned:.4f}: {best.alpha.dtype} has too few digits for the"
            " values; enable 64-bit types (jax_enable_x64), or take a constant off the columns",
            stacklevel=3,
        )
    return _with_levels(best, [scan.category(name) for name in (a, b)])


def _with_levels(fit: KBFit, categories: list[Any]) -> KBFit:
    """Let the transformations of categories take their labels."""
    sides: dict[str, Any] = {}
    for side, category in zip("fg", categories, strict=True):
        if category is not None:
            plain = getattr(fit, side)
            sides[side] = CategoryTransform(
                plain.encoder, plain.side, levels=category.levels, pooled=category.pooled
            )
    return dataclasses.replace(fit, **sides) if sides else fit
