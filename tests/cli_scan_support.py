"""Commands that tests run, in this process or as one of its own."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hgr_jax.cli.main import main

COMMAND = [sys.executable, "-m", "hgr_jax.cli"]


def environment(**others: str) -> dict[str, str]:
    root = str(Path(__file__).parent.parent)
    here = {"PYTHONPATH": root, "PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": ""}
    return os.environ | here | others


def in_a_process(way: Callable[..., Any], *arguments: str, cwd: Path, **options: Any) -> Any:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return way([*COMMAND, *arguments], cwd=cwd, **{"env": environment()} | pipes | options)


run = functools.partial(in_a_process, subprocess.run)
started = functools.partial(in_a_process, subprocess.Popen)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Said(NamedTuple):
    """How a command ended, and what it printed."""

    status: Any
    out: str
    err: str


Command = Callable[..., Said]


@pytest.fixture
def command(folder: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command in the folder, in this process."""

    def run(*arguments: object) -> Said:
        capsys.readouterr()
        try:
            status: Any = main([*map(str, arguments)])
        except SystemExit as leaving:
            status = leaving.code
        return Said(status, *capsys.readouterr())

    return run


def refusal(command: Command, *arguments: object) -> str:
    """The one line of a command that cannot be done."""
    said = command(*arguments)
    assert (said.status, said.out, said.err.count("\n")) == (2, "", 1)
    assert said.err.startswith(("hgr-jax: error: ", f"hgr-jax {arguments[0]}: error: "))
    assert "\x1b" not in said.err
    return said.err
