"""Polynomials as text that can be computed with.

In powers of the data a polynomial cancels where the data are far from 0: there the text is in a
centred and scaled variable.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import numpy as np

from hgr_jax._arrays import Floats
from hgr_jax.core.canonical import Transformation
from hgr_jax.core.kernels import Encoder, monomial_exponents
from hgr_jax.core.orthonormal import FeatureBasis, PolynomialBasis

LARGEST_ERROR = 0.01
"""Largest error of a value by rounded coefficients, in standard deviations, anywhere in the region
of the data: an outlier may be where the polynomial is steep."""

MIN_TERM = 1e-5
"""Size of a term, in standard deviations, below which it is rounding."""

MAX_RAW_DIGITS = 5
"""Largest number of digits in powers of the data; else a centred variable reads better."""

MAX_DIGITS = 15


def formula(encoder: Encoder, side: Transformation, names: Sequence[str], digits: int) -> str:
    """Write a polynomial of the variables ``names``, with at least so many significant digits.

    With more of them where a value would be off by more than `LARGEST_ERROR` otherwise.
    """
    frames = _frames_of(encoder, side)
    if not (np.isfinite(frames).all() and np.isfinite(np.asarray(side.coefficients)).all()):
        return "nan"
    shift, unit = _round_units(frames)
    points = _points_of_region(frames, shift, unit)
    with np.errstate(all="ignore"):  # powers of raw data may overflow
        raw = _expand(encoder, side, np.zeros_like(shift), np.ones_like(unit))
        plain, exact = _rounded(
            raw, points * unit[:, None] + shift[:, None], digits, MAX_RAW_DIGITS
        )
    if exact:
        return _sum_of_terms(plain, names)
    symbols = _symbols(names)
    centred, _ = _rounded(_expand(encoder, side, shift, unit), points, digits, MAX_DIGITS)
    meanings = map(_definition, symbols, names, shift, unit)
    return ", ".join([_sum_of_terms(centred, symbols), *meanings])


Terms = dict[tuple[int, ...], float]
"""Coefficient of each monomial, by its exponents."""


def _frames_of(encoder: Encoder, side: Transformation) -> Floats:
    """Return scales and centers ``(p, 2)`` of the variables' frames."""
    basis = side.basis if encoder.factors is None else encoder.factors
    assert isinstance(basis, PolynomialBasis)
    frames: Floats = np.asarray(basis.frame, np.float64).reshape(-1, 2)
    # A constant has no scale: its polynomial is 0 with any.
    return np.where(frames[:, :1] == 0, [[1.0, 0.0]], frames)


def _expand(encoder: Encoder, side: Transformation, shift: Floats, unit: Floats) -> Terms:
    """Expand the polynomial in ``u = (a - shift) / unit``."""
    frames = _frames_of(encoder, side)
    slope, offset = frames[:, 0] * unit, frames[:, 0] * shift - frames[:, 1]
    c = np.asarray(side.coefficients, np.float64)
    if encoder.factors is None:
        assert isinstance(side.basis, PolynomialBasis)
        table = _powers(np.asarray(side.basis.recurrence, np.float64), slope[0], offset[0])
        return {(power,): value for power, value in enumerate((table @ c).tolist())}
    assert isinstance(side.basis, FeatureBasis)
    assert isinstance(encoder.kernel, int)
    recurrences = np.asarray(encoder.factors.recurrence, np.float64)
    tables = list(map(_powers, recurrences, slope, offset))
    features = monomial_exponents(len(tables), encoder.kernel)
    powers = [(0,) * len(tables), *features]
    weights = np.asarray(side.basis.transform, np.float64) @ c[1:]
    mean = np.asarray(side.basis.mean, np.float64)
    terms: Terms = {}
    for power in powers:
        columns = (
            table[place][[feature[i] for feature in features]]
            for i, (table, place) in enumerate(zip(tables, power, strict=True))
        )
        terms[power] = float(weights @ functools.reduce(np.multiply, columns))
    terms[powers[0]] += float(c[0] - weights @ mean)
    return terms


