"""The start of a training: its program, its first state, and a history without steps."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from hgr_jax.core.rows import first_rows
from hgr_jax.fairness.attributes import Attribute, check_sizes
from hgr_jax.fairness.dual import LagrangianDual
from hgr_jax.fairness.history import History
from hgr_jax.fairness.penalties import Penalty
from hgr_jax.fairness.steps import (
    Program,
    Rows,
    TrainState,
    check_output,
    first_state,
    in_mode,
    predict,
)
from hgr_jax.fairness.tasks import Task


@dataclasses.dataclass(frozen=True)
class TrainingPlan:
    """What a training is made of, but for its rows.

    ``weight`` is that of all penalties, constant; None where the dual moves multipliers.
    """

    network: Any
    task: Task
    optimizer: optax.GradientTransformation
    dual: LagrangianDual
    weight: float | None
    batch_size: int | None
    seed: int


def start_training(
    plan: TrainingPlan, penalties: Sequence[Penalty], attributes: Sequence[Attribute], rows: Rows
) -> tuple[Program, TrainState, History]:
    """Return the compiled part of a training, its state before the first step, and its history.

    Args:
      plan: settings.
      penalties: as they suit the attributes.
      attributes: learned on these rows.
      rows: to train on.

    Raises:
      ValueError: for batches that are too small for the penalties, and predictions of a network
        that do not suit the targets.
    """
    size = batch_of(plan.batch_size, rows)
    check_sizes(penalties, attributes, rows, size)
    graph, parameters, variables = in_mode(plan.network, training=True)
    program = Program(
        training=graph,
        inference=in_mode(plan.network, training=False)[0],
        task=plan.task,
        update=plan.optimizer.update,
        dual=plan.dual if plan.weight is None else None,
        groups=tuple(attribute.groups for attribute in attributes),
    )
    part = rows if size is None else jax.tree.map(lambda leaf: first_rows(leaf, size), rows)
    prediction = jax.eval_shape(functools.partial(predict, program), parameters, variables, part.x)
    check_output(plan.task, prediction, part.y, rows.y)
    count = 1 if prediction.ndim == 1 else prediction.shape[1]
    thresholds = {
        name: None if penalty.statistic is None else float(np.asarray(penalty.threshold))
        for penalty, attribute in zip(penalties, attributes, strict=True)
        for name in attribute.value_names(count)
    }
    history = History({}, {}, thresholds)
    key, values = jax.random.key(plan.seed), len(history.penalised)
    network = parameters, variables, plan.optimizer.init(parameters)
    state = first_state(program, tuple(penalties), *network, part, key, values=values)
    if plan.weight is not None:  # in the state: other weights have the same program
        multipliers = jnp.full_like(state.dual.multipliers, plan.weight)
        state = dataclasses.replace(
            state, dual=dataclasses.replace(state.dual, multipliers=multipliers)
        )
    return program, state, history


def batch_of(batch_size: int | None, rows: Rows) -> int | None:
    """Return how many rows a step has, None for all."""
    return None if batch_size is None or batch_size >= rows.x.shape[0] else batch_size
