"""Tables as first users bring them: of mixed types, with missing values, for `bench.first_use`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.random import Generator


def insurance() -> pd.DataFrame:
    """2,000 made-up cars and drivers, from PhiK's own package: 5 columns of mixed types."""
    from phik import resources

    return pd.read_csv(resources.fixture("fake_insurance_data.csv.gz"))


def _missing(rng: Generator, frame: pd.DataFrame, shares: dict[str, float]) -> pd.DataFrame:
    for name, share in shares.items():
        frame[name] = frame[name].astype(object).where(rng.random(len(frame)) >= share)
    return frame


def titanic() -> pd.DataFrame:
    """891 passengers like those of seaborn's ``titanic``: categories, copies, missing values."""
    rng, n = np.random.default_rng(1), 891
    pclass = rng.choice([1, 2, 3], n, p=[0.24, 0.21, 0.55])
    male = rng.random(n) < 0.65
    age = rng.gamma(6, 5, n).round()
    survived = (rng.random(n) < np.where(male, 0.19, 0.74)).astype(int)
    town = rng.choice(["Southampton", "Cherbourg", "Queenstown"], n, p=[0.72, 0.19, 0.09])
    child = age < 16
    frame = pd.DataFrame(
        {
            "survived": survived,
            "pclass": pclass,
            "sex": np.where(male, "male", "female"),
            "age": age,
            "sibsp": rng.poisson(0.5, n),
            "parch": rng.poisson(0.4, n),
            "fare": (rng.lognormal(4.5 - 0.8 * pclass, 0.6)).round(4),
            "embarked": [name[0] for name in town],
            "class": np.array(["First", "Second", "Third"])[pclass - 1],
            "who": np.where(child, "child", np.where(male, "man", "woman")),
            "adult_male": male & ~child,
            "deck": rng.choice(list("ABCDEFG"), n),
            "embark_town": town,
            "alive": np.where(survived == 1, "yes", "no"),
            "alone": rng.random(n) < 0.6,
        }
    )
    return _missing(rng, frame, {"age": 0.2, "deck": 0.77, "embarked": 0.002})


def compas() -> pd.DataFrame:
    """7,214 defendants like ProPublica's ``compas-scores-two-years``: 53 columns, many alike."""
    rng, n = np.random.default_rng(2), 7214
    columns: dict[str, object] = {}
    decile = rng.integers(1, 11, n)
    for i in range(18):
        columns[f"count {i}"] = rng.poisson(0.3 + decile / 5 * (i % 3), n)
    for i in range(10):
        day = pd.Timestamp("2013-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
        columns[f"date {i}"] = day.strftime("%Y-%m-%d").to_numpy()
    for i in range(6):
        columns[f"decile {i}"] = np.clip(decile + rng.integers(-i, i + 1, n), 1, 10)
        text = np.array(["Low", "Medium", "High"])[np.digitize(decile, [5, 8])]
        columns[f"score text {i}"] = np.where(rng.random(n) < 0.05 * i, "Low", text)
    for i in range(5):
        columns[f"charge {i}"] = [f"charge {c}" for c in np.minimum(rng.geometric(0.05, n), 300)]
    columns["race"] = rng.choice(["A", "B", "C", "D"], n, p=[0.51, 0.34, 0.09, 0.06])
    columns["sex"] = rng.choice(["Male", "Female"], n, p=[0.8, 0.2])
    columns["age"] = age = rng.gamma(8, 4.3, n).round()
    columns["age group"] = np.array(["young", "middle", "old"])[np.digitize(age, [25, 45])]
    columns["id"] = np.arange(n)
    columns["name"] = [f"person {i}" for i in range(n)]
    columns["type"] = "F"
    columns["recid"] = (rng.random(n) < decile / 15).astype(int)
    frame = pd.DataFrame(columns)
    return _missing(
        rng, frame, {name: 0.3 for name in frame if name.startswith(("date", "charge"))}
    )


def numbers() -> pd.DataFrame:
    """1,500 rows of 27 columns of numbers that depend on five others, and of 3 of few values."""
    rng, n = np.random.default_rng(3), 1500
    x = np.tanh(rng.normal(size=(n, 5)) @ rng.normal(size=(5, 27))) ** 2
    x += rng.normal(0, 0.5, x.shape)
    frame = pd.DataFrame(x.round(4), columns=[f"x{i}" for i in range(27)])
    frame["city"] = rng.choice(list("abcdef"), n)
    frame["level"] = np.where(x[:, 0] > 0.5, "high", "low")
    frame["count"] = rng.poisson(3, n)
    return frame


TABLES: dict[str, Callable[[], pd.DataFrame]] = {
    "insurance": insurance,
    "titanic": titanic,
    "compas": compas,
    "numbers": numbers,
}


def write(name: str, folder: Path) -> Path:
    """Write a table as CSV."""
    path = folder / f"{name}.csv"
    TABLES[name]().to_csv(path, index=False)
    return path
