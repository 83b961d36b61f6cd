"""Do tests of conditional independence hold their level, and what do they find?

    python -m bench.conditional [--quick] [--write]

Each design draws ``z (n, d)`` and two noises; half of the designs were not looked at while the test
was made.  Slow contestants have the first samples only:

* Fisher's z of partial correlations, and RobustParCorr (tigramite), which makes columns normal;
* GCM, of products of residuals of kernel ridge regressions, and weighted GCM (its ``wgcm.fix``);
  boosted GCM, of cross-fitted residuals of boosted trees;
* KCI and RCIT (causal-learn), GPDC and CMIknn (tigramite), with their defaults, but CMIknn with
  39 shuffles.

Exits with 1 where `independence_test` rejects more than it may.

Sources: Shah & Peters, "The hardness of conditional independence testing and the generalised
covariance measure" (2020); Scheidegger, Hoerrmann & Buehlmann, "The weighted generalised covariance
measure" (2022).
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import stats
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

import hgr_jax
from bench.report import MarkdownReport, Part, run_bench

LEVEL = 0.05

ROWS = {300: 300, 1000: 150}
"""Numbers of rows, and of samples of each design."""

DIMENSIONS = (1, 3, 5)

BOUNDS = {"steps": (0.1, 0.2, 1.0), "determined": (0.0, 0.0, 0.0)}
"""Largest share of rejections of nulls for each number of given columns; 7% for other kinds."""


Data = NDArray[np.float64]
Answer = Callable[[int, int, tuple[int, ...]], float]


Column = NDArray[np.float64]
Sample = tuple[Column, Column, Column]


@dataclasses.dataclass(frozen=True)
class Design:
    """A law of x, y and z.

    Attributes:
      name: what it is.
      kind: of nulls ``"smooth"``, ``"scale"``, ``"discrete"``, ``"binary"``, ``"steps"`` or
        ``"determined"``; of the others ``"alternative"``.
      draw: function ``(rng, rows, dim) -> x, y, z``.
      tuned: whether the test was made with it in view.
    """

    name: str
    kind: str
    draw: Callable[[Generator, int, int], Sample]
    tuned: bool


def _normal(rng: Generator, rows: int, dim: int) -> tuple[Column, Column, Column]:
    return rng.standard_normal((rows, dim)), *rng.standard_normal((2, rows))


def _mean(z: Column) -> Column:
    return z.sum(axis=1) / np.sqrt(z.shape[1])


def _heavy(rng: Generator, rows: int, dim: int) -> tuple[Column, Column, Column]:
    return rng.standard_normal((rows, dim)), *rng.standard_t(4, (2, rows))


def linear(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return _mean(z) + e, _mean(z) + f, z


def curved(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return np.tanh(2 * _mean(z)) + 0.5 * e, _mean(z) ** 2 + 0.5 * f, z


def waves(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return np.sin(2 * z).mean(axis=1) + 0.4 * e, np.cos(2 * z).mean(axis=1) + 0.4 * f, z


def first(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return np.exp(-(z[:, 0] ** 2)) + 0.3 * e, z[:, 0] ** 3 / 3 + f, z


def products(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    both = z[:, 0] * z[:, min(1, d - 1)]
    return both + 0.7 * e, np.tanh(both) + 0.7 * f, z


def skewed(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _heavy(rng, n, d)
    return np.exp(0.5 * _mean(z) + 0.5 * e), (_mean(z) + f) ** 3, z


def uniform(rng: Generator, n: int, d: int) -> Sample:
    z = rng.uniform(-1, 1, (n, d))
    e, f = rng.uniform(-1, 1, (2, n))
    return np.abs(z).mean(axis=1) + 0.5 * e, np.sin(3 * _mean(z)) + 0.5 * f, z


def scale(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return np.exp(0.7 * _mean(z)) * e, np.exp(-0.7 * _mean(z)) * f, z


def scale_and_mean(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return _mean(z) + np.abs(z[:, 0]) * e, _mean(z) ** 2 + (0.3 + np.abs(z[:, -1])) * f, z


def levels(rng: Generator, n: int, d: int) -> Sample:
    z, (e, f) = rng.integers(0, 4, (n, d)).astype(float), rng.standard_normal((2, n))
    return np.cos(2 * z).sum(axis=1) + e, (z == 1).sum(axis=1) + f, z


def levels_and_numbers(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    z[:, 0] = rng.integers(0, 3, n)
    return (z[:, 0] == 1) * z[:, -1] + e, (z[:, 0] == 1) + _mean(z) + f, z


def crossed_levels(rng: Generator, n: int, d: int) -> Sample:
    z, (e, f) = rng.integers(0, 2, (n, d)).astype(float), rng.standard_normal((2, n))
    parity = z.sum(axis=1) % 2
    return parity + e, parity + f, z


def binary_x(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return (_mean(z) + e > 0).astype(float), np.sin(2 * _mean(z)) + 0.5 * f, z


def binary_both(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return (_mean(z) + 0.6 * e > 0.5).astype(float), (_mean(z) ** 2 + 0.6 * f > 1).astype(float), z


def counts(rng: Generator, n: int, d: int) -> Sample:
    z, _, f = _normal(rng, n, d)
    return rng.poisson(np.exp(0.6 * _mean(z))).astype(float), _mean(z) + f, z


def steps(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return (z > 0).mean(axis=1) * 2 + 0.4 * e, (z > 0.3).mean(axis=1) * 2 + 0.4 * f, z


def one_step(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return np.sign(z[:, 0]) + 0.5 * e, np.sign(z[:, 0]) + 0.5 * f, z


def step_of_sum(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return np.sign(_mean(z)) + 0.7 * e, np.sign(_mean(z)) + 0.7 * f, z


def determined(rng: Generator, n: int, d: int) -> Sample:
    z, _, _ = _normal(rng, n, d)
    return np.tanh(z[:, 0]), z[:, 0] ** 3, z


Curve = Callable[[Any], Any]


def related(change: Callable[[Generator, Column, Column], Column], strength: float) -> Any:
    """An alternative: y holds a function of the noise of x."""

    def draw(rng: Generator, n: int, d: int) -> Sample:
        z, e, f = _normal(rng, n, d)
        y = _mean(z) ** 2 + strength * change(rng, e, _mean(z)) + f
        return _mean(z) + e, y, z

    return draw


def common_cause(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    hidden = rng.standard_normal(n)
    return np.tanh(_mean(z)) + e + hidden, np.cos(_mean(z)) + f + hidden, z


def of_scale(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    hidden = np.exp(0.6 * rng.standard_normal(n))
    return _mean(z) + hidden * e, _mean(z) + hidden * f, z


def collider(rng: Generator, n: int, d: int) -> Sample:
    x, y = rng.standard_normal((2, n))
    z = rng.standard_normal((n, d))
    z[:, 0] = np.tanh(x + y) + 0.3 * z[:, 0]
    return x, y, z


def binary_related(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return (_mean(z) + e > 0).astype(float), _mean(z) + 0.6 * e**3 / 3 + f, z


def of_levels(rng: Generator, n: int, d: int) -> Sample:
    z, (e, f) = rng.integers(0, 3, (n, d)).astype(float), rng.standard_normal((2, n))
    return z.sum(axis=1) + e, (z == 1).sum(axis=1) + 0.5 * e**2 + f, z


DESIGNS = [
    Design("linear", "smooth", linear, True),
    Design("curved", "smooth", curved, True),
    Design("waves", "smooth", waves, False),
    Design("first column", "smooth", first, False),
    Design("product", "smooth", products, True),
    Design("skewed, heavy tails", "smooth", skewed, False),
    Design("uniform", "smooth", uniform, False),
    Design("scale", "scale", scale, True),
    Design("scale and mean", "scale", scale_and_mean, False),
    Design("levels", "discrete", levels, True),
    Design("levels and numbers", "discrete", levels_and_numbers, False),
    Design("parity of levels", "discrete", crossed_levels, False),
    Design("binary x", "binary", binary_x, True),
    Design("binary both", "binary", binary_both, False),
    Design("counts", "binary", counts, False),
    Design("steps", "steps", steps, False),
    Design("one step", "steps", one_step, True),
    Design("step of the sum", "steps", step_of_sum, True),
    Design("determined", "determined", determined, True),
    Design("line", "alternative", related(lambda r, e, m: e, 0.4), True),
    Design("square", "alternative", related(lambda r, e, m: e**2, 0.4), True),
    Design("wave", "alternative", related(lambda r, e, m: np.sin(3 * e), 1.0), False),
    Design("line by sign of z", "alternative", related(lambda r, e, m: e * np.sign(m), 0.6), False),
    Design("common cause", "alternative", common_cause, True),
    Design("shared scale", "alternative", of_scale, False),
    Design("collider", "alternative", collider, False),
    Design("binary x, cubic", "alternative", binary_related, False),
    Design("levels, square", "alternative", of_levels, True),
]


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A test: function ``data (n, p) -> (x, y, given) -> p-value``.

    Attributes:
      of_table: the function.
      samples: largest number of samples of a design with up to 300 rows, and with more.
    """

    of_table: Callable[[Data], Answer]
    samples: tuple[int, int] = (1000, 1000)


