"""The p-values of a scan: where they come from, what they are, and that they hold their level."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from scan_support import is_the_test_of_each_pair, upper
from scipy.stats import binom, false_discovery_control

import hgr_jax
from bench import reference
from hgr_jax import Scan, scan
from hgr_jax.inference import roys_root

ROWS = 300
COLUMNS = 46
"""Of a table of independent columns: 1,035 pairs."""

KINDS = ("uniform", "lognormal", "t3", "discrete", "category")


def independent(kind: str, rows: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    shape = rows, COLUMNS
    match kind:
        case "uniform":
            x = rng.uniform(-1, 1, shape)
        case "lognormal":
            x = rng.lognormal(size=shape)
        case "t3":
            x = rng.standard_t(3, shape)
        case "discrete":
            x = rng.integers(0, 4, shape).astype(float)
        case "category":
            names = np.array(list("abcd"), dtype=object)
            codes = rng.choice(4, shape, p=[0.4, 0.3, 0.2, 0.1])
            return {f"x{i}": names[codes[:, i]] for i in range(COLUMNS)}
    return x.astype(np.float32)


def holds_its_level(*tables: Any, degree: int = 3, permutations: int = 199) -> set[str]:
    """Rejections of all pairs of tables of independent columns; returns the sources.

    Two tables at least: of one, the share of rejections has a standard deviation of 0.7%.
    """
    scans = [
        scan(table, h=degree, k=degree, test=hgr_jax.Test(permutations=permutations))
        for table in tables
    ]
    pvalues = np.concatenate([upper(found.pvalue) for found in scans])
    sources = set(np.concatenate([upper(found.pvalue_source) for found in scans]))
    assert np.isfinite(pvalues).all()
    assert 0.03 <= np.mean(pvalues <= 0.05) <= 0.07, sources
    # Pairs of one table share columns, so their counts vary somewhat more than a binomial's.
    assert np.sum(pvalues <= 0.005) <= binom.ppf(1 - 1e-6, len(pvalues), 0.005), sources
    return sources


@pytest.mark.parametrize("kind", KINDS)
def test_rejections_of_independent_columns(kind: str) -> None:
    sources = holds_its_level(independent(kind, ROWS, 0), independent(kind, ROWS, 1))
    assert sources <= {"asymptotic" if kind == "category" else "rank", "permutation", "exact"}


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(ROWS, 5))
    x[:, 1] = x[:, 0] ** 2 + x[:, 1]
    x[:, 2] += 0.2 * x[:, 3]
    return np.exp(x).astype(np.float32)


def law(found: Scan, values: np.ndarray) -> np.ndarray:
    """P-values by Roy's law of the pairs of a scan, from their values."""
    i, j = found.pairs.T
    return np.exp(roys_root.log_survival(values[i, j], found.n_obs[i, j], *found.degrees[i, j].T))


def test_where_pvalues_come_from(table: np.ndarray) -> None:
    none = scan(table, h=3, k=2, test=None)
    assert np.isnan(none.pvalue).all()
    assert np.isnan(none.null_95).all()
    assert set(none.pvalue_source.ravel()) == {""}

    plain = scan(table, h=3, k=2, test="asymptotic")
    np.testing.assert_allclose(
        plain.pvalue[tuple(plain.pairs.T)], law(plain, plain.correlation), rtol=1e-3
    )
    assert set(upper(plain.pvalue_source)) == {"asymptotic"}
    auto = scan(table, h=3, k=2)
    assert set(upper(auto.pvalue_source)) == {"rank"}
    is_the_test_of_each_pair(auto, table)
    i, j = plain.pairs.T
    freedom = plain.n_obs[i, j], *plain.degrees[i, j].T
    np.testing.assert_allclose(plain.null_mean[i, j], roys_root.mean(*freedom))
    np.testing.assert_allclose(plain.null_95[i, j], roys_root.quantile(0.95, *freedom))


def test_few_rows_and_rare_values_are_permuted() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 5)).astype(np.float32)
    x[:, 4] = np.isin(np.arange(ROWS), [23, 24, 200])
    x[15:, 3] = x[:15, 4] = np.nan  # no row is shared
    found = scan(x, h=3, k=2, test=hgr_jax.Test(permutations=19))
    assert found.pvalue_source[0, 1] == "rank"
    assert set(found.pvalue_source[:3, 3:].ravel()) == {"permutation"}
    assert set(np.diagonal(found.pvalue_source)) == {""}
    assert found.pvalue_source[3, 4] == ""
    assert np.isnan(found.pvalue[3, 4])
    assert np.isnan(found.adjusted_pvalue[3, 4])
    tested = np.isfinite(upper(found.pvalue))
    assert tested.sum() == 9
    adjusted = false_discovery_control(upper(found.pvalue)[tested])
    np.testing.assert_allclose(upper(found.adjusted_pvalue)[tested], adjusted, rtol=1e-12)


def permuted(first: Any, second: Any, count: int = 999) -> np.ndarray:
    """HGR-KB of the data, then under permutations, from orthonormal rows."""
    rng = np.random.default_rng(8)
    orders = [np.arange(first.shape[1]), *(rng.permutation(first.shape[1]) for _ in range(count))]
    return np.array([reference.canonical_correlation(first, second[:, o]) for o in orders])


