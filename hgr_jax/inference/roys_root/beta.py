"""Tails of the beta distribution as logarithms, for a second parameter of up to 10^9."""

from __future__ import annotations

import functools

import numpy as np
from scipy import special

from hgr_jax._arrays import Floats

_STIRLING_FROM = 15.0
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)
_BEYOND_MEAN = 2.5
_NEAR_UNDERFLOW = -460.0
_LARGE = 1000.0
_NODES = 24


def log_beta(a: float, b: Floats) -> Floats:
    """Return log B(a, b) to about 1e-14, also for b >> a, where log-gammas would cancel."""
    large = np.maximum(b, _STIRLING_FROM)
    ratio = (large - 0.5) * np.log1p(a / large) + a * np.log(large + a) - a
    ratio += _stirling_series(large + a) - _stirling_series(large)
    small = special.gammaln(b + a) - special.gammaln(b)
    return special.gammaln(a) - np.where(b < _STIRLING_FROM, small, ratio)


def log_upper_tail(x: Floats, complement: Floats, a: float, b: Floats) -> Floats:
    """Return log P(X >= x) for X ~ Beta(a, b), 0 < x < 1 and ``complement`` = 1 - x.

    Beyond the bulk (1 - t)^b = (1 - x)^b exp(-u) turns the integral over t from x to 1 into
    one that Gauss and Laguerre's rule has to some 1e-13: that of t^(a-1), which hardly varies.
    """
    log_tail = np.empty_like(x)
    log_complement = np.where(x < 0.5, np.log1p(-x), np.log(complement))
    if a == 1:
        return b * log_complement
    far = (b * x >= a + _BEYOND_MEAN) | (b * log_complement < _NEAR_UNDERFLOW)
    if a % 1 == 0 and a < 2 * _NODES:  # betainc rounds 1 - x then; the rule is exact for large b
        far |= b > _LARGE
    low, high = ~far & (x < 0.5), ~far & (x >= 0.5)
    log_tail[low] = np.log1p(-special.betainc(a, b[low], x[low]))
    log_tail[high] = np.log(special.betainc(b[high], a, complement[high]))
    log_tail[far] = _log_far_tail(x[far], log_complement[far], a, b[far])
    return np.minimum(log_tail, 0.0)


def _log_far_tail(x: Floats, log_complement: Floats, a: float, b: Floats) -> Floats:
    nodes, weights = _laguerre_rule()
    t = -np.expm1(log_complement - nodes[:, None] / b)
    unit = np.maximum(x, 1 / b)
    mean = weights @ (t / unit) ** (a - 1)
    return b * log_complement + (a - 1) * np.log(unit) - np.log(b) - log_beta(a, b) + np.log(mean)


@functools.cache
def _laguerre_rule() -> tuple[Floats, Floats]:
    return np.polynomial.laguerre.laggauss(_NODES)


def _stirling_series(z: Floats) -> Floats:
    inverse = 1 / z
    square = inverse * inverse
    value = np.zeros_like(inverse)
    for coefficient in reversed(_STIRLING):
        value = value * square + coefficient
    return value * inverse
