"""Fair timing: contestants in turn, medians, everything blocked on."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np


@dataclasses.dataclass(frozen=True)
class Timing:
    """Times of one contestant, in seconds, and the last value that it returned."""

    first: float
    steady: tuple[float, ...]
    value: Any

    @property
    def median(self) -> float:
        """Median of the steady times."""
        return float(np.median(self.steady))


_CALL = """
import importlib, json, sys
module, function, arguments = json.loads(sys.argv[1])
print(json.dumps(getattr(importlib.import_module(module), function)(*arguments)))
"""


def in_own_process(module: str, function: str, *arguments: Any) -> Any:
    """Return what a function of a module returns, of values that JSON knows, in its own process."""
    command = [sys.executable, "-c", _CALL, json.dumps([module, function, arguments])]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def peak() -> int:
    """The largest memory of this process so far, in bytes, as Linux tells it.

    Not by `getrusage`: to that, what the parent of a process had is its own.
    """
    status = Path("/proc/self/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return 1024 * int(found[1])


def race(
    contestants: Mapping[str, Callable[[], Any]],
    *,
    rounds: int,
    at_least: float = 0.02,
    most_calls: int = 200,
) -> dict[str, Timing]:
    """Time every contestant in every round, in turn, so that a noisy machine is noisy for all.

    A contestant's figure of a round is its median call.  The first call, which compiles, is
    kept apart.

    Args:
      contestants: names and functions without arguments.
      rounds: how often each has its turn.
      at_least: seconds of calls in a turn, for those that are fast...
      most_calls: ...but never more calls than this.
    """
    first: dict[str, float] = {}
    values: dict[str, Any] = {}
    for name, contestant in contestants.items():
        start = time.perf_counter()
        values[name] = jax.block_until_ready(contestant())
        first[name] = time.perf_counter() - start
        jax.block_until_ready(contestant())
    steady: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, contestant in contestants.items():
            calls: list[float] = []
            while len(calls) < most_calls and sum(calls) < at_least:
                start = time.perf_counter()
                jax.block_until_ready(contestant())
                calls.append(time.perf_counter() - start)
            steady[name].append(float(np.median(calls)))
    return {name: Timing(first[name], tuple(steady[name]), values[name]) for name in contestants}


def seconds(value: float) -> str:
    """A time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-6:.3g} µs"
