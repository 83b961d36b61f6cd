"""Trainings that end with a statement about new rows, or with none.

Some rows are held back.  One training goes from a tight threshold to the one that is asked for, and
every so many steps the model as it is then is a *candidate*: each is more accurate, and depends
more on the attribute, than the one before.  They are tested in this order on the rows held back;
the last before the first that fails is the result.  As the rows held back have no part in the order
and each candidate is only reached if all before it were accepted, a wrong acceptance is no more
likely than for one candidate alone.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hgr_jax._checks import check_count, check_level
from hgr_jax._progress import progress_bar
from hgr_jax.fairness.attributes import Protected, check_varies, matched
from hgr_jax.fairness.certificate import Candidate, Certificate, NoSolutionFound, bounded
from hgr_jax.fairness.penalties import Penalty
from hgr_jax.fairness.trainer import FairTrainer

SHARES = (0.1, 1.0)
"""Of the threshold: what the first candidate is trained for, and the last."""

CANDIDATES = 19

LEAST_STEPS = 5
"""Of a candidate."""

READY = 0.25
"""Share of the threshold that HGR-KB of the training rows is at most before candidates begin."""


def fit_certified(
    trainer: FairTrainer,
    x: ArrayLike,
    y: ArrayLike,
    protected: Protected,
    *,
    held_out: tuple[ArrayLike, Protected],
    constraint_rows: tuple[ArrayLike, Protected] | None = None,
    level: float = 0.95,
    steps: int = 500,
    progress: bool = False,
) -> tuple[Certificate, ...]:
    """Train until rows held back no longer say that the constraint holds on new ones.

    One training, of thresholds that rise from a tenth of those of the penalties to all of them.  It
    begins with steps for the first of them, until HGR-KB on the training rows is at most a quarter
    of what is asked.  From then on the model every so many steps is a candidate, whose HGR-KB with
    the attribute is bounded on the rows held back (see `certify`).  The first whose bound exceeds
    the threshold ends the training, and the one before it is kept.

    Predictions ``(n,)`` are kept within those of the training rows (``trainer.limits``), in the
    bounds and afterwards: an outlying one, of inputs as none that were seen, would make a
    dependence of its own, of which the rows held back say nothing.  (The `network` itself has no
    such limits.)

    Args:
      trainer: new, of penalties without ``given``; afterwards `FairTrainer.predict` and `network`
        are of the accepted candidate (its `history` has all steps).
      x, y, protected: training rows, as of `FairTrainer.fit`.
      held_out: ``(x, protected)`` of the rows to test on, which need no targets.
      constraint_rows: others still, as of `FairTrainer.fit`.
      level: how often the statement is to be true, of all penalties together.
      steps: of all candidates; as many, at most, come before the first.
      progress: show a bar.

    Returns:
      A `Certificate` of each of m penalties, whose own level is ``1 - (1 - level) / m``.

    Raises:
      NoSolutionFound: if already the first candidate is not accepted, with its certificate.
      TypeError, ValueError: for data or settings other than the above.
      TrainingError: as `FairTrainer.fit`.

    Cost: at most twice the steps of an ordinary training, and 19 evaluations on rows held back.

    Source: as `certify`.

    Example:
      >>> import numpy as np
      >>> from flax import nnx
      >>> from hgr_jax.fairness import MLP, FairTrainer, Penalty, fit_certified
      >>> rng = np.random.default_rng(0)
      >>> x = rng.normal(size=(1000, 3)); z = x[:, 0]; y = (z + x[:, 1]) / 8
      >>> trainer = FairTrainer(MLP(3, rngs=nnx.Rngs(0)), penalties=Penalty("kb", threshold=0.5))
      >>> train, held = slice(600), slice(600, None)
      >>> found, = fit_certified(
      ...     trainer, x[train], y[train], z[train], held_out=(x[held], z[held])
      ... )
      >>> found.holds
      True
    """
    check_level("level", level)
    steps = check_count("steps", steps)
    asked = trainer.penalties
    if trainer.state is not None:
        raise ValueError("the trainer has been fitted before; make a new one.")
    if not any(penalty.statistic is not None for penalty in asked):
        raise ValueError("there is nothing to guarantee: the trainer has no penalty.")
    for penalty in asked:
        if penalty.given is not None or callable(penalty.h) or callable(penalty.k):
            raise ValueError(
                "a guarantee is of penalties with degrees h and k and without given; got"
                f" given={penalty.given!r}, h={penalty.h!r}, k={penalty.k!r}."
            )
    if not isinstance(held_out, tuple) or len(held_out) != 2:
        raise ValueError("held_out must be (x, protected), of rows that are not trained on.")
    penalised = [penalty for penalty in asked if penalty.statistic is not None]
    for penalty, z in zip(penalised, matched(held_out[1], penalised), strict=True):
        check_varies(penalty.name, np.asarray(z), "rows held back")
    each_level = 1 - (1 - level) / len(penalised)
    count = max(1, min(CANDIDATES, steps // LEAST_STEPS))
    each, shares = steps // count, np.linspace(*SHARES, max(count, 2))[-count:]
    tried: list[tuple[Candidate, ...]] = [()] * len(penalised)
    kept: tuple[Any, Any, list[Certificate]] | None = None
    found: list[Certificate] = []
    fit = functools.partial(
        trainer.fit, x, y, protected, constraint_rows=constraint_rows, evaluate_every=steps
    )
    try:
        with progress_bar(progress, count, unit="candidate", extra="fairness") as advance:
            _aim(trainer, asked, shares[0])
            end = 0
            while end < steps and not _is_ready(trainer, shares[0]):
                end = min(end + each, steps)
                fit(steps=end)
            for share in shares:
                _aim(trainer, asked, share)
                end += each
                fit(steps=end)
                seen = np.asarray(trainer.predict(x))
                if seen.ndim == 1:
                    trainer.limits = float(seen.min()), float(seen.max())
                found = _bounds(trainer, penalised, held_out, each_level)
                accepted = all(certificate.holds for certificate in found)
                tried = [
                    (*before, Candidate(share * new.threshold, end, new.value, new.bound, accepted))
                    for before, new in zip(tried, found, strict=True)
                ]
                advance(1)
                if not accepted:
                    break
                kept = trainer.state, trainer.limits, found
    finally:
        trainer.penalties = asked
    limits = {
        name: None if limit is None else limit / shares[0]
        for name, limit in trainer.history.thresholds.items()
    }
    trainer.history = dataclasses.replace(trainer.history, thresholds=limits)
    trainer.state, trainer.limits, found = kept or (trainer.state, None, found)
    certificates = tuple(
        dataclasses.replace(certificate, candidates=candidates)
        for certificate, candidates in zip(found, tried, strict=True)
    )
    if kept is None:
        raise NoSolutionFound(max(certificates, key=lambda of: of.bound - of.threshold))
    return certificates


def _aim(trainer: FairTrainer, asked: Sequence[Penalty], share: float) -> None:
    """Let the next steps be of a share of the thresholds."""
    trainer.penalties = tuple(
        dataclasses.replace(penalty, threshold=share * np.asarray(penalty.threshold))
        for penalty in asked
    )


def _is_ready(trainer: FairTrainer, share: float) -> bool:
    """Return whether the training rows depend little enough for a first candidate."""
    limits, last = trainer.history.thresholds, trainer.history.last
    return bool(last) and all(
        last[f"hgr_train_{name}"] <= READY * limit / share
        for name, limit in limits.items()
        if limit is not None
    )


def _bounds(
    trainer: FairTrainer,
    penalised: Sequence[Penalty],
    held_out: tuple[ArrayLike, Protected],
    level: float,
) -> list[Certificate]:
    """Return a certificate of each penalty, for the model as it is, on the rows held back."""
    x, protected = held_out
    prediction = np.asarray(trainer.predict(x))
    known = {attribute.name: attribute for attribute in trainer.attributes}
    columns = matched(protected, penalised)
    return [
        bounded(
            known[penalty.name].suited(penalty),
            known[penalty.name].encode(z, len(prediction)),
            prediction,
            level,
        )
        for penalty, z in zip(penalised, columns, strict=True)
    ]
