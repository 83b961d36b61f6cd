"""Match rows by their labels, find protected attributes, split rows, encode them for penalties."""

from __future__ import annotations

import dataclasses
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
from hgr_jax._texts import near_matches
from hgr_jax.fairness.penalties import Penalty
from hgr_jax.fairness.statistics import NAMED_STATISTICS, name_of
from hgr_jax.tables.levels import Category, encode_by_levels, encode_texts

Protected = Any
"""An array, Series, frame or mapping of attributes; or names or positions of columns of X."""

ADVICE = "drop these rows, or fill them in."


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """Rows of inputs or predictions x, targets y (or None) and attributes z, in one order.

    Attributes are ``(n,)`` or one-hot ``(n, c)``.  ``by_name``, each penalty has the attribute of
    its name; else all penalties share one.
    """

    x: Any
    y: Any
    z: Mapping[str, NDArray[Any]]
    by_name: bool = False

    @classmethod
    def of(cls, x: Any, y: Any = None, protected: Protected = None) -> Self:
        """Match the rows of inputs, targets and attributes, pandas objects by their labels.

        ``protected`` is ``(n,)``, or one-hot ``(n, c)``; a mapping, or a frame of several columns,
        of attributes by name; or names or positions (names first) of one or several columns of x.
        """
        attributes, by_name = _attributes(x, protected)
        x, y, *columns = _in_one_order({"X": x, "y": y}, attributes)
        if not attributes:
            return cls(x, y, {})
        rows = _shape(y if x is None else x)[0]
        z = {n: _as_column(n, c, rows) for n, c in zip(attributes, columns, strict=True)}
        return cls(x, y, z, by_name)

    def take(self, rows: NDArray[Any]) -> TrainingData:
        """Return the rows at these positions."""
        safe = require("sklearn.utils", "fairness")._safe_indexing
        y = None if self.y is None else safe(self.y, rows)
        z = {name: values[rows] for name, values in self.z.items()}
        return dataclasses.replace(self, x=safe(self.x, rows), y=y, z=z)

    def split(
        self, share_name: str, share: Any, seed: int, *, by_class: bool
    ) -> tuple[TrainingData, TrainingData]:
        """Split the rows at random; the second part gets a ``share`` (the option ``share_name``).

        With ``by_class`` both parts have equal shares of each value of y.  Rows of a level that is
        absent from the first part, from which levels are learned, move there.
        """
        share = check_fraction(share_name, share)
        if share in (0, 1):
            raise ValueError(f"{share_name} must be between 0 and 1; got {share!r}.")
        rows = np.arange(len(self.y))
        first, second = split_rows(rows, share, seed, self.y if by_class else None)
        for values in self.z.values():
            if _is_text(values):
                rare = ~np.isin(values[second].astype(str), values[first].astype(str))
                first, second = np.concatenate([first, second[rare]]), second[~rare]
        return self.take(first), self.take(second)

    def single(self) -> tuple[str, NDArray[Any]]:
        """Return the name and values of the only attribute."""
        if len(self.z) != 1:
            given = ", ".join(map(repr, self.z)) or "none"
            raise ValueError(f"protected must be one attribute here; got {given}.")
        return next(iter(self.z.items()))

    def attributes_of(self, penalties: Sequence[Penalty]) -> dict[str, NDArray[Any]]:
        """Return the attribute of each penalty, by the name of the penalty."""
        if not self.by_name:
            if penalties and not self.z:
                raise ValueError("protected must be given: the penalties need it.")
            return {penalty.name: self.single()[1] for penalty in penalties}
        absent = [penalty.name for penalty in penalties if penalty.name not in self.z]
        if absent:
            raise ValueError(
                "protected must have an entry for each penalty's name; there is none for"
                f" {', '.join(map(repr, absent))} (it has {', '.join(map(repr, self.z))})."
            )
        return {penalty.name: self.z[penalty.name] for penalty in penalties}

    def repeat_for_attributes(self, penalties: tuple[Penalty, ...]) -> tuple[Penalty, ...]:
        """Return a copy of a single penalty for each attribute, or the penalties themselves."""
        if not self.by_name or len(penalties) != 1 or penalties[0].name in self.z:
            return penalties
        return tuple(dataclasses.replace(penalties[0], name=name) for name in self.z)


