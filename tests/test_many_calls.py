"""Many lengths, and many threads, in a process of their own."""

from __future__ import annotations

import subprocess
import sys

import jax
import pytest

MAPS = 4_000
MAPS_OF_KERNELS = 7_000
"""Releases of jax since 0.10 compile every kernel of a program apart, and map it."""

LENGTHS = """
import sys, time
import numpy as np, jax, hgr_jax
from pathlib import Path

lengths, most_programs = (int(x) for x in sys.argv[1:])
programs = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, _, **__: programs.append(event) if "backend_compile" in event else None
)
a, noise = np.random.default_rng(0).standard_normal((2, 3050)).astype(np.float32)
b = a**2 + noise / 2
for n in np.linspace(50, 3049, lengths).astype(int):
    value = float(hgr_jax.kb(a[:n], b[:n]))
    assert 0.8 < value <= 1, (n, value)
assert len(programs) <= most_programs, len(programs)
for n in np.linspace(50, 3049, lengths).astype(int):
    fit = hgr_jax.kb_fit(a[:n], b[:n])
    assert fit.f(a[:n]).shape == (n,)
    assert abs(fit.score(a[:n], b[:n]) - fit.correlation) < 1e-4
assert len(programs) <= 5 * most_programs, len(programs)
maps = Path("/proc/self/maps")
count = len(maps.read_text().splitlines()) if maps.exists() else 0
print(count)
"""

THREADS = """
import sys, threading
import numpy as np, jax, jax.numpy as jnp, hgr_jax

calls, what = int(sys.argv[1]), sys.argv[2]
x = np.random.default_rng(0).standard_normal((64, 2, 300)).astype(np.float32)
x[:, 1] += x[:, 0] ** 2
if what == "kb":
    many = jax.jit(jax.vmap(lambda pair: hgr_jax.kb(pair[0], pair[1], h=8, k=8)))
    call = lambda: np.asarray(many(x))
    expected = [float(hgr_jax.kb(*pair, h=8, k=8)) for pair in x]
elif what == "scan":
    table = x.reshape(128, 300).T[:, :6]
    call = lambda: hgr_jax.scan(table, test=None).correlation
    expected = call()
else:
    from hgr_jax.fairness import FairMLPRegressor

    rows = x.reshape(128, 300).T
    model = FairMLPRegressor(steps=5, random_state=0, hidden_layer_sizes=(8,))
    model.fit(rows[:, 2:6], rows[:, 0], protected=rows[:, 1])
    call = lambda: model.predict(rows[:, 2:6])
    expected = call()
wrong = []

def work():
    for _ in range(calls):
        if not np.allclose(call(), expected, atol=1e-4):
            wrong.append(1)

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong, len(wrong)
"""


def run(code: str, *arguments: object, seconds: float) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("lengths", [25, pytest.param(3_000, marks=pytest.mark.slow)])
def test_any_length_takes_few_programs(lengths: int) -> None:
    maps = int(run(LENGTHS, lengths, 20, seconds=300))
    apart = jax.__version_info__ >= (0, 10)
    assert maps < (MAPS_OF_KERNELS if apart else MAPS)
    if maps >= MAPS:
        pytest.xfail(f"{maps} maps: these releases compile every kernel of a program apart")


@pytest.mark.parametrize("calls", [25, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("what", ["kb", "scan", pytest.param("predict", marks=pytest.mark.slow)])
def test_threads_end_with_the_right_values(what: str, calls: int) -> None:
    run(THREADS, calls, what, seconds=200 if calls < 100 else 900)
