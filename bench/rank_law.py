"""The law of the combined p-value of blocks of ranks: the table of `inference.rank_law`.

``python -m bench.rank_law [--quick] [--write]`` permutes ranks without ties, and counts how often
the combined p-value of two of them is at most each of a few values.  ``--write`` keeps the counts
as the table from which `hgr_jax.independence_test` takes its p-values; small levels of
many rows, which few pairs reach, are smoothed.  `tail` follows the law down to 1e-13, where no
counts reach: of 400 orders those below a p-value are kept, copied and shuffled a little, and so on
from p-value to p-value (multilevel splitting).
"""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from tqdm import tqdm

from bench.report import MarkdownReport
from hgr_jax._arrays import Floats
from hgr_jax.core.host.ranks import MOST_FUNCTIONS, RankedColumn, ranked_columns
from hgr_jax.core.ranks import OF_FEW
from hgr_jax.inference.rank_law import (
    LEVELS,
    TABLE,
    combined_pvalues,
    cross_moments,
    log_probability,
)
from hgr_jax.scanning.screen import (
    Products,
    RankScreen,
    combined_log_p,
    law_tables,
    laws_by_counts,
)

MANY = 10**7
"""Rows of which the cross moments are Gaussian: the last line of the table."""

ROWS = dict.fromkeys([20, 30, 50, 80, 120], 100_000_000)
ROWS |= dict.fromkeys([200, 350, 700, 1500, MANY], 150_000_000)
"""Pairs of so many rows, at the least: more where small p-values are rarer."""

ENOUGH = 50
"""Times that a level must be reached: rarer ones have the ratio of the last that is."""

SMOOTH_ROWS, SMOOTH_LEVEL = 200, 1e-3
"""Number of rows from which on, and level down from which, the ratios are smoothed."""

SIDE = 512
"""Permutations of a part: all pairs of two parts are looked at, any two of which are independent
as a permutation of ranks is as likely beside one order as beside another."""


