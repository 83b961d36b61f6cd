"""Samples of x, y and z for tests of conditional independence: nulls and alternatives.

Each design draws ``z (n, d)`` and two noises; half of the designs were not looked at while the test
was made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Column = NDArray[np.float64]
Sample = tuple[Column, Column, Column]


@dataclasses.dataclass(frozen=True)
class Design:
    """A law of x, y and z.

    Attributes:
      name: what it is.
      kind: of nulls ``"smooth"``, ``"scale"``, ``"discrete"``, ``"binary"``, ``"steps"`` or
        ``"determined"``; of the others ``"alternative"``.
      draw: function ``(rng, rows, dim) -> x, y, z``.
      tuned: whether the test was made with it in view.
    """

    name: str
    kind: str
    draw: Callable[[Generator, int, int], Sample]
    tuned: bool


def _normal(rng: Generator, rows: int, dim: int) -> tuple[Column, Column, Column]:
    return rng.standard_normal((rows, dim)), *rng.standard_normal((2, rows))


def _mean(z: Column) -> Column:
    return z.sum(axis=1) / np.sqrt(z.shape[1])


def _heavy(rng: Generator, rows: int, dim: int) -> tuple[Column, Column, Column]:
    return rng.standard_normal((rows, dim)), *rng.standard_t(4, (2, rows))


def linear(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return _mean(z) + e, _mean(z) + f, z


def curved(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return np.tanh(2 * _mean(z)) + 0.5 * e, _mean(z) ** 2 + 0.5 * f, z


def waves(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return np.sin(2 * z).mean(axis=1) + 0.4 * e, np.cos(2 * z).mean(axis=1) + 0.4 * f, z


def first(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return np.exp(-(z[:, 0] ** 2)) + 0.3 * e, z[:, 0] ** 3 / 3 + f, z


def products(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    both = z[:, 0] * z[:, min(1, d - 1)]
    return both + 0.7 * e, np.tanh(both) + 0.7 * f, z


def skewed(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _heavy(rng, n, d)
    return np.exp(0.5 * _mean(z) + 0.5 * e), (_mean(z) + f) ** 3, z


def uniform(rng: Generator, n: int, d: int) -> Sample:
    z = rng.uniform(-1, 1, (n, d))
    e, f = rng.uniform(-1, 1, (2, n))
    return np.abs(z).mean(axis=1) + 0.5 * e, np.sin(3 * _mean(z)) + 0.5 * f, z


def scale(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return np.exp(0.7 * _mean(z)) * e, np.exp(-0.7 * _mean(z)) * f, z


def scale_and_mean(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return _mean(z) + np.abs(z[:, 0]) * e, _mean(z) ** 2 + (0.3 + np.abs(z[:, -1])) * f, z


def levels(rng: Generator, n: int, d: int) -> Sample:
    z, (e, f) = rng.integers(0, 4, (n, d)).astype(float), rng.standard_normal((2, n))
    return np.cos(2 * z).sum(axis=1) + e, (z == 1).sum(axis=1) + f, z


def levels_and_numbers(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    z[:, 0] = rng.integers(0, 3, n)
    return (z[:, 0] == 1) * z[:, -1] + e, (z[:, 0] == 1) + _mean(z) + f, z


def crossed_levels(rng: Generator, n: int, d: int) -> Sample:
    z, (e, f) = rng.integers(0, 2, (n, d)).astype(float), rng.standard_normal((2, n))
    parity = z.sum(axis=1) % 2
    return parity + e, parity + f, z


def binary_x(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return (_mean(z) + e > 0).astype(float), np.sin(2 * _mean(z)) + 0.5 * f, z


def binary_both(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return (_mean(z) + 0.6 * e > 0.5).astype(float), (_mean(z) ** 2 + 0.6 * f > 1).astype(float), z


def counts(rng: Generator, n: int, d: int) -> Sample:
    z, _, f = _normal(rng, n, d)
    return rng.poisson(np.exp(0.6 * _mean(z))).astype(float), _mean(z) + f, z


def steps(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return (z > 0).mean(axis=1) * 2 + 0.4 * e, (z > 0.3).mean(axis=1) * 2 + 0.4 * f, z


def one_step(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return np.sign(z[:, 0]) + 0.5 * e, np.sign(z[:, 0]) + 0.5 * f, z


def step_of_sum(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return np.sign(_mean(z)) + 0.7 * e, np.sign(_mean(z)) + 0.7 * f, z


def determined(rng: Generator, n: int, d: int) -> Sample:
    z, _, _ = _normal(rng, n, d)
    return np.tanh(z[:, 0]), z[:, 0] ** 3, z


Curve = Callable[[Any], Any]


def related(change: Callable[[Generator, Column, Column], Column], strength: float) -> Any:
    """An alternative: y holds a function of the noise of x."""

    def draw(rng: Generator, n: int, d: int) -> Sample:
        z, e, f = _normal(rng, n, d)
        y = _mean(z) ** 2 + strength * change(rng, e, _mean(z)) + f
        return _mean(z) + e, y, z

    return draw


def common_cause(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    hidden = rng.standard_normal(n)
    return np.tanh(_mean(z)) + e + hidden, np.cos(_mean(z)) + f + hidden, z


def of_scale(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    hidden = np.exp(0.6 * rng.standard_normal(n))
    return _mean(z) + hidden * e, _mean(z) + hidden * f, z


def collider(rng: Generator, n: int, d: int) -> Sample:
    x, y = rng.standard_normal((2, n))
    z = rng.standard_normal((n, d))
    z[:, 0] = np.tanh(x + y) + 0.3 * z[:, 0]
    return x, y, z


def binary_related(rng: Generator, n: int, d: int) -> Sample:
    z, e, f = _normal(rng, n, d)
    return (_mean(z) + e > 0).astype(float), _mean(z) + 0.6 * e**3 / 3 + f, z


def of_levels(rng: Generator, n: int, d: int) -> Sample:
    z, (e, f) = rng.integers(0, 3, (n, d)).astype(float), rng.standard_normal((2, n))
    return z.sum(axis=1) + e, (z == 1).sum(axis=1) + 0.5 * e**2 + f, z


DESIGNS = [
    Design("linear", "smooth", linear, True),
    Design("curved", "smooth", curved, True),
    Design("waves", "smooth", waves, False),
    Design("first column", "smooth", first, False),
    Design("product", "smooth", products, True),
    Design("skewed, heavy tails", "smooth", skewed, False),
    Design("uniform", "smooth", uniform, False),
    Design("scale", "scale", scale, True),
    Design("scale and mean", "scale", scale_and_mean, False),
    Design("levels", "discrete", levels, True),
    Design("levels and numbers", "discrete", levels_and_numbers, False),
    Design("parity of levels", "discrete", crossed_levels, False),
    Design("binary x", "binary", binary_x, True),
    Design("binary both", "binary", binary_both, False),
    Design("counts", "binary", counts, False),
    Design("steps", "steps", steps, False),
    Design("one step", "steps", one_step, True),
    Design("step of the sum", "steps", step_of_sum, True),
    Design("determined", "determined", determined, True),
    Design("line", "alternative", related(lambda r, e, m: e, 0.4), True),
    Design("square", "alternative", related(lambda r, e, m: e**2, 0.4), True),
    Design("wave", "alternative", related(lambda r, e, m: np.sin(3 * e), 1.0), False),
    Design("line by sign of z", "alternative", related(lambda r, e, m: e * np.sign(m), 0.6), False),
    Design("common cause", "alternative", common_cause, True),
    Design("shared scale", "alternative", of_scale, False),
    Design("collider", "alternative", collider, False),
    Design("binary x, cubic", "alternative", binary_related, False),
    Design("levels, square", "alternative", of_levels, True),
]
