"""Rows of labelled arguments belong together: other labels are matched, or refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest

import hgr_jax
from hgr_jax import inference, sklearn

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
