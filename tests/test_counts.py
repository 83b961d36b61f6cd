"""Tables of counts: rows that occurred several times give what these rows give one by one."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest

import hgr_jax
from hgr_jax import scan
from hgr_jax._checks import as_repeats


def full_and_counted() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(1101)
    steps = rng.integers(0, 5, 420)
    mood = np.clip(steps // 2 + rng.integers(-1, 3, 420), 0, 4)
    rain = np.where(rng.random(420) < 0.3 + 0.08 * steps, "wet", "dry")
    full = pd.DataFrame({"steps": steps, "mood": mood, "rain": rain})
    counted = full.value_counts().reset_index()
    order = as_repeats(counted["count"], len(counted))
    expanded = counted.iloc[order].drop(columns="count")
    return expanded.reset_index(drop=True), counted


def test_pairs() -> None:
    full, counted = full_and_counted()
    a, b, counts = counted["steps"], counted["mood"], counted["count"]
    whole = full["steps"], full["mood"]
    assert hgr_jax.independence_test(a, b, counts=counts) == hgr_jax.independence_test(*whole)
    assert hgr_jax.hgr(a, b, counts=counts) == hgr_jax.hgr(*whole)
    of_text = hgr_jax.hgr(counted["rain"], b, counts=counts)
    assert of_text == hgr_jax.hgr(full["rain"], full["mood"])
    fit, again = hgr_jax.hgr_fit(a, b, counts=counts), hgr_jax.hgr_fit(*whole)
    assert fit.interval() == again.interval()
    given = hgr_jax.independence_test(a, b, counts=counts, given=np.sqrt(a))
    assert given == hgr_jax.independence_test(*whole, given=np.sqrt(full["steps"]))


def test_parts_that_are_held_out_are_no_copies_of_each_other() -> None:
    """All correlations tie, so that functions of the sample alone would be far too good."""
    rng, low, truth = np.random.default_rng(3), [], 0.3
    law = truth * np.diag(np.full(6, 1 / 6)) + (1 - truth) / 36
    a, b = (x.ravel().astype(float) for x in np.indices((6, 6)))
    for counts in rng.multinomial(300, law.ravel(), 60):
        fit = hgr_jax.hgr_fit(a, b, counts=counts)
        low.append(fit.interval()[0])
        order = np.repeat(np.arange(36), counts)
        assert hgr_jax.hgr(a[order], b[order]) == pytest.approx(float(fit.correlation), rel=1e-5)
    assert np.mean(np.array(low) <= truth) > 0.8


@pytest.mark.parametrize(
    ("counts", "what"),
    [
        ([1, 2, -1], "at least 0; got -1"),
        ([1, 2, 1.5], "whole numbers of at least 0; got 1.5"),
        ([1, np.nan, 1], "got nan"),
        (pd.array([1, None, 2], "Int64"), "whole numbers"),
        ([0, 0, 0], "add up to 1 to 10,000,000 rows; got 0"),
        ([1, 2, 10**8], "add up to 1 to 10,000,000 rows; got 100,000,003"),
        ([1, 2], r"shape \(3,\)"),
    ],
)
def test_counts_that_are_none(counts: Any, what: str) -> None:
    table = {"x": np.arange(3.0), "y": np.arange(3.0) ** 2}
    with pytest.raises((ValueError, TypeError), match=what):
        hgr_jax.independence_test(table["x"], table["y"], counts=counts)


def test_traced_data_have_no_counts() -> None:
    x = np.arange(30.0)
    with pytest.raises(TypeError, match="repeat the rows before tracing"):
        jax.jit(lambda a: hgr_jax.hgr(a, x, counts=np.ones(30)))(x)


def test_whole_weights_are_noted() -> None:
    _, counted = full_and_counted()
    assert "repeat the rows" in scan(counted, weights="count").notes["count"]
    weights = counted.pop("count").to_numpy()
    assert "repeat the rows" in scan(counted, weights=weights).notes["weights"]
    assert not scan(counted, weights=weights / 2 + 0.1).notes
    assert not scan(counted, weights=(weights > 2) * 1.0).notes


@pytest.mark.parametrize("option", ["weights", "counts", "given"])
def test_rows_of_other_labels_are_refused(option: str, rng: np.random.Generator) -> None:
    a, b, other = (pd.Series(rng.integers(1, 5, 40)) for _ in range(3))
    other.index = other.index[::-1]
    with pytest.raises(ValueError, match=f"a and {option} have different indexes"):
        hgr_jax.independence_test(a, b, **{option: other})
