"""The options of a scan, each declared once and checked once.

`scan`, the command line and the scores for scikit-learn make a `Request`.  A saved scan keeps
`Request.settings`.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from hgr_jax._arrays import Floats
from hgr_jax._checks import (
    as_host_weights,
    check_choice,
    check_count,
    check_degree,
    check_flag,
    check_indexes,
    rows_at,
)
from hgr_jax._texts import near_matches
from hgr_jax.inference.dependent_rows import DRAWS, RowDesign
from hgr_jax.inference.independence import refuse_with_design
from hgr_jax.inference.multiplicity import ADJUSTMENTS
from hgr_jax.inference.orders import seed_of
from hgr_jax.scanning.features import Kernels
from hgr_jax.tables.columns import Drawn

ColumnChoice = str | int | Sequence[Any] | None
"""Names or positions of columns, one or several."""

MEMORY = 2**29
"""Default bytes that features and their products may take."""

KEPT_BY = ("pvalue", "correlation", "excess")
"""Orders of the first pairs of very many columns."""

TESTS = ("auto", "asymptotic", "permutation")

SOLVED = ("hgr", "kb")
"""Measures of a pair that are solved from sums over rows; any other is a function of vectors."""


@dataclasses.dataclass(frozen=True, eq=False)
class Test:
    """How pairs are tested for independence; ``test="auto"`` is ``Test("auto")``.

    Attributes:
      kind: ``"auto"`` (by ranks, see the guide "P-values and intervals"),
        ``"asymptotic"`` (Roy's law at degrees h and k, of the values as they are), or
        ``"permutation"`` (of the values; of their ranks for HGR).
      permutations: the largest number of permutations of a pair; None for as many as
        `hgr_jax.independence_test` draws, and 999 of other measures than HGR.
      key: random key of these; None is ``jax.random.key(0)``, so that scans repeat.  Its numbers
        are kept.
      fdr: how p-values are adjusted for their number: ``"bh"`` (Benjamini & Hochberg) or ``"by"``
        (Benjamini & Yekutieli), which holds however pairs depend on each other.

    Example:
      >>> import numpy as np, hgr_jax
      >>> x = np.random.default_rng(0).normal(size=(50, 2))
      >>> test = hgr_jax.Test("permutation", permutations=99)
      >>> float(hgr_jax.scan(x, test=test).pvalue[0, 1]) >= 0.01
      True
    """

    __test__: ClassVar[bool] = False  # no class of tests, whatever pytest takes it for

    kind: str = "auto"
    permutations: int | None = None
    key: Any = None
    fdr: str = "bh"

    def __post_init__(self) -> None:
        """Check the options."""
        check_choice("fdr", self.fdr, ADJUSTMENTS)
        check_choice("test", self.kind, TESTS)
        if self.permutations is not None:
            check_count("permutations", self.permutations)
        object.__setattr__(self, "key", seed_of(self.key))

    @property
    def draws(self) -> int:
        """The largest number of orders of rows that are not exchangeable."""
        return DRAWS if self.permutations is None else self.permutations


@dataclasses.dataclass(frozen=True)
class Given:
    """Columns whose effect is removed from all others; ``given="age"`` is ``Given("age")``.

    Attributes:
      columns: names or positions.
      degree: total degree of the polynomials of the given numbers, an int from 1 to 50.  Where it
        is below h and k, some of the effect remains (see `hgr_jax.kb`).
    """

    columns: Any
    degree: int = 5

    def __post_init__(self) -> None:
        """Check the degree."""
        check_degree("given degree", self.degree)


@dataclasses.dataclass(frozen=True)
class Top:
    """The first pairs of very many columns; ``top=1000`` is ``Top(1000)``.

    Attributes:
      count: number of pairs that are kept; all are tested.
      by: their order, ``"pvalue"``, ``"correlation"``, or ``"excess"`` of the latter over |Pearson|
        (pairs with a category have none).
    """

    count: int
    by: str = "pvalue"

    def __post_init__(self) -> None:
        """Check the options."""
        check_count("top", self.count)
        check_choice("by", self.by, KEPT_BY)


@dataclasses.dataclass(frozen=True)
class Categories:
    """What is read as a category; ``categories=["zone"]`` are the names.

    Attributes:
      names: of numeric columns that are categories.
      integers_up_to: largest number of distinct values of integer columns that are categories too.
      missing: ``"level"`` makes the missing values of a category a level, ``"(missing)"``, unless
        they are rare; by default such rows are left out of its pairs.
    """

    names: Collection[Any] = ()
    integers_up_to: int = 0
    missing: str | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        if isinstance(self.names, str) or not isinstance(self.names, Collection):
            raise TypeError(f"categories must be a sequence of names; got {self.names!r}.")
        object.__setattr__(self, "names", tuple(str(name) for name in self.names))
        check_count("integers_up_to", self.integers_up_to, 0)
        if self.missing is not None:
            check_choice("missing", self.missing, ("level",))

    @property
    def missing_level(self) -> bool:
        """Whether missing values are a level."""
        return self.missing == "level"


@dataclasses.dataclass(frozen=True)
class Execution:
    """How a scan is computed.

    Attributes:
      memory: bytes that rows, features and their products may take, about.  Of a table with more
        rows a uniform sample is scanned, and a note says so; columns are done in blocks.
      progress: whether a bar is shown on stderr (tqdm).
      executor: computes squares of pairs, the results the same: any of `concurrent.futures`, as
        ``ProcessPoolExecutor(mp_context=get_context("spawn"))``, or ``client.get_executor()`` of
        Dask.  Where it has processes, a measure that is a function must be one that can be pickled.
    """

    memory: int = MEMORY
    progress: bool = False
    executor: Executor | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        check_count("memory", self.memory, 2**20)
        check_flag("progress", self.progress)
        if not isinstance(self.executor, Executor | None):
            raise TypeError(
                "executor must be one of concurrent.futures, or of a client of Dask"
                f" (client.get_executor()); got {type(self.executor).__name__}."
            )


@dataclasses.dataclass(frozen=True)
class Measure:
    """The measure of a pair.

    Attributes:
      name: name as in ``measure=``, or of a function.
      kernels: kernels of both sides; a function does not use them.
      function: a function of two vectors that JAX can trace; None for HGR, solved from sums.
    """

    name: str
    kernels: Kernels
    function: Callable[[Any, Any], Any] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Request:
    """The options of a scan, checked as far as possible without the table.

    Attributes:
      measure: the measure of the pairs.
      target, among: names or positions of columns; see `hgr_jax.scan`.
      given: columns whose effect is removed; None for none.
      weights: an array ``(n,)``, the name of a column, or None.
      order: what sorts the rows of a series, True, an array ``(n,)`` or the name of a column.
      groups: labels of rows that are alike, an array ``(n,)``, the name of a column, or None.
      categories: what is read as a category.
      test: None for no p-values.
      top: the first pairs to keep; None for all.
      execution: how the scan is computed.
      row_weights: ``(n,)``, the largest 1, or None; set once the table is known.
      design: of rows in an order or in groups, or None; set once the table is known.
    """

    measure: Measure
    target: ColumnChoice = None
    among: ColumnChoice = None
    given: Given | None = None
    weights: ArrayLike | str | None = None
    order: ArrayLike | str | None = None
    groups: ArrayLike | str | None = None
    categories: Categories = Categories()
    test: Test | None = Test()
    top: Top | None = None
    execution: Execution = Execution()
    row_weights: Floats | None = None
    design: RowDesign | None = None

    def __post_init__(self) -> None:
        """Check which options go together; make names of columns texts."""
        for option in ("weights", "order", "groups"):
            value = getattr(self, option)
            is_name = _is_name(value) and not (option == "order" and isinstance(value, bool))
            object.__setattr__(self, option, str(value) if is_name else value)
        name, solved = self.measure.name, self.measure.function is None
        kind = None if self.test is None else self.test.kind
        if kind == "asymptotic" and name != "kb":
            raise ValueError(f"test='asymptotic' is for measure='kb'; got {name!r}.")
        if self.weights is not None and not solved:
            raise ValueError(f"weights are for the measures {_listed(SOLVED)}; got {name!r}.")
        if self.given is not None:
            if not solved:
                raise ValueError(f"given is for the measures {_listed(SOLVED)}; got {name!r}.")
            if kind not in ("auto", None):
                raise ValueError(
                    f"test={kind!r} is not for given columns, as neither those laws nor"
                    " permutations hold beside them: take 'auto', by residuals, or None."
                )
        if self.order is not None or self.groups is not None:
            self._check_dependent_rows()
        if self.top is not None:
            if not solved:
                raise ValueError(f"top is for the measures {_listed(SOLVED)}; got {name!r}.")
            if self.given is not None:
                raise ValueError("top is for scans without given columns: leave one of them out.")
            if self.test is None and self.top.by == "pvalue":
                raise ValueError(
                    "the first pairs by p-value take p-values: take Top(count, 'correlation') with"
                    " test=None."
                )

    def _check_dependent_rows(self) -> None:
        """Check the options beside an order or groups."""
        kind = None if self.test is None else self.test.kind
        if kind != "auto":
            raise ValueError(f"order and groups are for p-values by test='auto'; got {kind!r}.")
        if self.measure.function is not None:
            measures = _listed(SOLVED)
            raise ValueError(
                f"order and groups are for the measures {measures}; got {self.measure.name!r}."
            )
        options = ("weights", "given", "top")
        refuse_with_design({name: getattr(self, name) for name in options})

    @property
    def row_columns(self) -> list[str]:
        """The columns that say something of the rows, and are in no pair."""
        options = (self.order, self.groups, self.weights)
        return [value for value in options if isinstance(value, str)]

    @property
    def fdr(self) -> str:
        """How p-values are adjusted for their number."""
        return "bh" if self.test is None else self.test.fdr

    @property
    def row_values(self) -> dict[str, Any]:
        """The options that are arrays, with a value for each row of the table."""
        options = {name: getattr(self, name) for name in ("weights", "order", "groups")}
        return {
            name: values
            for name, values in options.items()
            if not (values is None or values is True or isinstance(values, str))
        }

    def at_rows(self, drawn: Drawn) -> Request:
        """Return the request of the rows that were drawn from a table."""
        chosen = {}
        for name, values in self.row_values.items():
            if np.shape(values) != (drawn.rows,):
                raise ValueError(
                    f"{name} must have shape ({drawn.rows},); got shape {np.shape(values)}."
                )
            chosen[name] = rows_at(values, drawn.positions)
        return dataclasses.replace(self, **chosen)

    def with_row_weights(self, rows: int, table: Any = None) -> Request:
        """Set `row_weights` from weights ``(rows,)``, whose labels must be those of the table."""
        if self.weights is None:
            return self
        check_indexes(table=table, weights=self.weights)
        return dataclasses.replace(self, row_weights=as_host_weights(self.weights, rows))

    def settings(self, rows: int, given: Iterable[str] = ()) -> dict[str, Any]:
        """Return the settings that a `Scan` keeps, for JSON."""
        kernels = self.measure.kernels
        return {
            "measure": self.measure.name,
            "h": None if kernels.ranked else kernels.h,
            "k": None if kernels.ranked else kernels.k,
            "test": None if self.test is None else self.test.kind,
            "permutations": None if self.test is None else self.test.permutations,
            "fdr": None if self.test is None else self.test.fdr,
            "weighted": self.weights is not None,
            "order": _as_setting(self.order),
            "groups": _as_setting(self.groups),
            "smallest_pvalue": self._smallest_pvalue,
            "law": self._law,
            "given": list(given),
            "given_degree": None if self.given is None else self.given.degree,
            "rows": rows,
        }

    @property
    def _smallest_pvalue(self) -> float | None:
        """The smallest p-value that the orders of a design support; None for laws."""
        if self.design is None or self.test is None:
            return None
        return self.design.smallest_pvalue(self.test.draws)

    @property
    def _law(self) -> str:
        """What the p-values suppose of the rows, as the end of a sentence."""
        least, design = self._smallest_pvalue, self.design
        if least is None or design is None:
            return "if rows are exchangeable"
        of_groups = f" of {self.groups}" if isinstance(self.groups, str) else ""
        of_order = f" in the order of {self.order}" if isinstance(self.order, str) else ""
        if design.is_panel and design.is_shifted:
            law = f"by circular shifts{of_order}, all groups{of_groups} together"
        elif design.is_panel:
            law = f"by exchanges of whole groups{of_groups}, the rows of each{of_order}"
        elif design.ordered:
            within = f" within groups{of_groups}" if len(design.sizes) > 1 else ""
            law = f"by circular shifts{of_order}{within}"
        else:
            law = f"by orders of the rows within groups{of_groups}"
        return f"{law} (p below {least:.2g}: by their normal tail)"


def request_of(
    h: int | None = None,
    k: int | None = None,
    measure: str | Callable[[Any, Any], Any] | None = None,
    *,
    given: Given | ColumnChoice = None,
    categories: Categories | Collection[Any] = (),
    test: Test | str | None = "auto",
    top: Top | int | None = None,
    **options: Any,
) -> Request:
    """Make a request from the options of `hgr_jax.scan`."""
    if given is not None and not isinstance(given, Given):
        given = Given(given)
    if measure is None:
        measure = "hgr" if h is None and k is None else "kb"
    execution = options.get("execution", Execution())
    if not isinstance(execution, Execution):
        raise TypeError(f"execution must be an Execution; got {execution!r}.")
    return Request(
        measure_of(measure, 5 if h is None else h, 5 if k is None else k),
        given=given,
        categories=categories if isinstance(categories, Categories) else Categories(categories),
        test=test if test is None or isinstance(test, Test) else Test(test),
        top=top if top is None or isinstance(top, Top) else Top(top),
        **options,
    )


def _is_name(weights: Any) -> bool:
    """Return whether weights name a column of any type: 2019, ("loft", "kg")."""
    if isinstance(weights, tuple):
        return any(isinstance(part, str) for part in weights)
    return weights is not None and np.ndim(weights) == 0


def measure_of(measure: Any, h: Any, k: Any) -> Measure:
    """Return a measure by its name or function, with degrees of both sides."""
    for name, degree in (("h", h), ("k", k)):
        if callable(degree):
            raise TypeError(
                f"{name} of a scan must be a degree; got a kernel: take a function of two vectors,"
                " measure=lambda a, b: hgr_jax.kb(a, b, h=kernel)."
            )
        check_degree(name, degree)
    kernels = Kernels(h, k, ranked=measure == "hgr")
    if isinstance(measure, str) and measure in SOLVED:
        return Measure(measure, kernels)
    if callable(measure):
        return Measure(getattr(measure, "__name__", "measure"), kernels, function=measure)
    from hgr_jax import measures  # HGR and KB are estimated without JAX

    names = [name for name in measures.__all__ if name.islower() and not name.endswith("_fit")]
    names = [name for name in names if _takes_two_vectors(getattr(measures, name))]
    if not isinstance(measure, str) or measure not in names:
        raise ValueError(
            "measure must be a function of two vectors or one of"
            f" {', '.join(sorted({*names, *SOLVED}))}; got {measure!r}."
        )
    return Measure(measure, kernels, function=getattr(measures, measure))


def positions_of(option: str, value: Any, names: Sequence[str]) -> list[int] | None:
    """Return the sorted positions of the columns that an option names; None for None.

    A column is found by its name as text: 2019 is the column named "2019".  If no column has the
    name, an int is a position.
    """
    if value is None:
        return None
    place = {name: position for position, name in enumerate(names)}
    single = isinstance(value, str) or not isinstance(value, Iterable) or str(value) in place
    positions = [position_of(option, one, place) for one in ([value] if single else value)]
    return sorted(set(positions))


def position_of(option: str, name: Any, place: Mapping[str, int]) -> int:
    """Return the position of a column, given the position of each name; see `positions_of`."""
    if str(name) in place:
        return place[str(name)]
    if isinstance(name, int | np.integer) and not isinstance(name, bool):
        if -len(place) <= name < len(place):
            return int(name) % len(place)
        raise ValueError(f"{option} {name} is not a position of the {len(place)} columns.")
    near = near_matches(name, place)
    raise ValueError(f"{option} {name!r} is not a column{near}")


def _as_setting(option: Any) -> str | bool | None:
    """Return an option of the rows as a setting: the name of its column, or True for values."""
    return option if option is None or isinstance(option, str) else True


@functools.lru_cache(maxsize=64)
def _takes_two_vectors(measure: Callable[..., Any]) -> bool:
    parameters = inspect.signature(measure).parameters.values()
    return sum(p.default is p.empty and p.kind != p.VAR_KEYWORD for p in parameters) == 2


def _listed(words: Iterable[str]) -> str:
    return ", ".join(map(repr, words))
