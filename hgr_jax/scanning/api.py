"""All pairs of the columns of a table: how strongly they depend on each other, and whether that
could be chance.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from hgr_jax._threads import one_blas_thread
from hgr_jax.scanning.request import (
    Categories,
    ColumnChoice,
    Execution,
    Given,
    Request,
    Test,
    Top,
    request_of,
)
from hgr_jax.scanning.result import Scan
from hgr_jax.scanning.row_options import with_row_options
from hgr_jax.scanning.sampling import TakenRows, rows_that_fit, take_rows
from hgr_jax.scanning.top import scan_columns
from hgr_jax.tables.columns import Columns, as_columns
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.sources import open_path


def scan(
    table: Any,
    *,
    h: int | None = None,
    k: int | None = None,
    measure: str | Callable[[Any, Any], Any] | None = None,
    target: ColumnChoice = None,
    among: ColumnChoice = None,
    given: Given | ColumnChoice = None,
    weights: ArrayLike | str | None = None,
    order: ArrayLike | str | None = None,
    groups: ArrayLike | str | None = None,
    categories: Categories | Collection[Any] = (),
    test: Test | str | None = "auto",
    top: Top | int | None = None,
    reading: Reading | None = None,
    execution: Execution = Execution(),  # noqa: B008
) -> Scan:
    """Measure the dependence of every pair of columns of a table, and test it.

        correlation[i, j] = hgr(column i, column j)   on the rows where both are present

    HGR is estimated by ranks, with numbers of functions that the data choose; with ``h`` or ``k``
    it is HGR-KB of the values, at these degrees.  A pair is estimated once: the column that comes
    first in the table (with ``target`` the other one) has degree h, the second has degree k; all
    matrices are symmetric.  Text and categorical
    columns enter by an indicator of each level (levels in fewer than 5 rows, or 1%, are pooled).
    Columns that cannot be used are named in `Scan.skipped`, and are an error where ``target``,
    ``given`` or ``categories`` names them; remarks are in `Scan.notes`.  A table
    may be in memory, in files, the result of a query, or on a cluster: options and values are the
    same.  How a table is read, which test is used when, and what each costs is in the guide "Scan
    a table".

    Args:
      table: matrix ``(n, p)`` of columns ``x0, x1, ...``, mapping of names to columns, data frame
        (pandas, polars, pyarrow), path, folder or pattern of files, dataset, query (polars,
        DuckDB), iterator of batches, Dask or Spark frame.
      h, k: degrees (1 to 50, default 5) of the first and second column, of HGR-KB.
      measure: ``"hgr"``, ``"kb"`` (the default where h or k is named), the name of another
        measure of `hgr_jax.measures`, or a function of two vectors that JAX can trace (these take
        numbers only).
      target, among: names or positions of columns; a pair has one of ``target`` (None: any) and
        one of ``among`` (None: any).
      given: columns whose effect is removed from all others, or ``Given(columns, degree=5)``.
      weights: non-negative weights ``(n,)``, or the name of the column that holds them: how
        precise each row is, not how often it occurred.
      order: True where the rows are a series in order as they stand, or the name of the column of
        numbers or dates that orders them, or an array ``(n,)``: p-values are by circular shifts,
        and at least 1 / n.  With groups, each of these is a series.
      groups: the name of the column, or an array ``(n,)``, of labels of rows that are alike, as
        those of one person: p-values are by orders within groups.  A column that is constant in
        each group has none.  See `independence_test` for both.
      categories: numeric columns to read as categories, or ``Categories(names,
        integers_up_to=10, missing="level")``.
      test: ``"auto"``, ``"asymptotic"``, ``"permutation"``, ``Test(kind,
        permutations=999, key=None)``, or None for no p-values.
      top: keep only the first pairs, of all that are tested: a number, or ``Top(1000,
        by="pvalue")``.
      reading: how a file is read, where that cannot be found out: ``Reading(decimal=",")``.
      execution: ``Execution(memory=2**29, progress=False)``.

    Returns:
      A `Scan`: lists, frames, matrices ``(p, p)``, pictures and fits of pairs.

    Raises:
      TypeError, ValueError: for a table or options that cannot be used (as columns of a mapping
        with different indexes of pandas), and for more pairs than fit in memory; never for single
        values.

    Source: `hgr_jax.hgr`; Giuliani & Lombardi, "Robust Non-Linear Correlations via Polynomial
    Regression"; Roy, "On a heuristic method of test construction" (1953); Liu & Xie, "Cauchy
    combination test" (2020); Phipson & Smyth, "Permutation p-values should never be zero" (2010).

    Example:
      >>> import numpy as np, hgr_jax
      >>> rng = np.random.default_rng(0)
      >>> x = rng.uniform(-1, 1, (1000, 3))
      >>> x[:, 1] = x[:, 0] ** 2 + 0.1 * x[:, 1]
      >>> found = hgr_jax.scan({"speed": x[:, 0], "drag": x[:, 1], "noise": x[:, 2]})
      >>> best = found.top(1)[0]
      >>> print(best.a, best.b, f"{best.correlation:.2f} {best.pearson:.2f} {best.pvalue < 1e-9}")
      speed drag 0.99 0.03 True
    """
    request = request_of(
        h,
        k,
        measure,
        target=target,
        among=among,
        given=given,
        weights=weights,
        order=order,
        groups=groups,
        categories=categories,
        test=test,
        top=top,
        execution=execution,
    )
    if hasattr(table, "to_frame") and not hasattr(table, "columns"):
        raise TypeError(
            f"a table was expected; got a {type(table).__name__}, a single column: .to_frame()"
            " makes a table of it, which takes a second column to scan."
        )
    if reading is not None and not isinstance(table, str | Path):
        raise TypeError(f"reading is for the path of a file; got a {type(table).__name__}.")
    return scan_table(table, request, reading)


def open_table(table: Any, request: Request, reading: Reading | None = None) -> Any:
    """Open a file, folder or pattern of files, as ``reading`` says; return other tables."""
    if isinstance(table, str | Path):
        memory = request.execution.memory
        return open_path(table, reading, memory, functools.partial(rows_that_fit, memory))
    return table


@one_blas_thread()
def scan_table(table: Any, request: Request, reading: Reading | None = None) -> Scan:
    """Scan a table, wherever it is; ``reading`` says how a file is read."""
    taken, request = take_rows(open_table(table, request, reading), request, reading)
    columns, request = _parsed_columns(taken, request)
    return scan_columns(columns, request, taken.table)


def _parsed_columns(taken: TakenRows, request: Request) -> tuple[Columns, Request]:
    """Return the columns of the rows that a scan takes, and the request of these columns."""
    table, order = taken.table, taken.order
    of_rows = request.row_columns
    table, request = with_row_options(table, request)
    unread = {}
    if order is not None:
        order = [name for name in order if name not in of_rows]
        unread = {n: taken.notes.get(n, "neither numbers nor text") for n in order}
        unread = {n: reason for n, reason in unread.items() if n not in table.column_names}
    columns = as_columns(
        table,
        categories=request.categories.names,
        integers_up_to=request.categories.integers_up_to,
        missing_level=request.categories.missing_level,
        notes={name: note for name, note in taken.notes.items() if name not in unread},
    )
    if order is not None:
        columns = columns.among(order, unread)
    if taken.drawn is not None:
        columns.notes["rows"] = taken.drawn.note
    return dataclasses.replace(columns, drawn=taken.drawn), request


def hgr_matrix(table: Any, **options: Any) -> Any:
    """Return HGR of every pair of columns as a data frame, like ``table.corr()`` of pandas.

        matrix.loc[a, b] = hgr(table[a], table[b])   on the rows where both are present

    These are the values of `scan`, without its p-values (and so at a fraction of its cost): use it
    to know which of them are more than chance.  Columns that cannot be used are left out.

    Args:
      table: as of `scan`: a matrix, a mapping of names to columns, or a data frame.
      options: any of `scan` but ``test``, such as ``measure`` and ``categories``.

    Returns:
      A symmetric frame ``(p, p)`` of the library of ``table`` (pandas for an array or a mapping),
      with 1 on the diagonal.  Of pandas, the names are its index and its columns, as the table has
      them; polars and pyarrow, which have no index, hold them in the first column.

    Raises:
      ImportError: without narwhals or the library.
      TypeError, ValueError: as `scan` does.

    Degenerate data: a column that is constant is left out; NaN is missing, pair by pair.

    Source: see `hgr`.

    Example:
      >>> import numpy as np, pandas as pd, hgr_jax
      >>> x = np.linspace(-1, 1, 101)
      >>> noise = np.random.default_rng(0).normal(size=(2, 101))
      >>> frame = pd.DataFrame({"x": x, "square": x**2 + noise[0] / 5, "noise": noise[1]})
      >>> print(hgr_jax.hgr_matrix(frame).round(2))
                 x  square  noise
      x       1.00    0.86   0.02
      square  0.86    1.00   0.04
      noise   0.02    0.04   1.00
    """
    return scan(table, test=None, **options).to_matrix()
