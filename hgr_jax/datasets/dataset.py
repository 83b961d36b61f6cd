"""A real table as arrays with named columns, the result of a loader."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from hgr_jax._optional import require
from hgr_jax._texts import near_matches
from hgr_jax.tables.faults import listed
from hgr_jax.tables.levels import encode_texts

if TYPE_CHECKING:
    import pandas

Values = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A real table: inputs, target, and the protected attribute, which is one of the inputs.

    ``data["age"]`` is the column ``(n,)`` of that name, an input or the target.

    Attributes:
      name: of the table.
      x: the inputs ``(n, p)``, float64, in the units of the table; a categorical input is one
        column of zeros and ones for each of its levels, in sorted order.
      y: the target ``(n,)``, float64, in its own unit; 0 or 1 for a classification.
      z: the protected attribute ``(n,)``, float64, a copy of a column of ``x``.
      features: the ``p`` names of the inputs; ``"name=level"`` for a level of a category.
      target: the name of ``y``.
      protected: the name of ``z``.
      task: ``"regression"`` or ``"classification"``.
    """

    name: str
    x: Values
    y: Values
    z: Values
    features: tuple[str, ...]
    target: str
    protected: str
    task: Literal["regression", "classification"]

    def __getitem__(self, name: str) -> Values:
        if name == self.target:
            return self.y
        if name in self.features:
            return self.x[:, self.features.index(name)]
        names = [*self.features, self.target]
        levels = [column for column in names if column.startswith(f"{name}=")]
        hint = f"; it is categorical, with a column for each level: {listed(levels, 3)}"
        raise KeyError(
            f"{self.name} has no column {name!r}{hint if levels else near_matches(name, names)}"
        )

    def __repr__(self) -> str:
        rows, columns = self.x.shape
        return (
            f"<Dataset {self.name}: {self.task}, {rows} rows, {columns} inputs,"
            f" target {self.target!r}, protected {self.protected!r}>"
        )

    def to_frame(self) -> pandas.DataFrame:
        """Return the inputs, then the target, as a pandas data frame ``(n, p + 1)``, a copy.

        Raises:
          ImportError: without pandas, naming the command that installs it.
        """
        columns = [*self.features, self.target]
        frame = require("pandas").DataFrame
        return frame(np.column_stack([self.x, self.y]), columns=columns)


def from_columns(
    name: str,
    columns: Mapping[str, Values],
    *,
    target: str,
    protected: str,
    task: Literal["regression", "classification"],
) -> Dataset:
    """Return a data set of the columns, all of which except the target are inputs."""
    features = tuple(column for column in columns if column != target)
    x = np.column_stack([columns[feature] for feature in features])
    y, z = columns[target], columns[protected].copy()
    return Dataset(name, x, y, z, features, target, protected, task)


def encoded(cells: Mapping[str, NDArray[Any]], categorical: Collection[str]) -> dict[str, Values]:
    """Return columns of numbers, and an indicator column for each level of a category."""
    columns: dict[str, Values] = {}
    for name, texts in cells.items():
        if name not in categorical:
            columns[name] = np.array(texts, dtype=np.float64)
            continue
        category = encode_texts(texts)
        names = (f"{name}={level}" for level in category.levels)
        columns.update(zip(names, category.one_hot().T, strict=True))
    return columns
