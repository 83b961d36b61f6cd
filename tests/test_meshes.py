"""Measures of rows that lie on several devices: inside `jax.shard_map`, and on an explicit mesh."""

from __future__ import annotations

import subprocess
import sys

import pytest

DEVICES = """
import os, sys
flags = os.environ.get("XLA_FLAGS", "")
os.environ["XLA_FLAGS"] = flags + " --xla_force_host_platform_device_count=2"
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
import hgr_jax

rng = np.random.default_rng(0)
a, b = rng.standard_normal((2, 600)).astype(np.float32)
b = a**2 + b
measures = {name: getattr(hgr_jax, name) for name in sys.argv[2:]}
"""

SHARDS = """
mesh = jax.make_mesh((2,), ("rows",), axis_types=(AxisType.Auto,))
for name, measure in measures.items():
    def loss(x, y):
        return jax.lax.pmean(measure(x, y), "rows")

    mean = jax.shard_map(loss, mesh=mesh, in_specs=(P("rows"), P("rows")), out_specs=P())
    value, slope = jax.jit(jax.value_and_grad(mean))(a, b)
    parts = [jax.value_and_grad(measure)(*map(jnp.asarray, (a[i], b[i])))
             for i in (slice(300), slice(300, 600))]
    np.testing.assert_allclose(value, np.mean([part[0] for part in parts]), atol=1e-5)
    expected = np.concatenate([part[1] for part in parts]) / 2
    np.testing.assert_allclose(slope, expected, atol=1e-6)
"""

EXPLICIT = """
mesh = jax.make_mesh((2,), ("rows",), axis_types=(AxisType.Explicit,))
whole = {name: jax.value_and_grad(measure)(jnp.asarray(a), jnp.asarray(b))
         for name, measure in measures.items()}
with jax.set_mesh(mesh):
    x, y = (jax.device_put(z, NamedSharding(mesh, P("rows"))) for z in (a, b))
    for name, measure in measures.items():
        value, slope = jax.jit(jax.value_and_grad(measure))(x, y)
        np.testing.assert_allclose(value, whole[name][0], atol=1e-5)
        np.testing.assert_allclose(np.asarray(slope), whole[name][1], atol=1e-6)
"""


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (SHARDS, ["kb", "sk", "total", "hsic", "ace"]),
        (EXPLICIT, ["kb", "sk", "total", "hsic", "hgr"]),
    ],
    ids=["shards", "explicit"],
)
def test_rows_on_two_devices(body: str, names: list[str]) -> None:
    code = [sys.executable, "-c", DEVICES + body, "measures", *names]
    done = subprocess.run(code, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
