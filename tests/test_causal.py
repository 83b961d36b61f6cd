"""Searches for causes by other packages, with the tests of independence of this one."""

from __future__ import annotations

import importlib
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import hgr_jax
from hgr_jax.causal import causal_learn_test, dowhy_test, pgmpy_test, tigramite_test


def load(name: str) -> Any:
    """Import a module of another package, which may warn; skip the test without it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = name.partition(".")[0]
        pytest.importorskip(package, reason=f"{package} is not installed", exc_type=ImportError)
        return importlib.import_module(name)


@pytest.fixture(scope="module")
def columns() -> dict[str, np.ndarray]:
    """x -> y <- z, y -> w, by curves; z is a category, whose codes have no order."""
    rng = np.random.default_rng(0)
    x, e, f = rng.normal(size=(3, 500))
    z = rng.choice(["a", "b", "c"], 500)
    y = x**2 + 1.5 * (z == "b") + 0.3 * e
    return {"x": x, "z": z, "y": y, "w": np.abs(y - 1) + 0.3 * f}


ARROWS = [("x", "y"), ("z", "y"), ("y", "w")]
"""The graph that the columns come from; no other has its independences."""


@pytest.fixture
def objects(columns: dict[str, np.ndarray]) -> np.ndarray:
    return np.stack([column.astype(object) for column in columns.values()], axis=1)


def given_pvalue(columns: dict[str, np.ndarray], x: str, y: str, *given: str) -> float:
    z = {name: columns[name] for name in given}
    return hgr_jax.independence_test(columns[x], columns[y], given=z).pvalue


# --- causal-learn --------------------------------------------------------------


def test_pc_of_causal_learn_takes_numbers_and_text(
    columns: dict[str, np.ndarray], objects: np.ndarray
) -> None:
    pc = load("causallearn.search.ConstraintBased.PC").pc
    names = [*columns]
    options = {"alpha": 0.01, "indep_test": causal_learn_test(), "show_progress": False}
    found = pc(objects, node_names=names, **options)
    edges = [str(edge) for edge in found.G.get_graph_edges()]
    assert sorted(edges) == sorted(" --> ".join(arrow) for arrow in ARROWS)
    numbers = np.stack([columns["x"], columns["y"], columns["w"]], axis=1)
    for data in (numbers, numbers.astype(np.float32)):
        assert pc(data, **options).G.get_num_edges() == 2


def test_questions_of_causal_learn_are_asked_once(
    columns: dict[str, np.ndarray], objects: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    cit = load("causallearn.utils.cit")
    test = cit.CIT(objects, causal_learn_test())
    assert test.method == "hgr"
    expected = given_pvalue(columns, "x", "w", "z", "y")
    assert test(0, 3, [1, 2]) == expected
    assert test(1, 0) == given_pvalue(columns, "x", "z")
    monkeypatch.setattr(test, "tests", None)
    assert test(np.int64(3), 0, (2, 1)) == expected
    with pytest.raises(TypeError, match="alpha"):
        cit.CIT(objects, "hgr", alpha=0.1)
    with pytest.raises(ValueError, match=r"'x1' has 1 missing value:"):
        cit.CIT(np.array([[1.0, 2.0], [2.0, np.nan], [3.0, 1.0]]), "hgr")


# --- pgmpy ---------------------------------------------------------------------


@pytest.mark.parametrize("rule", [None, "pvalue", "effect"])
def test_pc_of_pgmpy_takes_a_mixed_frame(columns: dict[str, np.ndarray], rule: str | None) -> None:
    pc = load("pgmpy.causal_discovery").PC
    pandas = load("pandas")
    frame = pandas.DataFrame(columns).astype({"z": "category"})
    search = pc(ci_test=pgmpy_test(frame), orient_rule=rule, show_progress=False).fit(frame)
    assert sorted(search.causal_graph_.edges()) == sorted(ARROWS)


def test_a_test_for_pgmpy_by_itself(columns: dict[str, np.ndarray]) -> None:
    test = pgmpy_test(columns)
    assert test("x", "w", ("y",)) is True
    pvalue = given_pvalue(columns, "x", "w", "y")
    assert (test.p_value_, test.statistic_) == (pvalue, test.effect_size_)  # type: ignore[attr-defined]
    assert test("x", "w", ["y"], significance_level=pvalue * 1.01) is False
    assert test("x", "y", data=None, independencies=None) is False
    again = pickle.loads(pickle.dumps(test))
    assert again("x", "w", ["y"])
    assert again.p_value_ == pvalue
    # Names of columns that are numbers are no positions.
    numbered = {2: columns["x"], 0: columns["y"], 1: columns["w"]}
    assert pgmpy_test(numbered)(2, 1, [0])


# --- tigramite -----------------------------------------------------------------


def autoregressive(rng: np.random.Generator, rows: int, width: int, phi: float) -> np.ndarray:
    x = rng.normal(size=(rows, width))
    for row in range(1, rows):
        x[row] += phi * x[row - 1]
    return x


def test_pcmci_finds_lagged_curves(rng: np.random.Generator) -> None:
    data = load("tigramite.data_processing")
    pcmci = load("tigramite.pcmci").PCMCI
    x = autoregressive(rng, 400, 3, 0.5)
    x[2:, 1] += x[:-2, 0] ** 2
    search = pcmci(data.DataFrame(x), cond_ind_test=tigramite_test())
    found = search.run_pcmci(tau_max=2, pc_alpha=0.05)
    links = {tuple(link) for link in np.argwhere(found["p_matrix"] < 0.001).tolist()}
    assert {(0, 1, 2), (0, 0, 1), (2, 2, 1)} <= links
    assert all(2 not in link[:2] or link[:2] == (2, 2) for link in links)


def test_pvalues_of_tigramite(rng: np.random.Generator) -> None:
    data = load("tigramite.data_processing").DataFrame
    x = autoregressive(rng, 120, 3, 0.5)
    test = tigramite_test()
    test.set_dataframe(data(x))
    a, b, c = x[:-1, 0], x[1:, 1], x[1:, 2]
    expected = hgr_jax.independence_test(a, b, given=c)
    found = test.run_test([(0, -1)], [(1, 0)], [(2, 0)], cut_off="max_lag")
    assert found == (expected.statistic, expected.pvalue)
    expected = hgr_jax.independence_test(a, b, order=True)
    found = test.run_test([(0, -1)], [(1, 0)], cut_off="max_lag")
    assert found == (expected.statistic, expected.pvalue)
    levels = rng.integers(0, 4, 120).astype(float)[:, None]
    discrete = np.ones((120, 1), int)
    found = test.run_test_raw(x[:, :1], levels, y_type=discrete)
    expected = hgr_jax.independence_test(x[:, 0], levels[:, 0].astype(str), given={})
    assert found == (expected.statistic, expected.pvalue)
    found = test.run_test_raw(x[:, :1], x[:, 1:2], levels, z_type=discrete)
    expected = hgr_jax.independence_test(x[:, 0], x[:, 1], given=levels[:, 0].astype(str))
    assert found == (expected.statistic, expected.pvalue)
    with pytest.raises(ValueError, match="must each be one variable"):
        test.run_test_raw(x[:, :2], x[:, 2:])
    with pytest.raises(ValueError, match="significance must be one of 'analytic', 'fixed_thres'"):
        tigramite_test(significance="shuffle_test")
    fixed = tigramite_test(significance="fixed_thres")
    fixed.set_dataframe(data(x))
    between = [(0, -1)], [(1, 0)]
    value = test.run_test(*between, cut_off="max_lag")[0]
    for threshold, pvalue in ((value / 2, 0.0), (value * 2, 1.0)):
        run = fixed.run_test(*between, cut_off="max_lag", alpha_or_thres=threshold)
        assert run[:2] == (value, pvalue)


# --- DoWhy ---------------------------------------------------------------------


def test_dowhy_falsifies_graphs(columns: dict[str, np.ndarray]) -> None:
    falsify = load("dowhy.gcm.falsify")
    networkx, pandas = load("networkx"), load("pandas")
    frame = pandas.DataFrame(columns).astype({"z": "category"})
    tests = {"independence_test": dowhy_test, "conditional_independence_test": dowhy_test}

    def violations(arrows: list[tuple[str, str]]) -> int:
        graph = networkx.DiGraph(arrows)
        options = {"n_permutations": 4, "n_jobs": 1, "show_progress_bar": False}
        found = falsify.falsify_graph(graph, frame, significance_ci=0.01, **options, **tests)
        markov = found.summary[falsify.FalsifyConst.VALIDATE_LMC]
        return int(markov[falsify.FalsifyConst.GIVEN_VIOLATIONS])

    assert violations(ARROWS) == 0
    assert violations([("x", "w"), ("z", "w"), ("w", "y")]) > 0


def test_arrays_as_dowhy_passes_them(columns: dict[str, np.ndarray]) -> None:
    x, w = columns["x"], columns["w"]
    assert dowhy_test(x, w) == hgr_jax.independence_test(x, w).pvalue
    assert dowhy_test(x[:, None], columns["z"]) == given_pvalue(columns, "x", "z")
    several = np.stack([columns["y"].astype(object), columns["z"].astype(object)], axis=1)
    assert dowhy_test(x, w, several) == given_pvalue(columns, "x", "w", "y", "z")
    assert dowhy_test(x, np.ones(500)) == 1


def test_no_pvalue_is_no_answer(columns: dict[str, np.ndarray]) -> None:
    x, w = columns["x"], columns["w"]
    for call in (
        lambda: dowhy_test(x, np.where(x > 1, np.nan, w)),
        lambda: dowhy_test(x[:9], w[:9], x[9:18]),
        lambda: pgmpy_test({"x": x[:9], "w": w[:9], "z": x[9:18]})("x", "w", ["z"]),
    ):
        with pytest.raises(ValueError, match="missing numbers or fewer than 10 rows"):
            call()


# --- What is missing -----------------------------------------------------------
