"""Two series: the second follows the square of the first, three steps later."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import hgr_jax

rng, lags = np.random.default_rng(0), range(-8, 9)
a, noise = rng.normal(size=(2, 400))
a = np.convolve(a, [1, 0.8, 0.5], "same")
b = np.roll(a, 3) ** 2 + noise
test = hgr_jax.independence_test(a, b, order=True, lags=lags)
values = [hgr_jax.hgr(a[8:-8], np.roll(b, -lag)[8:-8]) for lag in lags]
pearson = [abs(hgr_jax.pearson(a[8:-8], np.roll(b, -lag)[8:-8])) for lag in lags]

figure = Figure(figsize=(8, 5), layout="constrained")
top, bottom = figure.subplots(2, 1)
top.plot(a[:150], label="a")
top.plot(b[:150], label="b", alpha=0.7)
top.set(xlabel="time")
bottom.plot(lags, values, "o-", label="HGR")
bottom.plot(lags, pearson, ".--", color="gray", label="|Pearson|")
bottom.set(xlabel=f"rows by which b follows a; lag {test.lag}, p-value {test.pvalue:.0e}", ylim=0)
for axes in (top, bottom):
    axes.legend()
figure.savefig(Path(__file__).with_suffix(".png"), dpi=100)
