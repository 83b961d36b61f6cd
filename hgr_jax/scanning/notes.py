"""Remarks of a scan on columns of which there is no value, or none to rely on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Integers
from hgr_jax.scanning.features import Estimates
from hgr_jax.tables.columns import Columns
from hgr_jax.tables.convert import add_note


def note_constants(
    columns: Columns, pairs: Integers, found: Estimates, notes: dict[str, str], *, given: bool
) -> None:
    """Add a remark on columns that do not vary on the rows that they share with another.

    Or of which nothing is left there beside ``given`` ones.
    """
    lost = (found.degrees == 0) & (found.rows >= 2)[:, None]
    positions, counts = np.unique(pairs[lost], return_counts=True)
    for position, count in zip(positions, counts, strict=True):
        pairs_of = f"{count} other column{'s' if count > 1 else ''}"
        what = "is explained by what is given, or constant," if given else "does not vary"
        remark = f"{what} on the rows that it shares with {pairs_of}: no value there"
        add_note(notes, columns.names[position], remark)


def with_ill_conditioned(
    columns: Columns,
    fine: NDArray[np.bool_],
    cure: str = "take ranks, lower degrees, or float64",
) -> dict[str, str]:
    """Return the remarks on columns, and one on those of which the basis is not ``fine (p,)``."""
    notes = dict(columns.notes)
    for position in columns.number_positions[~fine]:
        what = "ill conditioned (far outliers, or values that only their last digits tell apart)"
        add_note(notes, columns.names[position], f"{what}: {cure}")
    return notes
