"""Fits: frozen pytrees.

They pass through `jax.jit`, `jax.vmap` and `jax.tree` like arrays do; a fit made under
`jax.vmap` holds a batch of fits.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike

from hgr_jax._checks import as_given, as_pair, as_weights, check_level
from hgr_jax._optional import require
from hgr_jax.core.canonical import PreparedPair, Residuals, Solution, Transformation
from hgr_jax.core.numerics import (
    equal_weights,
    normalised,
    row_count,
    safe_divide,
    safe_sqrt,
    without_dropped_rows,
)
from hgr_jax.core.padding import over_rows
from hgr_jax.core.partial import on_variables
from hgr_jax.core.showing import ShownFit
from hgr_jax.core.status import Status, decided
from hgr_jax.core.transforms import CopulaTransform, PartialTransform, check_single
from hgr_jax.core.uncertainty import interval, standard_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class TransformedPair:
    """The value of a measure and two transformations, which every fit holds.

    Attributes:
      correlation: the value of the measure, in [0, 1].
      f, g: callables, of a and of b; zero mean and unit variance on the fitted data.
    """

    correlation: Array
    f: Any
    g: Any

    def score(self, a: ArrayLike, b: ArrayLike, *, weights: ArrayLike | None = None) -> Array:
        """Return the Pearson correlation of ``f(a)`` and ``g(b)`` on other data than the fit's.

        It lies in [-1, 1], and is 0 where ``f(a)`` or ``g(b)`` does not vary.  The sample value
        of HGR is biased upward, more so for richer transformations; this one, on held-out rows,
        is not.

        Args:
          a, b: as in the fit, any number of rows.
          weights: non-negative ``(n,)``, or None.
        """
        a, b = as_pair(a, b)
        weights = as_weights(weights, a.shape[0], a.dtype)
        if weights is not None:
            a, b, _, weights = _counted(a, b, None, weights)
        return _weighted_pearson(self.f(a), self.g(b), weights)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class KBFit(ShownFit, TransformedPair):
    """A fit of kernels: the result of `kb_fit`.

    Attributes:
      correlation: the value of the measure, in [0, 1].
      f, g: the copula transformations of a and of b.  Of the two signs the pair could have, the
        one is taken that makes the largest component of f on the orthonormal polynomials (with
        positive leading coefficients) of a positive, so that results repeat.
      degrees: ``(2,)`` how many directions of each kernel the data supports: a variable with m
        distinct values has at most m - 1 polynomial directions.
      residual: norm of the projected gradient at the solution, in whitened coordinates; 0 at
        an optimum.
      iterations: iterations of the iterative solver (0 for closed forms).
      status: a `Status`, as an int array.
      leverage: the largest part of the correlation that a single row makes, ``max_i w_i f(a_i)
        g(b_i) / correlation`` with weights of sum 1; 1 / n where all rows make the same.  Constant
        under differentiation.
      influential_row: which row that is.
      standard_error: of the correlation: ``sqrt(sum_i w_i^2 psi_i^2)`` with ``psi = f g -
        correlation (f^2 + g^2) / 2``, in the limit of many rows.  Differentiable.
      effective_rows: ``1 / sum_i w_i^2``; without weights the number of rows.
    """

    f: CopulaTransform
    g: CopulaTransform
    degrees: Array
    residual: Array
    iterations: Array
    status: Array
    leverage: Array
    influential_row: Array
    standard_error: Array
    effective_rows: Array

    shown: ClassVar = ("correlation", "degrees", "leverage", "influential_row", "iterations")

    @property
    def alpha(self) -> Array:
        """Mixing coefficients of f, ``(h,)``: ``f.coefficients``."""
        return self.f.coefficients

    @property
    def beta(self) -> Array:
        """Mixing coefficients of g, ``(k,)``: ``g.coefficients``."""
        return self.g.coefficients

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return an interval for HGR of these kernels in the population.

            max(0, c - z se)  to  min(1, correlation + z se),
            1 - c^2 = (1 - correlation^2) (n - 1) / (n - 1 - (sqrt(p - 1/2) + sqrt(q - 1/2))^2)

        with n the `effective_rows`, p and q the `degrees` (1 for the linear side of a single-kernel
        fit) and z the normal quantile of ``(1 + level) / 2``.  The value is biased upward,
        most where the population's is small, so the lower end is of a value corrected by as much as
        chance alone makes; the upper end needs no correction (`hgr_jax.inference.upper_bound`).

        Args:
          level: asked coverage, above 0 and below 1.

        Coverage: measured by `python -m bench.coverage`, at level 95% with 300 to 10,000 rows and
        correlations from 0 to 0.9, it is 92 to 99% for normal, discrete and Student's t pairs (85%
        for normal ones at degree 5, 300 rows and 0.9).  Far outliers make the bias larger than any
        formula, so that the lower end is too high: for lognormal pairs it is 53 to 99% at degree 2,
        and nearly 0 at degree 5.  Take ranks there.

        Example:
          >>> import numpy as np, hgr_jax
          >>> a, noise = np.random.default_rng(0).normal(size=(2, 1000))
          >>> low, high = hgr_jax.kb_fit(a, 0.6 * a + 0.8 * noise, 3, 3).interval()
          >>> print(f"{low:.2f} to {high:.2f}")
          0.57 to 0.67
        """
        check_level("level", level)
        error, rows = self.standard_error, self.effective_rows
        return interval(self.correlation, error, rows, self._sizes(), level)

    def _sizes(self) -> tuple[Array, Array]:
        """Return how many functions f and g were chosen from."""
        return self.degrees[..., 0], self.degrees[..., 1]

    def plot(self, a: ArrayLike, b: ArrayLike, *, names: tuple[str, str] = ("a", "b")) -> Figure:
        """Draw the data, f, g and the transformed data: `hgr_jax.plotting.plot_fit`.

        Args:
          a, b: the data to draw, ``(n,)``.
          names: of a and of b.

        Raises:
          ImportError: without matplotlib, naming the command that installs it.
          ValueError: for a batch of fits, or variables of several columns.

        Example:
          >>> import jax.numpy as jnp, hgr_jax
          >>> a = jnp.linspace(-1, 1, 101)
          >>> fit = hgr_jax.kb_fit(a, a**2)
          >>> figure = fit.plot(a, a**2, names=("a", "square"))
        """
        check_single(np.shape(self.correlation))
        # By its name: pictures are in a layer above, and only this method needs them.
        figure: Figure = require("hgr_jax.plotting", "plot").plot_fit(self, a, b, names=names)
        return figure


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class SKFit(KBFit):
    """A fit of HGR-SK, with which of the two least-squares problems won.

    Attributes:
      direction: 0 where ``b`` is explained by ``f(a)`` (g is linear), 1 where ``a`` is
        explained by ``g(b)`` (f is linear).
    """

    direction: Array

    def _sizes(self) -> tuple[Array, Array]:
        p, q = super()._sizes()
        return jnp.where(self.direction == 0, p, 1), jnp.where(self.direction == 0, 1, q)

    @property
    def explains(self) -> str:
        """The winning direction in words; needs a concrete value."""
        return ("b = f(a)", "a = g(b)")[int(self.direction)]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class PartialFit(KBFit):
    """A fit of what given variables c leave of two others: the result of ``kb_fit(given=c)``.

    As a `KBFit`, but that ``f`` and ``g`` are called with c too: ``f(a, given=c)``.

    Attributes:
      f, g: each a `PartialTransform`, a function of a (of b) less its regression on functions of c.
        The sign is as of `KBFit`, by the function of a alone; so are ``alpha`` and ``beta``.
      degrees: how many directions of each kernel are left.
      effective_rows: ``1 / sum_i w_i^2``, less the number of functions of c.
    """

    f: PartialTransform
    g: PartialTransform

    def score(
        self,
        a: ArrayLike,
        b: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        given: ArrayLike | None = None,
    ) -> Array:
        """Return the correlation of ``f(a, given=c)`` and ``g(b, given=c)`` on other data.

        As `KBFit.score`: in [-1, 1], and on held-out rows not biased.

        Args:
          a, b, given: as in the fit, any number of rows.
          weights: non-negative ``(n,)``, or None.
        """
        a, b = as_pair(a, b)
        weights = as_weights(weights, a.shape[0], a.dtype)
        c = as_given(given, a.shape[0], a.dtype)
        if weights is not None:
            a, b, c, weights = _counted(a, b, c, weights)
        return _weighted_pearson(self.f(a, given=c), self.g(b, given=c), weights)


