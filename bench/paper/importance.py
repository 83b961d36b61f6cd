"""Features of the three tables, ranked by KB with the target and with the protected attribute."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import hgr_jax
from bench.paper import tables
from bench.paper.output import Output, new_figure
from hgr_jax.plotting import literal

TOP = 10


def run(output: Output, *, quick: bool) -> str:
    """KB beside |Pearson|, all inputs one-hot encoded as in the paper."""
    found = tables.load(quick=quick)
    rows, leaders = [], []
    figure = new_figure(13, 3 * len(found))
    panels = figure.subplots(len(found), 2, squeeze=False)
    for table, row_of_panels in zip(found, panels, strict=True):
        for reference, axes in zip((table.target, table.protected), row_of_panels, strict=True):
            names = [name for name in table.features if name != reference]
            x = jnp.asarray(table[reference], jnp.float32)
            features = np.stack([table[name] for name in names])
            kb, pearson = map(np.asarray, _against(x, jnp.asarray(features, jnp.float32)))
            order = np.argsort(-kb, kind="stable")
            rows += [
                (table.name, reference, place + 1, names[i], kb[i], pearson[i])
                for place, i in enumerate(order)
            ]
            leaders.append(f"{table.name}, {reference}: {names[order[0]]} {kb[order[0]]:.2f}")
            best = order[:TOP][::-1]
            where = np.arange(len(best))
            axes.barh(where, kb[best], color="C0", label="HGR-KB")
            axes.barh(where, pearson[best], height=0.3, color="black", label="|Pearson|")
            axes.set_yticks(where, [literal(names[i]) for i in best], fontsize=7)
            axes.set(title=f"{table.name}: {literal(reference)}", xlim=(0, 1))
    figure.axes[0].legend(fontsize=8)
    output.table(
        "importance", ("table", "variable", "rank", "feature", "HGR-KB", "|Pearson|"), rows
    )
    output.figure("importance", figure)
    return "First of the ranking: " + "; ".join(leaders) + "."


@jax.jit
def _against(x: jax.Array, features: jax.Array) -> tuple[jax.Array, jax.Array]:
    """KB and |Pearson| of x with each of the features ``(m, n)``."""

    def one(feature: jax.Array) -> tuple[jax.Array, jax.Array]:
        return hgr_jax.kb(x, feature, h=5, k=5), jnp.abs(hgr_jax.pearson(x, feature))

    return jax.lax.map(one, features)
