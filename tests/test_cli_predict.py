"""``hgr-jax predict``: a saved model on new rows, and its line for whatever does not fit."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hgr_jax.cli.main import main
from hgr_jax.fairness import FairMLPClassifier, FairMLPRegressor

ROWS = 40
SETTINGS = {"hidden_layer_sizes": (4,), "penalty": None, "steps": 5, "random_state": 0}


@pytest.fixture
def table() -> pd.DataFrame:
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


@pytest.fixture
def trained(folder: Path, table: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> Path:
    table.to_csv("t.csv", index=False)
    options = ("--protected", "age", "--threshold", "0.9", "--hidden", "4", "--steps", "5")
    assert main(["fair", "t.csv", "--target", "outcome", *options, "--h", "1", "--k", "1"]) == 0
    capsys.readouterr()
    return folder / "hgr-jax-fair" / "model.npz"


def expected(trained: Path, table: pd.DataFrame) -> np.ndarray:
    """Predictions from the inputs as the training had them."""
    days = (pd.to_datetime(table["day"]) - pd.Timestamp("2024-01-05")).dt.days
    kinds = [table["kind"] == level for level in ("blue", "green", "red")]
    x = np.column_stack([table["age"], *kinds, days, table["size"]]).astype(float)
    return FairMLPRegressor.load(trained).predict(x)


def predict(
    capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0
) -> tuple[str, str]:
    capsys.readouterr()
    assert main(["predict", *map(str, arguments)]) == status
    said = capsys.readouterr()
    return said.out, said.err


def read(text: str) -> pd.DataFrame:
    Path("read.csv").write_text(text)
    return pd.read_csv("read.csv")


def test_predictions_of_new_rows(
    trained: Path, table: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    # Other rows, columns in another order, one more, and the target is not needed.
    new = table.iloc[5:20][["size", "kind", "day", "age"]].assign(note="x")
    new.to_parquet("new.parquet")
    out, err = predict(capsys, trained, "new.parquet")
    assert err == ""
    np.testing.assert_allclose(read(out)["prediction"], expected(trained, new), rtol=1e-7)


def test_rows_that_lack_an_input_have_no_prediction(
    trained: Path, table: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    table.loc[3, "size"] = np.nan
    table.loc[7, "kind"] = "mauve"
    table.loc[9, "day"] = None
    table.to_csv("new.csv", index=False)
    out, err = predict(capsys, trained, "new.csv", "--out", "kept/p.csv")
    assert out == f"predictions: {Path('kept') / 'p.csv'}\n"
    assert err == (
        "note: kind: 1 row(s) hold 'mauve' or another text that the model has not seen\n"
        "note: 3 row(s) lack an input and have no prediction\n"
    )
    found = pd.read_csv("kept/p.csv")["prediction"].to_numpy()
    assert np.flatnonzero(np.isnan(found)).tolist() == [3, 7, 9]
    there = ~np.isnan(found)
    np.testing.assert_allclose(found[there], expected(trained, table[there]), rtol=1e-7)

    out, err = predict(capsys, trained, "new.csv", "--out", "kept/p.csv", status=2)
    assert "kept/p.csv is there already: write to another file by --out, or over it by" in err
    predict(capsys, trained, "t.csv", "--out", "kept/p.csv", "--force")
    assert not pd.read_csv("kept/p.csv")["prediction"].isna().any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.rename(columns={"size": "seize"}), "no column 'size'; did you mean 'seize'?"),
        (lambda t: t.drop(columns="age"), "new.csv has no column 'age'"),
        (
            lambda t: t.assign(age="old"),
            "column 'age' holds text, for example 'old'; the model was trained on numbers",
        ),
        (
            lambda t: t.assign(kind=range(ROWS)),
            "column 'kind' holds numbers, for example 0; the model was trained on text ('blue',",
        ),
        (lambda t: t.assign(day=3.5), "column 'day' holds numbers, for example 3.5; the model was"),
        (lambda t: t.assign(size=t["day"]), "column 'size' holds dates, for example 2024-01-05"),
    ],
)
def test_columns_that_do_not_fit_are_one_line(
    trained: Path, table: pd.DataFrame, capsys: pytest.CaptureFixture[str], change, message: str
) -> None:
    change(table).to_csv("new.csv", index=False)
    out, err = predict(capsys, trained, "new.csv", "--out", "p.csv", status=2)
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
    assert not Path("p.csv").exists()


def test_models_that_cannot_be_read_are_one_line(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(model: object) -> str:
        out, err = predict(capsys, model, "t.csv", status=2)
        assert (out, err.count("\n")) == ("", 1)
        return err

    assert "no such file: none.npz" in refused("none.npz")
    assert "cannot read hgr-jax-fair: Is a directory" in refused("hgr-jax-fair")
    assert "t.csv is not a saved model" in refused("t.csv")
    described = trained.with_suffix(".json")
    known = json.loads(described.read_text())
    described.write_text(json.dumps(known | {"inputs": known["inputs"][:-1]}))
    assert "names 5 inputs, and" in refused(trained)
    described.write_text("{}")
    assert "does not say what the inputs of the model are (KeyError: 'inputs')" in refused(trained)


def test_models_saved_by_estimators(
    folder: Path, table: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    table[["age", "size"]].to_csv("t.csv", index=False)
    x = pd.read_csv("t.csv")
    label = np.where(table["outcome"] > 0, "=high", "low")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        named = FairMLPClassifier(**SETTINGS).fit(x[["size", "age"]], label)
        named.save("named.npz")
        out, err = predict(capsys, "named.npz", "t.csv")
        assert err == ""
        found = read(out)
        assert list(found) == ["prediction", "probability of =high", "probability of low"]
        chances = named.predict_proba(x[["size", "age"]])
        np.testing.assert_allclose(found.iloc[:, 1:], chances, rtol=1e-7)
        safe = [f"'{v}" if v == "=high" else v for v in named.predict(x[["size", "age"]])]
        assert found["prediction"].tolist() == safe  # no spreadsheet runs it

        plain = FairMLPRegressor(**SETTINGS).fit(x.to_numpy(), table["outcome"])
        plain.save("plain.npz")
        out, err = predict(capsys, "plain.npz", "t.csv")
        np.testing.assert_allclose(read(out)["prediction"], plain.predict(x.to_numpy()), rtol=1e-7)
    x.assign(more=1.5).to_csv("wide.csv", index=False)
    _, err = predict(capsys, "plain.npz", "wide.csv", status=2)
    assert "wide.csv has 3 columns; plain.npz was fitted to an array of 2, in whose" in err
