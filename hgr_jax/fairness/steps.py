"""Steps of constrained training: one compiled loop over batches, and the figures of a model."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import Array, lax
from numpy.typing import NDArray

from hgr_jax.core.rows import pad_rows, padded_length
from hgr_jax.fairness.dual import DualState, LagrangianDual
from hgr_jax.fairness.penalties import Penalty, PenaltyState
from hgr_jax.fairness.tasks import Task


@dataclasses.dataclass(frozen=True)
class Program:
    """The static part of a training: equal programs share their compiled code.

    ``groups`` counts the groups of y of each penalty; ``update`` is one half of the optimiser.
    Without a dual, multipliers stay.
    """

    training: nnx.GraphDef[Any]
    inference: nnx.GraphDef[Any]
    task: Task
    update: optax.TransformUpdateFn
    dual: LagrangianDual | None
    groups: tuple[int, ...]


class Rows(NamedTuple):
    """Inputs ``(n, p)``, targets, and of each penalty the protected attribute and the group.

    The group is y itself where polynomials of it are given.
    """

    x: Array
    y: Array
    z: tuple[Array, ...]
    group: tuple[Array | None, ...]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """All that a training carries from step to step.

    ``variables`` are those of the network that are not trained: random streams, statistics.
    """

    step: Array
    parameters: Any
    variables: Any
    optimizer_state: Any
    dual: DualState
    penalties: tuple[PenaltyState, ...]


class StepFigures(NamedTuple):
    """Of each step: the loss with its penalty, the task's loss, values and multipliers ``(m,)``."""

    loss: Array
    task_loss: Array
    values: Array
    multipliers: Array


class Figures(NamedTuple):
    """Of a model on some rows: loss, score and the HGR-KB of each penalty's values.

    ``held_out`` has what is penalised ``(m,)``, of rows that are not trained on.
    """

    loss: Array
    score: Array
    hgr: tuple[Array, ...]
    held_out: Array | None = None


def hgr_values(figures: Figures) -> NDArray[Any]:
    """Return HGR-KB of all penalties, one after the other."""
    return np.concatenate([np.zeros(0), *map(np.asarray, figures.hgr)])


@functools.partial(jax.jit, static_argnames=("program", "values"))
def first_state(
    program: Program,
    penalties: tuple[Penalty, ...],
    parameters: Any,
    variables: Any,
    optimizer_state: Any,
    rows: Rows,
    key: Array,
    values: int,
) -> TrainState:
    """Return the state before the first step.

    Args:
      program: static.
      penalties: as they suit the attributes.
      parameters, variables: of the network.
      optimizer_state: before the first step.
      rows: of the first batch, about; what penalties carry starts from the predictions there.
      key: of what penalties draw.
      values: static; how many penalised values there are.
    """
    prediction = predict(program, parameters, variables, rows.x)
    keys = jax.random.split(key, max(len(penalties), 1))
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        parameters=parameters,
        variables=variables,
        optimizer_state=optimizer_state,
        dual=(program.dual or LagrangianDual()).init(values, dtype=rows.x.dtype),
        penalties=tuple(
            penalty.init(z, prediction, key=key)
            for penalty, z, key in zip(penalties, rows.z, keys, strict=False)
        ),
    )


def run_steps(
    program: Program,
    penalties: tuple[Penalty, ...],
    state: TrainState,
    rows: Rows,
    batches: NDArray[np.int32] | None,
    steps: int,
    constraint: Rows | None = None,
) -> tuple[TrainState, StepFigures]:
    """Run some steps, in one loop that is compiled for few numbers of steps.

    Args:
      program: static.
      penalties: their thresholds are traced.
      state: where to go on from.
      rows: all rows, on the device; where batches are taken of them, `padded`.
      batches: indices ``(steps, batch)`` of the rows of each step; None for all rows.
      steps: how many.
      constraint: rows on which penalties are measured too, all in every step.
    """
    length = padded_length(steps)
    if batches is not None:
        batches = pad_rows(batches, length)
    state, figures = _run_steps(
        program, penalties, state, rows, batches, np.int32(steps), constraint, length=length
    )
    return state, jax.tree.map(lambda of_steps: np.asarray(of_steps)[:steps], figures)


def padded(rows: Rows) -> Rows:
    """Return rows to take batches of, in arrays of few lengths, for which steps are compiled.

    (A loss over all rows is a caller's function, which cannot be told that some do not count.)
    """
    return jax.tree.map(lambda leaf: pad_rows(leaf, padded_length(len(leaf))), rows)


