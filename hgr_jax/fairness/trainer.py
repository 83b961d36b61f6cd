"""Training of a Flax network under constraints on its dependence on protected attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import Array
from numpy.typing import ArrayLike

from hgr_jax._checks import check_count
from hgr_jax._progress import progress_bar
from hgr_jax.core.rows import first_rows, pad_rows, padded_length
from hgr_jax.fairness.attributes import (
    Attribute,
    Protected,
    make_constraint,
    make_rows,
    numbers,
)
from hgr_jax.fairness.dual import LagrangianDual, check_weight
from hgr_jax.fairness.history import Best, History, better
from hgr_jax.fairness.loggers import Logger, logged
from hgr_jax.fairness.penalties import Penalty, as_penalties
from hgr_jax.fairness.starting import TrainingPlan, batch_of, start_training
from hgr_jax.fairness.steps import (
    Program,
    Rows,
    TrainState,
    batch_rows,
    check_finite,
    evaluate,
    evaluation_steps,
    in_mode,
    padded,
    predict,
    run_steps,
)
from hgr_jax.fairness.storage import (
    CheckpointError,
    Training,
    described_penalties,
    description,
    digest,
    read_training,
    write_training,
)
from hgr_jax.fairness.tasks import Task, as_task

_adam = optax.adam(1e-3)
_default_dual = LagrangianDual()


class FairTrainer:
    """Trains any Flax network while measured dependences stay below thresholds.

        minimise over theta, maximise over lambda >= 0:
            loss(output, y) + sum of lambda_i * max(0, measure_i(z, prediction) - threshold_i)

    Many steps run in one compiled loop with the data on the device.  The same seed
    gives the same weights, bit for bit, on the same machine.

    Args:
      network: an `flax.nnx.Module`, ``(n, p) -> (n,)`` or ``(n, columns)``; it is not changed:
        the trained one is `network`.  Dropout and batch statistics work as in Flax.
      penalties: a `Penalty`, or several, each with its own multiplier(s); none trains without
        a constraint.
      task: ``"squared_error"``, ``"log_loss"`` (of logits), a loss ``(output, y) -> scalar``, or
        a `Task`.
      optimizer: of the network, any optax optimiser; Adam of 1e-3 if None.  Pass the same object
        again, and another trainer of the same shapes compiles nothing.
      dual: ascent of the multipliers; ``LagrangianDual()`` if None.
      penalty_weight: one constant weight of all penalties in place of multipliers and their ascent:
        minimise ``loss + penalty_weight * sum of max(0, measure_i - threshold_i)``, the paper's
        penalty with a fixed weight, which has to be tuned.  None for the dual.
      batch_size: rows of a step, drawn without replacement in every epoch (rows that do not
        fill a batch wait for the next epoch); None, or as many as there are rows, for all.
      seed: of the order of the rows and of "neural"; the network's own randomness is in it.
      logger: called at every evaluation as ``logger(step, figures)``, with the `History.last`
        evaluation, and loss, values and multipliers of the step before it, as numbers by name:
        `TensorBoardLogger`, `WandbLogger` or a function.  One that raises is told in a warning, and
        not called again; the training goes on.

    Raises:
      TypeError, ValueError: for anything else.

    Source: Giuliani & Lombardi, "Robust Non-Linear Correlations via Polynomial Regression";
    Fioretto et al., "Lagrangian duality for constrained deep learning" (2021).

    Example:
      >>> import numpy as np
      >>> from flax import nnx
      >>> from hgr_jax.fairness import MLP, FairTrainer, Penalty
      >>> rng = np.random.default_rng(0)
      >>> x = rng.normal(size=(200, 3)); z = x[:, 0]; y = z**2 + x[:, 1]
      >>> trainer = FairTrainer(MLP(3, rngs=nnx.Rngs(0)), penalties=Penalty("kb", threshold=0.3))
      >>> history = trainer.fit(x, y, z, steps=20)
      >>> trainer.predict(x).shape, len(history.steps["loss"])
      ((200,), 20)
    """

    def __init__(
        self,
        network: nnx.Module,
        *,
        penalties: Penalty | Sequence[Penalty] = (),
        task: Task | str | Callable[[Array, Array], Array] = "squared_error",
        optimizer: optax.GradientTransformation | None = None,
        dual: LagrangianDual | None = None,
        penalty_weight: float | None = None,
        batch_size: int | None = None,
        seed: int = 0,
        logger: Logger | None = None,
    ) -> None:
        if not isinstance(network, nnx.Module):
            raise TypeError(f"network must be a flax.nnx.Module; got {type(network).__name__}.")
        if batch_size is not None:
            check_count("batch_size", batch_size, least=2)
        self.task: Task = as_task(task)
        self.penalties = as_penalties(penalties)
        self.batch_size = batch_size
        self.seed = check_count("seed", seed, least=0)
        self.optimizer = _adam if optimizer is None else optimizer
        self.dual = _default_dual if dual is None else dual
        self.penalty_weight = check_weight(penalty_weight)
        if dual is not None and penalty_weight is not None:
            raise ValueError("dual moves multipliers, penalty_weight keeps them; give one of them.")
        if not (logger is None or callable(logger)):
            raise TypeError(f"logger must be a function (step, figures); got {logger!r}.")
        self.logger = logger
        self.history = History({}, {}, {})
        self.state: TrainState | None = None
        self.attributes: tuple[Attribute, ...] = ()
        self._initial = nnx.clone(network)
        leaves = jax.tree.leaves(in_mode(network, training=True)[1])
        self._dtype = leaves[0].dtype if leaves else jnp.result_type(float)
        self.limits: tuple[float, float] | None = None
        self._suited: tuple[Penalty, ...] = ()
        self._program: Program | None = None
        self._best: Best | None = None
        self._chosen: Best | None = None
        self._validated = ""
        self._description: dict[str, Any] = {}

    @property
    def network(self) -> Any:
        """The network as it is now, or the best one after early stopping; in inference mode."""
        if self.state is None:
            return nnx.merge(*in_mode(self._initial, training=False))
        graph = in_mode(self._initial, training=False)[0]
        kept = self._chosen or self.state
        return nnx.merge(graph, kept.parameters, kept.variables, copy=True)

    @property
    def multipliers(self) -> dict[str, float]:
        """The multiplier of each penalised value."""
        if self.state is None:
            return {}
        return dict(zip(self.history.penalised, self.state.dual.multipliers.tolist(), strict=True))

    def predict(self, x: ArrayLike) -> Array:
        """Return predictions ``(n,)`` or ``(n, columns)`` at inputs ``x (n, p)``.

        They are within ``limits``, where `fit_certified` has set some.

        Raises:
          ValueError: before training.
        """
        if self.state is None or self._program is None:
            raise ValueError("there is nothing to predict with yet: call fit first.")
        x = numbers("x", x, self._dtype)
        kept = self._chosen or self.state
        filled = pad_rows(x, padded_length(len(x)))  # so that few numbers of rows are compiled
        found = predict(self._program, kept.parameters, kept.variables, filled)
        found = found if self.limits is None else jnp.clip(found, *self.limits)
        return first_rows(found, len(x))

    def fit(
        self,
        x: ArrayLike,
        y: ArrayLike,
        protected: Protected = None,
        *,
        steps: int = 500,
        validation: tuple[Any, ...] | None = None,
        constraint_rows: tuple[ArrayLike, Protected] | None = None,
        evaluate_every: int = 25,
        patience: int | None = None,
        progress: bool = False,
        checkpoint: str | Path | None = None,
    ) -> History:
        """Train until ``steps`` steps have been made in all; called again, it goes on from there.

        Args:
          x: inputs ``(n, p)``, numbers.
          y: targets ``(n,)`` or ``(n, columns)``; for "log_loss" 0 and 1, or labels from 0.
          protected: the protected attribute ``(n,)`` of all penalties, or a mapping from their
            names.  Numbers, which penalties see scaled to [-1, 1]; text, or one-hot columns
            ``(n, c)``, for a categorical attribute.
          steps: in all.
          validation: ``(x, y)`` or ``(x, y, protected)`` of rows to evaluate on, not to train on.
          constraint_rows: ``(x, protected)`` of rows that the network is not trained on, and that
            need no targets.  What is penalised, and what moves the multipliers, is then the larger
            of the measures on both sets; its gradient is that of the training rows.  So a network
            that memorises these does not hide the dependence on others.  All are measured in
            every step.  Not for penalties with ``given`` or ``memory``.
          evaluate_every: steps between evaluations, which are also where progress is shown and
            checkpoints are written.
          patience: stop after so many evaluations on ``validation`` without a better one, and go
            back to the best: one whose penalised measures, with less of their upward bias
            (``held_out_NAME`` of the history), exceed their thresholds less; of those that do not
            exceed them, the one with the highest score.  Never if None.
          progress: show a bar (the extra ``fairness``).
          checkpoint: a folder: the training is kept there at every evaluation, and where there
            is one of the same data and settings it is taken up (those of optimisers, which are
            functions, cannot be compared).  However often a run was killed and started again,
            the result is the same, bit for bit.

        Returns:
          The `History` so far, also in `history`.

        Raises:
          TypeError, ValueError: for data that cannot be trained on: not finite, of other lengths,
            a protected attribute that does not vary.
          TrainingError: if the loss or a parameter stops being finite; `state` and `history`
            are those of the last evaluation.
          CheckpointError: if the checkpoint cannot be used.
        """
        steps = check_count("steps", steps)
        patience = None if patience is None else check_count("patience", patience)
        evaluate_every = check_count("evaluate_every", evaluate_every)
        if patience is not None and validation is None:
            raise ValueError("patience needs validation=(x, y, protected): rows to stop by.")
        rows = self._rows(x, y, protected, learn=self.state is None)
        self._chosen = self.limits = None
        test = None
        if validation is not None:
            if not isinstance(validation, tuple) or len(validation) not in (2, 3):
                raise ValueError("validation must be (x, y) or (x, y, protected).")
            test = self._rows(*validation, *(None,) * (3 - len(validation)), learn=False)
        constraint = None
        if constraint_rows is not None:
            constraint = make_constraint(constraint_rows, rows, self.penalties, self.attributes)
        self._start(rows)
        assert self.state is not None
        self._describe(rows)
        validated = "" if test is None else digest(test)
        if validated != self._validated:  # what was the best on other rows says nothing here
            self._best, self._validated = None, validated
        belongs: dict[str, Any] = {}
        folder = None if checkpoint is None else Path(checkpoint)
        if folder is not None:
            belongs = self._description | {
                "validation rows": validated,
                "evaluate_every": evaluate_every,
                "patience": patience,
                "constraint rows": "" if constraint is None else digest(constraint),
            }
            self._restore(folder, belongs)
            self._chosen = self.limits = None
        drawn = rows if batch_of(self.batch_size, rows) is None else padded(rows)
        ends = evaluation_steps(int(self.state.step), steps, evaluate_every)
        shown, logger = 0, self.logger
        total = ends[-1] if ends else 0
        with progress_bar(progress, total, unit="step", extra="fairness") as advance:
            for end in ends:
                best = self._best
                if patience is not None and best is not None and best.waited >= patience:
                    break
                self._advance(rows, drawn, test, constraint, end)
                if folder is not None:
                    self._write(folder, belongs)
                if logger is not None:
                    logger = logged(logger, self.history, end)
                last = {n: v for n, v in self.history.last.items() if n != "step"}
                advance(end - shown, {n: f"{v:.3g}" for n, v in last.items() if "loss" not in n})
                shown = end
        self._chosen = None if patience is None else self._best
        return self.history

    def save(self, folder: str | Path) -> None:
        """Keep the training in a folder, by orbax; see `resume`.

        Raises:
          ValueError: before training.  CheckpointError: if it cannot be written.
        """
        if self.state is None:
            raise ValueError("there is nothing to save yet: call fit first.")
        # Not as they were in the last steps: `fit_certified` has their thresholds rise.
        now = {"penalties": described_penalties(self.penalties)}
        self._write(Path(folder), self._description | now)

    def resume(
        self, folder: str | Path, x: ArrayLike, y: ArrayLike, protected: Protected = None
    ) -> FairTrainer:
        """Take up a training that `save`, or ``fit(checkpoint=...)``, kept.

        Args:
          folder: where it is.
          x, y, protected: the training rows, as they were.

        Returns:
          This trainer, which must have been made with the same arguments.

        Raises:
          CheckpointError: if there is none, or it is of other settings or rows.
        """
        before = dict(vars(self))
        try:
            rows = self._rows(x, y, protected, learn=True)
            self._start(rows, anew=True)
            self._describe(rows)
            if not self._restore(Path(folder), self._description):
                raise CheckpointError(f"there is no checkpoint in {folder}")
        except BaseException:
            vars(self).update(before)
            raise
        return self

    def _rows(self, x: ArrayLike, y: ArrayLike, protected: Any, *, learn: bool) -> Rows:
        known = None if learn else self.attributes
        rows, self.attributes = make_rows(x, y, protected, self.penalties, known, self._dtype)
        return rows

    def _start(self, rows: Rows, *, anew: bool = False) -> None:
        self._suited = tuple(
            attribute.suited(penalty)
            for penalty, attribute in zip(self.penalties, self.attributes, strict=True)
        )
        if self.state is not None and not anew:
            return
        plan = TrainingPlan(
            network=self._initial,
            task=self.task,
            optimizer=self.optimizer,
            dual=self.dual,
            weight=self.penalty_weight,
            batch_size=self.batch_size,
            seed=self.seed,
        )
        self._best = None
        self._program, self.state, self.history = start_training(
            plan, self._suited, self.attributes, rows
        )

    def _advance(
        self, rows: Rows, drawn: Rows, test: Rows | None, constraint: Rows | None, end: int
    ) -> None:
        assert self.state is not None
        assert self._program is not None
        done = int(self.state.step)
        size = batch_of(self.batch_size, rows)
        batches = None
        if size is not None:
            batches = batch_rows(self.seed, rows.x.shape[0], size, done, end - done)
        state, figures = run_steps(
            self._program, self._suited, self.state, drawn, batches, end - done, constraint
        )
        network = self._program, self._suited, state.parameters, state.variables
        measured = {"train": evaluate(*network, rows)}
        if test is not None:
            measured["validation"] = evaluate(*network, test, state.penalties)
        check_finite(figures, measured["train"], done)
        self.history = self.history.extended(figures, measured, end)
        self.state = state
        if test is not None:
            self._best = better(self._best, state, measured["validation"], self.history.limits)

    def _describe(self, rows: Rows) -> None:
        initial = in_mode(self._initial, training=True)[1:]
        ascent: Mapping[str, Any] = {"two_sided": self.dual.two_sided}
        if self.penalty_weight is not None:
            ascent = {"weight": self.penalty_weight}
        settings = (self.penalties, self.task, ascent, self.batch_size, self.seed)
        self._description = description(initial, *settings, rows)

    def _write(self, folder: Path, belongs: Mapping[str, Any]) -> None:
        assert self.state is not None
        stopped = self._chosen is not None
        training = Training(
            self.state, self._best, self.history, stopped, self._validated, self.limits
        )
        write_training(folder, int(self.state.step), training, belongs)

    def _restore(self, folder: Path, belongs: Mapping[str, Any]) -> bool:
        assert self.state is not None
        training = Training(self.state, self._best, self.history)
        found = read_training(folder, training, belongs)
        if found is None:
            return False
        self.state, self._best, self.history, stopped, self._validated, self.limits = found
        self._chosen = self._best if stopped else None
        return True
