"""Read JSON: records, records under a key, a record a line, columns by name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hgr_jax.tables.databases import choose_table
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.levels import Unusable, object_array
from hgr_jax.tables.packed import Contents
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.text_files import as_text

MAX_NESTED_SHOWN = 40
"""Number of characters of a nested value in messages."""


def read_json(
    contents: Contents, kind: str, reading: Reading
) -> tuple[list[str], list[Any], list[tuple[str, str]]]:
    """Read JSON: names, columns of objects, and notes."""
    shown = contents.shown
    with contents.on_disk() as path:
        text, note = as_text(path, shown, reading.encoding)
    try:
        content, chosen = _find_table(_parse_json(text, kind, shown), shown, reading)
    except RecursionError:
        raise TableError(f"{shown}: its values are nested too deeply") from None
    names, columns = _columns_of(content, shown)
    if "\\ud" in text.lower():  # the escape of half a character
        names, *columns = (list(map(_whole, values)) for values in (names, *columns))
    return names, list(map(_flat, columns)), [(shown, note), (shown, chosen)]


def _parse_json(text: str, kind: str, shown: str) -> Any:
    """Parse a value, or one in each line."""
    if not text.strip():
        raise TableError(f"{shown} is empty: expected records")
    if kind == "JSON":
        try:
            return _loads(text)
        except json.JSONDecodeError as error:
            if not error.msg.startswith("Extra data"):
                raise TableError(f"{shown}, line {error.lineno}: not JSON: {error.msg}") from None
    records = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            records += [_loads(line)] if line.strip() else []
        except json.JSONDecodeError as error:
            raise TableError(f"{shown}, line {number}: not JSON: {error.msg}") from None
    return records


def _loads(text: str) -> Any:
    """Parse JSON; an integer of more digits than Python reads is infinite."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:
        return json.loads(text, parse_int=float)


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


def _whole(value: Any) -> Any:
    """Replace the halves of characters, which no file can hold, in a text."""
    if not isinstance(value, str):
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _flat(values: Sequence[Any]) -> Any:
    """Return a column as an array of objects, or why it cannot be used."""
    nested = next((value for value in values if isinstance(value, Mapping | list)), None)
    if nested is None:
        return object_array(values)
    text = json.dumps(nested)
    dots = "..." if len(text) > MAX_NESTED_SHOWN else ""
    return Unusable(
        f"nested values such as {printable(text[:MAX_NESTED_SHOWN])}{dots}, neither numbers"
        " nor text: make a column of each of their parts"
    )
