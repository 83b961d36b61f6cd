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

from hgr_jax import measures
from hgr_jax._checks import as_estimate, as_key, check_count, check_flag, check_kernel
from hgr_jax.core.kernels import KernelLike
from hgr_jax.fairness.batches import Past, empty_past, remembered
from hgr_jax.inference.bias import corrected
from hgr_jax.measures import kb, sk

DIFFERENTIABLE = (
    "ace",
    "chi2",
    "distance_correlation",
    "hsic",
    "kb",
    "kde",
    "kernel_cca",
    "neural",
    "pearson",
    "sk",
)
"""Measures that can be penalised by name: on a scale from 0 to 1, with a derivative."""


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


def within(
    measure: Callable[..., Array],
    z: Array,
    prediction: Array,
    group: Array,
    groups: int,
) -> Array:
    """Measure within each group of rows: the conditional dependence of equalised odds.

    Args:
      measure: ``(z, prediction, weights=...) -> scalar``, static: `hgr_jax.kb`, `hgr_jax.sk`, or
        one of your own that takes observation weights.
      z, prediction: ``(n,)`` or ``(n, p)``, traced.
      group: ``(n,)`` integers from 0 to ``groups - 1``, traced; any other value is in no group.
      groups: how many there are, static.

    Returns:
      Values ``(groups,)``; 0, with zero derivatives, for a group of fewer than two rows here.

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
        weights = jnp.where(enough, mask, True).astype(prediction.dtype)
        return jnp.where(enough, measure(z, prediction, weights=weights), 0)

    return jax.vmap(value)(jnp.arange(groups))


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
      measure: the name of a differentiable measure of this package ("kb", "sk", "neural",
        "kde", "hsic", ...) with its default options, or a function ``(z, prediction) -> scalar``;
        None to have HGR-KB in the history of a training, and nothing penalised.
      threshold: in (0, 1].
      h, k: kernels of z and of the prediction, for "kb" (as in `hgr_jax.kb`); "sk" has the
        degree ``k``.  Where z is categorical, one-hot encoded ``(n, c)``, h is 1.
      given: None, or penalise the dependence that is left *given y* (equalised odds):
        ``"classes"`` within each value of y, an int within so many quantile bins of y; of these
        "kb", "sk" or a function with a keyword ``weights``.  For a continuous y without bins,
        ``"polynomials"`` penalises what polynomials of y of the degree ``k`` leave, as ``given``
        of `hgr_jax.kb` (so that a prediction equal to y has 0): "kb", "sk" or a function with a
        keyword ``given``.
      bias_corrected: take away part of the upward bias of a sample value, see `corrected`; for
        "kb" and "sk".
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

    measure: str | Callable[..., Array] | None = "kb"
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
        named = isinstance(self.measure, str)
        if not (self.measure is None or callable(self.measure)) and (
            not named or self.measure not in DIFFERENTIABLE
        ):
            known = ", ".join(repr(name) for name in DIFFERENTIABLE)
            raise ValueError(
                f"measure must be one of {known}, a function (z, prediction) -> scalar, or None;"
                f" got {self.measure!r}."
            )
        check_threshold(self.threshold)
        check_kernel("h", self.h)
        check_kernel("k", self.k)
        check_count("memory", self.memory)
        check_flag("bias_corrected", self.bias_corrected)
        if self.given not in (None, "classes", "polynomials"):
            check_count("given", self.given, least=2)
        degrees = not callable(self.h) and not callable(self.k)
        if self.bias_corrected and not (self.measure in ("kb", "sk") and degrees):
            raise ValueError(
                "bias_corrected needs the measure 'kb' or 'sk' with degrees; got the measure"
                f" {self.measure!r}, h {self.h!r} and k {self.k!r}."
            )
        if self.given is not None and named and self.measure not in ("kb", "sk"):
            raise ValueError(
                "given needs the measure 'kb', 'sk' or a function (z, prediction, weights=...),"
                f" with 'polynomials' (z, prediction, given=...); got {self.measure!r}."
            )
        if not check_flag("warm_start", self.warm_start) and self.measure != "neural":
            raise ValueError(
                "warm_start is of the measure 'neural', others have none; got the measure"
                f" {self.measure!r}."
            )
        if not isinstance(self.name, str):
            raise TypeError(f"name must be a text; got {self.name!r}.")

    def init(self, z: Array, prediction: Array, *, key: Array | None = None) -> PenaltyState:
        """Return the state that is carried from step to step, from a first batch.

        Args:
          z: ``(n,)``, or ``(n, c)`` for a categorical attribute.
          prediction: ``(n,)`` or ``(n, columns)``.
          key: for "neural", whose networks are trained to the first batch here; key 0 if None.
        """
        z, columns = lax.stop_gradient(z), lax.stop_gradient(_prediction_columns(prediction))
        fits: Any = ()
        if self.measure == "neural":
            key = jax.random.key(0) if key is None else as_key(key)
            fit = functools.partial(measures.neural_fit, key=key)
            fits = _over_columns(lambda p: fit(z, p), columns)
        past = None
        if self.memory > 1:
            groups = jnp.zeros(len(z), columns.dtype if self._given_polynomials else jnp.int32)
            past = empty_past(self.memory, z, columns, groups)
        return PenaltyState(fits, past)

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
        columns, past = _prediction_columns(prediction), state.past
        share: Any = 1.0
        if past is not None:
            z, columns, group, past, share = remembered(past, z, columns, group)
        values, fits = self._measured(state.fits, z, columns, group, groups)
        if self.bias_corrected:
            if group is None or self._given_polynomials:
                rows = jnp.full(1, z.shape[0], values.dtype)
            else:
                members = group[:, None] == jnp.arange(groups)[None, :]
                rows = jnp.sum(members, axis=0).astype(values.dtype)
            sizes = jnp.tile(rows * share - self._known(), columns.shape[0])
            values = corrected(values, sizes, self._parameters(z))
        return values, PenaltyState(fits, past)

    def _measured(
        self, fits: Any, z: Array, columns: Array, group: Array | None, groups: int
    ) -> tuple[Array, Any]:
        if self.measure == "neural":
            key = jax.random.key(0)  # of the networks that are trained anew
            fit = functools.partial(measures.neural_fit, key=key)
            if self.warm_start:
                fits = _over_columns(lambda p, fitted: fit(z, p, init=fitted), columns, fits)
            else:
                fits = _over_columns(lambda p: fit(z, p), columns)
            return fits.correlation, lax.stop_gradient(fits)
        return self._dependence(self._function(z), z, columns, group, groups), fits

    def hgr(
        self, z: Array, prediction: Array, group: Array | None = None, groups: int = 1
    ) -> Array:
        """Return HGR-KB of these rows, whatever the measure, ``(columns * groups,)``: a yardstick.

        Args:
          z, prediction, group, groups: as in `values`.
        """
        measure = functools.partial(kb, h=self._h(z), k=self.k, **self._given_degree)
        return self._dependence(measure, z, _prediction_columns(prediction), group, groups)

    def _dependence(
        self, measure: Any, z: Array, columns: Array, group: Array | None, groups: int
    ) -> Array:
        if group is None:
            return _over_columns(lambda p: as_estimate(measure, z, p, {}), columns)
        if self._given_polynomials:
            return _over_columns(lambda p: as_estimate(measure, z, p, {"given": group}), columns)
        return _over_columns(lambda p: within(measure, z, p, group, groups), columns).ravel()

    def excess(self, values: Array) -> Array:
        """Return how far each value is above the threshold, see `hgr_jax.fairness.excess`."""
        return excess(values, self.threshold)

    def _h(self, z: Array) -> Any:
        return 1 if z.ndim == 2 and not callable(self.h) else self.h

    def _function(self, z: Array) -> Callable[..., Array]:
        if callable(self.measure):
            return self.measure
        if self.measure == "kb":
            return functools.partial(kb, h=self._h(z), k=self.k, **self._given_degree)
        if self.measure == "sk":
            return functools.partial(sk, d=self.k, **self._given_degree)
        if self.measure == "pearson":
            return lambda z, p: jnp.abs(measures.pearson(z, p))
        return getattr(measures, str(self.measure))

    @property
    def _given_polynomials(self) -> bool:
        return self.given == "polynomials"

    @property
    def _given_degree(self) -> dict[str, Any]:
        # Of a lower degree, polynomials of y would leave some of those of a prediction equal to y.
        return {"given_degree": self.k} if self._given_polynomials else {}

    def _known(self) -> int:
        """Return how many functions of y are taken out."""
        return self.k if self._given_polynomials and not callable(self.k) else 0

    def _parameters(self, z: Array) -> int:
        levels = 1 if z.ndim == 1 else z.shape[1] - 1
        h, k = self.h, self.k
        assert not callable(h)
        assert not callable(k)
        return max(k, levels) if self.measure == "sk" else (h if z.ndim == 1 else levels) + k - 1

    def least_rows(self, z: Array) -> int:
        """Return the number of rows below which "kb" and "sk" are 1 and constrain nothing.

        Args:
          z: as `values` takes it.
        """
        if self.measure not in ("kb", "sk") or callable(self.h) or callable(self.k):
            return 2
        return self._parameters(z) + 3 + self._known()


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PenaltyState:
    """Transformations of the step before, and the batches before this one."""

    fits: Any
    past: Past | None


def _over_columns(function: Callable[..., Any], columns: Array, *carried: Any) -> Any:
    """Map `function` over columns (and what is carried for each); one without `jax.vmap`."""
    if columns.shape[0] > 1:
        return jax.vmap(function)(columns, *carried)
    first = jax.tree.map(lambda leaf: leaf[0], (columns, *carried))
    return jax.tree.map(lambda leaf: leaf[None], function(*first))


def _prediction_columns(prediction: Array) -> Array:
    """Return predictions ``(columns, n)``."""
    return prediction[None, :] if prediction.ndim == 1 else prediction.T


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
