"""What the combined p-value of blocks of ranks is worth: the table of `inference._rank_law`.

``python -m bench.rank_law [--quick] [--write]`` permutes ranks without ties, and counts how often
the combined p-value is at most each of a few values.  ``--write`` keeps the counts as the table
from which `hgr_jax.independence_test` takes its p-values.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from tqdm import tqdm

from bench.machine import describe
from bench.report import MarkdownReport, bench_parser
from hgr_jax.inference._rank_blocks import combined_pvalues, cross_moments
from hgr_jax.inference._rank_law import LEVELS, TABLE
from hgr_jax.inference._ranked import LARGEST_DEGREE, RankedColumn

MANY = 10**7
"""Rows of which the cross moments are Gaussian: the last line of the table."""

ROWS = {20: 2_000_000, 30: 2_000_000, 50: 2_000_000, 80: 2_000_000, 120: 1_500_000}
ROWS |= {200: 1_000_000, 350: 700_000, 700: 400_000, 1500: 200_000, MANY: 4_000_000}
"""Permutations of so many rows."""

ENOUGH = 100
"""Times that a level must be reached: rarer ones have the ratio of the last that is."""

AT_ONCE = 4_000_000
"""Ranks that are permuted at a time."""


def _log_pvalues(rows: int, count: int) -> Iterator[np.ndarray]:
    """Yield combined p-values of independent ranks, some at a time."""
    rng = np.random.default_rng(rows)
    size = max(1, AT_ONCE // (rows if rows < MANY else 1000))
    starts = range(0, count, size)
    for start in tqdm(starts, desc=f"{rows:,} rows", leave=False):
        drawn = min(size, count - start)
        if rows == MANY:
            sides = (LARGEST_DEGREE, LARGEST_DEGREE, drawn)
            m = rng.standard_normal(sides) / np.sqrt(rows)
        else:
            f = RankedColumn.of_codes(np.arange(rows)).polynomials()
            orders = rng.permuted(np.broadcast_to(np.arange(rows), (drawn, rows)), axis=1)
            m = cross_moments(f, f[:, orders])
        yield combined_pvalues(m, rows)[0]


def main(argv: list[str] | None = None) -> int:
    """Print how much each level is exceeded; with --write, keep the table."""
    parser = bench_parser("rank_law", __doc__, quick="1,000 permutations of few rows")
    options = parser.parse_args(argv)
    report = MarkdownReport()
    report.say(describe())
    lines = [",".join(["rows", *(f"{level:g}" for level in LEVELS)])]

    def rows() -> Iterator[list[str]]:
        for n, count in {50: 1000}.items() if options.quick else ROWS.items():
            reached = np.zeros(len(LEVELS))
            for found in _log_pvalues(n, count):
                reached += (found[:, None] <= np.log(LEVELS)).sum(axis=0)
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
