"""Select the columns and pairs of a scan."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Integers
from hgr_jax.core.host.explained import GivenVariables
from hgr_jax.scanning.request import Request, positions_of
from hgr_jax.tables.columns import Columns, add_note

IS_GIVEN = "it is given"
"""Reason why a given column is in no pair."""

IS_EXPLAINED = "a function of what is given: nothing but rounding is left of it"
"""Reason why a column that given columns explain is in no pair."""


@dataclasses.dataclass(frozen=True)
class PairSelection:
    """The requested pairs, by positions of columns in the table.

    Attributes:
      targets: columns that one side of a pair must be in; None for any.
      among: columns that the other side (without targets: both sides) must be in; None for any.
    """

    targets: list[int] | None = None
    among: list[int] | None = None

    @classmethod
    def of(
        cls, request: Request, names: Sequence[str], skipped: Mapping[str, str]
    ) -> PairSelection:
        """Return the selection of a request; ``skipped`` columns must not be asked for."""
        targets = positions_of("target", request.target, names)
        check_usable("target", [names[i] for i in targets or ()], skipped)
        check_usable("categories", request.categories.names, skipped)
        return cls(targets, positions_of("among", request.among, names))

    def contains(self, first: Integers, second: Integers) -> NDArray[np.bool_]:
        """Return the mask of requested pairs among pairs of positions, of any shape."""
        one, other = (_is_in(side, self.among) for side in (first, second))
        if self.targets is None:
            return np.asarray((first != second) & one & other)
        target = [_is_in(side, self.targets) for side in (first, second)]
        return np.asarray((first != second) & ((target[0] & other) | (target[1] & one)))

    def listed(self, used: Integers) -> Integers:
        """Return the pairs ``(N, 2)`` of the used columns; a target is the second column."""
        if self.targets is None:
            columns = used[_is_in(used, self.among)]
            first, second = np.triu_indices(len(columns), 1)
            return np.stack([columns[first], columns[second]], axis=1)
        is_target = np.isin(used, self.targets)
        targets, others = used[is_target], used[~is_target & _is_in(used, self.among)]
        first, second = np.triu_indices(len(targets), 1)
        of_two = np.stack([targets[first], targets[second]], axis=1)
        of_one = np.stack([np.repeat(others, len(targets)), np.tile(targets, len(others))], axis=1)
        return np.concatenate([of_one, of_two[self.contains(*of_two.T)]])

    def in_order(self, pairs: Integers) -> Integers:
        """Order the columns of pairs ``(N, 2)`` as `listed` does: a target is the second column."""
        pairs = np.sort(pairs, axis=1)
        if self.targets is None:
            return pairs
        turned = np.isin(pairs, self.targets) @ [2, 1] == 2
        return np.where(turned[:, None], pairs[:, ::-1], pairs)

    def count(self, used: Integers) -> int:
        """Return the number of pairs of the used columns."""
        columns = used[_is_in(used, self.among)]
        if self.targets is None:
            return len(columns) * (len(columns) - 1) // 2
        targets = used[_is_in(used, self.targets)]
        both = np.intersect1d(targets, columns)
        return len(targets) * len(columns) - len(both) * (len(both) + 1) // 2


def check_usable(option: str, names: Iterable[str], skipped: Mapping[str, str]) -> None:
    """Raise a ValueError for a column that an option names and that cannot be used."""
    for name in names:
        if name in skipped:
            raise ValueError(f"{option} column {name!r} cannot be used: {skipped[name]}.")


def skipped_columns(columns: Columns, request: Request) -> dict[str, str]:
    """Return the columns that are left out, with the reason; a function takes numbers only."""
    skipped = dict(columns.skipped)
    if request.measure.function is not None:
        reason = "a category; this measure takes numbers"
        skipped |= dict.fromkeys((columns.names[i] for i in columns.category_positions), reason)
    return skipped


def _is_in(columns: Integers, chosen: list[int] | None) -> NDArray[np.bool_]:
    return np.ones(np.shape(columns), bool) if chosen is None else np.isin(columns, chosen)


def feature_places(columns: Columns) -> Integers:
    """Return the place of each column among the features, numbers first; -1 if it is skipped."""
    places = np.full(len(columns.names), -1)
    order = np.concatenate([columns.number_positions, columns.category_positions])
    places[order] = np.arange(len(order))
    return places


def selected(columns: Columns, positions: Integers) -> tuple[Columns, Integers]:
    """Return the columns that are in pairs at ``positions (N, 2)``, and the pairs among these."""
    used, local = np.unique(positions, return_inverse=True)
    return columns.take(used), local.reshape(-1, 2)


def split_given(
    columns: Columns, given: Sequence[int], targets: list[int] | None
) -> tuple[Columns, Columns]:
    """Split the columns into the columns of pairs and the columns at the positions ``given``.

    A row where a given column is missing counts as missing in all others.

    Raises:
      ValueError: for a given column that cannot be used, or is a target too, and if no row has all
        given columns.
    """
    check_usable("given", [columns.names[position] for position in given], columns.skipped)
    for position in given:
        name = columns.names[position]
        if position in (targets or ()):
            raise ValueError(f"column {name!r} is given, and so in no pair: take it off target.")
    of_numbers = np.isin(columns.number_positions, given)
    of_categories = np.isin(columns.category_positions, given)
    numbers = np.asarray(columns.numbers)
    others, conditioning = (
        dataclasses.replace(
            columns,
            numbers=numbers[:, chosen],
            number_positions=columns.number_positions[chosen],
            categories=tuple(itertools.compress(columns.categories, levels)),
            category_positions=columns.category_positions[levels],
        )
        for chosen, levels in ((~of_numbers, ~of_categories), (of_numbers, of_categories))
    )
    missing = np.isnan(conditioning.numbers)
    codes = [category.codes[:, None] < 0 for category in conditioning.categories]
    lost = np.concatenate([missing, *codes], axis=1)
    skipped = columns.skipped | {columns.names[i]: IS_GIVEN for i in given}
    notes = dict(columns.notes)
    complete = np.asarray(~lost.any(axis=1))
    if not complete.any():
        raise ValueError("no row has a value in each of the given columns.")
    if not complete.all():
        places = [*conditioning.number_positions, *conditioning.category_positions]
        for position, count in zip(places, lost.sum(axis=0), strict=True):
            if count:
                rows = f"{count:,} row{'s' if count > 1 else ''}"
                remark = f"it is given, and missing in {rows}, which are left out of all pairs"
                add_note(notes, columns.names[position], remark)
        numbers = np.where(complete[:, None], others.numbers, np.nan).astype(others.numbers.dtype)
        categories = tuple(
            dataclasses.replace(each, codes=np.where(complete, each.codes, -1))
            for each in others.categories
        )
        others = dataclasses.replace(others, numbers=numbers, categories=categories)
    others = dataclasses.replace(others, skipped=skipped, notes=notes)
    return without_explained(others, conditioning, complete), conditioning


def without_explained(
    columns: Columns, conditioning: Columns, complete: NDArray[np.bool_]
) -> Columns:
    """Leave out columns that are functions of the given ones, but for rounding."""
    numbers, levels = np.asarray(columns.numbers, np.float64).T, columns.categories
    places = [*columns.number_positions.tolist(), *columns.category_positions.tolist()]
    sides = [*numbers, *(np.where(c.codes < 0, np.nan, c.codes) for c in levels)]
    given: dict[bytes, GivenVariables] = {}
    explained = {}
    for place, x in zip(places, sides, strict=True):
        rows = complete & np.isfinite(x)
        key = np.packbits(rows).tobytes()
        if key not in given and rows.any():
            codes = [category.codes[rows] for category in conditioning.categories]
            given_numbers = np.asarray(conditioning.numbers, np.float64)[rows].T
            given = {key: GivenVariables([*given_numbers], codes)}
        is_level = place in columns.category_positions
        if rows.any() and given[key].explains(x[rows], is_level=is_level):
            explained[place] = columns.names[place]
    of_numbers, of_levels = (
        ~np.isin(positions, [*explained])
        for positions in (columns.number_positions, columns.category_positions)
    )
    return dataclasses.replace(
        columns,
        numbers=np.asarray(columns.numbers)[:, of_numbers],
        number_positions=columns.number_positions[of_numbers],
        categories=tuple(itertools.compress(levels, of_levels)),
        category_positions=columns.category_positions[of_levels],
        skipped=columns.skipped | dict.fromkeys(explained.values(), IS_EXPLAINED),
    )
