"""Corrections of values and of p-values, by their definitions."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hgr_jax.inference import adjust, corrected
from hgr_jax.inference.multiplicity import ADJUSTMENTS


def test_corrected() -> None:
    values = jnp.array([0.0, 0.1, 0.5, 1.0])
    np.testing.assert_allclose(corrected(values, 100, 9)[2], (1 - 0.75 * 99 / 90) ** 0.5, rtol=1e-6)
    assert corrected(values[3], 10, 9) == 0


FAMILIES = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
    # products of subnormal numbers are rounded by their order, not to 1e-14
    elements=st.floats(0, 1, allow_subnormal=False)
    | st.sampled_from([0.0, 1e-300, 0.05, 1.0, float("nan")]),
)


def by_definition(p: list[float], method: str) -> list[float]:
    order = sorted(range(len(p)), key=lambda i: p[i])
    m = len(p)
    result = [0.0] * m
    for place, i in enumerate(order):
        factor = sum(1 / (j + 1) for j in range(m)) if method == "by" else 1
        value = min(p[order[j]] * m * factor / (j + 1) for j in range(place, m))
        result[i] = min(value, 1.0)
    return result


@pytest.mark.parametrize("method", ADJUSTMENTS)
@given(p=FAMILIES)
def test_every_family_is_adjusted_as_defined(method: str, p: np.ndarray) -> None:
    found = adjust(p, method)
    assert found.shape == p.shape
    assert found.dtype == np.float64
    tested = ~np.isnan(p)
    np.testing.assert_array_equal(np.isnan(found), ~tested)
    expected = by_definition(p[tested].tolist(), method)
    np.testing.assert_allclose(found[tested], expected, rtol=1e-14)
    assert (found[tested] >= p[tested]).all()
    assert (found[tested] <= 1).all()
    order = np.argsort(p[tested])
    assert (np.diff(found[tested][order]) >= 0).all()
