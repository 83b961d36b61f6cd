"""Statistics that can be penalised: dependences of a prediction on an attribute."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from hgr_jax import measures
from hgr_jax._checks import (
    as_estimate,
    as_key,
    as_positive,
    check_count,
    check_flag,
    check_kernel,
)
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
      categorical: whether ``value`` takes one-hot columns ``z (n, c)``.
      weighted: whether it takes ``weights``, as ``Penalty(given="classes")`` and ``sample_weight``
        need.
      partial: whether it takes ``given``, as ``Penalty(given="polynomials")`` needs.
      kernels: kernels of z and of the prediction, None for no kernel.

    Example:
      >>> import jax.numpy as jnp
      >>> from hgr_jax.fairness import KB, Penalty, Statistic
      >>> class Moving(Statistic):
      ...     '''HGR-KB, averaged over steps.'''
      ...     def init(self, z, prediction, *, key=None):
      ...         return jnp.zeros(())
      ...     def value(self, state, z, prediction, **conditions):
      ...         now, _ = KB(2, 2).value((), z, prediction)
      ...         mean = (state + now) / 2
      ...         return mean, mean
      >>> z = jnp.linspace(-1, 1, 200)
      >>> penalty = Penalty(Moving(), threshold=0.3)
      >>> values, state = penalty.values(penalty.init(z, z), z, z**2)
      >>> print(f"{values[0]:.2f}")
      0.50
    """

    categorical: bool = False
    weighted: bool = False
    partial: bool = False

    @property
    def title(self) -> str:
        """The name in tables and pictures."""
        return str(self)

    @property
    def kernels(self) -> tuple[KernelLike | None, KernelLike | None]:
        """The kernels of z and of the prediction, None for no kernel."""
        return None, None

    def init(self, z: Array, prediction: Array, *, key: Array | None = None) -> Any:
        """Return the state before the first step, made from a first batch and a random key."""
        del z, prediction, key
        return ()

    @abc.abstractmethod
    def value(
        self, state: Any, z: Array, prediction: Array, **conditions: Array
    ) -> tuple[Array, Any]:
        """Return the dependence, a scalar with derivatives, and the next state.

        Args:
          state: of `init`, or of the step before.
          z: ``(n,)``, or one-hot ``(n, c)``, traced.
          prediction: ``(n,)``, traced.
          conditions: traced ``weights (n,)``, where 0 leaves a row out, if `weighted`; ``given
            (n,)``, whose polynomials are removed from z and prediction, if `partial`.
        """

    def least_rows(self, levels: int | None) -> int:
        """Return the number of rows below which the value constrains nothing.

        ``levels`` is their number in a category z, None for numbers.
        """
        del levels
        return 2

    def with_supported_degree(self, distinct: int) -> Statistic:
        """Return the statistic with a degree of z that its ``distinct`` values support."""
        del distinct
        return self


class Projection(Statistic):
    """A correlation of projections on kernels, with weights, given variables or categories."""

    categorical = weighted = partial = True

    def value(
        self, state: Any, z: Array, prediction: Array, **conditions: Array
    ) -> tuple[Array, Any]:
        """Return the dependence and the next state."""
        h, k = self.kernels
        if z.ndim == 2 and not callable(h):
            h = 1  # of one-hot columns the columns themselves
        options: dict[str, Any] = dict(conditions)
        if "given" in options:  # a lower degree would leave a dependence of a prediction equal to y
            options["given_degree"] = k
        return self._dependence(z, prediction, h, k, **options), state

    def least_rows(self, levels: int | None) -> int:
        """Return the number of rows below which it constrains nothing."""
        functions = self.functions(levels)
        return 2 if functions is None else sum(functions) + 2

    def functions(self, levels: int | None) -> tuple[int, int] | None:
        """Return the numbers of functions of z and the prediction; None for callable kernels."""
        h, k = self.kernels
        if callable(h) or not isinstance(k, int):
            return None
        return (h or 1) if levels is None else levels - 1, k

    @abc.abstractmethod
    def _dependence(self, z: Array, prediction: Array, h: Any, k: Any, **options: Any) -> Array:
        """Return the dependence by kernels h of z and k of the prediction."""


