"""Put the figures of ``bench/results`` into the pages that show them.

``python -m bench.figures`` rewrites what is between ``<!-- NAME -->`` and ``<!-- end NAME -->``, a
whole result or a table made of some; ``--check`` writes nothing, and exits with 1 if a page does
not show what the results say.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.report import kept, measured, shown

ROOT = Path(__file__).parent.parent
PAGES = (
    ROOT / "bench/README.md",
    ROOT / "bench/paper/README.md",
    ROOT / "README.md",
    ROOT / "docs/guides/what_a_relation_looks_like.md",
)

COMPARISON = """\
| | hgr_jax | [maxcorr](https://github.com/giuluck/maxcorr) | [the paper's code]\
(https://github.com/giuluck/kernel-based-hgr) |
| --- | --- | --- | --- |
| double kernel (HGR-KB) | exact global optimum | trust-region search | trust-region search |
| more than 0.01 below exact, 60 real pairs in raw units | {share} | {share_maxcorr} \
| not measured |
| one estimate, n = 10,000, degree 5 | {pair} (QR and SVD in NumPy: {pair_numpy}) \
| {pair_maxcorr} | not measured |
| all 4,950 pairs of 10,000 x 100 | {scan} (NumPy: {scan_numpy}); with p-values {scan_tested} \
| {scan_maxcorr}, from 60 pairs | not measured |
| derivatives of the value; of transformations | exact, every order; yes | first order; no \
| first order; no |
| inside a compiled loss; over a batch of pairs | `jit`; `vmap` | no | no |
| backends | JAX | NumPy, PyTorch, TensorFlow | NumPy, PyTorch |"""
"""The table of the README, whose figures are cells of results."""


def tables(name: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """The tables of a result: their headers and their other rows."""
    for table in re.findall(r"(?:^\|.*\n)+", kept(name)["text"] + "\n", re.MULTILINE):
        header, _, *rows = (
            [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()
        )
        yield header, rows


def cells(name: str, row: str, column: str) -> list[str]:
    """The cells of a result's tables in rows that begin with ``row``, without what is in brackets.

    Raises:
      LookupError: if there is none.
    """
    found = []
    for header, rows in tables(name):
        places = [place for place, title in enumerate(header) if title == column]
        for values in rows:
            if values[0].startswith(row):
                found += [re.sub(r" \(.*\)", "", values[place]) for place in places]
    if not found:
        raise LookupError(f"the result {name!r} has no row {row!r} with a column {column!r}")
    return found


def estimate_times(column: str) -> str:
    """The least and the largest time of one estimate from 10,000 rows."""
    units = {"\N{MICRO SIGN}s": 1e-6, "ms": 1e-3, "s": 1.0}
    times = [cells("pair", f"{kind}, n = 10,000", column)[0] for kind in ("circle", "x^2", "sin")]
    times.sort(key=lambda time: float(time.split()[0]) * units[time.split()[1]])
    return f"{times[0]} to {times[-1]}"


def comparison() -> str:
    """The table of the README."""
    return COMPARISON.format(
        share=cells("pair", "hgr_jax KB, float32", "more than 1e-2 below")[0],
        share_maxcorr=cells("pair", "maxcorr double", "more than 1e-2 below")[0],
        pair=estimate_times("KB"),
        pair_numpy=estimate_times("NumPy QR + SVD"),
        pair_maxcorr=estimate_times("maxcorr double"),
        scan=cells("scan", "`scan(test=None)`", "time")[0],
        scan_tested=cells("scan", "`scan`", "time")[0],
        scan_numpy=cells("scan", "plain NumPy, float64", "time")[0],
        scan_maxcorr=cells("scan", "maxcorr, double kernel", "time")[0],
    )


FAIRNESS = ("communities", "census", "adult", "diabetes")
"""Tables of which models are judged."""

AT_THRESHOLD = ("0.3", "")
"""Of the methods that the table of fairness shows; those without a constraint have none."""


def fairness() -> str:
    """What is left, the score, and how often a threshold of 0.3 is kept, by method and table."""
    cells: dict[str, dict[str, str]] = {}
    for data in FAIRNESS:
        header, rows = next(tables(f"fairness {data}"))
        for row in rows:
            found = dict(zip(header, row, strict=True))
            if found["threshold"] in AT_THRESHOLD:
                score, models = found["score"].split(" ")[0], found["models"]
                shares = (x for x in (found["HGR-KB"], found["dCor"], score, found["kept"]) if x)
                note = "" if models.startswith("10 ") else f" ({models})"
                cells.setdefault(row[0], {})[data] = " / ".join(shares) + note
    lines = [f"| | {' | '.join(FAIRNESS)} |", "| --- |" + " --- |" * len(FAIRNESS)]
    for name, of in cells.items():
        lines.append(f"| {name} | {' | '.join(of.get(data, '') for data in FAIRNESS)} |")
    when = dict.fromkeys(measured(f"fairness {data}") for data in FAIRNESS)
    return "\n".join([*lines, "", *when])


def words() -> str:
    """The guide's table of what is said of a relation."""
    header, rows = next(tables("shapes"))
    ruler = ["---", "---", *["---:"] * (len(header) - 3), "---"]
    lines = [f"| {' | '.join(cells)} |" for cells in (header, ruler, *rows)]
    said = kept("shapes")["text"].rpartition("|\n")[2].strip()
    return "\n".join([*lines, "", said, "", measured("shapes")])


SECTIONS = {
    "comparison": comparison,
    "fairness": fairness,
    "words": words,
}
"""Sections that are made of cells; any other shows a whole result."""


def rendered(page: Path) -> str:
    """A page with what the results say in its sections."""

    def section(found: re.Match[str]) -> str:
        name = found[1]
        text = SECTIONS[name]() if name in SECTIONS else shown(name)
        return f"<!-- {name} -->\n{text}\n<!-- end {name} -->"

    text = page.read_text(encoding="utf-8")
    return re.sub(r"<!-- ([\w ]+) -->\n.*?<!-- end \1 -->", section, text, flags=re.DOTALL)


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrite the pages, or check them."""
    parser = argparse.ArgumentParser(prog="python -m bench.figures", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 on differences")
    options = parser.parse_args(arguments)
    differ = [page for page in PAGES if rendered(page) != page.read_text(encoding="utf-8")]
    for page in differ:
        print(f"{page.relative_to(ROOT)} does not show what the results say")
        if not options.check:
            page.write_text(rendered(page), encoding="utf-8")
    return 1 if options.check and differ else 0


if __name__ == "__main__":
    sys.exit(main())
