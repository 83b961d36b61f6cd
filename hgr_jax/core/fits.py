"""Fits: what callers see of a solution.

`KBFit` and `SKFit` are frozen pytrees, with the transformations `CopulaTransform`, a `Status`, and
a standard error.  They pass through `jax.jit`, `jax.vmap` and
`jax.tree` like arrays do; a fit made under `jax.vmap` holds a batch of fits.  `as_fit` makes one of
a solution.

*Standard error.*  With f, g standardised and of correlation s, ``psi = f g - s (f^2 + g^2) / 2`` is
the influence of a row on s (by the envelope theorem, on a maximum too).
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import DTypeLike
from numpy.typing import ArrayLike

from hgr_jax._arrays import is_traced
from hgr_jax.core.arrays import as_given, as_pair, as_real_array, as_weights
from hgr_jax.core.bias import is_dominant
from hgr_jax.core.canonical import PreparedPair, Residuals, Solution, Transformation
from hgr_jax.core.describe import MAX_PVALUE, NO_DEPENDENCE, both_in_words
from hgr_jax.core.formulas import polynomial_as_text
from hgr_jax.core.kernels import Encoder
from hgr_jax.core.linalg import matmul
from hgr_jax.core.numerics import (
    equal_weights,
    farthest_entry,
    normalise_weights,
    row_count,
    safe_divide,
    safe_sqrt,
    sign_of,
    without_dropped_rows,
)
from hgr_jax.core.orthonormal import Basis, PolynomialBasis
from hgr_jax.core.rows import over_rows, row_by_row
from hgr_jax.core.status import MESSAGES, Status


def decide_status(*cases: tuple[Array, Status]) -> Array:
    """Return the status of the last case whose condition holds, or else OPTIMAL."""
    status = jnp.int32(Status.OPTIMAL)
    for condition, name in cases:
        status = jnp.where(condition, jnp.int32(name), status)
    return status


FIGURES_SHOWN = 3
"""Number of figures of a batch that are printed at either end."""


def _format_figures(value: Any) -> str:
    """Return one number, or the first and the last of many, as text."""
    if not isinstance(value, np.ndarray | np.generic | Array) or is_traced(value):
        return str(value)
    host = np.asarray(value)
    form = "d" if host.dtype.kind in "iub" else ".4g"
    if host.ndim == 0:
        return format(host.item(), form)
    texts = [format(number, form) for number in host.ravel().tolist()]
    if len(texts) > 2 * FIGURES_SHOWN:
        texts = [*texts[:FIGURES_SHOWN], "...", *texts[-FIGURES_SHOWN:]]
    return f"[{', '.join(texts)}]"


class ShownFit:
    """Base of fits with a status; prints the attributes named in ``shown``."""

    status: Array
    shown: ClassVar[tuple[str, ...]] = ()

    @property
    def message(self) -> str | list[str]:
        """The status in words (a list, for a batch of fits); needs concrete values."""
        host = np.asarray(self.status)
        if host.ndim:
            return [MESSAGES[Status(s)] for s in host.ravel().tolist()]
        return MESSAGES[Status(int(host))]

    def __repr__(self) -> str:
        figures = [f"{name}={_format_figures(getattr(self, name))}" for name in self.shown]
        line = f"{type(self).__name__}({', '.join(figures)})"
        if not isinstance(self.status, np.ndarray | np.generic | Array) or is_traced(self.status):
            return line
        message = self.message
        return f"{line}\n  {f'{len(message)} fits' if isinstance(message, list) else message}"


@dataclasses.dataclass(frozen=True)
class TransformedPair:
    """The value of a measure in [0, 1], and transformations ``f`` of a and ``g`` of b.

    Both are callable on new data, and have zero mean and unit variance on the fitted data.
    """

    correlation: Array
    f: Any = dataclasses.field(repr=False)
    g: Any = dataclasses.field(repr=False)

    def score(
        self,
        a: ArrayLike,
        b: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        given: ArrayLike | None = None,
    ) -> Array:
        """Return the Pearson correlation of ``f(a)`` and ``g(b)`` on data that were not fitted.

        In [-1, 1], and 0 where ``f(a)`` or ``g(b)`` does not vary.  On held-out rows it is not
        biased upward, as the sample value of HGR is.

        Args:
          a, b, given: as in the fit, any number of rows.
          weights: non-negative ``(n,)``, or None.
        """
        a, b = as_pair(a, b, weights=weights, given=given)
        weights = as_weights(weights, a.shape[0], a.dtype)
        c = as_given(given, a.shape[0], a.dtype)
        if weights is not None:
            a, b, c, weights = _replace_dropped(a, b, c, weights)
        others = {} if c is None else {"given": c}
        return _weighted_pearson(self.f(a, **others), self.g(b, **others), weights)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class KBFit(ShownFit, TransformedPair):
    """A fit of kernels: the result of `kb_fit`.

    Attributes:
      correlation: the value of the measure, in [0, 1].
      f, g: the copula transformations of a and of b, callable on new data.  Their sign makes the
        largest component of f on the orthonormal polynomials (with positive leading coefficients)
        of a positive, so that results repeat.
      degrees: ``(2,)`` how many directions of each kernel the data supports: a variable with m
        distinct values has at most m - 1 polynomial directions.
      residual: norm of the projected gradient at the solution, in whitened coordinates; 0 at
        an optimum.
      iterations: iterations of the iterative solver (0 for closed forms).
      status: a `Status`, as an int array.
      leverage: the largest share of the correlation that a single row contributes, ``max_i w_i
        f(a_i) g(b_i) / correlation`` with weights of sum 1; 1 / n where all rows contribute the
        same.  Constant under differentiation.
      influential_row: the index of that row.
      standard_error: of the correlation: ``sqrt(sum_i w_i^2 psi_i^2)`` with ``psi = f g -
        correlation (f^2 + g^2) / 2``, in the limit of many rows.  Differentiable.
      effective_rows: ``1 / sum_i w_i^2``; without weights the number of rows.

    Given other variables c, f and g are residuals, which take c too: ``f(a, given=c)``.  Sign,
    ``alpha`` and ``beta`` belong to the functions of a and b alone; ``degrees`` counts the
    directions that c does not explain, and the number of functions of c is subtracted from
    ``effective_rows``.
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

    def describe(self, a: ArrayLike, b: ArrayLike, *, names: tuple[str, str] = ("a", "b")) -> str:
        """Say in words, in units of the variables, what f and g do.

        They rise, fall, or turn by more than a fifth of their range, between 1 and 99% of the rows;
        as `HGRFit.describe` does of the functions of HGR.

        Args:
          a, b: numbers ``(n,)``.
          names: of a and of b.

        Returns:
          A sentence; ``"no dependence found"`` where `independence_test` does not reject at 5%.

        Raises:
          ValueError: for a batch of fits, or variables of several columns.

        Example:
          >>> import jax.numpy as jnp, hgr_jax
          >>> a = jnp.linspace(-1, 1, 101)
          >>> hgr_jax.kb_fit(a, a**2).describe(a, a**2, names=("speed", "drag"))
          'drag is lowest near speed = -0.08, and rises on both sides'
        """
        check_single(np.shape(self.correlation))
        # Imported by name, as tests are in a layer above.
        test = importlib.import_module("hgr_jax.inference").independence_test(a, b)
        if not test.pvalue <= MAX_PVALUE:
            return NO_DEPENDENCE
        x, y, f, g = (np.asarray(z, np.float64) for z in (a, b, self.f(a), self.g(b)))
        return both_in_words(names, (x, y), (f, g))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class SKFit(KBFit):
    """A fit of HGR-SK, and which of its two least-squares problems won.

    Attributes:
      direction: 0 where ``b`` is explained by ``f(a)`` (g is linear), 1 where ``a`` is
        explained by ``g(b)`` (f is linear).
    """

    direction: Array

    @property
    def explains(self) -> str:
        """The winning direction in words; needs a concrete value."""
        return ("b = f(a)", "a = g(b)")[int(self.direction)]


