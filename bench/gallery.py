"""Draw laws of known HGR, titled by estimates of it: ``python -m bench.gallery``."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import hgr_jax
from bench.laws import laws

SHOWN = "normal .6; crossed normals; rare cluster; ring; disc; scale; jump; steps; "
SHOWN += "sine, 5 periods; fast waves; checkerboard 6 x 2; Clayton"


def draw(path: Path) -> None:
    figure = Figure(figsize=(12, 9.6), layout="constrained")
    law = {each.name: each for each in laws()}
    for name, axes in zip(SHOWN.split("; "), figure.subplots(3, 4).flat, strict=True):
        x, y = law[name].sample(np.random.default_rng(0), 1_000)
        a, b = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
        values = f"hgr {hgr_jax.hgr(a, b):.2f}, |Pearson| {abs(hgr_jax.pearson(a, b)):.2f}"
        axes.scatter(x, y, s=4, alpha=0.4, linewidths=0)
        axes.set(title=f"{name}: HGR {law[name].hgr:.2f}\n{values}", xticks=[], yticks=[])
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    draw(Path(__file__).with_name("laws.png"))
