"""The regression of functions of ranks on other variables Z: residuals of X given Z.

1. *Functions.*  A number has orthonormal functions of its ranks (`hgr_jax.core.ranks`), a category
   the indicators of its levels (`Variable`).
2. *Regression.*  `Conditioning` regresses those of X on one design of Z: functions of the ranks of
   each column, indicators, and a Gaussian kernel of all columns at some landmarks.  It is a ridge
   regression.  Generalised cross-validation finds the best penalty for each function, and a smaller
   one is taken: the bias of a regression makes false discoveries, its variance does not.  Jumps
   along a column of Z, or along the best linear predictor, are taken out one by one.
3. *Second look.*  The residual of X has functions of its own ranks, which are residualised too.

Source: Zhang, Peters, Janzing & Schölkopf, "Kernel-based conditional independence test" (2011), for
the regression by kernels.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax.core.host.linalg import memberships
from hgr_jax.core.host.polynomials import centred_indicators
from hgr_jax.core.host.ranks import RankedColumn, effective_row_count

DEGREE, OF_RESIDUAL = 6, 3
"""Largest number of functions of a number, and of the ranks of its residual."""

OF_A_COLUMN, BESIDE_OTHERS = 16, 8
"""Largest number of functions of a number, and of a column of Z beside others; alone it has up to
64, those of the last look of an estimate."""

LINEAR = 10.0
"""Weight of the first function of a column of Z in the design: a linear regression is hardly
penalised, and so costs as many rows as it has columns."""

MOST_CODES, ROWS_PER_CODE = 64, 4
"""Largest number of distinct values of a column of Z whose levels have indicators too, as they may
be codes without an order; and smallest number of rows for each."""

LANDMARKS, MOST_LANDMARKS, LANDMARK_SHARE = 50, 200, 0.4
"""Rows at which the kernel is centred: for each column of Z beyond the first, at most, and at most
as a share of the rows."""

WIDTH = 0.7
"""Width of the kernel, in units of normal scores and of the root of the number of columns."""

PENALTIES = np.geomspace(1e-7, 12.0, 26)
"""Penalties of the ridge regression, in units of the variance of a function of Z."""

UNDERSMOOTHING = 4
"""Number of steps to smaller penalties than the best for prediction."""

MOST_DEGREES_OF_FREEDOM, MOST_DIRECTIONS = 0.5, 0.6
"""Largest share of the rows that a regression uses up, and that its design has directions."""

JUMP_SHARE, JUMP_ROWS = 0.04, 15
"""Share of the rows on either side of a jump that show it, and their smallest number."""

NEAR_JUMP = 20
"""Smallest number of rows near a step, for each column of Z, that refit its direction."""

MOST_JUMPS, LEAST_JUMP = 4, 15.0
"""Largest number of jumps, and smallest sum of squares of one, of three functions, over its
variance: three independent functions pass it at one place in 500."""

JITTER = 0.06
"""Noise in the ranks, in standard deviations, that residuals are taken to have: smaller ones are
no evidence."""

LEAST_GIVEN_ROWS = 10
"""Smallest number of rows for which callers regress."""

FLOAT32_ROWS = 20_000
"""Number of rows from which on designs and residuals are in float32, and jumps are looked for among
so many."""

CACHED_ROWS = 2**12
"""Number of rows whose functions are in the processor's cache at a time."""


