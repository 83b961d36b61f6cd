"""Loggers: what a trainer calls at every evaluation, as for the pages of TensorBoard and W&B."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hgr_jax._optional import require
from hgr_jax.fairness.history import History

Logger = Callable[[int, Mapping[str, float]], Any]
"""``(step, figures by name)``."""


class TensorBoardLogger:
    """Writes the figures of a training for TensorBoard, by tensorboardX.

    To see them: ``tensorboard --logdir FOLDER``.

    Args:
      folder: for the files of events; a folder of its own for each training.

    Raises:
      ImportError: without tensorboardX, naming the command that installs it.

    Example: ``FairTrainer(network, penalties=penalty, logger=TensorBoardLogger("runs/first"))``
    """

    def __init__(self, folder: str | Path) -> None:
        self._writer = require("tensorboardX", "tensorboard").SummaryWriter(str(folder))

    def __call__(self, step: int, figures: Mapping[str, float]) -> None:
        """Write the figures of a step."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


class WandbLogger:
    """Sends the figures of a training to Weights & Biases.

    Args:
      run: of `wandb.init`; None to begin one.
      options: of `wandb.init` where one is begun, as ``project="..."``, ``mode="offline"``.

    Raises:
      ImportError: without wandb, naming the command that installs it.
      TypeError: for a run and options.

    Example: ``FairTrainer(network, penalties=penalty, logger=WandbLogger(project="loans"))``
    """

    def __init__(self, run: Any = None, **options: Any) -> None:
        wandb = require("wandb", "wandb")
        if run is not None and options:
            raise TypeError(f"options are for a new run, but run is given too; got {options}.")
        self._run = wandb.init(**options) if run is None else run

    def __call__(self, step: int, figures: Mapping[str, float]) -> None:
        """Send the figures of a step."""
        self._run.log(dict(figures), step=step)

    def close(self) -> None:
        """End the run."""
        self._run.finish()


def figures_of(history: History) -> dict[str, float]:
    """Return the last evaluation, and what the step before it had: loss, values, multipliers."""
    steps = {name: float(column[-1]) for name, column in history.steps.items()}
    found = steps | history.last
    del found["step"]
    return found


def logged(logger: Logger, history: History, step: int) -> Logger | None:
    """Call a logger; return it, or None if it failed, which is no reason to lose a training."""
    try:
        logger(step, figures_of(history))
    except Exception as error:
        warnings.warn(
            f"the logger failed at step {step} ({type(error).__name__}: {error}); the training"
            " goes on without it",
            RuntimeWarning,
            stacklevel=3,
        )
        return None
    return logger
