"""``hgr-jax predict``: a saved model on new rows, and its line for whatever does not fit."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli_scan_support import Command, refusal

from hgr_jax.cli.main import main
from hgr_jax.fairness import FairMLPClassifier, FairMLPRegressor

ROWS = 40
Predict = Callable[..., tuple[pd.DataFrame, str]]
SETTINGS = {"hidden_layer_sizes": (4,), "penalty": None, "steps": 5, "random_state": 0}


def new_table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.uniform(20, 80, ROWS).round(2),
            "kind": np.array(["red", "green", "blue"])[rng.integers(0, 3, ROWS)],
            "day": pd.date_range("2024-01-05", periods=ROWS).strftime("%Y-%m-%d"),
            "size": rng.normal(size=ROWS).round(4),
            "outcome": rng.normal(size=ROWS).round(4),
        }
    )


def fair(*options: str) -> Path:
    """A model of t.csv, from few steps."""
    settings = "--target outcome --threshold 0.9 --hidden 4 --steps 5 --h 1 --k 1"
    protected = () if "--protected" in options else ("--protected", "age")
    assert main(["fair", "t.csv", *settings.split(), *protected, *options]) == 0
    return Path("hgr-jax-fair", "model.npz").resolve()


@pytest.fixture
def table() -> pd.DataFrame:
    return new_table()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders with a table and a model of it, which tests copy."""
    for name, text in (("plain", new_table().to_csv(index=False)), ("european", european())):
        made = tmp_path_factory.getbasetemp() / "models" / name
        made.mkdir(parents=True)
        with contextlib.chdir(made):
            Path("t.csv").write_text(text)
            fair()
    return made.parent


@pytest.fixture
def trained(folder: Path, models: Path) -> Path:
    shutil.copytree(models / "plain", folder, dirs_exist_ok=True)
    return folder / "hgr-jax-fair" / "model.npz"


def expected(trained: Path, table: pd.DataFrame) -> np.ndarray:
    """Predictions of the model for a data frame."""
    frame = table[["age", "kind", "day", "size"]].assign(day=pd.to_datetime(table["day"]))
    return FairMLPRegressor.load(trained).predict(frame)


@pytest.fixture
def predict(command: Command) -> Predict:
    """What is predicted, wherever it is written, and what is said beside."""

    def run(*arguments: object) -> tuple[pd.DataFrame, str]:
        said = command("predict", *arguments)
        assert said.status == 0, said.err
        written = said.out.startswith("predictions: ")
        file = said.out.split()[1] if written else io.StringIO(said.out)
        return pd.read_csv(file), said.err

    return run


def test_predictions_of_new_rows(trained: Path, table: pd.DataFrame, predict: Predict) -> None:
    # Other rows, columns in another order, one more, and the target is not needed.
    new = table.iloc[5:20][["size", "kind", "day", "age"]].assign(note="x")
    new.to_parquet("new.parquet")
    found, err = predict(trained, "new.parquet")
    assert err == ""
    np.testing.assert_allclose(found["prediction"], expected(trained, new), rtol=1e-7)


def test_rows_that_lack_an_input_have_no_prediction(
    trained: Path, table: pd.DataFrame, command: Command, predict: Predict
) -> None:
    table.loc[3, "size"] = np.nan
    table.loc[7, "kind"] = "mauve"
    table.loc[9, "day"] = None
    table.to_csv("new.csv", index=False)
    whole, err = predict(trained, "new.csv", "--out", "kept/p.csv")
    assert err == (
        "note: kind: 1 row(s) hold 'mauve' or another text that the model has not seen\n"
        "note: 3 row(s) lack an input and have no prediction\n"
    )
    found = whole["prediction"].to_numpy()
    assert np.flatnonzero(np.isnan(found)).tolist() == [3, 7, 9]
    there = ~np.isnan(found)
    np.testing.assert_allclose(found[there], expected(trained, table[there]), rtol=1e-7)

    said = refusal(command, "predict", trained, "new.csv", "--out", "kept/p.csv")
    assert "kept/p.csv is there already: write to another file by --out, or over it by" in said
    found, _ = predict(trained, "t.csv", "--out", "kept/p.csv", "--force")
    assert not found["prediction"].isna().any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.rename(columns={"size": "seize"}), "no column 'size'; did you mean 'seize'?"),
        (lambda t: t.drop(columns="age"), "new.csv has no column 'age'"),
        (lambda t: t.assign(age="old"), "'age' holds text, for example 'old'; the model was train"),
        (
            lambda t: t.assign(kind=range(ROWS)),
            "column 'kind' holds numbers, for example 0; the model was trained on text ('blue',",
        ),
        (lambda t: t.assign(day=3.5), "column 'day' holds numbers, for example 3.5; the model was"),
        (lambda t: t.assign(size=t["day"]), "column 'size' holds dates, for example 2024-01-05"),
    ],
)
def test_columns_that_do_not_fit_are_one_line(
    trained: Path, table: pd.DataFrame, command: Command, change, message: str
) -> None:
    change(table).to_csv("new.csv", index=False)
    assert message in refusal(command, "predict", trained, "new.csv", "--out", "p.csv")
    assert not Path("p.csv").exists()