@dataclasses.dataclass(frozen=True)
class KB(Projection):
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

    def __post_init__(self) -> None:
        _set(self, h=check_kernel("h", self.h), k=check_kernel("k", self.k))

    @property
    def kernels(self) -> tuple[KernelLike, KernelLike]:
        """Kernels of z and of the prediction."""
        return self.h, self.k

    @property
    def title(self) -> str:
        """The name in tables and pictures."""
        return f"HGR-KB({_shown(self.h)}, {_shown(self.k)})"

    def with_supported_degree(self, distinct: int) -> Statistic:
        """Return the statistic with a degree of z that its ``distinct`` values support."""
        return self if callable(self.h) else dataclasses.replace(self, h=min(self.h, distinct - 1))

    def _dependence(self, z: Array, prediction: Array, h: Any, k: Any, **options: Any) -> Array:
        return measures.kb(z, prediction, h, k, **options)


@dataclasses.dataclass(frozen=True)
class SK(Projection):
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

    def __post_init__(self) -> None:
        _set(self, d=check_count("d", self.d))

    @property
    def kernels(self) -> tuple[None, int]:
        """Kernels of z and of the prediction."""
        return None, self.d

    @property
    def title(self) -> str:
        """The name in tables and pictures."""
        return f"HGR-SK({_shown(self.d)})"

    def _dependence(self, z: Array, prediction: Array, h: Any, k: Any, **options: Any) -> Array:
        if z.ndim == 2:
            return measures.kb(z, prediction, 1, k, **options)
        return measures.sk(z, prediction, d=k, **options)


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

    categorical = weighted = True

    @property
    def title(self) -> str:
        """The name in tables and pictures."""
        return "HGR"

    def value(
        self, state: Any, z: Array, prediction: Array, **conditions: Array
    ) -> tuple[Array, Any]:
        """Return the dependence and the next state."""
        if z.ndim == 2:
            z = jnp.argmax(z, axis=1).astype(prediction.dtype)
        neighbours = max(math.isqrt(len(prediction)) // 2, 1)
        return hgr_across_neighbours(z, prediction, neighbours, **conditions), state

    def least_rows(self, levels: int | None) -> int:
        """Return the number of rows below which there is no value."""
        return 5


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

    categorical = weighted = True

    @property
    def title(self) -> str:
        """The name in tables and pictures."""
        return "demographic parity"

    def value(
        self, state: Any, z: Array, prediction: Array, **conditions: Array
    ) -> tuple[Array, Any]:
        """Return the difference and the next state."""
        if z.ndim != 2:
            raise ValueError(
                "DemographicParity needs the levels of a category, texts or one-hot columns; got"
                f" numbers z of shape {z.shape}. Cut them into groups, or take KB or HGR."
            )
        weights = conditions.get("weights", jnp.ones_like(prediction))
        total = weights @ z
        means = (weights * prediction) @ z / jnp.where(total > 0, total, 1)
        infinity = jnp.asarray(jnp.inf, means.dtype)
        high = jnp.max(jnp.where(total > 0, means, -infinity))
        low = jnp.min(jnp.where(total > 0, means, infinity))
        return high - low, state


@dataclasses.dataclass(frozen=True)
class Neural(Statistic):
    """HGR-NN as a statistic: `hgr_jax.neural`, whose networks are the state.

    Args:
      steps: training steps of the networks at each step, static; None for 50 with a warm start,
        else 1000.
      learning_rate: of their Adam, static.
      warm_start: go on from the networks of the step before (at first, from networks trained for
        1000 steps on a first batch); else train new networks from the same initial weights.

    Example:
      >>> import jax.numpy as jnp
      >>> from hgr_jax.fairness import Neural
      >>> z = jnp.linspace(-1, 1, 101)
      >>> statistic = Neural(20)
      >>> value, state = statistic.value(statistic.init(z, z), z, z + z**2)
      >>> bool(value > 0.8)
      True
    """

    steps: int | None = None
    _: dataclasses.KW_ONLY
    learning_rate: float = 5e-4
    warm_start: bool = True

    def __post_init__(self) -> None:
        if self.steps is not None:
            _set(self, steps=check_count("steps", self.steps))
        as_positive("learning_rate", self.learning_rate, np.float32)
        _set(self, learning_rate=float(self.learning_rate))
        check_flag("warm_start", self.warm_start)

    categorical = True

    def init(self, z: Array, prediction: Array, *, key: Array | None = None) -> Any:
        """Return networks trained on a first batch; nothing without a warm start."""
        if not self.warm_start:
            return ()
        key = jax.random.key(0) if key is None else as_key(key)
        return self._fit(z, prediction, key=key)

    def value(
        self, state: Any, z: Array, prediction: Array, **conditions: Array
    ) -> tuple[Array, Any]:
        """Return the dependence and the next state."""
        options = {"init": state} if self.warm_start else {}
        key = jax.random.key(0)  # of the networks that are trained anew
        fit = self._fit(z, prediction, key=key, steps=self.steps, **options)
        return fit.correlation, lax.stop_gradient(fit) if self.warm_start else ()

    def _fit(self, z: Array, prediction: Array, **options: Any) -> Any:
        rate = self.learning_rate
        return measures.neural_fit(z, prediction, learning_rate=rate, **options)


@dataclasses.dataclass(frozen=True)
class Function(Statistic):
    """A function ``(z, prediction) -> scalar`` as a statistic, without a state.

    `Penalty` wraps a plain function as one that takes everything.  If you set False for options it
    does not take, a penalty that needs them is refused before the training.

    Args:
      function: static; with keywords ``weights`` and ``given`` as the following say.
      categorical, weighted, partial: as of `Statistic`.

    Raises:
      TypeError: for an object that is not callable, or has no hash.

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
    categorical: bool = True
    weighted: bool = True
    partial: bool = True

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(
                f"function must be callable, (z, prediction) -> scalar; got {self.function!r}."
            )
        for name in ("categorical", "weighted", "partial"):
            check_flag(name, getattr(self, name))

    @property
    def title(self) -> str:
        """The name in tables and pictures."""
        return str(getattr(self.function, "__name__", self.function))

    def value(
        self, state: Any, z: Array, prediction: Array, **conditions: Array
    ) -> tuple[Array, Any]:
        """Return the dependence and the next state."""
        return as_estimate(self.function, z, prediction, conditions), state


def _shown(kernel: KernelLike) -> str:
    return str(getattr(kernel, "__name__", kernel))


def _set(statistic: Statistic, **checked: Any) -> None:
    for name, value in checked.items():
        object.__setattr__(statistic, name, value)


def absolute_pearson(z: Array, prediction: Array) -> Array:
    """Return |Pearson's correlation|."""
    return jnp.abs(measures.pearson(z, prediction))


def _plain(function: Callable[..., Array], *, categorical: bool = False) -> Function:
    return Function(function, categorical=categorical, weighted=False, partial=False)


NAMED_STATISTICS: dict[str, Statistic] = {
    "ace": _plain(measures.ace),
    "chi2": _plain(measures.chi2),
    "demographic_parity": DemographicParity(),
    "distance_correlation": _plain(measures.distance_correlation, categorical=True),
    "hgr": HGR(),
    "hsic": _plain(measures.hsic, categorical=True),
    "kb": KB(),
    "kde": _plain(measures.kde),
    "kernel_cca": _plain(measures.kernel_cca, categorical=True),
    "neural": Neural(),
    "pearson": _plain(absolute_pearson),
    "sk": SK(),
}
"""Statistics by the names of differentiable measures from 0 to 1, with their default options."""


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


def name_of(statistic: Statistic) -> str:
    """Return the short name of a statistic, or its text."""
    names = (name for name, other in NAMED_STATISTICS.items() if other == statistic)
    return next(names, str(statistic))
