"""Data to measure dependence on: synthetic relationships, and real tables with their loaders.

* `synthetic`: relationships of two variables, each with its oracle;
* `adult`, `census`, `communities`, `diabetes`: real tables, one loader each;
* `dataset`: what a loader returns; `download`: files that it gets and keeps.
"""

from hgr_jax.datasets import synthetic
from hgr_jax.datasets.adult import load_adult
from hgr_jax.datasets.census import load_census
from hgr_jax.datasets.communities import load_communities
from hgr_jax.datasets.dataset import Dataset
from hgr_jax.datasets.diabetes import load_diabetes
from hgr_jax.datasets.download import DatasetError

__all__ = [
    "Dataset",
    "DatasetError",
    "load_adult",
    "load_census",
    "load_communities",
    "load_diabetes",
    "synthetic",
]
