"""P-values of scans that keep the first pairs only: those of the whole table, by the same tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hgr_jax import Scan, scan
from hgr_jax.scanning import rank_tests, wide
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


UNLIKE: dict[str, tuple[dict[str, Any], int]] = {
    "all": ({}, 7 * 6 // 2),
    "of a complete target": ({"target": 0}, 6),
    "of a target with a gap": ({"target": 8}, 6),
    "of two targets": ({"target": [2, 8]}, 6 + 5),
    "of two tables": ({"other": True}, 2 * 5),
    "weighted": ({"weights": np.linspace(0.8, 1, ROWS)}, 7 * 6 // 2),
}
"""Options, and how many pairs of different sets of rows are asked for.  Of two tables the first has
the complete columns and those that miss the same rows."""


def of(x: NDArray[np.float64], **options: Any) -> Scan:
    if options.pop("other", False):
        return scan(x[:, :4], other=x[:, 4:], permutations=19, **options)
    return scan(x, permutations=19, **options)


def assert_same_pvalues(found: Scan, whole: Scan) -> None:
    order = [whole.names.index(each) for each in found.names]
    places = tuple(found.pairs.T)
    for name, rtol in (("pvalue", 1e-5), ("adjusted_pvalue", 1e-3)):
        expected = getattr(whole, name)[np.ix_(order, order)][places]
        np.testing.assert_allclose(getattr(found, name)[places], expected, rtol=rtol)
    np.testing.assert_array_equal(
        found.pvalue_source[places], whole.pvalue_source[np.ix_(order, order)][places]
    )


@pytest.mark.parametrize("name", UNLIKE)
def test_pvalues_are_those_of_the_whole_table(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By ranks among the shared rows up to a bound, and beyond it among a column's own."""
    monkeypatch.setattr(wide, "SQUARE_SIDE", 4)
    options, unlike = UNLIKE[name]
    x = with_gaps()
    logs = []
    for bound in (unlike * ROWS, unlike * ROWS - 1):
        monkeypatch.setattr(rank_tests, "RANKED_AGAIN", bound)
        whole, found = of(x, **options), of(x, top=10, **options)
        assert_same_pvalues(found, whole)
        logs.append(np.log(whole.pvalue[tuple(whole.pairs.T)]))
    assert (np.abs(logs[0] - logs[1]) > 1e-3).any()


@pytest.mark.parametrize("options", [{}, {"target": [1, 20]}, {"by": "correlation"}])
def test_columns_of_two_values(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone or beside others, also where one value is too rare for a law of ranks."""
    monkeypatch.setattr(wide, "SQUARE_SIDE", 4)
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
    whole = scan(x, permutations=19, **{k: v for k, v in options.items() if k != "by"})
    found = scan(x, permutations=19, top=400, **options)
    assert len(found) == len(whole)
    assert_same_pvalues(found, whole)
    assert set(whole.pvalue_source[tuple(whole.pairs.T)]) == {"rank", "exact", "permutation"}
    assert "target" in options or sum(screened) == 15 * 14 // 2