_Evaluation = TypeVar("_Evaluation", bound=Callable[..., Array])


def takes_one_value(call: _Evaluation) -> _Evaluation:
    """Let a transformation take one value as well, and return a scalar for it."""

    def one_row(x: Any) -> Any:
        return None if x is None else (x if isinstance(x, Array) else np.asarray(x))[None]

    @functools.wraps(call)
    def evaluate(self: Any, x: Any, *others: Any, **named: Any) -> Array:
        if np.ndim(x):
            return call(self, x, *others, **named)
        named = {name: one_row(other) for name, other in named.items()}
        return call(self, one_row(x), *map(one_row, others), **named)[0]

    return cast(_Evaluation, evaluate)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CopulaTransform:
    """A copula transformation, f or g: ``x (n,)`` or ``(n, p)`` to ``(n,)``.

    It has zero mean and unit variance (with the weights of the fit) on the data it was fitted
    to, unless the correlation is 0; then it may be 0.  It is evaluated in the orthonormal basis
    of the fit, which stays accurate where `coefficients` on raw powers lose digits.

    In a fit given other variables c it is a residual, which takes c too:

        transform(x, given=c) = f(x) - explained(c)

    with ``explained`` the regression of f on functions of the kernel of c, with which it does not
    correlate.  `coefficients`, `intercept` and `formula` are those of f alone.

    Differentiable in ``x`` and, through the fit, in the data it was fitted to.
    """

    encoder: Encoder
    side: Transformation
    explained: CopulaTransform | None = None

    @takes_one_value
    def __call__(self, x: ArrayLike, given: ArrayLike | None = None) -> Array:
        """Return values ``(n,)`` at ``x`` (and ``given``, if the fit had it), as in the fit.

        A scalar at one number.
        """
        check_single(self.side.coefficients.shape[:-1])
        x = as_new_data(x, self.encoder.variables, self.side.coefficients.dtype)
        return _evaluate(x, as_new_given(given, self.explained, x), self)

    @property
    def coefficients(self) -> Array:
        """Mixing coefficients ``(m,)`` on the columns of the kernel.

        For a polynomial, in the units of the data: ``f(x) = polynomial_kernel(x, h) @ coefficients
        + intercept``.  (On data far from 0 that sum cancels to few digits.)
        """
        return self._expanded()[1]

    @property
    def intercept(self) -> Array:
        """The constant that makes the mean of the transformation zero."""
        return self._expanded()[0]

    def _expanded(self) -> tuple[Array, Array]:
        check_single(self.side.coefficients.shape[:-1])
        return expansion(self)

    def formula(self, name: str = "x", *, digits: int = 3) -> str:
        """Return the polynomial of one variable as text that can be computed with.

        The text is in powers of x, ``-1.2 + 0.5 x + 0.3 x^2``, if it then gives the values on the
        data of the fit to 1% of their standard deviation; else in a centred and scaled variable,
        with as many digits as that takes: ``0.31 + 1.62 u - 2.4 u^2, u = (x - 1990) / 40``.
        (Beside an outlier some 10^5 standard deviations away, in float32 some 100, the transform
        itself has fewer digits.)  ``nan`` for a fit of NaN.

        Args:
          name: of the variable.
          digits: least number of significant digits of each coefficient.

        Raises:
          TypeError: for a callable kernel, whose features have no names, and one of several
            variables.
        """
        check_single(self.side.coefficients.shape[:-1])
        if self.encoder.variables != 1:
            raise TypeError("formula() needs a polynomial kernel of one variable.")
        basis, c = self.side.basis, np.asarray(self.side.coefficients, np.float64)
        assert isinstance(basis, PolynomialBasis)
        scale, center = np.asarray(basis.frame, np.float64).tolist()
        if not np.isfinite([scale, center, *c]).all():
            return "nan"
        if scale == 0:  # a constant, whose polynomial is 0
            return "0"
        with jax.enable_x64(True):
            framed = PolynomialBasis(jnp.array([1.0, 0.0]), jnp.asarray(basis.recurrence, float))
            coefficients = np.asarray(_monomials(framed)) @ c
        return polynomial_as_text(coefficients, scale, center, str(name), digits)


