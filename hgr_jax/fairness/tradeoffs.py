"""Trade-offs: what models of several kinds lose of their score as a threshold falls."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgr_jax._checks import check_flag, check_fraction
from hgr_jax._optional import require
from hgr_jax._progress import progress_bar
from hgr_jax._texts import html_table
from hgr_jax.fairness.columns import Inputs, column_names
from hgr_jax.fairness.data import Encoding, Protected, TrainingData
from hgr_jax.fairness.penalties import as_penalties
from hgr_jax.fairness.report import penalty_value, predict_and_encode, score_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THRESHOLDS = (0.1, 0.2, 0.3, 0.5, 1.0)


@dataclasses.dataclass(frozen=True)
class TradeOff:
    """A model that was trained for a threshold.

    Attributes:
      model: its kind.
      threshold: of the training.
      score, dependence: on the rows held out; of several attributes or groups the largest
        dependence.
      best: whether no other model has a higher score and at most this dependence.
    """

    model: str
    threshold: float
    score: float
    dependence: float
    best: bool = False


@dataclasses.dataclass(frozen=True, repr=False)
class Frontier:
    """Scores and dependences of models of several kinds, see `frontier`.

    Attributes:
      trade_offs: a `TradeOff` of each model and threshold.
      score_name: ``"R2"`` or ``"AUC"``.
      measure: the name of the dependence.
      names: of the attributes.
      rows: number of rows held out.
    """

    trade_offs: tuple[TradeOff, ...]
    score_name: str
    measure: str
    names: tuple[str, ...]
    rows: int

    def to_frame(self) -> Any:
        """Return a pandas data frame, one row a model and threshold.

        Raises:
          ImportError: without pandas, naming the command that installs it.
        """
        return require("pandas").DataFrame(map(dataclasses.asdict, self.trade_offs))

    def plot(self) -> Figure:
        """Draw score against dependence, a line for each kind of model.

        Raises:
          ImportError: without matplotlib, naming the command that installs it.
        """
        from hgr_jax.plotting import literal

        figure: Figure = require("matplotlib.figure").Figure(figsize=(6, 4), layout="constrained")
        axes = figure.subplots()
        for model in dict.fromkeys(each.model for each in self.trade_offs):
            of_model = [each for each in self.trade_offs if each.model == model]
            of_model.sort(key=lambda each: each.dependence)
            axes.plot(
                [each.dependence for each in of_model],
                [each.score for each in of_model],
                "o-",
                label=literal(model),
            )
        best = [each for each in self.trade_offs if each.best]
        axes.plot(
            [each.dependence for each in best],
            [each.score for each in best],
            "ko",
            markersize=10,
            fillstyle="none",
            label="not dominated",
        )
        names = ", ".join(map(literal, self.names))
        axes.set(
            title=f"{self.rows:,} rows held out",
            xlabel=f"{literal(self.measure)} of {names} and the prediction",
            ylabel=self.score_name,
        )
        axes.legend(fontsize=8)
        return figure

    def __str__(self) -> str:
        heads, rows = self._table()
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        lines = [heads, *rows]
        return "\n".join(
            "  ".join(
                cell.ljust(w) if i == 0 else cell.rjust(w)
                for i, (cell, w) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    def __repr__(self) -> str:
        return f"Frontier, {self.rows:,} rows held out\n{self}"

    def _repr_html_(self) -> str:
        """Return the models as a small table, for notebooks."""
        heads, rows = self._table()
        return html_table(f"{self.rows:,} rows held out", heads, rows)

    def _table(self) -> tuple[list[str], list[list[str]]]:
        heads = ["model", "threshold", self.measure, self.score_name, "not dominated"]
        rows = [
            [
                each.model,
                f"{each.threshold:g}",
                f"{each.dependence:.3f}",
                f"{each.score:.3f}",
                "yes" if each.best else "",
            ]
            for each in self.trade_offs
        ]
        return heads, rows


def frontier(
    X: Any,
    y: ArrayLike,
    protected: Protected,
    *,
    thresholds: Sequence[float] = THRESHOLDS,
    penalty: Any = "kb",
    models: Mapping[str, Any] | None = None,
    held_out: float | tuple[Any, ArrayLike, Protected] = 0.3,
    random_state: int = 0,
    progress: bool = False,
) -> Frontier:
    """Train models of several kinds at several thresholds, and measure them on rows held out.

    The choice stays yours: rows that a model was chosen on say too much good of it, so certify the
    chosen one on others (``guarantee=``, `certify`).

    Args:
      X: inputs ``(n, p)``: an array of numbers, or a data frame as `FairMLPRegressor` reads it.
      y: targets ``(n,)``.
      protected: one or several attributes, as of `FairMLPRegressor.fit`.
      thresholds: in (0, 1].
      penalty: the dependence that is kept low, and measured, as of `FairMLPRegressor`.
      models: estimators by name, with parameters ``penalty`` and ``threshold`` and with
        ``fit(X, y, protected)``, which get X as it is.  None for a network (`FairMLPRegressor`),
        and a linear model and boosted trees whose predictions a `FairPostprocessor` transports
        (these need the attribute when they predict).
      held_out: share of the rows to measure on; or ``(X, y, protected)`` of other rows.
      random_state: of the split and the models.
      progress: show a bar.

    Returns:
      A `Frontier`: a table and a picture.

    Raises:
      TypeError, ValueError: for data and parameters that the models do not take.

    Example:
      >>> import numpy as np
      >>> from sklearn.linear_model import LinearRegression
      >>> from hgr_jax.fairness import FairPostprocessor, frontier
      >>> rng = np.random.default_rng(0)
      >>> X = rng.normal(size=(400, 3)); z = X[:, 0]; y = X.sum(axis=1)
      >>> models = {"linear": FairPostprocessor(LinearRegression(), random_state=0)}
      >>> found = frontier(X, y, z, thresholds=(0.3, 1.0), models=models)
      >>> fair, free = found.trade_offs
      >>> fair.dependence < free.dependence, fair.score < free.score
      (True, True)
    """
    data = TrainingData.of(X, y, protected)
    data.check_protected()
    check_flag("progress", progress)
    if isinstance(held_out, tuple):
        train, test = data, TrainingData.of(*held_out)
    else:
        share = check_fraction("held_out", held_out)
        train, test = data.split("held_out", share, random_state, by_class=False)
    x = train.x, test.x
    if models is None and column_names(X):
        inputs = Inputs.learn(X, "raise")
        encode = functools.partial(TrainingData.complete_inputs, inputs)
        x = encode(train.x), encode(test.x)
    labels = np.asarray(train.y)
    if models is None:
        models = _default_models(len(np.unique(labels)) == 2, random_state)
    penalties = data.penalties_of(as_penalties(penalty))
    if any(each.given is not None for each in penalties):
        raise ValueError("frontier measures dependence as it is; give a penalty without given.")
    encoders = [
        Encoding.learn(p, z)
        for p, z in zip(penalties, train.attributes_of(penalties).values(), strict=True)
    ]
    measured = [
        (encoder.with_supported_degree(p), encoder.encode(z))
        for p, encoder, z in zip(
            penalties, encoders, test.attributes_of(penalties).values(), strict=True
        )
    ]
    found, score_name = [], ""
    clone = require("sklearn.base").clone
    total = len(models) * len(thresholds)
    with progress_bar(progress, total, unit="model") as advance:
        for (name, model), threshold in itertools.product(models.items(), thresholds):
            model = clone(model).set_params(penalty=penalty, threshold=threshold)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what is reached is what is shown
                fitted = model.fit(x[0], labels, train.z)
                prediction, targets, kind = _predicted(fitted, x[1], test)
            score, score_name = score_of(prediction, targets, kind)
            dependence = max(penalty_value(p, z, prediction) for p, z in measured)
            found.append(TradeOff(name, float(threshold), score, dependence))
            advance(1)
    best = tuple(dataclasses.replace(each, best=_is_best(each, found)) for each in found)
    return Frontier(best, score_name, penalties[0].statistic.title, tuple(data.z), len(prediction))


def _predicted(
    model: Any, x: NDArray[Any], test: TrainingData
) -> tuple[NDArray[Any], NDArray[Any], str]:
    """Return predictions of rows held out, with their attributes where a model needs them."""
    if not hasattr(model, "transport_"):
        return predict_and_encode(model, x, np.asarray(test.y))
    return predict_and_encode(_WithAttributes(model, test.z), x, np.asarray(test.y))


class _WithAttributes:
    """A post-processed model with the attributes of the rows to predict."""

    def __init__(self, model: Any, z: Mapping[str, Any]) -> None:
        self._model, self._z = model, z
        if hasattr(model, "classes_"):
            self.classes_ = model.classes_
            self.predict_proba = lambda x: model.predict_proba(x, z)

    def predict(self, x: Any) -> NDArray[Any]:
        """Return predictions of the rows."""
        return np.asarray(self._model.predict(x, self._z))


def _is_best(one: TradeOff, others: Sequence[TradeOff]) -> bool:
    """Return whether no other model is better in one respect, and no worse in the other."""
    return not any(
        other.score >= one.score
        and other.dependence <= one.dependence
        and (other.score > one.score or other.dependence < one.dependence)
        for other in others
    )


def _default_models(classification: bool, random_state: int) -> dict[str, Any]:
    from hgr_jax.fairness.estimators import FairMLPClassifier, FairMLPRegressor
    from hgr_jax.fairness.postprocessor import FairPostprocessor

    linear = require("sklearn.linear_model")
    ensemble = require("sklearn.ensemble")
    scaler = require("sklearn.preprocessing").StandardScaler()
    pipeline = require("sklearn.pipeline").make_pipeline
    if classification:
        network: Any = FairMLPClassifier(random_state=random_state)
        straight = linear.LogisticRegression(max_iter=1000)
        trees = ensemble.HistGradientBoostingClassifier(random_state=random_state)
    else:
        network = FairMLPRegressor(random_state=random_state)
        straight = linear.RidgeCV(np.logspace(-2, 4, 13))
        trees = ensemble.HistGradientBoostingRegressor(random_state=random_state)

    def transported(model: Any) -> Any:
        return FairPostprocessor(model, random_state=random_state)

    return {
        "network": network,
        "linear model, transported": transported(pipeline(scaler, straight)),
        "boosted trees, transported": transported(trees),
    }
