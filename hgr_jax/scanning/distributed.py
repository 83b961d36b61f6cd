"""Scans of tables that lie in parts on the machines of a cluster, whatever its engine.

Each of the `passes` is made where the rows are; what the parts give is added up in their order, so
that the result is the same however they are shared out, and whichever of them is computed again.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from hgr_jax._arrays import Floats, Integers
from hgr_jax.scanning.passes import Cluster, FirstPass, LastPass, SecondPass, rows_and_kinds
from hgr_jax.scanning.plan import Plan
from hgr_jax.scanning.reread import Reread, joined_rows
from hgr_jax.scanning.result import Scan
from hgr_jax.scanning.state import ScanState
from hgr_jax.scanning.stream_options import StreamOptions
from hgr_jax.scanning.stream_sums import StreamSums
from hgr_jax.scanning.streamed import REPAIRS, rows_at_once
from hgr_jax.scanning.streamed_result import scan_of
from hgr_jax.scanning.survey import Survey
from hgr_jax.tables.faults import TableError
from hgr_jax.tables.sources import Part, Source


def joined_surveys(one: Survey, other: Survey) -> Survey:
    """Return what is known of the rows of both, those of ``other`` after those of ``one``."""
    return one.joined(other)


def joined_sums(one: StreamSums | None, other: StreamSums | None) -> StreamSums | None:
    """Return the sums over the rows of both, where None are those of no rows."""
    if one is None or other is None:
        return one if other is None else other
    return one + other


def scan_cluster(cluster: Cluster, options: StreamOptions) -> Scan:
    """Scan a table on a cluster, in three passes: rows, a survey, sums.

    And up to two more of sums, and one for the rows of pairs of which they say too little.  The
    memory among the options is that of one machine for one part.
    """
    parts = cluster.each(rows_and_kinds)
    counts = [rows for rows, _ in parts]
    known = [
        Part(f"part {place} of {cluster.name}", kinds, rows, lambda *_: iter(()))
        for place, (rows, kinds) in enumerate(parts)
        if rows
    ]
    if not known:
        raise TableError(f"{cluster.name} has no rows")
    source = Source.of(cluster.name, known)
    kinds = dict(source.kinds)
    if not kinds:
        raise TableError(f"{cluster.name} has no column of numbers or text")
    options.check(kinds, source.order)
    rows = rows_at_once(options.memory, len(kinds))
    first = np.concatenate([[0], np.cumsum(counts)[:-1]]).tolist()
    first_pass = FirstPass(first, kinds, sorted(options.categories), options.weights, rows)
    survey = cluster.total(first_pass, joined_surveys)
    state = ScanState.of_survey(survey, options, exact=True).in_order(source.order)
    x64 = jnp.result_type(float) == np.float64
    for repairs in range(1 + REPAIRS):
        plan = state.parts[0]
        sums = cluster.total(SecondPass(plan, x64, rows), joined_sums)
        if sums is None or sums.seen != plan.expected:
            raise TableError(
                f"{cluster.name} had {plan.expected:,} rows at first, and"
                f" {0 if sums is None else sums.seen:,} when it was read again: it is computed anew"
                " each time and does not stay the same; persist it, or write it to files"
            )
        state = ScanState(plan, sums)
        if state.well_conditioned or repairs == REPAIRS:
            break
        state = state.repaired()

    def again(plan: Plan, pairs: Integers) -> list[Floats]:
        found: list[Floats] = cluster.total(LastPass(plan, pairs, rows), joined_rows)
        return found

    return scan_of(*state.parts, **options.of_result, reread=Reread(again, options.memory))


def as_cluster(table: Any) -> Cluster | None:
    """Return a table of Dask or Spark; None for any other."""
    module = type(table).__module__
    if module.startswith("dask."):
        from hgr_jax.scanning.on_dask import DaskTable

        return DaskTable(table)
    if module.startswith("pyspark.sql.") and hasattr(table, "mapInArrow"):
        from hgr_jax.scanning.on_spark import SparkTable

        return SparkTable(table)
    return None
