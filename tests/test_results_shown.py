"""What results print, show in notebooks and draw, and the short ways to them."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hgr_jax
from hgr_jax import KBFit, Scan, kb_fit, scan
from hgr_jax.plotting import plot_fit

ROWS = 120
HOSTILE = "<script>alert(1)</script>"


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, ROWS)
    data = {"speed": x, "drag": x**2 + 0.1 * rng.normal(size=ROWS), HOSTILE: rng.normal(size=ROWS)}
    data["species"] = np.where(
        x > 0.3, "Gentoo", np.where(rng.random(ROWS) > 0.5, "Adelie", "Chin")
    )
    return pd.DataFrame(data | {"planet": 3})


@pytest.fixture(scope="module")
def found() -> Scan:
    return scan(table(), h=2, k=2)


@pytest.fixture(scope="module")
def fit() -> KBFit:
    x = jnp.linspace(-1, 1, 50)
    return kb_fit(x, x**2, 2, 2)


class TestScan:
    def test_lines(self, found: Scan) -> None:
        lines = repr(found).splitlines()
        assert lines[0] == "Scan of 6 pairs of 4 columns, 120 rows (kb, h=2, k=2)"
        best = found.top(1)[0]
        assert lines[1] == f"  {best.a} and {best.b}: {best.correlation:.3f}"
        assert lines[-1] == "  ... 3 more"
        assert len(lines) == 5
        assert str(found) == repr(found)
        empty = scan({"a": np.ones(9), "b": np.ones(9)})
        assert repr(empty) == "Scan of 0 pairs of 0 columns, 9 rows (hgr)"

    @pytest.mark.parametrize(
        ("names", "error", "message"),
        [
            (("sped", "drag"), KeyError, "no column 'sped' was scanned; did you mean 'speed'"),
            (("mass", "drag"), KeyError, "no column 'mass' was scanned; there are speed, "),
            (("planet", "drag"), KeyError, "'planet' was skipped: every value"),
            (("drag", "drag"), KeyError, "'drag' and 'drag' was not measured"),
            (0, TypeError, "takes the names of two columns"),
            ("drag", TypeError, "takes the names of two columns"),
            (("a", "b", "c"), TypeError, "takes the names of two columns"),
        ],
    )
    def test_what_is_no_pair(self, found: Scan, names: Any, error: Any, message: str) -> None:
        with pytest.raises(error, match=message):
            found[names]

    @pytest.mark.parametrize("which", ["correlation", "pvalue", "n_obs", "pvalue_source"])
    def test_matrices_with_names(self, found: Scan, which: str) -> None:
        frame = found.to_matrix(which)
        assert isinstance(frame, pd.DataFrame)
        assert list(frame.index) == list(frame.columns) == ["speed", "drag", HOSTILE, "species"]
        np.testing.assert_array_equal(frame.to_numpy(), getattr(found, which)[:4, :4])
        polars = found.to_matrix(which, library="polars")
        assert isinstance(polars, pl.DataFrame)
        assert polars.columns == ["column", *frame.columns]
        assert polars["column"].to_list() == list(frame.index)
        assert polars["drag"].to_list()[0] == polars["speed"].to_list()[1]
        with pytest.raises(ValueError, match="which must be"):
            found.to_matrix("names")

    @pytest.mark.parametrize("make", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
    def test_in_one_call(self, make: Any) -> None:
        whole = table()[["speed", "drag", "species"]].rename(columns={"drag": "column"})
        frame = hgr_jax.hgr_matrix(make(whole), h=3, k=2)
        assert type(frame) is type(make(whole))
        expected = scan(whole, h=3, k=2, test=None).to_matrix()
        if isinstance(frame, pd.DataFrame):
            pd.testing.assert_frame_equal(frame, expected)
            return
        names = frame.columns if isinstance(frame, pl.DataFrame) else frame.column_names
        assert names == ["column (2)", "speed", "column", "species"]
        shown = frame.to_pandas().set_index("column (2)")
        np.testing.assert_allclose(shown, expected, atol=1e-12)

    def test_labels_of_a_category(self, found: Scan) -> None:
        fit = found.fit("species", "speed")
        category = found.category("species")
        assert category is not None
        positions = [category.levels.index(name) for name in ("Gentoo", "Adelie")]
        np.testing.assert_array_equal(fit.f(["Gentoo", "Adelie"]), fit.f(positions))
        labels = table()["species"]
        np.testing.assert_array_equal(fit.f(labels), fit.f(found.values("species")))
        with pytest.raises(ValueError, match="no level 'gentoo'; did you mean 'Gentoo'"):
            fit.f(["gentoo"])
        with pytest.raises(ValueError, match="no level 'x'; there are Adelie, Chin, Gentoo"):
            fit.f(np.array(["x"]))
        with pytest.raises(TypeError, match="real numbers"):
            fit.g(["Gentoo"])
        again = found.fit("speed", "species")
        assert again.g(["Adelie"]).shape == (1,)
        values = jax.jit(lambda fit, codes: fit.f(codes))(fit, jnp.array(positions))
        np.testing.assert_allclose(values, fit.f(positions), rtol=1e-5)
        assert isinstance(jax.tree.map(lambda leaf: leaf, fit), KBFit)

    def test_pictures(self, found: Scan) -> None:
        matplotlib = pytest.importorskip("matplotlib.figure")
        assert len(found.plot().axes[0].texts) == 12  # 4 x 4, without the diagonal
        assert found.plot().axes[0].get_title() == "KB above, monotone part below"
        own = matplotlib.Figure(layout="constrained")
        left, right = own.subplots(1, 2)
        assert found.plot(ax=right) is own
        assert len(right.texts) == 12
        assert not left.images
        values = [text.get_text() for text in right.texts]
        assert all(re.fullmatch(r"[01]\.\d\d", value) for value in values)


class TestFit:
    def test_lines(self, fit: KBFit) -> None:
        first, second = repr(fit).splitlines()
        assert first.startswith("KBFit(correlation=1, degrees=[2, 2], leverage=0.0")
        assert second == f"  {fit.message}"
        single = hgr_jax.sk_fit(jnp.arange(9.0), jnp.arange(9.0) ** 2, 2)
        assert repr(single).startswith("SKFit(correlation=1")

        assert "None" in repr(jax.tree.map(lambda leaf: None, fit))
        assert "correlation=x" in repr(jax.tree.map(lambda leaf: "x", fit))

    def test_traced(self) -> None:
        shown, x = [], jnp.linspace(-1, 1, 30)

        def value(b: jax.Array) -> jax.Array:
            found = kb_fit(x, b, 2, 2)
            shown.append(repr(found))
            return found.correlation

        jax.jit(jax.grad(value))(x**3)
        assert shown[0].startswith("KBFit(correlation=")
        assert "Trace" in shown[0]

    def test_a_picture(self, fit: KBFit) -> None:
        pytest.importorskip("matplotlib")
        x = np.linspace(-1, 1, 401)
        figure = plot_fit(fit, x, x**2, names=("speed", "drag"))
        assert figure.axes[0].get_xlabel() == "speed"
        marked = [[line.get_xdata()[0] for line in axes.lines[1:]] for axes in figure.axes[1:3]]
        assert abs(marked[0][0]) < 0.1  # where the parabola turns
        assert (len(marked[0]), marked[1]) == (1, [])
        with pytest.raises(TypeError, match="must be numbers to be drawn"):
            plot_fit(fit, ["a", "b"], [1.0, 2.0])
