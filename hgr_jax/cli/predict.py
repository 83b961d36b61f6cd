"""``hgr-jax predict``: predictions of a saved model for the rows of a file."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from hgr_jax._files import atomic_write
from hgr_jax._optional import require
from hgr_jax.cli.outputs import harmless
from hgr_jax.fairness.estimators import load_model
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.files import Reading, read_any
from hgr_jax.tables.supervised import encode_inputs
from hgr_jax.tables.texts import form_of


def report_predictions(model: Path, path: Path, reading: Reading, out: Path | None) -> None:
    """Write a line for each row of a file, and on stderr what rows have no prediction."""
    fitted = _load(model)
    inputs, since, trained = _inputs_of(model, fitted)
    forms = trained.forms
    if reading.decimal:
        forms = {name: form.with_point(reading.decimal) for name, form in forms.items()}
    names = tuple(dict.fromkeys(name for name, _ in inputs))
    frame = read_any(
        path,
        dataclasses.replace(reading, columns=names, forms=forms, na=(*trained.na, *reading.na)),
    )
    if not inputs:  # without names, as an array: all columns, in their order
        inputs = [(name, None) for name in frame.columns]
        if len(inputs) != fitted.n_features_in_:
            raise TableError(
                f"{frame.source} has {len(inputs)} columns; {printable(str(model))} was fitted to"
                f" an array of {fitted.n_features_in_}, in whose order they are taken"
            )
    x, said = encode_inputs(frame, inputs, since, forms)
    predicted = _predicted_rows(fitted, x)

    unknown = [name for name, level in inputs if level is None and name not in forms]
    if unknown and trained.columns:  # of a training by an earlier version
        print(
            "note: the model does not say how its numbers and dates were written, which is found"
            " out from this file alone",
            file=sys.stderr,
        )
    for name, note in {**frame.notes, **said}.items():
        print(f"note: {printable(name)}: {printable(note)}", file=sys.stderr)
    if lacking := int(np.isnan(x).any(axis=1).sum()):
        print(f"note: {lacking} row(s) lack an input and have no prediction", file=sys.stderr)
    text = {"index": False, "float_format": "%.9g"}
    if out is None:
        predicted.to_csv(sys.stdout, **text)
        return
    with atomic_write(out) as partial:
        predicted.to_csv(partial, **text)
    print(f"predictions: {printable(str(out))}")


def description_of(model: Path) -> Path:
    """Return the file beside a model that says what its inputs are."""
    return model.with_suffix(".json") if model.name else model


def _load(path: Path) -> Any:
    """Return the estimator in a file."""
    try:
        return load_model(path)
    except ValueError as error:
        raise TableError(printable(str(error))) from error
    except FileNotFoundError:
        raise TableError(f"no such file: {printable(str(path))}") from None
    except OSError as error:
        raise TableError(f"cannot read {printable(str(path))}: {error.strerror}") from None


def _inputs_of(
    path: Path, fitted: Any
) -> tuple[list[tuple[str, str | None]], dict[str, str], Reading]:
    """Return inputs with their levels, none if not known; first dates; how the training read."""
    beside = description_of(path)
    if not beside.is_file():
        named = getattr(fitted, "feature_names_in_", ())
        return [(str(name), None) for name in named], {}, Reading()
    try:
        known = json.loads(beside.read_text(encoding="utf-8"))
        inputs = [(str(entry["column"]), entry.get("level")) for entry in known["inputs"]]
        since = {
            str(name): str(np.datetime64(first)) for name, first in known.get("since", {}).items()
        }
        trained = Reading(
            na=[str(text) for text in known.get("na", [])],
            columns=[name for name, _ in inputs],
            forms={str(name): form_of(form) for name, form in known.get("forms", {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TableError(
            f"{printable(str(beside))} does not say what the inputs of the model are"
            f" ({type(error).__name__}: {printable(str(error))})"
        ) from error
    if len(inputs) != fitted.n_features_in_:
        raise TableError(
            f"{printable(str(beside))} names {len(inputs)} inputs, and {printable(str(path))} has"
            f" {fitted.n_features_in_}: they are not of one training"
        )
    return inputs, since, trained


def _predicted_rows(fitted: Any, x: Any) -> Any:
    """Return a data frame of predictions; of a classifier, with the probability of each class."""
    there = ~np.isnan(x).any(axis=1)
    columns: dict[str, Any] = {}
    classes = getattr(fitted, "classes_", ())
    inputs = x[there]
    if hasattr(fitted, "feature_names_in_"):  # else scikit-learn warns
        inputs = require("pandas", "cli").DataFrame(inputs, columns=fitted.feature_names_in_)
    predicted = np.full(len(x), None if len(classes) else np.nan, object if len(classes) else float)
    chances = np.full((len(x), len(classes)), np.nan)
    if there.any():
        predicted[there] = fitted.predict(inputs)
        if len(classes):
            chances[there] = fitted.predict_proba(inputs)
    if len(classes):
        predicted = np.array([_as_cell(label) for label in predicted], object)
    columns["prediction"] = predicted
    for label, chance in zip(classes, chances.T, strict=True):
        columns[f"probability of {label}"] = chance
    return require("pandas", "cli").DataFrame(columns)


def _as_cell(label: Any) -> Any:
    return harmless(label) if isinstance(label, str) else label
