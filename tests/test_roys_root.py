"""Roy's largest root: exact rational arithmetic, closed forms, simulation, limits."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from hgr_jax.inference.roys_root.law import (
    MIN_VALUES_TO_INTERPOLATE,
    log_survival,
    log_survival_of_many,
    mean,
    quantile,
)

MANY = MIN_VALUES_TO_INTERPOLATE
EIGHTHS = [Fraction(k, 8) for k in range(1, 8)]
NEAR_ONE = [1 - Fraction(1, 2**k) for k in (4, 6, 10, 20, 35, 50)]


def exact_log_survival(c: Fraction, n: int, p: int, q: int) -> float:
    """By de Bruijn's Pfaffian in the basis of monomials, in rational arithmetic: n - p - q even.

    With t = c^2 every integral is then a polynomial of c.
    """
    lowest, whole = q - p - 1, (n - q - p - 2) // 2
    assert 2 * whole == n - q - p - 2
    binomial = [(-1) ** k * math.comb(whole, k) for k in range(whole + 1)]
    densities = [{lowest + 2 * (i + k): b for k, b in enumerate(binomial)} for i in range(p)]
    integrals = [{e + 2: Fraction(2 * b, e + 2) for e, b in f.items()} for f in densities]

    def distribution(c: Fraction) -> Fraction:
        powers = {e: c**e for e in range(2 * (lowest + 2 * (p + whole) + 4))}
        size = p + p % 2
        matrix = [[Fraction(0)] * size for _ in range(size)]
        for i in range(p):
            for j in range(i):
                entry = sum(
                    sign * a * Fraction(2 * b, e + d + 2) * powers[e + d + 2]
                    for sign, x, y in ((1, i, j), (-1, j, i))
                    for e, a in integrals[x].items()
                    for d, b in densities[y].items()
                )
                matrix[i][j], matrix[j][i] = entry, -entry
            if p % 2:
                entry = sum((a * powers[e] for e, a in integrals[i].items()), Fraction(0))
                matrix[i][p], matrix[p][i] = entry, -entry
        return rational_pfaffian(matrix)

    tail = 1 - distribution(c) / distribution(Fraction(1))
    shift = max(0, tail.denominator.bit_length() - tail.numerator.bit_length())
    return math.log(tail * 2**shift) - shift * math.log(2)


def rational_pfaffian(matrix: list[list[Fraction]]) -> Fraction:
    value = Fraction(1)
    while matrix:
        pivot = matrix[0][1]
        value *= pivot
        first, second = matrix[0], matrix[1]
        matrix = [
            [
                entry + (second[i] * first[j] - first[i] * second[j]) / pivot
                for j, entry in enumerate(row)
                if j > 1
            ]
            for i, row in enumerate(matrix)
            if i > 1
        ]
    return value


def draw(n: float, p: int, q: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Top canonical correlations of independent Gaussians, from two Wishart matrices."""
    ours = bartlett(q, p, draws, rng)
    both = ours + bartlett(n - 1 - q, p, draws, rng)
    root = np.linalg.inv(np.linalg.cholesky(both))
    roots = np.linalg.eigvalsh(root @ ours @ root.swapaxes(1, 2))
    return np.sqrt(roots[:, -1])


