"""Which evaluation of a training was the best, for early stopping."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax.fairness.steps import Figures, TrainState, hgr_values


@dataclasses.dataclass(frozen=True)
class Best:
    """The best evaluation so far: its network, how good, and how many there were since.

    ``rank`` is (minus the largest excess over a threshold, score), compared in this order.
    """

    parameters: Any
    variables: Any
    rank: tuple[float, float]
    waited: int


def better(best: Best | None, state: TrainState, figures: Figures, limits: NDArray[Any]) -> Best:
    """The best of what there was and this state.

    Args:
      best: before, or None.
      state: of the training.
      figures: of its network on the validation rows.
      limits: thresholds of the HGR-KB values, infinite where there is none.
    """
    excess = float(np.max(hgr_values(figures) - limits, initial=0.0))
    rank = (
        -np.inf if np.isnan(excess) else -excess,
        float(np.nan_to_num(figures.score, nan=-np.inf)),
    )
    if best is None or rank > best.rank:
        return Best(state.parameters, state.variables, rank, 0)
    return dataclasses.replace(best, waited=best.waited + 1)
