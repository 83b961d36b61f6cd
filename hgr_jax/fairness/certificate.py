"""Bound, on rows held back, how far predictions depend on an attribute; find a certified model.

Candidates are tried in a fixed order, until one fails; the candidate before it is taken.  The rows
have no part in the order, and a candidate is only tried if all before it were accepted: a wrong
acceptance is no more likely than for a single candidate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgr_jax._checks import as_groups, check_indexes, check_level
from hgr_jax._optional import require
from hgr_jax._threads import one_blas_thread
from hgr_jax.fairness.bounds import Bound, Observations, bound_of
from hgr_jax.fairness.data import Encoding, Protected, TrainingData, check_varies, numbers
from hgr_jax.fairness.penalties import Penalty, as_penalties
from hgr_jax.fairness.statistics import HGR, KB, SK, DemographicParity
from hgr_jax.fairness.training import FairTrainer

Model = TypeVar("Model")

PROMISE = "P(a model is returned and breaks its threshold) <= 1 - level"

SUPPOSED = (
    "the rows are drawn independently from that population and many (the bound is one of the"
    " normal law, within the range of these rows), and had no part in fitting or choosing the"
    " model, or the order of the models"
)
"""What the promise supposes."""

THRESHOLD_SHARES = (0.1, 1.0)
"""Shares of the threshold that the first and the last candidate are trained for."""

MAX_CANDIDATES = 19

MIN_CANDIDATE_STEPS = 5
"""Fewest training steps between two candidates."""

WARM_UP_SHARE = 0.25
"""Share of the threshold below which the training rows must fall before candidates."""


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Certificate:
    """An upper bound of a model's dependence on a protected attribute, from rows it has not seen.

    Attributes:
      name: of the attribute.
      measure: what is bounded, such as "HGR-KB(5, 5)".
      threshold, level: what is promised, P(a model is returned and breaks its threshold) <=
        1 - level: "returned" where ``holds``, "breaks" where the dependence in the population is
        above ``threshold``.
      value: the dependence on the rows, the largest of several columns of predictions, and of
        several groups of y.
      standard_error: its error (that of the pair of functions that sets the bound).
      bound: the upper bound of the dependence in the population.
      rows: number of rows held back.
      worst: the column of predictions, or the group of y, that has the largest bound, or empty.
      reason: why these rows give no bound (``bound`` is then 1), or empty.
      candidates: of a search, a data frame of the models that were tried: ``setting`` (the
        threshold it was trained for, or the strength of a transport of predictions), ``steps`` of
        training, ``value``, ``bound``, and ``accepted``; else None.
    """

    name: str
    measure: str
    threshold: float
    level: float
    value: float
    standard_error: float
    bound: float
    rows: int
    worst: str = ""
    reason: str = ""
    candidates: Any = None

    @property
    def holds(self) -> bool:
        """Whether there is a bound, and it is at most the threshold."""
        return not self.reason and self.bound <= self.threshold

    @property
    def origin(self) -> str:
        """The bound and its origin, for texts."""
        where = f" for {self.worst}" if self.worst else ""
        because = f"; {self.reason}" if self.reason else ""
        return (
            f"upper bound {self.bound:.3f}{where}, from {self.value:.3f} on {self.rows:,} rows held"
            f" back{because}"
        )

    def __repr__(self) -> str:
        compared = "at most" if self.holds else "not known to be at most"
        text = (
            f"{self.measure} of {self.name} and the prediction in the population: {compared}"
            f" {self.threshold:g} ({self.origin})"
        )
        if self.candidates is not None:
            accepted = self.candidates["accepted"].sum()
            text += f"; candidates tried: {len(self.candidates)}, accepted: {accepted}"
        return f"{text}; {PROMISE} = {1 - self.level:.4g}, if {SUPPOSED}"


class NoSolutionFound(RuntimeError):  # noqa: N818
    """No candidate is accepted; ``certificate`` is that of the first and safest one."""

    def __init__(self, certificate: Certificate) -> None:
        self.certificate = certificate
        super().__init__(
            f"no model was found whose {certificate.measure} is at most {certificate.threshold:g}"
            f" at level {100 * certificate.level:.6g}% (the safest one: {certificate.origin});"
            " hold back more rows, take lower degrees h and k, or raise the threshold."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Let processes pass the exception on, as the searches of scikit-learn do."""
        return type(self), (self.certificate,)


