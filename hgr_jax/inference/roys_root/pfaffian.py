"""The exact distribution of the largest root of a double Wishart matrix, as a Pfaffian.

The roots t_1 > ... > t_p have the density  prod_i w(t_i) prod_{i<j} (t_i - t_j)  up to a constant,
with  w(t) = t^((b-1)/2) (1-t)^((a-1)/2),  a = n - 1 - p - q,  b = q - p.  By de Bruijn's formula
P(t_1 <= x) is the Pfaffian of the matrix of

    <f, g>_x = 1/2 int_0^x int_0^x sign(s - t) f(t) g(s) w(t) w(s) dt ds = 1/2 int_0^x (F G' - F' G)

over any basis of the polynomials of degree < p, with F(t) = int_0^t f w; for odd p bordered by the
column F(x).  The basis here makes the antiderivatives explicit: F = u_j = v pi_j, with pi_j
orthonormal for the weight v(t)^2 / (t (1-t)) = t^b (1-t)^a / B(b+1, a+1)  (Jacobi polynomials, and
whole b), j = 0, ..., p-2, and for f = 1 the incomplete beta function W.  Then <., .>_1 is
tridiagonal, and

    <., .>_1 - <., .>_x  =  1/2 int_x^1 (pi_i pi_j' - pi_i' pi_j) v^2 dt      among the u,
                            1/2 W(x) u_j(x) + kappa int_x^1 pi_j v^2 / (t (1-t)) dt   with -W,

integrals of polynomials by (1-t)^a, which a Gauss rule has exactly.  In the skew-orthogonal basis
the matrix at 1 falls into blocks of 2 x 2, and elimination block by block has the pivots
1 - delta_k = P_{2k}(x) / P_{2k-2}(x), ratios of distribution functions for more and more roots,
never 0.  P(t_1 > x) = 1 - prod_k (1 - delta_k) loses no digits: the delta_k are what is computed.

Tails of the beta distribution as logarithms, for a second parameter of up to 10^9.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import numpy.typing as npt
from scipy import special

from hgr_jax._arrays import Floats

_LARGEST_SCALE = 600.0  # of a polynomial, as a logarithm; its square is still a double
_SMALLEST = -600.0
_SMALLEST_PIVOT = 1e-13  # below it is rounding: the probability of a root so small is 0
_CHUNK = 1 << 17


@dataclasses.dataclass(frozen=True)
class Roots:
    """The double Wishart problem of p <= q dimensions, for each of D numbers of rows n > p + q.

    Arrays have D columns: ``diagonal`` and ``off_diagonal`` hold the recurrence of pi_0, ...,
    pi_{p-2}, ``chain`` the entries of the matrix at 1, ``nodes`` and ``weights`` the Gauss rule of
    weight (1-s)^a on (0, 1), of total mass 1.
    """

    p: int
    q: int
    n: Floats
    a: Floats
    log_mass: Floats
    log_kappa: Floats
    diagonal: Floats
    off_diagonal: Floats
    chain: Floats
    nodes: Floats
    weights: Floats

    def columns(self, index: npt.NDArray[np.intp]) -> Roots:
        """Return the problem with column ``index[i]`` as column i, or its only column for all."""
        if self.a.size == 1:
            return self
        arrays = {
            field.name: getattr(self, field.name)[..., index]
            for field in dataclasses.fields(self)
            if field.name not in ("p", "q")
        }
        return dataclasses.replace(self, **arrays)


def roots(n: Floats, p: int, q: int) -> Roots:
    """Prepare the problem of 1 <= p <= q dimensions, for numbers of rows ``n (D,)`` > p + q."""
    a = n - 1.0 - p - q
    b = float(q - p)
    log_mass = log_beta(b + 1, a + 1)
    log_kappa = 0.5 * log_mass - log_beta((b + 1) / 2, (a + 1) / 2)
    diagonal, off_diagonal = _recurrence(max(p - 1, 0), a, b)
    order = np.arange(max(p - 2, 0))[:, None]
    couplings = (order + 1 + (a + b) / 2) * off_diagonal[: max(p - 2, 0)]
    first = [np.ones_like(a)] if p % 2 else []
    second = [np.exp(log_kappa)] if p > 1 else []
    nodes, weights = _gauss_rule((p + q - 2) // 2 if p > 1 else 0, a)
    return Roots(
        p=p,
        q=q,
        n=n,
        a=a,
        log_mass=log_mass,
        log_kappa=log_kappa,
        diagonal=diagonal,
        off_diagonal=off_diagonal,
        chain=np.stack([*first, *second, *couplings]),
        nodes=nodes,
        weights=weights,
    )


def log_tails(
    x: Floats, complement: Floats, problem: Roots, index: npt.NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """Return log P(t_1 > x) and log P(t_1 <= x), (N,); ``index`` is the column of each x."""
    upper, lower = np.empty_like(x), np.empty_like(x)
    size = max(1, _CHUNK // (problem.p * max(problem.p, len(problem.nodes))))
    for start in range(0, x.size, size):
        part = slice(start, start + size)
        upper[part], lower[part] = _log_tails(
            x[part], complement[part], problem.columns(index[part])
        )
    return upper, lower


def _log_tails(x: Floats, complement: Floats, problem: Roots) -> tuple[Floats, Floats]:
    a, b = problem.a, float(problem.q - problem.p)
    log_tail = log_upper_tail(x, complement, (b + 1) / 2, np.broadcast_to((a + 1) / 2, x.shape))
    if problem.p == 1:
        with np.errstate(divide="ignore"):
            return log_tail, np.log(-np.expm1(log_tail))
    log_scale, deficits = _deficits(x, complement, log_tail, problem)
    scale = np.exp(log_scale)
    scaled = np.clip(scale * deficits, 0.0, 1.0)
    total = deficits.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_lower = np.log1p(-scaled).sum(axis=0)
        log_first = log_scale + np.log(total)
        log_upper = np.where(
            log_first < _SMALLEST, log_first, np.log(-np.expm1(np.minimum(log_lower, 0.0)))
        )
    return log_upper, log_lower


def _deficits(
    x: Floats, complement: Floats, log_tail: Floats, problem: Roots
) -> tuple[Floats, Floats]:
    """Return log s (N,) and rows delta_k / s; the scale s keeps far tails from underflow."""
    p, a, b = problem.p, problem.a, float(problem.q - problem.p)
    # In the far tail v(t)^2 underflows long before log P does.  So all values are divided by v^2 at
    # the larger of x and the mode of v^2, where v is largest on (x, 1); its logarithm is added at
    # the end.
    mode = (b + 1) / (a + b + 2)
    reference = np.maximum(x, mode)
    log_reference = np.log(reference)
    log_complement = np.where(x < 0.5, np.log1p(-x), np.log(complement))
    log_beyond = np.where(x < mode, np.log1p(-mode), log_complement)
    log_weight = 0.5 * ((b + 1) * log_reference + (a + 1) * log_beyond - problem.log_mass)
    # The leading term of pi_{p-2}, of coefficient 1 / prod o_j, overflows where n is large.
    highest = (p - 2) * log_reference - np.log(problem.off_diagonal[: p - 2]).sum(axis=0)
    log_size = np.clip(highest, 0.0, _LARGEST_SCALE)
    log_scale = log_weight + log_size

    from_reference = np.exp((a + 1) * (log_complement - log_beyond))
    here = np.exp(0.5 * ((b + 1) * (np.log(x) - log_reference))) * np.sqrt(from_reference)
    u = here * _polynomial_terms(x, problem, np.exp(-log_size))[0]
    # The Gauss rule moved to (x, 1); with t = x + (1 - x) s the weight (1-t)^a becomes (1-s)^a.
    t = x + complement * problem.nodes
    values, slopes = _polynomial_terms(t, problem, np.exp(-log_size))
    relative = t / reference
    common = from_reference / (a + 1) * problem.weights * relative ** int(b)
    moments = np.exp(problem.log_kappa + log_weight) / reference * (values * common).sum(axis=1)
    common *= (1 - problem.nodes) * complement * relative
    products = np.einsum("ign,jgn->ijn", values * common, slopes)

    # Only <., .>_1 - <., .>_x is formed, of size P(t_1 > x), never <., .>_x itself: their sum is
    # known exactly (`chain`), so that no digit of a small tail is lost in a difference from 1.
    border = p % 2
    matrix = np.zeros((p + border, p + border, x.size))
    matrix[1 + border :, 1 + border :] = (
        0.5 * np.exp(log_scale) * (products - products.swapaxes(0, 1))
    )
    with_first = -0.5 * np.expm1(log_tail) * u + moments
    matrix[border, 1 + border :] = with_first
    matrix[1 + border :, border] = -with_first
    if border:  # an antisymmetric matrix of odd size has no Pfaffian: F(x) is the row that is added
        with_border = np.concatenate([np.exp(log_tail - log_scale)[None], u])
        matrix[0, 1:] = with_border
        matrix[1:, 0] = -with_border
    _make_skew_orthogonal(matrix, problem.chain)
    return log_scale, _eliminate(matrix, np.exp(log_scale))


def _make_skew_orthogonal(matrix: Floats, chain: Floats) -> None:
    """Change, in place, to the basis in which the matrix at 1 consists of blocks (0 1; -1 0)."""
    size = len(matrix)
    for k in range(2, size, 2):
        # The matrix at 1 is tridiagonal: this takes from row k what couples it to row k - 1.
        ratio = chain[k - 1] / chain[k - 2]
        matrix[k] += ratio * matrix[k - 2]
        matrix[:, k] += ratio * matrix[:, k - 2]
    for k in range(0, size, 2):
        matrix[k + 1] /= chain[k]
        matrix[:, k + 1] /= chain[k]


def _eliminate(matrix: Floats, scale: Floats) -> Floats:
    """Find, in place, the deficits 1 - pivot, over ``scale``, of blocks of J - scale * matrix."""
    deficits = []
    for k in range(0, len(matrix), 2):
        first, second = matrix[k], matrix[k + 1]
        deficit = first[k + 1].copy()
        deficits.append(deficit)
        # The Schur complement of J - scale * matrix, whose J part is again J: only deficits change.
        pivot = 1.0 - scale * deficit
        positive = pivot > _SMALLEST_PIVOT
        factor = np.where(positive, scale, 0.0) / np.where(positive, pivot, 1.0)
        left, right = first[k + 2 :] * factor, second[k + 2 :]
        update = left[:, None] * right
        matrix[k + 2 :, k + 2 :] += update - update.swapaxes(0, 1)
    return np.stack(deficits)


def _polynomial_terms(t: Floats, problem: Roots, first: Floats) -> tuple[Floats, Floats]:
    """Return ``first`` times pi_0, ..., pi_{p-2} and their derivatives, (p - 1, ...), at ``t``."""
    values = np.zeros((problem.p - 1, *t.shape))
    slopes = np.zeros_like(values)
    values[0] = first
    for j in range(problem.p - 2):
        shifted = t - problem.diagonal[j]
        following, below = problem.off_diagonal[j], problem.off_diagonal[j - 1] if j else 0.0
        before, slope_before = (values[j - 1], slopes[j - 1]) if j else (0.0, 0.0)
        values[j + 1] = (shifted * values[j] - below * before) / following
        slopes[j + 1] = (shifted * slopes[j] + values[j] - below * slope_before) / following
    return values, slopes


def _recurrence(count: int, a: Floats, b: float) -> tuple[Floats, Floats]:
    """Return the recurrence of the orthonormal polynomials of weight t^b (1-t)^a on (0, 1).

    t pi_j = o_j pi_{j+1} + d_j pi_j + o_{j-1} pi_{j-1};  ``count`` rows of d and of o.
    """
    j = np.arange(count)[:, None]
    total = 2 * j + a + b
    numerator = (2 * j + b) * (2 * j + 2 * a + b) + 2 * total + b * b
    diagonal = np.where(
        j == 0, (b + 1) / (a + b + 2), numerator / (2 * np.where(j == 0, 1, total) * (total + 2))
    )
    j = j + 1
    total = 2 * j + a + b
    # j (j+a+b) / (total-1) is 1 at j = 1, where both vanish for a + b = -1
    ratio = np.where(j == 1, 1.0, j * (j + a + b) / np.where(j == 1, 1, total - 1))
    square = ratio * (j + a) * (j + b) / (total**2 * (total + 1))
    return diagonal, np.sqrt(square)


def _gauss_rule(count: int, a: Floats) -> tuple[Floats, Floats]:
    """Return nodes and weights (count, D), total mass 1, of the Gauss rule for (1-s)^a on (0, 1).

    Golub and Welsch (1969) for the nodes; the weights, which span many orders of magnitude, are
    1 / sum_j pi_j(s)^2, to full relative precision.
    """
    diagonal, off_diagonal = _recurrence(count, a, 0.0)
    matrices = np.zeros((a.size, count, count))
    k = np.arange(count)
    matrices[:, k, k] = diagonal.T
    matrices[:, k[1:], k[:-1]] = off_diagonal[: max(count - 1, 0)].T
    nodes = np.zeros((count, a.size))
    if count:
        nodes[:] = np.linalg.eigvalsh(matrices).T
    before, value = np.zeros_like(nodes), np.ones_like(nodes)
    square, scale = np.ones_like(nodes), np.ones_like(nodes)
    for j in range(count - 1):
        below = off_diagonal[j - 1] if j else 0.0
        before, value = value, ((nodes - diagonal[j]) * value - below * before) / off_diagonal[j]
        square += value**2
        if (large := np.abs(value) > _HUGE).any():
            down = np.where(large, 1 / _HUGE, 1.0)
            before, value, square = before * down, value * down, square * down**2
            scale *= down
    return nodes, scale**2 / square


_HUGE = 1e100
_STIRLING_FROM = 15.0
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)
_BEYOND_MEAN = 2.5
_NEAR_UNDERFLOW = -460.0
_LARGE = 1000.0
_NODES = 24


def log_beta(a: float, b: Floats) -> Floats:
    """Return log B(a, b) to about 1e-14, also for b >> a, where log-gammas would cancel."""
    large = np.maximum(b, _STIRLING_FROM)
    ratio = (large - 0.5) * np.log1p(a / large) + a * np.log(large + a) - a
    ratio += _stirling_series(large + a) - _stirling_series(large)
    small = special.gammaln(b + a) - special.gammaln(b)
    return special.gammaln(a) - np.where(b < _STIRLING_FROM, small, ratio)


def log_upper_tail(x: Floats, complement: Floats, a: float, b: Floats) -> Floats:
    """Return log P(X >= x) for X ~ Beta(a, b), 0 < x < 1 and ``complement`` = 1 - x.

    Beyond the bulk (1 - t)^b = (1 - x)^b exp(-u) turns the integral over t from x to 1 into
    one that Gauss and Laguerre's rule has to some 1e-13: that of t^(a-1), which hardly varies.
    """
    log_tail = np.empty_like(x)
    log_complement = np.where(x < 0.5, np.log1p(-x), np.log(complement))
    if a == 1:
        return b * log_complement
    far = (b * x >= a + _BEYOND_MEAN) | (b * log_complement < _NEAR_UNDERFLOW)
    if a % 1 == 0 and a < 2 * _NODES:  # betainc rounds 1 - x then; the rule is exact for large b
        far |= b > _LARGE
    low, high = ~far & (x < 0.5), ~far & (x >= 0.5)
    log_tail[low] = np.log1p(-special.betainc(a, b[low], x[low]))
    log_tail[high] = np.log(special.betainc(b[high], a, complement[high]))
    log_tail[far] = _log_far_tail(x[far], log_complement[far], a, b[far])
    return np.minimum(log_tail, 0.0)


def _log_far_tail(x: Floats, log_complement: Floats, a: float, b: Floats) -> Floats:
    nodes, weights = _laguerre_rule()
    t = -np.expm1(log_complement - nodes[:, None] / b)
    unit = np.maximum(x, 1 / b)
    mean = weights @ (t / unit) ** (a - 1)
    return b * log_complement + (a - 1) * np.log(unit) - np.log(b) - log_beta(a, b) + np.log(mean)


@functools.cache
def _laguerre_rule() -> tuple[Floats, Floats]:
    return np.polynomial.laguerre.laggauss(_NODES)


def _stirling_series(z: Floats) -> Floats:
    inverse = 1 / z
    square = inverse * inverse
    value = np.zeros_like(inverse)
    for coefficient in reversed(_STIRLING):
        value = value * square + coefficient
    return value * inverse
