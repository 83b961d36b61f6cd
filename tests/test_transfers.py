"""Paths that matter on a GPU: nothing goes from the host to a device without being put there."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import pytest
from flax import nnx

import hgr_jax
from hgr_jax.fairness import KB, MLP, FairTrainer, Penalty, training


def test_batches_of_kb_and_of_its_gradients() -> None:
    a, noise = jax.random.normal(jax.random.key(0), (2, 3, 100))
    b = a**2 + noise
    kb = functools.partial(hgr_jax.kb, h=2, k=2)
    value = jax.jit(jax.vmap(kb))
    slope = jax.jit(jax.vmap(jax.value_and_grad(kb, argnums=(0, 1))))
    for compiled in (value, slope):
        compiled(a, b)
        with jax.transfer_guard("disallow"):
            jax.block_until_ready(compiled(a, b))


@pytest.mark.parametrize("name", ["pearson", "spearman", "distance_correlation"])
def test_measures_of_the_host(rng: np.random.Generator, name: str) -> None:
    a, b = rng.normal(size=(2, 100))
    measure = getattr(hgr_jax, name)
    expected = measure(a, b)
    with jax.transfer_guard("disallow"):
        assert measure(a, b) == expected


@pytest.mark.parametrize("top", [20, None])
def test_scans(rng: np.random.Generator, top: int | None) -> None:
    x = rng.normal(size=(300, 80)).astype(np.float32)
    expected = hgr_jax.scan(x, top=top)
    with jax.transfer_guard("disallow"):
        found = hgr_jax.scan(x, top=top)
    np.testing.assert_array_equal(found.pvalue, expected.pvalue)


@pytest.mark.parametrize("batch", [None, 32])
def test_steps_of_training_are_one_program_that_calls_no_host(
    rng: np.random.Generator, batch: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, compiled = [], training._run_steps

    def record(*arguments: Any, **options: Any) -> Any:
        programs.append(compiled.lower(*arguments, **options).as_text())
        return compiled(*arguments, **options)

    monkeypatch.setattr(training, "_run_steps", record)
    x = rng.normal(size=(100, 4)).astype(np.float32)
    network, penalty = MLP(4, hidden=(8,), rngs=nnx.Rngs(0)), Penalty(KB(2, 2), 0.2)
    trainer = FairTrainer(network, penalties=penalty, batch_size=batch)
    trainer.fit(x, x[:, 0] ** 2 + x[:, 1], x[:, 0], steps=20)
    assert 0 < len(programs) < 5  # for 20 steps
    for program in programs:
        assert "while" in program
        assert "callback" not in program
