"""The program ``hgr-jax``, also as ``python -m hgr_jax.cli``."""

import gc
import signal
import sys

OBJECTS_BETWEEN_COLLECTIONS = 10_000
"""Python's 700 spend a tenth of a short scan on looking for garbage among modules being loaded."""


def start() -> int:
    """Run the command line."""
    # Python's own handler raises an exception, which is lost in hooks of the garbage collector (as
    # jaxlib's), and crashes while XLA compiles in another thread.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    from hgr_jax.cli.main import main

    return main()


if __name__ == "__main__":
    sys.exit(start())
