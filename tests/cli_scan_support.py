"""Small tables that tests of the command share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hgr_jax.cli.main import main

COMMAND = [sys.executable, "-m", "hgr_jax.cli", "scan"]


def environment() -> dict[str, str]:
    root = str(Path(__file__).parent.parent)
    return {**os.environ, "PYTHONPATH": root, "PYTHONIOENCODING": "utf-8"}


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
