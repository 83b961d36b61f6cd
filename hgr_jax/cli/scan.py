"""``hgr-jax scan``: a ranked table in the terminal, all pairs in files, a report to open."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hgr_jax._files import atomic_write
from hgr_jax._texts import counted, shortened
from hgr_jax.cli.html.page import write_html
from hgr_jax.cli.outputs import harmless, open_in_browser, save_shown, step_shown
from hgr_jax.cli.report import (
    DETAILS,
    ORDERED_BY,
    InFull,
    as_report,
    influence_in,
    more_than_chance,
)
from hgr_jax.scanning.api import scan
from hgr_jax.scanning.consumers import ORDERS_OF_ALL
from hgr_jax.scanning.fits import Influence
from hgr_jax.scanning.pairs import available_memory
from hgr_jax.scanning.request import StreamOptions
from hgr_jax.scanning.result import FALSE_DISCOVERY_RATE, Scan
from hgr_jax.scanning.streamed import scan_source
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.files import Reading, chosen_names, read_any
from hgr_jax.tables.sources import DELIMITED, PARQUET, names_several, of_files

WIDEST_NAME = 32

LARGE = 1 / 8
"""Of the memory that is available: a larger file is read batch by batch."""


@dataclasses.dataclass(frozen=True)
class ScanOptions:
    """The options of the command, by their names."""

    h: int = 5
    k: int = 5
    target: Sequence[str] = ()
    given: Sequence[str] = ()
    categories: Sequence[str] = ()
    rank: bool = False
    top: int = 20
    keep: int | None = None
    checkpoint: Path | None = None
    sort: str = "rank_excess"
    permutations: int = 999
    seed: int = 0
    open: bool = False

    @property
    def kept_by(self) -> str:
        """By which order the pairs are kept, where not all are."""
        return self.sort if self.keep is not None and self.sort in ORDERS_OF_ALL else "pvalue"


def report_file(
    path: Path, settings: ScanOptions, folder: Path, reading: Reading | None = None
) -> None:
    """Scan the columns of a file: a ranked table in the terminal, and all pairs in a folder.

    A folder and a pattern are read batch by batch, and so is a file of CSV or Parquet that takes
    more than `LARGE` of the memory that is available, where no option needs all of it.
    """
    reading = reading or Reading()
    if reading.columns:
        reading = dataclasses.replace(reading, columns=(*reading.columns, *settings.given))
    needs_all = any(_of_whole_files(settings, reading).values())
    if names_several(path) or (_is_large(path) and not needs_all):
        _report_batches(path, settings, folder, reading)
        return
    with step_shown(f"reading {path}"):
        frame = read_any(path, reading)
    report_scan(frame, Path(frame.source).name, settings, folder)


def _is_large(path: Path) -> bool:
    free = available_memory()
    in_batches = path.is_file() and path.name.lower().endswith((*PARQUET, *DELIMITED))
    return free is not None and in_batches and path.stat().st_size > LARGE * free


def _of_whole_files(settings: ScanOptions, reading: Reading) -> dict[str, bool]:
    """Return which of the options that need a whole file are given."""
    return {
        "--given": bool(settings.given),
        "--rank": settings.rank,
        "--keep": settings.keep is not None,
        "--na": bool(reading.na),
        "--decimal": bool(reading.decimal),
        "--no-header": not reading.header,
    }


def _report_batches(path: Path, settings: ScanOptions, folder: Path, reading: Reading) -> None:
    """Scan files batch by batch, and report as `report_file` does."""
    wrong = [option for option, given in _of_whole_files(settings, reading).items() if given]
    if wrong:
        raise TableError(
            f"{wrong[0]} is for a file that is read whole, and {printable(str(path))} is read batch"
            " by batch: leave it out"
        )
    _check_out(folder)
    source = of_files(path)
    columns = chosen_names(source.name, source.order, reading)
    try:
        options = StreamOptions(
            h=settings.h,
            k=settings.k,
            target=list(settings.target) or None,
            permutations=settings.permutations,
            key=jax.random.key(settings.seed),
            categories=settings.categories,
        )
        found = scan_source(
            source,
            options,
            progress=sys.stderr.isatty(),
            checkpoint=settings.checkpoint,
            columns=columns,
        )
    except ValueError as error:
        raise TableError(printable(str(error))) from error
    _report(found, path.name, settings, folder)


def _check_out(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise TableError(f"cannot write to {printable(str(folder))}: it is a file")


def report_scan(table: Any, title: str, settings: ScanOptions, folder: Path) -> Scan:
    """Scan a table that has been read, and report as `report_file` does."""
    _check_out(folder)
    if settings.keep is not None and settings.given:
        raise TableError("--keep is for scans without --given: leave one of them out")
    if settings.keep is None and settings.checkpoint is not None:
        raise TableError(
            "--checkpoint is for files that are read batch by batch, or with --keep: leave it out"
        )
    try:
        found = scan(
            table,
            h=settings.h,
            k=settings.k,
            target=list(settings.target) or None,
            given=list(settings.given) or None,
            transform="rank" if settings.rank else None,
            permutations=settings.permutations,
            key=jax.random.key(settings.seed),
            categories=settings.categories,
            progress=sys.stderr.isatty(),
            top=settings.keep,
            by=settings.kept_by,
            checkpoint=settings.checkpoint,
        )
    except ValueError as error:
        raise TableError(printable(str(error))) from error
    return _report(found, title, settings, folder, table)


def _report(
    found: Scan, title: str, settings: ScanOptions, folder: Path, table: Any = None
) -> Scan:
    """Print and write what was found, of a ``table`` if it is in memory."""
    # All but what prints before what is printed: a reader such as `head` may end that early.
    shown = found.top(max(settings.top, DETAILS), by=settings.sort)
    with step_shown(f"looking at {counted(len(shown), 'pair')} in full"):
        in_full = {(pair.a, pair.b): found.in_full(pair.a, pair.b) for pair in shown}
    with step_shown("writing pairs.csv, pairs.parquet and scan.npz"):
        _write_pairs(found, in_full, settings.sort, folder)
        found.save(folder / "scan.npz")
    page, picture = folder / "report.html", folder / "heat_map.png"
    with step_shown(f"writing report.html with {counted(min(len(shown), DETAILS), 'pair')} drawn"):
        write_html(as_report(found, title, in_full, table, by=settings.sort), page)
    _say(found, title, in_full, settings)
    if len(found):
        save_shown(found.plot, picture)
    else:  # that of an earlier scan would be wrong
        picture.unlink(missing_ok=True)
    kept = "pairs that were kept" if "top" in found.settings else "all pairs"
    print(f"{kept}: {printable(str(folder / 'pairs.csv'))} (and .parquet, scan.npz)")
    print(f"open in a browser: {printable(str(page))}")
    if settings.open:
        open_in_browser(page)
    return found


def _say(found: Scan, title: str, in_full: InFull, settings: ScanOptions) -> None:
    used = len(found.used)
    print(
        f"{printable(title)}: {counted(len(found), 'pair')} of {counted(used, 'column')},"
        f" {counted(found.settings['rows'], 'row')},"
        f" polynomials of degree {settings.h} and {settings.k}"
        + (" of ranks" if settings.rank else "")
        + (
            f", given {', '.join(map(printable, dict.fromkeys(settings.given)))}"
            if settings.given
            else ""
        )
    )
    for label, messages in (("skipped", found.skipped), ("note", found.notes)):
        for name, reason in messages.items():
            print(f"{label}: {printable(name)}: {printable(reason)}")
    of_all = found.settings.get("top")
    if of_all is not None:
        print(
            f"these come first by {ORDERED_BY[of_all['by']][1]}, of"
            f" {counted(of_all['pairs'], 'pair')} of {counted(of_all['columns'], 'column')}; more"
            f" than chance, at a false discovery rate of {FALSE_DISCOVERY_RATE:.0%}:"
            f" {of_all['discoveries']:,} of all"
        )
    sample = found.settings.get("sample_rows")
    if sample is not None:
        print(
            f"read batch by batch: ranks, pictures and single rows are by {counted(sample, 'row')}"
        )
    if not len(found):
        some = of_all is not None and of_all["pairs"]
        print("no pair has what they are kept by" if some else "no pair of columns is left to scan")
        return
    listed = found.top(settings.top, by=settings.sort)
    width = max(
        8, min(WIDEST_NAME, max(len(_short_name(n)) for pair in listed for n in (pair.a, pair.b)))
    )
    print(f"\nPairs by {ORDERED_BY[settings.sort][1]}\n")
    print(
        f"{'':>3}  {'column a':<{width}}  {'column b':<{width}}  {'KB':>6}   {'of ranks':>8}"
        f"  {'|Spearman|':>10}  {'|Pearson|':>9}  {'adjusted p':>10}  {'null 95%':>8}  {'rows':>7}"
        "  one row"
    )
    for place, pair in enumerate(listed, 1):
        mark = "*" if pair.ranks_disagree else " "
        print(
            f"{place:>3}  {_short_name(pair.a):<{width}}  {_short_name(pair.b):<{width}}"
            f"  {pair.correlation:>6.3f}{mark}  {_cell(pair.rank_correlation):>8}"
            f"  {_cell(pair.spearman):>10}  {_cell(pair.pearson):>9}"
            f"  {_probability(pair.adjusted_pvalue):>10}  {_cell(pair.null_95):>8}"
            f"  {pair.n_obs:>7}  {_one_row(influence_in(in_full, pair.a, pair.b))}"
        )
    print(
        f"\n{more_than_chance(found):,} of {'these ' if of_all else ''}{len(found):,} pairs are"
        " more than chance at a false"
        f" discovery rate of {FALSE_DISCOVERY_RATE:.0%}\n"
        "null 95%: what HGR-KB of ranks stays below, 95 times of 100, where columns are independent"
    )
    if any(pair.ranks_disagree for pair in listed):
        print("*: the value and that of the ranks disagree: few rows make one of them")
    print(
        "one row: the largest part of the correlation that one row makes; if that is much, which"
        " row (from 0), and KB without it\n"
    )


def _one_row(influence: Influence | None) -> str:
    if influence is None:
        return "-"
    text = f"{influence.part:.0%}"
    if influence.dominates:
        text += f", {influence.row}: {influence.without:.3f}"
    return text


def _short_name(name: str) -> str:
    return shortened(printable(name), WIDEST_NAME, mark="...")


def _cell(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


def _probability(value: float) -> str:
    if np.isnan(value):
        return "-"
    if value < 1e-99:
        return "<1e-99"
    return f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"


def _write_pairs(found: Scan, in_full: InFull, by: str, folder: Path) -> None:
    frame = found.to_frame(by=by, library="pandas")
    listed = [influence_in(in_full, a, b) for a, b in zip(frame["a"], frame["b"], strict=True)]
    for name, column in (("part", "one_row_part"), ("row", "one_row"), ("without", "without_it")):
        frame[column] = [np.nan if one is None else getattr(one, name) for one in listed]
    shown = frame.assign(a=frame["a"].map(harmless), b=frame["b"].map(harmless))
    for name, write in (("pairs.csv", shown.to_csv), ("pairs.parquet", frame.to_parquet)):
        with atomic_write(folder / name) as partial:
            write(partial, index=False)
