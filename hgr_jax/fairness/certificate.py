"""Bound, on rows held back, how far predictions depend on an attribute; find a certified model.

Candidates are tried in a fixed order, until one fails; the candidate before it is taken.  The rows
have no part in the order, and a candidate is only tried if all before it were accepted: a wrong
acceptance is no more likely than for a single candidate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgr_jax._checks import check_count, check_level
from hgr_jax._optional import require
from hgr_jax._progress import progress_bar
from hgr_jax._texts import html_table
from hgr_jax.core.fits import KBFit, Status, normal_quantile
from hgr_jax.fairness.data import Encoding, Protected, TrainingData, check_varies, numbers
from hgr_jax.fairness.penalties import Penalty
from hgr_jax.fairness.training import FairTrainer
from hgr_jax.inference.intervals import corrected_on_host
from hgr_jax.measures import kb_fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Model = TypeVar("Model")

MOST_ROWS = 10**9
"""Largest `Certificate.rows_needed`."""

LEAST_CARRIERS = 10
"""Smallest effective number of rows that carry the variance of a prediction, for a valid error."""

THRESHOLD_SHARES = (0.1, 1.0)
"""Shares of the threshold that the first and the last candidate are trained for."""

MAX_CANDIDATES = 19

MIN_CANDIDATE_STEPS = 5
"""Fewest training steps between two candidates."""

WARM_UP_SHARE = 0.25
"""Share of the threshold below which HGR-KB of the training rows must fall before candidates."""


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A model that was tried.

    Attributes:
      setting: the threshold it was trained for, or the strength of a transport of predictions.
      steps: number of training steps; 0 for a transport.
      value, bound: HGR-KB and its upper bound on the rows held back.
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
      threshold, level: the statement "HGR-KB in the population is at most ``threshold``", and its
        confidence level.
      value, standard_error: HGR-KB on the rows (the largest of several columns), and its error.
      bound: upper bound of HGR-KB in the population.
      rows: number of rows held back.
      rows_needed: approximate number of rows that would certify a model of this ``value``; None if
        no number would, or if there is a ``reason``.
      degrees: of the attribute and of the prediction.
      name: of the attribute.
      candidates: the models that were tried, in their order.
      reason: why these rows give no bound (``bound`` is 1), or empty.
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

    @property
    def holds(self) -> bool:
        """Whether the bound is at most the threshold."""
        return self.bound <= self.threshold

    def plot(self) -> Figure:
        """Draw value and bound of all candidates beside the threshold.

        Raises:
          ImportError: without matplotlib, naming the command that installs it.
          ValueError: of one model, without candidates.
        """
        from hgr_jax.plotting import literal

        if not self.candidates:
            raise ValueError("the certificate is of one model: there are no candidates to draw.")
        drawing = require("matplotlib.figure")
        figure: Figure = drawing.Figure(figsize=(6, 3.6), layout="constrained")
        axes = figure.subplots()
        settings, steps, values, bounds, accepted = np.array(
            [dataclasses.astuple(candidate) for candidate in self.candidates]
        ).T
        axes.plot(settings, bounds, "-", color="C0", label="bound")
        axes.plot(settings, values, "--", color="C0", label="value")
        for chosen, style, label in (
            (accepted == 1, "C0o", "accepted"),
            (accepted == 0, "C3x", "not accepted"),
        ):
            if chosen.any():
                axes.plot(settings[chosen], bounds[chosen], style, label=label)
        axes.axhline(self.threshold, color="black", linewidth=0.8, linestyle=":", label="threshold")
        h, k = self.degrees
        axes.set(
            title=f"HGR-KB({h}, {k}) of {literal(self.name)} on {self.rows:,} rows held back",
            xlabel="threshold in training" if steps.any() else "strength of the transport",
            ylabel="HGR-KB",
            ylim=(0, 1),
        )
        axes.legend(fontsize=8)
        return figure

    def __str__(self) -> str:
        h, k = self.degrees
        compared = "at most" if self.holds else "not at most"
        text = (
            f"HGR-KB({h}, {k}) of {self.name} and the prediction in the population: {compared}"
            f" {self.threshold:g}, with {percent(self.level)} confidence ({self._origin})"
        )
        if self.candidates:
            accepted = sum(candidate.accepted for candidate in self.candidates)
            text += f"; candidates tried: {len(self.candidates)}, accepted: {accepted}"
        return text

    @property
    def method(self) -> str:
        """How the bound was made, in words."""
        order = ", of models in an order fixed before" if self.candidates else ""
        return f"normal law of HGR-KB less the bias of one side's functions{order}"

    @property
    def _origin(self) -> str:
        """The bound and its origin, for texts."""
        less = ", less its upward bias" if self.bound < self.value else ""
        because = f"; {self.reason}" if self.reason else ""
        return (
            f"upper bound {self.bound:.3f}, from {self.value:.3f} on {self.rows:,} rows held back"
            f"{less}{because}"
        )

    def __repr__(self) -> str:
        return f"Certificate: {self}"

    def _repr_html_(self) -> str:
        """Return the candidates as a small table, for notebooks."""
        rows = [
            [f"{c.setting:.3f}", f"{c.steps:,}", f"{c.value:.3f}", f"{c.bound:.3f}"]
            for c in self.candidates
        ]
        return html_table(str(self), ("setting", "steps", "KB", "bound"), rows)


def percent(level: float) -> str:
    """Return a level as a percentage, of as many digits as it has."""
    return f"{100 * level:.6g}%"


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
            f"no model was found whose HGR-KB is at most {certificate.threshold:g} with"
            f" {percent(certificate.level)} confidence (the safest one: {certificate._origin});"
            f" {remedy}."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Let processes pass the exception on, as the searches of scikit-learn do."""
        return type(self), (self.certificate,)


