"""Permutation tests of independence, for every measure."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import Array

from hgr_jax._checks import check_choice, check_count
from hgr_jax.core.arrays import as_estimate, as_pair, as_weights
from hgr_jax.core.canonical import SOLVERS
from hgr_jax.core.host.linalg import top_singular_values, whitened_blocks, whitenings
from hgr_jax.core.host.polynomials import PolynomialPair, fit_pair
from hgr_jax.core.indicators import Indicators
from hgr_jax.inference.orders import seed_of
from hgr_jax.measures.kb import kb

PERMUTATION_MEMORY = 2**27
"""Largest number of bytes of the permutations of a chunk."""

NUMBERS_PER_ROW = 64
"""Assumed number of intermediate values of a measure, per row."""


@dataclasses.dataclass(frozen=True)
class PermutationTest:
    """The result of `permutation_test`.

    Attributes:
      statistic: the measure on the given data.
      pvalue: (1 + permutations that reach the statistic) / (1 + permutations).
      null_mean, null_95: mean and 95% quantile of the measure over the permutations.
      permutations: number of permutations.
    """

    statistic: float
    pvalue: float
    null_mean: float
    null_95: float
    permutations: int


def permutation_test(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    measure: Callable[..., Array] = kb,
    *,
    key: Any,
    permutations: int = 999,
    weights: npt.ArrayLike | None = None,
    **options: Any,
) -> PermutationTest:
    """Test a dependence measure against independence, by permuting the rows of ``b``.

        p = (1 + #{j : measure(a, b[pi_j]) >= measure(a, b)}) / (1 + permutations)

    with random permutations pi_j.  If a and b are independent and their rows exchangeable, then
    P(p <= t) <= t for every t, whatever their distributions, the measure and the number of rows.
    A value equal to the statistic but for rounding counts as reaching it.

    Args:
      a, b: real arrays ``(n,)`` or ``(n, p)``, as the measure takes them.
      measure: ``(a, b, **options) -> scalar``, larger for more dependence (of a signed one, take
        the absolute value), that JAX can trace; hashable, and the same object each time, as
        another one compiles again.
      key: a random key, as ``jax.random.key(0)`` makes.
      permutations: int >= 1.  The p-value is at least 1 / (1 + permutations).
      weights: non-negative ``(n,)``, or None; given to the measure as ``weights``.  A weight stays
        with its row of ``a``; the test is valid where b is independent of both.  A row of
        weight 0 is dropped.
      options: of the measure, such as ``h=3, k=3`` of `hgr_jax.kb`; not ``given``.

    Returns:
      A `PermutationTest`, of Python numbers.

    Raises:
      TypeError, ValueError: for shapes, dtypes or options other than the above, or a measure that
        does not return one number.

    Degenerate data: a constant ``a`` or ``b`` has the p-value 1.  A statistic that is NaN gives
    NaN; a permutation whose value is NaN counts as reaching the statistic.

    Cost: a host function, not to be traced.  999 permutations of HGR-KB of two variables ``(n,)``,
    polynomials or categories, take about a second at 10,000 rows (more with weights): their bases
    are fitted once.  Other measures are computed anew each time.

    Source: Phipson & Smyth, "Permutation p-values should never be zero" (2010).

    Example:
      >>> import jax, jax.numpy as jnp, hgr_jax
      >>> from hgr_jax.inference import permutation_test
      >>> a = jnp.linspace(-1, 1, 60)
      >>> found = permutation_test(a, a**2, h=2, k=2, permutations=99, key=jax.random.key(0))
      >>> found.pvalue
      0.01
      >>> permutation_test(a, a**2, hgr_jax.sk, d=1, key=jax.random.key(0)).pvalue  # |Pearson|
      1.0
    """
    if options.get("given") is not None:
        raise ValueError(
            "permutations of b undo its dependence on given variables:"
            " hgr_jax.independence_test(a, b, given=c) tests two variables given others."
        )
    columns = np.asarray(a), np.asarray(b)
    a, b = as_pair(a, b, weights=weights)
    weights = as_weights(weights, a.shape[0], a.dtype)
    seed = seed_of(key)
    count = check_count("permutations", permutations)
    if not callable(measure):
        raise TypeError(f"measure must be a callable (a, b) -> scalar; got {measure!r}.")
    if weights is not None:
        used = np.asarray(weights) != 0
        a, b, weights = a[used], b[used], weights[used]
        columns = columns[0][used], columns[1][used]
    rows = a.shape[0]
    affordable = max(1, PERMUTATION_MEMORY // (rows * NUMBERS_PER_ROW * a.dtype.itemsize))
    chunks = -(-(1 + count) // affordable)
    size = -(-(1 + count) // chunks)
    kernels = _kernels_of_kb(measure, options)
    if kernels is not None and a.ndim == b.ndim == 1:
        w = np.ones(rows) if weights is None else np.asarray(weights)
        # In float64, as distinct numbers may be equal in float32.
        x, y = (np.asarray(column, np.float64) for column in columns)
        usable = all(np.isfinite(column).all() for column in (x, y, w)) and w.min() > 0
        pair = fit_pair(x, y, w, kernels) if usable else None
        values: Callable[..., Any] = functools.partial(_kb_values, pair, weights is not None)
    else:
        values = _values(a, b, measure, weights, options)
    parts = [np.asarray(values(order)) for order in orders(seed, rows, chunks, size)]
    all_values = np.concatenate(parts).astype(np.float64)
    statistic, null = float(all_values[0]), all_values[1 : 1 + count]
    if np.isnan(statistic):
        return PermutationTest(np.nan, np.nan, np.nan, np.nan, count)
    rounding = float(jnp.finfo(a.dtype).eps) ** (2 / 3) * max(
        abs(statistic), float(np.mean(np.abs(null)))
    )
    reached = int(np.sum(~(null < statistic - rounding)))
    return PermutationTest(
        statistic=statistic,
        pvalue=(1 + reached) / (1 + count),
        null_mean=float(np.mean(null)),
        null_95=float(np.quantile(null, 0.95)),
        permutations=count,
    )


def orders(
    seed: Sequence[int], rows: int, chunks: int, size: int
) -> Iterator[npt.NDArray[np.int32]]:
    """Yield orders of the rows, first the identity, ``(size, rows)`` at a time."""
    # By NumPy: XLA permutes by sorting random numbers, which takes several times as long.
    generator = np.random.default_rng(seed)
    plain = np.broadcast_to(np.arange(rows, dtype=np.int32), (size, rows))
    for chunk in range(chunks):
        drawn = generator.permuted(plain, axis=1)
        if chunk == 0:
            drawn[0] = plain[0]
        yield drawn


def _values(
    a: Array,
    b: Array,
    measure: Callable[..., Array],
    weights: Array | None,
    options: dict[str, Any],
) -> Callable[[npt.NDArray[np.int32]], Any]:
    """Return the function that maps orders of the rows of b ``(size, n)`` to values ``(size,)``."""
    if measure is kb:
        options = {"solver": "svd", **options}
    if weights is not None:
        options = {**options, "weights": weights}
    static = {name: value for name, value in options.items() if _is_static(value)}
    traced = {name: value for name, value in options.items() if name not in static}
    return functools.partial(
        _measure_values, a, b, traced, measure=measure, options=tuple(sorted(static.items()))
    )


def _kernels_of_kb(
    measure: Callable[..., Array], options: dict[str, Any]
) -> tuple[int | Indicators, int | Indicators] | None:
    """Return the kernels of HGR-KB (or of a `functools.partial` of it), or None."""
    partial: Any = measure
    if isinstance(measure, functools.partial) and not partial.args:
        measure, options = partial.func, {**partial.keywords, **options}
    kernels = (options.get("h", 5), options.get("k", 5))
    on_host = all(isinstance(kernel, Indicators) or not callable(kernel) for kernel in kernels)
    if measure is not kb or not on_host or not options.keys() <= {"h", "k", "solver"}:
        return None
    check_choice("solver", options.get("solver", SOLVERS[0]), SOLVERS)
    h, k = (
        kernel if isinstance(kernel, Indicators) else check_count(name, kernel)
        for name, kernel in zip("hk", kernels, strict=True)
    )
    return h, k


def _is_static(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


@functools.partial(jax.jit, static_argnames=("measure", "options"))
def _measure_values(
    a: Array,
    b: Array,
    traced: dict[str, Any],
    order: Any,
    *,
    measure: Callable[..., Array],
    options: tuple[tuple[str, Any], ...],
) -> Array:
    given = {**dict(options), **traced}
    return jax.vmap(lambda rows: as_estimate(measure, a, b[rows], given))(order)


def _kb_values(
    pair: PolynomialPair | None, weighted: bool, orders: npt.NDArray[np.int32]
) -> npt.NDArray[np.floating]:
    """Return HGR-KB for every order of the rows of b; weights stay with a."""
    if pair is None:
        return np.full(len(orders), np.nan)
    f, g = pair.sides
    cross = np.take(g, orders, axis=1).reshape(-1, len(pair.shares)) @ (f * pair.shares).T
    m: npt.NDArray[np.floating] = np.moveaxis(cross.reshape(len(g), len(orders), len(f)), -1, 0)
    if weighted:  # the functions of b are orthonormal with the weights in one order only
        shares = np.empty(orders.shape[::-1])
        np.put_along_axis(shares, orders.T, pair.shares[:, None], axis=0)
        mean, transform, _ = whitenings(PolynomialPair((g[:0], g), pair.shares).grams(shares))
        none = np.zeros((len(f), len(orders)))
        m = whitened_blocks(m, (none, np.ones_like(none)), (mean, transform))
    return np.minimum(top_singular_values(m), 1)
