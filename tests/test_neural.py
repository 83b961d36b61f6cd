"""HGR-NN: training, warm start, gradients, and in distribution against maxcorr."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import hgr_jax
from hgr_jax.measures import neural_network
from hgr_jax.measures.neural_network import NeuralFit

KEY = jax.random.key(0)


@pytest.fixture
def pair(rng: np.random.Generator) -> tuple[jax.Array, jax.Array]:
    a = rng.uniform(-1, 1, 200)
    b = a**2 + 0.3 * rng.standard_normal(200)
    return jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32)


@pytest.fixture
def fit(pair: tuple[jax.Array, jax.Array]) -> NeuralFit:
    return hgr_jax.neural_fit(*pair, key=KEY, steps=100)


def test_training_raises_the_correlation(pair: tuple[jax.Array, jax.Array]) -> None:
    values = [float(hgr_jax.neural(*pair, key=KEY, steps=steps)) for steps in (0, 100, 1000)]
    assert values[0] < values[1] < values[2]
    assert values[2] > 0.75  # |Pearson| is near 0, and KB at degree (2, 1) 0.70
    assert values[2] == float(hgr_jax.neural(*pair, key=KEY))


def test_warm_start_goes_on_where_the_fit_ended(
    pair: tuple[jax.Array, jax.Array], fit: NeuralFit
) -> None:
    resumed = hgr_jax.neural_fit(*pair, key=KEY, init=fit)
    straight = hgr_jax.neural_fit(*pair, key=KEY, steps=150)
    np.testing.assert_allclose(resumed.correlation, straight.correlation, atol=1e-5)
    assert resumed.correlation > fit.correlation
    unchanged = hgr_jax.neural_fit(*pair, key=jax.random.key(7), init=fit, steps=0)
    np.testing.assert_allclose(unchanged.correlation, fit.correlation, atol=1e-6)
    with pytest.raises(ValueError, match="init must be a fit of the same networks"):
        hgr_jax.neural(jnp.stack(pair, axis=1), pair[1], key=KEY, init=fit)


def test_networks_are_transformations(pair: tuple[jax.Array, jax.Array], fit: NeuralFit) -> None:
    a, b = pair
    for transform, x in ((fit.f, a), (fit.g, b)):
        values = np.asarray(transform(x))
        np.testing.assert_allclose([values.mean(), values.std()], [0, 1], atol=1e-4)
    np.testing.assert_allclose(fit.score(a, b), fit.correlation, atol=1e-6)
    leaves, treedef = jax.tree.flatten(fit)
    again = jax.tree.unflatten(treedef, leaves)
    np.testing.assert_array_equal(again.f(a), fit.f(a))
    fits = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), fit)
    with pytest.raises(ValueError, match=r"batch of fits, of shape \(2,\)"):
        fits.f(a)
    with pytest.raises(ValueError, match="init must be one fit, not a batch"):
        hgr_jax.neural(a, b, key=KEY, init=fits)


@pytest.mark.usefixtures("x64")
def test_gradient_is_that_with_the_networks_held_fixed(rng: np.random.Generator) -> None:
    a, b = (jnp.asarray(x) for x in rng.standard_normal((2, 30)))
    fit = hgr_jax.neural_fit(a, b, key=KEY, steps=5)
    gradient = jax.grad(lambda a, b: hgr_jax.neural(a, b, key=KEY, steps=5), argnums=(0, 1))(a, b)
    step = 1e-6
    for i in (0, 7):
        for side, x in ((0, a), (1, b)):
            moved = [x.at[i].add(sign * step) for sign in (1, -1)]
            scores = [fit.score(m, b) if side == 0 else fit.score(a, m) for m in moved]
            difference = (scores[0] - scores[1]) / (2 * step)
            np.testing.assert_allclose(gradient[side][i], difference, rtol=1e-5, atol=1e-9)
    tangents = (jnp.ones_like(a), jnp.linspace(0, 1, 30))
    _, forward = jax.jvp(functools.partial(hgr_jax.neural, key=KEY, steps=5), (a, b), tangents)
    expected = sum(jnp.vdot(g, t) for g, t in zip(gradient, tangents, strict=True))
    np.testing.assert_allclose(forward, expected, rtol=1e-9)


@pytest.fixture
def networks_of_maxcorr(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    relu = jax.nn.relu
    monkeypatch.setattr(neural_network, "HIDDEN", (16, 16, 8))
    monkeypatch.setattr(neural_network, "ACTIVATIONS", (relu, relu, relu, lambda x: x))
    jax.clear_caches()
    yield
    jax.clear_caches()


@pytest.mark.usefixtures("networks_of_maxcorr")
def test_in_distribution_against_maxcorr(pair: tuple[jax.Array, jax.Array]) -> None:
    """The same networks, optimiser and number of steps, from other random weights."""
    torch = pytest.importorskip("torch", reason="maxcorr's neural indicator needs torch")
    import maxcorr

    torch.set_num_threads(1)  # several would wait for each other
    steps, seeds = 50, 8
    a, b = (torch.tensor(np.array(x)) for x in pair)
    standard = [(x - x.mean()) / x.std(correction=0) for x in (a, b)]
    theirs = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        # It counts its first call as a later one, so both numbers are set.
        epochs = {"epochs_start": steps, "epochs_successive": steps}
        peer = maxcorr.indicator("hgr", "nn", backend="torch", **epochs)
        theirs.append(float(peer.compute(*standard).detach()))
    ours = jax.vmap(lambda key: hgr_jax.neural(*pair, key=key, steps=steps))(
        jax.random.split(KEY, 4 * seeds)
    )
    # One of their networks may be born dead, so spreads are not compared.
    assert scipy.stats.ks_2samp(np.asarray(ours), theirs).pvalue > 1e-3
    assert abs(np.median(ours) - np.median(theirs)) < 0.02


def test_widths_of_the_hidden_layers() -> None:
    a = jnp.linspace(-1, 1, 60)
    fit = hgr_jax.neural_fit(a, a**2, key=jax.random.key(0), steps=3, hidden=(4, 3, 2))
    assert [weights.shape for weights, _ in fit.f.layers] == [(1, 4), (4, 3), (3, 2), (2, 1)]
    with pytest.raises(ValueError, match="hidden must be the widths of 3 layers; got"):
        hgr_jax.neural(a, a, key=jax.random.key(0), hidden=(4,))
    with pytest.raises(ValueError, match="init must be a fit of the same networks"):
        hgr_jax.neural(a, a, key=jax.random.key(0), init=fit)