@dataclasses.dataclass(frozen=True)
class Variable:
    """The functions of a variable.

    Attributes:
      functions: ``(k, n)``, orthonormal; of a category the indicators of its levels.
      places: ``(k,)``, from 1: where they stand among the functions of ranks; 1 for indicators.
      coordinates: ``(d, n)``, of unit variance, for distances between rows.
      codes: ``(n,)``, the levels of a discrete variable: a category, or a number of at most
        `DEGREE` distinct values.  None for others.
      is_category: whether it is a category.
      indicators: of the values of a number that has few, which may be codes, ``(levels, n)``.
      alone: returns more functions of a number, ``(n, k)``.
    """

    functions: Floats
    places: Floats
    coordinates: Floats
    codes: Integers | None = None
    is_category: bool = False
    indicators: Floats | None = None
    alone: Callable[[], Floats] | None = None

    @property
    def is_discrete(self) -> bool:
        """Whether it is a category, or a number of few distinct values."""
        return self.codes is not None

    @classmethod
    def of_number(cls, x: Floats, weights: Floats | None = None) -> Variable:
        """Return the functions of finite numbers ``(n,)``."""
        column = RankedColumn.of_values(x, weights)
        f = column.functions(OF_A_COLUMN)
        places = np.arange(1.0, len(f) + 1)
        is_tied = column.of_levels is not None
        if (is_tied and len(column.linear) <= DEGREE) or not len(f):
            return cls(f, places, f, column.codes)
        share, rows = (column.linear / np.sqrt(12) + 0.5)[column.codes], len(x)
        from scipy import special  # loads slowly

        scores = special.ndtri(np.clip(share, 0.5 / rows, 1 - 0.5 / rows))
        indicators = None
        if is_tied and len(column.linear) <= min(MOST_CODES, rows / ROWS_PER_CODE):
            shares = np.full(rows, 1 / rows) if weights is None else weights / weights.sum()
            indicators = centred_indicators(column.codes, shares, len(column.linear))
        alone = functools.partial(
            column.wide_functions, effective_row_count(rows, weights), weights
        )
        return cls(f, places, scores[None], indicators=indicators, alone=alone)

    @classmethod
    def of_levels(cls, codes: Integers, weights: Floats | None = None) -> Variable:
        """Return the indicators of the levels of a category, from codes ``(n,)``."""
        shares = np.ones(len(codes)) if weights is None else weights
        f = centred_indicators(codes, shares / shares.sum(), int(codes.max()) + 1)
        return cls(f, np.ones(len(f)), f, codes, is_category=True)


@dataclasses.dataclass(frozen=True)
class LevelMoments:
    """Moments of functions of a discrete variable given Z, by probabilities of its levels.

    Attributes:
      variance, fourth: second and fourth central moments at each row, ``(k, n)``.
      correlation: mean correlation of the functions, ``(k, k)``.
    """

    variance: Floats
    fourth: Floats
    correlation: Floats

    @classmethod
    def of(cls, values: Floats, probabilities: Floats, shares: Floats) -> LevelMoments:
        """Return the moments of functions with ``values (k, levels)``."""
        mean = values @ probabilities
        second, third, fourth = (values**power @ probabilities for power in (2, 3, 4))
        variance = np.maximum(second - mean**2, 0)
        fourth = fourth - 4 * mean * third + 6 * mean**2 * second - 3 * mean**4
        total = (values * (probabilities @ shares)) @ values.T
        covariance = total - (mean * shares) @ mean.T
        size = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        return cls(variance, np.maximum(fourth, 0), covariance / np.outer(size, size))


@dataclasses.dataclass(frozen=True)
class ConditionalResiduals:
    """Residuals of a variable given Z.

    Attributes:
      values: ``(k, n)``: of its functions, then of functions of the ranks of its residual; in
        float32 where there are `FLOAT32_ROWS` rows.
      places: ``(k,)``, of the functions.
      is_second: ``(k,)``, mask of functions of its residual.
      unfitted: squared share of each direction of the design that the regression does not take out,
        ``(k, r)``.
      noise: factor of the variance of each, by `JITTER`, ``(k,)``.
      share: share of the variance of the first function that Z does not explain.
      levels: moments of the functions of a discrete variable, None for others.
    """

    values: Floats
    places: Floats
    is_second: NDArray[np.bool_]
    unfitted: Floats
    noise: Floats
    share: float
    levels: LevelMoments | None = None


