"""Plain numbers and dates that are read at once mean what they mean one by one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tables_support import write

from hgr_jax.tables import files, text_columns
from hgr_jax.tables.files import read_table
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.sources import of_files

ROWS = 450
BEGIN = {
    "decimals": [f"{i / 8 + 0.5:.2f}" for i in range(ROWS)],
    "commas": [f"{i / 8:.1f}".replace(".", ",") for i in range(ROWS)],
    "integers": [str(7 * i) for i in range(ROWS)],
    "small integers": [str(100 + i % 800) for i in range(ROWS)],
    "zeros": ["0"] * ROWS,
    "dates": [f"2021-0{i % 9 + 1}-{i % 28 + 1:02} 10:{i % 60:02}" for i in range(ROWS)],
    "gaps": ["NA" if i % 3 else f"{i / 4}" for i in range(ROWS)],
}
"""First cells of a column, of one kind."""

LATE = {
    "nothing else": [],
    "words": [f"word {i}" for i in range(900)],
    "few words": ["n.d.", "odd", "NA", "nan", "-", ""] * 5,
    "a zero first": ["00501", "007"] * 3,
    "underscores": ["1_000", "2_5"],
    "three digits after a point": [f"1.{i + 101}" for i in range(700)],
    "other points": ["1.234,5", "2.5", "0,25", "1,234", "1,234.5"],
    "days that are none": ["2021-02-30", "2021-2-3", "2021/02/03", "2021-02-03T10:00Z"],
    "zones": ["2021-02-03T10:00:00.0+02:00", "2021-02-03 10:00+02", "0000-01-01"],
    "many digits": ["12345678901234567890", "9007199254740993"],
    "signs and powers": ["+5", "-1e3", ".5", "5.", "inf", "-Infinity", " 7 ", "0x10", "1d5"],
}
"""Cells after those."""


@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("begin", BEGIN)
def test_values_are_those_of_texts(
    begin: str, late: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [*BEGIN[begin], *LATE[late]]
    path = write(tmp_path, "\n".join(["x;y", *(f"{x};{i}" for i, x in enumerate(cells)), ""]))
    found = read_table(path)
    of_batches = of_files(path, Reading())
    monkeypatch.setattr(files, "FIRST_ROWS", 0)
    expected = read_table(path)
    assert (found.notes, found.skipped) == (expected.notes, expected.skipped)
    for name, column in expected.columns.items():
        np.testing.assert_array_equal(found.columns[name], column)
    assert of_batches.rows == expected.rows


def test_a_text_file_is_read_without_pandas(tmp_path: Path) -> None:
    path = write(tmp_path, "x,day,town\n1.5,2021-02-03,Rome\n,,\n2.5,2021-02-04,Oslo\n")
    code = "import sys, hgr_jax; hgr_jax.read_table(sys.argv[1]); sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code, path], check=False).returncode == 0


def test_forms_of_first_texts() -> None:
    forms = {
        "integers": ["1", "20", "-3"],
        "dates of digits": ["20210203", "20210304"],
        "identifiers": ["1234567890123456"],
        "thousands or decimals": ["1.234", "5.678"],
        "nothing": ["", "NA"],
    }
    hints = text_columns.Hints()
    found = {name: text_columns._form_of(texts, hints) for name, texts in forms.items()}
    assert [name for name, form in found.items() if form] == ["integers"]
