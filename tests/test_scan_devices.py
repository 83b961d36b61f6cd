"""Scans whose products are shared among devices."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from hgr_jax import scan

OF_TWO = """
import jax, numpy as np
from hgr_jax import scan
devices = jax.devices()
assert len(devices) == 3
rng = np.random.default_rng(0)
x = rng.normal(size=(5001, 60)).astype(np.float32)
x[:, 1] += x[:, 0] ** 2
x[rng.random(5001) < 0.1, 2:40] = np.nan
w = rng.random(5001)
for weights in (None, w):
    one = scan(x, pvalues=None, weights=weights)
    for some in (devices[:2], devices, devices[1:2]):
        found = scan(x, pvalues=None, weights=weights, devices=some)
        assert np.nanmax(np.abs(found.correlation - one.correlation)) < 1e-6
        np.testing.assert_array_equal(found.n_obs, one.n_obs)
print("the same")
"""


def test_several_devices_give_the_same() -> None:
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=3"
    run = subprocess.run(
        [sys.executable, "-c", OF_TWO],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.stdout == "the same\n", run.stderr[-2000:]


def test_one_that_is_named() -> None:
    x = np.random.default_rng(0).normal(size=(300, 60)).astype(np.float32)
    found = scan(x, pvalues=None, devices=jax.devices()[:1])
    np.testing.assert_allclose(found.correlation, scan(x, pvalues=None).correlation, atol=1e-6)


@pytest.mark.parametrize("devices", [[], "cpu", [0], 2])
def test_what_is_no_device(devices: object) -> None:
    with pytest.raises(TypeError, match=r"devices must be a sequence of jax\.Device, or None; got"):
        scan(np.ones((9, 2)), devices=devices)
