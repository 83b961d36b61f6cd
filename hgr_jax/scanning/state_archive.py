"""The file of a state: arrays, and words as JSON, in one ``.npz`` without pickle."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hgr_jax._files import atomic_write
from hgr_jax.core.host.polynomials import Polynomials
from hgr_jax.scanning.features import Kernels
from hgr_jax.scanning.plan import Plan, Repair
from hgr_jax.scanning.rank_maps import RankMap
from hgr_jax.scanning.stream_sums import StreamSums
from hgr_jax.scanning.sums import TileSums
from hgr_jax.tables.faults import printable

STATE_FORMAT = 1

WORDS = (
    "kinds",
    "skipped",
    "notes",
    "numbers",
    "levels",
    "weights",
    "heaviest",
    "tested",
    "expected",
)
ARRAYS_OF_PLAN = ("center", "exponent", "patterns")

ArraysByName = dict[str, NDArray[Any]]


def write_state(
    path: str | Path, plan: Plan, sums: StreamSums | None, beside: Mapping[str, Any] | None = None
) -> None:
    """Keep a plan and its sums, and words ``beside`` them."""
    arrays = _of_plan(plan) | ({} if sums is None else _of_sums(sums))
    seen = None if sums is None else sums.seen
    words = json.dumps({"format": STATE_FORMAT, "seen": seen, "beside": dict(beside or {})})
    with atomic_write(path) as partial, partial.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays, words=np.array(words))


def read_state(path: str | Path) -> tuple[Plan, StreamSums | None, dict[str, Any]]:
    """Return a plan, its sums, and the words beside them.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: for a file that is none of a state.
    """
    with Path(path).open("rb") as file:
        try:
            with np.load(file, allow_pickle=False) as kept:
                if not {"words", "plan"} <= set(kept.files):
                    raise ValueError("it holds other arrays")
                words = json.loads(str(kept["words"]))
                if words["format"] != STATE_FORMAT:
                    raise ValueError(f"format {words['format']}, where {STATE_FORMAT} was expected")
                arrays = {name: kept[name] for name in kept.files}
            plan = _as_plan(arrays)
            sums = None if words["seen"] is None else _as_sums(arrays, int(words["seen"]))
            if sums is not None:
                _check_sums(plan, sums)
            return plan, sums, dict(words["beside"])
        except Exception as error:  # of whatever a damaged archive makes its readers do
            reason = "it is damaged" if "pickle" in str(error) else error
            raise ValueError(
                f"{printable(str(path))} does not hold the state of a scan: {reason}"
            ) from error


def same_plan(one: Plan, other: Plan) -> bool:
    """Return whether two plans say the same, so that their sums can be added."""
    first, second = _of_plan(one), _of_plan(other)
    return first.keys() == second.keys() and all(
        first[name].shape == second[name].shape
        and np.array_equal(first[name], second[name], first[name].dtype.kind == "f")
        for name in first
    )


def _of_plan(plan: Plan) -> ArraysByName:
    words = {name: getattr(plan, name) for name in WORDS}
    words |= {
        "dtype": str(plan.dtype),
        "kernels": [plan.kernels.h, plan.kernels.k, plan.kernels.single],
        "sample": list(plan.sample),
        "maps": len(plan.maps),
    }
    kept = {name: dict(word) if isinstance(word, Mapping) else word for name, word in words.items()}
    arrays = {"plan": np.array(json.dumps(kept))}
    arrays |= {name: getattr(plan, name) for name in ARRAYS_OF_PLAN}
    for name, basis in (("values", plan.values), ("ranks", plan.ranks)):
        for field in dataclasses.fields(Polynomials):
            arrays[f"{name}.{field.name}"] = getattr(basis, field.name)
    arrays["sample"] = np.stack(list(plan.sample.values()))
    for place, each in enumerate(plan.maps):
        arrays[f"map.{place}"] = np.stack([each.values, each.ranks])
    if plan.repair is not None:
        arrays |= {f"repair.{name}": part for name, part in plan.repair._asdict().items()}
    return arrays


def _as_plan(arrays: ArraysByName) -> Plan:
    words = json.loads(str(arrays["plan"]))
    if words["dtype"] != str(jnp.result_type(float)):
        raise ValueError(
            f"its products are of {words['dtype']}, and JAX's default dtype is"
            f" {jnp.result_type(float)} now (jax_enable_x64)"
        )
    bases = [
        Polynomials(*(arrays[f"{name}.{field.name}"] for field in dataclasses.fields(Polynomials)))
        for name in ("values", "ranks")
    ]
    maps = tuple(RankMap(*arrays[f"map.{place}"]) for place in range(words["maps"]))
    repair = None
    if "repair.maps" in arrays:
        repair = Repair(*(arrays[f"repair.{name}"] for name in Repair._fields))
    sample = dict(zip(words["sample"], arrays["sample"], strict=True))
    plain: dict[str, Any] = {name: words[name] for name in WORDS}
    plain["numbers"] = tuple(words["numbers"])
    plain["levels"] = {name: tuple(levels) for name, levels in words["levels"].items()}
    plain |= {name: arrays[name] for name in ARRAYS_OF_PLAN}
    h, k, single = words["kernels"]
    return Plan(
        **plain,
        kernels=Kernels(h, k, single),
        sample=sample,
        maps=maps,
        values=bases[0],
        ranks=bases[1],
        repair=repair,
    )


def _of_sums(sums: StreamSums) -> ArraysByName:
    arrays = {f"sums.{name}": getattr(sums, name) for name in COUNTS}
    for kind in ("values", "ranks"):
        for name, tile in getattr(sums, kind).items():
            parts = {"cross": tile.cross} | {f"own{i}": own for i, own in enumerate(tile.own)}
            arrays |= {f"{kind}:{name}:{part}": array for part, array in parts.items()}
    return arrays


COUNTS = ("rows", "weights", "squares", "strange")


def _as_sums(arrays: ArraysByName, seen: int) -> StreamSums:
    tiles: dict[str, dict[str, TileSums]] = {"values": {}, "ranks": {}}
    for key in arrays:
        kind, _, rest = key.partition(":")
        name, _, part = rest.partition(":")
        if part == "cross":
            own = [f"{kind}:{name}:own{i}" for i in range(2)]
            found = tuple(arrays[each] for each in own if each in arrays)
            tiles[kind][name] = TileSums(arrays[key], found)
    counts: dict[str, Any] = {name: arrays[f"sums.{name}"] for name in COUNTS}
    return StreamSums(seen, **counts, values=tiles["values"], ranks=tiles["ranks"])


def _check_sums(plan: Plan, sums: StreamSums) -> None:
    """Check that the shapes of sums are those of their plan."""
    count = plan.layout().count
    for name in ("rows", "weights", "squares"):
        if getattr(sums, name).shape != (count, count):
            raise ValueError(f"{name} has shape {getattr(sums, name).shape}")
    for kind, tiles in (("values", sums.values), ("ranks", sums.ranks)):
        for name, tile in tiles.items():
            for array in (tile.cross, *tile.own):
                if array.dtype != np.float64 or not np.isfinite(array).all():
                    raise ValueError(f"{kind} of {name} are no finite numbers")
