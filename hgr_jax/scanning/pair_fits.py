"""The fit of one pair of a scan: its kernels, and transformations that take labels."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from hgr_jax._texts import near_matches
from hgr_jax.core.fits import KBFit
from hgr_jax.core.kernels import Indicators
from hgr_jax.core.transforms import CopulaTransform
from hgr_jax.measures import kb_fit
from hgr_jax.tables.encoding import encode_known

FIT_TOLERANCE = 1e-3
"""Between a scan and a fit of the same pair: one of them ran out of digits."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class CategoryTransform(CopulaTransform):
    """A copula transformation of a category: of its labels, or of their positions."""

    levels: tuple[str, ...] = dataclasses.field(metadata={"static": True})

    def __call__(self, x: ArrayLike) -> Array:
        """Return values ``(n,)`` at labels of the category, or at positions in its levels."""
        host = None if isinstance(x, Array) else np.asarray(x)
        if host is None or host.dtype.kind not in "OUT" or host.ndim != 1:
            return super().__call__(x)
        texts = np.array([str(text) for text in host.tolist()], object)
        codes = encode_known(texts, self.levels)
        if (codes < 0).any():
            unknown = texts[codes < 0][0]
            near = near_matches(unknown, self.levels) or f"; it has {', '.join(self.levels[:20])}."
            raise ValueError(f"the category has no level {unknown!r}{near}")
        return super().__call__(codes)


def fit_of(scan: Any, a: str, b: str) -> KBFit:
    """Fit the transformations of one pair of a `Scan`; its method says how."""
    check_fitted(scan)
    first, second = scan.values(a, beside=b), scan.values(b, beside=a)
    kernels = kernels_of(scan, a, b)
    keep = ~(np.isnan(first) | np.isnan(second))
    weights = scan._weights
    if not keep.all():  # as weights, so that all pairs share a program
        weights = np.where(keep, 1.0 if weights is None else weights, 0.0)
    choices = [kernels]
    if scan.settings["method"] == "sk" and all(isinstance(kernel, int) for kernel in kernels):
        choices = [(kernels[0], 1), (1, kernels[1])]
    fits = [kb_fit(first, second, *choice, weights=weights) for choice in choices]
    best = max(fits, key=lambda fit: float(fit.correlation))
    scanned = scan.correlation[scan.names.index(a), scan.names.index(b)]
    if not abs(float(best.correlation) - scanned) <= FIT_TOLERANCE and np.isfinite(scanned):
        warnings.warn(
            f"the fit of {a!r} and {b!r} has correlation {float(best.correlation):.4f}, where"
            f" the scan found {scanned:.4f}: {best.alpha.dtype} has too few digits for the"
            " values; enable 64-bit types (jax_enable_x64), or take a constant off the columns",
            stacklevel=3,
        )
    return with_labels(scan, best, a, b)


def with_labels(scan: Any, fit: KBFit, a: str, b: str) -> KBFit:
    """Return a fit whose transformations of categories take labels."""
    sides: dict[str, Any] = {}
    for side, name, other in (("f", a, b), ("g", b, a)):
        category = scan.category(name, beside=other)
        if category is not None:
            of = getattr(fit, side)
            sides[side] = CategoryTransform(of.encoder, of.side, category.levels)
    return dataclasses.replace(fit, **sides) if sides else fit


def check_fitted(scan: Any) -> None:
    """Check that a scan is of a measure that fits transformations."""
    if scan.settings["method"] not in ("kb", "sk"):
        raise ValueError(f"fit is for a scan of 'kb' or 'sk'; got {scan.settings['method']!r}.")


def kernels_of(scan: Any, a: str, b: str) -> tuple[int | Indicators, int | Indicators]:
    """Return the kernels of two columns, categories with as many levels as any has."""
    own = scan.category(a, beside=b), scan.category(b, beside=a)
    sizes = [len(c.levels) for c in (*scan._columns.categories, *own) if c is not None]
    h, k = _degrees_of(scan, a, b)
    return (
        h if own[0] is None else Indicators(max(sizes)),
        k if own[1] is None else Indicators(max(sizes)),
    )


def _degrees_of(scan: Any, a: str, b: str) -> tuple[int, int]:
    """Return degrees h and k; k and h where the scan has ``b`` as the first of the two."""
    i, j = scan.names.index(a), scan.names.index(b)
    asked, turned = ((scan.pairs == pair).all(axis=1).any() for pair in ((i, j), (j, i)))
    h, k = scan.settings["h"], scan.settings["k"]
    return (k, h) if turned or (i > j and not asked) else (h, k)
