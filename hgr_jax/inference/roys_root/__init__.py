"""Roy's largest root: the law of HGR-KB between independent variables, for many rows.

* `law`: the law itself, exact into the far tail; `pfaffian`: its numerics;
* `validity`: for which columns of a table it holds.
"""

from hgr_jax.inference.roys_root.law import log_survival, mean, quantile

__all__ = ["log_survival", "mean", "quantile"]
