"""What a statistic is: a dependence of a prediction on an attribute, apart from any threshold."""

from __future__ import annotations

import abc
from typing import Any

from jax import Array

from hgr_jax.core.kernels import KernelLike


class Statistic(abc.ABC):
    """A dependence of a prediction on a protected attribute, as `Penalty` keeps it low.

        state = statistic.init(z, prediction, key=key)
        value, state = statistic.value(state, z, prediction)      # every step

    Derive one of your own where a function does not do: one with a state.  It must be hashable, as
    a frozen dataclass is (equal ones share compiled programs), and its state a pytree whose shapes
    stay as they are.

    Attributes:
      categorical: whether ``value`` takes one-hot columns ``z (n, c)``.
      weighted: whether it takes ``weights``, as ``Penalty(given="classes")`` needs.
      partial: whether it takes ``given``, as ``Penalty(given="polynomials")`` needs.
      kernels: of z and of the prediction, where it has some; else None.

    Example:
      >>> import jax.numpy as jnp
      >>> from hgr_jax.fairness import KB, Penalty, Statistic
      >>> class Moving(Statistic):
      ...     '''HGR-KB, averaged over steps.'''
      ...     def init(self, z, prediction, *, key=None):
      ...         return jnp.zeros(())
      ...     def value(self, state, z, prediction, *, weights=None, given=None):
      ...         now, _ = KB(2, 2).value((), z, prediction)
      ...         mean = (state + now) / 2
      ...         return mean, mean
      >>> z = jnp.linspace(-1, 1, 200)
      >>> penalty = Penalty(Moving(), threshold=0.3)
      >>> values, state = penalty.values(penalty.init(z, z), z, z**2)
      >>> print(f"{values[0]:.2f}")
      0.50
    """

    @property
    def categorical(self) -> bool:
        """Whether `value` takes one-hot columns."""
        return False

    @property
    def weighted(self) -> bool:
        """Whether `value` takes weights."""
        return False

    @property
    def partial(self) -> bool:
        """Whether `value` takes given variables."""
        return False

    @property
    def kernels(self) -> tuple[KernelLike | None, KernelLike | None]:
        """The kernels of z and of the prediction, None where it has none."""
        return None, None

    def init(self, z: Array, prediction: Array, *, key: Array | None = None) -> Any:
        """Return the state that is carried from step to step, a pytree: none here.

        Args:
          z: of a first batch ``(n,)``, or one-hot ``(n, c)``, traced.
          prediction: ``(n,)``, traced.
          key: for what it draws.
        """
        del z, prediction, key
        return ()

    @abc.abstractmethod
    def value(
        self,
        state: Any,
        z: Array,
        prediction: Array,
        *,
        weights: Array | None = None,
        given: Array | None = None,
    ) -> tuple[Array, Any]:
        """Return the dependence, a scalar with derivatives, and the next state.

        Args:
          state: of `init`, or of the step before.
          z: ``(n,)``, or one-hot ``(n, c)``, traced.
          prediction: ``(n,)``, traced.
          weights: ``(n,)``, traced, or None; 0 leaves a row out.
          given: y ``(n,)``, traced, or None: then of what polynomials of y leave.
        """

    def held_out(
        self,
        state: Any,
        z: Array,
        prediction: Array,
        *,
        weights: Array | None = None,
        given: Array | None = None,
    ) -> Array:
        """Return the dependence on rows that had no part in the state.

        Args:
          state, z, prediction, weights, given: as in `value`.
        """
        return self.value(state, z, prediction, weights=weights, given=given)[0]

    def parameters(self, levels: int | None) -> int | None:
        """Return the parameters of the upward bias of a sample value, see `corrected`.

        Args:
          levels: of a categorical attribute; None for numbers.

        Returns:
          None where no such correction is known.
        """
        del levels
        return None

    def least_rows(self, levels: int | None) -> int:
        """Return the number of rows below which the value constrains nothing.

        Args:
          levels: as in `parameters`.
        """
        parameters = self.parameters(levels)
        return 2 if parameters is None else parameters + 3

    def suited(self, distinct: int) -> Statistic:
        """Return this with no higher degree of the attribute than its distinct values support."""
        del distinct
        return self
