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

from hgr_jax._checks import as_real_array, check_count
from hgr_jax.fairness.statistics import as_statistic, name_of


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
      statistic: `KB`, `SK`, `HGR`, `Neural`, `Function`, or your own `Statistic`; the name
        of a differentiable measure of this package ("kb", "sk", "hgr", "neural", "kde", ...), with
        its default options; or a function ``(z, prediction) -> scalar``.  Degrees are its options.
      threshold: in (0, 1]; None to record the statistic in the history of a training, without a
        penalty.
      given: None, or penalise the conditional dependence *given y* (equalised odds):
        ``"classes"`` within each value of y, an int within so many quantile bins of y: of `KB`,
        `SK`, `HGR` or a function with a keyword ``weights``.  ``"polynomials"`` removes
        polynomials of y, of the degree of the prediction, from both, as ``given`` of `hgr_jax.kb`:
        of `KB`, `SK` or a function with a keyword ``given``.
      name: of the protected attribute, for history and messages.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from hgr_jax.fairness import Penalty
      >>> penalty = Penalty("kb", threshold=0.3)
      >>> z = jnp.linspace(-1, 1, 200)
      >>> state = penalty.init(z, z)
      >>> values, state = penalty.values(state, z, z**2)
      >>> print(f"{values[0]:.3f} {penalty.excess(values)[0]:.3f}")
      1.000 0.700
    """

    statistic: Any = "kb"
    threshold: ArrayLike | None = 0.2
    _: dataclasses.KW_ONLY
    given: str | int | None = None
    name: str = UNNAMED

    def __post_init__(self) -> None:
        statistic = as_statistic(self.statistic)
        object.__setattr__(self, "statistic", statistic)
        check_threshold(self.threshold)
        if self.given not in (None, "classes", "polynomials"):
            check_count("given", self.given, least=2)
        needed = "given" if self.given_polynomials else "weights"
        takes = statistic.partial if self.given_polynomials else statistic.weighted
        if self.given is not None and self.penalised and not takes:
            raise ValueError(
                f"given={self.given!r} needs a statistic that takes {needed}: KB, SK, or a"
                f" function (z, prediction, {needed}=...); got {name_of(statistic)!r}."
            )
        if not isinstance(self.name, str):
            raise TypeError(f"name must be a text; got {self.name!r}.")

    @property
    def penalised(self) -> bool:
        """Whether there is a threshold; else the statistic is only recorded."""
        return self.threshold is not None

    @property
    def given_polynomials(self) -> bool:
        """Whether polynomials of y are removed; ``group`` is then y itself."""
        return self.given == "polynomials"

    def check_takes_weights(self) -> None:
        """Raise unless the values can have observation weights."""
        if not self.statistic.weighted:
            raise ValueError(
                "sample_weight needs a statistic that takes weights: KB, SK, HGR, or a function"
                f" (z, prediction, weights=...); got {name_of(self.statistic)!r}."
            )

    def with_supported_degree(self, distinct: int) -> Penalty:
        """Return the penalty with a degree of z that its ``distinct`` values support."""
        return dataclasses.replace(self, statistic=self.statistic.with_supported_degree(distinct))

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
          group: ``(n,)`` where ``given`` is not None: integers, see `within`; with
            ``"polynomials"`` y itself.
          groups: number of groups, static.
          weights: observation weights ``(n,)``, traced, or None.
        """
        weighted = {} if weights is None else {"weights": weights}

        def one(p: Array, state: Any) -> tuple[Array, Any]:
            if group is None:
                return self.statistic.value(state, z, p, **weighted)
            if self.given_polynomials:
                return self.statistic.value(state, z, p, given=group, **weighted)

            def measure(z: Array, p: Array, *, weights: Array) -> Array:
                return self.statistic.value(state, z, p, weights=weights)[0]

            return within(measure, z, p, group, groups, weights), state

        values, state = over_columns(one, prediction_columns(prediction), state)
        return values.ravel(), state

    def excess(self, values: Array) -> Array:
        """Return the excess of each value over the threshold, see `hgr_jax.fairness.excess`."""
        assert self.threshold is not None
        return excess(values, self.threshold)

    def least_rows(self, z: Array) -> int:
        """Return the number of rows below which the statistic is 1 and constrains nothing."""
        least = self.statistic.least_rows(None if z.ndim == 1 else z.shape[1])
        k = self.statistic.kernels[1]
        removed = k if self.given_polynomials and isinstance(k, int) else 0
        return least + removed


def within(
    measure: Callable[..., Array],
    z: Array,
    prediction: Array,
    group: Array,
    groups: int,
    weights: Array | None = None,
) -> Array:
    """Measure within each group of rows: the conditional dependence of equalised odds.

    Args:
      measure: ``(z, prediction, weights=...) -> scalar``, static: `hgr_jax.kb`, `hgr_jax.sk`, or
        any function that takes observation weights.
      z, prediction: ``(n,)`` or ``(n, p)``, traced.
      group: ``(n,)`` integers from 0 to ``groups - 1``, traced; any other value is in no group.
      groups: number of groups, static.
      weights: observation weights ``(n,)``, traced, or None.

    Returns:
      Values ``(groups,)``; 0, with zero derivatives, for a group of fewer than two rows.

    Raises:
      TypeError, ValueError: as the measure does.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> from hgr_jax.fairness import within
      >>> z = jnp.linspace(-1, 1, 100)
      >>> group = (jnp.arange(100) % 2 == 0).astype(jnp.int32)
      >>> prediction = jnp.where(group == 1, z, 0.0)
      >>> print(within(hgr_jax.kb, z, prediction, group, 2).round(3))
      [0. 1.]
    """

    def value(label: Array) -> Array:
        mask = group == label
        enough = jnp.sum(mask) >= 2
        inside = jnp.where(enough, mask, True).astype(prediction.dtype)
        inside = inside if weights is None else inside * weights
        return jnp.where(enough, measure(z, prediction, weights=inside), 0)

    return jax.vmap(value)(jnp.arange(groups))


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
    if threshold is not None:
        check_threshold(threshold)
        penalties = [
            dataclasses.replace(p, threshold=threshold) if p.penalised else p for p in penalties
        ]
    for penalty in penalties:
        check_threshold(None if not penalty.penalised else np.asarray(penalty.threshold))
    return tuple(penalties)


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


def check_threshold(threshold: Any) -> None:
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


_default_ascent = optax.adam(2e-3)


@dataclasses.dataclass(frozen=True)
class LagrangianDual:
    """Gradient ascent on the multipliers of constraints, as a pair of pure functions.

        minimise over theta, maximise over lambda >= 0:   loss(theta) + lambda . violation(theta)

    Both methods work under `jax.jit`, `jax.vmap` and in `jax.lax.scan`.

    Args:
      optimizer: any optax optimiser, static; it ascends.  Adam of 2e-3 if None.
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

    optimizer: optax.GradientTransformation | None = None
    two_sided: bool = True

    def init(
        self, multipliers: int | ArrayLike = 1, *, dtype: DTypeLike | None = None
    ) -> DualState:
        """Return the state at the start.

        Args:
          multipliers: number of constraints, whose multipliers start at 0; or the multipliers to
            start from, ``(m,)``.
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
        return DualState(start, self._ascent.init(start))

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
            updates, optimizer_state = self._ascent.update(
                gradient, state.optimizer_state, state.multipliers
            )
        multipliers = jnp.maximum(optax.apply_updates(state.multipliers, updates), 0)
        return DualState(multipliers, optimizer_state)

    @property
    def _ascent(self) -> optax.GradientTransformation:
        return _default_ascent if self.optimizer is None else self.optimizer
