"""All pairs of the columns of a table: how strongly they depend on each other, and whether that
could be chance.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from hgr_jax import measures
from hgr_jax._arrays import Integers
from hgr_jax._checks import MAX_DEGREE, as_host_weights, as_key, check_choice, check_count
from hgr_jax._forks import refuse_forked
from hgr_jax._progress import progress_bar
from hgr_jax.inference._ranks import ranks
from hgr_jax.scanning.engine import Engine
from hgr_jax.scanning.features import Estimates, Features, Kernels
from hgr_jax.scanning.gather import as_scan
from hgr_jax.scanning.generic import estimate_measure
from hgr_jax.scanning.pvalues import Significance, effective_rows, significance
from hgr_jax.scanning.result import Scan
from hgr_jax.scanning.size import check_size
from hgr_jax.scanning.unpooled import exact_pairs, with_exact
from hgr_jax.tables.columns import Columns, as_columns
from hgr_jax.tables.convert import add_note

Measure = Callable[[Any, Any], Any]

PVALUES = ("auto", "rank", "asymptotic", "permutation")

MEMORY = 2**29


def scan(
    table: Any,
    *,
    h: int = 5,
    k: int = 5,
    method: str | Measure = "kb",
    target: str | int | Sequence[str | int] | None = None,
    transform: str | None = None,
    weights: ArrayLike | None = None,
    pvalues: str | None = "auto",
    permutations: int = 999,
    key: Array | None = None,
    names: Sequence[str] | None = None,
    categories: Collection[str] = (),
    low_cardinality: int = 0,
    memory: int = MEMORY,
    progress: bool = False,
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
      data.  (Where columns are missing in many different rows, more than 500,000 in all, ranks are
      those among each column's own rows, made orthonormal on those of the pair, and degrees at
      most 8.)
    * ``"rank"`` of a number and a category: the law of Roy's largest root for the ranks of the
      number, of degree h or k; ``"asymptotic"`` of two categories: the same law.  Both where it can
      be trusted: enough rows for the degrees, ties and levels, weights that vary little, and values
      that are not missing where the other column is low or high.
    * ``"permutation"``, of the rest (too many ties, fewer than 20 rows, uneven weights, values
      missing by the other column): ``(b + 1) / (m + 1)``, where in b of m random permutations of
      the rows of one column HGR of ranks, at h and k, reaches its value.  It is exact, and
      never below ``1 / (m + 1)``.  Pairs that are clearly not significant (a fifth of the first
      half of them reach the value) have no others.

    ``"rank"`` asks for Roy's law of ranks at h and k throughout, ``"asymptotic"`` for the same law
    of the values as they are, ``"permutation"`` for permutations of the values, None for no
    p-values.  Measures other than ``"kb"`` are tested by permutations of the values.

    Args:
      table: a NumPy or JAX matrix ``(n, p)``, a mapping of names to columns, or a data frame
        (pandas, polars, pyarrow; through narwhals, the extra ``table``).  A float32 or JAX matrix
        is computed in its own dtype, the rest in JAX's default one.
      h, k: degrees, ints from 1 to 50.
      method: ``"kb"``, ``"sk"`` (one side linear; of a category, its indicators), the name of
        another measure of this package, or any function of two vectors that JAX can trace; those
        take the numeric columns only, and one program for every number of rows that occurs.
      target: a name, or where no column has it a position, or several: only pairs with it.
      transform: None, or ``"rank"``: every numeric column is replaced by the ranks of its values
        (of ties, their mean), which no outlier can dominate.
      weights: non-negative observation weights ``(n,)`` or None; a row of weight 0 is dropped.
        P-values then take the effective number of rows ``(sum w)^2 / sum w^2``.
      pvalues: see above.
      permutations: m, of a permutation test.
      key: a random key, for permutations; default ``jax.random.key(0)``, so that scans repeat.
      names: of the columns of a matrix; default ``x0, x1, ...``.
      categories: names of numeric columns to read as categories.
      low_cardinality: integer columns of at most so many values are read as categories.
      memory: bytes that features and their products may take, about, beside the data and a few
        copies of it.  More columns than fit are done in blocks.
      progress: show a bar on stderr (tqdm), of the values and then of the p-values.

    Returns:
      A `Scan`.

    Raises:
      TypeError, ValueError: for what is no table, an unknown target, options other than the
        above, or more pairs than fit in memory.  Not for anything in the data.

    Cost: for n rows and p columns of degree d, one product of ``(p d) x n`` and ``n x (p d)``; with
    q patterns of missing values another of ``p (d + 1) (d + 2) / 2 x n`` and ``n x q``; with
    p-values both again, of ranks, and a sort of every column; by ``"auto"`` also a product as of
    degree 6 for each two patterns; a permutation as much as the product for the columns that need
    it, one for each two patterns.

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
    h, k = check_count("h", h), check_count("k", k)
    if max(h, k) > MAX_DEGREE:
        raise ValueError(f"h and k must be at most {MAX_DEGREE}; got {h} and {k}.")
    if isinstance(categories, str) or not isinstance(categories, Collection):
        raise TypeError(f"categories must be a sequence of names; got {categories!r}.")
    permutations = check_count("permutations", permutations)
    memory = check_count("memory", memory, 2**20)
    if transform is not None:
        check_choice("transform", transform, ("rank",))
    if pvalues is not None:
        check_choice("pvalues", pvalues, PVALUES)
    measure = _as_measure(method)
    if pvalues in ("rank", "asymptotic") and method != "kb":
        raise ValueError(f"pvalues={pvalues!r} is for method='kb'; got method={method!r}.")
    key = None if key is None else as_key(key)
    columns = as_columns(table, names=names, categories=categories, low_cardinality=low_cardinality)
    weights = as_host_weights(weights, columns.rows)
    targets = _as_targets(target, columns.names)
    used = len(columns.number_positions) + len(columns.category_positions)
    wanted = None if targets is None else len(targets)
    check_size(len(columns.names), used, wanted, tested=pvalues is not None)
    pairs, positions = _pairs(columns, targets)
    ranked = transform == "rank"
    features = as_features(columns, weights, ranked=ranked, as_they_are=measure is not None)
    kernels = Kernels(h, k, single=method == "sk")
    show = functools.partial(
        progress_bar, progress, len(pairs), unit="pair", extra="table", leave=False
    )
    with show(label="values") as advance:
        if measure is None:
            engine = Engine(features, kernels, memory)
            found = engine.estimate(pairs, advance)
            notes = _with_unclear(columns, engine)
            _tell_constants(columns, positions, found, notes)
        else:
            pairs, positions = _numeric_only(columns, pairs, positions)
            found = estimate_measure(features, measure, pairs, memory, advance)
            notes = columns.notes
    skipped = dict(columns.skipped)
    if measure is not None:
        left_out = [columns.names[i] for i in columns.category_positions]
        skipped |= dict.fromkeys(left_out, "a category; this measure takes numbers")
    rows = effective_rows(features, pairs, found)
    tests, of_ranks = Significance.none(len(pairs)), Estimates.none(len(pairs))
    in_ranks = features
    if pvalues is not None and measure is None:
        of_ranks = found
        if not ranked:
            in_ranks = dataclasses.replace(features, x=ranks(features.x))
            with show(label="ranks") as advance:
                of_ranks = Engine(in_ranks, kernels, memory).estimate(pairs, advance)
    if pvalues is not None:
        with show(label="p-values") as advance:
            tests = significance(
                features,
                in_ranks,
                kernels,
                measure,
                pairs,
                found,
                of_ranks,
                rows,
                source=pvalues if method == "kb" else "permutation",
                permutations=permutations,
                key=key,
                memory=memory,
                progress=advance,
            )
    exact = exact_pairs(columns, positions, found) if measure is None else []
    if exact:
        notes = dict(notes)
        found, of_ranks = with_exact(columns, positions, exact, notes, found, of_ranks)
    settings = {
        "h": h,
        "k": k,
        "method": method if isinstance(method, str) else getattr(method, "__name__", "measure"),
        "transform": transform,
        "pvalues": pvalues,
        "permutations": permutations,
        "weighted": weights is not None,
        "rows": columns.rows,
        "dtype": str(features.x.dtype),
    }
    return as_scan(
        columns, positions, found, of_ranks, rows, tests, weights, skipped, notes, settings, exact
    )


def as_features(
    columns: Columns, weights: Any, *, ranked: bool, as_they_are: bool = False
) -> Features:
    """Return the columns in the dtype of the computation, shifted to 0 where that keeps digits."""
    x = columns.numbers
    dropped = None if weights is None or weights.all() else weights == 0
    if dropped is not None:
        x = np.where(dropped[:, None], np.nan, np.asarray(x))
    if ranked:
        x = ranks(np.asarray(x))
    wanted = x.dtype if x.dtype == np.float32 else jnp.result_type(float)
    if x.size and not as_they_are:
        x = _within_range(x)
        if isinstance(x, np.ndarray) and x.dtype == np.float64 and wanted == jnp.float32:
            # float32 has too few digits for values far from 0; no affine map changes a correlation.
            x = x - np.nanmean(x, axis=0)
            x = _within_range(x, least=0)
    codes = [category.codes for category in columns.categories]
    whole = np.stack(codes, axis=1) if codes else np.zeros((columns.rows, 0), np.int32)
    if dropped is not None:
        whole = np.where(dropped[:, None], -1, whole)
    return Features(
        x=np.ascontiguousarray(x, wanted),
        codes=np.asarray(whole, np.int32),
        levels=tuple(len(category.levels) for category in columns.categories),
        weights=None if weights is None else np.asarray(weights, wanted),
    )


def _within_range(x: ArrayLike, *, least: int = 30) -> Any:
    """Scale columns by powers of 2, which is exact, if some reach beyond ``2 ** least`` or less.

    Their powers neither overflow nor vanish, and none are denormal, which XLA takes for 0.
    """
    host = np.asarray(x)
    reach = np.maximum(np.fmax.reduce(host, axis=0), -np.fmin.reduce(host, axis=0))
    exponent = np.frexp(reach)[1]
    return x if (np.abs(exponent) <= least).all() else np.ldexp(host, -exponent)


def _as_measure(method: Any) -> Measure | None:
    """Return a function of two vectors; None for those that the engine does."""
    if callable(method):
        return method
    if isinstance(method, str) and method in ("kb", "sk"):
        return None
    known = [n for n in measures.__all__ if n.islower() and not n.endswith("_fit")]
    known = [n for n in known if _takes_two_vectors(getattr(measures, n))]
    if not isinstance(method, str) or method not in known:
        raise ValueError(
            f"method must be a function of two vectors or one of {', '.join(sorted(known))};"
            f" got {method!r}."
        )
    found: Measure = getattr(measures, method)
    return found


def _takes_two_vectors(measure: Measure) -> bool:
    parameters = inspect.signature(measure).parameters.values()
    return sum(p.default is p.empty and p.kind != p.VAR_KEYWORD for p in parameters) == 2


def _as_targets(target: Any, names: Sequence[str]) -> list[int] | None:
    """Return positions of the target columns."""
    if target is None:
        return None
    several = list(target) if isinstance(target, list | tuple | set | np.ndarray) else [target]
    found = []
    for one in several:
        if str(one) in names:
            found.append(list(names).index(str(one)))
        elif isinstance(one, int | np.integer) and not isinstance(one, bool):
            if not -len(names) <= one < len(names):
                raise ValueError(f"target {one} is not a position of the {len(names)} columns.")
            found.append(int(one) % len(names))
        else:
            raise ValueError(f"target {one!r} is not a column; there are {', '.join(names[:20])}.")
    return sorted(set(found))


def _pairs(columns: Columns, targets: list[int] | None) -> tuple[Integers, Integers]:
    """Return pairs ``(N, 2)`` of columns, as the engine counts them and as the table does."""
    place = np.concatenate([columns.number_positions, columns.category_positions])
    engine = np.full(len(columns.names), -1)
    engine[place] = np.arange(len(place))
    used = np.sort(place)
    if targets is None:
        first, second = np.triu_indices(len(used), 1)
        positions = np.stack([used[first], used[second]], axis=1)
    else:
        wanted = [t for t in targets if engine[t] >= 0]
        rest = [u for u in used if u not in wanted]
        listed = [*itertools.product(rest, wanted), *itertools.combinations(wanted, 2)]
        positions = np.array(listed, np.intp).reshape(-1, 2)
    return engine[positions], positions


def _numeric_only(
    columns: Columns, pairs: Integers, positions: Integers
) -> tuple[Integers, Integers]:
    keep = (pairs < columns.numbers.shape[1]).all(axis=1)
    return pairs[keep], positions[keep]


def _tell_constants(
    columns: Columns, pairs: Integers, found: Estimates, notes: dict[str, str]
) -> None:
    """Add a remark on columns that do not vary on the rows that they share with another."""
    lost = (found.degrees == 0) & (found.rows >= 2)[:, None]
    positions, counts = np.unique(pairs[lost], return_counts=True)
    for position, count in zip(positions, counts, strict=True):
        pairs_of = f"{count} other column{'s' if count > 1 else ''}"
        remark = f"does not vary on the rows that it shares with {pairs_of}: no value there"
        add_note(notes, columns.names[position], remark)


def _with_unclear(columns: Columns, engine: Engine) -> dict[str, str]:
    notes = dict(columns.notes)
    for position in columns.number_positions[~engine.well_conditioned]:
        remark = "ill conditioned (far outliers): take ranks, lower degrees, or float64"
        add_note(notes, columns.names[position], remark)
    return notes
