"""HGR-KB never falls when a degree rises: the three tables of the paper."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

import hgr_jax
from bench.paper import tables
from bench.paper.output import ExperimentError, Output, new_figure


def run(output: Output, *, quick: bool) -> str:
    """KB of protected attribute and target over h and k from 1 to 7."""
    degrees = range(1, 4 if quick else 8)
    rows, largest_fall, flat = [], 0.0, []
    found = tables.load(quick=quick)
    figure = new_figure(12.5, 3.8)
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for table, axes in zip(found, panels, strict=True):
        a, b = (jnp.asarray(x) for x in tables.pair(table))
        program = jax.jit(functools.partial(_all_degrees, degrees=degrees))
        values = np.asarray(program(a, b))
        jax.clear_caches()
        for axis in (0, 1):
            largest_fall = min(largest_fall, float(np.diff(values, axis=axis).min()))
        flat.append((table.name, values[:3, :3][-1, -1], values[-1, -1]))
        rows += [
            (table.name, h, k, values[i, j])
            for i, h in enumerate(degrees)
            for j, k in enumerate(degrees)
        ]
        image = axes.imshow(values.T, origin="lower", cmap="Greys")
        axes.set_xticks(range(len(degrees)), degrees)
        axes.set_yticks(range(len(degrees)), degrees)
        axes.set(
            title=table.name,
            xlabel=f"h ({table.protected})",
            ylabel=f"k ({table.target})",
        )
        figure.colorbar(image, ax=axes)
    output.table("monotonicity", ("table", "h", "k", "HGR-KB"), rows)
    output.figure("monotonicity", figure)
    if largest_fall < -1e-5:
        raise ExperimentError(f"KB falls by {-largest_fall:.1e} when a degree rises by one")
    return (
        f"Largest fall when a degree rises by one: {-largest_fall:.1e} (float32 rounding); at"
        " degrees 3 and 3, and at the largest: "
        + "; ".join(f"{name} {low:.3f}, {high:.3f}" for name, low, high in flat)
        + "."
    )


def _all_degrees(a: jax.Array, b: jax.Array, *, degrees: range) -> jax.Array:
    return jnp.stack([jnp.stack([hgr_jax.kb(a, b, h=h, k=k) for k in degrees]) for h in degrees])
