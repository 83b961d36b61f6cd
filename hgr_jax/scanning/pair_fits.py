"""The fit of one pair of a scan: its kernels, and transformations that take labels."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from hgr_jax._arrays import Floats, Integers
from hgr_jax._checks import as_real_array
from hgr_jax._texts import near_matches
from hgr_jax.core.fits import KBFit
from hgr_jax.core.kernels import Indicators
from hgr_jax.core.transforms import CopulaTransform
from hgr_jax.measures import kb_fit
from hgr_jax.tables.columns import Columns
from hgr_jax.tables.encoding import Category, encode_known

FIT_TOLERANCE = 1e-3
"""Between a scan and a fit of the same pair: one of them ran out of digits."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class CategoryTransform(CopulaTransform):
    """A copula transformation of a category: of its labels, or of their positions.

    Attributes:
      levels: of the category.
      pooled: rare labels, which the last level stands for.
      places: the code of each level that the fit was of; None for its position.
    """

    levels: tuple[str, ...] = dataclasses.field(metadata={"static": True})
    pooled: tuple[str, ...] = dataclasses.field(default=(), metadata={"static": True})
    places: tuple[int, ...] | None = dataclasses.field(default=None, metadata={"static": True})

    def __call__(self, x: ArrayLike) -> Array:
        """Return values ``(n,)`` at labels of the category, or at positions in its levels."""
        host = None if isinstance(x, Array) else np.asarray(x)
        if host is None or host.dtype.kind not in "OUT" or host.ndim != 1:
            return self._at_positions(x)
        texts = np.array([str(text) for text in host.tolist()], object)
        codes = encode_known(texts, self.levels)
        if self.pooled:
            codes[encode_known(texts, self.pooled) >= 0] = len(self.levels) - 1
        if (codes < 0).any():
            unknown = texts[codes < 0][0]
            near = near_matches(unknown, self.levels) or f"; it has {', '.join(self.levels[:20])}."
            raise ValueError(f"the category has no level {unknown!r}{near}")
        return self._at_positions(codes)

    def _at_positions(self, x: ArrayLike) -> Array:
        if self.places is not None:
            positions = as_real_array("x", x)
            place = positions.astype(jnp.int32)
            known = (
                (place.astype(positions.dtype) == positions)
                & (place >= 0)
                & (place < len(self.places))
            )
            places = jnp.asarray(self.places, jnp.int32)
            x = jnp.where(known, places[jnp.where(known, place, 0)], -1)
        return super().__call__(x)


@dataclasses.dataclass(frozen=True)
class ColumnsToFit:
    """Two columns as they are fitted.

    Attributes:
      values: ``(n,)`` of each, NaN where it is missing.
      kernels: of each.
      places: the codes in ``values`` of the levels of `Scan.category`, None for their positions.
    """

    values: tuple[Floats, Floats]
    kernels: tuple[Any, Any]
    places: tuple[Integers | None, Integers | None] = (None, None)


def columns_to_fit(scan: Any, a: str, b: str) -> ColumnsToFit:
    """Return two columns of a scan as they are fitted.

    Of a category that determines another one, every level is as the level of that in which it lies:
    the value is 1 with any functions of the coarser one, and its few pooled levels are enough.
    """
    exact = next((pair for pair in ((a, b), (b, a)) if pair in scan._exact), None)
    if exact is None:
        values = scan.values(a, beside=b), scan.values(b, beside=a)
        return ColumnsToFit(values, _kernels_of(scan, a, b))
    fine, coarse = (
        scan.category(exact[0], beside=exact[1]),
        scan.category(exact[1], beside=exact[0]),
    )
    of_coarse = coarse.places_in(scan.category(exact[1]))
    within = fine.places_in(coarse)
    places = np.where(within < 0, -1, of_coarse[within]), of_coarse
    first, second = (
        np.where(category.codes < 0, np.nan, place[category.codes])
        for category, place in zip((fine, coarse), places, strict=True)
    )
    kernel = Indicators(max(len(category.levels) for category in scan._columns.categories))
    if exact == (a, b):
        return ColumnsToFit((first, second), (kernel, kernel), places)
    return ColumnsToFit((second, first), (kernel, kernel), places[::-1])


