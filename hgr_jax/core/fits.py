"""Fitted copula transformations: frozen pytrees, callable on new data.

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
from jax.typing import DTypeLike
from numpy.typing import ArrayLike

from hgr_jax._checks import as_pair, as_real_array, as_weights
from hgr_jax._optional import require
from hgr_jax.core.basis import PolynomialBasis
from hgr_jax.core.canonical import PreparedPair, Solution, Transformation
from hgr_jax.core.formulas import formula
from hgr_jax.core.kernels import Encoder
from hgr_jax.core.numerics import equal_weights, normalised, safe_divide, without_dropped_rows
from hgr_jax.core.padding import first_rows, over_rows
from hgr_jax.core.showing import ShownFit
from hgr_jax.core.sketch import WHOLE_SKETCH
from hgr_jax.core.small_matrices import matmul
from hgr_jax.core.status import Status, decided

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CopulaTransform:
    """A copula transformation, f or g: ``x (n,)`` or ``(n, p)`` to ``(n,)``.

    It has zero mean and unit variance (with the weights of the fit) on the data it was fitted
    to, unless the correlation is 0; then it may be 0.  It is evaluated in the orthonormal basis
    of the fit, which stays accurate where `coefficients` on raw powers lose digits.

    Differentiable in ``x`` and, through the fit, in the data it was fitted to.
    """

    encoder: Encoder
    side: Transformation

    def __call__(self, x: ArrayLike) -> Array:
        """Return values ``(n,)`` at ``x``, of the kind and number of columns of the fit's data."""
        check_single(self.side.coefficients.shape[:-1])
        x = as_new_data(x, self.encoder.variables, self.side.coefficients.dtype)
        return first_rows(_evaluate(x, self), x.shape[0])

    @property
    def coefficients(self) -> Array:
        """Mixing coefficients ``(m,)`` on the columns of the kernel.

        For a polynomial these are the columns of `polynomial_kernel`, in the units of the data:
        ``f(x) = polynomial_kernel(x, h) @ coefficients + intercept``.  (For reading: on data far
        from 0 that sum cancels to few digits.)  For a callable kernel, its features.
        """
        return self._expanded()[1]

    @property
    def intercept(self) -> Array:
        """The constant that makes the mean of the transformation zero."""
        return self._expanded()[0]

    def _expanded(self) -> tuple[Array, Array]:
        check_single(self.side.coefficients.shape[:-1])
        return _expansion(self)

    def formula(self, *names: str, digits: int = 3) -> str:
        """Return the polynomial as text that can be computed with.

        As in ``-1.2 + 0.5 x + 0.3 x^2`` where that gives its values on the data of the fit to 1%
        of their standard deviation; else in a centred and scaled variable, with the digits that do:
        ``0.31 + 1.62 u - 2.4 u^2, u = (x - 1990) / 40``.  Beside an outlier some 10^5 standard
        deviations away no digits do, and the text says so.

        Args:
          names: one for each variable; default ``x``, or ``x0, x1, ...``.
          digits: least number of significant digits of each coefficient.

        Raises:
          TypeError: for a callable kernel, whose features have no names.
          ValueError: for another number of names than of variables.
        """
        check_single(self.side.coefficients.shape[:-1])
        if callable(self.encoder.kernel):
            raise TypeError("formula() needs a polynomial kernel; this transform has a callable.")
        variables = self.encoder.variables or 1
        if not names:
            names = ("x",) if variables == 1 else tuple(f"x{i}" for i in range(variables))
        if len(names) != variables:
            raise ValueError(f"formula() needs {variables} name(s); got {len(names)}: {names}.")
        return formula(self.encoder, self.side, [str(name) for name in names], digits)


@jax.jit
def _expansion(transform: CopulaTransform) -> tuple[Array, Array]:
    """Return the constant and the mixing coefficients."""
    basis, coefficients = transform.side.basis, transform.side.coefficients
    if isinstance(basis, PolynomialBasis):
        expansion = matmul(basis.monomials(), coefficients)
        return expansion[0], expansion[1:]
    weights = matmul(basis.transform, coefficients[1:])
    offset = coefficients[0] - jnp.dot(basis.mean, weights)
    if transform.encoder.factors is None:
        return offset, weights
    expansion = matmul(weights, transform.encoder.monomials())
    return offset + expansion[0], expansion[1:]


