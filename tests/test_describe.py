"""What a relation looks like, in words: of relations whose shape is known."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from hgr_jax import hgr_fit, scan

SHAPES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], str]] = {
    "line": (lambda x: x, "[xy] rises with [xy]$"),
    "exponential": (lambda x: -np.exp(x), "[xy] falls with [xy]"),
    "U": (lambda x: (x - 1) ** 2, r"y is lowest near x = (0|1)\.\d+, and rises on both sides"),
    "hill": (lambda x: -np.abs(x + 1), r"y is highest near x = -(0|1)\.\d+, and falls on both"),
    "N": (
        lambda x: x**3 / 3 - 3 * x,
        r"y rises to x = -[12]\.?\d*, falls to x = [12]\.?\d*, then rises",
    ),
    "W": (lambda x: (x**2 - 4) ** 2 / 4, r"y falls to x = -\d.*, rises to .*, falls to .*, then r"),
    "wave": (
        lambda x: 3 * np.sin(5 * x),
        r"y goes up and down along x: ([6-9]|10) turns, the first",
    ),
    "step": (lambda x: 4.0 * (x > 0.5), r"[xy] steps up between [xy] = "),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("rows", [600, 3000])
def test_shapes(name: str, rows: int) -> None:
    function, expected = SHAPES[name]
    right = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-3, 3, rows)
        y = function(x) + rng.normal(size=rows) * 0.5
        # Few rows far out decide nothing, and either column may be the first.
        x[:3], y[:3] = 1e6, -1e6
        right += bool(re.match(expected, hgr_fit(x, y).describe(("x", "y"))))
        right += bool(re.match(expected, hgr_fit(y, x).describe(("y", "x"))))
    assert right >= 9


def test_both_sides_at_once() -> None:
    rng = np.random.default_rng(1)
    angle, noise = rng.uniform(0, 7, 1500), 0.1 * rng.normal(size=(2, 1500))
    ring = hgr_fit(np.cos(angle) + noise[0], np.sin(angle) + noise[1]).describe()
    assert re.match(r"b is far from -?0\.\d+ where a is near -?0\.\d+ \(a ring\)", ring)
    x, sign = rng.normal(size=1500), rng.choice([-1, 1], 1500)
    cross = hgr_fit(x, x * sign + noise[0]).describe()
    assert re.match(r"b is far from -?0\.\d+ where a is far from -?0\.\d+$", cross)


def test_nothing_is_said_of_what_may_be_chance() -> None:
    rng = np.random.default_rng(2)
    said = [hgr_fit(*rng.normal(size=(2, 300))).describe() for _ in range(60)]
    assert sum(each != "no dependence found" for each in said) <= 8
    assert hgr_fit(np.ones(50), np.arange(50.0)).describe() == "no dependence found"


def test_sentences_of_findings() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(170, 9, 500)
    kind = np.array(["ash", "elm", "oak"])[(x > 165) * 1 + (x > 175)]
    table = pd.DataFrame(
        {
            "height": x,
            "load": (x - 170) ** 2 / 20 + rng.normal(size=500),
            "kind": kind,
            "soil": np.where(
                rng.random(500) < 0.9, np.where(kind == "oak", "clay", "sand"), "loam"
            ),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.permutation(500), unit="D"),
        }
    )
    days = (table.day - table.day.min()).dt.days.to_numpy()
    table["warmth"] = np.minimum(days, 300 - days / 2) + rng.normal(size=500)
    found = scan(table).findings(10)
    said = {frozenset((f.a, f.b)): f.sentence for f in (*found, *found.explained)}
    of = lambda a, b: said[frozenset((a, b))]  # noqa: E731
    assert re.match(r"load is lowest near height = 1(69|70|71), and rises", of("height", "load"))
    assert re.match(
        r"warmth is highest near day = 2024-0[678]-\d\d, and falls", of("day", "warmth")
    )
    assert re.match(
        r"height is lowest where kind is ash \(median 1\d\d\), highest where it is oak",
        of("height", "kind"),
    )
    assert re.match(
        r"soil is clay in [89]\d% of the rows where kind is oak \(\d\d% of all\)",
        of("kind", "soil"),
    )
    assert f"     {of('height', 'load')}" in repr(found).splitlines()
    assert found.to_dict()["strongest"][0]["sentence"] == found.strongest[0].sentence


def test_a_sentence_given_another_column() -> None:
    """Bills: deeper where longer within a species, and less deep in the species of longer ones."""
    rng = np.random.default_rng(6)
    species = rng.integers(3, size=600)
    length = 38 + 6.0 * species + rng.normal(size=600)
    depth = 20 - 3 * species + (length - 38 - 6 * species) / 2 + rng.normal(size=600) / 2
    table = {"species": np.array(["a", "b", "c"])[species], "length": length, "depth": depth}
    (alone,) = (f for f in scan(table).findings() if {f.a, f.b} == {"length", "depth"})
    assert "depth rises with length" not in alone.sentence
    (finding,) = scan(table, given="species").findings().strongest
    assert re.match(
        "given species, (depth rises with length|length rises with depth)$", finding.sentence
    )


@pytest.mark.parametrize("rows", [400, 2000])
def test_a_spread_that_changes(rows: int) -> None:
    right = 0
    for seed in range(6):
        x, noise = np.random.default_rng(seed).uniform(-1, 1, (2, rows))
        wider = hgr_fit(x, (x + 1.2) * noise).describe(("x", "y"))
        widest = hgr_fit((1.2 - np.abs(x)) * noise, x).describe(("y", "x"))
        right += wider == "the spread of y rises with x, its mean does not"
        right += bool(
            re.match("the spread of [xy] is highest near [xy] = -?0.[012]", widest)
        )  # both do
    assert right >= 10
