"""Training of networks whose predictions depend only so much on a protected attribute.

`excess`, `Penalty` and `LagrangianDual` are pure parts for a training loop of your own;
`FairTrainer` trains any Flax network with them.  A dependence below a threshold is not fairness:
it says nothing of errors, of harms, or of attributes that were not measured.
"""

import importlib
from typing import TYPE_CHECKING, Any

from hgr_jax.fairness.certificate import Candidate, Certificate, NoSolutionFound, certify
from hgr_jax.fairness.dual import DualState, LagrangianDual
from hgr_jax.fairness.evaluation import FairnessReport, didi, report
from hgr_jax.fairness.groups import within
from hgr_jax.fairness.guarantee import fit_certified
from hgr_jax.fairness.history import History
from hgr_jax.fairness.loggers import TensorBoardLogger, WandbLogger
from hgr_jax.fairness.penalties import Penalty, PenaltyState, excess
from hgr_jax.fairness.statistic import Statistic
from hgr_jax.fairness.statistics import KB, SK, Function, Neural, Total
from hgr_jax.fairness.steps import TrainingError
from hgr_jax.fairness.storage import CheckpointError
from hgr_jax.fairness.tasks import MLP, Task
from hgr_jax.fairness.trainer import FairTrainer
from hgr_jax.inference.intervals import corrected

if TYPE_CHECKING:
    from hgr_jax.fairness.estimators import FairMLPClassifier, FairMLPRegressor
    from hgr_jax.fairness.postprocessor import FairPostprocessor
    from hgr_jax.fairness.scorer import FairnessScorer

__all__ = [
    "KB",
    "MLP",
    "SK",
    "Candidate",
    "Certificate",
    "CheckpointError",
    "DualState",
    "FairMLPClassifier",
    "FairMLPRegressor",
    "FairPostprocessor",
    "FairTrainer",
    "FairnessReport",
    "FairnessScorer",
    "Function",
    "History",
    "LagrangianDual",
    "Neural",
    "NoSolutionFound",
    "Penalty",
    "PenaltyState",
    "Statistic",
    "Task",
    "TensorBoardLogger",
    "Total",
    "TrainingError",
    "WandbLogger",
    "certify",
    "corrected",
    "didi",
    "excess",
    "fit_certified",
    "report",
    "within",
]


_NEED_SCIKIT_LEARN = {
    "FairMLPClassifier": "estimators",
    "FairMLPRegressor": "estimators",
    "FairPostprocessor": "postprocessor",
    "FairnessScorer": "scorer",
}
"""Names by their modules."""


def __getattr__(name: str) -> Any:
    if name in _NEED_SCIKIT_LEARN:
        module = importlib.import_module(f"hgr_jax.fairness.{_NEED_SCIKIT_LEARN[name]}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
