"""One pair of a scan, and what is known of each."""

from __future__ import annotations

import dataclasses
import math

MATRICES = (
    *("correlation", "rank_correlation", "ranks_disagree", "pearson", "spearman", "rank_excess"),
    *("pvalue", "adjusted_pvalue", "pvalue_source", "corrected", "null_mean", "null_95", "n_obs"),
    "standard_error",
)
"""Attributes of a `Scan` of a number for each two columns."""

MEASURED = tuple(name for name in MATRICES if name != "pvalue_source")
"""Those that a `Pair` has as numbers."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """One pair of a scan; the attributes are those of `Scan`, of this pair.

    ``standard_error`` is NaN where it was not asked for.
    """

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
    standard_error: float = math.nan
