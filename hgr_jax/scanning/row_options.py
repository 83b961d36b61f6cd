"""Options that say something of each row: its order, its group, its weight.

They are columns of the table, or arrays.  Such a column is in no pair.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hgr_jax._checks import check_indexes
from hgr_jax._optional import require
from hgr_jax._texts import near_matches
from hgr_jax.inference.dependent_rows import RowDesign
from hgr_jax.scanning.request import Request
from hgr_jax.tables.columns import Frame, as_columns


def with_row_options(table: Any, request: Request) -> tuple[Any, Request]:
    """Return a table without the columns that describe its rows, and its request.

    The request has the `RowDesign` of rows in an order or in groups, and the values of weights.
    """
    options = {name: getattr(request, name) for name in ("order", "groups", "weights")}
    if not isinstance(request.weights, str):
        del options["weights"]
    options = {name: value for name, value in options.items() if value is not None}
    if not options:
        return table, request
    if isinstance(table, np.ndarray) or not _is_named(table):
        table = np.asarray(table)
        columns = {f"x{place}": column for place, column in enumerate(table.T)}
        return with_row_options(columns, request)
    names, rows = _names_in(table), _row_count_of(table)
    values = {}
    for option, value in options.items():
        values[option] = value
        if isinstance(value, str):
            values[option] = _column_named(table, names, option, value)
        elif value is not True:
            check_indexes(table=table, **{option: value})
    names = [name for name in names if str(name) not in request.row_columns]
    table = _columns_at(table, names)
    for option in ("order", "weights"):
        if isinstance(getattr(request, option), str):
            values[option] = _parsed_numbers(option, getattr(request, option), values[option])
    if "weights" in values:
        request = dataclasses.replace(request, weights=values["weights"])
    if request.order is None and request.groups is None:
        return table, request
    design = RowDesign.of(rows, values.get("order"), values.get("groups"))
    return table, dataclasses.replace(request, design=design)


def _is_named(table: Any) -> bool:
    return isinstance(table, Mapping | Frame) or hasattr(table, "columns")


def _native(table: Any) -> Any:
    """Return a data frame as one of narwhals."""
    return require("narwhals.stable.v2").from_native(table, eager_only=True)


def _names_in(table: Any) -> list[Any]:
    if isinstance(table, Frame):
        return list(table.columns)
    return list(table) if isinstance(table, Mapping) else list(_native(table).columns)


def _row_count_of(table: Any) -> int:
    if isinstance(table, Frame):
        return table.rows
    return len(next(iter(table.values()))) if isinstance(table, Mapping) else len(_native(table))


def _column_named(table: Any, names: Sequence[Any], option: str, name: str) -> Any:
    """Return the column that an option names."""
    places = [place for place, other in enumerate(names) if str(other) == name]
    if not places:
        near = near_matches(name, [str(other) for other in names])
        raise ValueError(f"{option} {name!r} is not a column{near}")
    if isinstance(table, Frame):
        return table.columns[name]
    if hasattr(table, "iloc"):  # names may be of any kind
        return table.iloc[:, places[0]].to_numpy()
    column = names[places[0]]
    return table[column] if isinstance(table, Mapping) else _native(table)[column].to_numpy()


def _parsed_numbers(option: str, name: str, column: Any) -> Any:
    """Return a column as numbers or dates, which its texts may be."""
    if np.asarray(column).dtype.kind not in "OUST":
        return column
    parsed = as_columns({name: column})
    if not len(parsed.number_positions):
        raise ValueError(
            f"{option} must be a column of numbers or dates; {name!r} holds"
            f" {parsed.skipped.get(name, 'text')}."
        )
    return np.asarray(parsed.numbers[:, 0], np.float64)


def _columns_at(table: Any, names: Sequence[Any]) -> Any:
    """Return some columns of a table."""
    if isinstance(table, Frame):
        return dataclasses.replace(table, columns={name: table.columns[name] for name in names})
    if isinstance(table, Mapping):
        return {name: table[name] for name in names}
    if hasattr(table, "iloc"):
        return table.loc[:, [name in names for name in table.columns]]
    return _native(table).select(list(names)).to_native()
