"""Whether the tests bite: the package broken in random places, and which test notices.

    python -m bench.mutation [--seed 0] [--each 10] [--limit 240]

So many places of each room are drawn.  One at a time is changed, in a copy of the package: an
operator, a number or the bound of a slice, an option or a ``not``, or the sign of what is returned.
The tests of the room run until one fails, those first that speak of what is changed or of what
calls it.  Left alone are texts, types, assertions, messages of errors, and numbers that set speed
or memory only.  Tests that fail anyway catch nothing.  Exits with 1 below nine tenths.
"""

from __future__ import annotations

import argparse
import ast
import functools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.data import data_folder
from bench.report import MarkdownReport

ROOT = Path(__file__).parent.parent
ENOUGH = 0.9

ROOMS = {
    "core": "rows solvers orthogonal formulas kb sk kernels partial spectrum analytic"
    " derivatives copula properties lengths independence kernel_correlations scan_influence",
    "inference": "independence inference_* roys_root selection uncertainty kernels"
    " scan_inference scan_rank_tests scan_top",
    "scanning": "scan scan_* sampling sources clusters results_shown lengths",
    "fairness": "fairness_* results_shown many_calls paper",
}
"""Of each room: the files of its tests, without ``test_`` and ``.py``."""

TUNING = re.compile(
    "BYTES|AT_ONCE|MEMORY|CACHE|BLOCK|SECONDS|TILE|CHUNK|NUMBERS|NODES|THREADS|BATCH|ROWS_PER"
)
"""Constants that set speed or memory only; so does what is in ``memory.py``."""

UNSEEN = {"strict", "frozen", "slots", "kw_only", "eq", "stacklevel"}
"""Options that only look after mistakes in the package."""

SWAPS: dict[Any, Any] = {ast.Add: ast.Sub, ast.Mult: ast.Div, ast.Lt: ast.LtE, ast.Gt: ast.GtE}
SWAPS |= {ast.And: ast.Or, **{new: old for old, new in SWAPS.items()}}
SWAPS |= {ast.Or: ast.And, ast.Eq: ast.NotEq}

SIGNED = {"int", "float", "complex", "Array", "Float", "Matrix", "Vector"}
"""Types of what is returned that has a sign."""


class Mutant(NamedTuple):
    """A change: the bytes of ``span`` in a file become ``after``."""

    path: str
    line: int
    kind: str
    before: str
    after: str
    span: tuple[int, int]
    around: tuple[str, ...]

    def applied(self, source: str) -> str:
        """The source of the file with the change."""
        text, (start, end) = source.encode(), self.span
        return (text[:start] + f"({self.after})".encode() + text[end:]).decode()


