"""``hgr-jax scan``: print a ranked table, and write all pairs, a picture and a report."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from hgr_jax._files import atomic_write
from hgr_jax._optional import require
from hgr_jax._texts import counted, pvalue_as_text, shortened
from hgr_jax.cli.options import ScanOptions
from hgr_jax.cli.outputs import (
    MAX_NAME_WIDTH,
    SCAN_FILES,
    escape_formula,
    print_messages,
    show_step,
)
from hgr_jax.scanning.api import open_table, scan_table
from hgr_jax.scanning.findings import (
    FALSE_DISCOVERY_RATE,
    FINDINGS,
    Findings,
    is_of_hgr,
)
from hgr_jax.scanning.html.page import write_html
from hgr_jax.scanning.report import as_report, order_in_words
from hgr_jax.scanning.request import KEPT_BY, Categories, Execution, Request, Test, Top, request_of
from hgr_jax.scanning.result import Scan
from hgr_jax.scanning.size import TooLargeError
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.reading import Reading

KEPT = 1000
"""Number of pairs that are kept where all do not fit in memory."""

PAIRS = 20
"""Default number of pairs in an order that is asked for."""


def _request_of(options: ScanOptions) -> Request:
    kept_by = options.sort if options.sort in KEPT_BY else "pvalue"
    return request_of(
        options.h,
        options.k,
        target=list(options.target) or None,
        given=list(options.given) or None,
        order=options.row_order,
        groups=options.groups,
        test=Test("auto", options.permutations, (0, options.seed), options.fdr),
        categories=Categories(
            options.categories, missing="level" if options.missing_level else None
        ),
        top=None if options.keep is None else Top(options.keep, kept_by),
        execution=Execution(progress=sys.stderr.isatty()),
    )


def report_scan(
    table: Any, title: str, settings: ScanOptions, folder: Path, reading: Reading | None = None
) -> Scan:
    """Scan a file or a table in memory, print a ranked table, and write all pairs to a folder."""
    if reading is not None and reading.columns:
        needed = (*reading.columns, *settings.given, *settings.row_columns)
        reading = dataclasses.replace(reading, columns=needed)
    try:
        request = _request_of(settings)
        if isinstance(table, Path):
            with show_step(f"reading {table}"):
                table = open_table(table, request, reading)
        try:
            result = scan_table(table, request, reading)
        except TooLargeError:
            if request.top is not None or request.given is not None:
                raise
            note = f"the pairs do not fit in memory: only the first {KEPT:,} are kept (--keep)"
            print(note, file=sys.stderr)
            request = dataclasses.replace(request, top=Top(KEPT, "pvalue"))
            result = scan_table(table, request, reading)
    except ValueError as error:
        raise TableError(printable(str(error))) from error

    with show_step("examining the first pairs"):
        findings = result.findings(settings.top or FINDINGS, min_rows=settings.min_rows)
    # Write before printing: a reader such as `head` may close stdout early.
    page = folder / "report.html"
    with show_step("writing pairs.csv, pairs.parquet and scan.npz"):
        _write_pairs(result, settings.pair_order, folder)
        result.save(folder / "scan.npz")
    with show_step("writing report.html"):
        write_html(as_report(result, title, findings, by=settings.pair_order), page)
    if settings.json:
        print(json.dumps(_as_json(result, title, findings, folder), indent=1, allow_nan=False))
        return result
    _print_scan(result, title, findings, settings)
    kept = "pairs that were kept" if "top" in result.settings else "all pairs"
    print(f"{kept}: {printable(str(folder / 'pairs.csv'))} (and .parquet, scan.npz)")
    print(f"open in a browser: {printable(str(page))}")
    return result


def _as_json(result: Scan, title: str, findings: Findings, folder: Path) -> dict[str, Any]:
    """Return what a program wants to know of a scan."""
    return {
        "table": title,
        "rows": result.settings["rows"],
        "columns": list(result.used),
        "settings": dict(result.settings),
        "notes": dict(result.notes),
        **findings.to_dict(),
        "skipped": dict(result.skipped),
        "files": sorted(str(path) for name in SCAN_FILES if (path := folder / name).exists()),
    }


def _print_scan(result: Scan, title: str, findings: Findings, settings: ScanOptions) -> None:
    given = ", ".join(map(printable, dict.fromkeys(settings.given)))
    made_of = result.settings
    measure = f"polynomials of degree {made_of['h']} and {made_of['k']}"
    print(
        f"{printable(title)}: {counted(len(result), 'pair')} of"
        f" {counted(len(result.used), 'column')}, {counted(result.settings['rows'], 'row')},"
        f" {'HGR' if made_of['measure'] == 'hgr' else measure}"
        + (f", given {given}" if given else "")
    )
    print_messages("skipped", result.skipped)
    print_messages("note", result.notes)
    totals = result.settings.get("top")
    if totals is not None:
        print(
            f"these come first by {order_in_words(result, totals['by'])[1]}, of"
            f" {counted(totals['pairs'], 'pair')} of {counted(totals['columns'], 'column')}; more"
            f" than chance, at a false discovery rate of {FALSE_DISCOVERY_RATE:.0%}:"
            f" {totals['discoveries']:,} of all"
        )
    if not len(result):
        tested = totals is not None and totals["pairs"]
        none_left = "no pair of columns is left to scan"
        print("no pair could be ranked, and none is kept" if tested else none_left)
        return
    if settings.sort is None:
        print("\n".join(["", *map(printable, findings.lines()), ""]))
    else:
        _print_pairs(result, findings, settings)


def _print_pairs(result: Scan, findings: Findings, settings: ScanOptions) -> None:
    """Print the first pairs in an order that was asked for."""
    frame = result.to_frame(by=settings.pair_order, library="pandas").head(settings.top or PAIRS)
    frame.index += 1
    columns = ["a", "b", "correlation", "rank_correlation", "spearman", "pearson"]
    columns += ["adjusted_pvalue", "n_obs", "remark"]
    if is_of_hgr(result):
        columns.remove("rank_correlation")
    words = dict.fromkeys(("a", "b"), _short_name) | {"remark": lambda text: f" {printable(text)}"}
    print(f"\nPairs by {order_in_words(result, settings.pair_order)[1]}\n")
    print(
        frame[columns].to_string(
            formatters=words | {"adjusted_pvalue": pvalue_as_text},
            float_format="{:.3f}".format,
            na_rep="-",
        )
    )
    print("\n".join(["", *map(printable, findings.counts()), ""]))


def _short_name(name: str) -> str:
    return " " + shortened(printable(name), MAX_NAME_WIDTH, mark="...")


def _write_pairs(result: Scan, by: str, folder: Path) -> None:
    """Write a table of pairs by DuckDB, which takes less time to load than pandas."""
    pairs = result.to_dict(by=by)
    for_csv = {name: np.array([*map(escape_formula, pairs[name])], object) for name in ("a", "b")}
    with require("duckdb").connect() as connection:
        for name, table in (("pairs.csv", pairs | for_csv), ("pairs.parquet", pairs)):
            with atomic_write(folder / name) as partial:
                relation = connection.register("listed", table).table("listed")
                write = relation.write_csv if name.endswith("csv") else relation.write_parquet
                write(str(partial))