def fit_of(scan: Any, a: str, b: str) -> KBFit:
    """Fit the transformations of one pair of a `Scan`; its method says how."""
    check_fitted(scan)
    if scan.settings["given"]:
        given = ", ".join(scan.settings["given"])
        raise ValueError(
            f"fit is of two columns alone, and this scan is given {given}: in_full has the"
            " transformations, and what is left of them."
        )
    columns = columns_to_fit(scan, a, b)
    (first, second), kernels = columns.values, columns.kernels
    keep = ~(np.isnan(first) | np.isnan(second))
    weights = scan._weights
    if not keep.all():  # as weights, so that all pairs share a program
        weights = np.where(keep, 1.0 if weights is None else weights, 0.0)
    choices = [kernels]
    if scan.settings["method"] == "sk" and all(isinstance(kernel, int) for kernel in kernels):
        choices = [(kernels[0], 1), (1, kernels[1])]
    on_device = (jnp.asarray(first), jnp.asarray(second))  # lost digits are told of below
    fits = [kb_fit(*on_device, *choice, weights=weights) for choice in choices]
    best = max(fits, key=lambda fit: float(fit.correlation))
    scanned = scan.correlation[scan.names.index(a), scan.names.index(b)]
    of_all = scan.settings.get("sample_rows", scan.settings["rows"]) == scan.settings["rows"]
    apart = not abs(float(best.correlation) - scanned) <= FIT_TOLERANCE
    if of_all and apart and np.isfinite(scanned):
        warnings.warn(
            f"the fit of {a!r} and {b!r} has correlation {float(best.correlation):.4f}, where"
            f" the scan found {scanned:.4f}: {best.alpha.dtype} has too few digits for the"
            " values; enable 64-bit types (jax_enable_x64), or take a constant off the columns",
            stacklevel=3,
        )
    return _with_labels(scan, best, a, b, columns)


def _with_labels(scan: Any, fit: KBFit, a: str, b: str, columns: ColumnsToFit) -> KBFit:
    """Return a fit whose transformations of categories take labels."""
    sides: dict[str, Any] = {}
    for side, name, other, places in zip("fg", (a, b), (b, a), columns.places, strict=True):
        category = scan.category(name, beside=other)
        if category is not None:
            of = getattr(fit, side)
            sides[side] = CategoryTransform(
                of.encoder,
                of.side,
                category.levels,
                _pooled_labels(category),
                None if places is None else tuple(places.tolist()),
            )
    return dataclasses.replace(fit, **sides) if sides else fit


def _pooled_labels(category: Category) -> tuple[str, ...]:
    """Return the rare labels that the last level of a category stands for."""
    fine = category.unpooled
    if fine is None:
        return ()
    pooled = np.flatnonzero(fine.places_in(category) == len(category.levels) - 1)
    return tuple(fine.levels[i] for i in pooled)


def check_fitted(scan: Any) -> None:
    """Check that a scan is of a measure that fits transformations."""
    if scan.settings["method"] not in ("kb", "sk"):
        raise ValueError(f"fit is for a scan of 'kb' or 'sk'; got {scan.settings['method']!r}.")


def _kernels_of(scan: Any, a: str, b: str) -> tuple[Any, Any]:
    """Return the kernels of two columns, categories with as many levels as any has."""
    own = scan.category(a), scan.category(b)
    sizes = [len(category.levels) for category in scan._columns.categories]
    h, k = _degrees_of(scan, a, b)
    return (
        h if own[0] is None else Indicators(max(sizes)),
        k if own[1] is None else Indicators(max(sizes)),
    )


def _degrees_of(scan: Any, a: str, b: str) -> tuple[Any, Any]:
    """Return kernels h and k; k and h where the scan has ``b`` as the first of the two."""
    i, j = scan.names.index(a), scan.names.index(b)
    asked, turned = ((scan.pairs == pair).all(axis=1).any() for pair in ((i, j), (j, i)))
    h, k = scan._kernels.h, scan._kernels.k
    return (k, h) if turned or (i > j and not asked) else (h, k)


def columns_of(scan: Any) -> Columns:
    """Return the columns that a `Scan` read; raises a ValueError for one that was loaded."""
    found: Columns = scan._data()
    return found