def certify(
    prediction: ArrayLike, protected: Protected, penalty: Penalty | float, level: float = 0.95
) -> Certificate:
    """Bound how far any model's predictions depend on an attribute, from rows it was not fitted to.

        bound = corrected(KB) + z se,    corrected(KB)^2 = 1 - (1 - KB^2) (n - 1) / (n - 1 - m),

    with KB and its standard error se by `hgr_jax.kb_fit`, the normal quantile z of ``level``, and
    m = max(h, k) - 1: only the upward bias of the functions of one side is subtracted.  "HGR-KB of
    these degrees is at most the bound in the population" is then true with about the probability
    ``level``, for many rows; `python -m bench.guarantee` measures it.

    The rows must not have been used to fit the model, nor to choose it among others (for that see
    `fit_certified`, and ``guarantee=`` of the estimators).

    Args:
      prediction: ``(n,)``, or ``(n, columns)``, of which each is bounded at the level
        ``1 - (1 - level) / columns``, so that all bounds hold together.
      protected: the attribute ``(n,)``, numbers or text, or one-hot ``(n, c)``; rows of pandas
        objects are matched by their labels.
      penalty: a threshold in (0, 1], of HGR-KB(5, 5); or a `Penalty` without ``given``.
      level: above 0 and below 1.

    Raises:
      TypeError, ValueError: for other shapes, values that are missing or infinite, an attribute
        that does not vary.

    Degenerate data: the bound is 1, and ``reason`` says why, where fewer than 10 rows carry the
    variance of the predictions, ``(sum c^2)^2 / sum c^4 < 10`` for centred predictions c; for
    n <= h + k; and for an ill-conditioned estimate (far outliers in float32).
    The statement holds within the range of these rows.  Where a few rows of a heavy tail make the
    dependence, the bound is exceeded more often: take ranks, or lower degrees.

    Source: Thomas et al., "Preventing undesirable behavior of intelligent machines" (2019);
    Angelopoulos et al., "Learn then test" (2021), for the order of candidates.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.fairness import certify
      >>> rng = np.random.default_rng(0)
      >>> z, noise = rng.normal(size=(2, 2000))
      >>> found = certify(0.1 * z + noise, z, 0.3)
      >>> print(found.holds, f"{found.value:.2f} {found.bound:.2f}")
      True 0.11 0.14
    """
    data = TrainingData.of(prediction, None, protected)
    name, z = data.single()
    prediction = numbers("prediction", data.x)
    if prediction.ndim not in (1, 2) or 0 in prediction.shape:
        raise ValueError(
            "prediction must have shape (n,) or (n, columns), n and columns >= 1; got"
            f" {prediction.shape}."
        )
    if not isinstance(penalty, Penalty):
        penalty = Penalty("kb", penalty, name=name)
    if not penalty.penalised:
        raise TypeError("a certificate needs a threshold, a number in (0, 1]; got None.")
    check_certifiable(penalty)
    check_level("level", level)
    encoder = Encoding.learn(penalty, z)
    return bounded(encoder.with_supported_degree(penalty), encoder.encode(z), prediction, level)


def check_certifiable(penalty: Penalty) -> None:
    """Raise unless a penalty has degrees and no ``given``."""
    h, k = penalty.yardstick.kernels
    if penalty.given is not None or callable(h) or callable(k):
        raise ValueError(
            "a guarantee is of penalties with degrees h and k and without given; got"
            f" given={penalty.given!r}, h={h!r}, k={k!r}."
        )


def bounded(
    penalty: Penalty, z: NDArray[Any], prediction: NDArray[Any], level: float
) -> Certificate:
    """Return the certificate of predictions for a penalty and its encoded attribute."""
    columns = prediction.T if prediction.ndim == 2 else prediction[None]
    quantile = normal_quantile(1 - (1 - level) / len(columns))
    rows, bounds, (h, k) = len(z), [], penalty.yardstick.kernels
    for column in columns:
        fit = kb_fit(z, _centred(column), 1 if z.ndim == 2 else h, k)
        value, error = float(fit.correlation), float(fit.standard_error)
        degrees = max(int(fit.degrees[0]), 1), max(int(fit.degrees[1]), 1)
        bound = float(corrected_on_host(value, rows, max(degrees) - 1)) + quantile * error
        reason = _reason_for_no_bound(column, bound, fit)
        bounds.append(
            (1.0 if reason else float(np.clip(bound, 0, 1)), value, error, degrees, reason)
        )
    bound, value, error, degrees, reason = max(bounds)
    threshold = float(np.asarray(penalty.threshold))
    needed = _rows_needed(threshold, value, quantile * error, rows, degrees)
    return Certificate(
        threshold=threshold,
        level=level,
        value=value,
        bound=bound,
        standard_error=error,
        rows=rows,
        rows_needed=None if reason else needed,
        degrees=degrees,
        name=penalty.name,
        reason=reason,
    )


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


