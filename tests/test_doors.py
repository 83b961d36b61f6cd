"""What every door does with masked values, infinities, wide integers and dates."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import hgr_jax

RNG = np.random.default_rng(0)
A = RNG.standard_normal(60)
B, C = A + 0.3 * RNG.standard_normal(60), RNG.standard_normal(60)
MASK = np.arange(60) == 5

MEASURES: dict[str, Callable[..., Any]] = {
    "kb": hgr_jax.kb,
    "sk": hgr_jax.sk,
    "hgr": hgr_jax.hgr,
    "pearson": hgr_jax.pearson,
    "spearman": hgr_jax.spearman,
    "distance_correlation": hgr_jax.distance_correlation,
    "hsic": hgr_jax.hsic,
    "ace": hgr_jax.ace,
    "kde": hgr_jax.kde,
    "rdc": functools.partial(hgr_jax.rdc, key=jax.random.key(0)),
    "kernel_cca": hgr_jax.kernel_cca,
}

OTHERS: dict[str, Callable[..., Any]] = {
    "hgr_fit": lambda x: hgr_jax.hgr_fit(x, B).correlation,
    "independence_test": lambda x: hgr_jax.independence_test(x, B).pvalue,
    "of a given c": lambda x: hgr_jax.independence_test(x, B, given=C).pvalue,
    "given x": lambda x: hgr_jax.independence_test(A, B, given=x).pvalue,
    "given x and another": lambda x: hgr_jax.independence_test(A, B, given={"x": x, "c": C}).pvalue,
    "hgr given x": lambda x: hgr_jax.hgr(A, B, given=x),
    "weights of kb": lambda x: hgr_jax.kb(A, B, weights=abs(x)),
    "weights of hgr": lambda x: hgr_jax.hgr(A, B, weights=abs(x)),
    "weights of a test": lambda x: hgr_jax.independence_test(A, B, weights=abs(x)).pvalue,
    "order": lambda x: hgr_jax.independence_test(A, B, order=x).pvalue,
    "ConditionalTests": lambda x: hgr_jax.ConditionalTests({"x": x, "b": B})("x", "b").pvalue,
}
OTHERS |= {name: functools.partial(measure, b=B) for name, measure in MEASURES.items()}


def is_refused_or_nan(call: Callable[..., Any], x: Any) -> bool:
    try:
        return bool(np.isnan(call(x)))
    except ValueError as error:
        return "missing" in str(error) or "finite" in str(error)


@pytest.mark.parametrize("door", OTHERS)
def test_masked_values_are_missing(door: str) -> None:
    x = np.where(MASK, 1e6, A)
    assert is_refused_or_nan(OTHERS[door], np.ma.masked_array(x, MASK))


@pytest.mark.parametrize("door", sorted({*OTHERS} - {"order"}))  # which may end at infinity
def test_infinity_is_no_number(door: str) -> None:
    assert is_refused_or_nan(OTHERS[door], np.where(MASK, np.inf, A))


def test_masked_labels_are_missing() -> None:
    groups = np.ma.masked_array(np.arange(60) // 6, MASK)
    texts = np.ma.masked_array(np.where(A > 0, "yes", "no"), MASK)
    with pytest.raises(ValueError, match="missing"):
        hgr_jax.independence_test(A, B, groups=groups)
    assert np.isnan(hgr_jax.independence_test(A, B, given=texts).pvalue)
    assert np.isnan(hgr_jax.hgr(A, B, given=texts))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32"])
@pytest.mark.parametrize("name", MEASURES)
def test_integers_of_any_width_are_numbers(name: str, dtype: str) -> None:
    whole = np.round(20 * A - 20 * A.min()).astype(dtype)
    expected = MEASURES[name](whole.astype(np.float32), B.astype(np.float32))
    for x in (whole, jnp.asarray(whole)):
        np.testing.assert_allclose(MEASURES[name](x, B.astype(np.float32)), expected, atol=2e-5)


@pytest.mark.parametrize("freq", ["M", "D", "Y"])
def test_hgr_reads_periods_as_dates(freq: str) -> None:
    periods = pd.Series(pd.period_range("2000-01", periods=60, freq=freq))
    assert hgr_jax.hgr(periods, np.arange(60.0)) == pytest.approx(1)
    assert hgr_jax.hgr_fit(periods, np.arange(60.0)).correlation == pytest.approx(1)
