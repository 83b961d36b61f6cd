"""Training of networks whose predictions depend only so much on a protected attribute.

`excess`, `Penalty` and `LagrangianDual` are pure parts for a training loop of your own;
`FairTrainer` trains any Flax network with them.  A dependence below a threshold is not fairness:
it says nothing of errors, of harms, or of attributes that were not measured.
"""

from hgr_jax.fairness.checkpoints import CheckpointError
from hgr_jax.fairness.dual import DualState, LagrangianDual
from hgr_jax.fairness.history import History
from hgr_jax.fairness.networks import MLP
from hgr_jax.fairness.penalties import Penalty, PenaltyState, corrected, excess, within
from hgr_jax.fairness.tasks import Task
from hgr_jax.fairness.trainer import FairTrainer, TrainingError

__all__ = [
    "MLP",
    "CheckpointError",
    "DualState",
    "FairTrainer",
    "History",
    "LagrangianDual",
    "Penalty",
    "PenaltyState",
    "Task",
    "TrainingError",
    "corrected",
    "excess",
    "within",
]
