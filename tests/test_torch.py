"""Measures of torch tensors: values and gradients of JAX, and torch's own checks of them."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hgr_jax
from hgr_jax import torch as of_tensors

torch: Any = pytest.importorskip("torch", reason="the extra torch is not installed")

ROWS = 40
MEASURES = {
    "hgr": (hgr_jax.hgr, of_tensors.hgr, ()),
    "kb": (hgr_jax.kb, of_tensors.kb, (3, 2)),
    "sk": (hgr_jax.sk, of_tensors.sk, (3,)),
    "total": (hgr_jax.total, of_tensors.total, (3, 2)),
}


def columns(rng: np.random.Generator, rows: int = ROWS) -> tuple[np.ndarray, ...]:
    """A pair that depend on each other, and weights."""
    a = rng.standard_normal(rows)
    return a, a**2 + a + 0.5 * rng.standard_normal(rows), rng.uniform(0.5, 2, rows)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("kb", "float32"), ("kb", "float64"), ("sk", "float64"), ("total", "float64")],
)
def test_value_and_gradients_are_those_of_jax(
    name: str, dtype: str, rng: np.random.Generator
) -> None:
    ours, tensors, degrees = MEASURES[name]
    arrays = [x.astype(dtype) for x in columns(rng)]

    def value(a: Any, b: Any, w: Any) -> Any:
        return ours(a, b, *degrees, weights=w)

    with jax.enable_x64(dtype == "float64"):
        found = jax.value_and_grad(value, argnums=(0, 1, 2))(*map(jnp.asarray, arrays))
        expected = jax.tree.map(np.asarray, found)
    a, b, w = (torch.tensor(x, requires_grad=True) for x in arrays)
    result = tensors(a, b, *degrees, weights=w)
    assert result.shape == ()
    assert str(result.dtype) == f"torch.{dtype}"
    (3 * result).backward()
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(result.item(), expected[0], rtol=tolerance)
    for x, gradient in zip((a, b, w), expected[1], strict=True):
        assert x.grad.dtype == x.dtype
        np.testing.assert_allclose(x.grad, 3 * gradient, atol=tolerance)
    assert not jax.config.jax_enable_x64


# hgr is of ranks, which jump
@pytest.mark.parametrize("name", [pytest.param("kb", marks=pytest.mark.slow), "total"])
def test_gradcheck(name: str, rng: np.random.Generator) -> None:
    _, tensors, degrees = MEASURES[name]
    a, b, w = (torch.tensor(x, requires_grad=True) for x in columns(rng, 15))

    def value(*given: Any) -> Any:
        return tensors(given[0], given[1], *degrees, weights=given[2] if given[2:] else None)

    assert torch.autograd.gradcheck(value, (a, b, w))
    assert torch.autograd.gradcheck(value, (a, b.detach()))
    two = torch.stack([a, b], dim=1).detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: tensors(x, w.detach(), *degrees), (two,))


def test_either_both_or_none_require_gradients(rng: np.random.Generator) -> None:
    data = columns(rng)[:2]
    for wanted in itertools.product((True, False), repeat=2):
        pair = [torch.tensor(x, requires_grad=needs) for x, needs in zip(data, wanted, strict=True)]
        value = of_tensors.kb(*pair, h=2, k=2)
        assert value.requires_grad == any(wanted)
        if any(wanted):
            value.backward()
        assert tuple(x.grad is not None for x in pair) == wanted
        with torch.no_grad():
            plain = of_tensors.kb(*pair, h=2, k=2)
        assert not plain.requires_grad
        np.testing.assert_allclose(plain, value.detach(), rtol=1e-12)


def test_any_layout_and_dtype(rng: np.random.Generator) -> None:
    a, b, _ = (torch.tensor(x) for x in columns(rng))
    table = torch.stack([a, b], dim=1).requires_grad_()
    strided = of_tensors.kb(table[:, 0], table[:, 1], 2, 2)
    np.testing.assert_allclose(strided.item(), of_tensors.kb(a, b, 2, 2), rtol=1e-12)
    strided.backward()
    leaf = b.clone().requires_grad_()
    of_tensors.kb(a, leaf, 2, 2).backward()
    np.testing.assert_allclose(table.grad[:, 1], leaf.grad, atol=1e-12)
    for other in (torch.bfloat16, torch.float16):
        half = b.to(other).requires_grad_()
        value = of_tensors.kb(a.to(other), half, 2, 2)
        assert value.dtype == torch.float32
        value.backward()
        assert half.grad.dtype == other
        np.testing.assert_allclose(value.item(), strided.item(), atol=0.02)
    assert of_tensors.kb(a.float(), b, 2, 2).dtype == torch.float64
    counts = torch.arange(ROWS)
    expected = np.corrcoef(counts, counts > 9)[0, 1]
    np.testing.assert_allclose(of_tensors.kb(counts, counts > 9, 1, 1), expected, atol=1e-5)
    kernel = hgr_jax.kernels.fourier(1, 2.0)
    np.testing.assert_allclose(of_tensors.kb(a, torch.sin(np.pi * a), kernel, 1), 1, atol=1e-6)


def test_data_that_are_written_to_after_a_call(rng: np.random.Generator) -> None:
    a, b, _ = (torch.tensor(x, dtype=torch.float32) for x in columns(rng, 5000))
    b.requires_grad_()
    expected = torch.autograd.grad(of_tensors.kb(a, b, 2, 2), b)[0]
    value = of_tensors.kb(a, b, 2, 2)
    with torch.no_grad():
        a.zero_()
        b.zero_()
    np.testing.assert_array_equal(torch.autograd.grad(value, b)[0], expected)


def test_a_second_gradient_is_refused(rng: np.random.Generator) -> None:
    a, b, _ = (torch.tensor(x, requires_grad=True) for x in columns(rng))
    with pytest.raises(RuntimeError, match="gradients of the first order only"):
        torch.autograd.grad(of_tensors.kb(a, b, 2, 2), b, create_graph=True)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a: of_tensors.kb([1.0], a), TypeError, "a must be a torch.Tensor; got list"),
        (lambda a: of_tensors.sk(a, np.ones(1)), TypeError, "b must be a torch.Tensor; got nda"),
        (lambda a: of_tensors.total(a, a, weights=1.0), TypeError, "weights must be a torch.Te"),
        (lambda a: of_tensors.kb(a, a * 1j), TypeError, "b must be a dense tensor of real"),
        (lambda a: of_tensors.kb(a.to_sparse(), a), TypeError, "a must be a dense tensor of real"),
        (lambda a: of_tensors.kb(a, a[:-1]), ValueError, "a and b must have the same number"),
        (lambda a: of_tensors.kb(a[0], a), ValueError, r"a must have shape \(n,\) or \(n, p\)"),
        (lambda a: of_tensors.kb(a, a, h=0), ValueError, "h must be at least 1"),
        (lambda a: of_tensors.sk(a, a, d=[1]), TypeError, "d must be an int"),
        (lambda a: of_tensors.kb(a, a, weights=a[:3]), ValueError, "weights must have shape"),
    ],
)
def test_errors(call: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    a = torch.linspace(0, 1, 8)
    for data in (a, a.clone().requires_grad_()):
        with pytest.raises(error, match=message):
            call(data)


def test_torch_is_loaded_when_a_measure_is_called_and_missed_by_name() -> None:
    code = """
