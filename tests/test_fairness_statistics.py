"""Statistic objects: beside the functions they wrap, static under jit, in penalties, in files."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fairness_support import parameters, some_data, trained
from penalties_support import ROWS, measured, some_pair

import hgr_jax
from hgr_jax.fairness import (
    KB,
    SK,
    CheckpointError,
    FairMLPRegressor,
    FairnessScorer,
    Function,
    Neural,
    Penalty,
    Statistic,
    Total,
    corrected,
)
from hgr_jax.fairness.statistic_names import DIFFERENTIABLE
from hgr_jax.inference import upper_bound
from hgr_jax.kernels import fourier

PAIR = some_pair(1)
WEIGHTS = jnp.asarray(np.arange(ROWS) % 4, jnp.float32)

PROJECTIONS: list[tuple[Statistic, Callable[..., jax.Array]]] = [
    (KB(2, 3), functools.partial(hgr_jax.kb, h=2, k=3)),
    (SK(2), functools.partial(hgr_jax.sk, d=2)),
    (Total(2, 3), functools.partial(hgr_jax.total, h=2, k=3)),
]
BOUND = KB(2, 3, bound=0.9)


def value_of(statistic: Statistic, z: Any, prediction: Any, **conditions: Any) -> jax.Array:
    return statistic.value(statistic.init(z, prediction), z, prediction, **conditions)[0]


class TestValues:
    @pytest.mark.parametrize(("statistic", "function"), PROJECTIONS)
    def test_projections(self, statistic: Statistic, function: Callable[..., jax.Array]) -> None:
        y = PAIR[0] + PAIR[1]
        np.testing.assert_array_equal(value_of(statistic, *PAIR), function(*PAIR))
        found = value_of(statistic, *PAIR, weights=WEIGHTS)
        np.testing.assert_array_equal(found, function(*PAIR, weights=WEIGHTS))
        degree = statistic.kernels[1]
        expected = function(*PAIR, given=y, given_degree=degree)
        np.testing.assert_array_equal(value_of(statistic, *PAIR, given=y), expected)
        one_hot = jnp.asarray(np.eye(3)[np.digitize(PAIR[0], [-0.5, 0.5])], jnp.float32)
        options = {} if isinstance(statistic, SK) else {"h": 1}
        expected = function(one_hot, PAIR[1], **options)
        np.testing.assert_allclose(value_of(statistic, one_hot, PAIR[1]), expected, rtol=1e-6)

    def test_sk_of_many_levels_is_kb_of_them(self) -> None:
        """Of 30 indicators, monomials of degree 5 would be far too many."""
        one_hot = np.eye(30, dtype=np.float32)[np.arange(ROWS) % 30]
        found = value_of(SK(5), one_hot, PAIR[1])
        np.testing.assert_array_equal(found, hgr_jax.kb(one_hot, PAIR[1], 1, 5))
        assert SK(5).parameters(30) == KB(5, 5).parameters(30) == 33

    def test_upper_bound(self) -> None:
        found = value_of(BOUND, *PAIR)
        np.testing.assert_array_equal(found, upper_bound(*PAIR, 2, 3, level=0.9))
        assert value_of(KB(2, 3), *PAIR) < found < value_of(KB(2, 3, bound=0.99), *PAIR)
        expected = upper_bound(*PAIR, 2, 3, level=0.9, weights=WEIGHTS)
        np.testing.assert_array_equal(value_of(BOUND, *PAIR, weights=WEIGHTS), expected)

    def test_neural(self) -> None:
        key = jax.random.key(3)
        warm = Neural(7, learning_rate=1e-3)
        state = warm.init(*PAIR, key=key)
        before = hgr_jax.neural_fit(*PAIR, key=key, learning_rate=1e-3)
        other = some_pair(2)
        value, following = warm.value(state, *other)
        after = hgr_jax.neural_fit(*other, key=key, steps=7, learning_rate=1e-3, init=before)
        np.testing.assert_allclose(value, after.correlation, atol=1e-6)
        held = warm.held_out(following, *PAIR)
        np.testing.assert_allclose(held, abs(after.score(*PAIR)), atol=1e-5)
        anew = Neural(5, warm_start=False)
        assert anew.init(*PAIR) == ()
        value, state = anew.value((), *PAIR)
        assert state == ()
        expected = hgr_jax.neural(*PAIR, key=jax.random.key(0), steps=5)
        np.testing.assert_allclose(value, expected, atol=1e-6)
        np.testing.assert_array_equal(anew.held_out((), *PAIR), value)

    @pytest.mark.parametrize("name", DIFFERENTIABLE)
    def test_a_name_stands_for_a_statistic(self, name: str) -> None:
        penalty = Penalty(name, h=2, k=3)
        expected = {"kb": KB(2, 3), "sk": SK(3), "neural": Neural()}.get(name)
        if expected is None:
            assert isinstance(penalty.statistic, Function)
            assert (penalty.statistic.weighted, penalty.statistic.partial) == (False, False)
        else:
            assert penalty.statistic == expected
        assert penalty.statistic == Penalty(name, h=2, k=3).statistic

    @pytest.mark.usefixtures("x64")
    @pytest.mark.parametrize("statistic", [KB(2, 2, bound=0.95), Total(2, 2), KB(2, 2), SK(2)])
    def test_gradient(self, statistic: Statistic) -> None:
        z, prediction = (jnp.asarray(v, jnp.float64) for v in PAIR)
        way = jnp.asarray(np.random.default_rng(5).standard_normal(ROWS))

        @jax.jit
        def along(t: jax.Array) -> jax.Array:
            return statistic.value((), z, prediction + t * way)[0]

        step = 1e-5
        ends = [float(along(jnp.asarray(t))) for t in (step, -step)]
        slope = float(jax.jit(jax.grad(along))(jnp.asarray(0.0)))
        assert abs(slope) > 1e-3
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-6)


class TestStatic:
    def test_equal_ones_share_a_program(self, compilations: Any) -> None:
        @functools.partial(jax.jit, static_argnums=0)
        def value(statistic: Statistic, z: jax.Array, prediction: jax.Array) -> jax.Array:
            return statistic.value((), z, prediction)[0]

        value(KB(2, 2), *PAIR)
        with compilations() as programs:
            found = value(KB(np.int64(2), k=2), *PAIR)
        assert not programs
        np.testing.assert_allclose(found, value_of(KB(2, 2), *PAIR), atol=1e-6)

    def test_equality_and_hash(self) -> None:
        kinds = [KB(2, 3), KB(2, 3, bound=0.95), SK(2), Total(2, 3), Neural(), Neural(5), KB(3, 2)]
        kinds.append(Function(jnp.corrcoef, weighted=False))
        assert len(set(kinds)) == len(kinds)
        for statistic in kinds:
            again = dataclasses.replace(statistic)
            assert (again, hash(again)) == (statistic, hash(statistic))
        leaves, structure = jax.tree.flatten(Penalty(KB(2, 3), 0.3))
        assert leaves == [0.3]
        assert structure == jax.tree.structure(Penalty(KB(2, 3), 0.5))
        assert structure != jax.tree.structure(Penalty(KB(2, 3, bound=0.9), 0.3))


class TestPenalties:
    def test_a_statistic_brings_its_kernels(self) -> None:
        assert (Penalty(KB(2, 3)).h, Penalty(KB(2, 3)).k) == (2, 3)
        assert (Penalty(SK(3), h=2).h, Penalty(SK(3), h=2).k) == (2, 3)
        suited = Penalty(Total(4, 2)).suited(3)
        assert (suited.statistic, suited.h, suited.k) == (Total(2, 2), 2, 2)
        assert Penalty(KB(4, 2, bound=0.9)).suited(3).statistic == KB(2, 2, bound=0.9)
        assert Penalty("kb", h=4).suited(3).statistic == KB(2, 5)
        hgr = Penalty(Total(2, 2)).hgr(*PAIR)
        np.testing.assert_allclose(hgr, [hgr_jax.kb(*PAIR, h=2, k=2)], atol=1e-6)

    def test_corrected(self) -> None:
        found = measured(Penalty(Total(2, 3), bias_corrected=True), *PAIR)
        expected = corrected(hgr_jax.total(*PAIR, h=2, k=3), ROWS, 3)
        np.testing.assert_allclose(found, [expected], atol=1e-6)

    @pytest.mark.parametrize("statistic", [Total(2, 3), BOUND])
    def test_in_groups(self, statistic: Statistic) -> None:
        group = np.arange(ROWS) % 2
        penalty = Penalty(statistic, given="classes")
        found = measured(penalty, *PAIR, jnp.asarray(group, jnp.int32), 2)
        expected = [value_of(statistic, *(v[group == i] for v in PAIR)) for i in (0, 1)]
        np.testing.assert_allclose(found, expected, atol=5e-6)

    @pytest.mark.parametrize(
        ("penalty", "bias"),
        [(Penalty(Total(2, 3)), 3), (Penalty("kb", h=2, k=3), 4), (Penalty(BOUND), None)],
    )
    def test_held_out_values_are_corrected(self, penalty: Penalty, bias: int | None) -> None:
        state = penalty.init(*PAIR)
        found = penalty.held_out(state, *PAIR)
        raw = measured(penalty, *PAIR)
        expected = raw if bias is None else corrected(raw, ROWS, bias)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        if penalty.measure == "kb":
            marked = penalty.held_out(state, *PAIR, hgr=jnp.ones(1))
            np.testing.assert_array_equal(marked, [1])

    def test_a_bound_keeps_more_than_the_value(self) -> None:
        x, _, z = some_data()
        values = []
        for statistic in (KB(2, 2), KB(2, 2, bound=0.95)):
            trainer = trained(Penalty(statistic, 0.4), steps=150, evaluate_every=150)
            values.append(float(hgr_jax.kb(z, trainer.predict(x), h=2, k=2)))
        assert values[1] < values[0] - 0.02

    def test_a_statistic_with_a_state(self) -> None:
        trainer = trained(Penalty(Counted(), 0.3), steps=7)
        assert trainer.state is not None
        assert trainer.state.penalties[0].carried == jnp.array([7])
        np.testing.assert_allclose(trainer.history.steps["value_z"], np.arange(7) / 10, atol=1e-6)

    def test_a_name_trains_as_its_statistic(self) -> None:
        by_name = trained(Penalty("kb", 0.3, h=2, k=2))
        by_object = trained(Penalty(KB(2, 2), 0.3))
        for a, b in zip(
            *(jax.tree.leaves(parameters(t)) for t in (by_name, by_object)), strict=True
        ):
            np.testing.assert_array_equal(a, b)


@dataclasses.dataclass(frozen=True)
class Counted(Statistic):
    """A tenth of the steps so far."""

    def init(self, z: jax.Array, prediction: jax.Array, *, key: Any = None) -> Any:
        return jnp.zeros((), jnp.int32)

    def value(self, state: Any, z: Any, prediction: Any, **conditions: Any) -> tuple[Any, Any]:
        return state.astype(z.dtype) / 10 + 0 * prediction.sum(), state + 1


@dataclasses.dataclass(frozen=True)
class WithKernels(Counted):
    """One that has degrees, whatever the attribute."""

    kernels = (5, 5)


def test_a_statistic_with_degrees_takes_an_attribute_of_two_values() -> None:
    x, y, z = some_data()
    penalty = Penalty(WithKernels(), 0.5)
    assert penalty.suited(2).h == 5
    trainer = trained(penalty, data=(x, y, z > 0), steps=1)
    assert len(trainer.history.steps["step"]) == 1


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: KB(0, 2), ValueError, "h must be at least 1"),
        (lambda: KB(2, "a"), TypeError, "k must be a degree"),
        (lambda: KB(bound=1.0), ValueError, "bound must be above 0 and below 1"),
        (lambda: KB(bound="high"), TypeError, "bound"),
        (lambda: SK(0), ValueError, "d must be at least 1"),
        (lambda: Total(2.5), TypeError, "h must be a degree"),
        (lambda: Neural(0), ValueError, "steps"),
        (lambda: Neural(learning_rate=-1), ValueError, "learning_rate"),
        (lambda: Neural(warm_start=1), TypeError, "warm_start"),
        (lambda: Function("kb"), TypeError, "function must be callable"),
        (lambda: Function(jnp.sin, partial=None), TypeError, "partial"),
        (lambda: Penalty(KB(2, 2), h=3), ValueError, "h=3 differs from that of the measure"),
        (lambda: Penalty(SK(2), k=3), ValueError, "k=3 differs"),
        (lambda: Penalty(KB), ValueError, "measure is a class"),
        (lambda: Penalty(KB(bound=0.9), bias_corrected=True), ValueError, "without a bound"),
        (lambda: Penalty(KB(jnp.sin, 2), bias_corrected=True), ValueError, "bias_corrected"),
        (lambda: Penalty(Neural(), bias_corrected=True), ValueError, "bias_corrected"),
        (lambda: Penalty(KB(bound=0.9), given="polynomials"), ValueError, "that takes given"),
        (lambda: Penalty(Neural(), given="classes"), ValueError, "that takes weights"),
        (lambda: Penalty(Function(jnp.dot, weighted=False), given=2), ValueError, "weights"),
        (lambda: Penalty(SK(2), warm_start=False), ValueError, "warm_start"),
        (lambda: Penalty(Neural(), warm_start=False), ValueError, "warm_start"),
    ],
)
def test_refusals(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_a_category_is_refused_where_a_statistic_does_not_take_it() -> None:
    x, y, z = some_data()
    level = np.where(z > 0, "high", "low")
    numbers_only = Function(lambda z, p: jnp.mean(z * p), categorical=False)
    with pytest.raises(ValueError, match=r"z is categorical, which .* does not take"):
        trained(Penalty(numbers_only), data=(x, y, level))


class TestFiles:
    @pytest.mark.parametrize(
        "penalty", [KB(2, 3, bound=0.9), SK(2), Total(2, 2), Neural(5, learning_rate=1e-3)]
    )
    def test_estimators(self, penalty: Statistic, tmp_path: Path) -> None:
        x, y, z = some_data()
        model = FairMLPRegressor((4,), penalty=penalty, steps=2, random_state=0)
        model.fit(x, y, protected=z).save(tmp_path / "model.npz")
        loaded = FairMLPRegressor.load(tmp_path / "model.npz")
        assert loaded.penalty == penalty
        np.testing.assert_array_equal(loaded.predict(x), model.predict(x))

    def test_what_no_file_holds(self, tmp_path: Path) -> None:
        x, y, z = some_data()
        for penalty in (KB(jnp.atleast_2d, 1), KB(fourier(2), 3), Function(jnp.dot), Counted()):
            model = FairMLPRegressor((4,), steps=1, random_state=0).fit(x, y, protected=z)
            model.set_params(penalty=penalty)
            with pytest.raises(ValueError, match="set penalty to one before saving"):
                model.save(tmp_path / "model.npz")

    def test_a_changed_file(self, tmp_path: Path) -> None:
        x, y, z = some_data()
        path = tmp_path / "model.npz"
        model = FairMLPRegressor((4,), penalty=KB(2, 2), steps=1, random_state=0)
        model.fit(x, y, protected=z).save(path)
        arrays = dict(np.load(path, allow_pickle=False))
        for before, after in (("KB", "Path"), ('"h": 2', '"h": -2'), ('"bound"', '"fate"')):
            text = str(arrays["about"])
            assert before in text
            np.savez(path, **arrays | {"about": np.array(text.replace(before, after))})
            with pytest.raises(ValueError, match="parameter that cannot be read"):
                FairMLPRegressor.load(path)

    def test_checkpoints(self, tmp_path: Path) -> None:
        data = some_data()
        trainer = trained(Penalty(KB(2, 2, bound=0.9), 0.3), steps=2)
        trainer.save(tmp_path / "kept")
        again = trained(Penalty(KB(2, 2, bound=0.9), 0.3), steps=1)
        again.resume(tmp_path / "kept", *data)
        np.testing.assert_array_equal(*(t.predict(data[0]) for t in (trainer, again)))
        for other in (KB(2, 2), KB(2, 2, bound=0.95), Counted()):
            with pytest.raises(CheckpointError, match="penalties"):
                trained(Penalty(other, 0.3), steps=1).resume(tmp_path / "kept", *data)


def test_the_scorer_takes_statistics() -> None:
    x, y, z = some_data()
    model = FairMLPRegressor((4,), penalty=None, steps=1, random_state=0).fit(x, y, protected=z)
    scores = [
        FairnessScorer(0.9, penalty=penalty, **degrees)(model, x, y, protected=z)
        for penalty, degrees in ((KB(2, 2), {}), ("kb", {"h": 2, "k": 2}))
    ]
    assert scores[0] == scores[1]
