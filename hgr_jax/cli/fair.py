"""What ``hgr-jax fair`` computes and shows: a model before and after its constraint."""

from __future__ import annotations

import dataclasses
import functools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from hgr_jax import fairness
from hgr_jax._files import atomic_write
from hgr_jax._optional import require
from hgr_jax._version import __version__
from hgr_jax.datasets import load_diabetes
from hgr_jax.fairness import Penalty, report
from hgr_jax.fairness.tasks import auc_or_accuracy, r2
from hgr_jax.plotting import plot_history, plot_predictions, save_figure
from hgr_jax.tables.files import Frame, TableError, is_number, printable, read_table

Array = NDArray[Any]

MIN_TRAINING_ROWS = 20
MIN_CLASS_ROWS = 4
MAX_LEVELS = 100
SHUFFLES = 100

LEGEND = """\
kb, sk: HGR of the protected attribute and the prediction; corrected: kb with less of its upward
bias; didi: distances of the means of five groups from the mean, summed"""

CAVEAT = """\
A small HGR is not fairness: it says nothing of errors, of harms, of decisions that are made with
the prediction, or of attributes that are not protected here."""


@dataclasses.dataclass(frozen=True)
class FairOptions:
    """What to train, and how; the names are those of the options."""

    target: str
    protected: str
    threshold: float
    penalty: str = "kb"
    h: int = 5
    k: int = 5
    hidden: tuple[int, ...] = (32, 32)
    steps: int = 500
    batch_size: int | None = None
    learning_rate: float = 1e-3
    validation: float = 0.2
    seed: int = 0

    @property
    def measure(self) -> str:
        """The name of what is constrained."""
        return f"HGR-KB({self.h}, {self.k})" if self.penalty == "kb" else f"HGR-SK({self.k})"


@dataclasses.dataclass(frozen=True)
class Problem:
    """A table as arrays.

    Attributes:
      x: inputs ``(n, p)``.
      inputs: of each column of ``x``, the column of the table, and its level where it is text.
      y: targets ``(n,)``, numbers; or labels of ``classes``.
      z: protected attribute ``(n,)``, numbers; or texts of ``levels``.
      classes: of the target of a classification, else None.
      levels: of a categorical protected attribute, else None.
    """

    x: Array
    inputs: list[tuple[str, str | None]]
    y: Array
    z: Array
    classes: list[Any] | None
    levels: list[str] | None

    def take(self, rows: Array) -> Problem:
        """Some of the rows."""
        return dataclasses.replace(self, x=self.x[rows], y=self.y[rows], z=self.z[rows])


def report_training(path: Path, settings: FairOptions, drop: list[str], folder: Path) -> None:
    """Train on a file without and with the constraint, print both, keep model and pictures."""
    frame = read_table(path)
    for name, option in ((settings.target, "--target"), (settings.protected, "--protected")):
        frame.column(name)
        if name in drop:
            raise TableError(f"column {name!r} is both {option} and in --drop")
    frame = frame.without(drop)
    usable = usable_rows(frame, settings)
    left_out = frame.rows - usable.rows
    problem = encode(usable, settings)
    train, test = split(problem, settings)
    _check_folder(folder)

    kind = "regression" if problem.classes is None else "classification"
    also = f"; {left_out} with a missing or infinite value left out" if left_out else ""
    target, protected = printable(settings.target), printable(settings.protected)
    print(f"{frame.source}: {usable.rows} rows{also}")
    print(f"{kind} of {target}, protected {protected}, {len(problem.inputs)} inputs")
    print(f"{len(train.y)} training rows, {len(test.y)} validation rows", flush=True)
    before, after = train_both(train, settings)
    print()
    for part, rows in (("training", train), ("validation", test)):
        print(f"{part} rows ({len(rows.y)})\n{table(before, after, rows, settings)}\n")
    print(f"{LEGEND}\n\n{verdict(after, train, test, settings)}\n\n{CAVEAT}\n")

    after.save(folder / "model.npz")
    description = json.dumps(_described(after, problem, settings), indent=2) + "\n"
    with atomic_write(folder / "model.json") as partial:
        partial.write_text(description, encoding="utf-8")
    histories = {"before": before.history_.to_frame(), "after": after.history_.to_frame()}
    frames = require("pandas", "cli").concat(histories, names=["model"])
    with atomic_write(folder / "history.csv") as partial:
        frames.to_csv(partial)
    print(f"model: {folder / 'model.npz'}, its inputs in {folder / 'model.json'}")
    print(f"history: {folder / 'history.csv'}")
    save_figure(plot_history(after.history_), folder / "history.png")
    if problem.levels is None:
        save_figure(_picture(before, after, test, settings), folder / "predictions.png")


