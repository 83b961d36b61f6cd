"""Pictures: drawn without warnings, and names shown as they are."""

from __future__ import annotations

import io
from typing import Any

import jax
import numpy as np
import pytest

import hgr_jax
from bench.data import awkward_pair
from hgr_jax.plotting import conditional_medians, plot_correlations, plot_fit, plot_given

HOSTILE = ("$\\frac{1}{", "a_b^c $x$ <b>\n\t\x07")


def png(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def test_a_fit_in_four_panels() -> None:
    a, b = (x.astype(np.float32) for x in awkward_pair("uniform", 200))
    fit = hgr_jax.kb_fit(a, b, 3, 2)
    figure = plot_fit(fit, a, b, names=("age", "income"))
    data, f, g, projection = figure.axes
    assert (data.get_xlabel(), data.get_ylabel()) == ("age", "income")
    assert (f.get_xlabel(), g.get_xlabel()) == ("age", "income")
    assert f"{float(fit.correlation):.3f}" in projection.get_title()
    drawn = np.asarray(projection.collections[0].get_offsets())
    np.testing.assert_allclose(drawn, np.stack([fit.f(a), fit.g(b)], axis=1), rtol=1e-6)
    grid, curve = f.lines[0].get_data()
    np.testing.assert_allclose(curve, fit.f(grid.astype(np.float32)), rtol=1e-6)
    assert png(figure).startswith(b"\x89PNG")


def test_levels_are_named_and_have_no_medians() -> None:
    site = np.array(["north", "$south$", "east"])[np.random.default_rng(0).integers(0, 3, 90)]
    price = np.random.default_rng(1).normal(size=90) + 3 * (site == "north")
    found = hgr_jax.scan({"site": site, "price": price})
    figure = plot_fit(found.fit("site", "price"), found.values("site"), price)
    data, f, _, _ = figure.axes
    levels = [level.replace("$", "\\$") for level in found.category("site").levels]
    for axes in (data, f):
        assert [label.get_text() for label in axes.get_xticklabels()] == levels
        assert not axes.lines
    assert data.get_title() == "data"
    assert png(figure).startswith(b"\x89PNG")


def test_what_given_variables_leave() -> None:
    a, b = (x.astype(np.float64) for x in awkward_pair("uniform", 200))
    figure = plot_given((a, b), (a - a.mean(), b - b.mean()), (a, b**2), ("age", "$x$"))
    of_b, of_a, projection = figure.axes
    assert (of_b.get_xlabel(), of_a.get_xlabel()) == ("age", "\\$x\\$")
    drawn = np.asarray(of_a.collections[0].get_offsets())
    np.testing.assert_allclose(drawn, np.stack([b, a - a.mean()], axis=1))
    assert f"{np.corrcoef(a, b**2)[0, 1]:.3f}" in projection.get_title()
    assert png(figure).startswith(b"\x89PNG")


LONG = [f"first {'x' * 300} last {i}" for i in range(3)]


@pytest.mark.parametrize("names", [HOSTILE, ("", "ж"), LONG[:2]])
def test_names_are_shown_as_they_are(names: tuple[str, str]) -> None:
    a, b = (x.astype(np.float32) for x in awkward_pair("normal", 30))
    fit = hgr_jax.kb_fit(a, b, 2, 2)
    assert png(plot_fit(fit, a, b, names=names)).startswith(b"\x89PNG")
    table = np.eye(2)
    assert png(plot_correlations(table, table, names)).startswith(b"\x89PNG")


@pytest.mark.parametrize(("origin", "step"), [(1e15, 1.0), (1.7e9, 60.0), (1.25, 1e-9)])
def test_values_that_are_almost_alike(origin: float, step: float) -> None:
    with jax.enable_x64(True):
        a = origin + step * np.arange(10.0)
        figure = plot_fit(hgr_jax.kb_fit(a, a, 1, 1), a, a, names=("id", "b"))
    png(figure)
    assert figure.axes[0].xaxis.get_offset_text().get_text()  # what ticks are counted from


def test_rows_that_are_not_finite_are_left_out() -> None:
    a, b = (x.astype(np.float32) for x in awkward_pair("normal", 30))
    fit = hgr_jax.kb_fit(a, b, 2, 2)
    a[3], b[4] = np.nan, np.inf
    figure = plot_fit(fit, a, b)
    kept = np.delete([a, b], [3, 4], axis=1)
    assert f"|Pearson| {abs(np.corrcoef(kept)[0, 1]):.3f}" in figure.axes[0].get_title()
    assert np.isfinite(figure.axes[1].lines[0].get_ydata()).all()
    with pytest.raises(ValueError, match="no row of two finite values"):
        plot_fit(fit, np.full(3, np.nan), np.ones(3))
    with pytest.raises(ValueError, match=r"one shape \(n,\); got \(5,\) and \(4,\)"):
        plot_fit(fit, np.arange(5.0), np.arange(4.0))


def test_the_heat_map_has_kb_above_and_pearson_below() -> None:
    kb, pearson = np.full((3, 3), 0.9), np.full((3, 3), -0.2)
    figure = plot_correlations(kb, pearson, ["x", "y", "z"], title="both")
    axes = figure.axes[0]
    shown = np.asarray(axes.images[0].get_array().filled(np.nan))
    np.testing.assert_allclose(shown[0, 1:], 0.9)
    np.testing.assert_allclose(shown[1:, 0], 0.2)
    assert np.isnan(np.diagonal(shown)).all()
    assert axes.get_title() == "both"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["x", "y", "z"]
    with pytest.raises(
        ValueError, match=r"above and below must have shape \(2, 2\).*got \(3, 3\) and \(2, 2\)"
    ):
        plot_correlations(np.eye(3), np.eye(2), ["x", "y"])


def test_medians_in_bins_and_their_bands() -> None:
    """Far values move neither; 19 of 20 bands hold the median of the law."""
    inside = bins = 0
    for seed in range(40):
        a, noise = np.random.default_rng(seed).normal(size=(2, 800))
        found = np.array(conditional_medians(np.sign(a), np.sign(a) + noise**3))
        assert found.shape == (2, 4)
        np.testing.assert_allclose(found[0, 1], np.median((np.sign(a) + noise**3)[a < 0]))
        inside += np.sum((found[:, 2] <= found[:, 0]) & (found[:, 0] <= found[:, 3]))
        bins += len(found)
    assert 0.88 <= inside / bins <= 1
