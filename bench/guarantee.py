"""Do models that are returned with a guarantee keep it on new rows?

python -m bench.guarantee [--quick] [--write]
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

import hgr_jax
from bench.attack import attack
from bench.report import MarkdownReport, run_bench
from hgr_jax.fairness import FairMLPRegressor, NoSolutionFound
from hgr_jax.fairness.certificate import Certificate
from hgr_jax.inference.intervals import corrected_on_host

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


class Run(NamedTuple):
    """One training: what is in the population, and whether there was a model far below."""

    population: float | None
    score: float
    easy: bool


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


def run(seed: int, kind: str, rows: int, model: str, threshold: float) -> Run:
    """One training on fresh data, and what the population says of its model."""
    rng = np.random.default_rng([seed, rows, ATTRIBUTES.index(kind)])
    x, y, z = draw(rng, kind, rows)
    fresh_x, fresh_y, fresh_z = draw(rng, kind, POPULATION)
    estimator = FairMLPRegressor(
        threshold=threshold, guarantee=LEVEL, random_state=seed, **MODELS[model]
    )
    try:
        estimator.fit(x, y, protected=z)
    except NoSolutionFound as error:
        return Run(None, np.nan, _is_easy(error.certificate))
    prediction = estimator.predict(fresh_x)
    # Of an attribute beyond all that were seen, no guarantee speaks.
    seen = (fresh_z >= z.min()) & (fresh_z <= z.max())
    pair = (values[seen].astype(np.float32) for values in (fresh_z, prediction))
    value = float(hgr_jax.kb(*pair))
    score = 1 - np.mean((prediction - fresh_y) ** 2) / np.var(fresh_y)
    return Run(value, float(score), True)


def _is_easy(certificate: Certificate) -> bool:
    """Whether the first candidate's value, without its bias, is far below the threshold."""
    value = corrected_on_host(certificate.value, certificate.rows, PARAMETERS)
    return bool(value <= EASY * certificate.threshold)


def guarantees(report: MarkdownReport, quick: bool) -> bool:
    """Failures of guarantees, and how often there is one."""
    cells = [*itertools.product(SIZES[:1] if quick else SIZES, MODELS, (0.2, 0.3, 0.4, 0.5))]
    seeds = 2 if quick else 25
    cells = cells[5:6] if quick else cells
    everything: list[tuple[Run, float]] = []

    def lines() -> Iterator[tuple[list[str], bool | None]]:
        for rows, model, threshold in cells:
            kinds = [*itertools.product(range(seeds), ATTRIBUTES)][: 2 if quick else None]
            title = f"{rows:,}, {model}, {threshold:g}"
            found = [
                run(seed, kind, rows, model, threshold)
                for seed, kind in tqdm(kinds, desc=title, leave=False)
            ]
            everything.extend((each, threshold) for each in found)
            yield _line(title, [(each, threshold) for each in found])
        total, holds = _line("all", everything)
        returned = sum(each.population is not None for each, _ in everything)
        easy = sum(each.easy for each, _ in everything)
        # Four runs, as in a quick one, are no share.
        yield total, holds and (quick or returned >= LEAST_RETURNED * easy)

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
    return report.judged_table(
        (
            "rows, model, threshold",
            "runs",
            "returned",
            "of easy ones",
            "fail",
            "HGR-KB, mean",
            "R2, mean",
        ),
        lines(),
    )


def _line(title: str, found: list[tuple[Run, float]]) -> tuple[list[str], bool | None]:
    returned = [(run.population, limit) for run, limit in found if run.population is not None]
    values, limits = np.array(returned).reshape(-1, 2).T
    easy = sum(run.easy for run, _ in found)
    failed = float(np.mean(values > limits)) if len(values) else 0.0
    margin = 2 * np.sqrt(MOST_FAILURES * (1 - MOST_FAILURES) / max(len(values), 1))
    cells = [
        title,
        str(len(found)),
        f"{len(values) / len(found):.0%}",
        f"{len(values) / max(easy, 1):.0%}",
        f"{failed:.1%}",
        f"{values.mean():.3f}" if len(values) else "",
        f"{np.nanmean([run.score for run, _ in found]):.3f}" if len(values) else "",
    ]
    return cells, failed <= MOST_FAILURES + margin


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; exits with 1 if guarantees fail more often than they say."""
    return run_bench(__doc__, {"guarantee": guarantees, "guarantee attack": attack}, arguments)


if __name__ == "__main__":
    sys.exit(main())
