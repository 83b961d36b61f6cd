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
from sklearn.metrics import r2_score
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
    fresh_x, fresh_y, fresh_z = draw(rng, kind, POPULATION)
    estimator = FairMLPRegressor(
        threshold=threshold, guarantee=LEVEL, random_state=seed, **MODELS[model]
    )
    try:
        estimator.fit(x, y, protected=z)
    except NoSolutionFound as error:
        first = error.certificate
        value = corrected(first.value, first.rows, PARAMETERS)
        return {"kb": np.nan, "score": np.nan, "easy": bool(value <= EASY * first.threshold)}
    prediction = estimator.predict(fresh_x)
    # Of an attribute beyond all that were seen, no guarantee speaks.
    seen = (fresh_z >= z.min()) & (fresh_z <= z.max())
    pair = (values[seen].astype(np.float32) for values in (fresh_z, prediction))
    return {"kb": float(hgr_jax.kb(*pair)), "score": r2_score(fresh_y, prediction), "easy": True}


def cells(title: str, runs: pd.DataFrame) -> tuple[list[str], bool]:
    """A line of the table, and whether no more models fail than may."""
    models = runs.dropna()
    failed = float((models["kb"] > models["threshold"]).mean()) if len(models) else 0.0
    margin = 2 * np.sqrt(MOST_FAILURES * (1 - MOST_FAILURES) / max(len(models), 1))
    means = (f"{models[name].mean():.3f}" if len(models) else "" for name in ("kb", "score"))
    shares = (len(models) / count for count in (len(runs), max(runs["easy"].sum(), 1)))
    shown = [title, str(len(runs)), *(f"{share:.0%}" for share in shares), f"{failed:.1%}", *means]
    return shown, failed <= MOST_FAILURES + margin


def guarantees(report: MarkdownReport, quick: bool) -> bool:
    """Failures of guarantees, and how often there is one."""
    every = [*itertools.product(SIZES, MODELS, (0.2, 0.3, 0.4, 0.5))]
    seeds = 2 if quick else 25
    kinds = [*itertools.product(range(seeds), ATTRIBUTES)][: 2 if quick else None]

    def lines() -> Iterator[tuple[list[str], bool]]:
        found = []
        for rows, model, threshold in every[5:6] if quick else every:
            title = f"{rows:,}, {model}, {threshold:g}"
            runs = [
                run(seed, kind, rows, model, threshold)
                for seed, kind in tqdm(kinds, title, leave=False)
            ]
            found.append(pd.DataFrame(runs).assign(threshold=threshold))
            yield cells(title, found[-1])
        together = pd.concat(found)
        total, holds = cells("all", together)
        # A few runs, as in a quick one, are no share.
        enough = len(together.dropna()) >= LEAST_RETURNED * together["easy"].sum()
        yield total, holds and bool(quick or enough)

    report.say(
        f"Models with a guarantee of {LEVEL:.0%}, of {len(ATTRIBUTES)} kinds of attribute by"
        f" {seeds} data sets a line; HGR-KB(5, 5) of the population from {POPULATION:,} fresh rows,"
        " those whose attribute is within the range of the data set."
        " A run is easy where a model was returned, or where the first candidate's value, less its"
        f" bias, is at most {EASY:g} thresholds. {MOST_FAILURES:.0%} may fail, but for two"
        f" standard deviations of chance; of all easy runs {LEAST_RETURNED:.0%} are to have a"
        " model. (The fewer rows and the lower the threshold, the fewer have: 400 rows held"
        " back cannot tell 0.1 from 0.2.)"
    )
    header = ("rows, model, threshold", "runs", "returned", "of easy ones", "fail")
    return report.judged_table((*header, "HGR-KB, mean", "R2, mean"), lines())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; exits with 1 if guarantees fail more often than they say."""
    return run_bench(__doc__, {"guarantee": guarantees, "guarantee attack": attack}, arguments)


if __name__ == "__main__":
    sys.exit(main())
