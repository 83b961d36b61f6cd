"""Certificates: a bound, on rows held back, of how far predictions depend on an attribute."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgr_jax._checks import check_count, check_level
from hgr_jax._optional import require
from hgr_jax._texts import html_table
from hgr_jax.core.fits import KBFit, Status, normal_quantile
from hgr_jax.fairness.attributes import learn_attribute, numbers
from hgr_jax.fairness.penalties import Penalty
from hgr_jax.inference.intervals import corrected_on_host
from hgr_jax.measures import kb_fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 10**9
"""Where the search for enough rows ends."""

LEAST_CARRIERS = 10
"""Rows that must carry the variance of a prediction: where fewer do, a standard error says little,
and a prediction that differs in some rows of the population may differ in none of these."""


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A model that was tried.

    The threshold it was trained for (or the strength of the transport of its predictions, of 0
    steps), steps, HGR-KB and its upper bound on the rows held back, and whether it was accepted.
    """

    setting: float
    steps: int
    value: float
    bound: float
    accepted: bool


@dataclasses.dataclass(frozen=True, repr=False)
class Certificate:
    """What rows that a model has not seen say of its dependence on a protected attribute.

    Attributes:
      threshold, level: what was asked: HGR-KB in the population at most ``threshold``, and how
        often such a statement is to be true.
      value: HGR-KB on the rows (the largest, of predictions of several columns).
      bound: its upper bound in the population.
      standard_error: of ``value``.
      rows: how many there were, of no model's training.
      rows_needed: how many rows would do for a model as this one, by what is left of ``value``
        without its bias; None where no number of rows would, and where there is a ``reason``.
      degrees: of the attribute and of the prediction.
      name: of the attribute.
      candidates: the models that were tried, in their order.
      reason: why these rows bound nothing (``bound`` is 1); empty where they do.
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
        drawing = require("matplotlib.figure", "plot")
        figure: Figure = drawing.Figure(figsize=(6, 3.6), layout="constrained")
        axes = figure.subplots()
        at = [candidate.setting for candidate in self.candidates]
        for name, line in (("bound", "-"), ("value", "--")):
            values = [getattr(candidate, name) for candidate in self.candidates]
            axes.plot(at, values, line, color="C0", label=name)
        for accepted, marker, label in ((True, "o", "accepted"), (False, "x", "not accepted")):
            chosen = [c for c in self.candidates if c.accepted == accepted]
            if chosen:
                points = [c.setting for c in chosen], [c.bound for c in chosen]
                axes.plot(*points, marker, color="C0" if accepted else "C3", label=label)
        axes.axhline(self.threshold, color="black", linewidth=0.8, linestyle=":", label="threshold")
        trained = any(candidate.steps for candidate in self.candidates)
        h, k = self.degrees
        axes.set(
            title=f"HGR-KB({h}, {k}) of {literal(self.name)} on {self.rows:,} rows held back",
            xlabel="threshold in training" if trained else "strength of the transport",
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
            f" {self.threshold:g}, with {percent(self.level)} confidence ({self._bounded})"
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
    def _bounded(self) -> str:
        """The bound and where it is from, for texts."""
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
    """The first candidate's bound is above the threshold; ``certificate`` is of this one.

    It is the safest of those to come: the others are more accurate, and depend more.
    """

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
            f" {percent(certificate.level)} confidence (the safest one: {certificate._bounded});"
            f" {remedy}."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how it is made again: processes hand exceptions on, as those of a search."""
        return type(self), (self.certificate,)


