"""Statistics, penalties and multipliers: against the measures, formulas and finite differences."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from fairness_support import trained
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import hgr_jax
from bench import reference
from hgr_jax.fairness import (
    KB,
    SK,
    DemographicParity,
    DualState,
    LagrangianDual,
    Penalty,
    Statistic,
    excess,
)

ROWS = 48
Pair = tuple[jax.Array, jax.Array]
kb = functools.partial(hgr_jax.kb, h=2, k=2)
exact_kb = functools.partial(reference.kb, h=2, k=2)


def some_pair(seed: int, rows: int = ROWS, columns: int | None = None) -> Pair:
    rng = np.random.default_rng(seed)
    z = rng.standard_normal(rows)
    noise = rng.standard_normal((rows, columns or 1))
    prediction = (z**2 - z / 2)[:, None] + noise
    prediction = prediction if columns else prediction[:, 0]
    return jnp.asarray(z, jnp.float32), jnp.asarray(prediction, jnp.float32)


# Not under jit: so the compiled measures are those of the other tests.
def measured(
    penalty: Penalty, z: jax.Array, prediction: jax.Array, group: Any = None, groups: int = 1
) -> jax.Array:
    return penalty.values(penalty.init(z, prediction), z, prediction, group, groups)[0]


def test_excess() -> None:
    values = jnp.array([0.1, 0.25, 0.5, 1.0, jnp.nan])
    expected = np.array([0, 0, 0.25, 0.75, np.nan], np.float32)
    np.testing.assert_array_equal(excess(values, 0.25), expected)
    for place, slope in ((0, 1), (1, -1)):
        slopes = jax.vmap(jax.grad(excess, place), (0, None))(values[:4], 0.25)
        np.testing.assert_array_equal(slopes, [0, 0, slope, slope])
    threshold = 0.2  # has no float32
    value = jnp.asarray(threshold, jnp.float32)
    assert (excess(value, threshold), jax.grad(excess)(value, threshold)) == (0, 0)
    above = jnp.nextafter(value, jnp.float32(1))
    assert excess(above, threshold) > 0
    assert jax.grad(excess)(above, threshold) == 1


def test_groups_equal_their_rows() -> None:
    z, prediction = some_pair(0)
    # Group 2 has one row, 3 has none; -1 and 4 are no groups.
    group = np.resize([0, 1, 1, -1, 4], ROWS).astype(np.int32)
    group[7] = 2
    penalty = Penalty(KB(2, 2), given="classes")

    @jax.jit
    @functools.partial(jax.grad, has_aux=True)
    def total(prediction: jax.Array, weights: jax.Array) -> Any:
        values = measured(penalty, z, prediction, jnp.asarray(group), 4)
        return jnp.sum(weights * values), values

    both, found = total(prediction, jnp.ones(4))
    for label in (0, 1):
        expected = exact_kb(z[group == label], prediction[group == label])
        np.testing.assert_allclose(found[label], expected, atol=2e-6)
    np.testing.assert_array_equal(found[2:], 0)
    assert np.isfinite(both).all()
    np.testing.assert_array_equal(np.asarray(both) != 0, (group == 0) | (group == 1))
    np.testing.assert_array_equal(total(prediction, jnp.array([0.0, 0, 1, 1]))[0], 0)
    np.testing.assert_array_equal(total(jnp.ones(ROWS), jnp.ones(4))[0], 0)


class TestMeasures:
    def test_demographic_parity(self) -> None:
        rng = np.random.default_rng(2)
        level, group = rng.integers(0, 3, ROWS), rng.integers(0, 2, ROWS)
        z = np.eye(4, dtype=np.float32)[level]  # of a level without rows
        p = rng.normal(size=ROWS).astype(np.float32)

        def expected(rows: np.ndarray) -> float:
            means = [p[rows & (level == i)].mean() for i in range(3)]
            return max(means) - min(means)

        everything = np.ones(ROWS, bool)
        found = measured(Penalty("demographic_parity", 0.1), jnp.asarray(z), jnp.asarray(p))
        np.testing.assert_allclose(found, [expected(everything)], rtol=1e-5)
        penalty = Penalty(DemographicParity(), 0.1, given="classes")
        found = measured(penalty, jnp.asarray(z), jnp.asarray(p), jnp.asarray(group, jnp.int32), 2)
        np.testing.assert_allclose(found, [expected(group == i) for i in range(2)], rtol=1e-5)

        def value(p: jax.Array) -> jax.Array:
            return DemographicParity().value((), jnp.asarray(z), p)[0]

        gradient = np.asarray(jax.grad(value)(jnp.asarray(p)))
        means = [p[level == i].mean() for i in range(3)]
        for i, sign in ((np.argmax(means), 1), (np.argmin(means), -1)):
            np.testing.assert_allclose(gradient[level == i], sign / (level == i).sum(), rtol=1e-5)
        with pytest.raises(ValueError, match="z must be one-hot columns"):
            measured(penalty, jnp.asarray(p), jnp.asarray(p), jnp.asarray(group, jnp.int32), 2)


PAIR = some_pair(1)
WEIGHTS = jnp.asarray(np.arange(ROWS) % 4, jnp.float32)
PROJECTIONS: list[tuple[Statistic, Callable[..., jax.Array]]] = [
    (KB(2, 3), functools.partial(hgr_jax.kb, h=2, k=3)),
    (SK(2), functools.partial(hgr_jax.sk, d=2)),
]


def value_of(statistic: Statistic, z: Any, prediction: Any, **conditions: Any) -> jax.Array:
    return statistic.value(statistic.init(z, prediction), z, prediction, **conditions)[0]


class TestValues:
    @pytest.mark.parametrize(("statistic", "function"), PROJECTIONS)
    def test_projections(self, statistic: Statistic, function: Callable[..., jax.Array]) -> None:
        np.testing.assert_array_equal(value_of(statistic, *PAIR), function(*PAIR))
        found = value_of(statistic, *PAIR, weights=WEIGHTS)
        np.testing.assert_array_equal(found, function(*PAIR, weights=WEIGHTS))
        one_hot = jnp.asarray(np.eye(3)[np.digitize(PAIR[0], [-0.5, 0.5])], jnp.float32)
        expected = hgr_jax.kb(one_hot, PAIR[1], 1, 3 if isinstance(statistic, KB) else 2)
        np.testing.assert_allclose(value_of(statistic, one_hot, PAIR[1]), expected, rtol=1e-6)

    def test_sk_of_many_levels_is_kb_of_them(self) -> None:
        """Of 30 indicators, monomials of degree 5 would be far too many."""
        one_hot = np.eye(30, dtype=np.float32)[np.arange(ROWS) % 30]
        found = value_of(SK(5), one_hot, PAIR[1])
        np.testing.assert_array_equal(found, hgr_jax.kb(one_hot, PAIR[1], 1, 5))


class TestHGR:
    """HGR of ranks, which rows that pass each other change."""

    def test_the_gradient_says_what_moving_predictions_changes(self) -> None:
        rng = np.random.default_rng(0)
        z, prediction = some_pair(0, rows=4000)

        @jax.jit
        @jax.value_and_grad
        def derivative(p: jax.Array) -> jax.Array:
            return measured(Penalty("hgr"), z, p)[0]

        _, gradient = derivative(prediction)
        x, p = np.asarray(z), np.asarray(prediction)
        for way in (x, x**2, np.sin(3 * x), rng.standard_normal(4000).astype(np.float32)):
            step = np.float32(0.03) * way
            slope = (derivative(p + step)[0] - derivative(p - step)[0]) / 0.06
            assert np.sum(gradient * way) == pytest.approx(float(slope), abs=0.03)

    def test_training_keeps_it_below_a_threshold(self) -> None:
        rng = np.random.default_rng(0)
        x = rng.standard_normal((600, 3)).astype(np.float32)
        z, y = x[:, 0], x[:, 0] ** 2 + x[:, 1]
        dual = LagrangianDual(optax.adam(3e-2))
        tied = np.round(2 * x) / 2  # of few values: so are predictions, whose slopes are rougher
        trainer = trained(Penalty("hgr", 0.3), data=(tied, y, z), dual=dual, steps=400)
        prediction = np.asarray(trainer.predict(tied))
        assert hgr_jax.hgr(z, prediction) < 0.35
        assert np.corrcoef(prediction, y)[0, 1] > 0.3


class TestPenalties:
    def test_a_statistic_with_a_state(self) -> None:
        trainer = trained(Penalty(Counted(), 0.3), steps=7)
        assert trainer.state is not None
        assert trainer.state.penalties[0] == jnp.array([7])
        np.testing.assert_allclose(trainer.history.steps["value_z"], np.arange(7) / 10, atol=1e-6)


@dataclasses.dataclass(frozen=True)
class Counted(Statistic):
    """A tenth of the steps so far."""

    def init(self, z: jax.Array, prediction: jax.Array, *, key: Any = None) -> Any:
        return jnp.zeros((), jnp.int32)

    def value(self, state: Any, z: Any, prediction: Any, weights: Any = None) -> tuple[Any, Any]:
        return state.astype(z.dtype) / 10 + 0 * prediction.sum(), state + 1


FALLING = LagrangianDual(optax.sgd(0.5))
RISING = LagrangianDual(optax.sgd(0.5), two_sided=False)
ADAM = LagrangianDual()
violations_of_ten_steps = hnp.arrays(np.float32, (10, 2), elements=st.floats(-1, 1, width=32))


def run(dual: LagrangianDual, state: DualState, violations: Any) -> Any:
    def step(state: DualState, violation: jax.Array) -> Any:
        state = dual.update(violation, state)
        return state, state.multipliers

    return jax.lax.scan(step, state, violations)


runs = {
    dual: jax.jit(lambda violations, dual=dual: run(dual, dual.init(2), violations)[1])
    for dual in (FALLING, RISING, ADAM)
}


@settings(max_examples=30)
@given(violations_of_ten_steps)
def test_sgd_against_a_loop(violations: np.ndarray) -> None:
    for dual in (FALLING, RISING):
        expected, multipliers = [], np.zeros(2)
        for violation in violations:
            step = violation if dual.two_sided else np.maximum(violation, 0)
            multipliers = np.maximum(0, multipliers + 0.5 * step)
            expected.append(multipliers)
        found = runs[dual](violations)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert (np.diff(found, axis=0) >= 0).all() or dual.two_sided
