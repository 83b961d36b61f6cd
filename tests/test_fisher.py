"""Fisher's exact law of two variables of two values."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import hypergeom

from hgr_jax.inference._fisher import fisher_log_pvalues
from hgr_jax.scanning import rank_tests


@pytest.mark.parametrize("rows", [1, 2, 7, 12])
def test_all_small_tables(rows: int) -> None:
    """Against sums of whole numbers."""
    for ones, others in itertools.product(range(rows + 1), repeat=2):
        counts = range(max(0, ones + others - rows), min(ones, others) + 1)
        choices = {k: math.comb(ones, k) * math.comb(rows - ones, others - k) for k in counts}
        for both in counts:
            far = abs(both * rows - ones * others)
            expected = sum(c for k, c in choices.items() if abs(k * rows - ones * others) >= far)
            found = math.exp(fisher_log_pvalues(rows, both, ones, others))
            assert found == pytest.approx(expected / math.comb(rows, others), rel=1e-12)


@pytest.mark.parametrize("rows", [1000, 200_000])
def test_large_tables(rows: int) -> None:
    rng = np.random.default_rng(0)
    ones, others = (rng.integers(1, rows, 200) for _ in range(2))
    others[:20], ones[10:30] = 1 + others[:20] % 20, 1 + ones[10:30] % 20
    law = hypergeom(rows, ones, others)
    both = law.rvs(random_state=rng)
    both[::3] = np.clip(both[::3] + rng.integers(-90, 90, 67), *(e[::3] for e in law.support()))
    mean = ones * others / rows
    far = np.abs(both - mean) * (1 - 1e-9)
    upper, lower = law.sf(np.ceil(mean + far) - 1), law.cdf(np.floor(mean - far))
    expected = np.minimum(upper + lower, 1)
    known = expected > 1e-300
    found = fisher_log_pvalues(rows, both, ones, others)
    assert known.sum() > 150
    np.testing.assert_allclose(found[known], np.log(expected[known]), rtol=1e-7, atol=1e-7)
    assert (np.isfinite(found) & (found <= 0)).all()
    assert (found[~known] < -680).all()


def test_no_rare_value_is_lost_in_the_logarithm() -> None:
    """Two equal variables: as probable as their order."""
    found = fisher_log_pvalues(4000, 2000, 2000, 2000)
    expected = math.log(2) - math.log(math.comb(4000, 2000))
    assert found == pytest.approx(expected, rel=1e-11)
    assert expected < -2000


def test_many_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_tests, "COUNTED_NUMBERS", 40)
    monkeypatch.setattr(rank_tests, "COUNTED_AT_ONCE", 3)
    x = (np.random.default_rng(0).random((7, 101)) < 0.4).astype(np.int32)
    pairs = np.stack(np.triu_indices(7, 1), axis=1)
    expected = [fisher_log_pvalues(101, sum(x[i] & x[j]), sum(x[i]), sum(x[j])) for i, j in pairs]
    found = rank_tests.exact_log_pvalues([*x], pairs)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
