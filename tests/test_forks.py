"""A process that is forked after JAX ran says so; one that is forked before computes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

SETUP = """
    import os, signal, sys
    import numpy as np
    import hgr_jax

    a = np.random.default_rng(0).normal(size=(50, 2))
    b = a[:, 0] ** 2

    def in_child(*calls):
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            for call in calls:
                signal.alarm(20)  # what waits for ever ends by it
                try:
                    call()
                    print("computed")
                except Exception as error:
                    print(type(error).__name__, error)
                sys.stdout.flush()
            os._exit(0)
        print("ended with", os.waitpid(child, 0)[1])
"""


def said(code: str) -> list[str]:
    """The lines that a process prints."""
    program = textwrap.dedent(SETUP) + textwrap.dedent(code)
    # JAX warns of any fork.
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_a_fork_after_jax_ran_is_an_error() -> None:
    lines = said(
        """
        import jax
        from hgr_jax.fairness import FairMLPRegressor, report
        from hgr_jax.inference import permutation_test

        key = jax.random.key(0)
        fit = hgr_jax.kb_fit(a[:, 0], b)
        model = FairMLPRegressor(penalty=None, steps=1).fit(a, b)
        in_child(
            lambda: hgr_jax.kb(a[:, 0], b),
            lambda: hgr_jax.distance_correlation(a[:, 0], b),
            lambda: fit.f(b),
            lambda: fit.score(a[:, 0], b),
            lambda: hgr_jax.scan(a),
            lambda: hgr_jax.hgr_matrix(a),
            lambda: hgr_jax.select_degrees(a[:, 0], b, key=key),
            lambda: permutation_test(hgr_jax.kb, a[:, 0], b, key=key),
            lambda: FairMLPRegressor(steps=1).fit(a, b, protected=a[:, 0]),
            lambda: model.predict(a),
            lambda: report(b, None, b, a[:, 0]),
            lambda: in_child(lambda: hgr_jax.kb(a[:, 0], b)),
        )
        print(f"{hgr_jax.kb(a[:, 0], b):.2f}")  # nothing is lost where it was forked
        """
    )
    refused, told = lines[:11], lines[0]
    assert told.startswith("RuntimeError this process was forked after JAX had started its threads")
    assert "multiprocessing.get_context('spawn')" in told
    assert refused == [told] * 11
    assert lines[11:] == [told, "ended with 0", "computed", "ended with 0", "1.00"]


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("import jax.numpy as jnp; jnp.ones(3).sum()", "RuntimeError this process was forked"),
        ("", "computed"),
        ("import jax", "computed"),
    ],
)
def test_a_fork_is_an_error_where_jax_ran_by_itself(before: str, told: str) -> None:
    first, last = said(f"{before}\nin_child(lambda: hgr_jax.kb(a[:, 0], b))")
    assert first.startswith(told)
    assert last == "ended with 0"
