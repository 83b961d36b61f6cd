"""Smoke runs of the benchmarks, and the promises on memory."""

from __future__ import annotations

import functools
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from packaging.requirements import Requirement
from threadpoolctl import threadpool_limits

import hgr_jax
from bench import (
    accuracy,
    calibration,
    conditional,
    coverage,
    fairness,
    figures,
    guarantee,
    measures,
    pair,
    peers,
    power,
    rank_law,
    scale,
    scan,
    shapes,
    training,
    truth,
)
from bench.data import data_folder
from bench.laws import TUNED, laws, oscillating_laws
from bench.report import RESULTS
from hgr_jax.fairness import FairMLPRegressor


@pytest.mark.slow
def test_every_figure_of_accuracy_is_within_its_bound(capsys: pytest.CaptureFixture[str]) -> None:
    status = accuracy.main(["--quick"])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if "e" in line]
    figures = {
        row[0].removeprefix("| "): row[-1].removesuffix(" |") for row in rows if len(row) > 3
    }
    assert [name for name, verdict in figures.items() if verdict == "EXCEEDED"] == []
    assert status == 0
    assert sum(name.startswith("value, ") for name in figures) == 2 * 2
    assert sum(name.startswith("derivative of ") for name in figures) == 3
    for name in ("degree 1 is |Pearson|", "affine maps", "order of rows"):
        assert figures[name] == "yes"


NEED_TABLES = {training}
QUICK: list[tuple[Any, list[str]]] = [
    (scale, ["| 60 | 1,770 |"]),
    (pair, ["Time of one estimate", "raw units"]),
    (training, [f"| {name} | " for name in ("none", "HGR-KB", "HGR-SK", "torch, double kernel")]),
    (scan, ["| bare matrix product in JAX |", "| `scan` |", scan.NUMPY]),
    (coverage, ["| discrete |"]),
    (guarantee, ["| 1,000, network | ", "| many candidates |"]),
    (fairness, [f"| {n} | " for n in fairness.QUICK if "fairlearn" not in n]),
    (
        truth,
        [
            "| oracle | 0.",
            "| hgr | 0.",
            "| maxcorr, double kernel, 5 | 0.",
            "| hgr, kept out (",
            "| hgr, independence | 0.",
            "| kept out, lowest |",
            "| all (",
        ],
    ),
    (shapes, ["| ring | ", "| fan | the spread of y rises with x", "are right (of"]),
    (power, ["| simulations of hyppo, 100 rows | ", "| Pearson | IDS | MGC |"]),
    (conditional, ["rows: size, determined | 0.00 / 0.00 / 0.00 |"]),
    (calibration, ["| 300 | 2 | "]),
    (measures, [f"| `{name}` | " for name in ("pearson", "kde", "sk")]),
    (rank_law, ["| 50 |"]),
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
