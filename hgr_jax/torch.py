"""Measures of torch tensors, with exact gradients, for training loops in torch (extra ``torch``).

`hgr`, `kb`, `sk` and `total` are those of `hgr_jax` for tensors, differentiable by torch.  JAX
computes value and gradient in one compiled call, on the CPU.  `torch.compile` calls them as they
are, between its graphs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from hgr_jax import measures
from hgr_jax._checks import check_count, check_kernel, warn_of_few_steps
from hgr_jax._optional import require
from hgr_jax.core.kernels import KernelLike
from hgr_jax.core.rows import jitted

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["hgr", "kb", "sk", "total"]


def kb(
    a: Tensor, b: Tensor, h: KernelLike = 5, k: KernelLike = 5, *, weights: Tensor | None = None
) -> Tensor:
    """Compute HGR-KB of two tensors, the largest correlation between polynomials of each.

        HGR-KB(a, b; h, k) = max over alpha, beta of rho(P_a^h alpha, P_b^k beta)

    Args:
      a, b: tensors ``(n,)``, or ``(n, p)`` for several variables at once, on any device, with or
        without gradients.  Integers and half precision are computed in float32, float64 in
        float64, whatever the configuration of JAX is.
      h, k: kernel of ``a`` and of ``b``, as in `hgr_jax.kb`: a degree (int >= 1), or a hashable
        function of JAX from arrays ``(n,)`` to features ``(n, m)``.
      weights: non-negative observation weights, a tensor ``(n,)``, or None.

    Returns:
      A tensor ``()`` in [0, 1], on the device of ``a``.

    Raises:
      TypeError: for anything but dense real tensors, for tensors inside a transformation of
        ``torch.func``, and for other kernels.
      ValueError: for other shapes, and degrees below 1.
      ImportError: without torch.
      RuntimeError: for ``create_graph=True``, which asks for a gradient of the gradient.

    Derivatives: of the first order.  Degenerate data and source: as in `hgr_jax.kb`.

    Cost: that of `hgr_jax.kb`.  A gradient that is needed is computed with the value, by one
    program for every shape: keep the batch size fixed.  Tensors on the CPU are not copied, others
    go there and the value and the gradient back.

    Example:
      >>> import torch, hgr_jax.torch
      >>> a = torch.linspace(-1, 1, 200)
      >>> b = (a + a**2).requires_grad_()
      >>> value = hgr_jax.torch.kb(a, b, h=2, k=2)
      >>> value.backward()
      >>> print(f"{value:.3f}", b.grad.shape)
      1.000 torch.Size([200])
    """
    return _call(measures.kb, a, b, weights, h=h, k=k)


def hgr(a: Tensor, b: Tensor, *, weights: Tensor | None = None) -> Tensor:
    """Compute HGR of two tensors, by functions of their ranks.

        hgr(a, b) = the debiased average of blocks of canonical correlations, as in `hgr_jax.hgr`

    Args:
      a, b, weights: as in `kb`, of a and b ``(n,)``.

    Returns:
      A tensor ``()`` in [0, 1], on the device of ``a``.

    Raises:
      TypeError, ValueError, ImportError, RuntimeError: as `kb` does.

    Derivatives, degenerate data and source: as `hgr_jax.hgr`.  Cost: as in `kb`.

    Example:
      >>> import torch, hgr_jax.torch
      >>> a = torch.linspace(-1, 1, 200)
      >>> print(f"{hgr_jax.torch.hgr(a, a**2):.2f}")
      1.00
    """
    return _call(measures.hgr, a, b, weights)


def sk(a: Tensor, b: Tensor, d: int = 5, *, weights: Tensor | None = None) -> Tensor:
    """Compute HGR-SK of two tensors, the correlation of one with the best polynomial of the other.

        HGR-SK(a, b; d) = max( rho(P_a^d alpha*, b), rho(a, P_b^d beta*) )

    Args:
      a, b, weights: as in `kb`.
      d: degree of either polynomial, as in `hgr_jax.sk`.

    Returns:
      A tensor ``()`` in [0, 1], on the device of ``a``.

    Raises:
      TypeError, ValueError, ImportError, RuntimeError: as `kb` does.

    Derivatives, degenerate data and cost: as in `kb`.  Source: as `hgr_jax.sk`.

    Example:
      >>> import torch, hgr_jax.torch
      >>> a = torch.linspace(-1, 1, 200)
      >>> print(f"{hgr_jax.torch.sk(a, a**2, d=2):.3f}")
      1.000
    """
    return _call(measures.sk, a, b, weights, d=d)


def total(
    a: Tensor, b: Tensor, h: KernelLike = 5, k: KernelLike = 5, *, weights: Tensor | None = None
) -> Tensor:
    """Compute the root mean square of all canonical correlations of two tensors.

        total(a, b; h, k) = sqrt( sum_i rho_i^2 / r ),    r of them

    Unlike `kb` it has a gradient where the largest two correlations are equal.

    Args:
      a, b, h, k, weights: as in `kb`.

    Returns:
      A tensor ``()`` in [0, 1], on the device of ``a``.

    Raises:
      TypeError, ValueError, ImportError, RuntimeError: as `kb` does.

    Derivatives, degenerate data and cost: as in `kb`.  Source: as `hgr_jax.total`.

    Example:
      >>> import torch, hgr_jax.torch
      >>> a = torch.linspace(-1, 1, 200)
      >>> print(f"{hgr_jax.torch.total(a, a + a**2, h=2, k=2):.2f}")
      0.79
    """
    return _call(measures.total, a, b, weights, h=h, k=k)


_outside_of_graphs: Callable[..., Any] | None = None
"""`_compute`, as `torch.compile` calls it between its graphs; made when torch is loaded."""


def _call(measure: Callable[..., Array], a: Any, b: Any, weights: Any, **kernels: Any) -> Any:
    global _outside_of_graphs
    if _outside_of_graphs is None:
        _outside_of_graphs = require("torch").compiler.disable(_compute)
    return _outside_of_graphs(measure, a, b, weights, **kernels)


def _compute(measure: Callable[..., Array], a: Any, b: Any, weights: Any, **kernels: Any) -> Any:
    torch = require("torch")
    named = {"a": a, "b": b} | ({} if weights is None else {"weights": weights})
    for name, value in named.items():
        _check_tensor(torch, name, value)
    # torch converts, and so differentiates through the conversions.
    dtype = torch.promote_types(torch.promote_types(a.dtype, b.dtype), torch.float32)
    tensors = [_as_floats(name, x, dtype) for name, x in named.items()]
    checks = {"h": check_kernel, "k": check_kernel, "d": check_count}
    kernels = {name: checks[name](name, kernel) for name, kernel in kernels.items()}
    call = _Call(measure, tuple(kernels.items()))
    needed = tuple(i for i, x in enumerate(tensors) if x.requires_grad)
    with jax.enable_x64(True) if dtype == torch.float64 else contextlib.nullcontext():
        if needed and torch.is_grad_enabled():
            value = _autograd_function().apply(call, needed, *tensors)
        else:
            value = tensors[0].new_tensor(call(*map(_as_numpy, tensors)).item())
    return value.to(a.device)


def _check_tensor(torch: Any, name: str, value: Any) -> None:
    if not isinstance(value, torch.Tensor):
        raise TypeError(
            f"{name} must be a torch.Tensor; got {type(value).__name__}."
            f" Convert it: torch.as_tensor({name})."
        )
    if torch._C._functorch.is_functorch_wrapped_tensor(value):
        raise TypeError(
            f"{name} is inside torch.func.vmap, grad or another transformation of torch.func, which"
            " hgr_jax.torch does not have: loop over the batch, and take .backward(), or use"
            " jax.vmap and jax.grad with the measures of hgr_jax."
        )
    if value.is_complex() or value.layout != torch.strided:
        raise TypeError(
            f"{name} must be a dense tensor of real numbers; got dtype {value.dtype} and layout"
            f" {value.layout}."
        )


def _as_floats(name: str, tensor: Any, dtype: Any) -> Any:
    """Return a tensor on the CPU, in this dtype; warn where integers lose their differences."""
    floats = tensor.resolve_conj().resolve_neg().to("cpu", dtype)
    if not (tensor.is_floating_point() or tensor.dtype == require("torch").bool) and tensor.numel():
        warn_of_few_steps(name, _as_numpy(tensor), _as_numpy(floats))
    return floats


def _as_numpy(tensor: Any) -> NDArray[Any]:
    array: NDArray[Any] = tensor.numpy(force=True)
    return array


@dataclasses.dataclass(frozen=True)
class _Call:
    """A measure with its kernels; it is hashable, and so a static argument."""

    measure: Callable[..., Array]
    kernels: tuple[tuple[str, Any], ...]

    def __call__(self, a: Any, b: Any, weights: Any = None) -> Array:
        return self.measure(a, b, **dict(self.kernels), weights=weights)


def _differentiate(*arrays: Array, call: _Call, needed: tuple[int, ...]) -> Any:
    return jax.value_and_grad(call, argnums=needed)(*arrays)


_value_and_gradients = jitted(_differentiate, static=("call", "needed"))


@functools.cache
def _autograd_function() -> Any:
    """Return the function of torch's autograd that computes a measure; it needs torch."""
    torch = require("torch")

    class Measure(torch.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(context: Any, call: _Call, needed: tuple[int, ...], *tensors: Any) -> Any:
            arrays = map(_as_numpy, tensors)
            value, gradients = _value_and_gradients(*arrays, call=call, needed=needed)
            # Copying waits for the program, which reads the memory of the tensors.
            context.save_for_backward(*(torch.from_numpy(np.array(x)) for x in gradients))
            context.positions = needed, len(tensors)
            return tensors[0].new_tensor(value.item())

        @staticmethod
        def backward(context: Any, change: Any) -> Any:
            if torch.is_grad_enabled():  # a second gradient would treat this one as a constant
                raise RuntimeError(
                    "hgr_jax.torch has gradients of the first order only; got create_graph=True."
                    " For higher orders use the measures of hgr_jax in JAX."
                )
            needed, count = context.positions
            gradients: list[Any] = [None] * count
            for position, gradient in zip(needed, context.saved_tensors, strict=True):
                gradients[position] = change * gradient
            return None, None, *gradients

    return Measure
