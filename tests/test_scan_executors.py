"""Pairs that are spread out over an executor, to the same bit; BLAS has one thread in threads."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest

import hgr_jax
from hgr_jax import Scan, scan
from hgr_jax._threads import in_threads


def table(columns: int = 150, rows: int = 80) -> pd.DataFrame:
    """More than a square of numbers, binary ones among them, with gaps and a category."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, columns))
    x[:, 1::5] = x[:, ::5] ** 2 + 0.3 * x[:, 1::5]
    x[:, 7::20] = x[:, 7::20] > 0
    found = pd.DataFrame(x, columns=[f"x{i}" for i in range(columns)])
    found.loc[:9, "x3"] = None
    found["kind"] = np.where(x[:, 0] > 0, "one", "two")
    return found


CASES: dict[str, tuple[pd.DataFrame, dict[str, Any]]] = {
    "all pairs": (table(), {}),
    "degrees": (table(), {"h": 2, "k": 3, "test": "asymptotic"}),
    "permutations": (
        table(33, 40),
        {"test": hgr_jax.Test("permutation", permutations=9, key=jax.random.key(3))},
    ),
    "given": (table(40), {"given": ["x1", "kind"], "target": "x0"}),
    "a measure": (table(40), {"measure": "spearman", "test": None}),
    "a series": (table(40), {"order": True, "target": "x0"}),
    "first pairs": (table(200), {"top": 30}),
    "first by value": (table(200), {"top": hgr_jax.Top(30, "correlation"), "target": ["x0", "x5"]}),
}


def same(one: Scan, other: Scan) -> None:
    """Everything is the same to the bit."""
    assert (one.names, one.notes, one.settings) == (other.names, other.notes, other.settings)
    assert one._rows.columns.keys() == other._rows.columns.keys()
    for name, values in one._rows.columns.items():
        np.testing.assert_array_equal(values, other._rows.columns[name], name)


class Counting(ThreadPoolExecutor):
    """Threads that count their tasks."""

    tasks = 0

    def submit(self, *args: Any, **options: Any) -> Any:
        self.tasks += 1
        return super().submit(*args, **options)


@pytest.mark.parametrize("name", CASES)
def test_threads_change_nothing(name: str) -> None:
    x, options = CASES[name]
    with Counting(2) as executor:
        found = scan(x, execution=hgr_jax.Execution(executor=executor), **options)
    assert executor.tasks > 1
    same(found, scan(x, **options))


def test_processes_change_nothing() -> None:
    x, options = CASES["permutations"]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        found = scan(x, execution=hgr_jax.Execution(executor=executor), **options)
    same(found, scan(x, **options))


def test_a_client_of_dask_changes_nothing() -> None:
    distributed = pytest.importorskip("distributed", reason="the extra cluster is not installed")
    x, options = CASES["first by value"]
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50
    )
    with cluster, distributed.Client(cluster) as client:
        executor = client.get_executor()
        found = scan(x, execution=hgr_jax.Execution(executor=executor), **options)
    same(found, scan(x, **options))


def test_what_fails_in_a_square_is_raised() -> None:
    def fails(a: Any, b: Any) -> Any:
        raise ArithmeticError("no value")

    with ThreadPoolExecutor(2) as executor:
        execution = hgr_jax.Execution(executor=executor)
        with pytest.raises(ArithmeticError, match="no value"):
            scan(table(40), measure=fails, test=None, execution=execution)
    with pytest.raises(TypeError, match=r"executor must be one of concurrent\.futures.*got int"):
        hgr_jax.Execution(executor=2)  # type: ignore[arg-type]


threadpoolctl = pytest.importorskip("threadpoolctl", reason="threadpoolctl is not installed")


def blas_threads() -> set[int]:
    found = threadpoolctl.threadpool_info()
    return {each["num_threads"] for each in found if each["user_api"] == "blas"}


def test_blas_has_one_thread_within_and_as_many_as_before_after() -> None:
    def fails(x: int) -> None:
        raise ValueError(f"part {x}")

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        assert blas_threads() == {2}
        assert in_threads(lambda _: blas_threads(), range(3)) == [{1}] * 3
        assert blas_threads() == {2}
        with pytest.raises(ValueError, match="part 0"):
            in_threads(fails, range(2))
        assert blas_threads() == {2}
