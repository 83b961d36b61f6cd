"""One meaning of a table: a frame, a file, with little memory, in parts, and of Dask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hgr_jax
from tests.sources_support import same_meaning

ROWS = 400


def shop(rng: np.random.Generator) -> pd.DataFrame:
    """Decimal commas, per cent, money, dates: as people write them."""
    price = rng.uniform(1, 5000, ROWS)
    return pd.DataFrame(
        {
            "price": [f"{p:.2f}".replace(".", ",") for p in price],
            "rebate": [f"{p / 100:.1f}%" for p in rng.permutation(price)],
            "total": [f"${1.2 * p + 100:,.2f}" for p in price],
            "day": [f"{1 + int(p) % 28:02}.{1 + int(p) % 12:02}.2023" for p in price],
            "count": rng.integers(0, 40, ROWS),
        }
    )


def patterns(rng: np.random.Generator) -> pd.DataFrame:
    """Values that are missing in rows of their own, marks of missing values, and weights."""
    x = rng.normal(size=(ROWS, 4))
    x[:, 1] += x[:, 0] ** 2
    x[rng.random(x.shape) < 0.1] = np.nan
    table = pd.DataFrame(x, columns=[*"abcd"])
    table["mass"] = rng.uniform(0.5, 1, ROWS)
    table["mark"] = np.where(rng.random(ROWS) < 0.2, "n/a", np.round(rng.normal(size=ROWS), 3))
    return table


def kinds(rng: np.random.Generator) -> pd.DataFrame:
    """Categories with rare levels, codes, flags, one value, identifiers."""
    zone = rng.integers(1, 9, ROWS)
    return pd.DataFrame(
        {
            "zone": zone,
            "town": np.array([*"abcdefghi"])[zone],
            "rare": np.where(rng.random(ROWS) < 0.02, "seldom", np.where(zone > 4, "x", "y")),
            "flag": rng.random(ROWS) < 0.3,
            "same": "one",
            "id": [f"row {i}" for i in range(ROWS)],
            "size": zone + rng.normal(size=ROWS),
        }
    )


def holes(rng: np.random.Generator) -> pd.DataFrame:
    """Categories and numbers with missing values, many and few."""
    table = kinds(rng)
    table.loc[table["size"] > 6, ["town", "zone"]] = None
    table.loc[:2, "rare"] = None
    table.loc[rng.random(ROWS) < 0.1, "size"] = None
    return table


TABLES: dict[str, tuple[Callable[[np.random.Generator], pd.DataFrame], dict[str, Any]]] = {
    "shop": (shop, {}),
    "patterns": (patterns, {}),
    "weights": (patterns, {"weights": "mass"}),
    "given": (patterns, {"given": "c", "h": 3, "k": 3}),
    "kinds": (kinds, {}),
    "categories": (
        kinds,
        {"categories": ["zone"], "target": "zone", "measure": "kb"},
    ),
    "missing": (
        holes,
        {"categories": hgr_jax.Categories(["zone"], missing="level"), "h": 2, "k": 2},
    ),
}


def readings(table: pd.DataFrame, path: Path, options: dict[str, Any]) -> Iterator[hgr_jax.Scan]:
    """The scan of a table wherever it is."""
    frames = pytest.importorskip("dask.dataframe", reason="the extra cluster is not installed")
    little = hgr_jax.Execution(memory=2**20)
    yield hgr_jax.scan(path, **options)
    yield hgr_jax.scan(path, execution=little, **options)
    (path.parent / "parts").mkdir()
    table.iloc[: ROWS // 3].to_csv(path.parent / "parts" / "1.csv", index=False)
    table.iloc[ROWS // 3 :].to_csv(path.parent / "parts" / "2.csv", index=False)
    yield hgr_jax.scan(path.parent / "parts", **options)
    for partitions in (1, 7):
        parts = frames.from_pandas(table, npartitions=partitions, sort=False)
        yield hgr_jax.scan(parts, **options)


@pytest.mark.parametrize("name", TABLES)
def test_the_reader_changes_no_result(name: str, rng: np.random.Generator, tmp_path: Path) -> None:
    make, options = TABLES[name]
    made = make(rng)
    made.to_csv(tmp_path / "t.csv", index=False)
    table = pd.read_csv(tmp_path / "t.csv")
    expected = hgr_jax.scan(table, **options)
    assert len(expected) >= 3
    for found in readings(table, tmp_path / "t.csv", options):
        same_meaning(found, expected)
        np.testing.assert_allclose(found.pvalue, expected.pvalue, atol=1e-9)
