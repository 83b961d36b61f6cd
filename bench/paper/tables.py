"""The paper's three tables, prepared as in the paper, from the folder of the real tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.data import data_folder
from bench.paper.output import ExperimentError
from hgr_jax.datasets import Dataset, DatasetError, load_adult, load_census, load_communities

COMMUNITIES = "CommViolPredUnnormalizedData.txt"
CENSUS = "acs2015_county_data.csv"
ADULT = ("adult.data", "adult.test")


class NoTablesError(ExperimentError):
    """The real tables are not on this machine."""


def load(*, quick: bool = False, tract: Path | None = None) -> list[Dataset]:
    """Census, Communities and Adult; the second alone, which is small, if ``quick``.

    Args:
      quick: one table only.
      tract: the census of tracts from this file, in place of that of counties.

    Raises:
      NoTablesError: if there is no folder of real tables, or a file is missing.
    """
    folder = data_folder()
    if folder is None:
        raise NoTablesError(
            "the real tables are not here: name their folder in the environment variable"
            " HGR_JAX_DATA, or put them into ../shared/data"
        )
    for name in (COMMUNITIES,) if quick else (COMMUNITIES, CENSUS, *ADULT):
        if not (folder / name).is_file():
            raise NoTablesError(f"{folder / name} is missing")
    try:
        communities = load_communities(folder=folder)
        if quick:
            return [communities]
        census = load_census(folder=folder, tract=tract)
        return [census, communities, load_adult(folder=folder)]
    except DatasetError as error:
        raise NoTablesError(str(error)) from error


def pair(data: Dataset) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The protected attribute and the target."""
    return data.z.astype(np.float32), data.y.astype(np.float32)