def _reason_for_no_bound(column: NDArray[Any], bound: float, fit: KBFit) -> str:
    """Return why these rows give no bound, or an empty text."""
    if not np.ptp(column):
        return "all predictions are equal, which says nothing of rows where they would differ"
    square = _centred(column) ** 2
    if square.sum() ** 2 < LEAST_CARRIERS * (square**2).sum():
        return f"fewer than {LEAST_CARRIERS} rows carry the variance of the predictions"
    # An ill-conditioned value may be too low.
    if not np.isfinite(bound) or fit.status in (Status.ILL_CONDITIONED, Status.CONSTANT):
        return "too few rows for the degrees, or far outliers"
    return ""


def _centred(column: NDArray[Any]) -> NDArray[Any]:
    """Center a column and scale it to size 1, so that float32 resolves it."""
    column = column.astype(np.float64)
    column = column / max(float(np.abs(column).max(initial=0)), 1e-300)
    column = column - column.mean()
    return np.asarray(column / max(float(np.abs(column).max(initial=0)), 1e-300))


def _rows_needed(
    threshold: float, value: float, margin: float, rows: int, degrees: tuple[int, int]
) -> int | None:
    """Return the number of rows at which the bound for this value falls to the threshold."""
    parameters = sum(degrees) - 1
    population = float(corrected_on_host(value, rows, parameters))
    if population >= threshold:
        return None
    count = float(sum(degrees) + 2)
    while count < MOST_ROWS:
        square = population**2 + (1 - population**2) * parameters / count
        partly = corrected_on_host(np.sqrt(min(square, 1.0)), count, max(degrees) - 1)
        if float(partly) + margin * np.sqrt(rows / count) <= threshold:
            return round(count)
        count *= 1.05
    return None


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
    """Train until the constraint is no longer certified on rows held back; keep the model before.

    Training starts with a tenth of the threshold, until HGR-KB on the training rows is at most a
    quarter of the threshold.  Then the threshold of the training rises to its full value; at
    regular steps the model is a candidate, bounded on the rows held back as by `certify`.  The
    first candidate whose bound exceeds the threshold ends the training; the one before it is kept.

    Predictions ``(n,)`` are clipped to the range of the training rows (``trainer.limits``), in the
    bounds and by `FairTrainer.predict` (not by `network`): an outlying row would make a dependence
    that the rows held back cannot show.

    Args:
      trainer: not fitted, of penalties without ``given``; afterwards it predicts by the accepted
        candidate (its `history` has all steps).
      x, y, protected: training rows, as of `FairTrainer.fit`.
      held_out: ``(x, protected)`` of the rows to test on, which need no targets.
      constraint_rows: further rows, as of `FairTrainer.fit`.
      level: confidence level of the statement about all penalties together.
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
    steps, penalties = check_count("steps", steps), trainer.penalties
    penalised = [penalty for penalty in penalties if penalty.penalised]
    if trainer.state is not None:
        raise ValueError("the trainer has been fitted before; make a new one.")
    if not penalised:
        raise ValueError("there is nothing to guarantee: the trainer has no penalty.")
    for penalty in penalties:
        check_certifiable(penalty)
    if not isinstance(held_out, tuple) or len(held_out) != 2:
        raise ValueError("held_out must be (x, protected), of rows that are not trained on.")
    test = TrainingData.of(held_out[0], None, held_out[1])
    attributes = test.attributes_of(penalised)
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
        options: Any = {"constraint_rows": constraint_rows, "evaluate_every": steps}
        trainer.fit(x, y, protected, steps=end, **options)

    def candidates(advance: Callable[..., None]) -> Iterator[tuple[list[float], int, Any]]:
        end = 0
        while end < steps and not _is_ready(trainer, shares[0]):
            end = min(end + interval, steps)
            train(shares[0], end)
        for share in shares:
            end += interval
            train(share, end)
            prediction = np.asarray(trainer.predict(x))
            if prediction.ndim == 1:
                trainer.limits = float(prediction.min()), float(prediction.max())
            settings = [share * float(np.asarray(penalty.threshold)) for penalty in penalised]
            advance(1)
            yield settings, end, (trainer.state, trainer.limits)

    def bounds(_: Any) -> list[Certificate]:
        prediction = np.asarray(trainer.predict(test.x))
        return [
            bounded(
                encoder.with_supported_degree(penalty),
                encoder.encode(attributes[encoder.name]),
                prediction,
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
    """Return whether HGR-KB on the training rows is low enough for a first candidate."""
    limits, last = trainer.history.thresholds, trainer.history.last
    return bool(last) and all(
        last[f"hgr_train_{name}"] <= WARM_UP_SHARE * limit / share
        for name, limit in limits.items()
        if limit is not None
    )
