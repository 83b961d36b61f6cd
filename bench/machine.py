"""What a benchmark ran on: machine and versions, for the head of every table."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

import jax

PACKAGES = (
    "jax",
    "jaxlib",
    "jaxopt",
    "flax",
    "optax",
    "numpy",
    "scipy",
    "maxcorr",
    "torch",
    "dcor",
    "hyppo",
    "scikit-learn",
    "causal-learn",
    "tigramite",
)


def describe() -> str:
    """One line: processor, cores, Python and the versions of what was compared."""
    versions = [f"{name} {_version(name)}" for name in PACKAGES]
    return (
        f"{_processor()}, {os.cpu_count()} cores, {jax.devices()[0].platform.upper()} backend;"
        f" Python {platform.python_version()}, {', '.join(versions)}"
    )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
