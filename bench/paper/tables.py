"""The paper's three tables, prepared as in the paper, from the folder of the real tables."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.data import data_folder
from bench.paper.output import ExperimentError

ADULT_COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)


@dataclasses.dataclass(frozen=True)
class Table:
    """Columns by name, with the target and the protected attribute of the paper."""

    name: str
    target: str
    protected: str
    columns: dict[str, NDArray[np.float64]]

    @property
    def pair(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The protected attribute and the target."""
        a, b = (self.columns[name].astype(np.float32) for name in (self.protected, self.target))
        return a, b


class NoTablesError(ExperimentError):
    """The real tables are not on this machine."""


def load(*, quick: bool = False) -> list[Table]:
    """Census (counties), Communities and Adult; the second alone, which is small, if ``quick``.

    Raises:
      NoTablesError: if there is no folder of real tables, or a file is missing.
    """
    folder = data_folder()
    if folder is None:
        raise NoTablesError(
            "the real tables are not here: name their folder in the environment variable"
            " HGR_JAX_DATA, or put them into ../shared/data"
        )
    try:
        communities = _communities(folder)
        return [communities] if quick else [_census(folder), communities, _adult(folder)]
    except FileNotFoundError as error:
        raise NoTablesError(f"{error.filename} is missing") from error


def _census(folder: Path) -> Table:
    header, *rows = _read(folder / "acs2015_county_data.csv")
    dropped = {"CensusId", "County", "Poverty", "Men"}
    rows = [row for row in rows if "" not in row and "NA" not in row]
    columns = _encoded({n: [row[i] for row in rows] for i, n in enumerate(header)}, dropped)
    unemployment = columns["Unemployment"]
    columns["Unemployment"] = (unemployment > unemployment.mean()).astype(float)
    return Table("census (counties)", "ChildPoverty", "Income", columns)


def _communities(folder: Path) -> Table:
    header, *rows = _read(folder / "communities.csv")
    columns = _encoded({n: [row[i] for row in rows] for i, n in enumerate(header)}, set())
    return Table("communities", "violentPerPop", "pctWhite", columns)


def _adult(folder: Path) -> Table:
    rows = _read(folder / "adult.data") + _read(folder / "adult.test")
    rows = [[cell.strip() for cell in row] for row in rows if len(row) == len(ADULT_COLUMNS)]
    texts = {name: [row[i] for row in rows] for i, name in enumerate(ADULT_COLUMNS)}
    texts["income"] = [str(int(cell.startswith(">50K"))) for cell in texts["income"]]
    return Table("adult", "income", "age", _encoded(texts, set()))


def _read(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return [row for row in csv.reader(file) if row]


def _encoded(texts: dict[str, list[str]], dropped: set[str]) -> dict[str, NDArray[np.float64]]:
    """Numbers as they are; a column for each level of anything else."""
    columns: dict[str, NDArray[np.float64]] = {}
    for name, cells in texts.items():
        if name in dropped:
            continue
        try:
            columns[name] = np.array(cells, dtype=np.float64)
        except ValueError:
            for level in sorted(set(cells)):
                columns[f"{name}={level}"] = np.array([cell == level for cell in cells], float)
    return columns
