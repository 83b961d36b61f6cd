"""Small tables that tests of the command share."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "hgr_jax.cli", "scan"]


def environment() -> dict[str, str]:
    root = str(Path(__file__).parent.parent)
    return {**os.environ, "PYTHONPATH": root, "PYTHONIOENCODING": "utf-8"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path
