"""[api] All pairs of the columns of a table: how strongly they depend on each other, and whether that
could be chance.


[matrix] HGR of all pairs of columns in one call, as data frames have ``corr()``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from hgr_jax._checks import (
    as_host_weights,
    as_key,
    check_choice,
    check_count,
    check_degree,
    check_flag,
)
from hgr_jax._forks import refuse_forked
from hgr_jax._threads import one_blas_thread
from hgr_jax.core.kernels import KernelLike
from hgr_jax.scanning.cluster import as_cluster, scan_cluster
from hgr_jax.scanning.consumers import ORDERS_OF_ALL, Wanted, scan_best
from hgr_jax.scanning.features import as_features
from hgr_jax.scanning.pairs import (
    MEMORY,
    as_positions,
    check_size,
    chosen_columns,
    pairs_of,
    without_given,
)
from hgr_jax.scanning.request import (
    Measure,
    StreamOptions,
    as_measure,
    check_beside_given,
    check_beside_top,
    check_devices,
    check_streamed,
    checked_kernels,
    checkpoint_folder,
)
from hgr_jax.scanning.residuals import GivenColumns
from hgr_jax.scanning.result import Scan
from hgr_jax.scanning.run import Request, as_result, examine
from hgr_jax.scanning.streamed import scan_source
from hgr_jax.scanning.sums import on_devices
from hgr_jax.tables.sources import as_source

PVALUES = ("auto", "rank", "asymptotic", "permutation")


@one_blas_thread()
def scan(
    table: Any,
    *,
    h: KernelLike = 5,
    k: KernelLike = 5,
    method: str | Measure = "kb",
    target: str | int | Sequence[str | int] | None = None,
    other: Any = None,
    given: str | int | Sequence[str | int] | None = None,
    given_degree: int = 5,
    transform: str | None = None,
    weights: ArrayLike | str | None = None,
    pvalues: str | None = "auto",
    standard_errors: bool = False,
    permutations: int = 999,
    key: Array | None = None,
    names: Sequence[str] | None = None,
    categories: Collection[str] = (),
    low_cardinality: int = 0,
    memory: int = MEMORY,
    devices: Sequence[jax.Device] | None = None,
    progress: bool = False,
    checkpoint: str | Path | None = None,
    top: int | None = None,
    by: str = "pvalue",
) -> Scan:
    """Estimate HGR of every pair of columns of a table, with p-values.

        correlation[i, j] = kb(column i, column j, h, k)   on the rows where both are present

    exactly, but from one matrix product over the rows: every pair's problem is a block of the Gram
    matrix of all the columns' polynomials.  A pair is estimated once; the column that comes first
    in the table (with ``target`` the other one) has degree h, the second has degree k, and all
    matrices are symmetric.

    Categories (text, categorical types, and what ``categories`` and ``low_cardinality`` ask for)
    enter by an indicator of each level, so that their pairs are exact too: two of them are
    correspondence analysis. Booleans are numbers, dates are days since the first. Text of which
    nearly all is written as numbers, dates, or true and false is those, as in a file. Levels in
    fewer than 5 rows, or 1% of those present, are pooled into one (but not beside a category that
    they determine); text of which that would be more than half is skipped. Infinite values count as
    missing. No column stops a scan: see `Scan.skipped` and `Scan.notes`.

    Where the p-values come from (``pvalue_source``), by ``pvalues="auto"``:

    * ``"rank"``, of two numeric columns: that of `hgr_jax.independence_test` on the rows that both
      share, from HGR of their *ranks* at several degrees at once, whatever h and k (``"exact"``,
      Fisher's law, where both have two values).  It does not depend on the distribution of the
      data.  (Columns may be missing in so many different sets of rows that the pairs of such sets,
      times the rows of the table, are more than 500,000.  Ranks are then those among each column's
      own rows where these differ, made orthonormal on those of the pair, and degrees at most 8.)
    * ``"rank"`` of a number and a category: the law of Roy's largest root for the ranks of the
      number, of degree h or k; ``"asymptotic"`` of two categories: the same law.  Both where it can
      be trusted: enough rows for the degrees, ties and levels, weights that vary little, and values
      that are not missing where the other column is low or high.
    * ``"permutation"``, of the rest (too many ties, fewer than 20 rows, uneven weights, values
      missing by the other column): ``(b + 1) / (m + 1)``, where in b of m random permutations of
      the rows of one column HGR of ranks, at h and k, reaches its value.  It is exact, and
      never below ``1 / (m + 1)``.  Pairs that are clearly not significant (a fifth of the first
      half of them reach the value) have no others.

    With ``given`` columns c every pair is estimated as ``kb(column i, column j, h, k, given=c,
    given_degree=given_degree)`` is, still from one product: what polynomials of c (and indicators
    of the levels of a category among them) leave of each column's functions takes their place.
    ``pearson`` is then |partial correlation| given those polynomials, ``rank_correlation`` the
    measure of the ranks given those of c.  Rows where c is missing are dropped for all pairs, c
    itself is in none (see `Scan.skipped`), and all p-values are by random ``"signs"``: of two
    numbers, that of ``independence_test(..., given=c)``; with a category, that of HGR of ranks at h
    and k, from ``permutations`` signs.  Both are given ranks of c, of the degree that test chooses
    (up to 8), whatever ``given_degree`` is.

    A table that is *read batch by batch* need not fit in memory: a path to a CSV or Parquet file, a
    pattern such as ``"year=*/part-*.parquet"``, a folder of such files, a dataset of pyarrow, a
    `LazyFrame` of polars, a relation of DuckDB, or anything else with ``__arrow_c_stream__`` that
    can be read more than once.  It is read twice: first for levels, ends, and a sample of 65,536
    rows, then for the sums of `ScanState` (up to twice more where a column has far outliers, and
    for pairs of which the sums still say too little: these are fitted on their own rows).  Values,
    |Pearson| and counts are those of all rows; ranks, p-values, and what can be drawn and fitted
    afterwards are as `ScanState.result` says.  Columns are what their types say: text is a
    category, whatever it holds.  The files must have the same columns, of the same kinds.

    A data frame or array of Dask, or a data frame of Spark (the extras ``dask``, ``spark``), is
    scanned where it lies: in three passes over its partitions (rows; the survey; the sums), of
    which only sums come back, and the rows of pairs of which these say too little.  The result is
    that of a table that is read batch by batch, however it is partitioned, and whichever partitions
    a cluster computes again; but it must be the same table each time (persist what is random).
    Workers need this package.

    Of *very many columns* ``top`` keeps only the pairs that come first ``by`` their p-value (the
    logarithm, which tells apart what is 0 as a number), by ``"correlation"``, or by its
    ``"excess"`` over |Pearson| (never with a category).  All pairs are tested (and estimated, where
    values decide), in squares of 512 columns, so that memory does not grow with their number.  The
    result is the scan of the pairs that are kept, and of their columns: their values are those of a
    scan of the whole table, and `Scan.adjusted_pvalue` is among *all* its pairs (too large by 0.05%
    at most, as p-values are counted in bins; where they are from permutations, these are others
    each time).  P-values that only order the pairs are in float32: which of many relations that are
    all but exact come first, these do not know.

    ``"rank"`` asks for Roy's law of ranks at h and k throughout, ``"asymptotic"`` for the same law
    of the values as they are, ``"permutation"`` for permutations of the values, None for no
    p-values.  Measures other than ``"kb"`` are tested by permutations of the values.

    Args:
      table: a NumPy or JAX matrix ``(n, p)``, a mapping of names to columns, or a data frame
        (pandas, polars, pyarrow; through narwhals, the extra ``table``).  A float32 or JAX matrix
        is computed in its own dtype, the rest in JAX's default one.  Or what is read batch by
        batch, see above (the extra ``stream``); of the options it has ``h`` and ``k`` (degrees),
        ``method`` (``"kb"``, ``"sk"``), ``target``, ``weights``, ``pvalues`` (``"auto"``, None),
        ``permutations``, ``key``, ``categories``, ``memory``, ``progress`` and ``checkpoint``.
      h, k: degrees, ints from 1 to 50, or kernels of the numeric columns as `kb` takes them (of
        `hgr_jax.kernels`, or your own).  With these, `rank_correlation` and p-values, which are of
        ranks, have degree 5 in their place where they need one, and nothing is shifted or scaled.
      method: ``"kb"``, ``"sk"`` (one side linear; of a category, its indicators), the name of
        another measure of this package, or any function of two vectors that JAX can trace; those
        take the numeric columns only, and one program for every number of rows that occurs.
      target: a name, or where no column has it a position, or several: only pairs with it.
      other: another table of the same rows, in memory; then the pairs are those of a column of the
        first with one of ``other`` (``y0, y1, ...`` if it is a matrix), and matrices have the
        columns of both.
      given: names or positions, as of ``target``, of columns whose effect is taken out of all.
      given_degree: total degree of the polynomials of the given numbers, an int from 1 to 50.
        Where it is below h and k, it leaves some of what they explain (see `kb`).
      transform: None, or ``"rank"``: every numeric column is replaced by the ranks of its values
        (of ties, their mean), which no outlier can dominate.
      weights: non-negative observation weights ``(n,)`` or None; a row of weight 0 is dropped.  Of
        a table that is read batch by batch, the name of the column that holds them.
        P-values then take the effective number of rows ``(sum w)^2 / sum w^2``.
      pvalues: see above; with kernels ``"auto"``, ``"permutation"`` or None.
      standard_errors: whether `Scan.standard_error` is asked for, of ``"kb"`` and ``"sk"``: that of
        `KBFit`, in closed form.
      permutations: m, of a permutation test.  (The test of two numbers given others is that of
        `independence_test`, by up to 9,999 signs.)
      key: a random key, for permutations; default ``jax.random.key(0)``, so that scans repeat.
      names: of the columns of a matrix; default ``x0, x1, ...``.
      categories: names of numeric columns to read as categories.
      low_cardinality: integer columns of at most so many values are read as categories.
      memory: bytes that features and their products may take, about, beside the data and a few
        copies of it.  More columns than fit are done in blocks.  (The tests of ``top`` have their
        own: some 1 GB, and of the ranks of each column at most n times 4 to 68 bytes.)
      devices: of JAX, to share the rows of the products of values of 50 columns or so; or None.
        P-values are not shared.
      progress: show a bar on stderr (tqdm), of the values and then of the p-values; of a table
        that is read batch by batch, of its rows; not of one on a cluster, which has its own.
      checkpoint: a folder for what has been summed of a table that is read batch by batch, or has
        been found with ``top``: a run that was killed, at whatever moment, goes on from there when
        it is started again with the same arguments, and its result is the same, bit for bit.  (A
        first pass over batches that was not finished begins anew.)  Remove the folder when the
        table has changed.
      top: how many pairs to keep, of a table in memory; None for all.  With methods ``"kb"`` and
        ``"sk"``, and without ``given``.
      by: ``"pvalue"``, ``"correlation"`` or ``"excess"``, the order by which ``top`` keeps pairs.

    Returns:
      A `Scan`.

    Raises:
      TypeError, ValueError: for what is no table, an unknown target, options other than the
        above, or more pairs than fit in memory.  Not for anything in the data, but given columns
        that cannot be used.

    Cost: for n rows and p columns of degree d, one product of ``(p d) x n`` and ``n x (p d)``; with
    q patterns of missing values another of ``p (d + 1) (d + 2) / 2 x n`` and ``n x q``; with
    p-values both again, of ranks, and a sort of every column; by ``"auto"`` also a product as of
    degree 6 for each two patterns; a permutation as much as the product for the columns that need
    it, one for each two patterns.  With r functions of given columns a pass over the rows more,
    and with missing values a product of ``p d x n`` and ``n x q r``; a p-value of two numbers given
    others takes some 0.1 s at n = 1,000, one pair after the other.  A standard error takes some
    0.2 ms at n = 10,000.  With ``top`` by p-values, a pair of numbers takes 64 n multiplications
    and additions and some 0.5 us beside them, or if both have two values n and some 1 us; but some
    30 to 100 us, as in a scan of all, by another order, with a category, and where values are
    missing, rows have weights, or a column of more than two values has too many ties for the law of
    ranks.

    Source: Giuliani & Lombardi, "Robust Non-Linear Correlations via Polynomial Regression"; Roy,
    "On a heuristic method of test construction" (1953); Chiani, "Distribution of the largest root
    of a matrix for Roy's test" (2016); Liu & Xie, "Cauchy combination test" (2020); Phipson &
    Smyth, "Permutation p-values should never be zero" (2010).

    Example:
      >>> import numpy as np, hgr_jax
      >>> rng = np.random.default_rng(0)
      >>> x = rng.uniform(-1, 1, (1000, 3))
      >>> x[:, 1] = x[:, 0] ** 2 + 0.1 * x[:, 1]
      >>> found = hgr_jax.scan(x, names=["speed", "drag", "noise"], h=3, k=3)
      >>> best = found.top(1)[0]
      >>> print(best.a, best.b, f"{best.correlation:.2f} {best.pearson:.2f} {best.pvalue < 1e-9}")
      speed drag 0.99 0.03 True
    """
    refuse_forked()
    kernels = checked_kernels(h, k, method, pvalues)
    if isinstance(categories, str) or not isinstance(categories, Collection):
        raise TypeError(f"categories must be a sequence of names; got {categories!r}.")
    given_degree = check_degree("given_degree", given_degree)
    permutations = check_count("permutations", permutations)
    memory = check_count("memory", memory, 2**20)
    top = None if top is None else check_count("top", top)
    if check_choice("by", by, ORDERS_OF_ALL) != "pvalue" and top is None:
        raise ValueError(f"by={by!r} says which pairs top keeps: give top too.")
    if transform is not None:
        check_choice("transform", transform, ("rank",))
    if pvalues is not None:
        check_choice("pvalues", pvalues, PVALUES)
    check_devices(devices)
    measure = as_measure(method)
    if check_flag("standard_errors", standard_errors) and measure is not None:
        raise ValueError(f"standard_errors are of method='kb' or 'sk'; got method={method!r}.")
    if pvalues in ("rank", "asymptotic") and method != "kb":
        raise ValueError(f"pvalues={pvalues!r} is for method='kb'; got method={method!r}.")
    key = None if key is None else as_key(key)
    cluster = as_cluster(table)
    source = as_source(table) if cluster is None else None
    if cluster is not None or source is not None:
        check_streamed(
            {
                "given": given is not None,
                "other": other is not None,
                "transform": transform is not None,
                "names": names is not None,
                "standard_errors": standard_errors,
                "low_cardinality": low_cardinality != 0,
                "kernels as h or k": not kernels.plain,
                f"method={method!r}": method not in ("kb", "sk"),
                f"pvalues={pvalues!r}": pvalues not in ("auto", None),
                "top": top is not None,
            },
            of_files={
                "checkpoint": checkpoint is not None and cluster is not None,
                "devices": devices is not None and cluster is not None,
            },
        )
        options = StreamOptions(
            h=cast(int, kernels.h),
            k=cast(int, kernels.k),
            method=cast(str, method),
            target=target,
            weights=cast(str | None, weights),  # no name is refused once columns are known
            pvalues=pvalues,
            permutations=permutations,
            key=key,
            categories=categories,
            memory=memory,
        )
        if source is not None:
            with on_devices(devices):
                return scan_source(source, options, progress=progress, checkpoint=checkpoint)
        return scan_cluster(cast(Any, cluster), options)
    if isinstance(weights, str):
        raise ValueError(
            "the name of a column as weights is for tables that are read batch by batch; this is in"
            " memory: pass their array."
        )
    if checkpoint is not None and top is None:
        raise ValueError(
            "checkpoint is for tables that are read batch by batch, or with top; this is in memory."
        )
    if top is not None:
        check_beside_top(measure, given, pvalues, by)
    columns, split = chosen_columns(table, other, names, categories, low_cardinality)
    if split is not None and target is not None:
        raise ValueError("target and other exclude each other: pairs are of both tables.")
    weights = as_host_weights(weights, columns.rows)
    targets = as_positions("target", target, columns.names)
    taken = as_positions("given", given, columns.names)
    known: GivenColumns | None = None
    if taken:
        check_beside_given(method, pvalues)
        columns, alone = without_given(columns, taken, targets)
        of_given = as_features(alone, weights, ranked=transform == "rank")
        known = GivenColumns(of_given, given_degree)
    request = Request(
        kernels=kernels,
        method=method,
        measure=measure,
        ranked=transform == "rank",
        weights=weights,
        pvalues=pvalues,
        standard_errors=standard_errors,
        permutations=permutations,
        key=key,
        memory=memory,
        devices=devices,
        progress=progress,
        given_degree=given_degree,
        known=known,
        given=tuple(columns.names[i] for i in taken or ()),
    )
    if top is not None:
        return scan_best(
            columns, request, Wanted(top, by, targets, split), checkpoint_folder(checkpoint)
        )
    used = np.concatenate([columns.number_positions, columns.category_positions])
    wanted = None if targets is None else len(targets)
    others = None if split is None else int((used >= split).sum())
    check_size(len(columns.names), len(used), wanted, tested=pvalues is not None, others=others)
    pairs, positions = pairs_of(columns, targets, split)
    return as_result(columns, request, examine(columns, request, pairs, positions))


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
