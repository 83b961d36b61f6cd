"""The contestants that are not ours, each as its users would call it."""

from __future__ import annotations

import warnings
from typing import Any

import maxcorr
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import NonlinearConstraint, minimize

Vector = NDArray[np.floating]


def maxcorr_double(a: Vector, b: Vector, degree: int = 5) -> float:
    """The double kernel of maxcorr."""
    return _maxcorr("dk", a, b, kernel_a=degree, kernel_b=degree)


def maxcorr_single(a: Vector, b: Vector, degree: int = 5) -> float:
    """The single kernel of maxcorr."""
    return _maxcorr("sk", a, b, kernel=degree)


def maxcorr_neural(a: Vector, b: Vector, steps: int = 1000) -> float:
    """The networks of maxcorr, of torch, trained anew."""
    import torch

    # It counts its first call as a later one, so both numbers of steps are set.
    options = {"epochs_start": steps, "epochs_successive": steps}
    return _maxcorr("nn", torch.tensor(a), torch.tensor(b), backend="torch", **options)


def _maxcorr(algorithm: str, a: Any, b: Any, **options: Any) -> float:
    with warnings.catch_warnings(action="ignore"):
        return float(maxcorr.indicator("hgr", algorithm, **options).compute(a, b))


def numpy_scan(x: Vector, degree: int = 5) -> Vector:
    """Every pair in plain NumPy: powers and QR of each column, one product, a batch of SVDs."""
    rows, columns = x.shape
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    bases = np.empty((rows, columns, degree), x.dtype)
    bases[:, :, 0] = x
    for j in range(1, degree):
        np.multiply(bases[:, :, j - 1], x, out=bases[:, :, j])
    bases -= bases.mean(axis=0)
    for column in range(columns):
        bases[:, column] = np.linalg.qr(bases[:, column])[0]
    flat = bases.reshape(rows, -1)
    gram = (flat.T @ flat).reshape(columns, degree, columns, degree)
    first, second = np.triu_indices(columns, 1)
    return np.linalg.svd(gram[first, :, second], compute_uv=False)[:, 0]


def numpy_closed_form(a: Vector, b: Vector, degree: int = 5) -> float:
    """The top canonical correlation of one pair, likewise."""
    return float(numpy_scan(np.stack([a, b], axis=1), degree)[0])


def least_squares(a: Vector, b: Vector, degree: int = 5) -> float:
    """The single kernel in plain NumPy: `numpy.linalg.lstsq` in both directions."""
    best = 0.0
    for x, y in ((a, b), (b, a)):
        kernel = _centred_powers(x, degree)
        fitted = kernel @ np.linalg.lstsq(kernel, y - y.mean(), rcond=None)[0]
        best = max(best, float(np.corrcoef(fitted, y)[0, 1]))
    return best


def trust_region(a: Vector, b: Vector, h: int = 5, k: int = 5) -> float:
    """The paper's own formulation, solved by SciPy's ``trust-constr`` on standardised data.

    min over alpha, beta of mean((P_a alpha - P_b beta)^2)  subject to  var(P_b beta) = 1
    """
    kernel_a, kernel_b = _centred_powers(a, h), _centred_powers(b, k)
    both = np.hstack([kernel_a, -kernel_b])
    hessian = 2 * both.T @ both / len(a)
    variance = np.zeros_like(hessian)
    variance[h:, h:] = 2 * kernel_b.T @ kernel_b / len(b)

    def objective(x: Vector) -> float:
        return float(np.mean((both @ x) ** 2))

    def gradient(x: Vector) -> Vector:
        return 2 * both.T @ (both @ x) / len(a)

    unit_variance = NonlinearConstraint(
        lambda x: np.mean((kernel_b @ x[h:]) ** 2),
        1,
        1,
        jac=lambda x: variance @ x,
        hess=lambda _, v: v[0] * variance,
    )
    start = np.zeros(h + k)
    start[[0, h]] = 1
    with warnings.catch_warnings(action="ignore"):
        x = minimize(
            objective,
            start,
            jac=gradient,
            hess=lambda _: hessian,
            constraints=[unit_variance],
            method="trust-constr",
            options={"maxiter": 1000},
        ).x
    return abs(float(np.corrcoef(kernel_a @ x[:h], kernel_b @ x[h:])[0, 1]))


def _centred_powers(x: Vector, degree: int) -> Vector:
    x = (x - x.mean()) / x.std()
    powers = np.stack([x**j for j in range(1, degree + 1)], axis=1)
    return powers - powers.mean(axis=0)
