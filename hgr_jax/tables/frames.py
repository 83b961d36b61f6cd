"""Data frames of any library that are made of columns and of matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._optional import require
from hgr_jax.tables.columns import unique_names

PANDAS_LIKE = ("pandas", "modin", "cudf")


def as_rows(columns: Mapping[str, NDArray[Any]], library: str) -> Any:
    """Return columns as a data frame of a library."""
    frames = require(library)
    data = {
        name: values.tolist() if values.dtype == object else values
        for name, values in columns.items()
    }
    if library in PANDAS_LIKE:
        return frames.DataFrame(data)
    return require("narwhals.stable.v2").from_dict(data, backend=library).to_native()


def as_square(matrix: NDArray[Any], names: Sequence[str], labels: Any, library: str) -> Any:
    """Return a matrix as a data frame with names on both sides; of pandas, with ``labels``."""
    if library in PANDAS_LIKE:
        return require(library).DataFrame(matrix, index=labels, columns=labels)
    label = unique_names([*names, "column"])[-1]
    columns = {label: np.array([*names, None], object)[:-1]}
    return as_rows(columns | {name: matrix[:, i] for i, name in enumerate(names)}, library)
