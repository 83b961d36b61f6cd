"""Attack `hgr_jax.fairness.certify`: simulated populations whose dependence is known.

A table is broken where the bound is below the dependence of the population: some threshold between
the two would return a model that breaks it.  It is returned where the bound is at most the
dependence plus a margin of 0.1, which is then the threshold.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.report import MarkdownReport
from hgr_jax.fairness import HGR, KB, SK, DemographicParity, Penalty, certify
from hgr_jax.fairness.certificate import Certificate
from hgr_jax.fairness.statistics import Statistic

Vector = NDArray[Any]

LEVEL, TRIES, MARGIN = 0.95, 400, 0.1

LEAST_RETURNED = 0.8
"""Of tables of ordinary kinds."""

POPULATION = 100_000
"""Rows that stand for a population whose dependence has no formula."""

THRESHOLD = 0.25
"""Of trainings with many candidates."""

STRENGTHS = np.linspace(0.02, 0.5, 12)
"""Of the candidates: the dependence of the prediction, one after the other."""


class Table(NamedTuple):
    """Rows of an attribute and a prediction; perhaps targets, and labels of groups of rows."""

    z: Vector
    prediction: Vector
    y: Vector | None = None
    groups: Vector | None = None


class Cell(NamedTuple):
    """A population, what is bounded in it, and the rows of a table.

    Attributes:
      kind: what it belongs to.
      draw: ``(rng, rows) -> Table``.
      statistic: what is bounded.
      rows: of a table.
      given: as of `Penalty`.
      within_range: compare with the population between the smallest and largest values of the rows.
    """

    kind: str
    draw: Callable[[np.random.Generator, int], Table]
    statistic: Statistic
    rows: int
    given: Any = None
    within_range: bool = False


class Outcome(NamedTuple):
    """Of one table: whether the bound is broken, returned, refused."""

    broken: bool
    returned: bool
    refused: bool


def linear(attribute: Callable[[np.random.Generator, int], Vector], strength: float) -> Any:
    """A prediction with a linear effect of a number."""

    def draw(rng: np.random.Generator, rows: int) -> Table:
        z = attribute(rng, rows)
        return Table(z, strength * z + rng.normal(size=rows))

    return draw


def normal(rng: np.random.Generator, rows: int) -> Vector:
    """A normal attribute."""
    return rng.normal(size=rows)


def uniform(rng: np.random.Generator, rows: int) -> Vector:
    """A uniform attribute."""
    return rng.uniform(-1.7, 1.7, rows)


def five(rng: np.random.Generator, rows: int) -> Vector:
    """An attribute of five numbers."""
    return rng.integers(-2, 3, rows) / 1.4


def copula(strength: float) -> Any:
    """A normal copula with margins that are far from normal."""

    def draw(rng: np.random.Generator, rows: int) -> Table:
        x = rng.normal(size=rows)
        e = rng.normal(size=rows)
        return Table(np.exp(2 * x), (strength * x + np.sqrt(1 - strength**2) * e) ** 3)

    return draw


def categories(shares: Sequence[float], effect: float, *, decide: bool = False) -> Any:
    """A category whose last level shifts the prediction, or the rate of decisions."""

    def draw(rng: np.random.Generator, rows: int) -> Table:
        level = rng.choice(len(shares), rows, p=shares)
        last = level == len(shares) - 1
        y = rng.integers(0, 2, rows)
        if decide:
            p = (rng.random(rows) < 0.3 + 0.2 * y + effect * last).astype(float)
        else:
            p = effect * last + rng.normal(size=rows)
        return Table(np.array([f"level {i}" for i in range(len(shares))])[level], p, y)

    return draw


def rare(share: float, how: str) -> Any:
    """A rare group, of numbers 0 and 1, of another mean, spread, or with a mixture of both."""

    def draw(rng: np.random.Generator, rows: int) -> Table:
        z = (rng.random(rows) < share).astype(float)
        e = rng.normal(size=rows)
        p = {
            "shift": e + z,
            "spread": e * (1 + 2 * z),
            "part": e + 3 * z * (rng.random(rows) < 0.3),
        }
        return Table(z, p[how])

    return draw


def heavy(how: str) -> Any:
    """Heavy tails of the attribute, the prediction, or both."""

    def draw(rng: np.random.Generator, rows: int) -> Table:
        x, e = rng.normal(size=(2, rows))
        if how == "lognormal attribute":
            z = np.exp(x)
            return Table(z, 0.3 * z / np.sqrt((math.e - 1) * math.e) + e)
        if how == "lognormal both":
            return Table(np.exp(x), np.exp(0.5 * x + np.sqrt(0.75) * e))
        if how == "Student":
            z = rng.standard_t(3, rows)
            return Table(z, 0.3 * z + rng.standard_t(3, rows))
        return Table(x, e + 2 * (x > 2.2))  # a tail alone

    return draw


def tied(how: str) -> Any:
    """Ties, few values, and a dependence that smooth functions miss."""

    def draw(rng: np.random.Generator, rows: int) -> Table:
        z, e = rng.random(rows), rng.normal(size=rows)
        if how == "mostly zero":
            return Table(z, np.where(rng.random(rows) < 0.1 + 0.1 * z, np.abs(e), 0.0))
        if how == "three values":
            return Table(
                np.floor(3 * z), np.digitize(e + 0.4 * (z > 0.66), [-0.5, 0.5]).astype(float)
            )
        board = (np.floor(4 * z) % 2 + rng.random(rows)) / 2
        return Table(z, np.where(rng.random(rows) < 0.3, board, rng.random(rows)))

    return draw


def clustered(sizes: Sequence[int]) -> Any:
    """Rows of persons, several each, of one attribute and of dependent predictions."""

    def draw(rng: np.random.Generator, rows: int) -> Table:
        size = rng.choice(sizes, rows)
        label = np.repeat(np.arange(rows), size)[:rows]
        z, own = rng.normal(size=(2, rows))[:, label]
        return Table(z, 0.25 * z + 0.8 * own + 0.6 * rng.normal(size=rows), groups=label)

    return draw


RANKS = HGR()
ORDINARY = {"numbers", "ranks", "categories", "decisions"}
CELLS = [
    Cell("numbers", linear(normal, 0.2), KB(2, 2), 1000),
    Cell("numbers", linear(uniform, 0.2), KB(3, 3), 1000),
    Cell("numbers", linear(five, 0.2), KB(), 2000),
    Cell("numbers", linear(uniform, 0.4), KB(), 2000),
    Cell("ranks", copula(0.2), HGR(), 2000),
    Cell("ranks", copula(0.5), RANKS, 1000),
    Cell("categories", categories((0.4, 0.3, 0.3), 0.4), KB(1, 3), 1000),
    Cell("categories", categories((0.6, 0.4), 0.3), HGR(), 1000),
    *(
        Cell("decisions", categories(shares, effect, decide=True), *of, given)
        for of in ((DemographicParity(), 2000),)
        for shares, effect, given in (((0.4, 0.3, 0.3), 0.1, None), ((0.6, 0.4), 0.1, "classes"))
    ),
    *(
        Cell("rare groups", rare(share, how), KB(1, k), rows)
        for share, rows in ((0.03, 200), (0.05, 400), (0.08, 400))
        for how in ("shift", "spread", "part")
        for k in (3, 5)
    ),
    Cell(
        "rare groups",
        categories((0.7, 0.24, 0.06), 0.3, decide=True),
        *(DemographicParity(), 400),
    ),
    Cell("rare groups", categories((0.6, 0.39, 0.01), 1.0), KB(1, 3), 400),
    *(
        Cell("heavy tails", heavy(how), KB(degree, degree), 400, within_range=True)
        for how in ("lognormal attribute", "lognormal both", "Student", "a tail alone")
        for degree in (1, 3)
    ),
    *(
        Cell("ties and boards", tied(how), statistic, 500)
        for how in ("mostly zero", "three values", "a board")
        for statistic in (KB(3, 3), SK(3), RANKS)
    ),
    *(
        Cell("dependent rows", clustered(sizes), statistic, 600)
        for sizes in ((1, 1, 1, 5), (1, 2, 20), (4,))
        for statistic in (KB(1, 1), KB(2, 2), RANKS)
    ),
]


def bounded(cell: Cell, table: Table) -> Certificate:
    """The certificate of a table."""
    found: Certificate = certify(
        table.prediction,
        table.z,
        Penalty(cell.statistic, 1.0, given=cell.given),
        LEVEL,
        y=None if cell.given is None else table.y,
        groups=table.groups,
    )
    return found


def inside(many: Table, table: Table) -> Table:
    """The rows of a population that are within the range of a table's."""
    kept = np.ones(len(many.z), bool)
    for wide, few in ((many.z, table.z), (many.prediction, table.prediction)):
        kept &= (wide >= few.min()) & (wide <= few.max())
    return Table(many.z[kept], many.prediction[kept])


