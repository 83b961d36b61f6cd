"""Trainings and fitted estimators on disk.

Trainings by orbax: whole or not at all, so that a run may be killed at any moment.  Estimators as
arrays and JSON in one ``.npz``, nothing that executes.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hgr_jax._files import atomic_write
from hgr_jax._optional import require
from hgr_jax._version import __version__
from hgr_jax.fairness.history import Best, History
from hgr_jax.fairness.penalties import Penalty
from hgr_jax.fairness.steps import TrainState
from hgr_jax.fairness.tasks import Task

CHECKPOINTS_KEPT = 2

DIGESTS = "digests"
"""Entry of a description: flipped bits may still be arrays that can be read."""

Arrays = Mapping[str, NDArray[Any]]


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be written or read, or that belongs to another training."""


def write_arrays(folder: Path, step: int, arrays: Arrays, description: Mapping[str, Any]) -> None:
    """Keep the arrays of a step, and what they belong to; the newest few are kept.

    Raises:
      CheckpointError: if the folder cannot be written.
    """
    kept = _filled(arrays)
    known = {DIGESTS: {name: _digest(array) for name, array in kept.items()}}
    try:
        with _manager(folder) as (orbax, manager):
            for later in manager.all_steps():
                if later >= step:  # of a training that went on from here before
                    manager.delete(later)
            manager.save(
                step,
                args=orbax.args.Composite(
                    arrays=orbax.args.StandardSave(kept),
                    description=orbax.args.JsonSave(dict(description) | known),
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
        with _manager(folder) as (orbax, manager):
            step = manager.latest_step()
            if step is None:
                return None
            found = manager.restore(
                step,
                args=orbax.args.Composite(
                    arrays=orbax.args.StandardRestore(), description=orbax.args.JsonRestore()
                ),
            )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"the checkpoint in {folder} cannot be read ({type(error).__name__}: {error});"
            " remove the folder to start anew"
        ) from error
    arrays = {name: np.asarray(array) for name, array in found["arrays"].items()}
    description = dict(found["description"])
    digests = description.pop(DIGESTS, {})
    if damaged := [name for name in digests if _digest(arrays.get(name)) != digests[name]]:
        raise CheckpointError(
            f"the checkpoint in {folder} is damaged: {', '.join(sorted(damaged)[:3])} is not what"
            " was written; remove the folder to start anew"
        )
    return _emptied(arrays), description


def _digest(array: NDArray[Any] | None) -> str:
    """Return a digest of all that an array is."""
    if array is None:
        return ""
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


# Arrays without entries cannot be written: one entry stands for them, under another name.
_EMPTY = "empty "


def _filled(arrays: Arrays) -> dict[str, NDArray[Any]]:
    return {
        (name if array.size else _EMPTY + name): array if array.size else np.array(array.shape)
        for name, array in arrays.items()
    }


def _emptied(arrays: Arrays) -> dict[str, NDArray[Any]]:
    return {
        name.removeprefix(_EMPTY): np.zeros(array) if name.startswith(_EMPTY) else array
        for name, array in arrays.items()
    }


class Training(NamedTuple):
    """A training as it is kept.

    ``stopped`` if it went back to the best; ``validated`` is the digest of the rows that ``best``
    was the best on.
    """

    state: TrainState
    best: Best | None
    history: History
    stopped: bool = False
    validated: str = ""


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
    return Training(state, best, history, bool(stopped), known["validated"])


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
    if callable(value):
        kind = value if hasattr(value, "__qualname__") else type(value)
        return f"{kind.__module__}.{kind.__qualname__}"
    return value if isinstance(value, int | float | str | type(None)) else repr(value)


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
    two_sided: bool,
    batch_size: int | None,
    seed: int,
    rows: Any,
) -> dict[str, Any]:
    """Describe what a checkpoint belongs to.

    Args:
      network: its initial arrays.
      penalties, task, two_sided, batch_size, seed: settings of the training.
      rows: to train on.
    """
    names = sorted(field.name for field in dataclasses.fields(Penalty))
    return {
        "network": digest(network),
        "penalties": [
            described({name: getattr(penalty, name) for name in names}) for penalty in penalties
        ],
        "task": described(dataclasses.astuple(task)),
        "dual": {"two_sided": two_sided},
        "batch size": batch_size,
        "seed": seed,
        "training rows": digest(rows),
    }