def check_single(batch: tuple[int, ...]) -> None:
    """Raise a ValueError where a transform belongs to a batch of fits, of this shape."""
    if batch:
        raise ValueError(
            f"this transform belongs to a batch of fits, of shape {batch};"
            " map over it: jax.vmap(lambda fit: ...)(fits)."
        )


def as_new_data(x: ArrayLike, columns: int | None, dtype: DTypeLike) -> Array:
    """Return data for a transform, of as many columns as it was fitted to (None: any number)."""
    x = as_real_array("x", x).astype(dtype)
    if columns not in (None, 1 if x.ndim == 1 else x.shape[1]):
        raise ValueError(
            f"x must have {columns} column(s), as the data of the fit had;"
            f" got shape {tuple(x.shape)}."
        )
    return x


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
            a, b, weights = _counted(a, b, weights)
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
    """

    f: CopulaTransform
    g: CopulaTransform
    degrees: Array
    residual: Array
    iterations: Array
    status: Array
    leverage: Array
    influential_row: Array

    shown: ClassVar = ("correlation", "degrees", "leverage", "influential_row", "iterations")

    @property
    def alpha(self) -> Array:
        """Mixing coefficients of f, ``(h,)``: ``f.coefficients``."""
        return self.f.coefficients

    @property
    def beta(self) -> Array:
        """Mixing coefficients of g, ``(k,)``: ``g.coefficients``."""
        return self.g.coefficients

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

    @property
    def explains(self) -> str:
        """The winning direction in words; needs a concrete value."""
        return ("b = f(a)", "a = g(b)")[int(self.direction)]


@over_rows(columns=1)
def _evaluate(x: Array, transform: CopulaTransform, *, count: Array | None) -> Array:
    del count  # the caller cuts the rows that are not data
    return transform.side(transform.encoder(x))


@over_rows(columns=3, weights=2)
def _counted(
    a: Array, b: Array, weights: Array, *, count: Array | None
) -> tuple[Array, Array, Array]:
    del count  # the rows that are not data have weight 0
    weights = normalised(weights)
    return without_dropped_rows(a, weights), without_dropped_rows(b, weights), weights


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


def _leverage(solution: Solution, pair: PreparedPair) -> tuple[Array, Array, Array]:
    """Return the largest part of the correlation that one row makes, its weight, and which it is.

    The correlation is the mean of ``f(a) g(b)`` over the rows.  Constants under differentiation.
    """
    a, b, weights, sides, s = lax.stop_gradient(
        (pair.a, pair.b, pair.weights, solution.sides, solution.correlation)
    )
    if isinstance(sides, Transformation) and a.shape[0] <= WHOLE_SKETCH:
        f, g = sides(jnp.stack([a, b]))
    else:
        f, g = lax.stop_gradient(solution.f)(a), lax.stop_gradient(solution.g)(b)
    w = equal_weights(pair.count, a) if weights is None else weights
    parts = w * f * g
    row = jnp.argmax(parts).astype(jnp.int32)
    return safe_divide(jnp.max(parts), s), w[row], row


def as_fit(solution: Solution, pair: PreparedPair, *, unique: bool = False) -> KBFit:
    """Return what callers see of a solution; ``unique`` ones are not searched for ties."""
    solution = solution.with_fixed_sign()
    eps = float(jnp.finfo(solution.correlation.dtype).eps)
    tied = jnp.zeros((), bool) if unique else solution.pair.tied
    degrees = jnp.stack([jnp.sum(side.basis.in_span) for side in (solution.f, solution.g)])
    part, weight, row = _leverage(solution, pair)
    dominated = (part > DOMINANT_PART) & (part > DOMINANT_MULTIPLE * weight)
    dominated &= part * solution.correlation > DOMINANT_CORRELATION
    status = decided(
        (dominated, Status.ONE_ROW),
        (tied, Status.TIED),
        (~(solution.pair.residual <= eps**0.5), Status.NOT_CONVERGED),
        (~solution.conditioned, Status.ILL_CONDITIONED),
        (jnp.any(degrees == 0), Status.CONSTANT),
        (~solution.finite, Status.NOT_FINITE),
    )
    return KBFit(
        correlation=solution.correlation,
        f=CopulaTransform(pair.encoders[0], solution.f),
        g=CopulaTransform(pair.encoders[1], solution.g),
        degrees=degrees.astype(jnp.int32),
        residual=solution.pair.residual,
        iterations=solution.pair.iterations,
        status=status,
        leverage=part,
        influential_row=row,
    )
