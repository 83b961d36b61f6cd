"""Checkpoints: the state of a training in one archive, with a description of the training."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hgr_jax._archive import load_archive, save_archive
from hgr_jax.fairness.statistics import Statistic

KIND = "training"


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be written or read, or that belongs to another training."""


def write_checkpoint(
    path: Path,
    description: Mapping[str, Any],
    tree: Any,
    columns: Mapping[str, NDArray[Any]],
    notes: Mapping[str, Any],
) -> None:
    """Write a pytree of arrays, columns, notes and the description of the training to a file."""
    leaves = [_host_array(leaf) for leaf in jax.tree.leaves(tree)]
    arrays = {f"leaf {i}": leaf for i, leaf in enumerate(leaves)}
    arrays |= {f"column {name}": column for name, column in columns.items()}
    settings = {"description": dict(description), "notes": dict(notes), "leaves": len(leaves)}
    try:
        save_archive(path, KIND, settings, arrays)
    except OSError as error:
        raise CheckpointError(f"cannot write a checkpoint to {path}: {error}") from error


def read_checkpoint(
    path: Path, description: Mapping[str, Any], like: Any
) -> tuple[Any, dict[str, NDArray[Any]], dict[str, Any]] | None:
    """Read a pytree structured as ``like``, columns and notes; None if there is no file."""
    try:
        settings, arrays = load_archive(path, KIND)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointError(f"cannot read the checkpoint {path}: {error}") from error
    except ValueError as error:
        raise CheckpointError(f"{error}; remove the file to start anew") from error
    leaves, structure = jax.tree.flatten(like)
    try:
        before, notes = dict(settings["description"]), dict(settings["notes"])
        stored = [arrays.pop(f"leaf {i}") for i in range(settings["leaves"])]
    except (LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged; remove the file to start anew") from error
    different = [name for name, value in description.items() if before.get(name) != value]
    if not different and [a.shape for a in stored] != [_host_array(a).shape for a in leaves]:
        different = ["the arrays of its optimiser or its penalties"]
    if different:
        raise CheckpointError(
            f"the checkpoint {path} is of another training: it differs in {', '.join(different)}."
            " Give the same data and settings, or another file."
        )
    restored = [_as_leaf(array, leaf) for array, leaf in zip(stored, leaves, strict=True)]
    columns = {name.removeprefix("column "): array for name, array in arrays.items()}
    return jax.tree.unflatten(structure, restored), columns, notes


def _host_array(leaf: Any) -> NDArray[Any]:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)


def _as_leaf(array: NDArray[Any], leaf: Any) -> Any:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.asarray(array), impl=jax.random.key_impl(leaf))
    if array.dtype.kind == "V":  # bfloat16 and the like, which NumPy keeps as bytes
        array = array.view(leaf.dtype)
    return jnp.asarray(array, leaf.dtype)


def describe(value: Any) -> Any:
    """Describe a setting by JSON, equal in every process: functions by their names."""
    if isinstance(value, functools.partial):
        return [describe(value.func), describe(value.args), describe(value.keywords)]
    if isinstance(value, Mapping):
        return {str(name): describe(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [describe(item) for item in value]
    if isinstance(value, Statistic):
        return [f"{type(value).__module__}.{type(value).__qualname__}", describe(vars(value))]
    if callable(value):
        kind = value if hasattr(value, "__qualname__") else type(value)
        return f"{kind.__module__}.{kind.__qualname__}"
    return value if isinstance(value, int | float | str | type(None)) else repr(value)


def digest(rows: Any) -> str:
    """Return a digest of the arrays of a pytree: their shapes, dtypes and values."""
    hashed = hashlib.sha256()
    for leaf in jax.tree.leaves(rows):
        array = _host_array(leaf)
        hashed.update(repr((array.shape, str(array.dtype))).encode())
        hashed.update(np.ascontiguousarray(array).tobytes())
    return hashed.hexdigest()
