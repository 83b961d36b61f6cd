"""Reading a printed formula."""

from __future__ import annotations

import re
from typing import Any

import numpy as np


def computed(text: str, **variables: np.ndarray) -> np.ndarray:
    """Return the value of a printed formula, which is read as it stands."""
    polynomial, *meanings = text.split(", ")
    known: dict[str, Any] = dict(variables)
    for meaning in meanings:
        symbol, expression = meaning.split(" = ")
        known[symbol] = eval(expression, {}, known)
    product = re.sub(r"(?<=\w) (?=[a-z])", " * ", polynomial.replace("^", "**"))
    return np.asarray(eval(product, {}, known))
