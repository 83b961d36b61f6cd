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

from hgr_jax import fairness
from hgr_jax._files import atomic_write, remove_file, written_together
from hgr_jax._optional import require
from hgr_jax._texts import first_names, shortened
from hgr_jax._version import __version__
from hgr_jax.cli.inputs import check_numbers
from hgr_jax.cli.options import FairOptions
from hgr_jax.cli.outputs import FAIR_FILES, print_messages, save_picture, show_step
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
from hgr_jax.fairness.data import TrainingData, split_rows, way_of_conditioning
from hgr_jax.fairness.estimators import ConvergenceWarning
from hgr_jax.fairness.report import penalty_value
from hgr_jax.plotting import plot_history
from hgr_jax.tables.columns import Frame
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.files import read_table
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.supervised import (
    SupervisedTable,
    encode_supervised,
    shown,
    usable_rows,
    with_missing_level,
)

SHUFFLES = 100

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
    since, frame = frame.first_dates(), frame.in_days()
    for name in needed:
        frame.column(name)
    if options.missing_level:
        frame = with_missing_level(frame, needed)
    usable = usable_rows(frame, needed)
    check_numbers(usable, list(usable.columns), needed=needed)
    problem = encode_supervised(
        usable, options.target, options.protected, options.given_columns, options.weights
    )
    train, test = split(problem, options)

    kind = "regression" if problem.classes is None else "classification"
    target, protected = printable(options.target), printable(", ".join(options.protected))
    print(f"{frame.source}: {usable.rows} rows{_left_out(frame, usable, needed)}")
    print_messages("skipped", frame.skipped)
    print_messages("note", frame.notes)
    print(f"{kind} of {target}, protected {protected}, {len(problem.inputs)} inputs")
    print(f"{len(train.y)} training rows, {len(test.y)} validation rows", flush=True)
    before, after = train_both(train, options, folder)
    comparisons = _print_comparison(before, after, train, test, options)

    description = _description(after, problem, options, frame, since) | {
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
            inputs = [n if level is None else f"{n} = {level}" for n, level in problem.inputs]
            text = model_card(after, comparisons, title=title, inputs=inputs)
            partial.write_text(text, encoding="utf-8")
        with atomic_write(folder / "history.csv") as partial:
            require("pandas").concat(histories, names=["model"]).to_csv(partial)
        pictures = [save_picture(lambda: plot_history(after.history_), folder / "history.png")]
        for certificate in certificates_of(after)[:1]:
            pictures.append(save_picture(certificate.plot, folder / "certificate.png"))
        comparison = next(iter(comparisons.values()))
        if not problem.levels and len(problem.z) == 1:
            pictures.append(save_picture(comparison.plot, folder / "predictions.png"))
    if options.frontier:
        pictures.append(_print_frontier(train, test, options, folder))
    paths = {name: printable(str(folder / name)) for name in FAIR_FILES}
    print(f"model: {paths['model.npz']}, its inputs in {paths['model.json']}")
    print(f"model card: {paths['model.card.md']}")
    print(f"history: {paths['history.csv']}")
    print("\n".join(pictures))


def _left_out(frame: Frame, usable: Frame, needed: Sequence[str]) -> str:
    """Say how many rows have a missing value, in which columns, and what would keep some."""
    if usable.rows == frame.rows:
        return ""
    counts = {name: int(frame.missing(name).sum()) for name in frame.columns}
    most = sorted((name for name in counts if counts[name]), key=lambda name: -counts[name])
    columns = [f"{shortened(printable(name), 28, '...')} ({counts[name]:,})" for name in most]
    text = (
        f"; {frame.rows - usable.rows:,} of {frame.rows:,} have a missing or infinite value and are"
        f" left out: in {first_names(columns, 40)}"
    )
    kept = usable_rows(with_missing_level(frame, needed), needed).rows - usable.rows
    return text + (f"\n--missing-level keeps {kept:,} of them, without a text" if kept else "")


def report_training_demo(folder: Path) -> None:
    """Train on scikit-learn's diabetes table, compare on validation rows, and save pictures."""
    data = load_diabetes()
    # With few patients only low degrees generalise.  The demo protects bmi, as predictions depend
    # little on age, the protected column of the data set, even without a constraint.
    options = FairOptions(data.target, ("bmi",), threshold=0.5, guarantee=0.95, h=2, k=2)
    columns = {name: data[name] for name in (*data.features, data.target)}
    train, test = split(
        encode_supervised(Frame(data.name, columns), options.target, options.protected), options
    )
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


def split(table: SupervisedTable, options: FairOptions) -> tuple[SupervisedTable, SupervisedTable]:
    """Split into training and validation rows, each class of a classification separately."""
    groups = [np.arange(len(table.y))]
    if table.classes is not None:  # both parts get at least two rows of each class
        groups = [np.flatnonzero(table.y == label) for label in table.classes]
    is_validation = np.zeros(len(table.y), bool)
    for group in groups:
        count = min(max(round(options.validation * len(group)), 2), len(group) - 2)
        is_validation[split_rows(group, count, options.seed)[1]] = True
    train, test = table.take(~is_validation), table.take(is_validation)
    for part, rows in (("training", train), ("validation", test)):
        for name, z in rows.z.items():
            if len(set(z)) < 2:
                raise TableError(
                    f"protected attribute {name!r} does not vary among the {part} rows: it is"
                    f" {shown(z[0])} in all {len(z)}"
                )
    return train, test


def train_both(train: SupervisedTable, options: FairOptions, folder: Path) -> tuple[Any, Any]:
    """Train a model without the constraint, and one with it.

    Where no model has the guarantee, the safest one is kept under a name that says so.
    """
    kind = "FairMLPRegressor" if train.classes is None else "FairMLPClassifier"
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
        given = _given_of(train, options) if penalty.penalised else None
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
        # A file holds names of what was given, not its values.
        models.append(model.set_params(given=list(options.given) or None))
    return models[0], models[1]


def _given_of(rows: SupervisedTable, options: FairOptions) -> Any:
    return rows.given or ("target" if options.given else None)


def compare(
    before: Any, after: Any, rows: SupervisedTable, options: FairOptions
) -> dict[str, FairnessReport]:
    """Report score and dependence of two models; for a category, only the constrained measure."""
    measured = report(
        after,
        rows.x,
        rows.y,
        rows.z,
        baseline=before,
        statistic=KB(options.h, options.k),
        given=_given_of(rows, options),
        sample_weight=rows.weights,
    )
    reports = measured if isinstance(measured, dict) else {options.protected[0]: measured}
    if options.intersections:
        reports = dict([*reports.items()][-1:])
    return {name: _with_measure(found, rows, options) for name, found in reports.items()}


def _with_measure(
    comparison: FairnessReport, rows: SupervisedTable, options: FairOptions
) -> FairnessReport:
    """Return a report with the constrained measure, of a category with no other dependence."""
    figures = {model: dict(values) for model, values in comparison.figures.items()}
    penalty, condition = _constraint(options), None
    if options.given:
        condition = TrainingData.of(None, rows.y, None, rows.given or None).condition
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
    train: SupervisedTable, test: SupervisedTable, options: FairOptions, folder: Path
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
    train: SupervisedTable,
    test: SupervisedTable,
    options: FairOptions,
    shown: Sequence[str] = ("training", "validation"),
) -> dict[str, FairnessReport]:
    """Print the comparison of two models, and return those on validation rows by attribute."""
    parts = {"training": train, "validation": test}
    with show_step("measuring both models"):
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
    quality, protected = next(iter(test.figures["before"])), printable(test.name)
    (was, now), (of_was, of_now) = (
        [test.figures[model][name] for model in ("before", "after")] for name in (measured, quality)
    )
    conclusion = (
        f"on validation rows, {options.measure} of {protected} and the"
        f" prediction went from {was:.2f} to {now:.2f}, and {quality} from {of_was:.2f} to"
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


def _description(
    model: Any,
    problem: SupervisedTable,
    options: FairOptions,
    frame: Frame,
    since: Mapping[str, str],
) -> dict[str, Any]:
    """Describe the inputs of the model, for `hgr-jax predict`."""
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
        "protected_levels": problem.levels.get(options.protected[0])
        if len(options.protected) == 1
        else problem.levels,
        "settings": dataclasses.asdict(options),
        "certificates": [dataclasses.asdict(found) for found in certificates_of(model)],
    }
