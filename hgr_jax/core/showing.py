"""Results in a few lines, and in notebooks: their main figures, where these are concrete."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from hgr_jax._texts import html_table

SHOWN = 3
"""Figures of a batch that are shown at either end."""


def is_concrete(tree: Any) -> bool:
    """Return whether all leaves are arrays with values: not traced, abstract, or deleted."""
    leaves = jax.tree.leaves(tree)
    return bool(leaves) and all(
        isinstance(leaf, np.ndarray | np.generic)
        or (
            isinstance(leaf, jax.Array)
            and not isinstance(leaf, jax.core.Tracer)
            and not leaf.is_deleted()
        )
        for leaf in leaves
    )


def in_fields(result: Any) -> str:
    """Return what a dataclass prints by itself."""
    fields = [f"{f.name}={getattr(result, f.name)!r}" for f in dataclasses.fields(result)]
    return f"{type(result).__qualname__}({', '.join(fields)})"


def in_figures(value: Any) -> str:
    """Return one number, or the first and the last of many, in words."""
    host = np.asarray(value)
    form = "d" if host.dtype.kind in "iub" else ".4g"
    if host.ndim == 0:
        return format(host.item(), form)
    texts = [format(number, form) for number in host.ravel().tolist()]
    if len(texts) > 2 * SHOWN:
        texts = [*texts[:SHOWN], "...", *texts[-SHOWN:]]
    return f"[{', '.join(texts)}]"


def as_text(name: str, figures: Mapping[str, str], remark: str) -> str:
    """Return figures in a line, with a remark below."""
    line = ", ".join(f"{key}={value}" for key, value in figures.items())
    return f"{name}({line})" + (f"\n  {remark}" if remark else "")


def as_html(name: str, figures: Mapping[str, str], remark: str) -> str:
    """Return figures as a small table."""
    rows = [*figures.items(), *([("status", remark)] if remark else [])]
    return html_table(name, (), rows)
