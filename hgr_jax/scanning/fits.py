"""[pair_fits] The fit of one pair of a scan: its kernels, and transformations that take labels.

[single_pair] One pair of a scan in full, on the host: its transformations, and what one row makes of it.

`hgr_jax.kb_fit` gives the same as JAX functions, of which every number of rows and kind of column
would be a program; the pairs that are shown are few and all different.

"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax._checks import as_real_array
from hgr_jax._texts import near_matches
from hgr_jax.core.basis import PolynomialBasis
from hgr_jax.core.canonical import Transformation
from hgr_jax.core.fits import KBFit, is_dominant
from hgr_jax.core.formulas import formula
from hgr_jax.core.host.polynomials import (
    PolynomialPair,
    Polynomials,
    fit_pair,
    stieltjes,
    tolerance,
)
from hgr_jax.core.kernels import Encoder, Indicators
from hgr_jax.core.partial import EXPLAINED
from hgr_jax.core.transforms import CopulaTransform
from hgr_jax.measures import kb_fit
from hgr_jax.scanning.residuals import known_on, left_of
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


@dataclasses.dataclass(frozen=True)
class Influence:
    """Of one pair: the largest part of the correlation that a row makes, and which rows make most.

    Attributes:
      part: ``max_i w_i f(a_i) g(b_i) / correlation``; 1 / n where all rows make the same.
      row: its position in the table, from 0.
      without: the correlation without that row.
      rows: positions of the rows that make most, most first.
      dominates: whether the row makes a large part, as `Status.ONE_ROW` of a fit says.
    """

    part: float
    row: int
    without: float
    rows: tuple[int, ...]
    dominates: bool


@dataclasses.dataclass(frozen=True)
class HostTransformation:
    """A transformation as NumPy knows it: a polynomial, or a value for each level."""

    kernel: int | Indicators
    coefficients: Floats
    basis: Polynomials | None
    levels: Floats

    def __call__(self, x: Floats) -> Floats:
        """Return the transformation at ``x (n,)``, of levels their codes."""
        if self.basis is None:
            return np.asarray(self.levels[x.astype(int)])
        p = self.basis(np.asarray(x, np.float64)[None])[1:, 0]
        return np.asarray(self.coefficients @ p[: len(self.coefficients)])

    def of_levels(self, places: Integers | None) -> HostTransformation:
        """Return this of levels, of which each is at a place ``(levels,)``, or nowhere: -1."""
        if places is None:
            return self
        return dataclasses.replace(self, levels=np.where(places < 0, 0, self.levels[places]))

    def formula(self, name: str, digits: int = 3) -> str:
        """Return the polynomial as text, as `hgr_jax.CopulaTransform.formula` does."""
        assert self.basis is not None
        basis, degree = self.basis.pruned(), self.basis.degree
        scale, center = basis.scale[0], basis.center[0] * basis.scale[0]
        rows = (basis.diagonal, basis.coupling, basis.step)
        recurrence = np.concatenate(
            [np.stack([row[:, 0] for row in rows]), basis.correction[..., 0].T]
        )
        coefficients = np.zeros(1 + degree)
        coefficients[1 : 1 + len(self.coefficients)] = self.coefficients
        fitted = cast(Any, PolynomialBasis)(np.array([scale, center]), recurrence)
        side = cast(Any, Transformation)(fitted, coefficients)  # text needs no arrays of JAX
        return formula(Encoder(degree), side, [name], digits)


@dataclasses.dataclass(frozen=True)
class SinglePair:
    """A pair in full; None of the parts is where there is no correlation.

    With given columns, ``left`` is what they leave of f and of g, ``(n,)`` each, NaN in rows that
    are not used; None without.
    """

    f: HostTransformation
    g: HostTransformation
    influence: Influence
    left: tuple[Floats, Floats] | None = None

    def of_levels(self, first: Integers | None, second: Integers | None) -> SinglePair:
        """Return this of levels at places in those that were fitted; None for the same."""
        return dataclasses.replace(self, f=self.f.of_levels(first), g=self.g.of_levels(second))


def in_full(
    a: Floats,
    b: Floats,
    weights: Floats | None,
    kernels: tuple[int | Indicators, int | Indicators],
    *,
    single: bool,
    listed: int = 20,
    known: Floats | None = None,
) -> SinglePair | None:
    """Fit ``a`` and ``b (n,)``, and find the rows that make most of their correlation.

    Args:
      a, b: NaN where missing.
      weights: ``(n,)`` or None.
      kernels: of a and of b.
      single: whether one side is linear, as in HGR-SK.
      listed: how many rows are named.
      known: ``(1 + r, n)``, 1 and orthonormal functions of given columns, or None.

    Returns:
      None where there is no correlation.
    """
    usable = ~(np.isnan(a) | np.isnan(b))
    if weights is not None:
        usable &= weights > 0
    rows = np.flatnonzero(usable)
    if len(rows) < 2:
        return None
    w = np.ones(len(rows)) if weights is None else weights[rows].copy()
    columns = a[rows], b[rows]
    fitted = fit_pair(*columns, w, kernels)
    count = fitted.directions[0]
    f, g = fitted.functions[1 : 1 + count], fitted.functions[1 + count :]
    if not (len(f) and len(g)):
        return None
    maps: tuple[Floats, Floats] = np.eye(len(f)), np.eye(len(g))
    functions = f, g
    if known is not None:
        (f, of_f), (g, of_g) = _left(functions, known_on(known, rows, w), fitted.shares)
        maps = of_f, of_g
    linear = [
        len(part) if isinstance(kernel, Indicators) else 1
        for part, kernel in zip((f, g), kernels, strict=True)
    ]
    blocks = [(len(f), linear[1]), (linear[0], len(g))] if single else [(len(f), len(g))]
    correlation, u, v = _best((f * fitted.shares) @ g.T, blocks)
    if not correlation > 0:
        return None
    sign = 1 if u[np.argmax(np.abs(u))] > 0 else -1  # as a fit has it
    both = sign * u @ f[: len(u)], sign * v @ g[: len(v)]
    u, v = (x @ of[: len(x)] for x, of in zip((u, v), maps, strict=True))
    parts = fitted.shares * both[0] * both[1]
    most = np.argsort(-parts)[:listed]
    w[most[0]] = 0
    part = float(parts[most[0]] / correlation)
    if known is None:
        without = _value_with(fitted, w, blocks)
    else:
        others = np.arange(len(rows)) != most[0]
        without = _value_given(functions, known[:, rows], w, others, blocks)
    influence = Influence(
        part=part,
        row=int(rows[most[0]]),
        without=without,
        rows=tuple(rows[most].tolist()),
        dominates=bool(is_dominant(part, fitted.shares[most[0]], correlation)),
    )
    sides = [
        _transformation(
            x, sign * vector @ basis[: len(vector)], fitted.shares, sign * vector, kernel
        )
        for x, basis, vector, kernel in zip(columns, functions, (u, v), kernels, strict=True)
    ]
    left = None
    if known is not None:
        left = np.full(len(a), np.nan), np.full(len(b), np.nan)
        left[0][rows], left[1][rows] = both
    return SinglePair(sides[0], sides[1], influence, left)


def _left(
    functions: tuple[Floats, Floats], known: Floats, shares: Floats
) -> list[tuple[Floats, Floats]]:
    """Return what known functions leave of both variables', and the maps that make it."""
    return [left_of(side, known, shares, EXPLAINED["float64"]) for side in functions]


