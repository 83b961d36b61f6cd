"""Transformations as text that can be computed with.

In powers of the data a polynomial cancels: far from 0, or beside an outlier, three digits of each
coefficient give no digit of the value.  There the text is in a centred and scaled variable, with as
many digits as the value needs.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from hgr_jax._arrays import Floats
from hgr_jax.core.canonical import Transformation
from hgr_jax.core.kernels import Encoder, monomial_exponents
from hgr_jax.core.orthonormal import FeatureBasis, PolynomialBasis

LARGEST_ERROR = 0.01
"""Largest error of a value by rounded coefficients, in standard deviations, anywhere in the region
of the data: an outlier may be where the polynomial is steep."""

NO_DIGITS = "not to be computed with: outlying rows ask for more digits than a float has"

MIN_TERM = 1e-5
"""Size of a term, in standard deviations, below which it is rounding."""

MAX_RAW_DIGITS = 5
"""Largest number of digits in powers of the data; else a centred variable reads better."""


def formula(encoder: Encoder, side: Transformation, names: Sequence[str], digits: int) -> str:
    """Write a polynomial of the variables ``names``, with at least so many significant digits."""
    frames = _frames_of(encoder, side)
    if not (np.isfinite(frames).all() and np.isfinite(np.asarray(side.coefficients)).all()):
        return "nan"
    shift, unit = _round_units(frames)
    terms = _expand(encoder, side, shift, unit)
    points = _points_of_region(frames, shift, unit)
    exact = _polynomial_at(terms, points)
    # Where the recurrence cancels, its values have fewer digits than its expansion.
    error_of_expansion = _expansion_error(encoder, side, frames, terms, points, shift, unit)

    def shortest(terms: Terms, points: Floats, most: int) -> dict[tuple[int, ...], str] | None:
        """Return coefficients of the fewest digits, at most so many, that are accurate enough."""
        for count in range(digits, max(digits, most) + 1):
            texts = {
                exponents: f"{value:.{count}g}"
                for exponents, value in terms.items()
                if abs(value) * _largest_monomial(exponents, points) > MIN_TERM
            }
            rounded = {exponents: float(text) for exponents, text in texts.items()}
            error = np.abs(_polynomial_at(rounded, points) - exact)
            if (error <= LARGEST_ERROR - error_of_expansion).all():
                return texts
        return None

    with np.errstate(all="ignore"):  # powers of raw data may overflow
        raw = _expand(encoder, side, np.zeros_like(shift), np.ones_like(unit))
        plain = shortest(raw, points * unit[:, None] + shift[:, None], MAX_RAW_DIGITS)
    if plain is not None:
        return _sum_of_terms(plain, names)
    symbols = _symbols(names)
    meanings = list(map(_definition, symbols, names, shift, unit))
    texts = shortest(terms, points, 16)
    size = sum(
        abs(value) * _largest_monomial(exponents, points) for exponents, value in terms.items()
    )
    if texts is not None and size * float(np.finfo(np.float64).eps) <= LARGEST_ERROR:
        return ", ".join([_sum_of_terms(texts, symbols), *meanings])
    rough = {exponents: f"{value:.{digits}g}" for exponents, value in terms.items()}
    return ", ".join([_sum_of_terms(rough, symbols), *meanings, NO_DIGITS])


MODERATE_VALUE = 10
"""Largest value of the transformation, in standard deviations, at rows that are not outliers."""

POINTS_COMPARED = 1000
"""Number of points at which an expansion is compared with its evaluation."""

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


def _expansion_error(
    encoder: Encoder,
    side: Transformation,
    frames: Floats,
    terms: Terms,
    points: Floats,
    shift: Floats,
    unit: Floats,
) -> float:
    """Return the largest error of an expansion near the nodes and where values are moderate."""
    with np.errstate(all="ignore"):  # the region may reach beyond the largest number
        nodes = _points_at_nodes(encoder, side, frames)
        near = points * unit[:, None] + shift[:, None]
        x = np.concatenate([nodes, near], axis=1).astype(np.asarray(side.coefficients).dtype)
        value = _evaluate_in_dtype(encoder, side, x)
        u = (x.astype(np.float64) - shift[:, None]) / unit[:, None]
        error = np.abs(value - _polynomial_at(terms, u))
    error = np.where(np.isfinite(x).all(axis=0), np.nan_to_num(error, nan=np.inf), 0)
    moderate = np.abs(value) <= MODERATE_VALUE
    moderate[: nodes.shape[1]] = True
    return float(error[moderate].max())


def _points_at_nodes(encoder: Encoder, side: Transformation, frames: Floats) -> Floats:
    """Return points ``(p, n)`` at and beside the zeros of the last polynomials (Gauss's nodes)."""
    basis = side.basis if encoder.factors is None else encoder.factors
    assert isinstance(basis, PolynomialBasis)
    recurrences = np.asarray(basis.recurrence, np.float64).reshape(len(frames), -1, basis.degree)
    rng, points = np.random.default_rng(0), []
    for (scale, center), recurrence in zip(frames, recurrences, strict=True):
        step = recurrence[2]
        count = min(int(np.count_nonzero(step)) + 1, len(step))
        jacobi = np.diag((recurrence[0] + np.diag(recurrence[3:]))[:count])
        jacobi += np.diag(1 / step[: count - 1], -1)
        nodes = np.linalg.eigvalsh(jacobi)  # of the lower triangle
        beside = rng.choice(nodes, POINTS_COMPARED) * (
            1 + 1e-4 * rng.uniform(-1, 1, POINTS_COMPARED)
        )
        points.append((beside + center) / scale)
    return np.stack(points)


def _evaluate_in_dtype(encoder: Encoder, side: Transformation, x: Floats) -> Floats:
    """Return the transformation at ``x (p, n)`` with the rounding of its dtype."""
    c, basis = np.asarray(side.coefficients), side.basis
    if isinstance(basis, PolynomialBasis):
        return c @ np.stack(_with_numpy_arrays(basis).polynomials(x[0]))
    assert encoder.factors is not None
    assert isinstance(encoder.kernel, int)
    factors = _with_numpy_arrays(encoder.factors)
    tables = [factors.select(v, None).polynomials(column) for v, column in enumerate(x)]
    features = np.stack(
        [
            functools.reduce(np.multiply, [p[e] for p, e in zip(tables, powers, strict=True)])
            for powers in monomial_exponents(len(tables), encoder.kernel)
        ]
    )
    weights = np.asarray(basis.transform) @ c[1:]
    value: Floats = weights @ (features - np.asarray(basis.mean)[:, None]) + c[0]
    return value


def _with_numpy_arrays(basis: PolynomialBasis) -> Any:
    """Return a basis of NumPy arrays, which is evaluated without compiling a program."""
    return jax.tree.map(np.asarray, basis)


def _points_of_region(frames: Floats, shift: Floats, unit: Floats) -> Floats:
    """Return points ``(p, n)`` in the region of the data, in the unit."""
    framed = np.linspace(-1, 1, 201)[None, :]
    if len(frames) > 1:
        framed = np.random.default_rng(0).uniform(-1, 1, (len(frames), POINTS_COMPARED))
    return ((framed + frames[:, 1:]) / frames[:, :1] - shift[:, None]) / unit[:, None]


def _largest_monomial(exponents: tuple[int, ...], points: Floats) -> float:
    """Return the largest absolute value of a monomial at ``points (p, n)``."""
    return float(np.abs(_monomial(exponents, points)).max())


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
