"""[choice] Which columns of a table a scan takes, as what: the pairs, and those that are given.

[size] Whether the result of a scan fits in memory, before the work begins.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jax import Array

from hgr_jax._arrays import Integers
from hgr_jax.tables.columns import Columns, as_columns, beside
from hgr_jax.tables.convert import add_note

GIVEN = "it is given"
"""Why a column that is given is in no pair."""


def chosen_columns(
    table: Any,
    other: Any,
    names: Sequence[str] | None,
    categories: Collection[str],
    low_cardinality: int,
) -> tuple[Columns, int | None]:
    """Return the columns of one table, or of two and where those of the second begin."""
    if other is None:
        found = as_columns(
            table, names=names, categories=categories, low_cardinality=low_cardinality
        )
        return found, None
    # Of two matrices the second has names of its own.
    own = isinstance(other, np.ndarray | Array) and other.ndim == 2
    of_other = [f"y{i}" for i in range(other.shape[1])] if own else None
    first, second = (
        as_columns(each, names=given, low_cardinality=low_cardinality)
        for each, given in ((table, names), (other, of_other))
    )
    wanted = [name for name in categories if name not in first.names + second.names]
    if wanted:
        raise ValueError(f"categories name no column of either table: {wanted}.")
    if categories:
        first, second = (
            as_columns(
                each,
                names=given,
                categories=[name for name in categories if name in known.names],
                low_cardinality=low_cardinality,
            )
            for each, given, known in ((table, names, first), (other, of_other, second))
        )
    return beside(first, second), len(first.names)


def as_positions(option: str, value: Any, names: Sequence[str]) -> list[int] | None:
    """Return positions of the columns that an option of a scan names; None for None."""
    if value is None:
        return None
    several = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    found = []
    for one in several:
        if str(one) in names:
            found.append(list(names).index(str(one)))
        elif isinstance(one, int | np.integer) and not isinstance(one, bool):
            if not -len(names) <= one < len(names):
                raise ValueError(f"{option} {one} is not a position of the {len(names)} columns.")
            found.append(int(one) % len(names))
        else:
            raise ValueError(
                f"{option} {one!r} is not a column; there are {', '.join(names[:20])}."
            )
    return sorted(set(found))


def pairs_of(
    columns: Columns, targets: list[int] | None, split: int | None = None
) -> tuple[Integers, Integers]:
    """Return pairs ``(N, 2)`` of columns, as the engine counts them and as the table does.

    All; those with a target; or those of a column before the position ``split`` with one from it
    on.
    """
    engine = _places(columns)
    used = np.flatnonzero(engine >= 0)
    if split is not None:
        listed = [*itertools.product(used[used < split], used[used >= split])]
        positions = np.array(listed, np.intp).reshape(-1, 2)
    elif targets is None:
        first, second = np.triu_indices(len(used), 1)
        positions = np.stack([used[first], used[second]], axis=1)
    else:
        wanted = [t for t in targets if engine[t] >= 0]
        rest = [u for u in used if u not in wanted]
        listed = [*itertools.product(rest, wanted), *itertools.combinations(wanted, 2)]
        positions = np.array(listed, np.intp).reshape(-1, 2)
    return engine[positions], positions


def _places(columns: Columns) -> Integers:
    """Return where the engine has the column at each position, -1 for one that is left out."""
    found = np.full(len(columns.names), -1)
    order = np.concatenate([columns.number_positions, columns.category_positions])
    found[order] = np.arange(len(order))
    return found


def selected(columns: Columns, positions: Integers) -> tuple[Columns, Integers, Integers]:
    """Return the columns that are in pairs at ``positions (N, 2)``, and the pairs among these.

    As the engine counts them and as the smaller table does, as of `pairs_of`.
    """
    used, local = np.unique(positions, return_inverse=True)
    numbers = np.isin(columns.number_positions, used)
    categories = np.isin(columns.category_positions, used)
    names = tuple(columns.names[i] for i in used)
    part = dataclasses.replace(
        columns,
        names=names,
        numbers=np.asarray(columns.numbers)[:, numbers],
        number_positions=np.searchsorted(used, columns.number_positions[numbers]),
        categories=tuple(itertools.compress(columns.categories, categories)),
        category_positions=np.searchsorted(used, columns.category_positions[categories]),
        notes={name: columns.notes[name] for name in names if name in columns.notes},
        dates={name: columns.dates[name] for name in names if name in columns.dates},
    )
    local = local.reshape(-1, 2)
    return part, _places(part)[local], local


def numeric_only(
    columns: Columns, pairs: Integers, positions: Integers
) -> tuple[Integers, Integers]:
    """Return those of the pairs, as `pairs_of` has them, that are of two numbers."""
    keep = (pairs < columns.numbers.shape[1]).all(axis=1)
    return pairs[keep], positions[keep]


def without_given(
    columns: Columns, given: Sequence[int], targets: list[int] | None
) -> tuple[Columns, Columns]:
    """Return the columns that are in pairs, and those at the positions ``given``.

    Where a given column is missing, a row counts in none of the others.

    Raises:
      ValueError: for a given column that cannot be used, or is a target too, and where no row has
        all given columns.
    """
    for position in given:
        name = columns.names[position]
        if name in columns.skipped:
            raise ValueError(f"given column {name!r} cannot be used: {columns.skipped[name]}.")
        if position in (targets or ()):
            raise ValueError(f"column {name!r} is given, and so in no pair: take it off target.")
    of_numbers = np.isin(columns.number_positions, given)
    of_categories = np.isin(columns.category_positions, given)
    numbers = np.asarray(columns.numbers)
    parts = [
        dataclasses.replace(
            columns,
            numbers=numbers[:, which],
            number_positions=columns.number_positions[which],
            categories=tuple(itertools.compress(columns.categories, levels)),
            category_positions=columns.category_positions[levels],
        )
        for which, levels in ((~of_numbers, ~of_categories), (of_numbers, of_categories))
    ]
    rest, taken = parts
    missing = np.isnan(taken.numbers)
    codes = [category.codes[:, None] < 0 for category in taken.categories]
    lost = np.concatenate([missing, *codes], axis=1)
    skipped = columns.skipped | {columns.names[i]: GIVEN for i in given}
    notes = dict(columns.notes)
    there = np.asarray(~lost.any(axis=1))
    if not there.any():
        raise ValueError("no row has a value in each of the given columns.")
    if not there.all():
        places = [*taken.number_positions, *taken.category_positions]
        for position, count in zip(places, lost.sum(axis=0), strict=True):
            if count:
                rows = f"{count:,} row{'s' if count > 1 else ''}"
                remark = f"it is given, and missing in {rows}, which are left out of all pairs"
                add_note(notes, columns.names[position], remark)
        blank = np.where(there[:, None], rest.numbers, np.nan).astype(rest.numbers.dtype)
        hidden = tuple(
            dataclasses.replace(each, codes=np.where(there, each.codes, -1))
            for each in rest.categories
        )
        rest = dataclasses.replace(rest, numbers=blank, categories=hidden)
    return dataclasses.replace(rest, skipped=skipped, notes=notes), taken


MEMORY = 2**29
"""Bytes that features and their products may take, unless a caller says otherwise."""

BYTES_OF_AN_ENTRY = 105
"""Bytes that the matrices of a `Scan` take for each two columns, in either order."""

PAIR = 165
TEST = 70
"""Bytes of a pair beside them while it is estimated, and more while it is tested; as measured."""


def check_size(
    columns: int, used: int, targets: int | None, *, tested: bool, others: int | None = None
) -> None:
    """Raise for a scan whose result takes more than the memory that is available.

    Args:
      columns: of the table.
      used: those that are not skipped.
      targets: how many of them are targets; None for all pairs.
      tested: whether there are p-values.
      others: how many of those that are used are in another table, of which each is in a pair with
        all of the first; None for no such table.

    Raises:
      ValueError: with the number of pairs, what they take, and what can be done.
    """
    free = available_memory()
    pairs = _pairs_of(used, targets, others)
    need = BYTES_OF_AN_ENTRY * columns**2 + (PAIR + TEST * tested) * pairs
    if free is None or need <= free:
        return
    advice = "scan fewer columns (--columns or --drop of the command)"
    if targets is None and others is None and _bytes_of(columns, used, 1, tested=tested) <= free:
        advice += ", or only the pairs with one of them (target=)"
    if targets is None and _bytes_of(2000, 2000, None, tested=tested) <= free:
        advice += ", or keep only the first pairs of all (top=1000, --keep 1000 of the command)"
    most = columns
    while _bytes_of(most, most, None, tested=tested) > free:
        most //= 2
    raise ValueError(
        f"a scan of {columns:,} columns has {pairs:,} pairs, which take {_gigabytes(need)} of"
        f" memory, and {_gigabytes(free)} are available: {advice}; all pairs of {most:,} columns"
        " would fit."
    )


def check_size_of_first(
    most: int, used: int, targets: int | None, *, tested: bool, others: int | None = None
) -> None:
    """Raise for a scan of which only the ``most`` first pairs are kept, as `check_size` does."""
    free = available_memory()
    columns = min(used, 2 * most if targets is None else most + targets)
    pairs = min(most, _pairs_of(used, targets, others))
    need = BYTES_OF_AN_ENTRY * columns**2 + (PAIR + TEST * tested) * pairs
    if free is None or need <= free:
        return
    raise ValueError(
        f"{pairs:,} pairs of up to {columns:,} columns take {_gigabytes(need)} of memory, and"
        f" {_gigabytes(free)} are available: keep fewer pairs (top=, --keep of the command)."
    )


def available_memory() -> int | None:
    """Return the bytes that are free, at most a container's limit; None where no one tells."""
    found = []
    with contextlib.suppress(OSError):
        told = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        found += [int(told[1]) * 1024] if told else []
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):  # of a container
        with contextlib.suppress(OSError, ValueError):
            found.append(int(Path("/sys/fs/cgroup", limit).read_text()))
    if not found:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(found, default=None)


def _pairs_of(used: int, targets: int | None, others: int | None = None) -> int:
    if others is not None:
        return others * (used - others)
    if targets is None:
        return used * (used - 1) // 2
    return targets * max(used - targets, 0) + targets * (targets - 1) // 2


def _bytes_of(columns: int, used: int, targets: int | None, *, tested: bool) -> int:
    return BYTES_OF_AN_ENTRY * columns**2 + (PAIR + TEST * tested) * _pairs_of(used, targets)


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB"
