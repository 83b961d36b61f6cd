"""Where data enter: labels are matched or refused, and attributes are found by name or position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from flax import nnx
from sklearn.linear_model import LinearRegression

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
    fit_certified,
    report,
)
from hgr_jax.fairness.data import TrainingData, standardisation

ROWS = 80
RNG = np.random.default_rng(0)
LABELS = [f"id{i}" for i in range(ROWS)]
X = pd.DataFrame(RNG.normal(size=(ROWS, 2)), LABELS, columns=["u", "v"])
Z = pd.Series(X.u**2 + 0.1 * RNG.normal(size=ROWS), name="z")
Y = X.u + X.v / 2
MODEL = LinearRegression().fit(X, Y)
ORDER = RNG.permutation(ROWS)


def trainer(threshold: float) -> FairTrainer:
    return FairTrainer(MLP(2, (4,), rngs=nnx.Rngs(0)), penalties=Penalty(KB(2, 2), threshold))


def trained(x: Any, y: Any, z: Any) -> Any:
    made = trainer(0.9)
    made.fit(x, y, z, steps=5, validation=(X, Y, z), constraint_rows=(X, z))
    return made.history.last["dependence_train_z"]


ENTRANCES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "trainer": trained,
    "fit_certified": lambda x, y, z: (
        fit_certified(trainer(1.0), x, y, z, held_out=(X, z), steps=5)[0].value
    ),
    "estimator": lambda x, y, z: (
        FairMLPRegressor((4,), steps=5, random_state=0).fit(x, y, protected=z).predict(X)[:5]
    ),
    "postprocessor": lambda x, y, z: (
        FairPostprocessor(LinearRegression(), threshold=0.4, random_state=0)
        .fit(x, y, protected=z)
        .predict(X, protected=z)[:5]
    ),
    "scorer": lambda x, y, z: FairnessScorer(1.0)(MODEL, x, y, protected=z),
    "report": lambda x, y, z: report(MODEL, x, y, z)["HGR-KB(5, 5)"].iloc[0],
    "certify": lambda x, y, z: certify(y, z, 0.5).value,
    "didi": lambda x, y, z: didi(y, z),
}


@pytest.mark.parametrize("name", ENTRANCES)
def test_rows_are_matched_by_their_labels(name: str) -> None:
    entrance = ENTRANCES[name]
    expected = entrance(X, Y, Z)
    moved, arrays = Z.iloc[ORDER], (Y.to_numpy(), Z.to_numpy())
    for y, z in ((Y, moved), (Y.iloc[ORDER], moved), arrays):
        np.testing.assert_allclose(entrance(X, y, z), expected, rtol=1e-6)
    for other in (Z.reset_index(drop=True), Z.rename({"id3": "id4"}), Z.rename({"id3": "new"})):
        with pytest.raises(ValueError, match=r"have different indexes, so .* to match rows by pos"):
            entrance(X, Y, other)


def test_what_holds_attributes() -> None:
    frame = X.assign(z=Z, group=np.where(X.u > 0, "a", "b"))
    one_hot = pd.get_dummies(frame.group)
    for protected, names in (
        (Z, ["z"]),
        (Z.to_numpy()[:, None], ["z"]),
        (Z.rename(None), ["z"]),
        (one_hot, ["z"]),
        (frame[["u"]], ["u"]),
        ("group", ["group"]),
        (frame[["z", "group"]], ["z", "group"]),
        (["z", "group"], ["z", "group"]),
    ):
        data = TrainingData.of(frame, Y, protected)
        assert list(data.z) == names
        assert data.by_name == (isinstance(protected, list) or len(names) > 1)
    values = pl.DataFrame({"u": X.u.to_numpy(), "z": Z.to_numpy()})
    np.testing.assert_array_equal(TrainingData.of(values, Y.to_numpy(), "z").z["z"], Z)
    assert TrainingData.of(X, Y).z == {}
    with pytest.raises(TypeError, match="must be an array or a data frame; got a mapping"):
        TrainingData.of(X, Y, {"z": Z})


def test_several_attributes_of_an_estimator() -> None:
    model = FairMLPRegressor((4,), steps=5, penalty=KB(2, 2), threshold=0.3, random_state=0)
    model.fit(X, Y, protected=["u", "v"])
    assert model.history_.thresholds == {"u": 0.3, "v": 0.3}
    model.set_params(penalty=[Penalty("kb", name="v"), Penalty("sk", name="u")], guarantee=0.9)
    first, second = model.set_params(threshold=1.0).fit(X, Y, protected=X).certificate_
    assert (first.name, second.name, first.level) == ("v", "u", pytest.approx(0.95))
    model.set_params(penalty=[Penalty("kb", name="w"), Penalty("sk", name="u")])
    with pytest.raises(ValueError, match="there is none for 'w' "):
        model.fit(X, Y, protected=X)


def test_splits_have_equal_shares_and_all_levels() -> None:
    label = np.arange(ROWS) % 4 == 0
    level = np.where(np.arange(ROWS) < 2, "rare", "usual")
    for seed in range(6):
        data = TrainingData.of(X, label, X[["u"]].assign(level=level))
        first, second = data.split("share", 0.4, seed, by_class=True)
        assert len(first.y) + len(second.y) == ROWS
        assert abs(second.y.mean() - 0.25) < 0.05
        assert set(first.z["level"]) == {"rare", "usual"}
        for part in (first, second):
            np.testing.assert_array_equal(part.x.u, part.z["u"])
        again, _ = data.split("share", 0.4, seed, by_class=True)
        np.testing.assert_array_equal(again.x, first.x)
    with pytest.raises(ValueError, match="share must be between 0 and 1"):
        data.split("share", 1.0, 0, by_class=False)
    with pytest.raises(ValueError, match="80 rows cannot be split into parts"):
        data.split("share", 0.999, 0, by_class=False)


def test_huge_values_have_a_scale() -> None:
    x = np.array([[1e300, 1.0], [-1e300, 2.0], [5e299, 3.0]])
    center, scale = standardisation(x)
    np.testing.assert_allclose(scale, [np.std(x[:, 0] / 1e300) * 1e300, np.std(x[:, 1])])
    np.testing.assert_allclose(((x - center) / scale).std(axis=0), 1)
