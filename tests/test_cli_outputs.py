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
from cli_scan_support import Command

from hgr_jax.cli.main import main
from hgr_jax.cli.outputs import WRITTEN

SMALL = ("--h", "1", "--k", "1")
FAIR = ("--target", "y", "--protected", "x", "--threshold", "0.5")


def write_table(path: Path, columns: int = 2) -> None:
    rows = np.random.default_rng(0).normal(size=(30, columns)).round(4).tolist()
    lines = [",".join("xyzuvw"[:columns]), *(",".join(map(str, row)) for row in rows), ""]
    path.write_text("\n".join(lines))


def run_scan(*options: str) -> int:
    return main(["scan", "t.csv", *SMALL, "--permutations", "9", *options])


@pytest.mark.parametrize(
    ("arguments", "there"),
    [
        (("scan", "t.csv"), "hgr-jax-scan/report.html"),
        (("scan", "t.csv"), "hgr-jax-scan/heat_map.png"),
        (("scan", "t.csv", "--out", "a/b"), "a/b/pairs.csv"),
        (("demo",), "hgr-jax-demo/fairness.png"),
        (("fair", "t.csv", *FAIR), "hgr-jax-fair/model.npz"),
    ],
)
def test_what_an_earlier_run_wrote_is_kept(
    folder: Path, command: Command, arguments: tuple[str, ...], there: str
) -> None:
    (folder / there).parent.mkdir(parents=True)
    (folder / there).write_text("mine")
    (folder / "t.csv").write_text("")  # which is not even read
    text = "is of an earlier run: write to another folder by --out, or over it by --force"
    assert command(*arguments) == (2, "", f"hgr-jax: error: {there} {text}\n")
    assert (folder / there).read_text() == "mine"


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize(
    ("which", "name"), [("scan", "report.html"), ("scan", "pairs.csv"), ("fair", "history.csv")]
)
def test_what_is_read_is_not_written_over(
    folder: Path, command: Command, which: str, name: str, force: tuple[str, ...]
) -> None:
    write_table(folder / name)
    before = (folder / name).read_bytes()
    (folder / "link").symlink_to(folder)
    needed = FAIR if which == "fair" else SMALL
    said = command(which, name, *needed, "--out", "link", *force)
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
    assert f"link/{name} is read, or may be, as {name}: write to another folder" in said.err
    assert (folder / name).read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == sorted(["link", name])


@pytest.mark.parametrize(
    ("arguments", "there"),
    [
        (("scan", "none.csv"), "hgr-jax-scan/report.html"),
        (("fair", "none.csv", *FAIR), "hgr-jax-fair/model.npz"),
        (("predict", "t.csv", "none.csv", "--out", "p.csv"), "p.csv"),
    ],
    ids=lambda value: value[0],
)
def test_a_file_that_is_not_there_is_said_first(
    folder: Path, command: Command, arguments: tuple[str, ...], there: str
) -> None:
    (folder / there).parent.mkdir(exist_ok=True)
    for path in (there, "t.csv"):
        (folder / path).write_text("")
    assert command(*arguments).err == "hgr-jax: error: no such file: none.csv\n"


def test_a_second_scan_needs_force(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_table(folder / "t.csv")
    assert [run_scan(), run_scan(), run_scan("--force")] == [0, 2, 0]
    assert capsys.readouterr().err.count("\n") == 1
    written = {path.name for path in Path("hgr-jax-scan").iterdir()}
    assert written == set(WRITTEN["scan"])


def test_other_files_in_the_folder_do_not_matter(folder: Path) -> None:
    write_table(folder / "t.csv")
    assert run_scan("--out", ".") == 0
    assert Path("t.csv").exists()


def test_pictures_of_pairs_do_not_replace_each_other(folder: Path, command: Command) -> None:
    write_table(folder / "t.csv")
    for name in ("pair.png", "pair-2.png", "pair-3.png"):
        said = command("pair", "t.csv", "x", "y", *SMALL).out
        assert f"picture: {Path('hgr-jax-pair') / name}\n" in said
    assert len(list(Path("hgr-jax-pair").iterdir())) == 3


@pytest.mark.parametrize("found", [True, False])
def test_open(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, found: bool
) -> None:
    opened = []

    def open_page(address: str) -> bool:
        opened.append(((folder / "with space" / "report.html").exists(), address))
        return found

    monkeypatch.setattr(webbrowser, "open", open_page)
    write_table(folder / "t.csv")
    assert run_scan() == 0
    assert opened == []
    capsys.readouterr()
    assert run_scan("--open", "--out", "with space") == 0
    assert opened == [(True, (folder / "with space" / "report.html").as_uri())]
    told = "" if found else "hgr-jax: no browser was found; open with space/report.html in one\n"
    assert capsys.readouterr().err == told


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_steps_are_shown_on_a_terminal_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(folder / "t.csv", columns=6)
    shown = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", shown)
        assert run_scan() == 0
    steps = [
        "reading t.csv",
        "computing the details of 15 pairs",
        "writing pairs.csv, pairs.parquet and scan.npz",
        "writing report.html with 12 pairs drawn",
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


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_in_other_shells(shell: str, command: Command) -> None:
    script = command("completion", shell).out
    assert "hgr-jax" in script
    assert "rank_excess" in script


@pytest.mark.parametrize(
    "arguments",
    [
        ("demo",),
        ("scan", "t.csv"),
        ("pair", "t.csv", "x", "y"),
        ("fair", "t.csv", *FAIR),
        ("predict", "model.npz", "t.csv"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_an_empty_out_is_refused(
    folder: Path, command: Command, arguments: tuple[str, ...]
) -> None:
    write_table(folder / "t.csv")
    said = command(*arguments, "--out", " ")
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
    assert "argument --out: expected the name of a file or folder, got nothing" in said.err
    assert [path.name for path in folder.iterdir()] == ["t.csv"]
