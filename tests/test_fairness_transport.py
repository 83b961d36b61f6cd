"""Conditional-quantile transport, beside one that goes row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transport_support import conditional_rank, rank_among, transported

import hgr_jax
from hgr_jax.fairness.transport import Transport, mixed

ROWS = 120
RNG = np.random.default_rng(0)
P = RNG.normal(size=ROWS)
ATTRIBUTES = {
    "continuous": RNG.normal(size=ROWS),
    "heavy tail": RNG.standard_cauchy(size=ROWS),
    "few values": RNG.integers(0, 6, ROWS).astype(float),
    "some ties": RNG.integers(-40, 40, ROWS).astype(float),
    "constant": np.ones(ROWS),
}
NEW_P = np.concatenate([RNG.normal(size=40), P[:10], [-9.0, 9.0]])


@pytest.mark.parametrize("k", [1, 5, 11, ROWS - 1, ROWS])
@pytest.mark.parametrize("kind", ATTRIBUTES)
def test_ranks_and_quantiles_row_by_row(kind: str, k: int) -> None:
    z = ATTRIBUTES[kind]
    # Also between two rows, at them, and beyond all.
    new = np.concatenate([z[:30], z[:10] + 0.5, np.linspace(-50, 50, 12)])
    found = Transport.learn(z, P, k)
    expected = [conditional_rank(a, b, (z, P), k) for a, b in zip(new, NEW_P, strict=True)]
    np.testing.assert_allclose(found.rank(new, NEW_P), expected, rtol=1e-6)
    moved = transported((z, P), new, NEW_P, k)
    np.testing.assert_allclose(found(new, NEW_P), moved, rtol=1e-6, atol=1e-6)


def test_ties_of_predictions_have_the_middle_of_their_ranks() -> None:
    z, p = ATTRIBUTES["few values"], np.round(P)
    found = Transport.learn(z, p, 1).rank(z, p)  # the rows of the same attribute
    for value, each, rank in zip(z, p, found, strict=True):
        others = p[z == value]
        assert rank == pytest.approx((others < each).mean() + (others == each).mean() / 2)


def test_predictions_that_are_a_line_of_the_attribute_become_one() -> None:
    z = ATTRIBUTES["continuous"]
    p = 0.1 + z / 3
    new = np.linspace(-1, 1, 50)
    assert np.ptp(p) > 1
    assert np.ptp(Transport.learn(z, p)(new, 0.1 + new / 3)) < 1e-6


@pytest.mark.parametrize("p", [P, np.round(P), np.full(ROWS, 3.0)])
def test_neighbours_like_everybody_change_nothing(p: np.ndarray) -> None:
    z = ATTRIBUTES["constant"]
    np.testing.assert_allclose(Transport.learn(z, p, 5)(z, p), p, atol=1e-8)


def test_a_category_is_ranked_within_its_levels() -> None:
    level = RNG.integers(0, 3, ROWS)
    one_hot = np.eye(3)[level]
    found = Transport.learn(one_hot, P).rank(one_hot, P)
    for each in range(3):
        expected = [rank_among(p, P[level == each]) for p in P[level == each]]
        np.testing.assert_allclose(found[level == each], expected)


def test_the_default_is_the_root_of_the_rows() -> None:
    z = ATTRIBUTES["continuous"]
    assert Transport.learn(z, P).neighbors == 11
    assert Transport.learn(z, P, 500).neighbors == ROWS
    single = Transport.learn(z[:1], P[:1])
    np.testing.assert_array_equal(single(z, P), np.full(ROWS, P[0]))


values = st.floats(-1e6, 1e6, allow_subnormal=False)


@given(
    rows=st.lists(st.tuples(values, values), min_size=1, max_size=30),
    z=values,
    p=st.lists(values, min_size=2, max_size=20),
    k=st.integers(1, 40),
    strength=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_the_order_of_predictions_is_kept(
    rows: list[tuple[float, float]], z: float, p: list[float], k: int, strength: float
) -> None:
    learned = Transport.learn(*np.array(rows).T, k)
    ordered = np.sort(np.array([*p, *(each for _, each in rows)]))
    moved = mixed(ordered, learned(np.full(len(ordered), z), ordered), strength)
    assert np.isfinite(moved).all()
    assert (np.diff(moved) >= -1e-9).all()  # as far as numbers of 1e6 have digits
    if strength == 0:
        np.testing.assert_array_equal(moved, ordered)
    if strength == 1:
        lowest, highest = np.min(learned.p), np.max(learned.p)
        assert ((lowest - 1e-9 <= moved) & (moved <= highest + 1e-9)).all()


@pytest.mark.parametrize("kind", ["mean", "spread", "levels", "category"])
def test_new_rows_hardly_depend_any_more(kind: str) -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(size=6000)
    p = z**2 + z + rng.normal(size=6000)
    if kind == "spread":
        p = (0.2 + np.abs(z)) * rng.normal(size=6000)
    elif kind == "levels":
        z = np.clip(np.round(z), -2, 2)
        p = z**2 + rng.normal(size=6000)
    attribute = np.eye(3)[np.digitize(z, [-0.5, 0.5])] if kind == "category" else z
    learned = Transport.learn(attribute[:3000], p[:3000])
    z, p, attribute = z[3000:], p[3000:], attribute[3000:]
    one_hot = kind == "category"
    before, after = (
        float(
            hgr_jax.kb(attribute.astype(np.float32), x.astype(np.float32), 1 if one_hot else 3, 3)
        )
        for x in (p, learned(attribute, p))
    )
    assert before > 0.4
    # By chance HGR-KB(3, 3) of so many independent rows is about 0.06.
    assert after < 0.12
