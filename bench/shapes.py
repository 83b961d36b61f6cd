"""How often a sentence names the shape of a relation that is known.

``python -m bench.shapes [--quick] [--write]``: 40 relations of twelve families, half of them kept
out while the words were chosen, with five amounts of noise.  What the test does not reject is not
described, and does not count.
"""

from __future__ import annotations

import collections
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from bench.report import MarkdownReport, run_bench
from hgr_jax import hgr_fit

NOISES = (0.1, 0.2, 0.4, 0.7, 1.0)
"""Standard deviations of the noise, in those of the relation."""

SAMPLES = 50

LEAST = {300: 0.85, 1000: 0.93, 5000: 0.97}
"""Smallest share of right sentences, by the number of rows."""

NEAR_TURN = 0.05
"""Largest distance of a turn from its place, as a share of the range of x."""

Pair = tuple[np.ndarray, np.ndarray]

NUMBER = r"(-?[\d.]+(?:e-?\d+)?)"
PLACE = rf"{NUMBER}(?: \(between {NUMBER} and {NUMBER}\))?"
MONOTONE = "y {0} with x$|x {0} with y$"
FAMILIES = {
    "rises": MONOTONE.format("rises"),
    "falls": MONOTONE.format("falls"),
    "U": f"y is lowest near x = {PLACE}, and rises on both sides",
    "hill": f"y is highest near x = {PLACE}, and falls on both sides",
    "N": f"y (?:rises|falls) until x = {PLACE}, (?:rises|falls) until x = {PLACE}, then",
    "W": f"y (?:rises|falls) until x = {PLACE},(?: (?:rises|falls) until x = {PLACE},){{2}} then",
    "step": "[xy] steps (?:up|down) between [xy] = ",
    "oscillation": "y goes up and down several times along x",
    "ring": r"[xy] is far from .* where [xy] is near .* \(a ring\)",
    "cross": "[xy] is far from .* where [xy] is far from",
    "fan": "the spread of [xy] (?:rises|falls|is (?:low|high)est)",
    "noise": "no dependence found",
}
"""What is said of each family."""


class Relation(NamedTuple):
    """A relation whose shape is known.

    Attributes:
      family: one of `FAMILIES`.
      sample: draws x and y ``(n,)``, given the number of rows and the noise.
      turns: where y turns along x.
      kept_out: whether it was not looked at while the words were chosen.
    """

    family: str
    sample: Callable[[np.random.Generator, int, float], Pair]
    turns: tuple[float, ...] = ()
    kept_out: bool = False


def _along(
    function: Callable[[np.ndarray], np.ndarray], law: str = "uniform"
) -> Callable[[np.random.Generator, int, float], Pair]:
    """Return the sampler of y = function(x) + noise, x of a law."""

    def sample(rng: np.random.Generator, rows: int, noise: float) -> Pair:
        draws = {
            "uniform": lambda: rng.uniform(-3, 3, rows),
            "normal": lambda: rng.normal(size=rows),
            "skewed": lambda: rng.exponential(1.0, rows),
        }
        x = draws[law]()
        y = function(x)
        return x, y + noise * y.std() * rng.normal(size=rows)

    return sample


def _ring(rng: np.random.Generator, rows: int, noise: float) -> Pair:
    angle = rng.uniform(0, 2 * np.pi, rows)
    e = noise / 3 * rng.normal(size=(2, rows))
    return np.cos(angle) + e[0], np.sin(angle) + e[1]


def _ellipse(rng: np.random.Generator, rows: int, noise: float) -> Pair:
    x, y = _ring(rng, rows, noise)
    return 5 + 2 * x, 40 * y


def _cross(rng: np.random.Generator, rows: int, noise: float) -> Pair:
    x = rng.normal(size=rows)
    return x, x * rng.choice([-1, 1], rows) + noise / 2 * rng.normal(size=rows)


def _wide_cross(rng: np.random.Generator, rows: int, noise: float) -> Pair:
    x, y = _cross(rng, rows, noise)
    return np.sinh(x), 3 * y


def _fan(spread: Callable[[np.ndarray], np.ndarray]) -> Callable[..., Pair]:
    def sample(rng: np.random.Generator, rows: int, noise: float) -> Pair:
        x = rng.uniform(0, 3, rows)
        return x, (spread(x) + noise) * rng.normal(size=rows)

    return sample


