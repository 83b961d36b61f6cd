"""Match rows by their labels, find protected attributes, split rows, encode them for penalties."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from numpy.typing import ArrayLike, NDArray

from hgr_jax._arrays import LARGEST_NUMBER, in_unit, size_fault
from hgr_jax._checks import check_fraction
from hgr_jax._forks import refuse_forked
from hgr_jax._optional import require
from hgr_jax._texts import first_names, near_matches
from hgr_jax.fairness.penalties import UNNAMED, Penalty, check_distinct_penalties
from hgr_jax.fairness.statistics import NAMED_STATISTICS, name_of
from hgr_jax.tables.arrays import is_null, read_variable
from hgr_jax.tables.levels import OTHER, Category, encode_by_levels, encode_texts, object_array

Protected = Any
"""An array, Series or frame of attributes; or names of columns of X, a data frame."""

ADVICE = "drop these rows, or fill them in."

TARGET = "target"
"""Of ``given``: the target."""

MIN_GROUP_ROWS = 10
"""Smallest number of rows of a level of an attribute that is trained on or certified."""

MAX_GROUP_VALUES = 10
"""Largest number of distinct numbers that are groups as they are, not cut at quantiles."""

GIVEN_BINS = 5
"""Number of bins of a number that is given."""


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """Rows of inputs or predictions x, targets y (or None) and attributes z, in one order.

    Attributes are ``(n,)`` (numbers or texts) or one-hot ``(n, c)``.  ``by_name``, each penalty has
    the attribute of its name; else all penalties share one.  ``condition`` is the name and values
    of what dependence is conditional on; None for y.  ``weights (n,)`` are observation weights, or
    None.
    """

    x: Any
    y: Any
    z: Mapping[str, NDArray[Any]]
    by_name: bool = False
    condition: tuple[str, NDArray[Any]] | None = None
    weights: NDArray[np.float64] | None = None

    @classmethod
    def of(
        cls,
        x: Any,
        y: Any = None,
        protected: Protected = None,
        given: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Match the rows of inputs, targets and attributes, pandas objects by their labels.

        ``protected`` is ``(n,)``, or one-hot ``(n, c)``; a frame of several columns, attributes by
        name; or the name, or names, of columns of x.  ``given`` is ``(n,)``, the name of a column
        of x, or "target" or None for y.  Rows whose ``sample_weight`` is 0 are left out.  Raises
        for missing values of attributes.
        """
        attributes, by_name = _attributes(x, protected)
        conditions: dict[str, Any] = {}
        if not (given is None or (isinstance(given, str) and given == TARGET)):
            conditions, _ = _attributes(x, given, "given")
            if len(conditions) > 1:
                raise ValueError("given must be one variable: combine columns, as df.a + df.b.")
        weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
        x, y, *columns = in_one_order({"X": x, "y": y}, attributes, conditions, weighted)
        first = y if x is None else x
        rows = (first.shape if hasattr(first, "shape") else np.asarray(first).shape)[0]
        names = [*attributes, *conditions]
        arrays = [_as_column(n, column, rows) for n, column in zip(names, columns, strict=False)]
        z = dict(zip(attributes, arrays, strict=False))
        for name, values in z.items():
            _check_not_target(name, values, y)
        condition = (names[-1], arrays[-1]) if conditions else None
        weights = None if sample_weight is None else _as_weights(columns[-1], rows)
        data = cls(x, y, z, by_name, condition, weights)
        return data if weights is None or weights.all() else data.take(np.flatnonzero(weights))

    def take(self, rows: NDArray[np.intp]) -> Self:
        """Return the rows at these positions."""

        def taken(values: Any) -> Any:
            if values is None or isinstance(values, np.ndarray):
                return None if values is None else values[rows]
            return require("sklearn.utils")._safe_indexing(values, rows)

        return dataclasses.replace(
            self,
            x=taken(self.x),
            y=taken(self.y),
            z={name: values[rows] for name, values in self.z.items()},
            condition=self.condition and (self.condition[0], self.condition[1][rows]),
            weights=taken(self.weights),
        )

    def with_pooled_levels(self) -> Self:
        """Return the data with levels of fewer than `MIN_GROUP_ROWS` rows pooled, and a warning.

        Raises a ValueError where they have too few rows together, and for such a group of one-hot
        columns or of numbers with two values.
        """
        pooled = {name: pool_small_levels(name, values) for name, values in self.z.items()}
        return dataclasses.replace(self, z=pooled)

    def split(self, share_name: str, share: Any, seed: int, *, by_class: bool) -> tuple[Self, Self]:
        """Split the rows at random; the second part gets a ``share`` (the option ``share_name``).

        With ``by_class`` both parts have equal shares of each value of y.  Rows of a level that is
        absent from the first part, from which levels are learned, move there.
        """
        share = check_fraction(share_name, share)
        if share in (0, 1):
            raise ValueError(f"{share_name} must be between 0 and 1; got {share!r}.")
        split = require("sklearn.model_selection").train_test_split
        rows, labels = np.arange(len(self.y)), self.y if by_class else None
        try:
            first, second = split(rows, test_size=share, random_state=seed, stratify=labels)
        except ValueError as error:
            raise ValueError(
                f"{len(rows)} rows cannot be split into parts with a share of {share:g} for the"
                f" second: both need rows, of a classification of every class ({error})"
            ) from error
        for values in self.z.values():
            if _is_text(values):
                rare = ~np.isin(values[second].astype(str), values[first].astype(str))
                first, second = np.concatenate([first, second[rare]]), second[~rare]
        return self.take(first), self.take(second)

    @property
    def given(self) -> tuple[str, Any]:
        """The name and values of what dependence is conditional on: what is given, or y."""
        return ("y", self.y) if self.condition is None else self.condition

    def attributes_of(self, penalties: Sequence[Penalty]) -> dict[str, NDArray[Any]]:
        """Return the attribute of each penalty, by the name of the penalty."""
        if penalties and not self.z:
            raise ValueError("protected must be given: the penalties need it.")
        if not self.by_name:
            return {penalty.name: next(iter(self.z.values())) for penalty in penalties}
        absent = [penalty.name for penalty in penalties if penalty.name not in self.z]
        if absent:
            raise ValueError(
                "protected must have a column for each penalty's name; there is none for"
                f" {', '.join(map(repr, absent))} (it has {', '.join(map(repr, self.z))})."
            )
        return {penalty.name: self.z[penalty.name] for penalty in penalties}

    def penalties_of(
        self, penalties: tuple[Penalty, ...], given: Any = None
    ) -> tuple[Penalty, ...]:
        """Return penalties with the names of the attributes: a single penalty is for each of them.

        So is a list of penalties without names, in the order of the attributes.  If something is
        ``given``, penalties that do not say how to condition on it get a way.
        """
        if given is not None:
            how = way_of_conditioning(np.asarray(self.given[1]))
            penalties = tuple(
                dataclasses.replace(p, given=how if p.given is None else p.given) for p in penalties
            )
        named = [penalty.name for penalty in penalties]
        unnamed = set(named) == {UNNAMED}
        if len(penalties) == 1 and (unnamed or (self.by_name and named[0] not in self.z)):
            return tuple(dataclasses.replace(penalties[0], name=name) for name in self.z)
        if unnamed and len(penalties) == len(self.z):
            return tuple(
                dataclasses.replace(penalty, name=name)
                for penalty, name in zip(penalties, self.z, strict=True)
            )
        return check_distinct_penalties(penalties)


