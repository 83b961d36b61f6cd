"""Columns of any table as numbers and categories, and the words for those that are neither."""

from __future__ import annotations

import datetime
import decimal
import fractions
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import hgr_jax
from hgr_jax._texts import OTHER_LEVELS
from hgr_jax.tables.columns import Columns, as_columns
from hgr_jax.tables.files import read_table
from hgr_jax.tables.meanings import MISSING_LEVEL

ROWS = 20
COUNT = list(range(ROWS))
START = datetime.datetime(2020, 2, 28)
MOMENTS = [START + datetime.timedelta(hours=6 * i) for i in COUNT]


def numbers(columns: Columns) -> dict[str, list[float]]:
    assert columns.numbers.shape == (columns.rows, len(columns.number_positions))
    return {
        columns.names[position]: np.asarray(columns.numbers[:, i]).tolist()
        for i, position in enumerate(columns.number_positions)
    }


def categories(columns: Columns) -> dict[str, list[str | None]]:
    return {
        columns.names[position]: [
            category.levels[code] if code >= 0 else None for code in category.codes
        ]
        for position, category in zip(columns.category_positions, columns.categories, strict=True)
    }


def without_third(values: list[Any]) -> list[Any]:
    return [None if i == 3 else value for i, value in enumerate(values)]


def with_nan(values: list[Any]) -> list[Any]:
    return [np.nan if value is None else value for value in values]


