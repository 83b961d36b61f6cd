"""Penalties beyond a threshold, and the multipliers that weigh them: pure parts of a training."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array, lax
from jax.typing import DTypeLike
from numpy.typing import ArrayLike

from hgr_jax._checks import check_count
from hgr_jax.fairness.statistics import as_statistic


def excess(value: ArrayLike, threshold: ArrayLike) -> Array:
    """Return the excess of a value over its threshold: ``max(0, value - threshold)``.

    Its derivative is exactly 0 up to and at the threshold, and 1 above.  NaN stays NaN.

    Args:
      value, threshold: arrays whose shapes broadcast, traced.

    Raises:
      TypeError: for arguments that are not arrays of numbers.

    Example:
      >>> from hgr_jax.fairness import excess
      >>> print(f"{excess(0.5, 0.2):.1f} {excess(0.1, 0.2):.1f}")
      0.3 0.0
    """
    value = jnp.asarray(value)
    difference = value - jnp.asarray(threshold, value.dtype)
    return jnp.where(difference <= 0, 0, difference)


UNNAMED = "z"
"""Name of a penalty, and of an attribute, without a name of its own."""


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["threshold"],
    meta_fields=["statistic", "given", "name"],
)
@dataclasses.dataclass(frozen=True)
class Penalty:
    """A dependence of the prediction on a protected attribute, to be kept below a threshold.

        penalty = multiplier * max(0, statistic(z, prediction) - threshold)

    A pytree: the threshold is traced, so that another threshold compiles nothing; the other fields
    are static.  Each column of the prediction (the classes of a classifier), and each group of
    ``given``, has a value and a multiplier.

    Args:
      statistic: `KB`, `SK`, `HGR`, `DemographicParity`, `Neural`, `Function`, or your own
        `Statistic`; a name ("kb", "sk", "hgr", "demographic_parity", "neural", "hsic",
        "distance_correlation", "pearson") for its default options; or a function ``(z, prediction)
        -> scalar``.  Degrees are its options.
      threshold: in (0, 1]; None to record the statistic in the history of a training, without a
        penalty.
      given: None, or penalise the conditional dependence *given y* (equalised odds):
        ``"classes"`` within each value of y, an int within so many quantile bins of y.  It needs a
        statistic that takes weights.
      name: of the protected attribute, for history and messages.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from hgr_jax.fairness import Penalty
      >>> penalty = Penalty("kb", threshold=0.3)
      >>> z = jnp.linspace(-1, 1, 200)
      >>> state = penalty.init(z, z)
      >>> values, state = penalty.values(state, z, z**2)
      >>> print(f"{values[0]:.3f}")
      1.000
    """

    statistic: Any = "kb"
    threshold: ArrayLike | None = 0.2
    _: dataclasses.KW_ONLY
    given: str | int | None = None
    name: str = UNNAMED

    def __post_init__(self) -> None:
        statistic = as_statistic(self.statistic)
        object.__setattr__(self, "statistic", statistic)
        _check_threshold(self.threshold)
        if self.given not in (None, "classes"):
            check_count("given", self.given, least=2)
        if self.given is not None and self.penalised:
            self.check_takes_weights(f"given={self.given!r}")

    @property
    def penalised(self) -> bool:
        """Whether there is a threshold; else the statistic is only recorded."""
        return self.threshold is not None

    def check_takes_weights(self, what: str = "sample_weight") -> None:
        """Raise unless the values can have observation weights, which ``what`` needs."""
        if not self.statistic.weighted:
            raise ValueError(
                f"{what} needs a statistic that takes weights: KB, SK, HGR, DemographicParity, or a"
                f" function (z, prediction, weights=...); got {self.statistic.title!r}."
            )

    def init(self, z: Array, prediction: Array, *, key: Array | None = None) -> Any:
        """Return the state of the statistic for each column, made from a first batch.

        Args:
          z, prediction: as of `values`.
          key: for the random numbers of the statistic (the networks of `Neural`); None for key 0.
        """
        z, columns = lax.stop_gradient(z), lax.stop_gradient(prediction_columns(prediction))
        return over_columns(lambda p: self.statistic.init(z, p, key=key), columns)

    def values(
        self,
        state: Any,
        z: Array,
        prediction: Array,
        group: Array | None = None,
        groups: int = 1,
        weights: Array | None = None,
    ) -> tuple[Array, Any]:
        """Return the dependences ``(columns * groups,)``, differentiable, and the next state.

        Args:
          state: of `init` or the step before.
          z: ``(n,)``, or one-hot ``(n, c)``, traced.
          prediction: ``(n,)`` or ``(n, columns)``, traced.
          group: ``(n,)`` where ``given`` is not None: integers from 0 to ``groups - 1``; any other
            value is in no group, and a group of fewer than two rows has the value 0.
          groups: number of groups, static.
          weights: observation weights ``(n,)``, traced, or None.
        """

        def one(p: Array, state: Any) -> tuple[Array, Any]:
            if group is None:
                return self.statistic.value(state, z, p, weights)

            def within(label: Array) -> Array:
                inside = group == label
                enough = jnp.sum(inside) >= 2
                mask = jnp.where(enough, inside, True).astype(p.dtype)
                mask = mask if weights is None else mask * weights
                return jnp.where(enough, self.statistic.value(state, z, p, mask)[0], 0)

            return jax.vmap(within)(jnp.arange(groups, dtype=group.dtype)), state

        values, state = over_columns(one, prediction_columns(prediction), state)
        return values.ravel(), state


def over_columns(function: Callable[..., Any], columns: Array, *carried: Any) -> Any:
    """Map `function` over columns and their states; a single column without `jax.vmap`."""
    if columns.shape[0] > 1:
        return jax.vmap(function)(columns, *carried)
    first = jax.tree.map(lambda leaf: leaf[0], (columns, *carried))
    return jax.tree.map(lambda leaf: leaf[None], function(*first))


def prediction_columns(prediction: Array) -> Array:
    """Return predictions ``(columns, n)``."""
    return prediction[None, :] if prediction.ndim == 1 else prediction.T


def as_penalties(value: Any, threshold: ArrayLike | None = None) -> tuple[Penalty, ...]:
    """Return penalties from statistics, names, functions or thresholds; None is none."""
    several = list(value) if isinstance(value, list | tuple) else [value]
    penalties = [_as_penalty(item) for item in several if item is not None]
    if threshold is None:
        return tuple(penalties)
    _check_threshold(threshold)
    return tuple(
        dataclasses.replace(p, threshold=threshold) if p.penalised else p for p in penalties
    )


def check_distinct_penalties(penalties: tuple[Penalty, ...]) -> tuple[Penalty, ...]:
    """Return penalties of different names, or raise."""
    names = [penalty.name for penalty in penalties]
    if len(set(names)) != len(names):
        raise ValueError(f"penalties must have different names; got {names}.")
    return penalties


def _as_penalty(value: Any) -> Penalty:
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return Penalty(threshold=float(value))
    return value if isinstance(value, Penalty) else Penalty(value)


def _check_threshold(threshold: Any) -> None:
    """Raise unless a threshold is in (0, 1] or None; tracers and JAX arrays pass."""
    if isinstance(threshold, str | bool):
        raise TypeError(f"threshold must be a number in (0, 1]; got {threshold!r}.")
    if isinstance(threshold, int | float | np.number | np.ndarray) and not (
        np.shape(threshold) == () and 0 < threshold <= 1
    ):
        raise ValueError(f"threshold must be in (0, 1]; got {threshold}.")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class DualState:
    """Multipliers ``(m,)``, never negative, and the state of their optimiser."""

    multipliers: Array
    optimizer_state: Any


_ASCENT = optax.adam(2e-3)


@dataclasses.dataclass(frozen=True)
class LagrangianDual:
    """Gradient ascent on the multipliers of constraints, as a pair of pure functions.

        minimise over theta, maximise over lambda >= 0:   loss(theta) + lambda . violation(theta)

    Both methods work under `jax.jit`, `jax.vmap` and in `jax.lax.scan`.

    Args:
      optimizer: any optax optimiser, static; it ascends.  By default Adam of 2e-3.
      two_sided: whether multipliers fall again while a constraint is slack.  With False, and Adam
        of 1e-3, they only rise: the setting of the paper.

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

    optimizer: optax.GradientTransformation = _ASCENT
    two_sided: bool = True

    def init(self, multipliers: int = 1, *, dtype: DTypeLike | None = None) -> DualState:
        """Return the state at the start, at which all multipliers are 0.

        Args:
          multipliers: number of constraints.
          dtype: of the multipliers; the default floating dtype if None.

        Raises:
          ValueError: if their number is negative.
        """
        count = check_count("multipliers", multipliers, least=0)
        start = jnp.zeros(count, jnp.result_type(float) if dtype is None else dtype)
        return DualState(start, self.optimizer.init(start))

    def update(self, violations: Array, state: DualState) -> DualState:
        """Take a step of ascent, then project on the multipliers that are not negative.

        Args:
          violations: ``(m,)``, value minus threshold of each constraint; not differentiated.
          state: of `init` or the step before.
        """
        gradient = -jax.lax.stop_gradient(violations).astype(state.multipliers.dtype)
        if not self.two_sided:
            gradient = jnp.minimum(gradient, 0)
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer
            updates, optimizer_state = self.optimizer.update(
                gradient, state.optimizer_state, state.multipliers
            )
        multipliers = jnp.maximum(optax.apply_updates(state.multipliers, updates), 0)
        return DualState(multipliers, optimizer_state)
