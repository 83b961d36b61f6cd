"""Files as people publish them: each is read as a person would read it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hgr_jax.tables.columns import Frame
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.files import read_table
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.sources import of_files
from tests.tables_support import write

ROWS = 40
RNG = np.random.default_rng(7)
X = RNG.uniform(1, 9, ROWS).round(2)
N = RNG.integers(100, 5000, ROWS)

BOATS = ("big boat", "tug", "raft")

NUMBER, DATE, TEXT, SKIPPED = "number", "date", "text", "skipped"
KINDS = {"f": NUMBER, "M": DATE, "O": TEXT}


@dataclasses.dataclass(frozen=True)
class Case:
    """A file: lines before the rows, a row, lines after them; and what it holds.

    ``columns`` has the kind and the first value (None: any) of columns by name.
    """

    name: str
    head: tuple[str, ...]
    row: Callable[[int], str]
    columns: Mapping[str, tuple[str, Any]]
    foot: tuple[str, ...] = ()
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    encoding: str = "utf-8"
    note: str = ""
    rows: int = ROWS

    def write(self, folder: Path) -> Path:
        lines = [*self.head, *map(self.row, range(ROWS)), *self.foot, ""]
        return write(folder, "\n".join(lines).encode(self.encoding))


def with_dots(number: int) -> str:
    return f"{number:,}".replace(",", ".")


def with_comma(number: float) -> str:
    return f"{number:.2f}".replace(".", ",")


IN_DAYS = tuple(f"2021-02-{i % 28 + 1:02}" for i in range(ROWS))
WEATHER = ("day,wind,swell",)
X_OF = {"wind": (NUMBER, X[0]), "swell": (NUMBER, N[0])}


def weather(i: int) -> str:
    return f"{IN_DAYS[i]},{X[i]:.2f},{N[i]}"


MARKS = [
    Case(
        "points between thousands",
        ("a;b",),
        lambda i: f"{with_comma(X[i])};{with_dots(N[i])}",
        {"a": (NUMBER, X[0]), "b": (NUMBER, N[0])},
        note="as elsewhere in the file",
    ),
    Case(
        "points without decimals",
        ("a;b",),
        lambda i: f"{with_dots(N[i])};{i}",
        {"a": (NUMBER, N[0])},
        note="is read as",
    ),
    Case(
        "three decimals",
        ("a,b",),
        lambda i: f"{1 + X[i] + i / 1000:.3f},{i}",
        {"a": (NUMBER, round(1 + X[0], 3))},
    ),
    Case(
        "euros",
        ("a;b",),
        lambda i: f"{with_dots(N[i])} \u20ac;{with_comma(X[i])} %",
        {"a": (NUMBER, N[0]), "b": (NUMBER, X[0])},
    ),
    Case(
        "apostrophes",
        ("a;b",),
        lambda i: f"{X[i]:.2f};{N[i]:,}".replace(",", "'"),
        {"a": (NUMBER, X[0]), "b": (NUMBER, N[0])},
    ),
    Case(
        "narrow spaces",
        ("a;b",),
        lambda i: f"{with_comma(X[i])};{N[i]:,}".replace(",", "\u202f", 2).replace(
            "\u202f", ",", 1
        ),
        {"a": (NUMBER, X[0]), "b": (NUMBER, N[0])},
    ),
    Case("lakhs", ("a;b",), lambda i: f"12,34,{500 + i};{i}", {"a": (NUMBER, 1234500)}),
    Case(
        "points asked for",
        ("a;b",),
        lambda i: f"1.{100 + i};{i}",
        {"a": (NUMBER, 1100)},
        options={"thousands": "."},
    ),
    Case(
        "points refused",
        ("a;b",),
        lambda i: f"1.{100 + i};{with_comma(X[i])}",
        {"a": (NUMBER, 1.1), "b": (TEXT, None)},
        options={"decimal": "."},
    ),
]

DELIMITERS = [
    Case(
        "commas in names",
        ("a;b, EUR;c, kg, net",),
        lambda i: f"{i};{X[i]:.2f};{N[i]}",
        {"b, EUR": (NUMBER, X[0]), "c, kg, net": (NUMBER, N[0])},
    ),
    Case("bars", ("a|b, c",), lambda i: f"{X[i]:.2f}|x, y", {"a": (NUMBER, X[0])}),
    Case("tabs", ("a\tb",), lambda i: f"{X[i]:.2f}\tred, blue", {"b": (TEXT, "red, blue")}),
    Case("two colons", ("a::b",), lambda i: f"{X[i]:.2f}::red, blue", {"b": (TEXT, "red, blue")}),
    Case(
        "carets",
        ("a^b",),
        lambda i: f"{i}^{X[i]:.2f}",
        {"b": (NUMBER, X[0])},
        options={"delimiter": "^"},
    ),
    Case(
        "spaces",
        ("year   ice    salt",),
        lambda i: f"{1960 + i}   {X[i]:.2f}    {-N[i]}",
        {"ice": (NUMBER, X[0]), "salt": (NUMBER, -N[0])},
        note="apart by spaces",
    ),
    Case(
        "fixed width",
        ("name        speed     n",),
        lambda i: f"{BOATS[i % 3]:<10}{'' if i % 6 == 4 else f'{X[i]:.2f}':>7}{N[i]:>6}",
        {"name": (TEXT, "big boat"), "speed": (NUMBER, X[0]), "n": (NUMBER, N[0])},
        note="fixed width",
    ),
    Case(
        "an end that no row fills",
        ("a,b",),
        lambda i: f"{X[i]:.2f},{N[i]},",
        {"a": (NUMBER, X[0]), "b": (NUMBER, N[0])},
    ),
    Case(
        "ends that some rows fill",
        ("a,b,c,d",),
        lambda i: f"{X[i]:.2f},{N[i]}" + ("", ",u", ",v,5")[i % 3],
        {"b": (NUMBER, N[0])},
        note="shorter than the table",
    ),
    Case(
        "everything quoted",
        ('"a";"b"',),
        lambda i: f'"{with_comma(X[i])}";"{N[i]}"',
        {"a": (NUMBER, X[0]), "b": (NUMBER, N[0])},
    ),
    Case(
        "Cyrillic",
        ("\u0433\u043e\u0440\u043e\u0434;x",),
        lambda i: f"\u041e\u043c\u0441\u043a;{i}",
        {"\u0433\u043e\u0440\u043e\u0434": (TEXT, "\u041e\u043c\u0441\u043a")},
        encoding="cp1251",
        options={"encoding": "cp1251"},
    ),
    Case(
        "Latin letters",
        ("gr\u00f6\u00dfe;x",),
        lambda i: f"{X[i]:.2f};{i}",
        {"gr\u00f6\u00dfe": (NUMBER, X[0])},
        encoding="latin-1",
        note="--encoding",
    ),
]

LINES = [
    Case(
        "titles",
        ("Harbour log", "Printed 2022-01-04", "", *WEATHER),
        weather,
        X_OF,
        note="2 lines of titles skipped ('Harbour log'); names in line 4",
    ),
    Case(
        "titles with delimiters",
        ("Report of the port, north,,", "Printed:,2022,,", ",,,", "day,wind,swell,note"),
        lambda i: f"{weather(i)},ok",
        X_OF,
        note="names in line 4",
    ),
    Case(
        "pairs before the names",
        ("Station,14", "Sensor,cup", "", "day,wind,swell,gust"),
        lambda i: f"{weather(i)},{i}",
        X_OF,
    ),
    Case(
        "names with commas above",
        ("A list, of many, words, above", "and, of two", "", "day,wind,swell,gust,n"),
        lambda i: f"{weather(i)},{i},{i}",
        X_OF,
    ),
    Case("units", (*WEATHER, ",km/h,dm"), weather, X_OF, note="line 2 holds no values (km/h, dm)"),
    Case(
        "units in brackets",
        ("day,wind,swell", "[-],[m/s],[\u00b0C]"),
        weather,
        X_OF,
        note="holds no values",
    ),
    Case(
        "units in words",
        ("n,load,power", "hours,newton,watt"),
        lambda i: f"{i},{X[i]:.2f},{N[i]}",
        {"load": (NUMBER, X[0]), "power": (NUMBER, N[0])},
        note="line 2",
    ),
    Case("two lines of names", (",weather,weather", "day,wind,swell"), weather, X_OF),
    Case(
        "comments",
        ("# station 14", "# sensor: cup, b, c", *WEATHER),
        weather,
        X_OF,
        foot=("# end of file",),
        note="lines that begin with '#' are comments",
    ),
    Case(
        "names in a comment",
        ("# station 14", "#day,wind,swell"),
        weather,
        X_OF,
        note="comments",
    ),
    Case("comments asked for", ("; logger", *WEATHER), weather, X_OF, options={"comment": ";"}),
    Case(
        "a footer",
        WEATHER,
        weather,
        X_OF,
        foot=("", "Source: office, 2021", "* provisional"),
        note="of notes at the end left out",
    ),
    Case("a footer without a gap", WEATHER, weather, X_OF, foot=("Source: office",)),
    Case("a second table", WEATHER, weather, X_OF, foot=("", "id,note", "1,a long text")),
    *(
        Case(
            f"a row of totals: {word}",
            WEATHER,
            weather,
            X_OF,
            foot=(f"{word},{X.sum():.2f},{N.sum()}",),
            note="left out as a row of totals",
        )
        for word in ("Total", "TOTAL:", "Gesamt", "Average", "Grand total", "Somme", "")
    ),
    Case(
        "totals before the rows",
        (*WEATHER, f"Total,{X.sum():.2f},{N.sum()}"),
        weather,
        X_OF,
        note="left out as a row of totals",
    ),
    Case(
        "totals kept",
        WEATHER,
        weather,
        X_OF,
        foot=(f"Total,{X.sum():.2f},{N.sum()}",),
        options={"footer": 0},
        rows=ROWS + 1,
    ),
    Case(
        "years as names",
        ("town,2000,2001,2002",),
        lambda i: f"t{i},{X[i]:.2f},{N[i]},{i}",
        {"2000": (NUMBER, X[0]), "2001": (NUMBER, N[0])},
    ),
    Case("names asked for", ("a,b,c", "day,wind,swell"), weather, X_OF, options={"header": 2}),
    Case("lines skipped", ("junk,1,2,3,4", "more", *WEATHER), weather, X_OF, options={"skip": 2}),
    Case(
        "no names, dates",
        (),
        weather,
        {"column 1": (DATE, "2021-02-01"), "column 2": (NUMBER, X[0])},
        note="line 1 holds values",
    ),
    Case(
        "no names, a gap",
        (),
        lambda i: f"{'NA' if not i else X[i]},{X[i]:.2f},{N[i]}",
        {"column 2": (NUMBER, X[0])},
        note="line 1 holds values",
    ),
    Case(
        "no names, texts",
        (),
        lambda i: f"{IN_DAYS[i]},{N[i]},{('low', 'high')[i % 2]}",
        {"column 2": (NUMBER, N[0]), "column 3": (TEXT, "low")},
        note="line 1 holds values",
    ),
    Case(
        "no names, only texts",
        (),
        lambda i: f"{('red', 'blue')[i % 2]},{('u', 'v')[i % 2]}",
        {"column 1": (TEXT, "red")},
        note="line 1 holds values",
    ),
    Case(
        "no names, money",
        (),
        lambda i: f"$ {N[i]}.50,{X[i]:.1f}%",
        {"column 1": (NUMBER, N[0] + 0.5)},
    ),
]

NUMBERS = (
    [
        Case(
            f"marked: {form}",
            ("k;x",),
            lambda i, form=form: f"{i};" + form.format(X[i]),  # type: ignore[misc]
            {"x": (NUMBER, None if value is None else value * X[0])},
        )
        for form, value in {
            "{:.2f} p": 1,
            "{:.2f}*": 1,
            "~{:.2f}": 1,
            ">{:.2f}": 1,
            "<{:.2f}": 0.5,
            "{:.2f} mg/l": 1,
            "{:.2f}\u00b0C": 1,
            "{:.2f} EUR": 1,
            "{:.2f} %": 1,
            "'{:.2f}": 1,
            "{:.2f}[1]": 1,
            "{:.2f}-": -1,
            "\u2212{:.2f}": -1,
            "\u2013{:.2f}": -1,
            "({:.2f})": -1,
            "{:.2f}E+02": 100,
            "{:.2f} years": 1,
            "{:.2f} m\u00b2": 1,
        }.items()
    ]
    + [
        Case(
            "letters after some",
            ("k;x",),
            lambda i: f"{i};{X[i]:.2f}" + ("", "", " e", " b")[i % 4],
            {"x": (NUMBER, X[0])},
            note="is read as",
        ),
        Case(
            "below a limit",
            ("k;x",),
            lambda i: f"{i};" + ("<0.5" if i % 3 == 1 else f"{X[i]:.2f}"),
            {"x": (NUMBER, X[0])},
            note="half of a limit",
        ),
        Case(
            "two units",
            ("k;x",),
            lambda i: f"{i};{X[i]:.2f} {('kg', 'g')[i % 2]}",
            {"x": (TEXT, None)},
            note="different units",
        ),
        Case(
            "few other texts",
            ("k;x",),
            lambda i: f"{i};{('refused', N[i], N[i])[i % 3]}",
            {"x": (NUMBER, None)},
            note="the first that is not: 'refused' in line 2",
        ),
        Case(
            "numbers that are scaled",
            ("k;x",),
            lambda i: f"{i};" + ("12.5", f"{X[i]:.1f}K", f"{X[i]:.1f} million")[i % 3],
            {"x": (TEXT, None)},
        ),
        Case(
            "fractions by type",
            ("k;x",),
            lambda i: f"{i};{i} 1/2",
            {"x": (NUMBER, 0.5)},
            options={"types": {"x": "number"}},
            note="(a fraction)",
        ),
    ]
    + [
        Case(
            f"missing: {mark}",
            ("k;x",),
            lambda i, mark=mark: f"{i};{mark if i % 3 == 2 else X[i]}",  # type: ignore[misc]
            {"x": (NUMBER, X[0])},
            note="" if not mark.strip() else "missing",
        )
        for mark in (
            "ND",
            "n.d.",
            "..",
            ":",
            "-",
            "--",
            "#N/A",
            "#DIV/0!",
            "#REF!",
            "\\N",
            "(null)",
            "N/A",
            "N.A.",
            "missing",
            "*",
            ".",
            "\u2013",
            "NaN",
            "?",
            "NULL",
            "k.A.",
            "not available",
            "None",
            " ",
            ": c",
        )
    ]
)

DATES = [
    Case(
        f"{kind}: {example(0)}",
        ("k;x;y",),
        lambda i, example=example: f"{i};{example(i)};{X[i]}",  # type: ignore[misc]
        {"x": (kind, first)},
        note="is read as",
    )
    for kind, first, example in (
        (DATE, "1990-01-01", lambda i: f"{1990 + i // 4}Q{i % 4 + 1}"),
        (DATE, "1990-01-01", lambda i: f"Q{i % 4 + 1} {1990 + i // 4}"),
        (DATE, "2000-01-01", lambda i: f"{2000 + i // 12}-{i % 12 + 1:02}"),
        (DATE, "2000-01-01", lambda i: f"{i % 12 + 1:02}/{2000 + i // 12}"),
        (DATE, "2000-01-01", lambda i: f"{2000 + i // 12}M{i % 12 + 1:02}"),
        (DATE, "2000-01-01", lambda i: f"{2000 + i // 12}{i % 12 + 1:02}"),
        (DATE, "2010-01-01", lambda i: f"{('Jan', 'Feb', 'Mar', 'Apr')[i % 4]}-{i // 4 + 10}"),
        (DATE, "2020-03-01", lambda i: f"202003{i % 28 + 1:02}"),
        (DATE, "2021-03-01", lambda i: f"{i % 28 + 1:02}.03.21"),
        (DATE, "2021-03-01", lambda i: f"Monday, {i % 28 + 1} March 2021"),
        (NUMBER, 87.452, lambda i: f"1:{27 + i % 30}.452"),
        (NUMBER, 5430, lambda i: f"{90 + i}:30"),
        (NUMBER, 4813, lambda i: f"{i + 1}:20:13"),
        (NUMBER, 8.25, lambda i: f"{i % 12 + 8:02}.15.00"),
    )
]

CODES = [
    Case(
        "postcodes",
        ("zip;x",),
        lambda i: f"{501 + 37 * i:05};{X[i]}",
        {"zip": (TEXT, "00501")},
        note="codes with leading zeros",
    ),
    Case(
        "postcodes as numbers",
        ("zip;x",),
        lambda i: f"{501 + 37 * i:05};{X[i]}",
        {"zip": (NUMBER, 501)},
        options={"types": {"zip": "number"}},
    ),
    Case(
        "identifiers",
        ("id;x",),
        lambda i: f"{7234567890123450060 + i * 987654321};{X[i]}",
        {"id": (SKIPPED, "identifiers of 19 digits")},
    ),
    Case(
        "identifiers by type",
        ("id;x",),
        lambda i: f"{i};{X[i]}",
        {"id": (SKIPPED, "identifiers")},
        options={"types": {"id": "id"}},
    ),
    Case(
        "numbers as a category",
        ("g;x",),
        lambda i: f"{i % 3};{X[i]}",
        {"g": (TEXT, "0")},
        options={"types": {"g": "category"}},
    ),
    Case(
        "days first by type",
        ("d;x",),
        lambda i: f"{i % 9 + 1:02}/02/2021;{X[i]}",
        {"d": (DATE, "2021-02-01")},
        options={"types": {"d": "dmy"}},
    ),
    Case(
        "days or months first",
        ("d;x",),
        lambda i: f"{i % 9 + 1:02}/02/2021;{X[i]}",
        {"d": (DATE, "2021-01-02")},
        note="the other way round",
    ),
    Case(
        "days first as elsewhere",
        ("d;e",),
        lambda i: f"{i % 9 + 1:02}/02/2021;{i % 28 + 1}/3/2021",
        {"d": (DATE, "2021-02-01"), "e": (DATE, "2021-03-01")},
    ),
    Case(
        "boxes that were ticked",
        ("k;member",),
        lambda i: f"{i};{('Yes', '')[i % 2]}",
        {"member": (TEXT, "Yes")},
        note="missing is a level",
    ),
    Case(
        "None as an answer",
        ("k;pets",),
        lambda i: f"{i};{('dog', 'None', 'cat')[i % 3]}",
        {"pets": (TEXT, "dog")},
        note="read as missing: 'None' (13); in a category (--types)",
    ),
    Case(
        "None as a level",
        ("k;pets",),
        lambda i: f"{i};{('None', 'dog', 'cat')[i % 3]}",
        {"pets": (TEXT, "None")},
        options={"types": {"pets": "category"}},
    ),
    Case(
        "sodium",
        ("k;element",),
        lambda i: f"{i};{('Na', 'Cl', 'K')[i % 3]}",
        {"element": (TEXT, "Na")},
    ),
]


def rows_of(*lines: str) -> str:
    return "\n".join([*lines, ""])


FILLED = [f"y{i},{i},3" for i in range(ROWS)]

SMALL = {
    "a first row that is too short": (rows_of("name,b,c", "x,1", *FILLED), ("name", ["x", "y0"])),
    "a second row that is too short": (rows_of("a,b,c", "1,2,3", "4,5", "6,7,8"), ("a", [1, 4])),
    "two and three values": (rows_of("a,b,c", "x,2,3", "y,5", "z,7,8", "w"), ("a", ["x", "y"])),
    "US dates of 2020": (
        rows_of("d,x", *(f"1/{i + 1}/20,{i}" for i in range(28))),
        ("d", ["2020-01-01", "2020-01-02"]),
    ),
    "dates as names": (
        rows_of("place,Lat,1/22/20,1/23/20,1/24/20", "a,1.5,0,2,9", "b,2.5,3,1,4", "c,3.5,8,8,1"),
        ("1/22/20", [0, 3]),
    ),
    "seats": (rows_of("s,x", "12A,1", "12B,2", "3A,3", "1B,4"), ("s", ["12A", "12B"])),
    "dice": (rows_of("d,x", "2d6,1", "1d4,2", "3d6,3"), ("d", ["2d6", "1d4"])),
    "sizes": (rows_of("s,x", "20x100,1", "30x105,2", "3x10,3"), ("s", ["20x100", "30x105"])),
    "addresses": (
        rows_of("ip;load", *(f"192.168.100.{100 + i};1.{125 + i}" for i in range(9))),
        ("load", [1.125, 1.126]),
    ),
    "names and years": (
        rows_of("Alien,1979", "Jaws,1975", "Heat,1995"),
        ("column 2", [1979, 1975]),
    ),
    "one year as a name": (rows_of("town,2019", "Rome,3.5", "Oslo,2.5"), ("2019", [3.5, 2.5])),
    "wavelengths as names": (
        rows_of("s,400.5,401.0,401.5", "a,1,5,2", "b,3,1,2"),
        ("400.5", [1, 3]),
    ),
    "few names": (rows_of("a,b,,", "1,2,3,4", "5,6,7,8", "9,1,2,3"), ("b", [2, 6])),
    "errors that begin with #": (
        rows_of("# made by x", "price,qty", "#N/A,5", "3.5,6", "#DIV/0!,7", "2.5,8"),
        ("qty", [5, 6]),
    ),
    "colours": (
        rows_of("# colours", "c,n", "#ff0000,1", "#00ff00,2", "#0000ff,3"),
        ("c", ["#ff0000", "#00ff00"]),
    ),
    "comments in quotes": (rows_of("# top", "a,b", '"x\n# y",1', "z,2"), ("a", ["x\n# y", "z"])),
    "braces among units": (rows_of("name,a,b", ",{kg},{m^2}", "x,1,2", "y,3,4"), ("a", [1, 3])),
    "names with spaces": (
        rows_of("name        age   w", "John Smith  23    70.5", "Ann Lee     31    60.1"),
        ("name", ["John Smith", "Ann Lee"]),
    ),
    "names of rows": (rows_of("a b c", "r1 2 3 4", "r2 5 6 7"), ("a", [2, 5])),
    "carets by themselves": (rows_of("a^b^c", "1^2^3", "4^5^6"), ("b", [2, 5])),
    "a last row that sums by chance": (
        rows_of("x,y", "0,0", "1,2", "2,4", "3,6", "6,12"),
        ("x", [0, 1]),
    ),
    "a word that is no mean": (
        rows_of("size,x", "Alta,1.5", "Baja,9", "Media,1.25"),
        ("size", ["Alta", "Baja"]),
    ),
    "sparse rows without names": (
        rows_of("k,a,b,c,d,e", *FILLED[:2], ",,,,,good", "x,1,2,3,4,5", ",,,,,bad"),
        ("e", ["", ""]),
    ),
    "classes": (
        rows_of("income,x", *(f"{('<=50K', '>50K')[i % 2]},{i}" for i in range(12))),
        ("income", ["<=50K", ">50K"]),
    ),
    "no and numbers": (
        rows_of("c,x", *(f"{('No', 'No', '10')[i % 3]},{i}" for i in range(12))),
        ("c", ["No", "No"]),
    ),
    "eighths": (
        rows_of("x,y", "1.125,1", "2.375,2", "3,3", "1.375,4", "4,5", "2,6"),
        ("x", [1.125, 2.375]),
    ),
    "versions": (
        rows_of("v,x", "10.2.13,1", "5.15.10,2", "3.1.12,3"),
        ("v", ["10.2.13", "5.15.10"]),
    ),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_files(name: str, tmp_path: Path) -> None:
    content, (column, values) = SMALL[name]
    found = read_table(write(tmp_path, content)).column(column)[:2].tolist()
    if isinstance(values[0], str) and not isinstance(found[0], str):
        found = [str(value)[:10] for value in found]
    assert found == values


@pytest.mark.parametrize(
    "lines", [["a,b,c", "x,Rome, Italy,3", *FILLED], ["a,b", "1,5,2,5", "2,5,3,5"]]
)
def test_a_row_with_too_many_values(lines: list[str], tmp_path: Path) -> None:
    path = write(tmp_path, rows_of(*lines))
    expected = lines[0].count(",") + 1
    with pytest.raises(
        TableError, match=f"line 2: expected {expected} values as in the header, got 4"
    ):
        read_table(path)


def test_quoted_rows_of_a_large_file(tmp_path: Path) -> None:
    """The first bytes, by which its layout is found, may end within quotes."""
    rows = [f'"text number {i % 9}, with words\nand lines",{i}' for i in range(9000)]
    for shift in (0, 7, 13, 22):
        path = write(tmp_path, rows_of("#" * shift + "a,b", *rows))
        source = of_files(path, Reading())
        assert source.rows == read_table(path).rows == 9000


def test_integers_of_which_the_first_may_be_a_date(tmp_path: Path) -> None:
    rows = [f"{number};{i}" for i, number in enumerate([190010, *range(120000, 150000, 137)])]
    path = write(tmp_path, rows_of("id;x", *rows, "n.d.;5"))
    assert read_table(path).column("id")[:2].tolist() == [190010, 120000]


def test_words_among_numbers_are_no_few_odd_texts(tmp_path: Path) -> None:
    letters = "abcdefghij"
    words = ["".join(letters[int(digit)] for digit in f"{i:06}") for i in range(3000)]
    rows = [f"{i if i % 9 < 5 else words[i % 3000]};{i}" for i in range(6000)]
    assert read_table(write(tmp_path, rows_of("k;x", *rows))).is_text("k")


CASES = [*MARKS, *DELIMITERS, *LINES, *NUMBERS, *DATES, *CODES]


def check(frame: Frame, case: Case) -> None:
    assert frame.rows == case.rows
    for name, (kind, value) in case.columns.items():
        if kind == SKIPPED:
            assert frame.skipped[name].startswith(value)
            continue
        column = frame.column(name)
        assert KINDS[column.dtype.kind] == kind, (name, column[:3])
        if value is not None and kind == NUMBER:
            assert column[0] == pytest.approx(value)
        elif value is not None:
            assert str(column[0]).startswith(value)
    said = " | ".join([*frame.notes.values(), *frame.skipped.values()])
    assert case.note in said


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_file_is_read_as_a_person_would(case: Case, tmp_path: Path) -> None:
    check(read_table(case.write(tmp_path), Reading(**case.options)), case)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_file_is_read_alike_in_batches(case: Case, tmp_path: Path) -> None:
    path, reading = case.write(tmp_path), Reading(**case.options)
    frame, source = read_table(path, reading), of_files(path, reading)
    table = pa.concat_tables(source.batches([*source.kinds], 7))
    assert source.rows == table.num_rows == frame.rows
    assert source.parse is not None
    found = source.parse(table, np.arange(table.num_rows))
    assert (found.notes, found.skipped) == (frame.notes, frame.skipped)
    assert found.columns.keys() == frame.columns.keys()
    for name, column in frame.columns.items():
        np.testing.assert_array_equal(found.columns[name], column)


def test_names_that_are_not_found(tmp_path: Path) -> None:
    rows = [f"{i},{X[i]},{'5' if i % 9 else ''},,,,," for i in range(ROWS)]
    path = write(tmp_path, "\n".join(["k,v,,,,,,", *rows, "1,2,3,4,5,6,7,8", ""]))
    with pytest.raises(TableError, match=r"table.csv: the names of the columns .* --header N"):
        read_table(path)
    assert read_table(path, Reading(header=1)).rows == ROWS + 1


def test_options_that_cannot_be(tmp_path: Path) -> None:
    path = write(tmp_path, "x,y\n1,2\n3,4\n")
    for options, message in (
        ({"decimal": ";"}, "decimal must be one of"),
        ({"decimal": ".", "thousands": "."}, "decimal and thousands must differ"),
        ({"delimiter": "ab"}, "delimiter must be one character"),
        ({"encoding": "utf-9"}, "encoding must be one that Python knows"),
        ({"types": {"x": "integer"}}, "must be one of 'number', 'category'"),
        ({"types": {"z": "number"}}, "has no column 'z'"),
        ({"header": 9}, "has no names in line 9"),
        ({"skip": -1}, "skip must be"),
    ):
        with pytest.raises(ValueError, match=message):
            read_table(path, **options)
    with pytest.raises(TypeError, match="sequence of texts"):
        Reading(na="NA")
    with pytest.raises(TypeError, match="pass one of them"):
        read_table(path, Reading(), decimal=",")
