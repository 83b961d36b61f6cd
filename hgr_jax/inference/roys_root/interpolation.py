"""Roy's law at many values: evaluated at some, interpolated between them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hgr_jax._arrays import Floats
from hgr_jax.inference.roys_root.distribution import log_survival

NODES = 320
"""At which the law of one number of rows is evaluated."""

NEIGHBOURS = 6
"""Nodes by which a value is interpolated."""

MANY = 2 * NODES
"""Values of one law from which on it is interpolated."""


def log_survival_of_many(
    correlation: Floats, n: npt.ArrayLike, p: npt.ArrayLike, q: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """Return `log_survival` at many values, to 1e-6 where p <= 8 and 2e-5 at p = q = 16.

    With t = sqrt(-n log(1 - c^2)), log P falls about as -t^2 / 2: in log(1 + t) it is as smooth in
    the bulk as far out, and a polynomial through the six nearest of equidistant nodes follows it.

    Args:
      correlation: values in [0, 1].
      n, p, q: as `log_survival` has them; they broadcast to the shape of ``correlation``.
    """
    shape = np.shape(correlation)
    c, n, p, q = (each.ravel() for each in np.broadcast_arrays(correlation, n, p, q))
    result = np.empty(c.shape)
    small, large = np.minimum(p, q), np.maximum(p, q)
    # A number for each law: to sort rows of three would take longer than the law does.
    which, base = np.unique(n, return_inverse=True)[1], large.max(initial=0) + 1
    _, first, place, counts = np.unique(
        (which * base + small) * base + large,
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    few = (counts < MANY)[place]
    if few.any():
        result[few] = log_survival(c[few], n[few], p[few], q[few])
    for law in np.flatnonzero(counts >= MANY):
        chosen, one = np.flatnonzero(place == law), first[law]
        result[chosen] = _between_nodes(c[chosen], n[one], small[one], large[one])
    return result.reshape(shape)


def _between_nodes(c: Floats, n: float, p: float, q: float) -> Floats:
    found = np.where(c >= 1, -np.inf, 0 * c)
    inside = (c > 0) & (c < 1)
    if not inside.any() or min(p, q) == 0 or n <= p + q:
        return log_survival(c, n, p, q)
    at = np.log1p(np.sqrt(-n * np.log1p(-(c[inside] ** 2))))
    start, end = at.min(), at.max()
    nodes = np.linspace(start, end, NODES)
    values = log_survival(np.sqrt(-np.expm1(-(np.expm1(nodes) ** 2) / n)), n, p, q)
    step = (end - start) / (NODES - 1)
    where = (at - start) / (step if step > 0 else 1)
    first = np.clip(where.astype(np.intp) - (NEIGHBOURS // 2 - 1), 0, NODES - NEIGHBOURS)
    left = where - first
    total = np.zeros(len(at))
    for i in range(NEIGHBOURS):
        others = [j for j in range(NEIGHBOURS) if j != i]
        weight = np.prod([(left - j) / (i - j) for j in others], axis=0)
        total += weight * values[first + i]
    found[inside] = np.minimum(total, 0)
    return found
