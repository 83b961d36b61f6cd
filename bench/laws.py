"""Laws of two variables whose HGR is known: exactly, by a fine grid of their density, or by both.

The singular values of ``P[i, j] / sqrt(p[i] q[j])``, where P has the probabilities of the cells of
a grid and p and q its margins, are 1 and the maximal correlations of functions that are constant in
the cells; the second is HGR, as far as the cells can tell.  The functions that attain it are the
oracle's: who knows them only has to correlate them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Sample = tuple[Vector, Vector]
Random = np.random.Generator

CELLS = 360
"""Number of cells of a grid along each axis."""

NODES = 3
"""Number of Gauss-Legendre nodes in each cell of x."""

LATTICE = 2_000
"""Number of values of y between which the margin of y is interpolated, and of a density's axes."""

TUNED = (
    *("normal .3", "normal .9", "FGM", "tied waves", "checkerboard 4 x 4", "crossed normals"),
    *("parabola, uniform", "sine, 2 periods", "scale", "jump", "ring", "rare cluster"),
    *("extremes of 5", "Poisson sums", "table 3 x 4", "Frank"),
    # Of the oscillating ones, every second.
    *("3 half waves", "7 half waves", "14 half waves", "28 half waves", "40 half waves"),
    *("80 half waves", "sawtooth of 8", "staircase of 12", "tied staircase of 6", "small square"),
)
"""Laws that the estimate of the package was developed on; the others were kept out."""


@dataclasses.dataclass(frozen=True)
class Law:
    """A law of two variables.

    Attributes:
      name: name of the law.
      sample: function ``(rng, n) -> (x, y)``.
      grid: function that returns the `Grid` of the law; None where there is no density.
      exact: HGR where there is a formula.
      attained: whether there are functions whose correlation is HGR.
      phases: function ``(x, y)`` that returns what the grid is of, and the functions that attain
        HGR are functions of; None for x and y themselves.
    """

    name: str
    sample: Callable[[Random, int], Sample]
    grid: Callable[[], Grid] | None = None
    exact: float | None = None
    attained: bool = True
    phases: Callable[[Vector, Vector], Sample] | None = None

    @property
    def tuned(self) -> bool:
        """Whether the estimate of the package was developed on the law."""
        return self.name in TUNED

    @functools.cached_property
    def solution(self) -> tuple[float, Grid, Vector, Vector]:
        """HGR by the grid, the grid, and the values of both functions in its cells."""
        assert self.grid is not None
        grid = self.grid()
        value, f, g = grid.solve()
        return value, grid, f, g

    @property
    def hgr(self) -> float:
        """HGR: exact where there is a formula, else by the grid."""
        return self.solution[0] if self.exact is None else self.exact

    def optimal(self, x: Vector, y: Vector) -> Sample:
        """Return the functions that attain HGR at a sample: without a grid, both are linear."""
        if self.phases is not None:
            x, y = self.phases(x, y)
        if self.grid is None:
            return x, y
        _, grid, f, g = self.solution
        return np.interp(x, grid.x, f), np.interp(y, grid.y, g)


@dataclasses.dataclass(frozen=True)
class Grid:
    """Probabilities ``(r, c)`` of cells, and x ``(r,)`` and y ``(c,)`` in their middle."""

    probabilities: Matrix
    x: Vector
    y: Vector

    def solve(self) -> tuple[float, Vector, Vector]:
        """Return the largest correlation of functions of the cells, and both functions."""
        p, q = self.probabilities.sum(axis=1), self.probabilities.sum(axis=0)
        ratio = self.probabilities / np.sqrt(np.outer(p, q)) - np.sqrt(np.outer(p, q))
        left, values, right = np.linalg.svd(ratio)
        return float(values[0]), left[:, 0] / np.sqrt(p), right[0] / np.sqrt(q)


