"""P-values of pairs with a category: the law of their table of counts."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scan_support import upper

from hgr_jax import scan

TABLES = (
    [[0, 1, 9], [6, 7, 0], [4, 6, 0]],
    [[11, 0, 0], [0, 4, 7], [1, 5, 6]],
    [[12, 0], [0, 10], [1, 9]],
    [[9, 3], [2, 11]],
    [[5, 2, 1], [2, 6, 2], [1, 2, 6]],
)


def columns_of(table: Any) -> dict[str, Any]:
    """Rows with these counts, in which the levels of both sides are texts."""
    rows = [
        (f"r{i}", f"c{j}")
        for i, line in enumerate(table)
        for j, m in enumerate(line)
        if m
        for _ in range(m)
    ]
    return {
        name: np.array(x, object) for name, x in zip("ab", zip(*rows, strict=True), strict=True)
    }


def root(tables: Any) -> Any:
    """The largest correlation of functions of the two sides of tables ``(N, R, C)``."""
    tables = np.asarray(tables, float)
    share = tables / tables.sum(axis=(1, 2), keepdims=True)
    r, c = share.sum(axis=2, keepdims=True), share.sum(axis=1, keepdims=True)
    return np.linalg.svd((share - r * c) / np.sqrt(r * c), compute_uv=False)[:, 0]


def lines(total: int, most: Any) -> Any:
    """All lines of counts with a sum, each at most so many."""
    ranges = [range(min(total, m) + 1) for m in most[:-1]]
    for line in itertools.product(*ranges):
        last = total - sum(line)
        if 0 <= last <= most[-1]:
            yield (*line, last)


def exact_pvalue(table: Any) -> float:
    """The probability of all tables with these margins whose root is as large."""
    table = np.asarray(table)
    rows, columns = table.sum(axis=1).tolist(), table.sum(axis=0).tolist()
    tables: list[Any] = [()]
    for total in rows[:-1]:
        tables = [
            (*head, line)
            for head in tables
            for line in lines(total, [c - sum(x[j] for x in head) for j, c in enumerate(columns)])
        ]
    every = np.array(
        [(*head, [c - sum(x[j] for x in head) for j, c in enumerate(columns)]) for head in tables]
    )
    log_factorial = np.array([math.lgamma(m + 1) for m in range(table.sum() + 1)])
    log_p = log_factorial[rows].sum() + log_factorial[columns].sum() - log_factorial[-1]
    log_p = log_p - log_factorial[every].sum(axis=(1, 2))
    return float(np.exp(log_p)[root(every) >= root(table[None])[0] - 1e-9].sum())


@pytest.mark.parametrize("table", TABLES)
def test_small_tables_have_their_exact_law(table: Any) -> None:
    pair = scan(columns_of(table))["a", "b"]
    if pair.pvalue_source == "exact":
        assert pair.pvalue == pytest.approx(exact_pvalue(table), rel=1e-9)
    else:  # 10 random tables that reach the statistic
        assert pair.pvalue_source == "permutation"
        assert abs(math.log(pair.pvalue / exact_pvalue(table))) < math.log(3)


def test_pvalues_of_other_tables_are_near_the_exact_law() -> None:
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(3):
        a = rng.integers(0, 3, 90)
        b = np.where(rng.random(90) < 0.45, a, rng.choice(3, 90, p=[0.6, 0.25, 0.15]))
        table = np.zeros((3, 3), int)
        np.add.at(table, (a, b), 1)
        pair = scan({"a": a.astype(str).astype(object), "b": b.astype(str).astype(object)})[
            "a", "b"
        ]
        errors.append(math.log(pair.pvalue / exact_pvalue(table)))
    assert np.abs(errors).max() < math.log(5)
    assert np.mean(np.abs(errors) < math.log(3)) >= 0.8  # all of them


def rare(rows: int, count: int, seed: int) -> dict[str, Any]:
    """Independent categories of 2 to 5 levels, some of which are rare."""
    rng = np.random.default_rng(seed)
    columns = {}
    while len(columns) < count:
        levels = int(rng.integers(2, 6))
        codes = rng.choice(levels, rows, p=rng.dirichlet(np.ones(levels)))
        if len(np.unique(codes)) > 1:
            columns[f"v{len(columns)}"] = np.array([f"l{code}" for code in codes], object)
    return columns


def test_independent_categories_of_few_rows_are_no_finding() -> None:
    rejected = []
    for seed in range(4):
        found = scan(rare(33, 70, seed))
        assert not (upper(found.adjusted_pvalue) < 0.05).any()
        rejected.append(upper(found.pvalue))
    p = np.concatenate(rejected)
    p = p[~np.isnan(p)]
    assert 0.03 < np.mean(p <= 0.05) < 0.055  # below the level, as tables are few
    assert np.mean(p <= 0.001) < 0.0018


def test_a_number_of_few_values_beside_a_category_has_the_law_of_their_table() -> None:
    columns = columns_of(TABLES[0])
    numbers = {"a": columns["a"], "b": np.array([int(x[1]) for x in columns["b"]], float)}
    pair = scan(numbers)["a", "b"]
    assert pair.pvalue_source == "exact"
    assert pair.pvalue == pytest.approx(exact_pvalue(TABLES[0]), rel=1e-6)
