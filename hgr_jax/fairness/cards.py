"""Model cards: what a constrained model is, what it was trained on, and what is promised of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hgr_jax._texts import counted
from hgr_jax._version import __version__
from hgr_jax.fairness.penalties import as_penalties
from hgr_jax.fairness.report import FairnessReport

CAVEAT = """A small HGR is not fairness: it says nothing of errors, of harms, of decisions that are
made with the prediction, or of attributes that are not protected here."""


def model_card(
    model: Any,
    reports: FairnessReport | Mapping[str, FairnessReport] | None = None,
    *,
    title: str = "Model",
) -> str:
    """Describe a fitted estimator of this package in Markdown, for its readers and auditors.

    Args:
      model: a fitted `FairMLPRegressor` or `FairMLPClassifier`.
      reports: of `report`, on rows that the model was not trained on; or None.
      title: the first heading.

    Returns:
      Sections on the model, its inputs, its training, its constraints with their certificates, its
      figures, and what they do not say.

    Raises:
      TypeError: for a model of another kind.
      sklearn.exceptions.NotFittedError: before `fit`.

    Example:
      >>> from hgr_jax.datasets import load_diabetes
      >>> from hgr_jax.fairness import FairMLPRegressor, model_card
      >>> data = load_diabetes()
      >>> model = FairMLPRegressor(threshold=0.2, steps=100, random_state=0)
      >>> card = model_card(model.fit(data.x, data.y, data.z), title="Progression of diabetes")
      >>> print(card.splitlines()[0])
      # Progression of diabetes
    """
    if not hasattr(model, "described"):
        raise TypeError(
            "model_card describes FairMLPRegressor and FairMLPClassifier; got"
            f" {type(model).__name__}."
        )
    described = model.described()
    sections = {
        "Model": _items(
            {
                "Class": f"{type(model).__name__} of hgr_jax {__version__}",
                "Hidden layers": _escaped(model.hidden_layer_sizes),
                "Training steps": f"{model.n_iter_:,}",
                "Training rows": f"{described['rows']:,}",
                "Rows held back for the certificate": f"{described['held back']:,}",
                "Observation weights": "yes" if described["weighted"] else "no",
            }
        ),
        "Inputs": "\n".join(f"- {_escaped(n)}" for n in described["inputs"])
        or f"{counted(model.n_features_in_, 'column')} of an array without names",
        "Constraints": "\n".join(_constraints(model)) or "None.",
        "Certificates": "\n".join(f"- {_escaped(found)}" for found in certificates_of(model))
        or "None: nothing is promised of new rows.",
        "Figures on rows that were not trained on": _figures(reports) or "None were given.",
        "What this does not say": CAVEAT,
    }
    parts = [f"# {_escaped(title)}", *(f"## {head}\n\n{text}" for head, text in sections.items())]
    return "\n\n".join(parts) + "\n"


def certificates_of(model: Any) -> tuple[Any, ...]:
    """Return the certificates of a model; none without a guarantee."""
    found = getattr(model, "certificate_", ())
    return found if isinstance(found, tuple) else (found,)


def _constraints(model: Any) -> list[str]:
    """Return a line on each value that is kept low."""
    history = getattr(model, "history_", None)  # a file has none
    if model.penalty is None or history is None:
        return []
    titles = " or ".join(dict.fromkeys(p.statistic.title for p in as_penalties(model.penalty)))
    return [
        f"- {_escaped(name)}: {_escaped(titles)} at most {limit:g}; HGR-KB of the training rows at"
        f" the end {history.last[f'hgr_train_{name}']:.3f}"
        for name, limit in history.thresholds.items()
        if limit is not None
    ]


def _figures(reports: FairnessReport | Mapping[str, FairnessReport] | None) -> str:
    if reports is None:
        return ""
    named = {reports.name: reports} if isinstance(reports, FairnessReport) else reports
    texts = []
    for name, found in named.items():
        heads, rows = found.table()
        lines = [["model", *heads], ["---"] * (len(heads) + 1), *rows]
        table = "\n".join("| " + " | ".join(map(_escaped, cells)) + " |" for cells in lines)
        texts.append(
            f"Protected attribute {_escaped(name)}, {counted(found.rows, 'row')}:\n\n{table}"
        )
    return "\n\n".join(texts)


def _items(values: Mapping[str, str]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in values.items())


def _escaped(value: Any) -> str:
    """Return a value as text in which Markdown and HTML are no markup."""
    escaped = str(value).replace("\\", "\\\\")
    for mark in "`*_[]<>|#":
        escaped = escaped.replace(mark, f"\\{mark}")
    return " ".join(escaped.split())
