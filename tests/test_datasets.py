"""Loaders of the real tables: from a local HTTP server, from folders, and what goes wrong."""

from __future__ import annotations

import csv
import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hgr_jax import datasets
from hgr_jax.datasets import Dataset, load_adult, load_census, load_communities, load_diabetes
from hgr_jax.tables.faults import TableError


def test_communities_is_the_table_of_the_paper(real: Path) -> None:
    with (real / "communities.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    paper = np.array(rows, dtype=np.float64)
    names = [name.strip() for name in header]
    data = load_communities(folder=real)
    assert [*data.features, data.target] == names
    np.testing.assert_array_equal(data.x, paper[:, :-1])
    np.testing.assert_array_equal(data.y, paper[:, -1])


def test_adult_is_prepared_as_in_the_paper(real: Path) -> None:
    data = load_adult(folder=real)
    assert data.y.sum() == 7841 + 3846
    assert data.y[:32561].sum() == 7841
    assert data.x[0, :2].tolist() == [39, 0]
    assert data["age"][32561] == 25
    assert data["capital-gain"].max() == 99999
    assert data["workclass=?"].sum() == 2799
    groups = [name.partition("=")[0] for name in data.features if "=" in name]
    assert len(set(groups)) == 8
    for group in set(groups):
        levels = [name for name in data.features if name.startswith(f"{group}=")]
        assert levels == sorted(levels)
        np.testing.assert_array_equal(sum(data[name] for name in levels), 1)


def test_census_is_prepared_as_in_the_paper(real: Path) -> None:
    data = load_census(folder=real)
    assert not {"CensusId", "County", "Poverty", "Men"} & set(data.features)
    assert data.features[:2] == ("State=Alabama", "State=Alaska")
    assert data["State=Alabama"].sum() == 67
    assert data["TotalPop"][0] == 55221
    assert data.y[0] == 18.6
    assert data.z[0] == 51281
    assert set(data["Unemployment"]) == {0, 1}
    assert 0.4 < data["Unemployment"].mean() < 0.5


def test_census_of_tracts_is_read_from_a_path(real: Path, closed: str) -> None:
    path = real / "acs2015_minnesota_tract_data.csv"
    data = load_census(tract=str(path), address=closed)
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if "" not in row.values()]
    assert data.name == "census (tracts)"
    assert data.x.shape == (len(rows), 32) == (1331, 32)
    np.testing.assert_array_equal(data.y, [float(row["ChildPoverty"]) for row in rows])
    np.testing.assert_array_equal(data["Women"], [float(row["Women"]) for row in rows])
    rates = np.array([float(row["Unemployment"]) for row in rows])
    np.testing.assert_array_equal(data["Unemployment"], rates > rates.mean())
    assert data["State=Minnesota"].all()


WRONG_TRACTS: list[tuple[Callable[[str, str], list[str]], str]] = [
    (
        lambda head, row: [head.replace("Income,", "Earnings,", 1), row],
        "no column 'Income'; did",
    ),
    (
        lambda head, row: [head.replace("CensusTract", "CensusId"), row],
        "has no column 'CensusTract'; did you mean 'CensusId'",
    ),
    (
        lambda head, row: [head, row, row + "x"],
        "column 'Unemployment': '6.8x' is read as 6.8",
    ),
    (
        lambda head, row: [head, *[row] * 19, row + "x"],
        "column 'Unemployment': '6.8x' is read as 6.8",
    ),
    (lambda head, row: [head, row.rpartition(",")[0] + ",inf"], "holds an infinite value"),
    (lambda head, row: [head, row.replace("Minnesota", "NA")], "no row without a missing value"),
]


@pytest.mark.parametrize(("change", "message"), WRONG_TRACTS)
def test_a_file_of_tracts_that_cannot_be_used(
    change: Callable[[str, str], list[str]], message: str, real: Path, tmp_path: Path
) -> None:
    lines = (real / "acs2015_minnesota_tract_data.csv").read_text().splitlines()[:2]
    path = tmp_path / "tracts.csv"
    with pytest.raises(TableError, match=r"no such file: .*tracts\.csv"):
        load_census(tract=path)
    path.write_text("\n".join(change(*lines)))
    with pytest.raises(TableError, match=message) as caught:
        load_census(tract=path)
    assert str(path) in str(caught.value)


def test_diabetes_is_in_its_own_units() -> None:
    data = load_diabetes()
    assert data.x.shape == (442, 10)
    assert (data.y.min(), data.y.max()) == (25, 346)
    assert set(data["sex"]) == {1, 2}
    assert (data.z.min(), data.z.max()) == (19, 79)
    assert data.task == "regression"
    np.testing.assert_array_equal(data["age"], data.z)
    np.testing.assert_array_equal(data["progression"], data.y)


@pytest.fixture
def small() -> Dataset:
    x = np.array([[1.0, 0.0, 3.0], [0.0, 1.0, 4.0]])
    y = np.array([5.0, 6.0])
    features = ("city=Oslo", "city=Rome", "income")
    return Dataset("small", x, y, x[:, 2], features, "rent", "income", "regression")


def test_a_column_by_its_name(small: Dataset) -> None:
    np.testing.assert_array_equal(small["city=Rome"], [0, 1])
    np.testing.assert_array_equal(small["rent"], [5, 6])
    for name, message in {
        "incme": "small has no column 'incme'; did you mean 'income'",
        "INCOME": "did you mean 'income'",
        "city": "categorical, with a column for each level: 'city=Oslo', 'city=Rome'",
        "zzz": "; there are city=Oslo, city=Rome, income, rent.",
        0: "no column 0",
    }.items():
        with pytest.raises(KeyError, match=message):
            small[name]  # type: ignore[index]


def test_a_dataset_is_frozen_says_what_it_is_and_makes_a_frame(small: Dataset) -> None:
    assert repr(small) == (
        "<Dataset small: regression, 2 rows, 3 inputs, target 'rent', protected 'income'>"
    )
    with pytest.raises(AttributeError):
        small.name = "other"  # type: ignore[misc]
    frame = small.to_frame()
    assert list(frame.columns) == [*small.features, "rent"]
    np.testing.assert_array_equal(frame[["income", "rent"]], [[3, 5], [4, 6]])


def test_what_is_not_installed_is_named(
    small: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HGR_JAX_DATA", raising=False)
    for module in ("pooch", "pandas", "sklearn.datasets"):
        monkeypatch.setitem(sys.modules, module, None)
    needs: list[tuple[str, str, Callable[[], object]]] = [
        ("pooch", "data", lambda: load_adult(cache=tmp_path)),
        ("pandas", "cli", small.to_frame),
        ("sklearn", "cli", load_diabetes),
    ]
    for package, extra, call in needs:
        with pytest.raises(ImportError, match=rf"needs {package}, .*hgr_jax\[{extra}\]"):
            call()


def test_import_loads_no_optional_package() -> None:
    code = "import hgr_jax, hgr_jax.datasets, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"pooch", "pandas", "sklearn", "requests"} & set(loaded)


@pytest.mark.parametrize("name", [name for name in datasets.__all__ if name.startswith("load_")])
def test_loaders_are_documented(name: str) -> None:
    load = getattr(datasets, name)
    sections = ("Returns:", "Raises:", "Licence:", "Source:", "Example:")
    for text in (*sections, *inspect.signature(load).parameters):
        assert text in load.__doc__
