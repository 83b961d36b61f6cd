"""``hgr-jax fair``: train a model without and with a constraint, and compare the two."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgr_jax import fairness
from hgr_jax._files import atomic_write, remove_file, written_together
from hgr_jax._optional import require
from hgr_jax._version import __version__
from hgr_jax.cli.inputs import (
    as_data_frame,
    check_numbers,
    rows_left_out,
    shown,
    usable_rows,
    with_missing_level,
)
from hgr_jax.cli.options import FairOptions
from hgr_jax.cli.outputs import (
    FAIR_FILES,
    print_messages,
    save_picture,
    show_step,
    warnings_as_notes,
)
from hgr_jax.datasets import load_diabetes
from hgr_jax.fairness import (
    HGR,
    KB,
    SK,
    FairnessReport,
    NoSolutionFound,
    Penalty,
    model_card,
    report,
)
from hgr_jax.fairness.cards import CAVEAT, certificates_of
from hgr_jax.fairness.columns import Inputs
from hgr_jax.fairness.data import (
    TARGET,
    TrainingData,
    check_varies,
    split_rows,
    way_of_conditioning,
)
from hgr_jax.fairness.estimators import ConvergenceWarning
from hgr_jax.fairness.report import penalty_value
from hgr_jax.plotting import plot_history
from hgr_jax.tables.columns import Frame
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.files import read_table
from hgr_jax.tables.reading import Reading

SHUFFLES = 100

MIN_CLASS_ROWS = 4

LEGEND = """\
kb, sk, hgr: HGR of the protected attribute and the prediction; corrected: kb with less of its
upward bias; didi: distances of the means of five groups from the mean, summed"""

GIVEN_LEGEND = """
kb given: the largest kb within a group of rows of equal targets, or of what else is given"""

UNGUARANTEED = "model.unguaranteed.npz"
"""Name of the file of the safest model, where none has the guarantee."""


def _constraint(options: FairOptions) -> Penalty:
    statistics = {"kb": KB(options.h, options.k), "sk": SK(options.k), "hgr": HGR()}
    return Penalty(statistics[options.penalty], options.threshold)


def report_training(path: Path, options: FairOptions, reading: Reading, folder: Path) -> None:
    """Train on a file without and with the constraint; save the comparison, model and pictures."""
    refused = ("given", "weights", "intersections") if options.frontier else ()
    if named := [f"--{name}" for name in refused if getattr(options, name)]:
        raise TableError(f"--frontier compares models without {', '.join(named)}; leave one out")
    if options.weights and options.guarantee:
        raise TableError("--guarantee is of rows that count the same: leave out --weights")
    needed = tuple(options.row_columns)
    for name, option in options.row_columns.items():
        if name in reading.drop:
            raise TableError(f"column {name!r} is both {option} and in --drop")
    if reading.columns:
        reading = dataclasses.replace(reading, columns=(*reading.columns, *needed))
    with show_step(f"reading {path}"):
        frame = read_table(path, reading)
    for name in needed:
        frame.column(name)
    if options.missing_level:
        frame = with_missing_level(frame, needed)
    usable = usable_rows(frame, needed)
    data = training_data(usable, options)
    inputs = _inputs_of(data)
    train, test = split(data, options)

    kind = "classification" if has_two_classes(data.y) else "regression"
    target, protected = printable(options.target), printable(", ".join(options.protected))
    left_out = rows_left_out(frame, usable)
    if left_out:
        left_out += _kept_by_missing_level(frame, needed, usable.rows)
    print(f"{frame.source}: {usable.rows} rows{left_out}")
    print_messages("skipped", frame.skipped)
    notes = frame.in_days().notes
    print_messages("note", notes)
    print(f"{kind} of {target}, protected {protected}, {len(inputs.names)} inputs")
    print(f"{len(train.y)} training rows, {len(test.y)} validation rows", flush=True)
    before, after = train_both(train, options, folder)
    comparisons = _print_comparison(before, after, train, test, options)

    description = _description(after, data, options) | {
        "forms": {name: frame.forms[name].described() for name in data.x if name in frame.forms},
        "notes": dict(notes),
        "na": list(reading.na),
        "types": {name: reading.types[name] for name in reading.types if name in frame.columns},
    }
    histories = {"before": before.history_.to_frame(), "after": after.history_.to_frame()}
    with written_together():
        for name in FAIR_FILES:  # files of an earlier training would not match the new ones
            remove_file(folder / name)
        with atomic_write(folder / "model.json") as partial:
            partial.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
        after.save(folder / "model.npz")
        with atomic_write(folder / "model.card.md") as partial:
            title = f"Model of {options.target}"
            text = model_card(after, comparisons, title=title)
            partial.write_text(text, encoding="utf-8")
        with atomic_write(folder / "history.csv") as partial:
            require("pandas").concat(histories, names=["model"]).to_csv(partial)
        pictures = [save_picture(lambda: plot_history(after.history_), folder / "history.png")]
        for certificate in certificates_of(after)[:1]:
            pictures.append(save_picture(certificate.plot, folder / "certificate.png"))
        comparison = next(iter(comparisons.values()))
        if len(data.z) == 1 and comparison.z.ndim == 1:
            pictures.append(save_picture(comparison.plot, folder / "predictions.png"))
    if options.frontier:
        pictures.append(_print_frontier(train, test, options, folder))
    paths = {name: printable(str(folder / name)) for name in FAIR_FILES}
    print(f"model: {paths['model.npz']}, how its inputs were read in {paths['model.json']}")
    print(f"model card: {paths['model.card.md']}")
    print(f"history: {paths['history.csv']}")
    print("\n".join(pictures))


def _kept_by_missing_level(frame: Frame, needed: Sequence[str], rows: int) -> str:
    """Say how many of the rows that are left out an option would keep, or nothing."""
    kept = usable_rows(with_missing_level(frame, needed), needed).rows - rows
    return f"\n--missing-level keeps {kept:,} of them, without a text" if kept else ""


def report_training_demo(folder: Path) -> None:
    """Train on scikit-learn's diabetes table, compare on validation rows, and save pictures."""
    data = load_diabetes()
    # With few patients only low degrees generalise.  The demo protects bmi, as predictions depend
    # little on age, the protected column of the data set, even without a constraint.
    options = FairOptions(data.target, ("bmi",), threshold=0.5, guarantee=0.95, h=2, k=2)
    columns = {name: data[name] for name in (*data.features, data.target)}
    train, test = split(training_data(Frame(data.name, columns), options), options)
    print(
        f"\nA network that predicts {data.target} in {len(data.y)} {data.name} patients, before and"
        f" after\nHGR of its prediction and {options.protected[0]} is bounded by"
        f" {options.threshold} for patients like these, from {len(train.y)} of them",
        flush=True,
    )
    before, after = train_both(train, options, folder)
    comparisons = _print_comparison(before, after, train, test, options, shown=("validation",))
    print(save_picture(comparisons["bmi"].plot, folder / "fairness.png"))
    print(save_picture(after.certificate_.plot, folder / "certificate.png"))


