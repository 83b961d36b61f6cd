"""The options of every command."""

from __future__ import annotations

import argparse
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from hgr_jax._limits import MAX_DEGREE
from hgr_jax._version import __version__
from hgr_jax.tables.faults import TYPES, printable


def _path(text: str) -> Path:
    if not text.strip():  # Path("") is the current folder
        raise argparse.ArgumentTypeError("expected the name of a file or folder, got nothing")
    return Path(text)


def _positive(text: str, largest: int = 10**6, least: int = 1) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value <= largest:
        raise argparse.ArgumentTypeError(
            f"expected an integer from {least} to {largest}, got {text!r}"
        )
    return value


_degree_option = functools.partial(_positive, largest=MAX_DEGREE)
_seed = functools.partial(_positive, largest=2**31 - 1, least=0)


def _share(text: str, largest: float | None = None) -> float:
    """Parse a number above 0 and below 1, or up to ``largest``."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (0 < value < 1 or value == largest):
        end = "1)" if largest is None else f"{largest:g}]"
        raise argparse.ArgumentTypeError(f"expected a number in (0, {end}, got {text!r}")
    return value


_threshold = functools.partial(_share, largest=1.0)


def _option(default: Any, text: str, kind: Any = None, **settings: Any) -> Any:
    """Declare a field and its option, whose help ends in the default."""
    metadata = {"help": text, "type": kind, **settings}
    return dataclasses.field(default=default, metadata=metadata)


_columns_option = functools.partial(_option, (), action="append", metavar="COLUMN")
_required_column = functools.partial(_option, dataclasses.MISSING, metavar="COLUMN")


@dataclasses.dataclass(frozen=True)
class ScanOptions:
    """The options of ``hgr-jax scan``."""

    h: int | None = _option(
        None,
        "HGR-KB of values in place of HGR, of this degree for the first column",
        _degree_option,
    )
    k: int | None = _option(None, "the degree for the second column", _degree_option)
    target: Sequence[str] = _columns_option(
        "only pairs with this column; may be given several times"
    )
    given: Sequence[str] = _columns_option(
        "remove what this column explains; may be given several times"
    )
    order: str | None = _option(
        None,
        "the column of dates or numbers that puts the rows in order, or 'rows' where they are in"
        " order as they stand: p-values by circular shifts",
        str,
        metavar="COLUMN|rows",
    )
    groups: str | None = _option(
        None,
        "the column of labels of rows that belong together, as those of one person: p-values by"
        " orders within groups and between them",
        str,
        metavar="COLUMN",
    )
    categories: Sequence[str] = _columns_option(
        "a column of numbers to read as a category; may be given several times"
    )
    missing_level: bool = _option(
        False,
        "make the missing values of a category a level, unless they are rare, in place of leaving"
        " their rows out",
        action="store_true",
    )
    top: int | None = _option(
        None,
        "findings in each list (default 5), or pairs with --sort (default 20)",
        _positive,
        metavar="N",
    )
    min_rows: int = _option(
        20, "smallest number of rows that the columns of a finding share", _positive, metavar="N"
    )
    keep: int | None = _option(
        None,
        "for a table of thousands of columns: test all pairs, but keep only the first N,"
        " by p-value unless --sort is correlation or excess",
        _positive,
        metavar="N",
    )
    sort: str | None = _option(
        None,
        "list pairs in place of findings: by HGR above |Spearman|, by HGR, by its excess over"
        " |Pearson|, or by p-value",
        choices=("rank_excess", "correlation", "excess", "pvalue"),
    )
    permutations: int | None = _option(None, "permutations at most", _positive, metavar="N")
    seed: int = _option(0, "of the permutations", _seed, metavar="N")
    fdr: str = _option(
        "bh",
        "how p-values are adjusted for the number of pairs: bh, where they depend positively, or"
        " by, whatever depends on what",
        choices=("bh", "by"),
    )
    open: bool = _option(False, "open the report in the browser", action="store_true")
    json: bool = _option(
        False, "print findings, remarks and settings as JSON for programs", action="store_true"
    )

    @property
    def row_order(self) -> str | bool | None:
        """The order of the rows, as of `hgr_jax.scan`."""
        return True if self.order == "rows" else self.order

    @property
    def row_columns(self) -> tuple[str, ...]:
        """The columns that say something of the rows, and are in no pair."""
        named = (None if self.order == "rows" else self.order, self.groups)
        return tuple(name for name in named if name is not None)

    @property
    def pair_order(self) -> str:
        """The order of the table of pairs."""
        return self.sort or "rank_excess"


def _given(text: str) -> str | int:
    return text if text == "classes" else _positive(text, 1000, least=2)


@dataclasses.dataclass(frozen=True)
class AuditOptions:
    """The options of ``hgr-jax audit``."""

    prediction: str = _required_column(
        "the model's predictions: numbers, or text of two values; the rows must not have been used"
        " to fit or choose it"
    )
    protected: Sequence[str] = _required_column(
        "numbers, or text for a category; may be given several times", action="append"
    )
    target: str | None = _option(None, "what was predicted, for a score", str, metavar="COLUMN")
    measure: str = _option(
        "kb",
        "what is bounded; hgr: HGR of ranks; demographic_parity: the largest difference of mean"
        " predictions between levels",
        choices=("kb", "sk", "hgr", "demographic_parity"),
    )
    given: str | int | None = _option(
        None,
        "bound it within each class of the target, or within N bins of it (equalised odds)",
        _given,
        metavar="classes|N",
    )
    threshold: float | None = _option(
        None, "exit with status 1 unless all bounds are at most this number in (0, 1]", _threshold
    )
    level: float = _option(
        0.95,
        "1 - level is the probability that one of all bounds is too low",
        _share,
        metavar="LEVEL",
    )
    groups: str | None = _option(
        None,
        "the column of labels of rows that belong together, as those of one person",
        str,
        metavar="COLUMN",
    )
    h: int = _option(5, "degree of kb for a protected column of numbers", _degree_option)
    k: int = _option(5, "degree of kb and sk for the prediction", _degree_option)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        named = (self.prediction, *self.protected, self.target, self.groups)
        return tuple(dict.fromkeys(name for name in named if name is not None))


class _Parser(argparse.ArgumentParser):
    """A parser that reports wrong options in one line, like every other error."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {printable(message)}; see {self.prog} --help\n")


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = _Parser(prog="hgr-jax", description="HGR maximal correlation with polynomial kernels.")
    parser.add_argument("--version", action="version", version=f"hgr-jax {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    demo = commands.add_parser(
        "demo",
        help="all pairs of a real table, and a training under a constraint",
        description=(
            "All pairs of the wine table that scikit-learn ships (13 measurements of 178 wines of"
            " three cultivars): the strongest, and those that are not monotone. Then a network on"
            " its diabetes table, before and after its prediction is kept from depending on bmi."
        ),
    )
    _add_options(demo, ScanOptions, "h", "k", "top", "open")
    _add_out(demo, "hgr-jax-demo", "folder for the report and a picture")

    scan = commands.add_parser(
        "scan",
        help="all pairs of columns of a file, with p-values",
        description=(
            "HGR of every pair of columns of a file, with p-values: a ranked table here, the"
            " pairs as CSV and Parquet, a heat map, and a report to open in a browser. Dates are"
            " numbers, other text is categories; missing values are left out pair by pair."
        ),
    )
    _add_file(
        scan, also="; or a folder of CSV and Parquet files, or a pattern such as 'part-*.csv'"
    )
    _add_options(scan, ScanOptions)
    _add_reading(scan, "the only columns to scan")
    _add_out(scan, "hgr-jax-scan", "folder for the report and the pairs")

    pair = commands.add_parser(
        "pair",
        help="two columns of a file",
        description=(
            "HGR of two columns of a file with its interval and p-value, what else may make it, and"
            " a picture; with --h or --k, HGR-KB and HGR-SK."
        ),
    )
    _add_file(pair)
    pair.add_argument("column_a", metavar="COL_A", help="name of the first column")
    pair.add_argument("column_b", metavar="COL_B", help="name of the second column")
    _add_options(pair, ScanOptions, "h", "k", "given", "order", "groups", "missing_level")
    _add_reading(pair)
    _add_out(pair, "hgr-jax-pair", "folder for the picture", force=False)

    audit = commands.add_parser(
        "audit",
        help="bound how far the predictions in a file depend on protected columns",
        description=(
            "Upper bounds, in the population, of how far a column of predictions depends on"
            " protected columns, whatever model made it; with --threshold a certificate. Status 0:"
            " certified, or no threshold; 1: not certified; 2: an error."
        ),
    )
    _add_file(audit)
    _add_options(audit, AuditOptions)
    _add_reading(audit)
    return parser


def _add_options(command: argparse.ArgumentParser, options: type[Any], *names: str) -> None:
    """Add the options of a dataclass (only ``names`` if there are any)."""
    for field in dataclasses.fields(options):
        if names and field.name not in names:
            continue
        settings = {name: value for name, value in field.metadata.items() if value is not None}
        default = field.default
        if default is dataclasses.MISSING:
            settings["required"] = True
        elif default == ():
            settings["default"] = []
        elif "action" not in settings:
            settings["default"] = default
            settings["help"] += "" if default is None else f" (default {default})"
        command.add_argument(f"--{field.name.replace('_', '-')}", **settings)


def _add_file(command: argparse.ArgumentParser, *, also: str = "") -> None:
    text = (
        "CSV, JSON, Parquet, Feather, a workbook (.xlsx, .ods), a database (SQLite, DuckDB),"
        " SPSS, Stata or SAS, perhaps in .gz or .zip; - for standard input"
    )
    command.add_argument("file", type=_path, metavar="FILE", help=text + also)


def _add_out(
    command: argparse.ArgumentParser, folder: str, text: str, *, force: bool = True
) -> None:
    text = f"{text} (default {folder})"
    command.add_argument("--out", type=_path, default=Path(folder), help=text)
    if force:
        text = "write over the files of an earlier run"
        command.add_argument("--force", action="store_true", help=text)


