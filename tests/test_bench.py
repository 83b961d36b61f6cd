"""Smoke runs of the benchmarks, and the promises on memory."""

from __future__ import annotations

import functools
import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from packaging.requirements import Requirement
from scipy import stats
from threadpoolctl import threadpool_limits

import hgr_jax
from bench import (
    accuracy,
    calibration,
    conditional,
    coverage,
    fairness,
    figures,
    first_use,
    gpu,
    guarantee,
    measures,
    pair,
    peers,
    power,
    rank_law,
    reference,
    scale,
    scan,
    training,
    truth,
)
from bench.data import DISTRIBUTIONS, RELATIONS, data_folder, relation
from bench.laws import TUNED, laws, oscillating_laws
from bench.report import RESULTS, MarkdownReport
from hgr_jax.fairness import FairMLPRegressor
from hgr_jax.inference.rank_law import LEVELS, log_probability


def test_every_figure_of_accuracy_is_within_its_bound(capsys: pytest.CaptureFixture[str]) -> None:
    status = accuracy.main(["--quick"])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if "e" in line]
    figures = {
        row[0].removeprefix("| "): row[-1].removesuffix(" |") for row in rows if len(row) > 3
    }
    assert [name for name, verdict in figures.items() if verdict == "EXCEEDED"] == []
    assert status == 0
    assert sum(name.startswith("value, ") for name in figures) == 2 * (len(DISTRIBUTIONS) + 2)
    assert sum(name.startswith("derivative of ") for name in figures) == 3
    for name in ("degree 1 is |Pearson|", "affine maps", "order of rows"):
        assert figures[name] == "yes"


def test_an_exceeded_bound_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = accuracy.Figure("good", 1.0, 1.0), accuracy.Figure("bad", float("nan"), 1.0)
    for section in ("invariance_figures", "derivative_figures"):
        monkeypatch.setattr(accuracy, section, lambda *_: [])
    monkeypatch.setattr(accuracy, "value_figures", lambda quick: [good])
    assert accuracy.main([]) == 0
    monkeypatch.setattr(accuracy, "value_figures", lambda quick: [good, bad])
    assert accuracy.main([]) == 1
    assert "| bad | nan | 1e+00 | EXCEEDED |" in capsys.readouterr().out


