"""A fair model: predictions of a disease, before and after they may no longer depend on age."""

from pathlib import Path

from hgr_jax.datasets import load_diabetes
from hgr_jax.fairness import FairMLPRegressor, report

data = load_diabetes()
x, y, age = data.x, data.y, {"age": data.z}
before = FairMLPRegressor(penalty=None, steps=300, random_state=0).fit(x, y, protected=age)
after = FairMLPRegressor(threshold=0.1, steps=300, random_state=0).fit(x, y, protected=age)
found = report(after, x, y, age, baseline=before)
print(found)
found.plot().savefig(Path(__file__).with_suffix(".png"), dpi=100)
