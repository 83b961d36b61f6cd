"""How much accuracy does independence cost, with each method of the field?

python -m bench.fairness [--quick] [--write] [--only PART ...]

Every method at several thresholds on random splits of real tables (communities, census, adult,
diabetes): the score of the test rows beside what is left between prediction and attribute there.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import hgr_jax
from bench.fairness_contestants import CONTESTANTS, FREE, QUICK, SETTINGS, Task, train
from bench.paper.tables import Table, load
from bench.report import MarkdownReport, Part, run_bench
from hgr_jax.inference.intervals import corrected_on_host

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


class Figures(NamedTuple):
    """Of one model on test rows; and the seconds of its training."""

    score: float
    kb: float
    hgr: float
    dcor: float
    gdp: float
    hsic: float
    dp: float
    seconds: float


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


def figures(prediction: Matrix, test: Task, seconds: float) -> Figures:
    """What test rows say of a model."""
    score = roc_auc_score if test.classes else r2_score
    z, p = (value.astype(np.float32) for value in (test.z, prediction))
    kb = corrected_on_host(float(hgr_jax.kb(z, p)), len(p), PARAMETERS)
    return Figures(
        score=float(score(test.y, prediction)),
        kb=float(kb),
        hgr=float(hgr_jax.hgr(z, p)),
        dcor=float(hgr_jax.distance_correlation(z, p)),
        gdp=parity(test.z, prediction),
        hsic=float(hgr_jax.hsic(*(_spread(value, KERNEL_ROWS) for value in (z, p)))),
        dp=parity_of_decisions(test.z, prediction),
        seconds=seconds,
    )


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
    names: Iterable[str],
    data: Table,
    batch: int | None,
    seeds: int,
    thresholds: tuple[float, ...],
) -> dict[str, dict[float, list[Figures | None]]]:
    """Of each contestant, by threshold, the figures of all seeds; None where there is no model."""
    found: dict[str, dict[float, list[Figures | None]]] = {}
    for name in names:
        own = thresholds[-1:] if name in FREE else thresholds
        if name.startswith("reductions") and data.task != "classification":
            continue
        found[name] = {threshold: [] for threshold in own}
        for threshold in own:
            for seed in tqdm(range(seeds), desc=f"{data.name}, {name}, {threshold}", leave=False):
                first, test = split(data, batch, seed)
                start = time.perf_counter()
                predict = train(name, first, threshold, seed)
                seconds = time.perf_counter() - start
                each = predict and figures(predict(test.x, test.z), test, seconds)
                found[name][threshold].append(each or None)
    return found


def lines(found: Mapping[str, Mapping[float, list[Figures | None]]]) -> Iterator[list[str]]:
    """Rows of a table: means over the seeds of which there is a model."""
    for name, by_threshold in found.items():
        for threshold, runs in by_threshold.items():
            each = np.array([run for run in runs if run is not None])
            if not len(each):
                yield [name, f"{threshold:g}", f"0 of {len(runs)}", *[""] * (len(HEADER) - 3)]
                continue
            score, kb, hgr, *others, _ = each.mean(axis=0)
            kept = "" if name in FREE else f"{np.mean(each[:, 1] <= threshold):.0%}"
            yield [
                name,
                "" if name in FREE else f"{threshold:g}",
                f"{len(each)} of {len(runs)}",
                f"{kb:.3f}",
                f"{hgr:.3f}",
                f"{score:.3f} ± {each[:, 0].std():.3f}",
                kept,
                *(f"{value:.3f}" for value in others),
                f"{np.median(each[:, -1]):.1f} s",
            ]


def of_table(report: MarkdownReport, quick: bool, *, name: str) -> None:
    """Every method, and the settings of one, on splits of a real table."""
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
    report.say("Settings of the training under HGR-KB; the first are the defaults.")
    names = [*SETTINGS][: 1 if quick else None]
    report.table(HEADER, lines(fronts(names, data, batch, seeds, (0.3,))))


PARTS: dict[str, Part] = {
    f"fairness {name}": functools.partial(of_table, name=name) for name in BATCHES
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    return run_bench(__doc__, PARTS, arguments)


if __name__ == "__main__":
    sys.exit(main())
