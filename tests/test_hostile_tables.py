"""Commands on tables that no one expects: an answer or one line, and no warning."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_scan_support import Command, refusal

import hgr_jax

ROWS = 60
Z = np.random.default_rng(0).normal(size=ROWS)
LARGEST = sys.float_info.max
SIGN = np.where(Z > 0, 1.0, -1.0)

COLUMNS: dict[str, Any] = {
    "near 1e15": [10**15 + i % 5 for i in range(ROWS)],
    "eighths near 1e15": 1e15 + 0.125 * (np.arange(ROWS) % 5),
    "ids": [1234567890123456789 + 97 * i for i in range(ROWS)],
    "integers of 300 digits": [(-1) ** i * 10**300 * (i + 1) for i in range(ROWS)],
    "subnormal": 1e-310 * Z,
    "smallest": 5e-324 * (np.arange(ROWS) % 4),
    "tiny": 1e-300 * Z,
    "constant": [3] * ROWS,
    "rounding": [0.3 if i % 2 else 0.1 + 0.2 for i in range(ROWS)],
    "large": 1e308 * (1 + 0.5 * np.sin(np.arange(ROWS))),
    "large of both signs": 1e308 * SIGN,
    "largest of both signs": LARGEST * SIGN,
    "one that is largest": [LARGEST, *Z[1:]],
    "all sizes": 10.0 ** np.linspace(-308, 308, ROWS) * SIGN,
    "rising to the largest": 1.7e308 * np.linspace(-1, 1, ROWS),
    "infinite": ["inf" if i % 2 else "-inf" for i in range(ROWS)],
    "many infinite": [repr(float(z)) if i % 3 else "inf" for i, z in enumerate(Z)],
    "missing": [""] * ROWS,
    "one value": [1.5] + [""] * (ROWS - 1),
    "zeros of both signs": [0.0 if i % 2 else -0.0 for i in range(ROWS)],
}

COMMANDS = {
    "scan": "scan t.csv --permutations 19",
    "scan of degree 3": "scan t.csv --h 3 --k 3 --permutations 19",
    "pair": "pair t.csv x z",
    "pair of degree 3": "pair t.csv z x --h 3",
    "pair with a category": "pair t.csv x kind",
    "pair given others": "pair t.csv y z --given x",
    "audit": "audit t.csv --prediction y --protected x",
    "audit of predictions": "audit t.csv --prediction x --protected z --measure hgr",
}


def written(x: Any, **further: Any) -> None:
    """Write a table with a column x, and perhaps further ones, beside good ones."""
    y = Z**2 + np.random.default_rng(1).normal(size=ROWS)
    columns = {"x": x, "y": y, "z": Z, "kind": ["a", "b"] * (ROWS // 2), **further}
    values = (
        column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values()
    )
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*values, strict=True))]
    Path("t.csv").write_text("\n".join([*lines, ""]))


def check(command: Command, line: str) -> None:
    """Run a command: it works without a warning, or says why not in its last line."""
    said = command(*shlex.split(line))
    assert said.status in (0, 2), said
    for text in ("Traceback", "Warning", "a fault of hgr-jax"):
        assert text not in said.err
    if said.status == 2:
        assert said.err.splitlines()[-1].startswith("hgr-jax: error: ")
    else:
        assert "nan" not in said.out.replace("nan,", "").lower() or "--json" in line
        assert "+- inf" not in said.out


@pytest.mark.filterwarnings("error")
def test_a_scan_of_columns_of_any_numbers(folder: Path, command: Command) -> None:
    written(Z**3, **COLUMNS)
    for name in ("scan", "scan of degree 3"):
        check(command, f"{COMMANDS[name]} --out '{name}'")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "name",
    [
        *("pair", "pair with a category", "audit"),
        pytest.param("pair of degree 3", marks=pytest.mark.slow),
    ],
)
def test_columns_of_any_numbers(folder: Path, command: Command, name: str) -> None:
    line = COMMANDS[name]
    for place, column in enumerate(COLUMNS.values()):
        written(column)
        check(command, line if line.startswith("audit") else f"{line} --out {place}")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("line", COMMANDS.values(), ids=COMMANDS)
def test_tables_of_any_shape(folder: Path, command: Command, line: str) -> None:
    tables = (
        "",
        "\n",
        "x",
        "x,y,z,kind\n",
        "x,y,z,kind\n1,2,3,a\n",
        "x,y,z,kind\n1,2,3,a\n2,1,0,b\n",
        "x\n1\n2\n3\n",
        "x,x,x\n1,2,3\n",
        "x,y,z,kind\n" + ",,,\n" * 30,
        "x,y,z,kind\n" + "1,1,1,a\n" * 30,
        "x,y,z,kind\n" + "".join(f"{i},{i},{i},k{i}\n" for i in range(30)),
    )
    for place, text in enumerate(tables):
        Path("t.csv").write_text(text)
        check(command, line if line.startswith("audit") else f"{line} --out {place}")


def test_numbers_whose_squares_overflow_are_refused(folder: Path, command: Command) -> None:
    for name, reason in (
        ("one that is largest", "column 'x' cannot be used: it holds 1.79769e+308, beyond 1e+150"),
        ("subnormal", "its range is 4.29e-310, below 1e-150"),
    ):
        written(COLUMNS[name])
        for line in ("audit", "pair"):
            assert reason in refusal(command, *COMMANDS[line].split())
    written(["-1e308" if i == 7 else i % 9 for i in range(ROWS)])
    assert "it holds -1e+308, beyond" in refusal(command, *COMMANDS["audit"].split())
    assert command(*COMMANDS["audit"].split(), "--na=-1e308").status == 0


def test_columns_asked_for_that_cannot_be_used(folder: Path, command: Command) -> None:
    written(COLUMNS["constant"])
    for option in ("target", "given", "categories"):
        value = "'3'" if option == "categories" else "3"
        reason = f"cannot be used: every value that is present is {value}."
        said = refusal(command, "scan", "t.csv", f"--{option}", "x")
        assert said == f"hgr-jax: error: {option} column 'x' {reason}\n"
        with pytest.raises(ValueError, match=f"{option} column 'x' {reason}"):
            hgr_jax.scan({"x": [3.0] * ROWS, "z": Z, "y": Z**2}, **{option: ["x"]})
    kinds = {"x": Z, "kind": ["a", "b"] * (ROWS // 2), "y": Z**2}
    with pytest.raises(ValueError, match="target column 'kind' cannot be used: a category; this"):
        hgr_jax.scan(kinds, measure="pearson", target="kind")
    assert len(hgr_jax.scan(kinds | {"c": [1.0] * ROWS}, among=["x", "c", "kind"])) == 1
