"""The real table that scikit-learn brings, and the synthetic relationships with their oracles."""

from __future__ import annotations

import sys

import jax
import numpy as np
import pytest

import hgr_jax
from hgr_jax.datasets import load_diabetes, synthetic
from hgr_jax.datasets.synthetic import RELATIONSHIPS


def test_diabetes_is_in_its_own_units() -> None:
    data = load_diabetes()
    assert data.x.shape == (442, 10)
    assert (data.y.min(), data.y.max()) == (25, 346)
    assert (data.z.min(), data.z.max()) == (19, 79)
    assert set(data.x[:, data.features.index("sex")]) == {1, 2}
    np.testing.assert_array_equal(data.x[:, data.features.index("age")], data.z)
    assert data.x.dtype == data.y.dtype == data.z.dtype == np.float64


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"needs sklearn, .*hgr_jax\[cli\]"):
        load_diabetes()


KEY = jax.random.key(0)


@pytest.mark.parametrize("name", RELATIONSHIPS)
def test_without_noise_the_oracle_is_one(name: str) -> None:
    relationship = RELATIONSHIPS[name]
    a, b = synthetic.sample(name, KEY)
    assert a.shape == b.shape == ((2002 if name == "circle" else 1001),)
    value = hgr_jax.oracle(a, b, f=relationship.f, g=relationship.g)
    np.testing.assert_allclose(value, 1, atol=1e-5)


def oracles(name: str, noise: float, count: int) -> np.ndarray:
    """The oracle's values of some samples."""
    relationship = RELATIONSHIPS[name]

    def once(key: jax.Array) -> jax.Array:
        a, b = synthetic.sample(name, key, noise=noise)
        return hgr_jax.oracle(a, b, f=relationship.f, g=relationship.g)

    return np.asarray(jax.vmap(once)(jax.random.split(KEY, count)))


@pytest.mark.parametrize("noise", [0.5, 2.0])
@pytest.mark.parametrize("name", sorted(set(RELATIONSHIPS) - {"circle"}))
def test_the_oracle_has_its_closed_form(name: str, noise: float) -> None:
    """rho = 1 / sqrt(1 + noise^2), to the sampling error of 20 samples."""
    exact = 1 / np.sqrt(1 + noise**2)
    error = abs(oracles(name, noise, 20).mean() - exact)
    assert error < 5 * (1 - exact**2) / np.sqrt(20 * 1001) + 1e-3


def test_keys_and_tracing() -> None:
    first, again, other = (synthetic.sample("sin", jax.random.key(k), noise=1) for k in (0, 0, 1))
    np.testing.assert_array_equal(first[1], again[1])
    assert (first[1] != other[1]).any()
    batch = jax.vmap(lambda noise: synthetic.sample("sin", KEY, noise=noise))(np.linspace(0, 3, 4))
    assert batch[1].shape == (4, 1001)
    np.testing.assert_allclose(batch[1][1], first[1], atol=1e-5)
    with jax.enable_x64(True):
        assert synthetic.sample("sin", KEY)[0].dtype == np.float64


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "spiral"}, "name must be one of 'linear'"),
        ({"key": 0}, "key must be a random key"),
        ({"noise": -0.1}, "noise must be at least 0"),
        ({"noise": "much"}, "noise must be a real number"),
        ({"size": 1}, "size must be at least 2"),
    ],
)
def test_errors(arguments: dict[str, object], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        synthetic.sample(**({"name": "sin", "key": KEY} | arguments))  # type: ignore[arg-type]
