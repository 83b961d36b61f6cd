"""Read a table of a database: SQLite by the standard library, DuckDB as Arrow.

Databases are opened to be read only, in their place unless packed, and reach no other file.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hgr_jax._optional import require
from hgr_jax._texts import near_matches
from hgr_jax.tables.faults import TableError, listed, printable, unreadable


def sqlite_columns(path: Path, shown: str, wanted: str | None) -> tuple[list[str], list[Any], str]:
    """Read a table or view of an SQLite database: names, tuples of values, and a note."""
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as database:
            database.text_factory = lambda text: text.decode(errors="replace")
            rows = database.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
                " AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
            )
            table, note = choose_table([name for (name,) in rows], shown, wanted)
            cursor = database.execute(f"SELECT * FROM {quoted(table)}")
            names = [str(entry[0]) for entry in cursor.description]
            return names, [*zip(*cursor, strict=True)] or [()] * len(names), note
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        raise unreadable(shown, "SQLite", error) from None


def duckdb_table(path: Path, shown: str, wanted: str | None) -> tuple[Any, str]:
    """Read a table or view of a DuckDB database as an Arrow table, with a note."""
    duckdb = require("duckdb")
    # A view may name any other file, or an address.
    alone = {"enable_external_access": "false"}
    try:
        with contextlib.closing(duckdb.connect(path, read_only=True, config=alone)) as database:
            rows = database.execute(
                "SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal"
                " UNION ALL SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal"
            ).fetchall()
            places = {
                name if schema == "main" else f"{schema}.{name}": (schema, name)
                for schema, name in rows
            }
            table, note = choose_table(list(places), shown, wanted)
            source = ".".join(map(quoted, places[table]))
            return database.sql(f"SELECT * FROM {source}").to_arrow_table(), note
    except duckdb.Error as error:
        raise unreadable(shown, "DuckDB", error) from None


def choose_table(tables: Sequence[str], shown: str, wanted: str | None) -> tuple[str, str]:
    """Return the table to read, and a note if there are others."""
    if not tables:
        raise TableError(f"{shown} holds no table")
    if wanted is None and len(tables) > 1:
        raise TableError(
            f"{shown} holds {len(tables)} tables, {printable(listed(tables, 20))}; --table names"
            " the one to read"
        )
    table = tables[0] if wanted is None else wanted
    if table not in tables:
        raise TableError(
            f"{shown} has no table {printable(repr(table))}{near_matches(table, tables)}"
        )
    others = len(tables) - 1
    return table, f"table {printable(repr(table))} is read, of {others + 1}" if others else ""


def quoted(name: str) -> str:
    """Return a name as SQL."""
    return '"' + name.replace('"', '""') + '"'
