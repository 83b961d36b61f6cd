"""``hgr-jax audit``: bound how far the predictions in a file depend on protected columns."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hgr_jax._optional import require
from hgr_jax._texts import first_names, shortened
from hgr_jax.cli.options import AuditOptions
from hgr_jax.cli.outputs import check_sizes, print_messages, show_step, warnings_as_notes
from hgr_jax.fairness import HGR, KB, SK, Certificate, DemographicParity, Penalty, certify
from hgr_jax.fairness.certificate import SUPPOSED
from hgr_jax.tables.columns import Frame
from hgr_jax.tables.faults import TableError, printable
from hgr_jax.tables.files import read_table
from hgr_jax.tables.levels import encode_texts
from hgr_jax.tables.reading import Reading

STATEMENT_WIDTH = 100
"""Of a line of a statement."""


def report_audit(path: Path, options: AuditOptions, reading: Reading) -> bool:
    """Print score, values, bounds and statements; return whether what was asked is certified."""
    _check_roles(options)
    with show_step(f"reading {path}"):
        frame = read_table(path, dataclasses.replace(reading, columns=options.columns)).in_days()
    check_sizes(frame, (options.prediction, *options.protected))
    usable = _usable_rows(frame)
    prediction, notes = _read_predictions(usable, options.prediction)
    with warnings_as_notes(), show_step("bounding"):
        certificates = _audited(usable, prediction, options)

    print(f"{usable.source}: {usable.rows:,} rows{_rows_left_out(frame, usable)}")
    print_messages("skipped", frame.skipped)
    print_messages("note", frame.notes)
    for note in notes:
        print(f"note: {printable(note)}")
    if options.target is not None:
        _print_score(usable, prediction, options.target)
    _print_bounds(certificates, options)
    for certificate in certificates:
        _print_statement(certificate, options)
    return _print_decision(certificates, options)


def _check_roles(options: AuditOptions) -> None:
    """Raise for a column of two roles, and for targets that are needed."""
    for name in (options.target, options.groups, *options.protected):
        if name == options.prediction:
            raise TableError(f"column {name!r} is --prediction, and something else too")
    for name in options.protected:
        if name in (options.target, options.groups):
            raise TableError(f"column {name!r} is --protected, and something else too")
    if options.given is not None and options.target is None:
        raise TableError("--given needs --target")


def _usable_rows(frame: Frame) -> Frame:
    """Select the rows without a missing value."""
    kept = ~np.any([frame.missing(name) for name in frame.columns], axis=0)
    if not kept.any():
        columns = ", ".join(map(printable, frame.columns))
        raise TableError(f"{frame.source} has no row with a value in each of {columns}")
    return frame.take(kept)


def _rows_left_out(frame: Frame, usable: Frame) -> str:
    """Say how many rows are left out for a missing value, and in which columns; or nothing."""
    if usable.rows == frame.rows:
        return ""
    counts = {name: int(frame.missing(name).sum()) for name in frame.columns}
    most = sorted((name for name in counts if counts[name]), key=lambda name: -counts[name])
    columns = [f"{shortened(printable(name), 28, '...')} ({counts[name]:,})" for name in most]
    return (
        f"; {frame.rows - usable.rows:,} of {frame.rows:,} have a missing or infinite value and are"
        f" left out: in {first_names(columns, 40)}"
    )


def _read_predictions(frame: Frame, name: str) -> tuple[NDArray[np.float64], list[str]]:
    """Return predictions as numbers, and what a text of two values became."""
    column = frame.column(name)
    if not frame.is_text(name):
        return column, []
    category = encode_texts(column)
    if len(category.levels) > 2:
        raise TableError(
            f"{frame.source}: column {name!r} holds text of {len(category.levels)} different"
            " values; predictions must be numbers, or text of two values"
        )
    return category.codes.astype(np.float64), [f"{name} is 1 where it is {category.levels[-1]!r}"]


def _audited(
    frame: Frame, prediction: NDArray[np.float64], options: AuditOptions
) -> Sequence[Certificate]:
    """Return a certificate of each attribute."""
    statistics = {
        "kb": KB(options.h, options.k),
        "sk": SK(options.k),
        "hgr": HGR(),
        "demographic_parity": DemographicParity(),
    }
    threshold, y = 1.0 if options.threshold is None else options.threshold, None
    if options.given is not None:
        y = require("pandas").Series(frame.column(str(options.target)), name=options.target)
    try:
        found = certify(
            prediction,
            require("pandas").DataFrame({name: frame.column(name) for name in options.protected}),
            Penalty(statistics[options.measure], threshold, given=options.given),
            options.level,
            y=y,
            groups=None if options.groups is None else frame.column(options.groups),
        )
    except (ValueError, TypeError) as error:
        raise TableError(f"{frame.source}: {error}") from error
    return [found] if isinstance(found, Certificate) else found


def _print_score(frame: Frame, prediction: NDArray[np.float64], target: str) -> None:
    """Print R2, or AUC of a target of two values; nothing of text of more values."""
    y, metrics = frame.column(target), require("sklearn.metrics")
    if len(levels := sorted(set(y))) == 2:
        name, value = "AUC", metrics.roc_auc_score(y == levels[1], prediction)
    elif frame.is_text(target):
        return
    else:
        name, value = "R2", metrics.r2_score(y, prediction)
    print(f"{name} of {printable(target)}: {value:.3f}")


def _print_bounds(certificates: Sequence[Certificate], options: AuditOptions) -> None:
    columns = {n: [getattr(c, n) for c in certificates] for n in ("measure", "value", "bound")}
    if options.threshold is not None:
        columns["decision"] = ["certified" if c.holds else "not certified" for c in certificates]
    names = [printable(certificate.name) for certificate in certificates]
    frame = require("pandas").DataFrame(columns, names)
    print(f"\n{frame.to_string(float_format='{:.3f}'.format)}\n")


def _print_statement(certificate: Certificate, options: AuditOptions) -> None:
    text = str(certificate)
    if options.threshold is None:  # the promise is of thresholds
        text = (
            f"P(the bound of {certificate.name} is below the value in the population) <= 1 - level"
            f" = {1 - certificate.level:.4g}, if {SUPPOSED}"
        )
    print("\n".join(textwrap.wrap(printable(text), STATEMENT_WIDTH)))


def _print_decision(certificates: Sequence[Certificate], options: AuditOptions) -> bool:
    """Print what holds of all attributes together, and return whether it was asked and holds."""
    if len(certificates) > 1:
        print(
            f"all {len(certificates)} bounds together: with level {options.level:g}, as each has"
            f" {certificates[0].level:.6g}"
        )
    if options.threshold is None:
        return True
    holds = all(certificate.holds for certificate in certificates)
    print(f"{'certified' if holds else 'not certified'}: at most {options.threshold:g}")
    return holds
