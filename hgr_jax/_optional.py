"""Modules that are imported when they are first needed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
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


def names_in_modules(
    package: str, homes: Mapping[str, Sequence[str]], modules: Sequence[str] = ()
) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package whose names, by module, are imported on first use.

    So are those of its ``modules``.

    The command line and the tests of tables do without JAX, which takes half a second to load.
    """
    home_of = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{home_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