_monomials = jax.jit(PolynomialBasis.monomials)


@jax.jit
def expansion(transform: CopulaTransform) -> tuple[Array, Array]:
    """Return the constant, and the mixing coefficients on the columns of the kernel."""
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


def as_new_data(x: ArrayLike, columns: int | None, dtype: DTypeLike, *, name: str = "x") -> Array:
    """Return data for a transform, checked for the columns of the fit (None: any number)."""
    x = as_real_array(name, x).astype(dtype)
    if columns not in (None, 1 if x.ndim == 1 else x.shape[1]):
        raise ValueError(
            f"{name} must have {columns} column(s), as the data of the fit had;"
            f" got shape {tuple(x.shape)}."
        )
    return x


def as_new_given(given: ArrayLike | None, explained: Any, x: Array) -> Array | None:
    """Return the conditioning variables for a transform at ``x``, checked.

    ``explained`` is its regression on them, None where the fit had none.
    """
    if explained is None:
        if given is not None:
            raise ValueError("given must be None: the fit was of a and b alone, given none.")
        return None
    if given is None:
        raise ValueError(
            "given is missing: the fit is conditional on other variables. Pass these at the same"
            " rows, as in fit.f(a, given=c) and fit.score(a, b, given=c)."
        )
    given = as_new_data(given, explained.encoder.variables, x.dtype, name="given")
    if given.shape[0] != x.shape[0]:
        raise ValueError(f"given must have {x.shape[0]} rows, as x; got {given.shape[0]}.")
    return given


