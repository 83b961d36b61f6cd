"""A stream: batch by batch a state adds up, and says what the rows so far show."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import hgr_jax


def batch(seed: int) -> pd.DataFrame:
    """Return 250 rows, as they come."""
    a, noise, other = np.random.default_rng(seed).normal(size=(3, 250))
    return pd.DataFrame({"a": a, "b": a**2 + 2 * noise, "other": other})


state, steps = hgr_jax.ScanState.prepare(batch(0), h=2, k=2), []
for seed in range(1, 41):
    state = state.update(batch(seed), name=str(seed))
    found = state.result()
    steps.append((250 * seed, found["a", "b"].correlation, found["a", "other"].correlation))
rows, related, unrelated = zip(*steps, strict=True)
axes = Figure(figsize=(8, 4), layout="constrained").subplots()
axes.plot(rows, related, label="a and b")
axes.plot(rows, unrelated, label="a and other")
axes.set(xlabel="rows so far", ylabel="HGR-KB", ylim=(0, 1))
axes.legend()
axes.figure.savefig(Path(__file__).with_suffix(".png"), dpi=100)
