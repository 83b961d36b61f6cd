"""Tables that are read in batches: files, folders, datasets, queries, batches themselves."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import glob
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hgr_jax._arrays import Integers
from hgr_jax._optional import require
from hgr_jax.tables.arrow_columns import (
    EMPTY,
    NUMBER,
    TEXT,
    arrow,
    as_arrow,
    as_plain,
    check_kind,
    kinds_of,
    parquet_categories,
    with_categories,
)
from hgr_jax.tables.columns import Frame
from hgr_jax.tables.faults import TableError, check_names, printable, reason_of
from hgr_jax.tables.files import check_fits, names_of_text, parse_texts, read_table
from hgr_jax.tables.packed import read_contents
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.text_columns import columns_of_arrow
from hgr_jax.tables.text_files import TextFile, open_text

PARQUET, FEATHER = (".parquet", ".pq"), (".feather", ".arrow", ".ipc")
DELIMITED = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
"""Endings of the files that are read in batches if they are large."""

READ_AHEAD = 2
"""Batches of a dataset that are read ahead."""


@dataclasses.dataclass(frozen=True)
class Part:
    """One file of a source, or a whole source.

    Attributes:
      name: name in messages.
      kinds: kinds of the columns by name, in order; None for a column that a scan cannot use.
      rows: number of rows, None if unknown.
      read: yields the rows in order, in batches of any kind, which may have further columns, given
        the names of the columns to read, and the number of rows that a batch should have.
    """

    name: str
    kinds: Mapping[str, str | None]
    rows: int | None
    read: Callable[[list[str], int], Iterable[Any]]


@dataclasses.dataclass(frozen=True)
class Source:
    """A table in parts that can be read more than once, in the same order.

    Attributes:
      name: name in messages.
      parts: the parts in order.
      kinds: kinds of the columns that a scan can use, by name.
      order: names of all columns.
      notes: notes on columns by name, and on files by their names.
      parse: parses the columns of texts of some rows, given their positions; None for columns that
        have types.
    """

    name: str
    parts: tuple[Part, ...]
    kinds: Mapping[str, str]
    order: Sequence[str]
    notes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    parse: Callable[[Any, Integers], Frame] | None = None

    @classmethod
    def of(cls, name: str, parts: Sequence[Part]) -> Source:
        """Return a source of parts; a `TableError` unless they have the same columns."""
        first = parts[0]
        kinds = dict(first.kinds)
        for part in parts[1:]:
            for one, other in ((part, first), (first, part)):
                if missing := other.kinds.keys() - one.kinds.keys():
                    column = printable(min(missing))
                    raise TableError(f"{one.name} has no column {column!r}, which {other.name} has")
            for column, kind in part.kinds.items():
                earlier = kinds[column]
                if earlier == EMPTY:
                    kinds[column] = kind
                elif kind != earlier and earlier is not None:
                    check_kind(column, earlier, kind, part.name)
        # A column without any value is read as numbers; texts in later batches are then an error.
        usable = {n: kind or NUMBER for n, kind in kinds.items() if kind is not None}
        return cls(name, tuple(parts), usable, list(kinds))

    def select(self, names: Sequence[str]) -> Source:
        """Select columns."""
        dropped = set(self.order) - set(names)
        return dataclasses.replace(
            self,
            kinds={name: kind for name, kind in self.kinds.items() if name not in dropped},
            order=[name for name in self.order if name not in dropped],
            notes={name: note for name, note in self.notes.items() if name not in dropped},
        )

    @property
    def rows(self) -> int | None:
        """The number of rows, None if unknown."""
        counts = [part.rows for part in self.parts]
        return None if None in counts else sum(count or 0 for count in counts)

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield the rows in order, as Arrow tables of at most ``rows`` rows."""
        for part in self.parts:
            with _explaining_part_errors(part.name):
                for batch in part.read(list(columns), rows):
                    table = as_arrow(batch).select(columns)
                    for name, kind in kinds_of(table.schema, part.name).items():
                        check_kind(name, self.kinds[name], kind, part.name)
                    for start in range(0, len(table), rows):
                        yield as_plain(table.slice(start, rows))


@contextlib.contextmanager
def _explaining_part_errors(name: str) -> Iterator[None]:
    """Turn errors of reading a part into a `TableError` of one line."""
    try:
        yield
    except FileNotFoundError:
        raise TableError(f"no such file: {name}") from None
    except (OSError, KeyError, arrow().ArrowException) as error:
        raise TableError(f"{name} cannot be read: {reason_of(error)}") from None


