"""Census: poverty of children in the counties or tracts of the United States, 2015."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from hgr_jax.datasets.dataset import Dataset, encoded, from_columns, read_rows
from hgr_jax.datasets.download import fetch
from hgr_jax.tables.files import MISSING, TableError, is_number, printable

COLUMNS = (
    "State",
    "TotalPop",
    "Women",
    "Hispanic",
    "White",
    "Black",
    "Native",
    "Asian",
    "Pacific",
    "Citizen",
    "Income",
    "IncomeErr",
    "IncomePerCap",
    "IncomePerCapErr",
    "ChildPoverty",
    "Professional",
    "Service",
    "Office",
    "Construction",
    "Production",
    "Drive",
    "Carpool",
    "Transit",
    "Walk",
    "OtherTransp",
    "WorkAtHome",
    "MeanCommute",
    "Employed",
    "PrivateWork",
    "PublicWork",
    "SelfEmployed",
    "FamilyWork",
    "Unemployment",
)
"""The columns that are used, in their order."""

DROPPED = ("County", "Men", "Poverty")
"""Columns that are not used; a missing value in them drops the row all the same."""


def load_census(
    *,
    tract: str | Path | None = None,
    folder: str | Path | None = None,
    cache: str | Path | None = None,
    address: str | None = None,
    progress: bool = False,
) -> Dataset:
    """Census: percentage of children in poverty, protected median income of the households.

    Of the columns of the American Community Survey, the id, ``County``, ``Poverty`` and ``Men``
    are left out, and so are rows with a missing value.  ``Unemployment`` is 1 above its mean,
    else 0, and ``State`` is a category; the other inputs are numbers in their units.

    The table of the paper has a row for each tract.  It is to be had from Kaggle only, which asks
    for a login (``muonneutrino/us-census-demographic-data``); ``tract`` names the file once it is
    on the machine.  Without it, the table has a row for each county, 3,218 of them.

    Args:
      tract: the path of ``acs2015_census_tract_data.csv``, or of rows of it under the same line
        of names; further columns are left out.  The other arguments then do not matter.
      folder: where ``acs2015_county_data.csv`` may lie already; by default the folder that the
        environment variable ``HGR_JAX_DATA`` names, if it names one.
      cache: the folder of downloads, made if need be; by default the user's cache folder.
      address: the base address of a mirror of the file; by default the publisher's.
      progress: whether to show a bar on stderr while downloading.

    Returns:
      A `Dataset`, a regression, for counties with ``x`` of shape ``(3218, 83)``.

    Raises:
      TableError: a ``tract`` that does not exist or cannot be read, without one of the columns,
        with text where a number belongs, or without a complete row.
      DatasetError: if the file cannot be downloaded, or has other contents than the publisher's.
      ImportError: without pooch, where the folder does not hold the file.
      TypeError, ValueError: for another ``progress`` or ``address``.

    Licence: public domain (US Census Bureau).

    Source: US Census Bureau, American Community Survey 2015, five-year estimates.

    Example:
      >>> from hgr_jax.datasets import load_census
      >>> load_census()["Income"].mean()  # doctest: +SKIP
      >>> load_census(tract="acs2015_census_tract_data.csv")  # doctest: +SKIP
    """
    if tract is not None:
        return _prepared(Path(tract).expanduser(), "census (tracts)", "CensusTract")
    path = fetch(
        "acs2015_county_data.csv", folder=folder, cache=cache, address=address, progress=progress
    )
    return _prepared(path, "census (counties)", "CensusId")


def _prepared(path: Path, name: str, identifier: str) -> Dataset:
    shown = printable(str(path))
    columns = encoded(_cells(path, shown, identifier), {"State"})
    for column, values in columns.items():
        if not np.isfinite(values).all():
            raise TableError(f"{shown}: column {column!r} holds an infinite value")
    unemployment = columns["Unemployment"]
    columns["Unemployment"] = (unemployment > unemployment.mean()) * 1.0
    return from_columns(name, columns, target="ChildPoverty", protected="Income", task="regression")


def _cells(path: Path, shown: str, identifier: str) -> dict[str, list[str]]:
    """Texts of the columns in use, of the rows without a missing value."""
    try:
        header, *rows = read_rows(path) or [[]]
    except FileNotFoundError:
        raise TableError(f"no such file: {shown}") from None
    except OSError as error:
        raise TableError(f"cannot read {shown}: {error.strerror}") from None
    except csv.Error as error:
        raise TableError(f"{shown} cannot be read as CSV: {error}") from None
    needed = (identifier, *COLUMNS, *DROPPED)
    absent = [column for column in needed if header.count(column) != 1]
    if absent:
        names = ", ".join(repr(column) for column in absent)
        raise TableError(
            f"{shown} must have one column of each of the names {names}; its first line starts"
            f" with {printable(','.join(header))[:60]!r}"
        )
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise TableError(
                f"{shown}, row {number}: expected {len(header)} values as in the header,"
                f" got {len(row)}"
            )
    positions = [header.index(column) for column in needed]
    complete = [
        row for row in rows if not any(row[position].lower() in MISSING for position in positions)
    ]
    if not complete:
        raise TableError(f"{shown} has no row without a missing value")
    cells = {column: [row[header.index(column)] for row in complete] for column in COLUMNS}
    for column in COLUMNS[1:]:
        _check_numbers(shown, column, cells[column])
    return cells


def _check_numbers(shown: str, column: str, texts: list[str]) -> None:
    for text in texts:
        if not is_number(text):
            raise TableError(
                f"{shown}: column {column!r} holds text, for example {text[:40]!r};"
                " expected numbers"
            )
