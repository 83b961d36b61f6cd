"""All pairs of the columns of a table."""

from hgr_jax.pairwise.all_pairs import scan
from hgr_jax.pairwise.result import Pair, Scan

__all__ = ["Pair", "Scan", "scan"]