class Conditioning:
    """The regression of functions on the columns of Z.

    Attributes:
      rows, effective_rows: number of rows, and the effective one by the weights.
      weights, shares, roots: weights ``(n,)`` or None; of sum 1; and the roots of those of mean 1.
      design: features of the columns, centred, ``(m, n)``.
      map: from these to r orthonormal directions, ``(m, r)``.
      fitted: share of each direction that is taken out, for each of `PENALTIES`.
      least: the first penalty that leaves enough rows.
      lines, scores: first functions and normal scores of the numbers among the columns, ``(d, n)``.
      orders: rows in which jumps are looked for, in the order of each line.
    """

    def __init__(self, given: Sequence[Variable], rows: int, weights: Floats | None = None) -> None:
        """Decompose the design of the columns."""
        self.rows, self.weights = rows, weights
        self.shares = np.full(rows, 1 / rows) if weights is None else weights / weights.sum()
        self.roots = 1.0 if weights is None else np.sqrt(rows * self.shares)
        self.effective_rows = effective_row_count(rows, weights)
        self.numbers = [z for z in given if not z.is_discrete and len(z.functions)]
        self.lines = np.array([z.functions[0] for z in self.numbers]).reshape(-1, rows)
        self.jump_rows = np.arange(rows)
        if rows > FLOAT32_ROWS:
            sample = np.random.default_rng(0).choice(rows, FLOAT32_ROWS, replace=False)
            self.jump_rows = np.sort(sample)
        self.orders = np.array([self._order(line) for line in self.lines], np.intp)
        self.scores = np.concatenate([np.zeros((0, rows)), *(z.coordinates for z in self.numbers)])
        dtype: Any = np.float32 if rows >= FLOAT32_ROWS else np.float64
        self.design = _design(given, rows, dtype)
        self.design -= (self.design @ self.shares.astype(dtype))[:, None]
        weighted: Floats = self.design
        if weights is not None:
            weighted = (weighted * (rows * self.shares)).astype(dtype)
        gram = weighted @ self.design.T
        values, vectors = np.linalg.eigh(gram.astype(np.float64) / rows)
        rounding = 1e-6 if rows >= FLOAT32_ROWS else 1e-9
        used = values > max(rounding * values.max(initial=0), rounding**2)
        used[: -max(1, int(MOST_DIRECTIONS * self.effective_rows))] = False
        self.map = vectors[:, used] / np.sqrt(values[used])
        self.fitted = values[used] / (values[used] + PENALTIES[:, None])
        degrees = 1 + self.fitted.sum(axis=1)
        self.least = int(np.argmax(degrees < MOST_DEGREES_OF_FREEDOM * self.effective_rows))
        spare_rows = np.maximum(self.effective_rows - degrees, 1e-9)
        self.log_spare_rows = 2 * np.log(spare_rows)[:, None]

    def of_variable(self, variable: Variable) -> ConditionalResiduals:
        """Return the residuals of a variable."""
        most = None if variable.is_category else DEGREE
        f, places = variable.functions[:most], variable.places[:most]
        values, unfitted, jumps = self.regress(f)
        size = self.unexplained_shares(f, values)
        noise = 1 + noise_of_ranks(places) / size
        second: Floats = np.zeros((0, self.rows))
        unfitted_second: Floats = np.zeros((0, unfitted.shape[1]))
        if len(f) and not variable.is_discrete and self.map.size:
            g = RankedColumn.of_values(values[0], self.weights).functions(OF_RESIDUAL)[1:]
            second, unfitted_second = self._residuals(g)
            second = self._without(second, jumps)
        elif len(f) and not variable.is_discrete:
            second, unfitted_second = values[1:OF_RESIDUAL], unfitted[1:OF_RESIDUAL]
        of_second = np.arange(2.0, len(second) + 2)
        more = 1 + (noise[:1].sum() - 1) * _steepness(of_second)
        return ConditionalResiduals(
            np.concatenate([values, second]).astype(self.design.dtype, copy=False),
            np.concatenate([places, of_second]),
            np.arange(len(values) + len(second)) >= len(values),
            np.concatenate([unfitted, unfitted_second]),
            np.concatenate([noise, more]),
            float(size[:1].sum()),
            None if variable.codes is None else self._moments_of_levels(variable.codes, f, jumps),
        )

    def unexplained_shares(self, f: Floats, residuals: Floats) -> Floats:
        """Return the share ``(k,)`` of the variance of functions that their residuals have."""
        total = np.maximum((f * f) @ self.shares, 1e-300)
        return np.asarray(np.clip((residuals * residuals) @ self.shares / total, 1e-12, 1))

    def _moments_of_levels(self, codes: Integers, f: Floats, jumps: Floats) -> LevelMoments:
        """Return moments of functions of levels given Z, by the regression of their indicators."""
        _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
        members = memberships(codes, len(first)).astype(np.float64)
        probabilities = members - self._without(self._residuals(members)[0], jumps)
        probabilities = np.clip(probabilities, 0, 1)
        probabilities /= np.maximum(probabilities.sum(axis=0), 1e-300)
        return LevelMoments.of(f[:, first], probabilities, self.shares)

    def regress(self, f: Floats) -> tuple[Floats, Floats, Floats]:
        """Return residuals ``(k, n)``, unfitted shares ``(k, r)``, and what jumps explain.

        The last are orthonormal functions ``(j, n)``, which the residuals are without.
        """
        values, unfitted = self._residuals(f)
        jumps = self._jumps(values, f, 1 - np.sqrt(unfitted[:1]))
        return self._without(values, jumps), unfitted, jumps

    def _residuals(self, f: Floats, fitted: Floats | None = None) -> tuple[Floats, Floats]:
        """Return residuals ``(k, n)``, and squared shares of unfitted directions, ``(k, r)``.

        ``fitted (k, r)`` are shares of the directions to take out, None for those that suit ``f``.
        """
        f = f - (f @ self.shares)[:, None]
        weighted = (f * self.shares).astype(self.design.dtype)
        c = self.map.T @ (self.design @ weighted.T)
        if fitted is None:
            unexplained = (f * f) @ self.shares - (1 - (1 - self.fitted) ** 2) @ c**2
            score = np.log(np.maximum(unexplained, 1e-300)) - self.log_spare_rows
            score[: self.least] = np.inf
            fitted = self.fitted[np.maximum(score.argmin(axis=0) - UNDERSMOOTHING, self.least)]
        of_design = (self.map @ (fitted.T * c)).astype(self.design.dtype)
        return f - of_design.T @ self.design, (1 - fitted) ** 2

    def _order(self, line: Floats) -> Integers:
        """Return `jump_rows` in the order of ``line``."""
        return self.jump_rows[np.argsort(line[self.jump_rows], kind="stable")]

    def _jumps(self, values: Floats, f: Floats, fitted: Floats) -> Floats:
        """Return orthonormal residuals ``(j, n)`` of steps of Z at which ``values`` jump.

        Steps are residualised with the penalty of the first function of f, by ``fitted (1, r)``, so
        that a step in it is removed whole.
        """
        found: Floats = np.zeros((0, self.rows))
        if not len(f) or not len(self.lines):
            return found
        lines, orders = self.lines, self.orders
        side = max(JUMP_ROWS, int(JUMP_SHARE * orders.shape[1]))
        if 4 * side > orders.shape[1]:
            return found
        several = len(lines) > 1
        if several:
            predictor = self._predictor(f[0], np.arange(self.rows))
            lines = np.concatenate([lines, predictor[None]])
            orders = np.concatenate([orders, self._order(predictor)[None]])
        values, near, edge, reach = values[:3], self.rows, 0.0, np.inf
        for _ in range(MOST_JUMPS):
            places = np.take_along_axis(lines, orders, axis=1)
            size, line, at = _largest_jump((values * self.roots)[:, orders], places, side)
            if size < LEAST_JUMP:
                break
            above = (lines[line] > at).astype(np.float64)
            step = self._without(self._residuals(above[None], fitted)[0], found)
            norm = np.linalg.norm(step * self.roots)
            if norm < 1e-3 * np.sqrt(self.rows):  # the design has it already
                break
            step = step / norm
            found = np.concatenate([found, step])
            values = self._without(values, step)
            is_edge = several and line == len(lines) - 1 and abs(at - edge) < reach
            if is_edge and near > 2 * NEAR_JUMP * len(self.scores):
                # The rows on either side of a step across the columns know its direction best.
                near //= 2
                distance = np.abs(lines[-1] - at)
                chosen = np.argpartition(distance, near)[:near]
                edge, reach = at, distance[chosen].max() / 2
                lines[-1] = self._predictor(f[0], chosen)
                orders[-1] = self._order(lines[-1])
        return found

    def _without(self, values: Floats, basis: Floats) -> Floats:
        """Subtract projections on a basis ``(j, n)``, orthonormal on the (weighted) rows."""
        if not len(basis):
            return values
        weighted = basis if self.weights is None else basis * self.roots**2
        return values - (values @ weighted.T) @ basis

    def _predictor(self, f: Floats, rows: Integers) -> Floats:
        """Return the linear predictor ``(n,)`` of a function by normal scores, of variance 1.

        Its slopes are fitted to some of the rows.
        """
        scores, shares = self.scores[:, rows], self.shares[rows] / self.shares[rows].sum()
        scores = scores - (scores @ shares)[:, None]
        weighted = scores * shares
        slopes = np.linalg.lstsq(weighted @ scores.T, weighted @ f[rows], rcond=None)[0]
        predictor = slopes @ self.scores
        return np.asarray(predictor / max(np.std(predictor), 1e-300))