def _attributes(x: Any, protected: Protected) -> tuple[dict[str, Any], bool]:
    """Return the protected attributes by name, and whether a caller named them."""
    if protected is None:
        return {}, False
    if isinstance(protected, str | int | np.integer):
        return {str(protected): _column_of(x, protected)}, False
    if _are_names(x, protected):
        return {str(name): _column_of(x, name) for name in protected}, True
    if isinstance(protected, Mapping):
        return {str(name): values for name, values in protected.items()}, True
    columns = list(getattr(protected, "columns", ()))
    if len(columns) > 1 and not is_one_hot(np.asarray(protected)):
        return {str(name): protected[name] for name in columns}, True
    name = columns[0] if len(columns) == 1 else getattr(protected, "name", None)
    return {name if isinstance(name, str) and name else "z": protected}, False


def _are_names(x: Any, protected: Any) -> bool:
    """Return whether a list holds names or positions of columns, not values of rows."""
    plain = isinstance(protected, list | tuple) and len(protected) > 0
    if not plain or not all(isinstance(item, str | int | np.integer) for item in protected):
        return False
    rows, columns = (*_shape(x), 0, 0)[:2]
    return len(protected) != rows and len(protected) <= columns


def _shape(x: Any) -> tuple[int, ...]:
    return tuple(x.shape) if hasattr(x, "shape") else () if x is None else np.shape(x)


def _column_of(x: Any, name: Any) -> Any:
    """Return the column of x of this name, or else at this position."""
    names = getattr(x, "columns", None)
    if names is not None and name in list(names):
        return x[name]
    if isinstance(name, str):
        why = "names a column, but X has no column names; pass a data frame, or the attribute."
        if names is not None:
            why = f"is not a column of X{near_matches(name, map(str, names))}"
        raise ValueError(f"protected={name!r} {why}")
    columns = x if hasattr(x, "shape") else np.asarray(x)
    if len(columns.shape) != 2 or not -columns.shape[1] <= name < columns.shape[1]:
        raise ValueError(f"X of shape {tuple(columns.shape)} has no column {name}.")
    return getattr(columns, "iloc", columns)[:, name]


def _in_one_order(*groups: Mapping[str, Any]) -> list[Any]:
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
    """Return an array of ``rows`` rows, ``(n,)`` or ``(n, c)``."""
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2) or array.shape[0] != rows:
        raise ValueError(
            f"{name} must have one value for each of the {rows} rows; got shape {array.shape}."
        )
    return array


