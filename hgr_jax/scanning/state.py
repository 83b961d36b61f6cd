"""`ScanState`: a plan with its sums over some rows, which can be merged and saved."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jax import Array
from numpy.typing import NDArray

from hgr_jax._archive import load_archive, save_archive
from hgr_jax.core.host.polynomials import Polynomials
from hgr_jax.scanning.bases import BasisMaps
from hgr_jax.scanning.batches import (
    BatchSums,
    BatchTable,
    Reader,
    assess_bases,
    bytes_of_sums,
    repaired_plan,
)
from hgr_jax.scanning.consumers import scan_first_pairs
from hgr_jax.scanning.features import Kernels
from hgr_jax.scanning.pairs import PairSelection
from hgr_jax.scanning.plan import Plan, RankMap, plan_of
from hgr_jax.scanning.request import MEMORY, Execution, Request, Test, dtype_of_sums, request_of
from hgr_jax.scanning.result import Scan
from hgr_jax.scanning.run import scan_pairs
from hgr_jax.scanning.sums import TileSums
from hgr_jax.scanning.survey import Survey
from hgr_jax.tables.arrow_columns import (
    NUMBER,
    as_arrow,
    decoded,
    kinds_of,
    null_missing_texts,
)
from hgr_jax.tables.faults import TableError, printable

BATCH = "the batch"
"""Name in messages of rows that are from no file."""

PLAN_SETTINGS = (
    *("kinds", "skipped", "notes", "numbers", "levels", "with_missing", "weights", "heaviest"),
    *("tested", "expected"),
)
PLAN_ARRAYS = ("center", "exponent", "patterns")
SUM_ARRAYS = ("rows", "weights", "squares", "unseen")

ArraysByName = dict[str, NDArray[Any]]


@dataclasses.dataclass(frozen=True, eq=False)
class ScanState:
    """Sums over the rows of a table, from which all its pairs are estimated.

    A scan needs only sums over rows, and sums add up: update states batch by batch, in processes or
    on machines of your own, merge them in any order, and the result is the scan of all rows.
    ``hgr_jax.scan`` of files and other sources that are read batch by batch does so in one process.

        state = ScanState.prepare(sample, h=3, k=3)     # levels, bases: fixed from here on
        state = state.update(batch)                     # wherever the batch is
        state = state.merge(other)                      # of the same `prepare`
        state.result()                                  # a `Scan`

    States are frozen: each method returns a new one.  Products are computed in JAX's default dtype,
    batch by batch, and summed in double precision: the order and grouping of batches change results
    by less than 1e-12, other batches of the same rows by the rounding of products (float32: some
    1e-7).

    Attributes:
      rows: number of rows so far, including rows of weight 0.
    """

    _plan: Plan
    _sums: BatchSums | None = None

    @classmethod
    def prepare(
        cls,
        sample: Any,
        *,
        h: int | None = None,
        k: int | None = None,
        measure: str | None = None,
        weights: str | None = None,
        test: str | None = "auto",
        categories: Collection[str] = (),
        memory: int = MEMORY,
    ) -> ScanState:
        """Prepare a state without rows, from a sample of the rows to come.

        The sample decides which columns are numbers or categories, the levels of categories (any
        other text to come has the level ``"(other levels)"``), polynomials that are orthonormal on
        the sample, and maps to ranks.  It should have some thousand rows, drawn at random; it is
        not part of the sums.

        Args:
          sample: a matrix of numbers, a mapping of names to columns, or a frame that Arrow can read
            (pyarrow, pandas, polars).
          h, k: degrees, as of `hgr_jax.scan`.
          measure: ``"hgr"``, ``"kb"`` or ``"sk"``, as of `hgr_jax.scan`.
          weights: name of the column of the observation weights.
          test: ``"auto"`` or None; without, there are no ranks, at half the cost.
          categories: names of numeric columns to read as categories.
          memory: bytes that the sums may take.

        Raises:
          TypeError, ValueError: for options other than these, a sample that is no table or of which
            no column can be used, and more columns than ``memory`` allows.

        Example:
          >>> import numpy as np, hgr_jax
          >>> x = np.random.default_rng(0).normal(size=(3000, 2))
          >>> x[:, 1] += x[:, 0] ** 2
          >>> empty = hgr_jax.ScanState.prepare(x[:1000])
          >>> one, other = empty.update(x[:1000]), empty.update(x[1000:])
          >>> found = one.merge(other).result()
          >>> print(f"{found.correlation[0, 1]:.2f} {found.n_obs[0, 1]}")
          0.93 3000
        """
        table = null_missing_texts(as_arrow(sample))
        if not table.num_rows:
            raise ValueError("sample must have rows; got none.")
        kinds = kinds_of(table.schema)
        readable = {name: kind or NUMBER for name, kind in kinds.items() if kind is not None}
        request = request_of(
            h,
            k,
            measure,
            weights=weights,
            test=test,
            categories=categories,
            execution=Execution(memory),
        )
        request.refuse_batches("a state", "has sums only")
        if request.test is not None and request.test.kind != "auto":
            raise ValueError(f"test must be 'auto' or None; got {request.test.kind!r}.")
        check_batches(request, readable, list(kinds))
        survey = Survey(
            readable,
            categories=request.categories.names,
            weights=weights,
            sample_rows=table.num_rows,
            names=list(kinds),
        )
        survey.update(decoded(table, readable, BATCH), BATCH)
        return cls.of_survey(survey, request, exact=False)

    @classmethod
    def of_survey(cls, survey: Survey, request: Request, *, exact: bool) -> ScanState:
        """Make a state without rows from a survey, which is of all rows if ``exact``."""
        if not survey.counted:
            raise TableError("the table has no rows (of positive weight)")
        kernels, tested = request.measure.kernels, request.test is not None
        missing_level = request.categories.missing_level
        plan = plan_of(survey, kernels, tested=tested, exact=exact, missing_level=missing_level)
        if not plan.numbers and not plan.levels:
            reasons = "; ".join(f"{name!r}: {why}" for name, why in [*plan.skipped.items()][:3])
            raise TableError(f"no column of the table can be used: {reasons}")
        PairSelection.of(request, plan.names, plan.skipped)  # before hours of work
        need, memory = bytes_of_sums(plan), request.execution.memory
        if need > memory:
            raise ValueError(
                f"the sums of {len(plan.numbers) + len(plan.levels):,} columns take"
                f" {need / 2**20:,.0f} MB, and memory is {memory / 2**20:,.0f} MB: allow more"
                " (memory=), or take lower degrees or fewer columns."
            )
        return cls(plan)

    @property
    def parts(self) -> tuple[Plan, BatchSums | None]:
        """The plan and the sums."""
        return self._plan, self._sums

    @property
    def rows(self) -> int:
        """The number of rows so far, including rows of weight 0."""
        return 0 if self._sums is None else self._sums.seen

    @property
    def columns(self) -> dict[str, str]:
        """The columns that `update` reads, and what each holds."""
        return self._plan.read

    def update(self, batch: Any, *, name: str = BATCH) -> ScanState:
        """Add the rows of a batch.

        Args:
          batch: as the sample of `prepare`; other columns than that has are ignored.
          name: of the batch, for messages.

        Raises:
          TypeError, ValueError: for what is no table, lacks a column or has one of another kind,
            and for negative weights.
        """
        table = null_missing_texts(as_arrow(batch))
        if not table.num_rows:
            return self
        sums = BatchSums.of(self._plan, decoded(table, self.columns, name), name)
        return dataclasses.replace(self, _sums=sums if self._sums is None else self._sums + sums)

    def merge(self, other: ScanState) -> ScanState:
        """Add the rows of another state.

        Raises:
          TypeError: for what is no state.  ValueError: if they are not of the same `prepare`.
        """
        if not isinstance(other, ScanState):
            raise TypeError(f"other must be a ScanState; got {type(other).__name__}.")
        if self._plan is not other._plan and not same_plan(self._plan, other._plan):
            raise ValueError(
                "states can be merged if they come from the same prepare (or from files of such);"
                " these do not."
            )
        if self._sums is None or other._sums is None:
            return self if other._sums is None else other
        return dataclasses.replace(self, _sums=self._sums + other._sums)

    @property
    def well_conditioned(self) -> bool:
        """Whether the bases, fitted to the sample, are near-orthonormal on the rows too."""
        return self._sums is None or not assess_bases(self._plan, self._sums)[1].any()

    def repaired(self) -> ScanState:
        """Return a state without rows whose bases fit the rows of this one: add the rows again.

        For a state that is not `well_conditioned`, as its rows lie far beyond the sample.
        """
        if self._sums is None:
            return self
        return ScanState(repaired_plan(self._plan, self._sums))

    def result(
        self,
        *,
        target: Any = None,
        among: Any = None,
        permutations: int = 999,
        key: Array | None = None,
        memory: int = MEMORY,
    ) -> Scan:
        """Return the scan of the rows so far.

        Values, counts and |Pearson| are of all rows; ``rank_correlation`` and ``spearman`` are of
        ranks by the sample.  P-values are by ranks within each column, where their law can
        be trusted, else (``"sampled permutation"``) by permutations of up to 16,384 rows of the
        sample.  Pairs whose rows leave a basis ill conditioned have no value, and a note says so.
        `Scan.fit`, `Scan.values` and pictures are of the rows of the sample.

        Args:
          target, among, permutations, key: as of `hgr_jax.scan`.
          memory: bytes for permutations.

        Raises:
          ValueError: if there are no rows yet.
        """
        plan, kernels = self._plan, self._plan.kernels
        request = request_of(
            kernels.h,
            kernels.k,
            "hgr" if kernels.ranked else "sk" if kernels.single else "kb",
            target=target,
            among=among,
            weights=plan.weights,
            test=Test("auto", permutations, key) if plan.tested else None,
            execution=Execution(memory),
        )
        return self.scan_of(request)

    def scan_of(self, request: Request, reader: Reader | None = None) -> Scan:
        """Return the scan of a request; ``reader`` reads rows again, None if they cannot be."""
        if self._sums is None:
            raise ValueError("this state has no rows yet: update it first.")
        table = BatchTable(self._plan, self._sums, request, reader)
        return scan_pairs(table) if request.top is None else scan_first_pairs(table, request.top)

    def save(self, path: str | Path) -> None:
        """Save the state in one file (NumPy's ``.npz``, without pickle)."""
        write_state(path, self)

    @classmethod
    def load(cls, path: str | Path) -> ScanState:
        """Load a state from a file of `save`.

        Raises:
          FileNotFoundError: if there is no such file.
          ValueError: for a file that does not hold a state.
        """
        return read_state(path)[0]

    def __repr__(self) -> str:
        used = len(self._plan.numbers) + len(self._plan.levels)
        return f"ScanState({self.rows:,} rows, {used} columns)"


def check_batches(request: Request, kinds: Mapping[str, str], names: Sequence[str]) -> None:
    """Raise for options that do not suit a table of such columns, before hours of work.

    Args:
      request: the options.
      kinds: of the columns that are read, by name.
      names: of all columns, in order.
    """
    unknown = sorted(set(request.categories.names) - set(kinds))
    if unknown:
        raise ValueError(f"categories name no column of the table: {unknown}.")
    weights = request.weights
    if weights is not None:
        if not isinstance(weights, str):
            raise TypeError(
                "weights of a table that is read batch by batch must be the name of a column; got"
                f" {type(weights).__name__}."
            )
        if kinds.get(weights) != NUMBER:
            raise ValueError(
                f"weights must name a column of numbers; {printable(weights)!r} is"
                f" {kinds.get(weights) or 'no column'}."
            )
    PairSelection.of(request, [name for name in names if name != weights], {})


def write_state(path: str | Path, state: ScanState, about: Mapping[str, Any] | None = None) -> None:
    """Save a state in a file, with further settings ``about`` it."""
    plan, sums = state.parts
    settings = {"seen": None if sums is None else sums.seen, "about": dict(about or {})}
    arrays = _arrays_of_plan(plan) | ({} if sums is None else _arrays_of_sums(sums))
    save_archive(path, "state of a scan", settings, arrays)


def read_state(path: str | Path) -> tuple[ScanState, dict[str, Any]]:
    """Read a state, and the further settings ``about`` it.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: for a file that does not hold a state.
    """
    settings, arrays = load_archive(path, "state of a scan")
    try:
        plan = _plan_of_arrays(arrays)
        _check_plan(plan)
        sums = None
        if settings["seen"] is not None:
            sums = _sums_of_arrays(arrays, int(settings["seen"]))
            _check_sums(plan, sums)
        return ScanState(plan, sums), dict(settings["about"])
    except Exception as error:  # of whatever is in it
        raise ValueError(
            f"{printable(str(path))} does not hold the state of a scan: {error}"
        ) from error


def same_plan(one: Plan, other: Plan) -> bool:
    """Return whether two plans are equal, so that their sums add up."""
    first, second = _arrays_of_plan(one), _arrays_of_plan(other)
    return first.keys() == second.keys() and all(
        first[name].shape == second[name].shape
        and np.array_equal(first[name], second[name], first[name].dtype.kind == "f")
        for name in first
    )


def _arrays_of_plan(plan: Plan) -> ArraysByName:
    settings = {name: getattr(plan, name) for name in PLAN_SETTINGS}
    settings |= {
        "dtype": str(plan.dtype),
        "kernels": list(dataclasses.astuple(plan.kernels)),
        "sample": list(plan.sample),
        "maps": len(plan.maps),
    }
    plain = {n: dict(v) if isinstance(v, Mapping) else v for n, v in settings.items()}
    arrays: ArraysByName = {"plan": np.array(json.dumps(plain))}
    arrays |= {name: getattr(plan, name) for name in PLAN_ARRAYS}
    for field in dataclasses.fields(Polynomials):
        arrays[f"values.{field.name}"] = getattr(plan.values, field.name)
    arrays["sample"] = np.stack(list(plan.sample.values()))
    for place, each in enumerate(plan.maps):
        arrays[f"map.{place}"] = np.stack([each.values, each.ranks])
    for kind, basis in (("ranks", plan.ranks), ("repair", plan.repair)):
        if basis is not None:
            arrays |= {f"{kind}.{name}": part for name, part in basis._asdict().items()}
    return arrays


def _plan_of_arrays(arrays: ArraysByName) -> Plan:
    settings = json.loads(str(arrays["plan"]))
    if settings["dtype"] != str(dtype_of_sums()):
        raise ValueError(
            f"its products are of {settings['dtype']}, and JAX's default dtype is"
            f" {dtype_of_sums()} now (jax_enable_x64)"
        )
    fields = [field.name for field in dataclasses.fields(Polynomials)]
    bases = {
        kind: BasisMaps(*(arrays[f"{kind}.{name}"] for name in BasisMaps._fields))
        for kind in ("ranks", "repair")
        if f"{kind}.maps" in arrays
    }
    plain: dict[str, Any] = {name: settings[name] for name in PLAN_SETTINGS}
    plain |= {name: tuple(settings[name]) for name in ("numbers", "with_missing")}
    plain["levels"] = {name: tuple(levels) for name, levels in settings["levels"].items()}
    plain |= {name: arrays[name] for name in PLAN_ARRAYS}
    return Plan(
        **plain,
        kernels=Kernels(*settings["kernels"]),
        sample=dict(zip(settings["sample"], arrays["sample"], strict=True)),
        maps=tuple(RankMap(*arrays[f"map.{place}"]) for place in range(settings["maps"])),
        values=Polynomials(*(arrays[f"values.{name}"] for name in fields)),
        ranks=bases["ranks"],
        repair=bases.get("repair"),
    )


def _arrays_of_sums(sums: BatchSums) -> ArraysByName:
    arrays = {f"sums.{name}": getattr(sums, name) for name in SUM_ARRAYS}
    for kind in ("values", "ranks"):
        for name, tile in getattr(sums, kind).items():
            parts = {"cross": tile.cross} | {f"own{i}": own for i, own in enumerate(tile.own)}
            arrays |= {f"{kind}:{name}:{part}": array for part, array in parts.items()}
    return arrays


def _sums_of_arrays(arrays: ArraysByName, seen: int) -> BatchSums:
    tiles: dict[str, dict[str, TileSums]] = {"values": {}, "ranks": {}}
    for key in arrays:
        kind, name, part = (*key.split(":"), "", "")[:3]
        if part == "cross":
            own = [f"{kind}:{name}:own{i}" for i in range(2)]
            own_moments = tuple(arrays[each] for each in own if each in arrays)
            tiles[kind][name] = TileSums(arrays[key], own_moments)
    counts: dict[str, Any] = {name: arrays[f"sums.{name}"] for name in SUM_ARRAYS}
    return BatchSums(seen, **counts, values=tiles["values"], ranks=tiles["ranks"])


def _check_plan(plan: Plan) -> None:
    """Check that the arrays of a plan have the shapes and kinds of its columns."""
    numbers, columns = len(plan.numbers), len(plan.numbers) + len(plan.levels)
    if not {*plan.numbers, *plan.levels} <= plan.kinds.keys():
        raise ValueError("columns are used that the table does not have")
    if len(plan.maps) != (numbers if plan.sums_ranks else 0):
        raise ValueError(f"it has {len(plan.maps)} maps to ranks of {numbers} columns")
    for name, array, kind, size in (
        ("center", plan.center, "f", numbers),
        ("exponent", plan.exponent, "i", numbers),
        ("patterns", plan.patterns, "i", columns),
    ):
        if array.shape != (size,) or array.dtype.kind != kind:
            raise ValueError(f"{name} has shape {array.shape} and dtype {array.dtype}")


def _check_sums(plan: Plan, sums: BatchSums) -> None:
    """Check that sums have the shapes of their plan."""
    count = plan.layout().count
    for name in ("rows", "weights", "squares"):
        if getattr(sums, name).shape != (count, count):
            raise ValueError(f"{name} has shape {getattr(sums, name).shape}")
    for kind, tiles in (("values", sums.values), ("ranks", sums.ranks)):
        for name, tile in tiles.items():
            for array in (tile.cross, *tile.own):
                if array.dtype != np.float64 or not np.isfinite(array).all():
                    raise ValueError(f"{kind} of {name} are no finite numbers")
