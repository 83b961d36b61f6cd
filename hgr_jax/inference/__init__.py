"""Is it more than chance, and how much of it is bias?  Functions of data on the host.

* `independence`: `independence_test`, the test to begin with, by ranks, and `ConditionalTests`, of
  one table, given other columns; `results`: what they return;
* `hgr_fits`: `hgr_fit`, HGR with an interval, a p-value and its transformations;
* `conditional`: products of residuals of functions of ranks, given other variables;
* `rank_law`: the law of several blocks of functions of ranks;
* `roys_root`: the law that HGR-KB follows for many rows of independent data;
* `dependent_rows`: tests of series in time, and of rows in groups;
* `level_tests`: tests of pairs with a category; `level_tables`: the law of their tables of counts;
* `orders`: p-values by all orders of few rows, or by random ones;
* `permutation`: `permutation_test`, an exact test with any measure;
* `intervals`: `corrected` values, and `upper_bound`, a differentiable bound of the value in the
  population;
* `multiplicity`: `adjust`, for many p-values at once, and for more than memory holds;
* `selection`: `select_degrees`, by cross-validation.

`hgr_jax.scan` uses them for whole tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hgr_jax._optional import names_in_modules
from hgr_jax.inference import roys_root

if TYPE_CHECKING:
    from hgr_jax.core.host.conditional_hgr import ConditionalHGRFit
    from hgr_jax.inference.hgr_fits import HGRFit, LevelTransform, RankTransform, hgr_fit
    from hgr_jax.inference.independence import ConditionalTests, independence_test
    from hgr_jax.inference.intervals import corrected, upper_bound
    from hgr_jax.inference.multiplicity import adjust
    from hgr_jax.inference.permutation import PermutationTest, permutation_test
    from hgr_jax.inference.results import IndependenceTest
    from hgr_jax.inference.selection import DegreeSelection, select_degrees

__all__ = [
    "ConditionalHGRFit",
    "ConditionalTests",
    "DegreeSelection",
    "HGRFit",
    "IndependenceTest",
    "LevelTransform",
    "PermutationTest",
    "RankTransform",
    "adjust",
    "corrected",
    "hgr_fit",
    "independence_test",
    "permutation_test",
    "roys_root",
    "select_degrees",
    "upper_bound",
]

__getattr__ = names_in_modules(
    __name__,
    {
        "hgr_fits": ("ConditionalHGRFit", "HGRFit", "LevelTransform", "RankTransform", "hgr_fit"),
        "independence": ("ConditionalTests", "independence_test"),
        "intervals": ("corrected", "upper_bound"),
        "multiplicity": ("adjust",),
        "permutation": ("PermutationTest", "permutation_test"),
        "results": ("IndependenceTest",),
        "selection": ("DegreeSelection", "select_degrees"),
    },
)
