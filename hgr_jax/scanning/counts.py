"""Tables of counts: each row is repeated as often as it was counted."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._checks import as_repeats, check_indexes, rows_at
from hgr_jax._optional import require
from hgr_jax._texts import near_matches
from hgr_jax.scanning.request import Request
from hgr_jax.tables.columns import Frame


def repeated(table: Any, request: Request) -> tuple[Any, Request]:
    """Return a table whose rows are repeated, without the column of counts, and its request."""
    counts: Any = request.counts
    if counts is None:
        return table, request
    if isinstance(table, np.ndarray) or not _is_named(table):
        table = np.asarray(table)
        names = list(request.names or (f"x{place}" for place in range(table.shape[-1])))
        columns = dict(zip(names, table.T, strict=True))
        request = dataclasses.replace(request, names=None)
        return repeated(columns, request)
    names, rows = _names_in(table), _row_count_of(table)
    if isinstance(counts, str):
        counts = _column_of_counts(table, names, counts)
        names = [name for name in names if str(name) != request.counts]
    else:
        check_indexes("table", table, "counts", counts)
    order = as_repeats(counts, rows)
    weights = request.weights
    if weights is not None and not isinstance(weights, str):
        check_indexes("table", table, "weights", weights)
        weights = np.asarray(weights)[order] if np.shape(weights) == (rows,) else weights
    return _rows_at(table, names, order), dataclasses.replace(request, counts=None, weights=weights)


def _is_named(table: Any) -> bool:
    return isinstance(table, Mapping | Frame) or hasattr(table, "columns")


def _native(table: Any) -> Any:
    """Return a data frame as one of narwhals."""
    return require("narwhals.stable.v2", "table").from_native(table, eager_only=True)


def _names_in(table: Any) -> list[Any]:
    if isinstance(table, Frame):
        return list(table.columns)
    return list(table) if isinstance(table, Mapping) else list(_native(table).columns)


def _row_count_of(table: Any) -> int:
    if isinstance(table, Frame):
        return table.rows
    return len(next(iter(table.values()))) if isinstance(table, Mapping) else len(_native(table))


def _column_of_counts(table: Any, names: Sequence[Any], name: str) -> Any:
    places = [place for place, other in enumerate(names) if str(other) == name]
    if not places:
        near = near_matches(name, [str(other) for other in names])
        raise ValueError(f"counts {name!r} is not a column{near}")
    if isinstance(table, Frame):
        return table.columns[name]
    column = names[places[0]]
    return table[column] if isinstance(table, Mapping) else _native(table)[column].to_numpy()


def _rows_at(table: Any, names: Sequence[Any], order: NDArray[np.intp]) -> Any:
    """Return columns of a table at the rows of ``order``."""
    if isinstance(table, Frame):
        columns = {name: np.asarray(table.columns[name])[order] for name in names}
        return dataclasses.replace(table, columns=columns)
    if isinstance(table, Mapping):
        return {name: rows_at(table[name], order) for name in names}
    return _native(table).select(list(names))[order.tolist()].to_native()
