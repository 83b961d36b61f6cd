"""HGR-KB on rows other than those it was fitted to: cross-fitting and the bootstrap."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import Array

from hgr_jax._checks import as_key, as_pair, check_count, check_level
from hgr_jax.core.host.linalg import top_singular_triples
from hgr_jax.core.host.polynomials import fit_pair, tolerance
from hgr_jax.inference.intervals import corrected_on_host
from hgr_jax.inference.permutation import host_generator
from hgr_jax.inference.selection import FoldMoments, fold_pair

RESAMPLE_MEMORY = 2**27
"""Largest number of bytes of the resamples of a chunk."""


def cross_fitted(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    h: int = 5,
    k: int = 5,
    *,
    key: Array,
    folds: int = 5,
    weights: npt.ArrayLike | None = None,
) -> float:
    """Estimate HGR-KB by cross-fitting: transformations are scored on rows they were not fitted on.

        mean over folds F of  rho_F( f_-F(a), g_-F(b) )

    with f_-F, g_-F the transformations that `hgr_jax.kb_fit` finds on the rows outside F, and
    rho_F Pearson's correlation on the rows of F.  It is about 0 between independent variables, and
    below HGR between dependent ones, as transformations learned from few rows are not optimal.

    Args:
      a, b: real arrays ``(n,)``.
      h, k: degrees, int >= 1.
      key: a random key for the folds, as ``jax.random.key(0)`` makes.
      folds: int, 2 to n / 2; rows are dealt to folds of sizes that differ by one at most.
      weights: non-negative ``(n,)``, or None.  A fold without any weight is left out.

    Returns:
      A number in [-1, 1]; the same for the same key.

    Raises:
      TypeError, ValueError: for shapes, dtypes or options other than the above, and for weights
        that leave fewer than two folds.

    Degenerate data: a fold on which f or g does not vary (a constant, a fold of one row) counts
    as 0; NaN or infinity gives NaN.

    Cost: a host function, not to be traced: one basis for all rows, a Gram matrix for each fold.

    Source: Bickel, Klaassen, Ritov & Wellner, "Efficient and Adaptive Estimation for
    Semiparametric Models" (1993), for estimates fitted on other rows.

    Example:
      >>> import jax, numpy as np, hgr_jax
      >>> from hgr_jax.inference import cross_fitted
      >>> a, b = np.random.default_rng(0).normal(size=(2, 300))
      >>> key = jax.random.key(0)
      >>> cross_fitted(a, b, key=key) < 0.1 < float(hgr_jax.kb(a, b))
      True
      >>> print(f"{cross_fitted(a, a**2 + b / 10, h=2, k=1, key=key):.2f}")
      1.00
    """
    degrees = (check_count("h", h), check_count("k", k))
    rows = fold_pair(a, b, weights, key, folds)
    if not rows.is_sound:
        return np.nan
    pair = fit_pair(rows.a, rows.b, rows.weights, degrees)
    moments = FoldMoments(pair, rows.inside)
    m, *maps = pair.whitened(moments.training)
    _, u, v = top_singular_triples(m)
    rounding = tolerance(rows.dtype) * sum(degrees)
    scores = [
        moments.scores(int(i), u[:, i] @ maps[0][..., i], v[:, i] @ maps[1][..., i], rounding)
        for i in np.flatnonzero(moments.counted)
    ]
    return float(np.mean(scores))


@dataclasses.dataclass(frozen=True)
class BootstrapInterval:
    """The result of `bootstrap`.

    Attributes:
      low, high: ends of the interval for HGR, in [0, 1].
      value: HGR-KB on the data.
      corrected: the value with less of its upward bias, `hgr_jax.inference.corrected`.
      level: the nominal coverage.
    """

    low: float
    high: float
    value: float
    corrected: float
    level: float


def bootstrap(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    h: int = 5,
    k: int = 5,
    *,
    key: Array,
    resamples: int = 500,
    level: float = 0.95,
) -> BootstrapInterval:
    """Bootstrap an interval for the maximal correlation of polynomials of degrees h and k.

    With c(.) Ezekiel's correction for h + k - 1 parameters, and KB_j* the value of HGR-KB on
    the j-th resample, n rows drawn with replacement, the interval is

        from the Phi(2 z - t) to the Phi(2 z + t) quantile of  c(c(KB_j*)),
        Phi(z) = share of c(c(KB_j*)) below c(KB), ties by half,   Phi(t) = (1 + level) / 2.

    HGR-KB is biased upward, on a resample twice: the resamples are corrected twice, the data once,
    and the bias that remains is Efron's z.

    Args:
      a, b: real arrays ``(n,)``.
      h, k: degrees, int >= 1.
      key: a random key, as ``jax.random.key(0)`` makes.
      resamples: int >= 1; with 500 the error of an end is some tenth of its distance to the value.
      level: nominal coverage, above 0 and below 1.

    Returns:
      A `BootstrapInterval`, of Python numbers.

    Raises:
      TypeError, ValueError: for shapes, dtypes or options other than the above.

    Coverage: of 95% intervals, in 500 simulations each, for normal pairs of correlation rho (then
    HGR is rho, whatever the degrees), with n = 200 and 1,000 rows:

        rho             0     0.1     0.3     0.6     0.9
        h = k = 2   99, 100  97, 94  97, 95  95, 96  94, 93 %
        h = k = 5   99,  98  98, 96  98, 97  97, 96  94, 95 %

    Intervals that miss mostly lie too high: often where the first two canonical correlations tie,
    and of values with far outliers.  HGR itself may be far above HGR-KB of degrees h and k.

    Degenerate data: a constant ``a`` or ``b`` has value 0 and the interval [0, 0], and a perfect
    relation 1 and [1, 1]; NaN or infinity gives NaN.  On ``n <= h + k`` rows the interval is [0, 1]
    (for data of few distinct values, with the degrees that they support).

    Cost: a host function, not to be traced: 500 resamples of 10,000 rows take 0.1 s on one core.

    Source: Efron, "Nonparametric standard errors and confidence intervals" (1981), for the bias
    corrected percentiles; Ezekiel, "Methods of correlation analysis" (1930).

    Example:
      >>> import jax, numpy as np
      >>> from hgr_jax.inference import bootstrap
      >>> a, noise = np.random.default_rng(0).normal(size=(2, 500))
      >>> found = bootstrap(a, 0.6 * a + 0.8 * noise, h=2, k=2, key=jax.random.key(0))
      >>> found.low < 0.6 < found.high
      True
    """
    a, b = as_pair(a, b, max_ndim=1)
    key = as_key(key)
    degrees = (check_count("h", h), check_count("k", k))
    count = check_count("resamples", resamples)
    level = check_level("level", level)
    rows = a.shape[0]
    if not (jnp.isfinite(a).all() and jnp.isfinite(b).all()):
        return BootstrapInterval(np.nan, np.nan, np.nan, np.nan, level)
    polynomials = fit_pair(np.asarray(a), np.asarray(b), np.ones(rows), degrees)
    parameters = sum(polynomials.directions) - 1
    value = float(polynomials.values(np.ones((rows, 1)))[0])
    center = float(corrected_on_host(value, rows, parameters))
    if value == 0:
        return BootstrapInterval(value, value, value, value, level)
    if rows <= parameters + 1:
        return BootstrapInterval(0.0, 1.0, value, 0.0, level)
    size = min(count, max(1, RESAMPLE_MEMORY // (4 * rows * a.dtype.itemsize)))
    chunks = -(-count // size)
    size = -(-count // chunks)
    parts = [polynomials.values(drawn) for drawn in draws(key, rows, chunks * size, size)]
    once = corrected_on_host(np.concatenate(parts)[:count], rows, parameters)
    values = corrected_on_host(once, rows, parameters)
    low, high = _bias_corrected_percentiles(values, center, level)
    return BootstrapInterval(low, high, value, center, level)


def draws(key: Array, rows: int, count: int, size: int) -> Iterator[npt.NDArray[np.uint16]]:
    """Yield how often each row is drawn in ``count`` resamples, ``(rows, size)`` at a time."""
    generator = host_generator(key)
    for _ in range(0, count, size):
        chosen = (generator.integers(0, rows, rows) for _ in range(size))
        columns = [np.bincount(c, minlength=rows).astype(np.uint16) for c in chosen]
        yield np.stack(columns, axis=1)


def _bias_corrected_percentiles(
    values: npt.NDArray[np.float64], center: float, level: float
) -> tuple[float, float]:
    """Return Efron's interval; values that tie with the center count by half."""
    normal = statistics.NormalDist()
    below = np.mean(values < center) + np.mean(values == center) / 2
    edge = 0.5 / len(values)
    z = normal.inv_cdf(float(np.clip(below, edge, 1 - edge)))
    t = normal.inv_cdf((1 + level) / 2)
    low, high = np.quantile(values, [normal.cdf(2 * z - t), normal.cdf(2 * z + t)])
    return float(low), float(high)
