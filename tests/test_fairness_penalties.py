"""Statistics, penalties and multipliers: against the measures, formulas and finite differences."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from fairness_support import some_data, trained
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import hgr_jax
from bench import reference
from hgr_jax.fairness import (
    HGR,
    KB,
    SK,
    DemographicParity,
    DualState,
    Function,
    LagrangianDual,
    Neural,
    Penalty,
    Statistic,
    excess,
    within,
)
from hgr_jax.fairness.statistics import NAMED_STATISTICS
from hgr_jax.inference import corrected

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


@pytest.mark.usefixtures("x64")
def test_corrected() -> None:
    value = np.array([0.0, 0.1, 0.3, 0.7, 1.0])
    expected = np.sqrt(np.maximum(0, 1 - (1 - value**2) * 49 / (49 - 9)))
    assert (expected > 0).sum() == 2
    np.testing.assert_allclose(corrected(jnp.asarray(value), 50, 9), expected, rtol=1e-14)
    slope = jax.vmap(jax.grad(lambda v: corrected(v, 50, 9)))(jnp.asarray(value))
    np.testing.assert_array_equal(slope[:3], 0)
    step = 1e-6
    for i in (3, 4):
        ends = corrected(jnp.asarray(value[i] + np.array([step, -step])), 50, 9)
        np.testing.assert_allclose(slope[i], (ends[0] - ends[1]) / (2 * step), rtol=1e-8)


@pytest.mark.parametrize("rows", [0, 1, 2, 9, 10])
def test_too_few_rows_are_corrected_to_0(rows: int) -> None:
    for value in (0.0, 0.6, 1.0):
        assert jax.value_and_grad(corrected)(jnp.asarray(value), rows, 9) == (0, 0)
    assert jax.jit(corrected, static_argnums=2)(jnp.asarray(0.6), jnp.asarray(rows), 9) == 0


class TestWithin:
    def test_equals_the_selected_rows(self) -> None:
        z, prediction = some_pair(0)
        # Group 2 has one row, 3 has none; -1 and 4 are no groups.
        group = np.resize([0, 1, 1, -1, 4], ROWS).astype(np.int32)
        group[7] = 2

        @jax.jit
        @functools.partial(jax.grad, has_aux=True)
        def total(prediction: jax.Array, weights: jax.Array) -> Any:
            values = within(kb, z, prediction, jnp.asarray(group), 4)
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
    @pytest.mark.parametrize("name", sorted(NAMED_STATISTICS.keys() - {"demographic_parity"}))
    def test_by_name(self, name: str) -> None:
        z, prediction = some_pair(1)
        prediction = -z + prediction / 4  # of negative Pearson correlation
        options: dict[str, Any] = {"kb": {"h": 2, "k": 2}, "sk": {"d": 2}}
        options = options.get(name, {"key": jax.random.key(0)} if name == "neural" else {})
        measure = functools.partial(getattr(hgr_jax, name), z, **options)
        expected, _ = jax.vjp(measure, prediction)  # compiled as it is below
        if name == "pearson":
            assert expected < 0
            expected = abs(expected)
        chosen = {"kb": KB(2, 2), "sk": SK(2), "neural": Neural(warm_start=False)}
        penalty = Penalty(chosen.get(name, name), 0.1)
        state = ()

        (found,), back = jax.vjp(lambda p: penalty.values(state, z, p)[0], prediction)
        np.testing.assert_allclose(found, expected, atol=2e-6)
        (gradient,) = back(jnp.ones(1))
        assert np.isfinite(gradient).all()
        assert np.any(gradient != 0)

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
        with pytest.raises(ValueError, match="needs the levels of a category"):
            measured(penalty, jnp.asarray(p), jnp.asarray(p), jnp.asarray(group, jnp.int32), 2)

    def test_a_function_of_ones_own(self) -> None:
        def covariance(z: jax.Array, prediction: jax.Array) -> jax.Array:
            return jnp.abs(jnp.mean((z - z.mean()) * prediction))

        z, prediction = some_pair(1)
        expected = abs(np.cov(z, prediction, bias=True)[0, 1])
        penalty = Penalty(covariance, 0.1)
        np.testing.assert_allclose(measured(penalty, z, prediction), [expected], rtol=1e-4)
        with pytest.raises(TypeError, match="one number"):
            measured(Penalty(lambda z, p: p, 0.1), z, prediction)


class TestGiven:
    def test_columns_and_groups(self) -> None:
        z, prediction = some_pair(4, columns=2)
        group = np.arange(ROWS) % 3
        penalty = Penalty(KB(2, 2), given="classes")
        found = measured(penalty, z, prediction, jnp.asarray(group, jnp.int32), 3)
        expected = [
            exact_kb(z[group == i], column[group == i]) for column in prediction.T for i in range(3)
        ]
        np.testing.assert_allclose(found, expected, atol=3e-6)

    def test_sk_and_a_function(self) -> None:
        def weighted(z: jax.Array, p: jax.Array, *, weights: jax.Array) -> jax.Array:
            return jnp.sum(weights * z * p) / jnp.sum(weights)

        z, prediction = some_pair(4)
        group = np.arange(ROWS) % 2
        args = (jnp.asarray(group, jnp.int32), 2)
        found = measured(Penalty(SK(2), given=2), z, prediction, *args)
        expected = [reference.sk(z[group == i], prediction[group == i], 2) for i in (0, 1)]
        np.testing.assert_allclose(found, expected, atol=3e-6)
        penalty = Penalty(weighted, given=2)
        products = np.asarray(z) * np.asarray(prediction)
        expected = products.reshape(-1, 2).mean(axis=0)
        for function in (measured, jax.jit(measured, static_argnums=4)):
            found = function(penalty, z, prediction, *args)
            np.testing.assert_allclose(found, expected, rtol=1e-4)


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
        y = PAIR[0] + PAIR[1]
        np.testing.assert_array_equal(value_of(statistic, *PAIR), function(*PAIR))
        found = value_of(statistic, *PAIR, weights=WEIGHTS, given=y)
        degree = statistic.kernels[1]
        expected = function(*PAIR, weights=WEIGHTS, given=y, given_degree=degree)
        np.testing.assert_array_equal(found, expected)
        one_hot = jnp.asarray(np.eye(3)[np.digitize(PAIR[0], [-0.5, 0.5])], jnp.float32)
        options = {} if isinstance(statistic, SK) else {"h": 1}
        expected = function(one_hot, PAIR[1], **options)
        np.testing.assert_allclose(value_of(statistic, one_hot, PAIR[1]), expected, rtol=1e-6)

    def test_sk_of_many_levels_is_kb_of_them(self) -> None:
        """Of 30 indicators, monomials of degree 5 would be far too many."""
        one_hot = np.eye(30, dtype=np.float32)[np.arange(ROWS) % 30]
        found = value_of(SK(5), one_hot, PAIR[1])
        np.testing.assert_array_equal(found, hgr_jax.kb(one_hot, PAIR[1], 1, 5))
        assert SK(5).least_rows(30) == KB(5, 5).least_rows(30) == 36

    def test_neural(self) -> None:
        key = jax.random.key(3)
        warm = Neural(7, learning_rate=1e-3)
        state = warm.init(*PAIR, key=key)
        before = hgr_jax.neural_fit(*PAIR, key=key, learning_rate=1e-3)
        other = some_pair(2)
        value, _ = warm.value(state, *other)
        after = hgr_jax.neural_fit(*other, key=key, steps=7, learning_rate=1e-3, init=before)
        np.testing.assert_allclose(value, after.correlation, atol=1e-6)
        anew = Neural(5, warm_start=False)
        assert anew.init(*PAIR) == ()
        value, state = anew.value((), *PAIR)
        assert state == ()
        expected = hgr_jax.neural(*PAIR, key=jax.random.key(0), steps=5)
        np.testing.assert_allclose(value, expected, atol=1e-6)

    @pytest.mark.usefixtures("x64")
    @pytest.mark.parametrize("statistic", [KB(2, 2), SK(2)])
    def test_gradient(self, statistic: Statistic) -> None:
        z, prediction = (jnp.asarray(v, jnp.float64) for v in PAIR)
        way = jnp.asarray(np.random.default_rng(5).standard_normal(ROWS))

        @jax.jit
        @jax.value_and_grad
        def along(t: jax.Array) -> jax.Array:
            return statistic.value((), z, prediction + t * way)[0]

        step = 1e-5
        ends = [float(along(np.float64(t))[0]) for t in (step, -step)]
        slope = float(along(np.float64(0))[1])
        assert abs(slope) > 1e-3
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-6)


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

    @pytest.mark.parametrize(
        ("rows", "dtype"), [(5, np.float32), (48, np.float32), (48, np.float64)]
    )
    def test_degenerate_data_have_finite_gradients(self, dtype: Any, rows: int) -> None:
        x = np.linspace(-1, 1, rows)
        near = 0.5 + np.finfo(dtype).eps * np.arange(rows)
        saturated = 1 / (1 + np.exp(-200 * x))
        columns = [x, 0 * x, np.sign(x), x == x[2], near, saturated, np.round(3 * x)]
        with jax.enable_x64(dtype is np.float64):
            slopes = jax.jit(jax.value_and_grad(lambda p, z: measured(Penalty("hgr"), z, p)[0]))
            for z, p in itertools.product(columns, columns):
                value, gradient = slopes(p.astype(dtype), z.astype(dtype))
                assert value.dtype == gradient.dtype == dtype
                assert 0 <= value <= 1
                assert np.isfinite(gradient).all()
            assert np.isnan(slopes(np.full(rows, np.nan, dtype), x.astype(dtype))[0])

    def test_columns_are_those_of_single_predictions(self) -> None:
        z, prediction = some_pair(0, columns=3)
        values = measured(Penalty("hgr"), z, prediction)
        expected = [measured(Penalty("hgr"), z, column)[0] for column in prediction.T]
        np.testing.assert_allclose(values, expected, atol=1e-5)

    def test_a_category_counts_as_its_levels(self) -> None:
        levels = np.arange(60) % 3
        one_hot = jnp.asarray(np.eye(3)[levels], jnp.float32)
        prediction = jnp.asarray(levels == 1, jnp.float32)
        assert measured(Penalty("hgr"), one_hot, prediction)[0] == pytest.approx(1, abs=1e-5)

    def test_monotone_maps_hide_no_dependence(self) -> None:
        z, noise = some_pair(0, rows=2000)
        prediction = z + noise / 2
        for change in (jnp.exp, lambda p: p**3, lambda p: jnp.exp(4 * p)):
            recoded = [measured(Penalty(s), z, change(prediction))[0] for s in ("hgr", "kb")]
            plain = [measured(Penalty(s), z, prediction)[0] for s in ("hgr", "kb")]
            assert recoded[0] == pytest.approx(float(plain[0]), abs=1e-5)
        assert recoded[1] < plain[1] - 0.1

    def test_training_keeps_it_below_a_threshold(self) -> None:
        rng = np.random.default_rng(0)
        x = rng.standard_normal((600, 3)).astype(np.float32)
        z, y = x[:, 0], x[:, 0] ** 2 + x[:, 1]
        dual = LagrangianDual(optax.adam(3e-2))
        tied = np.round(2 * x) / 2  # of few values: so are predictions, whose slopes are rougher
        for inputs, steps, least in ((x, 300, 0.4), (tied, 400, 0.3)):
            trainer = trained(Penalty("hgr", 0.3), data=(inputs, y, z), dual=dual, steps=steps)
            prediction = np.asarray(trainer.predict(inputs))
            assert hgr_jax.hgr(z, prediction) < 0.35
            assert np.corrcoef(prediction, y)[0, 1] > least

    def test_options_are_checked(self) -> None:
        with pytest.raises(ValueError, match="needs a statistic that takes given"):
            Penalty("hgr", given="polynomials")


class TestStatic:
    def test_equality_and_hash(self) -> None:
        kinds = [KB(2, 3), SK(2), Neural(), Neural(5), KB(3, 2)]
        kinds.append(HGR())
        kinds.append(Function(jnp.corrcoef, weighted=False))
        assert len(set(kinds)) == len(kinds)
        for statistic in kinds:
            again = dataclasses.replace(statistic)
            assert (again, hash(again)) == (statistic, hash(statistic))
        leaves, structure = jax.tree.flatten(Penalty(KB(2, 3), 0.3))
        assert leaves == [0.3]
        assert structure == jax.tree.structure(Penalty(KB(2, 3), 0.5))
        assert structure != jax.tree.structure(Penalty(KB(2, 4), 0.3))


class TestPenalties:
    def test_degrees_are_those_that_values_support(self) -> None:
        assert Penalty(KB(4, 2)).with_supported_degree(3).statistic == KB(2, 2)
        assert Penalty(KB(4, 5)).with_supported_degree(3).statistic == KB(2, 5)
        assert Penalty(SK(5)).with_supported_degree(3).statistic == SK(5)

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

    def value(self, state: Any, z: Any, prediction: Any, **conditions: Any) -> tuple[Any, Any]:
        return state.astype(z.dtype) / 10 + 0 * prediction.sum(), state + 1


GIVEN = Penalty(KB(2, 2), 0.3, given="polynomials")
kb_given = functools.partial(hgr_jax.kb, h=2, k=2, given_degree=2)


def outcome(z: jax.Array, prediction: jax.Array, seed: int = 0) -> jax.Array:
    noise = np.random.default_rng(seed).standard_normal(len(z))
    return z + prediction.reshape(len(z), -1)[:, 0] + noise.astype(z.dtype)


def test_given_polynomials() -> None:
    z, prediction = some_pair(1)
    y = outcome(z, prediction)
    for statistic, expected in (
        (KB(2, 2), kb_given(z, prediction, given=y)),
        (SK(2), hgr_jax.sk(z, prediction, 2, given=y, given_degree=2)),
        (hgr_jax.total, hgr_jax.total(z, prediction, given=y)),
    ):
        found = measured(Penalty(statistic, given="polynomials"), z, prediction, y)
        np.testing.assert_allclose(found, [expected], atol=2e-6)
    for penalty in (GIVEN, Penalty("kb", given="polynomials")):
        assert measured(penalty, z, 2 * prediction - 1, prediction) == 0


def test_only_the_conditional_value_keeps_the_threshold() -> None:
    x, _, _ = some_data(rows=300)
    z, noise, values = x[:, 0], np.random.default_rng(1).standard_normal(300), {}
    y = z + x[:, 1] + noise
    for name, penalty in (("before", Penalty(KB(2, 2), threshold=None)), ("after", GIVEN)):
        trainer = trained(penalty, data=(x, y, z), steps=300)
        prediction = trainer.predict(x)
        conditional = float(kb_given(z, prediction, given=y))
        values[name] = conditional, float(hgr_jax.kb(z, prediction, 2, 2))
    assert min(values["before"]) > GIVEN.threshold + 0.1
    assert values["after"][0] < GIVEN.threshold + 0.03
    assert values["after"][1] > GIVEN.threshold + 0.1
    last = trainer.history.last
    np.testing.assert_allclose(last["dependence_train_z"], values["after"][0], atol=1e-5)


def test_another_threshold_compiles_nothing() -> None:
    z, prediction = some_pair(1)
    traces = []

    @jax.jit
    def violation(penalty: Penalty, prediction: jax.Array) -> jax.Array:
        traces.append(penalty)
        return penalty.excess(measured(penalty, z, prediction))

    value = float(abs(hgr_jax.pearson(z, prediction)))
    for threshold in (value / 2, value / 4, 1.0):
        found = violation(Penalty("pearson", threshold), prediction)
        np.testing.assert_allclose(found, [max(0, value - threshold)], atol=1e-6)
    assert len(traces) == 1
    slope = jax.grad(lambda penalty: violation(penalty, prediction)[0])(Penalty("pearson", 0.1))
    assert slope.threshold == -1


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


def test_start() -> None:
    for count, state in ((1, ADAM.init()), (3, ADAM.init(3))):
        np.testing.assert_array_equal(state.multipliers, [0] * count)
    found = runs[ADAM](jnp.ones((10, 2)) * jnp.array([[0.3, -0.3]]))
    # Adam is the default; its first steps are of the learning rate, whatever the gradient.
    np.testing.assert_allclose(found[:, 0], 2e-3 * np.arange(1, 11), rtol=1e-4)
    np.testing.assert_array_equal(found[:, 1], 0)
    state = FALLING.init([0.5, 2])
    np.testing.assert_array_equal(state.multipliers, np.array([0.5, 2], np.float32))
    for dual, expected in ((FALLING, [0.25, 2.25]), (RISING, [0.5, 2.25])):
        after = dual.update(jnp.array([-0.5, 0.5]), state)
        np.testing.assert_allclose(after.multipliers, expected)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_dtype(dtype: Any) -> None:
    state = ADAM.init(2, dtype=dtype)
    other = jnp.ones(2, jnp.float64 if dtype == jnp.float32 else jnp.float32)
    for _ in range(2):
        state = ADAM.update(other, state)
        assert state.multipliers.dtype == dtype
    assert ADAM.init(2).multipliers.dtype == jnp.float64


def test_transformations_of_jax(rng: np.random.Generator) -> None:
    violations = jnp.asarray(rng.uniform(-1, 1, (3, 2)), jnp.float32)
    starts = jnp.asarray(rng.uniform(size=(3, 2)), jnp.float32)
    expected = np.maximum(0, starts + 0.5 * violations)

    def after(start: jax.Array, violation: jax.Array) -> jax.Array:
        return FALLING.update(violation, FALLING.init(start)).multipliers

    np.testing.assert_allclose(jax.jit(jax.vmap(after))(starts, violations), expected, atol=1e-7)
    # The loss of the network does not see the ascent.
    slope = jax.grad(lambda v: jnp.sum(after(starts[0], v)))(violations[0])
    np.testing.assert_array_equal(slope, 0)
