"""Commands that cannot do what they are asked for: one line, and nothing written."""

from __future__ import annotations

import shlex
import string
from pathlib import Path

import pytest
from cli_scan_support import Command, refusal

NUMBERS = "x,y\n1,2\n2,1\n"
LEVELS = string.ascii_letters[:40]


def rows(**columns: str) -> str:
    """Forty rows, whose columns repeat the letters of a text."""
    texts = {"age": "0123456789", "height": "9147", "y": "26374859"} | columns
    lines = [",".join(text[i % len(text)] for text in texts.values()) for i in range(40)]
    return "\n".join([",".join(texts), *lines, ""])


AUDIT = "audit t.csv --prediction y --protected age "
FAULTS: list[tuple[str, str | bytes, str]] = [
    # Files
    ("pair none.csv x y", NUMBERS, "no such file: none.csv"),
    ("pair t.csv x y", "", "t.csv is empty"),
    ("pair t.csv x y", "x,y\n", "header but no rows"),
    ("pair t.csv x y", "x,y\n1,2\n", "column 'x' cannot be used: every value that is present"),
    ("scan t.csv", "x,y\n1,2\n2,3,4\n", "t.csv, line 3: expected 2 values as in the header"),
    ("scan t.csv", bytes(range(256)), "t.csv is not a text file (line 1 holds"),
    ("scan t.parquet", NUMBERS, "t.parquet cannot be read as Parquet: "),
    ("scan made", NUMBERS, "cannot read made: "),
    ("scan t.csv --out t.csv", NUMBERS, "error: cannot write to t.csv: it is a file"),
    *(
        (f"{line} --out t.csv/in", rows(), "cannot write to t.csv/in: t.csv is a file")
        for line in ("demo", "scan t.csv", "pair t.csv age y")
    ),
    *(
        (f"{line} --out ' '", NUMBERS, "argument --out: expected the name of a file or folder, got")
        for line in ("demo", "scan t.csv", "pair t.csv x y")
    ),
    *(
        (f"{line} ''", NUMBERS, "argument FILE: expected the name of a")
        for line in ("scan", "audit")
    ),
    ("scan t.csv --sheet 2", NUMBERS, "sheet is for workbooks: leave it out for t.csv (CSV)"),
    (
        "pair t.csv x y --table t",
        NUMBERS,
        "table is for databases and JSON: leave it out for t.csv",
    ),
    (
        "scan t.csv --encoding x",
        NUMBERS,
        "encoding must be one that Python knows, such as 'cp1250'",
    ),
    # Columns
    ("pair t.csv x y", "x,y\n1,red\n", "column 'x' cannot be used: every value that is present is"),
    ("pair t.csv x y", "x,y\n1,\n2,NA\n", "column 'y' cannot be used: no value is present"),
    ("pair t.csv prise size", "price,size\n1,2\n", "did you mean 'price'"),
    ("pair t.csv 'z\x1b[0m' y", "x\x1b[31m,y\n1,2\n", "no column 'z\\x1b[0m'"),
    ("pair t.csv y y", rows(y="ab"), "expected columns that differ, got y, y"),
    ("scan t.csv --target z", NUMBERS, "target 'z' is not a column; there are x"),
    ("scan t.csv --target z", "x\x1b[31m,y\n1,2\n2,1\n", "there are x\\x1b[31m, y."),
    ("scan t.csv --categories 'z\x1b'", NUMBERS, "no column of the table: ['z"),
    (AUDIT + "--protected ahe", rows(), "has no column 'ahe'; did you mean 'age'?"),
    (AUDIT + "--target income", rows(), "has no column 'income'"),
    (AUDIT, rows(age="3"), "age must vary, or nothing can depend on it: it is 3.0 in all 40 rows"),
    (AUDIT, rows(y="?"), "t.csv has no row with a value in each of age, y\n"),
    (AUDIT, rows(y="abc"), "column 'y' holds text of 3 different values; predictions must be"),
    # Options
    ("scan t.csv --types x", NUMBERS, "--types: expected COLUMN=TYPE, got 'x'"),
    ("scan t.csv --h 0", NUMBERS, "--h: expected an integer from 1 to 50"),
    ("scan t.csv --seed -1", NUMBERS, "--seed"),
    ("scan t.csv --sort size", NUMBERS, "--sort: invalid choice: 'size'"),
    (AUDIT + "--threshold 0", rows(), "--threshold: expected a number in (0, 1], got '0'"),
    (AUDIT + "--threshold nan", rows(), "--threshold: expected a number in (0, 1]"),
    (AUDIT + "--level 1", rows(), "--level: expected a number in (0, 1), got '1'"),
    (AUDIT + "--measure '\x1b[31m'", rows(), "invalid choice"),
]


@pytest.mark.parametrize(("line", "content", "message"), FAULTS)
def test_what_cannot_be_done_is_one_line(
    folder: Path, command: Command, line: str, content: str | bytes, message: str
) -> None:
    name = "t.parquet" if "t.parquet" in line else "t.csv"
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    Path("made").mkdir()
    assert message in refusal(command, *shlex.split(line))
    assert sorted(path.name for path in folder.rglob("*")) == sorted(["made", name])
