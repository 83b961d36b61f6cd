"""What a relation looks like, in words: of relations whose shape is known."""

from __future__ import annotations

import re
from collections.abc import Callable

import jax
import numpy as np
import pandas as pd
import pytest

from hgr_jax import hgr_fit, kb_fit, scan

TURNS = np.array([-(3**0.5), 3**0.5])
"""Where the cubic turns."""

SHAPES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], str]] = {
    "line": (lambda x: x, "[xy] rises with [xy]$"),
    "exponential": (lambda x: -np.exp(x), "[xy] falls with [xy]"),
    "U": (
        lambda x: (x - 1) ** 2,
        r"y is lowest near x = (0|1)\.?\d*( \(.*\))?, and rises on",
    ),
    "hill": (
        lambda x: -np.abs(x + 1),
        r"y is highest near x = -(0|1)\.?\d*( \(.*\))?, and",
    ),
    "N": (
        lambda x: x**3 / 3 - 3 * x,
        r"y rises until x = -[12]\.?\d*( \(.*?\))?, falls until x = [12].*, then rises",
    ),
    "W": (
        lambda x: (x**2 - 4) ** 2 / 4,
        r"y falls until x = -\d.*, rises until .*, falls until .*, then r",
    ),
    "wave": (
        lambda x: 3 * np.sin(5 * x),
        r"y goes up and down several times along x$",
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


def test_turns_are_where_they_are_said_to_be() -> None:
    inside, widths = 0, []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rows = 300 if seed % 2 else 5000
        x = rng.uniform(-3, 3, rows)
        said = hgr_fit(x, x**3 / 3 - 3 * x + rng.normal(size=rows)).describe(("x", "y"))
        ranges = np.array(re.findall(r"\(between (\S+) and (\S+)\)", said), float)
        assert ranges.shape == (2, 2)
        inside += np.sum((ranges[:, 0] <= TURNS) & (ranges[:, 1] >= TURNS))
        widths.append(np.ptp(ranges, axis=1).mean())
        turns = np.array(re.findall(r"x = (-?[\d.]+)", said), float)
        assert np.all((ranges[:, 0] <= turns) & (turns <= ranges[:, 1]))
    assert inside >= 72
    assert np.mean(widths) < 0.8  # of 6


def test_the_range_of_a_turn_holds_its_plateau() -> None:
    rng = np.random.default_rng(6)
    age = rng.uniform(16, 80, 4000)
    hours = 40 - 2 * np.maximum(22 - age, 0) - np.maximum(age - 66, 0) + rng.normal(size=4000)
    said = hgr_fit(age, hours).describe(("age", "hours"))
    low, high = map(
        float, re.findall(r"highest near age = .* \(between (\S+) and (\S+)\)", said)[0]
    )
    assert low < 30
    assert high > 58


def test_in_full() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(1990, 2020, 2000)
    shown = str(hgr_fit(x, 0.1 * (x - 2005) ** 2 + rng.normal(size=2000)))
    first, sentence, *lines = shown.split("\n")
    assert re.match(r"HGR 0\.9\d\d, 95% interval 0\.9\d\d to .*, p-value <1e-12", first)
    assert sentence.startswith("b is lowest near a = 2005")
    assert lines[0].split()[-5:] == ["1%", "25%", "50%", "75%", "99%"]
    middle = [float(value) for value in lines[2].split()[1:]]
    assert middle[0] < middle[1] < middle[2] > middle[3] > middle[4]
    near = re.match(r"f\(a\) is nearly (.*), u = \(a - 2005\) / 20: (\S+) instead of", lines[3])
    assert near is not None
    terms = re.sub(r" ?u(\^(\d))?", "", near[1]).replace("+ ", "").replace("- ", "-").split()
    curve = float(terms[0]) + float(terms[-1]) * ((x - 2005) / 20) ** 2
    assert abs(curve.mean()) < 0.05
    assert abs(curve.std() - 1) < 0.1
    assert str(hgr_fit(*rng.normal(size=(2, 300)))).endswith("\nno dependence found")
    groups = rng.choice(["low", "high", "middle"], 900)
    y = rng.normal(size=900) + 2 * (groups == "high") - 2 * (groups == "low")
    lines = str(scan({"group": groups, "y": y}).fit("group", "y")).split("\n")
    assert re.match(r"f\(a\): (low -1.*, middle .*, high|high .*, middle .*, low)", lines[2])


def test_polynomial_fits_are_described() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, 500)
    y = (x - 1) ** 2 + rng.normal(size=500)
    said = kb_fit(x, y, 2, 1).describe(x, y, names=("speed", "drag"))
    assert re.match(r"drag is lowest near speed = (0\.[89]|1)", said)
    assert kb_fit(x, y[::-1], 5, 5).describe(x, y[::-1]) == "no dependence found"
    with pytest.raises(ValueError, match="belongs to a batch"):
        jax.vmap(lambda b: kb_fit(x, b, 2, 2))(np.stack([x, y])).describe(x, y)


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
    assert re.match(
        r"load is lowest near height = 1(69|70|71)(\.\d)?( \(.*\))?, and rises",
        of("height", "load"),
    )
    assert re.match(
        r"warmth is highest near day = 2024-0[678]-\d\d( \(.*\))?, and falls", of("day", "warmth")
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


def test_no_direction_is_said_of_answers_that_turn_unsurely() -> None:
    """Answers of 1 to 6 that rise among the few low ones, and fall among the many high ones."""
    rng = np.random.default_rng(53)
    x = rng.choice(np.arange(1.0, 7), 1500, p=[0.02, 0.05, 0.06, 0.2, 0.37, 0.3])
    means = np.array([2.35, 2.35, 2.8, 2.8, 2.75, 2.66])[x.astype(int) - 1]
    y = np.clip(np.round(means + 1.6 * rng.normal(size=1500)), 1, 6)
    sentence = hgr_fit(x, y).describe(("x", "y"))
    assert sentence == "y depends on x, but does not just rise, fall or turn with it"


def test_sentences_given_another_column_of_every_kind() -> None:
    rng = np.random.default_rng(0)
    age, angle, noise = rng.normal(size=(3, 800))
    owner = rng.random(800) < 1 / (1 + np.exp(-age))
    table = {
        "age": age,
        "owner": np.where(owner, "yes", "no"),
        "income": age + owner + noise / 2,
        "wed": np.where(rng.random(800) < 0.25 + 0.5 * owner, "married", "single"),
        "east": np.cos(9 * angle) + age / 10,
        "north": np.sin(9 * angle),
    }
    found = scan(table, given="age").findings()
    said = {frozenset((f.a, f.b)): f.sentence for f in (*found, *found.explained)}
    of_income = said[frozenset(("owner", "income"))]
    assert of_income.startswith("given age, what is left of income is lowest where owner is no (")
    assert "highest where it is yes" in of_income
    assert re.match(
        "given age, (wed is (married more often where owner is yes|single.*no)|owner is.*)$",
        said[frozenset(("owner", "wed"))],
    )
    assert "but does not just rise, fall or turn" in said[frozenset(("east", "north"))]


@pytest.mark.parametrize("rows", [400, 2000])
def test_a_spread_that_changes(rows: int) -> None:
    right = 0
    for seed in range(6):
        x, noise = np.random.default_rng(seed).uniform(-1, 1, (2, rows))
        wider = hgr_fit(x, (x + 1.2) * noise).describe(("x", "y"))
        widest = hgr_fit((1.2 - np.abs(x)) * noise, x).describe(("y", "x"))
        right += wider == "the spread of y rises with x, its median does not"
        right += bool(
            re.match("the spread of [xy] is highest near [xy] = -?0.[012]", widest)
        )  # both do
    assert right >= 10


def test_a_spread_and_a_mean_that_change() -> None:
    """Who has no work earns nothing; the logarithm of what others earn is also below 0."""
    rng = np.random.default_rng(3)
    idle = np.repeat([1.0, 0.0], [250, 150])
    pay = np.where(idle, 0, rng.normal(0.8, 1.2, 400))
    said = hgr_fit(pay, idle).describe(("pay", "idle"))
    assert said == "the spread of pay falls with idle, its median changes less"


def test_a_step_that_few_rows_make() -> None:
    """Functions of ranks swing beside it, and few rows at an end are in no picture."""
    rng = np.random.default_rng(5)
    weight = rng.normal(3300, 500, 2000).round()
    for light in (2000, 2300):
        said = hgr_fit(weight, (weight < light) * 1.0).describe(("weight", "light"))
        assert said.startswith("light steps down between weight = ")
    grams = 26.5 + np.linspace(-1, 1, 61) / 1000
    heavy = hgr_fit(grams, (grams > 26.5) * 1.0).describe(("grams", "heavy"))
    assert heavy == "heavy steps up near grams = 26.5"


def test_levels_of_a_number_with_one_usual_value() -> None:
    """Medians are the same where half of the rows have one value; then means are said."""
    rng = np.random.default_rng(0)
    work = rng.choice(["farm", "office", "shop"], 3000)
    hours = np.where(rng.random(3000) < 0.6, 40.0, rng.normal(40, 3, 3000).round())
    hours += np.where((work == "farm") & (rng.random(3000) < 0.4), 10, 0)
    hours -= np.where((work == "shop") & (rng.random(3000) < 0.4), 10, 0)
    said = scan({"work": work, "hours": hours}).findings().strongest[0].sentence
    assert "aside" not in said
    assert re.match(r"hours is lowest where work is shop \(mean 3[56]", said)
    assert re.search(r"highest where it is farm \(4[345]", said)
    wide = rng.normal(size=3000) * np.where(work == "farm", 3, 1)
    said = str(scan({"work": work, "wide": wide}).fit("work", "wide"))
    assert "the spread of b differs between levels of a, its place hardly" in said


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e4])
def test_turns_have_no_more_digits_than_their_ranges_tell(unit: float) -> None:
    a, noise = np.random.default_rng(4).normal(size=(2, 400))
    said = hgr_fit(unit * a, a**2 + noise).describe()
    numbers = re.findall(r"a = (\S+) \(between (\S+) and (\S+)\)", said)[0]
    at, low, high = (float(number.replace(",", "")) for number in numbers)
    digit = 10.0 ** np.floor(np.log10((high - low) / 4) + 0.05)  # both ends are rounded
    assert low <= at <= high
    np.testing.assert_allclose(np.remainder([at + digit / 2, low + digit / 2], digit), digit / 2)


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
def test_a_rare_level_far_from_the_others_has_another_place(share: float) -> None:
    rng = np.random.default_rng(8)
    site = np.where(rng.random(1000) < share, "rare", "usual")
    price = np.where(site == "rare", 120.0, 80) + 10 * rng.normal(size=1000)
    said = scan({"site": site, "price": price}).fit("site", "price").describe(("site", "price"))
    assert re.match(r"price is lowest where site is usual .*, highest where it is rare", said)


def test_pooled_levels_are_aside() -> None:
    rng = np.random.default_rng(7)
    work = rng.choice(
        ["farm", "shop", *(f"rare{i}" for i in range(30))], 2000, p=[0.4, 0.45] + [0.005] * 30
    )
    hours = (
        40 + 5 * (work == "farm") - 20 * np.char.startswith(work, "rare") + rng.normal(size=2000)
    )
    said = scan({"work": work, "hours": hours}).findings().strongest[0].sentence
    assert re.match(r"hours is lowest where work is shop .* farm \(45\), rare levels aside", said)
