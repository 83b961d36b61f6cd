"""Train a Flax network under constraints: one compiled loop of steps, and the trainer around it."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import Array, lax
from numpy.typing import ArrayLike, NDArray

from hgr_jax._checks import check_count
from hgr_jax.core.rows import first_rows, pad_rows, padded_length
from hgr_jax.fairness.data import Encoding, Protected, Rows, TrainingData, make_rows, numbers
from hgr_jax.fairness.history import KEPT_WITHIN, History, StepFigures
from hgr_jax.fairness.networks import Task, as_task
from hgr_jax.fairness.penalties import (
    DualState,
    LagrangianDual,
    Penalty,
    as_penalties,
    check_distinct_penalties,
    excess,
)

SHUFFLES = 10
"""Number of random orders of an attribute, whose mean value is what chance gives."""

LAST_STEPS = 100
"""Number of steps at the end of a training whose batches show what it was held to."""


@dataclasses.dataclass(frozen=True)
class Program:
    """The static part of a training: equal programs share their compiled code."""

    training: nnx.GraphDef[Any]
    inference: nnx.GraphDef[Any]
    task: Task
    update: optax.TransformUpdateFn
    dual: LagrangianDual
    groups: tuple[int, ...]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """The state of a training; ``variables`` of the network (random streams) are not trained."""

    step: Array
    parameters: Any
    variables: Any
    optimizer_state: Any
    dual: DualState
    penalties: tuple[Any, ...]


class TrainingError(FloatingPointError):
    """A training that diverged; a trainer keeps its last finite state."""


@functools.partial(jax.jit, static_argnames=("program", "multipliers"))
def first_state(
    program: Program,
    penalties: tuple[Penalty, ...],
    network: tuple[Any, Any],
    optimizer_state: Any,
    multipliers: int,
    rows: Rows,
    key: Array,
) -> TrainState:
    """Return the state before the first step; penalties start from predictions at ``rows``."""
    parameters, variables = network
    prediction = predict(program, parameters, variables, rows.x)
    keys = jax.random.split(key, max(len(penalties), 1))
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        parameters=parameters,
        variables=variables,
        optimizer_state=optimizer_state,
        dual=program.dual.init(multipliers, dtype=prediction.dtype),
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
    """Run steps in one loop; ``batches (steps, batch)`` are indices of rows, None for all."""
    length = padded_length(steps)
    if batches is not None:
        batches = pad_rows(batches, length)
    state, figures = _run_steps(
        program, penalties, state, rows, batches, np.int32(steps), constraint, length=length
    )
    return state, jax.tree.map(lambda of_steps: np.asarray(of_steps)[:steps], figures)


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
        return state, jax.tree.map(lambda column, value: column.at[i].set(value), figures, now)

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
    gradient, (figures, violations, variables, states) = jax.grad(
        functools.partial(objective, program, penalties, state, rows, constraint), has_aux=True
    )(state.parameters)
    with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer
        updates, optimizer_state = program.update(gradient, state.optimizer_state, state.parameters)
    following = TrainState(
        step=state.step + 1,
        parameters=optax.apply_updates(state.parameters, updates),
        variables=variables,
        optimizer_state=optimizer_state,
        dual=program.dual.update(violations, state.dual),
        penalties=states,
    )
    return following, figures


def objective(
    program: Program,
    penalties: tuple[Penalty, ...],
    state: TrainState,
    rows: Rows,
    constraint: Rows | None,
    parameters: Any,
) -> tuple[Array, tuple[StepFigures, Array, Any, tuple[Any, ...]]]:
    """Return the task's loss plus multipliers times excesses; then figures, violations ``(m,)``,
    variables of the network, and states of the penalties after the step.
    """
    output, variables = forward(program.training, parameters, state.variables, rows.x)
    task_loss = loss_of(program, output, rows)
    found = dependences(program, penalties, state.penalties, rows, program.task.prediction(output))
    if constraint is not None:
        prediction = lax.stop_gradient(predict(program, parameters, state.variables, constraint.x))
        others = dependences(program, penalties, state.penalties, constraint, prediction)
        # The larger value, with the gradient of the training rows: a gradient of constraint rows
        # would fit the network to them, and they would no longer represent new rows.
        found = [
            (values + lax.stop_gradient(jnp.maximum(there - values, 0)), after)
            for (values, after), (there, _) in zip(found, others, strict=True)
        ]
    none = jnp.zeros(0, task_loss.dtype)
    values, excesses, violations, states = [none], [none], [none], []
    for penalty, before, (measured, after) in zip(penalties, state.penalties, found, strict=True):
        states.append(before if penalty.threshold is None else after)
        if penalty.threshold is not None:
            values.append(measured)
            excesses.append(excess(measured, penalty.threshold))
            violations.append(measured - jnp.asarray(penalty.threshold, measured.dtype))
    multipliers = state.dual.multipliers
    loss = task_loss + jnp.sum(multipliers * jnp.concatenate(excesses))
    figures = StepFigures(loss, task_loss, jnp.concatenate(values), multipliers)
    return loss, (figures, jnp.concatenate(violations), variables, tuple(states))


def dependences(
    program: Program, penalties: tuple[Penalty, ...], states: Any, rows: Rows, prediction: Array
) -> list[tuple[Array, Any]]:
    """Return the values of each penalty on a prediction, and its next state."""
    return [
        penalty.values(state, z, prediction, group, groups, rows.weights)
        for penalty, state, z, group, groups in zip(
            penalties, states, rows.z, rows.group, program.groups, strict=True
        )
    ]


def loss_of(program: Program, output: Array, rows: Rows) -> Array:
    """Return the task's loss, with observation weights if there are any."""
    weighted = {} if rows.weights is None else {"weights": rows.weights}
    return program.task.loss(output, rows.y, **weighted)


