"""Bound, on rows held back, how far predictions depend on an attribute; find a certified model.

Candidates are tried in a fixed order, until one fails; the candidate before it is taken.  The rows
have no part in the order, and a candidate is only tried if all before it were accepted: a wrong
acceptance is no more likely than for a single candidate.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgr_jax._checks import check_choice, check_count, check_indexes, check_level
from hgr_jax._optional import require
from hgr_jax._progress import progress_bar
from hgr_jax.fairness import bounds
from hgr_jax.fairness.data import (
    Encoding,
    Protected,
    TrainingData,
    check_varies,
    numbers,
)
from hgr_jax.fairness.penalties import UNNAMED, Penalty, as_penalties
from hgr_jax.fairness.statistics import HGR, DemographicParity, Statistic
from hgr_jax.fairness.training import FairTrainer
from hgr_jax.inference.intervals import corrected_on_host
from hgr_jax.tables.levels import encode_numbers, encode_texts

Model = TypeVar("Model")

BOUNDS_BY_METHOD = {"asymptotic": bounds.asymptotic, "finite_sample": bounds.finite_sample}

PROMISE = "P(a model is returned and breaks its threshold) <= 1 - level"

MOST_ROWS = 10**9
"""Largest `Certificate.rows_needed`."""

COPIED_ROWS, COPIED_SHARE = 5, 0.01
"""Smallest number and share of rows that repeat others, of which a warning tells."""

CHANCE_FACTOR = 3
"""Smallest ratio of these rows to those that few digits make."""

MOST_REPEATED = 3
"""Largest number of rows for a prediction, on average, of predictions that may be copied."""

MOST_LEVELS = 20
"""Largest number of different numbers that demographic parity takes for levels."""

THRESHOLD_SHARES = (0.1, 1.0)
"""Shares of the threshold that the first and the last candidate are trained for."""

MAX_CANDIDATES = 19

MIN_CANDIDATE_STEPS = 5
"""Fewest training steps between two candidates."""

WARM_UP_SHARE = 0.25
"""Share of the threshold below which the training rows must fall before candidates."""


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A model that was tried.

    Attributes:
      setting: the threshold it was trained for, or the strength of a transport of predictions.
      steps: number of training steps; 0 for a transport.
      value, bound: the dependence on the rows held back, and its upper bound.
      accepted: whether all bounds are at most their thresholds.
    """

    setting: float
    steps: int
    value: float
    bound: float
    accepted: bool


