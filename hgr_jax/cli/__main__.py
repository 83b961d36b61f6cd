"""The program ``hgr-jax``, also as ``python -m hgr_jax.cli``.

Importing JAX takes a second; a KeyboardInterrupt during it would show a traceback, or be lost.
"""

import gc
import sys

from hgr_jax.cli.interrupts import leaving_on_interrupt

OBJECTS_BETWEEN_COLLECTIONS = 10_000
"""Python's 700 spend a tenth of a short scan on looking for garbage among modules being loaded."""


def start() -> int:
    """Run the command line."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    with leaving_on_interrupt("hgr-jax: interrupted"):
        from hgr_jax.cli.main import main

        return main()


if __name__ == "__main__":
    sys.exit(start())
