"""Distance correlation from whole matrices of distances."""

from __future__ import annotations

import numpy as np


def distance_matrix(x: np.ndarray) -> np.ndarray:
    x = x.reshape(len(x), -1)
    return np.sqrt(np.sum((x[:, None] - x[None]) ** 2, axis=-1))


def dense_dcor(a: np.ndarray, b: np.ndarray, *, unbiased: bool = False) -> float:
    """The square of dCor, or R* of Szekely & Rizzo (2014), from whole distance matrices."""
    n = len(a)

    def centred(x: np.ndarray) -> np.ndarray:
        d = distance_matrix(x)
        if not unbiased:
            return d - d.mean(0) - d.mean(1)[:, None] + d.mean()
        d = d - (d.sum(0) + d.sum(1)[:, None]) / (n - 2) + d.sum() / ((n - 1) * (n - 2))
        return d - np.diag(np.diag(d))

    x, y = centred(a), centred(b)
    return float(np.sum(x * y) / np.sqrt(np.sum(x * x) * np.sum(y * y)))
