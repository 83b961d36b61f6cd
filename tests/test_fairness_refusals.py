"""What trainings, penalties, certificates and their estimators refuse, and what they say."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from fairness_support import PENALTY, ROWS, some_data, trained
from flax import nnx
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression, Ridge

from hgr_jax.fairness import (
    KB,
    MLP,
    DemographicParity,
    FairMLPClassifier,
    FairMLPRegressor,
    FairnessScorer,
    FairPostprocessor,
    FairTrainer,
    Function,
    Penalty,
    certify,
    didi,
    report,
)
from hgr_jax.plotting import plot_history, plot_predictions

X, Y, Z = some_data()
FRAME = pd.DataFrame(X, columns=["u", "v", "age"])
BOTH = np.column_stack([Z, Y])
LABEL = np.where(Y > 0, "yes", "no")
TEXT = np.where(Z > 0, "a", "b")
SEVENS = np.where(Y > 2, 7, 0)
OTHER_TEXT = np.where(Z > 0, "a", "c")
RARE = np.r_[1, np.zeros(ROWS - 1)]
PLACES = np.arange(ROWS)
HALVES = {"task": "log_loss", "batch_size": ROWS // 2}
GIVEN = Penalty(KB(2, 2), given="classes")
MISSING = np.where(PLACES == 3, None, TEXT.astype(object))
NANS = np.full(ROWS, np.nan)
CONSTANT = np.ones(ROWS)
LONG = "one value for each of the 120 rows"
when = functools.partial


class Double(BaseEstimator):
    def predict(self, x: Any) -> np.ndarray:
        return 2 * np.asarray(x)[:, 0]


def two() -> FairMLPClassifier:
    """A model of the labels 0 and 1."""
    return FairMLPClassifier(penalty=None, steps=5).fit(X, (Y > 0).astype(int))


def network() -> MLP:
    return MLP(3, (8,), rngs=nnx.Rngs(0))


def train(*penalties: Penalty, x: Any = X, y: Any = Y, z: Any = Z, **options: Any) -> Any:
    return trained(*(penalties or [PENALTY]), **{"data": (x, y, z)} | options)


def certified(prediction: Any = Y, z: Any = Z, threshold: Any = 0.3, **options: Any) -> Any:
    return certify(prediction, z, threshold, **options)


PARITY = Penalty(DemographicParity(), 0.3)


def fit(protected: Any = Z, x: Any = X, y: Any = Y, **settings: Any) -> Any:
    return FairMLPRegressor((4,), **{"steps": 5} | settings).fit(x, y, protected=protected)


def score(protected: Any = None, x: Any = X, penalty: Any = 0.2) -> Any:
    return FairnessScorer(penalty, protected=protected)(Double(), x, Y)


def postprocess(model: Any = None, y: Any = Y, protected: Any = Z, **settings: Any) -> Any:
    return FairPostprocessor(model or Ridge(), **settings).fit(X, y, protected=protected)


TYPE_ERRORS: list[tuple[str, Callable[[], Any]]] = [
    # Statistics and penalties
    ("k must be a degree", when(KB, 2, "a")),
    ("threshold", when(Penalty, threshold="a")),
    ("given", when(Penalty, given="groups")),
    # Trainings
    ("x must hold real numbers", when(train, x=X.astype(str) + "m")),
    ("z must hold real numbers", when(train, z=Z + 1j)),
    ("network", when(train, network=lambda x: x)),
    # Certificates
    ("predictions, or inputs, come first", when(certified, PENALTY, Z, Y)),
    ("needs a threshold", when(certified, threshold=Penalty(threshold=None))),
    ("prediction must hold real numbers", when(certified, ["a"] * ROWS)),
]

VALUE_ERRORS: list[tuple[str, Callable[[], Any]]] = [
    # Statistics and penalties
    *(("threshold", when(Penalty, threshold=t)) for t in (0, -0.1, 1.5, np.float32(2), np.nan)),
    *(("statistic must be one of", when(Penalty, which)) for which in ("nlc", 3, None)),
    ("statistic is a class", when(Penalty, KB)),
    ("takes weights", when(Penalty, "hsic", given="classes")),
    ("weights", when(Penalty, Function(jnp.dot, weighted=False), given=2)),
    # Rows of a training
    ("z must vary", when(train, z=CONSTANT)),
    ("1 missing", when(train, z=MISSING)),
    (f"z must have {LONG}", when(train, z=Z[:-1])),
    ("same number of rows", when(train, y=Y[:-1])),
    ("x must have shape", when(train, x=X[:0], y=Y[:0], z=Z[:0])),
    ("protected must be given", when(train, z=None)),
    ("no.* for 'z'", when(train, z=pd.DataFrame({"other": Z, "more": Y / 2}))),
    ("at least two rows", when(train, GIVEN, y=RARE)),
    ("given needs one target", when(train, GIVEN, y=BOTH)),
    ("a must have shape", when(train, Penalty("pearson"), z=TEXT)),
    # Settings of a training
    ("steps", when(train, steps=0)),
    ("batch_size", when(train, batch_size=1)),
    ("task must be one of", when(train, task="hinge")),
    ("different names", when(train, PENALTY, PENALTY)),
    ("call fit first", lambda: FairTrainer(network()).predict(X)),
    ("constraint_fraction must be above 0 and below 1", when(fit, constraint_fraction=1.0)),
    # Certificates
    ("level must be above 0 and below 1", when(certified, level=1.0)),
    ("prediction has 120 value", when(certified, NANS)),
    (r"prediction must be \(n,\) or", when(certified, np.zeros(0), np.zeros(0))),
    ("columns., of rows; got", when(certified, np.zeros((ROWS, 0)))),
    ("given=3 needs the targets", when(certified, threshold=Penalty(given=3))),
    ("a bound is known of KB, SK, HGR", when(certified, threshold=Penalty("hsic"))),
    (r"groups must have shape \(120,\)", when(certified, groups=[1, 2])),
    ("groups has 120 missing", when(certified, groups=[None] * ROWS)),
    ("all rows have the same label", when(certified, groups=[1] * ROWS)),
    (r"must be one-hot, .* Give several attributes as", when(certified, Y, BOTH)),
    ("demographic parity compares levels", when(certified, threshold=PARITY)),
    ("guarantee must be above 0 and below 1", when(fit, guarantee=1.0)),
    ("a guarantee needs a penalty", when(fit, guarantee=0.9, penalty=None)),
    # Estimators
    (r"threshold must be in \(0, 1\]", when(fit, threshold=0.0)),
    ("alpha must be at least 0", when(fit, alpha=-1.0)),
    ("hidden_layer_sizes must be", lambda: FairMLPRegressor((0,)).fit(X, Y, protected=Z)),
    # Attributes
    ("'w' is not a column of X; there are u, v, age", when(fit, "w", FRAME)),
    ("'agee' is not a column of X; did you mean 'age'", when(fit, "agee", FRAME)),
    ("X has no column names", when(fit, "u")),
    (f"z must have {LONG}", when(fit, Z[:-1])),
    *(
        (message, when(measure, protected))
        for measure in (when(didi, Y), when(report, Y, None, Y))
        for message, protected in (
            (r"must be one-hot, .* Give several attributes as", BOTH),
            ("protected must be", None),
        )
    ),
    # The score
    ("there is no protected attribute to score with; name a column of X", score),
    ("names a column, but X has no column names", when(score, "age")),
    (
        "penalty must be a threshold, or a Penalty",
        when(score, "age", FRAME, penalty=Penalty(threshold=None)),
    ),
    # Post-processing
    (r"threshold must be in \(0, 1\]", when(postprocess, threshold=0.0)),
    ("and no given", when(postprocess, penalty=Penalty(given=3))),
    ("cv must be at least 2", when(postprocess, cv=1)),
    ("guarantee_fraction must be", when(postprocess, guarantee=0.9, guarantee_fraction=1.0)),
    ("a guarantee needs fit", when(postprocess, guarantee=0.9, protected=None)),
    (r"z has 120 value\(s\) that are NaN", when(postprocess, protected=NANS)),
    ("inconsistent numbers of samples", when(postprocess, y=Y[:-1])),
    ("y has 3 class", when(postprocess, LogisticRegression(), np.arange(ROWS) % 3)),
    # Reports and pictures
    (r"one prediction a row, shape \(120,\); got \(119,\)", when(report, Y[1:], None, Y, Z)),
    ("z has 3 value", when(report, Y, None, Y, np.where(Z > 2, np.nan, Z))),
    ("must be one-hot", when(report, Y, None, Y, 2 * np.eye(3)[np.digitize(Z, (-0.5, 0.5))])),
    ("two classes, and y no other labels; it knows 0, 1", lambda: report(two(), X, SEVENS, Z)),
    ("one shape", when(plot_predictions, Z, {"a": Z[1:]})),
    ("empty", lambda: plot_history(FairTrainer(network()).history)),
]

CASES = [(TypeError, *case) for case in TYPE_ERRORS] + [(ValueError, *c) for c in VALUE_ERRORS]


@pytest.mark.parametrize(
    ("error", "message", "call"), CASES, ids=[f"{i} {case[1]}" for i, case in enumerate(CASES)]
)
def test_the_message_says_what_is_wrong(
    error: type[Exception], message: str, call: Callable[[], Any]
) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("name", "place"), [("x", (7, 2)), ("y", (5,)), ("z", (9,))])
def test_values_that_are_not_finite(name: str, place: tuple[int, ...], value: float) -> None:
    rows = {"x": X.copy(), "y": Y.copy(), "z": Z.copy()}
    rows[name][place] = value
    where = r"\(7, 2\)" if name == "x" else rf"\({place[0]}\)"
    with pytest.raises(ValueError, match=rf"{name} has 1 value.*{where}"):
        train(**rows)