def _ours(data: Data) -> Answer:
    tests = hgr_jax.ConditionalTests(data)
    return lambda x, y, given: tests(x, y, given).pvalue


def _fisher(data: Data) -> Answer:
    correlation = np.asarray(np.corrcoef(data.T))

    def answer(x: int, y: int, given: tuple[int, ...]) -> float:
        chosen = [x, y, *given]
        inverse = np.linalg.pinv(correlation[np.ix_(chosen, chosen)])
        partial = -inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1])
        z = np.arctanh(np.clip(partial, -1 + 1e-12, 1 - 1e-12))
        return float(2 * stats.norm.sf(abs(z) * np.sqrt(len(data) - len(given) - 3)))

    return answer


def _of_causal_learn(data: Data, name: str) -> Answer:
    test = importlib.import_module("causallearn.utils.cit").CIT(data, name)
    return lambda x, y, given: float(test(x, y, list(given)))


Regression = Callable[[Data, Data], Data]


def _kernel_ridge(z: Data, targets: Data) -> Data:
    """Fitted values by 100 Nystroem features, with the penalty that leave-one-out chooses."""
    features = Nystroem(gamma=0.5 / z.shape[1], n_components=100, random_state=0)
    ridge = RidgeCV(np.logspace(-4, 2, 13), alpha_per_target=True)
    return np.asarray(make_pipeline(StandardScaler(), features, ridge).fit(z, targets).predict(z))