def _log_pvalues(rows: int, squares: int) -> Iterator[Floats]:
    """Yield combined p-values of all pairs of two parts, of so many pairs of parts."""
    rng = np.random.default_rng(rows)
    parts = next(parts for parts in itertools.count(2) if parts * (parts - 1) // 2 >= squares)
    if rows == MANY:
        counts = np.full(SIDE, MOST_FUNCTIONS)
        which, laws = laws_by_counts(counts[:1])
        tables = law_tables(laws, rows)
        for square in range(squares):
            products = _of_normal_moments(jax.random.fold_in(jax.random.key(rows), square))
            found = combined_log_p(products, np.float32(rows), counts, counts, which, *tables)
            yield np.asarray(found).ravel()
        return
    orders = rng.permuted(
        np.broadcast_to(np.arange(rows, dtype=np.int32), (parts * SIDE, rows)), axis=1
    )
    columns = [column.as_float32() for column in ranked_columns([*orders])]
    screen = RankScreen([columns[i : i + SIDE] for i in range(0, len(columns), SIDE)], SIDE)
    of_part = screen._functions
    screen._functions = screen._left_functions = functools.cache(  # type: ignore[method-assign]
        lambda part, first: jax.device_put(of_part(part, first))
    )
    for left, right in itertools.islice(itertools.combinations(range(parts), 2), squares):
        yield np.asarray(screen.start(left, right)).ravel()


@jax.jit
def _of_normal_moments(key: Array) -> Products:
    """The cross moments of a square, times the rows, of very many rows."""
    keys = iter(jax.random.split(key, 5))

    def normal(*sides: int) -> Array:
        return float(np.sqrt(MANY)) * jax.random.normal(next(keys), sides, jnp.float32)

    wide, tall = (normal(OF_FEW, SIDE, 2, SIDE) for _ in range(2))
    tall = tall.at[:2].set(wide[:2].transpose(2, 3, 0, 1))
    far, backward = (normal(MOST_FUNCTIONS - OF_FEW, SIDE, SIDE) for _ in range(2))
    return Products(wide, tall, normal(SIDE, SIDE), far, backward)


def smoothed(rows: Floats, shares: Floats) -> Floats:
    """Return shares ``(rows, levels)`` with smooth ratios to small levels for many rows.

    The logarithm of the ratio is fitted by ``(1, 1/n) x (1, log p, log^2 p)``, each share weighted
    by the number of pairs that reached it: that leaves residuals of the size of chance.
    """
    i, j = np.ix_(rows >= SMOOTH_ROWS, LEVELS <= SMOOTH_LEVEL)
    pairs = np.array([ROWS[int(n)] for n in rows[i[:, 0]]])[:, None]
    inverse = np.broadcast_to(SMOOTH_ROWS / rows[i], (i.size, j.size))
    depth = np.broadcast_to(np.log10(LEVELS[j]) + 4.5, inverse.shape)
    basis = np.stack([inverse**a * depth**b for a in range(2) for b in range(3)], axis=-1)
    root = np.sqrt(shares[i, j] * pairs)[..., None]
    ratios = np.log(shares[i, j] / LEVELS[j])[..., None]
    size = basis.shape[-1]
    fitted, *_ = np.linalg.lstsq((basis * root).reshape(-1, size), (ratios * root).ravel())
    result = shares.copy()
    result[i, j] = LEVELS[j] * np.exp(basis @ fitted)
    return result


POPULATION, KEPT_SHARE, SHUFFLES = 400, 0.3, 40
"""Of the splitting: number of orders, share of them that is kept, shuffles between two levels."""


def tail(rows: int, least: float = 1e-13) -> Iterator[tuple[float, float]]:
    """Yield ever smaller p-values, by the law and by splitting."""
    rng = np.random.default_rng(rows)
    column = RankedColumn.of_values(np.arange(rows, dtype=float))
    f = column.functions()[: column.reliable]

    def logs(orders: NDArray[np.intp]) -> Floats:
        return combined_pvalues(cross_moments(f / rows, f[:, orders]), rows).log_p

    orders = np.argsort(rng.random((POPULATION, rows)), axis=1)
    log_p, found = 0.0, logs(orders)
    each = np.arange(POPULATION)[:, None]
    while log_p > np.log(least):
        level = np.sort(found)[int(KEPT_SHARE * POPULATION) - 1]
        kept = np.flatnonzero(found <= level)
        log_p += np.log(len(kept) / POPULATION)
        yield np.exp(log_probability(np.array([level]), rows)[0]), np.exp(log_p)
        copies = np.resize(rng.permutation(kept), POPULATION)
        orders, found = orders[copies], found[copies]
        for step in range(SHUFFLES):
            swaps = max(1, rows // (60 if step % 2 else 15))
            i, j = np.split(np.argsort(rng.random(orders.shape), axis=1)[:, : 2 * swaps], 2, axis=1)
            moved = orders.copy()
            moved[each, i], moved[each, j] = orders[each, j], orders[each, i]
            moved_to = logs(moved)
            stays = moved_to <= level
            orders[stays], found[stays] = moved[stays], moved_to[stays]


def write_table(rows: Floats, shares: Floats) -> None:
    """Write the table, with smooth ratios."""
    lines = [",".join(["rows", *(f"{level:g}" for level in LEVELS)])]
    for n, line in zip(rows, smoothed(rows, shares), strict=True):
        lines.append(",".join([f"{n:.0f}", *(f"{share:.4g}" for share in line)]))
    TABLE.write_text("\n".join(lines) + "\n")


def law(*, quick: bool) -> dict[int, Floats]:
    """Print how much each level is exceeded; return how often, by the number of rows."""
    table: dict[int, Floats] = {}

    def rows() -> Iterator[list[str]]:
        for n, least in {50: 1}.items() if quick else ROWS.items():
            reached, count = np.zeros(len(LEVELS)), 0
            total = -(-least // SIDE**2)
            for found in tqdm(_log_pvalues(n, total), f"{n:,} rows", total, leave=False):
                count += len(found)
                reached += [np.count_nonzero(found <= level) for level in np.log(LEVELS)]
            known = max(1, int(np.sum(reached >= ENOUGH)))
            shares = reached / count
            shares[known:] = LEVELS[known:] * shares[known - 1] / LEVELS[known - 1]
            table[n] = shares
            yield [f"{n:,}" if n < MANY else "many", *(f"{x:.2f}" for x in shares / LEVELS)]

    MarkdownReport().table(("rows", *(f"at {level:g}" for level in LEVELS)), rows())
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how much each level is exceeded; with --write, keep the table of the test."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small version, to see it work")
    parser.add_argument("--write", action="store_true", help="keep the table, not of --quick")
    options = parser.parse_args(arguments)
    table = law(quick=options.quick)
    if options.write and not options.quick:
        write_table(np.array([*table], float), np.array([*table.values()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
