"""Find protected attributes, split rows, encode them for penalties."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from numpy.typing import ArrayLike, NDArray

from hgr_jax._arrays import LARGEST_NUMBER
from hgr_jax._checks import as_host_weights, check_indexes, check_level
from hgr_jax._optional import require
from hgr_jax._texts import near_matches
from hgr_jax.fairness.penalties import UNNAMED, Penalty, check_distinct_penalties
from hgr_jax.fairness.statistics import DemographicParity
from hgr_jax.tables.arrays import read_variable
from hgr_jax.tables.levels import Category, encode_by_levels, number_as_text

Protected = Any
"""An array, Series or frame of attributes; or names of columns of X, a data frame."""

ADVICE = "drop these rows, or fill them in."

MIN_GROUP_ROWS = 10
"""Smallest number of rows of a level of an attribute that is certified."""

MAX_GROUP_VALUES = 10
"""Largest number of distinct numbers that are groups as they are, not cut at quantiles."""


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """Rows of inputs or predictions x, targets y (or None) and attributes z.

    Attributes are numbers ``(n,)``, texts ``(n,)`` or one-hot ``(n, c)``.  ``outcome`` are targets
    by whose groups dependences are measured, as the caller gave them; None for y.  ``weights (n,)``
    are observation weights, or None.
    """

    x: Any
    y: Any
    z: Mapping[str, NDArray[Any]]
    outcome: Any = None
    weights: NDArray[np.float64] | None = None

    @classmethod
    def of(
        cls,
        x: Any,
        y: Any = None,
        protected: Protected = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Return rows of inputs, targets and attributes; pandas objects must have equal labels.

        ``protected`` is ``(n,)``, or one-hot ``(n, c)``; a frame of several columns, attributes by
        name; or the name, or names, of columns of x.  Rows whose ``sample_weight`` is 0 are left
        out.  Raises for missing values of attributes.
        """
        attributes = _attributes(x, protected)
        labelled = {f"attribute {name}": column for name, column in attributes.items()}
        check_indexes(**{"X": x, "y": y, "sample_weight": sample_weight} | labelled)
        first = y if x is None else x
        shape = first.shape if hasattr(first, "shape") else np.asarray(first).shape
        if not shape:
            raise TypeError(
                "predictions, or inputs, come first and need a value for each row; got"
                f" {type(first).__name__}."
            )
        rows = shape[0]
        z = {name: as_column(name, column, rows) for name, column in attributes.items()}
        if sample_weight is not None and not np.asarray(sample_weight).any():
            raise ValueError("sample_weight must not be zero in every row.")
        weights = as_host_weights(sample_weight, rows)
        data = cls(x, y, z, None, weights)
        return data if weights is None or weights.all() else data.take(np.flatnonzero(weights))

    def take(self, rows: NDArray[np.intp]) -> Self:
        """Return the rows at these positions."""

        def taken(values: Any) -> Any:
            index = require("sklearn.utils")._safe_indexing
            return None if values is None else index(values, rows)

        return dataclasses.replace(
            self,
            x=taken(self.x),
            y=taken(self.y),
            z={name: values[rows] for name, values in self.z.items()},
            outcome=taken(self.outcome),
            weights=taken(self.weights),
        )

    def split(self, share_name: str, share: Any, seed: int, *, by_class: bool) -> tuple[Self, Self]:
        """Split the rows at random; the second part gets a ``share`` (the option ``share_name``).

        With ``by_class`` both parts have equal shares of each value of y.  Rows of a level that is
        absent from the first part, from which levels are learned, move there.
        """
        share = check_level(share_name, share)
        split = require("sklearn.model_selection").train_test_split
        rows, labels = np.arange(len(self.y)), self.y if by_class else None
        first, second = split(rows, test_size=share, random_state=seed, stratify=labels)
        for values in self.z.values():
            if is_text(values):
                rare = ~np.isin(values[second], values[first])
                first, second = np.concatenate([first, second[rare]]), second[~rare]
        return self.take(first), self.take(second)

    @property
    def given(self) -> tuple[str, Any]:
        """The name and values of the targets by whose groups dependences are measured."""
        name = getattr(self.y, "name", None)
        return "y" if name is None else str(name), self.y if self.outcome is None else self.outcome

    def attribute_of(self, penalty: Penalty) -> NDArray[Any]:
        """Return the attribute of a penalty: the only one, or that of its name."""
        if not self.z:
            raise ValueError("protected must be given: an attribute, or several.")
        if len(self.z) > 1 and penalty.name not in self.z:
            raise ValueError(
                "protected must have a column for each penalty's name; there is none for"
                f" {penalty.name!r} (it has {', '.join(map(repr, self.z))})."
            )
        return self.z.get(penalty.name, next(iter(self.z.values())))

    def penalties_of(self, penalties: tuple[Penalty, ...]) -> tuple[Penalty, ...]:
        """Return penalties with the names of the attributes: a single penalty is for each of them.

        So is a list of penalties without names, in the order of the attributes.
        """
        if not self.z:
            raise ValueError("protected must be given: an attribute, or several.")
        unnamed = {penalty.name for penalty in penalties} == {UNNAMED}
        if unnamed and len(penalties) == 1:
            penalties *= len(self.z)
        if unnamed and len(penalties) == len(self.z):
            return tuple(
                dataclasses.replace(penalty, name=name)
                for penalty, name in zip(penalties, self.z, strict=True)
            )
        return check_distinct_penalties(penalties)