def test_models_that_cannot_be_read_are_one_line(trained: Path, command: Command) -> None:
    def refused(model: object) -> str:
        return refusal(command, "predict", model, "t.csv")

    assert "no such file: none.npz" in refused("none.npz")
    assert "cannot read hgr-jax-fair: Is a directory" in refused("hgr-jax-fair")
    np.savez("scan.npz", pairs=np.zeros(3))
    np.save("array.npy", np.zeros(3))
    Path("part.npz").write_bytes(trained.read_bytes()[:300])
    for other in ("t.csv", "scan.npz", "array.npy", "part.npz"):
        assert refused(other) == (
            f"hgr-jax: error: {other} is not a saved model, or is damaged; expected a file that"
            " `hgr-jax fair` (model.npz) or `save` of an estimator wrote.\n"
        )
    trained.with_suffix(".json").write_text("{}")
    assert "does not say how the inputs of the model were read (KeyError: 'na')" in refused(trained)


@pytest.mark.filterwarnings("error")
def test_models_saved_by_estimators(
    folder: Path, table: pd.DataFrame, command: Command, predict: Predict
) -> None:
    table[["age", "size"]].to_csv("t.csv", index=False)
    x = pd.read_csv("t.csv")
    named = FairMLPClassifier(**SETTINGS)
    named.fit(x[["size", "age"]], np.where(table["outcome"] > 0, "=high", "low"))
    named.save("named.npz")
    found, err = predict("named.npz", "t.csv")
    assert err == ""
    assert list(found) == ["prediction", "probability of =high", "probability of low"]
    chances = named.predict_proba(x[["size", "age"]])
    np.testing.assert_allclose(found.iloc[:, 1:], chances, rtol=1e-7)
    safe = [f"'{v}" if v == "=high" else v for v in named.predict(x[["size", "age"]])]
    assert found["prediction"].tolist() == safe  # no spreadsheet runs it

    plain = FairMLPRegressor(**SETTINGS).fit(x.to_numpy(), table["outcome"])
    plain.save("plain.npz")
    found, _ = predict("plain.npz", "t.csv")
    np.testing.assert_allclose(found["prediction"], plain.predict(x.to_numpy()), rtol=1e-7)
    x.assign(more=1.5).to_csv("wide.csv", index=False)
    said = refusal(command, "predict", "plain.npz", "wide.csv")
    assert "wide.csv has 3 columns; plain.npz was fitted to an array of 2, in whose" in said


def test_a_model_of_a_data_frame_predicts_for_files(
    folder: Path, table: pd.DataFrame, predict: Predict
) -> None:
    x = table.drop(columns="outcome").assign(day=pd.to_datetime(table["day"]))
    x.loc[3, ["kind", "size"]] = None
    model = FairMLPRegressor(**SETTINGS, missing="level").fit(x, table["outcome"])
    model.save("model.npz")
    x[["day", "size", "age", "kind"]].replace(x.age[5], np.inf).to_csv("t.csv", index=False)
    found, err = predict("model.npz", "t.csv")
    assert err == "note: 1 row(s) lack an input and have no prediction\n"  # age was never missing
    there = np.arange(ROWS) != 5
    np.testing.assert_allclose(found["prediction"][there], model.predict(x)[there], rtol=1e-7)
    x.replace(x["size"][7], np.inf).to_csv("t.csv", index=False)
    expected = model.predict(x.replace(x["size"][7], np.nan))
    np.testing.assert_allclose(predict("model.npz", "t.csv")[0]["prediction"], expected, rtol=1e-7)


