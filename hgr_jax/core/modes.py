"""All modes of two variables: fits of every canonical pair, callable on new data."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from hgr_jax.core.canonical import PreparedPair, Transformation, WhitenedPair, whiten
from hgr_jax.core.fits import (
    CopulaTransform,
    ShownFit,
    as_new_data,
    as_new_given,
    check_single,
    decide_status,
    on_variables,
    takes_one_value,
)
from hgr_jax.core.kernels import Encoder
from hgr_jax.core.linalg import matmul
from hgr_jax.core.numerics import safe_norm, safe_sqrt
from hgr_jax.core.orthonormal import Basis
from hgr_jax.core.rows import row_by_row
from hgr_jax.core.solvers import all_modes, deciding_sign
from hgr_jax.core.status import Status


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SpectrumTransform:
    """The transformations of one variable in all modes: ``x (n,)`` or ``(n, p)`` to ``(n, r)``.

    On the data of the fit they have zero mean and unit variance and are not correlated with each
    other; in a mode of correlation 0 the transformation may be 0.  ``transform[i]`` is the
    `CopulaTransform` of mode i.  Differentiable in ``x`` and, through the fit, in the data.

    In a fit given other variables c, transformations take c too, ``f(x, given=c)``, and
    ``explained`` are the regressions on functions of c.
    """

    encoder: Encoder
    basis: Basis
    weights: Array
    explained: SpectrumTransform | None = None

    @takes_one_value
    def __call__(self, x: ArrayLike, given: ArrayLike | None = None) -> Array:
        """Return values ``(n, r)`` at ``x`` (and ``given``, if the fit had it), as in the fit.

        At one number, ``(r,)``.
        """
        check_single(self.weights.shape[:-2])
        x = as_new_data(x, self.encoder.variables, self.weights.dtype)
        return _evaluate_modes(x, as_new_given(given, self.explained, x), self)

    def __len__(self) -> int:
        check_single(self.weights.shape[:-2])
        return self.weights.shape[0]

    def __getitem__(self, mode: int) -> CopulaTransform:
        if not -len(self) <= mode < len(self):
            raise IndexError(f"there are {len(self)} modes, counted from 0; got {mode}.")
        side = Transformation(self.basis, self.weights[mode])
        explained = None if self.explained is None else self.explained[mode]
        return CopulaTransform(self.encoder, side, explained)


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
      f, g: the transformations of a and of b in all modes: ``f(x)`` is ``(n, r)``, ``f[i]`` the
        transformation of mode i.  The sign of a mode follows the rule of `KBFit`.
      degrees: ``(2,)`` how many directions of each kernel the data supports.
      status: a `Status`, as an int array; TIED where any two modes tie.
    """

    correlations: Array
    f: SpectrumTransform
    g: SpectrumTransform
    degrees: Array
    status: Array

    shown: ClassVar = ("correlations", "total", "degrees")

    @property
    def total(self) -> Array:
        """The root of the mean of the squared correlations: `hgr_jax.total`."""
        return safe_sqrt(jnp.mean(self.correlations * self.correlations, axis=-1))


def _whitened_pair(pair: PreparedPair) -> tuple[WhitenedPair, Array, Array]:
    """Whiten a pair; return also M, of the size of both kernels, and whether all is finite."""
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
    fitted, m, finite = _whitened_pair(pair)
    modes = all_modes(m)
    sign = deciding_sign(modes.u, modes.v)
    degrees = pair.problem.degrees
    f, g = (
        SpectrumTransform(
            pair.encoders[v], fitted.basis(v, degree), matmul(vectors, fitted.rows(v, degree))
        )
        for v, (degree, vectors) in enumerate(
            zip(degrees, (sign * modes.u, sign * modes.v), strict=True)
        )
    )
    in_span = jnp.stack([jnp.sum(side.basis.in_span) for side in (f, g)])
    conditioned, residuals = fitted.well_conditioned, pair.residuals
    if residuals is not None:
        c = residuals.conditioning
        conditioned &= residuals.well_conditioned
        direct, explained = on_variables(pair, (f.basis, g.basis), (f.weights, g.weights))
        f, g = (
            SpectrumTransform(
                side.encoder,
                side.basis,
                weights,
                SpectrumTransform(c.encoder, c.basis, regressions),
            )
            for side, weights, regressions in zip(residuals.sides, direct, explained, strict=True)
        )
    return SpectrumFit(
        correlations=jnp.where(finite, jnp.minimum(modes.correlations, 1), jnp.nan),
        f=f,
        g=g,
        degrees=in_span.astype(jnp.int32),
        status=decide_status(
            (modes.tied, Status.TIED),
            (~conditioned, Status.ILL_CONDITIONED),
            (jnp.any(in_span == 0), Status.CONSTANT),
            (~fitted.finite, Status.NOT_FINITE),
        ),
    )