def _column_type(text: str) -> tuple[str, str]:
    column, equals, kind = text.rpartition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected COLUMN=TYPE, got {text!r}")
    return column, kind


_TEXT_OPTIONS: Mapping[str, tuple[str, str]] = {
    "delimiter": ("MARK", "character between values; a space for columns apart by spaces"),
    "decimal": ("POINT", "decimal point of all numbers: . or ,"),
    "encoding": ("NAME", "encoding of the text, such as cp1250 or latin-1"),
    "comment": ("MARK", "character with which lines begin that are no rows"),
    "sheet": ("NAME", "sheet of a workbook, by name or by its position from 1"),
    "table": ("NAME", "table of a database, or key of a list of records in JSON"),
}
_NUMBER_OPTIONS: Mapping[str, str] = {
    "header": "line of the names, from 1",
    "skip": "number of first lines to leave out",
    "footer": "number of last lines to leave out; 0 keeps notes and totals",
}
"""Options of `Reading` that are found out from the file, unless they are given."""


def _add_reading(command: argparse.ArgumentParser, columns: str | None = None) -> None:
    """Add the options of `Reading`; those of columns only with a help text for them."""
    command.set_defaults(columns=[], drop=[], header=True, skip=0)
    several = functools.partial(command.add_argument, action="extend", nargs="+", default=[])
    if columns is not None:
        several("--columns", metavar="COLUMN", help=columns)
        several("--drop", metavar="COLUMN", help="columns to ignore")
    group = command.add_argument_group("how the file is read (default: as it looks)")
    group.add_argument(
        "--na",
        action="append",
        default=[],
        metavar="TEXT",
        help="a text that stands for a missing value, beside the usual ones; may be given again",
    )
    group.add_argument(
        "--types",
        type=_column_type,
        action="extend",
        nargs="+",
        default=[],
        metavar="COLUMN=TYPE",
        help=f"what columns are: {', '.join(TYPES)} (dmy, mdy: dates; id: left out)",
    )
    for name, (metavar, text) in _TEXT_OPTIONS.items():
        choices = (".", ",") if name == "decimal" else None
        group.add_argument(f"--{name}", metavar=metavar, help=text, choices=choices)
    for name, text in _NUMBER_OPTIONS.items():
        least = int(name == "header")
        parse = functools.partial(_positive, least=least)
        group.add_argument(f"--{name}", metavar="N", help=text, type=parse)
    group.add_argument(
        "--no-header",
        dest="header",
        action="store_false",
        help="the file has no names; columns are called 'column 1', 'column 2', ...",
    )
