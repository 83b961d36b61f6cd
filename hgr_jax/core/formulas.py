"""Polynomials of one variable as text that can be computed with.

In powers of the data a polynomial cancels where the data are far from 0: there the text is in a
centred and scaled variable.
"""

from __future__ import annotations

import numpy as np

from hgr_jax._arrays import Floats

LARGEST_ERROR = 0.01
"""Largest error of a value by rounded coefficients, in standard deviations, anywhere in the region
of the data: an outlier may be where the polynomial is steep."""

MIN_TERM = 1e-5
"""Size of a term, in standard deviations, below which it is rounding."""

MAX_RAW_DIGITS = 5
"""Largest number of digits in powers of the data; else a centred variable reads better."""

MAX_DIGITS = 15


def polynomial_as_text(
    coefficients: Floats, scale: float, center: float, name: str, digits: int = 3
) -> str:
    """Write a polynomial of ``scale x - center``, which is in [-1, 1], in powers of x.

    Args:
      coefficients: of the polynomial, on the powers of that variable.
      scale, center: of the variable.
      name: of x.
      digits: least number of significant digits; there are more where a value would be off by more
        than `LARGEST_ERROR` otherwise.
    """
    polynomial = np.polynomial.Polynomial(coefficients)

    def powers(slope: float, offset: float) -> Floats:
        return np.asarray(polynomial(np.polynomial.Polynomial([offset, slope])).coef)

    shift, unit = _round_unit(1 / scale, center / scale)
    x = (np.linspace(-1, 1, 201) + center) / scale
    u = (x - shift) / unit
    centred = powers(scale * unit, scale * shift - center)
    values = np.polynomial.polynomial.polyval(u, centred)
    with np.errstate(all="ignore"):  # powers of raw data may overflow
        texts, exact = _rounded(powers(scale, -center), x, values, digits, MAX_RAW_DIGITS)
    if exact:
        return _sum_of_terms(texts, name)
    symbol = "t" if name == "u" else "u"
    texts, _ = _rounded(centred, u, values, digits, MAX_DIGITS)
    return f"{_sum_of_terms(texts, symbol)}, {symbol} = {_centred(name, shift, unit)} / {unit:.15g}"


def _rounded(
    terms: Floats, x: Floats, values: Floats, digits: int, most: int
) -> tuple[list[str], bool]:
    """Return coefficients of the fewest digits that give ``values`` at ``x``, and whether they do.

    Of a term that is rounding the text is empty.
    """
    sizes = [abs(value) * np.abs(x**power).max() for power, value in enumerate(terms.tolist())]
    for count in range(digits, max(digits, most) + 1):
        texts = [
            f"{value:.{count}g}" if size > MIN_TERM else ""
            for value, size in zip(terms.tolist(), sizes, strict=True)
        ]
        found = np.polynomial.polynomial.polyval(x, [float(text or 0) for text in texts])
        if (np.abs(found - values) <= LARGEST_ERROR).all():
            return texts, True
    return texts, False


def _round_unit(size: float, middle: float) -> tuple[float, float]:
    """Return a shift and a unit of few digits that bring the data near [-1, 1]."""
    magnitude = 10.0 ** np.floor(np.log10(size))
    grain = magnitude / 10
    fine = grain < 1e-14 * abs(middle)
    return middle if fine else round(middle / grain) * grain, np.ceil(size / magnitude) * magnitude


def _centred(name: str, shift: float, unit: float) -> str:
    """Return a variable less its shift, to the last significant digit."""
    if not shift:
        return name
    size = f"{abs(shift):.15g}"
    if abs(float(size) - abs(shift)) > unit / 1000:
        size = repr(abs(float(shift)))
    return f"({name} {'-' if shift > 0 else '+'} {size})"


def _sum_of_terms(coefficients: list[str], name: str) -> str:
    text = ""
    for power, coefficient in enumerate(coefficients):
        if not coefficient:
            continue
        size = coefficient.removeprefix("-")
        if text:
            text += " + " if size == coefficient else " - "
            coefficient = size
        text += coefficient
        if power:
            text += f" {name}" if power == 1 else f" {name}^{power}"
    return text or "0"