def bin_names(name: str, edges: NDArray[np.float64]) -> list[str]:
    """Return names of the bins between inner edges."""
    shown = [f"{edge:.4g}" for edge in edges]
    inner = [f"{name} {low} to {high}" for low, high in itertools.pairwise(shown)]
    return [f"{name} < {shown[0]}", *inner, f"{name} >= {shown[-1]}"] if shown else [name]


def _inner_edges(values: NDArray[Any], bins: int) -> NDArray[np.float64]:
    """Return the inner edges of bins of about equal numbers of rows, none of them empty."""
    edges = np.unique(np.quantile(values, np.arange(1, bins) / bins))
    return np.asarray(edges[edges > values.min()], np.float64)


def _check_not_target(name: str, values: NDArray[Any], y: Any) -> None:
    if y is None or values.ndim != 1 or len(np.asarray(y)) != len(values):
        return
    target = np.asarray(y)
    target = target[:, 0] if target.ndim == 2 and target.shape[1] == 1 else target
    if target.ndim == 1 and len(values) and (values == target).all():
        raise ValueError(
            f"protected {name!r} is the target itself: a prediction that does not depend on it"
            " predicts nothing."
        )


def _as_weights(values: Any, rows: int) -> NDArray[np.float64]:
    """Return observation weights ``(n,)``."""
    weights = numbers("sample_weight", values)
    if weights.shape != (rows,):  # in scikit-learn's words, which its checks look for
        raise ValueError(
            f"sample_weight.shape == {weights.shape}, expected {(rows,)}: one weight a row."
        )
    if (weights < 0).any() or not weights.any():
        raise ValueError("sample_weight must not be negative, nor zero in every row.")
    return weights


