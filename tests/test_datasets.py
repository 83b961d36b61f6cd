"""The real table that scikit-learn brings."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from hgr_jax.datasets import load_diabetes


def test_diabetes_is_in_its_own_units() -> None:
    data = load_diabetes()
    assert data.x.shape == (442, 10)
    assert (data.y.min(), data.y.max()) == (25, 346)
    assert (data.z.min(), data.z.max()) == (19, 79)
    assert set(data.x[:, data.features.index("sex")]) == {1, 2}
    np.testing.assert_array_equal(data.x[:, data.features.index("age")], data.z)
    assert data.x.dtype == data.y.dtype == data.z.dtype == np.float64


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"needs sklearn, .*hgr_jax\[cli\]"):
        load_diabetes()


def test_import_loads_no_optional_package() -> None:
    code = "import hgr_jax, hgr_jax.datasets, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"pandas", "sklearn"} & set(loaded)
