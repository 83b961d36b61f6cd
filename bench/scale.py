"""A table that does not fit: time, memory and values of a scan that reads it batch by batch.

    python -m bench.scale [--quick] [--rows MILLIONS] [--folder FOLDER] [--write]

The bench writes a folder of Parquet files, of 30 columns of all kinds with 5% missing values, and
scans the first of them, some, and all.  Every scan is a process of its own, whose memory is its
peak.  Then it compares values with those of the table in memory, and counts rejections of
independent columns.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

import hgr_jax
from bench.machine import describe
from bench.report import MarkdownReport, bench_parser
from bench.timing import last_line_of, peak

NUMBERS, CATEGORIES = 22, 5
"""With a column of dates, one of true and false, and one of whole numbers: 30 in all."""

QUICK_NUMBERS, QUICK_CATEGORIES = 8, 2
"""Of the quick version."""

MISSING = 0.05
FILE_ROWS = 500_000
PART_ROWS = 200_000
"""Of the table in memory beside it."""

SAMPLED_PAIRS = 20
NULL_COLUMNS = 64
TOLERANCE = 1e-6


def part(
    seed: int, rows: int, numbers: int = NUMBERS, categories: int = CATEGORIES
) -> pd.DataFrame:
    """Some rows: numbers that hang together in twos, some with tails, and categories beside."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    for i in range(numbers // 2):
        x = rng.normal(size=rows)
        noise = rng.normal(size=rows)
        columns[f"x{i}"] = np.exp(x) if i % 4 == 3 else x + 100 * i
        columns[f"y{i}"] = (x**2, np.sin(2 * x), np.abs(x), x)[i % 4] + (0.3 + i / 5) * noise
    base = columns["x0"]
    for i in range(categories):
        levels = np.array([f"level {j}" for j in range(2 + 4 * i)], object)
        own = rng.integers(0, len(levels), rows)
        columns[f"kind {i}"] = levels[np.where(base > 1, own // 2, own)]
    columns["day"] = np.datetime64("2015-01-01") + rng.integers(0, 3000, rows).astype("m8[D]")
    columns["flag"] = rng.random(rows) < 1 / (1 + np.exp(-base))
    columns["count"] = rng.poisson(np.exp(np.clip(columns["x1"] - 100, -2, 2)))
    table = pd.DataFrame(columns)
    for name in table.columns:
        table[name] = table[name].mask(rng.random(rows) < MISSING)
    table["day"] = table["day"].astype("datetime64[us]")
    table["flag"] = table["flag"].astype("boolean")
    return table


def written(folder: Path, files: int, rows: int, columns: Sequence[int] = ()) -> list[Path]:
    """Files of so many rows each, written where they are not there yet; and one to warm up with."""
    paths = [folder / f"part-{i:04d}.parquet" for i in range(files)]
    for seed, path in enumerate(paths):
        if not path.exists():
            part(seed, rows, *columns).to_parquet(path)
    part(10**6, min(5000, rows // 4), *columns).to_parquet(f"{paths[0]}.warm")
    return paths


def _read(paths: Sequence[str]) -> None:
    import pyarrow.parquet as parquet

    for path in paths:
        with parquet.ParquetFile(path) as file:
            for _ in file.iter_batches(2**16):
                pass


def _scanned(test: str | None) -> Callable[[Sequence[str]], hgr_jax.Scan]:
    def scan(paths: Sequence[str]) -> hgr_jax.Scan:
        import pyarrow.dataset as dataset

        return hgr_jax.scan(dataset.dataset(list(paths)), test=test)

    return scan


def _in_memory(test: str | None) -> Callable[[Sequence[str]], hgr_jax.Scan]:
    def scan(paths: Sequence[str]) -> hgr_jax.Scan:
        return hgr_jax.scan(pd.concat(map(pd.read_parquet, paths)), test=test)

    return scan


WORK: dict[str, Callable[[Sequence[str]], Any]] = {
    "pyarrow reads the files": _read,
    "`scan(files, test=None)`": _scanned(None),
    "`scan(files)`": _scanned("auto"),
    "`scan(frame, test=None)`, and reading it": _in_memory(None),
    "`scan(frame)`, and reading it": _in_memory("auto"),
}


def worked(name: str, paths: Sequence[str]) -> tuple[float, int]:
    """Seconds and bytes of some work in this process."""
    warm = paths[0] + ".warm"
    WORK[name]([warm])  # imports and compilation, which do not grow with the rows
    start = time.perf_counter()
    WORK[name](paths)
    return time.perf_counter() - start, peak()


def measured(name: str, paths: Sequence[str]) -> tuple[float, int]:
    """The same of a process of its own."""
    seconds, size = last_line_of("bench.scale", "--child", name, *paths)
    return seconds, size


def growth(
    report: MarkdownReport, paths: Sequence[Path], rows: int, whole: int, *, quick: bool
) -> None:
    """Time and memory of more and more files; of tables in memory the first ``whole`` alone.

    If ``quick``, only a scan of files has a process of its own.
    """
    counts = sorted({max(1, len(paths) // 4), max(1, len(paths) // 2), len(paths)})

    def lines() -> Any:
        for name in WORK:
            for count in counts if "frame" not in name else [min(whole, len(paths))]:
                run = worked if quick and name != "`scan(files)`" else measured
                seconds, size = run(name, [*map(str, paths[:count])])
                total = count * rows
                yield (
                    name,
                    f"{total:,}",
                    f"{seconds:.1f} s",
                    f"{1e6 * seconds / total:.2f} \N{MICRO SIGN}s",
                    f"{size / 2**20:,.0f} MB",
                )

    report.table(["work", "rows", "time", "a row", "peak memory"], lines())


def same_values(
    report: MarkdownReport, path: Path, folder: Path, rows: int, pairs: int = SAMPLED_PAIRS
) -> bool:
    """HGR-KB of a part beside that of the table in memory, and `kb` on the rows of pairs.

    Both of these in double precision.
    """
    import pyarrow.dataset as dataset

    table = pd.read_parquet(path).iloc[:rows]
    table.to_parquet(folder / "some.parquet")
    found = hgr_jax.scan(dataset.dataset([str(folder / "some.parquet")]), h=5, k=5)
    rng = np.random.default_rng(0)
    numbers = [name for name in table.columns if name[0] in "xy"]
    errors = []
    with jax.enable_x64(True):
        whole = hgr_jax.scan(table, h=5, k=5, test=None)
        for _ in range(pairs):
            a, b = rng.choice(numbers, 2, replace=False)
            both = table[[a, b]].dropna().to_numpy()
            errors.append(abs(float(hgr_jax.kb(*both.T)) - found[a, b].correlation))
    apart = {
        name: float(np.nanmax(np.abs(getattr(found, name) - getattr(whole, name))))
        for name in ("correlation", "pearson")
    }
    apart[f"`kb` of {pairs} pairs of numbers"] = max(errors)
    return report.judged_table(
        ["largest difference of a float32 scan from float64 in memory", "is", "at most"],
        (
            ([name, f"{value:.1e}", f"{TOLERANCE:.0e}"], value <= TOLERANCE)
            for name, value in apart.items()
        ),
    )


def null_table(
    rng: np.random.Generator, rows: int, holes: float, count: int = NULL_COLUMNS
) -> dict[str, Any]:
    """Independent columns: without ties, skewed, of few values; each with holes of its own."""
    columns: dict[str, Any] = {}
    for i in range(count):
        x = (rng.normal(size=rows), rng.lognormal(size=rows), rng.poisson(2, rows))[i % 3]
        columns[f"x{i}"] = np.where(rng.random(rows) < holes, np.nan, x)
    return columns


def summed(table: Mapping[str, Any], sample: int) -> hgr_jax.Scan:
    """The scan of a table by bases and ranks of its first rows."""
    state = hgr_jax.ScanState.prepare({name: x[:sample] for name, x in table.items()}).update(table)
    for _ in range(2):
        state = state if state.well_conditioned else state.repaired().update(table)
    return state.result()


def rejections(
    report: MarkdownReport,
    rows: int,
    samples: Sequence[int],
    repeats: int,
    columns: int = NULL_COLUMNS,
) -> None:
    """How often independent columns are found dependent, with ranks by samples of the rows."""

    def rate(scans: Sequence[hgr_jax.Scan], level: float) -> str:
        pvalues = np.concatenate([s.pvalue[s.pairs[:, 0], s.pairs[:, 1]] for s in scans])
        return f"{np.mean(pvalues[np.isfinite(pvalues)] <= level):.2%}"

    def lines() -> Any:
        for holes in (0.0, MISSING):
            tables = [
                null_table(np.random.default_rng(seed), rows, holes, columns)
                for seed in range(repeats)
            ]
            contestants: dict[str, list[hgr_jax.Scan]] = {
                "in memory": list(map(hgr_jax.scan, tables))
            }
            for sample in samples:
                contestants[f"by {sample:,} rows"] = [summed(table, sample) for table in tables]
            for name, scans in contestants.items():
                count = sum(int(np.isfinite(s.pvalue).sum() // 2) for s in scans)
                rates = [rate(scans, level) for level in (0.05, 0.01, 0.001)]
                yield (f"{holes:.0%} missing, ranks {name}", f"{count:,}", *rates)

    report.say(f"Rejections of independent columns, {rows:,} rows.")
    report.table(["", "pairs", "5%", "1%", "0.1%"], lines())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and keep the tables if asked."""
    parser = bench_parser("scale", __doc__, quick="some thousand rows")
    parser.add_argument("--rows", type=float, default=20, help="millions of rows")
    parser.add_argument("--folder", type=Path, help="where the files are, or are written to")
    parser.add_argument("--child", nargs="+", help="(what one of its processes does)")
    options = parser.parse_args(arguments)
    if options.child:
        print(json.dumps(worked(options.child[0], options.child[1:])))
        return 0
    rows = 4_000 if options.quick else FILE_ROWS
    files = 1 if options.quick else max(1, round(options.rows * 1e6 / rows))
    report = MarkdownReport()
    report.say(describe())
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        columns = (QUICK_NUMBERS, QUICK_CATEGORIES) if options.quick else ()
        paths = written(folder, files, rows, columns)
        growth(report, paths, rows, whole=2, quick=options.quick)
        pairs = 3 if options.quick else SAMPLED_PAIRS
        fine = same_values(report, paths[0], Path(temporary), min(rows, PART_ROWS), pairs)
        if options.quick:
            rejections(report, 400, (200,), 1, columns=12)
        else:
            rejections(report, 20_000, (1024, 4096), 4)
    if options.write:
        report.keep("scale")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
