"""A figure of the paper, in small: measures of three relations under rising noise."""

from pathlib import Path

import jax
import numpy as np
from matplotlib.figure import Figure

import hgr_jax

measures = {"HGR-KB": hgr_jax.kb, "HGR-SK": hgr_jax.sk, "|Pearson|": hgr_jax.pearson}
noises, rng = np.linspace(0, 1.5, 12), np.random.default_rng(0)
x, noise = rng.uniform(-1, 1, (20, 1000)), rng.normal(size=(20, 1000))
angle = np.pi * x
circle = np.cos(angle), np.sin(angle)
relations = {"parabola": (x, x**2), "sine": (x, np.sin(2 * angle)), "circle": circle}
figure = Figure(figsize=(10, 3.4), layout="constrained")
for axes, (title, (a, b)) in zip(
    figure.subplots(1, 3, sharey=True), relations.items(), strict=True
):
    for name, measure in measures.items():
        batched = jax.jit(jax.vmap(measure))
        values = [np.abs(batched(a, b + s * b.std() * noise)).mean() for s in noises]
        axes.plot(noises, values, label=name)
    axes.set(title=title, xlabel="noise", ylim=(0, 1.02))
axes.legend()
figure.savefig(Path(__file__).with_suffix(".png"), dpi=100)
