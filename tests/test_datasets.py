"""Loaders of the real tables: from a local HTTP server, from folders, and what goes wrong."""

from __future__ import annotations

import csv
import doctest
import hashlib
import importlib
import inspect
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.data import data_folder
from hgr_jax import datasets
from hgr_jax.datasets import (
    Dataset,
    DatasetError,
    load_adult,
    load_census,
    load_communities,
    load_diabetes,
)
from hgr_jax.datasets.download import REGISTRY, fetch
from hgr_jax.tables.files import TableError

COUNTIES = "acs2015_county_data.csv"


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
def no_variable(monkeypatch: pytest.MonkeyPatch, real: Path) -> None:
    monkeypatch.delenv("HGR_JAX_DATA", raising=False)


@pytest.fixture
def server(real: Path, no_variable: None) -> Iterator[Server]:
    with Server(real) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def closed() -> str:
    """An address where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


LOADED = {
    "adult": (load_adult, ("adult.data", "adult.test"), (48842, 108), "income", "age"),
    "communities": (
        load_communities,
        ("CommViolPredUnnormalizedData.txt",),
        (1993, 103),
        "violentPerPop",
        "pctWhite",
    ),
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
    with pytest.raises(DatasetError, match=r"It is not in .*elsewhere either"):
        fetch(
            COUNTIES,
            folder=tmp_path / "elsewhere",
            cache=tmp_path / "other",
            address=server.address,
        )


def test_contents_are_checked_in_a_folder_too(
    real: Path, closed: str, tmp_path: Path, no_variable: None
) -> None:
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


FAILURES = {
    "altered": "is not the published file: expected SHA-256 daa3d829",
    "truncated": "bytes read, ",
    "missing": "the server answered 404 Not Found",
    "closed": "Connection refused",
}


@pytest.mark.parametrize("before", ["nothing", "corrupt"])
@pytest.mark.parametrize("way", FAILURES)
def test_a_download_that_fails_leaves_nothing(
    way: str, before: str, server: Server, closed: str, tmp_path: Path
) -> None:
    server.way = way
    address = closed if way == "closed" else server.address
    if before == "corrupt":
        (tmp_path / COUNTIES).write_text("half of it")
    with pytest.raises(DatasetError) as caught:
        load_census(cache=tmp_path, address=address)
    message = str(caught.value)
    assert FAILURES[way] in message
    assert f"{address}/{COUNTIES}" in message
    assert REGISTRY[COUNTIES].url in message
    assert "folder=" in message
    assert "\n" not in message
    assert "Pool" not in message
    assert list(tmp_path.iterdir()) == []

    server.way = "whole"
    assert load_census(cache=tmp_path, address=server.address).x.shape == (3218, 83)
    assert [path.name for path in tmp_path.iterdir()] == [COUNTIES]


def test_a_corrupt_file_in_the_cache_is_downloaded_anew(
    server: Server, real: Path, tmp_path: Path
) -> None:
    (tmp_path / COUNTIES).write_bytes((real / COUNTIES).read_bytes()[:1000])
    assert fetch(COUNTIES, cache=tmp_path, address=server.address) == tmp_path / COUNTIES
    assert (tmp_path / COUNTIES).read_bytes() == (real / COUNTIES).read_bytes()
    assert server.asked == [COUNTIES]


def test_ctrl_c_while_downloading_leaves_nothing(server: Server, tmp_path: Path) -> None:
    server.way = "interrupted"
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            load_census(cache=tmp_path, address=server.address)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["", "new/folder"])
def test_a_cache_that_is_a_file(below: str, server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DatasetError, match=r"cannot keep .* cache=, .* folder="):
        load_census(cache=tmp_path / "file" / below, address=server.address)
    assert (tmp_path / "file").read_text() == "mine"


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


def test_a_cache_that_cannot_be_written_may_hold_the_file(
    real: Path, closed: str, no_variable: None
) -> None:
    assert fetch(COUNTIES, cache=real, address=closed) == real / COUNTIES


def test_the_cache_is_that_of_the_user(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / project)
    path = fetch(COUNTIES, address=server.address)
    assert path == tmp_path / "hgr_jax" / COUNTIES


def test_progress_is_shown_on_demand(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    load_census(cache=tmp_path, address=server.address, progress=True)
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


def test_the_publishers_addresses_are_complete() -> None:
    for name, file in REGISTRY.items():
        assert file.url.startswith("https://")
        assert file.url.endswith(name)
        assert len(bytes.fromhex(file.sha256)) == 32


def test_communities_is_the_table_of_the_paper(real: Path) -> None:
    with (real / "communities.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    paper = np.array(rows, dtype=np.float64)
    names = [name.strip() for name in header]
    data = load_communities(folder=real)
    assert [*data.features, data.target] == names
    np.testing.assert_array_equal(data.x, paper[:, :-1])
    np.testing.assert_array_equal(data.y, paper[:, -1])


def test_adult_is_prepared_as_in_the_paper(real: Path) -> None:
    data = load_adult(folder=real)
    assert data.y.sum() == 7841 + 3846
    assert data.y[:32561].sum() == 7841
    assert data.x[0, :2].tolist() == [39, 0]
    assert data["age"][32561] == 25
    assert data["capital-gain"].max() == 99999
    assert data["workclass=?"].sum() == 2799
    groups = [name.partition("=")[0] for name in data.features if "=" in name]
    assert len(set(groups)) == 8
    for group in set(groups):
        levels = [name for name in data.features if name.startswith(f"{group}=")]
        assert levels == sorted(levels)
        np.testing.assert_array_equal(sum(data[name] for name in levels), 1)


def test_census_is_prepared_as_in_the_paper(real: Path) -> None:
    data = load_census(folder=real)
    assert not {"CensusId", "County", "Poverty", "Men"} & set(data.features)
    assert data.features[:2] == ("State=Alabama", "State=Alaska")
    assert data["State=Alabama"].sum() == 67
    assert data["TotalPop"][0] == 55221
    assert data.y[0] == 18.6
    assert data.z[0] == 51281
    assert set(data["Unemployment"]) == {0, 1}
    assert 0.4 < data["Unemployment"].mean() < 0.5


def test_census_of_tracts_is_read_from_a_path(real: Path, closed: str) -> None:
    path = real / "acs2015_minnesota_tract_data.csv"
    data = load_census(tract=str(path), address=closed)
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if "" not in row.values()]
    assert data.name == "census (tracts)"
    assert data.x.shape == (len(rows), 32) == (1331, 32)
    np.testing.assert_array_equal(data.y, [float(row["ChildPoverty"]) for row in rows])
    np.testing.assert_array_equal(data["Women"], [float(row["Women"]) for row in rows])
    rates = np.array([float(row["Unemployment"]) for row in rows])
    np.testing.assert_array_equal(data["Unemployment"], rates > rates.mean())
    assert data["State=Minnesota"].all()


def _without_income(lines: list[str]) -> list[str]:
    return [lines[0].replace("Income,", "Earnings,", 1), *lines[1:]]


WRONG_TRACTS: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "empty": (lambda lines: [], "is empty"),
    "no income": (_without_income, "has no column 'Income'; did you mean"),
    "twice": (
        lambda lines: [lines[0] + ",Income", *(line + ",1" for line in lines[1:])],
        "has 2 columns named 'Income'",
    ),
    "counties": (
        lambda lines: [lines[0].replace("CensusTract", "CensusId"), *lines[1:]],
        "has no column 'CensusTract'; did you mean 'CensusId'",
    ),
    "short row": (
        lambda lines: [*lines[:3], lines[3].rpartition(",")[0]],
        "line 4: expected 37 values as in the header, got 36",
    ),
    "text": (
        lambda lines: [*lines[:2], lines[1] + "x"],
        "column 'Unemployment' holds text, for example '6.8x'; expected numbers",
    ),
    "infinite": (
        lambda lines: [lines[0], lines[1].rpartition(",")[0] + ",inf"],
        "column 'Unemployment' holds an infinite value",
    ),
    "no rows": (lambda lines: lines[:1], "has a header but no rows"),
    "missing": (
        lambda lines: [lines[0], lines[1].replace("Minnesota", "NA")],
        "no row without a missing value",
    ),
}


@pytest.mark.parametrize("wrong", WRONG_TRACTS)
def test_a_file_of_tracts_that_cannot_be_used(wrong: str, real: Path, tmp_path: Path) -> None:
    change, message = WRONG_TRACTS[wrong]
    lines = (real / "acs2015_minnesota_tract_data.csv").read_text().splitlines()[:5]
    path = tmp_path / "tracts.csv"
    path.write_text("\n".join(change(lines)))
    with pytest.raises(TableError, match=message) as caught:
        load_census(tract=path)
    assert str(path) in str(caught.value)


def test_a_file_of_tracts_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"no such file: .*tracts\.csv"):
        load_census(tract=tmp_path / "tracts.csv")
    with pytest.raises(TableError, match=r"cannot read .*: Is a directory"):
        load_census(tract=tmp_path)
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)) * 10)
    with pytest.raises(TableError, match=r"binary\.csv"):
        load_census(tract=tmp_path / "binary.csv")


def test_diabetes_is_in_its_own_units() -> None:
    data = load_diabetes()
    assert data.x.shape == (442, 10)
    assert (data.y.min(), data.y.max()) == (25, 346)
    assert set(data["sex"]) == {1, 2}
    assert (data.z.min(), data.z.max()) == (19, 79)
    assert data.task == "regression"
    np.testing.assert_array_equal(data["age"], data.z)
    np.testing.assert_array_equal(data["progression"], data.y)


@pytest.fixture
def small() -> Dataset:
    x = np.array([[1.0, 0.0, 3.0], [0.0, 1.0, 4.0]])
    y = np.array([5.0, 6.0])
    features = ("city=Oslo", "city=Rome", "income")
    return Dataset("small", x, y, x[:, 2], features, "rent", "income", "regression")


def test_a_column_by_its_name(small: Dataset) -> None:
    np.testing.assert_array_equal(small["city=Rome"], [0, 1])
    np.testing.assert_array_equal(small["rent"], [5, 6])
    for name, message in {
        "incme": "small has no column 'incme'; did you mean 'income'",
        "INCOME": "did you mean 'income'",
        "city": "categorical, with a column for each level: 'city=Oslo', 'city=Rome'",
        "zzz": "its columns are 'city=Oslo', 'city=Rome', 'income', 'rent'[^,]",
        0: "no column 0",
    }.items():
        with pytest.raises(KeyError, match=message):
            small[name]  # type: ignore[index]


def test_a_dataset_is_frozen_and_says_what_it_is(small: Dataset) -> None:
    assert repr(small) == (
        "<Dataset small: regression, 2 rows, 3 inputs, target 'rent', protected 'income'>"
    )
    with pytest.raises(AttributeError):
        small.name = "other"  # type: ignore[misc]


def test_a_data_frame_has_inputs_and_target(small: Dataset) -> None:
    frame = small.to_frame()
    assert list(frame.columns) == [*small.features, "rent"]
    np.testing.assert_array_equal(frame["income"], [3, 4])
    np.testing.assert_array_equal(frame["rent"], [5, 6])


def test_what_is_not_installed_is_named(
    small: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HGR_JAX_DATA", raising=False)
    for module in ("pooch", "pandas", "sklearn.datasets"):
        monkeypatch.setitem(sys.modules, module, None)
    needs: list[tuple[str, Callable[[], object]]] = [
        ("pooch", lambda: load_adult(cache=tmp_path)),
        ("pandas", small.to_frame),
        ("sklearn", load_diabetes),
    ]
    for package, call in needs:
        with pytest.raises(ImportError, match=rf"needs {package}, .*hgr_jax\[data\]"):
            call()


def test_import_loads_no_optional_package() -> None:
    code = "import hgr_jax, hgr_jax.datasets, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"pooch", "pandas", "sklearn", "requests"} & set(loaded)


@pytest.mark.parametrize("name", [name for name in datasets.__all__ if name.startswith("load_")])
def test_loaders_are_documented_with_examples_that_run(name: str) -> None:
    load = getattr(datasets, name)
    sections = ("Args:", "Returns:", "Raises:", "Licence:", "Source:", "Example:")
    for text in (*sections, *inspect.signature(load).parameters):
        assert text in load.__doc__
    results = doctest.testmod(importlib.import_module(load.__module__))
    assert results.attempted > 0
    assert results.failed == 0
