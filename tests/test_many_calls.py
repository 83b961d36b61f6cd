"""Many lengths, threads and devices, each in a process of its own."""

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

lengths, least, most_programs = (int(x) for x in sys.argv[1:])
programs = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, _, **__: programs.append(event) if "backend_compile" in event else None
)
a, noise = np.random.default_rng(0).standard_normal((2, 3050)).astype(np.float32)
b = a**2 + noise / 2
for n in np.linspace(least, 3049, lengths).astype(int):
    value = float(hgr_jax.kb(a[:n], b[:n]))
    assert 0.8 < value <= 1, (n, value)
assert len(programs) <= most_programs, len(programs)
for n in np.linspace(least, 3049, lengths).astype(int):
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
x = np.random.default_rng(0).standard_normal((16, 2, 300)).astype(np.float32)
x[:, 1] += x[:, 0] ** 2
if what == "values":
    many = jax.jit(jax.vmap(lambda pair: hgr_jax.kb(pair[0], pair[1], h=8, k=8)))
    table = x.reshape(32, 300).T[:, :6]
    call = lambda: np.r_[many(x), hgr_jax.scan(table, test=None).correlation.ravel()]
    expected = call()
    alone = [float(hgr_jax.kb(*pair, h=8, k=8)) for pair in x]
    assert np.allclose(expected[:16], alone, atol=1e-4)
else:
    from hgr_jax.fairness import FairMLPRegressor

    rows = x.reshape(32, 300).T
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


@pytest.mark.parametrize(
    ("lengths", "least", "most_programs"),
    [(25, 1600, 5), pytest.param(3_000, 50, 20, marks=pytest.mark.slow)],
)
def test_any_length_takes_few_programs(lengths: int, least: int, most_programs: int) -> None:
    maps = int(run(LENGTHS, lengths, least, most_programs, seconds=300))
    apart = jax.__version_info__ >= (0, 10)
    assert maps < (MAPS_OF_KERNELS if apart else MAPS)
    if maps >= MAPS:
        pytest.xfail(f"{maps} maps: these releases compile every kernel of a program apart")


@pytest.mark.parametrize("calls", [25, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("what", ["values", pytest.param("predict", marks=pytest.mark.slow)])
def test_threads_end_with_the_right_values(what: str, calls: int) -> None:
    run(THREADS, calls, what, seconds=200 if calls < 100 else 900)


DEVICES = """
import os
flags = os.environ.get("XLA_FLAGS", "")
os.environ["XLA_FLAGS"] = flags + " --xla_force_host_platform_device_count=2"
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
import hgr_jax

rng = np.random.default_rng(0)
a, b = rng.standard_normal((2, 600)).astype(np.float32)
b = a**2 + b
"""

SHARDS = """
mesh = jax.make_mesh((2,), ("rows",), axis_types=(AxisType.Auto,))
for measure in (hgr_jax.kb, hgr_jax.hsic, hgr_jax.ace):
    def loss(x, y):
        return jax.lax.pmean(measure(x, y), "rows")

    mean = jax.shard_map(loss, mesh=mesh, in_specs=(P("rows"), P("rows")), out_specs=P())
    value, slope = jax.jit(jax.value_and_grad(mean))(a, b)
    alone = jax.jit(jax.value_and_grad(measure))
    parts = [alone(a[i], b[i]) for i in (slice(300), slice(300, 600))]
    np.testing.assert_allclose(value, np.mean([part[0] for part in parts]), atol=1e-5)
    expected = np.concatenate([part[1] for part in parts]) / 2
    np.testing.assert_allclose(slope, expected, atol=1e-6)
"""

EXPLICIT = """
mesh = jax.make_mesh((2,), ("rows",), axis_types=(AxisType.Explicit,))
for measure in (hgr_jax.kb, hgr_jax.hsic, hgr_jax.hgr):
    expected = jax.value_and_grad(measure)(jnp.asarray(a), jnp.asarray(b))
    with jax.set_mesh(mesh):
        x, y = (jax.device_put(z, NamedSharding(mesh, P("rows"))) for z in (a, b))
        found = jax.jit(jax.value_and_grad(measure))(x, y)
    for part, whole in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(part), whole, rtol=1e-5, atol=1e-6)
"""


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(SHARDS, id="shards"),
        pytest.param(EXPLICIT, id="explicit", marks=pytest.mark.slow),
    ],
)
def test_rows_on_two_devices(body: str) -> None:
    """Inside `jax.shard_map`, and on an explicit mesh."""
    run(DEVICES + body, seconds=600)
