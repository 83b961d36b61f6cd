"""Scans given some of the columns: each pair is `kb` of what those leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scan_support import ROWS, is_kb

import hgr_jax
from hgr_jax import Scan, scan
from hgr_jax.scanning.fits import details_of


def table(rng: np.random.Generator) -> np.ndarray:
    """Two columns that explain much of the four others, one of them nearly all."""
    x = rng.normal(size=(ROWS, 6))
    x[:, 2] += x[:, 0] ** 2
    x[:, 3] += x[:, 0] + 0.5 * x[:, 1]
    x[:, 4] += x[:, 3] ** 2
    x[:, 5] = x[:, 0] + 1e-3 * x[:, 5]
    return x


def with_holes(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x[:20, 3] = np.nan
    x[15:50, 4] = np.nan
    x[100:110, 0] = np.nan
    return x


def polynomials(c: np.ndarray, degree: int) -> np.ndarray:
    """1 and all monomials ``(n, m)`` of standardised columns."""
    c = (c - c.mean(axis=0)) / c.std(axis=0)
    powers = np.indices((degree + 1,) * c.shape[1]).reshape(c.shape[1], -1).T
    chosen = [power for power in powers if power.sum() <= degree]
    return np.stack([np.prod(c**power, axis=1) for power in chosen], axis=1)


def left(features: np.ndarray, known: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Orthonormal functions of what least squares leaves."""
    root = np.sqrt(w)[:, None]
    features, known = (np.linalg.svd(x * root, full_matrices=False) for x in (features, known))
    f, z = (u[:, s > 1e-9 * s[0]] for u, s, _ in (features, known))
    for _ in range(2):
        f = f - z @ (z.T @ f)
    u, s, _ = np.linalg.svd(f, full_matrices=False)
    return u[:, s > 1e-6]


def canonical(a: np.ndarray, b: np.ndarray, known: np.ndarray, w: Any = None) -> float:
    """The largest correlation of what is left of features ``(n, m)``."""
    w = np.ones(len(a)) if w is None else w
    sides = [left(x, known, w) for x in (a, b)]
    return float(np.linalg.svd(sides[0].T @ sides[1], compute_uv=False)[0])


@pytest.mark.usefixtures("x64")
def test_every_value_is_that_of_kb(rng: np.random.Generator) -> None:
    w = rng.exponential(size=ROWS)
    w[40:50] = 0
    x, given = table(rng), hgr_jax.Given([0, 1], degree=3)
    is_kb(scan(x, given=[0], h=5, k=5, test=None), x, 5, 5, None, hgr_jax.Given([0]))
    x = with_holes(x)
    is_kb(scan(x, given=given, h=3, k=2, weights=w, test=None), x, 3, 2, w, given)


@pytest.mark.usefixtures("x64")
def test_columns_in_several_tiles(rng: np.random.Generator) -> None:
    x = np.concatenate([table(rng), rng.normal(size=(ROWS, 7))], axis=1)
    x[:, 9] += x[:, 0] ** 3
    for y in (x, with_holes(x)):
        one = scan(y, given=0, test=None)
        several = scan(y, given=0, test=None, execution=hgr_jax.Execution(memory=2**20))
        np.testing.assert_allclose(several.correlation, one.correlation, atol=1e-12)


def test_values_in_float32(rng: np.random.Generator) -> None:
    x = table(rng).astype(np.float32)
    x[:, 5] = x[:, 0] + 0.05 * rng.normal(size=ROWS)
    given = hgr_jax.Given([0], degree=3)
    x = with_holes(x)
    is_kb(scan(x, h=3, k=2, given=given, test=None), x, 3, 2, given=given, tolerance=2e-4)


