"""The report of score and dependence, DIDI, and the pictures of a training."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import r2_score, roc_auc_score

import hgr_jax
from hgr_jax.fairness import KB, History, corrected, demographic_parity_hgr, didi, report
from hgr_jax.plotting import plot_history, plot_predictions


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    z = rng.normal(size=300)
    y = z**2 + rng.normal(size=300)
    return z, y, 0.7 * z**2 + 0.3 * z


def test_every_figure_of_a_report(rows: tuple[np.ndarray, ...]) -> None:
    z, y, prediction = rows
    found = report(prediction, None, y, z).figures["model"]
    np.testing.assert_allclose(found["score"], r2_score(y, prediction), rtol=1e-10)
    with jax.enable_x64(True):
        value = hgr_jax.kb(z, prediction)
        np.testing.assert_allclose(found["kb"], value, rtol=1e-10)
        np.testing.assert_allclose(found["sk"], hgr_jax.sk(z, prediction), rtol=1e-10)
        np.testing.assert_allclose(found["kb_corrected"], corrected(value, 300, 9), rtol=1e-10)
    pearson = stats.pearsonr(z, prediction)
    np.testing.assert_allclose(found["pearson"], pearson.statistic)
    np.testing.assert_allclose(found["pearson_p"], pearson.pvalue)
    np.testing.assert_allclose(found["didi"], didi(prediction, z))
    constant = report(np.ones(300), None, y, z).figures["model"]  # depends on nothing
    assert constant["kb"] == constant["sk"] == constant["pearson"] == constant["didi"] == 0
    assert constant["pearson_p"] == 1


def test_a_baseline_stands_beside(rows: tuple[np.ndarray, ...]) -> None:
    z, y, prediction = rows
    found = report(
        prediction**2, None, y, {"age": z}, baseline=prediction, statistic=KB(2, 3), bins=2
    )
    assert list(found.figures) == ["before", "after"]
    lines = str(found).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["before", "after"]
    assert len({len(line) for line in lines}) == 1
    assert found.to_frame().shape == (2, 7)
    before = found.figures["before"]
    with jax.enable_x64(True):
        np.testing.assert_allclose(before["kb"], hgr_jax.kb(z, prediction, h=2, k=3), rtol=1e-10)
        np.testing.assert_allclose(before["sk"], hgr_jax.sk(z, prediction, d=3), rtol=1e-10)
    assert found.figures["before"]["didi"] == didi(prediction, z, bins=2) != didi(prediction, z)
    picture = found.plot()
    assert len(picture.axes) == 6
    # The picture has the degrees of the report, and its name.
    value = found.figures["before"]["kb"]
    assert picture.axes[0].get_title() == f"before: HGR-KB {value:.3f}"
    assert picture.axes[0].get_xlabel() == "age"


def test_a_category_is_one_hot(rows: tuple[np.ndarray, ...]) -> None:
    z, y, prediction = rows
    one_hot = np.eye(3)[np.digitize(z, (-0.5, 0.5))]
    found = report(prediction, None, y, one_hot, statistic=KB(5, 3))
    with jax.enable_x64(True):
        value = hgr_jax.kb(one_hot, prediction, h=1, k=3)
        expected = {
            "kb": float(value),
            "kb_corrected": float(corrected(value, 300, 4)),
            "sk": float(hgr_jax.sk(one_hot, prediction, d=3)),
            "didi": didi(prediction, one_hot),
        }
    figures = dict(found.figures["model"])
    assert figures.pop("score") == pytest.approx(r2_score(y, prediction), rel=1e-10)
    assert figures == pytest.approx(expected, rel=1e-10)
    assert "p-value" not in str(found)


def test_didi_by_hand() -> None:
    prediction = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 9.0])
    z = np.array([0, 0, 0, 1, 1, 1])
    assert didi(prediction, z) == pytest.approx(abs(2 - 4) + abs(6 - 4))
    assert didi(prediction, z.astype(str)) == didi(prediction, z)
    assert didi(prediction, np.eye(2)[z]) == didi(prediction, z)
    assert didi(prediction, [10, 11, 12, 13, 14, 15], bins=2) == pytest.approx(4)


def test_pictures_show_names_as_they_are() -> None:
    z = np.linspace(-1, 1, 50)
    figure = plot_predictions(z, {"$a_1$": z**2}, name="<b>$z$", h=2, k=2)
    assert figure.axes[0].get_title().startswith(r"\$a_1\$: HGR-KB 1.000")
    assert figure.axes[0].get_xlabel() == r"<b>\$z\$"


def test_picture_of_a_history() -> None:
    step = np.array([25, 50])
    evaluations = {"step": step, "score_train": step / 50.0, "hgr_train_z": 10.0 / step}
    history = History({"step": step, "multiplier_z": step / 50.0}, evaluations, {"z": 0.2})
    score, dependence, multiplier = plot_history(history).axes
    np.testing.assert_array_equal(score.lines[0].get_ydata(), [0.5, 1])
    np.testing.assert_array_equal(dependence.lines[0].get_ydata(), [0.4, 0.2])
    assert list(dependence.lines[1].get_ydata()) == [0.2, 0.2]
    np.testing.assert_array_equal(multiplier.lines[0].get_ydata(), [0.5, 1])


def test_probabilities_are_scored_by_the_area_under_the_curve(rows: tuple[np.ndarray, ...]) -> None:
    z, y, prediction = rows
    probability = np.round(1 / (1 + np.exp(-prediction)), 2)  # with ties
    label = (y > 0.5).astype(int)
    found = report(probability, None, label, z, baseline=y)  # has the same score
    assert found.score_name == "AUC"
    score = found.figures["after"]["score"]
    np.testing.assert_allclose(score, roc_auc_score(label, probability), rtol=1e-10)
    assert found.figures["before"]["score"] == 1


def test_a_metric_in_the_manner_of_fairlearn(rng: np.random.Generator) -> None:
    metrics = pytest.importorskip("fairlearn.metrics")
    age, city = rng.uniform(-1, 1, 400), rng.choice(["a", "b"], 400)
    y = rng.normal(size=400)
    prediction = np.where(city == "a", age**2, y) + 0.01 * y
    value = demographic_parity_hgr(y, prediction, sensitive_features=age)
    assert 0.4 < value < 0.9
    frame = metrics.MetricFrame(
        metrics=demographic_parity_hgr,
        y_true=y,
        y_pred=prediction,
        sensitive_features=city,
        sample_params={"sensitive_features": age},
    )
    assert frame.overall == pytest.approx(value)
    assert frame.by_group["a"] > 0.99
    assert frame.by_group["b"] < 0.3
    of_text = [
        metric(city == "a", city == "a", sensitive_features=city)
        for metric in (metrics.demographic_parity_difference, demographic_parity_hgr)
    ]
    assert of_text == pytest.approx([1, 1])
