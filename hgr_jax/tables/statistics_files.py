"""Read the files of SPSS, Stata and SAS; labels of values become texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hgr_jax._optional import require
from hgr_jax.tables.faults import printable, unreadable
from hgr_jax.tables.levels import object_array
from hgr_jax.tables.packed import Contents

STATISTICS_FORMATS = {
    "SPSS": "read_sav",
    "portable SPSS": "read_por",
    "Stata": "read_dta",
    "SAS": "read_sas7bdat",
    "SAS transport": "read_xport",
}
"""Functions of pyreadstat by format."""


def read_statistics_file(
    contents: Contents, kind: str
) -> tuple[list[str], list[Any], list[tuple[str, str]]]:
    """Read a file of one of the `STATISTICS_FORMATS`: names, columns of objects, notes."""
    read = getattr(require("pyreadstat"), STATISTICS_FORMATS[kind])
    with contents.on_disk() as path:
        try:
            columns, description = read(str(path), output_format="dict")
        except Exception as error:  # a damaged file may raise anything
            raise unreadable(contents.shown, kind, error) from None
    notes = []
    for name, labels in description.variable_value_labels.items():
        columns[name], note = _labelled(columns[name], labels)
        notes.append((name, note))
    return list(columns), [object_array(values) for values in columns.values()], notes


def _labelled(values: Sequence[Any], labels: Mapping[Any, str]) -> tuple[Sequence[Any], str]:
    """Return the labels of values, if every value has one; else the values, and a note.

    A scale of which only the ends have a label stays numbers.
    """
    present = {value for value in values if value is not None}
    if present <= labels.keys():
        return [None if value is None else str(labels[value]) for value in values], ""
    labelled = present & labels.keys()
    if not labelled:
        return values, ""
    value = min(labelled, key=str)
    shown = f"{value:g}" if isinstance(value, float) else printable(str(value))
    return values, (
        f"{len(labelled)} of its {len(present):,} values have a label and stay what they are, as"
        f" {shown} ({printable(str(labels[value]))[:60]})"
    )
