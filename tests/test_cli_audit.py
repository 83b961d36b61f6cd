"""``hgr-jax audit``: its table, statements and status, and its line for whatever cannot be done."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli_scan_support import Command, refusal

from hgr_jax.fairness import HGR, KB, SK, Penalty, certify

ROWS = 800
Columns = dict[str, np.ndarray]


@pytest.fixture
def columns(folder: Path) -> Columns:
    """A table of predictions, written to ``p.csv``: a row lacks its prediction, one its job."""
    rng = np.random.default_rng(0)
    found: dict[str, Any] = {
        "sex": rng.choice(["f", "m"], ROWS),
        "job": rng.choice(["a", "b", "rare", "rarer"], ROWS, p=[0.5, 0.48, 0.01, 0.01]),
        "age": rng.normal(45, 12, ROWS).round(2),
        "late": rng.choice(["no", "yes"], ROWS),
        "person": np.array([f"k{i // 2}" for i in range(ROWS)]),
    }
    effect = 0.8 * (found["sex"] == "f") + 1.5 * (found["late"] == "yes")
    found["score"] = (1 / (1 + np.exp(0.8 - effect + rng.normal(size=ROWS)))).round(4)
    found["loan"] = np.where(found["score"] > 0.5, "yes", "no")
    found["income"] = (9 * found["score"] + rng.normal(size=ROWS)).round(3)
    with (folder / "p.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(found)
        rows = [list(map(str, row)) for row in zip(*found.values(), strict=True)]
        rows[3][5], rows[4][1] = "", ""
        writer.writerows(rows)
    kept = ~np.isin(np.arange(ROWS), [3])
    return {name: column[kept] for name, column in found.items()}


def audit(*options: object) -> tuple[object, ...]:
    return ("audit", "p.csv", "--prediction", "score", *options)


def test_bounds_and_statements(columns: Columns, command: Command) -> None:
    said = command(*audit("--protected", "sex", "--protected", "age", "--target", "late"))
    assert (said.status, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0] == (
        f"p.csv: {ROWS - 1} rows; 1 of {ROWS} have a missing or infinite value and are left out:"
        " in score (1)"
    )
    assert lines[1].startswith("AUC of late: 0.8")
    attributes = pd.DataFrame({name: columns[name] for name in ("sex", "age")})
    first, second = certify(columns["score"], attributes, 1.0)
    table = [line.split() for line in lines if line.startswith(("sex", "age"))]
    assert table == [
        ["sex", "HGR-KB(1,", "5)", f"{first.value:.3f}", f"{first.bound:.3f}"],
        ["age", "HGR-KB(5,", "5)", f"{second.value:.3f}", f"{second.bound:.3f}"],
    ]
    words = " ".join(said.out.split())
    assert (
        "P(the bound of age is below the value in the population) <= 1 - level = 0.025, if" in words
    )
    assert "all 2 bounds together: with level 0.95, as each has 0.975" in words


def test_a_threshold_sets_the_status(columns: Columns, command: Command) -> None:
    high, low = (
        command(*audit("--protected", "age", "--threshold", threshold)) for threshold in (0.5, 0.01)
    )
    assert (high.status, low.status) == (0, 1)
    words = " ".join(high.out.split())
    assert "certified: at most 0.5" in words
    assert "P(a model is returned and breaks its threshold) <= 1 - level = 0.05, if" in words
    assert "not known to be at most 0.01" in " ".join(low.out.split())
    assert low.out.endswith("not certified: at most 0.01\n")
    assert "not certified" not in high.out
    both = command(*audit("--protected", "age", "--protected", "sex", "--threshold", 0.25))
    assert both.status == 1
    assert " certified\n" in both.out
    assert " not certified\n" in both.out


@pytest.mark.parametrize(
    ("options", "penalty", "others"),
    [
        (("--measure", "sk", "--k", 2), Penalty(SK(2), 1.0), {}),
        (("--h", 2, "--k", 3, "--level", 0.8), Penalty(KB(2, 3), 1.0), {"level": 0.8}),
        (("--measure", "hgr", "--groups", "person"), Penalty(HGR(), 1.0), {"groups": "person"}),
        (
            ("--target", "income", "--given", 3),
            Penalty(KB(), 1.0, given=3),
            {"y": "income"},
        ),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, tuple) else "",
)
def test_options_of_numbers(
    columns: Columns, command: Command, options: Any, penalty: Penalty, others: dict[str, Any]
) -> None:
    said = command(*audit("--protected", "age", *options))
    assert said.status == 0, said.err
    others = {n: columns.get(v, v) if isinstance(v, str) else v for n, v in others.items()}
    found = certify(columns["score"], columns["age"], penalty, **others)
    (line,) = [line for line in said.out.splitlines() if line.startswith("age")]
    assert line.split()[-2:] == [f"{found.value:.3f}", f"{found.bound:.3f}"]
    assert found.measure in line
    assert ("R2 of income: " in said.out) == ("income" in options)


def test_decisions_of_text(columns: Columns, command: Command) -> None:
    options = ("--measure", "demographic_parity", "--target", "late")
    given = ("--given", "classes", "--threshold", 0.9)
    said = command("audit", "p.csv", "--prediction", "loan", "--protected", "sex", *options, *given)
    assert said.status == 0
    assert "note: loan is 1 where it is 'yes'" in said.out
    assert "at most 0.9 (upper bound 0." in " ".join(said.out.split())
    assert " for late=" in " ".join(said.out.split())


def test_small_levels_are_named(columns: Columns, command: Command) -> None:
    said = command(*audit("--protected", "job", "--threshold", 0.9))
    assert said.status == 1
    assert "independent rows of the level(s) 'rare' (" in " ".join(said.out.split())
    assert "in job (1), score (1)" in said.out


def test_what_cannot_be_audited(columns: Columns, command: Command) -> None:
    for expected, options in (
        ("column 'score' is --prediction, and something else too", ("--protected", "score")),
        (
            "column 'age' is --protected, and something else",
            ("--protected", "age", "--target", "age"),
        ),
        ("--given needs --target", ("--protected", "age", "--given", "classes")),
        ("expected an integer from 2", ("--protected", "age", "--given", "some")),
        (
            "demographic parity compares levels, and age has",
            ("--protected", "age", "--measure", "demographic_parity"),
        ),
        (
            "column 'person' holds text of 400 different",
            ("--prediction", "person", "--protected", "age"),
        ),
    ):
        assert expected in refusal(command, *audit(*options)), expected