def as_source(table: Any) -> Source | None:
    """Return the source of a table that is read in batches, None for a table in memory.

    Such tables are a pyarrow dataset, a polars lazy frame, a DuckDB relation, anything else with
    ``__arrow_c_stream__``, and an iterator of frames, mappings or Arrow batches.
    """
    module, kind = type(table).__module__.partition(".")[0].lstrip("_"), type(table).__name__
    if module == "polars" and kind == "LazyFrame":
        return _lazy_frame_source(table)
    if module == "pyarrow" and hasattr(table, "get_fragments"):
        return _dataset_source(table)
    if isinstance(table, Iterator) or kind == "RecordBatchReader":
        return _iterator_source(iter(table))
    if not hasattr(table, "__arrow_c_stream__"):
        return None
    narwhals = require("narwhals.stable.v2")
    return None if narwhals.dependencies.is_into_dataframe(table) else _stream_source(table)


def of_files(path: str | Path, reading: Reading) -> Source:
    """Return the source of a file, of a folder, or of the files that a pattern matches."""
    shown, place = printable(str(path)), Path(path)
    if place.is_dir():
        files = sorted(
            file
            for file in place.rglob("*")
            if file.is_file()
            and file.name.lower().endswith((*PARQUET, *DELIMITED))
            and not any(part.startswith((".", "_")) for part in file.relative_to(place).parts)
            and not (file.parent / "scan.npz").exists()  # the pairs of an earlier scan
        )
        subfolders = (part for file in files for part in file.relative_to(place).parts[:-1])
        partition = next((name for name in subfolders if "=" in name), None)
        if partition is not None:
            raise TableError(
                f"the files of {shown} lie in folders such as {printable(partition)!r}, whose names"
                " are values: pass pyarrow.dataset.dataset(folder, partitioning='hive')"
            )
        if not files:
            raise TableError(f"cannot read {shown}: Is a directory without a Parquet or CSV file")
    else:
        files = (
            [place] if place.exists() else sorted(map(Path, glob.glob(str(path), recursive=True)))
        )
        if not files:
            raise TableError(f"no such file: {shown}")
    endings = ((*DELIMITED, ".txt"), PARQUET, FEATHER)
    kinds = {next((e for e in endings if f.name.lower().endswith(e)), ()): f for f in files}
    if len(kinds) > 1 or () in kinds:
        raise TableError(
            f"{shown} is one table in several files only if all are of one kind, Parquet, CSV or"
            f" Feather; two are {printable(', '.join(map(str, [*kinds.values()][:2])))}"
        )
    if endings[0] in kinds:
        check_fits("CSV", printable(str(files[0])), reading)
        return _text_source(shown, files, reading)
    usual = Reading(columns=reading.columns, drop=reading.drop)
    for option, value in vars(reading).items():
        if value != getattr(usual, option):
            raise TableError(
                f"{option} is for CSV, and for a file that is read whole; {shown} has typed columns"
                " or is too large for that: leave it out, or allow more memory"
            )
    parts = []
    for file in files:
        with _explaining_part_errors(printable(str(file))):
            parts.append(_typed_part(file))
    return Source.of(shown, parts)


def _typed_part(file: Path) -> Part:
    """Return a file whose columns have types as a part."""
    shown = printable(str(file))
    form = "ipc" if file.name.lower().endswith(FEATHER) else "parquet"
    if form == "parquet":  # a dataset has no word for names that are repeated
        kinds_of(require("pyarrow.parquet").read_schema(file), shown)
    dataset = require("pyarrow.dataset").dataset(file, format=form)
    return _fragment_part(next(dataset.get_fragments()), dataset.schema, shown)


def open_path(
    path: str | Path, reading: Reading | None, memory: int, rows_that_fit: Callable[[int], int]
) -> Frame | Source:
    """Read a file whole, or return the source of a folder, a pattern or a large file.

    A text file is large from a size of ``memory`` bytes, Parquet from a number of rows that do not
    fit, given its number of columns.
    """
    place, name = Path(path), str(path).lower()
    are_several = glob.has_magic(str(path)) and not place.exists()
    is_large = False
    if place.is_file() and name.endswith(PARQUET):
        with contextlib.suppress(OSError, arrow().ArrowException):  # of which `read_table` tells
            metadata = require("pyarrow.parquet").read_metadata(place)
            is_large = metadata.num_rows > rows_that_fit(metadata.num_columns)
    elif place.is_file() and name.endswith((*DELIMITED, *FEATHER)):
        is_large = place.stat().st_size > memory
    if str(path) and (place.is_dir() or are_several or is_large):
        return of_files(path, reading or Reading())
    return read_table(path, reading)


