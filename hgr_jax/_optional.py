"""Optional dependencies, imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any

# fmt: off
EXTRAS = {
    "cli": (
        "duckdb", "matplotlib", "narwhals", "pandas", "pyarrow", "python_calamine", "sklearn",
        "threadpoolctl", "tqdm",
    ),
    "data": ("pyreadstat",),
    "cluster": ("dask", "pyspark"),
    "torch": ("torch",),
    "causal": ("causallearn", "pgmpy", "tigramite"),
}
"""Optional packages by the extra of this one that installs them."""
# fmt: on


def require(module: str) -> Any:
    """Import an optional module; the ImportError says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        extra = next((name for name, packages in EXTRAS.items() if package in packages), None)
        wanted = f"'hgr_jax[{extra}]'" if extra else package
        raise ImportError(
            f"this needs {package}, which is not installed; run: pip install {wanted}"
        ) from error
