"""How much accuracy does independence cost, with each method of the field?

python -m bench.fairness [--quick] [--write] [--only PART ...]

Every method at several thresholds on random splits of real tables (communities, census, adult,
diabetes): the score of the test rows beside what is left between prediction and attribute there.
"""

from __future__ import annotations

import functools
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from tqdm import tqdm

import hgr_jax
from bench.paper.tables import Table, load
from bench.report import MarkdownReport, Part, run_bench
from hgr_jax.fairness import (
    FairMLPClassifier,
    FairMLPRegressor,
    FairPostprocessor,
    NoSolutionFound,
)
from hgr_jax.fairness.data import standardisation
from hgr_jax.inference import corrected

Matrix = NDArray[np.float64]

THRESHOLDS = (0.15, 0.3, 0.5)

SEEDS = 10

PARAMETERS = 9
"""By which HGR-KB(5, 5) of independent variables is above 0."""

BATCHES = {"communities": None, "census": 2048, "adult": 2048, "diabetes": None}
"""Tables, and rows of a batch of each."""

HEADER = (
    *("", "threshold", "models", "HGR-KB", "HGR", "score", "kept"),
    *("dCor", "GDP", "HSIC", "DP", "training"),
)

GRID = 512
"""Rows at which the mean prediction given the attribute is estimated."""

KERNEL_ROWS = 2000
"""Largest number of test rows of which HSIC is computed."""


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

SLOW = ("HGR-NN penalty", "HSIC penalty", "distance correlation penalty")
"""Of which a step takes many times that of the others: batches of at most `SLOW_BATCH` rows."""

SLOW_BATCH = 256


def train(name: str, task: Task, threshold: float, seed: int) -> Predict | None:
    """The model of a contestant; None where it has none."""
    if name in SLOW:
        task = task._replace(batch=min(SLOW_BATCH, len(task.x)))
    try:
        with warnings.catch_warnings(action="ignore"):  # of solvers that stop early
            return CONTESTANTS[name](task, threshold, seed)
    except NoSolutionFound:
        return None


def data_set(name: str) -> tuple[Table, int | None]:
    """A table, and rows of a batch."""
    return load([name])[0], BATCHES[name]


def split(data: Table, batch: int | None, seed: int) -> tuple[Task, Task]:
    """Four fifths of the rows to train on, and the others; the target is scaled to [0, 1]."""
    classes = data.task == "classification"
    y = (data.y - data.y.min()) / np.ptp(data.y)
    rows = train_test_split(
        np.arange(len(y)), test_size=0.2, random_state=seed, stratify=y if classes else None
    )
    x, z = np.asarray(data.x, np.float64), np.asarray(data.z, np.float64)
    first, second = (Task(x[i], y[i], z[i], classes, batch) for i in rows)
    return first, second


def figures(prediction: Matrix, test: Task) -> dict[str, float]:
    """What test rows say of a model."""
    score = roc_auc_score if test.classes else r2_score
    z, p = (value.astype(np.float32) for value in (test.z, prediction))
    kb = float(corrected(hgr_jax.kb(z, p), len(p), PARAMETERS))
    return {
        "score": float(score(test.y, prediction)),
        "HGR-KB": float(kb),
        "HGR": float(hgr_jax.hgr(z, p)),
        "dCor": float(hgr_jax.distance_correlation(z, p)),
        "GDP": parity(test.z, prediction),
        "HSIC": float(hgr_jax.hsic(*(_spread(value, KERNEL_ROWS) for value in (z, p)))),
        "DP": parity_of_decisions(test.z, prediction),
    }


