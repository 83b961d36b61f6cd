"""Methods of the field that `bench.fairness` compares, each with its usual library."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

import hgr_jax
from hgr_jax.fairness import (
    FairMLPClassifier,
    FairMLPRegressor,
    FairPostprocessor,
    NoSolutionFound,
)
from hgr_jax.fairness.data import standardisation

Matrix = NDArray[np.float64]
Predict = Callable[[Matrix, Matrix], Matrix]
"""Of inputs and attribute, a number for each row: a prediction, or a probability."""

SIZE = (32, 32)
"""Layers of all networks."""


class Task(NamedTuple):
    """Rows to train on, and whether they have classes."""

    x: Matrix
    y: Matrix
    z: Matrix
    classes: bool
    batch: int | None


def _prediction(model: Any, x: Matrix) -> Matrix:
    found = model.predict_proba(x)[:, 1] if hasattr(model, "predict_proba") else model.predict(x)
    return np.asarray(found, np.float64)


def network(task: Task, threshold: float, seed: int, **options: Any) -> Predict:
    """A network under a penalty, or none."""
    kind = FairMLPClassifier if task.classes else FairMLPRegressor
    model = kind(
        threshold=threshold,
        hidden_layer_sizes=SIZE,
        batch_size=task.batch,
        random_state=seed,
        **options,
    )
    model.fit(task.x, task.y, protected=task.z)
    return lambda x, z: _prediction(model, x)


def transported(task: Task, threshold: float, seed: int, **options: Any) -> Predict:
    """Gradient boosting, whose predictions are moved."""
    kind = HistGradientBoostingClassifier if task.classes else HistGradientBoostingRegressor
    model = FairPostprocessor(
        kind(random_state=seed), threshold=threshold, random_state=seed, **options
    )
    model.fit(task.x, task.y, protected=task.z)
    if task.classes:
        return lambda x, z: np.asarray(model.predict_proba(x, z)[:, 1])
    return lambda x, z: np.asarray(model.predict(x, z))


def boosting(task: Task, threshold: float, seed: int) -> Predict:
    """Gradient boosting without a constraint."""
    kind = HistGradientBoostingClassifier if task.classes else HistGradientBoostingRegressor
    model = kind(random_state=seed).fit(task.x, task.y)
    return lambda x, z: _prediction(model, x)


def residuals(task: Task, threshold: float, seed: int) -> Predict:
    """Linear regression on what is left of the inputs, less their regression on the attribute."""
    from fairlearn.preprocessing import CorrelationRemover

    model = make_pipeline(
        CorrelationRemover(sensitive_feature_ids=[task.x.shape[1]]),
        LogisticRegression(max_iter=1000) if task.classes else Ridge(),
    )
    model.fit(np.column_stack([task.x, task.z]), task.y)
    return lambda x, z: _prediction(model, np.column_stack([x, z]))


def reductions(task: Task, threshold: float, seed: int) -> Predict | None:
    """Agarwal et al.'s reductions to weighted classifications, of four bins of the attribute.

    Their bound is on the difference of the bins' rates: the threshold stands for it.
    """
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    if not task.classes:
        return None
    edges = np.quantile(task.z, (0.25, 0.5, 0.75))
    center, scale = standardisation(task.x)  # without it, its logistic regressions take minutes
    model = ExponentiatedGradient(
        LogisticRegression(max_iter=1000),
        DemographicParity(difference_bound=threshold / 2),
        max_iter=20,
    )
    scaled = (task.x - center) / scale
    model.fit(scaled, task.y, sensitive_features=np.searchsorted(edges, task.z))
    # The chance with which the random classifier says the second class.
    return lambda x, z: np.asarray(model._pmf_predict((x - center) / scale)[:, 1], np.float64)


FREE = ("none, network", "none, gradient boosting", "linear residuals")
"""Without a threshold."""

CONTESTANTS: dict[str, Callable[[Task, float, int], Predict | None]] = {
    "none, network": functools.partial(network, penalty=None),
    "none, gradient boosting": boosting,
    "HGR-KB": network,
    "HGR penalty": functools.partial(network, penalty="hgr"),
    "HGR-KB, two data sets": functools.partial(network, constraint_fraction=0.25),
    "HGR-KB, guarantee": functools.partial(network, guarantee=0.95),
    "transport": transported,
    "transport, guarantee": functools.partial(transported, guarantee=0.95),
    "HGR-KDE penalty": functools.partial(network, penalty=hgr_jax.kde),
    "HGR-NN penalty": functools.partial(network, penalty="neural"),
    "HSIC penalty": lambda task, threshold, seed: network(task, threshold**2, seed, penalty="hsic"),
    "distance correlation penalty": functools.partial(network, penalty="distance_correlation"),
    "linear residuals": residuals,
    "reductions (fairlearn)": reductions,
}

QUICK = (
    *("none, network", "none, gradient boosting", "HGR-KB", "HGR-KB, guarantee", "transport"),
    *("transport, guarantee", "HSIC penalty", "linear residuals", "reductions (fairlearn)"),
)
"""Contestants of the quick version: one of each way."""

SETTINGS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "1,000 steps": {"steps": 1000},
    "no weight decay": {"alpha": 0.0},
    "weight decay 0.3": {"alpha": 0.3},
    "weight decay 3": {"alpha": 3.0},
    "weight decay 10": {"alpha": 10.0},
    "constraint rows": {"constraint_fraction": 0.25},
    "constraint rows, no weight decay": {"constraint_fraction": 0.25, "alpha": 0.0},
    "constraint rows, weight decay 3": {"constraint_fraction": 0.25, "alpha": 3.0},
    "constraint rows, weight decay 10": {"constraint_fraction": 0.25, "alpha": 10.0},
    "constraint rows, a half": {"constraint_fraction": 0.5},
}
"""Of a network under HGR-KB, of which the defaults are one."""

SLOW = ("HGR-NN penalty", "HSIC penalty", "distance correlation penalty")
"""Of which a step takes many times that of the others: batches of at most `SLOW_BATCH` rows."""

SLOW_BATCH = 256


def train(name: str, task: Task, threshold: float, seed: int) -> Predict | None:
    """The model of a contestant, or of a setting; None where it has none."""
    if name in SLOW:
        task = task._replace(batch=min(SLOW_BATCH, len(task.x)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of solvers that stop early
            if name in SETTINGS:
                return network(task, threshold, seed, **SETTINGS[name])
            return CONTESTANTS[name](task, threshold, seed)
    except NoSolutionFound:
        return None