def outcomes_of(cell: Cell, number: int, seeds: Iterable[int]) -> Iterator[Outcome]:
    """Tables of a cell and their bounds."""
    many = cell.draw(np.random.default_rng([number, 1]), POPULATION)._replace(groups=None)
    whole = 0.0 if cell.within_range else bounded(cell, many).value
    for seed in seeds:
        table = cell.draw(np.random.default_rng([seed, cell.rows, 2]), cell.rows)
        if len(set(table.z.tolist())) < 2:
            yield Outcome(broken=False, returned=False, refused=True)
            continue
        value = bounded(cell, inside(many, table)).value if cell.within_range else whole
        found = bounded(cell, table)
        broken, returned = found.bound < value - 1e-9, found.bound <= value + MARGIN
        yield Outcome(broken, returned, bool(found.reason))


def with_candidates(seed: int) -> Outcome:
    """Models tried in a fixed order, the last one before a bound exceeds the threshold."""
    z, e = np.random.default_rng([seed, 3]).normal(size=(2, 1000))
    returned, refused = 0.0, False
    for strength in STRENGTHS:
        p = strength * z + np.sqrt(1 - strength**2) * e
        found = certify(p, z, Penalty(KB(1, 1), THRESHOLD), LEVEL)
        refused |= bool(found.reason)
        if not found.holds:
            break
        returned = float(strength)
    return Outcome(returned > THRESHOLD, returned > 0, refused)


