"""Loggers of a training: what they are told, ready ones, and failures that lose nothing."""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import chex
import pytest
from fairness_support import QUICK, parameters, some_data, trained

from hgr_jax.fairness import TensorBoardLogger, WandbLogger

Calls = list[tuple[int, dict[str, float]]]


class Recorder:
    """A logger that remembers, and fails at one step."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.calls: Calls = []
        self.fails_at = fails_at

    def __call__(self, step: int, figures: Mapping[str, float]) -> None:
        self.calls.append((step, dict(figures)))
        if step == self.fails_at:
            raise ConnectionError("no network")


def test_every_evaluation_is_told() -> None:
    logger = Recorder()
    trainer = trained(QUICK, steps=25, validation=some_data(1), logger=logger)
    assert [step for step, _ in logger.calls] == [10, 20, 25]
    steps, evaluations = trainer.history.steps, trainer.history.evaluations
    for place, (step, figures) in enumerate(logger.calls):
        assert set(figures) == (set(steps) | set(evaluations)) - {"step"}
        for name, value in figures.items():
            column = steps[name][step - 1] if name in steps else evaluations[name][place]
            assert isinstance(value, float)
            assert value == pytest.approx(float(column))


def test_a_logger_may_be_empty() -> None:
    class Collected(list[int]):
        def __call__(self, step: int, figures: Mapping[str, float]) -> None:
            self.append(step)

    logger = Collected()
    trained(QUICK, steps=10, logger=logger)
    assert logger == [10]


def test_a_failure_loses_nothing() -> None:
    plain, logger = trained(QUICK, steps=30), Recorder(fails_at=20)
    with pytest.warns(RuntimeWarning, match=r"step 20 \(ConnectionError: no network\)") as told:
        trainer = trained(QUICK, steps=30, logger=logger)
    assert len(told) == 1
    assert [step for step, _ in logger.calls] == [10, 20]
    chex.assert_trees_all_equal(parameters(plain), parameters(trainer))
    trainer.fit(*some_data(), steps=35, evaluate_every=10)  # it has another chance
    assert logger.calls[-1][0] == 35


def test_ctrl_c_in_a_logger_is_ctrl_c() -> None:
    def interrupted(step: int, figures: Mapping[str, float]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(QUICK, logger=interrupted)


def test_what_is_no_logger() -> None:
    with pytest.raises(TypeError, match="logger must be a function"):
        trained(QUICK, logger="tensorboard")


def test_wandb(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Any] = []

    def init(**options: Any) -> Any:
        events.append(("init", options))
        return types.SimpleNamespace(
            log=lambda figures, step: events.append((step, figures)),
            finish=lambda: events.append("finish"),
        )

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    logger = WandbLogger(project="loans", mode="offline")
    trained(QUICK, steps=20, logger=logger)
    logger.close()
    begun, first, second, ended = events
    assert begun == ("init", {"project": "loans", "mode": "offline"})
    assert (first[0], second[0], ended) == (10, 20, "finish")
    assert type(second[1]) is dict
    assert "hgr_train_z" in second[1]
    with pytest.raises(TypeError, match="options are for a new run"):
        WandbLogger(types.SimpleNamespace(), project="loans")


def test_tensorboard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written: dict[str, list[Any]] = {"scalars": [], "folders": []}

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            written["folders"].append(folder)

        def add_scalar(self, name: str, value: float, step: int) -> None:
            written["scalars"].append((name, value, step))

        def flush(self) -> None: ...

        def close(self) -> None:
            written["folders"].append("closed")

    module = types.SimpleNamespace(SummaryWriter=SummaryWriter)
    monkeypatch.setitem(sys.modules, "tensorboardX", module)
    logger = TensorBoardLogger(tmp_path)
    logger(5, {"loss": 0.5, "hgr_train_z": 0.25})
    logger.close()
    assert written["scalars"] == [("loss", 0.5, 5), ("hgr_train_z", 0.25, 5)]
    assert written["folders"] == [str(tmp_path), "closed"]


def test_tensorboard_by_its_library(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own imports
        pytest.importorskip("tensorboardX", reason="the extra tensorboard is not installed")
    logger = TensorBoardLogger(tmp_path)
    trained(QUICK, steps=20, logger=logger)
    logger.close()
    (events,) = tmp_path.glob("events*")
    assert events.read_bytes().count(b"hgr_train_z") == 2


@pytest.mark.parametrize(
    ("module", "extra", "make"),
    [
        ("tensorboardX", "tensorboard", lambda: TensorBoardLogger("runs")),
        ("wandb", "wandb", WandbLogger),
    ],
)
def test_without_the_library(
    module: str, extra: str, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"pip install 'hgr_jax\[{extra}\]'"):
        make()
