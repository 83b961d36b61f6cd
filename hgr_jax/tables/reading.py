"""How a file is read: every option of readers, declared and checked once."""

from __future__ import annotations

import codecs
import dataclasses
from collections.abc import Mapping, Sequence

from hgr_jax._checks import check_choice, check_count
from hgr_jax.tables.faults import TableError, check_names
from hgr_jax.tables.texts import Form, is_number

TYPES = ("number", "category", "date", "text", "id")
"""What `Reading.types` can make of a column."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """How a file is read; what is not said here is found out from the file.

    Attributes:
      delimiter: the character between values; ``" "`` for columns that spaces separate.
      decimal: the decimal point, ``.`` or ``,``.
      thousands: the mark between thousands, such as ``.``, ``,``, ``'`` or a space.
      encoding: encoding of the text, as Python calls it, such as ``"cp1250"``.
      header: the line of the names, from 1; True to find it, False if the file has none.
      skip: number of first lines (rows of a sheet) to leave out.
      comment: character with which lines begin that are no rows.
      sheet: name of a sheet of a workbook, or its position from 1.
      table: name of a table of a database.
      na: further texts that mean a missing value, beside `MISSING`.
      columns: the columns to read; empty for all.
      drop: columns to leave out.
      types: what columns are, by name, one of `TYPES`: ``id`` leaves a column out.
      forms: forms of columns by name, with their decimal points; other forms are inferred.
    """

    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    header: int | bool = True
    skip: int = 0
    comment: str | None = None
    sheet: str | int | None = None
    table: str | None = None
    na: Sequence[str] = ()
    columns: Sequence[str] = ()
    drop: Sequence[str] = ()
    types: Mapping[str, str] = dataclasses.field(default_factory=dict)
    forms: Mapping[str, Form] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the options."""
        for option in ("na", "columns", "drop"):
            value = getattr(self, option)
            if isinstance(value, str):
                raise TypeError(f"{option} must be a sequence of texts; got {value!r}.")
            object.__setattr__(self, option, tuple(map(str, value)))
        for option in ("delimiter", "thousands", "comment"):
            value = getattr(self, option)
            if value is not None and (len(value) != 1 or value in '\r\n"'):
                raise ValueError(f"{option} must be one character, and no quote; got {value!r}.")
        if self.decimal is not None:
            check_choice("decimal", self.decimal, (".", ","))
            if self.decimal == self.thousands:
                raise ValueError(f"decimal and thousands must differ; got {self.decimal!r} twice.")
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                raise ValueError(
                    f"encoding must be one that Python knows, such as 'cp1250' or 'latin-1'; got"
                    f" {self.encoding!r}."
                ) from None
        check_count("skip", self.skip, 0)
        if not isinstance(self.header, bool):
            check_count("header", self.header, 1)
        for name, kind in self.types.items():
            check_choice(f"types[{name!r}]", kind, TYPES)

    @property
    def point(self) -> str | None:
        """The decimal point of the file, None to infer it."""
        commas = any(form.point == "," for form in self.forms.values())
        return self.decimal or ("," if commas else None)

    @property
    def missing_texts(self) -> list[str]:
        """`na` in lower case."""
        return [text.strip().lower() for text in self.na]

    @property
    def missing_numbers(self) -> list[float]:
        """The numbers among `na`."""
        return [float(text) for text in self.na if is_number(text)]

    def chosen(self, shown: str, names: Sequence[str]) -> list[str]:
        """Return the names of the columns to read, in the order of the file ``shown``."""
        check_names(shown, names, [*self.columns, *self.drop, *self.types])
        identifiers = {name for name, kind in self.types.items() if kind == "id"}
        chosen = set(self.columns or names) - set(self.drop) - identifiers
        if not chosen:
            raise TableError(f"{shown}: no column is left to read; --drop names all of them")
        return [name for name in names if name in chosen]
