"""HGR of one pair from functions of both variables: the estimate and its interval, on the host.

What `hgr_jax.hgr_fit` does with functions of ranks under `jit`, for any functions: those of ranks,
indicators of levels, or residuals of either.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.linalg import top_singular_triples
from hgr_jax.core.host.polynomials import PolynomialPair
from hgr_jax.core.host.ranks import hgr_of_moments
from hgr_jax.core.ranks import (
    FOLDS,
    Average,
    Blocks,
    ends_of_interval,
    highest_supported,
    independence_pvalue,
)


@dataclasses.dataclass(frozen=True)
class HGREstimate:
    """An estimate of HGR.

    Attributes:
      pair: 1, and functions of both variables.
      numbers: whether a side has functions of ranks, in order (`hgr_of_moments`).
      rows: the effective number of rows.
      noise: variance that is added to each function of `pair`, ``(1 + h + k, 1)``: residuals that
        are small beside it are no evidence.
    """

    pair: PolynomialPair
    numbers: tuple[bool, bool]
    rows: float
    noise: Floats | float = 0.0

    @functools.cached_property
    def moments(self) -> Floats:
        """Means of the products of orthonormalised functions of both variables, ``(h, k)``."""
        functions = self.pair.functions
        gram = (functions * self.pair.shares) @ functions.T
        return np.asarray(self._whitened(gram[..., None])[0][..., 0])

    @functools.cached_property
    def average(self) -> tuple[Average, Blocks]:
        """The average of the blocks, of one pair, and these."""
        return average_of_moments(self.moments, self.rows, self.numbers)

    @property
    def value(self) -> float:
        """The estimate."""
        return float(self.average[0].value[0])

    @property
    def pvalue(self) -> float:
        """The p-value of independence by the highest score."""
        return float(independence_pvalue(self.average[0].score[0], self.rows))

    @functools.cached_property
    def held_out(self) -> tuple[float, float]:
        """Correlation, on rows held out, of functions found on the others; its standard error."""
        functions, shares = self.pair.functions, self.pair.shares
        (average, blocks), count = self.average, self.pair.directions[0]
        weights = np.zeros((max(blocks.rows), max(blocks.columns)))
        for weight, h, k in zip(average.weights[:, 0], blocks.rows, blocks.columns, strict=True):
            weights[:h, :k] += weight
        weights = weights[: self.moments.shape[0], : self.moments.shape[1]]
        part = parts_of_rows(len(shares))
        weighted = functions * shares
        grams = [weighted[:, part == i] @ functions[:, part == i].T for i in range(FOLDS)]
        without = np.stack([sum(grams) - gram for gram in grams], axis=-1)
        m, map_a, map_b = self._whitened(without)
        _, u, v = top_singular_triples(m * weights[..., None])
        means = without[0] / np.maximum(without[0, 0], 1e-300)
        f, g = np.empty((2, len(shares)))
        for i in range(FOLDS):
            at = part == i
            centred = functions[1:, at] - means[1:, i, None]
            f[at] = (map_a[..., i].T @ u[:, i]) @ centred[:count]
            g[at] = (map_b[..., i].T @ v[:, i]) @ centred[count:]
        return _correlation_of(f, g, shares)

    def interval(self, pvalue: float, level: float) -> tuple[float, float]:
        """Return an interval, as `hgr_jax.HGRFit.interval` does; ``pvalue`` is of independence."""
        average, blocks = self.average
        highest = highest_supported(average, blocks, np.array([self.rows]))
        low, high = ends_of_interval(
            average.value, self.held_out, highest, pvalue, self.rows, level
        )
        return float(low[0]), float(high[0])

    def _whitened(self, grams: Floats) -> tuple[Floats, Floats, Floats]:
        """Return `PolynomialPair.whitened` of moments ``(m, m, N)`` with the noise."""
        if np.any(self.noise):
            diagonal, grams = np.arange(len(grams)), grams.copy()
            grams[diagonal, diagonal] += self.noise * grams[0, 0]
        return self.pair.whitened(grams)


def average_of_moments(
    m: Floats, rows: float, numbers: tuple[bool, bool]
) -> tuple[Average, Blocks]:
    """Return `hgr_of_moments` of one pair, with ``m (h, k)``; functions that are 0 do not count."""
    h, k = (np.array([np.count_nonzero(m.any(axis=axis))]) for axis in (1, 0))
    return hgr_of_moments(m[..., None], (h, k), np.array([rows]), numbers)


def parts_of_rows(rows: int) -> Integers:
    """Return the part of each row ``(n,)``, from 0, as `hgr_jax.hgr_fit` divides the rows."""
    group, place = np.divmod(np.arange(rows, dtype=np.uint32), np.uint32(FOLDS))
    turn = ((group * np.uint32(0x9E3779B9) >> np.uint32(16)) * np.uint32(FOLDS)) >> np.uint32(16)
    return (place.astype(np.int64) - turn) % FOLDS


def _correlation_of(f: Floats, g: Floats, shares: Floats) -> tuple[float, float]:
    """Return the correlation of functions of mean near 0, and its standard error."""
    f, g = (x / np.sqrt(max(float(shares @ (x * x)), 1e-300)) for x in (f, g))
    correlation = np.clip(shares @ (f * g), -1, 1)
    psi = shares * (f * g - correlation * (f * f + g * g) / 2)
    return float(correlation), float(np.sqrt(np.sum(psi**2)))