def mixed(rng: np.random.Generator, holes: bool) -> pd.DataFrame:
    age = rng.normal(size=ROWS)
    town = rng.choice(["a", "b", "c"], ROWS)
    frame = pd.DataFrame({"age": age, "town": town})
    frame["size"] = age**2 + (town == "a") + rng.normal(size=ROWS)
    frame["kind"] = np.where(age + rng.normal(size=ROWS) > 0, "x", rng.choice(["y", "z"], ROWS))
    frame["weight"] = frame["size"] ** 2 + rng.normal(size=ROWS)
    frame["color"] = np.where(town == "b", "red", rng.choice(["red", "blue", "gray"], ROWS))
    if holes:
        frame.loc[3:9, "age"] = None
        frame.loc[20:40, "size"] = None
        frame.loc[30:60, "kind"] = None
        frame.loc[70:74, "town"] = None
    return frame


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("given", [["age", "town"], ["town"], ["age"]])
def test_categories_by_their_indicators(
    rng: np.random.Generator, holes: bool, given: list[str]
) -> None:
    frame = mixed(rng, holes)
    w = rng.uniform(0.5, 1.5, ROWS)
    for weights in (None, w):
        found = scan(
            frame, h=3, k=2, given=hgr_jax.Given(given, degree=2), test=None, weights=weights
        )
        assert all(found.skipped[name] == "it is given" for name in given)

        def functions(name: str, keep: np.ndarray, degree: int) -> np.ndarray:
            column = frame[name][keep]
            if column.dtype == np.float64:
                return polynomials(column.to_numpy()[:, None], degree)
            return np.stack([column == level for level in sorted(set(column))], axis=1) * 1.0

        for i, j in found.pairs:
            names = [found.names[q] for q in (i, j)]
            keep = frame[[*names, *given]].notna().all(axis=1).to_numpy()
            known = np.concatenate([functions(name, keep, 2) for name in given], axis=1)
            sides = [functions(n, keep, d) for n, d in zip(names, (3, 2), strict=True)]
            known = np.concatenate([np.ones((keep.sum(), 1)), known], axis=1)
            value = canonical(*sides, known, None if weights is None else weights[keep])
            assert found.correlation[i, j] == pytest.approx(value, abs=1e-9), names
            assert found.n_obs[i, j] == keep.sum()
            full = details_of(found, *names)
            assert full is not None
            assert full.residuals is not None
            f, g = (values[keep] for values in full.residuals)
            shares = np.ones(keep.sum()) if weights is None else weights[keep]
            shares = shares / shares.sum()
            assert np.sum(shares * f * g) == pytest.approx(value, abs=1e-9)
            np.testing.assert_allclose(
                [np.sum(shares * f), np.sum(shares * f**2)], [0, 1], atol=1e-8
            )
            assert np.isnan(full.residuals[0]).sum() == (~keep).sum()


@pytest.mark.usefixtures("x64")
def test_what_one_row_makes(rng: np.random.Generator) -> None:
    x = table(rng)
    x[7, [2, 3]] = 30
    found = scan(x, h=2, k=2, given=hgr_jax.Given(0, degree=2), test=None)
    one = found.influence("x2", "x3")
    assert one is not None
    assert one.row == 7
    without = scan(np.delete(x, 7, axis=0), h=2, k=2, given=hgr_jax.Given(0, degree=2), test=None)
    assert one.value_without == pytest.approx(without.correlation[2, 3], abs=1e-9)


def test_what_is_explained_has_no_value(rng: np.random.Generator) -> None:
    x = table(rng)
    x[:, 2] = x[:, 0] ** 2
    found = scan(x, h=2, k=2, given=hgr_jax.Given(0, degree=4))
    assert np.isnan(found.correlation[2, 3:]).all()
    assert np.isnan(found.pvalue[2, 3:]).all()
    assert found.skipped["x2"].startswith("a function of what is given")
    assert np.isfinite(found.correlation[3, 4])


@pytest.mark.parametrize(
    ("of_c", "dtype"), [(np.square, np.float32), (lambda c: np.sin(3 * c), np.float64)]
)
def test_a_function_of_what_is_given_is_left_out(of_c: Any, dtype: Any) -> None:
    rng = np.random.default_rng(1301)
    c = rng.uniform(-1, 1, 300).astype(dtype)
    noise = rng.normal(size=300)
    table = {"x": of_c(c), "y": c**2 + noise / 2, "z": c - noise, "c": c}
    table["x"][7] = np.nan
    found = scan(table, given="c")
    assert "a function of what is given" in found.skipped["x"]
    assert found.used == ("y", "z")
    assert len(found) == 1


def test_what_is_nearly_a_function_of_what_is_given_is_tested() -> None:
    rng = np.random.default_rng(1302)
    c, noise, other = rng.uniform(-1, 1, (3, 300))
    table = {"x": c**2 + 1e-4 * noise, "y": np.exp(c) + 1e-4 * noise, "z": other, "c": c}
    found = scan(table, given="c")
    assert set(found.skipped) == {"c"}
    given_both = scan({**table, "sum": c**2 * other}, given=["c", "z"])
    assert set(given_both.skipped) == {"c", "z", "sum"}


