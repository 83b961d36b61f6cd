"""A fair model: predictions of a disease, before and after they may no longer depend on age."""

from pathlib import Path

from hgr_jax.datasets import load_diabetes
from hgr_jax.fairness import FairMLPRegressor, report
from hgr_jax.plotting import plot_predictions

data = load_diabetes()
x, y, age = data.x, data.y, data.z
before = FairMLPRegressor(penalty=None, steps=300, random_state=0).fit(x, y, protected=age)
after = FairMLPRegressor(threshold=0.1, steps=300, random_state=0).fit(x, y, protected=age)
print(report(after, x, y, age, baseline=before).round(3))
predictions = {"before": before.predict(x), "after": after.predict(x)}
figure = plot_predictions(age, predictions, name="age")
figure.savefig(Path(__file__).with_suffix(".png"), dpi=100)