def _design(given: Sequence[Variable], rows: int, dtype: type[np.floating]) -> Floats:
    """Return the features ``(r, n)`` of the columns of Z."""
    count = len(given)
    functions, scales = list[Floats](), list[Floats]()
    for z in given:
        f: Floats = z.functions
        scale: Floats = np.ones(len(f))
        if not z.is_discrete:
            f = z.alone().T if z.alone is not None and count == 1 else f[:BESIDE_OTHERS]
            scale = np.arange(1.0, len(f) + 1)
            scale[:1] /= LINEAR
        functions.append(f)
        scales.append(scale)
    codes = [z.indicators for z in given if z.indicators is not None]
    functions, scales = functions + codes, scales + [np.ones(len(f)) for f in codes]
    additive = sum(map(len, functions))
    landmarks = min(LANDMARKS * (count - 1), MOST_LANDMARKS, int(LANDMARK_SHARE * rows))
    landmarks = max(landmarks, 0)
    design = np.empty((additive + landmarks, rows), dtype)
    start = 0
    for scale, f in zip(scales, functions, strict=True):
        np.divide(f, (scale * np.sqrt(count))[:, None], out=design[start : start + len(f)])
        start += len(f)
    if landmarks:
        width = WIDTH * np.sqrt(count)
        points = np.concatenate([z.coordinates for z in given]) / width
        centres = points[:, np.linspace(0, rows - 1, landmarks).astype(int)]
        root = np.linalg.cholesky(_gaussian_kernel(centres, centres) + 1e-6 * np.eye(landmarks))
        root, centres = np.linalg.inv(root).astype(dtype), centres.astype(dtype)
        for part in (slice(i, i + CACHED_ROWS) for i in range(0, rows, CACHED_ROWS)):
            kernel = _gaussian_kernel(centres, points[:, part].astype(dtype))
            np.matmul(root, kernel, out=design[additive:, part])
    return design