@over_rows(columns=4, weights=3)
def _counted(
    a: Array, b: Array, given: Array | None, weights: Array, *, count: Array | None
) -> tuple[Array, Array, Array | None, Array]:
    del count  # the rows that are not data have weight 0
    weights = normalised(weights)
    known = None if given is None else without_dropped_rows(given, weights)
    return without_dropped_rows(a, weights), without_dropped_rows(b, weights), known, weights


@over_rows(columns=3, weights=2)
def _weighted_pearson(x: Array, y: Array, weights: Array | None, *, count: Array | None) -> Array:
    w = equal_weights(count, x) if weights is None else weights
    x, varies_x = _standardised(x, w)
    y, varies_y = _standardised(y, w)
    return jnp.where(varies_x & varies_y, jnp.clip(jnp.sum(w * x * y), -1, 1), 0)


def _standardised(x: Array, w: Array | float) -> tuple[Array, Array]:
    """Zero mean and unit variance, and whether ``x`` varies by more than rounding (or is NaN)."""
    x = safe_divide(x, lax.stop_gradient(jnp.max(jnp.abs(x))))  # large squares would overflow
    x = x - jnp.sum(w * x)
    variance = jnp.sum(w * x * x)
    varies = ~(variance <= (32 * jnp.finfo(x.dtype).eps) ** 2)
    return x / jnp.sqrt(jnp.where(varies, variance, 1)), varies


