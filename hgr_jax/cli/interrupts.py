"""Ctrl-C in a command: say so and leave, whatever runs."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from hgr_jax._files import remove_partial

STATUS = 128 + signal.SIGINT


@contextlib.contextmanager
def leaving_on_interrupt(message: str) -> Iterator[None]:
    """Make Ctrl-C print ``message`` on stderr and end the process with 130 while the block runs.

    Of files that are being written nothing is left.

    A KeyboardInterrupt would not do: Python drops it when it is raised in a hook of the garbage
    collector (jaxlib has one), and unwinding while XLA compiles in another thread ends in a
    crash.  Where SIGINT is ignored or handled by somebody else, it is left so; likewise outside
    the main thread, where no handler can be set.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        # The interrupted code may be writing: a buffered stream could not be entered again.
        with contextlib.suppress(RuntimeError, ValueError, OSError):
            sys.stdout.flush()
        remove_partial()
        with contextlib.suppress(OSError):
            os.write(2, f"\n{message}\n".encode())
        os._exit(STATUS)

    signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
