"""The report of score and dependence, DIDI, and the pictures of a training."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import r2_score

import hgr_jax
from hgr_jax.fairness import (
    HGR,
    KB,
    FairMLPRegressor,
    History,
    Penalty,
    didi,
    report,
)
from hgr_jax.plotting import plot_history


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    z = rng.normal(size=300)
    y = z**2 + rng.normal(size=300)
    return z, y, 0.7 * z**2 + 0.3 * z


def figures(*arguments: Any, model: str = "model", **options: Any) -> dict[str, Any]:
    """The row of a model, of a single attribute."""
    found = report(*arguments, **options)
    ((attribute, _), *_) = found.index
    return found.loc[(attribute, model)].to_dict()


def test_every_figure_of_a_report(rows: tuple[np.ndarray, ...]) -> None:
    z, y, prediction = rows
    found = figures(prediction, None, y, z)
    assert list(found) == ["R2", "HGR-KB(5, 5)", "pearson", "didi"]
    np.testing.assert_allclose(found["R2"], r2_score(y, prediction), rtol=1e-10)
    with jax.enable_x64(True):
        value = hgr_jax.kb(z, prediction)
        np.testing.assert_allclose(found["HGR-KB(5, 5)"], value, rtol=1e-10)
    np.testing.assert_allclose(found["pearson"], stats.pearsonr(z, prediction).statistic)
    np.testing.assert_allclose(found["didi"], didi(prediction, z))
    constant = figures(np.ones(300), None, y, z)  # depends on nothing
    assert constant["HGR-KB(5, 5)"] == constant["pearson"] == constant["didi"] == 0


@pytest.mark.parametrize(
    ("statistic", "measure"),
    [
        (HGR(), hgr_jax.hgr),
        ("sk", hgr_jax.sk),
        ("hsic", hgr_jax.hsic),
    ],
)
def test_any_statistic_is_measured(rows: Any, statistic: Any, measure: Any) -> None:
    z, y, prediction = rows
    found = figures(prediction, None, y, z, statistic=statistic)
    with jax.enable_x64(True):
        expected = float(measure(z, prediction))
    name = list(found)[1]
    assert found[name] == pytest.approx(expected, rel=0.02)
    assert "kept" not in found


def test_a_penalty_is_compared_with_its_threshold(rows: tuple[np.ndarray, ...]) -> None:
    z, y, prediction = rows
    for threshold in (0.3, 1.0):
        found = figures(prediction, None, y, z, statistic=Penalty(HGR(), threshold))
        assert found["kept"] == (found["HGR"] <= threshold)
    model = FairMLPRegressor((4,), penalty=KB(2, 2), threshold=0.4, steps=100, random_state=0)
    model.fit(z[:, None], y, z)
    found = figures(model, z[:, None], y, z)
    assert list(found) == ["R2", "HGR-KB(2, 2)", "kept", "pearson", "didi"]
    assert found["kept"] == model.history_.kept["z"]
    value = model.history_.last["dependence_train_z"]
    assert found["HGR-KB(2, 2)"] == pytest.approx(value, abs=1e-3)
    halves = Penalty(KB(1, 1), 0.5, given=2)
    inside = figures(prediction, None, y, z, statistic=halves)["HGR-KB(1, 1)"]
    low = y < np.median(y)
    parts = [abs(np.corrcoef(z[part], prediction[part])[0, 1]) for part in (low, ~low)]
    assert inside == pytest.approx(max(parts), rel=1e-5)


def test_a_baseline_stands_beside(rows: tuple[np.ndarray, ...]) -> None:
    z, y, prediction = rows
    age = pd.Series(z, name="age")
    found = report(prediction**2, None, y, age, baseline=prediction, statistic=KB(2, 3))
    assert list(found.index) == [("age", "before"), ("age", "after")]
    before = found.loc[("age", "before")]
    with jax.enable_x64(True):
        value = hgr_jax.kb(z, prediction, h=2, k=3)
    np.testing.assert_allclose(before["HGR-KB(2, 3)"], value, rtol=1e-10)
    assert before["didi"] == didi(prediction, z)


def test_didi_by_hand() -> None:
    prediction = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 9.0])
    z = np.array([0, 0, 0, 1, 1, 1])
    assert didi(prediction, z) == pytest.approx(abs(2 - 4) + abs(6 - 4))
    assert didi(prediction, z.astype(str)) == didi(prediction, z)
    assert didi(prediction, np.eye(2)[z]) == didi(prediction, z)
    assert didi(np.arange(10.0), np.arange(10.0)) == pytest.approx(4 + 2 + 2 + 4)


def test_picture_of_a_history() -> None:
    step = np.array([25, 50])
    evaluations = {"step": step, "loss_train": step / 50.0, "dependence_train_z": 10.0 / step}
    steps = {"step": step, "multiplier_z": step / 50.0}
    history = History(steps, evaluations, {"z": 0.2}, {"z": "HGR"})
    loss, dependence, multiplier = plot_history(history).axes
    np.testing.assert_array_equal(loss.lines[0].get_ydata(), [0.5, 1])
    np.testing.assert_array_equal(dependence.lines[0].get_ydata(), [0.4, 0.2])
    assert dependence.get_title() == "HGR (dotted: threshold)"
    assert list(dependence.lines[1].get_ydata()) == [0.2, 0.2]
    np.testing.assert_array_equal(multiplier.lines[0].get_ydata(), [0.5, 1])
