"""``python -m hgr_jax``: the command line."""

import sys

from hgr_jax.cli.__main__ import start

sys.exit(start())
