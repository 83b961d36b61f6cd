"""Diabetes: the progression of a disease in 442 patients; scikit-learn brings the table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hgr_jax._optional import require


class Dataset(NamedTuple):
    """A table: inputs, target, and the protected attribute, which is one of the inputs.

    Attributes:
      x: the inputs ``(n, p)``, float64, in their units.
      y: the target ``(n,)``, float64, in its unit.
      z: the protected attribute ``(n,)``, float64.
      features: the ``p`` names of the inputs.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    z: NDArray[np.float64]
    features: tuple[str, ...]


def load_diabetes() -> Dataset:
    """Load Diabetes: its progression in 442 patients, protected age; needs no network.

    The target is a score from 25 to 346.  The ten inputs are in their units: age in years,
    ``sex`` 1 or 2, body mass index, blood pressure, and six blood serum measurements ``s1``, ...,
    ``s6``.

    Returns:
      A `Dataset` with ``x`` of shape ``(442, 10)``.

    Raises:
      ImportError: without scikit-learn.

    Licence: that of scikit-learn, which distributes the table (BSD-3-Clause).

    Source: Efron, Hastie, Johnstone & Tibshirani (2004), "Least Angle Regression", Annals of
    Statistics 32, 407-499.

    Example:
      >>> from hgr_jax.datasets import load_diabetes
      >>> data = load_diabetes()
      >>> data.z[:3]
      array([59., 48., 72.])
    """
    table = require("sklearn.datasets").load_diabetes(scaled=False)
    x = np.asarray(table.data, dtype=np.float64)
    features = tuple(table.feature_names)
    return Dataset(x, np.asarray(table.target, np.float64), x[:, features.index("age")], features)
