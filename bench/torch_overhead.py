"""What a measure of torch tensors adds to the call of JAX.

``python -m bench.torch_overhead [--quick] [--write]``: value and gradient by b at degree 5, in
float32: in JAX, jitted, and in torch as a training does it (forward and ``backward()``), on tensors
in the CPU's memory.  Beside them, what torch takes for a ``backward()`` of almost nothing.  All in
turn, in one process, and torch on one thread, as its own would wait for those of JAX.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import torch

import hgr_jax
import hgr_jax.torch
from bench.data import relation
from bench.machine import describe
from bench.report import MarkdownReport, bench_parser
from bench.timing import race, seconds

SIZES = (512, 2_048, 10_000, 100_000)

BOUNDS = {("kb", 2_048): 1.5}
"""The most that torch may take, in times of JAX, by measure and rows."""

MEASURES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "kb": (hgr_jax.kb, hgr_jax.torch.kb),
    "sk": (hgr_jax.sk, hgr_jax.torch.sk),
    "total": (hgr_jax.total, hgr_jax.torch.total),
}


def contestants(name: str, rows: int) -> dict[str, Callable[[], Any]]:
    """Value and gradient of one measure, in JAX and in torch."""
    in_jax, in_torch = MEASURES[name]
    a, b = relation("x^2", rows)
    x, y = jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32)
    both = jax.jit(jax.value_and_grad(in_jax, argnums=1))
    fixed, leaf = (torch.tensor(column, dtype=torch.float32) for column in (a, b))
    leaf.requires_grad_()

    def backward(value: Callable[[], Any]) -> float:
        leaf.grad = None
        found = value()
        found.backward()
        return found.item()

    return {
        "JAX": lambda: both(x, y),
        "torch": lambda: backward(functools.partial(in_torch, fixed, leaf)),
        "nothing": lambda: backward(leaf.sum),
    }


def rows_of(sizes: tuple[int, ...], rounds: int) -> Iterator[tuple[list[str], bool | None]]:
    """Each measure at each size, and whether its bound holds."""
    for name in MEASURES:
        for rows in sizes:
            timings = race(contestants(name, rows), rounds=rounds)
            jax_time, torch_time, least = (
                timings[key].median for key in ("JAX", "torch", "nothing")
            )
            ratio, bound = torch_time / jax_time, BOUNDS.get((name, rows))
            yield (
                [
                    f"`{name}`",
                    f"{rows:,}",
                    seconds(jax_time),
                    seconds(torch_time),
                    seconds(least),
                    f"{ratio:.2f}",
                    "" if bound is None else f"{bound:.2f}",
                ],
                None if bound is None else ratio <= bound,
            )


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; 1 if a bound is exceeded."""
    parser = bench_parser("torch_overhead", __doc__, quick="one size, few rounds")
    options = parser.parse_args(arguments)
    report = MarkdownReport()
    report.say(describe())
    header = ("measure", "rows", "JAX", "torch", "bare `backward()`", "torch / JAX", "at most")
    sizes, rounds = ((2_048,), 3) if options.quick else (SIZES, 41)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        kept = report.judged_table(header, rows_of(sizes, rounds))
    finally:
        torch.set_num_threads(threads)
    if options.write:
        report.keep("torch_overhead")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
