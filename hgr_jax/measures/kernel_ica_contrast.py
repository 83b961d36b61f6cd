"""The contrasts of kernel independent component analysis: KCC and KGV."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax
from numpy.typing import ArrayLike

from hgr_jax._checks import as_pair, as_positive, check_choice, check_count, one_or_pair
from hgr_jax.core.linalg import matmul, symmetric_eigen
from hgr_jax.core.numerics import row_count, safe_divide, safe_norm
from hgr_jax.core.rows import over_rows
from hgr_jax.core.solvers import top_pair
from hgr_jax.measures._nystrom import (
    centred_features,
    feature_covariance,
    ridge_beyond_rounding,
    usable,
    whiteners,
)

KINDS = ("kgv", "kcc")

SMALL_ROWS = 1000
"""Largest number of rows with the paper's stronger smoothing: its kappa and sigma change here."""

LowRankFeatures = tuple[Array, Array]
"""Centred features ``(r, n)`` of a and of b."""


def kernel_ica_contrast(
    a: ArrayLike,
    b: ArrayLike,
    *,
    kind: str = "kgv",
    regularization: ArrayLike | None = None,
    bandwidth: ArrayLike | None = None,
    rank: int = 64,
) -> Array:
    """Compute the contrast of kernel ICA: a mutual information through Gaussian kernels.

    With K_a, K_b the centred n x n Gram matrices of exp(-|x - x'|^2 / (2 bandwidth^2)) on
    standardised variables and kappa the regularization,

        rho_1 >= rho_2 >= ... = singular values of R_a R_b,   R = (K + n kappa / 2)^-1 K
        KCC = -1/2 log(1 - rho_1)                             (kernel canonical correlation)
        KGV = -1/2 sum over i of log(1 - rho_i^2)             (kernel generalised variance)

    KGV is the mutual information that normal variables of these canonical correlations would
    have.  Neither changes under shifts, changes of scale or sign, or a permutation of the rows.

    Args:
      a, b: real arrays ``(n,)``, or ``(n, p)`` for several variables at once, traced.  Each
        column is standardised.
      kind: ``"kgv"`` or ``"kcc"``, static.
      regularization: kappa > 0, traced; None stands for the paper's 2e-2 up to n = 1,000 and
        2e-3 above.  Less than 32 eps (4e-6 in float32, 7e-15 in float64) counts as that.
      bandwidth: standard deviations over which functions vary, > 0, traced; one number, or a
        pair (for a, for b); None stands for the paper's 1 up to n = 1,000 and 1/2 above.
      rank: static, int >= 1: each Gram matrix is represented by at most so many of its columns
        (pivoted incomplete Cholesky).  64 is exact to rounding for one variable at bandwidths
        from 1/2 on, but for far outliers; several variables may need hundreds.

    Returns:
      A scalar >= 0 without upper bound, of the floating dtype of ``a`` and ``b``.  (The
      regularization bounds it on given data: rho_1 is below 1.)  It is not on the scale of the
      other measures, and two values compare only at the same options: mind the defaults, which
      change above n = 1,000.

    Raises:
      TypeError, ValueError: for shapes, dtypes or static arguments other than the above.

    Derivatives: with respect to ``a``, ``b``, ``regularization`` and ``bandwidth``, forward and
    reverse: of KGV of every order; of KCC the first only, by the envelope theorem, with the
    canonical vectors held fixed (exact where rho_1 > rho_2; a second derivative would lack
    theirs).  The rows that the low rank is built on are held fixed.

    Degenerate data: a constant ``a`` or ``b`` gives 0, with zero derivatives; NaN or infinity
    gives NaN, and so does a traced option that is not above 0.  The sample value is biased upward:
    between independent normal variables KGV has mean 0.004 at n = 1,000 and 0.005 at 10,000, KCC
    0.035 and 0.026.

    Cost: O(n rank^2) time and O(n rank) memory; never n x n.

    Source: Bach & Jordan, "Kernel independent component analysis" (2002).

    Example:
      >>> import jax.numpy as jnp, hgr_jax
      >>> angle = jnp.linspace(0, 2 * jnp.pi, 200, endpoint=False)
      >>> a, b = jnp.cos(angle), jnp.sin(angle)
      >>> print(f"{hgr_jax.kernel_ica_contrast(a, b):.2f}")
      0.47
      >>> print(f"{hgr_jax.kernel_ica_contrast(a, b, kind='kcc', bandwidth=2.0):.2f}")
      0.23
    """
    a, b = as_pair(a, b)
    few = a.shape[0] <= SMALL_ROWS
    if regularization is None:
        regularization = 2e-2 if few else 2e-3
    if bandwidth is None:
        bandwidth = 1.0 if few else 0.5
    return _kernel_ica_contrast(
        a,
        b,
        as_positive("regularization", regularization, a.dtype),
        one_or_pair("bandwidth", bandwidth, as_positive, a.dtype),
        kind=check_choice("kind", kind, KINDS),
        rank=check_count("rank", rank),
    )


