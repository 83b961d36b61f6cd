"""Tables in Markdown: printed, and kept between markers in ``bench/README.md``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

RESULTS = Path(__file__).with_name("README.md")


def bench_parser(name: str, doc: str | None, *, quick: str) -> argparse.ArgumentParser:
    """The options that every benchmark has; ``quick`` says what is left of it then."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{name}", description=doc)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--write", action="store_true", help="keep the tables in bench/README.md")
    return parser


class MarkdownReport:
    """Lines of Markdown, printed as they come (unless ``quiet``)."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.lines: list[str] = []

    def say(self, line: str = "") -> None:
        """One line."""
        if not self.quiet:
            print(line, flush=True)
        self.lines.append(line)

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """A table, each row printed when it is ready; all columns but the first to the right."""
        self.say()
        self.say(_row(header))
        self.say(_row(["---"] + ["---:"] * (len(header) - 1)))
        for row in rows:
            self.say(_row(row))
        self.say()

    def judged_table(
        self, header: Sequence[str], rows: Iterable[tuple[Sequence[str], bool | None]]
    ) -> bool:
        """A table that says of each row whether its bound holds (None: none); whether all do."""
        verdicts = {True: "yes", False: "EXCEEDED", None: ""}
        every = True

        def judged() -> Iterator[list[str]]:
            nonlocal every
            for cells, holds in rows:
                every &= holds is not False
                yield [*cells, verdicts[holds]]

        self.table([*header, "holds"], judged())
        return every

    def keep(self, name: str, path: Path = RESULTS) -> None:
        """Replace what stands between ``<!-- name -->`` and ``<!-- end name -->`` in a file."""
        start, end = f"<!-- {name} -->\n", f"<!-- end {name} -->"
        text = path.read_text()
        if start not in text or end not in text:
            raise ValueError(f"{path} has no section between {start.strip()} and {end}")
        before, rest = text.split(start, 1)
        after = rest.split(end, 1)[1]
        path.write_text(before + start + "\n".join(self.lines).strip() + "\n" + end + after)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