def write_estimator(path: str | Path, estimator: Any, attributes: Sequence[str]) -> None:
    """Keep the parameters and fitted attributes of an estimator.

    Raises:
      ValueError: where a parameter is not a number, a text or a list of these.
    """
    parameters = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in estimator.get_params().items()
    }
    try:
        text = json.dumps(
            {"class": type(estimator).__name__, "version": __version__} | {"parameters": parameters}
        )
    except TypeError:
        wrong = [name for name, value in parameters.items() if not _is_plain(value)]
        raise ValueError(
            f"a file can hold numbers and texts only; set {', '.join(wrong)} to one before saving."
        ) from None
    arrays: dict[str, Any] = {"about": np.array(text)}
    for name in attributes:
        value = getattr(estimator, name, None)
        if isinstance(value, list):
            arrays |= {f"{name}.{i}": array for i, array in enumerate(value)}
        elif isinstance(value, dict):
            arrays[f"{name}.keys"] = np.array(list(value), dtype=np.str_)
            arrays[f"{name}.values"] = np.array(list(value.values()), np.float64)
        elif value is not None:
            array = np.asarray(value)
            arrays[name] = array.astype(np.str_) if array.dtype == object else array
    with atomic_write(path) as partial, partial.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read_estimator(path: str | Path, kind: type[Any], attributes: Sequence[str]) -> Any:
    """Read an estimator that `write_estimator` kept.

    Raises:
      ValueError: if the file is not one of class ``kind``.
      OSError: if it cannot be opened.
    """
    about, arrays = _read_model(path)
    if about["class"] != kind.__name__:
        raise ValueError(f"{path} holds a {about['class']}; load it with {about['class']}.load.")
    unknown = set(about["parameters"]) - set(kind().get_params())
    if unknown:
        raise ValueError(f"{path} has parameters that {kind.__name__} does not: {unknown}.")
    estimator = kind(**about["parameters"])
    for name in attributes:
        parts = sorted(
            (key for key in arrays if key.startswith(f"{name}.") and key[-1].isdigit()),
            key=lambda key: int(key.rpartition(".")[2]),
        )
        if parts:
            setattr(estimator, name, [arrays[key] for key in parts])
        elif f"{name}.keys" in arrays:
            keys, values = arrays[f"{name}.keys"].tolist(), arrays[f"{name}.values"].tolist()
            setattr(estimator, name, dict(zip(keys, values, strict=True)))
        elif name in arrays:
            array = arrays[name]
            if name == "feature_names_in_":
                array = array.astype(object)
            setattr(estimator, name, array if array.ndim else array.item())
    absent = [n for n in attributes if n != "feature_names_in_" and not hasattr(estimator, n)]
    if absent:
        raise ValueError(f"{path} is not a whole saved model: it lacks {', '.join(absent)}.")
    sizes = [estimator.n_features_in_, *(len(bias) for bias in estimator.intercepts_)]
    if [kernel.shape for kernel in estimator.coefs_] != list(itertools.pairwise(sizes)):
        raise ValueError(f"{path} is not a whole saved model: its layers do not fit together.")
    return estimator


def class_of(path: str | Path) -> str:
    """Return the class of the estimator that `write_estimator` kept; errors as `read_estimator`."""
    return str(_read_model(path)[0]["class"])


def _read_model(path: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    try:
        with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = dict(file)
        about = json.loads(str(arrays["about"]))
    except (AttributeError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a saved model: {error}") from error
    complete = isinstance(about, dict) and isinstance(about.get("parameters"), dict)
    if not complete or "class" not in about:
        raise ValueError(f"{path} is not a saved model: it does not say of what.")
    return about, arrays


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True
