"""Printed polynomials are computed with, as a reader would."""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np
import pytest
from formulas_support import computed
from hypothesis import given, settings
from hypothesis import strategies as st

import hgr_jax
from bench.data import KINDS


def error(text: str, exact: Any, **variables: np.ndarray) -> float:
    """Return the largest error of a printed formula, in standard deviations."""
    return float(np.abs(computed(text, **variables) - np.asarray(exact)).max())


BEYOND = {"40 decades", "subnormal", "smallest normal", "largest"}
"""Data whose values or differences are beyond the range of float64, or whose digits are."""


# Here the evaluation of the basis, not the text, has fewer digits than the data need.
FAR = {
    "outliers at 100, 10^4",
    "outlier at 10^5",
    "outlier at 10^6",
    "20 decades",
    "clusters of width 1e-6",
}

FAR_IN_FLOAT32 = {"Cauchy", "lognormal, sigma 3", "zero-inflated", "t3", "outlier at 10^3"}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@settings(max_examples=40)
@given(kind=st.sampled_from(sorted(set(KINDS) - BEYOND)), seed=st.integers(0, 100))
def test_the_text_gives_the_function_to_one_percent(dtype: type, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = KINDS[kind](rng, 200, np.finfo(dtype)).astype(dtype)
    b = np.argsort(np.argsort(a)) / 100.0 + rng.standard_normal(200)
    with jax.enable_x64(dtype == np.float64):
        fit = hgr_jax.kb_fit(a, b.astype(dtype), 5, 5)
        text = fit.f.formula("a")
        if kind not in (FAR if dtype == np.float64 else FAR | FAR_IN_FLOAT32):
            # Of the largest numbers, no power of two brings the data into [-1, 1].
            at = a.astype(np.float64)
            assert error(text, fit.f(a), a=at) <= (0.05 if "largest" in kind else 0.011)
        assert error(fit.g.formula("b"), fit.g(b), b=b) <= 0.011


def test_one_row_far_away() -> None:
    rng = np.random.default_rng(0)
    a = np.append(0.3 + 0.15 * rng.standard_normal(999), 1.66)
    b = np.append(3.2 + 0.15 * rng.standard_normal(999), 4.9)
    with jax.enable_x64(True):
        fit = hgr_jax.kb_fit(a, b)
        for text, transform, x in ((fit.f.formula(), fit.f, a), (fit.g.formula(), fit.g, b)):
            assert error(text, transform(x), x=x) <= 0.011


def test_years_are_centred_and_few_digits_are_enough() -> None:
    years = np.arange(1950.0, 2020.0)
    fit = hgr_jax.kb_fit(years, (years - 1985) ** 2, 2, 1)
    text = fit.f.formula("year")
    assert re.search(r", u = \(year - 19\d\d\) / 70$", text)
    assert len(text) < 60
    assert error(text, fit.f(years), year=years) <= 0.011
    assert ", t = (u - 19" in fit.f.formula("u")