def with_choice(seed: int) -> Outcome:
    """Several measures of one table, any of which may be chosen after looking."""
    found, truths = _choice(np.random.default_rng([seed, 4]), 1000), _truths_of_choice()
    broken = any(each.bound < value for each, value in zip(found, truths, strict=True))
    returned = any(each.bound <= value + MARGIN for each, value in zip(found, truths, strict=True))
    return Outcome(broken, returned, any(bool(each.reason) for each in found))


def _choice(rng: np.random.Generator, rows: int) -> Sequence[Certificate]:
    x, e = rng.normal(size=(2, rows))
    p = 0.3 * x + np.sqrt(0.91) * e
    statistics = (KB(1, 1), SK(1), KB(2, 2), HGR())
    level = 1 - (1 - LEVEL) / len(statistics)
    return [certify(p, x, Penalty(each, 1.0), level) for each in statistics]


@functools.cache
def _truths_of_choice() -> list[float]:
    return [each.value for each in _choice(np.random.default_rng(5), POPULATION)]


CHOSEN = {"many candidates": with_candidates, "choice after looking": with_choice}


def outcomes(kind: str, tries: int) -> list[Outcome]:
    """What happens to tables of a kind, dealt to its cells in turn."""
    if kind in CHOSEN:
        return [CHOSEN[kind](seed) for seed in range(tries)]
    cells = [cell for cell in CELLS if cell.kind == kind]
    found: list[Outcome] = []
    for i, cell in enumerate(cells):
        found += outcomes_of(cell, i, range(i, tries, len(cells)))
    return found


def attack(report: MarkdownReport, quick: bool) -> bool:
    """Shares of tables whose bound is broken, returned, or refused."""
    tries = 20 if quick else TRIES
    most = 1 - LEVEL + 2 * np.sqrt(LEVEL * (1 - LEVEL) / tries)

    def lines() -> Iterator[tuple[list[str], bool | None]]:
        for kind in (*dict.fromkeys(cell.kind for cell in CELLS), *CHOSEN):
            found = outcomes(kind, tries)
            shares = np.mean(found, axis=0)
            cells = [kind, f"{shares[0]:.1%}", *(f"{share:.0%}" for share in shares[1:])]
            holds = bool(shares[0] <= most)
            if kind in ORDINARY:
                holds &= quick or bool(shares[1] >= LEAST_RETURNED)
            yield cells, holds

    report.say(
        f"Bounds of level {LEVEL:.0%} by `certify`, {tries} simulated tables of each kind, shares"
        " of all of them. Broken: below the dependence of the population, by formula or from"
        f" {POPULATION:,} rows. Returned: at most {MARGIN:g} above it. Refused: with a reason."
        f" {1 - LEVEL:.0%} and two standard errors ({most:.1%}) may be broken; of the kinds"
        f" {', '.join(sorted(ORDINARY))} {LEAST_RETURNED:.0%} are to be returned."
        " The others are made to break it. Heavy tails are compared with the population within the"
        " range of the rows. Many candidates: the last model before a bound exceeds the threshold."
        " Choice after looking: any of several measures of a table."
    )
    return report.judged_table(("kind", "broken", "returned", "refused"), lines())
