"""``hgr-jax demo``: scan a real table, and train a network on another one under a constraint."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hgr_jax._optional import require
from hgr_jax.cli.options import ScanOptions
from hgr_jax.cli.outputs import save_picture, show_step, warnings_as_notes
from hgr_jax.cli.scan import report_scan
from hgr_jax.datasets import load_diabetes
from hgr_jax.fairness import KB, FairMLPRegressor, report
from hgr_jax.plotting import plot_predictions

DEGREES = 2
"""Of HGR-KB in the training: of so few patients only low degrees hold on others."""

THRESHOLD, GUARANTEE = 0.5, 0.95

VALIDATION_SHARE = 0.2


def report_demo(settings: ScanOptions, folder: Path) -> None:
    """Scan the wine table, and train on the diabetes table."""
    with jax.enable_x64(True):
        report_scan(wine(), "wine", settings, folder)
    _report_training(folder)


def wine() -> Any:
    """Return the wine table that scikit-learn ships: 13 measurements of 178 wines, and cultivars.

    In another order, as that of the table is by cultivar.
    """
    frame = require("sklearn.datasets").load_wine(as_frame=True).frame
    frame = frame.sample(frac=1, random_state=0, ignore_index=True)
    return frame.assign(cultivar=frame.pop("target").map(dict(enumerate("ABC"))))


def _report_training(folder: Path) -> None:
    """Train without and with a constraint on bmi, and compare both on other patients.

    Predictions depend little on age, the protected column of the data set, even without one.
    """
    data = load_diabetes()
    bmi = require("pandas").Series(data.x[:, data.features.index("bmi")], name="bmi")
    rows = len(data.y)
    order = np.random.default_rng(0).permutation(rows)
    test, train = np.split(order, [round(VALIDATION_SHARE * rows)])
    statistic = KB(DEGREES, DEGREES)
    print(
        f"\nA network that predicts progression in {rows} diabetes patients, before and after"
        f"\n{statistic.title} of its prediction and bmi is bounded by {THRESHOLD} for patients like"
        f" these, from {len(train)} of them\n",
        flush=True,
    )
    models = {
        "before": FairMLPRegressor(penalty=None, random_state=0),
        "after": FairMLPRegressor(
            penalty=statistic, threshold=THRESHOLD, guarantee=GUARANTEE, random_state=0
        ),
    }
    with warnings_as_notes(), show_step("training twice"):
        for model in models.values():
            model.fit(data.x[train], data.y[train], bmi[train])
    found = report(
        models["after"],
        data.x[test],
        data.y[test],
        bmi[test],
        baseline=models["before"],
        statistic=statistic,
    )
    promise = textwrap.fill(str(models["after"].certificate_), 100)
    print(f"{len(test)} other patients\n{found.loc['bmi'].round(3)}\n\n{promise}\n")
    predictions = {name: model.predict(data.x[test]) for name, model in models.items()}
    drawn = save_picture(
        lambda: plot_predictions(bmi[test], predictions, name="bmi", h=DEGREES, k=DEGREES),
        folder / "fairness.png",
    )
    print(drawn)
