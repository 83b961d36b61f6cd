"""Say in words, in the units of the variables, what a pair of transformations does.

What a person looks for first is the mean of one variable given the other: of the first function
g_1 of the ranks of y, which just rises,

    E[g_1(y) | x]  =  sum over i of m_i1 f_i(x),      m_i1 the mean product of f_i(x) and g_1(y),

over those moments that are more than chance.  Where it is half of the dependence, it is described,
of the variable that the other explains better: "y is lowest near x = 1.9, and rises on both sides".
Where neither mean says as much, as of a ring, the transformations of both are.  A function of x is
looked at in bins of as many rows each, between 1 and 99% of the rows, so that no outlier decides;
it turns where it comes back by a fifth of its range.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, in_unit
from hgr_jax.core.host.ranks import ranks

MOST_BINS, ROWS_PER_BIN = 40, 8
"""Largest number of bins of a variable, and smallest number of rows of one."""

TAILS = 0.01
"""Share of the rows at either end that decide nothing."""

LEAST_MOMENT = 2.5
"""Smallest moment that is more than chance, in standard errors."""

LEAST_SHARE_OF_MEAN = 0.5
"""Smallest correlation of a variable and its mean given the other, as a share of that of the
transformations, for which the mean is described."""

LEAST_TURN = 0.2
"""Smallest way back, as a share of the range of a transformation, that is a turn."""

ALMOST_MONOTONE = 0.985
"""Smallest correlation of a function and one that just rises or falls, for which it does not turn:
functions of ranks swing a little beside a step."""

LEAST_STEP, SURE_STEP, BESIDE_STEP = 1.0, 0.98, 0.05
"""Smallest correlation of a step with the other variable, as a share of that of the mean, for which
it is said to step; where it may be, as a share of its largest; and the smallest share of the rows
on either side."""

LEAST_SPREAD, WIDE, MIDDLE, LEAST_IN_MIDDLE, LEAST_CHANGE = 0.6, 0.25, 0.35, 0.1, 0.13
"""Smallest correlation of a transformation with the distance from the median, for which the spread
may be what changes; share of the rows where it is widest; of the median distance there, the part
where at least so many of these rows are: in a ring or a cross there are none; and the smallest
correlation of that distance and what is left of the other variable beyond its mean."""

MUCH_BETTER = 0.05
"""By how much a mean of the first variable must be the larger share to be described instead."""

MOST_TURNS_NAMED = 4
"""Largest number of turns that are named; more are an oscillation."""

Format = Callable[[float], str]
"""Writes a value of a variable: a number, or a date."""

Levels = Sequence[str] | None
"""Labels of the levels of a category; None of numbers."""


def number_in_words(value: float) -> str:
    """Write a number with the digits that one says aloud."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.{3 if abs(value) < 1000 else 4}g}"


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a transformation does along its variable.

    Attributes:
      points, values: ``(k,)``, medians of the variable in bins, rising, and means of the
        transformation there.
      turns: positions among these of its turns.
    """

    points: Floats
    values: Floats
    turns: tuple[int, ...]

    @classmethod
    def of(cls, x: Floats, f: Floats) -> Shape:
        """Return the shape of a transformation with values ``f (n,)`` at ``x (n,)``."""
        distinct, codes = np.unique(x, return_inverse=True)
        if len(distinct) > MOST_BINS:
            order = np.argsort(x, kind="stable")
            cut = int(TAILS * len(x))
            order = order[cut : len(order) - cut]
            bins = max(2, min(MOST_BINS, len(order) // ROWS_PER_BIN))
            codes = np.full(len(x), -1)
            codes[order] = np.arange(len(order)) * bins // len(order)
            middles = (np.arange(bins) + 0.5) * len(order) / bins
            distinct = x[order[middles.astype(int)]]
        inside = codes >= 0
        counts = np.bincount(codes[inside], minlength=len(distinct))
        values = np.bincount(codes[inside], f[inside], minlength=len(distinct)) / counts
        turns = turning_points(values, LEAST_TURN * float(np.ptp(values)))
        if turns and _monotone_share(values, counts) >= ALMOST_MONOTONE:
            turns = ()
        return cls(distinct, values, turns)

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


class Means(NamedTuple):
    """The means of either variable given the other, in the rows.

    Attributes:
      of_second, of_first: ``(n,)``, of the second variable given the first, and the reverse.
      shares: correlations of both with the variables that they are means of.
    """

    of_second: Floats
    of_first: Floats
    shares: tuple[float, float]

    def shape(self, columns: tuple[Floats, Floats]) -> tuple[int, Shape]:
        """Return along which of two variables the mean of the other says more, and its shape."""
        side = int(self.shares[1] > self.shares[0] + MUCH_BETTER)
        return side, Shape.of(columns[side], self.of_first if side else self.of_second)

    @classmethod
    def of(
        cls, f: Floats, g: Floats, shares: Floats, plain: tuple[Floats, Floats] | None = None
    ) -> Means:
        """Return the means by orthonormal functions ``(h, n)`` and ``(k, n)`` of both ranks.

        Where these are residuals given other variables, of the ``plain`` functions.
        """
        least = LEAST_MOMENT * float(np.sqrt(np.sum(shares**2)))
        rows, columns = ((x * shares) @ y[0] for x, y in ((f, g), (g, f)))
        kept = [np.where(np.abs(m) > least, m, 0) for m in (rows, columns)]
        f, g = (f, g) if plain is None else plain
        of_both = (kept[0] @ f, kept[1] @ g)
        return cls(*of_both, (float(np.linalg.norm(kept[0])), float(np.linalg.norm(kept[1]))))


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
    if one is not None:
        return _of_level_and_number(names, columns, one, formats[1])
    if other is not None:
        return _of_level_and_number(names[::-1], columns[::-1], other, formats[0])
    whole = abs(float(np.corrcoef(*transformed)[0, 1]))
    for side in (0, 1):
        if means.shares[side] < LEAST_SHARE_OF_MEAN * whole:
            of = 1 - side
            both = transformed[side], transformed[of]
            mean = means.of_first if of else means.of_second
            spread = _spread_along(columns[side], columns[of], both, mean)
            if spread is not None:
                shape = Shape.of(columns[side], spread)
                said = mean_in_words(
                    names[side], f"the spread of {names[of]}", shape, formats[side]
                )
                return said if shape.turns else f"{said}, its mean does not"
    if max(means.shares) < LEAST_SHARE_OF_MEAN * whole:
        shapes = [Shape.of(x, f) for x, f in zip(columns, transformed, strict=True)]
        return _of_two_that_turn(names, shapes, formats)
    side, shape = means.shape(columns)
    step = _step_along(columns[side], columns[1 - side], means.shares[side])
    if step is not None:
        way = "steps up" if shape.rises else "steps down"
        ends = " and ".join(map(formats[side], step))
        return f"{names[1 - side]} {way} between {names[side]} = {ends}"
    return mean_in_words(names[side], names[1 - side], shape, formats[side])


def _step_along(x: Floats, y: Floats, share: float) -> tuple[float, float] | None:
    """Return between which values of ``x`` the ranks of ``y`` step; None if they do not.

    ``share`` is the correlation of these ranks with their mean along x.
    """
    order = np.argsort(x, kind="stable")
    x, rank = x[order], ranks(y[:, None])[order, 0]
    z = (rank - rank.mean()) / rank.std()
    left = np.arange(1, len(x))
    correlations = np.abs(np.cumsum(z)[:-1]) / np.sqrt(left * (len(x) - left))
    beside = BESIDE_STEP * len(x)
    correlations[(x[1:] == x[:-1]) | (left < beside) | (left > len(x) - beside)] = 0
    largest = correlations.max(initial=0)
    if largest < LEAST_STEP * share:
        return None
    sure = np.flatnonzero(correlations >= SURE_STEP * largest)
    return float(x[sure[0]]), float(x[sure[-1] + 1])


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
    if not shape.turns:
        return f"{of} {'rises' if shape.rises else 'falls'} with {by}"
    at = [form(shape.points[turn]) for turn in shape.turns]
    if len(at) == 1:
        most, then = ("highest", "falls") if shape.rises else ("lowest", "rises")
        return f"{of} is {most} near {by} = {at[0]}, and {then} on both sides"
    if len(at) > MOST_TURNS_NAMED:
        return f"{of} goes up and down along {by}: {len(at)} turns, the first near {at[0]}"
    ways = ["rises", "falls"] if shape.rises else ["falls", "rises"]
    parts = [f"{ways[i % 2]} to {by} = {point}" for i, point in enumerate(at)]
    return f"{of} {', '.join(parts)}, then {ways[len(at) % 2]}"


def _of_two_that_turn(
    names: tuple[str, str], shapes: Sequence[Shape], formats: tuple[Format, Format]
) -> str:
    """Return a sentence on two transformations, where neither mean says much."""
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
    return f"{names[1]} depends on {names[0]}, but does not just rise, fall or turn with it"


def _of_level_and_number(
    names: tuple[str, str], columns: tuple[Floats, Floats], levels: Sequence[str], form: Format
) -> str:
    """Return a sentence on the medians of a number in the levels of a category."""
    codes, x = columns[0].astype(int), columns[1]
    present = np.unique(codes)
    medians = np.array([np.median(x[codes == code]) for code in present])
    order = np.argsort(medians, kind="stable")
    low, high = present[order[0]], present[order[-1]]
    if medians[order[0]] == medians[order[-1]]:
        return f"{names[1]} has the same median in all levels of {names[0]}, but another spread"
    middle = [form(float(medians[order[place]])) for place in (0, -1)]
    return (
        f"{names[1]} is lowest where {names[0]} is {levels[low]} (median {middle[0]}), highest"
        f" where it is {levels[high]} ({middle[1]})"
    )


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