@dataclasses.dataclass(frozen=True, repr=False)
class Certificate:
    """An upper bound of a model's dependence on a protected attribute, from rows it has not seen.

    Attributes:
      threshold, level: what is promised, P(a model is returned and breaks its threshold) <=
        1 - level: "returned" where ``holds``, "breaks" where the dependence in the population is
        above ``threshold``.
      value: the dependence on the rows, the largest of several columns of predictions, and of
        several groups of y.
      standard_error: its error (that of the pair of functions that sets the bound); 0 of a bound
        for any number of rows.
      bound: the upper bound of the dependence in the population.
      rows: number of rows held back.
      rows_needed: approximate number of rows that would certify a model of this ``value``; None if
        no number would, or if there is a ``reason``.
      degrees: numbers of functions of the attribute and of the prediction.
      name: of the attribute.
      candidates: the models that were tried, in their order.
      reason: why these rows give no bound (``bound`` is 1), or empty.
      measure: what is bounded, such as "HGR-KB(5, 5)".
      method: "asymptotic" or "finite_sample".
      worst: the column of predictions, or the group of y, that has the largest bound, or empty.
      given: the groups of y within which the dependence is bounded, or empty.
      groups: number of groups of rows that belong together; None if every row is its own.
      coarse: whether the measure is one of groups of values, which is less than what was asked: the
        certificate then never holds.
    """

    threshold: float
    level: float
    value: float
    bound: float
    standard_error: float
    rows: int
    rows_needed: int | None
    degrees: tuple[int, int]
    name: str = "z"
    candidates: tuple[Candidate, ...] = ()
    reason: str = ""
    measure: str = "HGR-KB"
    method: str = "asymptotic"
    worst: str = ""
    given: tuple[str, ...] = ()
    groups: int | None = None
    coarse: bool = False

    @property
    def holds(self) -> bool:
        """Whether there is a bound of what was asked, and it is at most the threshold."""
        return not self.reason and not self.coarse and self.bound <= self.threshold

    def to_frame(self) -> Any:
        """Return the candidates as a pandas data frame, one row each.

        Raises:
          ImportError: without pandas, naming the command that installs it.
        """
        return require("pandas").DataFrame(map(dataclasses.asdict, self.candidates))

    def __str__(self) -> str:
        compared = "at most" if self.holds else "not known to be at most"
        text = f"{self._subject} in the population: {compared} {self.threshold:g} ({self._origin})"
        if self.candidates:
            accepted = sum(candidate.accepted for candidate in self.candidates)
            text += f"; candidates tried: {len(self.candidates)}, accepted: {accepted}"
        return f"{text}; {PROMISE} = {1 - self.level:.4g}, if {self.supposes}"

    @property
    def _subject(self) -> str:
        within = f" within {', '.join(self.given[:5])}" if self.given else ""
        within += ", ..." if len(self.given) > 5 else ""
        return f"{self.measure} of {self.name} and the prediction{within}"

    @property
    def family(self) -> str:
        """The name of the measure without its degrees."""
        return self.measure.partition("(")[0]

    @property
    def supposes(self) -> str:
        """What the promise supposes, in words."""
        unit = "rows" if self.groups is None else f"{self.groups:,} groups of rows"
        text = f"the {unit} are drawn independently from that population"
        if self.method == "finite_sample":
            text += ", whatever their number and their law"
            text += ", which has no values or levels that they lack"
            text += "" if self.groups is None else " (of each group one row counts)"
        else:
            text += " and many (the bound is one of the normal law"
            text += ", within the range of these rows)" if "HGR-" in self.measure else ")"
        text += ", and had no part in fitting or choosing the model"
        return text + (", or the order of the models" if self.candidates else "")

    @property
    def _origin(self) -> str:
        """The bound and its origin, for texts."""
        where = f" for {self.worst}" if self.worst else ""
        because = f"; {self.reason}" if self.reason else ""
        if self.coarse:
            because += f"; {self.measure} is at most {self.family}, so this bounds no {self.family}"
        return (
            f"upper bound {self.bound:.3f}{where}, from {self.value:.3f} on {self.rows:,} rows held"
            f" back{because}"
        )

    def __repr__(self) -> str:
        return f"Certificate: {self}"


