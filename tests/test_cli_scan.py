"""``hgr-jax scan``: what it prints and writes, its page in a browser, and its line for faults."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from cli_scan_support import Command, refusal, run

import hgr_jax
from hgr_jax import Scan
from hgr_jax.cli.outputs import WRITTEN

SCRIPT = "<script>alert(1)</script>"


MONEY = "cost in $ per $"


def columns(rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    speed, noise, money = rng.uniform(-1, 1, (3, rows))
    drag = speed**2 + 0.1 * noise
    return {
        "speed": speed,
        "drag": drag,
        SCRIPT: noise - speed,
        MONEY: money,
        "kind": np.where(drag > 0.3, "fast", "slow").astype(object),
        "planet": np.full(rows, 3),
    }


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What a scan of a CSV file with all that a file may hold prints, and where it writes."""
    folder = tmp_path_factory.mktemp("scan")
    table = pd.DataFrame(columns(300))
    table.loc[::20, "drag"] = np.nan
    table.loc[::30, "kind"] = None
    table.loc[7, MONEY] = np.inf
    table.loc[11, SCRIPT] = np.nan
    table.to_csv(folder / "t.csv", index=False, na_rep="NA")
    options = ("--h", "2", "--k", "2", "--top", "4", "--sort", "rank_excess")
    done = run("scan", "t.csv", *options, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")  # no bar, as it is no terminal
    return done.stdout, folder / "hgr-jax-scan"


def listed(printed: str) -> list[str]:
    """The lines of the ranked table."""
    return printed.partition("\nPairs by ")[2].split("\n\n")[1].splitlines()[1:]


def entries(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


def test_what_is_printed(ran: tuple[str, Path]) -> None:
    said, _ = ran
    assert said.startswith(
        "t.csv: 10 pairs of 5 columns, 300 rows, polynomials of degree 2 and 2\n"
        "skipped: planet: every value that is present is 3\n"
        "note: kind: read as missing: 'NA' (10); in a category (--types) they are levels\n"
        "note: t.csv: read as missing: 'NA' (16 in 2 columns)\n"
        f"note: {MONEY}: 1 infinite value counted as missing\n"
    )
    lines = listed(said)
    assert [line.split()[0] for line in lines] == ["1", "2", "3", "4"]
    first = entries(lines[0])
    assert first[1:3] == ["speed", "drag"]
    kb, hgr, spearman, pearson = map(float, first[3:7])
    assert min(kb, hgr) > 0.9 > 0.2 > max(spearman, pearson)
    assert (first[7], first[8]) == ("<1e-12", "285")
    # That one is fast at both ends shows beyond its mean ranks; of drag, they are all.
    assert entries(lines[1])[1:3] == ["speed", "kind"]
    with_a_category = entries(next(line for line in lines if "kind" in line))
    assert with_a_category[5:7] == ["-", "-"]  # |Spearman| and |Pearson|
    assert any(SCRIPT in line for line in lines)
    assert "nan" not in said.lower()
    for name in ("pairs.csv", "report.html"):
        assert str(Path("hgr-jax-scan") / name) in said


def test_what_is_written(ran: tuple[str, Path]) -> None:
    said, folder = ran
    assert {path.name for path in folder.iterdir()} == set(WRITTEN["scan"])
    from_csv = pd.read_csv(folder / "pairs.csv", keep_default_na=False, na_values=[""])
    from_parquet = pd.read_parquet(folder / "pairs.parquet")
    without = from_csv.drop(columns="remark")  # empty texts are missing in CSV
    pd.testing.assert_frame_equal(without, from_parquet.drop(columns="remark"))
    assert (from_parquet.remark != "").sum() == from_csv.remark.notna().sum()
    kept = Scan.load(folder / "scan.npz")
    examined = ["low", "high", "remark"]  # what a loaded scan, without data, does not know
    pd.testing.assert_frame_equal(
        kept.to_frame().drop(columns=examined), from_csv.drop(columns=examined)
    )
    first = from_csv.iloc[0]
    assert 0.9 < first.low <= first.rank_correlation <= first.high
    assert len(from_csv) == len(kept) == 10
    assert kept.skipped == {"planet": "every value that is present is 3"}
    assert (kept.settings["h"], kept.settings["rows"]) == (2, 300)
    shown = [entries(line)[3:5] for line in listed(said)]
    expected = from_csv.head(4)[["correlation", "rank_correlation"]]
    np.testing.assert_allclose(np.array(shown, float), expected, atol=5e-4)
    # They are those of the library.
    speed, drag = (columns(300)[name][np.arange(300) % 20 != 0] for name in ("speed", "drag"))
    with jax.enable_x64(True):
        exact = float(hgr_jax.kb(speed, drag, 2, 2))
    assert kept["speed", "drag"].correlation == pytest.approx(exact)


def test_options_on_a_parquet_file(folder: Path, command: Command) -> None:
    table = columns(15)
    data = pd.DataFrame({name: table[name] for name in ("speed", "drag", MONEY)})
    data = data.assign(level=np.arange(15) % 3, far=np.exp(40 * data.speed))
    data.to_parquet("t.parquet")
    said = command(
        *("scan", "t.parquet", "--target", MONEY, "--target", "far"),
        *("--categories", "level", "--sort", "pvalue", "--top", "2", "--h", "2", "--k", "2"),
        *("--permutations", "99", "--seed", "7", "--fdr", "by", "--out", "some/where"),
    )
    assert (said.status, said.err) == (0, "")
    assert "t.parquet: 7 pairs of 5 columns, 15 rows" in said.out
    assert "of degree 2 and 2" in said.out
    assert "Pairs by smallest p-value" in said.out
    first, _ = listed(said.out)
    assert first.split()[1:3] == ["speed", "far"]  # of the same order
    assert not (folder / "hgr-jax-scan").exists()
    assert {path.name for path in (folder / "some/where").iterdir()} == set(WRITTEN["scan"])

    kept = Scan.load("some/where/scan.npz")
    frame = kept.to_frame(by="pvalue").drop(columns=["low", "high", "remark"])
    written = pd.read_parquet("some/where/pairs.parquet")
    pd.testing.assert_frame_equal(frame, written[frame.columns])
    assert all({MONEY, "far"} & {a, b} for a, b in zip(frame.a, frame.b, strict=True))
    assert set(frame.pvalue_source) == {"rank", "permutation"}
    assert np.isnan(kept.pearson[kept.names.index("level")]).all()
    same = {"h": 2, "k": 2, "target": [MONEY, "far"], "categories": ["level"]}

    def tested(seed: int) -> Scan:
        test = hgr_jax.Test(permutations=99, key=jax.random.key(seed), fdr="by")
        return hgr_jax.scan(data, **same, test=test)

    with jax.enable_x64(True):
        again, other = tested(7), tested(8)
    np.testing.assert_array_equal(kept.pvalue, again.pvalue)
    np.testing.assert_array_equal(kept.adjusted_pvalue, again.adjusted_pvalue)
    assert not np.array_equal(again.pvalue, other.pvalue, equal_nan=True)


def test_given_columns(folder: Path, command: Command) -> None:
    table = columns(60)
    data = {name: table[name] for name in ("speed", "drag", MONEY)}
    data |= {"level": np.array(["a", "b", "c"] * 20), "far": table["speed"] ** 2}
    pd.DataFrame(data).to_csv("t.csv", index=False)
    options = ("--h", "2", "--k", "2", "--permutations", "99", "t.csv")
    said = command("scan", "--given", "level", "--given", "speed", *options)
    assert (said.status, said.err) == (0, "")
    assert "of degree 2 and 2, given level, speed\nskipped: " in said.out
    assert "skipped: speed, level: it is given\n" in said.out
    kept = Scan.load("hgr-jax-scan/scan.npz")
    test = hgr_jax.Test(permutations=99)
    with jax.enable_x64(True):
        again = hgr_jax.scan(data, h=2, k=2, given=["speed", "level"], test=test)
    np.testing.assert_array_equal(kept.correlation, again.correlation)
    np.testing.assert_array_equal(kept.pvalue, again.pvalue)
    assert np.isnan(again.correlation[again.names.index("far"), again.names.index(MONEY)])
    assert '"given","speed, level"' in Path("hgr-jax-scan/report.html").read_text()
    said = refusal(command, "scan", "--given", "mass", "--force", *options)
    assert "given 'mass' is not a column; there are speed, drag" in said
    # Of chosen columns, those that are given need not be named twice.
    chosen = ("--columns", "drag", "far", "--given", "level", "--given", "level", "--force")
    said = command("scan", "t.csv", *options[:-1], *chosen)
    assert "1 pair of 2 columns, 60 rows, polynomials of degree 2 and 2, given level\n" in said.out


def test_nothing_to_scan(folder: Path, command: Command) -> None:
    lines = [f"1,x,,name {i},{i}" for i in range(20)]
    (folder / "t.csv").write_text("\n".join(["one,same,none,name,number", *lines, ""]))
    said = command("scan", "t.csv", "--out", "out")
    assert (said.status, said.err) == (0, "")
    assert "0 pairs of 1 column, 20 rows" in said.out
    for reason in (
        "one: every value that is present is 1",
        "same: every value that is present is 'x'",
        "none: no value is present",
        "name: names or identifiers: 20 different texts in 20 rows",
    ):
        assert f"skipped: {reason}\n" in said.out
    assert "no pair of columns is left to scan" in said.out
    written = {path.name for path in (folder / "out").iterdir()}
    assert written == set(WRITTEN["scan"])
    assert len(pd.read_csv("out/pairs.csv")) == len(Scan.load("out/scan.npz")) == 0
    assert "name: text" not in (folder / "out" / "report.html").read_text()  # but as two texts
    assert "20 different texts in 20 rows" in (folder / "out" / "report.html").read_text()


def test_findings_for_programs(folder: Path, command: Command) -> None:
    rng = np.random.default_rng(3)
    x, noise = rng.normal(size=(2, 90))
    table = pd.DataFrame({"x": x, "y": x**2 + 0.2 * noise, "one": 1.0, "z": noise})
    table.loc[60:, "y"] = None
    table.to_csv("t.csv", index=False)
    said = command("scan", "t.csv", "--json")
    assert (said.status, said.err) == (0, "")
    found = json.loads(said.out)
    assert {found["not_monotone"][0][side] for side in "ab"} == {"x", "y"}
    assert found["skipped"] == {"one": "every value that is present is 1"}
    assert (found["rows"], found["settings"]["measure"]) == (90, "hgr")
    assert str(Path("hgr-jax-scan/report.html")) in found["files"]
    # x and y share 60 rows.
    said = command("scan", "t.csv", "--json", "--force", "--min-rows", "61")
    found = json.loads(said.out)
    assert found["not_monotone"] == []
    assert found["few_rows"] == 2  # y and z too
    said = command("scan", "t.csv", "--force", "--top", "1")
    assert said.out.split("Strongest\n")[1].split("\n\n")[0].count("\n") == 2


def test_a_pair_given_others(folder: Path, command: Command) -> None:
    rng = np.random.default_rng(4)
    z, *noise = rng.normal(size=(3, 200))
    table = {"x": z + 0.3 * noise[0], "y": z + 0.3 * noise[1], "z": z}
    table["kind"] = np.array(list("abc"))[rng.integers(0, 3, 200)]
    pd.DataFrame(table).to_csv("t.csv", index=False)
    alone = command("pair", "t.csv", "x", "y", "--out", "p").out
    assert float(alone.split("HGR  ")[1].split()[0]) > 0.8
    assert "mean of y, with its standard error, given x:" in alone
    assert "most influential row: " in alone
    given = command("pair", "t.csv", "x", "y", "--given", "z", "--given", "kind", "--out", "p")
    assert given.status == 0
    assert float(given.out.split("HGR  ")[1].split()[0]) < 0.4
    assert "given z, kind" in given.out
    assert "of independence given z, kind" in given.out
