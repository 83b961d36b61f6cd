"""Read tables as people publish them on the web, and compare with what a careful person reads.

`published.json` holds an address, at a commit, and expectations of each table: its rows, and kinds
of a few of its columns (``number``, ``date``, ``duration``, or a text: ``category``, ``text``,
``id``, ``constant`` or ``empty``; several where a person may differ).  The tables themselves are
downloaded into a cache, or taken from ``--folder``.

    python -m bench.published
    python -m bench.published --folder ~/tables --only destatis_12411.csv deaths.xlsx
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hgr_jax.tables.faults import TableError
from hgr_jax.tables.files import read_table
from hgr_jax.tables.reading import Reading

LIST = Path(__file__).with_name("published.json")
CACHE = Path.home() / ".cache" / "hgr-jax" / "published"
TEXTS = {"category", "text", "id", "constant", "empty"}
OUTCOMES = ("right", "refused", "misread", "crashed", "absent")


@dataclasses.dataclass(frozen=True)
class Table:
    """A published table, and what a careful person reads in it.

    Attributes:
      name: of the file in the cache.
      url: its address.
      source: sort of its source, such as ``statistics office``.
      trouble: what is hard about it.
      rows: number of its rows, without titles, headers, units, totals and footnotes.
      columns: kinds, one or several joined by ``|``, by a part of the name of the column.
      options: options that nobody could guess.
    """

    name: str
    url: str
    source: str
    trouble: str
    rows: int
    columns: Mapping[str, str]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def tables(only: Iterable[str] = ()) -> Iterator[Table]:
    """Yield the listed tables, or those of some names."""
    chosen = set(only)
    for record in json.loads(LIST.read_text(encoding="utf-8")):
        if not chosen or record["name"] in chosen:
            yield Table(**record)


def fetch(table: Table, folder: Path) -> Path:
    """Download a table unless it is there."""
    path = folder / table.name
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(table.url, timeout=60) as answer:
            path.write_bytes(answer.read())
    return path


def kind_faults(columns: Mapping[str, Any], skipped: Mapping[str, str], table: Table) -> list[str]:
    """Return a line on each column that is absent or of another kind."""
    faults = []
    for part, expected in table.columns.items():
        kinds = set(expected.split("|"))
        found = [part] if part in columns else [name for name in columns if part in name]
        if not found:
            if not (kinds & TEXTS and any(part in name for name in skipped)):
                faults.append(f"no column {part!r}")
            continue
        sort = columns[found[0]].dtype.kind
        read = "date" if sort == "M" else "text" if sort == "O" else "number"
        fine = {
            "date": kinds & {"date", "duration"},
            "text": kinds & TEXTS,
            "number": kinds - {"date", "text"},  # codes and two words may be numbers
        }[read]
        if not fine:
            faults.append(f"{found[0]!r} is read as {read}, not {expected}")
    return faults


def judge(table: Table, folder: Path) -> tuple[str, list[str]]:
    """Read a table: its outcome, and the reasons."""
    try:
        path = fetch(table, folder)
    except (urllib.error.URLError, TimeoutError) as error:
        return "absent", [str(error)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            frame = read_table(path, Reading(**table.options))
    except TableError as error:
        return "refused", [str(error)]
    except Exception as error:
        return "crashed", [f"{type(error).__name__}: {error}"]
    faults = kind_faults(frame.columns, frame.skipped, table)
    if frame.rows != table.rows:
        faults.insert(0, f"{frame.rows} rows, not {table.rows}")
    return "misread" if faults else "right", faults


def report(chosen: Iterable[Table], folder: Path) -> None:
    """Print a line on each table, its faults, and the numbers of each outcome by source."""
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    for table in chosen:
        start = time.perf_counter()
        outcome, faults = judge(table, folder)
        seconds = time.perf_counter() - start
        counts[table.source, outcome] += 1
        print(f"{outcome:8} {table.name:26} {seconds:5.1f} s  {table.trouble}")
        for fault in faults:
            print(f"{'':9}{fault}")
    print(f"\n{'':18}" + "".join(f"{outcome:>9}" for outcome in OUTCOMES))
    for source in sorted({source for source, _ in counts}):
        print(f"{source:18}" + "".join(f"{counts[source, outcome]:9}" for outcome in OUTCOMES))
    totals = [sum(counts[key] for key in counts if key[1] == outcome) for outcome in OUTCOMES]
    print(f"{'all':18}" + "".join(f"{total:9}" for total in totals))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, default=CACHE, help="that holds or gets the files")
    parser.add_argument("--only", nargs="*", default=(), metavar="NAME", help="only these files")
    options = parser.parse_args()
    report(tables(options.only), options.folder)


if __name__ == "__main__":
    main()