@over_rows(columns=2, static=("kind", "rank"))
def _kernel_ica_contrast(
    a: Array,
    b: Array,
    regularization: Array,
    bandwidth: tuple[Array, Array],
    *,
    kind: str,
    rank: int,
    count: Array | None,
) -> Array:
    valid, varies, columns, (kappa, *widths) = usable((a, b), (regularization, *bandwidth))
    features = centred_features(columns, widths, rank, count)
    ridge = ridge_beyond_rounding(kappa / 2)
    contrast = _generalised_variance if kind == "kgv" else _first_correlation
    value = contrast(features, ridge, count)
    return jnp.where(valid, jnp.where(varies, value, 0), jnp.nan)


def _generalised_variance(features: LowRankFeatures, ridge: Array, count: Array | None) -> Array:
    """Return KGV from r x r matrices: a determinant, smooth where single rho_i are not.

    With W (C + ridge) W^T = 1 and T = W_a C_ab W_b^T, the squares of the rho_i are the
    eigenvalues of K_a T K_b T^T, where K = W C W^T = 1 - ridge W W^T.
    """
    left, right = whiteners(features, ridge, count)
    cross = matmul(matmul(left, feature_covariance(*features, count)), right.T)
    identity = jnp.eye(cross.shape[0], dtype=cross.dtype)
    kept_a, kept_b = (identity - ridge * matmul(w, w.T) for w in (left, right))
    squares = matmul(matmul(kept_a, cross), matmul(kept_b, cross.T))
    return -jnp.linalg.slogdet(identity - squares)[1] / 2


def _first_correlation(features: LowRankFeatures, ridge: Array, count: Array | None) -> Array:
    """Return KCC: rho_1 = R_a p . R_b q, its unit singular vectors p and q ``(n,)`` held fixed.

    ``R p = F^T (C + ridge)^-1 F p / n = (W F)^T (W F) p / n``, as R is symmetric.
    """
    vectors = _singular_vectors(*lax.stop_gradient((features, ridge)), count)
    smoothed = []
    for f, w, vector in zip(features, whiteners(features, ridge, count), vectors, strict=True):
        white = matmul(w, f)
        smoothed.append(matmul(matmul(white, vector), white) / row_count(count, vector))
    return -jnp.log1p(-matmul(*smoothed)) / 2


def _singular_vectors(
    features: LowRankFeatures, ridge: Array, count: Array | None
) -> tuple[Array, Array]:
    """Return the top singular vectors ``(n,)`` of R_a R_b, by eigenvectors of both covariances.

    With C = E diag(e) E^T these are F^T E e^(-1/2) / sqrt(n) times the singular vectors of
    S_a C_ab S_b^T, S = e^(1/2) / (e + ridge) E^T; the powers of e cancel to no negative one.
    """
    scales, solves = [], []
    for f in features:
        values, vectors = symmetric_eigen(feature_covariance(f, f, count))
        values = jnp.maximum(values, 0)
        inverse = 1 / (values + ridge)
        scales.append((jnp.sqrt(values) * inverse)[:, None] * vectors.T)
        solves.append(matmul(vectors * inverse[None, :], vectors.T))
    cross = feature_covariance(*features, count)
    pair = top_pair(matmul(matmul(scales[0], cross), scales[1].T), "svd")
    p = matmul(matmul(solves[0], matmul(cross, matmul(pair.v, scales[1]))), features[0])
    q = matmul(matmul(solves[1], matmul(matmul(pair.u, scales[0]), cross)), features[1])
    return safe_divide(p, safe_norm(p)), safe_divide(q, safe_norm(q))
