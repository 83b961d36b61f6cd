"""Work on threads: in order, with BLAS on one thread, and in the precision of who asked."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import jax
import jax.numpy as jnp
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_has_threads_of_its_own() -> None:
    """In a process of its own: one that is forked where JAX ran is refused."""
    code = """
import os
from hgr_jax._threads import _pool, in_threads
assert in_threads(abs, [-1, -2]) == [1, 2]
child = os.fork()
if child == 0:
    os._exit(list(_pool().map(abs, [-3, -4])) != [3, 4])
assert os.waitpid(child, 0)[1] == 0
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=60, check=False)
    assert done.returncode == 0


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


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor has no helpers")
@pytest.mark.parametrize("x64", [False, True])
def test_caller_and_helper_do_a_part_each_in_the_same_precision(x64: bool) -> None:
    both = threading.Barrier(2, timeout=60)

    def own(_: int) -> tuple[threading.Thread, Any]:
        both.wait()
        return threading.current_thread(), jnp.result_type(float)

    with jax.enable_x64(x64):
        found = in_threads(own, range(2))
    assert threading.current_thread() in dict(found)
    assert len(dict(found)) == 2
    assert [dtype for _, dtype in found] == [jnp.float64 if x64 else jnp.float32] * 2
