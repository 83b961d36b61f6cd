"""Raise an error, instead of waiting for ever, in a process forked after JAX ran."""

from __future__ import annotations

import os
import sys

_jax_ran = False
_threads_lost = False


def refuse_forked() -> None:
    """Raise a RuntimeError in a process that was forked after JAX had started its threads."""
    if _threads_lost:
        raise RuntimeError(
            "this process was forked after JAX had started its threads, which a fork does not"
            " copy: what waits for them waits for ever. Start processes by"
            " multiprocessing.get_context('spawn'), as ProcessPoolExecutor(mp_context=...) with"
            " it, or fork before the first computation."
        )


def _before_fork() -> None:
    global _jax_ran
    bridge = sys.modules.get("jax._src.xla_bridge")
    # A private function of JAX.  Without it, some harmless forks would be refused.
    started = getattr(bridge, "backends_are_initialized", lambda: bridge is not None)
    _jax_ran = started()


def _after_fork() -> None:
    global _threads_lost
    _threads_lost = _threads_lost or _jax_ran


if hasattr(os, "register_at_fork"):  # a platform without it has no fork
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
