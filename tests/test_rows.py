"""Rows: few programs for any number of them, and sums over blocks with their derivatives."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hgr_jax
from hgr_jax.core.rows import padded_length


@given(rows=st.integers(1, 10**9))
def test_at_most_a_quarter_is_padding(rows: int) -> None:
    length = padded_length(rows)
    assert rows <= length
    assert length == 128 or length <= 1.25 * rows
    assert padded_length(length) == length


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("rows", "weighted"), [(7, False), (20_011, True)])
def test_values_are_those_of_exact_shapes(
    rows: int, weighted: bool, rng: np.random.Generator
) -> None:
    a, b = rng.standard_t(3, (2, rows))
    b += a**2
    weights = rng.uniform(size=rows) if weighted else None
    options: dict[str, Any] = {"h": 4, "k": 3}
    exact = jax.jit(lambda a, b, w: hgr_jax.kb_fit(a, b, weights=w, **options))
    fit = hgr_jax.kb_fit(a, b, weights=weights, **options)
    expected = exact(a, b, weights)
    tolerance = {"rtol": 0, "atol": 1e-11}
    np.testing.assert_allclose(fit.correlation, expected.correlation, **tolerance)
    value = hgr_jax.kb(a, b, weights=weights, **options)
    np.testing.assert_allclose(value, expected.correlation, **tolerance)
    np.testing.assert_allclose(fit.f(a), expected.f(a), rtol=1e-7, atol=1e-9)
    score = fit.score(a, b, weights=weights)
    np.testing.assert_allclose(score, expected.score(a, b, weights=weights), **tolerance)
    ours = hgr_jax.sk(a, b, 3, weights=weights)
    plain = jax.jit(lambda a, b, w: hgr_jax.sk(a, b, 3, weights=w))(a, b, weights)
    np.testing.assert_allclose(ours, plain, **tolerance)
    assert fit.degrees.tolist() == expected.degrees.tolist()
    assert int(fit.status) == int(expected.status)


@pytest.mark.usefixtures("x64")
def test_a_batch_in_which_one_pair_needs_repair(rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((2, 4, 60))
    a[2] = np.exp(6 * a[2])
    b[2] = np.exp(5 * b[2])
    values = jax.vmap(lambda a, b: hgr_jax.kb(a, b, h=6, k=6))(a, b)
    expected = [hgr_jax.kb(x, y, h=6, k=6) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(values, expected, atol=1e-10)