def column_names(x: Any) -> list[Any]:
    """Return the names of the columns of a data frame; none of anything else."""
    return list(getattr(x, "columns", ()))


def is_names(protected: Any, rows: int) -> bool:
    """Return whether this is the name of a column, or a list of names, not of values of rows."""
    if isinstance(protected, list | tuple):
        return 0 < len(protected) != rows and all(isinstance(name, str) for name in protected)
    return isinstance(protected, str)


def _attributes(x: Any, protected: Protected) -> dict[str, Any]:
    """Return the protected attributes by name."""
    if protected is None:
        return {}
    if is_names(protected, (*np.shape(x), 0)[0]):
        names = [protected] if isinstance(protected, str) else list(protected)
        return {name: _column_of(x, name) for name in names}
    columns = column_names(protected)
    if len(columns) == 1:
        protected = protected[columns[0]]
    elif columns and not is_one_hot(np.asarray(protected)):
        return {str(name): protected[name] for name in columns}
    name = columns[0] if len(columns) == 1 else getattr(protected, "name", None)
    return {UNNAMED if name is None or name == "" else str(name): protected}


def _column_of(x: Any, name: str) -> Any:
    """Return the column of a data frame of this name."""
    names = column_names(x)
    if name in names:
        return x[name]
    why = "names a column, but X has no column names; pass a data frame, or the values."
    if names:
        why = f"is not a column of X{near_matches(name, map(str, names))}"
    raise ValueError(f"protected={name!r} {why}")


def as_column(name: str, values: Any, rows: int | None = None) -> NDArray[Any]:
    """Return numbers ``(n,)``, texts ``(n,)`` or one-hot ``(n, c)``, of ``rows`` rows."""
    read = read_variable(name, np.asarray(values) if column_names(values) else values)
    if isinstance(read, Category):
        if missing := int((read.codes < 0).sum()):
            raise ValueError(f"{name} has {missing} missing value(s); {ADVICE}")
        array = np.array(read.levels)[read.codes]
    else:
        array = numbers(name, read)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2) or (rows is not None and len(array) != rows):
        raise ValueError(
            f"{name} must have one value for each of the {rows} rows; got shape {array.shape}."
        )
    if array.ndim == 2 and not is_one_hot(array):
        raise ValueError(
            f"{name} of shape {array.shape} must be one-hot, a single 1 in every row: the levels of"
            " one categorical attribute. Give several attributes as a data frame."
        )
    return array


def is_text(values: NDArray[Any]) -> bool:
    """Return whether an attribute is a category by texts."""
    return values.dtype.kind == "U"


def is_one_hot(values: NDArray[Any]) -> bool:
    """Return whether every row of ``(n, c)`` has a single 1 among zeros."""
    if values.dtype.kind not in "fiub":
        return False
    return bool(np.isin(values, (0, 1)).all() and (values.sum(axis=1) == 1).all())