def _independent(law: str) -> Callable[..., Pair]:
    def sample(rng: np.random.Generator, rows: int, noise: float) -> Pair:
        x, y = (getattr(rng, law)(size=rows) for _ in range(2))
        return x, y**2 + noise

    return sample


ROOT = 3**0.5

RELATIONS = {
    "line": Relation("rises", _along(lambda x: x)),
    "exponential": Relation("rises", _along(np.exp)),
    "logistic": Relation("rises", _along(np.tanh, "normal"), kept_out=True),
    "hinge": Relation("rises", _along(lambda x: np.maximum(x, 0)), kept_out=True),
    "falling line": Relation("falls", _along(lambda x: -x, "normal")),
    "decay": Relation("falls", _along(lambda x: np.exp(-x), "skewed"), kept_out=True),
    "falling cube": Relation("falls", _along(lambda x: -(x**3)), kept_out=True),
    "parabola": Relation("U", _along(lambda x: (x - 1) ** 2), (1.0,)),
    "normal parabola": Relation("U", _along(lambda x: x**2, "normal"), (0.0,)),
    "valley": Relation("U", _along(lambda x: np.abs(x + 0.5)), (-0.5,), kept_out=True),
    "cosh": Relation("U", _along(np.cosh), (0.0,), kept_out=True),
    "hill": Relation("hill", _along(lambda x: -((x + 1) ** 2)), (-1.0,)),
    "bump": Relation("hill", _along(lambda x: np.exp(-(x**2))), (0.0,)),
    "roof": Relation("hill", _along(lambda x: -np.abs(x)), (0.0,), kept_out=True),
    "rise and decay": Relation(
        "hill", _along(lambda x: x * np.exp(-x), "skewed"), (1.0,), kept_out=True
    ),
    "cubic": Relation("N", _along(lambda x: x**3 / 3 - 3 * x), (-ROOT, ROOT)),
    "mirrored cubic": Relation("N", _along(lambda x: 3 * x - x**3 / 3), (-ROOT, ROOT)),
    "sine": Relation("N", _along(np.sin), (-np.pi / 2, np.pi / 2), kept_out=True),
    "zigzag": Relation(
        "N", _along(lambda x: np.abs(x + 1) - np.abs(x - 1) - x), (-1.0, 1.0), kept_out=True
    ),
    "quartic": Relation("W", _along(lambda x: (x**2 - 4) ** 2), (-2.0, 0.0, 2.0)),
    "M": Relation("W", _along(lambda x: -((x**2 - 4) ** 2)), (-2.0, 0.0, 2.0), kept_out=True),
    "cosine": Relation(
        "W", _along(lambda x: np.cos(1.7 * x)), (-np.pi / 1.7, 0.0, np.pi / 1.7), kept_out=True
    ),
    "step": Relation("step", _along(lambda x: 1.0 * (x > 0.5))),
    "step down": Relation("step", _along(lambda x: -1.0 * (x > -1))),
    "normal step": Relation("step", _along(lambda x: 1.0 * (x > 0.3), "normal"), kept_out=True),
    "two steps near": Relation("step", _along(lambda x: 1.0 * (x > 0) + (x > 0.2)), kept_out=True),
    "five waves": Relation("oscillation", _along(lambda x: np.sin(5 * x))),
    "eight waves": Relation("oscillation", _along(lambda x: np.cos(8 * x))),
    "sawtooth": Relation("oscillation", _along(lambda x: x % 1.5), kept_out=True),
    "square wave": Relation("oscillation", _along(lambda x: np.sign(np.sin(4 * x))), kept_out=True),
    "ring": Relation("ring", _ring),
    "ellipse": Relation("ring", _ellipse, kept_out=True),
    "cross": Relation("cross", _cross),
    "wide cross": Relation("cross", _wide_cross, kept_out=True),
    "fan": Relation("fan", _fan(lambda x: x)),
    "narrowing fan": Relation("fan", _fan(lambda x: 3 - x)),
    "bow tie": Relation("fan", _fan(lambda x: 2 * np.abs(x - 1.5)), kept_out=True),
    "spindle": Relation("fan", _fan(lambda x: np.exp(-3 * (x - 1.5) ** 2)), kept_out=True),
    "normal noise": Relation("noise", _independent("normal")),
    "skewed noise": Relation("noise", _independent("standard_exponential"), kept_out=True),
}


