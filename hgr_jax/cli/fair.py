"""``hgr-jax fair``: a model before and after its constraint."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import tempfile
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hgr_jax import fairness
from hgr_jax._files import atomic_write
from hgr_jax._optional import require
from hgr_jax._version import __version__
from hgr_jax.cli.outputs import save_shown, step_shown
from hgr_jax.datasets import load_diabetes
from hgr_jax.fairness import KB, SK, Certificate, FairnessReport, NoSolutionFound, Penalty, report
from hgr_jax.fairness.data import split_rows
from hgr_jax.fairness.estimators import ConvergenceWarning
from hgr_jax.fairness.report import measured
from hgr_jax.plotting import plot_history
from hgr_jax.tables.columns import Frame
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.files import Reading, read_any
from hgr_jax.tables.supervised import SupervisedTable, encode_supervised, shown, usable_rows

SHUFFLES = 100

LEGEND = """\
kb, sk: HGR of the protected attribute and the prediction; corrected: kb with less of its upward
bias; didi: distances of the means of five groups from the mean, summed"""

CAVEAT = """\
A small HGR is not fairness: it says nothing of errors, of harms, of decisions that are made with
the prediction, or of attributes that are not protected here."""


@dataclasses.dataclass(frozen=True)
class FairOptions:
    """The options of the command, by their names."""

    target: str
    protected: str
    threshold: float
    penalty: str = "kb"
    guarantee: float | None = None
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

    @property
    def constraint(self) -> Penalty:
        """The penalty of the second model."""
        statistic = KB(self.h, self.k) if self.penalty == "kb" else SK(self.k)
        return Penalty(statistic, self.threshold)


def report_training(path: Path, options: FairOptions, reading: Reading, folder: Path) -> None:
    """Train on a file without and with the constraint, print both, keep model and pictures."""
    needed = (options.target, options.protected)
    for name, option in zip(needed, ("--target", "--protected"), strict=True):
        if name in reading.drop:
            raise TableError(f"column {name!r} is both {option} and in --drop")
    if reading.columns:
        reading = dataclasses.replace(reading, columns=(*reading.columns, *needed))
    with step_shown(f"reading {path}"):
        frame = read_any(path, reading)
    since, frame = frame.first_dates(), frame.in_days()
    for name in needed:
        frame.column(name)
    usable = usable_rows(frame, (options.target, options.protected))
    left_out = frame.rows - usable.rows
    problem = encode_supervised(usable, options.target, options.protected)
    train, test = split(problem, options)
    _check_folder(folder)

    kind = "regression" if problem.classes is None else "classification"
    also = f"; {left_out} with a missing or infinite value left out" if left_out else ""
    target, protected = printable(options.target), printable(options.protected)
    print(f"{frame.source}: {usable.rows} rows{also}")
    for label, messages in (("skipped", frame.skipped), ("note", frame.notes)):
        for name, reason in messages.items():
            print(f"{label}: {printable(name)}: {printable(reason)}")
    print(f"{kind} of {target}, protected {protected}, {len(problem.inputs)} inputs")
    print(f"{len(train.y)} training rows, {len(test.y)} validation rows", flush=True)
    before, after = train_both(train, options)
    found = _print_comparison(before, after, train, test, options)

    # Whenever this ends, there is no model beside the description of another.
    (folder / "model.npz").unlink(missing_ok=True)
    known = _description(after, problem, options, frame, since) | {"na": list(reading.na)}
    description = json.dumps(known, indent=2) + "\n"
    with atomic_write(folder / "model.json") as partial:
        partial.write_text(description, encoding="utf-8")
    after.save(folder / "model.npz")
    histories = {"before": before.history_.to_frame(), "after": after.history_.to_frame()}
    frames = require("pandas", "cli").concat(histories, names=["model"])
    with atomic_write(folder / "history.csv") as partial:
        frames.to_csv(partial)
    print(f"model: {folder / 'model.npz'}, its inputs in {folder / 'model.json'}")
    print(f"history: {folder / 'history.csv'}")
    save_shown(lambda: plot_history(after.history_), folder / "history.png")
    if options.guarantee is None:  # that of an earlier training would be wrong
        (folder / "certificate.png").unlink(missing_ok=True)
    else:
        save_shown(_certificate(after, options).plot, folder / "certificate.png")
    if problem.levels is None:
        save_shown(found.plot, folder / "predictions.png")
    else:  # that of an earlier training would be wrong
        (folder / "predictions.png").unlink(missing_ok=True)


def report_training_demo(folder: Path) -> None:
    """Train on the diabetes table of scikit-learn; a report on validation rows, and a picture."""
    data = load_diabetes()
    # Few patients: only low degrees leave something to say of others.  Of age, which is what the
    # table protects, a network without a constraint depends little.
    options = FairOptions(data.target, "bmi", threshold=0.5, guarantee=0.95, h=2, k=2)
    columns = {name: data[name] for name in (*data.features, data.target)}
    train, test = split(
        encode_supervised(Frame(data.name, columns), options.target, options.protected), options
    )
    print(
        f"\nA network that predicts {data.target} in {len(data.y)} {data.name} patients, before and"
        f" after\nHGR of its prediction and {options.protected} is bounded by"
        f" {options.threshold} for patients like these, from {len(train.y)} of them",
        flush=True,
    )
    before, after = train_both(train, options)
    found = _print_comparison(before, after, train, test, options, shown=("validation",))
    save_shown(found.plot, folder / "fairness.png")
    save_shown(_certificate(after, options).plot, folder / "certificate.png")


def split(table: SupervisedTable, options: FairOptions) -> tuple[SupervisedTable, SupervisedTable]:
    """Split training from validation rows; of a classification, with equal shares of each class."""
    groups = [np.arange(len(table.y))]
    if table.classes is not None:  # each on its own, so that none is without two rows of a part
        groups = [np.flatnonzero(table.y == label) for label in table.classes]
    held = np.zeros(len(table.y), bool)
    for group in groups:
        count = min(max(round(options.validation * len(group)), 2), len(group) - 2)
        held[split_rows(group, count, options.seed)[1]] = True
    train, test = table.take(~held), table.take(held)
    for part, those in (("training", train), ("validation", test)):
        if len(set(those.z)) < 2:
            raise TableError(
                f"protected attribute {options.protected!r} does not vary among the {part} rows:"
                f" it is {shown(those.z[0])} in all {len(those.z)}"
            )
    return train, test


def train_both(train: SupervisedTable, options: FairOptions) -> tuple[Any, Any]:
    """Train a model without the constraint, and one with it."""
    kind = "FairMLPRegressor" if train.classes is None else "FairMLPClassifier"
    estimator = functools.partial(
        getattr(fairness, kind),
        options.hidden,
        steps=options.steps,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        random_state=options.seed,
        verbose=True,
    )
    models = []
    watched = Penalty(KB(options.h, options.k), threshold=None)
    for penalty, guarantee in ((watched, None), (options.constraint, options.guarantee)):
        constrained = f"with {options.measure} constrained"
        what = constrained if penalty.penalised else "without a constraint"
        print(f"training {what}", flush=True)
        model = estimator(penalty=penalty, guarantee=guarantee)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the verdict says it
                models.append(model.fit(train.x, train.y, protected=train.z))
        except (ValueError, NoSolutionFound) as error:
            # The estimators know the attribute as z.
            told = re.sub(r"\bz\b", lambda _: repr(options.protected), str(error))
            raise TableError(printable(told)) from error
    return models[0], models[1]


def compare(before: Any, after: Any, rows: SupervisedTable, options: FairOptions) -> FairnessReport:
    """Report score and dependence of two models; of a category, only what is constrained."""
    statistic = KB(options.h, options.k)
    z = {options.protected: rows.z}
    found = report(after, rows.x, rows.y, z, baseline=before, statistic=statistic)
    if rows.levels is None:
        return found
    shown = ("score", options.penalty)
    figures = {model: {name: of[name] for name in shown} for model, of in found.figures.items()}
    return dataclasses.replace(found, figures=figures)


def _certificate(model: Any, options: FairOptions) -> Certificate:
    return dataclasses.replace(model.certificate_, name=options.protected)


def _print_comparison(
    before: Any,
    after: Any,
    train: SupervisedTable,
    test: SupervisedTable,
    options: FairOptions,
    shown: Sequence[str] = ("training", "validation"),
) -> FairnessReport:
    """Print how two models stand, and return their report on validation rows."""
    parts = {"training": train, "validation": test}
    with step_shown("measuring both models"):
        reports = {part: compare(before, after, rows, options) for part, rows in parts.items()}
        concluded = verdict(reports, options)
    if options.guarantee is not None:
        text = f"certificate: {printable(str(_certificate(after, options)))}"
        concluded += "\n" + "\n".join(textwrap.wrap(text, 100))
    print()
    for part in shown:
        print(f"{part} rows ({reports[part].rows})\n{reports[part]}\n")
    print(f"{LEGEND}\n\n{concluded}\n\n{CAVEAT}\n")
    return reports["validation"]


def verdict(reports: Mapping[str, FairnessReport], options: FairOptions) -> str:
    """Say whether the threshold holds on both kinds of rows, and what chance alone gives."""
    said = []
    for part, found in reports.items():
        value = found.figures["after"][options.penalty]
        holds = value <= options.threshold
        by = "" if holds else f", {value - options.threshold:.4f} above"
        said.append(f"{'holds' if holds else 'does not hold'} on {part} rows ({value:.4f}{by})")
    concluded = f"threshold {options.threshold:g} of {options.measure}: {said[0]}, {said[1]}\n"
    test, rng = reports["validation"], np.random.default_rng(options.seed)
    predicted = test.predictions["after"]
    if np.ptp(predicted) == 0:
        return (
            f"{concluded}every validation row has the same prediction, {predicted[0]:.4g}, so that"
            " nothing depends on it:\ntry a smaller --learning-rate, or a higher --threshold"
        )
    chance = [
        measured(options.constraint, rng.permutation(test.z), predicted) for _ in range(SHUFFLES)
    ]
    return (
        f"{concluded}with {printable(options.protected)} shuffled, so that nothing depends on it,"
        f" {test.rows} validation rows still\ngive {np.mean(chance):.2f} on average, and up to"
        f" {np.quantile(chance, 0.95):.2f} in 95 of 100 cases"
    )


def _description(
    model: Any,
    problem: SupervisedTable,
    options: FairOptions,
    frame: Frame,
    since: Mapping[str, str],
) -> dict[str, Any]:
    """Return all that is needed to use the model on new rows."""
    return {
        "version": __version__,
        "class": type(model).__name__,
        "inputs": [
            {"column": column} if level is None else {"column": column, "level": level}
            for column, level in problem.inputs
        ],
        "since": {name: first for name, first in since.items() if (name, None) in problem.inputs},
        "forms": {
            name: frame.forms[name].described() for name, level in problem.inputs if level is None
        },
        "notes": dict(frame.notes),
        "target_levels": problem.classes,
        "protected_levels": problem.levels,
        "settings": dataclasses.asdict(options),
        "certificate": None
        if options.guarantee is None
        else dataclasses.asdict(_certificate(model, options)),
    }


def _check_folder(folder: Path) -> None:
    """Fail before the training, not after it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass
