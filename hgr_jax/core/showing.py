"""Results in a few lines, and in notebooks: their main figures, where these are concrete."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import numpy as np
from jax import Array

from hgr_jax._texts import html_table
from hgr_jax.core.status import in_words

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


class ShownFit:
    """What fits with a status have in common: they print their main figures.

    Attributes:
      status: a `Status`, as an int array.
      shown: names of the figures to print.
    """

    status: Array
    shown: ClassVar[tuple[str, ...]] = ()

    @property
    def message(self) -> str | list[str]:
        """The status in words (a list, for a batch of fits); needs concrete values."""
        return in_words(self.status)

    def __repr__(self) -> str:
        return as_text(*self._shown()) if is_concrete(self) else in_fields(self)

    def _repr_html_(self) -> str:
        """Return the figures as a small table, for notebooks."""
        if is_concrete(self):
            return as_html(*self._shown())
        return html_table("", (), [[in_fields(self)]])

    def _shown(self) -> tuple[str, dict[str, str], str]:
        """Return the kind of fit, its figures, and its status in words where it is one fit."""
        figures = {name: in_figures(getattr(self, name)) for name in self.shown}
        remark = f"{len(self.message)} fits" if isinstance(self.message, list) else self.message
        return type(self).__name__, figures, remark