AS_NUMBERS: dict[str, tuple[list[Any], list[float]]] = {
    "integers": (COUNT, COUNT),
    "integers, one missing": (without_third(COUNT), without_third(COUNT)),
    "booleans": ([i % 2 == 0 for i in COUNT], [1 - i % 2 for i in COUNT]),
    "booleans, one missing": (
        without_third([i % 2 == 0 for i in COUNT]),
        without_third([1 - i % 2 for i in COUNT]),
    ),
    "dates": ([moment.date() for moment in MOMENTS], [i // 4 for i in COUNT]),
    "dates, one missing": (
        without_third([moment.date() for moment in MOMENTS]),
        without_third([i // 4 for i in COUNT]),
    ),
    "moments": (MOMENTS, [i / 4 for i in COUNT]),
    "moments, one missing": (without_third(MOMENTS), without_third([i / 4 for i in COUNT])),
    "moments with a zone": (
        [moment.replace(tzinfo=datetime.UTC) for moment in MOMENTS],
        [i / 4 for i in COUNT],
    ),
    "durations": ([moment - START for moment in MOMENTS], [i / 4 for i in COUNT]),
    "decimals": ([decimal.Decimal(i) / 4 for i in COUNT], [i / 4 for i in COUNT]),
}

LIBRARIES = {
    "pandas": lambda values: pd.DataFrame({"column": values}),
    "pandas, nullable": lambda values: pd.DataFrame({"column": values}).convert_dtypes(),
    "pandas, objects": lambda values: pd.DataFrame({"column": pd.Series(values, dtype=object)}),
    "pandas on pyarrow": lambda values: pa.table({"column": values}).to_pandas(
        types_mapper=pd.ArrowDtype
    ),
    "polars": lambda values: pl.DataFrame({"column": values}),
    "pyarrow": lambda values: pa.table({"column": values}),
    "mapping": lambda values: {"column": values},
    "objects": lambda values: {"column": np.array([*values, None], dtype=object)[:-1]},
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", AS_NUMBERS)
def test_types_that_are_numbers(kind: str, library: str) -> None:
    values, expected = AS_NUMBERS[kind]
    columns = as_columns(LIBRARIES[library](values))
    assert not columns.skipped
    said = {"column": "a duration in days"} if kind == "durations" else {}
    assert columns.notes == said
    assert columns.numbers.dtype == np.float64
    np.testing.assert_allclose(numbers(columns)["column"], with_nan(expected), rtol=1e-12)
    first = START.replace(tzinfo=datetime.UTC).timestamp()
    assert columns.dates == ({"column": first} if kind.startswith(("dates", "moments")) else {})


TEXT = ["ab"[i % 2] for i in COUNT]


@pytest.mark.parametrize(
    "table",
    [
        *(make(TEXT) for make in LIBRARIES.values()),
        pd.DataFrame({"column": pd.Categorical(TEXT)}),
        pd.DataFrame({"column": pd.Categorical(TEXT, categories=["z", "b", "a"], ordered=True)}),
        pl.DataFrame({"column": pl.Series(TEXT, dtype=pl.Categorical)}),
        pl.DataFrame({"column": pl.Series(TEXT, dtype=pl.Enum(["b", "a", "z"]))}),
        pa.table({"column": pa.array(TEXT).dictionary_encode()}),
        pa.table({"column": pa.array(TEXT, pa.large_string())}),
        {"column": np.array(TEXT)},
    ],
)
def test_text_is_a_category(table: Any) -> None:
    columns = as_columns(table)
    assert categories(columns) == {"column": TEXT}
    assert columns.categories[0].levels == ("a", "b")
    assert columns.numbers.shape == (ROWS, 0)
    assert columns.rows == ROWS


@pytest.mark.parametrize("missing", [None, "", np.nan, pd.NA, pd.NaT, decimal.Decimal("NaN")])
def test_missing_text(missing: Any) -> None:
    text = [missing if i in (3, 8) else value for i, value in enumerate(TEXT)]
    expected = [None if i in (3, 8) else value for i, value in enumerate(TEXT)]
    for table in (pd.DataFrame({"column": pd.Series(text, dtype=object)}), {"column": text}):
        assert categories(as_columns(table)) == {"column": expected}


def test_objects_of_several_kinds() -> None:
    mixed = [1 if i % 3 == 0 else "x" if i % 3 == 1 else None for i in COUNT]
    of_numbers = [(True, 2, 2.5, np.float32(1), None)[i % 5] for i in COUNT]
    exact = [fractions.Fraction(i, 4) for i in COUNT]
    large = [10**400 if i == 3 else i for i in COUNT]
    columns = as_columns({"mixed": mixed, "numbers": of_numbers, "exact": exact, "large": large})
    assert categories(columns)["mixed"] == [None if v is None else str(v) for v in mixed]
    found = numbers(columns)
    np.testing.assert_array_equal(found["numbers"], [1, 2, 2.5, 1, np.nan] * 4)
    assert found["exact"] == [i / 4 for i in COUNT]
    np.testing.assert_array_equal(found["large"], with_nan(without_third(COUNT)))
    assert columns.notes == {"large": "1 infinite value counted as missing"}


class Unreadable:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([[i, i] for i in COUNT], "neither numbers nor text"),
        (np.arange(ROWS) * 1j, "values of type complex128, neither numbers nor text"),
        ([Unreadable() for _ in COUNT], "cannot be read as numbers or text (RuntimeError)"),
        ([None] * ROWS, "no value is present"),
        ([np.nan] * ROWS, "no value is present"),
        ([np.inf] * ROWS, "no value is present"),
        ([7.0] * ROWS, "every value that is present is 7"),
        ([7.0, None] * 10, "every value that is present is 7"),
        ([2.5, np.inf] * 10, "every value that is present is 2.5"),
        (["yes"] * ROWS, "every value that is present is 'yes'"),
        (["yes"] * 18 + [None] * 2, "every value that is present is 'yes'"),
        ([True] * ROWS, "every value that is present is 1"),
        ([f"name {i}" for i in COUNT], "names or identifiers: 20 different texts in 20 rows"),
    ],
)
def test_columns_that_are_left_out(values: Any, reason: str) -> None:
    columns = as_columns({"good": COUNT, "bad": values})
    assert list(columns.skipped) == ["bad"]
    assert columns.skipped["bad"].endswith(reason)
    assert columns.number_positions.tolist() == [0]
    assert "bad" not in columns.notes


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"a": COUNT, "b": [[i] for i in COUNT]}),
        pl.DataFrame({"a": COUNT, "b": [{"inside": i} for i in COUNT]}),
        pa.table({"a": COUNT, "b": [b"x"] * ROWS}),
        pd.DataFrame({"a": COUNT, "b": [[1, 2]] * ROWS}),
        pd.DataFrame({"a": COUNT, "b": [{"inside": 1}] * ROWS}),
        pd.DataFrame({"a": COUNT, "b": np.arange(ROWS) * 1j}),
        pd.DataFrame({"a": COUNT, "b": [np.arange(3) for _ in COUNT]}),
    ],
)
def test_types_that_are_left_out(frame: Any) -> None:
    columns = as_columns(frame)
    assert list(columns.skipped) == ["b"]
    assert numbers(columns) == {"a": COUNT}
    assert "Unknown" not in columns.skipped["b"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pd.period_range("2020-01-01", periods=ROWS), COUNT),
        (pd.arrays.SparseArray([0.0, *COUNT[1:]]), COUNT),
        (pd.arrays.IntervalArray.from_breaks(np.arange(ROWS + 1)), [i + 0.5 for i in COUNT]),
        (np.arange(ROWS).astype(">f8"), COUNT),
        (np.arange(ROWS).astype("longdouble"), COUNT),
    ],
    ids=["periods", "sparse", "intervals", "big-endian", "long double"],
)
def test_types_of_pandas_that_are_numbers(values: Any, expected: list[float]) -> None:
    assert numbers(as_columns(pd.DataFrame({"a": COUNT, "b": values}))) == {
        "a": COUNT,
        "b": expected,
    }


