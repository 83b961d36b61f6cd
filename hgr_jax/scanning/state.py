"""The state of a scan that reads its table in parts: sums that add up, in any order."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from jax import Array

from hgr_jax._checks import check_count
from hgr_jax.scanning import state_archive
from hgr_jax.scanning.features import Kernels
from hgr_jax.scanning.plan import Plan, plan_of
from hgr_jax.scanning.result import Scan
from hgr_jax.scanning.size import MEMORY
from hgr_jax.scanning.stream_options import StreamOptions
from hgr_jax.scanning.stream_sums import StreamSums, bytes_of, repaired_plan, spans
from hgr_jax.scanning.streamed_result import scan_of
from hgr_jax.scanning.survey import Survey
from hgr_jax.tables.arrow_columns import NUMBER, TEXT, as_arrow, decoded, kinds_of
from hgr_jax.tables.faults import TableError

BATCH = "the batch"
"""How messages call rows that have no file."""


@dataclasses.dataclass(frozen=True, eq=False)
class ScanState:
    """Sums over the rows of a table, from which all its pairs are estimated.

    A scan needs only sums over rows, and sums add up: take them where the rows are, batch by batch,
    in processes or on machines of your own, merge them in any order, and the result is that of all
    rows.  ``hgr_jax.scan`` of files and other sources that are read batch by batch does that in one
    process.

        state = ScanState.prepare(sample, h=3, k=3)     # levels, bases: fixed from here on
        state = state.update(batch)                     # wherever the batch is
        state = state.merge(other)                      # of the same `prepare`
        state.result()                                  # a `Scan`

    States are frozen: each of these returns a new one.  Products are taken in JAX's default dtype,
    batch by batch, and summed in double precision: the batches in whatever order, grouped in
    whatever way, give the same to 1e-12; other batches of the same rows differ by the rounding of
    their products (float32: some 1e-7).

    Attributes:
      rows: how many have been taken, with those of weight 0.
    """

    _plan: Plan
    _sums: StreamSums | None = None

    @classmethod
    def prepare(
        cls,
        sample: Any,
        *,
        h: int = 5,
        k: int = 5,
        method: str = "kb",
        weights: str | None = None,
        pvalues: str | None = "auto",
        categories: Collection[str] = (),
        memory: int = MEMORY,
    ) -> ScanState:
        """Return a state without rows, from a sample of those to come.

        The sample fixes which columns are numbers and which categories, the levels of these (in the
        rows to come any other text is of the level ``"(other levels)"``), polynomials that are
        orthonormal on it, and the map to ranks.  It should have some thousand rows, drawn at
        random; it is no part of the sums.

        Args:
          sample: a matrix of numbers, a mapping of names to columns, or a frame that Arrow can read
            (pyarrow, pandas, polars).
          h, k: degrees, as of `hgr_jax.scan`.
          method: ``"kb"`` or ``"sk"``, the latter with ``pvalues=None``.
          weights: name of the column of the observation weights.
          pvalues: ``"auto"`` or None; without, there are no ranks, at half the cost.
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
          0.86 3000
        """
        table = as_arrow(sample)
        if not table.num_rows:
            raise ValueError("sample must have rows; got none.")
        kinds = kinds_of(table.schema)
        known = {name: kind or NUMBER for name, kind in kinds.items() if kind is not None}
        options = StreamOptions(
            h, k, method, weights=weights, pvalues=pvalues, categories=categories, memory=memory
        )
        options.check(known, list(kinds))
        survey = Survey(known, categories=categories, weights=weights, sample_rows=table.num_rows)
        survey.update(decoded(table, known, BATCH), BATCH)
        return cls.of_survey(survey, options, exact=False).in_order(list(kinds))

    @classmethod
    def of_survey(cls, survey: Survey, options: StreamOptions, *, exact: bool) -> ScanState:
        """Return a state without rows, from a first pass; ``exact`` if it has seen all rows."""
        if not survey.counted:
            raise TableError("the table has no rows (of positive weight)")
        kernels = Kernels(options.h, options.k, options.method == "sk")
        plan = plan_of(survey, kernels, tested=options.pvalues is not None, exact=exact)
        if not plan.numbers and not plan.levels:
            reasons = "; ".join(f"{name!r}: {why}" for name, why in [*plan.skipped.items()][:3])
            raise TableError(f"no column of the table can be used: {reasons}")
        need = bytes_of(plan)
        memory = check_count("memory", options.memory, 2**20)
        if need > memory:
            raise ValueError(
                f"the sums of {len(plan.numbers) + len(plan.levels):,} columns take"
                f" {need / 2**20:,.0f} MB, and memory is {memory / 2**20:,.0f} MB: allow more"
                " (memory=), or take lower degrees or fewer columns."
            )
        return cls(plan)

    def in_order(self, names: Sequence[str]) -> ScanState:
        """Return this state with all columns in order; those it does not know cannot be used."""
        plan = self._plan
        unknown = [name for name in names if name not in plan.kinds and name != plan.weights]
        skipped = {**plan.skipped, **dict.fromkeys(unknown, "neither numbers nor text")}
        kinds = {name: plan.kinds.get(name, TEXT) for name in names if name != plan.weights}
        return ScanState(dataclasses.replace(plan, skipped=skipped, kinds=kinds))

    @property
    def parts(self) -> tuple[Plan, StreamSums | None]:
        """What is summed, and the sums."""
        return self._plan, self._sums

    @property
    def rows(self) -> int:
        """The number of rows that have been taken, with those of weight 0."""
        return 0 if self._sums is None else self._sums.seen

    @property
    def columns(self) -> dict[str, str]:
        """The columns that `update` reads, and what each holds."""
        return self._plan.read

    def update(self, batch: Any, *, name: str = BATCH) -> ScanState:
        """Return the state with the rows of a batch.

        Args:
          batch: as the sample of `prepare`; other columns than that has are ignored.
          name: of the batch, for messages.

        Raises:
          TypeError, ValueError: for what is no table, lacks a column or has one of another kind,
            and for negative weights.
        """
        table = as_arrow(batch)
        if not table.num_rows:
            return self
        sums = StreamSums.of(self._plan, decoded(table, self.columns, name), name)
        return dataclasses.replace(self, _sums=sums if self._sums is None else self._sums + sums)

    def merge(self, other: ScanState) -> ScanState:
        """Return the state with the rows of both.

        Raises:
          TypeError: for what is no state.  ValueError: if they are not of the same `prepare`.
        """
        if not isinstance(other, ScanState):
            raise TypeError(f"other must be a ScanState; got {type(other).__name__}.")
        if self._plan is not other._plan and not state_archive.same_plan(self._plan, other._plan):
            raise ValueError(
                "states can be merged if they come from the same prepare (or from files of such);"
                " these do not."
            )
        if self._sums is None or other._sums is None:
            return self if other._sums is None else other
        return dataclasses.replace(self, _sums=self._sums + other._sums)

    @property
    def well_conditioned(self) -> bool:
        """Whether the sample was enough: the bases are near-orthonormal on the rows too."""
        return self._sums is None or not spans(self._plan, self._sums)[1].any()

    def repaired(self) -> ScanState:
        """Return a state without rows whose bases suit those of this one: take the rows again.

        For where it is not `well_conditioned`: the rows have values far beyond those of the sample.
        """
        if self._sums is None:
            return self
        return ScanState(repaired_plan(self._plan, self._sums))

    def result(
        self,
        *,
        target: str | int | Sequence[str | int] | None = None,
        permutations: int = 999,
        key: Array | None = None,
        memory: int = MEMORY,
    ) -> Scan:
        """Return the scan of the rows that have been taken.

        Values, counts and |Pearson| are those of all rows; ``rank_correlation`` and ``spearman``
        are of ranks by the sample.  P-values are by the law of ranks that `hgr_jax.scan` takes for
        columns that are missing in many different rows, where it can be trusted, else
        (``"sampled permutation"``) by permutations of up to 16,384 rows of the sample.  Pairs whose
        rows leave a basis ill conditioned have no value, and a note says so.  `Scan.fit`,
        `Scan.values` and pictures are of the rows of the sample.

        Args:
          target, permutations, key: as of `hgr_jax.scan`.
          memory: bytes for permutations.

        Raises:
          ValueError: if there are no rows yet.
        """
        return scan_of(
            self._plan,
            self._sums,
            target=target,
            permutations=permutations,
            key=key,
            memory=memory,
        )

    def save(self, path: str | Path) -> None:
        """Keep the state in one file (NumPy's ``.npz``, without pickle)."""
        state_archive.write_state(path, self._plan, self._sums)

    @classmethod
    def load(cls, path: str | Path) -> ScanState:
        """Load a state that was kept by `save`.

        Raises:
          FileNotFoundError: if there is no such file.
          ValueError: for a file that is none of a state.
        """
        return cls(*state_archive.read_state(path)[:2])

    def __repr__(self) -> str:
        used = len(self._plan.numbers) + len(self._plan.levels)
        return f"ScanState({self.rows:,} rows, {used} columns)"
