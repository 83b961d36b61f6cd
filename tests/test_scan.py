"""The values of an all-pairs scan: each is the measure of that pair's own rows."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scan_support import ROWS, agrees, plain

import hgr_jax
from bench import reference
from hgr_jax import Scan, scan

PATTERN_OF = (0, 0, 1, 1, 2, 3)
"""Columns share patterns of missing values, always in the same way: so do the programs."""


NUMBERS = {
    "normal": lambda rng: rng.normal(size=ROWS),
    "lognormal": lambda rng: rng.lognormal(size=ROWS),
    "heavy": lambda rng: rng.standard_t(1.5, size=ROWS),
    "far": lambda rng: np.where(np.arange(ROWS) == 20, 1e5, rng.normal(size=ROWS)),
    "ties": lambda rng: rng.normal(size=ROWS).round(1),
    "integers": lambda rng: rng.integers(0, 4, ROWS).astype(float),
    "binary": lambda rng: rng.integers(0, 2, ROWS).astype(float),
    "rare": lambda rng: (rng.random(ROWS) < 0.04).astype(float),
    "offset": lambda rng: 1e6 + rng.normal(size=ROWS),
    "tiny": lambda rng: 1e-30 * rng.normal(size=ROWS),
    "huge": lambda rng: 1e30 * rng.normal(size=ROWS),
}


SHARES = st.sampled_from([0.1, 0.5, 0.97])


def random_table(seed: int, kinds: list[str], shares: list[float]) -> dict[str, Any]:
    """Six numeric columns and two categories in five patterns of missing values."""
    rng = np.random.default_rng(seed)
    missing = [np.zeros(ROWS, bool), *(rng.random(ROWS) < share for share in shares)]
    table: dict[str, Any] = {}
    for index, (kind, pattern) in enumerate(zip(kinds, PATTERN_OF, strict=True)):
        column = NUMBERS[kind](rng)
        if index % 2 and kind == "normal":
            column = table[f"n{index - 1}"] ** 2 + 0.1 * column
        column[missing[pattern]] = np.nan
        there = column[~np.isnan(column)]
        if not len(np.unique(there)) > 1:
            # Of the size of what is there: 1 beside 1e-30 hides it from any double.
            column[:2] = [0, next((value for value in there if value), 1.0)]
        table[f"n{index}"] = column
    three = rng.choice(["red", "green", "blue"], ROWS, p=[0.6, 0.3, 0.1]).astype(object)
    table["three"] = np.where(table["n0"] > np.median(table["n0"]), "red", three)
    two = np.where(rng.random(ROWS) < 0.3, "yes", "no").astype(object)
    two[missing[1]] = None
    two[:12:2], two[1:12:2] = "yes", "no"
    table["two"] = two
    table["flat"] = np.full(ROWS, 2.5)
    return table


TABLES = {
    "seed": st.integers(0, 2**16),
    "kinds": st.lists(st.sampled_from(sorted(NUMBERS)), min_size=6, max_size=6),
    "shares": st.lists(SHARES, min_size=3, max_size=3),
}


WITHOUT_SHRINKING = (Phase.explicit, Phase.generate)
"""Smaller examples have other shapes, each of which compiles."""


def scanned_right(
    x64: bool,
    seed: int,
    kinds: list[str],
    shares: list[float],
    degrees: tuple[int, int] = (3, 2),
    weighted: bool = True,
) -> None:
    """Weights are those of a part of the rows; the first are among them, so that all vary."""
    rng = np.random.default_rng(seed + 1)
    weights = rng.exponential(size=ROWS) * (rng.random(ROWS) < 0.8)
    weights = np.maximum(weights, np.arange(ROWS) < 12) if weighted else None
    h, k = degrees
    with jax.enable_x64(x64):
        found = scan(random_table(seed, kinds, shares), h=h, k=k, weights=weights, test=None)
    agrees(found, weights)


@given(**TABLES)
@settings(max_examples=6, phases=WITHOUT_SHRINKING)
def test_every_value_is_that_of_the_pair_in_float64(**table: Any) -> None:
    scanned_right(True, **table)


@given(**TABLES)
@settings(max_examples=2, phases=WITHOUT_SHRINKING)
def test_every_value_is_that_of_the_pair_in_float32(**table: Any) -> None:
    scanned_right(False, **table, weighted=False)


def test_degrees_go_by_the_order_in_the_table(rng: np.random.Generator) -> None:
    x = plain(rng).astype(np.float32)
    for h, k in ((3, 2), (2, 3)):
        agrees(scan(x, h=h, k=k, test=None))
    found = scan(x, h=3, k=2, target=["x1", 3], test=None)
    asked = {tuple(pair) for pair in found.pairs}
    assert asked == {(0, 1), (2, 1), (4, 1), (0, 3), (2, 3), (4, 3), (1, 3)}
    agrees(found)
    assert np.isnan(found.correlation[0, 2])
    assert np.isnan(found.pearson[0, 4])
    assert len(found) == 7
    one = scan(x, h=3, k=2, target="x1", test=None)
    two = scan(x, h=3, k=2, target=-4, test=None)
    np.testing.assert_array_equal(one.correlation, two.correlation)
    assert one.degrees[0, 1].tolist() == [3, 2]
    assert one.degrees[4, 1].tolist() == [3, 2]
    assert one.degrees[1, 4].tolist() == [2, 3]


@pytest.mark.usefixtures("x64")
def test_pairs_that_are_estimated_on_their_own_rows(rng: np.random.Generator) -> None:
    x = plain(rng, 6)
    x[5:, 3] = np.nan  # five rows: degree 3 has no more than four directions there
    x[: ROWS - 7, 4] = np.nan  # disjoint from the one before
    x[:, 5] = np.where(np.arange(ROWS) < ROWS - 8, x[:, 5], 4 + 1e-9 * x[:, 5])
    found = scan(x, h=3, k=2, test=None)
    agrees(found)
    assert np.isnan(found.correlation[3, 4])
    assert found.n_obs[3, 4] == 0
    x[ROWS - 8 :, 5] = 4  # constant where column 4 is present
    found = scan(x, h=3, k=2, test=None)
    agrees(found)
    assert np.isnan(found.correlation[4, 5])
    assert found.degrees[4, 5].tolist() == [3, 0]
    table = {"a": np.where(np.arange(ROWS) < 6, x[:, 0], np.nan)}
    table["b"] = np.where(
        np.arange(ROWS) < 6, "one", np.array(["one", "two"])[x[:, 1].astype(int) % 2]
    )
    found = scan(table, h=3, k=2, test=None)
    agrees(found)
    assert found.degrees[0, 1].tolist() == [3, 0]


@pytest.mark.parametrize("missing", [False, True])
def test_more_columns_than_the_memory_holds(missing: bool, rng: np.random.Generator) -> None:
    """At 1 MiB and degree 3 a tile is 27 columns wide."""
    x = np.cumsum(rng.normal(size=(ROWS, 60)), axis=1).astype(np.float32)
    if missing:
        x[: ROWS // 3, ::7] = np.nan
        x[ROWS - 10 :, 1::9] = np.nan
    found = scan(x, h=3, k=2, test=None, execution=hgr_jax.Execution(memory=2**20))
    chosen = rng.choice(len(found.pairs), 150, replace=False)
    some = dataclasses.replace(found, _rows=found._rows.take(chosen))
    assert {tuple(pair) for pair in some.pairs // 27} == {
        (i, j) for j in range(3) for i in range(j + 1)
    }
    agrees(some)


PERMUTED = hgr_jax.Test("permutation", permutations=199)


@pytest.mark.parametrize(
    "options",
    [
        {"test": None, "target": "y"},
        {"test": None, "given": "x"},
        {"test": PERMUTED},
    ],
)
def test_values_that_far_ones_hide(options: dict[str, Any], rng: np.random.Generator) -> None:
    x, y, few = rng.normal(size=(3, 600))
    y = x**2 + 0.5 * y
    some, few = np.where(np.arange(600) % 7, y, np.nan), np.where(np.arange(600) < 5, few, np.nan)
    level = np.where(y > 1, "high", "low")
    x[:4] = 1e9
    table = {"x": x, "y": y, "some": some, "few": few, "level": level}
    found = scan(table, h=4, k=4, **options)
    with jax.enable_x64(True):
        whole = scan(table, h=4, k=4, **options)
    pairs = tuple(found.pairs.T)
    for name in ("correlation", "pearson"):
        one, other = (getattr(each, name)[pairs] for each in (found, whole))
        np.testing.assert_allclose(one, other, atol=1e-4)
    if options["test"]:  # p-values are of the estimates that are shown
        np.testing.assert_array_equal(found.pvalue[0], whole.pvalue[0])
        assert (found.pvalue[0, [1, 2, 4]] == 0.005).all()


def test_values_that_far_ones_hide_for_good(rng: np.random.Generator) -> None:
    """Where float64 cannot tell the others apart."""
    x = rng.normal(size=(ROWS, 3))
    x[:3, 0] = 1e18
    assert scan(x, h=3, k=2, test=None)["x0", "x1"].degrees_a < 3
    assert not scan(x, test=None).notes


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
