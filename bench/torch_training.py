"""The paper's trainings as a user of torch and maxcorr would write them."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import maxcorr
import numpy as np
import torch

from bench.paper.enforcement import Part, Setting

PENALISERS = {
    "none": None,
    "double kernel": ("dk", {"kernel_a": 5, "kernel_b": 5}),
    "single kernel": ("sk", {"kernel": 5}),
}


class Training:
    """A network and its multiplier, both trained by Adam of 1e-3; one step at a time."""

    def __init__(self, setting: Setting, part: Part, penaliser: str) -> None:
        torch.manual_seed(0)
        sizes = (part.x.shape[1], *setting.hidden, 1)
        layers: list[torch.nn.Module] = []
        for size, following in itertools.pairwise(sizes):
            layers += [torch.nn.Linear(size, following), torch.nn.ReLU()]
        self.network = torch.nn.Sequential(*layers[:-1])
        self.classify = setting.task == "log_loss"
        self.threshold = setting.threshold
        self.data = tuple(torch.from_numpy(np.ascontiguousarray(values)) for values in part)
        self.multiplier = torch.zeros((), requires_grad=True)
        self.descent = torch.optim.Adam(self.network.parameters(), 1e-3)
        self.ascent = torch.optim.Adam([self.multiplier], 1e-3, maximize=True)
        self.batches = _batches(len(part.x), setting.batch)
        self.indicator = None
        known = PENALISERS[penaliser]
        if known is not None:
            algorithm, options = known
            with warnings.catch_warnings(action="ignore"):
                self.indicator = maxcorr.indicator("hgr", algorithm, backend="torch", **options)

    def step(self) -> None:
        """One step of descent of the weights and of ascent of the multiplier."""
        rows = next(self.batches)
        x, y, z = self.data if rows is None else (values[rows] for values in self.data)
        output = self.network(x)[:, 0]
        functional = torch.nn.functional
        if self.classify:
            loss = functional.binary_cross_entropy_with_logits(output, y)
        else:
            loss = functional.mse_loss(output, y)
        self.descent.zero_grad()
        self.ascent.zero_grad()
        if self.indicator is not None:
            prediction = torch.sigmoid(output) if self.classify else output
            with warnings.catch_warnings(action="ignore"):
                value = self.indicator.compute(a=z, b=prediction)
            loss = loss + self.multiplier * torch.relu(value - self.threshold)
        loss.backward()
        self.descent.step()
        if self.indicator is not None:
            self.ascent.step()


def _batches(rows: int, size: int | None) -> Iterator[Any]:
    if size is None or size >= rows:
        yield from itertools.repeat(None)
    generator = torch.Generator().manual_seed(0)
    while True:
        order = torch.randperm(rows, generator=generator)
        assert size is not None
        for start in range(0, rows - size + 1, size):
            yield order[start : start + size]