@one_blas_thread()
def certify(
    prediction: ArrayLike,
    protected: Protected,
    penalty: Any,
    level: float = 0.95,
    *,
    y: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> Any:
    """Bound how far any model's predictions depend on an attribute, from rows it was not fitted to.

    What is promised is P(a model is returned and breaks its threshold) <= 1 - level; a model is
    returned where ``holds``.

        bound = max over pairs of functions of  corr(f, g) + q se(f, g)

    with q of Student's law, corrected for skewness, and se from the rows' influence.  A pair that
    attains the dependence in the population is no larger than the largest pair here, so one pair's
    error is all that counts, for any number of functions; nor do several columns of predictions, or
    groups of y, need a larger level: the certificate is of the largest.  The rows must not have
    been used to fit the model, nor to choose it (for that see ``guarantee`` of the estimators).

    Args:
      prediction: ``(n,)``, or ``(n, columns)``.
      protected: the attribute ``(n,)``, numbers or text, or one-hot ``(n, c)``; or a frame of
        several.  Pandas objects need equal labels.
      penalty: a threshold in (0, 1], of HGR-KB(5, 5); or a `Penalty` of `KB`, `SK`, `HGR` (of
        ranks; 5 functions each) or `DemographicParity`; or a list of them, one for each attribute.
        ``given`` is None, "classes" or a number of bins (equalised odds).
      level: above 0 and below 1.  Each of m certificates has the level ``1 - (1 - level) / m``, so
        that all hold together.
      y: targets ``(n,)``, numbers or text, or another variable; only for ``given``.
      groups: labels ``(n,)`` of rows that belong together, as those of one person, or None:
        standard errors are then those of groups.  Without it copies of rows make bounds too narrow.

    Returns:
      A `Certificate`; a tuple of them for several attributes.

    Raises:
      TypeError, ValueError: for other shapes, values that are missing or infinite, an attribute
        that does not vary, a penalty without a bound.

    Degenerate data: the bound is 1, and ``reason`` says why, where fewer than 10 rows carry the
    variance of the predictions or of the attribute, ``(sum c^2)^2 / sum c^4 < 10`` for centred
    numbers c, or have one of its levels (also within a group of y); and where the rows are too few
    for the functions.  A level without rows is unknown unless it is a one-hot column.

    Source: Thomas et al., "Preventing undesirable behavior of intelligent machines" (2019);
    Angelopoulos et al., "Learn then test" (2021), for the order of candidates; and the modules'
    `bounds`.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.fairness import certify
      >>> rng = np.random.default_rng(0)
      >>> z, noise = rng.normal(size=(2, 2000))
      >>> found = certify(0.1 * z + noise, z, 0.3)
      >>> print(found.holds, f"{found.value:.2f} {found.bound:.2f}")
      True 0.11 0.16
    """
    check_level("level", level)
    data = TrainingData.of(prediction, y, protected)
    data = dataclasses.replace(data, x=numbers("prediction", data.x))
    if data.x.ndim not in (1, 2) or 0 in data.x.shape:
        raise ValueError(f"prediction must be (n,) or (n, columns), of rows; got {data.x.shape}.")
    clusters = None
    if groups is not None:
        check_indexes(prediction=prediction, protected=protected, y=y, groups=groups)
        clusters = as_groups(groups, len(data.x))
    penalties = data.penalties_of(as_penalties(penalty))
    found = []
    for one in check_certifiable(penalties):
        if one.given is not None and y is None:
            raise ValueError(f"given={one.given!r} needs the targets: certify(..., y=y).")
        z = data.attribute_of(one)
        check_varies(one.name, z)
        encoder = Encoding.learn(one, z, data.given)
        found.append(bounded(one, encoder, data, 1 - (1 - level) / len(penalties), clusters))
    return found[0] if len(found) == 1 else tuple(found)


def check_certifiable(penalties: Sequence[Penalty]) -> list[Penalty]:
    """Return penalties with a threshold, or raise unless each has a bound."""
    found = [penalty for penalty in penalties if penalty.penalised]
    if not found:
        raise TypeError("a certificate needs a threshold, a number in (0, 1]; got None.")
    for penalty in found:
        if not isinstance(penalty.statistic, KB | SK | HGR | DemographicParity):
            raise ValueError(
                "a bound is known of KB, SK, HGR and DemographicParity; got"
                f" {penalty.statistic.title!r}."
            )
    return found


def bounded(
    penalty: Penalty,
    encoder: Encoding,
    data: TrainingData,
    level: float,
    clusters: NDArray[np.integer[Any]] | None = None,
) -> Certificate:
    """Return the certificate of predictions ``data.x`` for a penalty and its encoded attribute."""
    statistic = penalty.statistic
    z, group = data.attribute_of(penalty), encoder.group(data.given[1])
    if encoder.levels is not None:
        z = encoder.encode(z)
    columns = data.x.T if data.x.ndim == 2 else data.x[None]
    levels = encoder.levels or [f"column {i}" for i in range(z.shape[1] if z.ndim == 2 else 0)]
    found: list[tuple[Bound, str]] = []
    for i, column in enumerate(columns):
        sample = Observations(z, np.asarray(column, np.float64), levels, clusters)
        head = [f"column {i}"] if len(columns) > 1 else []
        for j, name in enumerate(encoder.group_names or [""]):
            part = sample if group is None else sample.take(np.flatnonzero(group == j))
            where = ", ".join([*head, name] if name else head)
            found.append((bound_of(statistic, part, level), where))
    worst, where = max(found, key=lambda each: (bool(each[0].reason), each[0].limit))
    return Certificate(
        name=penalty.name,
        measure=worst.measure,
        threshold=float(np.asarray(penalty.threshold)),
        level=level,
        value=max(each.value for each, _ in found),
        standard_error=worst.error,
        bound=worst.limit,
        rows=len(z),
        worst=where,
        reason=worst.reason,
    )


def last_accepted(
    candidates: Iterable[tuple[Sequence[float], int, Model]],
    bounds: Callable[[Model], Sequence[Certificate]],
) -> tuple[Model, tuple[Certificate, ...]]:
    """Return the last candidate (settings, steps, model) before one fails, and certificates."""
    tried: list[list[dict[str, Any]]] = []
    accepted: tuple[Model, Sequence[Certificate]] | None = None
    found: Sequence[Certificate] = ()
    for settings, steps, model in candidates:
        found = bounds(model)
        holds = all(each.holds for each in found)
        tried.append(
            [
                {"setting": setting, "steps": steps, "value": each.value, "bound": each.bound}
                | {"accepted": holds}
                for setting, each in zip(settings, found, strict=True)
            ]
        )
        if not holds:
            break
        accepted = model, found
    frame = require("pandas").DataFrame
    certificates = tuple(
        dataclasses.replace(each, candidates=frame(list(of_attribute)))
        for each, of_attribute in zip(
            accepted[1] if accepted else found, zip(*tried, strict=True), strict=True
        )
    )
    if accepted is None:
        raise NoSolutionFound(max(certificates, key=lambda each: each.bound - each.threshold))
    return accepted[0], certificates


def certify_training(
    trainer: FairTrainer,
    data: TrainingData,
    held: TrainingData,
    level: float,
    steps: int,
    constraint: TrainingData | None = None,
) -> tuple[Certificate, ...]:
    """Train until the constraint is no longer certified on rows held back; keep the model before.

    Training starts with the smallest share of the threshold, until the measure on the training rows
    is a quarter of the threshold.  Then the share rises; at regular steps the model is a candidate.

    Predictions ``(n,)`` are clipped to the range of the training rows (``trainer.limits``): an
    outlying row would make a dependence that the rows held back cannot show.
    """
    penalties = trainer.penalties
    penalised = check_certifiable(penalties)
    for penalty in penalised:
        check_varies(penalty.name, held.attribute_of(penalty), "rows held back")
    count = max(1, min(MAX_CANDIDATES, steps // MIN_CANDIDATE_STEPS))
    interval, shares = steps // count, np.linspace(*THRESHOLD_SHARES, max(count, 2))[-count:]

    def train(share: float, end: int) -> None:
        """Train to a step for a share of the thresholds."""
        trainer.penalties = tuple(
            dataclasses.replace(penalty, threshold=share * np.asarray(penalty.threshold))
            if penalty.penalised
            else penalty
            for penalty in penalties
        )
        trainer.train(data, constraint, end, steps)

    def candidates() -> Iterator[tuple[list[float], int, Any]]:
        end = 0
        while end < steps and not _is_ready(trainer, shares[0]):
            end = min(end + interval, steps)
            train(shares[0], end)
        for share in shares:
            end += interval
            train(share, end)
            prediction = np.asarray(trainer.predict(data.x))
            if prediction.ndim == 1:
                trainer.limits = float(prediction.min()), float(prediction.max())
            settings = [share * float(np.asarray(penalty.threshold)) for penalty in penalised]
            yield settings, end, (trainer.state, trainer.limits)

    def bounds(_: Any) -> list[Certificate]:
        predicted = dataclasses.replace(held, x=np.asarray(trainer.predict(held.x)))
        return [
            bounded(penalty, encoder, predicted, 1 - (1 - level) / len(penalised))
            for penalty, encoder in zip(penalties, trainer.encoders, strict=True)
            if penalty.penalised
        ]

    accepted = None
    try:
        accepted, certificates = last_accepted(candidates(), bounds)
    finally:
        trainer.penalties = penalties
        trainer.state, trainer.limits = accepted or (trainer.state, None)
        limits = {
            name: None if limit is None else limit / shares[0]
            for name, limit in trainer.history.thresholds.items()
        }
        trainer.history = dataclasses.replace(trainer.history, thresholds=limits)
    return certificates


def _is_ready(trainer: FairTrainer, share: float) -> bool:
    """Return whether the training rows are low enough for a first candidate."""
    limits, last = trainer.history.thresholds, trainer.history.last
    return bool(last) and all(
        last[f"dependence_train_{name}"] <= WARM_UP_SHARE * limit / share
        for name, limit in limits.items()
        if limit is not None
    )
