"""Diabetes: the progression of a disease in 442 patients; scikit-learn brings the table."""

from __future__ import annotations

import numpy as np

from hgr_jax._optional import require
from hgr_jax.datasets.dataset import Dataset, from_columns


def load_diabetes() -> Dataset:
    """Load Diabetes: its progression in 442 patients, protected age; needs no network.

    The target ``progression`` is a score from 25 to 346.  The ten inputs are in their units: age
    in years, ``sex`` 1 or 2, body mass index, blood pressure, and six blood serum measurements
    ``s1``, ..., ``s6``.

    Returns:
      A `Dataset` with ``x`` of shape ``(442, 10)``, a regression.

    Raises:
      ImportError: without scikit-learn.

    Licence: that of scikit-learn, which distributes the table (BSD-3-Clause).

    Source: Efron, Hastie, Johnstone & Tibshirani (2004), "Least Angle Regression", Annals of
    Statistics 32, 407-499.

    Example:
      >>> from hgr_jax.datasets import load_diabetes
      >>> data = load_diabetes()
      >>> data
      <Dataset diabetes: regression, 442 rows, 10 inputs, target 'progression', protected 'age'>
      >>> data["age"][:3]
      array([59., 48., 72.])
    """
    table = require("sklearn.datasets").load_diabetes(scaled=False)
    x, y = (np.asarray(part, dtype=np.float64) for part in (table.data, table.target))
    columns = dict(zip(table.feature_names, x.T, strict=True)) | {"progression": y}
    return from_columns(
        "diabetes", columns, target="progression", protected="age", task="regression"
    )
