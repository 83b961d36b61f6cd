"""Encode a table for training: inputs, a target and a protected attribute."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax.tables.columns import Frame
from hgr_jax.tables.faults import TableError, listed
from hgr_jax.tables.kinds import Form
from hgr_jax.tables.levels import Category, encode_by_levels, encode_texts
from hgr_jax.tables.number_texts import is_number
from hgr_jax.tables.texts import MISSING_LEVEL

MIN_TRAINING_ROWS = 20
MIN_CLASS_ROWS = 4
MAX_INPUT_LEVELS = 100


@dataclasses.dataclass(frozen=True)
class SupervisedTable:
    """Arrays for training.

    Attributes:
      x: inputs ``(n, p)``.
      inputs: for each column of ``x``, the column of the table, and the level of text or None.
      y: targets ``(n,)``: numbers, or labels in ``classes``.
      z: protected attributes ``(n,)`` by name: numbers, or texts in ``levels``.
      classes: classes of the target, None for a regression.
      levels: levels of each protected attribute that is a category.
      given: columns that dependence is to be conditional on, by name.
      weights: observation weights ``(n,)``, or None.
    """

    x: NDArray[Any]
    inputs: list[tuple[str, str | None]]
    y: NDArray[Any]
    z: dict[str, NDArray[Any]]
    classes: list[Any] | None
    levels: dict[str, list[str]]
    given: dict[str, NDArray[Any]] = dataclasses.field(default_factory=dict)
    weights: NDArray[np.float64] | None = None

    def take(self, rows: NDArray[Any]) -> SupervisedTable:
        """Return the rows of a mask or of positions."""
        return dataclasses.replace(
            self,
            x=self.x[rows],
            y=self.y[rows],
            z={name: column[rows] for name, column in self.z.items()},
            given={name: column[rows] for name, column in self.given.items()},
            weights=None if self.weights is None else self.weights[rows],
        )


def with_missing_level(frame: Frame, needed: Sequence[str]) -> Frame:
    """Return the table with a text in place of missing texts, but in the ``needed`` columns."""
    columns = {
        name: np.where(column == "", MISSING_LEVEL, column)
        if frame.is_text(name) and name not in needed
        else column
        for name, column in frame.columns.items()
    }
    return dataclasses.replace(frame, columns=columns)


def usable_rows(frame: Frame, needed: Sequence[str]) -> Frame:
    """Select the rows without a missing value; a `TableError` if they are too few.

    A column without any value is an error; the message advises to drop it unless it is ``needed``.
    """
    missing = {name: frame.missing(name) for name in frame.columns}
    for name, rows in missing.items():
        if rows.all():
            raise TableError(
                f"{frame.source}: every value of column {name!r} is missing"
                + ("" if name in needed else f"; leave it out with --drop {name!r}")
            )
    kept = ~np.any(list(missing.values()), axis=0)
    if kept.sum() < MIN_TRAINING_ROWS:
        most = max(missing, key=lambda name: int(missing[name].sum()))
        hint = ""
        if missing[most].any():
            hint = f"; {most!r} misses most, {missing[most].sum()} of {frame.rows}"
        raise TableError(
            f"{frame.source} has {kept.sum()} row(s) without a missing value, at least"
            f" {MIN_TRAINING_ROWS} are needed{hint}"
        )
    return frame.take(kept)


def encode_supervised(
    frame: Frame,
    target: str,
    protected: Sequence[str],
    given: Sequence[str] = (),
    weights: str | None = None,
) -> SupervisedTable:
    """Encode a table: numbers stay as they are, text becomes an indicator of each level.

    All columns but the target and the ``weights`` are inputs.
    """
    roles = [("target", target), *(("protected attribute", name) for name in protected)]
    if target in protected:
        raise TableError(f"target and protected attribute are the same column, {target!r}")
    if weights in (target, *protected):
        raise TableError(f"column {weights!r} cannot be the weights too")
    for role, name in roles:
        column = frame.column(name)
        if len(set(column)) < 2:
            raise TableError(
                f"{role} {name!r} does not vary: it is {shown(column[0])} in all {len(column)}"
                " rows without a missing value"
            )
    classes = _classes(frame, target)
    y = frame.column(target)
    columns: list[NDArray[Any]] = []
    inputs: list[tuple[str, str | None]] = []
    levels: dict[str, list[str]] = {}
    for name, column in frame.columns.items():
        if name in (target, weights):
            continue
        if not frame.is_text(name):
            columns.append(column)
            inputs.append((name, None))
            continue
        category = encode_texts(column)
        _check_levels(frame, name, category.levels, needed=name in protected)
        columns.extend(category.one_hot().T)
        inputs += [(name, level) for level in category.levels]
        if name in protected:
            levels[name] = list(category.levels)
    if frame.is_text(target):
        y = y.astype(np.str_)
    elif classes is not None and any(label != round(label) for label in classes):
        y, classes = y.astype(np.str_), [str(label) for label in classes]
    if weights is not None and frame.is_text(weights):
        raise TableError(f"column {weights!r} of weights holds text")
    return SupervisedTable(
        np.column_stack(columns),
        inputs,
        y,
        {name: frame.column(name) for name in protected},
        classes,
        levels,
        {name: frame.column(name) for name in given},
        None if weights is None else frame.column(weights).astype(np.float64),
    )


def encode_inputs(
    frame: Frame,
    inputs: Sequence[tuple[str, str | None]],
    since: Mapping[str, str],
    forms: Mapping[str, Form],
) -> tuple[NDArray[np.float64], dict[str, str]]:
    """Encode the inputs of new rows as `encode_supervised` did in training.

    Args:
      frame: the new rows.
      inputs: `SupervisedTable.inputs` of the training.
      since: by column of dates, the date from which days are counted.
      forms: by column, how its numbers, dates and times were written in training.

    Returns:
      ``(n, p)``, NaN where a value is missing (and that is no level) or a level is new; and a note
      on each column with new levels.
    """
    levels_of: dict[str, list[str]] = {}
    for name, level in inputs:
        levels_of.setdefault(name, []).extend([] if level is None else [level])
    notes, columns = {}, {}
    for name, levels in levels_of.items():
        column, missing = frame.column(name), frame.missing(name)
        form = forms.get(name, Form("dates" if name in since else "numbers"))
        expected = "text" if levels else form.kind
        got = "text" if frame.is_text(name) else frame.forms[name].kind
        if got != expected and not missing.all():
            trained_on = forms.get(name, expected)
            hint = "; --decimal tells another decimal point" if expected == "numbers" else ""
            example = shown(column[~missing][0]) if got != "dates" else str(column[~missing][0])
            raise TableError(
                f"{frame.source}: column {name!r} holds {got}, for example {example[:40]}; the"
                f" model was trained on {trained_on}"
                + (f" ({listed(levels, 5)})" if levels else hint if got == "text" else "")
            )
        if got == "dates":
            column = (column - np.datetime64(since[name])) / np.timedelta64(1, "D")
        if MISSING_LEVEL in levels:
            column = np.where(missing, MISSING_LEVEL, column.astype(object))
            missing = np.zeros(len(column), bool)
        if levels:
            codes = np.full(len(column), -1) if missing.all() else encode_by_levels(column, levels)
            new = (codes < 0) & ~missing
            if new.any():
                notes[name] = (
                    f"{int(new.sum())} row(s) hold {shown(column[new][0])[:40]} or another text"
                    " that the model has not seen"
                )
            missing = missing | new
            block = Category(codes, tuple(levels)).one_hot()
        else:
            block = np.asarray(column, np.float64)[:, None]
        columns[name] = np.where(missing[:, None], np.nan, block)
    blocks = {name: iter(block.T) for name, block in columns.items()}
    return np.column_stack([next(blocks[name]) for name, _ in inputs]), notes


def shown(value: Any) -> str:
    """Return a value as messages show it."""
    return repr(value) if isinstance(value, str) else f"{value:g}"


def _check_levels(frame: Frame, name: str, levels: Sequence[str], *, needed: bool) -> None:
    if len(levels) > min(MAX_INPUT_LEVELS, frame.rows // 2):
        text = next((text for text in levels if not is_number(text)), levels[0])
        raise TableError(
            f"column {name!r} holds text of {len(levels)} different values in {frame.rows} rows,"
            f" for example {text[:40]!r}: too many for a category"
            + ("" if needed else f"; leave it out with --drop {name!r}")
        )


def _classes(frame: Frame, target: str) -> list[Any] | None:
    """Return the two classes of a target, None if it is numbers with more values."""
    levels, counts = np.unique(frame.column(target), return_counts=True)
    if len(levels) > 2 and frame.is_text(target):
        raise TableError(
            f"target {target!r} holds text of {len(levels)} different values, for example"
            f" {levels[0][:40]!r}; expected numbers, or text of two values"
        )
    if len(levels) > 2:
        return None
    if counts.min() < MIN_CLASS_ROWS:
        rare = shown(levels[counts.argmin()])
        raise TableError(
            f"target {target!r} is {rare} in {counts.min()} row(s) only; at least"
            f" {MIN_CLASS_ROWS} are needed"
        )
    return [*levels.tolist()]