@pytest.mark.parametrize("holes", [False, True])
def test_every_value_and_pvalue_is_that_of_the_pair(rng: np.random.Generator, holes: bool) -> None:
    """By the regression of `hgr_jax.hgr` given the same columns, made once for the same rows."""
    frame = mixed(rng, holes)
    w = rng.uniform(0.5, 1.5, ROWS)
    for weights in (None, w):
        found = scan(frame, given=["age", "town"], weights=weights)
        assert len(found) == 6
        for pair in found:
            keep = frame[["age", "town", pair.a, pair.b]].notna().all(axis=1).to_numpy()
            rows = frame[keep].reset_index(drop=True)
            own = None if weights is None else weights[keep]
            options = {"given": rows[["age", "town"]], "weights": own}
            value = hgr_jax.hgr(rows[pair.a], rows[pair.b], **options)
            assert pair.correlation == pytest.approx(float(value), abs=1e-6), (pair.a, pair.b)
            assert pair.rank_correlation == pair.correlation
            test = hgr_jax.independence_test(rows[pair.a], rows[pair.b], **options)
            assert pair.pvalue == pytest.approx(test.pvalue, rel=1e-6), (pair.a, pair.b)
            assert pair.pvalue_source == test.source == "residuals"
            fit = hgr_jax.hgr_fit(rows[pair.a], rows[pair.b], **options)
            assert found.interval(pair.a, pair.b) == pytest.approx(fit.interval(), abs=1e-6)
            wide = found.interval(pair.a, pair.b, level=0.99)
            assert wide == pytest.approx(fit.interval(0.99), abs=1e-6)
            assert found.fit(pair.a, pair.b).explained == pytest.approx(fit.explained, abs=1e-6)


def test_findings_have_intervals_given_other_columns(rng: np.random.Generator) -> None:
    c, e, f = rng.normal(size=(3, 400))
    table = {"a": c + e, "b": c + e**2 + f / 2, "c": c}
    (found,) = scan(table, given="c").findings().not_monotone
    fit = hgr_jax.hgr_fit(table["a"], table["b"], given=c)
    assert found.interval == pytest.approx(fit.interval(), abs=1e-6)
    untested = scan(table, given="c", test=None)
    assert untested.interval("a", "b") == pytest.approx(fit.interval(), abs=1e-6)


def test_what_is_shown_and_kept(rng: np.random.Generator, tmp_path: Path) -> None:
    x = with_holes(table(rng))
    found = scan(x, given=["x0", 1], h=2, k=1, target=[4, 5])
    assert "(kb, h=2, k=1, given x0, x1)" in repr(found)
    assert (found["x2", "x4"].degrees_a, found["x2", "x4"].degrees_b) == (2, 1)
    assert found.notes["x0"] == (
        "it is given, and missing in 10 rows, which are left out of all pairs"
    )
    assert list(found.to_matrix().columns) == ["x2", "x3", "x4", "x5"]
    found.save(tmp_path / "s.npz")
    kept = Scan.load(tmp_path / "s.npz")
    assert kept.settings["given"] == ["x0", "x1"]
    assert repr(kept) == repr(found)
    with pytest.raises(ValueError, match="this scan is given x0, x1: kb_fit"):
        found.fit("x2", "x4")
    with pytest.raises(KeyError, match="'x0' was skipped: it is given"):
        found["x0", "x4"]
    matrix = hgr_jax.hgr_matrix(x, given=["x0", 1], h=2, k=1)
    assert matrix.loc["x2", "x4"] == pytest.approx(found["x2", "x4"].correlation, abs=1e-6)


def test_no_row_has_all_given_columns(rng: np.random.Generator) -> None:
    x = rng.normal(size=(ROWS, 4))
    x[::2, 0] = np.nan
    x[1::2, 1] = np.nan
    with pytest.raises(ValueError, match="no row has a value in each of the given columns"):
        scan(x, given=[0, 1])


def test_many_given_columns_need_no_degree() -> None:
    rng = np.random.default_rng(1)
    given = {f"c{i}": column for i, column in enumerate(rng.normal(size=(12, 400)))}
    cause = sum(given.values())
    a = cause + rng.normal(size=400)
    b = a + 0.5 * rng.normal(size=400)
    found = scan({**given, "a": a, "b": b}, given=list(given))
    fit = hgr_jax.hgr_fit(a, b, given=np.column_stack(list(given.values())))
    assert found["a", "b"].correlation == pytest.approx(fit.correlation, abs=1e-6)
    assert found.findings().strongest[0].sentence.endswith("b rises with a")