def column_names(x: Any) -> list[Any]:
    """Return the names of the columns of a data frame; none of anything else."""
    return list(getattr(x, "columns", ()))


def is_names(protected: Any, rows: int) -> bool:
    """Return whether this is the name of a column, or a list of names, not of values of rows."""
    if isinstance(protected, list | tuple):
        return 0 < len(protected) != rows and all(isinstance(name, str) for name in protected)
    return isinstance(protected, str)


def _attributes(
    x: Any, protected: Protected, what: str = "protected"
) -> tuple[dict[str, Any], bool]:
    """Return the protected attributes by name, and whether a caller named them."""
    if protected is None:
        return {}, False
    if isinstance(protected, Mapping):
        raise TypeError(
            f"{what} must be an array or a data frame; got a mapping: pd.DataFrame(...)"
        )
    if is_names(protected, (*np.shape(x), 0)[0]):
        names = [protected] if isinstance(protected, str) else list(protected)
        if repeated := [name for i, name in enumerate(names) if name in names[:i]]:
            raise ValueError(f"{what} names {repeated[0]!r} twice.")
        return {name: _column_of(x, name, what) for name in names}, not isinstance(protected, str)
    columns = column_names(protected)
    if len({str(name) for name in columns}) < len(columns):
        raise ValueError(f"{what} has columns of one name; rename one of them.")
    numeric = np.asarray(protected).dtype.kind in "fiub" if len(columns) > 1 else False
    if len(columns) > 1 and not (numeric and is_one_hot(np.asarray(protected))):
        return {str(name): protected[name] for name in columns}, True
    name = columns[0] if len(columns) == 1 else getattr(protected, "name", None)
    if len(columns) == 1:
        protected = protected[columns[0]]
    named = isinstance(name, str | int | np.integer | tuple) and not isinstance(name, bool)
    return {str(name) if named and name != "" else UNNAMED: protected}, False


def _column_of(x: Any, name: str, what: str) -> Any:
    """Return the column of a data frame of this name."""
    names = column_names(x)
    if name in names:
        return x[name]
    why = "names a column, but X has no column names; pass a data frame, or the values."
    if names:
        why = f"is not a column of X{near_matches(name, map(str, names))}"
    raise ValueError(f"{what}={name!r} {why}")


def in_one_order(*groups: Mapping[str, Any]) -> list[Any]:
    """Align pandas objects by the labels of the first; raise where labels differ."""
    index: Any = None
    first, aligned = "", []
    for name, value in (item for group in groups for item in group.items()):
        labels: Any = getattr(value, "index", None)
        if not hasattr(labels, "get_indexer"):  # no pandas object
            aligned.append(value)
            continue
        if index is None:
            first, index = name, labels
        # Different numbers of rows raise elsewhere.
        if len(labels) == len(index) and not labels.equals(index):
            unique = labels.is_unique and index.is_unique
            order = labels.get_indexer(index) if unique else np.array([-1])
            if (order < 0).any():
                raise ValueError(
                    f"{name} and {first} have different indexes, so their rows cannot be matched:"
                    f" align them first, or pass {name}.to_numpy() to match rows by position."
                )
            value = value.iloc[order]
        aligned.append(value)
    return aligned


