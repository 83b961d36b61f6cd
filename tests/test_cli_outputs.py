"""What commands write: nothing over an earlier run, said on a terminal, opened by ``--open``."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import webbrowser
from pathlib import Path

import numpy as np
import pytest
from cli_scan_support import Command, refusal

from hgr_jax.cli.main import main
from hgr_jax.cli.outputs import WRITTEN

SMALL = "--h 1 --k 1"
SCAN = f"scan t.csv {SMALL} --permutations 9"
FAIR = "--target y --protected x --threshold 0.5"


def write_table(path: Path, columns: int = 2) -> None:
    rows = np.random.default_rng(0).normal(size=(30, columns)).round(4).tolist()
    lines = [",".join("xyzuvw"[:columns]), *(",".join(map(str, row)) for row in rows), ""]
    path.write_text("\n".join(lines))


@pytest.mark.parametrize(
    ("line", "there"),
    [
        ("scan t.csv", "hgr-jax-scan/report.html"),
        ("scan t.csv", "hgr-jax-scan/heat_map.png"),
        ("scan t.csv --out a/b", "a/b/pairs.csv"),
        ("demo", "hgr-jax-demo/fairness.png"),
        (f"fair t.csv {FAIR}", "hgr-jax-fair/model.npz"),
    ],
)
def test_what_an_earlier_run_wrote_stays(
    folder: Path, command: Command, line: str, there: str
) -> None:
    (folder / there).parent.mkdir(parents=True)
    (folder / there).write_text("mine")
    (folder / "t.csv").write_text("")  # which is not even read
    text = "is of an earlier run: write to another folder by --out, or over it by --force"
    assert command(*line.split()) == (2, "", f"hgr-jax: error: {there} {text}\n")
    assert (folder / there).read_text() == "mine"


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize(
    "line", [f"scan report.html {SMALL}", f"scan pairs.csv {SMALL}", f"fair history.csv {FAIR}"]
)
def test_what_is_read_is_not_written_over(
    folder: Path, command: Command, line: str, force: tuple[str, ...]
) -> None:
    name = line.split()[1]
    write_table(folder / name)
    before = (folder / name).read_bytes()
    (folder / "link").symlink_to(folder)
    said = refusal(command, *line.split(), "--out", "link", *force)
    assert f"link/{name} is read, or may be, as {name}: write to another folder" in said
    assert (folder / name).read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == sorted(["link", name])


@pytest.mark.parametrize(
    ("line", "there"),
    [
        ("scan none.csv", "hgr-jax-scan/report.html"),
        (f"fair none.csv {FAIR}", "hgr-jax-fair/model.npz"),
        ("predict t.csv none.csv --out p.csv", "p.csv"),
    ],
)
def test_a_missing_file_is_said_first(
    folder: Path, command: Command, line: str, there: str
) -> None:
    (folder / there).parent.mkdir(exist_ok=True)
    for path in (there, "t.csv"):
        (folder / path).write_text("")
    assert command(*line.split()).err == "hgr-jax: error: no such file: none.csv\n"


def test_a_second_run_needs_force_or_has_another_name(folder: Path, command: Command) -> None:
    write_table(folder / "t.csv")
    runs = [command(*f"{SCAN} {force}".split()) for force in ("", "", "--force")]
    assert [(run.status, run.err.count("\n")) for run in runs] == [(0, 0), (2, 1), (0, 0)]
    assert {path.name for path in Path("hgr-jax-scan").iterdir()} == set(WRITTEN["scan"])
    # Other files in the folder do not matter, and pictures of pairs do not replace each other.
    assert command(*f"{SCAN} --out .".split()).status == 0
    assert Path("t.csv").exists()
    for name in ("pair.png", "pair-2.png", "pair-3.png"):
        said = command(*f"pair t.csv x y {SMALL}".split()).out
        assert f"picture: {Path('hgr-jax-pair') / name}\n" in said
    assert len(list(Path("hgr-jax-pair").iterdir())) == 3


@pytest.mark.parametrize("found", [True, False])
def test_open(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch, found: bool) -> None:
    opened = []

    def open_page(address: str) -> bool:
        opened.append(((folder / "with space" / "report.html").exists(), address))
        return found

    monkeypatch.setattr(webbrowser, "open", open_page)
    write_table(folder / "t.csv")
    assert command(*SCAN.split()).status == 0
    assert opened == []
    said = command(*SCAN.split(), "--open", "--out", "with space")
    assert opened == [(True, (folder / "with space" / "report.html").as_uri())]
    told = "" if found else "hgr-jax: no browser was found; open with space/report.html in one\n"
    assert (said.status, said.err) == (0, told)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_steps_are_shown_on_a_terminal_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(folder / "t.csv", columns=6)
    shown = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", shown)
        assert main(SCAN.split()) == 0
    steps = [
        "reading t.csv",
        "examining the first pairs",
        "writing pairs.csv, pairs.parquet and scan.npz",
        "writing report.html",
        "drawing heat_map.png",
    ]
    text = shown.getvalue()
    assert [step for step in re.split(r"\r *\r?", text) if step in steps] == steps
    assert text.endswith(f"\r{' ' * len(steps[-1])}\r")  # nothing stays, as of the bar


def completed(script: str, *words: str) -> list[str]:
    """What bash offers for the last of some words."""
    ask = (
        f"COMP_WORDS=(hgr-jax {' '.join(map(repr, words))}); COMP_CWORD={len(words)};"
        " _shtab_hgr_jax; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_completion_in_bash(folder: Path, command: Command) -> None:
    script = command("completion", "bash").out
    commands = completed(script, "")
    assert {"scan", "pair", "fair", "predict", "demo", "completion"} <= set(commands)
    assert set(completed(script, "scan", "--pe")) == {"--permutations"}
    assert set(completed(script, "scan", "--sort", "rank")) == {"rank_excess"}
    write_table(folder / "table.csv")
    assert completed(script, "scan", "tab") == ["table.csv"]
    for shell in ("zsh", "fish"):
        script = command("completion", shell).out
        assert "hgr-jax" in script
        assert "rank_excess" in script
