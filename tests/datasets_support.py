"""The folder of the real tables, and a server of them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from bench.data import data_folder
from hgr_jax.datasets.download import REGISTRY


@pytest.fixture(scope="session")
def real() -> Path:
    """The folder of the real tables."""
    folder = data_folder()
    wanted = [*REGISTRY, "communities.csv", "acs2015_minnesota_tract_data.csv"]
    absent = [name for name in wanted if folder is None or not (folder / name).is_file()]
    if folder is None or absent:
        pytest.skip(f"neither ../shared/data nor HGR_JAX_DATA has {', '.join(absent)}")
    return folder.resolve()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def closed() -> str:
    """An address where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"