def test_names_of_any_type() -> None:
    x = np.random.default_rng(0).normal(size=(ROWS, 5))
    names = [None, ("loft", "kg"), 2019, pd.Timestamp("2020-01-01"), ("loft", "kg")]
    columns = as_columns(
        pd.DataFrame(x, columns=pd.Index(names, dtype=object, tupleize_cols=False))
    )
    assert columns.names == (
        *("column 1", "('loft', 'kg')", "2019", "2020-01-01 00:00:00", "('loft', 'kg') (2)"),
    )
    assert columns.notes["column 1"] == "it has no name"
    texts = as_columns({"a": COUNT, "b": np.array([b"red", b"blue"] * (ROWS // 2), object)})
    assert texts.categories[0].levels == ("blue", "red")


def test_whole_numbers_of_any_size() -> None:
    frame = pl.DataFrame(
        {"a": pl.Series(COUNT, dtype=pl.UInt8), "b": pl.Series(COUNT).cast(pl.Int128)}
    )
    assert numbers(as_columns(frame)) == {"a": COUNT, "b": COUNT}


def test_matrices() -> None:
    x = np.stack([np.arange(ROWS), np.arange(ROWS) ** 2], axis=1)
    expected = {"x0": COUNT, "x1": [i * i for i in COUNT]}
    for dtype in ("f8", "f4", ">f8", ">f4", "g", "i4", "u2", object):
        assert numbers(as_columns(x.astype(dtype))) == expected
    assert numbers(as_columns(jnp.asarray(x))) == expected
    half = as_columns(jnp.asarray(x % 8, jnp.bfloat16))
    assert half.numbers.dtype == np.float32
    assert numbers(as_columns((x % 64).astype("f2")))["x1"] == [i * i % 64 for i in COUNT]
    masked = as_columns(np.ma.masked_array(x, mask=np.stack([np.arange(ROWS) == 3] * 2, axis=1)))
    np.testing.assert_array_equal(numbers(masked)["x0"], with_nan(without_third(COUNT)))
    text = as_columns(np.array([TEXT, ["x"] * ROWS]).T)
    assert categories(text) == {"x0": TEXT}
    assert text.skipped == {"x1": "every value that is present is 'x'"}
    assert as_columns(x * 1j).skipped.keys() == {"x0", "x1"}


def test_a_floating_matrix_is_not_copied() -> None:
    for x in (np.random.default_rng(0).random((9, 3)), jnp.eye(3)):
        assert as_columns(x).numbers is x or np.shares_memory(as_columns(x).numbers, x)


def test_a_matrix_reads_as_a_mapping_of_its_columns() -> None:
    x = np.stack([COUNT, np.full(ROWS, 3.0), COUNT, np.full(ROWS, np.nan), COUNT], axis=1)
    x[3, 0], x[2, 1], x[:19, 4] = np.inf, -np.inf, np.inf
    matrix = as_columns(x)
    mapping = as_columns({f"x{i}": x[:, i] for i in range(5)})
    for columns in (matrix, mapping):
        assert columns.skipped == {
            "x1": "every value that is present is 3",
            "x3": "no value is present",
            "x4": "every value that is present is 19",
        }
        assert columns.notes == {"x0": "1 infinite value counted as missing"}
        np.testing.assert_array_equal(columns.numbers[:, 0], with_nan(without_third(COUNT)))
    assert np.isinf(x).sum() == 21


def test_levels_of_numbers_are_told_apart() -> None:
    codes = np.repeat([1234567, 1234568, 2], 20)
    for dtype in (np.int64, np.float64):
        (category,) = as_columns({"code": codes.astype(dtype)}, categories=["code"]).categories
        assert category.levels == ("2", "1234567", "1234568")
    single = np.repeat(np.array([0.1, 0.25], np.float32), 20)
    (category,) = as_columns({"share": single}, categories=["share"]).categories
    assert category.levels == ("0.1", "0.25")
    flags = as_columns({"flag": np.repeat([True, False], 20)}, categories=["flag"])
    assert flags.categories[0].levels == ("0", "1")


def test_every_remark_on_a_column_is_kept() -> None:
    text = np.array(["a"] * 30 + ["b"] * 30 + ["c"] * 2 + ["d"])
    columns = as_columns({"": text})
    assert columns.notes == {"column 1": "it has no name; 2 rare levels (3 rows) are pooled"}


def test_levels_in_few_rows_are_pooled() -> None:
    counts = {"a": 300, "b": 200, "c": 6, "d": 4, "e": 1, "f": 40}
    text = [level for level, count in counts.items() for _ in range(count)]
    columns = as_columns({"text": [*text, None]})
    (category,) = columns.categories
    assert category.levels == ("a", "b", "c", "f", OTHER_LEVELS)
    assert np.bincount(category.codes[:-1]).tolist() == [300, 200, 6, 40, 5]
    assert category.codes[-1] == -1
    assert columns.notes == {"text": "2 rare levels (5 rows) are pooled"}
    alone = as_columns({"text": ["a"] * 30 + ["b"] * 30 + ["c"]})
    assert alone.categories[0].levels == ("a", "b", "c")
    assert not alone.notes


def test_missing_values_as_a_level() -> None:
    table = {
        "town": ["a"] * 60 + ["b"] * 30 + ["c", "d", None] + [None] * 7,
        "rare": ["a"] * 50 + ["b"] * 46 + [None] * 4,
        "said": ["yes"] * 70 + [None] * 30,
        "code": [1.0] * 40 + [2.0] * 40 + [np.inf] * 20,
        "number": [np.nan] * 30 + [*range(70)],
    }
    columns = as_columns(table, categories=["code"], missing_level=True)
    town, rare, said, code = columns.categories
    assert town.levels == ("a", "b", MISSING_LEVEL, OTHER_LEVELS)
    assert np.bincount(town.codes).tolist() == [60, 30, 8, 2]
    assert (rare.levels, (rare.codes < 0).sum()) == (("a", "b"), 4)
    assert (said.levels, np.bincount(said.codes).tolist()) == ((MISSING_LEVEL, "yes"), [30, 70])
    assert code.levels == ("1", "2", MISSING_LEVEL)
    assert np.isnan(columns.numbers).sum() == 30
    # A text that is there or not: a box that was ticked.
    assert "missing is a level" in as_columns(table).notes["said"]


def test_numbers_as_categories() -> None:
    table = {
        "three": [i % 3 for i in COUNT],
        "missing": without_third([i % 2 for i in COUNT]),
        "halves": [i % 2 / 2 for i in COUNT],
        "many": COUNT,
        "flag": [i % 2 == 0 for i in COUNT],
    }
    few = as_columns(table, integers_up_to=3)
    assert categories(few).keys() == {"three", "missing"}
    assert few.categories[0].levels == ("0", "1", "2")
    for library in ("pandas", "polars", "pyarrow"):
        frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[library]
        assert categories(as_columns(frame(table), integers_up_to=3)) == categories(few)
    named = as_columns(table, categories=["halves", "flag"])
    assert categories(named).keys() == {"halves", "flag"}
    assert named.categories[0].levels == ("0", "0.5")
    matrix = np.array([table["three"], table["many"]], float).T
    assert categories(as_columns(matrix, categories={"x0"})).keys() == {"x0"}
    assert categories(as_columns(matrix, integers_up_to=3)).keys() == {"x0"}


def test_names() -> None:
    x = np.arange(8.0).reshape(4, 2) ** 2
    assert as_columns(x, names=("a", "b")).names == ("a", "b")
    assert as_columns(x, names=np.array(["a", "b"])).names == ("a", "b")
    assert as_columns(x, names=[1, 2]).names == ("1", "2")
    twice = as_columns(x, names=["a", "a"])
    assert twice.names == ("a", "a (2)")
    assert twice.notes == {"a (2)": "another column is called 'a' too"}
    assert as_columns({1: [1, 2], "1": [3, 5]}).names == ("1", "1 (2)")
    assert as_columns(pd.DataFrame(x)).names == ("0", "1")
    frame = pd.DataFrame(np.c_[x, x**2, x[:, :1] ** 3], columns=["a", "a", "a (2)", 3, "3"])
    assert as_columns(frame).names == ("a", "a (3)", "a (2)", "3", "3 (2)")
    arrow = pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 5])], names=["a", "a"])
    assert numbers(as_columns(arrow)) == {"a": [1, 2], "a (2)": [3, 5]}


