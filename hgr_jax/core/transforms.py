"""Fitted copula transformations: frozen pytrees, callable on new data."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike
from numpy.typing import ArrayLike

from hgr_jax._checks import as_real_array
from hgr_jax.core.basis import PolynomialBasis
from hgr_jax.core.canonical import Transformation
from hgr_jax.core.formulas import formula
from hgr_jax.core.kernels import Encoder
from hgr_jax.core.padding import first_rows, over_rows
from hgr_jax.core.small_matrices import matmul


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
        return expansion(self)

    def formula(self, *names: str, digits: int = 3) -> str:
        """Return the polynomial as text that can be computed with.

        As in ``-1.2 + 0.5 x + 0.3 x^2`` where that gives its values on the data of the fit to 1%
        of their standard deviation; else in a centred and scaled variable, with the digits that do:
        ``0.31 + 1.62 u - 2.4 u^2, u = (x - 1990) / 40``.  Beside an outlier some 10^5 standard
        deviations away (in float32, some 100) no digits do, and the text says so.  ``nan`` for a
        fit of NaN.

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


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PartialTransform(CopulaTransform):
    """What functions of given variables c leave of a function of x: called with both.

        transform(x, given=c) = f(x) - explained(c)

    It has zero mean and unit variance (with the weights of the fit) on the data it was fitted to,
    and correlates with no function of the kernel of c there, unless the correlation is 0; then it
    may be 0.  ``coefficients``, ``intercept`` and ``formula`` are those of f, a function of x
    alone.

    Attributes:
      explained: the regression of f on functions of c, a `CopulaTransform`, with a formula of its
        own.
    """

    explained: CopulaTransform

    def __call__(self, x: ArrayLike, given: ArrayLike | None = None) -> Array:
        """Return values ``(n,)`` at the same rows of ``x`` and ``given``.

        Args:
          x, given: ``(n,)`` or ``(n, p)``, of as many columns as the data of the fit.
        """
        check_single(self.side.coefficients.shape[:-1])
        x = as_new_data(x, self.encoder.variables, self.side.coefficients.dtype)
        c = as_new_given(given, self.explained.encoder, x)
        return first_rows(_evaluate(x, self) - _evaluate(c, self.explained), x.shape[0])


@jax.jit
def expansion(transform: CopulaTransform) -> tuple[Array, Array]:
    """Return the constant and the mixing coefficients, on the columns of the kernel."""
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
    """Return data for a transform, of as many columns as it was fitted to (None: any number)."""
    x = as_real_array(name, x).astype(dtype)
    if columns not in (None, 1 if x.ndim == 1 else x.shape[1]):
        raise ValueError(
            f"{name} must have {columns} column(s), as the data of the fit had;"
            f" got shape {tuple(x.shape)}."
        )
    return x


def as_new_given(given: ArrayLike | None, encoder: Encoder, x: Array) -> Array:
    """Return given variables at the rows of ``x``, for a transform."""
    if given is None:
        raise ValueError(
            "given is missing: the fit is of what other variables leave of two. Pass these at the"
            " same rows, as in fit.f(a, given=c) and fit.score(a, b, given=c)."
        )
    given = as_new_data(given, encoder.variables, x.dtype, name="given")
    if given.shape[0] != x.shape[0]:
        raise ValueError(f"given must have {x.shape[0]} rows, as x; got {given.shape[0]}.")
    return given


@over_rows(columns=1)
def _evaluate(x: Array, transform: CopulaTransform, *, count: Array | None) -> Array:
    del count  # the caller cuts the rows that are not data
    return transform.side(transform.encoder(x))
