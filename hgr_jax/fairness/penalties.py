"""Penalties: how far the prediction depends on a protected attribute, beyond a threshold."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike

from hgr_jax._checks import check_count, check_flag, check_kernel
from hgr_jax.core.kernels import KernelLike
from hgr_jax.fairness.batches import Past, empty_past, remembered
from hgr_jax.fairness.groups import over_columns, prediction_columns, within
from hgr_jax.fairness.statistic import Statistic
from hgr_jax.fairness.statistic_names import DIFFERENTIABLE, statistic_by_name
from hgr_jax.fairness.statistics import KB, Function
from hgr_jax.inference.intervals import corrected


def excess(value: ArrayLike, threshold: ArrayLike) -> Array:
    """Return how far a value is above its threshold: ``max(0, value - threshold)``.

    Up to the threshold, and at it, the derivative is exactly 0; above it, 1.  NaN stays NaN, so
    that trouble is seen.

    Args:
      value, threshold: arrays of shapes that broadcast, traced.

    Raises:
      TypeError: for what is no array of numbers.

    Example:
      >>> from hgr_jax.fairness import excess
      >>> print(f"{excess(0.5, 0.2):.1f} {excess(0.1, 0.2):.1f}")
      0.3 0.0
    """
    value = jnp.asarray(value)
    difference = value - jnp.asarray(threshold, value.dtype)
    return jnp.where(difference <= 0, 0, difference)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["threshold"],
    meta_fields=["measure", "h", "k", "given", "bias_corrected", "memory", "warm_start", "name"],
)
@dataclasses.dataclass(frozen=True)
class Penalty:
    """A dependence of the prediction on a protected attribute, to be kept below a threshold.

        penalty = multiplier * max(0, measure(z, prediction) - threshold)

    A pytree whose threshold is traced and whose other fields are static, so that another
    threshold compiles nothing.  A prediction of several columns (the classes of a classifier)
    has one value, and one multiplier, for each; so has each group of ``given``.

    Args:
      measure: a statistic (`KB`, `SK`, `Total`, `Neural`, `Function`, or your own `Statistic`);
        the name of a differentiable measure of this package ("kb", "sk", "neural", "kde",
        "hsic", ...) with its default options; or a function ``(z, prediction) -> scalar``.  None to
        have HGR-KB in the history of a training, and nothing penalised.
      threshold: in (0, 1].
      h, k: kernels of z and of the prediction, for "kb" (as in `hgr_jax.kb`); "sk" has the
        degree ``k``.  Where z is categorical, one-hot encoded ``(n, c)``, h is 1.  They are those
        of the yardstick `hgr` too.  A statistic that has kernels brings them along.
      given: None, or penalise the dependence that is left *given y* (equalised odds):
        ``"classes"`` within each value of y, an int within so many quantile bins of y; of these
        `KB`, `SK`, `Total` or a function with a keyword ``weights``.  For a continuous y without
        bins, ``"polynomials"`` penalises what polynomials of y of the degree ``k`` leave, as
        ``given`` of `hgr_jax.kb` (so that a prediction equal to y has 0): `KB` without a bound,
        `SK`, `Total` or a function with a keyword ``given``.
      bias_corrected: take away part of the upward bias of a sample value, see `corrected`; for
        `KB` without a bound, `SK` and `Total`, of degrees.
      memory: measure on the last so many batches, of which the present one has the gradient
        (scaled up as if all were the present one).  1 for this batch alone.
      warm_start: of "neural", whose networks go on from those of the step before: 50 steps instead
        of 1000.  False trains them anew in every step.
      name: of the protected attribute, for history and messages.

    Raises:
      TypeError, ValueError: for anything else.

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

    measure: Statistic | str | Callable[..., Array] | None = "kb"
    threshold: ArrayLike = 0.2
    _: dataclasses.KW_ONLY
    h: KernelLike = 5
    k: KernelLike = 5
    given: str | int | None = None
    bias_corrected: bool = False
    memory: int = 1
    warm_start: bool = True
    name: str = "z"

    def __post_init__(self) -> None:
        known = self.measure is None or isinstance(self.measure, Statistic)
        if not (known or callable(self.measure) or self.measure in DIFFERENTIABLE):
            names = ", ".join(repr(name) for name in DIFFERENTIABLE)
            raise ValueError(
                f"measure must be one of {names}, a statistic as KB(5, 5), a function"
                f" (z, prediction) -> scalar, or None; got {self.measure!r}."
            )
        if isinstance(self.measure, type):
            raise ValueError(f"measure is a class; make one of it: {self.measure.__name__}().")
        check_threshold(self.threshold)
        check_kernel("h", self.h)
        check_kernel("k", self.k)
        self._take_kernels()
        check_count("memory", self.memory)
        check_flag("bias_corrected", self.bias_corrected)
        if self.given not in (None, "classes", "polynomials"):
            check_count("given", self.given, least=2)
        statistic = self.statistic
        if self.bias_corrected and (statistic is None or statistic.parameters(None) is None):
            raise ValueError(
                "bias_corrected needs the measure 'kb', 'sk' or Total, with degrees and without a"
                f" bound; got the measure {self.measure!r}, h {self.h!r} and k {self.k!r}."
            )
        if self.given is not None and statistic is not None:
            polynomials = self._given_polynomials
            if not (statistic.partial if polynomials else statistic.weighted):
                raise ValueError(
                    f"given={self.given!r} needs a measure that takes"
                    f" {'given' if polynomials else 'weights'}: 'kb', 'sk', Total, or a function"
                    f" (z, prediction, {'given' if polynomials else 'weights'}=...); got"
                    f" {self.measure!r}."
                )
        if not check_flag("warm_start", self.warm_start) and self.measure != "neural":
            raise ValueError(
                "warm_start is of the measure 'neural', others have none; got the measure"
                f" {self.measure!r}."
            )
        if not isinstance(self.name, str):
            raise TypeError(f"name must be a text; got {self.name!r}.")

    def _take_kernels(self) -> None:
        """Let h and k be those of a statistic that has some; others would say something else."""
        if not isinstance(self.measure, Statistic):
            return
        for name, own in zip("hk", self.measure.kernels, strict=True):
            given = getattr(self, name)
            if own is not None and given != own:
                if given != _DEFAULTS[name]:
                    raise ValueError(
                        f"{name}={given!r} differs from that of the measure {self.measure!r}; give"
                        " it there alone."
                    )
                object.__setattr__(self, name, own)

    @property
    def statistic(self) -> Statistic | None:
        """What is penalised, or None where HGR-KB is only watched."""
        measure = self.measure
        if isinstance(measure, str):
            return statistic_by_name(measure, self.h, self.k, warm_start=self.warm_start)
        if measure is None or isinstance(measure, Statistic):
            return measure
        return Function(measure)

    def suited(self, distinct: int) -> Penalty:
        """Return this with no higher degree of the attribute than its distinct values support."""
        if callable(self.h):
            return self
        measure = self.measure
        h: KernelLike = min(self.h, distinct - 1)
        if isinstance(measure, Statistic):
            measure = measure.suited(distinct)
            h = h if measure.kernels[0] is None else measure.kernels[0]
        return dataclasses.replace(self, measure=measure, h=h)

    def init(self, z: Array, prediction: Array, *, key: Array | None = None) -> PenaltyState:
        """Return the state that is carried from step to step, from a first batch.

        Args:
          z: ``(n,)``, or ``(n, c)`` for a categorical attribute.
          prediction: ``(n,)`` or ``(n, columns)``.
          key: for what the statistic draws, as the networks of `Neural` that are trained to the
            first batch here; key 0 if None.
        """
        z, columns = lax.stop_gradient(z), lax.stop_gradient(prediction_columns(prediction))
        init = self._penalised.init
        carried = over_columns(lambda p: init(z, p, key=key), columns)
        past = None
        if self.memory > 1:
            groups = jnp.zeros(len(z), columns.dtype if self._given_polynomials else jnp.int32)
            past = empty_past(self.memory, z, columns, groups)
        return PenaltyState(carried, past)

    def values(
        self,
        state: PenaltyState,
        z: Array,
        prediction: Array,
        group: Array | None = None,
        groups: int = 1,
    ) -> tuple[Array, PenaltyState]:
        """Return the dependences ``(columns * groups,)``, differentiable, and the next state.

        Args:
          state: of `init` or the step before.
          z: ``(n,)``, or one-hot ``(n, c)``, traced.
          prediction: ``(n,)`` or ``(n, columns)``, traced.
          group: ``(n,)`` where ``given`` is not None: integers, see `within`; with
            ``"polynomials"`` y itself.
          groups: how many groups there are, static.
        """
        columns, past = prediction_columns(prediction), state.past
        share: Any = 1.0
        if past is not None:
            z, columns, group, past, share = remembered(past, z, columns, group)
        value = self._penalised.value
        values, carried = self._over_groups(value, z, columns, group, groups, state.carried)
        if self.bias_corrected:
            values = self._corrected(values, z, group, groups, share)
        return values, PenaltyState(carried, past)

    def held_out(
        self,
        state: PenaltyState,
        z: Array,
        prediction: Array,
        group: Array | None = None,
        groups: int = 1,
        *,
        hgr: Array | None = None,
    ) -> Array:
        """Return the dependences of rows not trained on, with less upward bias where it is known.

        Args:
          state: of the training.
          z, prediction, group, groups: as in `values`, of other rows.
          hgr: what `hgr` returns of them, where that is at hand.
        """
        statistic = self._penalised
        if hgr is not None and statistic == KB(self.h, self.k):
            values = hgr
        else:

            def value(kept: Any, z: Array, p: Array, **conditions: Array) -> tuple[Array, Any]:
                return statistic.held_out(kept, z, p, **conditions), kept

            columns = prediction_columns(prediction)
            values, _ = self._over_groups(value, z, columns, group, groups, state.carried)
        if statistic.parameters(None) is None:
            return values
        return self._corrected(values, z, group, groups)

    def hgr(
        self, z: Array, prediction: Array, group: Array | None = None, groups: int = 1
    ) -> Array:
        """Return HGR-KB of these rows, whatever the measure, ``(columns * groups,)``: a yardstick.

        Args:
          z, prediction, group, groups: as in `values`.
        """
        value, columns = KB(self.h, self.k).value, prediction_columns(prediction)
        return self._over_groups(value, z, columns, group, groups, ())[0]

    def _over_groups(
        self,
        value: Callable[..., tuple[Array, Any]],
        z: Array,
        columns: Array,
        group: Array | None,
        groups: int,
        carried: Any,
    ) -> tuple[Array, Any]:
        """Map ``(state, z, prediction) -> (value, state)`` over columns and groups of rows."""

        def one(p: Array, kept: Any, **conditions: Array) -> tuple[Array, Any]:
            return value(kept, z, p, **conditions)

        if group is None:
            return over_columns(one, columns, carried)
        if self._given_polynomials:
            return over_columns(functools.partial(one, given=group), columns, carried)

        def in_groups(p: Array, kept: Any) -> tuple[Array, Any]:
            def measure(_: Array, p: Array, *, weights: Array) -> Array:
                return one(p, kept, weights=weights)[0]

            return within(measure, z, p, group, groups), kept

        values, carried = over_columns(in_groups, columns, carried)
        return values.ravel(), carried

    def _corrected(
        self, values: Array, z: Array, group: Array | None, groups: int, share: Any = 1.0
    ) -> Array:
        """Return values with less of their upward bias; ``share`` of the rows are no repetition."""
        if group is None or self._given_polynomials:
            rows = jnp.full(1, z.shape[0], values.dtype)
        else:
            members = group[:, None] == jnp.arange(groups)[None, :]
            rows = jnp.sum(members, axis=0).astype(values.dtype)
        sizes = jnp.tile(rows * share - self._known(), values.shape[0] // rows.shape[0])
        parameters = self._penalised.parameters(_levels(z))
        assert parameters is not None
        return corrected(values, sizes, parameters)

    def excess(self, values: Array) -> Array:
        """Return how far each value is above the threshold, see `hgr_jax.fairness.excess`."""
        return excess(values, self.threshold)

    @property
    def _penalised(self) -> Statistic:
        """The statistic; where nothing is penalised, one that carries nothing."""
        return self.statistic or KB(self.h, self.k)

    @property
    def _given_polynomials(self) -> bool:
        return self.given == "polynomials"

    def _known(self) -> int:
        """Return how many functions of y are taken out."""
        return self.k if self._given_polynomials and not callable(self.k) else 0

    def least_rows(self, z: Array) -> int:
        """Return the number of rows below which the measure is 1 and constrains nothing.

        Args:
          z: as `values` takes it.
        """
        least = self._penalised.least_rows(_levels(z))
        return least if least == 2 else least + self._known()


_DEFAULTS = {field.name: field.default for field in dataclasses.fields(Penalty)}


def _levels(z: Array) -> int | None:
    return None if z.ndim == 1 else z.shape[1]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PenaltyState:
    """What the statistic carries for each column, and the batches before this one."""

    carried: Any
    past: Past | None


def as_penalties(penalties: Penalty | Sequence[Penalty]) -> tuple[Penalty, ...]:
    """Return the penalties of a training, each with a threshold and a name of its own."""
    found = (penalties,) if isinstance(penalties, Penalty) else tuple(penalties)
    for penalty in found:
        if not isinstance(penalty, Penalty):
            raise TypeError(f"penalties must be Penalty objects; got {penalty!r}.")
        if penalty.threshold is None:
            raise TypeError("threshold must be a number in (0, 1]; got None.")
        check_threshold(np.asarray(penalty.threshold))
    names = [penalty.name for penalty in found]
    if len(set(names)) != len(names):
        raise ValueError(f"penalties must have different names; got {names}.")
    return found


def check_threshold(threshold: Any) -> None:
    """Raise unless a threshold is a number in (0, 1].

    What `jax.tree.map` or `jax.grad` may put in its place (tracers, JAX arrays) passes.
    """
    if isinstance(threshold, str | bool):
        raise TypeError(f"threshold must be a number in (0, 1]; got {threshold!r}.")
    if isinstance(threshold, int | float | np.number | np.ndarray) and not (
        np.shape(threshold) == () and 0 < threshold <= 1
    ):
        raise ValueError(f"threshold must be in (0, 1]; got {threshold}.")
