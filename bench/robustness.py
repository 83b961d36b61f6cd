"""Finite data of every kind give a right value, or say that they are ill conditioned.

``python -m bench.robustness [--quick] [--write]`` estimates HGR-KB of 20,000 pairs a dtype, of few
and many rows and degrees from 1 to 20, in two orders of rows, and compares with
`bench.reference`.  It exits with 1 if a value is not finite, or if one whose status does not say
that it is ill conditioned exceeds its bound.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from tqdm import tqdm

import hgr_jax
from bench import reference
from bench.report import MarkdownReport, run_bench
from hgr_jax import Status

Info = np.finfo
Column = NDArray[Any]
Kind = Callable[[Generator, int, Info], Column]


def _signs(rng: Generator, rows: int) -> Column:
    return rng.choice([-1.0, 1.0], rows)


def _outliers(*values: float) -> Kind:
    def draw(rng: Generator, rows: int, _: Info) -> Column:
        x = rng.standard_normal(rows)
        x[: len(values)] = values
        return x

    return draw


KINDS: dict[str, Kind] = {
    "normal": lambda rng, n, _: rng.standard_normal(n),
    "uniform": lambda rng, n, _: rng.random(n),
    "lognormal": lambda rng, n, _: np.exp(rng.standard_normal(n)),
    "lognormal, sigma 3": lambda rng, n, _: np.exp(3 * rng.standard_normal(n)),
    "Cauchy": lambda rng, n, _: rng.standard_cauchy(n),
    "t3": lambda rng, n, _: rng.standard_t(3, n),
    "6 decades": lambda rng, n, _: _signs(rng, n) * 10 ** rng.uniform(0, 3, n),
    "20 decades": lambda rng, n, _: _signs(rng, n) * 10 ** rng.uniform(0, 10, n),
    "40 decades": lambda rng, n, _: 10 ** rng.uniform(-20, 20, n),
    "powers of 2": lambda rng, n, _: rng.permutation(2.0 ** (np.arange(n) % 20)),
    "binary": lambda rng, n, _: 1.0 * (rng.random(n) < 0.4),
    "one row of 1": lambda rng, n, _: 1.0 * (np.arange(n) == 0),
    "three values": lambda rng, n, _: 1.0 * rng.integers(0, 3, n),
    "digits": lambda rng, n, _: 1.0 * rng.integers(0, 10, n),
    "Poisson": lambda rng, n, _: 1.0 * rng.poisson(2, n),
    "zero-inflated": lambda rng, n, _: (rng.random(n) < 0.2) * np.exp(rng.standard_normal(n)),
    "constant": lambda rng, n, _: np.full(n, rng.standard_normal()),
    "1 and its next": lambda rng, n, info: 1 + float(info.eps) * rng.integers(0, 2, n),
    "1e6 and its next 40": lambda rng, n, info: (
        1e6 * (1 + float(info.eps) * rng.integers(0, 40, n))
    ),
    "years": lambda rng, n, _: 1.0 * rng.integers(1900, 2025, n),
    "seconds since 1970": lambda rng, n, _: 1.6e9 + rng.integers(0, 10_000_000, n),
    "smallest normal": lambda rng, n, info: 10 * float(info.tiny) * rng.standard_normal(n),
    "subnormal": lambda rng, n, info: 0.01 * float(info.tiny) * rng.standard_normal(n),
    "largest": lambda rng, n, info: float(info.max) * rng.uniform(-1, 1, n),
    "a fifth of the largest": lambda rng, n, info: float(info.max) / 5 * rng.random(n),
    "outlier at 10^3": _outliers(1e3),
    "outlier at 10^5": _outliers(1e5),
    "outlier at 10^6": _outliers(1e6),
    "outliers at 100, 10^4": _outliers(100.0, 1e4),
    "clusters of width 1e-3": lambda rng, n, _: (
        rng.integers(0, 3, n) + 1e-3 * rng.standard_normal(n)
    ),
    "clusters of width 1e-6": lambda rng, n, _: (
        rng.integers(0, 2, n) + 1e-6 * rng.standard_normal(n)
    ),
}
"""Draw a column of so many rows; the dtype says what is tiny and what is huge."""

Shape = tuple[int, int, int]
SHORT = ((5, 3, 3), (13, 12, 12), (40, 8, 8), (40, 20, 2), (200, 5, 5), (200, 12, 3))
SHAPES: dict[Shape, int] = dict.fromkeys(SHORT, 3000) | {(2500, 8, 8): 1500, (6000, 5, 5): 500}
"""Pairs of each number of rows and degrees; above 2,048 rows a fit starts from a sketch."""

QUICK: dict[Shape, int] = {(13, 12, 12): 10 * len(KINDS), (40, 8, 8): 10 * len(KINDS)}

BOUNDS = {"float32": 2e-3, "float64": 1e-4}


@dataclasses.dataclass
class Outcome:
    """What became of the pairs with a column of one kind."""

    pairs: int = 0
    ill_conditioned: int = 0
    beyond: int = 0
    error: float = 0.0
    turned: float = 0.0

    def add(self, status: tuple[int, int], error: float, turned: float) -> None:
        """Count a pair in two orders of rows.

        Errors count where no status warns of them, and NaN, of a value that is not finite, always.
        """
        self.pairs += 1
        warned = [s == Status.ILL_CONDITIONED for s in status]
        self.ill_conditioned += warned[0]
        if not warned[0] or np.isnan(error):
            self.error = float(np.maximum(self.error, error))
        if not any(warned):
            self.turned = float(np.maximum(self.turned, turned))


def _relative(
    kind: str, other: str, rng: Generator, rows: int, info: Info
) -> tuple[Column, Column]:
    """Return a column of a kind, and one of another or a noisy function of the first's ranks."""
    a = KINDS[kind](rng, rows, info)
    ranks = np.argsort(np.argsort(a)) / rows
    match rng.integers(4):
        case 0:
            return a, ranks + 0.3 * rng.standard_normal(rows)
        case 1:
            return a, np.cos(6 * ranks) + 0.3 * rng.standard_normal(rows)
    b = KINDS[other](rng, rows, info)
    return a, b[rng.permutation(rows)]


