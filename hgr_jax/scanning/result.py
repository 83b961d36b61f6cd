"""The result of a scan: its pairs as rows, matrices, lists, frames, pictures, fits and files.

`PairRows` is all that is kept of the pairs.  A matrix is made of a column of it when it is asked
for: the scan of a wide table with few pairs has none.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._archive import load_archive, save_archive
from hgr_jax._arrays import Floats, Integers
from hgr_jax._checks import check_choice, check_count
from hgr_jax._texts import counted, near_matches, shortened
from hgr_jax.inference.hgr_fits import HGRFit
from hgr_jax.scanning.findings import (
    FALSE_DISCOVERY_RATE,
    FINDINGS,
    LEVEL,
    MIN_ROWS,
    Findings,
    findings_of,
    least_rows,
)
from hgr_jax.scanning.fits import Influence, details_of, fit_of, interval_of
from hgr_jax.scanning.significance import SOURCES
from hgr_jax.tables.columns import Columns
from hgr_jax.tables.frames import as_rows, as_square
from hgr_jax.tables.levels import Category

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hgr_jax.core.fits import KBFit
    from hgr_jax.core.host.conditional_hgr import ConditionalHGRFit


MATRICES = (
    *("correlation", "rank_correlation", "pearson", "spearman", "rank_excess"),
    *("pvalue", "adjusted_pvalue", "pvalue_source", "corrected", "null_mean", "null_95", "n_obs"),
)
"""Attributes of a `Scan` that have a value for each two columns."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """One pair of a scan, with the attributes of `Scan`; a value that it does not have is NaN."""

    a: str
    b: str
    correlation: float
    rank_correlation: float
    pearson: float
    spearman: float
    excess: float
    rank_excess: float
    pvalue: float
    adjusted_pvalue: float
    pvalue_source: str
    corrected: float
    null_mean: float
    null_95: float
    n_obs: int
    degrees_a: int
    degrees_b: int


@dataclasses.dataclass(frozen=True, eq=False)
class PairRows:
    """What a scan found of N pairs, a row each: the attributes of `Scan` as arrays ``(N,)``.

    Attributes:
      pairs: ``(N, 2)``, positions of the columns.
      degrees: ``(N, 2)``.
    """

    pairs: Integers
    correlation: Floats
    rank_correlation: Floats
    pearson: Floats
    spearman: Floats
    rank_linear: Floats
    pvalue: Floats
    adjusted_pvalue: Floats
    corrected: Floats
    null_mean: Floats
    null_95: Floats
    n_obs: Integers
    degrees: Integers
    source: NDArray[np.int8]

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The arrays by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @property
    def estimated(self) -> NDArray[np.bool_]:
        """Which pairs have a value."""
        return np.isfinite(self.correlation)

    @property
    def excess(self) -> Floats:
        """The measure above |Pearson|."""
        return self.correlation - self.pearson

    @property
    def rank_excess(self) -> Floats:
        """HGR of ranks above `rank_linear`; 0 of two categories."""
        return self.rank_correlation - self.rank_linear

    @property
    def pvalue_source(self) -> NDArray[np.str_]:
        """Where each p-value is from, in words."""
        return np.array(SOURCES)[self.source]

    def take(self, rows: Any) -> PairRows:
        """Return some of the rows."""
        return PairRows(**{name: array[rows] for name, array in self.columns.items()})

    def turned(self) -> PairRows:
        """Return the same pairs, the second column of each first."""
        pairs, degrees = self.pairs[:, ::-1], self.degrees[:, ::-1]
        return dataclasses.replace(self, pairs=pairs, degrees=degrees)

    def find(self, first: Any, second: Any) -> Integers:
        """Return the row of each pair of positions, in either order; -1 where there is none."""
        keys, order = self._sorted_keys
        wanted = _pair_keys(first, second)
        place = np.searchsorted(keys, wanted)
        return np.where(keys[place] == wanted, order[place], -1)

    @functools.cached_property
    def _sorted_keys(self) -> tuple[Integers, Integers]:
        """The keys of the pairs, rising, and their rows; an end that no pair has follows."""
        keys = _pair_keys(*self.pairs.T)
        order = np.argsort(keys)
        return np.append(keys[order], np.iinfo(np.int64).max), np.append(order, -1)


def _pair_keys(first: Any, second: Any) -> Integers:
    """Return a number for each pair of positions, the same in both orders."""
    low, high = np.minimum(first, second), np.maximum(first, second)
    return np.asarray(low, np.int64) * 2**32 + high


SHOWN_LETTERS, SHOWN_PAIRS = 40, 3
"""Largest numbers of letters of a name, and of pairs, that the text of a scan shows."""


def _as_text(scan: Scan) -> str:
    """Describe a `Scan` in a line, and its first pairs in a line each."""
    settings, used = scan.settings, len(scan.used)
    is_of_hgr = settings["measure"] == "hgr"
    degrees = "" if is_of_hgr else f", h={settings['h']}, k={settings['k']}"
    given = f", given {', '.join(settings['given'])}" if settings.get("given") else ""
    kept = ""
    if top := settings.get("top"):
        kept = f", the first of {counted(top['pairs'], 'pair')} of"
        kept += f" {counted(top['columns'], 'column')}"
        kept += f"; more than chance: {top['discoveries']:,}" if top["tested"] else ""
    law = f"; p-values {settings['law']}" if settings.get("smallest_pvalue") else ""
    size = f"{counted(len(scan), 'pair')} of {counted(used, 'column')}"
    rows, measure = counted(settings["rows"], "row"), settings["measure"]
    lines = [f"Scan of {size}, {rows} ({measure}{degrees}{given}){kept}{law}"]
    for pair in scan.top(SHOWN_PAIRS):
        a, b = (shortened(name, SHOWN_LETTERS) for name in (pair.a, pair.b))
        lines.append(f"  {a} and {b}: {pair.correlation:.3f}")
    left = len(scan) - (len(lines) - 1)
    return "\n".join([*lines, f"  ... {left:,} more"] if left else lines)


DESCRIPTIONS = ("skipped", "notes", "settings")
"""Attributes of a `Scan` that a file has as JSON."""

ORDERS = ("rank_excess", "correlation", "excess", "pvalue")


def _matrix(name: str) -> functools.cached_property[Any]:
    """Return an attribute of `Scan`: a column of its rows as a matrix, made when asked for."""
    return functools.cached_property(lambda scan: scan._square(name))


@dataclasses.dataclass(frozen=True, eq=False)
class Scan:
    """All pairs of p columns: the result of `hgr_jax.scan`.

    It holds a row for each requested pair.  The matrices are ``(p, p)`` and symmetric, NaN (counts:
    0) for a pair that was skipped or not requested; each is made when it is asked for, and cannot
    be written to.

    Attributes:
      names: names of the p columns, as text.
      correlation: the measure; 1 on the diagonal of a column that was used.
      rank_correlation: HGR, of ranks (`hgr_jax.hgr`), which is `correlation` of ``"hgr"``; NaN for
        a scan of another measure without p-values, and for measures that are functions.
      pearson, spearman: |Pearson| and, with `rank_correlation`, |Spearman|; NaN with a category.
        Where two columns lack different rows, ranks are those among the rows that they share.
      rank_linear: the monotone part of `rank_correlation`: |Spearman| of two numbers, the
        correlation ratio of the ranks of a number and a category, `rank_correlation` of two
        categories.
      rank_excess: HGR of ranks above `rank_linear`; 0 of two categories.
      pvalue: against independence; NaN on the diagonal.
      adjusted_pvalue: Benjamini-Hochberg, or as ``Test(fdr=)`` says, over all pairs that have a
        p-value; with ``top``, also over the pairs that were not kept.
      corrected: HGR-KB, corrected for upward bias (`hgr_jax.inference.corrected`); HGR, which has
        none; NaN for other measures.
      null_mean, null_95: mean and 95% point of the measure for independent columns: for ``"kb"``
        by Roy's law at h and k, which holds for ranks (values with tails exceed it more often: at
        degree 5, one normal pair of nine in 1,000 rows); for ``test="permutation"``, and for other
        measures, by permutation of the values.
      n_obs: rows where both columns are present (and of positive weight); 0 on the diagonal.
      degrees: ``(p, p, 2)``, directions that the pair's rows support of column i and of column
        j; so ``degrees[j, i]`` is ``degrees[i, j]`` reversed.
      pvalue_source: where a p-value is from:
        ``"rank"`` (a law of ranks), ``"asymptotic"`` (Roy's law, of categories or of the values as
        they are), ``"permutation"``, ``"exact"`` and ``"residuals"``; of rows in an order or in
        groups ``"shifts"``, ``"within"`` and ``"tail"``, as in `independence_test`.
      skipped: names of the columns that were left out, with the reason.
      notes: names of columns that were used, but not quite as they are, with a remark.
      settings: settings of the scan; with ``top``, ``settings["top"]`` describes all pairs:
        ``"discoveries"`` is the number of significant pairs at a false discovery rate of 5%.
    """

    names: tuple[str, ...]
    skipped: Mapping[str, str]
    notes: Mapping[str, str]
    settings: Mapping[str, Any]
    _rows: PairRows = dataclasses.field(repr=False)
    _numbers: Integers = dataclasses.field(repr=False)
    _columns: Columns | None = dataclasses.field(default=None, repr=False)
    _weights: Any = dataclasses.field(default=None, repr=False)
    _given: Any = dataclasses.field(default=None, repr=False)
    _conditioning: Any = dataclasses.field(default=None, repr=False)
    _kernels: Any = dataclasses.field(default=None, repr=False)

    correlation = _matrix("correlation")
    rank_correlation = _matrix("rank_correlation")
    pearson = _matrix("pearson")
    spearman = _matrix("spearman")
    rank_linear = _matrix("rank_linear")
    rank_excess = _matrix("rank_excess")
    pvalue = _matrix("pvalue")
    adjusted_pvalue = _matrix("adjusted_pvalue")
    corrected = _matrix("corrected")
    null_mean = _matrix("null_mean")
    null_95 = _matrix("null_95")
    n_obs = _matrix("n_obs")
    degrees = _matrix("degrees")
    pvalue_source = _matrix("pvalue_source")

    @property
    def pairs(self) -> Integers:
        """Positions of the columns of every requested pair ``(N, 2)``."""
        return self._rows.pairs

    def _square(self, name: str, columns: Integers | None = None) -> Any:
        """Return the matrix ``name`` of the ``columns`` at some positions alone; default all."""
        values = getattr(self._rows, name)
        columns = np.arange(len(self.names)) if columns is None else columns
        place = np.full(len(self.names), -1)
        place[columns] = np.arange(len(columns))
        absent = np.nan if values.dtype.kind == "f" else values.dtype.type()
        matrix = np.full((len(columns),) * 2 + values.shape[1:], absent, values.dtype)
        for rows in (self._rows, self._rows.turned()):
            first, second = place[rows.pairs].T
            inside = (first >= 0) & (second >= 0)
            matrix[first[inside], second[inside]] = getattr(rows, name)[inside]
        of_all, of_numbers = ("correlation", "rank_correlation"), ("pearson", "spearman")
        if name in (*of_all, *of_numbers):
            ones = place[self._used if name in of_all else self._numbers]
            matrix[ones[ones >= 0], ones[ones >= 0]] = 1
        matrix.flags.writeable = False
        return matrix

    def __len__(self) -> int:
        """Return the number of pairs that were estimated."""
        return int(self._rows.estimated.sum())

    def __iter__(self) -> Iterator[Pair]:
        """Yield all pairs that were estimated, in the order of `top`."""
        yield from self._pairs_of(self._ordered())

    def __contains__(self, names: object) -> bool:
        """Return whether the pair of two columns was estimated, ``("a", "b") in scan``."""
        try:
            return self[names] is not None  # type: ignore[index]
        except (KeyError, TypeError):
            return False

    def __getitem__(self, names: tuple[Any, Any]) -> Pair:
        """Return the pair of two columns, ``scan["a", "b"]``; names as the table has them.

        Raises:
          KeyError: for a column that is not there or was skipped, or a pair that was not measured.
          TypeError: for anything but two names.
        """
        if not isinstance(names, tuple) or len(names) != 2:
            raise TypeError(f"scan[a, b] takes the names of two columns; got {names!r}.")
        row = self._row(*names)
        if not row.estimated.any():
            why = "not kept" if "top" in self.settings else "not measured"
            raise KeyError(f"the pair of {names[0]!r} and {names[1]!r} was {why}.")
        return self._pairs_of(row)[0]

    def _row(self, a: Any, b: Any) -> PairRows:
        """Return the row of two columns, a first; no row of a pair that was not requested."""
        i, j = self._position(a), self._position(b)
        row = self._rows.find([i], [j])
        rows = self._rows.take(row[row >= 0])
        return rows if (rows.pairs[:, 0] == i).all() else rows.turned()

    def _value(self, name: str, a: Any, b: Any) -> float:
        """Return a quantity of two columns, a first; NaN where there is none."""
        values = getattr(self._row(a, b), name)
        return float(values[0]) if len(values) else math.nan

    @property
    def used(self) -> tuple[str, ...]:
        """The names of the columns that were not left out."""
        return tuple(name for name in self.names if name not in self.skipped)

    @property
    def _used(self) -> Integers:
        """The positions of the columns that were not left out."""
        used = [i for i, name in enumerate(self.names) if name not in self.skipped]
        return np.array(used, np.intp)

    def __repr__(self) -> str:
        return _as_text(self)

    def _ordered(self, by: str = "rank_excess") -> PairRows:
        """Return the rows of the pairs that were estimated, sorted as `top` says."""
        check_choice("by", by, ORDERS)
        rows = self._rows
        keys: list[NDArray[Any]] = [-rows.correlation]
        if by == "excess":
            keys.append(-rows.excess)
        elif by == "pvalue":
            keys.append(rows.pvalue)
        elif by == "rank_excess":
            keys += [-rows.rank_excess, ~(rows.adjusted_pvalue <= FALSE_DISCOVERY_RATE)]
        keys.append(rows.n_obs < least_rows(MIN_ROWS, self.settings["rows"]))
        order = np.lexsort(keys)
        return rows.take(order[rows.estimated[order]])

    def top(self, n: int = 20, *, by: str = "rank_excess") -> list[Pair]:
        """Return the first ``n`` pairs that were estimated.

        Args:
          n: their number.
          by: ``"rank_excess"``, largest first: significant pairs (at a false discovery rate of 5%)
            before the other pairs, and ties, as in a scan without ranks, by correlation;
            ``"correlation"`` or its ``"excess"`` over |Pearson| (NaN, and last, with a category),
            largest first; or ``"pvalue"``, smallest first, then by correlation.  Pairs that share
            fewer than 20 rows, and fewer than half of the rows of the table, come last.
        """
        return self._pairs_of(self._ordered(by).take(slice(check_count("n", n))))

    def _pairs_of(self, rows: PairRows) -> list[Pair]:
        columns = self._columns_of(rows)
        lists = [values.tolist() for values in columns.values()]
        return [Pair(**dict(zip(columns, row, strict=True))) for row in zip(*lists, strict=True)]

    def to_dict(
        self, *, by: str = "rank_excess", intervals: bool = False
    ) -> dict[str, NDArray[Any]]:
        """Return all pairs as columns, sorted as in `top`.

        The columns are those of `Pair`; ``low`` and ``high``, the ends of a 95% interval for HGR,
        and ``remark``, for pairs in the lists of `findings`.

        Args:
          by: as in `top`.
          intervals: whether ``low`` and ``high`` are given for all pairs: some milliseconds each.
        """
        columns = self._columns_of(self._ordered(by))
        examined = self._examined(columns)
        if intervals:
            pairs = zip(columns["a"], columns["b"], strict=True)
            ends = np.array([interval_of(self, a, b, LEVEL) for a, b in pairs]).reshape(-1, 2)
            examined |= {"low": ends[:, 0], "high": ends[:, 1]}
        return columns | examined

    def _columns_of(self, rows: PairRows) -> dict[str, NDArray[Any]]:
        a, b = ([self.names[i] for i in side] for side in rows.pairs.T.tolist())
        columns = {
            "a": np.array(a, object),
            "b": np.array(b, object),
            "pvalue_source": rows.pvalue_source.astype(object),
            "degrees_a": rows.degrees[:, 0],
            "degrees_b": rows.degrees[:, 1],
        }
        fields = [field.name for field in dataclasses.fields(Pair)]
        return {name: columns[name] if name in columns else getattr(rows, name) for name in fields}

    def to_frame(
        self, *, by: str = "rank_excess", library: str | None = None, intervals: bool = False
    ) -> Any:
        """Return all pairs as a data frame, a row each: `to_dict` as a frame.

        Args:
          by, intervals: as in `to_dict`.
          library: ``"pandas"``, ``"polars"`` or ``"pyarrow"``; default: the library of the scanned
            table, pandas for an array.

        Raises:
          ImportError: without narwhals or the library.
        """
        return as_rows(self.to_dict(by=by, intervals=intervals), self._library(library))

    def _examined(self, columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return intervals and remarks of pairs that `findings` lists."""
        examined = {}
        if self._columns is not None:  # of a scan that was loaded, none is known
            findings = (*self._findings, *self._findings.explained)
            examined = {(finding.a, finding.b): finding for finding in findings}
        found = [examined.get(pair) for pair in zip(columns["a"], columns["b"], strict=True)]
        ends = np.array([(np.nan, np.nan) if of is None else of.interval for of in found])
        low, high = ends.reshape(-1, 2).T
        remarks = np.array(["" if of is None else of.remark for of in found], object)
        return {"low": low, "high": high, "remark": remarks}

    @functools.cached_property
    def _findings(self) -> Findings:
        return findings_of(self, FINDINGS, MIN_ROWS)

    def to_matrix(self, which: str = "correlation", *, library: str | None = None) -> Any:
        """Return a matrix of the columns that were used as a data frame with their names.

        A frame of pandas has them as its index and columns, as the table has them (ints, dates,
        tuples; of a scan that was loaded, as text); polars and pyarrow, which have no index, as
        first column.

        Args:
          which: an attribute of `Scan` that is ``(p, p)``.
          library: as in `to_frame`.

        Raises:
          ValueError: for another attribute.
          ImportError: without narwhals or the library.

        Example:
          >>> import numpy as np, hgr_jax
          >>> x = np.linspace(-1, 1, 50)
          >>> found = hgr_jax.scan({"x": x, "square": x**2}, test=None)
          >>> print(found.to_matrix("pearson").round(2).abs())
                    x  square
          x       1.0     0.0
          square  0.0     1.0
        """
        check_choice("which", which, MATRICES)
        matrix = self._square(which, self._used)
        labels: Any = self.used if self._columns is None else self._columns.labels_at(self._used)
        return as_square(matrix.copy(), self.used, labels, self._library(library))

    def _library(self, library: str | None) -> str:
        """Return the library of frames; for None, the library of the scanned table."""
        if library is not None:
            return check_choice("library", library, ("pandas", "polars", "pyarrow"))
        frame = None if self._columns is None else self._columns.frame
        return "pandas" if frame is None else str(frame.implementation.value)

    def fit(self, a: Any, b: Any) -> KBFit | HGRFit | ConditionalHGRFit:
        """Fit one pair on the rows where both are present, by the measure of the scan.

        HGR as `hgr_jax.hgr_fit` does, also with given columns; HGR-KB as `hgr_jax.kb_fit`, in JAX's
        default dtype: if float32 cannot tell values apart, a warning says that the fit differs from
        the scan.  Transformations of a category take its labels, or the positions of its levels in
        ``category(name).levels``.

        Raises:
          KeyError: for a column that is not there or was skipped.
          ValueError: for a scan that was loaded, which has no data, one of another measure, and of
            HGR-KB one that is given columns.

        Example:
          >>> import numpy as np, hgr_jax
          >>> kind, size = np.array(["a", "b"] * 50), np.arange(100.0) % 2
          >>> fit = hgr_jax.scan({"kind": kind, "size": size}, test=None).fit("kind", "size")
          >>> print(abs(fit.f(["b", "a", "b"])))
          [1. 1. 1.]
        """
        return fit_of(self, *self._names(a, b))

    def interval(self, a: Any, b: Any, level: float = 0.95) -> tuple[float, float]:
        """Return an interval for the HGR of two columns, as `HGRFit.interval` does.

        0 is in it exactly where the scan's p-value of the pair does not reject independence.

        Raises:
          KeyError, ValueError: as `fit` does.

        Example:
          >>> import numpy as np, hgr_jax
          >>> x, noise = np.random.default_rng(0).normal(size=(2, 500))
          >>> found = hgr_jax.scan({"x": x, "y": x**2 + noise})
          >>> low, high = found.interval("x", "y")
          >>> low < found["x", "y"].correlation < high
          True
        """
        return interval_of(self, *self._names(a, b), level)

    def findings(self, n: int = FINDINGS, *, min_rows: int = MIN_ROWS) -> Findings:
        """Return what a person looks for first: the strongest pairs, and those not monotone.

        Of pairs that are more than chance (of a scan without p-values, of all pairs), by HGR, and
        by HGR less |Spearman|.  Near copies of a column count as one; pairs that a single row or
        few rows, copies of rows, the order of the rows, a mark of missing values or the
        construction of a column explain are listed apart.

        Args:
          n: number of findings in each list.
          min_rows: smallest number of rows of a finding; in a table of fewer than twice as many,
            half of its rows.

        Returns:
          `Findings`, which prints itself.

        Raises:
          ValueError: for a scan that was loaded, which has no data.

        Example:
          >>> import numpy as np, hgr_jax
          >>> x, noise = np.random.default_rng(0).normal(size=(2, 300))
          >>> found = hgr_jax.scan({"x": x, "y": x**2 + noise, "noise": noise[::-1]})
          >>> [(f.a, f.b, f.remark) for f in found.findings().not_monotone]
          [('x', 'y', '')]
        """
        is_default = (n, min_rows) == (FINDINGS, MIN_ROWS)
        return self._findings if is_default else findings_of(self, n, min_rows)

    def influence(self, a: Any, b: Any) -> Influence | None:
        """Find the row that makes most of the correlation of one pair, and how much of it.

        None where there is no correlation.  Raises as `fit` does.
        """
        details = details_of(self, *self._names(a, b))
        return None if details is None else details.influence.in_table(self.data)

    def values(self, name: Any) -> Floats:
        """Return a column ``(n,)`` as the scan reads it, NaN where it is missing.

        Of a category, the positions of its values in ``category(name).levels``.  Raises as `fit`
        does.
        """
        columns, position = self.data, self._position(name)
        category = self.category(name)
        if category is not None:
            return np.where(category.codes < 0, np.nan, category.codes)
        place = list(columns.number_positions).index(position)
        return np.asarray(columns.numbers[:, place])

    def category(self, name: Any) -> Category | None:
        """Return codes and levels of a column that is a category, or None."""
        columns, position = self.data, self._position(name)
        places = list(columns.category_positions)
        return columns.categories[places.index(position)] if position in places else None

    def _position(self, name: Any) -> int:
        """Return the position of a used column by its name."""
        text = str(name)
        if text in self.skipped:
            raise KeyError(f"column {text!r} was skipped: {self.skipped[text]}.")
        if text not in self._places:
            near = near_matches(text, self.names)
            where = "is in a pair that was kept" if "top" in self.settings else "was scanned"
            raise KeyError(f"no column {text!r} {where}{near}")
        return self._places[text]

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        """The position of each name."""
        return {name: place for place, name in enumerate(self.names)}

    def _names(self, a: Any, b: Any) -> tuple[str, str]:
        """Return the names of two columns as the scan has them."""
        return self.names[self._position(a)], self.names[self._position(b)]

    @property
    def data(self) -> Columns:
        """The columns that were read; raises a ValueError for a scan that was loaded."""
        if self._columns is None:
            raise ValueError("this scan was loaded from a file, which holds no data; scan again.")
        return self._columns

    def plot(self, *, ax: Axes | None = None) -> Figure:
        """Draw a heat map of the columns that were used, clustered: HGR above the diagonal.

        Below it is the monotone part, `rank_linear`, or |Pearson| of a scan that has no HGR.  Of
        more than 150 columns, it shows those of the first pairs.

        Args:
          ax: axes of matplotlib to draw into; default those of a figure of its own.

        Raises:
          ImportError: without matplotlib, naming the command that installs it.
        """
        from hgr_jax.plotting import plot_correlations
        from hgr_jax.scanning.report import heat_map_columns, monotone_part

        columns = heat_map_columns(self)
        names = [self.names[i] for i in columns]
        label = str(self.settings["measure"]).upper()
        below, label_below = monotone_part(self)
        title = f"{label} above, {label_below} below"
        tables = self._square("correlation", columns), self._square(below, columns)
        return plot_correlations(*tables, names, title=title, ax=ax)

    def report(self, path: str | Path, *, title: str = "", by: str = "rank_excess") -> None:
        """Write a page of HTML to open in a browser: findings, all pairs, pictures, columns.

        The page is one file that loads no other.

        Args:
          path: of the file, which is replaced.
          title: at the head of the page; default the name of the file.
          by: the order of the pairs, as in `top`.

        Raises:
          ValueError: for a scan that was loaded, which has no data.

        Example:
          >>> import tempfile, numpy as np, hgr_jax
          >>> x = np.linspace(-1, 1, 50)
          >>> found = hgr_jax.scan({"x": x, "square": x**2})
          >>> found.report(tempfile.mkdtemp() + "/report.html")
        """
        from hgr_jax.scanning.html.page import write_html
        from hgr_jax.scanning.report import as_report

        write_html(as_report(self, title or Path(path).name, self._findings, by=by), path)

    def save(self, path: str | Path) -> None:
        """Save everything but the data in one file (NumPy's ``.npz``)."""
        settings = {name: dict(getattr(self, name)) for name in DESCRIPTIONS}
        arrays = self._rows.columns | {"numbers": self._numbers}
        save_archive(path, "scan", {"names": list(self.names), **settings}, arrays, compress=True)

    @staticmethod
    def load(path: str | Path) -> Scan:
        """Load a scan from a file of `save`; all but `fit` and `values` work.

        Raises:
          FileNotFoundError: if there is no such file.
          ValueError: for a file that does not hold a scan.
        """
        settings, arrays = load_archive(path, "scan")
        try:
            rows = PairRows(**{f.name: arrays[f.name] for f in dataclasses.fields(PairRows)})
            described = {name: settings[name] for name in DESCRIPTIONS}
            names, numbers = tuple(settings["names"]), arrays["numbers"]
        except KeyError as error:
            raise ValueError(f"{path} does not hold a scan: {error}") from error
        return Scan(names, **described, _rows=rows, _numbers=numbers)
