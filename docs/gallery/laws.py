"""Laws of known HGR, titled by estimates of it."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import hgr_jax
from bench.laws import laws

SHOWN = "normal .6; crossed normals; rare cluster; ring; disc; scale; jump; steps; "
SHOWN += "sine, 5 periods; fast waves; checkerboard 6 x 2; Clayton"

figure = Figure(figsize=(12, 9.6), layout="constrained")
law = {each.name: each for each in laws()}
for name, axes in zip(SHOWN.split("; "), figure.subplots(3, 4).flat, strict=True):
    x, y = (v.astype(np.float32) for v in law[name].sample(np.random.default_rng(0), 1_000))
    values = f"hgr {hgr_jax.hgr(x, y):.2f}, |Pearson| {abs(hgr_jax.pearson(x, y)):.2f}"
    axes.scatter(x, y, s=4, alpha=0.4, linewidths=0)
    axes.set(title=f"{name}: HGR {law[name].hgr:.2f}\n{values}", xticks=[], yticks=[])
figure.savefig(Path(__file__).with_suffix(".png"), dpi=80)