def _batch(dtype: str, rows: int, pairs: int, seed: int) -> tuple[list[str], Column, Column]:
    rng = np.random.default_rng([rows, seed])
    names = list(KINDS)
    kinds = [names[i % len(names)] for i in range(pairs)]
    info = np.finfo(dtype)
    both = [_relative(kind, str(rng.choice(names)), rng, rows, info) for kind in kinds]
    a, b = (np.stack(columns).astype(dtype) for columns in zip(*both, strict=True))
    return kinds, a, b


def outcomes(dtype: str, shapes: Mapping[Shape, int]) -> dict[str, Outcome]:
    """Estimate so many pairs of each shape, of all kinds, and compare with the reference."""
    found: dict[str, Outcome] = collections.defaultdict(Outcome)
    with jax.enable_x64(dtype == "float64"):
        for (rows, h, k), count in tqdm(shapes.items(), desc=dtype, leave=False):
            kinds, a, b = _batch(dtype, rows, count, seed=h)
            order = np.random.default_rng(rows).permutation(rows)
            fit = jax.jit(jax.vmap(functools.partial(hgr_jax.kb_fit, h=h, k=k)))
            first, second = fit(a, b), fit(a[:, order], b[:, order])
            values, turned = np.asarray(first.correlation), np.asarray(second.correlation)
            statuses = np.stack([first.status, second.status], axis=1)
            for i, kind in enumerate(kinds):
                exact = reference.kb(_as_read(a[i]), _as_read(b[i]), h, k)
                error = abs(float(values[i]) - exact)
                if np.isnan(exact) and np.isfinite(values[i]):
                    error = 0.0  # beyond the reference's own digits: that it is finite must do
                    found[kind].beyond += 1
                found[kind].add(tuple(statuses[i]), error, abs(float(values[i] - turned[i])))
    return found


def _as_read(x: Column) -> Column:
    """Return the data as XLA reads them: subnormal numbers are 0."""
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, 0, x)


def robustness(report: MarkdownReport, quick: bool) -> bool:
    """A row for every kind of data."""

    def rows() -> Iterator[tuple[list[str], bool]]:
        for dtype, bound in itertools.islice(BOUNDS.items(), 1 if quick else None):
            for kind, of in outcomes(dtype, QUICK if quick else SHAPES).items():
                figures = [
                    f"{of.pairs:,}",
                    str(of.beyond),
                    f"{of.ill_conditioned / of.pairs:.1%}",
                    f"{of.error:.0e}",
                    f"{of.turned:.0e}",
                ]
                yield [f"{kind}, {dtype}", *figures], of.error <= bound and of.turned <= bound

    header = (
        "column a",
        "pairs",
        "beyond the reference",
        "ill conditioned",
        "largest error of the others",
        "... between orders of rows",
    )
    return report.judged_table(header, rows())


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for every kind of data; 1 if a bound is exceeded."""
    return run_bench(__doc__, {"robustness": robustness}, arguments)


if __name__ == "__main__":
    sys.exit(main())
