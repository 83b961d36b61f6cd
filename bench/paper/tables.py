"""The paper's three tables, prepared as in the paper, from the folder of the real tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.data import data_folder
from bench.paper.output import ExperimentError
from hgr_jax.datasets import (
    Dataset,
    DatasetError,
    load_adult,
    load_census,
    load_communities,
    load_diabetes,
)

COMMUNITIES = "CommViolPredUnnormalizedData.txt"
CENSUS = "acs2015_county_data.csv"
ADULT = ("adult.data", "adult.test")
FILES = {"census": (CENSUS,), "communities": (COMMUNITIES,), "adult": ADULT, "diabetes": ()}
NAMES = tuple(FILES)
PAPERS = NAMES[:3]
"""Those of the paper; the last comes with scikit-learn."""


class NoTablesError(ExperimentError):
    """The real tables are not on this machine."""


def load(
    chosen: Sequence[str] | None = None, *, quick: bool = False, tract: Path | None = None
) -> list[Dataset]:
    """Census, Communities and Adult; the second alone, which is small, if ``quick``.

    Args:
      chosen: some of `NAMES`, in the place of these.
      quick: one table only.
      tract: the census of tracts from this file, in place of that of counties.

    Raises:
      NoTablesError: if there is no folder of real tables, or a file is missing.
    """
    names = chosen or (("communities",) if quick else PAPERS)
    folder = data_folder()
    needed = [file for name in names for file in FILES[name]]
    if folder is None and needed:
        raise NoTablesError(
            "the real tables are not here: name their folder in the environment variable"
            " HGR_JAX_DATA, or put them into ../shared/data"
        )
    for file in needed:
        if folder is not None and not (folder / file).is_file():
            raise NoTablesError(f"{folder / file} is missing")
    loaders = {
        "census": lambda: load_census(folder=folder, tract=tract),
        "communities": lambda: load_communities(folder=folder),
        "adult": lambda: load_adult(folder=folder),
        "diabetes": load_diabetes,
    }
    try:
        return [loaders[name]() for name in names]
    except DatasetError as error:
        raise NoTablesError(str(error)) from error


def column(data: Dataset, name: str) -> NDArray[np.float64]:
    """A column of a table.

    Raises:
      ExperimentError: if it has none of this name, with a hint.
    """
    try:
        return data[name]
    except KeyError as error:
        raise ExperimentError(error.args[0]) from error


def pair(data: Dataset) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The protected attribute and the target."""
    return data.z.astype(np.float32), data.y.astype(np.float32)
