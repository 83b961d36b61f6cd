"""Trainings on disk, by orbax: whole or not at all, so that a run may be killed at any moment."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hgr_jax._optional import require
from hgr_jax.fairness.history import Best, History
from hgr_jax.fairness.penalties import Penalty
from hgr_jax.fairness.statistic import Statistic
from hgr_jax.fairness.steps import TrainState
from hgr_jax.fairness.tasks import Task

CHECKPOINTS_KEPT = 2

LAYOUT = "arrays"
"""Entry of a description: of each array, dtype, shape and digest (flipped bits can be read too)."""

DIGEST = "digest"
"""Entry of a description: of all that it is but for this."""

Arrays = Mapping[str, NDArray[Any]]


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be written or read, or that belongs to another training."""


def write_arrays(folder: Path, step: int, arrays: Arrays, description: Mapping[str, Any]) -> None:
    """Keep the arrays of a step, and what they belong to; the newest few are kept.

    Raises:
      CheckpointError: if the folder cannot be written.
    """
    layout = {name: (a.dtype.name, a.shape, _digest(a)) for name, a in arrays.items()}
    described = dict(description) | {LAYOUT: layout}
    try:
        with _manager(folder) as (orbax, manager):
            for later in manager.all_steps():
                if later >= step:  # of a training that went on from here before
                    manager.delete(later)
            manager.save(
                step,
                args=orbax.args.Composite(
                    arrays=orbax.args.StandardSave({"bytes": _packed(arrays)}),
                    description=orbax.args.JsonSave(
                        described | {DIGEST: _digest_of_json(described)}
                    ),
                ),
                force=True,
            )
    except OSError as error:
        raise CheckpointError(f"cannot write a checkpoint into {folder}: {error}") from error


def read_arrays(folder: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]] | None:
    """Read the newest arrays and their description; None where there are none.

    Raises:
      CheckpointError: if what is there cannot be read.
    """
    if not folder.is_dir():
        return None
    try:
        with _silent_orbax(), _manager(folder) as (orbax, manager):
            step = manager.latest_step()
            if step is None:
                return None
            found = manager.restore(
                step,
                args=orbax.args.Composite(
                    arrays=orbax.args.StandardRestore(), description=orbax.args.JsonRestore()
                ),
            )
        description = dict(found["description"])
        told, known = description.pop(DIGEST), _digest_of_json(description)
        layout = description.pop(LAYOUT)
        arrays = _unpacked(found["arrays"]["bytes"], layout)
        damaged = [name for name, array in arrays.items() if _digest(array) != layout[name][2]]
        damaged += ["the description"] * (told != known)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"the checkpoint in {folder} cannot be read ({type(error).__name__}: {error});"
            " remove the folder to start anew"
        ) from error
    if damaged:
        raise CheckpointError(
            f"the checkpoint in {folder} is damaged: {', '.join(sorted(damaged)[:3])} is not what"
            " was written; remove the folder to start anew"
        )
    return arrays, description


