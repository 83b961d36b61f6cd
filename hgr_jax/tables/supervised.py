"""A table made ready for training: inputs, a target and a protected attribute."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax.tables.columns import Category, Frame, encode_known, encode_texts
from hgr_jax.tables.faults import TableError, listed
from hgr_jax.tables.texts import Form, is_number

MIN_TRAINING_ROWS = 20
MIN_CLASS_ROWS = 4
MAX_LEVELS = 100


@dataclasses.dataclass(frozen=True)
class SupervisedTable:
    """A table as arrays.

    Attributes:
      x: inputs ``(n, p)``.
      inputs: of each column of ``x``, the column of the table, and its level where it is text.
      y: targets ``(n,)``, numbers; or labels of ``classes``.
      z: protected attribute ``(n,)``, numbers; or texts of ``levels``.
      classes: of the target of a classification, else None.
      levels: of a categorical protected attribute, else None.
    """

    x: NDArray[Any]
    inputs: list[tuple[str, str | None]]
    y: NDArray[Any]
    z: NDArray[Any]
    classes: list[Any] | None
    levels: list[str] | None

    def take(self, rows: NDArray[Any]) -> SupervisedTable:
        """Return the table of some rows."""
        return dataclasses.replace(self, x=self.x[rows], y=self.y[rows], z=self.z[rows])


def usable_rows(frame: Frame, needed: Sequence[str]) -> Frame:
    """Return the rows without a missing value.

    Raises:
      TableError: if they are too few, or a column has no value at all (which may be dropped
        unless it is ``needed``).
    """
    missing = {name: frame.missing(name) for name in frame.columns}
    for name, rows in missing.items():
        if rows.all():
            raise TableError(
                f"{frame.source}: every value of column {name!r} is missing"
                + ("" if name in needed else f"; leave it out with {_drop(name)}")
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


def encode_supervised(frame: Frame, target: str, protected: str) -> SupervisedTable:
    """Encode numbers as they are, a column of text as a column of zeros and ones for each level.

    Raises:
      TableError: for a target or protected attribute that does not vary, that are the same, or a
        column of text with too many levels.
    """
    if target == protected:
        raise TableError(f"target and protected attribute are the same column, {target!r}")
    for role, name in (("target", target), ("protected attribute", protected)):
        column = frame.column(name)
        if len(set(column)) < 2:
            raise TableError(
                f"{role} {name!r} does not vary: it is {shown(column[0])} in all {len(column)}"
                " rows without a missing value"
            )
    classes = _classes(frame, target)
    y, z = frame.column(target), frame.column(protected)
    columns: list[NDArray[Any]] = []
    inputs: list[tuple[str, str | None]] = []
    levels: list[str] | None = None
    for name, column in frame.columns.items():
        if name == target:
            continue
        if not frame.is_text(name):
            columns.append(column)
            inputs.append((name, None))
            continue
        category = encode_texts(column)
        _check_levels(frame, name, category.levels, needed=name == protected)
        columns.extend(category.one_hot().T)
        inputs += [(name, level) for level in category.levels]
        if name == protected:
            levels = list(category.levels)
    if frame.is_text(target):
        y = y.astype(np.str_)
    elif classes is not None and any(label != round(label) for label in classes):
        y, classes = y.astype(np.str_), [str(label) for label in classes]
    return SupervisedTable(np.column_stack(columns), inputs, y, z, classes, levels)


def encode_inputs(
    frame: Frame,
    inputs: Sequence[tuple[str, str | None]],
    since: Mapping[str, str],
    forms: Mapping[str, Form] | None = None,
) -> tuple[NDArray[np.float64], dict[str, str]]:
    """Encode the inputs of new rows as `encode_supervised` did those of the training.

    Args:
      frame: the new rows.
      inputs: those of the `SupervisedTable`.
      since: of columns of dates, the date that days are counted from.
      forms: as which numbers, dates and times were read in the training.

    Returns:
      ``(n, p)``, NaN where a value is missing or a level is not known, and by column, what is said
      of these.

    Raises:
      TableError: for a column that is not there, or of another kind than in training.
    """
    levels: dict[str, list[str]] = {}
    for name, level in inputs:
        levels.setdefault(name, []).extend([] if level is None else [level])
    said, columns = {}, {}
    for name, known in levels.items():
        column, missing = frame.column(name), frame.missing(name)
        form = (forms or {}).get(name, Form("dates" if name in since else "numbers"))
        expected = "text" if known else form.kind
        got = "text" if frame.is_text(name) else frame.forms[name].kind
        if got != expected and not missing.all():
            written = (forms or {}).get(name, expected)
            hint = "; --decimal tells another decimal point" if expected == "numbers" else ""
            example = shown(column[~missing][0]) if got != "dates" else str(column[~missing][0])
            raise TableError(
                f"{frame.source}: column {name!r} holds {got}, for example {example[:40]}; the"
                f" model was trained on {written}"
                + (f" ({listed(known, 5)})" if known else hint if got == "text" else "")
            )
        if got == "dates":
            column = (column - np.datetime64(since[name])) / np.timedelta64(1, "D")
        if known:
            codes = np.full(len(column), -1) if missing.all() else encode_known(column, known)
            new = (codes < 0) & ~missing
            if new.any():
                said[name] = (
                    f"{int(new.sum())} row(s) hold {shown(column[new][0])[:40]} or another text"
                    " that the model has not seen"
                )
            missing = missing | new
            block = Category(codes, tuple(known)).one_hot()
        else:
            block = np.asarray(column, np.float64)[:, None]
        columns[name] = np.where(missing[:, None], np.nan, block)
    places = {name: iter(block.T) for name, block in columns.items()}
    return np.column_stack([next(places[name]) for name, _ in inputs]), said


def shown(value: Any) -> str:
    """Return a value as a message shows it."""
    return repr(value) if isinstance(value, str) else f"{value:g}"


def _check_levels(frame: Frame, name: str, levels: Sequence[str], *, needed: bool) -> None:
    if len(levels) > min(MAX_LEVELS, frame.rows // 2):
        text = next((text for text in levels if not is_number(text)), levels[0])
        raise TableError(
            f"column {name!r} holds text of {len(levels)} different values in {frame.rows} rows,"
            f" for example {text[:40]!r}: too many for a category"
            + ("" if needed else f"; leave it out with {_drop(name)}")
        )


def _classes(frame: Frame, target: str) -> list[Any] | None:
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


def _drop(name: str) -> str:
    return f"--drop {name!r}"
