"""Rows of labelled arguments belong together: other labels are matched, or refused."""

from __future__ import annotations

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
    frontier,
    report,
)

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
    "counts": labelled(RNG.integers(1, 3, ROWS)),
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
    for option in ("weights", "counts", "order", "groups"):
        with pytest.raises(ValueError, match=f"table and {option} have different indexes"):
            hgr_jax.scan(table, **{option: OPTIONS[option].iloc[ORDER]})
    with pytest.raises(ValueError, match="table and weights have different indexes"):
        hgr_jax.ConditionalTests(table, weights=OPTIONS["weights"].iloc[ORDER])
    fit = hgr_jax.kb_fit(A.to_numpy(), B.to_numpy())
    with pytest.raises(ValueError, match="a and weights have different indexes"):
        fit.score(A, B, weights=OPTIONS["weights"].iloc[ORDER])


def test_aligned_rows_are_as_arrays() -> None:
    turned = B.iloc[ORDER]
    first, second = A.align(turned, join="inner")
    plain = A.to_numpy(), B.to_numpy()
    assert float(hgr_jax.kb(first, second, 2, 2)) == pytest.approx(
        float(hgr_jax.kb(*plain, 2, 2)), abs=1e-6
    )
    hgr_jax.kb(A, turned.to_numpy(), 2, 2)


def fairness_calls() -> dict[str, tuple[Callable[..., Any], tuple[str, ...]]]:
    """What takes labelled rows in `hgr_jax.fairness`, and its labelled arguments."""
    model = LinearRegression().fit(ROWS_OF_X, B)

    def trainer(x: Any, y: Any, protected: Any, sample_weight: Any, given: Any) -> Any:
        made = FairTrainer(
            MLP(2, (4,), rngs=nnx.Rngs(0)), penalties=Penalty(KB(2, 2), 0.9, given=2)
        )
        made.fit(x, y, protected, sample_weight=sample_weight, given=given, steps=3)
        return made.predict(ROWS_OF_X.to_numpy())

    def regressor(x: Any, y: Any, protected: Any, sample_weight: Any) -> Any:
        made = FairMLPRegressor((4,), penalty=KB(2, 2), threshold=0.9, steps=3, random_state=0)
        return made.fit(x, y, protected, sample_weight).predict(ROWS_OF_X)

    def postprocessor(x: Any, y: Any, protected: Any, sample_weight: Any) -> Any:
        made = FairPostprocessor(LinearRegression(), penalty=KB(2, 2), cv=2, random_state=0)
        return made.fit(x, y, protected, sample_weight).predict(ROWS_OF_X, C)

    def front(x: Any, y: Any, protected: Any) -> Any:
        models = {"linear": FairPostprocessor(LinearRegression(), cv=2, random_state=0)}
        rows = (ROWS_OF_X, B, C)
        found = frontier(x, y, protected, thresholds=(0.9,), models=models, held_out=rows)
        return found.trade_offs[0].score

    def figures(x: Any, y: Any, protected: Any, sample_weight: Any, given: Any) -> Any:
        found = report(model, x, y, protected, sample_weight=sample_weight, given=given)
        return [*found.figures["model"].values()]

    def score(x: Any, y: Any, protected: Any, sample_weight: Any) -> Any:
        return FairnessScorer(1.0).score(model, x, y, protected, sample_weight)

    def certificate(x: Any, protected: Any, groups: Any) -> Any:
        return certify(x["a"], protected, 0.9, groups=groups).value

    def index(x: Any, protected: Any, sample_weight: Any) -> Any:
        return didi(x["a"], protected, sample_weight=sample_weight)

    calls = (trainer, regressor, postprocessor, front, figures, score, certificate, index)
    return {f.__name__: (f, tuple(inspect.signature(f).parameters)) for f in calls}


ROWS_OF_X = A.to_frame("a").assign(c=C)
LABELLED = {
    "x": ROWS_OF_X,
    "y": B,
    "protected": C,
    "sample_weight": OPTIONS["weights"],
    "given": A > 0,
    "groups": OPTIONS["groups"],
}


@pytest.mark.filterwarnings("ignore:no strength is enough")
@pytest.mark.parametrize("name", fairness_calls())
def test_fairness_matches_rows_by_their_labels(name: str) -> None:
    call, arguments = fairness_calls()[name]
    usual = {argument: LABELLED[argument] for argument in arguments}
    expected = np.asarray(call(**usual))
    for argument in arguments:
        moved = usual | {argument: LABELLED[argument].iloc[ORDER]}
        if "groups" in arguments:  # whose rows are matched by position
            with pytest.raises(ValueError, match="have different indexes"):
                call(**moved)
            continue
        found = call(**moved)
        if argument in ("x", "y") and name in ("regressor", "postprocessor", "trainer"):
            continue  # the order of the rows, which is that of x, is part of a training
        np.testing.assert_allclose(found, expected, rtol=1e-4, err_msg=argument)