def conditional_grid(
    x_quantile: Callable[[Vector], Vector],
    y_cdf: Callable[[Vector, Vector], Vector],
    y_range: tuple[float, float],
) -> Grid:
    """Return the grid of a law by the quantiles of x and the distribution of y for each x.

    Args:
      x_quantile: function of probabilities.
      y_cdf: function ``(y, x)`` that broadcasts.
      y_range: bounds of y, which hold all but 1e-9.
    """
    node, weight = np.polynomial.legendre.leggauss(NODES)
    u = (np.arange(CELLS)[:, None] + (node + 1) / 2) / CELLS
    x, weight = x_quantile(u.ravel()), np.tile(weight / 2, CELLS)
    # Dense near 0, where scale mixtures have much of their mass.
    first, last = (float(np.arcsinh(10 * end)) for end in y_range)
    lattice = np.sinh(np.linspace(first, last, LATTICE)) / 10
    margin = (weight @ y_cdf(lattice[None, :], x[:, None])) / CELLS
    edges = np.interp(np.arange(1, CELLS) / CELLS, margin, lattice)
    below = np.pad(y_cdf(edges[None, :], x[:, None]), [(0, 0), (1, 1)], constant_values=(0, 1))
    cells = (weight[:, None] * np.diff(below, axis=1)).reshape(CELLS, NODES, CELLS).sum(axis=1)
    middles = np.interp((np.arange(CELLS) + 0.5) / CELLS, margin, lattice)
    return Grid(cells / cells.sum(), x_quantile((np.arange(CELLS) + 0.5) / CELLS), middles)


def density_grid(
    density: Callable[[Vector, Vector], Matrix],
    x_range: tuple[float, float],
    y_range: tuple[float, float],
) -> Grid:
    """Return the grid of a law by its density, a function ``(x, y)`` that broadcasts."""
    axes = [lo + (np.arange(LATTICE) + 0.5) * (hi - lo) / LATTICE for lo, hi in (x_range, y_range)]
    mass = density(axes[0][:, None], axes[1][None, :])
    mass = mass / mass.sum()
    middles = []
    for axis, values in enumerate(axes):
        margin = mass.sum(axis=1 - axis)
        cell = np.minimum(((np.cumsum(margin) - margin / 2) * CELLS).astype(int), CELLS - 1)
        starts = np.unique(cell, return_index=True)[1]
        mass = np.add.reduceat(mass, starts, axis=axis)
        middles.append(np.add.reduceat(margin * values, starts) / np.add.reduceat(margin, starts))
    return Grid(mass, middles[0], middles[1])