def parity(z: Matrix, prediction: Matrix) -> float:
    """Generalised demographic parity: mean |E[prediction | z] - E[prediction]|, in its own unit.

    By a Gaussian kernel with Silverman's bandwidth, at `GRID` of the rows.  Source: Jiang et al.,
    "Generalized demographic parity for group fairness" (2022).
    """
    width = 1.06 * z.std() * len(z) ** -0.2
    weight = np.exp(-0.5 * ((_spread(z, GRID)[:, None] - z) / width) ** 2)
    mean = weight @ prediction / weight.sum(axis=1)
    return float(np.mean(np.abs(mean - prediction.mean())))


def parity_of_decisions(z: Matrix, prediction: Matrix) -> float:
    """Demographic parity: the largest difference of the shares of groups above the median.

    Groups are the quarters of the rows by their attribute, of a binary one its two values.  Source:
    `demographic_parity_difference` of fairlearn (Weerts et al., "Fairlearn: assessing and improving
    fairness of AI systems", 2023), of the decision for the larger half of the predictions.
    """
    groups = np.searchsorted(np.unique(np.quantile(z, (0.25, 0.5, 0.75))), z)
    chosen = prediction > np.median(prediction)
    return float(np.ptp([chosen[groups == group].mean() for group in np.unique(groups)]))


def _spread(values: Any, count: int) -> Any:
    """Return at most ``count`` values, evenly spaced."""
    return values[np.linspace(0, len(values) - 1, min(count, len(values))).astype(int)]


def fronts(
    names: Iterable[str], data: Table, batch: int | None, seeds: int, thresholds: Sequence[float]
) -> pd.DataFrame:
    """Of each contestant, threshold and seed the figures of test rows; NaN where no model is."""
    found = []
    for name in names:
        if name.startswith("reductions") and data.task != "classification":
            continue
        for threshold in thresholds[-1:] if name in FREE else thresholds:
            for seed in tqdm(range(seeds), desc=f"{data.name}, {name}, {threshold}", leave=False):
                first, test = split(data, batch, seed)
                start = time.perf_counter()
                predict = train(name, first, threshold, seed)
                row = {"name": name, "threshold": threshold, "seconds": time.perf_counter() - start}
                found.append(row | (figures(predict(test.x, test.z), test) if predict else {}))
    return pd.DataFrame(found)


def lines(found: pd.DataFrame) -> Iterator[list[str]]:
    """Rows of a table: means over the seeds of which there is a model."""
    for (name, threshold), runs in found.groupby(["name", "threshold"], sort=False):
        each = runs.dropna()
        count = f"{len(each)} of {len(runs)}"
        if each.empty:
            yield [name, f"{threshold:g}", count, *[""] * (len(HEADER) - 3)]
            continue
        kept = "" if name in FREE else f"{(each['HGR-KB'] <= threshold).mean():.0%}"
        yield [
            name,
            "" if name in FREE else f"{threshold:g}",
            count,
            *(f"{each[judge].mean():.3f}" for judge in ("HGR-KB", "HGR")),
            f"{each['score'].mean():.3f} ± {each['score'].std(ddof=0):.3f}",
            kept,
            *(f"{each[judge].mean():.3f}" for judge in ("dCor", "GDP", "HSIC", "DP")),
            f"{each['seconds'].median():.1f} s",
        ]


def of_table(report: MarkdownReport, quick: bool, *, name: str) -> None:
    """Every method on splits of a real table."""
    if quick and name != "diabetes":
        report.say("Left out of the quick version.")
        return
    data, batch = data_set(name)
    seeds, thresholds = (1, THRESHOLDS[1:2]) if quick else (SEEDS, THRESHOLDS)
    report.say(
        f"{data.name}: {len(data.y):,} rows, the attribute is {data.protected}; means over"
        f" {seeds} random splits."
    )
    found = fronts(QUICK if quick else CONTESTANTS, data, batch, seeds, thresholds)
    report.table(HEADER, lines(found))


PARTS: dict[str, Part] = {
    f"fairness {name}": functools.partial(of_table, name=name) for name in BATCHES
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    return run_bench(__doc__, PARTS, arguments)


if __name__ == "__main__":
    sys.exit(main())
