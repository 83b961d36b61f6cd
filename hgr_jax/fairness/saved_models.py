"""Fitted estimators on disk: arrays and JSON in one ``.npz``, nothing that executes."""

from __future__ import annotations

import itertools
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._files import atomic_write
from hgr_jax._version import __version__
from hgr_jax.fairness.statistic_names import from_plain, to_plain

EXPECTED = "a file that `hgr-jax fair` (model.npz) or `save` of an estimator wrote"


def write_estimator(path: str | Path, estimator: Any, attributes: Sequence[str]) -> None:
    """Keep the parameters and fitted attributes of an estimator.

    Raises:
      ValueError: where a parameter is not a number, a text or a list of these, nor a statistic of
        this package with degrees.
    """
    parameters = {
        name: value.item() if isinstance(value, np.generic) else to_plain(value)
        for name, value in estimator.get_params().items()
    }
    try:
        text = json.dumps(
            {"class": type(estimator).__name__, "version": __version__} | {"parameters": parameters}
        )
    except TypeError:
        wrong = [name for name, value in parameters.items() if not _is_plain(value)]
        raise ValueError(
            "a file can hold numbers, texts, and statistics with degrees only; set"
            f" {', '.join(wrong)} to one before saving."
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
    try:
        parameters = {name: from_plain(value) for name, value in about["parameters"].items()}
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} has a parameter that cannot be read: {error}") from error
    estimator = kind(**parameters)
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
        # What NumPy says of other files is of pickles and of how to load them unsafely.
        raise ValueError(
            f"{path} is not a saved model, or is damaged; expected {EXPECTED}."
        ) from error
    complete = isinstance(about, dict) and isinstance(about.get("parameters"), dict)
    if not complete or "class" not in about:
        raise ValueError(f"{path} is not a saved model; expected {EXPECTED}.")
    return about, arrays


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True
