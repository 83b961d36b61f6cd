"""P-values of scans that keep the first pairs only: those of the whole table, by the same tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hgr_jax
from hgr_jax import Scan, scan
from hgr_jax.scanning import consumers
from hgr_jax.scanning.rank_tests import ExactScreen

ROWS = 120
COMPLETE, ALIKE = 2, 2


def with_gaps() -> NDArray[np.float64]:
    """Columns without missing values, two that miss the same, and five with gaps of their own."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(ROWS, 9))
    x[:, 1::2] += 0.5 * x[:, :-1:2]
    x[:20, COMPLETE : COMPLETE + ALIKE] = np.nan
    x[:, COMPLETE + ALIKE :][rng.random((ROWS, 5)) < 0.15] = np.nan
    return x


ASKED: dict[str, dict[str, Any]] = {
    "all": {},
    "of a complete target": {"target": 0},
    "of a target with a gap": {"target": 8},
    "of two targets": {"target": [2, 8]},
    "of two sets of columns": {"target": [4, 5, 6, 7, 8], "among": [0, 1, 2, 3]},
    "weighted": {"weights": np.linspace(0.8, 1, ROWS)},
}


def of(x: NDArray[np.float64], **options: Any) -> Scan:
    return scan(x, test=hgr_jax.Test(permutations=19), **options)


def assert_same_pvalues(found: Scan, whole: Scan) -> None:
    order = [whole.names.index(each) for each in found.names]
    places = tuple(found.pairs.T)
    for name, rtol in (("pvalue", 1e-5), ("adjusted_pvalue", 1e-3)):
        expected = getattr(whole, name)[np.ix_(order, order)][places]
        np.testing.assert_allclose(getattr(found, name)[places], expected, rtol=rtol)
    np.testing.assert_array_equal(
        found.pvalue_source[places], whole.pvalue_source[np.ix_(order, order)][places]
    )


@pytest.mark.parametrize("name", ASKED)
def test_pvalues_are_those_of_the_whole_table(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "SQUARE_SIDE", 4)
    x = with_gaps()
    whole, found = of(x, **ASKED[name]), of(x, top=10, **ASKED[name])
    assert_same_pvalues(found, whole)


@pytest.mark.parametrize("by", ["pvalue", "correlation"])
@pytest.mark.parametrize("options", [{}, {"target": [1, 20]}])
def test_columns_of_two_values(
    options: dict[str, Any], by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone or beside others, also where one value is too rare for a law of ranks."""
    monkeypatch.setattr(consumers, "SQUARE_SIDE", 4)
    rng = np.random.default_rng(9)
    x = rng.normal(size=(ROWS, 22))
    x[:, 1] += 0.5 * x[:, 9]
    x[:, 10] += x[:, 20]
    x[:, 5:15] = x[:, 5:15] > 0.2
    x[:, 15:21] = x[:, 15:21] > 1.6
    x[:9, 14] = np.nan
    screened: list[int] = []

    def log_pvalues(screen: ExactScreen, left: int, right: int) -> Any:
        found = exactly(screen, left, right)
        screened.append(int(np.isfinite(found).sum()))
        return found

    exactly = ExactScreen.log_pvalues
    monkeypatch.setattr(ExactScreen, "log_pvalues", log_pvalues)
    whole = of(x, **options)
    found = of(x, top=hgr_jax.Top(400, by), **options)
    assert len(found) == len(whole)
    assert_same_pvalues(found, whole)
    assert set(whole.pvalue_source[tuple(whole.pairs.T)]) == {"rank", "exact", "permutation"}
    assert "target" in options or sum(screened) == 15 * 14 // 2
