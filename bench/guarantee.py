"""Do models that are returned with a guarantee keep it on new rows?

python -m bench.guarantee [--quick] [--write]
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

import hgr_jax
from bench.attack import attack
from bench.report import MarkdownReport, run_bench
from hgr_jax.fairness import FairMLPRegressor, NoSolutionFound
from hgr_jax.inference import corrected

Matrix = NDArray[np.float64]

LEVEL = 0.95

MOST_FAILURES = 0.06
"""Of the models that are returned, in the long run."""

LEAST_RETURNED = 0.8
"""Of all easy runs."""

EASY = 0.8

POPULATION = 50_000
"""Fresh rows that stand for the population."""

SIZES = (1000, 4000)

MODELS: dict[str, dict[str, Any]] = {
    "linear": {"hidden_layer_sizes": (), "learning_rate": 1e-2},
    "network": {"hidden_layer_sizes": (32, 32)},
}

ATTRIBUTES = ("normal", "uniform", "levels")

PARAMETERS = 5 + 5 - 1
"""Of the upward bias of HGR-KB(5, 5)."""


def draw(rng: np.random.Generator, kind: str, rows: int) -> tuple[Matrix, Matrix, Matrix]:
    """Inputs, a target and an attribute: the target depends on it directly and through inputs."""
    draws = {
        "normal": lambda: rng.normal(size=rows),
        "uniform": lambda: rng.uniform(-1.7, 1.7, rows),
        "levels": lambda: rng.integers(-2, 3, rows) / 1.4,
    }
    z = draws[kind]()
    noise = rng.normal(size=(rows, 6))
    x = noise.copy()
    x[:, 0] += z
    x[:, 1] += z**2 - 1
    x[:, 2] += np.sin(2 * z)
    y = noise[:, :4].sum(axis=1) + z + 0.5 * z**2 + noise[:, 4] * z + 0.7 * noise[:, 5]
    return x, y, z


def run(seed: int, kind: str, rows: int, model: str, threshold: float) -> dict[str, float]:
    """One training on fresh data: what the population says of its model, and whether it is easy."""
    rng = np.random.default_rng([seed, rows, ATTRIBUTES.index(kind)])
    x, y, z = draw(rng, kind, rows)
    fresh_x, _, fresh_z = draw(rng, kind, POPULATION)
    estimator = FairMLPRegressor(
        threshold=threshold, guarantee=LEVEL, random_state=seed, **MODELS[model]
    )
    try:
        estimator.fit(x, y, protected=z)
    except NoSolutionFound as error:
        first = error.certificate
        value = corrected(first.value, first.rows, PARAMETERS)
        return {"kb": np.nan, "easy": bool(value <= EASY * first.threshold)}
    prediction = estimator.predict(fresh_x)
    # Of an attribute beyond all that were seen, no guarantee speaks.
    seen = (fresh_z >= z.min()) & (fresh_z <= z.max())
    pair = (values[seen].astype(np.float32) for values in (fresh_z, prediction))
    return {"kb": float(hgr_jax.kb(*pair)), "easy": True}


def cell(runs: pd.DataFrame) -> tuple[str, bool]:
    """Of some runs the share that fails and the share of models, and whether so many may."""
    models = runs.dropna()
    failed = float((models["kb"] > models["threshold"]).mean()) if len(models) else 0.0
    margin = 2 * np.sqrt(MOST_FAILURES * (1 - MOST_FAILURES) / max(len(models), 1))
    return f"{failed:.1%} of {len(models) / len(runs):.0%}", failed <= MOST_FAILURES + margin


def guarantees(report: MarkdownReport, quick: bool) -> bool:
    """Failures of guarantees, and how often there is one."""
    seeds, thresholds = (2, (0.3,)) if quick else (25, (0.2, 0.3, 0.4, 0.5))
    kinds = [*itertools.product(range(seeds), ATTRIBUTES)][: 2 if quick else None]
    found = []

    def lines() -> Iterator[tuple[list[str], bool]]:
        for rows, model in [(1000, "network")] if quick else itertools.product(SIZES, MODELS):
            shown = []
            for threshold in thresholds:
                bar = tqdm(kinds, f"{rows:,}, {model}, {threshold:g}", leave=False)
                runs = [run(seed, kind, rows, model, threshold) for seed, kind in bar]
                found.append(pd.DataFrame(runs).assign(threshold=threshold))
                shown.append(cell(found[-1]))
            texts, hold = zip(*shown, strict=True)
            yield [f"{rows:,}, {model}", *texts], all(hold)

    report.say(
        f"Models with a guarantee of {LEVEL:.0%}: the share of those returned whose HGR-KB(5, 5) is"
        f" above the threshold in {POPULATION:,} fresh rows, of the share of runs in which one is"
        f" returned; {len(kinds)} runs a cell, of {len(ATTRIBUTES)} kinds of attribute. A run is"
        f" easy where a model is returned, or the first one, less its bias, is at most {EASY:g}"
        f" thresholds. {MOST_FAILURES:.0%} may fail, but for two standard deviations of chance; of"
        f" all easy runs {LEAST_RETURNED:.0%} are to have a model."
    )
    header = ("rows, model", *(f"threshold {threshold:g}" for threshold in thresholds))
    holds = report.judged_table(header, lines())
    together = pd.concat(found)
    text, fine = cell(together)
    returned = len(together.dropna()) / max(together["easy"].sum(), 1)
    report.say(f"All {len(together)} runs: {text}; {returned:.0%} of the easy ones have a model.")
    # A few runs, as in a quick one, are no share.
    return holds and fine and bool(quick or returned >= LEAST_RETURNED)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; exits with 1 if guarantees fail more often than they say."""
    return run_bench(__doc__, {"guarantee": guarantees, "guarantee attack": attack}, arguments)


if __name__ == "__main__":
    sys.exit(main())