def table_law(name: str, table: Any, exact: float | None = None) -> Law:
    """Return the law of a table of probabilities (or counts) of two discrete variables."""
    p = np.asarray(table, np.float64)
    p = p / p.sum()
    grid = Grid(p, np.arange(p.shape[0], dtype=float), np.arange(p.shape[1], dtype=float))

    def sample(rng: Random, n: int) -> Sample:
        cell = rng.choice(p.size, n, p=p.ravel())
        return (cell // p.shape[1]).astype(float), (cell % p.shape[1]).astype(float)

    return Law(name, sample, lambda: grid, exact)


def noisy_law(
    name: str,
    x: Any,
    mean: Callable[[Vector], Vector],
    scale: Callable[[Vector], Vector] | float,
    y_range: tuple[float, float],
    exact: float | None = None,
) -> Law:
    """Return the law of ``y = mean(x) + scale(x) e``, with e standard normal and x of SciPy's."""
    spread = scale if callable(scale) else (lambda x: np.full_like(x, scale))

    def sample(rng: Random, n: int) -> Sample:
        values = x.rvs(n, random_state=rng)
        return values, mean(values) + spread(values) * rng.standard_normal(n)

    def cdf(y: Vector, x: Vector) -> Vector:
        below: Vector = stats.norm.cdf((y - mean(x)) / spread(x))
        return below

    return Law(name, sample, lambda: conditional_grid(x.ppf, cdf, y_range), exact)


def phased_law(
    name: str,
    phase: Callable[[Vector], Vector],
    mean: Callable[[Vector], Vector],
    scale: float,
    draw: Callable[[Random, int], Vector] | None = None,
) -> Law:
    """Return the law of ``y = mean(phase(x)) + scale e``, with e standard normal.

    HGR is that of the phase and y, however often x comes back to the same phase: the grid is of one
    period.

    Args:
      name: name of the law.
      phase: function of x, uniform on 0 to 1.
      mean: function of the phase, from -1 to 1.
      scale: of the noise.
      draw: function ``(rng, n)`` that returns x; None for uniform x on 0 to 1.
    """

    def sample(rng: Random, n: int) -> Sample:
        x = rng.uniform(size=n) if draw is None else draw(rng, n)
        return x, mean(phase(x)) + scale * rng.standard_normal(n)

    reach = 1 + 7 * scale
    of_phase = noisy_law(name, stats.uniform(), mean, scale, (-reach, reach))
    return dataclasses.replace(of_phase, sample=sample, phases=lambda x, y: (phase(x), y))


def copula_law(
    name: str,
    density: Callable[[Vector, Vector], Matrix],
    exact: float | None = None,
    *,
    attained: bool = True,
) -> Law:
    """Return the law of a bounded copula density on the unit square, sampled by rejection."""
    u = (np.arange(200) + 0.5) / 200
    bound = 1.02 * float(density(u[:, None], u[None, :]).max())

    def sample(rng: Random, n: int) -> Sample:
        kept: list[Matrix] = []
        while sum(part.shape[1] for part in kept) < n:
            x, y, height = rng.uniform(size=(3, 2 * n))
            kept.append(np.stack([x, y])[:, height * bound < density(x, y)])
        x, y = np.concatenate(kept, axis=1)[:, :n]
        return x, y

    grid = functools.partial(density_grid, density, (0.0, 1.0), (0.0, 1.0))
    return Law(name, sample, grid, exact, attained)


def mixture_law(
    name: str,
    parts: Sequence[tuple[float, tuple[float, float], float, float]],
    reach: float,
    exact: float | None = None,
) -> Law:
    """Return a mixture of normal pairs: weights, means, standard deviations, correlations."""
    weights = np.array([part[0] for part in parts])

    def sample(rng: Random, n: int) -> Sample:
        part = rng.choice(len(parts), n, p=weights)
        means = np.array([part[1] for part in parts])[part]
        scale, rho = (np.array([each[i] for each in parts])[part] for i in (2, 3))
        z, w = rng.standard_normal((2, n))
        return means[:, 0] + scale * z, means[:, 1] + scale * (rho * z + np.sqrt(1 - rho**2) * w)

    def density(x: Vector, y: Vector) -> Matrix:
        total = np.zeros(np.broadcast(x, y).shape)
        for weight, (m, k), scale, rho in parts:
            a, b = (x - m) / scale, (y - k) / scale
            form = (a**2 - 2 * rho * a * b + b**2) / (1 - rho**2)
            total += weight * np.exp(-form / 2) / (scale**2 * np.sqrt(1 - rho**2))
        return total

    grid = functools.partial(density_grid, density, (-reach, reach), (-reach, reach))
    return Law(name, sample, grid, exact)


def shared_law(
    name: str, draw: Callable[[Random, int, int], Vector], parts: tuple[int, int, int]
) -> Law:
    """Return the law of two sums of independent variables that share some of them.

    Args:
      name: name of the law.
      draw: function ``(rng, n, count)`` that returns n sums of ``count`` variables.
      parts: numbers of variables in x only, in both, and in y only.

    Source: Dembo, Kagan & Shepp, "Remarks on the maximum correlation coefficient" (2001).
    """
    first, both, second = parts

    def sample(rng: Random, n: int) -> Sample:
        common = draw(rng, n, both)
        return common + draw(rng, n, first), common + draw(rng, n, second)

    return Law(name, sample, None, both / np.sqrt((first + both) * (both + second)))


def _order_statistics(i: int, j: int, of: int) -> Law:
    """The i-th and j-th least of independent uniform variables: HGR is their correlation."""

    def sample(rng: Random, n: int) -> Sample:
        ordered = np.sort(rng.uniform(size=(n, of)), axis=1)
        return ordered[:, i - 1], ordered[:, j - 1]

    exact = np.sqrt(i * (of + 1 - j) / (j * (of + 1 - i)))
    name = f"extremes of {of}" if (i, j) == (1, of) else f"places {i} and {j} of {of}"
    return Law(name, sample, None, float(exact))


def _kibble(rho: float) -> Law:
    """Sums of two squares of normal pairs: exponential variables, HGR the squared correlation."""

    def sample(rng: Random, n: int) -> Sample:
        z, w = rng.standard_normal((2, 2, n))
        y = rho * z + np.sqrt(1 - rho**2) * w
        return (z**2).sum(axis=0), (y**2).sum(axis=0)

    return Law("exponential pair", sample, None, rho**2)


def _marshall_olkin(alpha: float, beta: float) -> Law:
    def sample(rng: Random, n: int) -> Sample:
        first, second, both = rng.exponential(size=(3, n))
        x = np.minimum(first / (1 - alpha), both / alpha)
        y = np.minimum(second / (1 - beta), both / beta)
        return x, y

    return Law("Marshall-Olkin", sample, None, np.sqrt(alpha * beta), attained=False)


def _clayton(theta: float) -> Law:
    def sample(rng: Random, n: int) -> Sample:
        u, w = rng.uniform(size=(2, n))
        v = (u**-theta * (w ** (-theta / (1 + theta)) - 1) + 1) ** (-1 / theta)
        return u, v

    return Law("Clayton", sample, None, np.pi / 4, attained=False)


def _log_link() -> Law:
    def sample(rng: Random, n: int) -> Sample:
        x = rng.standard_normal(n)
        return x, rng.poisson(np.exp(x)).astype(float)

    return Law("Poisson of a normal", sample, None, 1.0, attained=False)


def _ring(width: float) -> Law:
    def sample(rng: Random, n: int) -> Sample:
        angle, radius = rng.uniform(0, 2 * np.pi, n), 1 + width * rng.standard_normal(n)
        return radius * np.cos(angle), radius * np.sin(angle)

    def density(x: Vector, y: Vector) -> Matrix:
        r = np.hypot(x, y)
        both = np.exp(-((r - 1) ** 2) / (2 * width**2)) + np.exp(-((r + 1) ** 2) / (2 * width**2))
        return both / np.maximum(r, 1e-3)

    reach = 1 + 5 * width
    return Law("ring", sample, lambda: density_grid(density, (-reach, reach), (-reach, reach)))


def _disc() -> Law:
    def sample(rng: Random, n: int) -> Sample:
        angle, radius = rng.uniform(0, 2 * np.pi, n), np.sqrt(rng.uniform(size=n))
        return radius * np.cos(angle), radius * np.sin(angle)

    def density(x: Vector, y: Vector) -> Matrix:
        return (x**2 + y**2 < 1).astype(float)

    return Law("disc", sample, lambda: density_grid(density, (-1.0, 1.0), (-1.0, 1.0)), 1 / 3)


def _binary(slope: float) -> Law:
    def sample(rng: Random, n: int) -> Sample:
        x = rng.standard_normal(n)
        return x, (rng.uniform(size=n) < 1 / (1 + np.exp(-slope * x))).astype(float)

    def grid() -> Grid:
        x = stats.norm.ppf((np.arange(4 * CELLS) + 0.5) / (4 * CELLS))
        one = 1 / (1 + np.exp(-slope * x))
        return Grid(np.stack([1 - one, one], axis=1) / len(x), x, np.arange(2.0))

    return Law("binary outcome", sample, grid)


def _checkerboard(columns: int, rows: int, share: float) -> Law:
    def density(x: Vector, y: Vector) -> Matrix:
        parity = (np.floor(columns * x) + np.floor(rows * y)) % 2
        return 1 + share * (1 - 2 * parity)

    return copula_law(f"checkerboard {columns} x {rows}", density, share)


def _frank(theta: float) -> Callable[[Vector, Vector], Matrix]:
    def density(u: Vector, v: Vector) -> Matrix:
        a, b = np.exp(-theta * u), np.exp(-theta * v)
        base = 1 - np.exp(-theta)
        return theta * base * a * b / (base - (1 - a) * (1 - b)) ** 2

    return density


def _plackett(theta: float) -> Callable[[Vector, Vector], Matrix]:
    def density(u: Vector, v: Vector) -> Matrix:
        s = 1 + (theta - 1) * (u + v)
        top = theta * (1 + (u - 2 * u * v + v) * (theta - 1))
        return top / (s**2 - 4 * u * v * theta * (theta - 1)) ** 1.5

    return density


def _half_waves(count: int, scale: float) -> Law:
    """Noisy cosine; of its half waves, as high as each other, the phase is that of one."""

    def phase(x: Vector) -> Vector:
        folded: Vector = np.abs((count * x + 1) % 2 - 1)
        return folded

    return phased_law(f"{count} half waves", phase, lambda t: np.cos(np.pi * t), scale)


def _season(period: int, scale: float) -> Law:
    """A wave over a column of dates: with more rows come more periods."""

    def days(_: Random, n: int) -> Vector:
        return np.arange(n, dtype=np.float64)

    return phased_law("season", lambda day: day % period / period, _wave, scale, days)


def _sine_of_normal(speed: float, scale: float) -> Law:
    """The phase of a fast wave of a normal variable is all but uniform."""

    def phase(x: Vector) -> Vector:
        of_wave: Vector = speed * x / (2 * np.pi) % 1
        return of_wave

    return phased_law(
        "sine of a normal", phase, _wave, scale, lambda rng, n: rng.standard_normal(n)
    )


def _sawtooth(count: int, scale: float) -> Law:
    return phased_law(f"sawtooth of {count}", lambda x: count * x % 1, lambda t: t, scale)


def _staircase(count: int, scale: float) -> Law:
    """Steps of equal width and different heights, in random order."""
    assert CELLS % count == 0
    heights = np.random.default_rng(count).permutation(count) / (count - 1)

    def middle(x: Vector) -> Vector:
        of_step: Vector = (np.floor(count * x) + 0.5) / count
        return of_step

    def height(t: Vector) -> Vector:
        return heights[(count * t).astype(int)]

    return phased_law(f"staircase of {count}", middle, height, scale)


def _tied_staircase(count: int, share: float) -> Law:
    """Rising steps, where a share of the rows is on the step of x and the others anywhere."""

    def step(x: Vector) -> Vector:
        return np.floor(count * x)

    def sample(rng: Random, n: int) -> Sample:
        x = rng.uniform(size=n)
        return x, np.where(rng.uniform(size=n) < share, step(x), rng.integers(0, count, n))

    name = f"tied staircase of {count}"
    return Law(name, sample, exact=share, phases=lambda x, y: (step(x), y))


def _square(name: str, low: float, width: float, share: float) -> Law:
    """A share of the rows in a small square, the others independent and uniform on 0 to 1."""
    both = share + (1 - share) * (width**2 if low < 1 else 0)
    either = share + (1 - share) * (width if low < 1 else 0)

    def inside(z: Vector) -> Vector:
        return ((low <= z) & (z < low + width)).astype(np.float64)

    def sample(rng: Random, n: int) -> Sample:
        rows = rng.permutation(n) < round(share * n)
        x, y = np.where(rows, low + width * rng.uniform(size=(2, n)), rng.uniform(size=(2, n)))
        return x, y

    hgr = (both - either**2) / (either * (1 - either))
    return Law(name, sample, exact=hgr, phases=lambda x, y: (inside(x), inside(y)))


def _wave(x: Vector) -> Vector:
    height: Vector = np.sin(2 * np.pi * x)
    return height


def laws() -> list[Law]:
    """Return all laws: dependent, first those that attain their HGR."""
    uniform, normal = stats.uniform(), stats.norm()
    wave = functools.partial(np.multiply, 2 * np.pi)
    normals = [
        noisy_law(
            f"normal .{round(10 * rho)}", normal, functools.partial(np.multiply, rho),
            np.sqrt(1 - rho**2), (-7, 7), rho,
        )
        for rho in (0.3, 0.6, 0.9)
    ]  # fmt: skip
    return [
        *normals,
        copula_law("FGM", lambda u, v: 1 + (1 - 2 * u) * (1 - 2 * v), 1 / 3),
        copula_law("waves", lambda u, v: 1 + 0.9 * np.cos(wave(u)) * np.cos(wave(v)), 0.45),
        copula_law("tied waves", lambda u, v: 1 + 0.9 * np.cos(wave(u - v)), 0.45),
        copula_law(
            "fast waves", lambda u, v: 1 + 0.9 * np.cos(wave(2 * u)) * np.cos(wave(3 * v)), 0.45
        ),
        _checkerboard(4, 4, 0.5),
        _checkerboard(6, 2, 0.6),
        mixture_law(
            "crossed normals", [(0.5, (0, 0), 1, 0.8), (0.5, (0, 0), 1, -0.8)], 6.5, 0.64
        ),
        mixture_law("two clusters", [(0.5, (-1, -1), 0.8, 0.0), (0.5, (1, 1), 0.8, 0.0)], 6.0),
        mixture_law("rare cluster", [(0.95, (0, 0), 1, 0.0), (0.05, (3, 3), 0.5, 0.0)], 6.5),
        noisy_law("parabola, uniform", stats.uniform(-1, 2), lambda x: x**2, 0.2, (-1.3, 2.3)),
        noisy_law("cosine", normal, lambda x: _wave(x / np.pi + 0.25), 0.6, (-5, 5)),
        noisy_law("sine", uniform, _wave, 0.7, (-5.5, 5.5)),
        noisy_law("sine, 2 periods", uniform, lambda x: _wave(2 * x), 0.5, (-4.5, 4.5)),
        noisy_law("sine, 5 periods", uniform, lambda x: _wave(5 * x), 0.5, (-4.5, 4.5)),
        noisy_law("scale", normal, np.zeros_like, lambda x: 0.1 + np.abs(x), (-40, 40)),
        noisy_law("scale by exp", normal, np.zeros_like, lambda x: np.exp(x / 2), (-60, 60)),
        noisy_law("jump", uniform, lambda x: (x > 0.7).astype(float), 0.5, (-3.5, 4.5)),
        noisy_law("steps", uniform, lambda x: 2 * np.floor(5 * x) % 5, 1.0, (-7, 11)),
        _ring(0.2),
        _disc(),
        _order_statistics(1, 5, 5),
        _order_statistics(2, 3, 4),
        _kibble(0.8),
        shared_law(
            "Poisson sums", lambda rng, n, k: rng.poisson(0.5 * k, n).astype(float), (2, 2, 4)
        ),
        shared_law(
            "binomial sums", lambda rng, n, k: rng.binomial(k, 0.4, n).astype(float), (3, 2, 1)
        ),
        shared_law("gamma sums", lambda rng, n, k: rng.gamma(0.5 * k, size=n), (1, 2, 3)),
        table_law("table 3 x 4", [[8, 2, 1, 4], [1, 6, 2, 3], [2, 1, 7, 3]]),
        table_law("table 6 x 5", 1 + 3 * np.exp(-(np.arange(6)[:, None] - np.arange(5)) ** 2)),
        _binary(1.5),
        copula_law("Frank", _frank(4.0)),
        copula_law("Plackett", _plackett(8.0)),
        _marshall_olkin(0.5, 0.7),
        _clayton(1.0),
        _log_link(),
    ]  # fmt: skip


def oscillating_laws() -> list[Law]:
    """Return laws of functions that come back to the same heights, and of few rows that decide.

    Every second one is among the `TUNED`.
    """
    waves = (
        *((3, 0.5), (5, 0.3), (7, 0.5), (10, 0.7), (14, 0.5), (20, 0.3), (28, 0.5), (31, 0.7)),
        *((40, 0.5), (56, 0.3), (80, 0.5)),
    )
    return [
        *(_half_waves(count, scale) for count, scale in waves),
        _season(150, 0.5),
        _sawtooth(8, 0.15),
        _sawtooth(20, 0.3),
        _staircase(12, 0.15),
        _staircase(20, 0.2),
        _tied_staircase(6, 0.7),
        _square("far cluster", 5.0, 0.1, 0.02),
        _square("small square", 0.7, 0.02, 0.02),
        _sine_of_normal(4.0, 0.5),
    ]
