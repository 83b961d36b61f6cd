"""A table that does not fit: time, memory and values of a scan of a sample of its rows.

    python -m bench.scale [--quick] [--write]

The bench writes a Parquet file of 20 columns, and scans it as it is, and with the memory that all
of its rows take.  Every scan is a process of its own, whose memory is its peak.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hgr_jax
from bench.machine import describe
from bench.report import MarkdownReport, bench_parser
from bench.timing import last_line_of, peak

COLUMNS, ROW_GROUP = 20, 100_000


def write(path: Path, rows: int) -> None:
    """Write a table of which each second column is a noisy curve of the one before."""
    import pyarrow as pa
    from pyarrow import parquet

    names, writer = [f"x{i}" for i in range(COLUMNS)], None
    for seed in range(-(-rows // ROW_GROUP)):
        x = np.random.default_rng(seed).normal(size=(COLUMNS, min(ROW_GROUP, rows)))
        for i in range(1, COLUMNS, 2):
            one = x[i - 1]
            curve = (0.6 * one, one**2 / 2, np.sin(3 * one), np.abs(one), np.exp(one / 2))[
                i // 2 % 5
            ]
            x[i] = curve + (0.3 + i / 10) * x[i]
        part = pa.table(dict(zip(names, x, strict=True)))
        writer = writer or parquet.ParquetWriter(path, part.schema)
        writer.write_table(part)
    if writer is not None:
        writer.close()


def scanned(path: str, memory: int) -> dict[str, Any]:
    """Scan a file in this process; return seconds, bytes, numbers of rows, and values."""
    start = time.perf_counter()
    found = hgr_jax.scan(path, execution=hgr_jax.Execution(memory=memory))
    rows = found.settings["rows"]
    return {
        "seconds": time.perf_counter() - start,
        "peak": peak(),
        "rows": found.settings.get("sample_rows", rows),
        "of": rows,
        "values": [pair.correlation for pair in found],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; in a process of its own, one scan."""
    parser = bench_parser("scale", __doc__, quick="20,000 rows")
    parser.add_argument("--scan", nargs=2, metavar=("FILE", "MEMORY"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.scan:
        print(json.dumps(scanned(options.scan[0], int(options.scan[1]))))
        return 0
    rows, little = (20_000, 2**20) if options.quick else (5_000_000, 2**29)
    report, found = MarkdownReport(), {}
    report.say(describe())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.parquet")
        write(path, rows)
        for name, memory in (("a sample", little), ("all rows", 2**40)):
            found[name] = last_line_of("bench.scale", "--scan", str(path), str(memory))
    report.table(
        ["`scan` of", "rows", "of", "time", "peak memory"],
        (
            [
                name,
                f"{each['rows']:,}",
                f"{each['of']:,}",
                f"{each['seconds']:.1f} s",
                f"{each['peak'] / 1e6:,.0f} MB",
            ]
            for name, each in found.items()
        ),
    )
    one, other = (np.array(each["values"]) for each in found.values())
    report.say()
    report.say(
        f"Largest difference of a value from that of all rows: {np.abs(one - other).max():.4f}."
    )
    if options.write:
        report.keep("scale")
    return 0


if __name__ == "__main__":
    sys.exit(main())
