"""Adult: who earns more than 50,000 dollars a year, from the US census of 1994."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hgr_jax.datasets.dataset import Dataset, encoded, from_columns
from hgr_jax.datasets.download import fetch
from hgr_jax.tables.files import read_publication

# fmt: off
ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "income",
)
CATEGORICAL_COLUMNS = frozenset({
    "workclass", "education", "marital-status", "occupation", "relationship", "race", "sex",
    "native-country",
})
# fmt: on


def load_adult(
    *,
    folder: str | Path | None = None,
    cache: str | Path | None = None,
    address: str | None = None,
    progress: bool = False,
) -> Dataset:
    """Load Adult: 48,842 persons, income above 50,000 dollars, protected age.

    The target is 1 where ``income`` is above 50,000 dollars a year, else 0.  Six inputs are
    numbers, in their units; eight are categories, with a missing value (``?``) as a level of its
    own.  The rows of the training part come first.

    Args:
      folder: a folder with ``adult.data`` and ``adult.test``; default the folder that the
        environment variable ``HGR_JAX_DATA`` names, if it is set.
      cache: the folder of downloads, made if need be; by default the user's cache folder.
      address: the base address of a mirror of both files; by default the publisher's.
      progress: whether to show a bar on stderr while downloading.

    Returns:
      A `Dataset` with ``x`` of shape ``(48842, 108)``, a classification.

    Raises:
      DatasetError: if a file cannot be downloaded, or has other contents than the publisher's.
      ImportError: without pyarrow; without pooch, where the folder does not hold the files.
      TypeError, ValueError: for another ``progress`` or ``address``.

    Licence: CC BY 4.0.

    Source: Becker & Kohavi (1996), "Adult", UCI Machine Learning Repository,
    doi:10.24432/C5XW20.

    Example:
      >>> from hgr_jax.datasets import load_adult
      >>> load_adult()  # doctest: +SKIP
      <Dataset adult: classification, 48842 rows, 108 inputs, target 'income', protected 'age'>
    """
    first, second = (
        # The comment line at the start of the test part has one value, and is skipped.
        read_publication(
            fetch(name, folder=folder, cache=cache, address=address, progress=progress),
            ADULT_COLUMNS,
        )
        for name in ("adult.data", "adult.test")
    )
    cells = {name: np.concatenate([first[name], second[name]]) for name in ADULT_COLUMNS}
    # The labels of the test part end in a full stop.
    cells["income"] = np.array([text.rstrip(".") == ">50K" for text in cells["income"]])
    return from_columns(
        "adult",
        encoded(cells, CATEGORICAL_COLUMNS),
        target="income",
        protected="age",
        task="classification",
    )
