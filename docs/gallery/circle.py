"""A circle: Pearson's correlation sees nothing; two functions show all there is."""

from pathlib import Path

import numpy as np

import hgr_jax
from hgr_jax.plotting import plot_fit

angle, noise = np.random.default_rng(0).uniform(0, 2 * np.pi, (2, 600))
x = np.cos(angle) + 0.05 * np.cos(noise)
y = np.sin(angle) + 0.05 * np.sin(noise)
fit = hgr_jax.kb_fit(x, y, h=2, k=2)
plot_fit(fit, x, y, names=("x", "y")).savefig(Path(__file__).with_suffix(".png"), dpi=100)