def forward(
    graph: nnx.GraphDef[Any], parameters: Any, variables: Any, x: Array
) -> tuple[Array, Any]:
    """Return the output of the network, ``(n,)`` or ``(n, columns)``, and its updated variables."""
    network = nnx.merge(graph, parameters, variables, copy=True)
    output = network(x)
    if output.ndim == 2 and output.shape[1] == 1:
        output = output[:, 0]
    return output, nnx.split(network, nnx.Param, ...)[-1]


def in_mode(network: Any, *, training: bool) -> Any:
    """Return the static part, parameters and other variables of a network in a mode."""
    network = nnx.clone(network)
    network.train() if training else network.eval()
    return nnx.split(network, nnx.Param, ...)


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
    states: tuple[Any, ...],
    rows: Rows,
) -> tuple[Array, Array]:
    """Return loss and dependences ``(m,)`` of a model in inference mode, of all penalties."""
    output, _ = forward(program.inference, parameters, variables, rows.x)
    found = dependences(program, penalties, states, rows, program.task.prediction(output))
    joined = jnp.concatenate([jnp.zeros(0, output.dtype), *(values for values, _ in found)])
    return loss_of(program, output, rows), joined


def batch_rows(seed: int, rows: int, size: int, done: int, steps: int) -> NDArray[np.int32]:
    """Return indices ``(steps, size)`` of the rows of the batches after ``done`` steps."""
    count = rows // size  # batches of an epoch
    first, last = done // count, (done + steps - 1) // count
    orders = [
        np.random.default_rng([seed, epoch]).permutation(rows)[: count * size].reshape(count, size)
        for epoch in range(first, last + 1)
    ]
    start = done - first * count
    return np.concatenate(orders)[start : start + steps].astype(np.int32)


_DESCENT = optax.adam(1e-3)
_DUAL = LagrangianDual()