@dataclasses.dataclass(frozen=True)
class Encoding:
    """The encoding of an attribute and of the groups of a penalty, learned on training rows.

    Numbers are scaled to [-1, 1] by ``center`` and ``scale``, in 64 bits so that no digit is lost.
    A category of texts, or of the numbers that demographic parity compares, has ``levels``.  Groups
    of y, whose name is ``given``, are ``classes``, or bins between ``edges``.
    """

    name: str
    center: Any = 0.0
    scale: ArrayLike = 1.0
    levels: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    edges: NDArray[Any] | None = None
    given: str = "y"

    @classmethod
    def learn(
        cls, penalty: Penalty, z: NDArray[Any], condition: tuple[str, Any] = ("y", None)
    ) -> Encoding:
        """Learn the encoding from training rows, or raise where the penalty does not take them."""
        name, (given, values) = penalty.name, condition
        classes, edges = (None, None) if values is None else _groups_of(penalty, given, values)
        groups: dict[str, Any] = {"classes": classes, "edges": edges, "given": given}
        parity = isinstance(penalty.statistic, DemographicParity)
        few = z.ndim == 1 and len(np.unique(z)) <= MAX_GROUP_VALUES
        if is_text(z) or (parity and few):
            return cls(name, levels=tuple(sorted(set(_as_texts(z).tolist()))), **groups)
        if z.ndim == 2:
            return cls(name, **groups)
        if parity:
            raise ValueError(
                f"demographic parity compares levels, and {name} has {len(np.unique(z))} different"
                " numbers: cut it into groups, or take KB or HGR."
            )
        low, high = z.min() / 2, z.max() / 2  # halves: the range of any data is finite
        return cls(name, low + high, (high - low) or 1.0, **groups)

    @property
    def groups(self) -> int:
        """The number of groups of y."""
        return max(len(self.group_names), 1)

    @property
    def group_names(self) -> tuple[str, ...]:
        """The names of the groups of y."""
        if self.classes is not None:
            return tuple(f"{self.given}={label}" for label in self.classes)
        if self.edges is None:
            return ()
        shown, name = [f"{edge:.4g}" for edge in self.edges], self.given
        inner = [f"{name} {low} to {high}" for low, high in itertools.pairwise(shown)]
        return (f"{name} < {shown[0]}", *inner, f"{name} >= {shown[-1]}") if shown else (name,)

    def value_names(self, columns: int) -> list[str]:
        """Return a name for each value of a penalty, of a prediction with so many columns."""
        heads = [self.name] if columns == 1 else [f"{self.name}[{i}]" for i in range(columns)]
        groups = self.group_names or ("",)
        return [f"{head} | {group}" if group else head for head in heads for group in groups]

    def encode(self, z: NDArray[Any]) -> NDArray[Any]:
        """Encode an attribute as ``(n,)``, or one-hot ``(n, c)`` if it is categorical."""
        if z.ndim == 2:
            return z
        if self.levels is None:
            return (numbers(self.name, z) - self.center) / self.scale
        texts = _as_texts(z)
        codes = encode_by_levels(texts, self.levels)
        if unknown := sorted(set(texts[codes < 0].tolist())):
            raise ValueError(
                f"{self.name} has the value(s) {', '.join(unknown[:5])}, which the training rows"
                f" do not have; known are {', '.join(map(str, self.levels))}."
            )
        return Category(codes, self.levels).one_hot()

    def group(self, condition: Any) -> NDArray[np.int32] | None:
        """Return the group of each row, -1 where it has a class that the training rows lack."""
        if self.classes is None and self.edges is None:
            return None
        values = as_column(self.given, condition)
        if self.classes is not None:
            return encode_by_levels(_as_texts(values), self.classes).astype(np.int32)
        return np.searchsorted(np.asarray(self.edges), values, side="right").astype(np.int32)


def _as_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as the shortest texts that tell them apart."""
    return values if is_text(values) else np.array([number_as_text(value) for value in values])


def _groups_of(
    penalty: Penalty, name: str, condition: Any
) -> tuple[tuple[str, ...] | None, NDArray[Any] | None]:
    """Return the classes of y, or the inner edges of its bins, of a penalty with ``given``."""
    if penalty.given is None:
        return None, None
    if np.ndim(condition) != 1:
        shape = np.shape(condition)
        raise ValueError(f"given needs one target, y of shape (n,); got shape {shape}.")
    values = as_column(name, condition)
    if penalty.given == "classes":
        classes, counts = np.unique(values, return_counts=True)
        if counts.min() < 2:
            raise ValueError(
                f"given='classes' needs at least two rows of every value of {name}; of continuous"
                " numbers give a number of bins: given=5."
            )
        return tuple(_as_texts(classes).tolist()), None
    edges = np.unique(
        np.quantile(numbers(name, values), np.arange(1, penalty.given) / penalty.given)
    )
    return None, edges[edges > values.min()]


def check_varies(name: str, values: NDArray[Any], rows: str = "rows") -> None:
    """Raise where an attribute is constant, or there are no rows."""
    if not (values != values[:1]).any():
        what = "there are no"
        if len(values):
            what = f"it is {np.asarray(values[0]).tolist()!r} in all {len(values)}"
        raise ValueError(f"{name} must vary, or nothing can depend on it: {what} {rows}.")


def numbers(name: str, values: Any, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return values as finite numbers of ``dtype``, or raise with the place of the first other."""
    array = np.asarray(values)
    largest = min(LARGEST_NUMBER, float(jnp.finfo(dtype).max))
    try:
        if array.dtype.kind not in "fiubO":
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
    center = np.average(x, axis=0, weights=weights)
    scale = np.sqrt(np.average(np.square(x - center), axis=0, weights=weights))
    binary = np.isin(x, (0.0, 1.0)).all(axis=0)
    constant = (x == x[:1]).all(axis=0) | (scale == 0)
    return np.where(binary, 0.0, center), np.where(binary | constant, 1.0, scale)


class Rows(NamedTuple):
    """Rows on the device: inputs, targets, for each penalty its z and its groups, and observation
    weights of mean 1, or None.
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
    z = [data.attribute_of(penalty) for penalty in penalties]
    if encoders is None:
        for penalty, values in zip(penalties, z, strict=True):
            check_varies(penalty.name, values)
        encoders = [
            Encoding.learn(penalty, values, (name, condition))
            for penalty, values in zip(penalties, z, strict=True)
        ]
    groups = [encoder.group(condition) for encoder in encoders]
    attributes = [
        jnp.asarray(encoder.encode(values), dtype)
        for encoder, values in zip(encoders, z, strict=True)
    ]
    weights = data.weights
    if weights is not None:
        weights = jax.device_put((weights / weights.mean()).astype(dtype))
    rows = Rows(
        x=jax.device_put(x),
        y=jax.device_put(y),
        z=tuple(attributes),
        group=tuple(None if group is None else jax.device_put(group) for group in groups),
        weights=weights,
    )
    return rows, tuple(encoders)
