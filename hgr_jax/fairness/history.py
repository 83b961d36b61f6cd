"""The history of a training: figures of every step and of every evaluation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jax import Array
from numpy.typing import NDArray

Column = NDArray[Any]

KEPT_WITHIN = 0.01
"""By how much a value may exceed its threshold where the last steps go to and fro around it."""


class StepFigures(NamedTuple):
    """Figures of steps: loss with its penalty, the task's loss, values and multipliers ``(m,)``."""

    loss: Array
    task_loss: Array
    values: Array
    multipliers: Array


@dataclasses.dataclass(frozen=True)
class History:
    """Columns of numbers over a training.

    Attributes:
      steps: for every step: ``step`` (from 1), ``loss`` with the penalty, ``task_loss``, and for
        each penalised value NAME ``value_NAME``, on the batch, and ``multiplier_NAME``.
      evaluations: for every evaluation of the model on all training rows: ``step``, ``loss_train``
        (the task's) and, for each value, ``dependence_train_NAME``: what is constrained.
      thresholds: of each value by name, None for a value that is not penalised.
      measures: the name of the measure of each value, such as "HGR-KB(5, 5)".
    """

    steps: Mapping[str, Column]
    evaluations: Mapping[str, Column]
    thresholds: Mapping[str, float | None]
    measures: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def with_steps(self, figures: StepFigures, loss: float, values: Column, step: int) -> History:
        """Return a history with further steps, and an evaluation after them."""
        steps: dict[str, Column] = {
            "step": np.arange(step - len(figures.loss), step) + 1,
            "loss": np.asarray(figures.loss),
            "task_loss": np.asarray(figures.task_loss),
        }
        for i, name in enumerate(self.penalised):
            steps[f"value_{name}"] = np.asarray(figures.values)[:, i]
            steps[f"multiplier_{name}"] = np.asarray(figures.multipliers)[:, i]
        evaluation: dict[str, Any] = {"step": step, "loss_train": loss}
        for name, value in zip(self.thresholds, values, strict=True):
            evaluation[f"dependence_train_{name}"] = value
        return dataclasses.replace(
            self,
            steps=_append_rows(self.steps, steps),
            evaluations=_append_rows(self.evaluations, evaluation),
        )

    @property
    def penalised(self) -> tuple[str, ...]:
        """Names of the values with a threshold."""
        return tuple(name for name, limit in self.thresholds.items() if limit is not None)

    def kept_by(self, values: Any) -> dict[str, bool]:
        """Return whether each penalised one of the values ``(m,)`` is at most its threshold."""
        return {
            name: bool(value <= limit + KEPT_WITHIN)
            for (name, limit), value in zip(self.thresholds.items(), values, strict=True)
            if limit is not None
        }

    @property
    def kept(self) -> dict[str, bool]:
        """Whether each penalised value is at most its threshold, on all training rows at last."""
        last = self.last
        return self.kept_by([last.get(f"dependence_train_{n}", np.nan) for n in self.thresholds])

    @property
    def last(self) -> dict[str, float]:
        """The last evaluation."""
        return {name: float(column[-1]) for name, column in self.evaluations.items()}

    def __repr__(self) -> str:
        if not self.evaluations:
            return "History(no steps yet)"
        shown = ", ".join(f"{name} {value:.4g}" for name, value in self.last.items())
        return f"History({shown})"


def _append_rows(before: Mapping[str, Column], after: Mapping[str, Any]) -> dict[str, Column]:
    return {
        name: np.append(before[name], column) if before else np.atleast_1d(column)
        for name, column in after.items()
    }