def _gaussian_kernel(a: Floats, b: Floats) -> Floats:
    """Return ``exp(-|a - b|^2 / 2)`` of all pairs of points ``(d, m)`` and ``(d, n)``."""
    kernel = a.T @ b
    kernel -= 0.5 * np.sum(a * a, axis=0)[:, None]
    kernel -= 0.5 * np.sum(b * b, axis=0)
    np.minimum(kernel, 0, out=kernel)
    return np.exp(kernel, out=kernel)


def _largest_jump(values: Floats, places: Floats, side: int) -> tuple[float, int, float]:
    """Return the size of the largest jump of ``values (k, d, n)``, its line and its place there.

    ``places (d, n)`` are rising along each of the d lines.
    """
    total = np.zeros((*values.shape[:2], values.shape[2] + 1))
    np.cumsum(values, axis=2, out=total[..., 1:])
    rise = total[..., 2 * side :] - 2 * total[..., side:-side] + total[..., : -2 * side]
    variance = 2 * side * np.maximum((values * values).mean(axis=2), 1e-12)
    size = np.sum(rise**2 / variance[..., None], axis=0)
    below, above = places[:, side - 1 : -side], places[:, side : places.shape[1] - side + 1]
    size[below == above] = 0
    line, at = np.unravel_index(np.argmax(size), size.shape)
    return float(size[line, at]), int(line), float(below[line, at] + above[line, at]) / 2


def noise_of_ranks(places: Floats) -> Floats:
    """Return the variance that `JITTER` adds to functions of ranks."""
    return JITTER**2 * _steepness(places)


def _steepness(places: Floats) -> Floats:
    """Return the variance that functions of ranks gain from noise in the ranks of variance 1."""
    waves = np.pi**2 * places**2 / 12
    return np.where(places == 1, 1.0, np.where(places == 2, 5.0, waves))
