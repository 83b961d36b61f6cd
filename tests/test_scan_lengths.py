"""Scans of tables of many shapes compile next to nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hgr_jax
from bench import reference
from hgr_jax import Scan, scan


def mixed(rows: int, seed: int = 0) -> dict[str, Any]:
    """Numbers, ties and a category, some of them with missing values."""
    rng = np.random.default_rng(seed)
    table: dict[str, Any] = {f"x{i}": rng.normal(size=rows) for i in range(3)}
    table["x1"] = table["x0"] ** 2 + 0.3 * table["x1"]
    table["tied"] = rng.integers(0, 5, rows).astype(float)
    names = np.array(list("abc"), dtype=object)
    table["group"] = names[rng.integers(0, 3, rows)]
    for name in ("x1", "tied"):
        table[name][rng.random(rows) < 0.1] = np.nan
    return table


def is_right(found: Scan, table: dict[str, Any], tolerance: float = 1e-4) -> None:
    a, b = table["x0"], table["x1"]
    keep = ~np.isnan(b)
    value = reference.kb(a[keep], b[keep], found.settings["h"], found.settings["k"])
    assert found.correlation[0, 1] == pytest.approx(value, abs=tolerance)


def test_tables_of_many_lengths_compile_next_to_nothing(compilations: Any) -> None:
    """With permutations of the short ones, and ranks of the long ones."""
    sources = set()
    with compilations() as compiled:
        for rows in (18, 57, 91, 333, 500, 777, 1025, 1500, 1999, 2500, 3001, 4097):
            table = mixed(rows, rows)
            found = scan(table, h=3, k=2, test=hgr_jax.Test(permutations=19))
            sources |= set(found.pvalue_source.ravel())
            is_right(found, table)
    assert {"rank", "permutation"} <= sources
    assert len(compiled) <= 4  # of a random key


def test_wide_tables_share_a_program(rng: np.random.Generator, compilations: Any) -> None:
    with compilations() as compiled:
        for rows in (300, 301, 5000):
            x = rng.normal(size=(rows, 60)).astype(np.float32)
            x[:, 1] += x[:, 0] ** 2
            found = scan(x, h=5, k=5, test=None)
            for i, j in ((0, 1), (2, 59), (30, 45)):
                value = reference.kb(x[:, i], x[:, j], 5, 5)
                assert found.correlation[i, j] == pytest.approx(value, abs=1e-4)
    assert len(compiled) <= 1