@functools.partial(jax.jit, static_argnames=("program", "length"))
def _run_steps(
    program: Program,
    penalties: tuple[Penalty, ...],
    state: TrainState,
    rows: Rows,
    batches: Array | None,
    steps: Array,
    constraint: Rows | None,
    *,
    length: int,
) -> tuple[TrainState, StepFigures]:
    """Run the first ``steps`` of at most ``length``; figures of the others are 0."""

    def step(state: TrainState, i: Array | int) -> tuple[TrainState, StepFigures]:
        if batches is None:
            return one_step(program, penalties, state, rows, constraint)
        part = jax.tree.map(lambda leaf: leaf[batches[i]], rows)
        return one_step(program, penalties, state, part, constraint)

    def advance(i: Array, carried: tuple[TrainState, StepFigures]) -> Any:
        state, figures = carried
        state, now = step(state, i)
        return state, jax.tree.map(lambda every, one: every.at[i].set(one), figures, now)

    one = jax.eval_shape(lambda: step(state, 0)[1])
    empty = jax.tree.map(lambda x: jnp.zeros((length, *x.shape), x.dtype), one)
    return lax.fori_loop(0, steps, advance, (state, empty))


def one_step(
    program: Program,
    penalties: tuple[Penalty, ...],
    state: TrainState,
    rows: Rows,
    constraint: Rows | None = None,
) -> tuple[TrainState, StepFigures]:
    """Take a step of descent of the parameters and of ascent of the multipliers."""
    gradient, (loss, task_loss, values, violations, variables, states) = jax.grad(
        functools.partial(objective, program, penalties, state, rows, constraint), has_aux=True
    )(state.parameters)
    with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer
        updates, optimizer_state = program.update(gradient, state.optimizer_state, state.parameters)
    dual = state.dual
    if values.shape[0] and program.dual is not None:
        dual = program.dual.update(violations, dual)
    following = TrainState(
        step=state.step + 1,
        parameters=optax.apply_updates(state.parameters, updates),
        variables=variables,
        optimizer_state=optimizer_state,
        dual=dual,
        penalties=states,
    )
    return following, StepFigures(loss, task_loss, values, state.dual.multipliers)


def objective(
    program: Program,
    penalties: tuple[Penalty, ...],
    state: TrainState,
    rows: Rows,
    constraint: Rows | None,
    parameters: Any,
) -> tuple[Array, Any]:
    """Return the task's loss plus multipliers times violations, and what else a step needs."""
    elsewhere = None
    if constraint is not None:
        elsewhere = lax.stop_gradient(predict(program, parameters, state.variables, constraint.x))
    output, variables = forward(program.training, parameters, state.variables, rows.x)
    task_loss = program.task.loss(output, rows.y)
    prediction = program.task.prediction(output)
    values, excesses, violations, states = [], [], [], []
    for place, (penalty, kept, z, group, groups) in enumerate(
        zip(penalties, state.penalties, rows.z, rows.group, program.groups, strict=True)
    ):
        following = kept
        if penalty.statistic is not None:
            measured, following = penalty.values(kept, z, prediction, group, groups)
            if constraint is not None and elsewhere is not None:
                there, _ = penalty.values(kept, constraint.z[place], elsewhere)
                # The level of the rows where it is higher, the gradient of those trained on: rows
                # that the network is fitted to in any way would no longer stand for new ones.
                measured += lax.stop_gradient(jnp.maximum(there - measured, 0))
            values.append(measured)
            excesses.append(penalty.excess(measured))
            violations.append(measured - jnp.asarray(penalty.threshold, measured.dtype))
        states.append(following)
    if not values:
        none = jnp.zeros(0, task_loss.dtype)
        return task_loss, (task_loss, task_loss, none, none, variables, tuple(states))
    penalised = jnp.sum(state.dual.multipliers * jnp.concatenate(excesses))
    loss = task_loss + penalised
    figures = (jnp.concatenate(values), jnp.concatenate(violations))
    return loss, (loss, task_loss, *figures, variables, tuple(states))


def forward(
    graph: nnx.GraphDef[Any], parameters: Any, variables: Any, x: Array
) -> tuple[Array, Any]:
    """Return the output of the network, ``(n,)`` or ``(n, columns)``, and its variables then."""
    network = nnx.merge(graph, parameters, variables, copy=True)
    output = network(x)
    if output.ndim == 2 and output.shape[1] == 1:
        output = output[:, 0]
    _, _, after = split_network(network)
    return output, after


