"""Random tables, and the values of their pairs by the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hgr_jax
from bench import reference
from hgr_jax import Scan, independence_test

ROWS = 150


TOLERANCE = 1e-6


def as_read(s: Scan, name: str) -> np.ndarray:
    """A column ``(n,)``, or the indicators ``(n, levels)`` of a category; NaN where missing."""
    values, category = s.values(name).astype(np.float64), s.category(name)
    if category is None:
        return values
    levels = np.arange(len(category.levels))
    return np.where(np.isnan(values)[:, None], np.nan, values[:, None] == levels)


def present_rows(s: Scan, i: int, j: int, weights: Any = None) -> tuple[Any, Any, Any]:
    """Both columns as the scan reads them, and weights, on the rows where both are present."""
    a, b = (as_read(s, s.names[column]) for column in (i, j))
    w = np.ones(len(a)) if weights is None else np.asarray(weights)
    keep = w > 0
    for side in (a, b):
        keep &= ~np.isnan(side.reshape(len(side), -1)).any(axis=1)
    return a[keep], b[keep], w[keep]


def expected(a: Any, b: Any, w: Any, h: int, k: int) -> tuple[float, tuple[int, int]]:
    """HGR-KB and directions, of vectors or of indicators ``(n, levels)``."""
    if len(a) < 2:
        return np.nan, (0, 0)
    bases = [
        reference.orthonormal_features(x, w)
        if x.ndim == 2
        else reference.orthonormal_polynomials(x, degree, w)
        for x, degree in ((a, h), (b, k))
    ]
    directions = len(bases[0]), len(bases[1])
    value = reference.canonical_correlation(*bases) if min(directions) else np.nan
    return value, directions


def agrees(s: Scan, weights: Any = None, tolerance: float | None = None) -> None:
    """Every number of a scan of ``"kb"`` is that of the reference."""
    tolerance = TOLERANCE if tolerance is None else tolerance
    h, k = s.settings["h"], s.settings["k"]
    assert all("present is 2.5" in reason for reason in s.skipped.values())
    for i, j in s.pairs:
        a, b, w = present_rows(s, i, j, weights)
        value, directions = expected(a, b, w, h, k)
        where = f"{s.names[i]}, {s.names[j]}"
        np.testing.assert_allclose(s.correlation[i, j], value, atol=tolerance, err_msg=where)
        assert s.n_obs[i, j] == s.n_obs[j, i] == len(a), where
        assert tuple(s.degrees[i, j]) == directions == tuple(s.degrees[j, i][::-1]), where
        if a.ndim == b.ndim == 1 and min(directions) > 0:
            cov = np.cov(a / np.abs(a).max(), b / np.abs(b).max(), aweights=w, bias=True)
            pearson = abs(cov[0, 1]) / np.sqrt(cov[0, 0] * cov[1, 1])
            np.testing.assert_allclose(s.pearson[i, j], pearson, atol=tolerance, err_msg=where)
        else:
            assert np.isnan(s.pearson[i, j]), where
    np.testing.assert_array_equal(s.correlation, s.correlation.T)
    np.testing.assert_array_equal(s.pearson, s.pearson.T)


def is_kb(
    found: Scan,
    x: np.ndarray,
    h: Any,
    k: Any,
    weights: Any = None,
    given: Any = None,
    tolerance: float = 1e-9,
) -> None:
    """Every value of a scan of a matrix is that of `kb` on the rows of the pair."""
    known = [] if given is None else given.columns
    assert len(found.pairs)
    for i, j in found.pairs:
        assert not {i, j} & set(known)
        keep = ~np.isnan(x[:, [i, j, *known]]).any(axis=1)
        options: dict[str, Any] = {"weights": None if weights is None else weights[keep]}
        if known:
            options |= {"given": x[keep][:, known], "given_degree": given.degree}
        value = float(hgr_jax.kb(x[keep, i], x[keep, j], h, k, **options))
        assert found.correlation[i, j] == pytest.approx(value, abs=tolerance), (i, j)
        counted = keep if weights is None else keep & (weights > 0)
        assert found.n_obs[i, j] == counted.sum(), (i, j)


def upper(values: np.ndarray) -> np.ndarray:
    return values[np.triu_indices(len(values), 1)]


def plain(rng: np.random.Generator, columns: int = 5) -> np.ndarray:
    x = rng.normal(size=(ROWS, columns))
    x[:, 1] = x[:, 0] ** 2 + 0.3 * x[:, 1]
    x[:, 2] += np.sin(2 * x[:, 1])
    return x


def is_the_test_of_each_pair(found: Scan, x: Any, weights: Any = None, rtol: float = 2e-4) -> None:
    """The logarithms of p-values are those of `independence_test` (the scan's is in float32)."""
    for i, j in found.pairs:
        keep = ~np.isnan(x[:, i] + x[:, j])
        of_pair = None if weights is None else weights[keep]
        test = independence_test(x[keep, i], x[keep, j], weights=of_pair)
        assert found.pvalue_source[i, j] == test.source, (i, j, test)
        if test.source != "permutation":
            assert np.log(found.pvalue[i, j]) == pytest.approx(
                np.log(test.pvalue), rel=rtol, abs=rtol
            ), (i, j, test)