def training_data(frame: Frame, options: FairOptions) -> TrainingData:
    """Return rows without missing values by what they are: inputs, target, protected attributes.

    All columns but the target and the weights are inputs.
    """
    days = frame.in_days()
    check_numbers(days, list(days.columns), needed=tuple(options.row_columns))
    if options.target in options.protected:
        raise TableError(f"target and protected attribute are the same column, {options.target!r}")
    if options.weights in (options.target, *options.protected):
        raise TableError(f"column {options.weights!r} cannot be the weights too")
    if options.weights is not None and frame.is_text(options.weights):
        raise TableError(f"column {options.weights!r} of weights holds text")
    roles = [("target", options.target), *(("protected attribute", n) for n in options.protected)]
    for role, name in roles:
        column = days.column(name)
        if len(set(column)) < 2:
            raise TableError(
                f"{role} {name!r} does not vary: it is {shown(column[0])} in all {len(column)}"
                " rows without a missing value"
            )
    y = _targets(days, options.target)
    weights = None if options.weights is None else frame.column(options.weights)
    x = as_data_frame(frame).drop(columns=list(filter(None, (options.target, options.weights))))
    given = list(options.given_columns) or None
    try:
        return TrainingData.of(x, y, list(options.protected), given, weights)
    except (TypeError, ValueError) as error:
        raise TableError(f"{frame.source}: {error}") from error


def _targets(frame: Frame, name: str) -> NDArray[Any]:
    """Return numbers, or the labels of two classes: texts and fractions as texts."""
    y = frame.column(name)
    levels, counts = np.unique(y, return_counts=True)
    if len(levels) > 2 and frame.is_text(name):
        raise TableError(
            f"target {name!r} holds text of {len(levels)} different values, for example"
            f" {levels[0][:40]!r}; expected numbers, or text of two values"
        )
    if len(levels) > 2:
        return y
    if counts.min() < MIN_CLASS_ROWS:
        rare = shown(levels[counts.argmin()])
        raise TableError(
            f"target {name!r} is {rare} in {counts.min()} row(s) only; at least"
            f" {MIN_CLASS_ROWS} are needed"
        )
    return y.astype(np.str_) if frame.is_text(name) or (y != np.round(y)).any() else y