DOMINANT_PART = 0.3
"""Of a correlation: more is a large part for one row."""

DOMINANT_MULTIPLE = 10
"""... if it is also so many times what the row's weight would give it: of few rows each counts."""

DOMINANT_CORRELATION = 0.1
"""... and if that much of the correlation is its part: of nearly none any row makes much."""


def is_dominant(part: Any, weight: Any, correlation: Any) -> Any:
    """Return whether a row makes a large part of a correlation; its weight is of a sum of 1."""
    large = (part > DOMINANT_PART) & (part > DOMINANT_MULTIPLE * weight)
    return large & (part * correlation > DOMINANT_CORRELATION)


def _weighted_rows(solution: Solution, pair: PreparedPair) -> tuple[Array, Array, Array]:
    """Return f and g at the rows times the roots of the weights, and the weights, ``(n,)`` each."""
    values, sides = solution.values, solution.sides
    if values is not None and isinstance(sides, Transformation):
        f, g = jnp.sum(sides.coefficients[:, :, None] * values, axis=1)
        return f, g, values[0, 0] ** 2
    w = equal_weights(pair.count, pair.a) if pair.weights is None else pair.weights
    root = safe_sqrt(w)
    return solution.f(pair.a) * root, solution.g(pair.b) * root, w


def error_of(solution: Solution, pair: PreparedPair) -> Array:
    """Return the standard error of the correlation of a solution."""
    f, g, _ = _weighted_rows(solution, pair)
    return standard_error(f, g, solution.pair.correlation)


def as_fit(solution: Solution, pair: PreparedPair, *, unique: bool = False) -> KBFit:
    """Return what callers see of a solution; ``unique`` ones are not searched for ties."""
    solution = solution.with_fixed_sign()
    eps = float(jnp.finfo(solution.correlation.dtype).eps)
    tied = jnp.zeros((), bool) if unique else solution.pair.tied
    degrees = jnp.stack([jnp.sum(side.basis.in_span) for side in (solution.f, solution.g)])
    f, g, w = _weighted_rows(solution, pair)
    # The correlation is the sum of these: a row's part of it.
    parts = lax.stop_gradient(f * g)
    row = jnp.argmax(parts).astype(jnp.int32)
    part = safe_divide(jnp.max(parts), lax.stop_gradient(solution.correlation))
    weight = lax.stop_gradient(w)[row]
    rows = (
        jnp.asarray(row_count(pair.count, w), w.dtype)
        if pair.weights is None
        else 1 / jnp.sum(w * w)
    )
    conditioned, residuals = solution.conditioned, pair.residuals
    if residuals is not None:
        rows = rows - jnp.sum(residuals.known.basis.in_span).astype(w.dtype)
        conditioned &= residuals.well_conditioned
    dominated = is_dominant(part, weight, solution.correlation)
    plain = [] if pair.ridge is None else [(jnp.array(True), Status.REGULARISED)]
    status = decided(
        *plain,
        (dominated, Status.ONE_ROW),
        (tied, Status.TIED),
        (~(solution.pair.residual <= eps**0.5), Status.NOT_CONVERGED),
        (~conditioned, Status.ILL_CONDITIONED),
        (jnp.any(degrees == 0), Status.CONSTANT),
        (~solution.finite, Status.NOT_FINITE),
    )
    fit = KBFit(
        correlation=solution.correlation,
        f=CopulaTransform(pair.encoders[0], solution.f),
        g=CopulaTransform(pair.encoders[1], solution.g),
        degrees=degrees.astype(jnp.int32),
        residual=solution.pair.residual,
        iterations=solution.pair.iterations,
        status=status,
        leverage=part,
        influential_row=row,
        standard_error=standard_error(f, g, solution.pair.correlation),
        effective_rows=rows,
    )
    return fit if residuals is None else _on_variables(fit, pair, residuals)


def _on_variables(fit: KBFit, pair: PreparedPair, residuals: Residuals) -> PartialFit:
    """Return a fit of coordinates of residuals as one of the variables that they are of."""
    coordinates = fit.f.side, fit.g.side
    own, explained, _ = on_variables(
        pair,
        (coordinates[0].basis, coordinates[1].basis),
        (coordinates[0].coefficients[None, :], coordinates[1].coefficients[None, :]),
    )
    known = residuals.known
    f, g = (
        PartialTransform(
            side.encoder,
            Transformation(side.basis, function[0]),
            CopulaTransform(known.encoder, Transformation(known.basis, regression[0])),
        )
        for side, function, regression in zip(residuals.sides, own, explained, strict=True)
    )
    return PartialFit(**(vars(fit) | {"f": f, "g": g}))
