"""``hgr-jax fair``: what it trains, prints and keeps, and its line for whatever cannot be done."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli_scan_support import Command, run

from hgr_jax.cli.fair import compare, split, training_data, verdict
from hgr_jax.cli.inputs import usable_rows
from hgr_jax.cli.options import FairOptions
from hgr_jax.datasets import load_diabetes
from hgr_jax.fairness import FairMLPClassifier, FairMLPRegressor
from hgr_jax.fairness.data import TrainingData
from hgr_jax.tables.columns import Frame

SMALL = (
    *("--hidden", "8", "--h", "2", "--k", "3"),
    *("--steps", "50", "--learning-rate", "1e-2", "--validation", "0.5"),
)
NUMBERS = ("--target", "progression", "--protected", "age", "--drop", "patient", "worse")


def trained(*arguments: str, cwd: Path) -> str:
    """What a training in a process of its own prints."""
    done = run("fair", "d.csv", *arguments, *SMALL, cwd=cwd)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert "100%" not in done.stderr  # a bar is for terminals
    return done.stdout


@pytest.fixture
def diabetes(tmp_path: Path) -> Path:
    """The table with a column of text of the age, one of the outcome, and a name a row."""
    data = load_diabetes()
    texts = {
        "patient": [f"no {i}" for i in range(len(data.y))],
        "generation": np.select([data.z > 60, data.z > 40], ["old", "middle"], "young").tolist(),
        "worse": np.where(data.y > 140, "yes", "no").tolist(),
    }
    columns = {name: data[name].tolist() for name in (*data.features, data.target)} | texts
    columns["bmi"][3] = "NA"
    columns["bp"][5] = "inf"
    with (tmp_path / "d.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return tmp_path / "d.csv"


def complete_rows(path: Path) -> pd.DataFrame:
    return pd.read_csv(path).replace(np.inf, np.nan).dropna()


@pytest.mark.slow
def test_regression(diabetes: Path, tmp_path: Path) -> None:
    said = trained(*NUMBERS, "--threshold", "0.1", "--batch-size", "100", cwd=tmp_path)
    assert "d.csv: 440 rows; 2 of 442 have a missing or infinite value and are left out" in said
    assert "left out: in bmi (1), bp (1)\nnote: d.csv: read as" in said
    assert "regression of progression, protected age, 13 inputs" in said
    assert "220 training rows, 220 validation rows" in said
    assert said.count("before  ") == said.count("after   ") == 2
    assert "R2" in said
    assert "threshold 0.1 of HGR-KB(2, 3): " in said
    assert "not fairness" in said
    folder = tmp_path / "hgr-jax-fair"
    assert sorted(path.name for path in folder.iterdir()) == [
        *("history.csv", "history.png", "model.card.md", "model.json", "model.npz"),
        "predictions.png",
    ]
    model = FairMLPRegressor.load(folder / "model.npz")
    assert model.inputs_.names[0] == "age"
    assert model.inputs_.names[-1] == "generation = young"
    rows = complete_rows(diabetes)
    columns = rows.drop(columns=["patient", "worse", "progression"])
    predictions = model.predict(columns)
    assert np.corrcoef(predictions, rows["progression"])[0, 1] > 0.3
    with (folder / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == ["before"] * 2 + ["after"] * 2
    assert [row["step"] for row in rows] == ["25", "50"] * 2


def test_a_guarantee_is_shown_and_refused(diabetes: Path, tmp_path: Path, command: Command) -> None:
    options = (*NUMBERS, "generation", "--guarantee", "0.9")
    said = command("fair", "d.csv", *options, *SMALL, "--threshold", "0.6")
    assert said.status == 0, said.err
    said = " ".join(said.out.split())
    assert "HGR-KB(2, 3) of age and the prediction in the population: at most 0.6" in said
    assert "88 rows held back" in said  # 40% of the training rows
    assert (tmp_path / "hgr-jax-fair/certificate.png").read_bytes().startswith(b"\x89PNG")
    kept = json.loads((tmp_path / "hgr-jax-fair/model.json").read_text())["certificates"][0]
    assert (kept["bound"] <= 0.6, kept["name"]) == (True, "age")
    said = command("fair", "d.csv", *options, *SMALL, "--threshold", "0.01", "--force")
    assert said.status == 2
    assert "no model was found whose HGR-KB is at most 0.01" in said.err
    kept = tmp_path / "hgr-jax-fair/model.unguaranteed.npz"
    assert "The safest model is kept as hgr-jax-fair" in said.err
    assert FairMLPRegressor.load(kept).n_features_in_ == 10


def test_several_protected_columns_with_weights_and_a_condition(
    diabetes: Path, tmp_path: Path, command: Command
) -> None:
    options = ("--target", "progression", "--protected", "age", "--protected", "generation")
    options += ("--drop", "patient", "--threshold", "0.9", "--weights", "bp", *SMALL)
    said = command("fair", "d.csv", *options, "--given", "worse").out
    assert "protected age, generation, 14 inputs" in said  # bp, the weights, is none
    for name in ("age", "generation", "age x generation"):
        assert f"validation rows (220), {name}" in said
        constrained = f"HGR-KB(2, 3) given worse of {name} and the prediction went from" in said
        assert constrained == (name != "age x generation")
    assert said.count("kb given") == 6 + 1
    folder = tmp_path / "hgr-jax-fair"
    card = (folder / "model.card.md").read_text()
    assert "# Model of progression" in card
    assert "\n- generation = middle\n" in card
    assert "age \\| worse=no: HGR-KB(2, 3) at most 0.9" in card
    said = command("fair", "d.csv", *options, "--intersections", "--force").out
    assert "of age x generation and the prediction went from" in said
    assert "note: small levels of age x generation are pooled" in said
    assert "of age and the prediction" not in said
    said = command("fair", "d.csv", *options, "--weights", "worse", "--force")
    assert "column 'worse' of weights holds text" in said.err
    said = command("fair", "d.csv", *options, "--guarantee", "0.9", "--force")
    assert "leave out --weights" in said.err
    said = command("fair", "d.csv", *options, "--frontier", "--force")
    assert "--frontier compares models without --weights" in said.err
    said = command("fair", "d.csv", *options, "--weights", "age", "--force")
    assert "column 'age' cannot be the weights too" in said.err


@pytest.mark.slow
def test_a_frontier_is_printed_and_drawn(diabetes: Path, tmp_path: Path, command: Command) -> None:
    said = command(
        "fair", "d.csv", *NUMBERS, "generation", "--threshold", "0.9", *SMALL, "--frontier"
    )
    assert "linear model, transported" in said.out
    picture = tmp_path / "hgr-jax-fair" / "frontier.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_classification_of_text_with_a_category_protected(diabetes: Path, tmp_path: Path) -> None:
    said = trained(
        *("--target", "worse", "--protected", "generation", "--threshold", "0.3"),
        *("--drop", "patient", "progression", "--penalty", "sk", "--out", "kept", "--seed", "5"),
        cwd=tmp_path,
    )
    assert "classification of worse, protected generation" in said
    assert said.count("AUC         sk\n") == 2
    assert "threshold 0.3 of HGR-SK(3): " in said
    assert f"picture: {Path('kept') / 'history.png'}" in said
    assert not (tmp_path / "kept" / "predictions.png").exists()
    described = json.loads((tmp_path / "kept" / "model.json").read_text())
    assert described["target_levels"] == ["no", "yes"]
    assert described["settings"]["seed"] == 5
    model = FairMLPClassifier.load(tmp_path / "kept" / "model.npz")
    rows = complete_rows(diabetes)
    labels = model.predict(rows.drop(columns=["patient", "worse", "progression"]))
    assert (labels == rows["worse"]).mean() > 0.6


class Known:
    """A classifier that knows the probability of the second class."""

    classes_ = ("no", "yes")

    def __init__(self, probability: np.ndarray) -> None:
        self.probability = probability

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return np.column_stack([1 - self.probability, self.probability])


@pytest.mark.parametrize("category", [False, True])
def test_table_and_verdict_of_a_classification(category: bool) -> None:
    y = np.array(["no", "yes"] * 20, dtype=object)
    z = np.where(np.arange(40) % 4 == 1, "b", "a").astype(object) if category else np.arange(40.0)
    settings = FairOptions("y", ("z",), 0.2, h=1, k=1)
    problem = training_data(Frame("t", {"z": z, "y": y, "x": np.arange(40.0)}), settings)
    perfect, constant = Known((y == "yes") * 1.0), Known(np.full(40, 0.5))
    found = compare(perfect, constant, problem, settings)["z"]
    before, after = str(found).splitlines()[1:]
    assert before.split()[:2] == ["before", "1.000"]
    assert after.split()[:3] == ["after", "0.500", "0.000"]
    said = verdict({"training": found, "validation": found}, settings)
    assert "holds on training rows (0.0000), holds on validation rows (0.0000)" in said
    assert "every validation row has the same prediction, 0.5," in said
    assert "try a smaller --learning-rate" in said
    if category:
        found = compare(constant, perfect, problem, settings)["z"]
        said = verdict({"training": found, "validation": found}, settings)
        value = 3**-0.5  # one of two "yes" is "b", none of the "no"
        assert f"does not hold on training rows ({value:.4f}, {value - 0.2:.4f} above)" in said


@pytest.mark.parametrize("category", [False, True])
def test_hgr_of_ranks_is_reported_where_it_is_constrained(category: bool) -> None:
    y = np.array(["no", "yes"] * 20, dtype=object)
    z = np.where(y == "no", "a", "b").astype(object) if category else (y == "no") * 1.0
    settings = FairOptions("y", ("z",), 0.2, penalty="hgr")
    problem = training_data(Frame("t", {"z": z, "y": y, "x": np.arange(40.0)}), settings)
    found = compare(Known((y == "yes") * 1.0), Known(np.full(40, 0.5)), problem, settings)["z"]
    assert found.figures["before"]["hgr"] == pytest.approx(1, abs=1e-6)
    assert found.figures["after"]["hgr"] == 0
    said = verdict({"training": found, "validation": found}, settings)
    assert "threshold 0.2 of HGR: holds on training rows (0.0000)" in said


def test_no_model_stands_beside_the_description_of_another(
    diabetes: Path, folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise OSError("no space left")

    (folder / "kept").mkdir()
    for name in ("model.npz", "model.json"):
        (folder / "kept" / name).write_text("of an earlier training")
    monkeypatch.setattr("hgr_jax.cli.fair.json.dumps", stop)
    options = (*NUMBERS, "--threshold", "0.2", *SMALL, "--out", "kept", "--force")
    assert command("fair", "d.csv", *options).status == 2
    assert {path.read_text() for path in (folder / "kept").iterdir()} == {"of an earlier training"}


def test_a_diverging_training_keeps_nothing(diabetes: Path, folder: Path, command: Command) -> None:
    options = ("--learning-rate", "0.99", "--steps", "3", "--hidden", "512,512", "--out", "kept")
    said = command("fair", "d.csv", *NUMBERS, "--threshold", "0.2", *options)
    assert said.status == 2
    assert "hgr-jax: error: the training diverged: the loss on the training rows was" in said.err
    assert said.err.endswith(" A smaller learning rate usually helps.\n")
    assert "holds" not in said.out
    assert not (folder / "kept").exists()


def split_of(y: np.ndarray, **options: Any) -> tuple[TrainingData, TrainingData]:
    frame = Frame("t", {"z": np.arange(float(len(y))), "y": y})
    settings = FairOptions("y", ("z",), 0.2, **options)
    return split(training_data(frame, settings), settings)


def test_split_by_seed_and_by_class() -> None:
    y = np.array(["a"] * 40 + ["b"] * 10, dtype=object)
    parts = [split_of(y, validation=0.3, seed=seed) for seed in (0, 0, 1)]
    for train, test in parts:
        assert sorted([*train.z["z"], *test.z["z"]]) == [*range(50)]
        assert [(test.y == label).sum() for label in "ab"] == [12, 3]
    np.testing.assert_array_equal(parts[0][1].z["z"], parts[1][1].z["z"])
    assert (parts[0][1].z["z"] != parts[2][1].z["z"]).any()
    rare = np.array(["a"] * 296 + ["b"] * 4, dtype=object)
    for validation in (0.02, 0.1, 0.9):
        for part in split_of(rare, validation=validation):
            assert min((part.y == label).sum() for label in "ab") >= 2


def test_rows_of_a_rare_level_are_training_rows() -> None:
    texts = np.array(["a", "b", "c"] + ["a", "b"] * 30, dtype=object)
    columns = {"z": np.arange(63.0), "y": np.arange(63.0) ** 2, "text": texts}
    settings = FairOptions("y", ("z",), 0.2, validation=0.9)
    train, test = split(training_data(Frame("t", columns), settings), settings)
    assert (train.x["text"] == "c").sum() == 1
    assert len(train.y) + len(test.y) == 63


def test_rows_with_missing_text_are_left_out() -> None:
    columns = {"z": np.arange(30.0), "t": np.array(["a", "", "b"] * 10, dtype=object)}
    kept = usable_rows(Frame("t", columns | {"y": columns["z"]}), ("y", ("z",)))
    assert kept.rows == 20
    np.testing.assert_array_equal(kept.column("z")[:4], [0, 2, 3, 5])


def test_missing_text_is_a_level_of_the_inputs_on_request(
    diabetes: Path, tmp_path: Path, command: Command
) -> None:
    with diabetes.open() as file:
        header, *rows = csv.reader(file)
    place = header.index("generation")
    for row in rows[10:40]:
        row[place] = ""
    with diabetes.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    options = ("fair", "d.csv", *NUMBERS, *SMALL, "--threshold", "0.9", "--force")
    said = command(*options).out
    assert "410 rows; 32 of 442 have a missing" in said
    assert "left out: in generation (30), bmi (1), bp (1)\n--missing-level keeps 30 of them" in said
    said = command(*options, "--missing-level").out
    assert "440 rows; 2 of 442 have a missing" in said
    assert "14 inputs" in said
    assert "--missing-level" not in said
    # New rows have predictions, too; and where the level is of the protected column, as before.
    said = command("predict", "hgr-jax-fair/model.npz", "d.csv")
    assert "note: 2 row(s) lack an input" in said.err
    assert said.out.splitlines()[11] != said.out.splitlines()[4] == '""'
    protected = ("--protected", "generation", "--missing-level")
    said = command(*options[:4], *protected, *options[6:]).out
    assert "410 rows; 32 of 442" in said
