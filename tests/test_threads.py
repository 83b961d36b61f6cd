"""Work on threads: in order, and with BLAS on one thread."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from hgr_jax._threads import in_threads, one_blas_thread

threadpoolctl = pytest.importorskip("threadpoolctl", reason="threadpoolctl is not installed")


def blas_threads() -> set[int]:
    found = threadpoolctl.threadpool_info()
    return {each["num_threads"] for each in found if each["user_api"] == "blas"}


def test_results_are_in_the_order_of_the_parts() -> None:
    assert in_threads(lambda x, y: 10 * x + y, range(20), range(20)) == [11 * i for i in range(20)]
    assert in_threads(abs, []) == []
    # A part may have parts of its own.
    sums = in_threads(lambda i: sum(in_threads(lambda j: i * j, range(5))), range(50))
    assert sums == [10 * i for i in range(50)]


def test_numpy_is_as_quiet_as_where_it_was_called() -> None:
    huge = np.float32(3e38) * np.ones(3, np.float32)
    with np.errstate(over="ignore"):
        assert np.isinf(in_threads(np.dot, [huge, huge], [huge, huge])).all()
        assert np.isinf(in_threads(np.multiply, [huge], [huge])[0]).all()


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


def test_blas_has_one_thread_while_anybody_is_within() -> None:
    both, one_left = threading.Barrier(2, timeout=30), threading.Event()
    found: list[set[int]] = []

    def longer() -> None:
        with one_blas_thread():
            both.wait()
            assert one_left.wait(30)
            found.append(blas_threads())

    with threadpoolctl.threadpool_limits(2, user_api="blas"):  # held by this thread
        other = threading.Thread(target=longer)
        with one_blas_thread():
            other.start()
            both.wait()
        one_left.set()
        other.join(30)
        assert found == [{1}]
        assert blas_threads() == {2}
        other = threading.Thread(
            target=lambda: found.extend(in_threads(lambda _: blas_threads(), [0]))
        )
        other.start()
        other.join(30)
        assert found == [{1}, {1}]
        assert blas_threads() == {2}
