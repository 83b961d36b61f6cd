"""Census: poverty of children in the counties or tracts of the United States, 2015."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hgr_jax.datasets.dataset import Dataset, encoded, from_columns
from hgr_jax.datasets.download import fetch
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.files import read_table
from hgr_jax.tables.number_texts import is_number
from hgr_jax.tables.reading import Reading

# fmt: off
CENSUS_COLUMNS = (
    "State", "TotalPop", "Women", "Hispanic", "White", "Black", "Native", "Asian", "Pacific",
    "Citizen", "Income", "IncomeErr", "IncomePerCap", "IncomePerCapErr", "ChildPoverty",
    "Professional", "Service", "Office", "Construction", "Production", "Drive", "Carpool",
    "Transit", "Walk", "OtherTransp", "WorkAtHome", "MeanCommute", "Employed", "PrivateWork",
    "PublicWork", "SelfEmployed", "FamilyWork", "Unemployment",
)
# fmt: on
"""The columns of the data set, in order."""

DROPPED = ("County", "Men", "Poverty")
"""Columns that are left out; a missing value in them still drops the row."""


def load_census(
    *,
    tract: str | Path | None = None,
    folder: str | Path | None = None,
    cache: str | Path | None = None,
    address: str | None = None,
    progress: bool = False,
) -> Dataset:
    """Load Census: percentage of children in poverty, protected median income of households.

    Of the columns of the American Community Survey, the id, ``County``, ``Poverty`` and ``Men``
    are left out, and so are rows with a missing value.  ``Unemployment`` is 1 above its mean,
    else 0, and ``State`` is a category; the other inputs are numbers in their units.

    The table of the paper has a row for each tract.  It is available from Kaggle only, which asks
    for a login (``muonneutrino/us-census-demographic-data``); ``tract`` names the file once it is
    on the machine.  Without it, the table has a row for each county, 3,218 of them.

    Args:
      tract: the path of ``acs2015_census_tract_data.csv``, or of rows of it under the same line
        of names; further columns are left out.  The other arguments then do not matter.
      folder: a folder with ``acs2015_county_data.csv``; default as in `load_adult`.
      cache, address, progress: as in `load_adult`.

    Returns:
      A `Dataset`, a regression, for counties with ``x`` of shape ``(3218, 83)``.

    Raises:
      TableError: if ``tract`` does not exist or cannot be read, lacks a column, has text in a
        column of numbers, or has no complete row.
      DatasetError: if the file cannot be downloaded, or has other contents than the publisher's.
      ImportError: without pyarrow; without pooch, where the folder does not hold the file.
      TypeError, ValueError: for another ``progress`` or ``address``.

    Licence: public domain (US Census Bureau).

    Source: US Census Bureau, American Community Survey 2015, five-year estimates.

    Example:
      >>> from hgr_jax.datasets import load_census
      >>> load_census()["Income"].mean()  # doctest: +SKIP
      >>> load_census(tract="acs2015_census_tract_data.csv")  # doctest: +SKIP
    """
    if tract is not None:
        return _prepare_table(Path(tract).expanduser(), "census (tracts)", "CensusTract")
    path = fetch(
        "acs2015_county_data.csv", folder=folder, cache=cache, address=address, progress=progress
    )
    return _prepare_table(path, "census (counties)", "CensusId")


def _prepare_table(path: Path, name: str, identifier: str) -> Dataset:
    frame = read_table(path, Reading(columns=(identifier, *CENSUS_COLUMNS, *DROPPED)))
    for column in frame.columns:  # the published file gives rise to no notes
        if column in frame.notes:
            raise TableError(f"{frame.source}: column {column!r}: {frame.notes[column]}")
    # Not `Frame.missing`: infinite values are reported below.
    complete = ~np.any(
        [
            values == "" if values.dtype == object else np.isnan(values)
            for values in frame.columns.values()
        ],
        axis=0,
    )
    if not complete.any():
        raise TableError(f"{frame.source} has no row without a missing value")
    cells = {column: frame.column(column)[complete] for column in CENSUS_COLUMNS}
    for column in CENSUS_COLUMNS[1:]:
        text = next((t for t in cells[column] if isinstance(t, str) and not is_number(t)), None)
        if text is not None:
            raise TableError(
                f"{frame.source}: column {column!r} holds text, for example {text[:40]!r};"
                " expected numbers"
            )
        if np.isinf(cells[column].astype(np.float64)).any():
            raise TableError(f"{frame.source}: column {column!r} holds an infinite value")
    columns = encoded(cells, {"State"})
    unemployment = columns["Unemployment"]
    columns["Unemployment"] = (unemployment > unemployment.mean()) * 1.0
    return from_columns(name, columns, target="ChildPoverty", protected="Income", task="regression")
