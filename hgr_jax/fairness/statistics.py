"""Statistics that can be penalised: dependences of a prediction on an attribute."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from hgr_jax import measures
from hgr_jax._checks import check_count, check_kernel
from hgr_jax.core.arrays import as_estimate, as_key
from hgr_jax.core.kernels import KernelLike
from hgr_jax.measures.hgr import hgr_across_neighbours


class Statistic(abc.ABC):
    """A dependence of a prediction on a protected attribute, for a `Penalty`.

        state = statistic.init(z, prediction, key=key)
        value, state = statistic.value(state, z, prediction)      # every step

    Derive your own statistic if it needs a state; else a function is enough.  It must be hashable,
    as a frozen dataclass is (equal statistics share compiled programs), and its state a pytree of
    constant shapes.

    Attributes:
      weighted: whether it takes ``weights``, as ``given`` of a `Penalty` and ``sample_weight``
        need.

    Example:
      >>> import jax.numpy as jnp
      >>> from hgr_jax.fairness import KB, Penalty, Statistic
      >>> class Moving(Statistic):
      ...     '''HGR-KB, averaged over steps.'''
      ...     def init(self, z, prediction, *, key=None):
      ...         return jnp.zeros(())
      ...     def value(self, state, z, prediction, weights=None):
      ...         now, _ = KB(2, 2).value((), z, prediction)
      ...         mean = (state + now) / 2
      ...         return mean, mean
      >>> z = jnp.linspace(-1, 1, 200)
      >>> penalty = Penalty(Moving(), threshold=0.3)
      >>> values, state = penalty.values(penalty.init(z, z), z, z**2)
      >>> print(f"{values[0]:.2f}")
      0.50
    """

    weighted: bool = False

    @property
    def title(self) -> str:
        """The name in tables and pictures."""
        return str(self)

    def init(self, z: Array, prediction: Array, *, key: Array | None = None) -> Any:
        """Return the state before the first step, made from a first batch and a random key."""
        del z, prediction, key
        return ()

    @abc.abstractmethod
    def value(
        self, state: Any, z: Array, prediction: Array, weights: Array | None = None
    ) -> tuple[Array, Any]:
        """Return the dependence, a scalar with derivatives, and the next state.

        Args:
          state: of `init`, or of the step before.
          z: ``(n,)``, or one-hot ``(n, c)``, traced.
          prediction: ``(n,)``, traced.
          weights: ``(n,)``, traced, where 0 leaves a row out, or None; only if `weighted`.
        """


@dataclasses.dataclass(frozen=True)
class KB(Statistic):
    """HGR-KB as a statistic: `hgr_jax.kb`.

    Args:
      h, k: kernels of z and of the prediction, static; h is 1 for one-hot columns ``z (n, c)``.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.fairness import KB
      >>> z, prediction = np.random.default_rng(0).normal(size=(2, 1000))  # independent
      >>> value, _ = KB(2, 2).value((), z, prediction)
      >>> print(f"{value:.2f}")
      0.07
    """

    h: KernelLike = 5
    k: KernelLike = 5

    weighted = True

    def __post_init__(self) -> None:
        _set(self, h=check_kernel("h", self.h), k=check_kernel("k", self.k))

    @property
    def title(self) -> str:
        """The name in tables and pictures."""
        return f"HGR-KB({_shown(self.h)}, {_shown(self.k)})"

    def value(
        self, state: Any, z: Array, prediction: Array, weights: Array | None = None
    ) -> tuple[Array, Any]:
        """Return the dependence and the next state."""
        h = 1 if z.ndim == 2 and not callable(self.h) else self.h  # of the columns themselves
        return measures.kb(z, prediction, h, self.k, weights=weights), state


@dataclasses.dataclass(frozen=True)
class SK(Statistic):
    """HGR-SK as a statistic: `hgr_jax.sk`; HGR-KB(1, d) for one-hot columns ``z (n, c)``.

    Args:
      d: degree of one variable, while the other is plain, in the better direction; static.

    Example:
      >>> import jax.numpy as jnp
      >>> from hgr_jax.fairness import SK
      >>> z = jnp.linspace(-1, 1, 200)
      >>> value, _ = SK(2).value((), z, z**2)
      >>> print(f"{value:.3f}")
      1.000
    """

    d: int = 5

    weighted = True

    def __post_init__(self) -> None:
        _set(self, d=check_count("d", self.d))

    @property
    def title(self) -> str:
        """The name in tables and pictures."""
        return f"HGR-SK({self.d})"

    def value(
        self, state: Any, z: Array, prediction: Array, weights: Array | None = None
    ) -> tuple[Array, Any]:
        """Return the dependence and the next state."""
        if z.ndim == 2:
            return KB(1, self.d).value(state, z, prediction, weights)
        return measures.sk(z, prediction, d=self.d, weights=weights), state


@dataclasses.dataclass(frozen=True)
class HGR(Statistic):
    """HGR of ranks as a statistic: `hgr_jax.hgr`, with a smoother derivative.

    Strictly monotone maps of the prediction do not change it, so none hides a dependence.  The
    slope of its ranks is that across the nearest sqrt(n) rows, as that between the nearest two,
    where predictions nearly tie, is mostly noise.  One-hot columns ``z (n, c)`` count as the
    numbers of their levels, of whose ranks c - 1 functions are all.

    Example:
      >>> import jax.numpy as jnp
      >>> from hgr_jax.fairness import HGR
      >>> z = jnp.linspace(-1, 1, 200)
      >>> values = [HGR().value((), z, change(z**2))[0] for change in (jnp.exp, jnp.sqrt)]
      >>> print(f"{values[0]:.3f} {values[1]:.3f}")
      1.000 1.000
    """

    weighted = True

    title = "HGR"

    def value(
        self, state: Any, z: Array, prediction: Array, weights: Array | None = None
    ) -> tuple[Array, Any]:
        """Return the dependence and the next state."""
        if z.ndim == 2:
            z = jnp.argmax(z, axis=1).astype(prediction.dtype)
        neighbours = max(math.isqrt(len(prediction)) // 2, 1)
        return hgr_across_neighbours(z, prediction, neighbours, weights=weights), state


@dataclasses.dataclass(frozen=True)
class DemographicParity(Statistic):
    """The largest difference of mean predictions between levels of a category, as a statistic.

        DemographicParity = max_i E[p | z = i] - min_j E[p | z = j]

    Of decisions of 0 and 1 it is the largest difference of positive rates; of others it is in the
    unit of the prediction.  It takes one-hot columns ``z (n, c)``, which texts are encoded as.  A
    level without rows (or weights) does not count.

    Example:
      >>> import jax.numpy as jnp
      >>> from hgr_jax.fairness import DemographicParity
      >>> z = jnp.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
      >>> value, _ = DemographicParity().value((), z, jnp.array([1.0, 1.0, 1.0, 0.0]))
      >>> print(value)
      0.5
    """

    weighted = True

    title = "demographic parity"

    def value(
        self, state: Any, z: Array, prediction: Array, weights: Array | None = None
    ) -> tuple[Array, Any]:
        """Return the difference and the next state."""
        if z.ndim != 2:
            raise ValueError(f"z must be one-hot columns (n, c); got numbers of shape {z.shape}.")
        weights = jnp.ones_like(prediction) if weights is None else weights
        total = weights @ z
        means = (weights * prediction) @ z / jnp.where(total > 0, total, 1)
        infinity = jnp.asarray(jnp.inf, means.dtype)
        high = jnp.max(jnp.where(total > 0, means, -infinity))
        low = jnp.min(jnp.where(total > 0, means, infinity))
        return high - low, state


@dataclasses.dataclass(frozen=True)
class Neural(Statistic):
    """HGR-NN as a statistic: `hgr_jax.neural`, whose networks are the state.

    Each step goes on from the networks of the step before; the first from networks that were
    trained for 1000 steps on a first batch.

    Args:
      steps: training steps of the networks at each step, static.

    Example:
      >>> import jax.numpy as jnp
      >>> from hgr_jax.fairness import Neural
      >>> z = jnp.linspace(-1, 1, 101)
      >>> statistic = Neural(20)
      >>> value, state = statistic.value(statistic.init(z, z), z, z + z**2)
      >>> bool(value > 0.8)
      True
    """

    steps: int = 50

    def __post_init__(self) -> None:
        _set(self, steps=check_count("steps", self.steps))

    def init(self, z: Array, prediction: Array, *, key: Array | None = None) -> Any:
        """Return networks trained on a first batch."""
        key = jax.random.key(0) if key is None else as_key(key)
        return measures.neural_fit(z, prediction, key=key)

    def value(
        self, state: Any, z: Array, prediction: Array, weights: Array | None = None
    ) -> tuple[Array, Any]:
        """Return the dependence and the next state."""
        fit = measures.neural_fit(
            z, prediction, key=jax.random.key(0), steps=self.steps, init=state
        )
        return fit.correlation, lax.stop_gradient(fit)


@dataclasses.dataclass(frozen=True)
class Function(Statistic):
    """A function ``(z, prediction) -> scalar`` as a statistic, without a state.

    `Penalty` wraps a plain function as one that takes weights.  With ``weighted=False`` a penalty
    that needs them is refused before the training.

    Args:
      function: static; with a keyword ``weights`` if it is weighted.
      weighted: as of `Statistic`.

    Example:
      >>> import jax.numpy as jnp
      >>> from hgr_jax.fairness import Function
      >>> covariance = Function(lambda z, p: jnp.abs(jnp.mean((z - z.mean()) * p)), weighted=False)
      >>> value, _ = covariance.value((), jnp.array([0.0, 1.0]), jnp.array([0.0, 1.0]))
      >>> print(value)
      0.25
    """

    function: Callable[..., Array]
    _: dataclasses.KW_ONLY
    weighted: bool = True

    @property
    def title(self) -> str:
        """The name in tables and pictures."""
        return str(getattr(self.function, "__name__", self.function))

    def value(
        self, state: Any, z: Array, prediction: Array, weights: Array | None = None
    ) -> tuple[Array, Any]:
        """Return the dependence and the next state."""
        options = {} if weights is None else {"weights": weights}
        return as_estimate(self.function, z, prediction, options), state


def _shown(kernel: KernelLike) -> str:
    return str(getattr(kernel, "__name__", kernel))


def _set(statistic: Statistic, **checked: Any) -> None:
    for name, value in checked.items():
        object.__setattr__(statistic, name, value)


def absolute_pearson(z: Array, prediction: Array) -> Array:
    """Return |Pearson's correlation|."""
    return jnp.abs(measures.pearson(z, prediction))


NAMED_STATISTICS: dict[str, Statistic] = {
    "demographic_parity": DemographicParity(),
    "distance_correlation": Function(measures.distance_correlation, weighted=False),
    "hgr": HGR(),
    "hsic": Function(measures.hsic, weighted=False),
    "kb": KB(),
    "neural": Neural(),
    "pearson": Function(absolute_pearson, weighted=False),
    "sk": SK(),
}
"""Statistics by their names, with default options."""


def as_statistic(value: Any) -> Statistic:
    """Return a statistic, from one, its name, or a function ``(z, prediction) -> scalar``."""
    if isinstance(value, Statistic):
        return value
    if isinstance(value, str) and value in NAMED_STATISTICS:
        return NAMED_STATISTICS[value]
    if isinstance(value, type):
        raise ValueError(f"statistic is a class; make one of it: {value.__name__}().")
    if callable(value):
        return Function(value)
    names = ", ".join(map(repr, NAMED_STATISTICS))
    raise ValueError(
        f"statistic must be one of {names}, a statistic as KB(5, 5), or a function"
        f" (z, prediction) -> scalar; got {value!r}."
    )
