"""How much of a pair's correlation one row makes."""

from __future__ import annotations

import dataclasses

import numpy as np

from hgr_jax._arrays import Floats
from hgr_jax.core.fits import DOMINANT_PART
from hgr_jax.core.kernels import Indicators
from hgr_jax.inference._pairs import fit_pair


@dataclasses.dataclass(frozen=True)
class Influence:
    """Of one pair: the largest part of the correlation that a row makes, and which rows make most.

    Attributes:
      part: ``max_i w_i f(a_i) g(b_i) / correlation``; 1 / n where all rows make the same.
      row: its position in the table, from 0.
      without: the correlation without that row.
      rows: positions of the rows that make most, most first.
    """

    part: float
    row: int
    without: float
    rows: tuple[int, ...]

    @property
    def dominates(self) -> bool:
        """Whether the row makes a large part."""
        return self.part > DOMINANT_PART


def influence_of(
    a: Floats,
    b: Floats,
    weights: Floats | None,
    kernels: tuple[int | Indicators, int | Indicators],
    *,
    single: bool,
    listed: int = 20,
) -> Influence | None:
    """Find the rows of ``a`` and ``b (n,)`` that make most of their correlation.

    Args:
      a, b: NaN where missing.
      weights: ``(n,)`` or None.
      kernels: of a and of b.
      single: whether one side is linear, as in HGR-SK.
      listed: how many rows are named.

    Returns:
      None where there is no correlation.
    """
    usable = ~(np.isnan(a) | np.isnan(b))
    if weights is not None:
        usable &= weights > 0
    rows = np.flatnonzero(usable)
    if len(rows) < 2:
        return None
    w = np.ones(len(rows)) if weights is None else weights[rows].copy()
    fitted = fit_pair(a[rows], b[rows], w, kernels)
    count = fitted.directions[0]
    f, g = fitted.functions[1 : 1 + count], fitted.functions[1 + count :]
    if not (len(f) and len(g)):
        return None
    linear = [
        len(part) if isinstance(kernel, Indicators) else 1
        for part, kernel in zip((f, g), kernels, strict=True)
    ]
    blocks = [(len(f), linear[1]), (linear[0], len(g))] if single else [(len(f), len(g))]
    correlation, u, v = _best((f * fitted.shares) @ g.T, blocks)
    if not correlation > 0:
        return None
    parts = fitted.shares * (u @ f[: len(u)]) * (v @ g[: len(v)])
    most = np.argsort(-parts)[:listed]
    w[most[0]] = 0
    without = 0.0
    if len(rows) > 2:
        whitened, *_ = fitted.whitened(fitted.grams(w[:, None]))
        without = min(_best(whitened[..., 0], blocks)[0], 1.0)
    return Influence(
        part=float(parts[most[0]] / correlation),
        row=int(rows[most[0]]),
        without=without,
        rows=tuple(rows[most].tolist()),
    )


def _best(m: Floats, blocks: list[tuple[int, int]]) -> tuple[float, Floats, Floats]:
    """Return the largest of the top singular values of leading blocks of ``m``, and its vectors."""
    solved = [np.linalg.svd(m[:h, :k]) for h, k in blocks]
    u, values, v = max(solved, key=lambda found: found[1][0])
    return float(values[0]), u[:, 0], v[0]
