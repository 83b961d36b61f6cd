"""Trainings that are kept, killed and taken up again, bit for bit."""

from __future__ import annotations

import gc
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from hgr_jax.fairness import MLP, CheckpointError, FairTrainer, LagrangianDual, Penalty, storage
from hgr_jax.fairness.storage import read_arrays, write_arrays

ROWS = 60
ADAM = optax.adam(1e-2)
DUAL = LagrangianDual(optax.sgd(0.3))
PENALTY = Penalty("pearson", threshold=0.3, h=2, k=2, memory=2)


class Noisy(nnx.Module):
    """With random streams and statistics."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(2, 4, rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.dropout = nnx.Dropout(0.3, rngs=rngs)
        self.last = nnx.Linear(4, 1, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.last(self.dropout(jnp.tanh(self.norm(self.first(x)))))


@pytest.fixture(autouse=True)
def _complaints_are_heard_here() -> Iterator[None]:
    yield
    gc.collect()


def some_data(seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((ROWS, 2)).astype(np.float32)
    return x, x[:, 0] ** 2 + x[:, 0] + x[:, 1], x[:, 0]


def new_trainer(**options: Any) -> FairTrainer:
    network = options.pop("network", None) or Noisy(nnx.Rngs(0))
    options = {
        "penalties": PENALTY,
        "optimizer": ADAM,
        "dual": DUAL,
        "batch_size": 20,
        "seed": 3,
    } | options
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
    folder = tmp_path_factory.mktemp("half") / "kept"
    fit(new_trainer(), 30, checkpoint=folder)
    return folder


def test_taken_up_bit_for_bit(whole: FairTrainer, tmp_path: Path) -> None:
    fit(new_trainer(), 30, checkpoint=tmp_path / "kept")
    resumed = fit(new_trainer(), 60, checkpoint=tmp_path / "kept")
    assert_same(resumed, whole)
    assert_same(fit(new_trainer(), 60, checkpoint=tmp_path / "kept"), whole)
    files = [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert path.suffix not in (".pkl", ".pickle")
        assert not path.read_bytes().startswith((b"\x80\x03", b"\x80\x04", b"\x80\x05"))
    kept = [path.name for path in (tmp_path / "kept").iterdir() if path.name.isdigit()]
    assert sorted(kept) == ["50", "60"]


def test_stopping_is_taken_up(tmp_path: Path) -> None:
    x, y, z = some_data(1)
    options = {"patience": 2, "validation": (x, y[::-1].copy(), z)}
    stopped = fit(new_trainer(), 200, **options)
    last = int(stopped.history.last["step"])
    assert 40 <= last < 200
    for steps in (10, last - 10):  # the second with one more evaluation to wait for
        fit(new_trainer(), steps, checkpoint=tmp_path / "kept", **options)
    assert_same(fit(new_trainer(), 200, checkpoint=tmp_path / "kept", **options), stopped)
    assert_same(fit(new_trainer(), 200, checkpoint=tmp_path / "kept", **options), stopped)


SCRIPT = """
import sys
sys.path[:0] = [{root!r}, {tests!r}]
from test_fairness_checkpoints import fit, new_trainer
print("started", flush=True)
fit(new_trainer(), {steps}, checkpoint={folder!r})
print("finished", flush=True)
"""


def test_killed_at_a_random_moment(tmp_path: Path) -> None:
    tests, folder, steps = Path(__file__).parent, tmp_path / "kept", 300
    script = SCRIPT.format(
        root=str(tests.parent), tests=str(tests), steps=steps, folder=str(folder)
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        while not any(path.name.isdigit() for path in folder.glob("*")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(np.random.default_rng().uniform(0, 0.5))
    finally:
        process.send_signal(signal.SIGKILL)
        output, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert output == "started\n"
    resumed = fit(new_trainer(), steps, checkpoint=folder)
    assert_same(resumed, fit(new_trainer(), steps))


class TestSaveAndResume:
    def test_round_trip(self, whole: FairTrainer, tmp_path: Path) -> None:
        trainer = fit(new_trainer(), 30)
        trainer.save(tmp_path / "kept")
        resumed = new_trainer().resume(tmp_path / "kept", *some_data())
        assert_same(resumed, trainer)
        assert_same(fit(resumed, 60), whole)

    def test_from_a_checkpoint(self, half: Path) -> None:
        resumed = new_trainer().resume(half, *some_data())
        assert_same(resumed, fit(new_trainer(), 30))

    def test_after_stopping(self, tmp_path: Path) -> None:
        x, y, z = some_data(1)
        options = {"patience": 2, "validation": (x, y[::-1].copy(), z)}
        stopped = fit(new_trainer(), 200, **options)
        stopped.save(tmp_path / "kept")
        resumed = new_trainer().resume(tmp_path / "kept", *some_data())
        assert_same(resumed, stopped)
        assert_same(fit(resumed, 200, **options), stopped)

    def test_functions_of_ones_own(self, tmp_path: Path) -> None:
        def new_penalty() -> Penalty:  # as another process would make it
            def square(x: jax.Array) -> jax.Array:
                return jnp.stack([x, x**2], axis=1)

            return Penalty("kb", 0.3, h=square, k=1)

        trainer = new_trainer(penalties=new_penalty())
        trainer.fit(*some_data(), steps=1)
        trainer.save(tmp_path / "kept")
        again = new_trainer(penalties=new_penalty())
        again.resume(tmp_path / "kept", *some_data())
        assert_same(again, trainer)

    def test_errors(self, half: Path, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="call fit first"):
            new_trainer().save(tmp_path)
        for empty in (tmp_path, tmp_path / "nothing"):
            with pytest.raises(CheckpointError, match="no checkpoint"):
                new_trainer().resume(empty, *some_data())
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
        ({"penalties": Penalty("pearson", 0.31, h=2, k=2, memory=2)}, {}, "penalties"),
        ({"penalties": Penalty("sk", 0.3, h=2, k=2, memory=2)}, {}, "penalties"),
        ({"network": MLP(2, (5,), rngs=nnx.Rngs(0))}, {}, "network"),
        ({"optimizer": optax.sgd(1e-2)}, {}, "optimiser"),
        ({"dual": LagrangianDual(optax.sgd(0.3), two_sided=False)}, {}, "dual"),
        ({"dual": LagrangianDual(optax.adam(0.3))}, {}, "optimiser"),
        ({"dual": None, "penalty_weight": 2.0}, {}, "dual"),
        ({"task": absolute_error}, {}, "task"),
    ],
)
def test_of_another_training(
    half: Path, of_trainer: dict[str, Any], of_fit: dict[str, Any], what: str
) -> None:
    with pytest.raises(CheckpointError, match=f"another training.*{what}"):
        fit(new_trainer(**of_trainer), 30, checkpoint=half, **of_fit)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("harm", [cut, flip, Path.unlink])
def test_harmed_files(
    half: Path, whole: FairTrainer, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    noticed = 0
    for name in sorted({path.name for path in (half / "30").rglob("*") if path.is_file()}):
        copy = tmp_path / f"without {name}"
        shutil.copytree(half, copy)
        for target in [path for path in copy.rglob(name) if path.is_file()]:
            harm(target)
        trainer = new_trainer()
        try:
            trainer.resume(copy, *some_data())
        except CheckpointError as error:
            assert str(copy) in str(error)  # noqa: PT017
            noticed += 1
        else:  # a file that does not matter
            assert_same(fit(trainer, 60), whole)
    assert noticed >= 2


def test_flipped_bits_are_errors_or_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal((40, 6)).astype(np.float32) for name in "abc"}
    write_arrays(tmp_path / "kept", 1, arrays, {"seed": 3})
    files = sorted(path for path in (tmp_path / "kept").rglob("*") if path.stat().st_size)
    files = [path.relative_to(tmp_path) for path in files if path.is_file()]
    noticed = 0
    for trial in range(30):
        copy = tmp_path / str(trial)
        shutil.copytree(tmp_path / "kept", copy / "kept")
        path = copy / files[trial % len(files)]
        content = bytearray(path.read_bytes())
        for bit in rng.integers(8 * len(content), size=3):
            content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(content))
        try:
            found = read_arrays(copy / "kept")
        except CheckpointError as error:
            assert str(copy) in str(error)  # noqa: PT017
            noticed += 1
        else:
            assert found is not None
            chex.assert_trees_all_equal(found[0], arrays)
            assert found[1] == {"seed": 3}
    assert noticed >= 10


def test_damaged_files_are_one_error_and_nothing_else(tmp_path: Path) -> None:
    """No traceback of a thread of orbax, no warning of its log."""
    code = f"""
