"""Experiments that train on every fold of every table: finished folds are kept."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TypeVar

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from bench.paper.output import Output, part_name, sources

Case = TypeVar("Case", bound=tuple[object, ...])


def over_folds(
    output: Output,
    experiment: str,
    cases: Mapping[Case, Callable[[int], ArrayLike]],
    folds: int,
    *settings: object,
) -> dict[Case, NDArray[np.float64]]:
    """Return the figures of each case on each fold ``(folds, ...)``; a finished fold is kept.

    Args:
      output: where finished folds are kept.
      experiment: the name of its module.
      cases: what trains on a fold, by what tells cases apart.
      folds: how many of them.
      settings: what else the figures depend on.
    """
    found = {}
    digest = sources("enforcement", "folds", experiment)
    with tqdm(total=len(cases) * folds, unit="fold") as bar:
        for case, train in cases.items():
            each = []
            for index in range(folds):
                bar.set_postfix_str(", ".join(map(str, case)))
                key = part_name(experiment, *case, index, *settings, digest)
                each.append(output.part(key, functools.partial(train, index)))
                bar.update()
            found[case] = np.array(each)
            jax.clear_caches()
    return found
