"""Read text files block by block; the meaning of a column is decided from all rows.

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

from hgr_jax.tables.arrow_columns import TextCells, as_arrow_values, count_kinds
from hgr_jax.tables.columns import add_note, name_columns
from hgr_jax.tables.delimited import (
    HEAD_BYTES,
    Cells,
    arrow,
    check_not_zero,
    decoded_head,
    dialect_of,
    encoding_of,
    latin_note,
    read_blocks,
    read_rows,
)
from hgr_jax.tables.dialects import Dialect
from hgr_jax.tables.faults import TableError, check_names, printable
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.texts import KindCounts, Meaning, decide_columns, missing_note


@dataclasses.dataclass(frozen=True)
class CsvFile:
    """A text file after a first pass over it.

    Attributes:
      path: path of the file.
      reading: how it is read.
      encoding: encoding, as Python calls it.
      dialect: how its lines make a table.
      names: names of its columns.
      notes: notes on columns by name, and on the file by its name.
      block_ends: number of rows up to the end of each block.
      counts: number of texts of each kind, by column.
    """

    path: Path
    reading: Reading
    encoding: str
    dialect: Dialect
    names: Sequence[str] = ()
    notes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    block_ends: Sequence[int] = ()
    counts: Mapping[str, KindCounts] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, reading: Reading, first_row: int) -> CsvFile:
        """Read a file; ``first_row`` is the position of its first row in the table."""
        with arrow().input_stream(str(path), compression="detect") as stream:
            start = stream.read(HEAD_BYTES)
        shown = printable(str(path))
        check_not_zero(start, shown)
        encoding = reading.encoding or encoding_of(start) or "utf-8"
        file = cls(path, reading, encoding, cls._dialect(start, encoding, shown, reading))
        try:
            return file._surveyed(first_row)
        except UnicodeDecodeError as error:
            if encoding != "utf-8" or reading.encoding:
                raise
            notes = {shown: latin_note(int(error.reason))}
        for encoding in ("cp1252", "latin-1"):  # cp1252 leaves five bytes undefined
            dialect = cls._dialect(start, encoding, shown, reading)
            with contextlib.suppress(UnicodeDecodeError):
                return cls(path, reading, encoding, dialect, notes=notes)._surveyed(first_row)
        raise AssertionError("Latin-1 decodes every byte")

    @staticmethod
    def _dialect(start: bytes, encoding: str, shown: str, reading: Reading) -> Dialect:
        complete = len(start) < HEAD_BYTES
        return dialect_of(decoded_head(start, encoding), shown, reading, complete=complete)

    @property
    def shown(self) -> str:
        """The name in messages."""
        return printable(str(self.path))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.block_ends[-1]

    def cells(self) -> Iterator[Cells]:
        """Yield the rows of each block."""
        for body, line, is_last in read_blocks(str(self.path), self.shown, self.encoding):
            yield read_rows(
                body,
                self.dialect,
                self.shown,
                reading=self.reading,
                first_line=line,
                is_first=line == 1,
                is_last=is_last,
            )

    def _surveyed(self, first_row: int) -> CsvFile:
        """Read all blocks, and count the kinds of their texts."""
        layout = self.dialect.layout
        names, notes = name_columns(layout.names, told=layout.names_row is not None)
        check_names(self.shown, names, list(self.reading.types))
        counts: dict[str, KindCounts] = {}
        ends, remarks = [0], list(self.dialect.notes)
        for cells in self.cells():
            for name, column in zip(names, cells.columns, strict=True):
                texts = TextCells.of(column, self.reading.missing(name))
                block = count_kinds(texts, first_row=first_row + ends[-1])
                counts[name] = counts[name] + block if name in counts else block
            ends.append(ends[-1] + cells.rows)
            remarks += cells.notes
        if not ends[-1]:
            raise TableError(f"{self.shown} has a header but no rows")
        if remarks:
            add_note(notes, self.shown, "; ".join(remarks))
        for name, note in self.notes.items():
            add_note(notes, name, note)
        return dataclasses.replace(
            self, names=names, notes=notes, block_ends=ends[1:], counts=counts
        )

    def line(self, row: int) -> int:
        """Return the line of the file on which a row ends."""
        block = int(np.searchsorted(self.block_ends, row, side="right"))
        for place, cells in enumerate(self.cells()):
            if place == block:
                return cells.line(row - (self.block_ends[block - 1] if block else 0))
        raise TableError(f"{self.shown} has changed while it was read")


@dataclasses.dataclass(frozen=True)
class CsvFiles:
    """Text files that are one table.

    Attributes:
      files: the files, in order.
      meanings: meanings of the columns by name.
      notes: notes on columns by name, and on files by their names.
    """

    files: Sequence[CsvFile]
    meanings: Mapping[str, Meaning]
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

        reading = files[0].reading
        hints = {name: reading.hints(name) for name in counts}
        meanings = decide_columns(counts, where, hints)
        for name, meaning in meanings.items():
            if meaning.note:
                add_note(notes, name, meaning.note)
        missing = {
            name: count.missing
            for name, count in counts.items()
            if not (meanings[name].is_text and count.present)
        }
        if note := missing_note(missing):
            add_note(notes, files[0].shown, note)
        return cls(files, meanings, notes)

    def batches(self, file: CsvFile, names: Sequence[str]) -> Iterator[Any]:
        """Yield record batches of some columns of a file, parsed."""
        place_of = {name: place for place, name in enumerate(file.names)}
        for cells in file.cells():
            columns = []
            for name in names:
                if not file.counts[name].present:  # nulls go with the kind of any other file
                    columns.append(arrow().nulls(cells.rows))
                    continue
                texts = TextCells.of(cells.columns[place_of[name]], file.reading.missing(name))
                columns.append(
                    as_arrow_values(
                        texts.present, self.meanings[name], file.reading.missing_numbers
                    )
                )
            yield arrow().RecordBatch.from_arrays(columns, list(names))
