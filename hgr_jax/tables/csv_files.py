"""Read CSV files block by block; the meaning of a column is decided from all rows.

The files of a folder are one table.  Names, values and notes are the same as those of `files`,
which reads a file whole.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hgr_jax.tables.arrow_columns import as_arrow_values, count_kinds, decide_columns, present_texts
from hgr_jax.tables.columns import add_note
from hgr_jax.tables.delimited import (
    Cells,
    arrow,
    check_not_zero,
    encoding_of,
    latin_note,
    read_blocks,
    read_header,
    read_rows,
)
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.files import doubtful_name_note, has_text, header_names
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.texts import KindCounts, Meaning


@dataclasses.dataclass(frozen=True)
class _Header:
    """The header of a file: its cells, names and notes, and the byte at which rows ``start``."""

    cells: list[str]
    names: list[str]
    notes: Mapping[str, str]
    is_header: bool
    delimiter: str
    start: int

    @classmethod
    def of(cls, body: bytes, shown: str, reading: Reading) -> _Header:
        """Read the header of a file that begins with ``body``."""
        begin, end, cells, delimiter = read_header(body, shown, reading.point)
        names, notes, is_header = header_names(cells, reading)
        return cls(cells, names, notes, is_header, delimiter, end if is_header else begin)


@dataclasses.dataclass(frozen=True)
class CsvFile:
    """A CSV file after a first pass over it.

    Attributes:
      path: path of the file.
      reading: how it is read.
      encoding: encoding, as Python calls it.
      names: names of its columns.
      notes: notes on columns by name, and on the file by its name.
      block_ends: number of rows up to the end of each block.
      counts: number of texts of each kind, by column.
    """

    path: Path
    reading: Reading
    encoding: str
    names: Sequence[str] = ()
    notes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    block_ends: Sequence[int] = ()
    counts: Mapping[str, KindCounts] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, reading: Reading, first_row: int) -> CsvFile:
        """Read a file; ``first_row`` is the position of its first row in the table."""
        with arrow().input_stream(str(path), compression="detect") as stream:
            start = stream.read(2**16)
        file = cls(path, reading, encoding_of(start) or "utf-8")
        check_not_zero(start, file.shown)
        try:
            return file._surveyed(first_row)
        except UnicodeDecodeError as error:
            if file.encoding != "utf-8":
                raise
            notes = {file.shown: latin_note(int(error.reason))}
        with contextlib.suppress(UnicodeDecodeError):  # cp1252 leaves five bytes undefined
            return dataclasses.replace(file, encoding="cp1252", notes=notes)._surveyed(first_row)
        return dataclasses.replace(file, encoding="latin-1", notes=notes)._surveyed(first_row)

    @property
    def shown(self) -> str:
        """The name in messages."""
        return printable(str(self.path))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.block_ends[-1]

    def cells(self) -> Iterator[tuple[_Header, Cells]]:
        """Yield the header, and the rows of each block."""
        header = None
        for body, line in read_blocks(str(self.path), self.shown, self.encoding):
            start = 0
            if header is None:
                header = _Header.of(body, self.shown, self.reading)
                start = header.start
            names = (header.cells, header.delimiter)
            yield header, read_rows(body, start, self.shown, names, line)
        if header is None:
            _Header.of(b"", self.shown, self.reading)  # raises: the file is empty

    def _surveyed(self, first_row: int) -> CsvFile:
        """Read all blocks, and count the kinds of their texts."""
        header = None
        counts: dict[str, KindCounts] = {}
        is_value = np.zeros(0, bool)
        ends = [0]
        for header, cells in self.cells():
            values = [has_text(*pair) for pair in zip(cells.columns, header.cells, strict=True)]
            is_value = np.logical_or(is_value, values) if len(is_value) else np.array(values)
            for name, column in zip(header.names, cells.columns, strict=True):
                texts = present_texts(column, self.reading.missing_texts)
                block = count_kinds(texts, first_row=first_row + ends[-1])
                counts[name] = counts[name] + block if name in counts else block
            ends.append(ends[-1] + len(cells.columns[0]))
        if header is None or not ends[-1]:
            raise TableError(f"{self.shown} has a header but no rows")
        notes = {self.shown if name == "" else name: note for name, note in header.notes.items()}
        doubt = doubtful_name_note(header.cells, is_value.tolist()) if header.is_header else ""
        if doubt:
            notes[self.shown] = doubt
        for name, note in self.notes.items():
            add_note(notes, name, note)
        return dataclasses.replace(
            self, names=header.names, notes=notes, block_ends=ends[1:], counts=counts
        )

    def line(self, row: int) -> int:
        """Return the line of the file on which a row ends."""
        block = int(np.searchsorted(self.block_ends, row, side="right"))
        for place, (_, cells) in enumerate(self.cells()):
            if place == block:
                return cells.line(row - (self.block_ends[block - 1] if block else 0))
        raise TableError(f"{self.shown} has changed while it was read")


@dataclasses.dataclass(frozen=True)
class CsvFiles:
    """CSV files that are one table.

    Attributes:
      files: the files, in order.
      meanings: meanings of the columns by name; None for plain text.
      notes: notes on columns by name, and on files by their names.
    """

    files: Sequence[CsvFile]
    meanings: Mapping[str, Meaning | None]
    notes: Mapping[str, str]

    @classmethod
    def of(cls, files: Sequence[CsvFile]) -> CsvFiles:
        """Decide the meanings of the columns of files."""
        counts: dict[str, KindCounts] = {}
        notes: dict[str, str] = {}
        for file in files:
            notes |= file.notes
            for name, column in file.counts.items():
                counts[name] = counts[name] + column if name in counts else column
        ends = np.cumsum([0, *(file.rows for file in files)])

        def where(row: int) -> str:
            place = int(np.searchsorted(ends, row, side="right")) - 1
            line = f"in line {files[place].line(row - ends[place])}"
            return f"{line} of {files[place].shown}" if len(files) > 1 else line

        meanings = decide_columns(counts, where, files[0].reading.decimal)
        for name, meaning in meanings.items():
            if meaning is not None and meaning.note:
                add_note(notes, name, meaning.note)
        return cls(files, meanings, notes)

    def batches(self, file: CsvFile, names: Sequence[str]) -> Iterator[Any]:
        """Yield record batches of some columns of a file, parsed."""
        place_of = {name: place for place, name in enumerate(file.names)}
        for _, cells in file.cells():
            columns = []
            for name in names:
                if not file.counts[name].present:  # nulls go with the kind of any other file
                    columns.append(arrow().nulls(len(cells.columns[0])))
                    continue
                texts = present_texts(cells.columns[place_of[name]], file.reading.missing_texts)
                columns.append(
                    as_arrow_values(texts, self.meanings[name], file.reading.missing_numbers)
                )
            yield arrow().RecordBatch.from_arrays(columns, list(names))
