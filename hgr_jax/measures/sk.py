"""HGR-SK: the kernel of one variable against the other variable, in the better direction."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from hgr_jax._checks import as_pair, as_weights, check_kernel
from hgr_jax.core.canonical import SINGLE_KERNEL, Transformation, correlation, prepare, solve
from hgr_jax.core.fits import CopulaTransform, KBFit, SKFit, as_fit
from hgr_jax.core.kernels import Encoder, KernelLike, check_given, check_monomials
from hgr_jax.core.numerics import safe_divide
from hgr_jax.core.orthonormal import FeatureBasis, PolynomialBasis
from hgr_jax.core.partial import prepare_given
from hgr_jax.core.rows import over_rows


def sk(
    a: ArrayLike,
    b: ArrayLike,
    d: KernelLike = 5,
    *,
    weights: ArrayLike | None = None,
    given: ArrayLike | None = None,
    given_degree: KernelLike = 5,
) -> Array:
    """Compute HGR-SK, the correlation of one variable with the best polynomial of the other.

        HGR-SK(a, b; d) = max( rho(P_a^d alpha*, b), rho(a, P_b^d beta*) )

    with alpha*, beta* by least squares: the square root of the larger of two R^2.  It sees
    functional relations, ``b = f(a)`` or ``a = g(b)``, in either direction, and never exceeds
    `kb` at the same degrees.  With several variables on a side, "plain" means linear.

    Args:
      a, b, weights, given, given_degree: as in `kb`.
      d: kernel of either variable, static: a degree (int >= 1), or a hashable callable
        ``(n,) -> (n, m)`` of features (then ``a`` and ``b`` must be ``(n,)``).

    Returns:
      A scalar in [0, 1], of the floating dtype of ``a`` and ``b``.

    Raises:
      TypeError, ValueError: for shapes, dtypes or static arguments other than the above.

    Derivatives, degenerate data and cost: as in `kb`, without the SVD for ``(n,)`` arrays.
    Where both directions tie, the derivative is that of ``b = f(a)``.

    Source: Giuliani & Lombardi, "Robust Non-Linear Correlations via Polynomial Regression".

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> a = jnp.linspace(-1, 1, 101)
      >>> print(f"{hgr_jax.sk(a, a**2, d=2):.4f} {hgr_jax.sk(a**2, a, d=2):.4f}")
      1.0000 1.0000
    """
    a, b = as_pair(a, b, weights=weights, given=given)
    weights = as_weights(weights, a.shape[0], a.dtype)
    c, kernel = check_given(given, given_degree, a)
    return _sk(a, b, weights, c, d=_check_kernel(a, b, d), given_degree=kernel)


def sk_fit(
    a: ArrayLike, b: ArrayLike, d: KernelLike = 5, *, weights: ArrayLike | None = None
) -> SKFit:
    """Fit HGR-SK: its copula transformations, coefficients, diagnostics and direction.

    Degenerate data, cost and source as in `sk`, whose value is the ``correlation`` of the result.

    Args:
      a, b, d, weights: as in `sk`.

    Returns:
      An `SKFit`, in which one transformation is linear.  With a callable d, ``alpha`` and ``beta``
      hold the coefficients on its features and, last, on the variable itself.

    Raises:
      TypeError, ValueError: as `sk` does; ``status`` says what is wrong with values.

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> b = jnp.linspace(0, 2, 101)
      >>> fit = hgr_jax.sk_fit(b**2 - b, b, d=2)
      >>> fit.explains
      'a = g(b)'
      >>> print(fit.g.formula("b", digits=2))
      -0.517 - 1.52 b + 1.52 b^2
    """
    a, b = as_pair(a, b, weights=weights)
    return _sk_fit(a, b, as_weights(weights, a.shape[0], a.dtype), d=_check_kernel(a, b, d))


def _check_kernel(a: Array, b: Array, d: Any) -> KernelLike:
    d = check_kernel("d", d)
    if callable(d) and (a.ndim, b.ndim) != (1, 1):
        raise ValueError(
            "a callable d needs a and b of shape (n,);"
            f" got {tuple(a.shape)} and {tuple(b.shape)}. Use kb with the kernels you mean."
        )
    check_monomials("d", d, a)
    return check_monomials("d", d, b)


@over_rows(columns=4, static=("d", "given_degree"), weights=2)
def _sk(
    a: Array,
    b: Array,
    weights: Array | None,
    given: Array | None,
    *,
    d: KernelLike,
    given_degree: KernelLike,
    count: Array | None,
) -> Array:
    if callable(d) or given is not None:
        values = []
        for kernels in ((d, 1), (1, d)):
            pair = prepare_given(
                kernels, "svd", a, b, weights, (given, given_degree), count, names=("d", "d")
            )
            values.append(correlation(pair.problem, pair.a, pair.b, pair.weights, None, pair.count))
        first, second = values
        return jnp.where(second > first, second, first)
    pair = prepare((d, d), SINGLE_KERNEL, a, b, weights, count)
    return correlation(pair.problem, pair.a, pair.b, pair.weights, None, pair.count)


@over_rows(columns=3, static=("d",), weights=2)
def _sk_fit(
    a: Array, b: Array, weights: Array | None, *, d: KernelLike, count: Array | None
) -> SKFit:
    if callable(d):
        fits = []
        for kernels in ((d, 1), (1, d)):
            pair = prepare(kernels, "svd", a, b, weights, count, names=("d", "d"))
            solution = solve(pair.problem, pair.a, pair.b, pair.weights, None, pair.count)
            fit = as_fit(solution, pair)
            fits.append(
                dataclasses.replace(fit, f=_with_identity(fit.f, d), g=_with_identity(fit.g, d))
            )
        return _better_direction(*fits)
    pair = prepare((d, d), SINGLE_KERNEL, a, b, weights, count)
    solution = solve(pair.problem, pair.a, pair.b, pair.weights, None, pair.count)
    fit = as_fit(solution, pair, unique=True)
    return SKFit(**vars(fit), direction=solution.direction)


def _better_direction(first: KBFit, second: KBFit) -> SKFit:
    wins = ~(second.correlation > first.correlation)
    best = jax.tree.map(lambda x, y: jnp.where(wins, x, y), first, second)
    return SKFit(**vars(best), direction=jnp.where(wins, 0, 1))


@dataclasses.dataclass(frozen=True)
class _WithIdentity:
    """The features of a callable kernel and, last, the variable itself."""

    kernel: Callable[[Array], Array]

    def __call__(self, x: Array) -> Array:
        return jnp.concatenate([self.kernel(x).astype(x.dtype), x[:, None]], axis=1)


def _with_identity(transform: CopulaTransform, kernel: Callable[[Array], Array]) -> CopulaTransform:
    """Express a transformation by the features and the variable, as both directions must be."""
    basis, coefficients = transform.side.basis, transform.side.coefficients
    offset, weights = coefficients[0], coefficients[1:]
    if isinstance(basis, FeatureBasis):
        mean = jnp.append(basis.mean, 0)
        slopes = jnp.append(basis.transform @ weights, 0)
    else:
        assert isinstance(basis, PolynomialBasis)
        features = jax.eval_shape(kernel, jax.ShapeDtypeStruct((1,), weights.dtype)).shape[1]
        scale, center = basis.frame
        shift, _, step, correction = basis.recurrence[:, 0]
        slope = weights[0] * step
        offset = offset - slope * (shift + correction)
        mean = jnp.append(jnp.zeros(features, weights.dtype), safe_divide(center, scale))
        slopes = jnp.append(jnp.zeros(features, weights.dtype), slope * scale)
    joined = FeatureBasis(
        mean=mean,
        transform=jnp.eye(mean.shape[0], dtype=mean.dtype),
        in_span=jnp.ones(mean.shape[0], bool),
    )
    return CopulaTransform(
        Encoder(_WithIdentity(kernel)), Transformation(joined, jnp.insert(slopes, 0, offset))
    )