class Count(NamedTuple):
    """Samples that are described, rightly, with their turns in place, and in their ranges."""

    described: int
    right: int
    placed: int
    inside: int

    def __add__(self, other: Count) -> Count:  # type: ignore[override]
        return Count(*map(sum, zip(self, other, strict=True)))


def counted(
    relation: Relation, rows: int, noise: float, samples: int, wrong: Counter[str]
) -> Count:
    """Describe samples of a relation, and count what is said of it beside its shape."""
    total = Count(0, 0, 0, 0)
    for seed in range(samples):
        rng = np.random.default_rng([seed, rows, int(100 * noise)])
        x, y = relation.sample(rng, rows, noise)
        said = hgr_fit(x, y).describe(("x", "y"))
        if relation.family != "noise" and said == "no dependence found":
            continue
        if re.match(FAMILIES[relation.family], said) is None:
            wrong[re.sub(NUMBER, "#", said)] += 1
            total += Count(1, 0, 0, 0)
            continue
        turns = [float(text.replace(",", "")) for text in re.findall(f"x = {NUMBER}", said)]
        reach = NEAR_TURN * np.ptp(np.quantile(x, (0.01, 0.99)))
        near = np.abs(np.subtract(turns[: len(relation.turns)], relation.turns)) <= reach
        ranges = np.array(re.findall(rf"\(between {NUMBER} and {NUMBER}\)", said), float).reshape(
            -1, 2
        )
        ends = zip(ranges, relation.turns, strict=False)
        inside = all(low <= turn <= high for (low, high), turn in ends)
        total += Count(1, 1, int(near.all()), int(inside))
    return total


def shapes(report: MarkdownReport, quick: bool) -> bool:
    """Report the shares of right sentences by family."""
    sizes, noises, samples = [*LEAST], [*NOISES], SAMPLES
    if quick:
        sizes, noises, samples = sizes[:1], noises[1:2], 2
    totals: dict[tuple[int, bool], Count] = collections.defaultdict(lambda: Count(0, 0, 0, 0))
    turns = Count(0, 0, 0, 0)

    def row_of(family: str) -> list[str]:
        nonlocal turns
        wrong: Counter[str] = Counter()
        cells, relations = [], [r for r in RELATIONS.values() if r.family == family]
        for size in sizes:
            here = Count(0, 0, 0, 0)
            for relation in relations:
                for noise in noises:
                    found = counted(relation, size, noise, samples, wrong)
                    totals[size, relation.kept_out] += found
                    turns += found if relation.turns and size == 1000 else Count(0, 0, 0, 0)
                    here += found
            cells.append(f"{here.right / here.described:.2f}")
        relation = relations[0]
        example = hgr_fit(*relation.sample(np.random.default_rng(0), 1000, 0.4))
        else_said = f"{wrong.most_common(1)[0][0]}" if wrong else ""
        return [family, example.describe(("x", "y")), *cells, else_said]

    header = ("relation", "what is said, as of one sample", *(f"n = {size:,}" for size in sizes))
    report.table((*header, "if not, mostly"), map(row_of, FAMILIES))
    report.say()
    holds = True
    for size in sizes:
        seen, unseen = totals[size, False], totals[size, True]
        both = seen + unseen
        holds &= both.right >= LEAST[size] * both.described
        report.say(
            f"n = {size:,}: {both.right / both.described:.3f} are right (of relations kept out"
            f" {unseen.right / unseen.described:.3f}); to be at least {LEAST[size]}."
        )
    if turns.right:
        report.say(
            f"All turns of a relation within 5% of the range of x, n = 1,000:"
            f" {turns.placed / turns.right:.3f}; all in the ranges that are said:"
            f" {turns.inside / turns.right:.3f}."
        )
    return holds


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    return run_bench(__doc__, {"shapes": shapes}, arguments)


if __name__ == "__main__":
    sys.exit(main())
