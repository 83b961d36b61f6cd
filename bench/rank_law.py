"""What the combined p-value of blocks of ranks is worth: the table of `inference._rank_law`.

``python -m bench.rank_law [--quick] [--write]`` permutes ranks without ties, and counts how often
the combined p-value of two of them is at most each of a few values.  ``--write`` keeps the counts
as the table from which `hgr_jax.independence_test` takes its p-values.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from bench.machine import describe
from bench.report import MarkdownReport, bench_parser
from hgr_jax._arrays import Floats
from hgr_jax.inference._rank_law import LEVELS, TABLE
from hgr_jax.inference._ranked import LARGEST_DEGREE, ranked_columns
from hgr_jax.scanning.rank_tests import FIRST
from hgr_jax.scanning.screen import RankScreen, combined_log_p, law_tables, laws_of, light

MANY = 10**7
"""Rows of which the cross moments are Gaussian: the last line of the table."""

ROWS = dict.fromkeys([20, 30, 50, 80, 120, 200, 350, 700], 100_000_000)
ROWS |= {1500: 60_000_000, MANY: 100_000_000}
"""Pairs of so many rows, at the least."""

ENOUGH = 50
"""Times that a level must be reached: rarer ones have the ratio of the last that is."""

SIDE = 512
"""Permutations of a part: all pairs of two parts are looked at, any two of which are independent
as a permutation of ranks is as likely beside one order as beside another."""


def _log_pvalues(rows: int, squares: int) -> Iterator[Floats]:
    """Yield combined p-values of all pairs of two parts, of so many pairs of parts."""
    rng = np.random.default_rng(rows)
    parts = next(parts for parts in itertools.count(2) if parts * (parts - 1) // 2 >= squares)
    if rows == MANY:
        which, laws = laws_of(np.array([LARGEST_DEGREE]))
        degrees, tables = np.full(SIDE, LARGEST_DEGREE), law_tables(laws, rows)
        for _ in range(squares):
            m = _gaussian_products(rng)
            found = combined_log_p(m, np.float32(rows), degrees, degrees, which, *tables)
            yield np.asarray(found).ravel()
        return
    orders = rng.permuted(
        np.broadcast_to(np.arange(rows, dtype=np.int32), (parts * SIDE, rows)), axis=1
    )
    columns = [light(column) for column in ranked_columns([*orders])]
    screen = RankScreen([columns[i : i + SIDE] for i in range(0, len(columns), SIDE)], SIDE)
    for left, right in itertools.islice(itertools.combinations(range(parts), 2), squares):
        yield np.asarray(screen.start(left, right)).ravel()


def _gaussian_products(rng: np.random.Generator) -> tuple[NDArray[np.float32], ...]:
    """Return the cross moments of a square, times the rows, of very many rows."""
    scale = np.float32(np.sqrt(MANY))
    wide, tall = (
        scale * rng.standard_normal(sides, np.float32)
        for sides in ((LARGEST_DEGREE, SIDE, FIRST, SIDE), (FIRST, SIDE, LARGEST_DEGREE, SIDE))
    )
    tall[:, :, :FIRST] = wide[:FIRST]
    return wide, tall, scale * rng.standard_normal((SIDE, SIDE), np.float32)


def main(argv: list[str] | None = None) -> int:
    """Print how much each level is exceeded; with --write, keep the table."""
    parser = bench_parser("rank_law", __doc__, quick="few pairs of 50 rows")
    options = parser.parse_args(argv)
    report = MarkdownReport()
    report.say(describe())
    lines = [",".join(["rows", *(f"{level:g}" for level in LEVELS)])]

    def rows() -> Iterator[list[str]]:
        for n, least in {50: 1}.items() if options.quick else ROWS.items():
            reached, count = np.zeros(len(LEVELS)), 0
            total = -(-least // SIDE**2)
            for found in tqdm(_log_pvalues(n, total), f"{n:,} rows", total, leave=False):
                count += len(found)
                reached += len(found) - np.searchsorted(np.sort(-found), -np.log(LEVELS))
            known = max(1, int(np.sum(reached >= ENOUGH)))
            shares = reached / count
            shares[known:] = LEVELS[known:] * shares[known - 1] / LEVELS[known - 1]
            lines.append(",".join([str(n), *(f"{share:.4g}" for share in shares)]))
            yield [f"{n:,}" if n < MANY else "many", *(f"{x:.2f}" for x in shares / LEVELS)]

    report.table(("rows", *(f"at {level:g}" for level in LEVELS)), rows())
    if options.write and not options.quick:
        TABLE.write_text("\n".join(lines) + "\n")
        report.keep("rank_law")
    return 0


if __name__ == "__main__":
    sys.exit(main())