def has_two_classes(y: NDArray[Any]) -> bool:
    """Return whether a target is of a classification."""
    return len(np.unique(y)) == 2


def split(data: TrainingData, options: FairOptions) -> tuple[TrainingData, TrainingData]:
    """Split into training and validation rows, each class of a classification separately.

    Validation rows of a level that no training row has become training rows.
    """
    groups = [np.arange(len(data.y))]
    if has_two_classes(data.y):  # both parts get at least two rows of each class
        groups = [np.flatnonzero(data.y == label) for label in np.unique(data.y)]
    is_validation = np.zeros(len(data.y), bool)
    for group in groups:
        count = min(max(round(options.validation * len(group)), 2), len(group) - 2)
        is_validation[split_rows(group, count, options.seed)[1]] = True
    for _, texts in data.x.select_dtypes("category").items():
        is_validation &= texts.isin(texts[~is_validation]).to_numpy()
    train = data.take(np.flatnonzero(~is_validation))
    test = data.take(np.flatnonzero(is_validation))
    for part, rows in (("training", train), ("validation", test)):
        for name, z in rows.z.items():
            try:
                check_varies(name, z, f"{part} rows")
            except ValueError as error:
                raise TableError(f"protected attribute {error}") from error
    return train, test


def _inputs_of(data: TrainingData) -> Inputs:
    """Return what the columns are as inputs, or raise a `TableError`."""
    try:
        return Inputs.learn(data.x, "raise")
    except ValueError as error:
        raise TableError(f"{error} --drop leaves a column out.") from error


@warnings_as_notes()
def train_both(train: TrainingData, options: FairOptions, folder: Path) -> tuple[Any, Any]:
    """Train a model without the constraint, and one with it.

    Where no model has the guarantee, the safest one is kept under a name that says so.
    """
    kind = "FairMLPClassifier" if has_two_classes(train.y) else "FairMLPRegressor"
    estimator = functools.partial(
        getattr(fairness, kind),
        options.hidden,
        steps=options.steps,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        random_state=options.seed,
        intersections=options.intersections,
        verbose=sys.stderr.isatty(),
    )
    models = []
    watched = Penalty(KB(options.h, options.k), threshold=None)
    for penalty, guarantee in ((watched, None), (_constraint(options), options.guarantee)):
        with_constraint = f"with {options.measure} constrained"
        print(
            f"training {with_constraint if penalty.penalised else 'without a constraint'}",
            flush=True,
        )
        given = _conditioning_of(options) if penalty.penalised else None
        model = estimator(penalty=penalty, guarantee=guarantee, given=given)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # `verdict` reports it
                model.fit(train.x, train.y, train.z, sample_weight=train.weights)
        except (ValueError, NoSolutionFound) as error:
            message = printable(str(error))
            if isinstance(error, NoSolutionFound) and error.model is not None:
                path = folder / UNGUARANTEED
                error.model.save(path)
                message += (
                    f" The safest model is kept as {printable(str(path))}: it has no guarantee."
                )
            raise TableError(message) from error
        models.append(model)
    return models[0], models[1]


def _conditioning_of(options: FairOptions) -> str | list[str] | None:
    return list(options.given_columns) or (TARGET if options.given else None)


def compare(
    before: Any, after: Any, rows: TrainingData, options: FairOptions
) -> dict[str, FairnessReport]:
    """Report score and dependence of two models; for a category, only the constrained measure."""
    measured = report(
        after,
        rows.x,
        rows.y,
        rows.z,
        baseline=before,
        statistic=KB(options.h, options.k),
        given=_conditioning_of(options),
        sample_weight=rows.weights,
    )
    reports = measured if isinstance(measured, dict) else {options.protected[0]: measured}
    if options.intersections:
        reports = dict([*reports.items()][-1:])
    return {name: _with_measure(found, rows, options) for name, found in reports.items()}


def _with_measure(
    comparison: FairnessReport, rows: TrainingData, options: FairOptions
) -> FairnessReport:
    """Return a report with the constrained measure, of a category with no other dependence."""
    figures = {model: dict(values) for model, values in comparison.figures.items()}
    penalty, condition = _constraint(options), None
    if options.given:
        condition = rows.condition
        penalty = dataclasses.replace(penalty, given=way_of_conditioning(condition[1]))
    if options.constrained not in figures["after"]:
        for model, prediction in comparison.predictions.items():
            figures[model][options.constrained] = penalty_value(
                penalty, comparison.z, prediction, condition, rows.weights
            )
    if comparison.z.ndim == 2:
        kept = dict.fromkeys(("score", options.penalty, options.constrained))
        figures = {
            model: {name: values[name] for name in kept} for model, values in figures.items()
        }
    return dataclasses.replace(comparison, figures=figures)


