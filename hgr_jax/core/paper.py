"""HGR-SK and HGR-KB as section 3 of the paper writes them; the only module with jaxopt.

Giuliani & Lombardi, "Robust Non-Linear Correlations via Polynomial Regression".  The numbers are
those of its equations.  The centred kernels of a and b have orthonormal bases Q_a and Q_b, so

    P_a alpha = Q_a u,   P_b beta = Q_b v,   var(P_b beta) = |v|^2,   M = mean of Q_a^T Q_b,

and all rows of the data are in M (h x k), however many there are:

     (4)  HGR-KB = max over u, v of rho(Q_a u, Q_b v)
     (9)  min over u, v of |Q_a u - Q_b v|^2   subject to   |v| = 1
    (10)  the same with a given v: least squares, whose normal equations are u = M v
    (11)  HGR-SK = the larger of rho(Q_a u, b) and rho(a, Q_b v), each by (10)

The paper prints arg max for (8) to (11); the distance is what is made small.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from hgr_jax.core.linalg import matmul
from hgr_jax.core.numerics import on_shards_of, safe_norm, safe_rsqrt
from hgr_jax.core.solvers import CanonicalPair, top_pair

MAX_ITERATIONS = 40
"""Iterations after which the closed form, which is at hand, is the better answer."""


def single_kernel(m: Array, rows: int, columns: int) -> tuple[CanonicalPair, Array]:
    """Solve HGR-SK (11): return the better pair, and its direction (0 for b = f(a)).

    The first ``rows`` functions of a, and ``columns`` of b, are linear: one for one variable.
    """
    explains_b, explains_a = top_pair(m[:, :columns]), top_pair(m[:rows].T)
    explains_a = dataclasses.replace(explains_a, u=explains_a.v, v=explains_a.u)
    direction = jnp.where(explains_b.correlation >= explains_a.correlation, 0, 1)
    pairs = (_all_functions(pair, *m.shape) for pair in (explains_b, explains_a))
    return jax.tree.map(lambda x, y: jnp.where(direction == 0, x, y), *pairs), direction


def _all_functions(pair: CanonicalPair, h: int, k: int) -> CanonicalPair:
    """Append zeros for the functions that the pair has not, which are the last ones."""
    u, v = (jnp.pad(x, (0, size - len(x))) for x, size in ((pair.u, h), (pair.v, k)))
    return dataclasses.replace(pair, u=u, v=v)


def double_kernel(m: Array, start: Array | None = None) -> CanonicalPair:
    """Solve HGR-KB (9) by jaxopt, from ``start (k,)`` or from the single-kernel solution.

    The solution has the derivatives of the implicit function theorem.  The singular value
    decomposition of M certifies it, and is the solution where the iteration has not arrived.
    """
    return top_pair(m, _constrained_least_squares, start)


def least_squares(m: Array) -> Array:
    """Return the u of (10) for v along the linear function of b, which is its first one.

    The regression of b on the kernel of a: as Q_a is orthonormal, its normal equations are solved.
    """
    return m[:, 0]


def squared_distance(v: Array, explained: Array) -> tuple[Array, Array]:
    """Return half the objective of (9) at the best u, and its gradient in v.

    By (10) u is M v, which leaves ``|v|^2 - |M v|^2``; ``explained`` is ``M^T M``.  The gradient is
    that with u held fixed, as u is the best one.
    """
    unexplained = v - matmul(explained, v)
    return jnp.dot(v, unexplained) / 2, unexplained


def unit_variance(v: Array, hyperparams: None = None) -> Array:
    """Return the nearest v with ``var(Q_b v) = 1``, the constraint of (9); 0 for 0."""
    return v * safe_rsqrt(jnp.sum(v * v))


def single_kernel_start(m: Array) -> Array:
    """Return the v of HGR-SK: b itself, or the regression of a on the kernel of b."""
    linear = (np.arange(m.shape[1]) == 0).astype(m.dtype)
    of_b, of_a = least_squares(m), least_squares(m.T)
    return jnp.where(jnp.sum(of_b**2) >= jnp.sum(of_a**2), linear, unit_variance(of_a))


def _constrained_least_squares(m: Array, start: Array | None) -> tuple[Array, Array]:
    """Return the v of (9), and the number of iterations.

    A step of length 1 takes v to ``M^T M v``: every step reduces the distance.
    """
    explained = matmul(m.T, m)
    cold = single_kernel_start(m)
    first = cold if start is None else jnp.where(safe_norm(start) > 0, unit_variance(start), cold)
    solver = _jaxopt().ProjectedGradient(
        fun=squared_distance,
        value_and_grad=True,
        projection=unit_variance,
        stepsize=1.0,
        maxiter=MAX_ITERATIONS,
        tol=2 * float(jnp.finfo(m.dtype).eps),
        acceleration=False,
        implicit_diff=False,
        jit=False,
    )

    def unfinished(step: Any) -> Array:
        return (step.state.error > solver.tol) & (step.state.iter_num < MAX_ITERATIONS)

    def update(step: Any) -> Any:
        return on_shards_of(m, solver.update(step.params, step.state, None, explained))

    # `solver.run` unrolls its first step, and so compiles it twice.
    step = _jaxopt().OptStep(first, solver.init_state(first, None, explained))
    v, state = lax.while_loop(unfinished, update, on_shards_of(m, step))
    return v, state.iter_num.astype(jnp.int32)


@functools.cache
def _jaxopt() -> Any:
    """Import jaxopt, which takes a third of a second that a scan need not wait for."""
    with warnings.catch_warnings():
        # It is no longer maintained and says so on import.
        warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*JAXopt.*")
        import jaxopt

        return jaxopt
