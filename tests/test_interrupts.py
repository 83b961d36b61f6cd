"""Ctrl-C in a command, in real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from cli_scan_support import environment

from hgr_jax.cli.interrupts import leaving_on_interrupt

IN_A_HOOK = """
import gc, os, signal
from hgr_jax.cli.interrupts import leaving_on_interrupt

signal.signal(signal.SIGINT, signal.default_int_handler)

def hook(phase, info):
    os.kill(os.getpid(), signal.SIGINT)

with leaving_on_interrupt("stopped"):
    print("begun")
    gc.callbacks.append(hook)
    gc.collect()
    print("still here")
"""

IGNORED = """
import os, signal
from hgr_jax.cli.interrupts import leaving_on_interrupt

signal.signal(signal.SIGINT, signal.SIG_IGN)
with leaving_on_interrupt("stopped"):
    os.kill(os.getpid(), signal.SIGINT)
    print("still here")
"""

WRITING = """
import os, signal
from hgr_jax._files import atomic_write
from hgr_jax.cli.interrupts import leaving_on_interrupt

signal.signal(signal.SIGINT, signal.default_int_handler)
with leaving_on_interrupt("stopped"), atomic_write("pairs.csv") as partial:
    partial.write_text("half")
    os.kill(os.getpid(), signal.SIGINT)
    partial.write_text("still here")
"""


@pytest.mark.parametrize(
    ("program", "status", "printed", "errors"),
    [(IN_A_HOOK, 130, "begun\n", "\nstopped\n"), (IGNORED, 0, "still here\n", "")],
    ids=["in a hook of the garbage collector", "ignored by the caller"],
)
def test_interrupted(program: str, status: int, printed: str, errors: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (status, printed, errors)


def test_nothing_is_left_of_a_file_that_was_being_written(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("before")
    done = subprocess.run([sys.executable, "-c", WRITING], cwd=tmp_path, env=environment())
    assert done.returncode == 130
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.csv"]
    assert (tmp_path / "pairs.csv").read_text() == "before"


def test_the_handler_is_put_back_and_is_of_the_main_thread() -> None:
    def handler() -> Any:
        return signal.getsignal(signal.SIGINT)

    def run() -> None:
        with leaving_on_interrupt("stopped"):
            seen.append(handler())

    seen: list[Any] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
        assert seen.pop() is not signal.default_int_handler
        assert handler() is signal.default_int_handler
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert seen == [signal.default_int_handler]
    finally:
        signal.signal(signal.SIGINT, before)