def mutants_of(path: str, source: str) -> list[Mutant]:
    """All mutants of a file."""
    found: list[Mutant] = []
    lengths = [0, *(len(line) for line in source.encode().splitlines(keepends=True))]

    def add(kind: str, node: Any, after: ast.AST | str, around: tuple[str, ...]) -> None:
        before, text = (x if isinstance(x, str) else ast.unparse(x) for x in (node, after))
        ends = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
        start, end = (sum(lengths[:line]) + column for line, column in ends)
        found.append(Mutant(path, node.lineno, kind, before, text, (start, end), around))

    def visit(node: ast.AST, around: tuple[str, ...], returns: str) -> None:
        put = functools.partial(add, around=around)
        inside = list(ast.iter_child_nodes(node))
        match node:
            case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.MatchValue():
                return
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                return
            case ast.keyword(arg=name) if name in UNSEEN:
                return
            case ast.Assign(targets=[ast.Name(name)]) if not around:
                inside, around = [] if TUNING.search(name) else [node.value], (name,)
            case ast.AnnAssign(value=value):
                inside = [value] if value else []
            case ast.ClassDef(name=name, body=body):
                inside, around = [*body], (*around, name)
            case ast.FunctionDef(name=name, body=body, args=args):
                defaults = [each for each in [*args.defaults, *args.kw_defaults] if each]
                inside, around = [*defaults, *body], (*around, name)
                returns = ast.unparse(node.returns) if node.returns else ""
            case ast.BinOp(op=op, left=left, right=right) if type(op) in SWAPS:
                if not any(_is_text(side) for side in (left, right)):
                    put("operator", node, ast.BinOp(left, SWAPS[type(op)](), right))
            case ast.Compare(ops=[op], left=left, comparators=sides) if type(op) in SWAPS:
                put("operator", node, ast.Compare(left, [SWAPS[type(op)]()], sides))
            case ast.BoolOp(op=op, values=values):
                put("operator", node, ast.BoolOp(SWAPS[type(op)](), values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                put("option", node, operand)
            case ast.Constant(value=bool() as value):
                put("option", node, str(not value))
            case ast.Constant(value=int() as value):
                put("number", node, str(value + 1))
            case ast.Constant(value=float() as value) if value:
                put("number", node, repr(value * 1.1))
            case ast.Slice(lower=lower, upper=upper):
                for bound in (lower, upper):
                    if bound and not isinstance(bound, ast.Constant):
                        put("number", bound, f"({ast.unparse(bound)}) + 1")
            case ast.Return(value=ast.expr() as value) if returns in {"bool", *SIGNED}:
                sign = "not " if returns == "bool" else "-"
                put("return", value, f"{sign}({ast.unparse(value)})")
        for child in inside:
            visit(child, around, returns)

    visit(ast.parse(source), (), "")
    return found


def _is_text(node: ast.AST) -> bool:
    return isinstance(getattr(node, "value", None), str) or isinstance(node, ast.JoinedStr)


def drawn(room: str, number: int, seed: int) -> list[Mutant]:
    """So many mutants of a room: of each a kind is drawn, and then a place."""
    places: list[Mutant] = []
    for file in sorted((ROOT / "hgr_jax" / room).rglob("*.py")):
        if file.name != "memory.py":
            places += mutants_of(str(file.relative_to(ROOT)), file.read_text())
    draw, chosen = random.Random(f"{seed} {room}"), dict[Mutant, None]()
    while len(chosen) < number:
        kind = draw.choice(["operator", "number", "option", "return"])
        chosen[draw.choice([place for place in places if place.kind == kind])] = None
    return list(chosen)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


@functools.cache
def _functions() -> list[tuple[str, str, set[str]]]:
    """Path, name and words of all functions of the package."""
    return [
        (str(file.relative_to(ROOT)), node.name, _words(ast.unparse(node)))
        for file in sorted((ROOT / "hgr_jax").rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef)
    ]


def likeliest(mutant: Mutant, room: str) -> list[str]:
    """The test files of a room, those first that mention what is changed, or its callers.

    And theirs, up to four calls away, which count less; so do the others of the same module, and
    the words of the line.  Short files come before long ones.
    """
    tests = ROOT / "tests"
    files = {f for name in ROOMS[room].split() for f in tests.glob(f"test_{name}.py")}
    words = {f"tests/{file.name}": _words(file.read_text()) for file in sorted(files)}
    scores = {test: 10.0 * (Path(mutant.path).stem in test) for test in words}
    beside = {name for path, name, _ in _functions() if path == mutant.path}
    line = _words((ROOT / mutant.path).read_text().splitlines()[mutant.line - 1])
    names, seen = set(mutant.around[-2:]), set[str]()
    for weight in (1.0, 0.3, 0.1, 0.03, 0.01):
        for chosen, share in ((names, weight), (beside, 0.01), (line, 0.1)):
            for name in sorted(chosen):
                mention = [test for test in words if name in words[test]]
                for test in mention:
                    scores[test] += share / len(mention)
        seen |= names
        names = {caller for _, caller, body in _functions() if body & names} - seen
    return sorted(scores, key=lambda test: -scores[test] / len(words[test]) ** 0.5)


def pytest_ends(
    tests: Sequence[str], place: Path, limit: float | None = None
) -> tuple[int | None, list[str]]:
    """The exit status of pytest (None: over the limit), and the tests that fail."""
    defaults = {
        "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1",
        "JAX_COMPILATION_CACHE_DIR": str(place / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "OPENBLAS_NUM_THREADS": "1",
    }
    # Without bytecode, for files that change within a second may keep their length.
    environment = {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    if folder := data_folder():
        environment["HGR_JAX_DATA"] = str(folder.resolve())
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
    with subprocess.Popen(
        [*command, *tests],
        cwd=place,
        env=defaults | os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            printed = process.communicate(timeout=limit)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, []
    # Without parameters, of which some have blanks.
    return process.returncode, re.findall(r"^(?:FAILED|ERROR) ([^\s\[]+)", printed, re.MULTILINE)


def caught_by(mutant: Mutant, tests: Sequence[str], place: Path, limit: float) -> tuple[bool, str]:
    """Whether a test notices a mutant, and which one, or why none."""
    file = place / mutant.path
    source = file.read_text()
    file.write_text(mutant.applied(source))
    try:
        status, failed = pytest_ends(["-x", *tests], place, limit)
    finally:
        file.write_text(source)
    if not status:
        return False, "no test" if status == 0 else f"no test within {limit:.0f} s"
    return True, failed[0] if failed else "the import"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the draw of places")
    parser.add_argument("--each", type=int, default=10, help="mutants of a room")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds of tests a mutant")
    options = parser.parse_args(arguments)
    report, outcomes = MarkdownReport(), list[tuple[bool, str]]()
    # The rooms in turns, so that a run that is cut short has as many of each.
    draws = zip(*(drawn(room, options.each, options.seed) for room in ROOMS), strict=True)
    chosen = [pair for draw in draws for pair in zip(ROOMS, draw, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for part in ("hgr_jax", "tests", "bench"):
            shutil.copytree(ROOT / part, place / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", place)

        def rows() -> Iterator[list[str]]:
            for room, mutant in chosen:
                start, tests = time.perf_counter(), likeliest(mutant, room)
                outcomes.append(caught_by(mutant, tests, place, options.limit))
                change = f"`{mutant.before[:60]}` to `{mutant.after[:60]}`"
                seconds = f"{time.perf_counter() - start:.0f} s"
                yield [f"`{mutant.path}:{mutant.line}`", change, outcomes[-1][1], seconds]

        report.table(["place", "change", "caught by", "time"], rows())
        catching = sorted({test for _, test in outcomes if test.startswith("tests/")})
        status, failed = pytest_ends(catching, place) if catching else (0, [])
        if status not in (0, 1):
            raise RuntimeError(f"without a change, pytest ends with {status}.")
    anyway = set(failed)
    for test in sorted(anyway):
        report.say(f"Fails without a change too: {test}.")
    caught = sum(found and test not in anyway for found, test in outcomes)
    report.say(f"Caught: {caught} of {len(outcomes)}.")
    return int(caught < ENOUGH * len(outcomes))


if __name__ == "__main__":
    sys.exit(main())
