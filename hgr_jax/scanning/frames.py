"""A scan as data frames of any library, and as a small table for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._optional import require
from hgr_jax._texts import counted, html_table, shortened
from hgr_jax.tables.convert import unique_names

SHOWN_LETTERS = 40
"""Of a name in a notebook or a terminal."""

PANDAS_LIKE = ("pandas", "modin", "cudf")


def as_rows(columns: Mapping[str, NDArray[Any]], library: str) -> Any:
    """Return columns as a data frame of a library."""
    narwhals = require("narwhals.stable.v2", "table")
    require(library, "table")
    data = {
        name: values.tolist() if values.dtype == object else values
        for name, values in columns.items()
    }
    return narwhals.from_dict(data, backend=library).to_native()


def as_square(matrix: NDArray[Any], names: Sequence[str], library: str) -> Any:
    """Return a matrix as a data frame with names on both sides."""
    if library in PANDAS_LIKE:
        frames = require(library, "table")
        return frames.DataFrame(matrix, index=list(names), columns=list(names))
    label = unique_names([*names, "column"])[-1]
    columns = {label: np.array([*names, None], object)[:-1]}
    return as_rows(columns | {name: matrix[:, i] for i, name in enumerate(names)}, library)


def scan_title(scan: Any) -> str:
    """Return what a `Scan` is of, in a line."""
    settings, used = scan.settings, len(scan.used)
    given = f", given {', '.join(settings['given'])}" if settings.get("given") else ""
    return (
        f"Scan of {counted(len(scan), 'pair')} of {counted(used, 'column')},"
        f" {counted(settings['rows'], 'row')}"
        f" ({settings['method']}, h={settings['h']}, k={settings['k']}{given}){_of_all(settings)}"
    )


def _of_all(settings: Mapping[str, Any]) -> str:
    """Return of how many pairs a scan has kept some, if it has not kept all."""
    top = settings.get("top")
    if not top:
        return ""
    found = f"; more than chance: {top['discoveries']:,}" if top["tested"] else ""
    of_all = f"{counted(top['pairs'], 'pair')} of {counted(top['columns'], 'column')}"
    return f", the first of {of_all}{found}"


def pairs_as_text(title: str, pairs: Sequence[Any], count: int) -> str:
    """Return pairs, the first of so many, in a line each."""
    lines = [
        "  {} and {}: {:.3f}".format(
            *(shortened(name, SHOWN_LETTERS) for name in (pair.a, pair.b)), pair.correlation
        )
        for pair in pairs
    ]
    more = [f"  ... {count - len(pairs):,} more"] if count > len(pairs) else []
    return "\n".join([title, *lines, *more])


def pairs_as_html(title: str, pairs: Sequence[Any]) -> str:
    """Return pairs as a small table."""
    headers = ("column a", "column b", "correlation", "|Pearson|", "adjusted p", "rows")
    rows = [
        (
            *(shortened(name, SHOWN_LETTERS) for name in (pair.a, pair.b)),
            *(_in_cell(value, ".3f") for value in (pair.correlation, pair.pearson)),
            _in_cell(pair.adjusted_pvalue, ".2g"),
            f"{pair.n_obs:,}",
        )
        for pair in pairs
    ]
    return html_table(title, headers, rows)


def _in_cell(value: float, form: str) -> str:
    return "-" if np.isnan(value) else format(value, form)
