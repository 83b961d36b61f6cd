"""Rows of labelled arguments belong together: other labels are matched, or refused."""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
from flax import nnx
from sklearn.linear_model import LinearRegression

import hgr_jax
from hgr_jax import inference, sklearn
from hgr_jax.fairness import (
    KB,
    MLP,
    FairMLPRegressor,
    FairnessScorer,
    FairPostprocessor,
    FairTrainer,
    Penalty,
    certify,
    didi,
    report,
)
from hgr_jax.plotting import plot_predictions

ROWS = 60
RNG = np.random.default_rng(0)
INDEX = [f"row {i}" for i in range(ROWS)]
ORDER = RNG.permutation(ROWS)


def labelled(values: Any) -> pd.Series:
    return pd.Series(values, index=INDEX)


A, C = labelled(RNG.normal(size=ROWS)), labelled(RNG.normal(size=ROWS))
B = A**2 + labelled(RNG.normal(size=ROWS))
OPTIONS = {
    "weights": labelled(RNG.uniform(0.5, 2, ROWS)),
    "given": C,
    "order": labelled(np.arange(ROWS)),
    "groups": labelled(np.repeat(list("abcdefghijklmno"), 4)),
}
NEEDED = {"key": jax.random.key(0), "f": lambda x: x, "g": lambda x: x}


def functions_of_two() -> list[tuple[str, Callable[..., Any]]]:
    """Every public function of two variables."""
    found = []
    for module in (hgr_jax, inference, sklearn):
        for name in module.__all__:
            function = getattr(module, name)
            if inspect.isfunction(function):
                first = [*inspect.signature(function).parameters][:2]
                if first in (["a", "b"], ["X", "y"]):
                    found.append((f"{module.__name__}.{name}", function))
    return found


FUNCTIONS = dict(functions_of_two())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_refuses_rows_in_another_order(name: str) -> None:
    function = FUNCTIONS[name]
    parameters = inspect.signature(function).parameters
    needed = {key: value for key, value in NEEDED.items() if key in parameters}
    a, b = A, B
    if "sklearn" in name:
        a, b = A.to_frame("a"), B if "regression" in name else (B > 0).astype(int)
    with pytest.raises(ValueError, match="different indexes"):
        function(a, b.iloc[ORDER], **needed)
    takes_any = any(each.kind == each.VAR_KEYWORD for each in parameters.values())
    for option, values in OPTIONS.items():
        taken = ("weights", "given") if takes_any else ()
        if name.endswith("permutation_test"):
            taken = ()  # given variables are refused
        if option in parameters or option in taken:
            with pytest.raises(ValueError, match=f"a and {option} have different indexes"):
                function(a, b, **{option: values.iloc[ORDER]}, **needed)
            with pytest.raises(ValueError, match=f"(b and )?{option} have different indexes"):
                function(a.to_numpy(), b, **{option: values.iloc[ORDER]}, **needed)


def test_tables_refuse_rows_in_another_order() -> None:
    table = pd.DataFrame({"a": A, "b": B, "c": C})
    for option in ("weights", "order", "groups"):
        with pytest.raises(ValueError, match=f"table and {option} have different indexes"):
            hgr_jax.scan(table, **{option: OPTIONS[option].iloc[ORDER]})
    with pytest.raises(ValueError, match="table and weights have different indexes"):
        hgr_jax.ConditionalTests(table, weights=OPTIONS["weights"].iloc[ORDER])
    fit = hgr_jax.kb_fit(A.to_numpy(), B.to_numpy())
    with pytest.raises(ValueError, match="a and weights have different indexes"):
        fit.score(A, B, weights=OPTIONS["weights"].iloc[ORDER])


def test_mappings_of_series_refuse_rows_in_another_order() -> None:
    plain = {"a": A, "c": C}
    zone = labelled(np.where(A > 0, "sun", "shade"))
    calls: list[Callable[[Any], Any]] = [
        hgr_jax.scan,
        hgr_jax.hgr_matrix,
        lambda table: hgr_jax.scan(table, order=True),
        lambda table: hgr_jax.scan(table, groups=OPTIONS["groups"].to_numpy()),
        hgr_jax.ConditionalTests,
        lambda given: hgr_jax.hgr(A.to_numpy()[::-1], B.to_numpy(), given=given),
        lambda given: hgr_jax.independence_test(A.to_numpy(), B.to_numpy(), given=given),
        lambda table: plot_predictions(A.to_numpy(), table),
    ]
    for call in calls:
        call({"a": A, "c": C})
        for turned in (C.iloc[ORDER], zone.iloc[ORDER]):
            with pytest.raises(ValueError, match=r"\['a'\] and .*\['c'\] have different indexes"):
                call({"a": A, "c": turned})
        with pytest.raises(ValueError, match="have different indexes"):
            call({"plain": B.to_numpy(), "a": A, "c": C.iloc[ORDER]})
    for option in ("weights", "order", "groups"):
        with pytest.raises(ValueError, match=f"{option} .*have different indexes"):
            hgr_jax.scan(plain, **{option: OPTIONS[option].iloc[ORDER]})
    for protected, groups in ((C.iloc[ORDER], OPTIONS["groups"]), (C, ORDERED_GROUPS)):
        with pytest.raises(ValueError, match="have different indexes"):
            certify(B, protected, 0.9, groups=groups)


ORDERED_GROUPS = OPTIONS["groups"].iloc[ORDER]


