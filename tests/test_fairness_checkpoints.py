"""Trainings that are kept, killed and taken up again, bit for bit."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from fairness_support import Noisy
from flax import nnx

from hgr_jax.fairness import KB, MLP, SK, CheckpointError, FairTrainer, LagrangianDual, Penalty
from hgr_jax.fairness.checkpoints import read_checkpoint, write_checkpoint

ROWS = 60
ADAM = optax.adam(1e-2)
DUAL = LagrangianDual(optax.sgd(0.3))
PENALTY = Penalty("pearson", threshold=0.3, memory=2)


def some_data(seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((ROWS, 2)).astype(np.float32)
    return x, x[:, 0] ** 2 + x[:, 0] + x[:, 1], x[:, 0]


def new_trainer(**options: Any) -> FairTrainer:
    network = options.pop("network", None) or Noisy(2, 4)
    kept = {"penalties": PENALTY, "optimizer": ADAM, "dual": DUAL, "batch_size": 20, "seed": 3}
    options = kept | options
    return FairTrainer(network, **options)


def fit(trainer: FairTrainer, steps: int, **options: Any) -> FairTrainer:
    data = options.pop("data", some_data())
    options = {"evaluate_every": 10, "validation": some_data(1)} | options
    trainer.fit(*data, steps=steps, **options)
    return trainer


def assert_same(first: FairTrainer, second: FairTrainer) -> None:
    chex.assert_trees_all_equal(plain(first.state), plain(second.state))
    for kind in ("steps", "evaluations"):
        mine, other = getattr(first.history, kind), getattr(second.history, kind)
        assert list(mine) == list(other)
        chex.assert_trees_all_equal(dict(mine), dict(other))
    assert first.history.thresholds == second.history.thresholds
    x = some_data(2)[0]
    np.testing.assert_array_equal(first.predict(x), second.predict(x))


def plain(tree: Any) -> Any:
    def data(leaf: Any) -> Any:
        typed = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return jax.random.key_data(leaf) if typed else leaf

    return jax.tree.map(data, tree)


@pytest.fixture(scope="module")
def whole() -> FairTrainer:
    return fit(new_trainer(), 60)


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("half") / "kept"
    fit(new_trainer(), 30, checkpoint=path)
    return path


def test_taken_up_bit_for_bit(whole: FairTrainer, tmp_path: Path) -> None:
    fit(new_trainer(), 30, checkpoint=tmp_path / "kept")
    resumed = fit(new_trainer(), 60, checkpoint=tmp_path / "kept")
    assert_same(resumed, whole)
    assert_same(fit(new_trainer(), 60, checkpoint=tmp_path / "kept"), whole)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


SCRIPT = """
import sys
sys.path[:0] = [{root!r}, {tests!r}]
from test_fairness_checkpoints import fit, new_trainer
print("started", flush=True)
fit(new_trainer(), {steps}, checkpoint={path!r})
print("finished", flush=True)
"""


def test_killed_at_a_random_moment(tmp_path: Path) -> None:
    tests, path, steps = Path(__file__).parent, tmp_path / "kept", 1000
    script = SCRIPT.format(root=str(tests.parent), tests=str(tests), steps=steps, path=str(path))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        while not path.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(np.random.default_rng().uniform(0, 0.1))
    finally:
        process.send_signal(signal.SIGKILL)
        output, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert output == "started\n"
    resumed = fit(new_trainer(), steps, checkpoint=path)
    assert_same(resumed, fit(new_trainer(), steps))


def test_saved_and_resumed(whole: FairTrainer, tmp_path: Path) -> None:
    trainer = fit(new_trainer(), 30)
    trainer.save(tmp_path / "kept")
    resumed = new_trainer().resume(tmp_path / "kept", *some_data())
    assert_same(resumed, trainer)
    assert_same(fit(resumed, 60), whole)


def test_saved_and_resumed_after_stopping(tmp_path: Path) -> None:
    x, y, z = some_data(1)
    options = {"patience": 2, "validation": (x, y[::-1].copy(), z)}
    stopped = fit(new_trainer(), 200, **options)
    for steps in (10, 200):
        parts = fit(new_trainer(), steps, checkpoint=tmp_path / "parts", **options)
    assert_same(parts, stopped)
    stopped.save(tmp_path / "kept")
    resumed = new_trainer().resume(tmp_path / "kept", *some_data())
    assert_same(resumed, stopped)
    assert_same(fit(resumed, 200, **options), stopped)


def test_functions_of_ones_own(tmp_path: Path) -> None:
    def new() -> FairTrainer:  # as another process would make it
        def square(x: jax.Array) -> jax.Array:
            return jnp.stack([x, x**2], axis=1)

        return new_trainer(penalties=Penalty(KB(square, 1), 0.3))

    trainer = new()
    trainer.fit(*some_data(), steps=1)
    trainer.save(tmp_path / "kept")
    assert_same(new().resume(tmp_path / "kept", *some_data()), trainer)


def test_a_resume_that_fails_changes_nothing(half: Path, tmp_path: Path) -> None:
    found = fit(new_trainer(), 10)
    before = found.state
    with pytest.raises(CheckpointError, match="no checkpoint"):
        found.resume(tmp_path / "nothing", *some_data())
    assert found.state is before
    with pytest.raises(CheckpointError, match="seed"):
        new_trainer(seed=4).resume(half, *some_data())


def absolute_error(output: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.mean(jnp.abs(output - y))


@pytest.mark.parametrize(
    ("of_trainer", "of_fit", "what"),
    [
        ({}, {"data": some_data(5)}, "training rows"),
        ({}, {"validation": some_data(5)}, "validation rows"),
        ({}, {"validation": None}, "validation rows"),
        ({}, {"evaluate_every": 15}, "evaluate_every"),
        ({}, {"patience": 4}, "patience"),
        ({"seed": 4}, {}, "seed"),
        ({"batch_size": 30}, {}, "batch size"),
        ({"penalties": Penalty("pearson", 0.31, memory=2)}, {}, "penalties"),
        ({"penalties": Penalty(SK(2), 0.3, memory=2)}, {}, "penalties"),
        ({"network": MLP(2, (5,), rngs=nnx.Rngs(0))}, {}, "network"),
        ({"optimizer": optax.sgd(1e-2)}, {}, "optimiser"),
        ({"dual": LagrangianDual(optax.sgd(0.3), two_sided=False)}, {}, "dual"),
        ({"dual": LagrangianDual(optax.adam(0.3))}, {}, "optimiser"),
        ({"dual": 2.0}, {}, "dual"),
        ({"task": absolute_error}, {}, "task"),
    ],
)
def test_of_another_training(
    half: Path, of_trainer: dict[str, Any], of_fit: dict[str, Any], what: str
) -> None:
    with pytest.raises(CheckpointError, match=f"another training.*{what}"):
        fit(new_trainer(**of_trainer), 30, checkpoint=half, **of_fit)


def test_half_precision_comes_back(tmp_path: Path) -> None:
    state = {"a": jnp.arange(4, dtype=jnp.bfloat16), "key": jax.random.key(3)}
    write_checkpoint(tmp_path / "kept", {"seed": 3}, state, {"x": np.ones(2)}, {"n": 1})
    found = read_checkpoint(tmp_path / "kept", {"seed": 3}, state)
    assert found is not None
    chex.assert_trees_all_equal(plain(found[0]), plain(state))
    assert found[0]["a"].dtype == jnp.bfloat16
    assert (found[1]["x"].tolist(), found[2]) == ([1, 1], {"n": 1})


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a checkpoint")  # damage of other kinds is that of any archive
    for path, message in ((file, "is not a saved training, or is dam"), (tmp_path, "cannot read")):
        with pytest.raises(CheckpointError, match=message):
            fit(new_trainer(), 10, checkpoint=path)
    trainer = fit(new_trainer(), 10)
    for path in (file / "kept", tmp_path):
        with pytest.raises(CheckpointError, match="cannot write"):
            trainer.save(path)
    assert file.read_text() == "not a checkpoint"
