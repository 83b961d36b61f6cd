"""HGR of ranks: against a reference in NumPy, laws with known HGR, and its promises."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest

import hgr_jax
from bench.laws import laws, oscillating_laws

hgr_module = importlib.import_module("hgr_jax.measures.hgr")

LAWS = {law.name: law for law in laws()}
OSCILLATIONS = {law.name: law for law in oscillating_laws()}
SIZES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]


ROWS = 400
"""Of most tests, as each length has programs of its own."""

slopes = jax.jit(jax.value_and_grad(hgr_jax.hgr, (0, 1)))


@jax.jit
def weighted_slopes(a: Any, b: Any, w: Any) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    """The value, and its derivatives by both columns and by weights."""
    return jax.value_and_grad(lambda a, b, w: hgr_jax.hgr(a, b, weights=w), (0, 1, 2))(a, b, w)


def parabola(rows: int = ROWS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(rows)
    return a, a**2 + 0.5 * rng.standard_normal(rows)


def orthonormal(x: np.ndarray, share: np.ndarray, most: int) -> tuple[np.ndarray, int]:
    """Functions of a number, or of the levels of a category, and how many first looks have."""
    n = 1 / np.sum(share**2)
    if x.dtype.kind == "U":  # a category: an orthonormal basis of all functions of its levels
        raw = [(x == level) * 1.0 for level in np.unique(x)[1:]]
    else:
        u = share_below(x, share)
        raw = [np.sqrt(12.6) * np.sin(np.arcsin(2 * u - 1) / 3), np.sqrt(180) * (u - 0.5) ** 2]
        raw += [np.sqrt(2) * np.cos(j * np.pi * u) for j in range(3, most + 1)]
        raw = raw[:most]
    raw = [each - share @ each for each in raw]
    least = max(share @ each**2 for each in raw[:32]) / np.sqrt(n)
    basis: list[np.ndarray] = []
    in_first = 0
    for place, each in enumerate(raw):
        for _ in range(2):
            for q in basis:
                each = each - q * (share @ (q * each))
        variance = share @ each**2
        if variance >= least > 1e-9:
            basis.append(each / np.sqrt(variance))
            in_first += place < 32
    return np.array(basis).reshape(-1, len(x)), in_first


def share_below(x: np.ndarray, share: np.ndarray) -> np.ndarray:
    less = ((x < x[:, None]) * share).sum(axis=1)
    return less + ((x == x[:, None]) * share).sum(axis=1) / 2


def average(blocks: dict[tuple[int, int], float], n: float) -> tuple[float, dict[Any, float]]:
    """The estimate, and the weights, of blocks by their sizes and squares."""
    h, k = np.array(list(blocks), float).T
    squares = np.minimum(list(blocks.values()), 1 - 2**-52)
    a, b = (h - 1) / n, (k - 1) / n
    p = squares - (1 - a) * b - (1 - b) * a
    inner = p**2 - 4 * (1 - a) * (1 - b) * a * b
    with np.errstate(invalid="ignore"):
        r = (p + np.sqrt(inner)) / (2 * (1 - a) * (1 - b))
    values = np.sqrt(np.where((inner >= 0) & (p > 0), np.minimum(r, 1), 0))
    statistic, further = -n * np.log1p(-squares), h + k - 1
    score = statistic - 4 * further
    best = max(score.max(), -1)
    total = np.exp((score - best) / 2).sum()
    dependence = total / (total + np.exp((-1 - best) / 2))
    weak = np.exp(-max(score.max(), 0) / 20)
    second = statistic - (2 + 2 * weak) * further
    weights = np.exp((second - second.max()) / 2)
    weights /= weights.sum()
    return float(dependence * (weights @ values)), dict(zip(blocks, weights, strict=True))


def reference(a: np.ndarray, b: np.ndarray, weights: np.ndarray | None = None) -> float:
    """The same estimate, as `hgr_jax.core.ranks` says, in plain NumPy."""
    share = np.ones(len(a)) if weights is None else np.asarray(weights, float)
    share = share / share.sum()
    n = 1 / np.sum(share**2)
    columns = a, b
    number = [x.dtype.kind != "U" for x in columns]
    top = max(size for size in SIZES if size <= max(1, min(9 * n**0.25, n / 8)))
    sides, counts = zip(*(orthonormal(x, share, top) for x in columns), strict=True)
    firsts = [f[:count] for f, count in zip(sides, counts, strict=True)]
    m = (sides[0] * share) @ sides[1].T
    if not m.size:
        return 0.0

    def blocks(look: int) -> tuple[dict[tuple[int, int], float], set[tuple[int, int]]]:
        """Squares by size, and which sizes are at the edge of the look."""
        found: dict[tuple[int, int], float] = {}
        edges = set()
        used = [len(f) for f in (sides if look == 2 else firsts)]
        thin = {1: 32, 2: 16, 3: 16} if look == 0 else {}
        thick = (8, 32, 64)[look]
        for i in SIZES if number[0] else [used[0]]:
            for j in SIZES if number[1] else [used[1]]:
                short, long = min(i, j), max(i, j)
                if all(number):
                    listed = (short <= 3 or i == j) and long <= thin.get(short, thick)
                else:
                    long = i if number[0] else j
                    listed = look > 0 or not any(number) or long <= 8
                size = min(i, used[0]), min(j, used[1])
                if listed and size not in found:
                    found[size] = np.linalg.norm(m[: size[0], : size[1]], 2) ** 2
                    edge = thin.get(short, thick) if all(number) else (8, 32, 32)[look]
                    edges |= {size} if long == edge else set()
        return found, edges

    def estimate(look: int) -> tuple[float, bool]:
        found, edges = blocks(look)
        value, weights = average(found, n)
        edge = sum(w for size, w in weights.items() if size in edges)
        return value, edge > (0.03, 0.3, 1)[look]

    value, again = estimate(0)
    if not any(is_number and len(f) > 8 for f, is_number in zip(firsts, number, strict=True)):
        return value
    if not alike_beyond(columns, firsts, m[: len(firsts[0]), : len(firsts[1])], n):
        for look in (1, 2):
            if not again:
                return value
            value, again = estimate(look)
            if look == 1 and not again:
                return value
    every, _ = blocks(2)
    for side, (x, f, g) in enumerate(((a, sides[0], sides[1]), (b, sides[1], sides[0]))):
        if x.dtype.kind == "U" or (len(g) > 16 and not number[1 - side]):
            continue
        few = g[: min(3, reliable(g, share))] if number[1 - side] else g
        if not number[1 - side] and reliable(g, share) < len(g):
            continue
        for count in range(1, len(few) + 1) if number[1 - side] else [len(few)]:
            for cosines, moments in long_moments(x, few[:count], share, n, len(f)):
                size = (cosines, count) if side == 0 else (count, cosines)
                every.setdefault(size, np.linalg.norm(moments, 2) ** 2)
    return average(every, n)[0]


def reliable(f: np.ndarray, share: np.ndarray) -> int:
    """How many functions have no larger values than those of at least 50 untied ranks."""
    n, untied = 1 / np.sum(share**2), untied_functions(len(f))
    weight = share * n
    for count in range(1, len(f) + 1):
        largest = np.max(np.sum(f[:count] ** 2, axis=0) * weight)
        part = min(np.max(np.sum(untied[:count] ** 2, axis=0)) / largest, 1)
        if n * part**2 < min(50, n) * (1 - 1e-6):
            return count - 1
    return len(f)


@functools.cache
def untied_functions(count: int) -> np.ndarray:
    x = np.arange(2.0**14)
    raw = [np.ones(len(x)), np.sin(np.arcsin(2 * (x + 0.5) / len(x) - 1) / 3)]
    raw += [((x + 0.5) / len(x) - 0.5) ** 2]
    raw += [np.cos(j * np.pi * (x + 0.5) / len(x)) for j in range(3, count + 1)]
    q, _ = np.linalg.qr(np.array(raw[: count + 1]).T)
    return q.T[1:] * np.sqrt(len(x))


def alike_beyond(columns: Any, sides: Any, m: np.ndarray, n: float) -> bool:
    """Whether neighbours are more alike than few functions explain."""
    for x, other, f, g, moments in (
        (columns[0], columns[1], sides[0], sides[1], m),
        (columns[1], columns[0], sides[1], sides[0], m.T),
    ):
        if x.dtype.kind == "U":
            continue
        of_number, last = other.dtype.kind != "U", len(x) - 1
        order = np.argsort(x, kind="stable")
        places = np.arange(min(last, 256)) * last // min(last, 256)
        for i, each in enumerate(g[:3] if of_number else g):
            count = min((32 if i == 0 else 16) if of_number else 8, len(f))
            explained = (np.sum(moments[:count, i] ** 2) - count / n) / (1 - count / n)
            products = each[order[:-1]] * each[order[1:]]
            if all(
                part.mean() - explained > 3 * part.std() / np.sqrt(len(part))
                for part in (products[places], products)
            ):
                return True
    return False


def long_moments(
    x: np.ndarray, g: np.ndarray, share: np.ndarray, n: float, used: int
) -> list[tuple[int, np.ndarray]]:
    """Moments of few functions with many cosines of x, and with all functions of its values."""
    values, codes = np.unique(x, return_inverse=True)
    weight = np.bincount(codes, share)
    sums = np.array([np.bincount(codes, share * each) for each in g])
    edges, below = np.r_[0, np.cumsum(weight)], np.c_[np.zeros(len(g)), np.cumsum(sums, axis=1)]
    ends = np.linspace(0, 1, min(2 ** int(np.ceil(np.log2(len(x)))), 4096) + 1)
    cells = np.diff([np.interp(ends, edges, each) for each in below], axis=1)
    found = []
    for size in (round(2 ** (i / 4)) for i in range(17, 37)):
        if used < size <= n / 8:
            middle = (np.arange(cells.shape[1]) + 0.5) / cells.shape[1]
            waves = np.sqrt(2) * np.cos(np.pi * np.arange(1, size + 1)[:, None] * middle)
            found.append((size, cells @ waves.T))
    if used < len(values) - 1 <= n / 8:
        moments = sums / np.sqrt(weight)
        if weight.min() * n >= 5 - 1e-3 or np.linalg.norm(moments, 2) ** 2 >= 1 - 1e-4:
            found.append((len(values) - 1, moments))
    return found


@pytest.mark.parametrize(
    "name",
    ["normal .6", "steps", "Poisson sums", "table 3 x 4", "binary outcome", "20 half waves"],
)
@pytest.mark.parametrize("rows", [40, ROWS])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_the_reference(name: str, rows: int, weighted: bool) -> None:
    rng = np.random.default_rng(rows)
    a, b = (LAWS | OSCILLATIONS)[name].sample(rng, rows)
    options = {"weights": rng.exponential(size=rows)} if weighted else {}
    expected = reference(a, b, **options)
    with jax.enable_x64(True):
        assert hgr_jax.hgr(a, b, **options) == pytest.approx(expected, abs=1e-9)
    assert hgr_jax.hgr(a, b, **options) == pytest.approx(expected, abs=2e-5)
    scanned = hgr_jax.scan({"a": a, "b": b}, test=None, **options).correlation[0, 1]
    assert scanned == pytest.approx(expected, abs=1e-3)


def test_equal_weights_are_none() -> None:
    a, b = parabola(60)
    fit = hgr_jax.hgr_fit(a, b)
    for scale in (1e-30, 3.3, 1e38):
        w = np.full(60, scale, np.float32)
        same = hgr_jax.hgr_fit(a, b, weights=w)
        assert hgr_jax.hgr(a, b, weights=w) == pytest.approx(fit.correlation, abs=1e-6)
        assert weighted_slopes(a, b, w)[0] == pytest.approx(fit.correlation, abs=1e-5)
        np.testing.assert_allclose(same.interval(), fit.interval(), atol=1e-6)
        np.testing.assert_allclose(same.f(a), fit.f(a), atol=1e-6)


@pytest.mark.parametrize("rows", [100, pytest.param(28_000, marks=pytest.mark.slow)])
def test_a_row_of_weight_0_counts_as_dropped(rows: int) -> None:
    rng = np.random.default_rng(rows)
    a, b = parabola(rows)
    keep = rng.permutation(rows) < 0.6 * rows
    w = rng.exponential(size=rows) * keep
    expected = hgr_jax.hgr_fit(a[keep], b[keep], weights=w[keep])
    dropped = [(np.where(keep, a, np.nan), np.where(keep, b, -np.inf)), (a, b)]
    for x, y in dropped:
        fit = hgr_jax.hgr_fit(x, y, weights=w)
        for name in ("correlation", "rows", "held_out", "pvalue"):
            assert getattr(fit, name) == pytest.approx(getattr(expected, name), abs=1e-9)
        np.testing.assert_allclose(fit.interval(), expected.interval(), atol=1e-9)
        points = np.linspace(-3, 3, 50)
        np.testing.assert_allclose(fit.f(points), expected.f(points), atol=1e-9)
    for x, y in dropped:
        value, gradients = weighted_slopes(x, y, w)
        assert value == pytest.approx(expected.correlation, abs=1e-3)
        for gradient in gradients[:2]:
            assert not np.any(gradient[~keep])
        if rows < 1000:  # among many rows near ties have huge slopes
            _, alone = weighted_slopes(a[keep], b[keep], w[keep])
            for gradient, of_kept in zip(gradients[:2], alone[:2], strict=True):
                np.testing.assert_allclose(gradient[keep], of_kept, rtol=0.02, atol=1e-5)


@pytest.mark.parametrize(
    "w",
    [np.zeros(60), np.r_[-1.0, np.ones(59)], np.full(60, np.nan), np.r_[1e9, np.full(59, 0.5)]],
)
def test_impossible_weights_that_are_traced_give_nan(w: np.ndarray) -> None:
    """So do four effective rows."""
    a, b = parabola(60)
    value, gradients = weighted_slopes(a, b, w)
    assert np.isnan(value)
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    if w.max() > 1:
        assert np.isnan(hgr_jax.hgr_fit(a, b, weights=w).interval()).all()


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
        assert value == pytest.approx(reference(a, b, **options), abs=1e-5)
        scanned = hgr_jax.scan({"a": a, "b": b}, **options).correlation[0, 1]
        # Beside a category, scans make functions of unweighted ranks orthonormal by the weights.
        assert value == pytest.approx(scanned, abs=3e-3 if weighted else 1e-5)
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
        with pytest.raises(ValueError, match="a cannot be used: names or identifiers"):
            hgr_jax.hgr(names, other)
        assert hgr_jax.hgr(["same"] * 400, other) == 0
    assert hgr_jax.hgr(kind, np.ones(400)) == 0
    assert np.isnan(hgr_jax.hgr(kind, np.where(number > 3, np.nan, number)))
    assert hgr_jax.hgr(kind, np.char.upper(kind)) == pytest.approx(1, abs=1e-6)


KIND, LETTER, NUMBER = cells()
FAR = pd.Series(NUMBER, index=np.arange(1, 401))
FIT = hgr_jax.hgr_fit(*parabola(60))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: hgr_jax.hgr([None, *KIND[1:]], NUMBER), ValueError, r"a .* misses .* 1 row\(s\)"),
        (lambda: hgr_jax.hgr(NUMBER, ["", *KIND[1:]]), ValueError, "b is a category that misses"),
        (lambda: hgr_jax.hgr(KIND, NUMBER[1:]), ValueError, "same number of rows; got shapes"),
        (lambda: hgr_jax.hgr(KIND, NUMBER, weights=-NUMBER), ValueError, "weights must be finite"),
        (lambda: jax.jit(lambda x: hgr_jax.hgr(KIND, x))(NUMBER), TypeError, "hgr outside jit"),
        (lambda: hgr_jax.hgr_fit(NUMBER, KIND), TypeError, r'scan\({"a": a, "b": b}\).fit'),
        (lambda: hgr_jax.hgr(pd.Series(KIND), FAR), ValueError, "different indexes"),
        (lambda: hgr_jax.hgr(FAR, FAR, weights=FAR[::-1]), ValueError, "different indexes"),
        (lambda: hgr_jax.hgr(NUMBER, NUMBER, weights=[1.0]), ValueError, "weights must have shape"),
        (lambda: jax.jit(hgr_jax.hgr_fit)(NUMBER, NUMBER), TypeError, "hgr_fit is for the host"),
        *(
            (lambda level=level: FIT.interval(level), error, "level must be")
            for level, error in ((0, ValueError), (1.0, ValueError), ("95%", TypeError))
        ),
    ],
)
def test_refusals_of_categories_and_weights(
    call: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()  # type: ignore[operator]


@pytest.mark.parametrize("name", ["crossed normals", "disc", "places 2 and 3 of 4", "tied waves"])
def test_it_is_near_the_hgr_of_a_law(name: str) -> None:
    law = LAWS[name]
    a, b = law.sample(np.random.default_rng(1), 20_000)
    f, g = law.optimal(a, b)
    oracle = abs(np.corrcoef(f, g)[0, 1])
    assert oracle == pytest.approx(law.hgr, abs=0.02)
    assert hgr_jax.hgr(a, b) == pytest.approx(law.hgr, abs=0.025)


def test_float32_of_many_zeros() -> None:
    """Functions that few levels nearly determine: of independent counts HGR was .47."""
    rng = np.random.default_rng(0)
    for rows in (1283, 19_718):
        for _ in range(2):
            a, b = np.round(np.exp(2.2 * rng.normal(size=(2, rows))))
            with jax.enable_x64(True):
                exact = float(hgr_jax.hgr(a, b))
            found = float(hgr_jax.hgr(np.float32(a), np.float32(b)))
            assert found == pytest.approx(exact, abs=0.01)


def wave(rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Of 40 half waves, more than other blocks than long ones have functions."""
    rng = np.random.default_rng(3)
    a = rng.random(rows)
    return a, np.cos(40 * np.pi * a) + 0.3 * rng.standard_normal(rows)