@row_by_row(columns=2)
def _evaluate(x: Array, given: Array | None, transform: CopulaTransform) -> Array:
    values = transform.side(transform.encoder(x))
    if given is None or transform.explained is None:
        return values
    return values - _evaluate(given, None, transform.explained)


@over_rows(columns=4, weights=3)
def _replace_dropped(
    a: Array, b: Array, given: Array | None, weights: Array, *, count: Array | None
) -> tuple[Array, Array, Array | None, Array]:
    del count  # rows of padding have weight 0
    weights = normalise_weights(weights)
    c = None if given is None else without_dropped_rows(given, weights)
    return without_dropped_rows(a, weights), without_dropped_rows(b, weights), c, weights


@over_rows(columns=3, weights=2)
def _weighted_pearson(x: Array, y: Array, weights: Array | None, *, count: Array | None) -> Array:
    w = equal_weights(count, x) if weights is None else weights
    x, varies_x = _standardised(x, w)
    y, varies_y = _standardised(y, w)
    return jnp.where(varies_x & varies_y, jnp.clip(jnp.sum(w * x * y), -1, 1), 0)


def _standardised(x: Array, w: Array | float) -> tuple[Array, Array]:
    """Return standardised ``x``, and whether it varies by more than rounding (or is NaN)."""
    x = safe_divide(x, lax.stop_gradient(jnp.max(jnp.abs(x))))  # large squares would overflow
    x = x - jnp.sum(w * x)
    variance = jnp.sum(w * x * x)
    varies = ~(variance <= (32 * jnp.finfo(x.dtype).eps) ** 2)
    return x / jnp.sqrt(jnp.where(varies, variance, 1)), varies


def as_fit(solution: Solution, pair: PreparedPair, *, unique: bool = False) -> KBFit:
    """Make the fit of a solution; ``unique`` says that no other pair ties with it."""
    solution = solution.with_fixed_sign()
    eps = float(jnp.finfo(solution.correlation.dtype).eps)
    tied = jnp.zeros((), bool) if unique else solution.pair.tied
    degrees = jnp.stack([jnp.sum(side.basis.in_span) for side in (solution.f, solution.g)])
    f, g, w = _weighted_rows(solution, pair)
    # Each row's contribution to the correlation, which is their sum.
    contributions = lax.stop_gradient(f * g)
    row = jnp.argmax(contributions).astype(jnp.int32)
    leverage = safe_divide(jnp.max(contributions), lax.stop_gradient(solution.correlation))
    weight = lax.stop_gradient(w)[row]
    rows = (
        jnp.asarray(row_count(pair.count, w), w.dtype)
        if pair.weights is None
        else 1 / jnp.sum(w * w)
    )
    well_conditioned, residuals = solution.well_conditioned, pair.residuals
    if residuals is not None:
        rows = rows - jnp.sum(residuals.conditioning.basis.in_span).astype(w.dtype)
        well_conditioned &= residuals.well_conditioned
    dominated = is_dominant(leverage, weight, solution.correlation)
    status = decide_status(
        (dominated, Status.ONE_ROW),
        (tied, Status.TIED),
        (~(solution.pair.residual <= eps**0.5), Status.NOT_CONVERGED),
        (~well_conditioned, Status.ILL_CONDITIONED),
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
        leverage=leverage,
        influential_row=row,
        standard_error=standard_error(f, g, solution.pair.correlation),
        effective_rows=rows,
    )
    return fit if residuals is None else _on_variables(fit, pair, residuals)


