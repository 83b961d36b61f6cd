"""The paper's table of properties, each cell backed by a test that has its name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.paper.output import ExperimentError, Output, new_figure

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("HGR-KB", "HGR-SK", "HGR-NN", "HGR-KDE", "RDC")
PROPERTIES = (
    "expressivity",
    "interpretability",
    "configurability",
    "differentiability",
    "determinism",
)
CLAIMS = {
    "expressivity": ("f, g", "f or g", "f, g", "f, g (distributions)", "f, g"),
    "interpretability": ("yes", "yes", "visualization only", "no", "yes"),
    "configurability": ("yes", "yes", "architecture only", "no", "no"),
    "differentiability": ("yes", "yes", "yes", "yes", "no"),
    "determinism": ("yes", "yes", "no", "yes", "no"),
}
"""What the paper says; the tests assert just this of this package, the noes included."""


def run(output: Output, *, quick: bool) -> str:
    """Run the tests and draw the table with their verdicts."""
    verdicts = _verdicts(PROPERTIES[-1:] if quick else PROPERTIES)
    rows = [
        (name, method, claim, f"test_{name}[{method}]", verdicts.get((name, method), "not run"))
        for name in PROPERTIES
        for method, claim in zip(METHODS, CLAIMS[name], strict=True)
    ]
    output.table("properties", ("property", "method", "claim", "test", "verdict"), rows)
    figure = new_figure(11, 2.6)
    axes = figure.subplots()
    axes.axis("off")
    texts = [f"{claim}\n({verdict})" for _, _, claim, _, verdict in rows]
    cells = [texts[i : i + 5] for i in range(0, len(texts), 5)]
    table = axes.table(cells, rowLabels=PROPERTIES, colLabels=METHODS, loc="center")
    table.scale(1, 2)
    output.figure("properties", figure)
    counts = {verdict: sum(row[-1] == verdict for row in rows) for verdict in {r[-1] for r in rows}}
    if "failed" in counts or "passed" not in counts:
        raise ExperimentError(f"not every cell passed its test: {counts}; see properties.csv")
    return (
        "Cells of the table by the verdict of their tests (tests/test_properties.py): "
        + ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
        + "."
    )


def _verdicts(properties: tuple[str, ...]) -> dict[tuple[str, str], str]:
    names = [f"tests/test_properties.py::test_{name}" for name in properties]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "--no-header", *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    verdicts = {}
    for name in properties:
        for method in METHODS:
            marker = f"test_{name}[{method}] "
            lines = [line for line in run.stdout.splitlines() if marker in line]
            passed = any(" PASSED" in line for line in lines)
            verdicts[name, method] = "passed" if passed else "failed" if lines else "not run"
    return verdicts
