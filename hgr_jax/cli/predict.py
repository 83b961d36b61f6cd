"""``hgr-jax predict``: predictions of a saved model for the rows of a file."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hgr_jax._files import atomic_write
from hgr_jax._optional import require
from hgr_jax.cli.outputs import escape_formula, is_stream, print_messages
from hgr_jax.fairness.estimators import load_model
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.files import read_table
from hgr_jax.tables.kinds import form_of
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.supervised import encode_inputs


def report_predictions(model: Path, path: Path, reading: Reading, out: Path | None) -> None:
    """Write a prediction for each row of a file, and notes on stderr."""
    fitted = _load(model)
    inputs, since, trained = _inputs_of(model, fitted)
    forms = trained.forms
    if reading.decimal:
        forms = {name: form.with_point(reading.decimal) for name, form in forms.items()}
    names = tuple(dict.fromkeys(name for name, _ in inputs))
    frame = read_table(
        path,
        dataclasses.replace(
            reading,
            columns=names,
            forms=forms,
            na=(*trained.na, *reading.na),
            types={**trained.types, **reading.types},
        ),
    )
    if not inputs:  # fitted to an array without names: take all columns in order
        inputs = [(name, None) for name in frame.columns]
        if len(inputs) != fitted.n_features_in_:
            raise TableError(
                f"{frame.source} has {len(inputs)} columns; {printable(str(model))} was fitted to"
                f" an array of {fitted.n_features_in_}, in whose order they are taken"
            )
    x, level_notes = encode_inputs(frame, inputs, since, forms)
    try:
        predicted = _predicted_rows(fitted, x)
    except ValueError as error:  # numbers far beyond those of the training
        raise TableError(f"{frame.source}: {error}") from error

    without_form = [name for name, level in inputs if level is None and name not in forms]
    if without_form and trained.columns:  # trained by an earlier version
        print(
            "note: the model does not say how its numbers and dates were written, which is found"
            " out from this file alone",
            file=sys.stderr,
        )
    print_messages("note", {**frame.notes, **level_notes}, sys.stderr)
    if lacking := int(np.isnan(x).any(axis=1).sum()):
        print(f"note: {lacking} row(s) lack an input and have no prediction", file=sys.stderr)
    text = {"index": False, "float_format": "%.9g"}
    if out is None:
        predicted.to_csv(sys.stdout, **text)
        return
    with atomic_write(out) as partial:
        predicted.to_csv(partial, **text)
    if not is_stream(out):  # else what reads it may print it too
        print(f"predictions: {printable(str(out))}")


def description_of(model: Path) -> Path:
    """Return the path of the file beside a model that describes its inputs."""
    return model.with_suffix(".json") if model.name else model


def _load(path: Path) -> Any:
    """Load an estimator; a `TableError` if the file holds none."""
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
    """Return a model's inputs with levels, the first dates of columns, and their reading."""
    path_of_inputs = description_of(path)
    if not path_of_inputs.exists():
        if getattr(fitted, "_inputs", None) is not None:
            raise TableError(
                f"{printable(str(path))} was trained on a data frame, which only Python gives it:"
                f" {type(fitted).__name__}.load(...).predict(frame)"
            )
        names = getattr(fitted, "feature_names_in_", ())
        return [(str(name), None) for name in names], {}, Reading()
    try:
        description = json.loads(path_of_inputs.read_text(encoding="utf-8"))
        inputs = [(entry["column"], entry.get("level")) for entry in description["inputs"]]
        _check_inputs(inputs)
        dates = description.get("since", {})
        since = {str(name): str(np.datetime64(first)) for name, first in dates.items()}
        forms = description.get("forms", {})
        trained = Reading(
            na=[str(text) for text in description.get("na", [])],
            columns=[name for name, _ in inputs],
            types={
                str(name): str(kind)
                for name, kind in description.get("types", {}).items()
                if any(name == column for column, _ in inputs)
            },
            forms={str(name): form_of(form) for name, form in forms.items()},
        )
    except OSError as error:
        reason = f"cannot read {printable(str(path_of_inputs))}: {error.strerror}"
        raise TableError(reason) from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise TableError(
            f"{printable(str(path_of_inputs))} does not say what the inputs of the model are"
            f" ({type(error).__name__}: {printable(str(error))})"
        ) from error
    if len(inputs) != fitted.n_features_in_:
        raise TableError(
            f"{printable(str(path_of_inputs))} names {len(inputs)} inputs, and"
            f" {printable(str(path))} has {fitted.n_features_in_}: they are not of one training"
        )
    return inputs, since, trained


def _check_inputs(inputs: Sequence[tuple[Any, Any]]) -> None:
    """Raise unless inputs are columns of numbers, and levels of columns of text, once each."""
    if not all(isinstance(name, str) and isinstance(level, str | None) for name, level in inputs):
        raise TypeError("a column or a level is no text")
    numbers, of_levels = (
        [name for name, level in inputs if (level is None) == is_number]
        for is_number in (True, False)
    )
    if len(set(inputs)) < len(inputs) or set(numbers) & set(of_levels):
        raise ValueError("a column is an input twice")


def _predicted_rows(fitted: Any, x: Any) -> Any:
    """Return a data frame of predictions, and of a classifier's class probabilities."""
    complete = ~np.isnan(x).any(axis=1)
    classes = getattr(fitted, "classes_", ())
    inputs = x[complete]
    if hasattr(fitted, "feature_names_in_"):  # else scikit-learn warns
        inputs = require("pandas").DataFrame(inputs, columns=fitted.feature_names_in_)
    predicted = np.full(len(x), None if len(classes) else np.nan, object if len(classes) else float)
    probabilities = np.full((len(x), len(classes)), np.nan)
    if complete.any():
        predicted[complete] = fitted.predict(inputs)
        if len(classes):
            probabilities[complete] = fitted.predict_proba(inputs)
    if len(classes):
        labels = [escape_formula(label) if isinstance(label, str) else label for label in predicted]
        predicted = np.array(labels, object)
    columns: dict[str, Any] = {"prediction": predicted}
    for label, probability in zip(classes, probabilities.T, strict=True):
        columns[f"probability of {label}"] = probability
    return require("pandas").DataFrame(columns)