def _print_frontier(
    train: TrainingData, test: TrainingData, options: FairOptions, folder: Path
) -> str:
    """Print how models of three kinds trade score for dependence; return what the picture is."""
    with show_step("training models of three kinds at several thresholds"):
        found = fairness.frontier(
            train.x,
            train.y,
            train.z,
            held_out=(test.x, test.y, test.z),
            penalty=dataclasses.replace(_constraint(options), threshold=1.0),
            random_state=options.seed,
        )
    print(f"\n{found}\n")
    return save_picture(found.plot, folder / "frontier.png")


def _print_comparison(
    before: Any,
    after: Any,
    train: TrainingData,
    test: TrainingData,
    options: FairOptions,
    shown: Sequence[str] = ("training", "validation"),
) -> dict[str, FairnessReport]:
    """Print the comparison of two models, and return those on validation rows by attribute."""
    parts = {"training": train, "validation": test}
    with warnings_as_notes(), show_step("measuring both models"):
        try:
            reports = {part: compare(before, after, rows, options) for part, rows in parts.items()}
        except ValueError as error:  # of groups with too few rows
            raise TableError(printable(str(error))) from error
        names = list(reports["validation"])
        conclusions = [
            verdict({part: found[name] for part, found in reports.items()}, options)
            for name in names
            if name in options.protected or options.intersections
        ]
    for certificate in certificates_of(after):
        text = f"certificate: {printable(str(certificate))}"
        conclusions.append("\n".join(textwrap.wrap(text, 100)))
    print()
    for part in shown:
        for name in names:
            of = f", {printable(name)}" if len(names) > 1 else ""
            found = reports[part][name]
            print(f"{part} rows ({found.rows}){of}\n{found}\n")
    print(LEGEND + (GIVEN_LEGEND if options.given else ""))
    print("\n" + "\n".join(conclusions) + f"\n\n{CAVEAT}\n")
    return reports["validation"]


def verdict(reports: Mapping[str, FairnessReport], options: FairOptions) -> str:
    """Say whether the threshold holds on training and validation rows, and what chance gives."""
    measured = options.constrained
    outcomes = []
    for part, comparison in reports.items():
        value = comparison.figures["after"][measured]
        holds = value <= options.threshold
        by = "" if holds else f", {value - options.threshold:.4f} above"
        outcomes.append(f"{'holds' if holds else 'does not hold'} on {part} rows ({value:.4f}{by})")
    test = reports["validation"]
    protected = printable(test.name)
    (was, now), (of_was, of_now) = (
        [test.figures[model][name] for model in ("before", "after")] for name in (measured, "score")
    )
    conclusion = (
        f"on validation rows, {options.measure} of {protected} and the"
        f" prediction went from {was:.2f} to {now:.2f}, and {test.score_name} from {of_was:.2f} to"
        f" {of_now:.2f}\nthreshold {options.threshold:g} of {options.measure}:"
        f" {', '.join(outcomes)}\n"
    )
    predicted = test.predictions["after"]
    if np.ptp(predicted) == 0:
        return (
            f"{conclusion}every validation row has the same prediction, {predicted[0]:.4g}, so that"
            " nothing depends on it:\ntry a smaller --learning-rate, or a higher --threshold"
        )
    if options.given:
        return conclusion.rstrip()
    rng = np.random.default_rng(options.seed)
    chance = [
        penalty_value(_constraint(options), rng.permutation(test.z), predicted)
        for _ in range(SHUFFLES)
    ]
    return (
        f"{conclusion}with {protected} shuffled, so that nothing depends on it,"
        f" {test.rows} validation rows still\ngive {np.mean(chance):.2f} on average, and up to"
        f" {np.quantile(chance, 0.95):.2f} in 95 of 100 cases"
    )


def _description(model: Any, data: TrainingData, options: FairOptions) -> dict[str, Any]:
    return {
        "version": __version__,
        "class": type(model).__name__,
        "target_levels": np.unique(data.y).tolist() if has_two_classes(data.y) else None,
        "settings": dataclasses.asdict(options),
        "certificates": [dataclasses.asdict(found) for found in certificates_of(model)],
    }
