"""The paper's three tables, prepared as in the paper, from the folder of the real tables."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.data import data_folder
from bench.paper.output import ExperimentError
from hgr_jax.datasets import Dataset, DatasetError, load_adult, load_census, load_communities


@dataclasses.dataclass(frozen=True)
class Table:
    """A table with its columns by name."""

    data: Dataset

    @property
    def name(self) -> str:
        """Of the table."""
        return self.data.name

    @property
    def target(self) -> str:
        """Name of the target."""
        return self.data.target

    @property
    def protected(self) -> str:
        """Name of the protected attribute."""
        return self.data.protected

    @property
    def columns(self) -> dict[str, NDArray[np.float64]]:
        """Every column, the target last."""
        data = self.data
        return {**dict(zip(data.features, data.x.T, strict=True)), data.target: data.y}

    @property
    def pair(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The protected attribute and the target."""
        return self.data.z.astype(np.float32), self.data.y.astype(np.float32)


COMMUNITIES = "CommViolPredUnnormalizedData.txt"
CENSUS = "acs2015_county_data.csv"
ADULT = ("adult.data", "adult.test")


class NoTablesError(ExperimentError):
    """The real tables are not on this machine."""


def load(*, quick: bool = False, tract: Path | None = None) -> list[Table]:
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
            return [Table(communities)]
        census = load_census(folder=folder, tract=tract)
        return [Table(census), Table(communities), Table(load_adult(folder=folder))]
    except DatasetError as error:
        raise NoTablesError(str(error)) from error