def agrees_with_permutations(found: Scan, i: int, j: int, values: np.ndarray) -> None:
    null, count = values[1:], found.settings["permutations"]
    assert found.correlation[i, j] == pytest.approx(values[0], abs=1e-5)
    pvalue = (1 + np.sum(null >= values[0] - 1e-9)) / (1 + len(null))
    deviation = np.sqrt(pvalue * (1 - pvalue) * (1 / count + 1 / len(null)))
    assert abs(found.pvalue[i, j] - pvalue) <= 4 * deviation
    deviation = null.std() * np.sqrt(1 / count + 1 / len(null))
    assert abs(found.null_mean[i, j] - null.mean()) <= 4 * deviation
    assert np.mean(null <= found.null_95[i, j]) == pytest.approx(0.95, abs=0.03)
    reached = found.pvalue[i, j] * (count + 1)
    assert reached == pytest.approx(round(reached))
    assert reached >= 1 - 1e-9


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("missing", ["nowhere", "in one pattern", "in several"])
def test_a_permutation_test_is_that_of_the_pair(missing: str, table: np.ndarray) -> None:
    """The same distribution as of a test that permutes the pair on its own."""
    x = np.log(table[:80].astype(np.float64))
    pairs, target = [(0, 1), (2, 3)], None
    if missing == "in one pattern":
        x[::4] = np.nan
    elif missing == "in several":
        x[::4, 0] = np.nan  # the first column has another pattern than the pairs
        x[1::4, 2:4] = np.nan
        x, pairs, target = x[:, :4], [(2, 3), (1, 3), (0, 3)], 3
    found = scan(x, h=3, k=2, target=target, test=hgr_jax.Test("permutation", permutations=999))
    assert set(found.pvalue_source[tuple(found.pairs.T)]) == {"permutation"}
    for i, j in pairs:
        keep = ~np.isnan(x[:, i] + x[:, j])
        sides = (reference.orthonormal_polynomials(x[keep, c], d) for c, d in ((i, 3), (j, 2)))
        agrees_with_permutations(found, i, j, permuted(*sides))


def test_exact_pvalues_and_ties() -> None:
    """Of two columns of two values, the number in a cell is hypergeometric."""
    options: dict[str, Any] = {"h": 1, "k": 1}
    a = np.repeat([0.0, 1.0], 10)
    b = np.concatenate([np.tile([0.0, 1.0], 5), np.zeros(9), [1.0]])
    # 5 of the 6 ones are in the first half: in all, 0, 1, 5 or 6 have probability 5460 / 38760.
    found = scan({"a": a, "b": b}, test=hgr_jax.Test("permutation", 4000), **options)
    assert found.pvalue[0, 1] == pytest.approx(5460 / 38760, abs=0.02)

    options["test"] = hgr_jax.Test("permutation", 99, key=jax.random.key(1))
    balanced = scan({"a": a, "b": np.tile([0.0, 1.0], 10)}, **options)
    assert balanced.correlation[0, 1] == pytest.approx(0, abs=1e-9)
    assert balanced.pvalue[0, 1] == 1
    once = scan({"a": a, "b": 1.0 * (np.arange(20) == 3)}, **options)
    assert once.pvalue[0, 1] == 1  # every order gives the same value
    assert scan({"a": a, "b": 3 - a}, **options).pvalue[0, 1] == pytest.approx(0.01)


def test_the_key_decides(table: np.ndarray) -> None:
    def of(key: Any = None) -> Scan:
        return scan(table, h=3, k=2, test=hgr_jax.Test("permutation", 99, key))

    first = of()
    np.testing.assert_array_equal(first.pvalue, of().pvalue)
    np.testing.assert_array_equal(first.pvalue, of(jax.random.key(0)).pvalue)
    other = of(jax.random.key(1))
    assert (upper(first.pvalue) != upper(other.pvalue)).any()
    assert np.nanmin(other.pvalue) == 0.01
    old = of(jax.random.PRNGKey(1))
    np.testing.assert_array_equal(old.pvalue, other.pvalue)


def test_weights(table: np.ndarray) -> None:
    """Equal weights change nothing; unequal ones leave fewer effective rows."""
    ones = scan(table, h=3, k=2, weights=np.full(ROWS, 7.0))
    plain = scan(table, h=3, k=2)
    np.testing.assert_allclose(ones.pvalue, plain.pvalue, rtol=1e-2)
    np.testing.assert_allclose(ones.null_95, plain.null_95)
    weights = np.where(np.arange(ROWS) % 2, 3.0, 1.0)
    weights[:20] = 0
    found = scan(table, h=3, k=2, weights=weights, test="asymptotic")
    effective = weights.sum() ** 2 / (weights**2).sum()
    i, j = found.pairs.T
    expected = np.exp(
        roys_root.log_survival(found.correlation[i, j], effective, *found.degrees[i, j].T)
    )
    np.testing.assert_allclose(found.pvalue[i, j], expected, rtol=1e-2)
    assert (found.n_obs[i, j] == ROWS - 20).all()


def test_permutations_of_other_measures(table: np.ndarray) -> None:
    x = table[:, :3]
    found = scan(x, measure="pearson", test=hgr_jax.Test(permutations=99))
    assert set(upper(found.pvalue_source)) == {"permutation"}
    assert upper(found.pvalue).min() == pytest.approx(0.01)
    single = scan(x, measure="sk", test=hgr_jax.Test(permutations=99))
    assert single.pvalue[0, 1] == pytest.approx(0.01)
