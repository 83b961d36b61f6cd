"""The paper's three tables, prepared as in the paper, from the folder of the real tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bench.data import communities, data_folder
from bench.paper.output import ExperimentError
from hgr_jax.datasets import load_diabetes

Values = NDArray[np.float64]

COMMUNITIES = "communities.csv"
CENSUS = "acs2015_county_data.csv"
ADULT = ("adult.data", "adult.test")
FILES = {"census": (CENSUS,), "communities": (COMMUNITIES,), "adult": ADULT, "diabetes": ()}
NAMES = tuple(FILES)
PAPERS = NAMES[:3]
"""Those of the paper; the last comes with scikit-learn."""

# fmt: off
ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "income",
)
CENSUS_COLUMNS = (
    "State", "TotalPop", "Women", "Hispanic", "White", "Black", "Native", "Asian", "Pacific",
    "Citizen", "Income", "IncomeErr", "IncomePerCap", "IncomePerCapErr", "ChildPoverty",
    "Professional", "Service", "Office", "Construction", "Production", "Drive", "Carpool",
    "Transit", "Walk", "OtherTransp", "WorkAtHome", "MeanCommute", "Employed", "PrivateWork",
    "PublicWork", "SelfEmployed", "FamilyWork", "Unemployment",
)
# fmt: on


class NoTablesError(ExperimentError):
    """The real tables are not on this machine."""


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """A real table, whose columns ``table["age"]`` returns.

    Attributes:
      name: of the table.
      x: the inputs ``(n, p)`` in their units; a category is a column of zeros and ones for each
        of its levels.
      y: the target ``(n,)``.
      z: the protected attribute ``(n,)``, one of the inputs.
      features: the names of the inputs.
      target: the name of ``y``.
      protected: the name of ``z``.
      task: what is learned.
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
        return self.x[:, self.features.index(name)]


def load(chosen: Sequence[str] | None = None, *, quick: bool = False) -> list[Table]:
    """Census, Communities and Adult; the second alone, which is small, if ``quick``.

    Args:
      chosen: some of `NAMES`, in the place of these.
      quick: one table only.

    Raises:
      NoTablesError: if there is no folder of real tables, or a file is missing.
    """
    names = chosen or (("communities",) if quick else PAPERS)
    folder = data_folder()
    needed = [file for name in names for file in FILES[name]]
    if needed and folder is None:
        raise NoTablesError(
            "the real tables are not here: name their folder in the environment variable"
            " HGR_JAX_DATA, or put them into ../shared/data"
        )
    folder = folder or Path()
    for file in needed:
        if not (folder / file).is_file():
            raise NoTablesError(f"{folder / file} is missing")
    loaders: Mapping[str, Callable[[], Table]] = {
        "census": lambda: _census(folder / CENSUS),
        "communities": _communities,
        "adult": lambda: _adult([folder / file for file in ADULT]),
        "diabetes": diabetes,
    }
    return [loaders[name]() for name in names]


def pair(data: Table) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The protected attribute and the target."""
    return data.z.astype(np.float32), data.y.astype(np.float32)


def diabetes() -> Table:
    """The progression of a disease in 442 patients; age is protected."""
    x, y, age, names = load_diabetes()
    return Table("diabetes", x, y, age, names, "progression", "age", "regression")


def _census(path: Path) -> Table:
    """Poverty of children in 3,218 counties, in rows without a missing value."""
    frame = pd.read_csv(path).dropna()[[*CENSUS_COLUMNS]]
    frame["Unemployment"] = frame["Unemployment"] > frame["Unemployment"].mean()
    return _table("census (counties)", frame, "ChildPoverty", "Income", "regression")


def _communities() -> Table:
    """Violent crimes in 1,993 communities, as the authors of the paper prepared them."""
    found = communities()
    assert found is not None
    frame = pd.DataFrame(found[1], columns=found[0])
    return _table("communities", frame, "violentPerPop", "pctWhite", "regression")


def _adult(paths: Sequence[Path]) -> Table:
    """48,842 persons, first those of the training part; a missing value (``?``) is a level."""
    options: dict[str, Any] = {"names": ADULT_COLUMNS, "skipinitialspace": True, "comment": "|"}
    frame = pd.concat([pd.read_csv(path, **options) for path in paths], ignore_index=True)
    # The labels of the second part end in a full stop.
    frame["income"] = frame["income"].str.rstrip(".") == ">50K"
    return _table("adult", frame, "income", "age", "classification")


def _table(
    name: str,
    frame: Any,
    target: str,
    protected: str,
    task: Literal["regression", "classification"],
) -> Table:
    """Return the columns, one for each level of a category; all but the target are inputs."""
    columns: dict[str, Values] = {}
    for column, values in frame.items():
        if pd.api.types.is_numeric_dtype(values):
            columns[column] = values.to_numpy(np.float64)
        else:
            levels = pd.get_dummies(values, prefix=column, prefix_sep="=", dtype=float)
            columns |= {level: levels[level].to_numpy() for level in levels}
    y = columns.pop(target)
    x = np.column_stack(list(columns.values()))
    return Table(name, x, y, columns[protected], tuple(columns), target, protected, task)
