"""Files as people publish them: each is read as a person would read it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from hgr_jax.tables.faults import TableError
from hgr_jax.tables.files import read_table
from hgr_jax.tables.reading import Reading
from hgr_jax.tables.sources import of_files
from tests.tables_support import read_twice, write

ROWS = 40
RNG = np.random.default_rng(7)
X = RNG.uniform(1, 9, ROWS).round(2)
N = RNG.integers(100, 5000, ROWS)
X0, N0 = float(X[0]), float(N[0])
DAY = np.datetime64
SKIPPED = None


def words(i: int) -> dict[str, Any]:
    """What a row has: numbers with a point or a comma, between thousands nothing, marks or dots."""
    n, marked = N[i], f"{N[i]:,}"
    return {
        "i": i,
        "x": f"{X[i]:.2f}",
        "xc": f"{X[i]:.2f}".replace(".", ","),
        "n": n,
        "nd": marked.replace(",", "."),
        "na": marked.replace(",", "'"),
        "ns": marked.replace(",", "\u202f"),
        "day": f"2021-02-{i % 28 + 1:02}",
    }


class Case(NamedTuple):
    """A file: lines before the rows, a row, and what it holds.

    A row is a pattern of `words`, or several of which each is the next row's; ``columns`` has the
    first value by name: numbers, dates and texts are of that kind.
    """

    head: str
    row: str | tuple[str, ...] | Callable[[int], str]
    columns: dict[str, Any]
    note: str = ""
    options: dict[str, Any] = {}  # noqa: RUF012 - is not changed
    foot: str = ""
    encoding: str = "utf-8"
    rows: int = ROWS

    def write(self, folder: Path) -> Path:
        def row(i: int) -> str:
            if callable(self.row):
                return self.row(i)
            patterns = (self.row,) if isinstance(self.row, str) else self.row
            return patterns[i % len(patterns)].format(**words(i))

        lines = [*self.head.split("\n")[: bool(self.head) * 99], *map(row, range(ROWS))]
        text = "\n".join([*lines, *self.foot.split("\n")[: bool(self.foot) * 99], ""])
        return write(folder, text.encode(self.encoding))


AB = {"a": X0, "b": N0}
LOG, WEATHER = "{day},{x},{n}", "day,wind,swell"
OF_LOG = {"wind": X0, "swell": N0}
SUMS = f"{X.sum():.2f},{N.sum()}"

CASES = {
    "points between thousands": Case("a;b", "{xc};{nd}", AB, "as elsewhere in the file"),
    "points without decimals": Case("a;b", "{nd};{i}", {"a": N0}, "is read as"),
    "three decimals": Case("a,b", lambda i: f"{7 + i / 1000:.3f},{i}", {"a": 7.0}),
    "euros": Case("a;b", "{nd} \u20ac;{xc} %", {"a": N0, "b": X0}),
    "apostrophes": Case("a;b", "{x};{na}", AB),
    "narrow spaces": Case("a;b", "{xc};{ns}", AB),
    "lakhs": Case("a;b", lambda i: f"12,34,{500 + i};{i}", {"a": 1234500.0}),
    "points asked for": Case(
        "a;b", lambda i: f"1.{100 + i};{i}", {"a": 1100.0}, "", {"decimal": ","}
    ),
    "points refused": Case(
        "a;b", lambda i: f"1.{100 + i};7,{i:02}", {"a": 1.1, "b": "7,00"}, "", {"decimal": "."}
    ),
    "commas in names": Case("a;b, EUR;c, kg, net", "{i};{x};{n}", {"b, EUR": X0, "c, kg, net": N0}),
    "bars": Case("a|b, c", "{x}|x, y", {"a": X0}),
    "tabs": Case("a\tb", "{x}\tred, blue", {"b": "red, blue"}),
    "two colons": Case("a::b", "{x}::red, blue", {"b": "red, blue"}),
    "carets": Case("a^b", "{i}^{x}", {"b": X0}, "", {"delimiter": "^"}),
    "spaces": Case(
        "year   ice    salt", "{i}   {x}    -{n}", {"ice": X0, "salt": -N0}, "apart by spaces"
    ),
    "fixed width": Case(
        "name        speed     n",
        lambda i: (
            f"{('big boat', 'tug', 'raft')[i % 3]:<10}{'' if i % 6 == 4 else X[i]:>7}{N[i]:>6}"
        ),
        {"name": "big boat", "speed": X0, "n": N0},
        "fixed width",
    ),
    "an end that no row fills": Case("a,b", "{x},{n},", AB),
    "ends that some rows fill": Case(
        "a,b,c,d", ("{x},{n}", "{x},{n},u", "{x},{n},v,5"), AB, "shorter than the table"
    ),
    "everything quoted": Case('"a";"b"', '"{xc}";"{n}"', AB),
    "Cyrillic": Case(
        "\u0433\u043e\u0440\u043e\u0434;x",
        "\u041e\u043c\u0441\u043a;{i}",
        {"\u0433\u043e\u0440\u043e\u0434": "\u041e\u043c\u0441\u043a"},
        options={"encoding": "cp1251"},
        encoding="cp1251",
    ),
    "Latin letters": Case(
        "gr\u00f6\u00dfe;x", "{x};{i}", {"gr\u00f6\u00dfe": X0}, "--encoding", encoding="latin-1"
    ),
    "titles": Case(
        f"Harbour log\nPrinted 2022-01-04\n\n{WEATHER}",
        LOG,
        OF_LOG,
        "2 lines of titles skipped ('Harbour log'); names in line 4",
    ),
    "titles with delimiters": Case(
        f"Report of the port, north,,\nPrinted:,2022,,\n,,,\n{WEATHER},note",
        LOG + ",ok",
        OF_LOG,
        "names in line 4",
    ),
    "pairs before the names": Case(
        f"Station,14\nSensor,cup\n\n{WEATHER},gust", LOG + ",{i}", OF_LOG
    ),
    "names with commas above": Case(
        f"A list, of many, words, above\nand, of two\n\n{WEATHER},gust,n", LOG + ",{i},{i}", OF_LOG
    ),
    "units": Case(f"{WEATHER}\n,km/h,dm", LOG, OF_LOG, "line 2 holds no values (km/h, dm)"),
    "units in brackets": Case(f"{WEATHER}\n[-],[m/s],[\u00b0C]", LOG, OF_LOG, "holds no values"),
    "units in words": Case("n,a,b\nhours,newton,watt", "{i},{x},{n}", AB, "line 2"),
    "two lines of names": Case(f",weather,weather\n{WEATHER}", LOG, OF_LOG),
    "comments": Case(
        f"# station 14\n# sensor: cup, b, c\n{WEATHER}",
        LOG,
        OF_LOG,
        "2 lines of comments above the table",
        foot="# end of file",
    ),
    "names in a comment": Case("# station 14\n# day,wind,swell", LOG, OF_LOG, "names in line 2"),
    "names with a mark": Case("# station 14\n#day,wind,swell", LOG, OF_LOG, "1 line of comments"),
    "a mark as a name": Case("#,kind", ("{i},u", "{i},v"), {"#": 0.0, "kind": "u"}),
    "only colours": Case("", ("#ff0000,{n}", "#00ff00,{n}"), {"column 1": "#ff0000"}),
    "a mark over texts": Case("#,kind", ("a,u", "b,v"), {"#": "a", "kind": "u"}),
    "comments asked for": Case(f"; logger\n{WEATHER}", LOG, OF_LOG, options={"comment": ";"}),
    "a footer": Case(
        WEATHER, LOG, OF_LOG, "at the end left out", foot="\nSource: office, 2021\n* provisional"
    ),
    "a footer without a gap": Case(WEATHER, LOG, OF_LOG, foot="Source: office"),
    "a second table": Case(WEATHER, LOG, OF_LOG, foot="\nid,note\n1,a long text"),
    "totals before the rows": Case(f"{WEATHER}\nTotal,{SUMS}", LOG, OF_LOG, "as a row of totals"),
    "totals kept": Case(
        WEATHER, LOG, OF_LOG, options={"footer": 0}, foot=f"Total,{SUMS}", rows=ROWS + 1
    ),
    "years as names": Case("town,2000,2001,2002", "t{i},{x},{n},{i}", {"2000": X0, "2001": N0}),
    "names asked for": Case(f"a,b,c\n{WEATHER}", LOG, OF_LOG, options={"header": 2}),
    "lines skipped": Case(f"junk,1,2,3,4\nmore\n{WEATHER}", LOG, OF_LOG, options={"skip": 2}),
    "no names, dates": Case(
        "", LOG, {"column 1": DAY("2021-02-01"), "column 2": X0}, "line 1 holds values"
    ),
    "no names, a gap": Case(
        "", ("NA,{x},{n}", *["{x},{x},{n}"] * 39), {"column 2": X0}, "line 1 holds values"
    ),
    "no names, texts": Case(
        "",
        ("{day},{n},low", "{day},{n},high"),
        {"column 2": N0, "column 3": "low"},
        "line 1 holds values",
    ),
    "no names, only texts": Case(
        "", ("red,u", "blue,v"), {"column 1": "red"}, "line 1 holds values"
    ),
    "no names, money": Case("", "$ {n}.50,{x}%", {"column 1": N0 + 0.5}),
    "letters after some": Case(
        "k;x", ("{i};{x}", "{i};{x}", "{i};{x} e", "{i};{x} b"), {"x": X0}, "is read as"
    ),
    "below a limit": Case("k;x", ("{i};{x}", "{i};<0.5", "{i};{x}"), {"x": X0}, "half of a limit"),
    "two units": Case("k;x", ("{i};{x} kg", "{i};{x} g"), {"x": f"{X0:.2f} kg"}, "different units"),
    "few other texts": Case(
        "k;x",
        ("{i};refused", "{i};{n}", "{i};{n}"),
        {"x": np.nan},
        "the first that is not: 'refused' in line 2",
    ),
    "numbers that are scaled": Case(
        "k;x", ("{i};12.5", "{i};{x}K", "{i};{x} million"), {"x": "12.5"}
    ),
    "fractions by type": Case(
        "k;x", "{i};{i} 1/2", {"x": 0.5}, "(a fraction)", {"types": {"x": "number"}}
    ),
    "postcodes": Case(
        "zip;x",
        lambda i: f"{501 + 37 * i:05};{X[i]}",
        {"zip": "00501"},
        "codes with leading zeros",
    ),
    "postcodes as numbers": Case(
        "zip;x",
        lambda i: f"{501 + 37 * i:05};{X[i]}",
        {"zip": 501.0},
        options={"types": {"zip": "number"}},
    ),
    "identifiers": Case(
        "id;x",
        lambda i: f"{7234567890123450060 + i * 987654321};{X[i]}",
        {"id": SKIPPED},
        "identifiers of 19 digits",
    ),
    "identifiers by type": Case(
        "id;x", "{i};{x}", {"id": SKIPPED}, "identifiers", {"types": {"id": "id"}}
    ),
    "numbers as a category": Case(
        "g;x", ("0;{x}", "1;{x}"), {"g": "0"}, options={"types": {"g": "category"}}
    ),
    "days first by type": Case(
        "d;x",
        lambda i: f"{i % 9 + 1:02}/02/2021;{X[i]}",
        {"d": DAY("2021-02-01")},
        options={"types": {"d": "dmy"}},
    ),
    "days or months first": Case(
        "d;x",
        lambda i: f"{i % 9 + 1:02}/02/2021;{X[i]}",
        {"d": DAY("2021-01-02")},
        "the other way round",
    ),
    "days first as elsewhere": Case(
        "d;e",
        lambda i: f"{i % 9 + 1:02}/02/2021;{i % 28 + 1}/3/2021",
        {"d": DAY("2021-02-01"), "e": DAY("2021-03-01")},
    ),
    "boxes that were ticked": Case(
        "k;member", ("{i};Yes", "{i};"), {"member": "Yes"}, "missing is a level"
    ),
    "None as an answer": Case(
        "k;pets",
        ("{i};dog", "{i};None", "{i};cat"),
        {"pets": "dog"},
        "read as missing: 'None' (13); in a category (--types)",
    ),
    "None as a level": Case(
        "k;pets", ("{i};None", "{i};dog"), {"pets": "None"}, "", {"types": {"pets": "category"}}
    ),
    "sodium": Case("k;element", ("{i};Na", "{i};Cl", "{i};K"), {"element": "Na"}),
}

for word in ("Total", "TOTAL:", "Gesamt", "Grand total", "Somme", ""):
    CASES[f"a row of totals: {word}"] = Case(
        WEATHER, LOG, OF_LOG, "left out as a row of totals", foot=f"{word},{SUMS}"
    )

SIGNS = ("p", "*", " mg/l", "\u00b0C", " EUR", " %", "[1]", " years", " m\u00b2")
FORMS = {"{x}" + sign: X0 for sign in SIGNS} | {"~{x}": X0, ">{x}": X0, "<{x}": X0 / 2, "'{x}": X0}
FORMS |= {"{x}-": -X0, "\u2212{x}": -X0, "\u2013{x}": -X0, "({x})": -X0, "{x}E+02": 100 * X0}
CASES |= {f"marked: {form}": Case("k;x", "{i};" + form, {"x": v}) for form, v in FORMS.items()}

GAPS = ("ND", "n.d.", "..", ":", "-", "--", "#N/A", "#DIV/0!", "#REF!", "\\N", "(null)", "N/A")
GAPS += ("N.A.", "missing", "*", ".", "\u2013", "NaN", "?", "NULL", "k.A.", "not available", "None")
for mark in (*GAPS, ": c", "[c]", " "):
    CASES[f"missing: {mark}"] = Case(
        "k;x", ("{i};{x}", "{i};{x}", "{i};" + mark), {"x": X0}, "missing" * bool(mark.strip())
    )

DATES: dict[str, tuple[Callable[[int], str], Any]] = {
    "quarters": (lambda i: f"{1990 + i // 4}Q{i % 4 + 1}", DAY("1990-01-01")),
    "quarters first": (lambda i: f"Q{i % 4 + 1} {1990 + i // 4}", DAY("1990-01-01")),
    "months": (lambda i: f"{2000 + i // 12}-{i % 12 + 1:02}", DAY("2000-01-01")),
    "months first": (lambda i: f"{i % 12 + 1:02}/{2000 + i // 12}", DAY("2000-01-01")),
    "months with M": (lambda i: f"{2000 + i // 12}M{i % 12 + 1:02}", DAY("2000-01-01")),
    "months of digits": (lambda i: f"{2000 + i // 12}{i % 12 + 1:02}", DAY("2000-01-01")),
    "named months": (
        lambda i: f"{('Jan', 'Feb', 'Mar', 'Apr')[i % 4]}-{i // 4 + 10}",
        DAY("2010-01-01"),
    ),
    "days of digits": (lambda i: f"202003{i % 28 + 1:02}", DAY("2020-03-01")),
    "short years": (lambda i: f"{i % 28 + 1:02}.03.21", DAY("2021-03-01")),
    "days of the week": (lambda i: f"Monday, {i % 28 + 1} March 2021", DAY("2021-03-01")),
    "minutes": (lambda i: f"1:{27 + i % 30}.452", 87.452),
    "long minutes": (lambda i: f"{90 + i}:30", 5430.0),
    "hours": (lambda i: f"{i + 1}:20:13", 4813.0),
    "times with points": (lambda i: f"{i % 12 + 8:02}.15.00", 8.25),
}
for name, (text, first) in DATES.items():
    CASES[name] = Case(
        "k;x;y", lambda i, text=text: f"{i};{text(i)};{X[i]}", {"x": first}, "is read as"
    )


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_file_is_read_as_a_person_would(case: Case, tmp_path: Path) -> None:
    """As a whole, and in batches."""
    frame = read_twice(case.write(tmp_path), Reading(**case.options))
    assert frame.rows == case.rows
    for name, value in case.columns.items():
        if value is SKIPPED:
            assert name in frame.skipped
            continue
        found = frame.column(name)[0]
        if isinstance(value, float):
            assert found == pytest.approx(value, nan_ok=True)
        else:
            assert found == value
    assert case.note in " | ".join([*frame.notes.values(), *frame.skipped.values()])


FILLED = "\n".join(f"y{i},{i},3" for i in range(ROWS))

SMALL: dict[str, tuple[str, str, list[Any]]] = {
    "a first row that is too short": (f"name,b,c\nx,1\n{FILLED}", "name", ["x", "y0"]),
    "a second row that is too short": ("a,b,c\n1,2,3\n4,5\n6,7,8", "a", [1, 4]),
    "two and three values": ("a,b,c\nx,2,3\ny,5\nz,7,8\nw", "a", ["x", "y"]),
    "US dates of 2020": (
        "d,x\n" + "\n".join(f"1/{i + 1}/20,{i}" for i in range(28)),
        "d",
        ["2020-01-01", "2020-01-02"],
    ),
    "dates as names": (
        "place,Lat,1/22/20,1/23/20,1/24/20\na,1.5,0,2,9\nb,2.5,3,1,4\nc,3.5,8,8,1",
        "1/22/20",
        [0, 3],
    ),
    "seats": ("s,x\n12A,1\n12B,2\n3A,3\n1B,4", "s", ["12A", "12B"]),
    "dice": ("d,x\n2d6,1\n1d4,2\n3d6,3", "d", ["2d6", "1d4"]),
    "sizes": ("s,x\n20x100,1\n30x105,2\n3x10,3", "s", ["20x100", "30x105"]),
    "addresses": (
        "ip;load\n" + "\n".join(f"192.168.100.{100 + i};1.{125 + i}" for i in range(9)),
        "load",
        [1.125, 1.126],
    ),
    "names and years": ("Alien,1979\nJaws,1975\nHeat,1995", "column 2", [1979, 1975]),
    "one year as a name": ("town,2019\nRome,3.5\nOslo,2.5", "2019", [3.5, 2.5]),
    "few names": ("a,b,,\n1,2,3,4\n5,6,7,8\n9,1,2,3", "b", [2, 6]),
    "errors that begin with #": (
        "# made by x\nprice,qty\n#N/A,5\n3.5,6\n#DIV/0!,7\n2.5,8",
        "qty",
        [5, 6],
    ),
    "colours": ("# colours\nc,n\n#ff0000,1\n#00ff00,2\n#0000ff,3", "c", ["#ff0000", "#00ff00"]),
    "comments in quotes": ('# top\na,b\n"x\n# y",1\nz,2', "a", ["x\n# y", "z"]),
    "braces among units": ("name,a,b\n,{kg},{m^2}\nx,1,2\ny,3,4", "a", [1, 3]),
    "names with spaces": (
        "name        age   w\nJohn Smith  23    70.5\nAnn Lee     31    60.1",
        "name",
        ["John Smith", "Ann Lee"],
    ),
    "names of rows": ("a b c\nr1 2 3 4\nr2 5 6 7", "a", [2, 5]),
    "few numbers among words apart by spaces": (
        "id  school        kind    town  wed\n"
        + "\n".join(f"{i}   {('low', 'high')[i % 2]} school   day    A     No" for i in range(9)),
        "school",
        ["low school", "high school"],
    ),
    "first rows apart by single spaces": (
        "Weights of a channel\n------\nlevel   h(m)     T(K)    P(Pa)\n------\n"
        + "\n".join(f"{i:4} {i * 9:9} {288 - i:9} {20000 - 70 * i:5}" for i in range(99))
        + "\n"
        + "\n".join(f"{i:4}  {i * 9:8}  {189:8}  {5:7}" for i in range(99, 300)),
        "T(K)",
        [288, 287],
    ),
    "units of some columns apart by spaces": (
        "Harbour (north pier)\nEstimates have a * after the value.\n"
        "   yyyy  mm   tmax    af\n              degC    days\n"
        + "\n".join(
            f"   {1990 + i // 12}  {i % 12 + 1:2}   {9 + i / 7:4.1f}    ---" for i in range(36)
        ),
        "tmax",
        [9.0, 9.1],
    ),
    "an index without a name": (
        ",ppm\n2021-01-01,0.3\n2021-01-02,0.5\n2021-01-03,0.2",
        "ppm",
        [0.3, 0.5],
    ),
    "a blank line below the names": (
        "Title: ,\nUntil: ,2021\nPlace,w,x,y, Begin, End\nP1,,9,7,2001,2019,\n\n"
        "Place,Day,Head (cm),Remark\n\n"
        + "\n".join(f"P1,{i + 1}-02-2021,{60 + i},," for i in range(20)),
        "Head (cm)",
        [60, 61],
    ),
    "carets by themselves": ("a^b^c\n1^2^3\n4^5^6", "b", [2, 5]),
    "a last row that sums by chance": ("x,y\n0,0\n1,2\n2,4\n3,6\n6,12", "x", [0, 1]),
    "sparse rows without names": (
        "k,a,b,c,d,e\ny0,0,3\ny1,1,3\n,,,,,good\nx,1,2,3,4,5\n,,,,,bad",
        "e",
        ["", ""],
    ),
    "classes": (
        "income,x\n" + "\n".join(f"{('<=50K', '>50K')[i % 2]},{i}" for i in range(12)),
        "income",
        ["<=50K", ">50K"],
    ),
    "no and numbers": (
        "c,x\n" + "\n".join(f"{('No', 'No', '10')[i % 3]},{i}" for i in range(12)),
        "c",
        ["No", "No"],
    ),
    "eighths": ("x,y\n1.125,1\n2.375,2\n3,3\n1.375,4\n4,5\n2,6", "x", [1.125, 2.375]),
    "versions": ("v,x\n10.2.13,1\n5.15.10,2\n3.1.12,3", "v", ["10.2.13", "5.15.10"]),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_files(name: str, tmp_path: Path) -> None:
    content, column, values = SMALL[name]
    found = read_table(write(tmp_path, content + "\n")).column(column)[:2]
    if isinstance(values[0], str) and found.dtype.kind == "M":
        found = found.astype("M8[D]").astype(str)
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize(
    "lines", [["a,b,c", "x,Rome, Italy,3", FILLED], ["a,b", "1,5,2,5", "2,5,3,5"]]
)
def test_a_row_with_too_many_values(lines: list[str], tmp_path: Path) -> None:
    path = write(tmp_path, "\n".join(lines))
    expected = lines[0].count(",") + 1
    with pytest.raises(
        TableError, match=f"line 2: expected {expected} values as in the header, got 4"
    ):
        read_table(path)


def test_quoted_rows_of_a_large_file(tmp_path: Path) -> None:
    """The first bytes, by which its layout is found, may end within quotes."""
    rows = [f'"text number {i % 9}, with words\nand lines",{i}' for i in range(9000)]
    for shift in (0, 7, 13, 22):
        path = write(tmp_path, "\n".join(["#" * shift + "a,b", *rows, ""]))
        source = of_files(path, Reading())
        assert source.rows == read_table(path).rows == 9000


def test_integers_of_which_the_first_may_be_a_date(tmp_path: Path) -> None:
    rows = [f"{number};{i}" for i, number in enumerate([190010, *range(120000, 150000, 137)])]
    path = write(tmp_path, "\n".join(["id;x", *rows, "n.d.;5"]))
    assert read_table(path).column("id")[:2].tolist() == [190010, 120000]


def test_fixed_width_below_a_description(tmp_path: Path) -> None:
    """Where its lines are blank no column ends: nothing is read that is apart in the rows."""
    prose = [f"{i} of the notes on every one of the columns below at {i} length" for i in range(60)]
    rows = [
        f"{('big boat', 'raft')[i % 2]:<12}{'' if i % 3 else N[i % ROWS]:>7}{X[i % ROWS]:>8.2f}"
        for i in range(250)
    ]
    path = write(tmp_path, "\n".join([*prose, *rows, ""]))
    frame = read_table(path, Reading(skip=60, header=False))
    assert [frame.column(f"column {i}")[0] for i in (1, 2, 3)] == ["big boat", N0, X0]
    frame = read_table(path)
    assert len(frame.columns) == 1
    assert "no character between values was found" in frame.notes[str(path)]


def test_words_among_numbers_are_no_few_odd_texts(tmp_path: Path) -> None:
    letters = "abcdefghij"
    words = ["".join(letters[int(digit)] for digit in f"{i:06}") for i in range(3000)]
    rows = [f"{i if i % 9 < 5 else words[i % 3000]};{i}" for i in range(6000)]
    assert read_table(write(tmp_path, "\n".join(["k;x", *rows]))).is_text("k")


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
