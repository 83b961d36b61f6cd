"""HGR of all pairs of columns in one call, as data frames have ``corr()``."""

from __future__ import annotations

from typing import Any

from hgr_jax.scanning.api import scan


def hgr_matrix(table: Any, **options: Any) -> Any:
    """Return HGR of every pair of columns as a data frame, like ``table.corr()`` of pandas.

        matrix.loc[a, b] = kb(table[a], table[b])   on the rows where both are present

    These are the values of `scan`, without its p-values (and so at a fraction of its cost): use it
    to know which of them are more than chance.  Columns that cannot be used are left out.

    Args:
      table: as of `scan`: a matrix, a mapping of names to columns, or a data frame.
      options: any of `scan` but ``pvalues``, such as ``h``, ``k`` and ``categories``.

    Returns:
      A symmetric frame ``(p, p)`` of the library of ``table`` (pandas for an array or a mapping),
      with 1 on the diagonal.  Of pandas, the names are its index and its columns; polars and
      pyarrow, which have no index, hold them in the first column.

    Raises:
      ImportError: without narwhals or the library.
      TypeError, ValueError: as `scan` does.

    Degenerate data: a column that is constant is left out; NaN is missing, pair by pair.

    Source: see `kb`.

    Example:
      >>> import numpy as np, pandas as pd, hgr_jax
      >>> x = np.linspace(-1, 1, 101)
      >>> frame = pd.DataFrame({"x": x, "square": x**2, "cosine": np.cos(9 * x)})
      >>> print(hgr_jax.hgr_matrix(frame, h=2, k=2).round(2))
                 x  square  cosine
      x       1.00    1.00    0.09
      square  1.00    1.00    0.36
      cosine  0.09    0.36    1.00
    """
    return scan(table, pvalues=None, **options).to_matrix()
