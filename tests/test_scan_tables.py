"""Scans of real tables find what is known of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bench import reference
from bench.data import data_folder
from bench.paper.tables import ADULT_COLUMNS
from hgr_jax import Scan, scan
from hgr_jax.tables.files import read_table


def path_of(name: str) -> Path:
    folder = data_folder()
    if folder is None or not (folder / name).is_file():
        pytest.skip(f"{name} is neither in ../shared/data nor in HGR_JAX_DATA")
    return folder / name


def is_whole(found: Scan) -> None:
    """No pair of columns that were used is without a value or p-value."""
    used = np.array([name not in found.skipped for name in found.names])
    pair = used[:, None] & used[None, :] & ~np.eye(len(used), dtype=bool)
    assert np.isfinite(found.correlation[pair]).all()
    assert np.isfinite(found.pvalue[pair]).all()
    assert np.isfinite(found.adjusted_pvalue[pair]).all()
    assert ((found.correlation[pair] >= 0) & (found.correlation[pair] <= 1)).all()
    assert (found.n_obs[pair] > 0).all()
    numeric = np.isfinite(np.diagonal(found.pearson))
    both = pair & numeric[:, None] & numeric[None, :]
    assert (found.pearson[both] <= found.correlation[both] + 1e-4).all()
    assert np.isnan(found.correlation[~used]).all()


def between(found: Scan, a: str, b: str) -> float:
    return found.correlation[found.names.index(a), found.names.index(b)]


def test_communities(communities_table: tuple[list[str], np.ndarray]) -> None:
    names, x = communities_table
    found = scan(dict(zip(names, x.T.astype(np.float32), strict=True)), h=3, k=3)
    is_whole(found)
    assert not found.skipped
    assert len(found) == 104 * 103 // 2
    rng = np.random.default_rng(0)
    x = x.astype(np.float32).astype(np.float64)
    for i, j in found.pairs[rng.choice(len(found.pairs), 60, replace=False)]:
        expected = reference.kb(x[:, i], x[:, j], 3, 3)
        assert found.correlation[i, j] == pytest.approx(expected, abs=1e-4), (names[i], names[j])
    assert between(found, "medIncome", "medFamIncome") > 0.97
    assert between(found, "pop", "persUrban") > 0.99
    assert between(found, "pctWhite", "pctBlack") > 0.8
    assert found.top(1, by="excess")[0].excess > 0.5
    # Seven rows make HGR of the number of bedrooms, and the test does not go by so few.
    pairs = [pair for pair in found.top(400) if "medNumBedrm" not in (pair.a, pair.b)]
    assert len(pairs) > 390
    assert all(pair.pvalue < 1e-6 for pair in pairs)


@pytest.mark.slow
def test_counties() -> None:
    table = pd.read_csv(path_of("acs2015_county_data.csv"))
    found = scan(table, h=3, k=3)
    is_whole(found)
    assert list(found.skipped) == ["County"]
    assert "1928 levels" in found.skipped["County"]
    assert "16 rare levels" in found.notes["State"]
    assert between(found, "TotalPop", "Men") > 0.999
    assert between(found, "CensusId", "State") > 0.99
    assert 0.94 < between(found, "Poverty", "ChildPoverty") < 0.96
    hispanic = found.names.index("Hispanic"), found.names.index("White")
    assert found.correlation[hispanic] > 0.9 > 0.8 > found.pearson[hispanic]
    child = found.names.index("ChildPoverty"), found.names.index("Poverty")
    assert found.n_obs[child] == table["ChildPoverty"].notna().sum()
    a, b = (table[name].to_numpy(np.float64) for name in ("Hispanic", "White"))
    assert found.correlation[hispanic] == pytest.approx(reference.kb(a, b, 3, 3), abs=1e-4)


@pytest.mark.slow
def test_adult(tmp_path: Path) -> None:
    """Text, numbers, and ``?`` for what is missing, as a file of commas."""
    parts = [path_of("adult.data").read_text(), path_of("adult.test").read_text()]
    rows = [line.rstrip(".") for part in parts for line in part.splitlines() if line.count(",") > 9]
    file = tmp_path / "adult.csv"
    file.write_text("\n".join([",".join(ADULT_COLUMNS), *rows]))
    frame = read_table(file)
    assert frame.rows == 48_842
    found = scan(dict(frame.columns), h=3, k=3)
    is_whole(found)
    assert not found.skipped
    assert between(found, "education", "education-num") == pytest.approx(1, abs=1e-3)
    assert between(found, "marital-status", "relationship") > 0.97
    assert between(found, "relationship", "sex") > 0.6
    assert between(found, "fnlwgt", "education-num") < 0.1
    place = found.names.index("occupation"), found.names.index("sex")
    assert found.n_obs[place] == np.sum(frame.column("occupation") != "")
    assert found.degrees[place].tolist() == [12, 1]
    assert found.pvalue[place] < 1e-100

    sex, relationship = (frame.column(name) for name in ("sex", "relationship"))
    table = pd.crosstab(sex, relationship).to_numpy() / len(sex)
    shares = table.sum(axis=1, keepdims=True), table.sum(axis=0, keepdims=True)
    residuals = table / np.sqrt(shares[0] * shares[1]) - np.sqrt(shares[0] * shares[1])
    expected = np.linalg.svd(residuals, compute_uv=False)[0]
    assert between(found, "relationship", "sex") == pytest.approx(expected, abs=1e-5)