def in_mode(network: Any, *, training: bool) -> tuple[Any, Any, Any]:
    """Return `split_network` of a copy of a network in one of its two modes."""
    network = nnx.clone(network)
    if training:
        network.train()
    else:
        network.eval()
    return split_network(network)


def split_network(network: Any) -> tuple[Any, Any, Any]:
    """Return the static part, parameters and other variables of a network."""
    parts: Any = nnx.split(network, nnx.Param, ...)
    graph, parameters, variables = parts
    return graph, parameters, variables


@functools.partial(jax.jit, static_argnames="program")
def predict(program: Program, parameters: Any, variables: Any, x: Array) -> Array:
    """Return predictions of the network in inference mode."""
    output, _ = forward(program.inference, parameters, variables, x)
    return program.task.prediction(output)


@functools.partial(jax.jit, static_argnames="program")
def evaluate(
    program: Program,
    penalties: tuple[Penalty, ...],
    parameters: Any,
    variables: Any,
    rows: Rows,
    kept: tuple[PenaltyState, ...] | None = None,
) -> Figures:
    """Return the figures of a model on all rows, in inference mode.

    Args:
      program: static.
      penalties: as in the steps.
      parameters, variables: of the network.
      rows: all of them.
      kept: what the penalties carry, for rows that are not trained on.
    """
    output, _ = forward(program.inference, parameters, variables, rows.x)
    prediction = program.task.prediction(output)
    seen = list(zip(penalties, rows.z, rows.group, program.groups, strict=True))
    hgr = tuple(penalty.hgr(z, prediction, group, groups) for penalty, z, group, groups in seen)
    held_out = None
    if kept is not None:
        held_out = jnp.concatenate(
            [
                jnp.zeros(0, prediction.dtype),
                *(
                    penalty.held_out(state, z, prediction, group, groups, hgr=known)
                    for (penalty, z, group, groups), state, known in zip(
                        seen, kept, hgr, strict=True
                    )
                    if penalty.statistic is not None
                ),
            ]
        )
    return Figures(
        loss=program.task.loss(output, rows.y),
        score=program.task.score(prediction, rows.y),
        hgr=hgr,
        held_out=held_out,
    )


def evaluation_steps(done: int, steps: int, every: int) -> list[int]:
    """Return after how many steps in all a training is evaluated: every so many, and at its end."""
    ends = [*range((done // every + 1) * every, steps, every), steps]
    return [end for end in ends if end > done]


def batch_rows(seed: int, rows: int, size: int, done: int, steps: int) -> NDArray[np.int32]:
    """Return the rows of the batches of some steps, ``(steps, size)``: new orders in every epoch.

    Args:
      seed: of the orders.
      rows: how many there are.
      size: of a batch, at most ``rows``.
      done: steps before these.
      steps: how many.
    """
    each = rows // size
    first, last = done // each, (done + steps - 1) // each
    orders = [
        np.random.default_rng([seed, epoch]).permutation(rows)[: each * size].reshape(each, size)
        for epoch in range(first, last + 1)
    ]
    start = done - first * each
    return np.concatenate(orders)[start : start + steps].astype(np.int32)


def check_output(task: Task, prediction: jax.ShapeDtypeStruct, part: Array, y: Array) -> None:
    """Raise a ValueError if a network's predictions, of some labels, do not suit them all."""
    if prediction.shape[:1] != part.shape[:1] or prediction.ndim > 2:
        raise ValueError(
            "the network must return one row for each row of x; it returns predictions of"
            f" shape {prediction.shape} for {part.shape[0]} rows."
        )
    if task.check is not None:
        task.check(np.asarray(y), (y.shape[0], *prediction.shape[1:]))


class TrainingError(FloatingPointError):
    """A training that diverged; a trainer keeps its last good state."""


def check_finite(figures: StepFigures, afterwards: Figures, done: int) -> None:
    """Raise a TrainingError if a loss of these steps, or of the network after them, is not finite.

    Args:
      figures: of the steps.
      afterwards: of the network on the training rows.
      done: steps before these.
    """
    losses = np.append(np.asarray(figures.loss), np.asarray(afterwards.loss))
    finite = np.isfinite(losses)
    if not finite.all():
        step = done + min(int(np.argmin(finite)) + 1, len(figures.loss))
        raise TrainingError(
            f"the training diverged: the loss is no longer finite at step {step}; weights and"
            f" history are those of step {done}. A smaller learning rate usually helps."
        )
