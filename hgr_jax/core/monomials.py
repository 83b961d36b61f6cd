"""Monomials of several variables, by their exponents."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hgr_jax._arrays import Floats

MAX_MONOMIALS = 1000


def check_monomials(name: str, kernel: Any, x: Any) -> Any:
    """Return the kernel called ``name``, or raise if it has too many monomials of ``x``."""
    if not callable(kernel) and x.ndim == 2 and x.shape[1] > 1:
        count = math.comb(x.shape[1] + kernel, kernel) - 1
        if count > MAX_MONOMIALS:
            raise ValueError(
                f"the kernel {name} of total degree {kernel} of {x.shape[1]} variables (data of"
                f" shape {tuple(x.shape)}) has {count} monomials; at most {MAX_MONOMIALS} are"
                " supported. Lower the degree, or pass one variable as an array (n,)."
            )
    return kernel


@functools.cache
def monomial_exponents(variables: int, degree: int) -> tuple[tuple[int, ...], ...]:
    """Return exponents of the monomials of total degree 1 to ``degree``, in the kernel's order."""
    exponents = []
    for total in range(1, degree + 1):
        for chosen in itertools.combinations_with_replacement(range(variables), total):
            exponents.append(tuple(chosen.count(i) for i in range(variables)))
    return tuple(exponents)


def products_of_functions(factors: Floats | Sequence[Floats], degree: int) -> Floats:
    """Return products ``(N, n)`` of functions of p variables, the powers of which add up to 1 to d.

    ``factors`` are p arrays ``(1 + d, n)``: 1, and functions of a variable by their degree.
    """
    powers = np.array(monomial_exponents(len(factors), degree))
    products = np.ones((len(powers), factors[0].shape[1]))
    for functions, power in zip(factors, powers.T, strict=True):
        products *= functions[power]
    return products
