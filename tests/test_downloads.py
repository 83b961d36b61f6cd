"""Downloads of real tables: checked, cached, or not there at all."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hgr_jax.datasets import DatasetError, load_adult, load_census, load_communities
from hgr_jax.datasets.download import REGISTRY, fetch

COUNTIES = "acs2015_county_data.csv"
CRIMES = "CommViolPredUnnormalizedData.txt"


class Server(ThreadingHTTPServer):
    """Serves a folder in one of several ways, and keeps the names that were asked for."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.way = "whole"
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        name = self.path.removeprefix("/")
        self.server.asked.append(name)
        path = self.server.folder / name
        if self.server.way == "missing" or not path.is_file():
            self.send_error(404)
            return
        body = path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        match self.server.way:
            case "altered":
                body = body.replace(b"5", b"6", 1)
            case "truncated":
                body = body[: len(body) // 2]
            case "interrupted":
                self.wfile.write(body[: len(body) // 2])
                main = threading.main_thread().ident
                assert main is not None
                signal.pthread_kill(main, signal.SIGINT)
                return
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def server(real: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.delenv("HGR_JAX_DATA", raising=False)
    with Server(real) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


LOADED = {
    "adult": (load_adult, ("adult.data", "adult.test"), (48842, 108), "income", "age"),
    "communities": (load_communities, (CRIMES,), (1993, 103), "violentPerPop", "pctWhite"),
    "census (counties)": (load_census, (COUNTIES,), (3218, 83), "ChildPoverty", "Income"),
}


@pytest.mark.parametrize("name", LOADED)
def test_a_table_is_downloaded_once_and_then_read_from_the_cache(
    name: str, server: Server, closed: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    load, files, shape, target, protected = LOADED[name]
    cache = tmp_path / "new" / "cache"
    data = load(cache=cache, address=server.address + "/")
    assert server.asked == list(files)
    assert sorted(path.name for path in cache.iterdir()) == sorted(files)
    assert data.x.shape == shape
    assert (data.name, data.target, data.protected) == (name, target, protected)
    assert data.task == ("classification" if name == "adult" else "regression")
    assert len(data.features) == len(set(data.features)) == shape[1]
    assert target not in data.features
    assert protected in data.features
    assert data.x.dtype == data.y.dtype == data.z.dtype == np.float64
    assert data.y.shape == data.z.shape == shape[:1]
    assert all(np.isfinite(values).all() for values in (data.x, data.y))
    np.testing.assert_array_equal(data.z, data[protected])

    np.testing.assert_array_equal(load(cache=cache, address=closed).x, data.x)
    assert len(server.asked) == len(files)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("how", ["folder", "variable"])
@pytest.mark.parametrize("name", REGISTRY)
def test_a_folder_needs_neither_network_nor_pooch(
    name: str, how: str, real: Path, closed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    monkeypatch.setenv("HGR_JAX_DATA", str(real if how == "variable" else tmp_path))
    folder = real if how == "folder" else None
    assert fetch(name, folder=folder, cache=tmp_path, address=closed) == real / name
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ["", "absent", "empty", "file"])
def test_a_folder_without_the_file_is_passed_over(
    given: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.setenv("HGR_JAX_DATA", str(tmp_path / given) if given else "")
    cache = tmp_path / "cache"
    assert fetch(COUNTIES, cache=cache, address=server.address) == cache / COUNTIES
    server.way = "missing"
    places = {"folder": tmp_path / "elsewhere", "cache": tmp_path / "other"}
    with pytest.raises(DatasetError, match=r"It is not in .*elsewhere either"):
        fetch(COUNTIES, **places, address=server.address)


def test_contents_are_checked_in_a_folder_too(real: Path, closed: str, tmp_path: Path) -> None:
    changed = (real / COUNTIES).read_bytes()[:-1]
    (tmp_path / COUNTIES).write_bytes(changed)
    with pytest.raises(DatasetError) as caught:
        load_census(folder=tmp_path, address=closed)
    message = str(caught.value)
    assert str(tmp_path / COUNTIES) in message
    assert f"expected SHA-256 {REGISTRY[COUNTIES].sha256}" in message
    assert f"got {hashlib.sha256(changed).hexdigest()} ({len(changed):,} bytes)" in message
    assert REGISTRY[COUNTIES].url in message
    assert "folder=" in message
    assert (tmp_path / COUNTIES).read_bytes() == changed


def test_a_directory_in_the_place_of_the_file(tmp_path: Path, server: Server) -> None:
    (tmp_path / COUNTIES).mkdir()
    with pytest.raises(DatasetError, match=r"cannot read .*Is a directory"):
        load_census(folder=tmp_path)
    with pytest.raises(DatasetError, match=r"cannot keep .*Is a directory"):
        load_census(cache=tmp_path, address=server.address)
    assert list((tmp_path / COUNTIES).iterdir()) == []
    (tmp_path / "file").write_text("mine")
    for cache in (tmp_path / "file", tmp_path / "file/new/folder"):
        with pytest.raises(DatasetError, match=r"cannot keep .* cache=, .* folder="):
            load_census(cache=cache, address=server.address)
    assert (tmp_path / "file").read_text() == "mine"


FAILURES = {
    "altered": "is not the published file: expected SHA-256 daa3d829",
    "truncated": "bytes read, ",
    "missing": "the server answered 404 Not Found",
    "closed": "Connection refused",
}


@pytest.mark.parametrize("way", FAILURES)
def test_a_download_that_fails_leaves_nothing(
    way: str, server: Server, closed: str, tmp_path: Path
) -> None:
    server.way = way
    address = closed if way == "closed" else server.address
    if way in ("missing", "closed"):
        (tmp_path / COUNTIES).write_text("half of it")
    with pytest.raises(DatasetError) as caught:
        load_census(cache=tmp_path, address=address)
    message = str(caught.value)
    for text in (FAILURES[way], f"{address}/{COUNTIES}", REGISTRY[COUNTIES].url, "folder="):
        assert text in message
    assert "\n" not in message
    assert "Pool" not in message
    assert list(tmp_path.iterdir()) == []

    server.way = "whole"
    assert load_census(cache=tmp_path, address=server.address).x.shape == (3218, 83)
    assert [path.name for path in tmp_path.iterdir()] == [COUNTIES]


def test_ctrl_c_while_downloading_leaves_nothing(server: Server, tmp_path: Path) -> None:
    server.way = "interrupted"
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            load_census(cache=tmp_path, address=server.address)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_cache_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        for cache in (tmp_path, tmp_path / "new"):
            with pytest.raises(DatasetError, match=r"cannot keep .*denied.* cache=, .* folder="):
                load_census(cache=cache, address=server.address)
        assert list(tmp_path.iterdir()) == []
    finally:
        tmp_path.chmod(0o700)


def test_progress_is_shown_on_demand_and_the_cache_is_that_of_the_user(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / project)
    load_census(address=server.address, progress=True)
    assert [path.name for path in (tmp_path / "hgr_jax").iterdir()] == [COUNTIES]
    out, err = capfd.readouterr()
    assert out == ""
    assert "100%" in err
    with pytest.raises(TypeError, match="progress must be True or False"):
        load_census(progress=1)  # type: ignore[arg-type]


def test_address_must_be_one_of_http(tmp_path: Path) -> None:
    for address in (tmp_path, 3):
        with pytest.raises(TypeError, match="address must be text"):
            load_adult(cache=tmp_path, address=address)  # type: ignore[arg-type]
    for text in ("", "file:///data", "example.org/data"):
        with pytest.raises(ValueError, match=r"address must start with .* use folder="):
            load_adult(cache=tmp_path, address=text)
