"""One case of `bench.compile`, in this process: prints its figures as JSON.

    python bench/compile_case.py CASE

It uses public names only, as it runs with the package of other revisions too.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.extend.backend import get_backend

import hgr_jax

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import jaxopt  # noqa: F401 - loaded where it solves; its import is no part of a first call

Call = Callable[[], Any]

ROWS = 1_000


def pair(rows: int) -> tuple[jax.Array, jax.Array]:
    """Two dependent variables."""
    a, noise = np.random.default_rng(0).standard_normal((2, rows)).astype(np.float32)
    return jax.device_put(a), jax.device_put(a**2 + noise / 2)


def gradient(rows: int) -> Call:
    """Value and gradient in a jitted loss."""
    a, b = pair(rows)
    loss = jax.jit(jax.value_and_grad(lambda b, a: hgr_jax.kb(a, b)))
    return lambda: loss(b, a)


def hessian() -> Call:
    """The second derivative on 50 rows."""
    a, b = pair(50)
    second = jax.jit(jax.hessian(lambda b, a: hgr_jax.kb(a, b)))
    return lambda: second(b, a)


def scan_of_values(rows: int) -> Call:
    """A scan of 10 columns without p-values."""
    x = np.random.default_rng(0).standard_normal((rows, 10)).astype(np.float32)
    return lambda: hgr_jax.scan(x, h=5, k=5, test=None).correlation


def default_scan() -> Call:
    """A scan with p-values of a table with ties, a category and missing values."""
    rng = np.random.default_rng(0)
    rows = 2_000
    x = rng.standard_normal((rows, 4))
    x[rng.uniform(size=x.shape) < 0.05] = np.nan
    columns: dict[str, Any] = {f"x{i}": x[:, i] for i in range(4)}
    columns["count"] = rng.poisson(1.0, rows)
    columns["group"] = rng.choice(["a", "b", "c"], rows)
    return lambda: hgr_jax.scan(columns).correlation


def training() -> Call:
    """The first 100 steps of a constrained regression."""
    from hgr_jax.fairness import FairMLPRegressor

    rng = np.random.default_rng(0)
    x = rng.standard_normal((500, 8))
    y = x[:, 0] + x[:, 1] ** 2
    model = FairMLPRegressor(threshold=0.2, steps=100, random_state=0)
    return lambda: model.fit(x, y, protected=x[:, 1])


def eager(measure: Callable[..., Any], rows: int) -> Call:
    """A measure of two arrays of JAX."""
    a, b = pair(rows)
    return lambda: measure(a, b)


def compiled(measure: Callable[..., Any], rows: int) -> Call:
    """A measure under `jax.jit`, where the shape is exact."""
    a, b = pair(rows)
    program = jax.jit(lambda a, b: measure(a, b))
    return lambda: program(a, b)


FIRST: dict[str, Callable[[], Call]] = {
    "kb": lambda: eager(hgr_jax.kb, ROWS),
    "sk": lambda: eager(hgr_jax.sk, ROWS),
    "value and gradient of kb": lambda: gradient(ROWS),
    "kb_fit": lambda: eager(hgr_jax.kb_fit, ROWS),
    "hessian of kb": hessian,
    "scan of values": lambda: scan_of_values(ROWS),
    "default scan": default_scan,
    "training": training,
}

LATER: dict[str, Callable[[int], Call]] = {
    "kb": lambda rows: compiled(hgr_jax.kb, rows),
    "gradient": gradient,
    "sk": lambda rows: compiled(hgr_jax.sk, rows),
    "scan": scan_of_values,
}


def memory_maps() -> int:
    """How many this process has; 0 where the system does not tell."""
    maps = Path("/proc/self/maps")
    return len(maps.read_text().splitlines()) if maps.exists() else 0


def lines_of_programs() -> int:
    """Lines of optimised HLO of all programs that are alive."""
    return sum(
        len(module.to_string().splitlines())
        for program in get_backend().live_executables()
        for module in program.hlo_modules()
    )


def covered(intervals: list[tuple[float, float]]) -> float:
    """Seconds that lie in any of the intervals: functions are traced inside of others."""
    total, reached = 0.0, 0.0
    for begin, end in sorted(intervals):
        total += max(end - max(begin, reached), 0.0)
        reached = max(reached, end)
    return total


def measured(call: Call) -> dict[str, float]:
    """The figures of a first call, and the time of later ones."""
    events: list[tuple[str, float, float]] = []

    def listen(event: str, duration_secs: float, **_: str | int) -> None:
        if event.startswith("/jax/core/compile/"):
            now = time.perf_counter()
            events.append((event, now - duration_secs, now))

    before, maps = lines_of_programs(), memory_maps()
    jax.monitoring.register_event_duration_secs_listener(listen)
    start = time.perf_counter()
    jax.block_until_ready(call())
    first = time.perf_counter() - start
    figures = {
        "compilation": covered([(begin, end) for _, begin, end in events]),
        "first": first,
        "programs": sum("backend_compile" in event for event, *_ in events),
        "maps": memory_maps() - maps,
        "lines": lines_of_programs() - before,
    }
    times: list[float] = []
    while len(times) < 5 or (sum(times) < 0.5 and len(times) < 2_000):
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - start)
        if times[-1] > 1:
            break
    return {**figures, "steady": float(np.median(times))}


def main() -> None:
    """Run the case that the command line names."""
    case = sys.argv[1]
    if ", n = " in case:
        name, rows = case.split(", n = ")
        call = LATER[name](int(rows))
    else:
        call = FIRST[case]()
    print(json.dumps(measured(call)))


if __name__ == "__main__":
    main()
