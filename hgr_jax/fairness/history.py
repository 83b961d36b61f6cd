"""The history of a training: figures of every step and evaluation, and the best model."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from hgr_jax._optional import require

Column = NDArray[Any]

Logger = Callable[[int, Mapping[str, float]], Any]
"""``(step, figures by name)``."""


class StepFigures(NamedTuple):
    """Figures of steps: loss with its penalty, the task's loss, values and multipliers ``(m,)``."""

    loss: Array
    task_loss: Array
    values: Array
    multipliers: Array


class Figures(NamedTuple):
    """Figures of a model: loss, score, and HGR-KB of each penalty's values; on rows that are not
    trained on also the penalised statistics, ``held_out (m,)``.
    """

    loss: Array
    score: Array
    hgr: tuple[Array, ...]
    held_out: Array | None = None


@dataclasses.dataclass(frozen=True)
class History:
    """Columns of numbers over a training.

    Attributes:
      steps: for every step: ``step`` (from 1), ``loss`` with the penalty, ``task_loss``, and for
        each penalised value NAME ``value_NAME``, on the batch, and ``multiplier_NAME``.
      evaluations: for every evaluation of the model, on all training rows: ``step``, ``loss_train``
        (the task's), ``score_train``, ``hgr_train_NAME`` (HGR-KB); the same with ``validation`` for
        validation rows, and ``held_out_NAME``, by which early stopping ranks: the penalised
        statistic on these, with less of its upward bias where `corrected` applies.
      thresholds: of each value by name, None for a value that is not penalised.
    """

    steps: Mapping[str, Column]
    evaluations: Mapping[str, Column]
    thresholds: Mapping[str, float | None]

    def with_steps(
        self, figures: StepFigures, measured: Mapping[str, Figures], step: int
    ) -> History:
        """Return a history with further steps, and evaluations of the model after them."""
        steps: dict[str, Column] = {
            "step": np.arange(step - len(figures.loss), step) + 1,
            "loss": np.asarray(figures.loss),
            "task_loss": np.asarray(figures.task_loss),
        }
        values, multipliers = np.asarray(figures.values), np.asarray(figures.multipliers)
        for i, name in enumerate(self.penalised):
            steps[f"value_{name}"] = values[:, i]
            steps[f"multiplier_{name}"] = multipliers[:, i]
        evaluation: dict[str, Column] = {"step": np.array([step])}
        for part, of_part in measured.items():
            evaluation[f"loss_{part}"] = np.asarray(of_part.loss)[None]
            evaluation[f"score_{part}"] = np.asarray(of_part.score)[None]
            hgr = np.concatenate([np.zeros(0), *map(np.asarray, of_part.hgr)])
            for name, value in zip(self.thresholds, hgr, strict=True):
                evaluation[f"hgr_{part}_{name}"] = np.array([value])
            if of_part.held_out is not None:
                for name, value in zip(self.penalised, np.asarray(of_part.held_out), strict=True):
                    evaluation[f"held_out_{name}"] = np.array([value])
        return dataclasses.replace(
            self,
            steps=_append_rows(self.steps, steps),
            evaluations=_append_rows(self.evaluations, evaluation),
        )

    @property
    def penalised(self) -> tuple[str, ...]:
        """Names of the values with a threshold."""
        return tuple(name for name, limit in self.thresholds.items() if limit is not None)

    @property
    def limits(self) -> NDArray[Any]:
        """The threshold of each value that has one."""
        limits = self.thresholds.values()
        return np.array([limit for limit in limits if limit is not None], np.float64)

    @property
    def last(self) -> dict[str, float]:
        """The last evaluation."""
        return {name: float(column[-1]) for name, column in self.evaluations.items()}

    def log(self, logger: Logger, step: int) -> Logger | None:
        """Pass the last step and evaluation to a logger; return it, or None if it failed."""
        figures = {name: float(column[-1]) for name, column in self.steps.items()} | self.last
        del figures["step"]
        try:
            logger(step, figures)
        except Exception as error:
            warnings.warn(
                f"the logger failed at step {step} ({type(error).__name__}: {error}); the training"
                " goes on without it",
                RuntimeWarning,
                stacklevel=3,
            )
            return None
        return logger

    def to_frame(self, which: str = "evaluations") -> Any:
        """Return a pandas data frame of ``"evaluations"`` or ``"steps"``, with the step as index.

        Raises:
          ImportError: without pandas, naming the command that installs it.
          ValueError: for another word.
        """
        if which not in ("evaluations", "steps"):
            raise ValueError(f"which must be 'evaluations' or 'steps'; got {which!r}.")
        columns = self.evaluations if which == "evaluations" else self.steps
        frame = require("pandas").DataFrame(dict(columns))
        return frame.set_index("step")

    def __repr__(self) -> str:
        if not self.evaluations:
            return "History(no steps yet)"
        shown = ", ".join(f"{name} {value:.4g}" for name, value in self.last.items())
        return f"History({shown})"


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Best:
    """The network of the best evaluation so far, and the number of evaluations since.

    ``rank`` is (minus the largest excess over a threshold, score), compared in this order.
    """

    parameters: Any
    variables: Any
    rank: tuple[float, float] = dataclasses.field(metadata={"static": True})
    waited: int = dataclasses.field(metadata={"static": True})


def better_of(
    best: Best | None, parameters: Any, variables: Any, figures: Figures, limits: NDArray[Any]
) -> Best:
    """Return the best network so far, given a new one and its figures of validation rows."""
    assert figures.held_out is not None
    excess = float(np.max(np.asarray(figures.held_out) - limits, initial=0.0))
    rank = (
        -np.inf if np.isnan(excess) else -excess,
        float(np.nan_to_num(figures.score, nan=-np.inf)),
    )
    if best is None or rank > best.rank:
        return Best(parameters, variables, rank, 0)
    return dataclasses.replace(best, waited=best.waited + 1)


def _append_rows(before: Mapping[str, Column], after: Mapping[str, Column]) -> dict[str, Column]:
    """Join the columns of two tables, NaN where one of them lacks a column."""
    tables = [
        (columns, np.full(len(next(iter(columns.values()))), np.nan))
        for columns in (before, after)
        if columns
    ]
    return {
        name: np.concatenate([columns.get(name, missing) for columns, missing in tables])
        for name in {**before, **after}
    }