def split_rows(
    rows: NDArray[np.intp], share: float, seed: int, labels: Any = None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Split positions of rows at random; the second part gets a ``share`` of each label."""
    split = require("sklearn.model_selection", "fairness").train_test_split
    try:
        first, second = split(rows, test_size=share, random_state=seed, stratify=labels)
    except ValueError as error:
        raise ValueError(
            f"{len(rows)} rows cannot be split into parts with a share of {share:g} for the second:"
            f" both need rows, of a classification of every class ({error})"
        ) from error
    return first, second


@dataclasses.dataclass(frozen=True)
class Encoding:
    """The encoding of an attribute and of the groups of y for a penalty, learned on training rows.

    Numbers are scaled to [-1, 1] by ``center`` and ``scale``, in 64 bits so that no digit is lost.
    ``distinct`` counts their values; it is 0 for a category, which has ``levels``.  Groups of y
    are ``classes``, or bins between ``edges``.
    """

    name: str
    distinct: int = 0
    center: Any = 0.0
    scale: ArrayLike = 1.0
    levels: tuple[str, ...] | None = None
    classes: NDArray[Any] | None = None
    edges: NDArray[Any] | None = None

    @classmethod
    def learn(cls, penalty: Penalty, z: NDArray[Any], y: NDArray[Any] | None = None) -> Encoding:
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
        classes, edges = (None, None) if y is None else _groups_of(penalty, y)
        return cls(name, distinct, center, scale, levels, classes, edges)

    @property
    def groups(self) -> int:
        """The number of groups of y."""
        if self.classes is not None:
            return len(self.classes)
        return 1 if self.edges is None else len(self.edges) + 1

    @property
    def group_names(self) -> tuple[str, ...]:
        """The names of the groups of y, for tables."""
        if self.classes is not None:
            return tuple(f"y={label:g}" for label in self.classes)
        return () if self.edges is None else tuple(f"bin {i}" for i in range(self.groups))

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
        unknown = sorted(set(values[codes < 0].tolist()))
        if unknown:
            raise ValueError(
                f"{self.name} has the value(s) {', '.join(unknown[:5])}, which the training rows"
                f" do not have; known are {', '.join(map(str, self.levels))}."
            )
        return Category(codes, self.levels).one_hot()

    def group(self, y: NDArray[Any]) -> NDArray[np.int32] | None:
        """Return the group of each row, -1 where it has a class that the training rows lack."""
        if self.classes is not None:
            position = np.clip(np.searchsorted(self.classes, y), 0, len(self.classes) - 1)
            return np.where(self.classes[position] == y, position, -1).astype(np.int32)
        if self.edges is not None:
            return np.searchsorted(self.edges, y, side="right").astype(np.int32)
        return None


def _groups_of(
    penalty: Penalty, y: NDArray[Any]
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Return the classes of y, or the inner edges of its bins, of a penalty with ``given``."""
    if penalty.given is not None and y.ndim != 1:
        raise ValueError(f"given needs one target, y of shape (n,); got shape {y.shape}.")
    if penalty.given == "classes":
        classes, counts = np.unique(y, return_counts=True)
        if counts.min() < 2:
            raise ValueError(
                "given='classes' needs at least two rows of every value of y; there is"
                f" {counts.min()} of {classes[counts.argmin()]:g}. For a continuous y give"
                " given='polynomials', or a number of bins: given=5."
            )
        return classes, None
    if isinstance(penalty.given, str | None):
        return None, None
    edges = np.unique(np.quantile(y, np.arange(1, penalty.given) / penalty.given))
    return None, edges[edges > y.min()]


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


def standardisation(x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return center and scale of each input; 0 and 1 if binary, scale 1 if constant."""
    unit, power = in_unit(x)
    center, scale = np.ldexp(unit.mean(axis=0), power), np.ldexp(unit.std(axis=0), power)
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
    missing = sum(not isinstance(value, str | int | float) or value != value for value in values)
    if missing:
        raise ValueError(f"{name} has {missing} missing value(s); {ADVICE}")
    return np.array([str(value) for value in values.tolist()])


class Rows(NamedTuple):
    """Rows on the device: inputs, targets, and for each penalty its z and its groups (or y)."""

    x: Array
    y: Array
    z: tuple[Array, ...]
    group: tuple[Array | None, ...]


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
    z = list(data.attributes_of(penalties).values())
    if encoders is None:
        encoders = [Encoding.learn(p, values, y) for p, values in zip(penalties, z, strict=True)]
    groups = [
        y if penalty.given_polynomials else encoder.group(y)
        for penalty, encoder in zip(penalties, encoders, strict=True)
    ]
    rows = Rows(
        x=jax.device_put(x),
        y=jax.device_put(y),
        z=tuple(
            jnp.asarray(encoder.encode(values), dtype)
            for encoder, values in zip(encoders, z, strict=True)
        ),
        group=tuple(None if group is None else jax.device_put(group) for group in groups),
    )
    return rows, tuple(encoders)


def make_constraint_rows(
    given: Any, rows: Rows, penalties: Sequence[Penalty], encoders: Sequence[Encoding]
) -> Rows:
    """Return rows ``(x, protected)`` without targets, for the penalties alone."""
    if not isinstance(given, tuple) or len(given) != 2:
        raise ValueError("constraint_rows must be (x, protected), of rows not trained on.")
    for penalty in penalties:
        if penalty.given is not None or penalty.memory > 1:
            raise ValueError(
                f"constraint_rows are for penalties without given and memory; {penalty.name!r} has"
                f" given={penalty.given!r} and memory={penalty.memory}."
            )
    data = TrainingData.of(given[0], None, given[1])
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
    """Raise if batches have too few rows for a penalty, or a penalty has memory without batches."""
    if batch_size is None and any(penalty.memory > 1 for penalty in penalties):
        raise ValueError("memory is for batches, but every step has all rows; leave it at 1.")
    n = rows.x.shape[0]
    for penalty, encoder, z, group in zip(penalties, encoders, rows.z, rows.group, strict=True):
        if not penalty.penalised:
            continue
        least, share, where = penalty.least_rows(z), 1.0, ""
        if encoder.group_names:
            counts = np.bincount(np.asarray(group), minlength=encoder.groups)
            share, where = counts.min() / n, f" of {encoder.group_names[counts.argmin()]}"
        expected = (n if batch_size is None else batch_size * penalty.memory) * share
        if expected < least:
            raise ValueError(
                f"{encoder.name}: a batch has about {expected:.0f} row(s){where}; with so few"
                " the measure is 1 whatever the prediction, and constrains nothing. At least"
                f" {least} are needed: take larger batches, more memory or lower degrees."
            )
