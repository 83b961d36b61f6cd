"""How exact the estimates are: ``python -m bench.accuracy [--quick] [--write]``.

Prints, for every property that the package promises, the figure measured and its bound, and
exits with 1 if a bound is exceeded.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from tqdm import tqdm

import hgr_jax
from bench import reference
from bench.data import DISTRIBUTIONS, awkward_pair
from bench.report import MarkdownReport, run_bench
from hgr_jax.core.canonical import SOLVERS


@dataclasses.dataclass(frozen=True)
class Figure:
    """Something measured, with the bound it must keep."""

    name: str
    value: float
    bound: float

    @property
    def holds(self) -> bool:
        """Whether the value is a number within the bound."""
        return self.value <= self.bound


def value_errors(
    dtype: str, rows: tuple[int, ...], degrees: tuple[tuple[int, int], ...], seeds: int = 1
) -> np.ndarray:
    """Absolute errors of `hgr_jax.kb` against the reference, of every distribution."""
    errors = []
    cases = [(h, k, n) for h, k in degrees for n in rows]
    with jax.enable_x64(dtype == "float64"):
        for h, k, n in tqdm(cases, desc=f"values, {dtype}", leave=False):
            for name in DISTRIBUTIONS:
                for seed in range(seeds):
                    a, b = (x.astype(dtype) for x in awkward_pair(name, n, seed))
                    value = hgr_jax.kb(a, b, h, k)
                    if value.dtype != dtype:
                        raise AssertionError(f"{value.dtype} from {dtype}")
                    errors.append(abs(float(value) - reference.kb(a, b, h, k)))
            # Compiled programs hold memory maps, of which a process may have only so many.
            jax.clear_caches()
    return np.array(errors)


def value_figures(quick: bool) -> Iterator[Figure]:
    """Exactness of the value, per dtype."""
    if quick:
        rows: tuple[int, ...] = (10, 20_000)
        degrees: tuple[tuple[int, int], ...] = ((8, 3),)
    else:
        rows = (10, 30, 100, 1000, 10_000, 100_000)
        degrees = (*((d, d) for d in range(1, 9)), (2, 3), (8, 2), (2, 8), (1, 8))
    for dtype, median, largest in (("float32", 1e-6, 1e-4), ("float64", 1e-9, 1e-9)):
        errors = value_errors(dtype, rows, degrees, seeds=1 if quick else 3)
        yield Figure(f"value, {dtype}, median error", float(np.median(errors)), median)
        yield Figure(f"value, {dtype}, largest error", float(errors.max()), largest)


def invariance_figures(largest_degree: int) -> list[Figure]:
    """Exact properties of the measure, in float64."""
    a, b = awkward_pair("uniform", 500)
    permutation = np.random.default_rng(1).permutation(500)
    kb = hgr_jax.kb
    value = float(kb(a, b, 4, 3))

    def differs(other: jax.Array) -> float:
        return abs(float(other) - value)

    pearson = abs(np.corrcoef(a, b)[0, 1])
    degrees = range(1, largest_degree + 1)
    grid = np.array([[float(kb(a, b, h, k)) for k in degrees] for h in degrees])
    steps = np.concatenate([np.diff(grid, axis=0).ravel(), np.diff(grid, axis=1).ravel()])
    excess = max(float(hgr_jax.sk(a, b, d)) - grid[d - 1, d - 1] for d in degrees)
    perfect = float(kb(a, 2 - a + 3 * a**4, 4, 1))
    return [
        Figure("degree 1 is |Pearson|", abs(float(kb(a, b, 1, 1)) - pearson), 1e-12),
        Figure("kb(a, b, h, k) = kb(b, a, k, h)", differs(kb(b, a, 3, 4)), 1e-12),
        Figure("affine maps", differs(kb(3 - 7 * a, 1e3 * b + 5, 4, 3)), 1e-10),
        Figure("order of rows", differs(kb(a[permutation], b[permutation], 4, 3)), 1e-12),
        Figure("largest decrease when a degree grows", max(0.0, -steps.min()), 1e-12),
        Figure("largest excess of sk over kb", max(0.0, excess), 1e-12),
        Figure("a perfect polynomial relation, below 1", 1 - perfect, 1e-12),
        Figure("a perfect polynomial relation, above 1", perfect - 1, 0.0),
    ]


def derivative_figures(solvers: tuple[str, ...]) -> list[Figure]:
    """Derivatives against central differences and the paper's gradient, in float64."""
    a, b = (jnp.asarray(x) for x in awkward_pair("uniform", 60))
    rng = np.random.default_rng(2)
    args = (a, b, jnp.asarray(rng.uniform(0.2, 1, 60)))
    direction = tuple(jnp.asarray(x) for x in rng.standard_normal((3, 60)))
    errors: dict[str, float] = {}
    for solver in solvers:

        def value(a: jax.Array, b: jax.Array, w: jax.Array, solver: str = solver) -> jax.Array:
            return hgr_jax.kb(a, b, 3, 2, weights=w, solver=solver)

        def fitted(a: jax.Array, b: jax.Array, w: jax.Array, solver: str = solver) -> jax.Array:
            fit = hgr_jax.kb_fit(a, b, 3, 2, weights=w, solver=solver)
            return jnp.concatenate([fit.alpha, fit.beta, fit.f(jnp.linspace(-1, 1, 5))])

        for name, function in (
            ("value", value),
            ("gradient", jax.grad(value, argnums=(0, 1, 2))),
            ("alpha, beta, f(x)", fitted),
        ):
            found = _slope_error(function, args, direction)
            errors[name] = max(found, errors.get(name, 0.0))
    figures = [Figure(f"derivative of {name}, relative", e, 1e-6) for name, e in errors.items()]
    fixed = _fixed_coefficients(a, b)
    return [*figures, Figure("gradient against coefficients held fixed", fixed, 1e-10)]


