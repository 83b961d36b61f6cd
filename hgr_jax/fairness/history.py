"""What a training was like: figures of every step, and of the model every so many steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._optional import require
from hgr_jax.fairness.steps import Figures, StepFigures, hgr_values

Column = NDArray[Any]


@dataclasses.dataclass(frozen=True)
class History:
    """Columns of numbers over a training; it grows by making a longer one.

    Attributes:
      steps: of every step: ``step`` (from 1), ``loss`` with the penalty, ``task_loss``, and for
        each penalised value NAME its measure on the batch, ``value_NAME``, and its
        ``multiplier_NAME``.
      evaluations: of the model after some steps, on all training rows: ``step``, ``loss_train``
        (the task's), ``score_train``, ``hgr_train_NAME`` (HGR-KB); the same with ``validation``
        where there are such rows.
      thresholds: of each value by name, None where it is only watched.
    """

    steps: Mapping[str, Column]
    evaluations: Mapping[str, Column]
    thresholds: Mapping[str, float | None]

    def extended(self, steps: Mapping[str, Column], evaluation: Mapping[str, Column]) -> History:
        """This history and what came after it."""
        return dataclasses.replace(
            self,
            steps=_joined(self.steps, steps),
            evaluations=_joined(self.evaluations, evaluation),
        )

    def limits(self, names: Sequence[str]) -> NDArray[Any]:
        """Return the thresholds of some values, infinite where one is only watched."""
        limits = [self.thresholds[name] for name in names]
        return np.array([np.inf if limit is None else limit for limit in limits])

    @property
    def last(self) -> dict[str, float]:
        """The last evaluation."""
        return {name: float(column[-1]) for name, column in self.evaluations.items()}

    def to_frame(self, which: str = "evaluations") -> Any:
        """A pandas data frame of ``"evaluations"`` or of ``"steps"``, with the step as index.

        Raises:
          ImportError: without pandas, naming the command that installs it.
          ValueError: for another word.
        """
        if which not in ("evaluations", "steps"):
            raise ValueError(f"which must be 'evaluations' or 'steps'; got {which!r}.")
        columns = self.evaluations if which == "evaluations" else self.steps
        frame = require("pandas", "fairness").DataFrame(dict(columns))
        return frame.set_index("step")

    def __repr__(self) -> str:
        if not self.evaluations:
            return "History(no steps yet)"
        shown = ", ".join(f"{name} {value:.4g}" for name, value in self.last.items())
        return f"History({shown})"


def step_columns(figures: StepFigures, names: Sequence[str], done: int) -> dict[str, Column]:
    """The columns of some steps.

    Args:
      figures: of each step.
      names: of the penalised values.
      done: steps before these.
    """
    values, multipliers = np.asarray(figures.values), np.asarray(figures.multipliers)
    columns: dict[str, Column] = {
        "step": np.arange(done, done + len(figures.loss)) + 1,
        "loss": np.asarray(figures.loss),
        "task_loss": np.asarray(figures.task_loss),
    }
    for i, name in enumerate(names):
        columns[f"value_{name}"] = values[:, i]
        columns[f"multiplier_{name}"] = multipliers[:, i]
    return columns


def evaluation_columns(
    measured: Mapping[str, Figures], names: Sequence[str], step: int
) -> dict[str, Column]:
    """The columns of one evaluation.

    Args:
      measured: figures of "train" and perhaps "validation" rows.
      names: of the watched values.
      step: after which it was made.
    """
    columns: dict[str, Column] = {"step": np.array([step])}
    for part, figures in measured.items():
        columns[f"loss_{part}"] = np.asarray(figures.loss)[None]
        columns[f"score_{part}"] = np.asarray(figures.score)[None]
        for name, value in zip(names, hgr_values(figures), strict=True):
            columns[f"hgr_{part}_{name}"] = np.array([value])
    return columns


def _joined(before: Mapping[str, Column], after: Mapping[str, Column]) -> dict[str, Column]:
    """One after the other; NaN where one of them has no such column."""
    lengths = [len(next(iter(columns.values()), ())) for columns in (before, after)]
    return {
        name: np.concatenate(
            [
                columns.get(name, np.full(length, np.nan))
                for columns, length in zip((before, after), lengths, strict=True)
                if length
            ]
        )
        for name in {**before, **after}
    }
