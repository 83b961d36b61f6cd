"""What a penalty adds to a step of training.  ``python -m bench.training [--quick] [--write]``.

The paper's three tasks.  Ours: steps of the compiled scan, in float32; torch's: one step at a time,
as its users write it.  All contestants of a task run in turn, in one process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from bench.paper import enforcement
from bench.paper.enforcement import CHUNK, Setting
from bench.report import MarkdownReport, run_bench
from bench.timing import Timing, race, seconds
from hgr_jax.fairness import Penalty
from hgr_jax.fairness.data import TrainingData, make_rows
from hgr_jax.fairness.training import batch_rows, run_steps

ALLOWED = {"communities": 1.10, "adult": 1.30, "census": 1.60}
"""How many times the unconstrained step a step with KB may take."""

AT_LEAST = 100
"""How many times as much as KB maxcorr's double kernel has to add to the same step in torch."""

NOISE = 0.03
"""What two equal contestants may differ by, of the unconstrained step."""


def ours(setting: Setting, penalty: Penalty) -> Callable[[], Any]:
    """``CHUNK`` steps in one compiled program, from a state of some steps."""
    part, _ = setting.fold(0)
    trainer = setting.trainer(penalty)
    trainer.fit(*part, steps=CHUNK)
    rows, _ = make_rows(TrainingData.of(*part), trainer.penalties, trainer.encoders, np.float32)
    size, batches = trainer.batch_size, None
    if size is not None and size < len(part.x):
        batches = batch_rows(0, len(part.x), size, CHUNK, CHUNK)
    assert trainer._program is not None
    assert trainer.state is not None
    return partial(
        run_steps,
        trainer._program,
        trainer.penalties,
        trainer.state,
        rows,
        batches,
        CHUNK,
    )


def contestants(setting: Setting, *, quick: bool) -> dict[str, Penalty]:
    """Ours by name; the first three are what the bounds are about."""
    threshold = setting.threshold
    found = {
        "none": Penalty(threshold=None),
        "HGR-KB": Penalty("kb", threshold),
        "HGR-SK": Penalty("sk", threshold),
        "HGR": Penalty("hgr", threshold),
        "HGR-NN": Penalty("neural", threshold),
    }
    return dict(list(found.items())[: 3 if quick else None])


def step_times(setting: Setting, *, rounds: int, quick: bool) -> dict[str, Timing]:
    """Ours (of ``CHUNK`` steps) and torch's (of one)."""
    from bench import torch_training

    part, _ = setting.fold(0)
    programs = {
        name: ours(setting, penalty) for name, penalty in contestants(setting, quick=quick).items()
    }
    torch = {
        f"torch, {name}": torch_training.Training(setting, part, name).step
        for name in (("none", "double kernel") if quick else torch_training.PENALISERS)
    }
    at_least = 0.001 if quick else 0.2
    return race({**programs, **torch}, rounds=rounds, at_least=at_least, most_calls=20)


def training(report: MarkdownReport, quick: bool) -> bool:
    """One table of all tasks; whether every bound is kept."""
    kept = True
    header, said = ["penalty"], []
    cells: dict[str, list[str]] = {}
    for name, setting in enforcement.settings(quick=quick).items():
        header += [f"{setting.data.name}: a step", "times none", "adds"]
        times = step_times(setting, rounds=1 if quick else 9, quick=quick)
        steady = {
            label: np.array(timing.steady) / (1 if label.startswith("torch") else CHUNK)
            for label, timing in times.items()
        }
        ratio, added = {}, {}
        for label, t in steady.items():
            without = steady["torch, none" if label.startswith("torch") else "none"]
            # Within a round, so that a slow stretch of the machine cancels.
            ratio[label] = float(np.median(t / without))
            added[label] = float(np.median(t - without))
            more = seconds(added[label]) if added[label] > 0 else "nothing measurable"
            line = cells.setdefault(label, [label])
            line += [seconds(float(np.median(t))), f"{ratio[label]:.2f}", more]
        least = added["torch, double kernel"] / max(added["HGR-KB"], 1e-9)
        share = f"{least:,.0f}" if added["HGR-KB"] > 0 else "more than 1,000"
        bounds = {
            f"KB at most {ALLOWED[name]:.2f} times none": ratio["HGR-KB"] <= ALLOWED[name],
            f"maxcorr adds at least {AT_LEAST} times as much ({share})": least >= AT_LEAST,
            f"SK no more than KB, to {NOISE:.0%}": ratio["HGR-SK"] <= ratio["HGR-KB"] + NOISE,
        }
        verdicts = (f"{text}: {'yes' if good else 'NO'}" for text, good in bounds.items())
        said.append(f"- {setting.data.name}: {'; '.join(verdicts)}.")
        kept &= all(bounds.values())
        jax.clear_caches()
    report.table(header, cells.values())
    for verdicts_of_task in said:
        report.say(verdicts_of_task)
    return kept or quick


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 1 if a bound is exceeded."""
    return run_bench(__doc__, {"training": training}, arguments)


if __name__ == "__main__":
    sys.exit(main())
