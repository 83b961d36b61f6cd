"""Say in words, in the units of the variables, what a pair of transformations does.

What a person looks for first is the mean of one variable given the other: of the first function
g_1 of the ranks of y, which just rises,

    E[g_1(y) | x]  =  sum over i of m_i1 f_i(x),      m_i1 the mean product of f_i(x) and g_1(y),

over those moments that are more than chance.  Where it is half of the dependence, it is described,
of the variable that the other explains better: "y is lowest near x = 1.9, and rises on both sides".
Where neither mean says as much, as of a ring, the transformations of both are.  A function of x is
looked at in bins of as many rows each, between 1 and 99% of the rows, so that no outlier decides;
it turns where it comes back by a fifth of its range.  How sure the place of a turn is, halves of
the rows show: what half of the rows has, differs from what all have as much as the latter does from
the truth.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers, in_unit
from hgr_jax._texts import OTHER_LEVELS
from hgr_jax.core.formulas import polynomial_as_text
from hgr_jax.core.host.ranks import ranks

MAX_PVALUE, NO_DEPENDENCE = 0.05, "no dependence found"
"""Largest p-value of a dependence that is described, and what is said of others."""

MOST_BINS, ROWS_PER_BIN = 40, 8
"""Largest number of bins of a variable, and smallest number of rows of one."""

TAILS = 0.01
"""Share of the rows at either end that decide nothing."""

LEAST_MOMENT = 2.5
"""Smallest moment that is more than chance, in standard errors."""

LEAST_SHARE_OF_MEAN, LITTLE_OF_MEAN = 0.5, 0.25
"""Smallest correlation of a variable and its mean given the other, as a share of that of the
transformations, for which the mean is described, and for which it changes with the spread."""

LEAST_TURN = 0.2
"""Smallest way back, as a share of the range of a transformation, that is a turn."""

FLAT, LEAST_PLATEAU = 0.1, 0.5
"""Largest distance from the value at a turn, as a share of the range, of a plateau, and smallest
share of the bins that are one."""

ALMOST_MONOTONE = 0.985
"""Smallest correlation of a function and one that just rises or falls, for which it does not turn:
functions of ranks swing a little beside a step."""

LEAST_MONOTONE = 0.8
"""The same for one whose turns are unsure, for which it is said to rise or fall."""

LEAST_STEP, SURE_STEP, BESIDE_STEP = 1.0, 0.98, 0.05
"""Smallest correlation of a step with the other variable, as a share of that of the mean, for which
it is said to step; where it may be, as a share of its largest; and the smallest share of the rows
on either side, unless they are all that have one of two values."""

LEAST_SPREAD, WIDE, MIDDLE, LEAST_IN_MIDDLE, LEAST_CHANGE = 0.6, 0.25, 0.35, 0.1, 0.13
"""Smallest correlation of a transformation with the distance from the median, for which the spread
may be what changes; share of the rows where it is widest; of the median distance there, the part
where at least so many of these rows are: in a ring or a cross there are none; and the smallest
correlation of that distance and what is left of the other variable beyond its mean."""

MUCH_BETTER = 0.05
"""By how much a mean of the first variable must be the larger share to be described instead."""

PARTS = 16
HALVES = np.array(
    [
        [(i & j).bit_count() % 2 == odd for j in range(1, PARTS) for odd in (0, 1)]
        for i in range(PARTS)
    ],
    float,
)
"""Number of parts of the rows, and which of them are in each half: balanced, ``(PARTS, 30)``."""

SURE_WAY = 0.9
"""Smallest share of the halves that go a way between turns as all rows do."""

MORE_IN_HALVES = 2
"""Number of functions beyond the last moment that is more than chance that halves of the rows have
too: what is left out moves a turn as well.  Known turns are in their ranges in 96 to 100%."""

POINTS = (0.01, 0.25, 0.5, 0.75, 0.99)
"""Shares of the rows below the points at which transformations are written in full."""

LARGEST_OF_NEAR, LEAST_KEPT = 3, 0.95
"""Largest degree of a polynomial that is near to a transformation, and smallest share of the
correlation that it keeps."""

MOST_DECIMALS = 6
"""Largest number of decimals that are said."""

MOST_LEVELS = 10
"""Largest number of levels that are written in full."""

MOST_TURNS_NAMED = 3
"""Largest number of turns that are named; more are an oscillation."""

Format = Callable[..., str]
"""Writes a value of a variable, a number or a date; rounded to some decimals, if they are given."""

Levels = Sequence[str] | None
"""Labels of the levels of a category; None of numbers."""


def number_in_words(value: float, decimals: int | None = None) -> str:
    """Write a number with the digits that one says aloud, or with some decimals."""
    if decimals is not None and decimals <= MOST_DECIMALS:
        comma = "," if abs(value) >= 10_000 else ""
        text = f"{round(value, decimals) + 0.0:{comma}.{max(decimals, 0)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.{3 if abs(value) < 1000 else 4}g}"


@dataclasses.dataclass(frozen=True)
class Bins:
    """Bins of a variable: of as many rows each between 1 and 99% of them, or its few values.

    Attributes:
      points: ``(k,)``, medians of the variable in the bins, rising.
      ends: ``(k, 2)``, their smallest and largest values.
      codes: the bin of each row ``(n,)``, -1 outside.
      counts: ``(k,)``, of rows.
    """

    points: Floats
    ends: Floats
    codes: Integers
    counts: Integers

    @classmethod
    def of(cls, x: Floats) -> Bins:
        """Return the bins of ``x (n,)``."""
        order = np.argsort(x)  # in a tenth of the time of a stable sort
        rising = x[order]
        points = rising[np.append(True, np.diff(rising) > 0)]
        if len(points) < len(x):
            order = np.argsort(x, kind="stable")
        if len(points) <= MOST_BINS:
            codes = np.searchsorted(points, x)
            return cls(points, np.stack([points, points], axis=1), codes, np.bincount(codes))
        cut = int(TAILS * len(x))
        order = order[cut : len(order) - cut]
        rows, bins = len(order), max(2, min(MOST_BINS, len(order) // ROWS_PER_BIN))
        codes = np.full(len(x), -1)
        codes[order] = np.arange(rows) * bins // rows
        first = -(-np.arange(bins + 1) * rows // bins)
        middles = (np.arange(bins) + 0.5) * rows / bins
        ends = np.stack([x[order[first[:-1]]], x[order[first[1:] - 1]]], axis=1)
        return cls(x[order[middles.astype(int)]], ends, codes, np.diff(first))

    def means(self, f: Floats) -> Floats:
        """Return the means ``(k,)`` of a function with values ``f (n,)``."""
        inside = self.codes >= 0
        sums = np.bincount(self.codes[inside], f[inside], minlength=len(self.points))
        return np.asarray(sums / self.counts)


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a transformation does along its variable.

    Attributes:
      points, values: ``(k,)``, medians of the variable in bins, rising, and means of the
        transformation there.
      turns: positions among these of its turns.
      ranges: of each turn, between which values of the variable it is with 90%; empty where that is
        not known.
      is_sure: whether it turns, rises or falls: not where its turns are left out as unsure, and
        without them it is not near to rising or falling.
    """

    points: Floats
    values: Floats
    turns: tuple[int, ...]
    ranges: tuple[tuple[float, float], ...] = ()
    is_sure: bool = True

    @classmethod
    def of(cls, x: Floats, f: Floats) -> Shape:
        """Return the shape of a transformation with values ``f (n,)`` at ``x (n,)``."""
        bins = Bins.of(x)
        return cls.in_bins(bins, bins.means(f))

    @classmethod
    def in_bins(cls, bins: Bins, values: Floats) -> Shape:
        """Return the shape of a transformation with these means in bins."""
        turns = turning_points(values, LEAST_TURN * float(np.ptp(values)))
        if turns and _monotone_share(values, bins.counts) >= ALMOST_MONOTONE:
            turns = ()
        return cls(bins.points, values, turns)

    def confirmed(self, bins: Bins, of_halves: Floats) -> Shape:
        """Return the shape with the turns that halves of the rows have too, and their ranges.

        ``of_halves (k, halves)`` are the values there.  Ways between turns that not nearly all
        halves go are left out; the turns that stay are at their medians.
        """
        turns = [*self.turns]
        while turns:
            ends = np.array([0, *turns, len(self.points) - 1])
            way, ways = np.diff(self.values[ends]), np.diff(of_halves[ends], axis=0)
            sure = np.mean(way[:, None] * ways > 0, axis=1)
            doubtful = int(np.argmin(sure))
            if sure[doubtful] >= SURE_WAY:
                break
            del turns[max(doubtful - 1, 0) : doubtful + 1]
        if not turns and _monotone_share(self.values, bins.counts) < LEAST_MONOTONE:
            return dataclasses.replace(self, turns=(), is_sure=False)
        places, ranges = list[int](), list[tuple[float, float]]()
        ends = np.array([0, *turns, len(self.points) - 1])
        for before, turn, after in zip(ends, turns, ends[2:], strict=False):
            sign = 1 if self.values[turn] > self.values[before] else -1
            at = before + 1 + np.sort(np.argmax(sign * of_halves[before + 1 : after], axis=0))
            place, first, last = at[len(at) // 2], at[1], at[-2]
            off = np.abs(self.values - self.values[place]) > FLAT * np.ptp(self.values)
            if off.mean() < LEAST_PLATEAU:
                first = min(first, np.flatnonzero(off[:place]).max(initial=-1) + 1)
                away = np.flatnonzero(off[place:]).min(initial=len(off) - place)
                last = max(last, place + away - 1)
            places.append(int(place))
            ranges.append((float(bins.ends[first, 0]), float(bins.ends[last, 1])))
        return dataclasses.replace(self, turns=tuple(places), ranges=tuple(ranges))

    @property
    def edges(self) -> Floats:
        """Values that part the variable into its ends and the neighbourhoods of its turns."""
        ends = np.array([0, *self.turns, len(self.points) - 1])
        return self.points[(ends[:-1] + ends[1:]) // 2]

    def turns_as_text(self, form: Format) -> list[str]:
        """Write where it turns, and how sure that is: ``1.5 (between 1.3 and 1.7)``.

        With no more digits than tell a quarter of that range.
        """
        texts = [form(self.points[turn]) for turn in self.turns]
        for i, (low, high) in enumerate(self.ranges):
            if low < high:
                decimals = -math.floor(math.log10((high - low) / 4))
                places = self.points[self.turns[i]], low, high
                at, *ends = (form(float(place), decimals) for place in places)
                texts[i] = f"{at} (between {' and '.join(ends)})"
        return texts

    @property
    def rises(self) -> bool:
        """Whether the values rise, until their first turn."""
        return bool(self.values[self.turns[0] if self.turns else -1] > self.values[0])


def nearly_monotone(values: Floats) -> Floats:
    """Return a function that just rises or falls, between the envelopes of values in order."""
    middle = np.arange(len(values)) - (len(values) - 1) / 2
    sign = 1 if values @ middle > 0 else -1
    above = np.maximum.accumulate(sign * values)
    below = np.minimum.accumulate(sign * values[::-1])[::-1]
    return sign * (above + below) / 2


def _monotone_share(values: Floats, counts: NDArray[np.number]) -> float:
    """Return the correlation of values and a function near to them that just rises or falls."""
    sides = (values, nearly_monotone(values))
    one, other = (x - np.average(x, weights=counts) for x in sides)
    scale = np.sqrt((counts * one**2).sum() * (counts * other**2).sum())
    return float((counts * one * other).sum() / scale) if scale > 0 else 0.0


def turning_points(values: Floats, least: float) -> tuple[int, ...]:
    """Return the positions where values turn, and come back by more than ``least``."""
    turns, low, high, direction = list[int](), 0, 0, 0
    for place in range(1, len(values)):
        low = place if values[place] < values[low] else low
        high = place if values[place] > values[high] else high
        if direction >= 0 and values[high] - values[place] > least:
            if direction:
                turns.append(high)
            direction, low = -1, place
        elif direction <= 0 and values[place] - values[low] > least:
            if direction:
                turns.append(low)
            direction, high = 1, place
        if direction > 0:
            low = place
        elif direction < 0:
            high = place
    return tuple(turn for turn in turns if 0 < turn < len(values) - 1)


class Mean(NamedTuple):
    """The mean of the standardised ranks of one variable given another, in the rows.

    Attributes:
      functions: of the other variable, ``(k, n)``.
      coefficients: of these, ``(k,)``.
      of_halves: the same in halves of the rows, ``(k, halves)``.
    """

    functions: Floats
    coefficients: Floats
    of_halves: Floats

    @classmethod
    def of(cls, f: Floats, g: Floats, shares: Floats, plain: Floats) -> Mean:
        """Return the mean of ``g (n,)`` by orthonormal functions ``f (k, n)``.

        Where these are residuals given other variables, of the ``plain`` functions.
        """
        weighted = g * shares
        moments = f @ weighted
        kept = np.abs(moments) > LEAST_MOMENT * np.sqrt(np.sum(shares**2))
        used = len(kept) - int(np.argmax(kept[::-1])) + MORE_IN_HALVES if kept.any() else 0
        part = np.random.default_rng(0).permutation(len(g)) % PARTS
        sums = [np.bincount(part, x * weighted, minlength=PARTS) for x in f[:used]]
        of_parts = np.bincount(part, shares, minlength=PARTS)
        halves = np.maximum(of_parts @ HALVES, np.finfo(float).tiny)
        of_halves = np.reshape(sums, (-1, PARTS)) @ HALVES / halves
        return cls(plain[:used], np.where(kept, moments, 0)[:used], of_halves)

    @property
    def share(self) -> float:
        """The correlation of the variable and its mean."""
        return float(np.linalg.norm(self.coefficients))

    @property
    def values(self) -> Floats:
        """The mean in the rows, ``(n,)``."""
        return np.asarray(self.coefficients @ self.functions)

    def along(self, x: Floats) -> Shape:
        """Return the shape of the mean along the other variable."""
        bins = Bins.of(x)
        shape = Shape.in_bins(bins, bins.means(self.values))
        if not shape.turns:
            return shape
        in_bins = np.transpose([bins.means(f) for f in self.functions])
        return shape.confirmed(bins, in_bins @ self.of_halves)


class Means(NamedTuple):
    """The mean of the second variable given the first, and the reverse."""

    of_second: Mean
    of_first: Mean

    @classmethod
    def of(
        cls, f: Floats, g: Floats, shares: Floats, plain: tuple[Floats, Floats] | None = None
    ) -> Means:
        """Return the means by orthonormal functions ``(h, n)`` and ``(k, n)`` of both ranks."""
        of_f, of_g = (f, g) if plain is None else plain
        return cls(Mean.of(f, g[0], shares, of_f), Mean.of(g, f[0], shares, of_g))

    @property
    def side(self) -> int:
        """Along which of the two variables the mean of the other says more, 0 or 1."""
        return int(self.of_first.share > self.of_second.share + MUCH_BETTER)


def describe(
    names: tuple[str, str],
    columns: tuple[Floats, Floats],
    levels: tuple[Levels, Levels],
    transformed: tuple[Floats, Floats],
    means: Means,
    formats: tuple[Format, Format] = (number_in_words, number_in_words),
) -> str:
    """Return a sentence on two variables and their transformations in the rows, ``(n,)`` each.

    Args:
      names: of the variables.
      columns: numbers, or codes of levels.
      levels: labels of the levels of a category, or None.
      transformed: values of the transformations.
      means: of two numbers, the mean of each given the other.
      formats: of numbers.
    """
    one, other = levels
    if one is not None and other is not None:
        return _of_levels(names, columns, (one, other))
    whole = abs(float(np.corrcoef(*transformed)[0, 1]))
    if one is not None:
        return _of_level_and_number(names, columns, one, formats[1], whole)
    if other is not None:
        return _of_level_and_number(names[::-1], columns[::-1], other, formats[0], whole)
    for side in (0, 1):
        if means[side].share < LEAST_SHARE_OF_MEAN * whole:
            of = 1 - side
            both = transformed[side], transformed[of]
            spread = _spread_along(columns[side], columns[of], both, means[of].values)
            if spread is not None:
                shape = Shape.of(columns[side], spread)
                spread_of = f"the spread of {names[of]}"
                said = mean_in_words(names[side], spread_of, shape, formats[side])
                less = "changes less" if means[side].share > LITTLE_OF_MEAN * whole else "does not"
                return said if shape.turns else f"{said}, its median {less}"
    if max(mean.share for mean in means) < LEAST_SHARE_OF_MEAN * whole:
        return both_in_words(names, columns, transformed, formats)
    side = means.side
    shape = means[side].along(columns[side])
    step = _step_along(columns[side], columns[1 - side], means[side].share)
    if step is not None:
        is_up, *ends = step
        way, texts = "up" if is_up else "down", [*dict.fromkeys(map(formats[side], ends))]
        where = "between" if len(texts) > 1 else "near"
        return f"{names[1 - side]} steps {way} {where} {names[side]} = {' and '.join(texts)}"
    return mean_in_words(names[side], names[1 - side], shape, formats[side])


def _step_along(x: Floats, y: Floats, share: float) -> tuple[bool, float, float] | None:
    """Return whether the ranks of ``y`` step up, and between which ``x``; None if they do not.

    ``share`` is the correlation of these ranks with their mean along x.
    """
    order = np.argsort(x)
    x, rank = x[order], ranks(y[:, None])[order, 0]
    z = (rank - rank.mean()) / rank.std()
    left, sums = np.arange(1, len(x)), np.cumsum(z)[:-1]
    correlations = np.abs(sums) / np.sqrt(left * (len(x) - left))
    counts = np.unique(y, return_counts=True)[1]
    beside = min(BESIDE_STEP * len(x), counts.min() if len(counts) == 2 else len(x))
    correlations[(x[1:] == x[:-1]) | (left < beside) | (left > len(x) - beside)] = 0
    largest = correlations.max(initial=0)
    if largest < LEAST_STEP * share:
        return None
    sure = np.flatnonzero(correlations >= SURE_STEP * largest)
    return bool(sums[sure[0]] < 0), float(x[sure[0]]), float(x[sure[-1] + 1])


def _spread_along(
    x: Floats, y: Floats, transformed: tuple[Floats, Floats], mean: Floats
) -> Floats | None:
    """Return the transformation of ``x``, rising with the spread of ``y``, if it shows that.

    Args:
      transformed: values of the transformations of x and of y.
      mean: of the standardised ranks of x, along y.

    None where most rows are far from the median of y at once, as in a ring; and where the spread of
    x around its mean does not change with y, so that this mean alone says it.
    """
    y, (f, g) = in_unit(y)[0], transformed
    apart = np.abs(y - np.median(y))
    far, rank = (ranks(z[:, None])[:, 0] for z in (apart, x))
    if np.ptp(far) == 0 or not abs(np.corrcoef(far, g)[0, 1]) >= LEAST_SPREAD:
        return None
    along = f * np.sign(np.corrcoef(far, f)[0, 1])
    wide = apart[along >= np.quantile(along, 1 - WIDE)]
    rest = rank / rank.std() - np.sign(rank @ mean) * mean
    changes = abs(np.corrcoef(np.abs(rest), far)[0, 1])
    in_middle = np.mean(wide <= MIDDLE * np.median(wide))
    return along if in_middle >= LEAST_IN_MIDDLE and changes >= LEAST_CHANGE else None


def mean_in_words(by: str, of: str, shape: Shape, form: Format) -> str:
    """Return a sentence on the mean of one variable along another."""
    if not shape.is_sure:
        return in_other_ways((by, of))
    if not shape.turns:
        return f"{of} {'rises' if shape.rises else 'falls'} with {by}"
    at = shape.turns_as_text(form)
    if len(at) == 1:
        most, then = ("highest", "falls") if shape.rises else ("lowest", "rises")
        return f"{of} is {most} near {by} = {at[0]}, and {then} on both sides"
    if len(at) > MOST_TURNS_NAMED:
        return f"{of} goes up and down several times along {by}"
    ways = ["rises", "falls"] if shape.rises else ["falls", "rises"]
    parts = [f"{ways[i % 2]} until {by} = {point}" for i, point in enumerate(at)]
    return f"{of} {', '.join(parts)}, then {ways[len(at) % 2]}"


def both_in_words(
    names: tuple[str, str],
    columns: tuple[Floats, Floats],
    transformed: tuple[Floats, Floats],
    formats: tuple[Format, Format] = (number_in_words, number_in_words),
) -> str:
    """Return a sentence on the transformations of two numbers; arguments as of `describe`."""
    shapes = [Shape.of(x, f) for x, f in zip(columns, transformed, strict=True)]
    if not (shapes[0].turns and shapes[1].turns):
        side = int(bool(shapes[1].turns))
        sign = 1 if shapes[1 - side].rises else -1
        shape = dataclasses.replace(shapes[side], values=sign * shapes[side].values)
        return mean_in_words(names[side], names[1 - side], shape, formats[side])
    a, b = (
        [form(shape.points[turn]) for turn in shape.turns]
        for shape, form in zip(shapes, formats, strict=True)
    )
    if len(a) == len(b) == 1:
        together = shapes[0].rises == shapes[1].rises
        where, of_ring = ("far from", "") if together else ("near", " (a ring)")
        return f"{names[1]} is far from {b[0]} where {names[0]} is {where} {a[0]}{of_ring}"
    return in_other_ways(names)


def in_other_ways(names: tuple[str, str]) -> str:
    """Return a sentence on a dependence that has no simple shape."""
    return f"{names[1]} depends on {names[0]}, but does not just rise, fall or turn with it"


def in_full(
    names: tuple[str, str],
    columns: tuple[Floats, Floats],
    levels: tuple[Levels, Levels],
    transformed: tuple[Floats, Floats],
    formats: tuple[Format, Format] = (number_in_words, number_in_words),
) -> list[str]:
    """Return lines with the values of two transformations; arguments as of `describe`.

    Of a category at its levels, the lowest first; of a number at points between 1 and 99% of the
    rows, and the polynomial of lowest degree that keeps the correlation.
    """
    lines = list[str]()
    for side, letter in enumerate("fg"):
        x, f, of = columns[side], transformed[side], levels[side]
        name, form = names[side], formats[side]
        points, first = np.unique(x, return_index=True)
        if of is not None:
            order = np.argsort(f[first], kind="stable")[:MOST_LEVELS]
            shown = [f"{of[int(points[i])]} {f[first[i]]:+.2f}" for i in order]
            lines.append(f"{letter}({name}): {', '.join(shown)}")
            continue
        at = np.quantile(x, POINTS)
        cells = [[f"{share:.0%}" for share in POINTS], [*map(form, at)]]
        cells.append([f"{value:+.2f}" for value in np.interp(at, points, f[first])])
        labels = ("share of the rows below", name, f"{letter}({name})")
        wide, widest = max(map(len, labels)), max(len(cell) for row in cells for cell in row)
        for label, row in zip(labels, cells, strict=True):
            lines.append(f"{label:<{wide}}  " + "  ".join(cell.rjust(widest) for cell in row))
        lines += _near_polynomial(labels[2], name, (x, f), transformed[1 - side])
    return lines


def _near_polynomial(
    label: str, name: str, curve: tuple[Floats, Floats], g: Floats
) -> Iterator[str]:
    """Write the polynomial of lowest degree that correlates with g nearly as f does, if there is.

    Between 1 and 99% of the rows; ``curve`` are the values of the variable and of f.
    """
    x, f = curve
    low, high = np.quantile(x, (TAILS, 1 - TAILS))
    inside = (x >= low) & (x <= high)
    x, f, g = x[inside], f[inside], g[inside]
    scale = 2 / (high - low) if high > low else np.inf
    if not np.isfinite([scale, scale * high]).all() or min(np.ptp(f), np.ptp(g)) == 0:
        return
    center = scale * low + 1
    whole = np.corrcoef(f, g)[0, 1]
    for degree in range(1, min(LARGEST_OF_NEAR, len(np.unique(x)) - 2) + 1):
        fit = np.polynomial.Polynomial.fit(scale * x - center, f, degree, window=[-1, 1])
        fit = fit.convert(domain=[-1, 1])
        kept = np.corrcoef(fit(scale * x - center), g)[0, 1]
        if kept >= LEAST_KEPT * whole:
            variable = name if name.isidentifier() else "x"
            coefficients = np.asarray(fit.coef, float)
            text = polynomial_as_text(coefficients, float(scale), float(center), variable)
            yield f"{label} is nearly {text}: {kept:.2f} instead of {whole:.2f}"
            return


def _of_level_and_number(
    names: tuple[str, str],
    columns: tuple[Floats, Floats],
    levels: Sequence[str],
    form: Format,
    whole: float,
) -> str:
    """Return a sentence on the levels of a category in which the median of a number is extreme.

    The mean, where medians are the same; ``whole`` is the correlation of the transformations.
    """
    codes, x = columns[0].astype(int), columns[1]
    present, codes = np.unique(codes, return_inverse=True)
    place = _correlation_ratio(x, codes)
    if place < LEAST_SHARE_OF_MEAN * whole:
        centers = np.array([np.median(x[codes == level]) for level in range(len(present))])
        if _correlation_ratio(np.abs(x - centers[codes]), codes) > place:
            spread = f"the spread of {names[1]} differs between levels of {names[0]}"
            return f"{spread}, its place hardly"
    named = np.flatnonzero([levels[code] != OTHER_LEVELS for code in present])
    shown = named if len(named) > 1 else np.arange(len(present))
    kind, middles = "median", np.array([np.median(x[codes == level]) for level in shown])
    if np.sum(middles == middles.min()) > 1 or np.sum(middles == middles.max()) > 1:
        kind, middles = "mean", np.array([np.mean(x[codes == level]) for level in shown])
    ends = int(np.argmin(middles)), int(np.argmax(middles))
    low, high = (levels[present[shown[end]]] for end in ends)
    middle = [float(middles[end]) for end in ends]
    aside = ", rare levels aside" if len(named) < len(present) else ""
    return (
        f"{names[1]} is lowest where {names[0]} is {low} ({kind} {form(middle[0])}), highest"
        f" where it is {high} ({form(middle[1])}){aside}"
    )


def _correlation_ratio(x: Floats, codes: Integers) -> float:
    """Return the correlation ratio of the ranks of ``x`` in levels."""
    rank, counts = ranks(x[:, None])[:, 0], np.bincount(codes)
    means = np.bincount(codes, rank - rank.mean()) / counts
    return float(np.sqrt(counts @ means**2 / len(x)) / max(rank.std(), 1e-300))


def _of_levels(
    names: tuple[str, str],
    columns: tuple[Floats, Floats],
    levels: tuple[Sequence[str], Sequence[str]],
) -> str:
    """Return a sentence on the two levels that go together most, beyond chance."""
    codes = columns[0].astype(int), columns[1].astype(int)
    table = np.zeros((len(levels[0]), len(levels[1])))
    np.add.at(table, codes, 1)
    rows = table.sum(axis=1, keepdims=True)
    expected = rows * table.sum(axis=0) / table.sum()
    excess = (table - expected) / np.sqrt(np.maximum(expected, 1e-12))
    i, j = map(int, np.unravel_index(int(np.argmax(excess)), table.shape))
    share, others = table[i, j] / rows[i, 0], table[:, j].sum() / table.sum()
    return (
        f"{names[1]} is {levels[1][j]} in {share:.0%} of the rows where {names[0]} is"
        f" {levels[0][i]} ({others:.0%} of all)"
    )


def levels_in_words(
    names: tuple[str, str],
    columns: tuple[Floats, Floats],
    levels: Sequence[Levels],
    transformed: tuple[Floats, Floats],
) -> str:
    """Return a sentence on the two levels that make most of a correlation; as of `describe`."""
    codes = np.stack(columns).astype(int)
    _, cell = np.unique(codes, axis=1, return_inverse=True)
    most = np.argmax(np.bincount(cell, transformed[0] * transformed[1]))
    one, other = (
        of[code] for of, code in zip(levels, codes[:, np.argmax(cell == most)], strict=True) if of
    )
    return f"{names[1]} is {other} more often where {names[0]} is {one}"
