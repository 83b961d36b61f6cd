"""How a file is read: every option of readers, declared and checked once."""

from __future__ import annotations

import codecs
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from hgr_jax._checks import check_choice, check_count
from hgr_jax.tables.faults import TYPES, TableError, check_names
from hgr_jax.tables.meanings import MISSING, Hints
from hgr_jax.tables.number_texts import is_number


@dataclasses.dataclass(frozen=True)
class Reading:
    """Say how a file is read, where that cannot be found out from the file.

    Attributes:
      delimiter: the character between values; ``" "`` for columns that spaces separate.
      decimal: the decimal point, ``.`` or ``,``: the other one lies between thousands.
      encoding: encoding of the text, as Python calls it, such as ``"cp1250"``.
      header: the line of the names, from 1; True to find it, False if the file has none.
      skip: number of first lines (rows of a sheet) to leave out.
      footer: number of last lines to leave out; None to find notes and totals.
      comment: character with which lines begin that are no rows.
      sheet: name of a sheet of a workbook, or its position from 1.
      table: name of a table of a database.
      na: further texts that mean a missing value, beside `MISSING`.
      columns: the columns to read; empty for all.
      drop: columns to leave out.
      types: what columns are, by name, one of `TYPES`: ``id`` leaves a column out.
    """

    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    header: int | bool = True
    skip: int = 0
    footer: int | None = None
    comment: str | None = None
    sheet: str | int | None = None
    table: str | None = None
    na: Sequence[str] = ()
    columns: Sequence[str] = ()
    drop: Sequence[str] = ()
    types: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the options."""
        for option in ("na", "columns", "drop"):
            value = getattr(self, option)
            if isinstance(value, str) or not isinstance(value, Iterable):
                raise TypeError(f"{option} must be a sequence of texts; got {value!r}.")
            object.__setattr__(self, option, tuple(map(str, value)))
        if not isinstance(self.types, Mapping):
            raise TypeError(f"types must be a mapping of columns; got {self.types!r}.")
        for option, most in (("delimiter", 1), ("comment", 2)):
            value = getattr(self, option)
            if value is not None and (not 0 < len(value) <= most or {*value} & {*'\r\n"'}):
                characters = "one character" if most == 1 else "one or two characters"
                raise ValueError(f"{option} must be {characters}, and no quote; got {value!r}.")
        if self.decimal is not None:
            check_choice("decimal", self.decimal, (".", ","))
        if self.encoding is not None:
            try:
                "".encode(codecs.lookup(self.encoding).name)
            except LookupError:  # also of codecs that are no encodings of text
                raise ValueError(
                    f"encoding must be one that Python knows, such as 'cp1250' or 'latin-1'; got"
                    f" {self.encoding!r}."
                ) from None
        check_count("skip", self.skip, 0)
        if self.footer is not None:
            check_count("footer", self.footer, 0)
        if not isinstance(self.header, bool):
            check_count("header", self.header, 1)
        for name, kind in self.types.items():
            check_choice(f"types[{name!r}]", kind, TYPES)

    def hints(self, name: str, where: Callable[[int], str]) -> Hints:
        """Return what is known of a column; ``where`` words the place of a row."""
        kind = self.types.get(name)
        order = kind if kind in ("dmy", "mdy") else None
        usual = frozenset({""}) if kind == "category" else MISSING
        return Hints(
            self.decimal,
            order,
            "date" if order else kind,
            name,
            missing=usual | self.na_texts,
            where=where,
        )

    @property
    def na_texts(self) -> frozenset[str]:
        """`na` in lower case."""
        return frozenset(text.strip().lower() for text in self.na)

    @property
    def missing_numbers(self) -> list[float]:
        """The numbers among `na`."""
        return [float(text) for text in self.na if is_number(text)]

    def chosen(self, shown: str, names: Sequence[str]) -> list[str]:
        """Return the names of the columns to read, in the order of the file ``shown``."""
        check_names(shown, names, [*self.columns, *self.drop, *self.types])
        chosen = set(self.columns or names) - set(self.drop)
        if not chosen:
            raise TableError(f"{shown}: no column is left to read; --drop names all of them")
        return [name for name in names if name in chosen]
