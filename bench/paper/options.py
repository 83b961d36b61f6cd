"""Options of the experiments: each takes those that its ``run`` names."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.paper.tables import NAMES


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected an int of at least 1, got {text}")
    return value


def _widths(text: str) -> tuple[int, ...]:
    return tuple(_count(part) for part in text.split(","))


OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "chosen": {"metavar": "TABLE", "nargs": "+", "choices": NAMES, "help": "real tables"},
    "relationships": {"metavar": "NAME", "nargs": "+", "help": "synthetic relationships"},
    "measures": {"metavar": "NAME", "nargs": "+", "help": "contestants, as HGR-KB or HGR-KB-2"},
    "penalisers": {"metavar": "NAME", "nargs": "+", "help": "what is penalised, as HGR-KDE"},
    "degree": {"metavar": "N", "type": _count, "help": "of the polynomials"},
    "noises": {"metavar": "SD", "nargs": "+", "type": float, "help": "noise levels"},
    "seeds": {"metavar": "N", "type": _count, "help": "how many seeds of the data"},
    "algorithm_seeds": {"metavar": "N", "type": _count, "help": "how many of the algorithms"},
    "test": {"action": "store_true", "help": "values of fresh samples too"},
    "on": {"metavar": "COLUMN", "help": "the column that others are compared with"},
    "top": {"metavar": "N", "type": _count, "help": "how many columns are drawn"},
    "folds": {"metavar": "N", "type": _count, "help": "how many folds are trained"},
    "steps": {"metavar": "N", "type": _count, "help": "of the trainings"},
    "every": {"metavar": "N", "type": _count, "help": "steps between two figures"},
    "batches": {"metavar": "N", "nargs": "+", "type": _count, "help": "batches of an epoch"},
    "hidden": {
        "metavar": "N,N",
        "nargs": "+",
        "type": _widths,
        "help": "widths of the hidden layers of a network",
    },
    "threshold": {"metavar": "T", "type": float, "help": "of the constraint"},
    "peer": {"action": "store_true", "help": "torch and maxcorr as well"},
    "tract": {"metavar": "FILE", "type": Path, "help": "the census of tracts, from this file"},
}
"""By the names of the parameters; ``chosen`` is ``--tables``."""


def flag(name: str) -> str:
    """Return an option as it is written on the command line."""
    return "--" + {"chosen": "tables"}.get(name, name).replace("_", "-")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all of them; those that are not given are not in the result."""
    group = parser.add_argument_group("options of some experiments")
    for name, settings in OPTIONS.items():
        group.add_argument(flag(name), dest=name, default=argparse.SUPPRESS, **settings)


def taken(run: Callable[..., str]) -> list[str]:
    """Return the options that an experiment takes."""
    return [name for name in inspect.signature(run).parameters if name in OPTIONS]