NEED_TABLES = {training}
QUICK: list[tuple[Any, list[str]]] = [
    (scale, ["| a sample | 6,553 | 20,000 |", "| all rows | 20,000 | 20,000 |", "| 60 | 1,770 |"]),
    (pair, ["Time of one estimate", "raw units"]),
    (training, [f"| {name} | " for name in ("none", "HGR-KB", "HGR-SK", "torch, double kernel")]),
    (scan, ["| bare matrix product in JAX |", "| `scan` |", scan.NUMPY]),
    (coverage, ["| discrete |"]),
    (guarantee, ["| 1,000, network, 0.3 | ", "| many candidates |"]),
    (fairness, [f"| {n} | " for n in fairness.QUICK if "fairlearn" not in n]),
    (
        truth,
        [
            "| oracle | 0.",
            "| hgr | 0.",
            "| maxcorr, double kernel, 5 | 0.",
            "| kept out (",
            "| independence | 0.",
            "| kept out, lowest |",
            "| 80 half waves | 0.839 |  | ",
        ],
    ),
    (power, ["| linear | 1.00 |", "mean of dependent ones", "| Pearson | IDS | MGC |"]),
    (conditional, ["| determined |  | 0.00 / 0.00 / 0.00 |"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bench", "shown"), QUICK, ids=lambda value: getattr(value, "__name__", "")
)
def test_quick_runs(
    bench: Any,
    shown: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if bench in NEED_TABLES and data_folder() is None:
        pytest.skip("the real tables are neither in ../shared/data nor in HGR_JAX_DATA")
    if bench is training:
        pytest.importorskip("torch", reason="the peer's trainings need torch")
    if bench is power:
        pytest.importorskip("hyppo", reason="the simulations are hyppo's")
    few_steps = functools.partial(FairMLPRegressor, steps=100)
    monkeypatch.setattr(fairness, "FairMLPRegressor", few_steps)
    monkeypatch.setattr(scan, "others", lambda *_, **__: None)  # packages that take minutes
    with threadpool_limits(1):  # threads of OpenMP wait for each other on a busy machine
        assert not bench.main(["--quick"])
    printed = capsys.readouterr().out
    assert [text for text in shown if text not in printed] == []
    assert "| no |" not in printed
    assert "nan" not in printed


@pytest.mark.slow
def test_gpu_quick_on_the_host(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")  # as it was, after the test
    assert gpu.main(["--quick", "--device", "cpu"]) == 0
    assert "| HGR-KB | 200 |" in capsys.readouterr().out
    assert jax.config.values["jax_platforms"] == "cpu"


@pytest.mark.slow
def test_first_use_quick(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(first_use.BOUNDS, "numbers", 300.0)  # of a busy machine
    assert first_use.main(["--quick"]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "| numbers |" in line]
    assert row.endswith("| 300 s | yes |")
    monkeypatch.setitem(first_use.BOUNDS, "numbers", 0.0)
    cost = first_use.Cost(1.0, 1.0, 1.0)
    monkeypatch.setattr(first_use, "rows_of", lambda *_, others: [("hgr-jax scan", cost)])
    monkeypatch.setattr(first_use, "STARTS", {})
    assert first_use.main(["--quick"]) == 1


def test_plain_numpy_agrees_with_the_scan() -> None:
    x = np.random.default_rng(0).standard_normal((1000, 10))
    found = hgr_jax.scan(x.astype(np.float32), h=5, k=5, test=None)
    first, second = found.pairs.T
    np.testing.assert_allclose(peers.numpy_scan(x), found.correlation[first, second], atol=1e-6)


def test_generalised_demographic_parity() -> None:
    """Of a mean that is the attribute, and of none."""
    z = stats.norm.ppf((np.arange(2000) + 0.5) / 2000)
    # A kernel of width w shrinks the mean at z to z / (1 + w^2).
    width = 1.06 * z.std() * 2000**-0.2
    expected = math.sqrt(2 / math.pi) / (1 + width**2)
    assert fairness.parity(z, 3 + z) == pytest.approx(expected, rel=0.02)
    assert fairness.parity(z, np.full(2000, 7.0)) == pytest.approx(0, abs=1e-12)


def test_demographic_parity() -> None:
    """Of a binary attribute as it is defined, of numbers as fairlearn has it for their quarters."""
    metrics = pytest.importorskip("fairlearn.metrics", reason="the reference is fairlearn's")
    rng = np.random.default_rng(0)
    z, noise = rng.normal(size=(2, 400))
    ones, decisions = (z > 1).astype(float), (z + noise > np.median(z + noise)).astype(int)
    expected = abs(decisions[ones == 1].mean() - decisions[ones == 0].mean())
    assert fairness.parity_of_decisions(ones, z + noise) == pytest.approx(expected, abs=1e-12)
    quarters = np.argsort(np.argsort(z)) // 100
    expected = metrics.demographic_parity_difference(
        decisions, decisions, sensitive_features=quarters
    )
    assert fairness.parity_of_decisions(z, z + noise) == pytest.approx(expected, abs=1e-12)
    assert fairness.parity_of_decisions(z, np.full(400, 7.0)) == 0


def test_gains_are_above_the_line_between_models(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        ["none, network", "0.500 ± 0.1", "0.800"],
        ["HGR-KB", "0.100 ± 0.1", "0.200"],
        ["HGR-KB", "0.300 ± 0.1", "0.400"],
        ["HSIC penalty", "0.250 ± 0.1", "0.300"],
        ["HSIC penalty", "0.450 ± 0.1", "0.600"],
        ["transport", "", ""],
        ["linear residuals", "0.900 ± 0.1", "0.100"],  # where HGR-KB has no model
    ]
    monkeypatch.setattr(figures, "tables", lambda name: iter([(["", "score", "dCor"], rows)]))
    assert figures.gains_over_kb("census", "dCor") == {"HSIC": pytest.approx(0.05)}
    monkeypatch.setattr(figures, "JUDGES", ("dCor",))
    monkeypatch.setattr(figures, "FAIRNESS", ("census",))
    assert figures.ahead().splitlines()[-1] == "| dCor | HSIC 0.050 |"


def test_coverage_knows_the_population() -> None:
    assert coverage.population("normal", 0.3, 5) == pytest.approx(0.3, abs=1e-9)
    closed_form = (np.exp(0.6) - 1) / (math.e - 1)
    assert coverage.population("lognormal", 0.6, 1) == pytest.approx(closed_form, abs=1e-9)
    assert coverage.population("tie", 0.3, 5) == pytest.approx(0.09, abs=1e-9)


def test_oscillating_laws_are_as_dependent_as_one_period() -> None:
    every = oscillating_laws()
    assert [law.tuned for law in every] == [place % 2 == 0 for place in range(len(every))]
    names = [law.name for law in (*laws(), *every)]
    assert set(TUNED) <= set(names)
    assert len(set(names)) == len(names)
    found = {law.name: law.hgr for law in every}
    of_one_period = next(law.hgr for law in laws() if law.name == "sine, 2 periods")
    for name in ("3 half waves", "28 half waves", "80 half waves", "season"):
        assert found[name] == pytest.approx(of_one_period, abs=2e-4)
    assert found["season"] == pytest.approx(0.839, abs=5e-4)
    assert found["sawtooth of 8"] == pytest.approx(0.899, abs=5e-4)
    rng = np.random.default_rng(0)
    for law in every:
        f, g = law.optimal(*law.sample(rng, 40_000))
        assert np.corrcoef(f, g)[0, 1] == pytest.approx(law.hgr, abs=0.02)


@pytest.mark.slow
def test_rank_law_quick(capsys: pytest.CaptureFixture[str]) -> None:
    assert rank_law.main(["--quick"]) == 0
    (by_the_law, by_splitting), *_ = rank_law.tail(60, least=0.5)
    assert by_the_law == pytest.approx(by_splitting, rel=0.5)
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| 50 |")]
    ratios = [float(cell) for cell in row.strip("| ").split(" | ")[1:]]
    law = np.exp(log_probability(np.log(LEVELS), 50)) / LEVELS
    np.testing.assert_allclose(ratios[:5], law[:5], rtol=0.5)


def test_power_knows_the_interdependence_score() -> None:
    rng = np.random.default_rng(0)
    x = 5 + 3 * rng.standard_normal(80)
    y = np.cos(x) + 0.5 * rng.standard_normal(80)
    columns: list[list[list[float]]] = [[], []]
    for column, values in zip(columns, (stats.zscore(x), stats.zscore(y)), strict=True):
        for i in range(6):
            column.append([stats.norm.pdf(v) * v**i / math.gamma(i + 1) ** 0.5 for v in values])
    expected = max(abs(stats.pearsonr(f, g)[0]) for f in columns[0] for g in columns[1])
    assert power.interdependence(x, y) == pytest.approx(expected, abs=1e-12)
    # Of two equally frequent values only the odd features vary.
    coin = np.tile([0.0, 1.0], 40)
    assert power.interdependence(coin, coin) == pytest.approx(1, abs=1e-12)
    assert power.interdependence(coin, np.repeat([0.0, 1.0], 40)) == pytest.approx(0, abs=1e-12)


def test_the_table_of_ranks_is_smooth_for_many_rows() -> None:
    table = np.loadtxt(rank_law.TABLE, delimiter=",", skiprows=1)
    rows, shares = table[:, 0], table[:, 1:]
    np.testing.assert_allclose(rank_law.smoothed(rows, shares), shares, rtol=2e-3)
    ratios = shares / rank_law.LEVELS
    assert (np.diff(ratios[:, rank_law.LEVELS <= 1e-4], axis=0) < 0).all()
    noisy = shares * np.exp(0.1 * np.random.default_rng(0).standard_normal(shares.shape))
    again = rank_law.smoothed(rows, noisy)
    np.testing.assert_array_equal(again[:5], noisy[:5])
    assert (again[5:, -5:] != noisy[5:, -5:]).all()


@pytest.mark.slow
def test_calibration_quick(capsys: pytest.CaptureFixture[str]) -> None:
    assert calibration.main(["--quick"]) == 0
    printed = capsys.readouterr().out
    rows = [line.split(" | ") for line in printed.splitlines() if " | 300 | " in line]
    pairs = ["normal, geometric", "normal, Poisson, mean 1"]
    assert [row[0].strip("| ") for row in rows] == pairs
    for row in rows:
        assert row[2].startswith("rank")
        assert 2.5 < float(row[4].rstrip("%")) < 8


def test_every_measure_is_timed() -> None:
    public = {n for n in hgr_jax.measures.__all__ if n.islower() and not n.endswith("_fit")}
    assert set(measures.ours()) == public


AGREEING = ("pearson", "spearman", "kde", "chi2", "sk", "distance_correlation")


@pytest.mark.parametrize("names", [AGREEING, pytest.param(None, marks=pytest.mark.slow)])
def test_measures_quick(
    names: tuple[str, ...] | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("torch", reason="maxcorr's density and neural indicators need torch")
    every = measures.ours()
    timed = every if names is None else {name: every[name] for name in names}
    monkeypatch.setattr(measures, "ours", lambda: timed)
    measures.main(["--quick"])
    printed = capsys.readouterr().out
    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith("| `")]
    assert [row[0].strip("| `") for row in rows[: len(timed)]] == list(timed)
    agree = {row[0].strip("| `"): row for row in rows[len(timed) :]}
    for name in AGREEING:
        np.testing.assert_allclose(
            float(agree[name][1]), float(agree[name][3].strip("| ")), atol=1e-5
        )


@pytest.mark.parametrize("name", RELATIONS)
def test_peers_estimate_the_same_quantity(name: str) -> None:
    a, b = relation(name, 300)
    exact = reference.kb(a, b, 3, 3)
    np.testing.assert_allclose(peers.numpy_closed_form(a, b, 3), exact, atol=1e-9)
    np.testing.assert_allclose(peers.trust_region(a, b, 3, 3), exact, atol=1e-2)
    ours = float(hgr_jax.kb(a.astype(np.float32), b.astype(np.float32), 3, 3))
    for peer in (peers.maxcorr_double(a, b, 3), peers.maxcorr_single(a, b, 3)):
        assert peer <= ours + 1e-6


def test_the_double_kernel_of_maxcorr_is_kb() -> None:
    law = next(law for law in laws() if law.name == "ring")
    a, b = law.sample(np.random.default_rng(0), 300)
    with jax.enable_x64(True):
        assert peers.maxcorr_double(a, b) == pytest.approx(float(hgr_jax.kb(a, b)), abs=1e-4)


@pytest.mark.parametrize("gradient", [False, True])
def test_long_data_need_no_kernel_matrix(gradient: bool) -> None:
    rows, h, k = 2**18, 5, 5
    data = jax.ShapeDtypeStruct((rows,), jnp.float32)
    function = jax.value_and_grad(hgr_jax.kb, argnums=(0, 1)) if gradient else hgr_jax.kb
    analysis = jax.jit(function).lower(data, data).compile().memory_analysis()
    assert analysis is not None
    assert analysis.temp_size_in_bytes < rows * 4 * (h + k) / 4


def test_pages_show_what_the_results_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert figures.main(["--check"]) == 0, capsys.readouterr().out


def test_no_figure_is_of_a_release_that_is_excluded() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    allowed = Requirement(next(r for r in project["dependencies"] if r.startswith("jax>")))
    for path in RESULTS.glob("*.json"):
        version = re.search(r", jax ([\d.]+),", json.loads(path.read_text())["machine"])
        assert version is not None
        assert version[1] in allowed.specifier, path.name


def test_means_of_laws_are_near_their_hgr() -> None:
    rows = figures.means_of_laws().splitlines()[2:]
    assert [row.split(" | ")[0].strip("| ") for row in rows] == [law.name for law in laws()]
    shown = {float(row.split(" | ")[1]): float(row.split(" | ")[4]) for row in rows[:3]}
    assert shown == pytest.approx({0.3: 0.3, 0.6: 0.6, 0.9: 0.9}, abs=0.02)


def test_a_figure_is_a_cell_of_a_result() -> None:
    assert (
        figures.cells("pair", "maxcorr double", "more than 1e-2 below")[0] in figures.comparison()
    )
    with pytest.raises(LookupError, match="no row 'nobody' with a column 'KB'"):
        figures.cells("pair", "nobody", "KB")


def test_report_keeps_its_section_only(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("before\n<!-- x -->\nold\n<!-- end x -->\nafter\n")
    report = MarkdownReport()
    report.table(("", "n"), [["a", "1"]])
    report.keep("x", path, tmp_path / "results")
    text = path.read_text()
    assert text.startswith("before\n<!-- x -->\n|  | n |")
    result = json.loads((tmp_path / "results/x.json").read_text())
    assert {"date", "commit", "machine", "text"} == result.keys()
    assert f"Measured on {result['date']}, at commit {result['commit']}." in text
    assert text.endswith("<!-- end x -->\nafter\n")
    assert "old" not in text
    with pytest.raises(ValueError, match="no section"):
        report.keep("y", path, tmp_path / "results")
    with pytest.raises(ValueError, match="no section"):
        gpu.main(["--quick", "--write"])
