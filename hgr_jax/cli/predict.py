"""``hgr-jax predict``: predictions of a saved model for the rows of a file."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax._files import atomic_write
from hgr_jax._optional import require
from hgr_jax.cli.inputs import as_data_frame, shown
from hgr_jax.cli.outputs import escape_formula, is_stream, print_messages
from hgr_jax.fairness.columns import InputColumn
from hgr_jax.fairness.estimators import load_model
from hgr_jax.tables.columns import Frame
from hgr_jax.tables.faults import TableError, listed, printable
from hgr_jax.tables.files import read_table
from hgr_jax.tables.kinds import Form, form_of
from hgr_jax.tables.reading import Reading


def report_predictions(model: Path, path: Path, reading: Reading, out: Path | None) -> None:
    """Write a prediction for each row of a file, and notes on stderr."""
    fitted = _load(model)
    trained = _reading_of(model)
    forms = trained.forms
    if reading.decimal:
        forms = {name: form.with_point(reading.decimal) for name, form in forms.items()}
    columns = () if fitted.inputs_ is None else fitted.inputs_.columns
    names = [column.name for column in columns]
    frame = read_table(
        path,
        dataclasses.replace(
            reading,
            columns=names,
            forms={name: forms[name] for name in names if name in forms},
            na=(*trained.na, *reading.na),
            types={**{n: k for n, k in trained.types.items() if n in names}, **reading.types},
        ),
    )
    if not columns:  # trained on an array: take all columns in order
        columns = tuple(InputColumn(name) for name in frame.columns)
        if len(columns) != fitted.n_features_in_:
            raise TableError(
                f"{frame.source} has {len(columns)} columns; {printable(str(model))} was fitted to"
                f" an array of {fitted.n_features_in_}, in whose order they are taken"
            )
    complete, notes = np.ones(frame.rows, bool), dict(frame.notes)
    for column in columns:
        lacking, note = _rows_without_input(frame, column, forms)
        complete &= ~lacking
        if note:
            notes[column.name] = note
    inputs = as_data_frame(frame)[[column.name for column in columns]][complete]
    try:
        predicted = _predicted_rows(fitted, inputs if names else inputs.to_numpy(), complete)
    except ValueError as error:  # numbers far beyond those of the training
        raise TableError(f"{frame.source}: {error}") from error

    print_messages("note", notes, sys.stderr)
    if lacking_rows := int((~complete).sum()):
        print(f"note: {lacking_rows} row(s) lack an input and have no prediction", file=sys.stderr)
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


def _reading_of(model: Path) -> Reading:
    """Return how the columns of the training were read, as `hgr-jax fair` noted it."""
    path = description_of(model)
    if not path.exists():
        return Reading()
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
        return Reading(
            na=[str(text) for text in description["na"]],
            types={str(name): str(kind) for name, kind in description["types"].items()},
            forms={str(name): form_of(form) for name, form in description["forms"].items()},
        )
    except OSError as error:
        reason = f"cannot read {printable(str(path))}: {error.strerror}"
        raise TableError(reason) from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise TableError(
            f"{printable(str(path))} does not say how the inputs of the model were read"
            f" ({type(error).__name__}: {printable(str(error))})"
        ) from error


def _rows_without_input(
    frame: Frame, column: InputColumn, forms: Mapping[str, Form]
) -> tuple[NDArray[np.bool_], str]:
    """Return the rows in which a column has no input, and a note on texts that are new."""
    name, levels = column.name, column.levels
    values, missing = frame.column(name), frame.missing(name)
    form = forms.get(name, Form("numbers" if column.first_date is None else "dates"))
    expected = form.kind if levels is None else "text"
    got = "text" if frame.is_text(name) else frame.forms[name].kind
    if got != expected and not missing.all():
        example = values[~missing][0]
        hint = "; --decimal tells another decimal point" if expected == "numbers" else ""
        raise TableError(
            f"{frame.source}: column {name!r} holds {got}, for example"
            f" {(str if got == 'dates' else shown)(example)[:40]}; the model was trained on"
            f" {form if levels is None else 'text'}"
            + (f" ({listed(levels, 5)})" if levels else hint if got == "text" else "")
        )
    if levels is None or got != "text":
        return missing & (not column.takes_missing), ""
    new = ~np.isin(values.astype(str), levels) & ~missing
    note = ""
    if new.any():
        note = (
            f"{int(new.sum())} row(s) hold {shown(values[new][0])[:40]} or another text that the"
            " model has not seen"
        )
    return new | (missing & (not column.takes_missing)), note


def _predicted_rows(fitted: Any, inputs: Any, complete: NDArray[np.bool_]) -> Any:
    """Return a data frame of predictions, and of a classifier's class probabilities."""
    classes = getattr(fitted, "classes_", ())
    predicted = np.full(len(complete), None if len(classes) else np.nan)
    probabilities = np.full((len(complete), len(classes)), np.nan)
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
