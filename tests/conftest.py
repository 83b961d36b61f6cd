"""Strict promotion everywhere, 64-bit types where a test asks, real tables where present."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import jax
import numpy as np
import pytest

# Fixtures that several files of tests share.
from cli_scan_support import command as command
from cli_scan_support import folder as folder
from html_support import browser as browser
from html_support import show as show

from bench.data import communities

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

gc.set_threshold(100_000, 50, 100)  # tracing makes many objects, which stay: 9% of the time

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # As `nohup ... &` leaves it, also to the processes that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile("same every time", derandomize=True, deadline=None)
hypothesis.settings.load_profile("same every time")


def pytest_collection_finish() -> None:
    gc.freeze()  # what was imported stays, and no collection has to look at it again


@pytest.fixture(autouse=True, scope="module")
def _few_compiled_programs() -> Iterator[None]:
    """Compiled programs hold memory: some 1.5 GB by 10,000 maps of it."""
    yield
    maps = Path("/proc/self/maps")
    if not maps.exists() or len(maps.read_bytes().splitlines()) > 10_000:
        jax.clear_caches()


@contextmanager
def _compilations() -> Iterator[list[str]]:
    events: list[str] = []

    def listen(event: str, duration: float, **_: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield events
    finally:
        forget = getattr(jax.monitoring, "unregister_event_duration_listener", None)
        if forget is None:  # before jax 0.9
            from jax._src.monitoring import (
                _unregister_event_duration_listener_by_callback as forget,
            )
        forget(listen)


@pytest.fixture
def compilations() -> Callable[[], AbstractContextManager[list[str]]]:
    """``with compilations() as programs:`` collects an entry for every program compiled."""
    return _compilations


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