class NoSolutionFound(RuntimeError):  # noqa: N818
    """No candidate is accepted; ``certificate`` is that of the first and safest one.

    Of an estimator, ``model`` is a fitted copy of it with this candidate, which has no guarantee.
    """

    model: Any = None

    def __init__(self, certificate: Certificate) -> None:
        self.certificate = certificate
        remedy = "take lower degrees h and k, or raise the threshold"
        if certificate.reason:
            remedy = f"hold back more rows, {remedy}"
        elif certificate.rows_needed is None:
            remedy = f"no number of rows would do for it: {remedy}"
        else:
            remedy = (
                f"about {certificate.rows_needed:,} rows held back would do for it; or {remedy}"
            )
        super().__init__(
            f"no model was found whose {certificate.family} is at most {certificate.threshold:g}"
            f" at level {100 * certificate.level:.6g}% (the safest one: {certificate._origin});"
            f" {remedy}."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Let processes pass the exception on, as the searches of scikit-learn do."""
        return type(self), (self.certificate,)


def certify(
    prediction: ArrayLike,
    protected: Protected,
    penalty: Any,
    level: float = 0.95,
    *,
    y: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    method: str = "asymptotic",
) -> Any:
    """Bound how far any model's predictions depend on an attribute, from rows it was not fitted to.

    What is promised is P(a model is returned and breaks its threshold) <= 1 - level; a model is
    returned where ``holds``.

        asymptotic      max over pairs of functions of  corr(f, g) + q se(f, g)
        finite_sample   c + Bernstein's deviation for bounded functions (`DemographicParity`: limits
                        of Clopper and Pearson for 0 and 1, of bets for other numbers from 0 to 1)

    with q of Student's law, corrected for skewness, and se from the rows' influence.  A pair that
    attains the dependence in the population is no larger than the largest pair here, so one pair's
    error is all that counts, for any number of functions; nor do several columns of predictions, or
    groups of y, need a larger level: the certificate is of the largest.  The rows must not have
    been used to fit the model, nor to choose it (for that see `fit_certified`).

    Args:
      prediction: ``(n,)``, or ``(n, columns)``.
      protected: the attribute ``(n,)``, numbers or text, or one-hot ``(n, c)``; or a frame of
        several.  Rows of pandas objects are matched by their labels.
      penalty: a threshold in (0, 1], of HGR-KB(5, 5); a `Penalty`; or a list of them, to choose
        among measures after looking.  A penalty of `SK`, `HGR` (of ranks; 5 functions each) and
        `DemographicParity` is bounded in its own measure, of any other statistic in HGR-KB.
        ``given`` is None, "classes" or a number of bins (equalised odds).
      level: above 0 and below 1.  Each of m certificates has the level ``1 - (1 - level) / m``, so
        that all hold together.
      y: targets ``(n,)``, numbers or text, or another variable; only for ``given``.
      groups: labels ``(n,)`` of rows that belong together, as those of one person, or None:
        standard errors are then those of groups, and "finite_sample" takes one row of each.
        Without it a warning tells of rows that look like copies, which make bounds too narrow.
      method: "asymptotic", for many rows, or "finite_sample": for any number of rows and any law.
        It is wider, and is for `DemographicParity` of predictions from 0 to 1, and for `HGR` and
        HGR-KB of few values.  Of `HGR` of more than 6 values it bounds that of groups of ranks (a
        tenth of the rows say where they end), which is less, so that no certificate holds.

    Returns:
      A `Certificate`; a tuple of them for several attributes or penalties.

    Raises:
      TypeError, ValueError: for other shapes, values that are missing or infinite, an attribute
        that does not vary, ``given="polynomials"``.

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
    check_choice("method", method, tuple(BOUNDS_BY_METHOD))
    check_level("level", level)
    if np.ndim(prediction) == 0:
        raise TypeError(
            "certify takes (prediction, protected, penalty), in this order; got a"
            f" {type(prediction).__name__} as prediction."
        )
    y = np.array(y) if isinstance(y, list | tuple) else y
    name_of_y = name if isinstance(name := getattr(y, "name", None), str) else "y"
    data = TrainingData.of(prediction, y, protected)
    penalties = _penalties_of(data, penalty)
    columns = numbers("prediction", data.x)
    if columns.ndim not in (1, 2) or 0 in columns.shape:
        raise ValueError(
            "prediction must have shape (n,) or (n, columns), n and columns >= 1; got"
            f" {columns.shape}."
        )
    clusters = _clusters_of(groups, len(columns), prediction=prediction, y=y, protected=protected)
    if groups is None:
        _warn_of_copies(columns, data.z)
    each, certificates = 1 - (1 - level) / len(penalties), []
    targets = None if data.y is None else np.asarray(data.y)
    for attribute, one in penalties:
        if one.given is not None and data.y is None:
            raise ValueError(f"given={one.given!r} needs the targets: certify(..., y=y).")
        z, levels = _levels_of(one.statistic, one.name, data.z[attribute])
        encoder = Encoding.learn(one, z, (name_of_y, targets))
        held = Held.of(columns, encoder, targets, levels)._replace(clusters=clusters)
        penalty = encoder.with_supported_degree(one)
        certificates.append(bounded(penalty, encoder.encode(z), held, each, method))
    return certificates[0] if len(certificates) == 1 else tuple(certificates)


