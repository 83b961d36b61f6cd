"""Scans that keep the first pairs only, of columns that are missing in different rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hgr_jax import Scan, scan
from hgr_jax.scanning import rank_tests, wide

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
        order = [whole.names.index(each) for each in found.names]
        places = tuple(found.pairs.T)
        expected = whole.pvalue[np.ix_(order, order)][places]
        np.testing.assert_allclose(found.pvalue[places], expected, rtol=1e-5)
        expected = whole.adjusted_pvalue[np.ix_(order, order)][places]
        np.testing.assert_allclose(found.adjusted_pvalue[places], expected, rtol=1e-3)
        logs.append(np.log(whole.pvalue[tuple(whole.pairs.T)]))
    assert (np.abs(logs[0] - logs[1]) > 1e-3).any()