def test_streams_are_written_to(trained: Path, command: Command) -> None:
    printed = command("predict", trained, "t.csv")
    for out in ("-", "/dev/stdout"):
        assert command("predict", trained, "t.csv", "--out", out) == printed
    os.mkfifo("pipe")
    reading = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert command("predict", trained, "t.csv", "--out", "pipe") == (0, "", printed.err)
    assert os.read(reading, 10**6).decode() == printed.out
    os.close(reading)
    assert Path("pipe").is_fifo()
    if Path("/dev/full").exists():
        said = command("predict", trained, "t.csv", "--out", "/dev/full")
        assert (said.status, said.out) == (2, "")
        assert "error: cannot write /dev/full: No space left on device\n" in said.err


def test_outputs_that_are_no_files(trained: Path, command: Command) -> None:
    Path("there").mkdir()
    Path("loop").symlink_to("loop")
    for out, cause in (
        ("there", "there is a folder, which no file replaces: write to another file by --out"),
        ("t.csv/p.csv", "cannot write to t.csv: it is a file"),
        ("loop", "cannot write loop: Too many levels of symbolic links"),
    ):
        for force in ((), ("--force",)):
            said = refusal(command, "predict", trained, "t.csv", "--out", out, *force)
            assert said == f"hgr-jax: error: {cause}\n"


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_what_is_read_is_not_written(
    trained: Path, command: Command, force: tuple[str, ...]
) -> None:
    described = trained.with_suffix(".json")
    Path("link.csv").symlink_to("t.csv")
    Path("hard.csv").hardlink_to("t.csv")
    kept = {path: path.read_bytes() for path in (trained, described, Path("t.csv"))}
    for out in (trained, described, "t.csv", "hgr-jax-fair/../t.csv", "link.csv", "hard.csv"):
        said = refusal(command, "predict", trained, "t.csv", "--out", out, *force)
        assert "write to another file by --out" in said
    described.unlink()
    refusal(command, "predict", trained, "t.csv", "--out", described, *force)
    assert not described.exists()
    del kept[described]
    assert kept == {path: path.read_bytes() for path in kept}


def european() -> str:
    """A table with semicolons, decimal commas and the day before the month."""
    rng = np.random.default_rng(0)
    rows = [
        f"{rng.integers(1, 10) + rng.integers(1, 1000) / 1000:.3f};{rng.integers(0, 90) / 10:.1f};"
        f"{1 + i % 28:02d}/{1 + i % 11:02d}/2024;{rng.integers(18, 80)};{rng.normal():.4f}"
        for i in range(60)
    ]
    return "\n".join(["size;mixed;day;age;outcome", *rows, ""]).replace(".", ",")


@pytest.fixture
def of_commas(folder: Path, models: Path) -> Path:
    shutil.copytree(models / "european", folder, dirs_exist_ok=True)
    return folder / "hgr-jax-fair" / "model.npz"


def forms(model: Path) -> dict[str, Any]:
    """How the columns of the training were written."""
    return json.loads(model.with_suffix(".json").read_text())["forms"]


def test_rows_of_the_training_have_the_same_predictions_in_any_file(
    folder: Path, of_commas: Path, predict: Predict
) -> None:
    comma = {"kind": "numbers", "point": ","}
    assert forms(of_commas) == {
        "size": comma,
        "mixed": comma,
        "day": {"kind": "dates", "order": "dmy"},
        "age": comma,  # of which no number shows a point: as the others
    }
    whole = predict(of_commas, "t.csv")[0].to_numpy()
    header, *lines = (folder / "t.csv").read_text().splitlines()
    early = [i for i, line in enumerate(lines) if int(line.split(";")[2][:2]) <= 12]
    assert len(early) > 20
    for rows in (early, early[:1]):
        (folder / "new.csv").write_text("\n".join([header, *(lines[i] for i in rows)]) + "\n")
        np.testing.assert_array_equal(predict(of_commas, "new.csv")[0], whole[rows])
    columns = [line.split(";") for line in (lines[i] for i in early)]
    table = pd.DataFrame(columns, columns=header.split(";"))
    table.to_parquet("new.parquet")  # as texts
    table.to_json("new.json", orient="records")
    for name in ("new.parquet", "new.json"):
        np.testing.assert_array_equal(predict(of_commas, name)[0], whole[early])