def _boosted(z: Data, targets: Data) -> Data:
    """Values that boosted trees predict of rows that they were not fitted to."""
    trees = HistGradientBoostingRegressor(max_iter=50, max_leaf_nodes=8)
    return np.stack([cross_val_predict(trees, z, column, cv=3) for column in targets.T], axis=1)


def _gcm(data: Data, regression: Regression, weighted: bool = False) -> Answer:
    """The p-value of the largest studentised mean of weighted products of residuals.

    The weights are 1 and, if ``weighted``, the signs of each given column less seven quantiles.
    """

    def answer(x: int, y: int, given: tuple[int, ...]) -> float:
        z, targets = data[:, given], data[:, [x, y]]
        fitted = regression(z, targets) if given else targets.mean(axis=0)
        products = np.prod(targets - fitted, axis=1, keepdims=True)
        if weighted and given:
            cuts = np.quantile(z, np.arange(1, 8) / 8, axis=0)
            signs = np.where(z[:, None] > cuts, 1.0, -1.0).reshape(len(z), -1)
            products = products * np.column_stack([np.ones(len(z)), signs])
        largest = np.abs(np.sqrt(len(z)) * products.mean(axis=0) / products.std(axis=0)).max()
        if products.shape[1] == 1:
            return float(2 * stats.norm.sf(largest))
        law = np.random.default_rng(0).multivariate_normal(
            np.zeros(products.shape[1]), np.corrcoef(products.T), 499, method="eigh"
        )
        return float((1 + np.sum(np.abs(law).max(axis=1) >= largest)) / 500)

    return answer


TIGRAMITE: dict[str, tuple[str, dict[str, Any]]] = {
    "RobustParCorr": ("robust_parcorr", {}),
    "GPDC": ("gpdc", {}),
    "CMIknn": ("cmiknn", {"workers": 1, "sig_samples": 39}),
}
"""Modules and options of tigramite's tests."""


@functools.cache
def _tigramite(name: str) -> Any:
    """A test of tigramite, which keeps its law of the null from one table to the next."""
    of_module, options = TIGRAMITE[name]
    module = importlib.import_module(f"tigramite.independence_tests.{of_module}")
    return getattr(module, name)(**options)


def _of_tigramite(data: Data, name: str) -> Answer:
    def answer(x: int, y: int, given: tuple[int, ...]) -> float:
        z = data[:, given] if given else None
        return float(_tigramite(name).run_test_raw(data[:, [x]], data[:, [y]], z)[1])

    return answer