NAMES_OF_COLUMNS = {
    "tuples": [("soil", 1), ("soil", 2), ("air", 1)],
    "ints": [7, 0, 1],
    "floats": [0.1, 1.0, 2.5],
    "dates": list(pd.to_datetime(["2021-03-01", "2021-04-01", "2021-05-01"])),
    "days": [datetime.date(2020, 1, day) for day in (1, 2, 3)],
    "months": list(pd.period_range("2020-01", periods=3, freq="M")),
    "levels": pd.MultiIndex.from_product([["soil"], [1, 2, 3]], names=["what", "where"]),
    "categories": pd.CategoricalIndex(["low", "mid", "high"], name="height"),
}


@pytest.mark.parametrize("kind", NAMES_OF_COLUMNS)
def test_names_of_columns_come_back_as_they_were_given(kind: str) -> None:
    names = NAMES_OF_COLUMNS[kind]
    index = names if isinstance(names, pd.Index) else pd.Index(names, tupleize_cols=False)
    x = np.stack([A, B, C], axis=1)
    table = pd.DataFrame(x, columns=index)
    a, b, _ = names
    found = hgr_jax.scan(table, h=2, k=2, test=None)
    for frame in (found.to_matrix(), hgr_jax.hgr_matrix(table, h=2, k=2)):
        pd.testing.assert_index_equal(frame.index, index)
        pd.testing.assert_index_equal(frame.columns, index)
        assert frame.loc[[a], [b]].to_numpy()[0, 0] == found[a, b].correlation
    assert found.names == tuple(map(str, names))
    assert repr(found[a, b]) == repr(found[str(a), str(b)])  # NaN differs from itself
    assert float(found.fit(a, b).correlation) == pytest.approx(found[a, b].correlation, abs=1e-4)
    assert found.interval(a, b) == found.interval(str(a), str(b))
    for options in ({"target": a}, {"target": [a]}, {"top": hgr_jax.Top(2, "correlation")}):
        some = hgr_jax.scan(table, h=2, k=2, test=None, **options)
        assert some[a, b].correlation == pytest.approx(found[a, b].correlation, abs=1e-5)
        assert some.to_matrix().loc[[a], [b]].to_numpy()[0, 0] == some[a, b].correlation
    given = hgr_jax.scan(table, h=2, k=2, test=None, given=a)
    pd.testing.assert_index_equal(given.to_matrix().columns, index[1:])
    weighted = hgr_jax.scan(table.abs(), h=2, k=2, test=None, weights=str(a))
    pd.testing.assert_index_equal(weighted.to_matrix().columns, index[1:])
    assert list(found.to_matrix(library="polars").columns)[1:] == list(found.names)


def test_names_of_mappings() -> None:
    matrix = hgr_jax.hgr_matrix({2020: A, 2021: B, ("c", 1): C})
    assert list(matrix.columns) == list(matrix.index) == [2020, 2021, ("c", 1)]


def fairness_calls() -> dict[str, tuple[Callable[..., Any], tuple[str, ...]]]:
    """What takes labelled rows in `hgr_jax.fairness`, and its labelled arguments."""
    model = LinearRegression().fit(ROWS_OF_X, B)

    def trainer(x: Any, y: Any, protected: Any, sample_weight: Any) -> Any:
        made = FairTrainer(
            MLP(2, (4,), rngs=nnx.Rngs(0)), penalties=Penalty(KB(2, 2), 0.9, given=2)
        )
        made.fit(x, y, protected, sample_weight=sample_weight, steps=3)
        return made.predict(ROWS_OF_X.to_numpy())

    def regressor(x: Any, y: Any, protected: Any, sample_weight: Any) -> Any:
        made = FairMLPRegressor((4,), penalty=KB(2, 2), threshold=0.9, steps=3, random_state=0)
        return made.fit(x, y, protected, sample_weight).predict(ROWS_OF_X)

    def postprocessor(x: Any, y: Any, protected: Any) -> Any:
        made = FairPostprocessor(LinearRegression(), penalty=KB(2, 2), cv=2, random_state=0)
        return made.fit(x, y, protected).predict(ROWS_OF_X, C)

    def figures(x: Any, y: Any, protected: Any, sample_weight: Any) -> Any:
        found = report(model, x, y, protected, sample_weight=sample_weight)
        return found.to_numpy(float)

    def score(x: Any, y: Any, protected: Any, sample_weight: Any) -> Any:
        return FairnessScorer(1.0).score(model, x, y, protected, sample_weight)

    def certificate(x: Any, protected: Any, groups: Any) -> Any:
        return certify(x["a"], protected, 0.9, groups=groups).value

    def index(x: Any, protected: Any, sample_weight: Any) -> Any:
        return didi(x["a"], protected, sample_weight=sample_weight)

    calls = (trainer, regressor, postprocessor, figures, score, certificate, index)
    return {f.__name__: (f, tuple(inspect.signature(f).parameters)) for f in calls}


ROWS_OF_X = A.to_frame("a").assign(c=C)
LABELLED = {
    "x": ROWS_OF_X,
    "y": B,
    "protected": C,
    "sample_weight": OPTIONS["weights"],
    "groups": OPTIONS["groups"],
}


@pytest.mark.parametrize("name", fairness_calls())
def test_fairness_refuses_rows_of_other_labels(name: str) -> None:
    call, arguments = fairness_calls()[name]
    usual = {argument: LABELLED[argument] for argument in arguments}
    for argument in arguments:
        with pytest.raises(ValueError, match="have different indexes"):
            call(**usual | {argument: LABELLED[argument].iloc[ORDER]})