def _as_column(name: str, values: Any, rows: int) -> NDArray[Any]:
    """Return an array of ``rows`` rows, ``(n,)`` or ``(n, c)``; texts are objects."""
    if column_names(values):  # one-hot
        values = np.asarray(values)
    values = read_variable(name, values)
    if isinstance(values, Category):
        array = object_array([*values.levels, None])[values.codes]
    else:
        array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2) or array.shape[0] != rows:
        raise ValueError(
            f"{name} must have one value for each of the {rows} rows; got shape {array.shape}."
        )
    if _is_text(array) and (missing := sum(is_null(value) for value in array.flat)):
        raise ValueError(f"{name} has {missing} missing value(s); {ADVICE}")
    return array


@dataclasses.dataclass(frozen=True)
class Encoding:
    """The encoding of an attribute and of the groups of a penalty, learned on training rows.

    Numbers are scaled to [-1, 1] by ``center`` and ``scale``, in 64 bits so that no digit is lost.
    ``distinct`` counts their values; it is 0 for a category, which has ``levels``: one of them may
    be that of the small levels, which are pooled.  Groups of y, or of what is given, are
    ``classes``, or bins between ``edges``; ``given`` is its name.
    """

    name: str
    distinct: int = 0
    center: Any = 0.0
    scale: ArrayLike = 1.0
    levels: tuple[str, ...] | None = None
    classes: NDArray[Any] | None = None
    edges: NDArray[Any] | None = None
    given: str = "y"

    @classmethod
    def learn(
        cls, penalty: Penalty, z: NDArray[Any], condition: tuple[str, Any] = ("y", None)
    ) -> Encoding:
        """Learn the encoding from training rows, or raise where the penalty does not take them."""
        name, levels, center, scale, distinct = penalty.name, None, 0.0, 1.0, 0
        if _is_text(z):
            z = levels_of(name, z)
            levels = tuple(sorted(set(z.tolist())))
        else:
            z = attribute_numbers(name, z)
            if z.ndim == 1 and len(z):
                low, high = z.min() / 2, z.max() / 2  # halves: the range of any data is finite
                center, scale, distinct = low + high, high - low, len(np.unique(z))
        categorical = levels is not None or z.ndim == 2
        if categorical and penalty.penalised and not penalty.statistic.categorical:
            takers = [n for n, statistic in NAMED_STATISTICS.items() if statistic.categorical]
            raise ValueError(
                f"{name} is categorical, which {name_of(penalty.statistic)!r} does not take;"
                f" {', '.join(map(repr, takers))} do, and functions of one-hot columns."
            )
        check_varies(name, z)
        given, values = condition
        classes, edges = (None, None) if values is None else _groups_of(penalty, given, values)
        encoding = cls(name, distinct, center, scale, levels, classes, edges, given)
        if encoding.group_names:
            encoding.check_not_determined(z, values)
        return encoding

    @property
    def groups(self) -> int:
        """The number of groups of y, or of what is given."""
        if self.classes is not None:
            return len(self.classes)
        return 1 if self.edges is None else len(self.edges) + 1

    @property
    def group_names(self) -> tuple[str, ...]:
        """The names of the groups, for tables."""
        if self.classes is not None:
            shown = (f"{c:g}" if isinstance(c, float) else str(c) for c in self.classes.tolist())
            return tuple(f"{self.given}={label}" for label in shown)
        if self.edges is None:
            return ()
        return tuple(bin_names(self.given, self.edges))

    def value_names(self, columns: int) -> list[str]:
        """Return a name for each value of a penalty, of a prediction with so many columns."""
        heads = [self.name] if columns == 1 else [f"{self.name}[{i}]" for i in range(columns)]
        groups = self.group_names or ("",)
        return [f"{head} | {group}" if group else head for head in heads for group in groups]

    def with_supported_degree(self, penalty: Penalty) -> Penalty:
        """Return the penalty with a degree of the attribute that its values support."""
        return penalty.with_supported_degree(self.distinct) if self.distinct else penalty

    def encode(self, z: NDArray[Any]) -> NDArray[Any]:
        """Encode an attribute as ``(n,)``, or one-hot ``(n, c)`` if it is categorical."""
        if self.levels is None:
            return (numbers(self.name, z) - self.center) / self.scale
        values = levels_of(self.name, z)
        codes = encode_by_levels(values, self.levels)
        if OTHER in self.levels:
            codes = np.where(codes < 0, self.levels.index(OTHER), codes)
        unknown = sorted(set(values[codes < 0].tolist()))
        if unknown:
            raise ValueError(
                f"{self.name} has the value(s) {', '.join(unknown[:5])}, which the training rows"
                f" do not have; known are {', '.join(map(str, self.levels))}."
            )
        return Category(codes, self.levels).one_hot()

    def group(self, condition: NDArray[Any]) -> NDArray[np.int32] | None:
        """Return the group of each row, -1 where it has a class that the training rows lack."""
        if self.classes is not None:
            condition = _as_labels(self.given, condition)
            position = np.clip(np.searchsorted(self.classes, condition), 0, len(self.classes) - 1)
            return np.where(self.classes[position] == condition, position, -1).astype(np.int32)
        if self.edges is not None:
            return np.searchsorted(self.edges, condition, side="right").astype(np.int32)
        return None

    def check_not_determined(self, z: NDArray[Any], condition: NDArray[Any]) -> None:
        """Raise where the groups determine the attribute, so that nothing is left to depend on."""
        group = self.group(condition)
        varies = [(z[group == g] != z[group == g][:1]).any() for g in range(self.groups)]
        if not any(varies):
            raise ValueError(
                f"{self.name} must vary within groups of what is given, or nothing can depend on"
                f" it: it is constant in each of the {self.groups} groups."
            )