def contestants() -> dict[str, Contestant]:
    """The tests, ours first."""
    kernel = functools.partial(_gcm, regression=_kernel_ridge)
    weighted = functools.partial(kernel, weighted=True)
    boosted = functools.partial(_gcm, regression=_boosted)
    found = {
        "independence_test": Contestant(_ours),
        "Fisher's z": Contestant(_fisher),
        "GCM": Contestant(kernel, (60, 30)),
        "weighted GCM": Contestant(weighted, (60, 30)),
        "boosted GCM": Contestant(boosted, (15, 5)),
    }
    if importlib.util.find_spec("causallearn"):
        kci, rcit = (functools.partial(_of_causal_learn, name=name) for name in ("kci", "rcit"))
        found["KCI"] = Contestant(kci, (40, 0))
        found["RCIT"] = Contestant(rcit, (100, 50))
    if importlib.util.find_spec("tigramite"):
        for name, samples in {"RobustParCorr": 1000, "GPDC": 5, "CMIknn": 5}.items():
            of_table = functools.partial(_of_tigramite, name=name)
            found[name] = Contestant(of_table, (samples, samples if samples > 10 else 0))
    return found


def rejections(test: Contestant, design: Design, rows: int, dim: int, count: int) -> float:
    """The share of samples of a design that a test rejects."""
    rng = np.random.default_rng([rows, dim, *design.name.encode()])
    hits = 0
    for _ in range(count):
        x, y, z = design.draw(rng, rows, dim)
        answer = test.of_table(np.column_stack([x, y, z]))
        hits += answer(0, 1, tuple(range(2, 2 + dim))) <= LEVEL
    return hits / count


def chosen(quick: bool) -> dict[str, Contestant]:
    """The tests; the first few of them if quick."""
    return dict(list(contestants().items())[: 4 if quick else None])


def size(report: MarkdownReport, quick: bool) -> bool:
    """Rejections of nulls and of alternatives; whether ours rejects nulls no more than it may."""
    holds, tests, lines = True, chosen(quick), list[list[str]]()
    designs = DESIGNS[::6] if quick else DESIGNS
    for rows, samples in {100: 5}.items() if quick else ROWS.items():
        counts = {name: min(samples, t.samples[rows > 300]) for name, t in tests.items()}
        names = [name for name, count in counts.items() if count]
        shares: dict[tuple[str, str], list[float]] = {}
        with warnings.catch_warnings(action="ignore"):  # of peers
            for design in tqdm(designs, desc=f"n = {rows:,}", leave=False):
                for name in names:
                    shares[design.name, name] = [
                        rejections(tests[name], design, rows, dim, counts[name])
                        for dim in DIMENSIONS
                    ]

        found = [d.name for d in designs if d.kind == "alternative"]
        kept_out = [d.name for d in designs if d.name in found and not d.tuned]
        nulls = [d.name for d in designs if d.kind not in ("alternative", *BOUNDS)]
        for title, some in {
            "mean size but of steps and determined": nulls,
            "size, determined": ["determined"],
            "mean power": found,
            "mean power, designs kept out": kept_out or found,
        }.items():
            means = {n: np.mean([shares[d, n] for d in some], axis=0) for n in names}
            digits = 2 + (len(some) > 1)
            cells = {n: " / ".join(f"{s:.{digits}f}" for s in mean) for n, mean in means.items()}
            lines.append([f"{rows:,} rows: {title}", *(cells.get(name, "") for name in tests)])
        samples_of = (f"{counts[name]}" if name in names else "" for name in tests)
        lines.append([f"{rows:,} rows: samples", *samples_of])
        for design in designs:
            if design.kind == "alternative":
                continue
            for share, most in zip(
                shares[design.name, names[0]], BOUNDS.get(design.kind, (0.07,) * 3), strict=True
            ):
                holds &= share <= most + 2 * np.sqrt(most * (1 - most) / counts[names[0]])
    report.say(f"Rejections at {LEVEL:.0%} given 1 / 3 / 5 columns.")
    report.table(("", *tests), lines)
    return bool(holds) or quick


PARTS: dict[str, Part] = {"conditional size": size}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 1 where a null is rejected more than it may be."""
    return run_bench(__doc__, PARTS, arguments)


if __name__ == "__main__":
    sys.exit(main())