def certify(
    prediction: ArrayLike,
    z: ArrayLike,
    threshold: float,
    level: float = 0.95,
    *,
    h: int = 5,
    k: int = 5,
    name: str = "z",
) -> Certificate:
    """Bound how far any model's predictions depend on an attribute, from rows it was not fitted to.

        bound = corrected(KB) + z se,    corrected(KB)^2 = 1 - (1 - KB^2) (n - 1) / (n - 1 - m),

    with KB and its standard error se of `hgr_jax.kb_fit`, the normal quantile z of ``level``, and
    m = max(h, k) - 1: the upward bias of the functions of one side is taken away, that of the
    other is left as a reserve.  The statement "HGR-KB of these degrees is at most the bound in the
    population" is then true at least so often as ``level``, about: the level is that of many rows,
    and `python -m bench.guarantee` measures how often it fails.

    The rows must not have had a part in the model, nor in its choice: of several models bounded on
    the same rows, the best is not bounded by its bound.  (`fit_certified` and ``guarantee=`` of the
    estimators try models in an order that is fixed before, which needs no correction.)

    Args:
      prediction: ``(n,)``, or ``(n, columns)``: then all are bounded at once, each at the level
        ``1 - (1 - level) / columns``.
      z: the protected attribute ``(n,)``, numbers or text, or one-hot ``(n, c)``.
      threshold: in (0, 1].
      level: above 0 and below 1.
      h, k: degrees of z and of the prediction.
      name: of the attribute, for texts.

    Returns:
      A `Certificate`; ``holds`` says whether the bound is at most the threshold.

    Raises:
      TypeError, ValueError: for other shapes, values that are missing or infinite, an attribute
        that does not vary.

    Degenerate data: the bound is 1, and ``reason`` says why, where these rows say too little:
    predictions c, less their mean, of which fewer than 10 rows carry the variance,
    ``(sum c^2)^2 / sum c^4 < 10`` (none, of a constant; the events, of a rare one); n <= h + k
    rows; an estimate that is ill conditioned (far outliers in float32).
    The statement is of rows whose attribute is within the range of these: one row beyond can make a
    large part of a correlation.  Where a few rows of a heavy tail make the dependence, the bound is
    exceeded more often, as of any mean.  Take ranks of z, or lower degrees.

    Source: Thomas et al., "Preventing undesirable behavior of intelligent machines" (2019);
    Angelopoulos et al., "Learn then test" (2021), for the order of candidates.

    Example:
      >>> import numpy as np
      >>> from hgr_jax.fairness import certify
      >>> rng = np.random.default_rng(0)
      >>> z, noise = rng.normal(size=(2, 2000))
      >>> found = certify(0.1 * z + noise, z, threshold=0.3)
      >>> print(found.holds, f"{found.value:.2f} {found.bound:.2f}")
      True 0.11 0.14
    """
    prediction = numbers("prediction", prediction)
    if prediction.ndim not in (1, 2) or 0 in prediction.shape:
        raise ValueError(
            "prediction must have shape (n,) or (n, columns), n and columns >= 1; got"
            f" {prediction.shape}."
        )
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.number):
        raise TypeError(f"threshold must be a number in (0, 1]; got {threshold!r}.")
    h, k = check_count("h", h), check_count("k", k)
    check_level("level", level)
    penalty = Penalty("kb", threshold, h=h, k=k, name=name)
    attribute = learn_attribute(penalty, z, np.zeros(len(prediction)))
    encoded = attribute.encode(z, len(prediction))
    return bounded(attribute.suited(penalty), encoded, prediction, level)


def bounded(
    penalty: Penalty, z: NDArray[Any], prediction: NDArray[Any], level: float
) -> Certificate:
    """Return the certificate of predictions for a penalty of degrees, its attribute encoded."""
    columns = prediction.T if prediction.ndim == 2 else prediction[None]
    quantile = normal_quantile(1 - (1 - level) / len(columns))
    rows, found = len(z), []
    for column in columns:
        fit = kb_fit(z, _centred(column), 1 if z.ndim == 2 else penalty.h, penalty.k)
        value, error = float(fit.correlation), float(fit.standard_error)
        h, k = (max(int(degree), 1) for degree in fit.degrees)
        bound = float(corrected_on_host(value, rows, max(h, k) - 1)) + quantile * error
        reason = _why_unknown(column, bound, fit)
        found.append((1.0 if reason else float(np.clip(bound, 0, 1)), value, error, (h, k), reason))
    bound, value, error, degrees, reason = max(found)
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


def _why_unknown(column: NDArray[Any], bound: float, fit: KBFit) -> str:
    """Return why a prediction's rows bound nothing; nothing where they do."""
    if not np.ptp(column):
        return "all predictions are equal, which says nothing of rows where they would differ"
    square = _centred(column) ** 2
    if square.sum() ** 2 < LEAST_CARRIERS * (square**2).sum():
        return f"fewer than {LEAST_CARRIERS} rows carry the variance of the predictions"
    # What is ill conditioned may be larger than it seems; of no basis nothing is known.
    if not np.isfinite(bound) or fit.status in (Status.ILL_CONDITIONED, Status.CONSTANT):
        return "too few rows for the degrees, or far outliers"
    return ""


def _centred(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column from 0 and of size 1, in which float32 has digits enough."""
    column = column.astype(np.float64)
    column = column / max(float(np.abs(column).max(initial=0)), 1e-300)
    column = column - column.mean()
    return np.asarray(column / max(float(np.abs(column).max(initial=0)), 1e-300))


def _rows_needed(
    threshold: float, value: float, margin: float, rows: int, degrees: tuple[int, int]
) -> int | None:
    """Return from how many rows on a bound of a value as this would be at most the threshold."""
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