import sys
import hgr_jax
hgr_jax.torch.kb
assert "torch" not in sys.modules
sys.modules["torch"] = None
try:
    hgr_jax.torch.kb([1.0], [1.0])
except ImportError as error:
    sys.exit("pip install 'hgr_jax[torch]'" not in str(error))
sys.exit(2)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_integers_and_views() -> None:
    b = torch.sin(torch.arange(60.0))
    for dtype in (torch.int32, torch.int64):
        with pytest.warns(UserWarning, match="lies so far from 0"):
            of_tensors.kb((torch.arange(60) + 1_700_000_000).to(dtype), b)
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        whole = torch.arange(60).to(dtype)
        assert of_tensors.kb(whole, whole, 1, 1) == pytest.approx(1)
    view = torch.complex(b, b + torch.arange(60.0)).conj().imag
    assert view.is_neg()
    assert of_tensors.kb(view, b) == of_tensors.kb(view.clone(), b)


def test_transformations_of_torch_are_refused() -> None:
    b = torch.sin(torch.arange(60.0))
    for use in (
        lambda: torch.func.grad(lambda x: of_tensors.kb(x, b))(b),
        lambda: torch.func.vmap(lambda x: of_tensors.kb(x, b))(torch.stack([b, b])),
    ):
        with pytest.raises(TypeError, match=r"torch\.func"):
            use()


# Torch's own, where it looks for what a graph needs.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
def test_compiled_functions_call_measures_as_they_are(rng: np.random.Generator) -> None:
    a, b = (torch.tensor(x) for x in columns(rng)[:2])

    def loss(a: Any, b: Any) -> Any:
        return (a * b).mean() + of_tensors.kb(2 * a, b, 3, 2) + of_tensors.hgr(a, b)

    compiled = torch.compile(loss, backend="eager")
    gradients = []
    for function in (loss, compiled):
        x = a.clone().requires_grad_()
        value = function(x, b)
        value.backward()
        gradients.append((value.item(), x.grad.numpy()))
    np.testing.assert_allclose(gradients[1][0], gradients[0][0], rtol=1e-12)
    np.testing.assert_allclose(gradients[1][1], gradients[0][1], rtol=1e-12)