def _weighted_rows(solution: Solution, pair: PreparedPair) -> tuple[Array, Array, Array]:
    """Return f and g at the rows times the roots of the weights, and the weights, ``(n,)`` each."""
    values = solution.values
    if values is not None:
        f, g = (
            jnp.sum(side.coefficients[:, None] * x[: len(side.coefficients)], axis=0)
            for side, x in zip((solution.f, solution.g), values, strict=True)
        )
        return f, g, values[0, 0] ** 2
    w = equal_weights(pair.count, pair.a) if pair.weights is None else pair.weights
    root = safe_sqrt(w)
    return solution.f(pair.a) * root, solution.g(pair.b) * root, w


def error_of(solution: Solution, pair: PreparedPair) -> Array:
    """Return the standard error of the correlation of a solution."""
    f, g, _ = _weighted_rows(solution, pair)
    return standard_error(f, g, solution.pair.correlation)


def _on_variables(fit: KBFit, pair: PreparedPair, residuals: Residuals) -> KBFit:
    """Express a fit of residual coordinates by functions of the variables."""
    coordinates = fit.f.side, fit.g.side
    direct, explained = on_variables(
        pair,
        (coordinates[0].basis, coordinates[1].basis),
        (coordinates[0].coefficients[None, :], coordinates[1].coefficients[None, :]),
    )
    c = residuals.conditioning
    f, g = (
        CopulaTransform(
            side.encoder,
            Transformation(side.basis, function[0]),
            CopulaTransform(c.encoder, Transformation(c.basis, regression[0])),
        )
        for side, function, regression in zip(residuals.sides, direct, explained, strict=True)
    )
    return dataclasses.replace(fit, f=f, g=g)


def on_variables(
    pair: PreparedPair, bases: tuple[Basis, Basis], coefficients: tuple[Array, Array]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Expand r functions of residual coordinates, ``(r, 1 + m)`` each, on the variables themselves.

    Returns coefficients on ``[1, basis]`` of a and of b; and coefficients of their regressions on
    ``[1, basis]`` of the conditioning variables.  The largest coefficient of a (or of b) is
    positive, whatever the coordinates.
    """
    assert pair.residuals is not None
    direct, explained = [], []
    for v, (basis, rows) in enumerate(zip(bases, coefficients, strict=True)):
        encoder = pair.encoders[v]

        def on_coordinates(row: Array, basis: Basis = basis, encoder: Encoder = encoder) -> Any:
            return expansion(CopulaTransform(encoder, Transformation(basis, row)))

        offset, slopes = jax.vmap(on_coordinates)(rows)
        direct.append(matmul(slopes, pair.residuals.sides[v].rows).at[:, 0].add(offset))
        explained.append(matmul(slopes, pair.residuals.explained[v]))
    first, second = (farthest_entry(expanded[:, 1:]) for expanded in direct)
    sign = sign_of(jnp.where(first == 0, second, first))
    return (sign * direct[0], sign * direct[1]), (sign * explained[0], sign * explained[1])


def standard_error(f: Array, g: Array, s: Array) -> Array:
    """Return the standard error of the correlation ``s`` of f and g, times roots of weights."""
    weighted_psi = f * g - s * (f * f + g * g) / 2
    return safe_sqrt(jnp.sum(weighted_psi**2))
