"""A causal graph, found from relations that no correlation shows."""

from pathlib import Path

import numpy as np
from causallearn.search.ConstraintBased.PC import pc
from matplotlib.figure import Figure

from hgr_jax.causal import causal_learn_test

x, z, e, f, g = np.random.default_rng(0).normal(size=(5, 1000))
y = x**2 + np.abs(2 * z) + 0.3 * e
w = np.abs(y - 2) + 0.3 * f
table = np.stack([x, z, y, w], axis=1)
options = {"alpha": 0.01, "node_names": ["x", "z", "y", "w"], "show_progress": False}
places = {"x": (0, 1), "z": (0, 0), "y": (1, 0.5), "w": (2, 0.5)}

figure = Figure(figsize=(8, 3), layout="constrained")
names = {"by HGR": causal_learn_test(), "by correlation": "fisherz"}
for axes, (title, test) in zip(figure.subplots(1, 2), names.items(), strict=True):
    for edge in pc(table, indep_test=test, **options).G.get_graph_edges():
        ends = (places[edge.get_node1().get_name()], places[edge.get_node2().get_name()])
        axes.annotate("", ends[1], ends[0], arrowprops={"arrowstyle": "-|>", "shrinkB": 14})
    for name, place in places.items():
        axes.text(*place, name, ha="center", va="center", bbox={"boxstyle": "circle", "fc": "w"})
    axes.set(title=title, xlim=(-0.3, 2.3), ylim=(-0.3, 1.3))
    axes.axis("off")
figure.savefig(Path(__file__).with_suffix(".png"), dpi=100)
