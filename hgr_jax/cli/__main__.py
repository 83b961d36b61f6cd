"""The program ``hgr-jax``, also as ``python -m hgr_jax.cli``.

Importing JAX takes a second; a KeyboardInterrupt during it would show a traceback, or be lost.
"""

import sys

from hgr_jax.cli.interrupts import leaving_on_interrupt


def start() -> int:
    """Run the command line."""
    with leaving_on_interrupt("hgr-jax: interrupted"):
        from hgr_jax.cli.main import main

        return main()


if __name__ == "__main__":
    sys.exit(start())
