"""CSV files read in batches: every name, kind, value, note and error as of the whole file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import hgr_jax
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.files import read_table
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.sources import of_files
from tests.sources_support import same_meaning
from tests.tables_support import read_twice

ROWS = 120

NUMBERS = [f"{i % 7 - i / 9:.4f}" for i in range(ROWS)]
"""Every file has them beside its own column."""

COLUMNS: dict[str, list[str]] = {
    "decimal commas": [f"{i / 7:.2f}".replace(".", ",") for i in range(ROWS)],
    "money": [f"${1000 * i / 7:,.2f}" for i in range(ROWS)],
    "German money": [f"{1000 * i / 7:_.2f}".translate({46: 44, 95: 46}) for i in range(ROWS)],
    "per cent": [f"{i / 7:.1f}%" for i in range(ROWS)],
    "dates": [f"{1 + i % 28:02}.{1 + i % 12:02}.2023" for i in range(ROWS)],
    "ISO dates": [f"2023-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(ROWS)],
    "ISO dates and one that does not exist": ["2023-02-30", *["2023-02-01", "2023-02-03"] * 60],
    "zones": [f"2023-01-{1 + i % 28:02}T10:00:00+0{i % 3}:00" for i in range(ROWS)],
    "month names": [f"{1 + i % 28} Mar 2023" for i in range(ROWS)],
    "times": [f"{i % 24}:{i % 60:02}" for i in range(ROWS)],
    "flags": [["true", "False"][i % 2] for i in range(ROWS)],
    "flags and gaps": [["true", "False", ""][i % 3] for i in range(ROWS)],
    "few odd texts": [*(str(i) for i in range(ROWS - 5)), *["many", "12 kg", "-", "--", "?"]],
    "decimals late": [*(str(i) for i in range(ROWS - 1)), "0.5"],
    "commas late": [*(str(i) for i in range(ROWS - 1)), "0,5"],
    "thousands in doubt": [f"1,{i:03}" for i in range(ROWS)],
    "points in doubt": [f"1.{i:03}" for i in range(ROWS)],
    "large integers": [str(2**53 + i) for i in range(ROWS)],
    "words": [["low", "high", "n/a", ""][i % 4] for i in range(ROWS)],
    "words with digits": [f"zone {i % 3}" for i in range(ROWS)],
    "identifiers": [f"row {i}" for i in range(ROWS)],
    "infinite": [*(str(i) for i in range(ROWS - 2)), "inf", "-Infinity"],
    "one value": ["1.463"] * ROWS,
    "no value": ["NA"] * ROWS,
    "lines in quotes": ['"two\nlines"', '"a ""b"", c"', "plain"] * 40,
    "quotes in the middle": ['5" pipe', '7" pipe', "none"] * 40,
    "accents": ["gr\u00f6\u00dfe", "h\u00f6he", "breite"] * 40,
}


def write(path: Path, name: str, **how: str) -> None:
    texts = COLUMNS[name]
    delimiter = ";" if any("," in text for text in texts) or "in doubt" in name else ","
    if "in doubt" in name:  # and another column shows which decimal point the file has
        texts = [f"{text}{delimiter}{i},5" for i, text in enumerate(texts)]
    head = delimiter.join(["x", name, "z"] if "in doubt" in name else ["x", name])
    rows = [f"{x}{delimiter}{text}" for x, text in zip(NUMBERS, texts, strict=False)]
    path.write_text("\n".join([head, *rows, ""]), **how)


@pytest.mark.parametrize("name", COLUMNS)
def test_batches_change_nothing(name: str, tmp_path: Path) -> None:
    write(tmp_path / "t.csv", name)
    read_twice(tmp_path / "t.csv")


def test_names_that_differ_in_case(tmp_path: Path) -> None:
    rows = [f"{i},{-i},a{i % 3}" for i in range(ROWS)]
    (tmp_path / "t.csv").write_text("\n".join(['x,X,"x "" y"', *rows, ""]))
    frame = read_twice(tmp_path / "t.csv")
    assert frame.column("X")[1] == -1


def test_packed_files(tmp_path: Path) -> None:
    write(tmp_path / "t.csv", "money")
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress((tmp_path / "t.csv").read_bytes()))
    read_twice(packed)
    whole = hgr_jax.scan(packed, h=3, k=3)
    same_meaning(hgr_jax.scan(of_files(packed, Reading()), h=3, k=3), whole)  # type: ignore


@pytest.mark.parametrize(
    "body",
    [
        "x,y\n" + "1,2\n" * 100 + "\n  \n3,4,5\n" + "1,2\n" * 9,
        'x,y\n"a\nb",1\n' + "1,2\n" * 100 + '3,"4\n' + "1,2\n" * 9,
        "x,y\n" + "1,2\n" * 100 + '3,"4\n5" 6,7\n' + "1,2\n" * 9,
        "x,y\n" + "1,2\n" * 100 + "3,\0\n",
        "x,y\n",
        "x,y",
        "\n\n",
        "\0" * 2000,
        "",
    ],
)
def test_faults_are_those_of_the_whole(body: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(body)
    with pytest.raises(TableError) as whole:
        read_table(tmp_path / "t.csv")
    with pytest.raises(TableError) as of_batches:
        of_files(tmp_path / "t.csv", Reading())
    assert str(of_batches.value) == str(whole.value)


def test_quotes_late_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "1,2\n" * 50 + '3,"4\n' + "1,2\n" * 500)
    with pytest.raises(TableError, match="line 52: a quote is opened here and never closed"):
        of_files(path, Reading())
    for body in ('3,5" pipe', '"3" and,5', '3,"a\nb"'):
        path.write_text("x,y\n" + "1,2\n" * 50 + f"{body}\n" + "1,2\n" * 500)
        assert of_files(path, Reading()).rows == read_table(path).rows == 551


def test_options_of_reading(tmp_path: Path) -> None:
    rows = [f"{i};1,{100 + i % 7};{[-99, i % 3][i % 9 > 0]}" for i in range(ROWS)]
    for place in range(2):
        (tmp_path / f"{place}.csv").write_text("\n".join(rows))
    found = of_files(tmp_path, Reading(na=["-99"], decimal=",", header=False))
    scan = hgr_jax.scan(found, h=2, k=2, test=None)  # type: ignore
    assert scan.names == ("column 1", "column 2", "column 3")
    assert scan["column 1", "column 3"].n_obs == 2 * ROWS - 2 * 14
    assert scan.values("column 2").max() == 1.106


def test_lines_of_several_files(tmp_path: Path) -> None:
    """What a column holds is decided from all files; the first odd text is in the second."""
    for place, odd in enumerate(["3", "odd"]):
        (tmp_path / f"{place}.csv").write_text("x,y\n" + "1,2\n2,1\n" * 50 + f"{odd},2\n")
    found = hgr_jax.scan(tmp_path, h=1, k=1, test=None)
    assert found.notes["x"].endswith(f"'odd' in line 102 of {tmp_path}/1.csv")
