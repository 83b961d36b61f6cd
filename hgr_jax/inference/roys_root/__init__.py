"""Roy's largest root: the law of HGR-KB between independent variables, for many rows.

`distribution` has the law itself, exact into the far tail, `interpolation` the same for thousands
of values; `asymptotics` says for which columns of a table it holds.
"""

from hgr_jax.inference.roys_root.law import log_survival, mean, quantile, survival

__all__ = ["log_survival", "mean", "quantile", "survival"]