def test_times_and_named_months_mean_the_same_in_any_file(
    folder: Path, command: Command, predict: Predict, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pd.DataFrame({"outcome": np.random.default_rng(0).normal(size=60), "age": range(60)})
    table["day"] = [f"{1 + i % 28:02d}-May-2024" for i in range(60)]
    table["at"] = [f"{i % 24}:{i % 60:02d}" for i in range(60)]
    table.to_csv("t.csv", index=False)
    model = fair()
    said = capsys.readouterr().out
    assert "note: at: '0:00' is read as 0 (hours since midnight)\n" in said
    assert "note: day: '01-May-2024' is read as 2024-05-01 (with the name of the month)" in said
    assert forms(model)["day"] == {"kind": "dates", "order": "name"}
    assert forms(model)["at"] == {"kind": "times"}
    whole, _ = predict(model, "t.csv")
    for new in (table[7:8], table[7:8].assign(at=["07:07:00"], day=["May 8, 2024"])):
        new.to_csv("new.csv", index=False)
        np.testing.assert_array_equal(predict(model, "new.csv")[0], whole[7:8])
    table.assign(at=7.5).to_csv("new.csv", index=False)
    said = refusal(command, "predict", model, "new.csv")
    assert "'at' holds numbers, for example 7.5; the model was trained on times (hours" in said


def test_what_stood_for_missing_in_the_training_still_does(
    folder: Path, table: pd.DataFrame, predict: Predict
) -> None:
    table.loc[3, "size"] = -999
    table.to_csv("t.csv", index=False)
    model = fair("--na", "-999")
    found, err = predict(model, "t.csv")
    assert err == "note: 1 row(s) lack an input and have no prediction\n"
    assert np.flatnonzero(found["prediction"].isna()).tolist() == [3]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("2.698;1,5;03/04/2024;30", "'size' holds text, for example '2.698'; the model was"),
        ("2,698;1.5;03/04/2024;30", "'mixed' holds text, for example '1.5'; the model was"),
        ("2,698;1,5;03/14/2024;30", "'03/14/2024'; the model was trained on dates (day, month,"),
    ],
)
def test_what_contradicts_the_training_is_no_other_number(
    folder: Path, of_commas: Path, command: Command, row: str, message: str
) -> None:
    (folder / "new.csv").write_text(f"size;mixed;day;age\n{row}\n")
    assert message in refusal(command, "predict", of_commas, "new.csv")


def test_one_value_that_contradicts_is_missing(
    trained: Path, table: pd.DataFrame, command: Command, predict: Predict
) -> None:
    new = table.astype({"age": object})
    new.loc[4, "age"] = "2,698"  # training had no mark between thousands
    new.to_csv("new.csv", index=False)
    found, err = predict(trained, "new.csv")
    assert "39 of 40 are numbers, the rest is read as missing" in err
    assert np.flatnonzero(found["prediction"].isna()).tolist() == [4]
    table.to_csv("comma.csv", index=False, sep=";", decimal=",")
    refusal(command, "predict", trained, "comma.csv")
    found, _ = predict(trained, "comma.csv", "--decimal", ",")
    np.testing.assert_allclose(found["prediction"], expected(trained, table), rtol=1e-7)


def test_a_file_without_names(folder: Path, predict: Predict) -> None:
    np.savetxt("t.csv", np.random.default_rng(0).normal(size=(40, 3)), "%.4f", delimiter=",")
    model = fair("--no-header", "--target", "column 3", "--protected", "column 1")
    named = ["column 1", "column 2", "column 3"]
    pd.read_csv("t.csv", names=named).to_csv("named.csv", index=False)
    bare, _ = predict(model, "t.csv", "--no-header")
    assert len(bare) == 40
    pd.testing.assert_frame_equal(bare, predict(model, "named.csv")[0])
