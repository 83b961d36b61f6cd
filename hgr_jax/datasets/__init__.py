"""Data to measure dependence on.

* `synthetic`: relationships of two variables, each with its oracle;
* `diabetes`: a real table, which scikit-learn brings.
"""

from hgr_jax.datasets import synthetic
from hgr_jax.datasets.diabetes import Dataset, load_diabetes

__all__ = ["Dataset", "load_diabetes", "synthetic"]
