"""Ctrl-C in a command: end the process at once, whatever runs."""

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

    Unfinished files are removed.  A KeyboardInterrupt is no alternative: Python drops it when it is
    raised in a hook of the garbage collector (jaxlib has one), and unwinding while XLA compiles in
    another thread crashes.  Nothing changes outside the main thread, which alone can set a handler,
    or if SIGINT is ignored or has another handler.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        # Fails if the interrupted code was writing to the buffered stream.
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