@pytest.mark.parametrize(
    ("data", "weighted"),
    [
        (wave(), True),
        pytest.param(parabola(120), False, marks=pytest.mark.slow),
        pytest.param(parabola(120), True, marks=pytest.mark.slow),
        pytest.param(wave(), False, marks=pytest.mark.slow),
    ],
)
def test_the_gradient_is_that_of_finite_differences(data: Any, weighted: bool) -> None:
    """Of weights, and of moved rows, whose shares follow the empirical distribution as it was."""
    a, b = data
    rows, step = len(a), 1e-7
    w = np.random.default_rng(1).uniform(0.5, 2, rows) if weighted else np.ones(rows)
    order, place = np.sort(a), np.argsort(np.argsort(a))
    ordered = w[np.argsort(a)] / w.sum()
    middle = np.cumsum(ordered) - ordered / 2
    ends = (np.maximum(place - 1, 0), np.minimum(place + 1, rows - 1))
    slopes = (middle[ends[1]] - middle[ends[0]]) / (order[ends[1]] - order[ends[0]])
    with jax.enable_x64(True):

        def of_a(a: jax.Array, w: jax.Array) -> jax.Array:
            return hgr_jax.hgr(a, b, **({"weights": w} if weighted else {}))

        program = jax.jit(jax.value_and_grad(of_a, (0, 1)))
        found, (gradient, of_weights) = program(a, w)
        assert np.sum(of_weights * w) == pytest.approx(0, abs=1e-12)  # only ratios matter
        for row in (0, 3, 40, 119) if weighted else ():
            moved = step * (np.arange(rows) == row)
            difference = float(program(a, w + moved)[0] - program(a, w - moved)[0]) / (2 * step)
            assert of_weights[row] == pytest.approx(difference, rel=1e-3, abs=1e-7)
        value, shares = jax.jit(lambda u: value_of_shares(u, a, b, w)), middle[place]
        assert value(shares) == pytest.approx(float(found), abs=1e-12)
        for row in range(0, rows, rows // 24):
            moved = step * (np.arange(rows) == row)
            difference = value(shares + moved) - value(shares - moved)
            expected = slopes[row] * float(difference) / (2 * step)
            assert gradient[row] == pytest.approx(expected, rel=1e-4, abs=1e-8)


def test_rows_of_few_values_in_a_random_order_hold_the_low_end() -> None:
    """All correlations tie, so that functions of the sample alone would be far too good."""
    rng, low, truth = np.random.default_rng(3), [], 0.3
    law = truth * np.diag(np.full(6, 1 / 6)) + (1 - truth) / 36
    a, b = (x.ravel().astype(float) for x in np.indices((6, 6)))
    for counts in rng.multinomial(300, law.ravel(), 60):
        order = rng.permutation(np.repeat(np.arange(36), counts))
        low.append(hgr_jax.hgr_fit(a[order], b[order]).interval()[0])
    assert np.mean(np.array(low) <= truth) > 0.8


def test_whole_numbers_as_weights_are_asked_about() -> None:
    a, b = parabola(60)
    w = 1 + np.arange(60) % 3
    for estimate in (hgr_jax.hgr, hgr_jax.hgr_fit):
        for given in (None, np.cos(9 * a)):
            with pytest.warns(UserWarning, match=r"repeat the rows instead: np.repeat"):
                estimate(a, b, weights=w, given=given)
            estimate(a, b, weights=w / 2, given=given)
            estimate(a, b, weights=w > 1, given=given)


def value_of_shares(u: jax.Array, a: np.ndarray, b: np.ndarray, weights: np.ndarray) -> jax.Array:
    """The estimate where the shares of a are given, and not ranked."""
    shares = jnp.asarray(weights / weights.sum())
    rows = jnp.asarray(weights.sum() ** 2 / (weights**2).sum())
    slopes = hgr_module._Slopes(equal=False, neighbours=1)
    sides = [hgr_module._Ranked.of(jnp.asarray(x), shares, slopes) for x in (a, b)]
    moved = sides[0]._replace(share=u, shift=u - sides[0].share)
    return hgr_module._estimate_traced(moved, sides[1], shares, rows, with_long=True)


@pytest.mark.parametrize("rows", [5, 60])
def test_degenerate_data_have_values_and_finite_gradients(rows: int) -> None:
    x = np.linspace(0, 1, rows).astype(np.float32)
    columns = {
        "constant": np.ones_like(x),
        "two values": np.round(x),
        "one other value": (np.arange(rows) == 2).astype(np.float32),
        "copies": x,
        "far": x * 1e30,
        "near": np.float32(0.5) + np.finfo(np.float32).eps * np.arange(rows, dtype=np.float32),
        "saturated": 1 / (1 + np.exp(80 - 160 * x)),
        "ties": np.round(3 * x),
    }
    for a in columns.values():
        for b in columns.values():
            value, gradients = slopes(a, b)
            assert 0 <= value <= 1
            assert np.isfinite(gradients).all()
    assert hgr_jax.hgr(columns["constant"], x) == 0
    assert np.isnan(hgr_jax.hgr(x[:4], x[:4]))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_fit_has_the_functions_of_the_value(weighted: bool) -> None:
    a, b = parabola()
    w = np.random.default_rng(2).exponential(size=ROWS) if weighted else np.ones(ROWS)
    options, share = {"weights": w} if weighted else {}, w / w.sum()
    fit = hgr_jax.hgr_fit(a, b, **options)
    assert fit.correlation == pytest.approx(float(hgr_jax.hgr(a, b, **options)), abs=1e-6)
    assert fit.rows == pytest.approx(1 / np.sum(share**2), rel=1e-5)
    assert len(repr(fit)) < 500  # without its sample
    f, g = np.asarray(fit.f(a), float), np.asarray(fit.g(b), float)
    np.testing.assert_allclose([share @ f, share @ g], 0, atol=1e-5)
    np.testing.assert_allclose([share @ f**2, share @ g**2], 1, atol=1e-5)
    assert share @ (f * g) > fit.correlation
    assert np.corrcoef(f, np.argsort(np.argsort(a)))[0, 1] > 0
    between = (np.sort(a)[10] + np.sort(a)[11]) / 2
    assert np.sort(f)[0] <= fit.f(np.array([between]))[0] <= np.sort(f)[-1]
    np.testing.assert_allclose(fit.f(np.array([-1e9, np.nan])), [fit.f(a[[a.argmin()]])[0], np.nan])
    plain = hgr_jax.hgr_fit(a, b)
    if weighted:
        assert np.ptp(fit.interval()) > np.ptp(plain.interval())
    else:
        assert fit.score(*parabola(5000, seed=1)) == pytest.approx(plain.correlation, abs=0.05)


def samples(name: str, rows: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows)
    x, y = zip(*(LAWS[name].sample(rng, rows) for _ in range(count)), strict=True)
    return np.array(x, np.float32), np.array(y, np.float32)


@pytest.mark.parametrize(
    ("name", "rows"), [("sine", 120), ("table 6 x 5", ROWS), ("normal .6", 700)]
)
def test_intervals_cover_hgr(name: str, rows: int) -> None:
    """In 9 of 10 samples at least; the bench measures the share."""
    x, y = samples(name, rows, 60)
    fits = [hgr_jax.hgr_fit(*each) for each in zip(x, y, strict=True)]
    low, high = np.array([fit.interval() for fit in fits]).T
    law = LAWS[name]
    assert np.mean((low <= law.hgr) & (law.hgr <= high)) >= 0.9
    f, g = law.optimal(x[0], y[0])
    influence = np.corrcoef(f, g)[0, 1] ** 2
    oracle = 2 * 1.96 * (1 - influence) / np.sqrt(rows)  # of normal variables
    assert np.mean(high - low) < 2 * oracle
    # They are nested, and hold the estimate.
    levels = (0.01, 0.5, 0.9, 0.95, 0.999)
    ends = np.array([np.transpose([fit.interval(level) for fit in fits[:20]]) for level in levels])
    assert (np.diff(ends[:, 0], axis=0) <= 0).all()
    assert (np.diff(ends[:, 1], axis=0) >= 0).all()
    value = np.array([fit.correlation for fit in fits[:20]])
    assert ((ends[:, 0] <= value) & (value <= ends[:, 1])).all()


def test_the_held_out_correlation_is_that_of_new_rows() -> None:
    law = LAWS["sine"]
    rng = np.random.default_rng(0)
    new = law.sample(rng, 20_000)
    samples_of_law = [law.sample(rng, 120) for _ in range(30)]
    fits = [hgr_jax.hgr_fit(*sample) for sample in samples_of_law]
    held_out = np.mean([fit.held_out for fit in fits])
    assert held_out == pytest.approx(np.mean([fit.score(*new) for fit in fits]), abs=0.03)
    assert held_out < law.hgr
    own = [fit.score(*sample) for fit, sample in zip(fits, samples_of_law, strict=True)]
    assert held_out < np.mean(own)


def test_an_interval_of_sorted_rows_with_ties() -> None:
    """Ties of one column, in the order of the other, do not make neighbours alike."""
    rng = np.random.default_rng(0)
    days, kind = np.arange(500.0), rng.integers(0, 2, 500) * 1.0
    shuffled = rng.permutation(500)
    as_sorted = hgr_jax.hgr_fit(days, kind).interval()
    assert as_sorted[1] < 0.2
    assert hgr_jax.hgr_fit(days[shuffled], kind[shuffled]).interval() == pytest.approx(
        as_sorted, abs=2e-3
    )


def test_intervals_of_degenerate_data() -> None:
    x = np.random.default_rng(0).standard_normal(100)
    assert hgr_jax.hgr_fit(x, np.ones(100)).interval() == (0, 1)
    assert np.isnan(hgr_jax.hgr_fit(x[:4], x[:4]).interval()).all()
    unknown = hgr_jax.hgr_fit(x, np.where(x > 1, np.nan, x))
    assert np.isnan(unknown.interval()).all()
    assert str(unknown) == unknown.describe()
    assert str(unknown).startswith("no estimate: a value is missing")
    assert hgr_jax.hgr_fit(x[:20], x[20:40]).interval()[1] == 1
    for y in (x, x > 0):  # all rows agree
        low, high = hgr_jax.hgr_fit(y, y).interval()
        assert low == pytest.approx(2 * 0.025 ** (1 / 100) - 1, abs=1e-6)
        assert high == 1
    for rows in (5, 11):
        for y in (x, x > 0, x**2):
            low, high = hgr_jax.hgr_fit(x[:rows], y[:rows]).interval()
            assert 0 <= low <= high == 1


@pytest.mark.parametrize("rows", [60, 400, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "kind", ["waiting", "zeros", "minute", "ratings", "counts", "flags", "few ties"]
)
def test_ties_have_one_value_traced_or_not(kind: str, rows: int) -> None:
    """In float32 as well: many functions of few, uneven levels depend on one another."""
    rng = np.random.default_rng(rows)
    few = rng.random(rows) < 0.6
    wait = np.where(few, 0, np.round(rng.exponential(20, rows)))
    clock = np.floor(1440 * rng.random(rows) ** 0.7)
    z = rng.standard_normal(rows)
    a, b = {
        "waiting": (wait, np.round(wait / 5) + rng.integers(0, 3, rows)),
        "zeros": (np.where(few, 0, z), np.where(few, 0, rng.standard_normal(rows))),
        "minute": (clock // 60 * 100 + clock % 60, clock % 60),
        "ratings": (np.round(2 * z), np.round(2 * z + rng.standard_normal(rows))),
        "counts": (rng.poisson(np.exp(z)), rng.poisson(np.exp(z))),
        "flags": (z > 0, wait),
        "few ties": (np.where(np.arange(rows) < rows // 8, np.roll(z, rows // 8), z), z**2),
    }[kind]
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    with jax.enable_x64(True):
        exact = float(hgr_jax.hgr(a, b))
    assert hgr_jax.hgr(a, b) == pytest.approx(exact, abs=1e-6)
    traced = jax.jit(hgr_jax.hgr)(a.astype(np.float32), b.astype(np.float32))
    assert traced == pytest.approx(exact, abs=1e-3)
    assert hgr_jax.hgr_fit(a, b).correlation == pytest.approx(exact, abs=1e-6)
    scanned = hgr_jax.scan({"a": a, "b": b}, test=None)
    assert scanned["a", "b"].correlation == pytest.approx(exact, abs=2e-5)


def test_an_exact_function_is_1() -> None:
    """The minute of a time of the day, 24 teeth of a saw."""
    clock = np.random.default_rng(0).integers(0, 1440, 20_000)
    assert hgr_jax.hgr(clock // 60 * 100 + clock % 60, clock % 60) == pytest.approx(1, abs=1e-6)


def test_what_is_too_fast_is_low_and_its_interval_wide() -> None:
    a, b = OSCILLATIONS["40 half waves"].sample(np.random.default_rng(0), 300)
    fit = hgr_jax.hgr_fit(a, b)
    assert fit.correlation < 0.3
    assert fit.interval()[1] > 0.6


def test_numbers_far_from_zero_keep_the_digits_that_float32_lacks() -> None:
    """On the host, the value is that of a scan, whatever JAX's default dtype is."""
    x, noise = np.random.default_rng(0).normal(size=(2, 400))
    far, y = 1e9 + x / 10, x**2 + noise / 4
    value = hgr_jax.hgr(far, y)
    assert value.dtype == np.float32
    assert value == pytest.approx(float(hgr_jax.hgr(x, y)), abs=1e-6)
    assert value == pytest.approx(hgr_jax.scan({"x": far, "y": y})["x", "y"].correlation, abs=1e-6)
    assert value == pytest.approx(hgr_jax.hgr_fit(far, y).correlation, abs=1e-6)
