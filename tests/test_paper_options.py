"""Options of the paper's experiments, their contestants, and what they write."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from sklearn.model_selection import KFold

import hgr_jax
from bench.paper import __main__ as paper
from bench.paper import calibration, enforcement, grid, history, tables
from bench.paper.options import OPTIONS, taken
from bench.paper.output import ExperimentError, Output, new_figure
from hgr_jax.datasets import synthetic
from hgr_jax.fairness import didi


def rows_of(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))[1:]


def test_every_option_is_of_some_experiment() -> None:
    known = {name for e in paper.EXPERIMENTS for name in taken(paper._experiment(e).run)}
    assert known == set(OPTIONS)


def test_an_option_of_another_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        paper.main(["importance", "--noises", "1"])
    assert "--noises is an option of determinism, correlations; not of importance" in (
        capsys.readouterr().err
    )
    with pytest.raises(SystemExit, match="2"):
        paper.main(["calibration", "--hidden", "8,0"])
    assert "--hidden" in capsys.readouterr().err


def test_importance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--tables", "diabetes", "--on", "bmi", "--top", "3", "--degree", "2"]
    assert paper.main(["importance", *arguments, "--out", str(tmp_path)]) == 0
    rows = rows_of(tmp_path / "importance.csv")
    assert {row[1] for row in rows} == {"bmi"}
    data = tables.load(["diabetes"])[0]
    assert len(rows) == len(data.features) - 1
    expected = hgr_jax.kb(*(data[n].astype(np.float32) for n in ("bmi", rows[0][3])), h=2, k=2)
    assert float(rows[0][4]) == pytest.approx(float(expected), abs=1e-4)
    assert f"diabetes, bmi: {rows[0][3]}" in capsys.readouterr().out


def test_causality(tmp_path: Path) -> None:
    arguments = ["--tables", "diabetes", "--on", "bmi", "--top", "2", "--formats", "svg", "pdf"]
    assert paper.main(["causality", *arguments, "--out", str(tmp_path)]) == 0
    assert [row[1] for row in rows_of(tmp_path / "causality.csv")] == ["bmi", "bmi"]
    assert not (tmp_path / "causality.png").exists()
    assert b"<svg" in (tmp_path / "causality.svg").read_bytes()
    assert (tmp_path / "causality.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("importance --tables diabetes --on bmii", "did you mean 'bmi'"),
        ("causality --tables diabetes --on bmii", "did you mean 'bmi'"),
        ("causality --tables diabetes --top 2", "give --on too"),
        ("usecase --tables diabetes communities", "usecase is of one table"),
    ],
)
def test_options_that_cannot_be(
    line: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert paper.main([*line.split(), "--out", str(tmp_path)]) == 1
    assert reason in capsys.readouterr().err


def test_degrees_and_fresh_samples() -> None:
    key = jax.random.key(0)
    pair, fresh = (synthetic.sample("sin", k, noise=1.0, size=101) for k in jax.random.split(key))

    def found(name: str, *, test: bool = False) -> Any:
        return grid.contestant("sin", name, test=test)(pair, fresh, key)

    for name, degree in (("HGR-KB-2", 2), ("HGR-KB", 5)):
        fit = hgr_jax.kb_fit(*pair, h=degree, k=degree)
        np.testing.assert_allclose(found(name), fit.correlation, atol=1e-5)
        np.testing.assert_allclose(found(name, test=True), fit.score(*fresh), atol=1e-5)
    pearson = abs(np.corrcoef(*fresh)[0, 1])
    np.testing.assert_allclose(found("Pearson", test=True), pearson, atol=1e-5)
    np.testing.assert_allclose(found("CHI^2"), hgr_jax.chi2(*pair), atol=1e-5)
    for call, message in (
        (lambda: grid.contestant("sin", "HGR-KB-x"), "HGR-KB-N"),
        (lambda: grid.contestant("sin", "HGR-KDE", test=True), "no transformations"),
        (lambda: enforcement.penaliser("kb", 0.2), "penalisers are none, HGR-KB"),
    ):
        with pytest.raises(ExperimentError, match=message):
            call()


def test_a_grid_of_fresh_samples(tmp_path: Path) -> None:
    arguments = ["--relationships", "sin", "--measures", "ORACLE", "HGR-SK-2", "Pearson"]
    arguments += ["--noises", "0.5", "2", "--seeds", "2", "--algorithm-seeds", "1", "--test"]
    assert paper.main(["correlations", *arguments, "--quick", "--out", str(tmp_path)]) == 0
    seen = {}
    for name in ("correlations", "correlations_test"):
        rows = rows_of(tmp_path / f"{name}.csv")
        measures = ("ORACLE", "HGR-SK-2", "Pearson")
        assert [tuple(row[1:3]) for row in rows] == [(n, m) for m in measures for n in ("0.5", "2")]
        seen[name] = [float(row[3]) for row in rows]
    assert np.all(np.array(seen["correlations"]) != seen["correlations_test"])
    assert "On fresh samples" in (tmp_path / "correlations.txt").read_text()


def test_tables_in_latex(tmp_path: Path) -> None:
    rows = [("a_b", "KB & SK", "0.1 ± 0.2"), ("a_b", "none", "5%"), ("c", "none", "|r|")]
    Output(tmp_path).latex("found", ("table", "way", "score"), rows)
    lines = (tmp_path / "found.tex").read_text().splitlines()
    assert lines == [
        r"\begin{tabular}{llc}",
        r"\toprule",
        r"table & way & score \\",
        r"\midrule",
        r"a\_b & KB \& SK & 0.1 $\pm$ 0.2 \\",
        r" & none & 5\% \\",
        r"\midrule",
        r"c & none & $|$r$|$ \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_the_same_figure_is_the_same_file(tmp_path: Path) -> None:
    found = []
    for folder in ("first", "second"):
        figure = new_figure(2, 2)
        figure.subplots().plot([0, 1])
        Output(tmp_path / folder, ("png", "pdf")).figure("line", figure)
        found.append([(tmp_path / folder / f"line.{k}").read_bytes() for k in ("png", "pdf")])
    assert found[0] == found[1]


@pytest.fixture(scope="module")
def patients() -> enforcement.Setting:
    return enforcement.settings(["diabetes"])["diabetes"]


class TestTrainings:
    def test_every_measure_of_a_prediction(self, patients: enforcement.Setting) -> None:
        _, part = patients.fold(1)
        prediction = part.y + 0.1 * part.z
        found = patients.measured(prediction, part, neural_steps=5)
        assert tuple(found) == enforcement.MEASURES
        neural = hgr_jax.neural(part.z, prediction, key=jax.random.key(0), steps=5)
        assert found["HGR-NN"] == pytest.approx(float(neural), abs=1e-5)
        assert found["HGR-SK"] <= found["HGR-KB"]
        sex = part.x[:, patients.data.features.index("sex")]
        assert found["DIDI"] == pytest.approx(didi(prediction, sex))
        assert len(np.unique(sex)) == 2

    def test_folds_of_a_classification_are_stratified(self, patients: enforcement.Setting) -> None:
        data = patients.data
        rare = (data.y > np.quantile(data.y, 0.95)).astype(np.float64)
        changed = type(data)(
            data.name, data.x, rare, data.z, data.features, data.target, data.protected,
            "classification",
        )  # fmt: skip
        setting = enforcement.Setting(changed, (4,), None, 0.2)
        shares = [rare[setting.rows(i)[1]].mean() for i in range(enforcement.FOLDS)]
        assert np.ptp(shares) < 0.02
        plain = [
            rare[held].mean() for _, held in KFold(5, shuffle=True, random_state=0).split(rare)
        ]
        assert np.ptp(plain) > 0.02
        train, held = setting.fold(0)
        decided = setting.didi(np.where(held.y > 0, 0.9, 0.1).astype(np.float32), held)
        sex = held.x[:, changed.features.index("sex")]
        assert decided == pytest.approx(didi(held.y, sex))
        assert len(train.x) + len(held.x) == len(rare)

    def test_a_curve_of_calibration(self, patients: enforcement.Setting) -> None:
        found = calibration.curve(patients, 0, 4, (3,), steps=5, every=2)
        np.testing.assert_array_equal(found[:, 0], [2, 4, 5])
        assert (np.diff(found[:, 1]) > 0).all()
        assert np.isfinite(found).all()

    @pytest.mark.slow
    def test_a_history(self, patients: enforcement.Setting) -> None:
        found = history.curve(patients, "HGR-KDE", 0, steps=4, every=1)
        np.testing.assert_array_equal(found[:, 0], [1, 2, 3, 4])
        assert found[0, -1] == 0
        assert (found[1:, -1] > 0).all()
        free = history.curve(patients, "none", 0, steps=2, every=2)
        assert free[0, -1] == 0
        train, _ = patients.fold(0)
        trainer = patients.trainer(enforcement.penaliser("none", 0.2))
        trainer.fit(*train, steps=2)
        prediction = np.asarray(trainer.predict(train.x))
        sk = float(hgr_jax.sk(train.z, prediction, d=5))
        assert free[0, 3] == pytest.approx(sk, abs=1e-5)
        assert free[0, 5] == pytest.approx(patients.didi(prediction, train))


@pytest.mark.slow
def test_calibration_of_other_networks(tmp_path: Path, capsys: Any) -> None:
    arguments = ["--tables", "diabetes", "--hidden", "3", "2,2", "--batches", "2", "--folds", "2"]
    arguments += ["--steps", "4", "--every", "2", "--out", str(tmp_path)]
    assert paper.main(["calibration", *arguments]) == 0
    rows = rows_of(tmp_path / "calibration.csv")
    assert [row[:5] for row in rows] == [
        ["diabetes", "2", hidden, str(fold), str(step)]
        for hidden in ("3", "2-2")
        for fold in (0, 1)
        for step in (2, 4)
    ]
    assert (tmp_path / "calibration_diabetes.png").exists()
    assert "with 2 batches an epoch" in capsys.readouterr().out


@pytest.mark.slow
def test_results_of_a_table_that_is_not_the_papers(tmp_path: Path) -> None:
    arguments = ["--tables", "diabetes", "--penalisers", "HGR-KB", "--steps", "5", "--quick"]
    assert paper.main(["results", *arguments, "--out", str(tmp_path)]) == 0
    rows = rows_of(tmp_path / "results.csv")
    assert [(row[0], row[2]) for row in rows] == [("diabetes", "HGR-KB")]