def _warn_of_copies(prediction: NDArray[Any], z: Mapping[str, NDArray[Any]]) -> None:
    """Warn of rows that repeat the prediction and the attributes of others.

    Predictions of few values tell nothing, and those of few digits repeat by chance, too.
    """
    n = len(prediction)
    columns = [prediction, *(v.astype(str) if v.dtype == object else v for v in z.values())]
    codes = [np.unique(c, axis=0, return_inverse=True)[1].reshape(n) for c in columns]
    joint = np.stack(codes, axis=1)
    sizes = [
        np.unique(part, axis=0, return_counts=True)[1]
        for part in (joint[:, :1], joint[:, 1:], joint)
    ]
    copies = n - len(sizes[2])
    pairs_of_prediction, pairs_of_attributes = (float(c @ (c - 1)) / 2 for c in sizes[:2])
    by_chance = 0.0
    if (np.round(prediction, 4) == prediction).all():
        by_chance = pairs_of_prediction * pairs_of_attributes / max(n * (n - 1) / 2, 1)
    varied = len(sizes[0]) > n / MOST_REPEATED
    if varied and copies >= max(COPIED_ROWS, COPIED_SHARE * n, CHANCE_FACTOR * by_chance):
        warnings.warn(
            f"{copies:,} of {n:,} rows repeat the prediction and the attributes of another row: if"
            " they are copies, or of the same person, the bound is too narrow; leave them out, or"
            " give groups",
            UserWarning,
            stacklevel=3,
        )


class Held(NamedTuple):
    """Rows to bound a dependence on.

    Attributes:
      prediction: ``(n,)`` or ``(n, columns)``.
      group: the group of y of each row ``(n,)``, -1 for none; or None.
      group_names: names of the groups of y.
      levels: names of the levels of a categorical attribute.
      clusters: codes of rows that belong together ``(n,)``, or None.
    """

    prediction: NDArray[Any]
    group: NDArray[np.integer[Any]] | None = None
    group_names: Sequence[str] = ()
    levels: Sequence[str] = ()
    clusters: NDArray[np.integer[Any]] | None = None

    @classmethod
    def of(
        cls, prediction: NDArray[Any], encoder: Encoding, given: Any, levels: Sequence[str] = ()
    ) -> Self:
        """Return rows with the groups and the names of an encoding; ``given`` are the targets."""
        group = encoder.group(np.asarray(given)) if encoder.group_names else None
        return cls(prediction, group, encoder.group_names, levels or encoder.levels or ())


def _penalties_of(data: TrainingData, penalty: Any) -> list[tuple[str, Penalty]]:
    """Return attributes with their penalties, named after them where a name is known."""
    given = penalty if isinstance(penalty, list | tuple) else [penalty]
    penalties = [p for one in given for p in as_penalties(one)]
    if not penalties or not all(one.penalised for one in penalties):
        raise TypeError("a certificate needs a threshold, a number in (0, 1]; got None.")
    for one in penalties:
        check_certifiable(one)
    known = {*data.z, UNNAMED} if len(data.z) > 1 else {one.name for one in penalties}
    if strange := [one.name for one in penalties if one.name not in known]:
        raise ValueError(
            f"there is no attribute {strange[0]!r} for its penalty; there are"
            f" {', '.join(map(repr, data.z))}."
        )
    named = {one.name for one in penalties if one.name in data.z}
    named -= {UNNAMED} if len(data.z) > 1 else set()
    pairs = [
        (name, dataclasses.replace(one, name=one.name if name == UNNAMED else name))
        for name in data.z
        for one in penalties
        if one.name == name or one.name not in named
    ]
    if not pairs:
        raise ValueError("protected must be given: an attribute, or several by name.")
    return pairs


