"""Training of networks whose predictions depend only so much on a protected attribute.

`FairMLPRegressor` and `FairMLPClassifier` are for scikit-learn, `FairPostprocessor` is for a model
of any kind, `FairTrainer` for any Flax network; `Penalty` and `LagrangianDual` are pure parts for a
training loop of your own.  A dependence below a threshold is not fairness: it says nothing of
errors, of harms, or of attributes that were not measured.

Modules, each of which imports from those above it:

- `statistics`: dependences; `penalties`: their thresholds, and the multipliers that weigh them
- `data`: find attributes, split and encode rows
- `networks`: networks, tasks, the optimiser; `history`: the record of a training
- `training`: the compiled steps and `FairTrainer`
- `bounds`: upper limits of a dependence in the population; `certificate`: the statements they
  make, and the search for a model that has one
- `report`: score and dependence of a model
- `estimators`, `postprocessor`: for scikit-learn (the extra ``cli``)
"""

import importlib
from typing import TYPE_CHECKING, Any

from hgr_jax.fairness.certificate import Certificate, NoSolutionFound, certify
from hgr_jax.fairness.history import History
from hgr_jax.fairness.networks import MLP, Task
from hgr_jax.fairness.penalties import DualState, LagrangianDual, Penalty, excess
from hgr_jax.fairness.report import didi, report
from hgr_jax.fairness.statistics import HGR, KB, SK, DemographicParity, Function, Neural, Statistic
from hgr_jax.fairness.training import FairTrainer, TrainingError

if TYPE_CHECKING:
    from hgr_jax.fairness.estimators import FairMLPClassifier, FairMLPRegressor, FairnessScorer
    from hgr_jax.fairness.postprocessor import FairPostprocessor

__all__ = [
    "HGR",
    "KB",
    "MLP",
    "SK",
    "Certificate",
    "DemographicParity",
    "DualState",
    "FairMLPClassifier",
    "FairMLPRegressor",
    "FairPostprocessor",
    "FairTrainer",
    "FairnessScorer",
    "Function",
    "History",
    "LagrangianDual",
    "Neural",
    "NoSolutionFound",
    "Penalty",
    "Statistic",
    "Task",
    "TrainingError",
    "certify",
    "didi",
    "excess",
    "report",
]


def __getattr__(name: str) -> Any:
    # These load scikit-learn.
    modules = {"FairPostprocessor": "postprocessor"}
    modules |= dict.fromkeys(
        ("FairMLPClassifier", "FairMLPRegressor", "FairnessScorer"), "estimators"
    )
    if name in modules:
        return getattr(importlib.import_module(f"{__name__}.{modules[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
