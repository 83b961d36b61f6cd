"""The paper's training tasks: tables, folds, networks and thresholds; and one training of each."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from numpy.typing import NDArray
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold

import hgr_jax
from bench.paper import tables
from hgr_jax.fairness import KB, MLP, SK, FairTrainer, LagrangianDual, Neural, Penalty, didi
from hgr_jax.fairness.data import standardisation

FOLDS = 5
STEPS = 500
CHUNK = 25


class Part(NamedTuple):
    """Inputs, targets and protected attribute of some rows."""

    x: NDArray[np.float32]
    y: NDArray[np.float32]
    z: NDArray[np.float32]


MEASURES = ("score", "HGR-KB", "HGR-SK", "HGR-NN", "DIDI")
"""Figures of a prediction on some rows; DIDI is that of a group that stands for the attribute."""

SURROGATES = {
    "census": "Unemployment",
    "communities": "race",
    "adult": "marital-status=Never-married",
    "diabetes": "sex",
}
"""Columns of two groups, one for each table; of the paper's tables as its authors chose them."""


class Figures(NamedTuple):
    """Of one training: by measure on training and validation rows, and the seconds of its steps.

    "own measure" is the one that was penalised, HGR-KB where none was.
    """

    values: dict[str, tuple[float, float]]
    seconds: float


@dataclasses.dataclass(frozen=True, eq=False)
class Setting:
    """One task of the paper."""

    data: tables.Table
    hidden: tuple[int, ...]
    batch: int | None
    threshold: float

    @property
    def task(self) -> str:
        """The trainer's name of it."""
        return "log_loss" if self.data.task == "classification" else "squared_error"

    @property
    def score_name(self) -> str:
        """Of the score."""
        return "AUC" if self.data.task == "classification" else "R2"

    def rows(self, index: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Training and validation rows of one fold."""
        kind = StratifiedKFold if self.data.task == "classification" else KFold
        splits = kind(FOLDS, shuffle=True, random_state=0).split(self.data.x, self.data.y)
        train, validation = list(splits)[index]
        return train, validation

    def fold(self, index: int) -> tuple[Part, Part]:
        """Both sets of rows of one fold; numeric inputs and the attribute are standardised.

        By the training rows.  The target of a regression is scaled to [0, 1]; inputs of zeros and
        ones are left.
        """
        train, validation = self.rows(index)
        data = self.data
        y = (data.y - data.y.min()) / np.ptp(data.y)
        center, scale = standardisation(data.x[train])
        x = (data.x - center) / scale
        z = (data.z - data.z[train].mean()) / data.z[train].std()  # raw powers defeat maxcorr
        parts = [
            Part(*(values[rows].astype(np.float32) for values in (x, y, z)))
            for rows in (train, validation)
        ]
        return parts[0], parts[1]

    def trainer(self, penalty: Penalty | Sequence[Penalty], **settings: Any) -> FairTrainer:
        """A trainer with the paper's network; another penalty or optimiser may be given."""
        network = MLP(self.data.x.shape[1], self.hidden, rngs=nnx.Rngs(0))
        settings = {"batch_size": self.batch} | settings
        return FairTrainer(network, penalties=penalty, task=self.task, **settings)

    def scores(self, prediction: NDArray[Any], part: Part) -> tuple[float, float]:
        """AUC or R2, and KB of degree 5 with the protected attribute, in float64."""
        score = roc_auc_score if self.data.task == "classification" else r2_score
        with jax.enable_x64(True):
            p, z = (jnp.asarray(v, jnp.float64) for v in (prediction, part.z))
            return float(score(part.y, prediction)), float(hgr_jax.kb(z, p, h=5, k=5))

    def measured(
        self, prediction: NDArray[Any], part: Part, *, neural_steps: int = 1000
    ) -> dict[str, float]:
        """Every one of `MEASURES` of a prediction.

        HGR-NN is that of networks trained afresh on these rows, as the paper's authors do; DIDI
        that of decisions in a classification.
        """
        score, kb = self.scores(prediction, part)
        with jax.enable_x64(True):
            p, z = (jnp.asarray(v, jnp.float64) for v in (prediction, part.z))
            sk = float(hgr_jax.sk(z, p, d=5))
        z, p = jnp.asarray(part.z), jnp.asarray(prediction)
        neural = float(hgr_jax.neural(z, p, key=jax.random.key(0), steps=neural_steps))
        return {
            "score": score,
            "HGR-KB": kb,
            "HGR-SK": sk,
            "HGR-NN": neural,
            "DIDI": self.didi(prediction, part),
        }

    def didi(self, prediction: NDArray[Any], part: Part) -> float:
        """DIDI of the groups that stand for the attribute."""
        column = SURROGATES[self.data.name.split()[0]]
        decided = prediction.round() if self.data.task == "classification" else prediction
        return didi(decided, part.x[:, self.data.features.index(column)])


def settings(chosen: Sequence[str] | None = None, *, quick: bool = False) -> dict[str, Setting]:
    """Census, Communities and Adult with the paper's networks, batches and thresholds."""
    found = {data.name.split()[0]: data for data in tables.load(chosen, quick=quick)}
    known: Mapping[str, Any] = {
        "census": ((32,), 2048, 0.4),
        "communities": ((256, 256), None, 0.3),
        "adult": ((32, 32), 2048, 0.2),
        "diabetes": ((32, 32), None, 0.2),
    }
    return {name: Setting(data, *known[name]) for name, data in found.items()}


def penalties(threshold: float) -> dict[str, Penalty]:
    """What the paper compares."""
    return {
        "none": Penalty(threshold=None),
        "HGR-KB": Penalty(KB(5, 5), threshold),
        "HGR-SK": Penalty(SK(5), threshold),
        "HGR-NN": Penalty(Neural(), threshold),
    }


PAPER_DUAL = LagrangianDual(optax.adam(1e-3), two_sided=False)


def run(
    setting: Setting,
    penalty: Penalty,
    index: int,
    *,
    steps: int = STEPS,
    neural_steps: int = 1000,
    **options: Any,
) -> Figures:
    """Train on one fold; the programs are compiled before the clock starts."""
    train, validation = setting.fold(index)
    setting.trainer(penalty, **options).fit(*train, steps=min(CHUNK, steps), evaluate_every=CHUNK)
    trainer = setting.trainer(penalty, **options)
    start = time.perf_counter()
    trainer.fit(*train, steps=steps, evaluate_every=CHUNK)
    jax.block_until_ready(trainer.state)
    seconds = time.perf_counter() - start
    predictions = [np.asarray(trainer.predict(part.x)) for part in (train, validation)]
    both = list(zip(predictions, (train, validation), strict=True))
    first, second = (setting.measured(p, part, neural_steps=neural_steps) for p, part in both)
    own = [_own(penalty, trainer, p, part) for p, part in both]
    values = {name: (first[name], second[name]) for name in MEASURES}
    return Figures(values | {"own measure": (own[0], own[1])}, seconds)


def _own(penalty: Penalty, trainer: FairTrainer, prediction: Any, part: Part) -> float:
    """The dependence by the measure that was penalised; HGR-KB where none was."""
    assert trainer.state is not None
    kept = jax.tree.map(lambda leaf: leaf[0], trainer.state.penalties[0])
    # In the units of the training, which networks, of all measures, know by heart.
    z = jnp.asarray(trainer.encoders[0].encode(part.z), jnp.float32)
    if isinstance(penalty.statistic, Neural):
        return float(abs(kept.score(z, jnp.asarray(prediction))))
    return float(penalty.statistic.value(kept, z, jnp.asarray(prediction))[0])