def _powers(recurrence: Floats, slope: float, offset: float) -> Floats:
    """Return ``(d + 1, d + 1)``: column j expands ``p_j`` of ``slope u + offset`` on 1, u, ..."""
    degree = recurrence.shape[1]
    table = np.zeros((degree + 1, degree + 1))
    table[0, 0] = 1
    for j in range(degree):
        shift, back, step, *correction = recurrence[:, j]
        last = table[:, j]
        value = slope * np.roll(last, 1) + (offset - shift) * last
        if j:
            value = value - back * table[:, j - 1]
        value = value - table[:, : len(correction)] @ np.asarray(correction)
        table[:, j + 1] = 0 if step == 0 else step * value
    return table


def _rounded(
    terms: Terms, points: Floats, digits: int, most: int
) -> tuple[dict[tuple[int, ...], str], bool]:
    """Return coefficients of the fewest digits that are accurate, and whether ``most`` are."""
    exact = _polynomial_at(terms, points)
    large = {
        exponents: value
        for exponents, value in terms.items()
        if abs(value) * np.abs(_monomial(exponents, points)).max() > MIN_TERM
    }
    for count in range(digits, max(digits, most) + 1):
        texts = {exponents: f"{value:.{count}g}" for exponents, value in large.items()}
        values = {exponents: float(text) for exponents, text in texts.items()}
        if (np.abs(_polynomial_at(values, points) - exact) <= LARGEST_ERROR).all():
            return texts, True
    return texts, False


def _points_of_region(frames: Floats, shift: Floats, unit: Floats) -> Floats:
    """Return points ``(p, n)`` in the region of the data, in the unit."""
    framed = np.linspace(-1, 1, 201)[None, :]
    if len(frames) > 1:
        framed = np.random.default_rng(0).uniform(-1, 1, (len(frames), 1000))
    return ((framed + frames[:, 1:]) / frames[:, :1] - shift[:, None]) / unit[:, None]


def _monomial(exponents: tuple[int, ...], points: Floats) -> Floats:
    product: Floats = np.prod(points ** np.array(exponents)[:, None], axis=0)
    return product


def _polynomial_at(terms: Terms, points: Floats) -> Floats:
    """Return the polynomial at ``points (p, n)``."""
    total = np.zeros(points.shape[1])
    for exponents, value in terms.items():
        total += value * _monomial(exponents, points)
    return total


def _round_units(frames: Floats) -> tuple[Floats, Floats]:
    """Return shifts and units of few digits that bring the data near [-1, 1]."""
    size = 1 / frames[:, 0]
    magnitude = 10.0 ** np.floor(np.log10(size))
    unit = np.ceil(size / magnitude) * magnitude
    grain, middle = magnitude / 10, frames[:, 1] / frames[:, 0]
    fine = grain < 1e-14 * np.abs(middle)
    return np.where(fine, middle, np.round(middle / grain) * grain), unit


def _symbols(names: Sequence[str]) -> list[str]:
    """Return symbols that are no names of variables."""
    longer = ("u" * count for count in itertools.count(2))
    for letter in itertools.chain("utvwxyz", longer):
        symbols = [letter] if len(names) == 1 else [f"{letter}{i}" for i in range(len(names))]
        if not set(symbols) & set(names):
            break
    return symbols


def _definition(symbol: str, name: str, shift: float, unit: float) -> str:
    """Return the definition of a symbol by a variable, to the last significant digit."""
    centred = name
    if shift:
        size = f"{abs(shift):.15g}"
        if abs(float(size) - abs(shift)) > unit / 1000:
            size = repr(abs(float(shift)))
        centred = f"({name} {'-' if shift > 0 else '+'} {size})"
    return f"{symbol} = {centred} / {unit:.15g}"


def _sum_of_terms(coefficients: dict[tuple[int, ...], str], names: Sequence[str]) -> str:
    text = ""
    for exponents, coefficient in coefficients.items():
        factors = [
            name if e == 1 else f"{name}^{e}" for name, e in zip(names, exponents, strict=True) if e
        ]
        size = coefficient.removeprefix("-")
        if text:
            text += " + " if size == coefficient else " - "
            coefficient = size
        text += " ".join([coefficient, *factors])
    return text or "0"
