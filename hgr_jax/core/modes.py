"""All modes of two variables: fits of every canonical pair, callable on new data."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array, lax
from numpy.typing import ArrayLike

from hgr_jax.core.canonical import PreparedPair, Transformation, WhitenedPair, mean_products, whiten
from hgr_jax.core.fits import (
    CopulaTransform,
    PartialTransform,
    ShownFit,
    Status,
    as_new_data,
    as_new_given,
    check_single,
    decide_status,
    on_variables,
)
from hgr_jax.core.kernels import Encoder
from hgr_jax.core.linalg import matmul
from hgr_jax.core.numerics import equal_weights, safe_norm, safe_sqrt
from hgr_jax.core.orthonormal import Basis
from hgr_jax.core.rows import row_by_row
from hgr_jax.core.solvers import CanonicalModes, all_modes


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SpectrumTransform:
    """The transformations of one variable in all modes: ``x (n,)`` or ``(n, p)`` to ``(n, r)``.

    On the data of the fit they have zero mean and unit variance and are not correlated with each
    other; that of a mode whose correlation is 0 may be 0.  ``transform[i]`` is the one of mode i,
    a `CopulaTransform`.  Differentiable in ``x`` and, through the fit, in the data.

    Of a fit given other variables c they are called with these, ``f(x, given=c)``; ``transform[i]``
    is a `PartialTransform` then, and ``explained`` are the regressions on functions of c.
    """

    encoder: Encoder
    basis: Basis
    weights: Array
    explained: SpectrumTransform | None = None

    def __call__(self, x: ArrayLike, given: ArrayLike | None = None) -> Array:
        """Return values ``(n, r)`` at ``x``, and at ``given`` if the fit was, as in the fit."""
        check_single(self.weights.shape[:-2])
        x = as_new_data(x, self.encoder.variables, self.weights.dtype)
        c = None
        if self.explained is not None:
            c = as_new_given(given, self.explained.encoder, x)
        elif given is not None:
            raise ValueError("given must be None: the fit was of a and b alone, given none.")
        return _evaluate_modes(x, c, self)

    def __len__(self) -> int:
        check_single(self.weights.shape[:-2])
        return self.weights.shape[0]

    def __getitem__(self, mode: int) -> CopulaTransform:
        if not -len(self) <= mode < len(self):
            raise IndexError(f"there are {len(self)} modes, counted from 0; got {mode}.")
        side = Transformation(self.basis, self.weights[mode])
        if self.explained is None:
            return CopulaTransform(self.encoder, side)
        return PartialTransform(self.encoder, side, self.explained[mode])


@row_by_row(columns=2)
def _evaluate_modes(x: Array, given: Array | None, transform: SpectrumTransform) -> Array:
    values = matmul(transform.weights, transform.basis.functions(transform.encoder(x))).T
    if given is None or transform.explained is None:
        return values
    return values - _evaluate_modes(given, None, transform.explained)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class SpectrumFit(ShownFit):
    """A fit of all modes: the result of `spectrum_fit`.

    Attributes:
      correlations: ``(r,)``, of each mode, the largest first, in [0, 1].
      f, g: the transformations of a and of b in all modes: ``f(x)`` is ``(n, r)``, ``f[i]`` that of
        mode i.  Of the two signs a mode could have, the one is taken that `KBFit` says.
      mean: of b, ``()``, or ``(p,)`` where b is ``(n, p)``.
      loadings: the means of ``g_i(b) b`` over the rows, ``(r,)`` or ``(r, p)``.
      degrees: ``(2,)`` how many directions of each kernel the data supports.
      status: a `Status`, as an int array; TIED where any two modes tie.
      base: the regression of b, less its mean, on functions of given variables, ``(n, 1)`` or
        ``(n, p)``; None where none were given.
    """

    correlations: Array
    f: SpectrumTransform
    g: SpectrumTransform
    mean: Array
    loadings: Array
    degrees: Array
    status: Array
    base: SpectrumTransform | None = None

    shown: ClassVar = ("correlations", "total", "mutual_information", "degrees")

    @property
    def total(self) -> Array:
        """The root of the mean of the squared correlations: `hgr_jax.total`."""
        return safe_sqrt(jnp.mean(self.correlations * self.correlations, axis=-1))

    @property
    def mutual_information(self) -> Array:
        """``-1/2 sum_i log(1 - correlations_i^2)``, in nats; infinite where a correlation is 1.

        The mutual information of two groups of jointly normal variables of these canonical
        correlations. (Of a bivariate normal pair, whose modes are all of one relation, it is the
        first term.)
        """
        squares = self.correlations * self.correlations
        return -jnp.sum(jnp.log1p(-squares), axis=-1) / 2

    def predict(self, a: ArrayLike, given: ArrayLike | None = None) -> Array:
        """Return the regression of b on a that the modes give, at other values of a.

            mean + sum_i correlations_i f_i(a) loadings_i

        Where b itself is in the span of its kernel, as it is for every degree, this is least
        squares of b on the kernel of a: with degrees, polynomial regression of degree h.  Given
        other variables c, ``base(c)`` is added: least squares on the kernels of a and of c.

        Args:
          a: as in the fit, any number of rows.
          given: the variables that were given to the fit, at the same rows; None where none were.

        Returns:
          ``(n,)``, or ``(n, p)`` where b is ``(n, p)``.
        """
        values = self.f(a, given=given)
        r, *columns = self.loadings.shape
        scaled = self.correlations.reshape(r, *[1] * len(columns)) * self.loadings
        predicted = matmul(values, scaled) + (self.mean[None, :] if self.mean.ndim else self.mean)
        if self.base is None or given is None:
            return predicted
        base = self.base(given)
        return predicted + (base if columns else base[:, 0])


def _whitened_pair(pair: PreparedPair) -> tuple[WhitenedPair, Array, Array]:
    """Return the result of `whiten`, M of the size of both kernels, and whether all is finite."""
    fitted = whiten(pair.problem.degrees, pair.a, pair.b, pair.weights, pair.count)
    m, finite = fitted.cross_moments()
    h, k = pair.problem.degrees
    return fitted, m[:h, :k], finite & fitted.finite


def correlations_of_modes(pair: PreparedPair) -> Array:
    """Return the canonical correlations ``(r,)``, the largest first."""
    _, m, finite = _whitened_pair(pair)
    return jnp.where(finite, jnp.minimum(all_modes(m).correlations, 1), jnp.nan)


def total_correlation(pair: PreparedPair) -> Array:
    """Return the root mean square of the canonical correlations, a smooth function of M."""
    _, m, finite = _whitened_pair(pair)
    return jnp.where(finite, jnp.minimum(safe_norm(m) / min(m.shape) ** 0.5, 1), jnp.nan)


def fit_modes(pair: PreparedPair) -> SpectrumFit:
    """Fit all modes of a pair."""
    _, b = pair.variables
    fitted, m, finite = _whitened_pair(pair)
    modes = _with_fixed_signs(all_modes(m))
    degrees = pair.problem.degrees
    f, g = (
        SpectrumTransform(
            pair.encoders[v], fitted.basis(v, degree), matmul(vectors, fitted.rows(v, degree))
        )
        for v, (degree, vectors) in enumerate(zip(degrees, (modes.u, modes.v), strict=True))
    )
    # Moved near 0 first, so that the products keep their digits.
    near = b - lax.stop_gradient(b[:1])
    w = equal_weights(pair.count, b) if pair.weights is None else pair.weights
    mean = matmul(w, near)
    centred = near - (mean[None, :] if mean.ndim else mean)
    loadings = mean_products(g.basis, g.weights, pair.b, pair.weights, pair.count, centred)
    in_span = jnp.stack([jnp.sum(side.basis.in_span) for side in (f, g)])
    conditioned, base, residuals = fitted.well_conditioned, None, pair.residuals
    if residuals is not None:
        c = residuals.conditioning
        conditioned &= residuals.well_conditioned
        regression = mean_products(c.basis, c.rows, c.features, w, None, centred)
        slopes = matmul(regression.T, c.rows).reshape(-1, c.rows.shape[1])
        base = SpectrumTransform(c.encoder, c.basis, slopes)
        own, explained, sign = on_variables(pair, (f.basis, g.basis), (f.weights, g.weights))
        f, g = (
            SpectrumTransform(
                side.encoder,
                side.basis,
                weights,
                SpectrumTransform(c.encoder, c.basis, slopes_of_c),
            )
            for side, weights, slopes_of_c in zip(residuals.sides, own, explained, strict=True)
        )
        loadings = sign.reshape(-1, *[1] * (loadings.ndim - 1)) * loadings
    return SpectrumFit(
        correlations=jnp.where(finite, jnp.minimum(modes.correlations, 1), jnp.nan),
        f=f,
        g=g,
        mean=mean + lax.stop_gradient(b[0]),
        loadings=loadings,
        degrees=in_span.astype(jnp.int32),
        status=decide_status(
            (modes.tied, Status.TIED),
            (~conditioned, Status.ILL_CONDITIONED),
            (jnp.any(in_span == 0), Status.CONSTANT),
            (~fitted.finite, Status.NOT_FINITE),
        ),
        base=base,
    )


def _with_fixed_signs(modes: CanonicalModes) -> CanonicalModes:
    """Return modes whose largest component of u is positive (of v, where u is 0)."""
    deciding = jnp.concatenate([modes.u, modes.v / (2 * modes.u.shape[1])], axis=1)
    place = jnp.argmax(jnp.abs(deciding), axis=1, keepdims=True)
    largest = lax.stop_gradient(jnp.take_along_axis(deciding, place, axis=1))
    sign = jnp.where(largest < 0, -1, 1).astype(largest.dtype)
    return modes._replace(u=sign * modes.u, v=sign * modes.v)
