"""Remarks on missing values: columns that lack the same rows, and what these depend on.

Numbers are cut into 8 to 20 parts of as many rows; the parts of a category are its levels.  HGR of
a column in parts and the indicator of another's missing values is the root of the correlation
ratio, less what chance adds.  Its p-value is the smallest of Fisher's exact tests of a part, or of
all parts up to one, against the others, times the number of tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax._texts import first_names
from hgr_jax.core.host.linalg import memberships
from hgr_jax.inference.rank_law import fisher_log_pvalues
from hgr_jax.tables.columns import Columns

MAX_COLUMNS, MAX_ROWS = 200, 1_000_000
"""Largest number of columns and of rows of a table that is looked at."""

MAX_TESTED_ROWS = 10_000
"""Number of evenly spaced rows that are tested, about."""

MIN_MISSING = 20
"""Smallest number of missing, and of present, values of a column for a remark."""

FEWEST_PARTS, MOST_PARTS, ROWS_PER_PART = 8, 20, 50
"""Numbers of parts of a column of numbers, and number of rows of each in between."""

LEAST_HGR, MOST_LIKELY = 0.2, 0.01
"""Smallest HGR, and largest p-value adjusted for all tests, of a dependence that is told."""

MAX_REMARKS = 5


def missing_remarks(
    table: Columns, numbers: Mapping[str, Floats], codes: Mapping[str, Integers]
) -> list[str]:
    """Return the remarks on a table of numbers, NaN where missing, and codes, -1 where missing."""
    columns: dict[str, NDArray[Any]] = {**numbers, **codes}
    rows = len(next(iter(columns.values()), ()))
    if len(columns) > MAX_COLUMNS or rows > MAX_ROWS:
        return []
    names_of: dict[bytes, list[str]] = {}
    masks: dict[bytes, NDArray[np.bool_]] = {}
    for name, values in columns.items():
        missing = np.isnan(values) if name in numbers else values < 0
        if MIN_MISSING <= missing.sum() <= rows - MIN_MISSING:
            key = np.packbits(missing).tobytes()
            names_of.setdefault(key, []).append(name)
            masks[key] = missing
    if not masks:
        return []
    step = -(-rows // MAX_TESTED_ROWS)
    parts = {
        name: _cut(values[::step]) if name in numbers else values[::step]
        for name, values in columns.items()
    }
    hgr = _strongest(np.stack([mask[::step] for mask in masks.values()]), parts, set(numbers))
    found: list[tuple[float, str]] = []
    for names, mask, (value, other) in zip(names_of.values(), masks.values(), hgr, strict=True):
        count = table.missing_of(names[0], int(mask.sum()))
        where = f"{count:,} of {table.rows_of_table:,} rows"
        if len(names) > 1:
            listed = " and ".join(names) if len(names) == 2 else first_names(names, 28)
            text = f"{listed} are missing in the same {where}"
        else:
            text = f"{names[0]} is missing in {where}"
        if other:
            they_are = "they are" if len(names) > 1 else "it is"
            text += f", and where {they_are} depends on {other} (HGR {value:.2f})"
        if other or len(names) > 1:
            found.append((value, text))
    found.sort(key=lambda remark: -remark[0])
    return [text for _, text in found[:MAX_REMARKS]]


def _cut(values: Floats) -> Integers:
    """Return the parts ``(n,)`` of numbers by their quantiles, -1 where missing."""
    missing = np.isnan(values)
    if missing.all():
        return np.full(len(values), -1)
    count = min(max(len(values) // ROWS_PER_PART, FEWEST_PARTS), MOST_PARTS)
    ends = np.unique(np.nanquantile(values, np.arange(1, count) / count, method="lower"))
    return np.where(missing, -1, np.searchsorted(ends, values))


def _strongest(
    masks: NDArray[np.bool_], parts: Mapping[str, Integers], numbers: set[str]
) -> list[tuple[float, str]]:
    """Return the column on which each mask ``(q, n)`` depends most, and HGR; 0 and "" for none."""
    found = [(0.0, "")] * len(masks)
    tested = len(masks) * len(parts)
    indicators = masks.T.astype(np.float32)
    for name, codes in parts.items():
        one_hot = memberships(codes, int(codes.max()) + 1)
        both, counts = (one_hot @ indicators).astype(np.int64), one_hot.sum(axis=1)[:, None]
        both, counts = both[counts[:, 0] > 0], counts[counts[:, 0] > 0]
        rows, missing = int(counts.sum()), both.sum(axis=0)
        enough = (missing >= MIN_MISSING) & (missing <= rows - MIN_MISSING)
        if len(counts) < 2 or not enough.any():
            continue
        mean = missing / rows
        ratio = (counts * (both / counts - mean) ** 2).sum(axis=0) / rows
        ratio = ratio / np.where(enough, mean * (1 - mean), np.inf)
        hgr = np.sqrt(np.maximum(1 - (1 - ratio) * (rows - 1) / (rows - len(counts)), 0))
        if name in numbers:
            both = np.concatenate([both, np.cumsum(both, axis=0)[:-1]])
            counts = np.concatenate([counts, np.cumsum(counts, axis=0)[:-1]])
        for place in np.flatnonzero(enough & (hgr >= LEAST_HGR)).tolist():
            log_p = fisher_log_pvalues(rows, both[:, place], counts[:, 0], missing[place]).min()
            if hgr[place] > found[place][0] and np.exp(log_p) * len(counts) * tested <= MOST_LIKELY:
                found[place] = (float(hgr[place]), name)
    return found
