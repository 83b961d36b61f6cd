"""Optional dependencies, imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str, extra: str) -> Any:
    """Import an optional module; the ImportError names the ``extra`` of this package to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"this needs {package}, which is not installed; run: pip install 'hgr_jax[{extra}]'"
        ) from error
