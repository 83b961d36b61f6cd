"""Distance correlation from whole matrices of distances."""

from __future__ import annotations

import numpy as np


def distance_matrix(x: np.ndarray) -> np.ndarray:
    x = x.reshape(len(x), -1)
    return np.sqrt(np.sum((x[:, None] - x[None]) ** 2, axis=-1))


def dense_dcor(a: np.ndarray, b: np.ndarray) -> float:
    """The square of dCor, from whole distance matrices."""

    def centred(x: np.ndarray) -> np.ndarray:
        d = distance_matrix(x)
        return d - d.mean(0) - d.mean(1)[:, None] + d.mean()

    x, y = centred(a), centred(b)
    return float(np.sum(x * y) / np.sqrt(np.sum(x * x) * np.sum(y * y)))
