"""Conditional-quantile transport row by row, by what it means."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats


def neighbors_of(z: float, of: np.ndarray, k: int) -> np.ndarray:
    """Which rows are neighbours: the k nearest, of two as near the one below, and their ties."""
    nearest = sorted(range(len(of)), key=lambda i: (abs(of[i] - z), of[i]))[:k]
    return np.isin(of, of[nearest])


def rank_among(p: float, others: np.ndarray) -> float:
    """Where p is among others, from 0 to 1: the middle of its ties, between others in between."""
    middle = (stats.rankdata(others, method="average") - 0.5) / len(others)
    if p <= others.min():
        return float(middle.min())
    if p >= others.max():
        return float(middle.max())
    below, above = others[others <= p].max(), others[others >= p].min()
    low, high = (middle[others == value][0] for value in (below, above))
    share = 0.0 if below == above else (p - below) / (above - below)
    return float(low + share * (high - low))


def conditional_rank(z: float, p: float, rows: tuple[np.ndarray, np.ndarray], k: int) -> float:
    """Where p is among the predictions of neighbours, moved to z along their line."""
    near = neighbors_of(z, rows[0], k)
    of, others = (values[near] for values in rows)
    if np.ptp(of) > 0:
        others = others + stats.linregress(of, others).slope * (z - of)
        widths = abs(z - of.mean()) / np.ptp(of)
    else:
        widths = 0.0 if z == of[0] else 1.0
    kept = 1.0 if widths <= 0.5 else max(0.0, 2 * (1 - widths))
    return kept * rank_among(p, others) + (1 - kept) / 2


def transported(
    rows: tuple[np.ndarray, np.ndarray], z: np.ndarray, p: np.ndarray, k: int
) -> np.ndarray:
    """Q(U(z, p)) of each row, for predictions of which no two are equal."""
    ranks = [conditional_rank(a, b, rows, k) for a, b in zip(z, p, strict=True)]
    return np.quantile(rows[1], ranks, method="hazen")


def out_of_fold(
    z: np.ndarray, p: np.ndarray, folds: Sequence[tuple[np.ndarray, np.ndarray]], k: int | None
) -> np.ndarray:
    """Each fold's predictions, transported by the others'; k of None is their root."""
    found = np.empty(len(p))
    for rest, fold in folds:
        size = k or round(np.sqrt(len(rest)))
        found[fold] = transported((z[rest], p[rest]), z[fold], p[fold], size)
    return found
