"""``python -m hgr_jax.cli``."""

import sys

from hgr_jax.cli.main import main

sys.exit(main())