def _slope_error(
    function: Callable[..., object],
    args: tuple[jax.Array, ...],
    direction: tuple[jax.Array, ...],
    step: float = 1e-5,
) -> float:
    """Largest error of a directional derivative, relative to its size, by central differences."""

    @jax.jit
    def along(t: float) -> jax.Array:
        moved = (x + t * d for x, d in zip(args, direction, strict=True))
        return ravel_pytree(function(*moved))[0]

    exact = np.asarray(jax.jvp(along, (0.0,), (1.0,))[1])
    numeric = np.asarray(along(step) - along(-step)) / (2 * step)
    return float(np.abs(exact - numeric).max() / np.abs(numeric).max())


def _fixed_coefficients(a: jax.Array, b: jax.Array) -> float:
    fit = hgr_jax.kb_fit(a, b, 3, 2)

    def paper(a: jax.Array, b: jax.Array) -> jax.Array:
        f = hgr_jax.polynomial_kernel(a, 3) @ fit.alpha
        g = hgr_jax.polynomial_kernel(b, 2) @ fit.beta
        return jnp.corrcoef(f, g)[0, 1]

    ours = jax.grad(lambda a, b: hgr_jax.kb(a, b, 3, 2), argnums=(0, 1))(a, b)
    theirs = jax.grad(paper, argnums=(0, 1))(a, b)
    return max(float(jnp.abs(x - y).max()) for x, y in zip(ours, theirs, strict=True))


def accuracy(report: MarkdownReport, quick: bool) -> bool:
    """Every figure; whether all keep their bounds."""

    def rows() -> Iterator[tuple[list[str], bool]]:
        figures = [*value_figures(quick)]
        with jax.enable_x64(True):
            figures += invariance_figures(2 if quick else 6)
            figures += derivative_figures(SOLVERS[:1] if quick else SOLVERS)
        for figure in figures:
            yield [figure.name, f"{figure.value:.1e}", f"{figure.bound:.0e}"], figure.holds

    return report.judged_table(("property", "measured", "bound"), rows())


def main(arguments: Sequence[str] | None = None) -> int:
    """Print every figure; 1 if one exceeds its bound."""
    return run_bench(__doc__, {"accuracy": accuracy}, arguments)


if __name__ == "__main__":
    sys.exit(main())