def _digest_of_json(description: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()


def _digest(array: NDArray[Any]) -> str:
    """Return a digest of all that an array is."""
    known = f"{array.dtype.str} {array.shape}".encode()
    return hashlib.sha256(known + np.ascontiguousarray(array).tobytes()).hexdigest()


def check_same(found: Mapping[str, Any], expected: Mapping[str, Any], folder: Path) -> None:
    """Raise a CheckpointError that names what differs between two descriptions of a training."""
    different = [name for name, value in expected.items() if found.get(name) != value]
    if different:
        raise CheckpointError(
            f"the checkpoint in {folder} is of another training: it differs in"
            f" {', '.join(different)}. Give the same data and settings, or another folder."
        )


@contextmanager
def _manager(folder: Path) -> Iterator[tuple[Any, Any]]:
    orbax = require("orbax.checkpoint", "fairness")
    options = orbax.CheckpointManagerOptions(
        max_to_keep=CHECKPOINTS_KEPT, enable_async_checkpointing=False
    )
    manager = orbax.CheckpointManager(folder.resolve(), options=options)
    try:
        yield orbax, manager
    finally:
        manager.close()


@contextmanager
def _silent_orbax() -> Iterator[None]:
    """Keep to ourselves what orbax logs of damaged files: there is one error, or no harm."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


# One array for all: orbax reads several at the same time, and where one is damaged, the threads
# that read the others find its event loop closed, and print tracebacks after the error.
def _packed(arrays: Arrays) -> NDArray[np.uint8]:
    """Return the bytes of arrays one after the other, and one more: it cannot write none."""
    bodies = [np.ascontiguousarray(arrays[name]).tobytes() for name in sorted(arrays)]
    return np.frombuffer(b"".join([*bodies, b"\0"]), np.uint8)


def _unpacked(packed: Any, layout: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    arrays, body, start = {}, np.asarray(packed).tobytes(), 0
    for name in sorted(layout):
        dtype, shape, _ = layout[name]
        array = np.frombuffer(body, np.dtype(dtype), math.prod(shape), start)
        arrays[name] = array.reshape(shape).copy()
        start += array.nbytes
    return arrays


class Training(NamedTuple):
    """A training as it is kept.

    ``stopped`` if it went back to the best; ``validated`` is the digest of the rows that ``best``
    was the best on; ``limits`` of predictions, or None.
    """

    state: TrainState
    best: Best | None
    history: History
    stopped: bool = False
    validated: str = ""
    limits: tuple[float, float] | None = None


def write_training(
    folder: Path, step: int, training: Training, description: Mapping[str, Any]
) -> None:
    """Keep a training.

    Raises:
      CheckpointError: if the folder cannot be written.
    """
    best = training.best
    leaves = jax.tree.leaves((training.state, best))
    arrays = {f"leaf {i}": _plain_leaf(leaf) for i, leaf in enumerate(leaves)}
    arrays["best"] = np.array(
        [] if best is None else [*best.rank, best.waited, training.stopped], np.float64
    )
    arrays["limits"] = np.array(training.limits or [], np.float64)
    order = {}
    for kind in _KINDS:
        columns = getattr(training.history, kind)
        order[kind] = list(columns)
        arrays |= {f"{kind} {name}": column for name, column in columns.items()}
    write_arrays(folder, step, arrays, {**description, **order, "validated": training.validated})


def read_training(folder: Path, start: Training, description: Mapping[str, Any]) -> Training | None:
    """Read the training in a folder; None where there is none.

    Args:
      folder: where it was written to.
      start: the same training at its start, whose structure it has.
      description: what it must belong to.

    Raises:
      CheckpointError: if it cannot be read, or is of another training.
    """
    found = read_arrays(folder)
    if found is None:
        return None
    arrays, known = found
    check_same(known, description, folder)
    state, best, stopped = start.state, None, 0.0
    if arrays["best"].size:
        excess, score, waited, stopped = arrays["best"].tolist()
        best = Best(state.parameters, state.variables, (excess, score), int(waited))
    leaves, structure = jax.tree.flatten((state, best))
    if sum(name.startswith("leaf ") for name in arrays) != len(leaves):
        raise CheckpointError(
            f"the checkpoint in {folder} is of another training: it differs in its optimiser or"
            " its penalties. Give the same settings, or another folder."
        )
    restored = [_as_before(arrays[f"leaf {i}"], leaf, folder) for i, leaf in enumerate(leaves)]
    state, best = jax.tree.unflatten(structure, restored)
    columns = {kind: {name: arrays[f"{kind} {name}"] for name in known[kind]} for kind in _KINDS}
    history = History(columns["steps"], columns["evaluations"], start.history.thresholds)
    limits = tuple(arrays.get("limits", np.zeros(0)).tolist()) or None  # older ones have none
    return Training(state, best, history, bool(stopped), known["validated"], limits)


_KINDS = ("steps", "evaluations")


def _plain_leaf(leaf: Any) -> NDArray[Any]:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)


def _as_before(array: NDArray[Any], leaf: Any, folder: Path) -> Any:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.asarray(array), impl=jax.random.key_impl(leaf))
    if array.shape != leaf.shape:
        raise CheckpointError(
            f"the checkpoint in {folder} is of another training: it has an array of shape"
            f" {array.shape} where {leaf.shape} is expected."
        )
    return jnp.asarray(array, leaf.dtype)


def described(value: Any) -> Any:
    """Describe a setting by a text that is the same in every process: functions by their names."""
    if isinstance(value, functools.partial):
        return [described(value.func), described(value.args), described(value.keywords)]
    if isinstance(value, Mapping):
        return {str(name): described(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [described(item) for item in value]
    if isinstance(value, Statistic):
        return [f"{type(value).__module__}.{type(value).__qualname__}", described(vars(value))]
    if callable(value):
        kind = value if hasattr(value, "__qualname__") else type(value)
        return f"{kind.__module__}.{kind.__qualname__}"
    return value if isinstance(value, int | float | str | type(None)) else repr(value)


def described_penalties(penalties: Sequence[Penalty]) -> list[Any]:
    """Describe all settings of penalties."""
    names = sorted(field.name for field in dataclasses.fields(Penalty))
    return [described({name: getattr(penalty, name) for name in names}) for penalty in penalties]


def digest(rows: Any) -> str:
    """Return a digest of the arrays of a pytree: their shapes, dtypes and values."""
    found = hashlib.sha256()
    for leaf in jax.tree.leaves(rows):
        array = _plain_leaf(leaf)
        found.update(repr((array.shape, str(array.dtype))).encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def description(
    network: Any,
    penalties: Sequence[Penalty],
    task: Task,
    ascent: Mapping[str, Any],
    batch_size: int | None,
    seed: int,
    rows: Any,
) -> dict[str, Any]:
    """Describe what a checkpoint belongs to.

    Args:
      network: its initial arrays.
      penalties, task, ascent (of multipliers), batch_size, seed: settings of the training.
      rows: to train on.
    """
    return {
        "network": digest(network),
        "penalties": described_penalties(penalties),
        "task": described(dataclasses.astuple(task)),
        "dual": dict(ascent),
        "batch size": batch_size,
        "seed": seed,
        "training rows": digest(rows),
    }