def bartlett(freedom: float, p: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    factor = np.tril(rng.standard_normal((draws, p, p)), -1)
    for i in range(p):
        factor[:, i, i] = np.sqrt(rng.chisquare(freedom - i, draws))
    return factor @ factor.swapaxes(1, 2)


@pytest.mark.parametrize(
    ("n", "p", "q"),
    [
        (40, 1, 1),
        (33, 1, 4),
        (20, 2, 2),
        (41, 2, 5),
        (40, 3, 3),
        (21, 3, 4),
        (12, 5, 5),
        (13, 5, 6),
        (30, 5, 5),
        (40, 4, 6),
        (41, 4, 31),
        (24, 10, 10),
        (27, 10, 11),
    ],
)
def test_agrees_with_rational_arithmetic(n: int, p: int, q: int) -> None:
    correlations = EIGHTHS + NEAR_ONE
    expected = np.array([exact_log_survival(c, n, p, q) for c in correlations])
    assert expected.min() < -30
    found = log_survival([float(c) for c in correlations], n, p, q)
    np.testing.assert_allclose(found, expected, rtol=2e-15, atol=5e-14)


@pytest.mark.parametrize(
    ("n", "p", "q"),
    [
        (9, 3, 4),
        (12, 5, 5),
        (20, 2, 5),
        (57, 5, 3),
        (500, 5, 5),
        (2000, 4, 9),
        (400, 12, 7),
        (10**6, 6, 6),
        (12.5, 2, 3),
    ],
)
def test_agrees_with_simulation(n: float, p: int, q: int) -> None:
    sample = draw(n, min(p, q), max(p, q), 20_000, np.random.default_rng(1))
    result = stats.kstest(sample, lambda c: -np.expm1(log_survival(c, n, p, q)))
    assert result.pvalue > 0.001
    assert mean(n, p, q) == pytest.approx(sample.mean(), abs=4 * sample.std() / np.sqrt(20_000))
    covered = np.mean(sample <= quantile(0.95, n, p, q))
    assert covered == pytest.approx(0.95, abs=4 * np.sqrt(0.05 * 0.95 / 20_000))


@pytest.mark.parametrize("degrees", [(1, 1), (1, 30), (2, 2), (5, 5), (7, 4), (20, 21), (50, 50)])
@pytest.mark.parametrize("extra", [0.5, 1, 10, 1000, 10**9])
def test_falls_from_0_without_a_seam(degrees: tuple[int, int], extra: float) -> None:
    n = sum(degrees) + extra
    c = np.concatenate(
        [
            10.0 ** -np.arange(149, 4, -16),
            np.linspace(1e-4, 0.999, 201),
            1 - 2.0 ** -np.arange(11, 54),
        ]
    )
    values = log_survival(c, n, *degrees)
    assert np.all(np.isfinite(values))
    assert np.all(values <= 0)
    steps = np.diff(values)
    assert np.all(steps <= 1e-13)
    assert np.all(steps[values[1:] < -0.01] < 0)


@pytest.mark.parametrize(("n", "p", "q"), [(11, 5, 5), (50, 5, 5), (1000, 3, 8), (10**9, 5, 5)])
def test_quantile_inverts_the_distribution(n: int, p: int, q: int) -> None:
    probability = np.array([1e-6, 0.01, 0.3, 0.5, 0.9, 0.999])
    c = quantile(probability, n, p, q)
    assert np.all(np.diff(c) > 0)
    np.testing.assert_allclose(
        -np.expm1(log_survival(c, n, p, q)), probability, rtol=1e-7, atol=1e-11
    )
    log_level = np.log(2.0**-40)
    extreme = quantile(1 - 2.0**-40, n, p, q)
    if extreme < 0.999:
        assert log_survival(extreme, n, p, q) == pytest.approx(log_level, abs=1e-9)


def test_broadcasts_and_agrees_with_a_loop() -> None:
    c = np.linspace(0.05, 0.9, 7)
    n = np.array([8, 30, 31, 10**5])[:, None, None]
    p, q = np.array([[5, 0, 1], [3, 2, 4]])[:, :, None, None, None]
    together = log_survival(c, n, p, q)
    assert together.shape == (3, 4, 1, 7)
    for index in np.ndindex(together.shape):
        alone = [array[index] for array in np.broadcast_arrays(c, n, p, q)]
        assert together[index] == pytest.approx(log_survival(*alone), rel=1e-13, abs=1e-15)
    for function, first in ((quantile, [c]), (mean, [])):
        together = function(*first, n, p, q)
        for index in np.ndindex(together.shape):
            alone = [array[index] for array in np.broadcast_arrays(*first, n, p, q)]
            assert together[index] == pytest.approx(function(*alone), rel=1e-11)


def test_degenerate_cases() -> None:
    c = np.array([-0.5, 0.0, 0.5, 1.0, 1.5, np.inf, np.nan])
    np.testing.assert_array_equal(
        log_survival(c, 100, 5, 5)[[0, 1, 3, 4, 5, 6]], [0, 0, -np.inf, -np.inf, -np.inf, np.nan]
    )
    np.testing.assert_array_equal(
        np.exp(log_survival(c, 100, 5, 5))[[0, 1, 3, 6]], [1, 1, 0, np.nan]
    )
    for n, p, q in [(10, 5, 5), (3, 5, 5), (0, 1, 1), (100, 0, 5), (100, 5, 0), (100, 0, 0)]:
        np.testing.assert_array_equal(log_survival(c, n, p, q), [0] * 6 + [np.nan])
    probability = [0, 0.3, 1, np.nan]
    np.testing.assert_array_equal(quantile(probability, 10, 5, 5), [1, 1, 1, np.nan])
    np.testing.assert_array_equal(quantile(probability, 50, 0, 5), [0, 0, 0, np.nan])
    np.testing.assert_array_equal(quantile(probability, 50, 5, 5)[[0, 2, 3]], [0, 1, np.nan])
    np.testing.assert_array_equal(mean([10, 50, 3], [5, 0, 2], [5, 5, 2]), [1, 0, 1])


@pytest.mark.parametrize(
    ("n", "p", "q", "error"),
    [(20, 1, 1, 1e-6), (1000, 3, 3, 1e-6), (10**6, 16, 2, 1e-6), (10**6, 16, 16, 2e-5)],
)
def test_many_values_are_interpolated(n: int, p: int, q: int, error: float) -> None:
    """Of one law and of several at once, from 0 to a dependence without noise."""
    rng = np.random.default_rng(0)
    bulk = np.abs(rng.normal(size=2 * MANY)) * (math.sqrt(p) + math.sqrt(q)) / math.sqrt(n)
    c = np.concatenate(
        [
            np.minimum(bulk, 0.999),
            rng.uniform(0, 1, MANY),
            [0, 1e-200, 1, np.nan],
        ]
    )
    expected, found = log_survival(c, n, p, q), log_survival_of_many(c, n, p, q)
    np.testing.assert_allclose(found, expected, rtol=error, atol=error)
    assert not np.array_equal(found, expected, equal_nan=True)
    rows = np.where(np.arange(len(c)) % 3, n, 50)
    of_two = log_survival_of_many(c, rows, p, q)
    np.testing.assert_allclose(of_two, log_survival(c, rows, p, q), rtol=error, atol=error)
    few = log_survival_of_many(c[:9].reshape(3, 3), rows[:9].reshape(3, 3), p, q)
    np.testing.assert_array_equal(few, log_survival(c[:9], rows[:9], p, q).reshape(3, 3))