def _clusters_of(groups: Any, rows: int, **others: Any) -> NDArray[np.intp] | None:
    """Return codes of the labels of rows that belong together."""
    if groups is None:
        return None
    for name, other in others.items():
        check_indexes(**{name: other, "groups": groups})
    labels = np.asarray(groups)
    if labels.shape != (rows,):
        raise ValueError(f"groups must be a label for each of the {rows} rows; got {labels.shape}.")
    texts = [str(label) for label in labels.tolist()]
    missing = sum(label is None or label != label for label in labels.tolist())
    if missing:
        raise ValueError(f"groups has {missing} missing label(s).")
    codes = encode_texts(texts).codes
    if len(set(codes.tolist())) == 1:
        raise ValueError("groups must be of several groups; all rows have the same label.")
    return np.asarray(codes)


def _levels_of(statistic: Statistic, name: str, z: Any) -> tuple[Any, Sequence[str]]:
    """Return an attribute as `statistic` takes it, and names of its levels that are not text."""
    z = np.asarray(z)
    if z.ndim == 2:
        return z, [f"column {i}" for i in range(z.shape[1])]
    if z.dtype.kind not in "fiub":
        return z, ()
    if isinstance(statistic, HGR):  # of ranks, which scaling could tie
        return np.unique(numbers(name, z), return_inverse=True)[1].astype(np.float64), ()
    if not isinstance(statistic, DemographicParity):
        return z, ()
    category = encode_numbers(numbers(name, z))
    if len(category.levels) > MOST_LEVELS:
        raise ValueError(
            f"demographic parity compares levels, and {name} has {len(category.levels)} different"
            " numbers: cut it into groups, or bound KB or HGR."
        )
    return np.array(category.levels)[category.codes], ()


def check_certifiable(penalty: Penalty) -> None:
    """Raise unless a penalty has a bound: degrees, and groups of y that rows can be counted in."""
    kernels = penalty.statistic.kernels
    if penalty.given_polynomials:
        raise ValueError(
            "no valid bound is known given='polynomials': their regression errs too. Give"
            " given='classes', or a number of bins of y."
        )
    if any(map(callable, kernels)):
        raise ValueError(f"a guarantee is of penalties with degrees h and k; got {kernels}.")


def bounded(
    penalty: Penalty,
    z: NDArray[Any],
    held: Held,
    level: float,
    method: str = "asymptotic",
) -> Certificate:
    """Return the certificate of predictions for a penalty and its encoded attribute."""
    columns = held.prediction.T if held.prediction.ndim == 2 else held.prediction[None]
    levels = held.levels or [f"level {i}" for i in range(z.shape[1] if z.ndim == 2 else 0)]
    found: list[tuple[bounds.Bound, str]] = []
    for i, column in enumerate(columns):
        sample = bounds.Observations(z, _unit(column, penalty.statistic), levels, held.clusters)
        head = f"column {i}" if len(columns) > 1 else ""
        if held.group is None:
            found.append((BOUNDS_BY_METHOD[method](penalty.statistic, sample, level), head))
            continue
        for j, name in enumerate(held.group_names):
            part = sample.take(np.flatnonzero(held.group == j))
            where = f"{head}, {name}" if head else name
            found.append((BOUNDS_BY_METHOD[method](penalty.statistic, part, level), where))
    worst, where = max(found, key=lambda each: (bool(each[0].reason), each[0].limit))
    threshold = float(np.asarray(penalty.threshold))
    rows = len(z)
    return Certificate(
        threshold=threshold,
        level=level,
        value=max(each.value for each, _ in found),
        bound=worst.limit,
        standard_error=worst.error,
        rows=rows,
        rows_needed=None if worst.reason else _rows_needed(threshold, worst, rows),
        degrees=worst.functions,
        name=penalty.name,
        reason=worst.reason,
        measure=worst.measure,
        method=method,
        worst=where,
        given=tuple(held.group_names) if held.group is not None else (),
        groups=None if held.clusters is None else int(held.clusters.max()) + 1,
        coarse=worst.coarse,
    )


