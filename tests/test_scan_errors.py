"""Standard errors of a scan are those of the fit of each pair."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scan_support import ROWS, plain, with_holes

import hgr_jax
from hgr_jax import Scan
from hgr_jax.kernels import Indicators, hats

scan = functools.partial(hgr_jax.scan, measure="kb")


def are_of_fits(found: Scan, x: Any, h: Any, k: Any, w: Any = None, atol: float = 1e-8) -> None:
    errors = found.standard_error
    assert errors is not None
    np.testing.assert_array_equal(errors, errors.T)
    assert np.isnan(np.diagonal(errors)).all()
    for i, j in found.pairs:
        keep = ~np.isnan(x[:, i] + x[:, j])
        choices = [(h, 1), (1, k)] if found.settings["measure"] == "sk" else [(h, k)]
        of_pair = None if w is None else w[keep]
        fits = [hgr_jax.kb_fit(x[keep, i], x[keep, j], *c, weights=of_pair) for c in choices]
        fit = max(fits, key=lambda fit: float(fit.correlation))
        assert errors[i, j] == pytest.approx(float(fit.standard_error), abs=atol), (i, j)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize(
    ("h", "k"), [(3, 2), (hats([-1, 0, 1]), 3), (hats([-1, 0, 1]), hats([-1, 0, 1]))], ids=str
)
def test_they_are_those_of_the_fit_of_each_pair(
    rng: np.random.Generator, holes: bool, h: Any, k: Any
) -> None:
    x = with_holes(plain(rng, 4)) if holes else plain(rng, 4)
    x[:, 3] += np.abs(x[:, 1])
    w = rng.exponential(size=ROWS)
    w[:5] = 0
    for weights in (None, w):
        found = scan(x, h=h, k=k, weights=weights, test=None, errors=True)
        are_of_fits(found, x, h, k, weights)
    if h == 3 and not holes:
        are_of_fits(scan(x, h=h, k=k, measure="sk", test=None, errors=True), x, h, k)


@pytest.mark.usefixtures("x64")
def test_with_a_category(rng: np.random.Generator) -> None:
    x = with_holes(plain(rng, 4))
    kind = rng.integers(0, 3, ROWS)
    kind[:40] = x[:40, 0] > 0
    color = np.where(rng.random(ROWS) < 0.5, kind, rng.integers(0, 3, ROWS)).astype(float)
    table = {f"x{i}": x[:, i] for i in (0, 1)}
    table |= {
        "kind": np.array(["a", "b", "c"])[kind],
        "color": np.array(["r", "g", "b"])[color.astype(int)],
    }
    found = scan(table, h=3, k=3, test=None, errors=True)
    codes = {"kind": kind.astype(float), "color": color}
    for pair in found.top(6):
        columns = [codes.get(name, table[name]) for name in (pair.a, pair.b)]
        kernels = [Indicators(3) if name in codes else 3 for name in (pair.a, pair.b)]
        keep = ~np.isnan(columns[0] + columns[1])
        fit = hgr_jax.kb_fit(*(c[keep] for c in columns), *kernels)
        assert pair.standard_error == pytest.approx(float(fit.standard_error), abs=1e-8), pair


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("holes", [False, True])
def test_given_other_columns(rng: np.random.Generator, holes: bool) -> None:
    x = with_holes(plain(rng, 4)) if holes else plain(rng, 4)
    c = rng.normal(size=ROWS)
    frame = pd.DataFrame(x + c[:, None], columns=list("abde"))
    frame["c"], frame["kind"] = c, np.where(c + rng.normal(size=ROWS) > 0, "x", "y")
    frame["color"] = np.where(rng.random(ROWS) < 0.5, frame["kind"], rng.choice(["x", "z"], ROWS))
    found = scan(frame, h=2, k=2, given=hgr_jax.Given("c", degree=2), test=None, errors=True)
    for pair in found.top(20):
        full = found.details(pair.a, pair.b)
        assert full is not None
        assert full.residuals is not None
        f, g = (values[~np.isnan(values)] for values in full.residuals)
        psi = f * g - pair.correlation / 2 * (f**2 + g**2)
        expected = np.sqrt(np.sum(psi**2)) / len(psi)
        assert pair.standard_error == pytest.approx(expected, abs=1e-8), pair


def test_in_float32_and_in_parts(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    x = with_holes(plain(rng, 4)).astype(np.float32)
    found = scan(x, h=3, k=2, test=None, errors=True)
    are_of_fits(found, x, 3, 2, atol=1e-4)
    monkeypatch.setattr("hgr_jax.scanning.solve.ERROR_ROWS", 64)
    monkeypatch.setattr("hgr_jax.scanning.solve.ERROR_NUMBERS", 128)
    again = scan(x, h=3, k=2, test=None, errors=True)
    np.testing.assert_allclose(again.standard_error, found.standard_error, atol=1e-6)


def test_where_they_are_shown(rng: np.random.Generator, tmp_path: Path) -> None:
    x = plain(rng, 3)
    x[:, 2] = np.where(np.arange(ROWS) < 2, x[:, 2], np.nan)
    found, without = (scan(x, h=2, k=2, test=None, errors=s) for s in (True, False))
    pair = found["x0", "x1"]
    assert 0 < pair.standard_error < 0.1
    assert pair.standard_error in set(found.to_frame()["standard_error"])
    assert found.to_matrix("standard_error").loc["x0", "x1"] == pair.standard_error
    assert np.isnan(without.top(1)[0].standard_error)
    assert without.standard_error is None
    assert "standard_error" not in without.to_frame()
    with pytest.raises(ValueError, match="not asked for: scan with errors=True"):
        without.to_matrix("standard_error")
    for each in (found, without):
        each.save(tmp_path / "s.npz")
        kept = Scan.load(tmp_path / "s.npz").standard_error
        if each.standard_error is None:
            assert kept is None
        else:
            np.testing.assert_array_equal(kept, each.standard_error)
