"""HGR of ranks: against a reference in NumPy, laws with known HGR, and its promises."""

from __future__ import annotations

import importlib
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest

import hgr_jax
from bench.laws import laws
from hgr_jax.core.ranks import Blocks, average_of_blocks, largest_size

hgr_module = importlib.import_module("hgr_jax.measures.hgr")

LAWS = {law.name: law for law in laws()}
SIZES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]


ROWS = 400
"""Of most tests, as each length has programs of its own."""

slopes = jax.jit(jax.value_and_grad(hgr_jax.hgr, (0, 1)))


def parabola(rows: int = ROWS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(rows)
    return a, a**2 + 0.5 * rng.standard_normal(rows)


def reference(
    a: np.ndarray,
    b: np.ndarray,
    degrees: tuple[int, int] | None = None,
    weights: np.ndarray | None = None,
) -> float:
    """The same estimate, as the docstring of the module says, in plain NumPy."""
    share = np.ones(len(a)) if weights is None else np.asarray(weights, float)
    share = share / share.sum()
    n = 1 / np.sum(share**2)

    def orthonormal(x: np.ndarray, size: int) -> np.ndarray:
        if x.dtype.kind == "U":  # a category: an orthonormal basis of all functions of its levels
            raw = [(x == level) * 1.0 for level in np.unique(x)[1:]]
        else:
            less = ((x < x[:, None]) * share).sum(axis=1)
            u = less + ((x == x[:, None]) * share).sum(axis=1) / 2
            raw = [np.sqrt(12.6) * np.sin(np.arcsin(2 * u - 1) / 3), np.sqrt(180) * (u - 0.5) ** 2]
            raw += [np.sqrt(2) * np.cos(j * np.pi * u) for j in range(3, size + 1)]
            raw = raw[:size]
        raw = [each - share @ each for each in raw]
        least = max(share @ each**2 for each in raw) / np.sqrt(n)
        basis: list[np.ndarray] = []
        for each in raw:
            for _ in range(2):
                for q in basis:
                    each = each - q * (share @ (q * each))
            variance = share @ each**2
            if variance >= least > 1e-9:
                basis.append(each / np.sqrt(variance))
        return np.array(basis).reshape(-1, len(x))

    top = max(size for size in SIZES if size <= max(1, min(6 * n**0.25, n / 8)))
    h, k = degrees or (top, top)
    f, g = orthonormal(a, h), orthonormal(b, k)
    m = (f * share) @ g.T
    if not m.size:
        return 0.0
    blocks: dict[tuple[int, int], float] = {}
    sizes = [size for size in SIZES if size <= top]
    of_a, of_b = (sizes if x.dtype.kind != "U" else [len(e)] for x, e in ((a, f), (b, g)))
    levels = "U" in (a.dtype.kind, b.dtype.kind)
    pairs = [(i, j) for i in of_a for j in of_b if levels or min(i, j) <= 3 or i == j]
    for i, j in [degrees] if degrees else pairs:
        value = np.linalg.norm(m[:i, :j], 2) ** 2
        blocks.setdefault((min(i, len(f)), min(j, len(g))), min(value, 1 - 2**-52))
    h_, k_ = np.array(list(blocks)).T
    squares = np.array(list(blocks.values()))
    a_, b_ = (h_ - 1) / n, (k_ - 1) / n
    p = squares - (1 - a_) * b_ - (1 - b_) * a_
    inner = p**2 - 4 * (1 - a_) * (1 - b_) * a_ * b_
    with np.errstate(invalid="ignore"):
        r = (p + np.sqrt(inner)) / (2 * (1 - a_) * (1 - b_))
    values = np.sqrt(np.where((inner >= 0) & (p > 0), np.minimum(r, 1), 0))
    if degrees:
        return float(values[0])
    statistic, further = -n * np.log1p(-squares), h_ + k_ - 1
    score = statistic - 4 * further
    best = max(score.max(), -1)
    total = np.exp((score - best) / 2).sum()
    dependence = total / (total + np.exp((-1 - best) / 2))
    weak = np.exp(-max(score.max(), 0) / 20)
    weights = np.exp((statistic - (2 + 2 * weak) * further) / 2 - statistic.max() / 2)
    return float(dependence * (weights * values).sum() / weights.sum())


@pytest.mark.parametrize(
    "name", ["normal .6", "steps", "Poisson sums", "table 3 x 4", "binary outcome", "fast waves"]
)
@pytest.mark.parametrize("rows", [40, ROWS])
def test_it_is_the_reference(name: str, rows: int) -> None:
    a, b = LAWS[name].sample(np.random.default_rng(rows), rows)
    with jax.enable_x64(True):
        assert hgr_jax.hgr(a, b) == pytest.approx(reference(a, b), abs=1e-9)
        assert hgr_jax.hgr(a, b, degrees=(4, 3)) == pytest.approx(reference(a, b, (4, 3)), abs=1e-9)
    assert hgr_jax.hgr(a, b) == pytest.approx(reference(a, b), abs=2e-5)


@pytest.mark.parametrize("name", ["normal .6", "table 3 x 4", "fast waves"])
@pytest.mark.parametrize("rows", [60, ROWS])
def test_with_weights_it_is_the_reference(name: str, rows: int) -> None:
    rng = np.random.default_rng(rows)
    a, b = LAWS[name].sample(rng, rows)
    w = rng.exponential(size=rows)
    with jax.enable_x64(True):
        value = hgr_jax.hgr(a, b, weights=w)
        assert value == pytest.approx(reference(a, b, weights=w), abs=1e-9)
        value = hgr_jax.hgr(a, b, weights=w, degrees=(4, 3))
        assert value == pytest.approx(reference(a, b, (4, 3), w), abs=1e-9)
    value = hgr_jax.hgr(a, b, weights=w)
    assert value == pytest.approx(reference(a, b, weights=w), abs=2e-5)
    scanned = hgr_jax.scan({"a": a, "b": b}, weights=w).correlation[0, 1]
    assert value == pytest.approx(scanned, abs=1e-3)


def test_equal_weights_are_none() -> None:
    a, b = parabola()
    plain = jax.tree.leaves((hgr_jax.hgr(a, b), hgr_jax.hgr_fit(a, b)))
    for scale in (1e-30, 3.3, 1e38):
        w = np.full(ROWS, scale, np.float32)
        same = hgr_jax.hgr(a, b, weights=w), hgr_jax.hgr_fit(a, b, weights=w)
        for x, y in zip(plain, jax.tree.leaves(same), strict=True):
            np.testing.assert_allclose(y, x, atol=1e-6)


@pytest.mark.parametrize("rows", [60, 28_000])
def test_a_row_of_weight_0_counts_as_dropped(rows: int) -> None:
    rng = np.random.default_rng(rows)
    a, b = parabola(rows)
    keep = rng.uniform(size=rows) < 0.6
    w = rng.exponential(size=rows) * keep
    expected = hgr_jax.hgr_fit(a[keep], b[keep], weights=w[keep])
    dropped = [(np.where(keep, a, np.nan), np.where(keep, b, -np.inf)), (a, b)]
    for x, y in dropped:
        fit = hgr_jax.hgr_fit(x, y, weights=w)
        for name in ("correlation", "raw", "standard_error", "held_out", "pvalue"):
            assert getattr(fit, name) == pytest.approx(float(getattr(expected, name)), abs=2e-5)
        np.testing.assert_allclose(fit.interval(), expected.interval(), atol=2e-5)
        points = np.linspace(-3, 3, 50)
        np.testing.assert_allclose(fit.f(points), expected.f(points), atol=1e-3)
    for x, y in dropped:
        _, gradients = slopes(x, y, weights=w)
        for gradient in gradients:
            assert not np.any(gradient[~keep])
        if rows < 1000:  # among many rows near ties have huge slopes
            _, alone = slopes(a[keep], b[keep], weights=w[keep])
            for gradient, of_kept in zip(gradients, alone, strict=True):
                np.testing.assert_allclose(gradient[keep], of_kept, rtol=0.02, atol=1e-5)


def test_the_gradient_of_weights_is_that_of_finite_differences() -> None:
    a, b = parabola(120)
    w = np.random.default_rng(1).exponential(size=120)
    w[3] = 0
    with jax.enable_x64(True):
        value = jax.jit(lambda w: hgr_jax.hgr(a, b, weights=w))
        gradient = jax.grad(value)(w)
        assert np.sum(gradient * w) == pytest.approx(0, abs=1e-12)  # only ratios matter
        for row in (0, 3, 40, 119):
            moved, back = (1e-7 * (np.arange(120) == row) * side for side in (1, w[row] > 0))
            difference = (value(w + moved) - value(w - back)) / (moved + back).sum()
            assert gradient[row] == pytest.approx(float(difference), rel=1e-3, abs=1e-7)


def test_weights_under_transformations_of_jax() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 3, 100)).astype(np.float32)
    w = rng.exponential(size=(3, 100)).astype(np.float32) * (rng.random((3, 100)) < 0.7)
    y += x**2

    def ends(a: jax.Array, b: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
        return (hgr_jax.hgr(a, b, weights=w), *hgr_jax.hgr_fit(a, b, weights=w).interval())

    alone = np.array([ends(*each) for each in zip(x, y, w, strict=True)])
    np.testing.assert_allclose(np.array(jax.jit(jax.vmap(ends))(x, y, w)).T, alone, atol=2e-5)


@jax.jit
def slopes_of_weights(a: jax.Array, b: jax.Array, w: jax.Array) -> tuple[jax.Array, Any]:
    def value(a: jax.Array, w: jax.Array) -> jax.Array:
        return hgr_jax.hgr(a, b, weights=w)

    return jax.value_and_grad(value, (0, 1))(a, w)


@pytest.mark.parametrize(
    "w", [np.zeros(9), np.r_[-1.0, np.ones(8)], np.full(9, np.nan), np.r_[1e9, np.ones(8)]]
)
def test_impossible_weights_that_are_traced_give_nan(w: np.ndarray) -> None:
    """So do four effective rows."""
    a, b = parabola(9)
    value, gradients = slopes_of_weights(a, b, w)
    assert np.isnan(value)
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    if w.max() > 1:
        assert np.isnan(hgr_jax.hgr_fit(a, b, weights=w).interval()).all()


def test_a_weighted_fit_has_effective_rows() -> None:
    a, b = parabola()
    w = np.random.default_rng(2).exponential(size=ROWS)
    fit = hgr_jax.hgr_fit(a, b, weights=w)
    share = w / w.sum()
    assert fit.rows == pytest.approx(1 / np.sum(share**2), rel=1e-5)
    f, g = np.asarray(fit.f(a), float), np.asarray(fit.g(b), float)
    np.testing.assert_allclose([share @ f, share @ g], 0, atol=1e-5)
    np.testing.assert_allclose([share @ f**2, share @ g**2], 1, atol=1e-5)
    assert fit.raw == pytest.approx(share @ (f * g), abs=1e-5)
    influence = f * g - float(fit.raw) * (f**2 + g**2) / 2
    error = np.sqrt(np.sum((share * influence) ** 2))
    assert float(fit.standard_error) == pytest.approx(error, rel=1e-3)
    low, high = fit.interval()
    narrow = np.subtract(*hgr_jax.hgr_fit(a, b).interval())
    assert high - low > abs(narrow)


def cells(rows: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two categories that carry a relation, and a number."""
    rng = np.random.default_rng(seed)
    i = rng.integers(0, 4, rows)
    j = (i + rng.integers(0, 3, rows) * (rng.random(rows) < 0.6)) % 5
    texts = np.array(list("badc"))[i], np.array(list("vuxyw"))[j]
    return (*texts, i + rng.standard_normal(rows))


@pytest.mark.parametrize("weighted", [False, True])
def test_categories_are_the_reference_and_the_scan(weighted: bool) -> None:
    kind, letter, number = cells()
    options = {"weights": np.random.default_rng(1).exponential(size=400)} if weighted else {}
    steps = np.round(2 * number)
    for a, b in ((kind, letter), (kind, number), (number, letter), (steps, kind)):
        value = hgr_jax.hgr(a, b, **options)
        assert value == pytest.approx(reference(a, b, **options), abs=1e-6)
        scanned = hgr_jax.scan({"a": a, "b": b}, **options).correlation[0, 1]
        # Beside a category, scans make functions of unweighted ranks orthonormal by the weights.
        assert value == pytest.approx(scanned, abs=3e-3 if weighted else 1e-4)
    if weighted:
        w = options["weights"] * (kind != "a")
        used = w > 0
        gaps = np.where(used, kind, None), np.where(used, number, np.nan)
        expected = hgr_jax.hgr(kind[used], number[used], weights=w[used])
        assert hgr_jax.hgr(*gaps, weights=w) == pytest.approx(float(expected), abs=1e-6)


@pytest.mark.parametrize(
    "as_category",
    [
        list,
        lambda x: x.astype(object),
        lambda x: x.astype(np.dtypes.StringDType()),
        pd.Series,
        lambda x: pd.Series(x, dtype="category"),
        lambda x: pd.Series(x, dtype="string"),
        lambda x: pd.Series(pd.factorize(x)[0], dtype="category"),
        pl.Series,
        lambda x: pl.Series(x, dtype=pl.Categorical),
    ],
)
def test_kinds_of_categories(as_category: object) -> None:
    kind, _, number = cells()
    value = float(hgr_jax.hgr(kind, number))
    a = as_category(kind)  # type: ignore[operator]
    assert hgr_jax.hgr(a, number) == hgr_jax.hgr(number, a) == pytest.approx(value, abs=1e-6)


def test_what_is_no_category() -> None:
    kind, _, number = cells()
    plain = hgr_jax.hgr(kind == "a", number)
    for flags in ((kind == "a").astype(object), pd.Series(kind == "a"), list(kind == "a")):
        assert hgr_jax.hgr(flags, number) == plain
    days = np.datetime64("2020-01-01") + np.arange(400)
    for dates in (days, days.astype(str), pd.Series(days)):
        assert hgr_jax.hgr(dates, number) == hgr_jax.hgr(np.arange(400), number)
    assert np.isnan(hgr_jax.hgr(np.array([None, *number[1:]], object), number))


def test_degenerate_categories() -> None:
    kind, _, number = cells()
    names = [f"name {row}" for row in range(400)]
    for other in (number, kind):
        assert np.isnan(hgr_jax.hgr(names, other))
        assert hgr_jax.hgr(["same"] * 400, other) == 0
    assert hgr_jax.hgr(kind, np.ones(400)) == 0
    assert np.isnan(hgr_jax.hgr(kind, np.where(number > 3, np.nan, number)))
    assert np.isnan(hgr_jax.hgr(kind[:4], number[:4]))
    assert hgr_jax.hgr(kind, np.char.upper(kind)) == pytest.approx(1, abs=1e-6)


KIND, LETTER, NUMBER = cells()
FAR = pd.Series(NUMBER, index=np.arange(1, 401))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: hgr_jax.hgr([None, *KIND[1:]], NUMBER), ValueError, r"a .* misses .* 1 row\(s\)"),
        (lambda: hgr_jax.hgr(NUMBER, ["", *KIND[1:]]), ValueError, "b is a category that misses"),
        (lambda: hgr_jax.hgr(KIND, NUMBER[1:]), ValueError, "same number of rows; got 400 and 399"),
        (lambda: hgr_jax.hgr(KIND, NUMBER, degrees=2), ValueError, "degrees are of two numbers"),
        (lambda: hgr_jax.hgr(KIND, NUMBER, weights=-NUMBER), ValueError, "weights must be finite"),
        (lambda: jax.jit(lambda x: hgr_jax.hgr(KIND, x))(NUMBER), TypeError, "must not be traced"),
        (lambda: hgr_jax.hgr_fit(NUMBER, KIND), TypeError, r'scan\({"a": a, "b": b}\).fit'),
        (lambda: hgr_jax.hgr(pd.Series(KIND), FAR), ValueError, "different indexes"),
        (lambda: hgr_jax.hgr(FAR, FAR, weights=FAR[::-1]), ValueError, "different indexes"),
        (lambda: hgr_jax.hgr(NUMBER, NUMBER, weights=[1.0]), ValueError, "weights must have shape"),
    ],
)
def test_refusals_of_categories_and_weights(
    call: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()  # type: ignore[operator]


def test_a_transformation_as_text_is_the_transformation() -> None:
    a, b = parabola()
    transform = hgr_jax.hgr_fit(a, b, degrees=(4, 3)).f
    text, _, where = transform.formula("weight", digits=6, least=0.0).partition(",")
    assert where.endswith("u = share of the values below weight")
    text = re.sub(r"(?<=[\d)i]) (?=[a-z(])", " * ", text).replace("^", "**")
    for name in ("sin", "asin", "cos", "pi"):
        text = re.sub(rf"\b{name}\b", {"asin": "np.arcsin"}.get(name, f"np.{name}"), text)
    u = (np.argsort(np.argsort(a)) + 0.5) / ROWS
    computed = eval(text, {"np": np, "u": u})
    np.testing.assert_allclose(computed, transform(a), atol=1e-4)
    few = transform.formula("weight", least=0.5)
    assert len(few) < len(text)


@pytest.mark.parametrize("law", [law for law in LAWS.values() if law.exact and law.grid])
def test_formulas_and_grids_agree(law: object) -> None:
    assert law.solution[0] == pytest.approx(law.exact, abs=0.005)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["crossed normals", "disc", "places 2 and 3 of 4", "tied waves"])
def test_it_is_near_the_hgr_of_a_law(name: str) -> None:
    law = LAWS[name]
    a, b = law.sample(np.random.default_rng(1), 20_000)
    f, g = law.optimal(a, b)
    oracle = abs(np.corrcoef(f, g)[0, 1])
    assert oracle == pytest.approx(law.hgr, abs=0.02)
    assert hgr_jax.hgr(a, b) == pytest.approx(law.hgr, abs=0.025)


def test_jumps_are_estimated_beyond_the_largest_block() -> None:
    """Smooth functions alone are .013 too low."""
    a, b = np.random.default_rng(2).random((2, 10, 4000))
    same = np.floor(6 * a) % 2 == np.floor(2 * b) % 2
    b = np.where(same | (np.random.default_rng(3).random(a.shape) > 0.8), b, (b + 0.5) % 1)
    values = jax.vmap(hgr_jax.hgr)(a.astype(np.float32), b.astype(np.float32))
    of_fields = np.where(np.floor(6 * a) % 2 == 1, 1.0, -1), np.where(b < 0.5, -1, 1)
    expected = np.mean(np.mean(of_fields[0] * of_fields[1], axis=1))
    assert np.mean(values) == pytest.approx(expected, abs=0.006)
    alone = [hgr_jax.hgr_fit(x, y, degrees=32).correlation for x, y in zip(a, b, strict=True)]
    assert np.mean(alone) < expected - 0.01


def test_float32_of_many_zeros() -> None:
    """Functions that few levels nearly determine: of independent counts HGR was .47."""
    rng = np.random.default_rng(0)
    for rows in (1283, 19_718):
        for _ in range(4):
            a, b = np.round(np.exp(2.2 * rng.normal(size=(2, rows))))
            with jax.enable_x64(True):
                exact = float(hgr_jax.hgr(a, b))
            found = float(hgr_jax.hgr(np.float32(a), np.float32(b)))
            assert found == pytest.approx(exact, abs=0.01)


def test_independence_is_near_0() -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 20, 1000))
    values = jax.vmap(hgr_jax.hgr)(a.astype(np.float32), b.astype(np.float32))
    assert np.sqrt(np.mean(np.square(values))) < 0.05


@pytest.mark.parametrize(
    "change", [np.exp, lambda x: -x, lambda x: x**3, lambda x: np.argsort(np.argsort(x))]
)
def test_strictly_monotone_maps_change_nothing(change: object) -> None:
    a, b = parabola()
    value = float(hgr_jax.hgr(a, b))
    assert hgr_jax.hgr(change(a), b) == pytest.approx(value, abs=1e-6)  # type: ignore[operator]
    assert hgr_jax.hgr(a, change(b)) == pytest.approx(value, abs=1e-6)  # type: ignore[operator]
    assert hgr_jax.hgr(b, a) == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize(("neighbours", "weighted"), [(1, False), (5, True)])
def test_the_gradient_is_that_of_finite_differences(neighbours: int, weighted: bool) -> None:
    """Of moved rows, whose shares follow the empirical distribution of the rows as they were."""
    a, b = parabola(120)
    rows, step = len(a), 1e-6
    w = np.random.default_rng(1).uniform(0.5, 2, rows) if weighted else np.ones(rows)
    order, place = np.sort(a), np.argsort(np.argsort(a))
    ordered = w[np.argsort(a)] / w.sum()
    middle = np.cumsum(ordered) - ordered / 2
    ends = (np.maximum(place - neighbours, 0), np.minimum(place + neighbours, rows - 1))
    slopes = (middle[ends[1]] - middle[ends[0]]) / (order[ends[1]] - order[ends[0]])
    options = {"weights": w} if weighted else {}
    with jax.enable_x64(True):

        def of_a(a: jax.Array) -> jax.Array:
            return hgr_jax.hgr(a, b, neighbours=neighbours, **options)

        found, gradient = map(np.asarray, jax.jit(jax.value_and_grad(of_a))(a))
        value, shares = jax.jit(lambda u: value_of_shares(u, b, w)), middle[place]
        assert value(shares) == pytest.approx(float(found), abs=1e-12)
        for row in range(0, rows, 5):
            moved = step * (np.arange(rows) == row)
            difference = value(shares + moved) - value(shares - moved)
            expected = slopes[row] * float(difference) / (2 * step)
            assert gradient[row] == pytest.approx(expected, rel=1e-4, abs=1e-8)


def value_of_shares(u: jax.Array, b: np.ndarray, weights: np.ndarray) -> jax.Array:
    """The estimate where the shares of a are given, and not ranked."""
    weights = weights * (weights.sum() / (weights**2).sum())
    sides = (
        hgr_module._Ranked(u, u, None),
        hgr_module._Ranked.of(jnp.asarray(b), None, 1, jnp.asarray(weights)),
    )
    rows = jnp.asarray(weights.sum())
    largest = int(largest_size(weights.sum()))
    blocks = Blocks.within(largest, largest)
    gram = hgr_module._gram(sides, blocks, None, jnp.asarray(weights))
    moments = hgr_module._CrossMoments.of(gram, blocks, rows, blocks.h)
    squares = hgr_module.top_squares(moments.matrix, blocks)
    value: jax.Array = average_of_blocks(squares, blocks, rows, moments.available).value
    return value


def test_second_derivatives_are_finite() -> None:
    a, b = parabola(60)
    second = jax.jit(jax.hessian(lambda t: hgr_jax.hgr(a + t * a**2, b)))(0.1)
    assert np.isfinite(second)


@pytest.mark.parametrize("rows", [5, 16, 100])
def test_degenerate_data_have_values_and_finite_gradients(rows: int) -> None:
    x = np.linspace(0, 1, rows).astype(np.float32)
    columns = {
        "constant": np.ones_like(x),
        "two values": np.round(x),
        "one other value": (np.arange(rows) == 2).astype(np.float32),
        "copies": x,
        "far": x * 1e30,
    }
    for a in columns.values():
        for b in columns.values():
            value, gradients = slopes(a, b)
            assert 0 <= value <= 1
            assert np.isfinite(gradients).all()
    assert hgr_jax.hgr(columns["constant"], x) == 0
    assert np.isnan(hgr_jax.hgr(x[:4], x[:4]))


def test_a_fit_has_the_functions_of_the_value() -> None:
    a, b = parabola()
    fit = hgr_jax.hgr_fit(a, b)
    assert fit.correlation == pytest.approx(float(hgr_jax.hgr(a, b)), abs=1e-6)
    f, g = np.asarray(fit.f(a)), np.asarray(fit.g(b))
    np.testing.assert_allclose([f.mean(), g.mean()], 0, atol=1e-5)
    np.testing.assert_allclose([f.std(), g.std()], 1, atol=1e-5)
    assert fit.raw == pytest.approx(np.corrcoef(f, g)[0, 1], abs=1e-5)
    assert fit.raw > fit.correlation
    assert fit.score(*parabola(5000, seed=1)) == pytest.approx(float(fit.correlation), abs=0.05)
    influence = f * g - float(fit.raw) * (f**2 + g**2) / 2
    assert float(fit.standard_error) == pytest.approx(influence.std() / np.sqrt(ROWS), rel=1e-3)
    assert np.corrcoef(f, np.argsort(np.argsort(a)))[0, 1] > 0
    between = (np.sort(a)[10] + np.sort(a)[11]) / 2
    assert np.sort(f)[0] <= fit.f(np.array([between]))[0] <= np.sort(f)[-1]
    np.testing.assert_allclose(fit.f(np.array([-1e9, np.nan])), [fit.f(a[[a.argmin()]])[0], np.nan])


def test_fits_have_the_degrees_that_were_asked_for() -> None:
    a, b = parabola()
    fit = hgr_jax.hgr_fit(a, b, degrees=(2, 1))
    np.testing.assert_array_equal(fit.degrees, [2, 1])
    assert fit.dependence == 1
    assert len(fit.f.coefficients) == 3
    few = hgr_jax.hgr_fit(np.arange(ROWS) % 3, b, degrees=(4, 3))
    np.testing.assert_array_equal(few.degrees, [2, 3])


def test_a_fit_is_shown_without_its_sample() -> None:
    assert len(repr(hgr_jax.hgr_fit(*parabola()))) < 500


def samples(name: str, rows: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows)
    x, y = zip(*(LAWS[name].sample(rng, rows) for _ in range(count)), strict=True)
    return np.array(x, np.float32), np.array(y, np.float32)


def fits_of(x: np.ndarray, y: np.ndarray) -> Any:
    """One after the other, by a program that other tests have as well."""
    fits = [hgr_jax.hgr_fit(*each) for each in zip(x, y, strict=True)]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *fits)


@pytest.mark.parametrize(
    ("name", "rows"), [("sine", 120), ("table 6 x 5", ROWS), ("normal .6", 700)]
)
def test_intervals_cover_hgr(name: str, rows: int) -> None:
    """In 90 of 100 samples at least; the bench measures the share."""
    x, y = samples(name, rows, 100)
    low, high = fits_of(x, y).interval()
    law = LAWS[name]
    assert np.mean((low <= law.hgr) & (law.hgr <= high)) >= 0.9
    f, g = law.optimal(x[0], y[0])
    influence = np.corrcoef(f, g)[0, 1] ** 2
    oracle = 2 * 1.96 * (1 - influence) / np.sqrt(rows)  # of normal variables
    assert np.mean(high - low) < 2 * oracle


def test_intervals_of_independent_variables_hold_0_as_often_as_their_level() -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 400, 150)).astype(np.float32)
    fit = jax.vmap(hgr_jax.hgr_fit)(x, y)
    for level in (0.5, 0.9, 0.99):
        low, _ = fit.interval(level)
        np.testing.assert_array_equal(low == 0, np.asarray(fit.pvalue) >= 1 - level)
        assert np.mean(low == 0) == pytest.approx(level, abs=0.06)


@pytest.mark.parametrize("name", ["normal .3", "parabola, uniform", "table 3 x 4"])
def test_intervals_are_nested_and_hold_the_estimate(name: str) -> None:
    fit = fits_of(*samples(name, 90, 20))
    ends = np.array([fit.interval(level) for level in (0.01, 0.5, 0.9, 0.95, 0.999)])
    assert (np.diff(ends[:, 0], axis=0) <= 0).all()
    assert (np.diff(ends[:, 1], axis=0) >= 0).all()
    value = np.asarray(fit.correlation)
    assert (ends[:, 0] <= value).all()
    assert (ends[:, 1] >= value).all()


def test_intervals_depend_on_ranks_alone() -> None:
    a, b = parabola()
    ends = np.array(hgr_jax.hgr_fit(a, b).interval())
    same = hgr_jax.hgr_fit(b, a), hgr_jax.hgr_fit(np.exp(a), -b), jax.jit(hgr_jax.hgr_fit)(a, b)
    for fit in same:
        np.testing.assert_allclose(fit.interval(), ends, atol=2e-5)
    with jax.enable_x64(True):
        np.testing.assert_allclose(hgr_jax.hgr_fit(a, b).interval(), ends, atol=1e-4)


def test_the_held_out_correlation_is_that_of_new_rows() -> None:
    law = LAWS["sine"]
    rng = np.random.default_rng(0)
    new = law.sample(rng, 20_000)
    fits = [hgr_jax.hgr_fit(*law.sample(rng, 120)) for _ in range(30)]
    held_out = np.mean([fit.held_out for fit in fits])
    assert held_out == pytest.approx(np.mean([fit.score(*new) for fit in fits]), abs=0.03)
    assert held_out < law.hgr
    assert held_out < np.mean([fit.raw for fit in fits])


def test_intervals_of_degenerate_data() -> None:
    x = np.random.default_rng(0).standard_normal(100)
    assert hgr_jax.hgr_fit(x, np.ones(100)).interval() == (0, 1)
    assert np.isnan(hgr_jax.hgr_fit(x[:4], x[:4]).interval()).all()
    assert np.isnan(hgr_jax.hgr_fit(x, np.where(x > 1, np.nan, x)).interval()).all()
    assert hgr_jax.hgr_fit(x[:20], x[20:40]).interval()[1] == 1
    for y in (x, x > 0):  # all rows agree
        low, high = hgr_jax.hgr_fit(y, y).interval()
        assert low == pytest.approx(2 * 0.025 ** (1 / 100) - 1, abs=1e-6)
        assert high == 1
    for rows in (5, 6, 11, 17):
        for y in (x, x > 0, x**2):
            low, high = hgr_jax.hgr_fit(x[:rows], y[:rows]).interval()
            assert 0 <= low <= high == 1


def test_intervals_of_asked_degrees_have_no_rivals() -> None:
    a, b = parabola()
    low, high = hgr_jax.hgr_fit(a, b, degrees=1).interval()
    assert low == 0  # a parabola is not monotone
    assert high < 0.5
    low, high = hgr_jax.hgr_fit(a, b, degrees=(2, 1)).interval()
    assert 0.7 < low < high < 1


@pytest.mark.parametrize(
    ("level", "error"), [(0, ValueError), (1.0, ValueError), (-0.1, ValueError), ("95%", TypeError)]
)
def test_levels_are_checked(level: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="level must be"):
        hgr_jax.hgr_fit(*parabola()).interval(level)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("degrees", "error", "message"),
    [
        (0, ValueError, "at least 1"),
        (65, ValueError, "at most 64"),
        ((1, 2, 3), ValueError, "a pair"),
        (2.5, TypeError, "int"),
    ],
)
def test_degrees_are_checked(degrees: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        hgr_jax.hgr(*parabola(), degrees=degrees)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="neighbours must be at least 1"):
        hgr_jax.hgr(*parabola(), neighbours=0)


def test_a_scan_takes_it_by_name() -> None:
    a, b = parabola()
    found = hgr_jax.scan({"a": a, "b": b, "c": a[::-1]}, measure="hgr", test=None)
    assert found["a", "b"].correlation == pytest.approx(float(hgr_jax.hgr(a, b)), abs=1e-3)