def _unit(column: NDArray[Any], statistic: Statistic) -> NDArray[np.float64]:
    """Return a column in double precision, scaled to size 1 where the unit does not count."""
    column = column.astype(np.float64)
    if isinstance(statistic, DemographicParity | HGR):
        return column
    column = column / max(float(np.abs(column).max(initial=0)), 1e-300)
    column = column - column.mean()
    return np.asarray(column / max(float(np.abs(column).max(initial=0)), 1e-300))


def _rows_needed(threshold: float, bound: bounds.Bound, rows: int) -> int | None:
    """Return the number of rows at which the bound for this value falls to the threshold."""
    parameters = sum(bound.functions) - 1 if bound.measure.startswith("HGR") else 0
    population = float(corrected_on_host(bound.value, rows, parameters))
    if population >= threshold:
        return None
    count, margin = float(sum(bound.functions) + 2), bound.limit - bound.value
    while count < MOST_ROWS:
        square = population**2 + (1 - population**2) * parameters / count
        if np.sqrt(min(square, 1.0)) + margin * np.sqrt(rows / count) <= threshold:
            return round(count)
        count *= 1.05
    return None


def last_accepted(
    candidates: Iterable[tuple[Sequence[float], int, Model]],
    bounds: Callable[[Model], Sequence[Certificate]],
) -> tuple[Model, tuple[Certificate, ...]]:
    """Return the last candidate (settings, steps, model) before one fails, and certificates."""
    tried: list[list[Candidate]] = []
    accepted: tuple[Model, Sequence[Certificate]] | None = None
    certificates: Sequence[Certificate] = ()
    for settings, steps, model in candidates:
        certificates = bounds(model)
        holds = all(certificate.holds for certificate in certificates)
        tried.append(
            [
                Candidate(setting, steps, certificate.value, certificate.bound, holds)
                for setting, certificate in zip(settings, certificates, strict=True)
            ]
        )
        if not holds:
            break
        accepted = model, certificates
    certificates = tuple(
        dataclasses.replace(certificate, candidates=of_attribute)
        for certificate, of_attribute in zip(
            accepted[1] if accepted else certificates, zip(*tried, strict=True), strict=True
        )
    )
    if accepted is None:
        raise NoSolutionFound(max(certificates, key=lambda c: c.bound - c.threshold))
    return accepted[0], certificates