class FairTrainer:
    """A trainer of any Flax network that keeps dependences below thresholds.

        minimise over theta, maximise over lambda >= 0:
            loss(output, y) + sum of lambda_i * max(0, statistic_i(z, prediction) - threshold_i)

    The same seed gives the same weights, bit for bit, on the same machine.

    Args:
      network: an `flax.nnx.Module`, ``(n, p) -> (n,)`` or ``(n, columns)``.  It is not changed; the
        trained network is `network`.  Dropout and batch statistics work as in Flax.
      penalties: a `Penalty`, or several, each with its own multipliers; or none.
      task: ``"squared_error"``, ``"log_loss"`` (of logits), a loss ``(output, y) -> scalar``, or
        a `Task`.
      optimizer: any optax optimiser for the network; by default Adam of 1e-3.  Trainers of the same
        shapes and the same optimiser object share their compiled programs.
      dual: ascent of the multipliers.
      batch_size: rows of a step, drawn without replacement in every epoch (rows that do not
        fill a batch wait for the next epoch); None, or as many as there are rows, for all.
      seed: for the order of the rows and for "neural"; the network has random streams of its own.

    Source: Giuliani & Lombardi, "Robust Non-Linear Correlations via Polynomial Regression";
    Fioretto et al., "Lagrangian duality for constrained deep learning" (2021).

    Example:
      >>> import numpy as np
      >>> from flax import nnx
      >>> from hgr_jax.fairness import MLP, FairTrainer, Penalty
      >>> rng = np.random.default_rng(0)
      >>> x = rng.normal(size=(200, 3)); z = x[:, 0]; y = 0.1 * z + x[:, 1]
      >>> trainer = FairTrainer(MLP(3, rngs=nnx.Rngs(0)), penalties=Penalty("kb", threshold=0.5))
      >>> history = trainer.fit(x, y, z, steps=20)
      >>> trainer.predict(x).shape, len(history.steps["loss"]), history.kept
      ((200,), 20, {'z': True})
    """

    def __init__(
        self,
        network: nnx.Module,
        *,
        penalties: Penalty | Sequence[Penalty] = (),
        task: Task | str | Callable[[Array, Array], Array] = "squared_error",
        optimizer: optax.GradientTransformation = _DESCENT,
        dual: LagrangianDual = _DUAL,
        batch_size: int | None = None,
        seed: int = 0,
    ) -> None:
        if not isinstance(network, nnx.Module):
            raise TypeError(f"network must be a flax.nnx.Module; got {type(network).__name__}.")
        if batch_size is not None:
            check_count("batch_size", batch_size, least=2)
        self.task: Task = as_task(task)
        self.penalties = check_distinct_penalties(as_penalties(penalties))
        self.batch_size = batch_size
        self.seed = check_count("seed", seed, least=0)
        self.optimizer = optimizer
        self.dual = dual
        self.history = History({}, {}, {})
        self.state: TrainState | None = None
        self.encoders: tuple[Encoding, ...] = ()
        self.limits: tuple[float, float] | None = None
        self._initial = nnx.clone(network)
        leaves = jax.tree.leaves(in_mode(network, training=True)[1])
        self._dtype = leaves[0].dtype if leaves else jnp.result_type(float)
        self._program: Program | None = None

    @property
    def network(self) -> Any:
        """The network in inference mode."""
        graph, *arrays = in_mode(self._initial, training=False)
        if self.state is not None:
            arrays = [self.state.parameters, self.state.variables]
        return nnx.merge(graph, *arrays, copy=True)

    def predict(self, x: ArrayLike) -> Array:
        """Return predictions ``(n,)`` or ``(n, columns)`` at inputs ``x (n, p)``.

        They are clipped to ``limits``, where a guarantee has set them.

        Raises:
          ValueError: before training.
        """
        if self.state is None or self._program is None:
            raise ValueError("there is nothing to predict with yet: call fit first.")
        x = numbers("x", x, self._dtype)
        filled = pad_rows(x, padded_length(len(x)))  # so that few numbers of rows are compiled
        prediction = predict(self._program, self.state.parameters, self.state.variables, filled)
        prediction = prediction if self.limits is None else jnp.clip(prediction, *self.limits)
        return first_rows(prediction, len(x))

    def fit(
        self,
        x: ArrayLike,
        y: ArrayLike,
        protected: Protected = None,
        *,
        sample_weight: ArrayLike | None = None,
        steps: int = 500,
        evaluate_every: int = 25,
    ) -> History:
        """Train until the total number of steps is ``steps``; a further call continues.

        A warning tells of a network that ends above a threshold on the training rows, why, and what
        helps.

        Args:
          x: inputs ``(n, p)``, numbers.
          y: targets ``(n,)`` or ``(n, columns)``; for "log_loss" 0 and 1, or labels from 0.
          protected: the attribute of all penalties: numbers ``(n,)``, which penalties see scaled to
            [-1, 1]; text, or one-hot columns ``(n, c)``.  Or several, each for the penalty of its
            name: a frame, or names of columns of x.  Pandas objects need equal labels.
          sample_weight: observation weights ``(n,)`` of loss and dependences, of which only ratios
            matter, or None; for losses and statistics that take weights.
          steps: total number of steps.
          evaluate_every: number of steps between evaluations on all rows.

        Returns:
          The `History` so far, also in `history`.

        Raises:
          TypeError, ValueError: for data that cannot be trained on.
          TrainingError: if the loss stops being finite; `state` and `history` are those of the
            last evaluation.
        """
        data = TrainingData.of(x, y, protected, sample_weight)
        self.train(data, None, steps, evaluate_every)
        for text in self.shortfalls(data):
            warnings.warn(text, UserWarning, stacklevel=2)
        return self.history

    def train(
        self,
        data: TrainingData,
        constraint: TrainingData | None = None,
        steps: int = 500,
        evaluate_every: int = 25,
    ) -> None:
        """Train as `fit` does, on rows in one order.

        Every step penalises the larger of the measures on ``data`` and on the rows ``constraint``,
        if there are any, with the gradient of ``data``: a network that memorises its rows cannot
        hide the dependence of others.
        """
        steps = check_count("steps", steps)
        evaluate_every = check_count("evaluate_every", evaluate_every)
        if data.weights is not None:
            for penalty in self.penalties:
                penalty.check_takes_weights()
        learned = None if self.state is None else self.encoders
        rows, self.encoders = make_rows(data, self.penalties, learned, self._dtype)
        others = None if constraint is None else self._rows_of(constraint)
        if self.state is None:
            self._make_state(rows)
        assert self.state is not None
        self.limits = None
        done = int(self.state.step)
        ends = [*range((done // evaluate_every + 1) * evaluate_every, steps, evaluate_every), steps]
        for end in ends if done < steps else []:
            self._advance(rows, others, end)

    def shortfalls(self, data: TrainingData) -> list[str]:
        """Return a sentence for each value with which the training did not end well, and why."""
        rows, found = self._rows_of(data), list[str]()
        count = len(rows.x)
        size = self._size(count) or count
        _, values = self._evaluate(rows)
        kept = self.history.kept_by(values)
        is_tested = bool(kept) and (size < count or not all(kept.values()))
        by_chance = self._chance(rows, size) if is_tested else 0 * values
        some, larger = ("batches of", "larger batches, ") if size < count else ("these", "")
        for place, (name, limit) in enumerate(self.history.thresholds.items()):
            if limit is None or (kept[name] and by_chance[place] < limit):
                continue
            seen = np.mean(self.history.steps[f"value_{name}"][-LAST_STEPS:])
            if by_chance[place] >= limit:
                cause = (
                    f"; {some} {size:,} rows give {by_chance[place]:.3g} on average where nothing"
                    f" depends on {name}, and the multiplier rises whatever the network does:"
                    f" {larger}more rows, lower degrees or a higher threshold are needed"
                )
            elif size < count and seen < values[place] - KEPT_WITHIN:
                cause = f"; {some} {size:,} rows show {seen:.3g} on average: larger ones are needed"
            else:
                cause = (
                    f", after {len(self.history.steps['step']):,} steps: more steps, or a larger"
                    " learning rate of the multiplier, usually help"
                )
            end = "keeps its threshold" if kept[name] else "ends above its threshold"
            found.append(
                f"the training {end}: {self.history.measures[name]} of {name} is"
                f" {values[place]:.3g} on the training rows, the threshold is {limit:g}{cause}"
            )
        return found

    def _chance(self, rows: Rows, size: int) -> NDArray[Any]:
        """Return mean values ``(m,)`` of rows whose attributes are shuffled within groups of y."""
        rng, found = np.random.default_rng(self.seed), []
        for _ in range(SHUFFLES):
            chosen = np.sort(rng.choice(len(rows.x), size, replace=False))
            part = jax.tree.map(lambda leaf, chosen=chosen: leaf[chosen], rows)
            shuffled = []
            for z, group in zip(part.z, part.group, strict=True):
                codes = np.zeros(size) if group is None else np.asarray(group)
                order = np.empty(size, int)
                order[np.argsort(codes, kind="stable")] = np.lexsort((rng.random(size), codes))
                shuffled.append(z[order])
            found.append(self._evaluate(part._replace(z=tuple(shuffled)))[1])
        return np.mean(found, axis=0)

    def _evaluate(self, rows: Rows) -> tuple[float, NDArray[Any]]:
        """Return loss and dependences ``(m,)`` of the network on some rows."""
        state = self.state
        assert state is not None
        assert self._program is not None
        network = state.parameters, state.variables, state.penalties
        loss, values = evaluate(self._program, self.penalties, *network, rows)
        return float(loss), np.asarray(values)

    def _rows_of(self, data: TrainingData) -> Rows:
        return make_rows(data, self.penalties, self.encoders, self._dtype)[0]

    def _make_state(self, rows: Rows) -> None:
        """Make the program of the training, its first state, and a history without steps."""
        size = self._size(len(rows.x))
        graph, *network = in_mode(self._initial, training=True)
        self._program = program = Program(
            training=graph,
            inference=in_mode(self._initial, training=False)[0],
            task=self.task,
            update=self.optimizer.update,
            dual=self.dual,
            groups=tuple(encoder.groups for encoder in self.encoders),
        )
        part = rows if size is None else jax.tree.map(lambda leaf: first_rows(leaf, size), rows)
        prediction = jax.eval_shape(functools.partial(predict, program), *network, rows.x)
        if self.task.check is not None:
            self.task.check(np.asarray(rows.y), prediction.shape)
        columns = 1 if prediction.ndim == 1 else prediction.shape[1]
        thresholds, measures = dict[str, float | None](), dict[str, str]()
        for penalty, encoder in zip(self.penalties, self.encoders, strict=True):
            limit = penalty.threshold
            for name in encoder.value_names(columns):
                thresholds[name] = None if limit is None else float(np.asarray(limit))
                measures[name] = penalty.statistic.title
        self.history = History({}, {}, thresholds, measures)
        start, count = self.optimizer.init(network[0]), len(self.history.penalised)
        key = jax.random.key(self.seed)
        self.state = first_state(program, self.penalties, tuple(network), start, count, part, key)

    def _size(self, rows: int) -> int | None:
        """Return the number of rows of a step, None for all."""
        return None if self.batch_size is None or self.batch_size >= rows else self.batch_size

    def _advance(self, rows: Rows, constraint: Rows | None, end: int) -> None:
        """Train up to step ``end``, and evaluate; change nothing if a loss is not finite."""
        assert self.state is not None
        assert self._program is not None
        before, count = self.state, len(rows.x)
        done, size = int(before.step), self._size(count)
        batches = None if size is None else batch_rows(self.seed, count, size, done, end - done)
        self.state, figures = run_steps(
            self._program, self.penalties, before, rows, batches, end - done, constraint
        )
        loss, values = self._evaluate(rows)
        finite = np.isfinite(np.append(figures.loss, loss))
        if not finite.all():
            self.state = before
            step = done + min(int(np.argmin(finite)) + 1, end - done)
            raise TrainingError(
                f"the training diverged: the loss is no longer finite at step {step}; weights and"
                f" history are those of step {done}. A smaller learning rate usually helps."
            )
        self.history = self.history.with_steps(figures, loss, values, end)
