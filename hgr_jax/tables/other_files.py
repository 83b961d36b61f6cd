"""Read tables of JSON, Parquet, Feather and databases: names, columns, and a note."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hgr_jax._optional import require
from hgr_jax.tables.arrays import as_frame, from_frame
from hgr_jax.tables.arrow_columns import arrow, parquet_categories, with_categories
from hgr_jax.tables.databases import choose_table, duckdb_table, sqlite_columns
from hgr_jax.tables.faults import TableError, printable, unreadable
from hgr_jax.tables.isolated import call_isolated
from hgr_jax.tables.levels import Unusable, object_array
from hgr_jax.tables.packed import Contents
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.text_files import as_text

NamedColumns = tuple[Sequence[Any], list[Any], str]
"""Names, columns for `parse_column`, and a note on the file."""

MAX_NESTED_SHOWN = 40
"""Number of characters of a nested value in messages."""


def read_arrow(contents: Contents, kind: str, wanted: str | None) -> NamedColumns:
    """Read Parquet, Feather, or the ``wanted`` table of DuckDB."""
    note, shown = "", contents.shown
    if kind == "DuckDB":
        require("duckdb")
        table, note = call_isolated(duckdb_table, contents.path, shown, wanted, kind=kind)
    else:
        reader = require("pyarrow.parquet" if kind == "Parquet" else "pyarrow.feather")
        try:
            if kind == "Parquet":
                with reader.ParquetFile(contents.path) as file:
                    table = with_categories(file.read(), parquet_categories(file.metadata))
            else:
                table = reader.read_table(contents.path, memory_map=False)
            table.validate(full=True)  # damaged texts raise anything where they are read
        except (OSError, arrow().ArrowException) as error:
            raise unreadable(shown, kind, error) from None
    frame, names = as_frame(table)
    return names, [from_frame(frame, place) for place in range(len(names))], note


def read_sqlite(contents: Contents, wanted: str | None) -> NamedColumns:
    """Read the ``wanted`` table of SQLite."""
    path, shown = contents.path, contents.shown
    names, columns, note = call_isolated(sqlite_columns, path, shown, wanted, kind="SQLite")
    binary = Unusable("binary data (BLOB), neither numbers nor text")
    have_bytes = [bytes in set(map(type, values)) for values in columns]
    values = map(object_array, columns)
    return names, [binary if has else x for has, x in zip(have_bytes, values, strict=True)], note


def read_json(contents: Contents, kind: str, reading: Reading) -> NamedColumns:
    """Read JSON: records, records under a key, a record a line, columns by name."""
    shown = contents.shown
    text, note = as_text(contents.path, shown, reading.encoding)
    if not text.strip():
        raise TableError(f"{shown} is empty: expected records")
    try:
        content, chosen = _find_table(_parse_json(text, kind, shown), shown, reading)
    except RecursionError:
        raise TableError(f"{shown}: its values are nested too deeply") from None
    names, columns = _columns_of(content, shown)
    return names, list(map(_flat, columns)), "; ".join(filter(None, [note, chosen]))


def _parse_json(text: str, kind: str, shown: str) -> Any:
    """Parse a value, or one after the other."""
    # An integer of more digits than Python reads is infinite.
    decoder = json.JSONDecoder(parse_int=lambda x: int(x) if len(x) < 400 else float(x))
    values, place, text = [], 0, text.rstrip()
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        try:
            value, place = decoder.raw_decode(text, place)
        except json.JSONDecodeError as error:
            raise TableError(f"{shown}, line {error.lineno}: not JSON: {error.msg}") from None
        values.append(value)
    return values[0] if kind == "JSON" and len(values) == 1 else values


def _find_table(content: Any, shown: str, reading: Reading) -> tuple[Any, str]:
    """Return what holds the table, and a note if there are other tables."""
    tables = []
    if isinstance(content, Mapping):
        if _is_list_of(content.get("features"), Mapping):  # GeoJSON
            return [feature.get("properties") or {} for feature in content["features"]], ""
        tables = [key for key, value in content.items() if _is_list_of(value, Mapping)]
    if reading.table is None:
        if not tables:
            return content, ""
        if "data" in tables:
            return content["data"], ""
    table, note = choose_table(tables, shown, reading.table)
    return content[table], note


def _is_list_of(value: Any, kind: Any) -> bool:
    """Return whether a value is a list of such values, at least one."""
    return isinstance(value, list) and bool(value) and all(isinstance(v, kind) for v in value)


def _columns_of(content: Any, shown: str) -> tuple[list[str], list[list[Any]]]:
    """Return the names and the columns of a table."""
    if isinstance(content, Mapping) and content:
        columns = list(content.values())
        if all(isinstance(column, Mapping) for column in columns):  # by name and row
            rows = dict.fromkeys(row for column in columns for row in column)
            return list(content), [[column.get(row) for row in rows] for column in columns]
        if not all(isinstance(column, list) for column in columns):
            content = [content]
        elif len(set(map(len, columns))) > 1:
            raise TableError(f"{shown} has columns of different lengths")
        else:
            return list(content), columns
    if isinstance(content, list) and all(isinstance(record, Mapping) for record in content):
        names = list(dict.fromkeys(name for record in content for name in record))
        return names, [[record.get(name) for record in content] for name in names]
    raise TableError(f'{shown}: expected records, as in [{{"x": 1}}, {{"x": 2}}], or one a line')


def _flat(values: Sequence[Any]) -> Any:
    """Return a column as an array of objects, or why it cannot be used."""
    nested = next((value for value in values if isinstance(value, Mapping | list)), None)
    if nested is None:
        # Half a character has an escape in JSON, and is in no file.
        texts = (v.encode(errors="replace").decode() if isinstance(v, str) else v for v in values)
        return object_array([*texts])
    text = json.dumps(nested)
    dots = "..." if len(text) > MAX_NESTED_SHOWN else ""
    return Unusable(
        f"nested values such as {printable(text[:MAX_NESTED_SHOWN])}{dots}, neither numbers"
        " nor text: make a column of each of their parts"
    )
