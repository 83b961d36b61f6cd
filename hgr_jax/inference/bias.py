"""The upward bias of sample correlations, in part removed."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from hgr_jax.core.fits import ezekiel


def corrected(value: Array, rows: ArrayLike, parameters: ArrayLike) -> Array:
    """Return Ezekiel's corrected correlation, 0 where it would be imaginary.

        corrected^2 = max(0, 1 - (1 - value^2) (rows - 1) / (rows - 1 - parameters))

    Args:
      value: correlations in [0, 1], of any shape, traced.
      rows: how many rows they were computed from, traced.
      parameters: of the model, traced or static: h + k - 1 for the top canonical correlation of h
        and k functions (the leading term of Lawley's expansion).

    Raises:
      TypeError: for what is no array of numbers.

    Degenerate cases: 0 if ``rows <= parameters + 1``.  Derivatives are 0 where the result is.

    Source: Ezekiel, "Methods of correlation analysis" (1930); Lawley, "Tests of significance in
    canonical analysis" (1959).

    Example:
      >>> import jax.numpy as jnp
      >>> from hgr_jax.inference import corrected
      >>> noise, weak, strong = corrected(jnp.array([0.05, 0.1, 0.5]), 1000, 9)
      >>> print(f"{noise:.3f} {weak:.3f} {strong:.3f}")
      0.000 0.032 0.493
    """
    value = jnp.asarray(value)
    rows, parameters = (jnp.asarray(x, value.dtype) for x in (rows, parameters))
    found: Array = ezekiel(jnp, value, rows, parameters)
    return found


def corrected_on_host(
    value: ArrayLike, rows: ArrayLike, parameters: ArrayLike
) -> NDArray[np.float64]:
    """Return `corrected` by NumPy, in double precision, for arrays whose shapes vary."""
    found: NDArray[np.float64] = ezekiel(np, np.asarray(value, np.float64), rows, parameters)
    return found
