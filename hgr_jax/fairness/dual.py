"""The Lagrangian dual: multipliers that rise where a constraint is violated."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import DTypeLike
from numpy.typing import ArrayLike

from hgr_jax._checks import as_nonnegative, as_real_array, check_count


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class DualState:
    """Multipliers ``(m,)``, never negative, and the state of their optimiser."""

    multipliers: Array
    optimizer_state: Any


@dataclasses.dataclass(frozen=True)
class LagrangianDual:
    """Gradient ascent on the multipliers of constraints, as a pair of pure functions.

        minimise over theta, maximise over lambda >= 0:   loss(theta) + lambda . violation(theta)

    In the style of optax: `init` makes a state, `update` maps violations and a state to the next
    state; both work under `jax.jit`, `jax.vmap` and in `jax.lax.scan`.

    Args:
      optimizer: any optax optimiser, static; it ascends. Adam of 2e-3 if None.
      two_sided: multipliers fall again while a constraint is slack, so that no more of the task
        is given up than is needed.  With False, and Adam of 1e-3, they only rise: the setting
        of the paper.

    Source: Fioretto, Van Hentenryck, Mak, Tran, Baldo & Lombardi, "Lagrangian duality for
    constrained deep learning" (2021).

    Example:
      >>> import jax.numpy as jnp, optax
      >>> from hgr_jax.fairness import LagrangianDual
      >>> dual = LagrangianDual(optax.sgd(0.5))
      >>> state = dual.init(2)
      >>> state = dual.update(jnp.array([0.2, -0.1]), state)
      >>> print(state.multipliers)
      [0.1 0. ]
    """

    optimizer: optax.GradientTransformation | None = None
    two_sided: bool = True

    def init(
        self, multipliers: int | ArrayLike = 1, *, dtype: DTypeLike | None = None
    ) -> DualState:
        """Return the state at the start.

        Args:
          multipliers: how many constraints there are, whose multipliers start at 0; or the
            multipliers to start from, ``(m,)``.
          dtype: of multipliers that start at 0; the default floating dtype if None.

        Raises:
          ValueError: if a multiplier, or their number, is negative.
        """
        if isinstance(multipliers, int):
            multipliers = check_count("multipliers", multipliers, least=0)
            start = jnp.zeros(multipliers, jnp.result_type(float) if dtype is None else dtype)
        else:
            start = as_real_array("multipliers", multipliers, max_ndim=1)
            if not isinstance(start, jax.core.Tracer) and not (start >= 0).all():
                raise ValueError(f"multipliers must be at least 0; got {start}.")
        return DualState(start, self._optimizer.init(start))

    def update(self, violations: Array, state: DualState) -> DualState:
        """Take a step of ascent, then project on the multipliers that are not negative.

        Args:
          violations: ``(m,)``, value minus threshold of each constraint, negative where it is
            slack; no derivative is taken.
          state: of `init` or the step before.
        """
        gradient = -jax.lax.stop_gradient(violations).astype(state.multipliers.dtype)
        if not self.two_sided:
            gradient = jnp.minimum(gradient, 0)
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer
            updates, optimizer_state = self._optimizer.update(
                gradient, state.optimizer_state, state.multipliers
            )
        multipliers = jnp.maximum(optax.apply_updates(state.multipliers, updates), 0)
        return DualState(multipliers, optimizer_state)

    @property
    def _optimizer(self) -> optax.GradientTransformation:
        return _default if self.optimizer is None else self.optimizer


_default = optax.adam(2e-3)


def check_weight(weight: Any) -> float | None:
    """Return a constant weight of penalties, a finite number >= 0, or None."""
    if weight is None:
        return None
    as_nonnegative("penalty_weight", weight, jnp.float32)
    return float(weight)
