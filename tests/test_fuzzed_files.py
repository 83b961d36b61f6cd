"""Damaged files of every format: each is a table, or an error of one line."""

from __future__ import annotations

import bz2
import contextlib
import functools
import gzip
import io
import json
import random
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from tables_support import ods, ods_row, write, zipped

from hgr_jax.tables import isolated
from hgr_jax.tables.columns import Frame
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.files import read_table

TABLE = {
    "x": [1.5, None, *range(40)],
    "day": [f"2024-01-{i % 28 + 1:02}" for i in range(42)],
    "town": ["Rome", 'Os"lo', "", "São, Paulo", "a\nb", "Köln"] * 7,
}
CSV = pd.DataFrame(TABLE).to_csv(index=False).encode()


def of_pandas(name: str, method: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        getattr(pd.DataFrame(TABLE), method)(path)
        return path.read_bytes()


def of_sqlite() -> bytes:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE t (x, day, town)")
        database.executemany("INSERT INTO t VALUES (?, ?, ?)", zip(*TABLE.values(), strict=True))
        database.commit()
        return database.serialize()


def of_duckdb() -> bytes:
    duckdb = pytest.importorskip("duckdb")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.duckdb"
        with contextlib.closing(duckdb.connect(path)) as database:
            database.execute("CREATE TABLE t AS SELECT range AS x, 'a' || x AS y FROM range(99)")
        return path.read_bytes()


def of_excel() -> bytes:
    pytest.importorskip("python_calamine")
    return of_pandas("t.xlsx", "to_excel")


def of_open_document() -> bytes:
    pytest.importorskip("python_calamine")
    rows = zip(*TABLE.values(), strict=True)
    return ods(
        f'<table:table table:name="t">{"".join(ods_row(*row) for row in rows)}</table:table>'
    )


def of_pyreadstat(name: str, function: str) -> bytes:
    pyreadstat = pytest.importorskip("pyreadstat")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        frame = pd.DataFrame(TABLE).replace("[^ -~]", " ", regex=True)  # .por is ASCII
        getattr(pyreadstat, function)(frame, str(path))
        return path.read_bytes()


RECORDS = [dict(zip(TABLE, row, strict=True)) for row in zip(*TABLE.values(), strict=True)]
FILES: dict[str, Callable[[], bytes]] = {
    "t.csv": lambda: CSV,
    "t.csv.gz": lambda: gzip.compress(CSV, mtime=0),
    "t.csv.bz2": lambda: bz2.compress(CSV),
    "t.zip": lambda: zipped({"t.csv": CSV}),
    "t.xlsx": of_excel,
    "t.ods": of_open_document,
    "t.json": lambda: json.dumps(RECORDS).encode(),
    "t.jsonl": lambda: "\n".join(map(json.dumps, RECORDS)).encode(),
    "t.parquet": functools.partial(of_pandas, "t.parquet", "to_parquet"),
    "t.feather": functools.partial(of_pandas, "t.feather", "to_feather"),
    "t.sqlite": of_sqlite,
    "t.duckdb": of_duckdb,
    "t.sav": functools.partial(of_pyreadstat, "t.sav", "write_sav"),
    "t.por": functools.partial(of_pyreadstat, "t.por", "write_por"),
    "t.dta": functools.partial(of_pyreadstat, "t.dta", "write_dta"),
    "t.xpt": functools.partial(of_pyreadstat, "t.xpt", "write_xport"),
}


def truncated(body: bytes, chance: random.Random) -> bytes:
    return body[: chance.randrange(len(body))]


def flipped(body: bytes, chance: random.Random) -> bytes:
    changed = bytearray(body)
    for _ in range(chance.choice((1, 3, 30))):
        changed[chance.randrange(len(body))] = chance.randrange(256)
    return bytes(changed)


def cut(body: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(body))
    return body[:start] + body[start + chance.choice((1, 10, 1000)) :]


def doubled(body: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(body))
    return body[: start + chance.choice((10, 1000))] + body[start:]


def with_zeros(body: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(body))
    return body[:start] + bytes(chance.choice((1, 100))) + body[start:]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged file may keep its library for ever."""
    monkeypatch.setattr(isolated, "TIME_LIMIT", 4)


MUTATIONS = (truncated, flipped, cut, doubled, with_zeros)


def check_outcome(path: Path) -> None:
    """Read a file: a frame, or an error of one line that names the file."""
    try:
        frame = read_table(path)
    except TableError as error:
        text = str(error)
        assert path.name in text
        assert "\n" not in text
        assert text.isprintable()
        assert len(text) < 2000
    else:
        assert isinstance(frame, Frame)
        assert {len(column) for column in frame.columns.values()} == {frame.rows}


def check_mutations(name: str, folder: Path, seeds: range) -> None:
    body = FILES[name]()
    for seed in seeds:
        chance = random.Random(f"{name} {seed}")
        content = body
        for mutation in chance.sample(MUTATIONS, chance.choice((1, 1, 2))):
            content = mutation(content or b"\n", chance)
        path = write(folder, content, name)
        try:
            check_outcome(path)
        except BaseException as error:
            error.add_note(f"{name}, seed {seed}")
            raise


@pytest.mark.parametrize("name", FILES)
def test_damaged_files(name: str, tmp_path: Path) -> None:
    check_mutations(name, tmp_path, range(8))


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_many_damaged_files(name: str, tmp_path: Path) -> None:
    check_mutations(name, tmp_path, range(8, 130))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t.xlsx", "t.ods"])
def test_damaged_sheets_in_sound_archives(name: str, tmp_path: Path) -> None:
    """The checksums of an archive keep a reader from most damage; here they fit."""
    with zipfile.ZipFile(io.BytesIO(FILES[name]())) as archive:
        files = {member: archive.read(member) for member in archive.namelist()}
    sheets = [member for member in files if "sheet" in member or "content" in member]
    for seed in range(150):
        chance = random.Random(f"{name} {seed}")
        member = chance.choice(sheets)
        damaged = chance.choice(MUTATIONS)(files[member], chance)
        check_outcome(write(tmp_path, zipped({**files, member: damaged}), name))
