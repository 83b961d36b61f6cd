"""Call a function in a process of its own, with limits of memory and time.

Libraries of workbooks and databases can end the process, fill the memory or never return, whatever
is checked beforehand.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hgr_jax.tables.faults import TableError, reason_of

MEMORY_LIMIT, TIME_LIMIT, BYTES_A_SECOND = 2**33, 30, 10**5
"""Bytes of memory and seconds that a function may take, and bytes of a file for one more second."""

_CHILD = "from hgr_jax.tables.isolated import answer; answer()"


def call_isolated(
    function: Callable[..., Any], path: Path, shown: str, wanted: Any, *, kind: str
) -> Any:
    """Return what a function of a module returns for a file, whose name is ``shown`` in messages.

    It takes the path, ``shown``, and the sheet or table that is ``wanted``, None for any.  Its
    error, and too much memory or time, is a `TableError` of one line that names the ``kind``.
    """
    task = pickle.dumps((function, (path, shown, wanted), MEMORY_LIMIT))
    seconds = TIME_LIMIT + path.stat().st_size / BYTES_A_SECOND
    modules = os.pathsep.join(filter(None, sys.path))
    child, environment = [sys.executable, "-c", _CHILD], {**os.environ, "PYTHONPATH": modules}
    fault = f"{shown} cannot be read as {kind}: "
    try:
        found = subprocess.run(
            child, input=task, capture_output=True, timeout=seconds, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        said = f"it takes more than {seconds:.2g} seconds; save the table as CSV"
        raise TableError(fault + said) from None
    if found.returncode:
        raise TableError(
            f"{fault}its library stopped, or needs more than {MEMORY_LIMIT / 2**30:.2g} GiB of"
            " memory; remove cells that are far from the table, or save the table as CSV"
        )
    result = pickle.loads(found.stdout)  # which this module wrote
    if isinstance(result, TableError | ImportError):
        raise result
    if isinstance(result, BaseException):
        raise TableError(fault + reason_of(result))
    return result


def answer() -> None:
    """Read a function and its arguments from standard input, and write what it returns."""
    function, arguments, memory = pickle.loads(sys.stdin.buffer.read())
    with contextlib.suppress(ImportError, ValueError, OSError):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    try:
        result = pickle.dumps(function(*arguments), protocol=5)
    except (MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:  # panics of calamine are no Exceptions
        known = isinstance(error, TableError | ImportError)
        result = pickle.dumps(error if known else ValueError(reason_of(error)))
    sys.stdout.buffer.write(result)