def _value_given(
    functions: tuple[Floats, Floats],
    known: Floats,
    weights: Floats,
    chosen: NDArray[np.bool_],
    blocks: list[tuple[int, int]],
) -> float:
    """Return the correlation of what is left on some of the rows."""
    rows = np.flatnonzero(chosen)
    if len(rows) < 2:
        return 0.0
    shares = weights[rows] / weights[rows].sum()
    sides = functions[0][:, rows], functions[1][:, rows]
    (f, _), (g, _) = _left(sides, known_on(known, rows, weights[rows]), shares)
    return min(_best((f * shares) @ g.T, blocks)[0], 1.0)


def _value_with(fitted: PolynomialPair, weights: Floats, blocks: list[tuple[int, int]]) -> float:
    """Return the correlation with other weights ``(n,)``."""
    if not weights.any():
        return 0.0
    gram = (fitted.functions * weights) @ fitted.functions.T
    return min(_best(fitted.whitened(gram[..., None])[0][..., 0], blocks)[0], 1.0)


def _transformation(
    x: Floats, values: Floats, shares: Floats, vector: Floats, kernel: int | Indicators
) -> HostTransformation:
    if isinstance(kernel, Indicators):
        levels = np.zeros(kernel.count)
        levels[x.astype(int)] = values
        return HostTransformation(kernel, vector, None, levels)
    noise = tolerance(x.dtype)
    basis, _ = stieltjes(x[None].astype(np.float64), shares[None], kernel, tolerance=noise)
    return HostTransformation(kernel, vector, basis, np.zeros(0))


def _best(m: Floats, blocks: list[tuple[int, int]]) -> tuple[float, Floats, Floats]:
    """Return the largest of the top singular values of leading blocks of ``m``, and its vectors."""
    solved = [np.linalg.svd(m[:h, :k], full_matrices=False) for h, k in blocks]
    u, values, v = max(solved, key=lambda found: found[1][0])
    return float(values[0]), u[:, 0], v[0]