def _text_source(shown: str, paths: Sequence[Path], reading: Reading) -> Source:
    """Return the source of text files that are one table: what their texts mean is told at last."""
    files: list[TextFile] = []
    parts, notes = [], dict[str, str]()
    for path in paths:
        name = printable(str(path))
        with _explaining_part_errors(name):
            table, file = open_text(read_contents(path), reading).table("true")
        names, found = names_of_text(file, reading)
        check_names(name, names, list(reading.types))
        notes |= found
        files.append(file)
        read = functools.partial(file.batches, names)
        parts.append(Part(name, dict.fromkeys(names, TEXT), table.num_rows, read))
    ends = np.cumsum([0, *(part.rows for part in parts)])

    def parse(table: Any, positions: Integers) -> Frame:
        def where(row: int) -> str:
            place = int(np.searchsorted(ends, positions[row], side="right")) - 1
            line = f"in line {files[place].line(int(positions[row] - ends[place]))}"
            return f"{line} of {files[place].shown}" if len(files) > 1 else line

        remarks = {file.shown: file.notes for file in files}
        comma = files[0].dialect.delimiter == ","
        name = files[0].shown if len(files) == 1 else shown
        texts = columns_of_arrow(table)
        return parse_texts(name, texts, (notes, remarks), reading, where, comma=comma)

    return dataclasses.replace(Source.of(shown, parts), parse=parse)


def _dataset_source(dataset: Any) -> Source:
    schema = dataset.schema
    parts = []
    for place, fragment in enumerate(dataset.get_fragments()):
        name = printable(str(getattr(fragment, "path", "") or f"part {place} of the dataset"))
        with _explaining_part_errors(name):
            parts.append(_fragment_part(fragment, schema, name))
    if not parts:
        raise TableError("the dataset has no files")
    return Source.of("the dataset", parts)


def _fragment_part(fragment: Any, schema: Any, name: str) -> Part:
    is_parquet, options = hasattr(fragment, "metadata"), {}
    categories = parquet_categories(fragment.metadata) if is_parquet else []
    if is_parquet:  # Arrow would keep all of the file in memory, as read ahead, until its end
        dataset = require("pyarrow.dataset")
        scan = dataset.ParquetFragmentScanOptions(pre_buffer=False)
        options = {"fragment_scan_options": scan}

    def read(names: list[str], size: int) -> Iterator[Any]:
        for batch in fragment.to_batches(
            schema=schema, columns=names, batch_size=size, batch_readahead=READ_AHEAD, **options
        ):
            batch.validate(full=True)  # as `read_arrow` does
            yield with_categories(batch, categories)

    kinds = kinds_of(schema, name) | dict.fromkeys(categories, TEXT)
    return Part(name, kinds, fragment.count_rows(), read)


def _single_source(name: str, schema: Any, read: Callable[..., Iterable[Any]]) -> Source:
    return Source.of(name, [Part(name, kinds_of(schema, name), None, read)])


def _lazy_frame_source(frame: Any) -> Source:
    polars = require("polars")
    wide = polars.selectors.by_dtype(polars.Int128)  # which Arrow does not have
    frame = frame.with_columns(wide.cast(polars.Float64))

    def read(names: list[str], size: int) -> Iterable[Any]:
        return (batch.to_arrow() for batch in frame.select(names).collect_batches(chunk_size=size))

    return _single_source("the lazy frame", frame.limit(0).collect().to_arrow().schema, read)


def _stream_source(table: Any) -> Source:
    pa = arrow()
    name = f"the {type(table).__name__}"
    try:
        schema = pa.RecordBatchReader.from_stream(table).schema
    except pa.ArrowException as error:
        raise TypeError(f"a table was expected; {name} is none: {printable(str(error))}") from None
    return _single_source(name, schema, lambda *_: pa.RecordBatchReader.from_stream(table))


def _iterator_source(batches: Iterator[Any]) -> Source:
    """Return the source of batches that come one after the other, once."""
    first = next(batches, None)
    if first is None:
        raise TableError("the batches have no rows")
    schema = as_arrow(first).schema
    return _single_source("the batches", schema, lambda *_: itertools.chain([first], batches))