import pathlib, shutil, time
import numpy as np
from hgr_jax.fairness.storage import CheckpointError, read_arrays, write_arrays
folder = pathlib.Path({str(tmp_path)!r})
write_arrays(folder / "kept", 1, {{name: np.ones((40, 6)) for name in "abcdef"}}, {{}})
files = sorted(path for path in (folder / "kept").rglob("*") if path.is_file())
for trial in range(30):
    copy = folder / str(trial)
    shutil.copytree(folder / "kept", copy)
    path = copy / files[trial % len(files)].relative_to(folder / "kept")
    content = bytearray(path.read_bytes())
    for place in range(trial, len(content), 40):
        content[place] ^= 0x11
    path.write_bytes(bytes(content))
    try:
        read_arrays(copy)
    except CheckpointError as error:
        print(str(copy) in str(error))
time.sleep(0.5)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.returncode == 0
    assert set(done.stdout.split()) == {"True"}
    assert done.stdout.count("True") >= 10


def test_arrays_of_all_kinds_come_back(tmp_path: Path) -> None:
    arrays = {
        "none": np.zeros((0, 3), np.float32),
        "number": np.array(2.5),
        "halves": np.asarray(jnp.arange(4, dtype=jnp.bfloat16)),
        "flags": np.array([True, False]),
        "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
    }
    for kept in (arrays, {"none": arrays["none"]}, {}):
        write_arrays(tmp_path / str(len(kept)), 1, kept, {"seed": 3})
        found, known = read_arrays(tmp_path / str(len(kept)))
        assert known == {"seed": 3}
        chex.assert_trees_all_equal(found, kept)
        assert [a.dtype for a in found.values()] == [kept[name].dtype for name in found]


def test_an_array_that_is_not_the_one_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(storage, "_digest", lambda array: "of another")
        write_arrays(tmp_path, 1, {"weights": np.ones(3)}, {})
    with pytest.raises(CheckpointError, match="is damaged: weights is not what was written"):
        read_arrays(tmp_path)


def test_folders_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")
    for folder in (file, file / "kept"):
        with pytest.raises(CheckpointError, match="file"):
            fit(new_trainer(), 10, checkpoint=folder)
        trainer = fit(new_trainer(), 10)
        with pytest.raises(CheckpointError, match="cannot write"):
            trainer.save(folder)
    assert file.read_text() == "not a folder"