def pool_small_levels(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Pool levels of fewer than `MIN_GROUP_ROWS` rows into one, and warn; raise if too few rows."""
    is_text = _is_text(values)
    codes = values.argmax(axis=1) if values.ndim == 2 else values
    levels, counts = np.unique(codes, return_counts=True)
    small = counts < MIN_GROUP_ROWS
    groups = is_text or values.ndim == 2 or len(levels) == 2
    if not groups or not small.any() or len(levels) < 2:
        return values
    sizes = zip(levels[small].tolist(), counts[small].tolist(), strict=True)
    named = first_names([f"{level!r} ({count})" for level, count in sizes], 40)
    if not is_text or counts[small].sum() < MIN_GROUP_ROWS:
        raise ValueError(
            f"{name} has levels of fewer than {MIN_GROUP_ROWS} rows, of which nothing can be said:"
            f" {named}. Merge them with another level, or leave their rows out."
        )
    warnings.warn(
        f"small levels of {name} are pooled into one of at least {MIN_GROUP_ROWS} rows: {named}",
        UserWarning,
        stacklevel=3,
    )
    return np.where(np.isin(values.astype(str), levels[small].astype(str)), OTHER, values)


def way_of_conditioning(condition: NDArray[Any]) -> str | int:
    """Return how to condition on a variable, as ``given`` of `Penalty` says it."""
    discrete = _is_text(condition) or len(np.unique(condition)) <= MAX_GROUP_VALUES
    return "classes" if discrete else GIVEN_BINS


def _as_labels(name: str, condition: NDArray[Any]) -> NDArray[Any]:
    """Return labels of one type, which sort."""
    return as_texts(name, condition) if _is_text(condition) else condition


def _groups_of(
    penalty: Penalty, name: str, condition: NDArray[Any]
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Return the classes of y, or the inner edges of its bins, of a penalty with ``given``."""
    if penalty.given is not None and condition.ndim != 1:
        raise ValueError(f"given needs one target, y of shape (n,); got shape {condition.shape}.")
    if penalty.given == "classes":
        classes, counts = np.unique(_as_labels(name, condition), return_counts=True)
        if counts.min() < 2:
            raise ValueError(
                f"given='classes' needs at least two rows of every value of {name}; there is"
                f" {counts.min()} of {classes[counts.argmin()]}. For continuous numbers give"
                " given='polynomials', or a number of bins: given=5."
            )
        return classes, None
    if isinstance(penalty.given, str | None):
        return None, None
    return None, _inner_edges(numbers(name, condition), penalty.given)


def check_varies(name: str, values: NDArray[Any], rows: str = "rows") -> None:
    """Raise where an attribute is constant, or there are no rows."""
    if not (values != values[:1]).any():
        what = "there are no"
        if len(values):
            what = f"it is {np.asarray(values[0]).tolist()!r} in all {len(values)}"
        raise ValueError(f"{name} must vary, or nothing can depend on it: {what} {rows}.")


def attribute_numbers(name: str, z: NDArray[Any]) -> NDArray[np.float64]:
    """Return an attribute as numbers ``(n,)``, or one-hot ``(n, c)`` if it is categorical."""
    if _is_text(z):
        return encode_texts(levels_of(name, z)).one_hot()
    z = numbers(name, z)
    check_squares(name, z)
    if z.ndim == 2 and not is_one_hot(z):
        raise ValueError(
            f"{name} of shape {z.shape} must be one-hot, a single 1 in every row: the levels of one"
            " categorical attribute. Give several attributes by name, each with its own penalty."
        )
    return z


def check_squares(name: str, values: NDArray[Any]) -> None:
    """Raise a ValueError for numbers whose squares overflow or vanish."""
    if fault := size_fault(values):
        raise ValueError(f"{name} must be in another unit, as squares are needed: {fault}.")


def numbers(name: str, values: Any, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return values as finite numbers of ``dtype``, or raise with the place of the first other."""
    refuse_forked()
    array = np.asarray(values)
    largest = min(LARGEST_NUMBER, float(jnp.finfo(dtype).max))
    try:
        if array.dtype.kind not in "fiubOUS":
            raise TypeError
        with np.errstate(over="ignore"):
            array = array.astype(np.float64).astype(dtype)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must hold real numbers; got dtype {array.dtype}."
            " Encode categories as numbers or one-hot columns first."
        ) from None
    # Comparing copies nothing; NaN compares false.
    wrong = ~((array <= largest) & (array >= -largest))
    if wrong.any():
        where = ", ".join(map(str, np.argwhere(wrong)[0]))
        raise ValueError(
            f"{name} has {int(wrong.sum())} value(s) that are NaN, infinite or larger than"
            f" {largest:.3g}, the first at ({where}); {ADVICE}"
        )
    return array


def standardisation(
    x: NDArray[Any], weights: NDArray[Any] | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return center and scale of each input; 0 and 1 if binary, scale 1 if constant."""
    unit, power = in_unit(x)
    mean = np.average(unit, axis=0, weights=weights)
    variance = np.average(np.square(unit - mean), axis=0, weights=weights)
    center, scale = np.ldexp(mean, power), np.ldexp(np.sqrt(variance), power)
    binary = np.isin(x, (0.0, 1.0)).all(axis=0)
    constant = (x == x[:1]).all(axis=0) | (scale == 0)
    return np.where(binary, 0.0, center), np.where(binary | constant, 1.0, scale)


def is_one_hot(values: NDArray[Any]) -> bool:
    """Return whether every row of ``(n, c)`` has a single 1 among zeros."""
    return bool(np.isin(values, (0, 1)).all() and (values.sum(axis=1) == 1).all())


def _is_text(values: NDArray[Any]) -> bool:
    """Return whether there is text among the values."""
    return values.dtype.kind in "US" or (
        values.dtype.kind == "O" and any(isinstance(value, str) for value in values.flat)
    )


def levels_of(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Return the level of every row of a categorical attribute, as text."""
    if values.ndim != 1:
        raise ValueError(f"{name} must have shape (n,) where it is text; got {values.shape}.")
    return as_texts(name, values)


def as_texts(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Return values as texts, numbers in few digits."""
    if _is_text(values):
        return np.array([str(value) for value in values.tolist()])
    return np.array([f"{value:g}" for value in numbers(name, values).tolist()])


class Rows(NamedTuple):
    """Rows on the device: inputs, targets, for each penalty its z and its groups (or what is
    given), and observation weights of mean 1, or None.
    """

    x: Array
    y: Array
    z: tuple[Array, ...]
    group: tuple[Array | None, ...]
    weights: Array | None = None


def make_rows(
    data: TrainingData,
    penalties: Sequence[Penalty],
    encoders: Sequence[Encoding] | None,
    dtype: DTypeLike,
) -> tuple[Rows, tuple[Encoding, ...]]:
    """Check and encode rows, and put them on the device; learn the encodings if None."""
    x, y = numbers("x", data.x, dtype), numbers("y", data.y, dtype)
    if x.ndim != 2 or 0 in x.shape:
        raise ValueError(f"x must have shape (n, p), n and p >= 1; got shape {x.shape}.")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim not in (1, 2) or len(y) != len(x):
        raise ValueError(
            f"x and y must have the same number of rows; got shapes {x.shape} and {y.shape}."
        )
    name, condition = dataclasses.replace(data, y=y).given
    z = list(data.attributes_of(penalties).values())
    if encoders is None:
        encoders = [
            Encoding.learn(p, values, (name, condition))
            for p, values in zip(penalties, z, strict=True)
        ]
    groups = [
        numbers(name, condition, dtype) if p.given_polynomials else encoder.group(condition)
        for p, encoder in zip(penalties, encoders, strict=True)
    ]
    weights = data.weights
    rows = Rows(
        x=jax.device_put(x),
        y=jax.device_put(y),
        z=tuple(
            jnp.asarray(encoder.encode(values), dtype)
            for encoder, values in zip(encoders, z, strict=True)
        ),
        group=tuple(None if group is None else jax.device_put(group) for group in groups),
        weights=None
        if weights is None
        else jax.device_put((weights / weights.mean()).astype(dtype)),
    )
    return rows, tuple(encoders)


def make_constraint_rows(
    data: TrainingData, rows: Rows, penalties: Sequence[Penalty], encoders: Sequence[Encoding]
) -> Rows:
    """Return rows without targets, for the penalties alone."""
    for penalty in penalties:
        if penalty.given is not None:
            raise ValueError(
                f"constraint_rows are for penalties without given; {penalty.name!r} has"
                f" given={penalty.given!r}."
            )
    data = dataclasses.replace(data, y=np.zeros(len(data.x)))
    made, _ = make_rows(data, penalties, encoders, rows.x.dtype)
    if made.x.shape[1] != rows.x.shape[1]:
        needed = f"the {rows.x.shape[1]} inputs of the training rows"
        raise ValueError(f"constraint_rows must have {needed}; got x of shape {made.x.shape}.")
    for penalty, z in zip(penalties, made.z, strict=True):
        check_varies(penalty.name, np.asarray(z), "constraint rows")
        if penalty.penalised and len(z) < (least := penalty.least_rows(z)):
            raise ValueError(
                f"{penalty.name}: of {len(z)} constraint rows the measure is 1 whatever the"
                f" prediction. At least {least} are needed: take more, or lower degrees."
            )
    return made


def check_batch_size(
    penalties: Sequence[Penalty], encoders: Sequence[Encoding], rows: Rows, batch_size: int | None
) -> None:
    """Raise if batches have too few rows for a penalty."""
    n = rows.x.shape[0]
    for penalty, encoder, z, group in zip(penalties, encoders, rows.z, rows.group, strict=True):
        if not penalty.penalised:
            continue
        least, share, where = penalty.least_rows(z), 1.0, ""
        if encoder.group_names:
            counts = np.bincount(np.asarray(group), minlength=encoder.groups)
            share, where = counts.min() / n, f" of {encoder.group_names[counts.argmin()]}"
        expected = (n if batch_size is None else batch_size) * share
        if expected < least:
            raise ValueError(
                f"{encoder.name}: a batch has about {expected:.0f} row(s){where}; with so few"
                " the measure is 1 whatever the prediction, and constrains nothing. At least"
                f" {least} are needed: take larger batches or lower degrees."
            )