@pytest.mark.parametrize(
    ("table", "options", "error", "message"),
    [
        (None, {}, TypeError, "got NoneType"),
        ([[1, 2], [3, 4]], {}, TypeError, "table must be an array .*; got list"),
        ("table.csv", {}, TypeError, "got str"),
        (pd.Series([1, 2]), {}, TypeError, "got Series"),
        (pl.LazyFrame({"a": [1]}), {}, TypeError, "got LazyFrame"),
        (np.zeros(3), {}, ValueError, r"shape \(n, p\), n and p >= 1; got shape \(3,\)"),
        (np.zeros((0, 3)), {}, ValueError, r"got shape \(0, 3\)"),
        (np.zeros((2, 2, 2)), {}, ValueError, r"got shape \(2, 2, 2\)"),
        (pd.DataFrame(), {}, ValueError, "rows and columns; got 0 column"),
        (pd.DataFrame({"a": []}), {}, ValueError, "got 1 column.* 0 row"),
        (pl.DataFrame({"a": []}), {}, ValueError, "got 1 column.* 0 row"),
        ({}, {}, ValueError, "got 0 column"),
        ({"a": [1, 2], "b": ["x"]}, {}, ValueError, "same number of rows; got 'a': 2, 'b': 1"),
        ({"a": 3}, {}, TypeError, "column 'a' must hold a value for every row; got 3"),
        (np.zeros((2, 2)), {"names": ["a"]}, ValueError, "names must be 2.*; got 1"),
        (np.zeros((2, 2)), {"names": "ab"}, TypeError, "names must be a sequence"),
        ({"a": [1, 2]}, {"names": ["b"]}, ValueError, "names are for arrays"),
        ({"a": [1, 2]}, {"categories": ["b"]}, ValueError, r"no column of the table: \['b'\]"),
        ({"a": [1, 2]}, {"categories": "a"}, TypeError, "categories must be a sequence"),
        ({"a": [1, 2]}, {"integers_up_to": "x"}, TypeError, "integers_up_to must be an int"),
        ({"a": [1, 2]}, {"integers_up_to": -1}, ValueError, "integers_up_to must be at least 0"),
    ],
)
def test_what_is_no_table(
    table: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        as_columns(table, **options)


def test_a_text_with_too_many_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hgr_jax.tables.levels.MAX_LEVELS", 15)
    columns = as_columns({"good": COUNT, "names": [f"name {i}" for i in COUNT]})
    assert columns.skipped == {"names": "text with more than 15 levels"}


QUARTERS = [decimal.Decimal(i) / 4 for i in COUNT]
OF_ARROW: dict[str, tuple[Any, str]] = {
    "decimal128": (pa.array(QUARTERS, pa.decimal128(20, 2)), "numbers"),
    "decimal256": (pa.array(QUARTERS, pa.decimal256(50, 2)), "numbers"),
    "date64": (pa.array([moment.date() for moment in MOMENTS], pa.date64()), "numbers"),
    "bool8": (
        pa.ExtensionArray.from_storage(pa.bool8(), pa.array([i % 2 for i in COUNT], pa.int8())),
        "numbers",
    ),
    "interval": (pa.array([(0, i, 0) for i in COUNT], pa.month_day_nano_interval()), "skipped"),
    "category of integers": (pa.array([i % 3 for i in COUNT]).dictionary_encode(), "category"),
    "category": (pa.array([TEXT[i] for i in COUNT]).dictionary_encode(), "category"),
    "union": (
        pa.UnionArray.from_sparse(
            pa.array([i % 2 for i in COUNT], pa.int8()), [pa.array(COUNT), pa.array(TEXT)]
        ),
        "skipped",
    ),
    "uuid": (
        pa.ExtensionArray.from_storage(
            pa.uuid(), pa.array([bytes(15) + bytes([i]) for i in COUNT], pa.binary(16))
        ),
        "skipped",
    ),
}


@pytest.mark.parametrize("name", OF_ARROW)
@pytest.mark.parametrize("holder", ["frame", "batches", "parquet", "polars"])
def test_a_type_means_the_same_whoever_brings_it(name: str, holder: str, tmp_path: Path) -> None:
    column, kind = OF_ARROW[name]
    table: Any = pa.table({"a": np.arange(ROWS) ** 2.0, "b": column})
    try:
        if holder == "parquet":
            pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
            table = tmp_path / "t.parquet"
        elif holder == "polars":
            if name in ("decimal256", "union", "interval", "category of integers"):
                pytest.skip("polars has no such type")
            table = pl.from_arrow(table)
        elif holder == "batches":
            table = iter(table.to_batches())
    except pa.ArrowNotImplementedError:
        pytest.skip("Parquet has no such type")
    found = hgr_jax.scan(table, h=2, k=2, test=None)
    assert ("b" in found.used) == (kind != "skipped")
    if kind == "skipped":
        assert "neither" in found.skipped["b"]
    else:
        assert (found.category("b") is not None) == (kind == "category")


def ordered(kind: str, tmp_path: Path) -> Any:
    levels, order = [["mid", "low", "high"][i % 3] for i in COUNT], ["low", "mid", "high"]
    frame = pd.DataFrame({"c": pd.Categorical(levels, categories=order, ordered=True)})
    if kind == "parquet":
        frame.to_parquet(tmp_path / "t.parquet")
        return read_table(tmp_path / "t.parquet")
    if kind == "Stata":
        pytest.importorskip("pyreadstat")
        frame.to_stata(tmp_path / "t.dta")
        return read_table(tmp_path / "t.dta")
    if kind == "polars":
        return pl.DataFrame({"c": pl.Series(levels, dtype=pl.Enum(order))})
    return pa.Table.from_pandas(frame) if kind == "pyarrow" else frame


@pytest.mark.parametrize("kind", ["pandas", "pyarrow", "parquet", "polars", "Stata"])
def test_ordered_categories_keep_their_order(kind: str, tmp_path: Path) -> None:
    columns = as_columns(ordered(kind, tmp_path))
    values = numbers(columns)["c"]
    assert np.argsort(values[:3]).tolist() == [1, 0, 2]
    assert np.diff(sorted(values[:3])).tolist() == [1, 1]
    assert columns.notes["c"].endswith(("1 low, 2 mid, 3 high", "0 low, 1 mid, 2 high"))
