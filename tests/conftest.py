"""Strict promotion everywhere, 64-bit types where a test asks, real tables where present."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis
import jax
import numpy as np
import pytest

from bench.data import communities

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

hypothesis.settings.register_profile("same every time", derandomize=True, deadline=None)
hypothesis.settings.load_profile("same every time")


@pytest.fixture(autouse=True, scope="module")
def _few_compiled_programs() -> Iterator[None]:
    """Compiled programs hold memory maps, of which a process may have only so many."""
    yield
    jax.clear_caches()


@pytest.fixture
def x64() -> Iterator[None]:
    """64-bit types for one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def communities_table() -> tuple[list[str], np.ndarray]:
    table = communities()
    if table is None:
        pytest.skip("communities.csv is neither in ../shared/data nor in HGR_JAX_DATA")
    return table
