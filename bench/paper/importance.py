"""Features of the three tables, ranked by KB with the target and with the protected attribute."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

import hgr_jax
from bench.paper import tables
from bench.paper.output import Output, new_figure
from hgr_jax.plotting import literal

TOP = 10


def run(
    output: Output,
    *,
    quick: bool,
    chosen: Sequence[str] | None = None,
    on: str | None = None,
    top: int = TOP,
    degree: int = 5,
) -> str:
    """KB beside |Pearson|, all inputs one-hot encoded as in the paper.

    Features are ranked by KB with the target and with the protected attribute, or with ``on``.
    """
    found = tables.load(chosen, quick=quick)
    rows, leaders = [], []
    figure = new_figure(13, 3 * len(found))
    columns = [[on] if on else [table.target, table.protected] for table in found]
    panels = figure.subplots(len(found), len(columns[0]), squeeze=False)
    for table, references, row_of_panels in zip(found, columns, panels, strict=True):
        for reference, axes in zip(references, row_of_panels, strict=True):
            names = [name for name in table.features if name != reference]
            x = jnp.asarray(table[reference], jnp.float32)
            features = np.stack([table[name] for name in names])
            kb, pearson = against(x, jnp.asarray(features, jnp.float32), degree)
            order = np.argsort(-kb, kind="stable")
            rows += [
                (table.name, reference, place + 1, names[i], kb[i], pearson[i])
                for place, i in enumerate(order)
            ]
            leaders.append(f"{table.name}, {reference}: {names[order[0]]} {kb[order[0]]:.2f}")
            best = order[:top][::-1]
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


@functools.partial(jax.jit, static_argnames="degree")
def _batch(x: jax.Array, features: jax.Array, degree: int) -> tuple[jax.Array, jax.Array]:
    def one(feature: jax.Array) -> tuple[jax.Array, jax.Array]:
        kb = hgr_jax.kb(x, feature, h=degree, k=degree)
        return kb, jnp.abs(hgr_jax.pearson(x, feature))

    return jax.lax.map(one, features)


def against(x: jax.Array, features: jax.Array, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """KB and |Pearson| of x with each of the features ``(m, n)``."""
    kb, pearson = _batch(x, features, degree)
    return np.asarray(kb), np.asarray(pearson)
