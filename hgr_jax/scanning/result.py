"""The result of a scan: all pairs, as matrices, lists, frames, pictures and fits."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._arrays import Floats, Integers
from hgr_jax._checks import check_choice, check_count
from hgr_jax._optional import require
from hgr_jax.core.fits import KBFit
from hgr_jax.core.kernels import Indicators
from hgr_jax.inference.bias import corrected_on_host
from hgr_jax.measures import kb_fit
from hgr_jax.scanning import archive
from hgr_jax.scanning.influence import Influence, influence_of
from hgr_jax.scanning.pvalues import SOURCES
from hgr_jax.scanning.ranks import ranks
from hgr_jax.tables.columns import Columns
from hgr_jax.tables.encoding import Category

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDERS = ("rank_excess", "correlation", "excess", "pvalue")

FIT_TOLERANCE = 1e-3
"""Between a scan and a fit of the same pair: one of them ran out of digits."""

MAX_DISAGREEMENT = 0.1
"""Between a value and that of the ranks, beside sampling errors."""

FALSE_DISCOVERY_RATE = 0.05
"""Of an adjusted p-value: the rate of false discoveries among the pairs that it lets through."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """One pair of a scan; the attributes are those of `Scan`, of this pair."""

    a: str
    b: str
    correlation: float
    rank_correlation: float
    ranks_disagree: bool
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


_MEASURED = (
    *("correlation", "rank_correlation", "ranks_disagree", "pearson", "spearman", "rank_excess"),
    *("pvalue", "adjusted_pvalue", "corrected", "null_mean", "null_95", "n_obs"),
)
"""Attributes that a `Scan` has as matrices, and a `Pair` as numbers."""


@dataclasses.dataclass(frozen=True, eq=False)
class Scan:
    """All pairs of p columns: the result of `hgr_jax.scan`.

    The matrices are ``(p, p)`` and symmetric, NaN (counts: 0) for a pair that was skipped or not
    asked for.

    Attributes:
      names: of the p columns.
      correlation: the measure; 1 on the diagonal of a column that was used.
      rank_correlation: the measure of the columns' ranks, which no single row can make; NaN of a
        scan without p-values, and of measures other than ``"kb"`` and ``"sk"``.
      pearson, spearman: |Pearson| and, with `rank_correlation`, |Spearman|; NaN with a category.
      pvalue: against independence; NaN on the diagonal.
      adjusted_pvalue: Benjamini-Hochberg over the pairs that have a p-value, each counted once.
      corrected: the measure with less of its upward bias (`hgr_jax.inference.corrected`), of
        ``"kb"``.
      null_mean, null_95: mean and 95% point of the measure for independent columns: by permutation
        of these very columns where the p-value is, else by Roy's law, which is that of their ranks
        (values with tails reach higher: at degree 5 one normal pair of nine in 1,000 rows).
      n_obs: rows where both columns are present (and of positive weight); 0 on the diagonal.
      degrees: ``(p, p, 2)``, directions that the pair's rows support of column i and of column
        j; so ``degrees[j, i]`` is ``degrees[i, j]`` reversed.
      source: where a p-value is from, 0 to 3 for none, ``"rank"``, ``"asymptotic"`` (Roy's law,
        of the values as they are) and ``"permutation"``; in words: `pvalue_source`.
      skipped: names of the columns that were left out, with the reason.
      notes: names of columns that were used, but not quite as they are, with a remark.
      settings: of the scan.
      pairs: ``(N, 2)``, positions of the columns of every pair that was asked for.
    """

    names: tuple[str, ...]
    correlation: Floats
    rank_correlation: Floats
    pearson: Floats
    spearman: Floats
    pvalue: Floats
    adjusted_pvalue: Floats
    corrected: Floats
    null_mean: Floats
    null_95: Floats
    n_obs: Integers
    degrees: Integers
    source: NDArray[np.int8]
    skipped: Mapping[str, str]
    notes: Mapping[str, str]
    settings: Mapping[str, Any]
    pairs: Integers
    _columns: Columns | None = dataclasses.field(default=None, repr=False)
    _weights: Any = dataclasses.field(default=None, repr=False)

    def __len__(self) -> int:
        """Return the number of pairs that were estimated."""
        return int(np.isfinite(self.correlation[self.pairs[:, 0], self.pairs[:, 1]]).sum())

    @property
    def pvalue_source(self) -> NDArray[np.str_]:
        """Where each p-value is from ``(p, p)``: "", "rank", "asymptotic" or "permutation"."""
        return np.array(SOURCES)[self.source]

    @property
    def rank_excess(self) -> Floats:
        """The measure of ranks, less its upward bias, above |Spearman|; above 0 with a category."""
        rows = np.maximum(self.n_obs, 1)
        parameters = np.maximum(self.degrees.sum(axis=2) - 1, 1)
        less = corrected_on_host(self.rank_correlation, rows, parameters)
        return np.where(
            np.isnan(self.rank_correlation), np.nan, less - np.nan_to_num(self.spearman)
        )

    @property
    def ranks_disagree(self) -> NDArray[np.bool_]:
        """Whether a value and that of the ranks differ by more than 0.1 and two standard errors.

        One of them is made by few rows, or blind to what the other sees: look at the picture.
        """
        apart = np.abs(self.correlation - self.rank_correlation)
        return apart > MAX_DISAGREEMENT + 2 / np.sqrt(np.maximum(self.n_obs, 1))

    def order(self, by: str = "rank_excess") -> Integers:
        """Return pairs ``(N, 2)`` of columns that were estimated, sorted.

        Args:
          by: ``"rank_excess"``, what a monotone relation does not explain, largest first, of the
            pairs that are more than chance (at a false discovery rate of 5%) and then of the
            others (of a scan without ranks, by correlation); ``"correlation"`` or its
            ``"excess"`` over |Pearson| (NaN, and last, with a category), largest first; or
            ``"pvalue"``, smallest first, then by correlation.
        """
        check_choice("by", by, ORDERS)
        first, second = self.pairs.T
        value = self.correlation[first, second]
        keys = [-value]
        if by == "excess":
            keys.append(self.pearson[first, second] - value)
        elif by == "pvalue":
            keys.append(self.pvalue[first, second])
        elif by == "rank_excess":
            found = self.adjusted_pvalue[first, second] <= FALSE_DISCOVERY_RATE
            keys += [-self.rank_excess[first, second], ~found]
        order = np.lexsort(keys)
        return self.pairs[order[np.isfinite(value[order])]]

    def top(self, n: int = 20, *, by: str = "rank_excess") -> list[Pair]:
        """Return the first ``n`` pairs of `order`."""
        columns = self._columns_of(self.order(by)[: check_count("n", n)])
        lists = [values.tolist() for values in columns.values()]
        return [Pair(**dict(zip(columns, row, strict=True))) for row in zip(*lists, strict=True)]

    def to_dict(self, *, by: str = "rank_excess") -> dict[str, NDArray[Any]]:
        """Return all pairs as columns, sorted as in `order`; the names are those of `Pair`."""
        return self._columns_of(self.order(by))

    def _columns_of(self, pairs: Integers) -> dict[str, NDArray[Any]]:
        first, second = pairs.T
        names = np.array(self.names, dtype=object)
        sources = np.array(SOURCES, dtype=object)
        measured = {name: getattr(self, name)[first, second] for name in _MEASURED}
        columns = measured | {
            "a": names[first],
            "b": names[second],
            "excess": measured["correlation"] - measured["pearson"],
            "pvalue_source": sources[self.source[first, second]],
            "degrees_a": self.degrees[first, second, 0],
            "degrees_b": self.degrees[first, second, 1],
        }
        return {field.name: columns[field.name] for field in dataclasses.fields(Pair)}

    def to_frame(self, *, by: str = "rank_excess", library: str | None = None) -> Any:
        """Return all pairs as a data frame, a row each, sorted as in `order`.

        Args:
          by: as in `order`.
          library: ``"pandas"``, ``"polars"`` or ``"pyarrow"``; default: that of the table which
            was scanned, pandas for an array.

        Raises:
          ImportError: without narwhals or the library.
        """
        narwhals = require("narwhals.stable.v2", "table")
        if library is None:
            frame = None if self._columns is None else self._columns.frame
            library = "pandas" if frame is None else frame.implementation.value
        else:
            check_choice("library", library, ("pandas", "polars", "pyarrow"))
        require(library, "table")
        data = {
            name: values.tolist() if values.dtype == object else values
            for name, values in self.to_dict(by=by).items()
        }
        return narwhals.from_dict(data, backend=library).to_native()

    def fit(self, a: str, b: str) -> KBFit:
        """Fit the transformations of one pair: `hgr_jax.kb_fit` on the rows where both are present.

        With ``method="sk"`` one side is linear.  With ``transform="rank"`` they are functions of
        the ranks, in [-1, 1]; of a category, they are functions of the position of a level in
        ``category(name).levels``.  The values are taken in JAX's default dtype: where float32
        cannot tell those of the table apart, a warning says that it found another correlation
        than the scan (which shifts and scales such columns first).

        Raises:
          KeyError: for a column that is not there or was skipped.
          ValueError: for a scan that was loaded, which has no data, and one of another measure.
        """
        self._check_fitted()
        first, second = self.values(a), self.values(b)
        kernels = self._kernels(a, b)
        keep = ~(np.isnan(first) | np.isnan(second))
        weights = self._weights
        if not keep.all():  # as weights, so that all pairs share a program
            weights = np.where(keep, 1.0 if weights is None else weights, 0.0)
        choices = [kernels]
        if self.settings["method"] == "sk" and all(isinstance(kernel, int) for kernel in kernels):
            choices = [(kernels[0], 1), (1, kernels[1])]
        fits = [kb_fit(first, second, *choice, weights=weights) for choice in choices]
        best = max(fits, key=lambda fit: float(fit.correlation))
        scanned = self.correlation[self.names.index(a), self.names.index(b)]
        if not abs(float(best.correlation) - scanned) <= FIT_TOLERANCE and np.isfinite(scanned):
            warnings.warn(
                f"the fit of {a!r} and {b!r} has correlation {float(best.correlation):.4f}, where"
                f" the scan found {scanned:.4f}: {best.alpha.dtype} has too few digits for the"
                " values; enable 64-bit types (jax_enable_x64), or take a constant off the columns",
                stacklevel=2,
            )
        return best

    def influence(self, a: str, b: str) -> Influence | None:
        """Find the row that makes most of the correlation of one pair, and how much of it.

        None where there is no correlation.  Raises as `fit` does.
        """
        self._check_fitted()
        weights = None if self._weights is None else np.asarray(self._weights, np.float64)
        values = self.values(a), self.values(b)
        return influence_of(
            *values, weights, self._kernels(a, b), single=self.settings["method"] == "sk"
        )

    def _check_fitted(self) -> None:
        if self.settings["method"] not in ("kb", "sk"):
            raise ValueError(f"fit is for a scan of 'kb' or 'sk'; got {self.settings['method']!r}.")

    def _kernels(self, a: str, b: str) -> tuple[int | Indicators, int | Indicators]:
        """Return the kernels of two columns, categories with as many levels as any has."""
        widest = max((len(c.levels) for c in self._data().categories), default=0)
        h, k = self._degrees_of(a, b)
        return (
            h if self.category(a) is None else Indicators(widest),
            k if self.category(b) is None else Indicators(widest),
        )

    def _degrees_of(self, a: str, b: str) -> tuple[int, int]:
        """Return degrees h and k; k and h where the scan has ``b`` as the first of the two."""
        i, j = self.names.index(a), self.names.index(b)
        asked, turned = ((self.pairs == pair).all(axis=1).any() for pair in ((i, j), (j, i)))
        h, k = self.settings["h"], self.settings["k"]
        return (k, h) if turned or (i > j and not asked) else (h, k)

    def values(self, name: str) -> Floats:
        """Return a column ``(n,)`` as the scan reads it, NaN where it is missing.

        Of a category, the positions of its values in ``category(name).levels``.  Raises as `fit`
        does.
        """
        columns = self._data()
        if name not in columns.names:
            raise KeyError(f"no column {name!r} was scanned.")
        if name in self.skipped:
            raise KeyError(f"column {name!r} was skipped: {self.skipped[name]}.")
        category = self.category(name)
        if category is not None:
            return np.where(category.codes < 0, np.nan, category.codes)
        place = list(columns.number_positions).index(columns.names.index(name))
        column = np.asarray(columns.numbers[:, place])
        if self.settings["transform"] == "rank":
            if self._weights is not None:
                column = np.where(self._weights > 0, column, np.nan)
            return ranks(column[:, None])[:, 0]
        return column

    def category(self, name: str) -> Category | None:
        """Return codes and levels of a column that is a category, or None."""
        columns = self._data()
        position = columns.names.index(name)
        places = list(columns.category_positions)
        return columns.categories[places.index(position)] if position in places else None

    def _data(self) -> Columns:
        if self._columns is None:
            raise ValueError("this scan was loaded from a file, which holds no data; scan again.")
        return self._columns

    def clustered(self) -> Integers:
        """Return positions of the columns that were used, similar ones side by side.

        Average linkage on ``1 - correlation`` (SciPy).
        """
        used = np.flatnonzero(np.isfinite(np.diagonal(self.correlation)))
        if len(used) < 3:
            return used
        hierarchy = require("scipy.cluster.hierarchy", "table")
        apart = 1 - np.nan_to_num(self.correlation[np.ix_(used, used)])
        first, second = np.triu_indices(len(used), 1)
        tree = hierarchy.linkage(np.maximum(apart[first, second], 0), "average")
        return used[hierarchy.leaves_list(tree)]

    def plot(self) -> Figure:
        """Draw a heat map of the columns that were used, clustered: HGR above, |Pearson| below.

        Raises:
          ImportError: without matplotlib, naming the command that installs it.
        """
        from hgr_jax.plotting import plot_correlations

        order = self.clustered()
        part = np.ix_(order, order)
        names = [self.names[i] for i in order]
        label = str(self.settings["method"]).upper()
        title = f"{label} above, |Pearson| below"
        return plot_correlations(self.correlation[part], self.pearson[part], names, title=title)

    def save(self, path: str | Path) -> None:
        """Keep everything but the data in one file (NumPy's ``.npz``)."""
        archive.write_scan(path, self)

    @staticmethod
    def load(path: str | Path) -> Scan:
        """Load a scan that was kept by `save`; all but `fit` and `values` work.

        Raises:
          FileNotFoundError: if there is no such file.
          ValueError: for a file that is none of a scan.
        """
        return Scan(**archive.read_scan(path))


def columns_of(scan: Scan) -> Columns:
    """Return the columns that a scan read; raises a ValueError for one that was loaded."""
    return scan._data()