def report_demo(folder: Path) -> None:
    """Train on the diabetes table of scikit-learn; a report on validation rows, and a picture."""
    data = load_diabetes()
    settings = FairOptions(data.target, data.protected, threshold=0.2, steps=200, validation=0.5)
    columns = {name: data[name] for name in (*data.features, data.target)}
    train, test = split(encode(Frame(data.name, columns), settings), settings)
    print(
        f"\nA network that predicts {data.target} in {len(data.y)} {data.name} patients, before and"
        f" after\nHGR of its prediction and {data.protected} is bounded by {settings.threshold} in"
        f" training, on {len(train.y)} rows",
        flush=True,
    )
    before, after = train_both(train, settings)
    print(f"\nvalidation rows ({len(test.y)})\n{table(before, after, test, settings)}\n")
    print(f"{LEGEND}\n\n{verdict(after, train, test, settings)}\n\n{CAVEAT}\n")
    save_figure(_picture(before, after, test, settings), folder / "fairness.png")


# From a table to arrays.


def usable_rows(frame: Frame, settings: FairOptions) -> Frame:
    """The rows without a missing value."""
    missing = {name: frame.missing(name) for name in frame.columns}
    for name, rows in missing.items():
        if rows.all():
            needed = name in (settings.target, settings.protected)
            raise TableError(
                f"{frame.source}: every value of column {name!r} is missing"
                + ("" if needed else f"; leave it out with {_drop(name)}")
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


def encode(frame: Frame, settings: FairOptions) -> Problem:
    """Numbers as they are, a column of text as one column of zeros and ones for each level."""
    target, protected = settings.target, settings.protected
    if target == protected:
        raise TableError(f"target and protected attribute are the same column, {target!r}")
    for role, name in (("target", target), ("protected attribute", protected)):
        column = frame.column(name)
        if len(set(column)) < 2:
            raise TableError(
                f"{role} {name!r} does not vary: it is {_shown(column[0])} in all {len(column)}"
                " rows without a missing value"
            )
    classes = _classes(frame, target)
    y, z = frame.column(target), frame.column(protected)
    columns: list[Array] = []
    inputs: list[tuple[str, str | None]] = []
    for name, column in frame.columns.items():
        if name == target:
            continue
        for level in _levels(frame, name) if frame.is_text(name) else [None]:
            columns.append(column if level is None else (column == level) * 1.0)
            inputs.append((name, level))
    levels = _levels(frame, protected) if frame.is_text(protected) else None
    if frame.is_text(target):
        y = y.astype(np.str_)
    elif classes is not None and any(label != round(label) for label in classes):
        y, classes = y.astype(np.str_), [str(label) for label in classes]
    return Problem(np.column_stack(columns), inputs, y, z, classes, levels)


def _levels(frame: Frame, name: str) -> list[str]:
    column = frame.column(name)
    levels = sorted(set(column))
    if len(levels) > min(MAX_LEVELS, frame.rows // 2):
        shown = next((text for text in levels if not is_number(text)), levels[0])
        raise TableError(
            f"column {name!r} holds text of {len(levels)} different values in {frame.rows} rows,"
            f" for example {shown[:40]!r}: too many for a category; leave it out with"
            f" {_drop(name)}"
        )
    return levels


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
        rare = _shown(levels[counts.argmin()])
        raise TableError(
            f"target {target!r} is {rare} in {counts.min()} row(s) only; at least"
            f" {MIN_CLASS_ROWS} are needed"
        )
    return [*levels.tolist()]


def _drop(name: str) -> str:
    return f"--drop {name!r}"


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else f"{value:g}"


def split(problem: Problem, settings: FairOptions) -> tuple[Problem, Problem]:
    """Training and validation rows at random, of a classification the same share of each class."""
    rng = np.random.default_rng(settings.seed)
    groups = [np.arange(len(problem.y))]
    if problem.classes is not None:
        groups = [np.flatnonzero(problem.y == label) for label in problem.classes]
    parts = []
    for group in groups:
        count = min(max(round(settings.validation * len(group)), 2), len(group) - 2)
        parts.append(rng.permutation(group)[:count])
    held = np.zeros(len(problem.y), bool)
    held[np.concatenate(parts)] = True
    train, test = problem.take(~held), problem.take(held)
    for part, rows in (("training", train), ("validation", test)):
        if len(set(rows.z)) < 2:
            raise TableError(
                f"protected attribute {settings.protected!r} does not vary among the {part} rows:"
                f" it is {_shown(rows.z[0])} in all {len(rows.z)}"
            )
    return train, test


# Training, and what came of it.


def train_both(train: Problem, settings: FairOptions) -> tuple[Any, Any]:
    """A model without the constraint, and one with it."""
    kind = "FairMLPRegressor" if train.classes is None else "FairMLPClassifier"
    estimator = functools.partial(
        getattr(fairness, kind),
        settings.hidden,
        threshold=settings.threshold,
        h=settings.h,
        k=settings.k,
        steps=settings.steps,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        random_state=settings.seed,
        verbose=True,
    )
    models = []
    for penalty in (None, settings.penalty):
        what = "without a constraint" if penalty is None else f"with {settings.measure} constrained"
        print(f"training {what}", flush=True)
        try:
            models.append(estimator(penalty=penalty).fit(train.x, train.y, protected=train.z))
        except ValueError as error:
            raise TableError(printable(str(error))) from error
    return models[0], models[1]


def table(before: Any, after: Any, rows: Problem, settings: FairOptions) -> str:
    """Score and dependence of two models, as text."""
    if rows.levels is None:
        found = report(after, rows.x, rows.y, rows.z, baseline=before, h=settings.h, k=settings.k)
        return str(found)
    measure = dependence(rows, settings)
    lines = [f"{'':6}  {'R2' if rows.classes is None else 'AUC':>9}  {settings.penalty:>9}"]
    for name, model in (("before", before), ("after", after)):
        prediction = predicted(model, rows)
        value = measure(rows.z, prediction)
        lines.append(f"{name:<6}  {_score(prediction, rows):>9.3f}  {value:>9.3f}")
    return "\n".join(lines)


def predicted(model: Any, rows: Problem) -> Array:
    """Predictions ``(n,)``, of a classification the probability of the second class."""
    return model.predict(rows.x) if rows.classes is None else model.predict_proba(rows.x)[:, 1]


def _score(prediction: Array, rows: Problem) -> float:
    y = rows.y if rows.classes is None else (rows.y == rows.classes[1]) * 1.0
    with jax.enable_x64(True):
        score = r2 if rows.classes is None else auc_or_accuracy
        return float(score(jax.device_put(prediction), jax.device_put(y)))


def dependence(rows: Problem, settings: FairOptions) -> Callable[[Array, Array], float]:
    """What is constrained, in double precision, of a protected attribute and a prediction."""
    penalty = Penalty(settings.penalty, settings.threshold, h=settings.h, k=settings.k)

    def measure(z: Array, prediction: Array) -> float:
        if rows.levels is not None:
            z = (z[:, None] == np.array(rows.levels, object)) * 1.0
        with jax.enable_x64(True):
            a, b = jax.device_put(z), jax.device_put(prediction)
            return float(penalty.values(penalty.init(a, b), a, b)[0][0])

    return measure


def verdict(after: Any, train: Problem, test: Problem, settings: FairOptions) -> str:
    """Whether the threshold holds on both kinds of rows, and what chance alone gives."""
    measure = dependence(train, settings)
    said = []
    for part, rows in (("training", train), ("validation", test)):
        value = measure(rows.z, predicted(after, rows))
        holds = value <= settings.threshold
        by = "" if holds else f", {value - settings.threshold:.4f} above"
        said.append(f"{'holds' if holds else 'does not hold'} on {part} rows ({value:.4f}{by})")
    rng, prediction = np.random.default_rng(settings.seed), predicted(after, test)
    chance = [measure(rng.permutation(test.z), prediction) for _ in range(SHUFFLES)]
    return (
        f"threshold {settings.threshold:g} of {settings.measure}: {said[0]}, {said[1]}\n"
        f"with {printable(settings.protected)} shuffled, so that nothing depends on it,"
        f" {len(test.y)} validation rows still\ngive {np.mean(chance):.2f} on average, and up to"
        f" {np.quantile(chance, 0.95):.2f} in 95 of 100 cases"
    )


def _picture(before: Any, after: Any, rows: Problem, settings: FairOptions) -> Any:
    predictions = {"before": predicted(before, rows), "after": predicted(after, rows)}
    return plot_predictions(
        rows.z, predictions, name=settings.protected, h=settings.h, k=settings.k
    )


def _described(model: Any, problem: Problem, settings: FairOptions) -> dict[str, Any]:
    """What it takes to use the model on new rows."""
    return {
        "version": __version__,
        "class": type(model).__name__,
        "inputs": [
            {"column": column} if level is None else {"column": column, "level": level}
            for column, level in problem.inputs
        ],
        "target_levels": problem.classes,
        "protected_levels": problem.levels,
        "settings": dataclasses.asdict(settings),
    }


def _check_folder(folder: Path) -> None:
    """Fail before the training, not after it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass
