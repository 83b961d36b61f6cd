"""What measures, kernels and tests refuse: the error says which argument, and what it got."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from partial_support import ROWS, some_data

import hgr_jax
from hgr_jax import inference
from hgr_jax.inference import roys_root
from hgr_jax.kernels import fourier, splines
from hgr_jax.plotting import plot_fit

KEY = jax.random.key(0)
X, WIDE, ONE = np.arange(6.0), np.arange(12.0).reshape(6, 2) ** 2, np.ones(6)
A, B, C, _ = some_data()
TABLE = np.random.default_rng(0).normal(size=(ROWS, 5))
TABLE[:, 4] = 2


def on_x(function: Callable[..., Any], **options: Any) -> Callable[[], Any]:
    return lambda: function(X, X, **options)


def given(function: Callable[..., Any], **options: Any) -> Callable[[], Any]:
    return lambda: function(A, B, **{"given": C} | options)


def scanned(**options: Any) -> Callable[[], Any]:
    return lambda: hgr_jax.scan(TABLE, **options)


kb, kb_fit, sk, sk_fit = hgr_jax.kb, hgr_jax.kb_fit, hgr_jax.sk, hgr_jax.sk_fit
ace, rdc, neural = hgr_jax.ace, hgr_jax.rdc, hgr_jax.neural
cca, ica, hsic = hgr_jax.kernel_cca, hgr_jax.kernel_ica_contrast, hgr_jax.hsic
dcor, kernel = hgr_jax.distance_correlation, hgr_jax.polynomial_kernel
independence, permute = hgr_jax.independence_test, inference.permutation_test
degrees = inference.select_degrees
log_survival, quantile = roys_root.log_survival, roys_root.quantile
BENDS = splines([-2, 0, 2], 1)

TYPE_ERRORS: list[tuple[str, Callable[[], Any]]] = [
    # Data
    ("a must hold real numbers", lambda: kb(None, [1.0])),
    ("x must hold real numbers", lambda: kernel(["a", "b"], 2)),
    ("given must hold real numbers", given(kb, given=["x"] * ROWS)),
    ("key must be a random key", on_x(independence, key=0)),
    # Kernels
    ("h must be a degree .* or a callable", lambda: kb(X, X, 2.0)),
    ("d must be an int", lambda: sk(X, X, None)),
    ("d must be a degree; of a kernel of your own", lambda: sk(X, X, fourier(1, 1.0))),
    ("h must be a static int, but it is traced", lambda: jax.jit(kb)(X, X, 2)),
    ("the kernel h must return real", lambda: kb(X, X, lambda x: jax.lax.complex(x, x)[:, None])),
    ("degree must be an int >= 1; got 1.5", lambda: kernel([1.0, 2.0], 1.5)),
    ("^keypoints must be numbers", lambda: splines(["a", "b"])),
    ("^keypoints must be static", lambda: jax.jit(splines)(jnp.arange(3.0))),
    # Options of measures
    ("polynomial kernel", lambda: kb_fit(X, X, lambda x: x[:, None], 1).f.formula()),
    ("init must be a fit", on_x(kb, init=3)),
    ("bandwidth must be a real number", on_x(hsic, bandwidth="median")),
    (r"rank must be an int >= 1; got 2\.5", on_x(ica, rank=2.5)),
    ("span must be a number from 0 to 1; got 'wide'", on_x(ace, span="wide")),
    ("tolerance must be a real number; got None", on_x(hgr_jax.ace_fit, tolerance=None)),
    ("steps must be an int", on_x(neural, key=KEY, steps=1.5)),
    ("measure must be a callable", on_x(permute, key=KEY, measure="kb")),
    ("measure must return one number; got KBFit", on_x(permute, key=KEY, measure=kb_fit)),
    (r"^f must be a callable", on_x(hgr_jax.oracle, f=2, g=jnp.square)),
    # Inference
    ("degree", on_x(permute, key=KEY, h=2, degree=3)),
    # Scans
    ("h of a scan must be a degree; got a kernel: take a function", scanned(h=BENDS)),
    ("execution must be an Execution; got", scanned(execution={"memory": 2**30})),
    ("weights must be numbers; got list", scanned(weights=["a"] * ROWS)),
    ("categories must be a sequence of names", lambda: hgr_jax.Categories("a")),
]

VALUE_ERRORS: list[tuple[str, Callable[[], Any]]] = [
    # Data
    (r"same number of rows;.*\(2,\) and \(3,\)", lambda: kb([1.0, 2.0], [1.0, 2.0, 3.0])),
    ("a cannot be made into an array", lambda: kb([[1.0], [2.0, 3.0]], [1.0, 2.0])),
    (r"a must have shape \(n,\) or \(n, p\), n and p >= 1; got shape \(0,\)", lambda: kb([], [])),
    (r"x must have shape \(n,\)", lambda: hgr_jax.ace_fit(X, X).f(WIDE)),
    (r"x must have shape \(n,\) or \(n, p\).*got shape \(\)", lambda: kernel(3.0, 2)),
    (r"weights must have shape \(6,\).*got shape \(1,\)", on_x(kb, weights=[1.0])),
    ("given must have 60 rows, as a and b; got 5", given(kb, given=np.ones(5))),
    ("given must have shape", given(kb, given=np.ones((ROWS, 1, 1)))),
    # Kernels
    ("h must be at least 1; got 0", lambda: kb(X, X, 0)),
    ("given_degree .* at most 1000", given(kb, given=np.ones((ROWS, 40)))),
    (
        r"60 variables \(data of shape \(1, 60\)\) has 39710 mono",
        lambda: kb(np.ones((1, 60)), np.ones((1, 60)), 3, 3),
    ),
    *(
        (r"the kernel h must return features of shape \(n, m\)", on_x(kb, h=features))
        for features in (
            lambda x: x,
            lambda x: x[:-1, None],
            lambda x: x[:, None][:, :0],
        )
    ),
    (r"^keypoints must be at least 2 rising numbers; got \[0.0\]", lambda: splines([0.0])),
    ("^period must be one number above 0", lambda: fourier(1, period=-1)),
    ("of a single variable", lambda: kb(WIDE, X, fourier(1, 1.0))),
    # Options of measures
    ("solver must be one of 'projected_gradient', 'svd'", on_x(kb, solver="newton")),
    (
        r"init must be a fit to a b of 1 column\(s\).*got one to 2",
        lambda: kb(X, X, 1, 1, init=kb_fit(X, WIDE, 1, 1)),
    ),
    ("init is a fit of a and b alone", lambda: kb(A, B, given=C, init=kb_fit(A, B))),
    ("got one given other variables", lambda: kb(A, B, init=kb_fit(A, B, given=C))),
    ("bandwidth must be above 0 and finite; got -1", on_x(hsic, bandwidth=-1.0)),
    (r"bandwidth\[1\] must be above 0 and finite; got 0", on_x(hsic, bandwidth=(None, 0))),
    ("pair of these", on_x(hsic, bandwidth=(1.0, 2.0, 3.0))),
    ("regularization must be one number", on_x(cca, regularization=np.ones(2))),
    (r"span must be from 0 to 1; got 1\.5", on_x(ace, span=1.5)),
    (r"^g\(b\) must have shape", on_x(hgr_jax.oracle, f=jnp.square, g=jnp.sum)),
    # Fits
    (r"x must have 2 column.*got shape \(6,\)", lambda: kb_fit(WIDE, X, 1, 1).f(X)),
    ("same number of rows", lambda: kb_fit(X, X, 1, 1).score(X, X[:3])),
    ("given must have 60 rows, as x; got 5", lambda: kb_fit(A, B, given=C).g(B, given=C[:5])),
    (
        r"given must have 1 column\(s\)",
        lambda: kb_fit(A, B, given=C).g(B, given=np.stack([C, C], axis=1)),
    ),
    ("given must be None", lambda: hgr_jax.spectrum_fit(A, B).f(A, given=C)),
    ("given is missing", lambda: kb_fit(A, B, given=C).f(A)),
    ("f and g are no curves", lambda: plot_fit(kb_fit(A, B, given=C), A, B)),
    *((r"^level must be ", on_x(inference.upper_bound, level=level)) for level in (0, 1.5)),
    # Inference
    ("method must be", on_x(independence, method="exact")),
    ("permutations", on_x(independence, permutations=0)),
    ("largest must be a degree, or a pair of", on_x(degrees, key=KEY, largest=(2, 3, 4))),
    ("folds must have 2 rows each, of 6 rows; got 4", on_x(degrees, key=KEY, folds=4)),
    ("n must be finite", lambda: log_survival(0.1, np.nan, 1, 1)),
    ("the shapes must broadcast", lambda: quantile([0.1, 0.2], [10, 11, 12], 1, 1)),
    *(
        (r"probability must be in \[0, 1\]", lambda p=p: quantile([0.5, p], 100, 5, 5))
        for p in (-0.1, np.inf)
    ),
    (r"2 of 3 are not, the first of them 1\.5", lambda: inference.adjust([0.1, 1.5, -1])),
    (
        "method must be one of 'bh', 'by'",
        lambda: inference.adjust([0.1], method="fdr"),
    ),
    # Scans
    ("h must be at most 50; got 51", scanned(h=51)),
    *(
        ("measure must be a function of two vectors or one of .*; got", scanned(measure=measure))
        for measure in ("best", 3, "rdc")
    ),
    ("test must be one of 'auto'", scanned(test="exact")),
    ("test='asymptotic' is for measure='kb'", scanned(measure="pearson", test="asymptotic")),
    ("target 'mass' is not a column; there are x0, x1", scanned(target="mass")),
    ("target 9 is not a position of the 5 columns", scanned(target=9)),
    (r"weights must have shape \(60,\); got shape \(3,", scanned(weights=np.ones(3))),
    (
        "weights are for the measures 'hgr', 'kb'",
        scanned(measure="spearman", weights=np.ones(ROWS)),
    ),
    (
        "weights must be a column of numbers or dates; 'w' holds",
        lambda: hgr_jax.scan(
            {"x": np.arange(9.0), "y": np.arange(9.0) ** 2, "w": list("ababababa")}, weights="w"
        ),
    ),
    ("categories name no column", scanned(categories=["mass"])),
    ("memory must be at least 1048576", lambda: hgr_jax.Execution(memory=100)),
    ("missing must be", lambda: hgr_jax.Categories(missing="drop")),
    ("given 'age' is not a column; there are x0, ", scanned(given="age")),
    ("column 'x0' is given, and so in no pair: take it", scanned(given=0, target="x0")),
    ("given column 'x4' cannot be used: every value that is present is 2", scanned(given=4)),
    ("given is for the measures .*; got 'spearman'", scanned(given=0, measure="spearman")),
    ("test='asymptotic' is not for given", scanned(given=0, h=2, test="asymptotic")),
    ("top must be at least 1; got 0", scanned(top=0)),
    ("by must be one of 'pvalue'", lambda: hgr_jax.Top(3, by="size")),
    ("the first pairs by p-value take p-values", scanned(top=5, test=None)),
    ("top is for scans without given columns", scanned(top=5, given="x0")),
    ("top is for the measures 'hgr', 'kb'", scanned(top=5, measure="pearson")),
]

CASES = [(TypeError, *case) for case in TYPE_ERRORS] + [(ValueError, *c) for c in VALUE_ERRORS]


@pytest.mark.parametrize(
    ("error", "message", "call"), CASES, ids=[f"{i} {case[1]}" for i, case in enumerate(CASES)]
)
def test_the_message_names_the_argument(
    error: type[Exception], message: str, call: Callable[[], Any]
) -> None:
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
