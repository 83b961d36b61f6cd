"""Kernels of one variable for what polynomials cannot follow: kinks, jumps, waves, categories.

Each is a frozen dataclass, so that two of the same values share their compiled programs.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from hgr_jax._arrays import is_traced
from hgr_jax._checks import as_real_array, check_count
from hgr_jax.core.kernels import Indicators


@dataclasses.dataclass(frozen=True)
class Splines:
    """The kernel that `splines` makes: ``x (n,)`` to all B-splines but the first."""

    keypoints: tuple[float, ...]
    degree: int

    def __call__(self, x: Array) -> Array:
        """Return the features ``(n, len(keypoints) - 2 + degree)``, by the recursion of de Boor."""
        x = _one_variable("splines", x)
        inner = np.asarray(self.keypoints, x.dtype)
        knots = np.pad(inner, self.degree, mode="edge")
        last = len(knots) - 1 - self.degree  # the place of the last keypoint
        at = jnp.clip(x, inner[0], inner[-1])[:, None]
        until = np.where(np.arange(len(knots) - 1) == last - 1, np.inf, knots[1:]).astype(x.dtype)
        values = ((at >= knots[None, :-1]) & (at < until[None, :])).astype(x.dtype)
        for order in range(1, self.degree + 1):
            width = knots[order:] - knots[:-order]
            # Of width 0 are functions that are 0 throughout.
            inverse = np.divide(1, width, out=np.zeros_like(width), where=width > 0)[None, :]
            rising = (at - knots[None, :-order]) * inverse
            values = rising[:, :-1] * values[:, :-1] + (1 - rising[:, 1:]) * values[:, 1:]
        # They sum to 1, and a constant is never needed.
        return jnp.where(jnp.isfinite(x)[:, None], values[:, 1:], jnp.nan)


def splines(keypoints: ArrayLike, degree: int = 3) -> Splines:
    """Return the kernel of piecewise polynomials of one variable, constant beyond its keypoints.

    They have pieces of degree d between neighbouring keypoints, and d - 1 continuous
    derivatives at these: the span of B-splines.

    Args:
      keypoints: at least 2 rising numbers, such as `quantiles` gives; ends included.
      degree: of the pieces, int >= 1.

    Returns:
      A hashable callable ``(n,) -> (n, m - 2 + degree)``, to pass as ``h``, ``k`` or ``d``.

    Raises:
      TypeError, ValueError: for keypoints that are no rising finite numbers, or another degree;
        and where it is applied, for several variables.

    Source: de Boor, "A Practical Guide to Splines" (1978).

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> from hgr_jax.kernels import splines
      >>> a = jnp.linspace(-1, 1, 201)
      >>> b = jnp.cos(9 * a)
      >>> for kernel in (7, splines([-1, -0.5, 0, 0.5, 1])):  # 7 functions each
      ...     print(f"{hgr_jax.kb(a, b, h=kernel, k=1):.2f}")
      0.70
      0.83
    """
    return Splines(_rising("keypoints", keypoints), check_count("degree", degree))


def hats(keypoints: ArrayLike) -> Splines:
    """Return the kernel of piecewise linear functions, constant beyond their keypoints.

    Feature j is 1 at keypoint j, 0 at the others, and linear between: a lattice of one dimension.
    The first is left out, as a constant is never needed.

    Args:
      keypoints: at least 2 rising numbers, such as `quantiles` gives; ends included.

    Returns:
      A hashable callable ``(n,) -> (n, len(keypoints) - 1)``, to pass as ``h``, ``k`` or ``d``.

    Raises:
      TypeError, ValueError: for keypoints that are no rising finite numbers; and where it is
        applied, for several variables.

    Source: Garcia & Gupta, "Lattice Regression" (2009).

    Example:
      >>> import jax.numpy as jnp
      >>> from hgr_jax.kernels import hats
      >>> print(hats([0, 1, 3])(jnp.array([-1.0, 0.5, 1.0, 2.0, 9.0])))
      [[0.  0. ]
       [0.5 0. ]
       [1.  0. ]
       [0.5 0.5]
       [0.  1. ]]
    """
    return splines(keypoints, degree=1)


@dataclasses.dataclass(frozen=True)
class Fourier:
    """The kernel that `fourier` makes."""

    terms: int
    period: float

    def __call__(self, x: Array) -> Array:
        """Return the features ``(n, 2 terms)``: cosines, then sines."""
        x = _one_variable("fourier", x)
        rates = np.arange(1, self.terms + 1) * (2 * math.pi / self.period)
        angle = x[:, None] * rates.astype(x.dtype)[None, :]
        return jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], axis=1)


def fourier(terms: int, period: float = 2 * math.pi) -> Fourier:
    """Return the kernel of trigonometric polynomials: cosines and sines of up to ``terms`` waves.

        cos(2 pi j x / period), sin(2 pi j x / period),   j = 1 .. terms

    Args:
      terms: int >= 1.
      period: above 0, in the units of the variable: of an angle in radians 2 pi, of hours 24.

    Returns:
      A hashable callable ``(n,) -> (n, 2 terms)``, to pass as ``h``, ``k`` or ``d``.

    Raises:
      TypeError, ValueError: for other terms or periods; and where it is applied, for several
        variables.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> from hgr_jax.kernels import fourier
      >>> hour = jnp.arange(100.0) % 24
      >>> load = jnp.cos(2 * jnp.pi * (hour - 18) / 24)
      >>> print(f"{hgr_jax.kb(hour, load, h=fourier(1, period=24), k=1):.3f}")
      1.000
    """
    length = _finite("period", period)
    if len(length) != 1 or length[0] <= 0:
        raise ValueError(f"period must be one number above 0; got {period!r}.")
    return Fourier(check_count("terms", terms), length[0])


@dataclasses.dataclass(frozen=True)
class OneHot:
    """The kernel that `indicators` makes of values."""

    levels: tuple[float, ...]

    def __call__(self, x: Array) -> Array:
        """Return the features ``(n, len(levels))``."""
        x = _one_variable("indicators", x)
        same = x[:, None] == np.asarray(self.levels, x.dtype)[None, :]
        return jnp.where(jnp.isfinite(x)[:, None], same.astype(x.dtype), jnp.nan)


def indicators(levels: int | Sequence[float]) -> Callable[[Array], Array]:
    """Return the kernel of all functions of a variable of few values: one-hot features.

    Args:
      levels: how many codes 0, 1, ... there are, or the values themselves, rising; another value of
        the data is in none.

    Returns:
      A hashable callable ``(n,) -> (n, m)``, to pass as ``h``, ``k`` or ``d``: of codes
      `Indicators`.

    Raises:
      TypeError, ValueError: for levels that are neither; and where it is applied, for several
        variables.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> from hgr_jax.kernels import indicators
      >>> stars, price = jnp.array([1, 2, 5, 1, 2, 5]), jnp.array([3.0, 9.0, 3.1, 2.9, 9.0, 3.0])
      >>> print(f"{hgr_jax.kb(stars, price, h=indicators([1, 2, 5]), k=1):.3f}")
      1.000
    """
    if np.ndim(levels) == 0:
        return Indicators(check_count("levels", levels))
    return OneHot(_rising("levels", levels))


def quantiles(x: ArrayLike, count: int) -> tuple[float, ...]:
    """Return up to ``count`` quantiles of data, as keypoints of `hats` and `splines`.

    They are those of (j + 1/2) / count for j = 0 .. count - 1, without repetitions.  Beyond the
    first and the last transformations are constant, so that an outlier counts no more than other
    rows.  Dependence of tails alone takes keypoints of your own, further out.

    Args:
      x: real array ``(n,)``, concrete: a kernel is static.
      count: int >= 2.

    Returns:
      Rising numbers of Python.

    Raises:
      TypeError, ValueError: for traced data, other shapes, or a count below 2; and where x is not
        finite, or all quantiles are the same.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.kernels import quantiles
      >>> print(quantiles(np.arange(101.0), 5))
      (10.0, 30.0, 50.0, 70.0, 90.0)
    """
    if is_traced(x):
        raise TypeError("x must be concrete, as keypoints are static; it is traced.")
    values = np.asarray(as_real_array("x", x, max_ndim=1), np.float64)
    count = check_count("count", count, 2)
    if not np.isfinite(values).all():
        raise ValueError("x must be finite to have quantiles; leave out its missing values first.")
    found = np.unique(np.quantile(values, (np.arange(count) + 0.5) / count))
    if len(found) < 2:
        raise ValueError(f"x must vary; all of its {count} quantiles are {found[0]}.")
    return tuple(found.tolist())


def _one_variable(name: str, x: Array) -> Array:
    if x.ndim == 2 and x.shape[1] == 1:
        return x[:, 0]
    if x.ndim != 1:
        raise ValueError(
            f"the kernel {name} is one of a single variable (n,); got data of shape"
            f" {tuple(x.shape)}."
        )
    return x


def _finite(name: str, values: Any) -> list[float]:
    """Return static finite numbers, one or a sequence, as a list."""
    if is_traced(values):
        raise TypeError(f"{name} must be static numbers, but they are traced; close over them.")
    host = np.asarray(values)
    if host.dtype.kind not in "iuf" or host.ndim > 1:
        raise TypeError(f"{name} must be numbers; got {values!r}.")
    if not np.isfinite(host).all():
        raise ValueError(f"{name} must be finite; got {values!r}.")
    listed: list[float] = host.astype(np.float64).ravel().tolist()
    return listed


def _rising(name: str, values: Any) -> tuple[float, ...]:
    numbers = _finite(name, values)
    if len(numbers) < 2 or any(b <= a for a, b in itertools.pairwise(numbers)):
        raise ValueError(f"{name} must be at least 2 rising numbers; got {values!r}.")
    return tuple(numbers)
