"""Tables in Markdown: printed, and kept between markers in ``bench/README.md``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

RESULTS = Path(__file__).with_name("README.md")


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