def fit_certified(
    trainer: FairTrainer,
    x: ArrayLike,
    y: ArrayLike,
    protected: Protected,
    *,
    held_out: tuple[Any, ...],
    given: Any = None,
    sample_weight: ArrayLike | None = None,
    constraint_rows: tuple[ArrayLike, Protected] | None = None,
    level: float = 0.95,
    steps: int = 500,
    progress: bool = False,
) -> tuple[Certificate, ...]:
    """Train until the constraint is no longer certified on rows held back; keep the model before.

    What is promised is P(a model is returned and breaks its threshold) <= 1 - level.

    Training starts with a tenth of the threshold, until the measure on the training rows is at most
    a quarter of the threshold.  Then the threshold of the training rises to its full value; at
    regular steps the model is a candidate, bounded on the rows held back as by `certify`.  The
    first candidate whose bound exceeds the threshold ends the training; the one before it is kept.

    Predictions ``(n,)`` are clipped to the range of the training rows (``trainer.limits``), in the
    bounds and by `FairTrainer.predict` (not by `network`): an outlying row would make a dependence
    that the rows held back cannot show.

    Args:
      trainer: not fitted, of penalties that `certify` takes; afterwards it predicts by the accepted
        candidate (its `history` has all steps).
      x, y, protected: training rows, as of `FairTrainer.fit`.
      held_out: ``(x, protected)`` of the rows to test on; ``(x, protected, y)`` for penalties with
        ``given``, y being the targets, or what is given in their place.  Their weights are equal.
      given, sample_weight: of the training rows, as of `FairTrainer.fit`.
      constraint_rows: further rows, as of `FairTrainer.fit`.
      level: P(a model is returned and breaks its threshold) <= 1 - level, for all penalties
        together.
      steps: training steps of all candidates together; at most as many come before the first.
      progress: show a bar.

    Returns:
      A `Certificate` of each of m penalties, at the level ``1 - (1 - level) / m``.

    Raises:
      NoSolutionFound: if the first candidate is not accepted.
      TypeError, ValueError: for data or settings other than the above.
      TrainingError: as `FairTrainer.fit` does.

    Cost: at most twice the steps of an ordinary training, and 19 evaluations on rows held back.

    Source: as `certify`.

    Example:
      >>> import numpy as np
      >>> from flax import nnx
      >>> from hgr_jax.fairness import KB, MLP, FairTrainer, Penalty, fit_certified
      >>> rng = np.random.default_rng(0)
      >>> x = rng.normal(size=(1000, 3)); z = x[:, 0]; y = (z + x[:, 1]) / 8
      >>> trainer = FairTrainer(MLP(3, rngs=nnx.Rngs(0)), penalties=Penalty(KB(3, 3), 0.5))
      >>> train, held = slice(600), slice(600, None)
      >>> found, = fit_certified(
      ...     trainer, x[train], y[train], z[train], held_out=(x[held], z[held])
      ... )
      >>> found.holds
      True
    """
    check_level("level", level)
    by_y = any(penalty.given is not None for penalty in trainer.penalties if penalty.penalised)
    if not isinstance(held_out, tuple) or len(held_out) != 2 + by_y:
        expected = "(x, protected, y) with given" if by_y else "(x, protected)"
        raise ValueError(f"held_out must be {expected}, of rows that are not trained on.")
    data = TrainingData.of(x, y, protected, given, sample_weight)
    held = TrainingData.of(held_out[0], held_out[2] if by_y else None, held_out[1])
    others = None
    if constraint_rows is not None:
        others = TrainingData.of(constraint_rows[0], None, constraint_rows[1])
    return certify_training(trainer, data, held, level, steps, constraint=others, progress=progress)


def certify_training(
    trainer: FairTrainer,
    data: TrainingData,
    held: TrainingData,
    level: float,
    steps: int,
    *,
    constraint: TrainingData | None = None,
    progress: bool = False,
) -> tuple[Certificate, ...]:
    """Train as `fit_certified` does, on rows in one order."""
    steps, penalties = check_count("steps", steps), trainer.penalties
    penalised = [penalty for penalty in penalties if penalty.penalised]
    if trainer.state is not None:
        raise ValueError("the trainer has been fitted before; make a new one.")
    if not penalised:
        raise ValueError("there is nothing to guarantee: the trainer has no penalty.")
    for penalty in penalties:
        check_certifiable(penalty)
    attributes = held.attributes_of(penalised)
    for name, z in attributes.items():
        check_varies(name, z, "rows held back")
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
        trainer.train(data, None, constraint, end, steps)

    def candidates(advance: Callable[..., None]) -> Iterator[tuple[list[float], int, Any]]:
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
            advance(1)
            yield settings, end, (trainer.state, trainer.limits)

    def bounds(_: Any) -> list[Certificate]:
        prediction = np.asarray(trainer.predict(held.x))
        return [
            bounded(
                encoder.with_supported_degree(penalty),
                encoder.encode(attributes[encoder.name]),
                Held.of(prediction, encoder, held.given[1]),
                1 - (1 - level) / len(penalised),
            )
            for penalty, encoder in zip(penalties, trainer.encoders, strict=True)
            if penalty.penalised
        ]

    accepted = None
    try:
        with progress_bar(progress, count, unit="candidate") as advance:
            accepted, certificates = last_accepted(candidates(advance), bounds)
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
