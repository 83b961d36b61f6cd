"""What commands write: nothing over an earlier run, said on a terminal, opened by ``--open``."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
import webbrowser
from pathlib import Path

import numpy as np
import pytest
from cli_scan_support import COMMAND, Command, environment, refusal

from hgr_jax.cli.outputs import WRITTEN

SMALL = "--h 1 --k 1"
SCAN = f"scan t.csv {SMALL} --permutations 9"


def write_table(path: Path, columns: int = 2) -> None:
    rows = np.random.default_rng(0).normal(size=(30, columns)).round(4).tolist()
    lines = [",".join("xyzuvw"[:columns]), *(",".join(map(str, row)) for row in rows), ""]
    path.write_text("\n".join(lines))


def test_only_files_are_replaced(folder: Path, command: Command) -> None:
    write_table(folder / "t.csv")
    Path("hgr-jax-scan/pairs.csv").mkdir(parents=True)
    text = "pairs.csv is a folder, which no file replaces: write to another folder by --out\n"
    for force in ((), ("--force",)):
        assert refusal(command, *SCAN.split(), *force).endswith(text)
    assert [path.name for path in Path("hgr-jax-scan").iterdir()] == ["pairs.csv"]


def test_folders_that_cannot_be_written_to(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(folder / "t.csv")
    Path("loop").symlink_to("loop")
    Path("locked").mkdir()
    allowed = os.access

    def access(path: Path, mode: int) -> bool:  # root may write everywhere
        return path.name != "locked" and allowed(path, mode)

    monkeypatch.setattr(os, "access", access)
    for line in (SCAN, "pair t.csv x y", "demo"):
        for out, cause in (
            ("loop", "cannot write loop: Too many levels of symbolic links"),
            ("loop/in", "cannot write loop/in: Too many levels of symbolic links"),
            ("locked", "cannot write to locked: no permission to write in locked"),
            ("locked/in/it", "cannot write to locked/in/it: no permission to write in locked"),
            ("/dev/null", "cannot write to /dev/null: it is a device"),
            ("/dev/null/in", "cannot write to /dev/null/in: /dev/null is a device"),
        ):
            said = refusal(command, *line.split(), "--out", out)
            assert said == f"hgr-jax: error: {cause}\n"
    assert not list(Path("locked").iterdir())


def test_an_earlier_file_stays_where_no_new_one_can_be_written(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(folder / "t.csv")
    assert command(*SCAN.split()).status == 0
    before = {path.name: path.read_bytes() for path in Path("hgr-jax-scan").iterdir()}
    opened = Path.replace

    def full(partial: Path, place: Path) -> None:
        if place.name == "scan.npz":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(partial))
        opened(partial, place)

    monkeypatch.setattr(Path, "replace", full)
    said = refusal(command, *SCAN.split(), "--force")
    assert said.startswith("hgr-jax: error: cannot write ")
    assert said.endswith("hgr-jax-scan/scan.npz: No space left on device\n")
    assert {path.name for path in Path("hgr-jax-scan").iterdir()} == set(before)
    assert Path("hgr-jax-scan/scan.npz").read_bytes() == before["scan.npz"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device is always full")
def test_streams_that_are_full_or_closed(folder: Path) -> None:
    write_table(folder / "t.csv")
    scan = "scan t.csv --force"
    for arguments, streams, status, told in (
        (
            scan,
            ">/dev/full",
            2,
            "hgr-jax: error: cannot write the output: No space left on device\n",
        ),
        (scan, ">&- 2>&-", 0, ""),
    ):
        line = f"{shlex.join(COMMAND)} {arguments} {streams}"
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, env=environment()
        )
        assert (done.returncode, done.stderr) == (status, told), line


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize("line", [f"scan report.html {SMALL}", f"scan pairs.csv {SMALL}"])
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
