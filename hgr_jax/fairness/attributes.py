"""From what a caller has to what a penalty needs: checked, encoded, grouped; before training."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from numpy.typing import ArrayLike, NDArray

from hgr_jax._forks import refuse_forked
from hgr_jax.fairness.penalties import Penalty
from hgr_jax.fairness.statistic_names import CATEGORICAL_MEASURES
from hgr_jax.fairness.steps import Rows
from hgr_jax.tables.convert import Category, encode_known

Protected = ArrayLike | Mapping[str, ArrayLike] | None


@dataclasses.dataclass(frozen=True)
class Attribute:
    """The encoding of a protected attribute and of the targets, learned on training rows.

    Numbers are standardised by ``center`` and ``scale``, in 64 bits, so that no unit loses digits.
    ``distinct`` counts the values of numbers (0 for a category, whose ``levels`` are known);
    ``classes`` or ``edges`` are those of the groups of y.
    """

    name: str
    distinct: int = 0
    center: Any = 0.0
    scale: ArrayLike = 1.0
    levels: tuple[str, ...] | None = None
    classes: NDArray[Any] | None = None
    edges: NDArray[Any] | None = None

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
        """Return a name for each value of a penalty of a prediction of so many columns."""
        heads = [self.name] if columns == 1 else [f"{self.name}[{i}]" for i in range(columns)]
        groups = self.group_names or ("",)
        return [f"{head} | {group}" if group else head for head in heads for group in groups]

    def suited(self, penalty: Penalty) -> Penalty:
        """Return the penalty with no higher degree of the attribute than its values support."""
        return penalty.suited(self.distinct) if self.distinct else penalty

    def encode(self, z: ArrayLike, rows: int) -> NDArray[Any]:
        """Encode the attribute as ``(n,)``, or one-hot ``(n, c)`` if it is categorical.

        Raises:
          TypeError, ValueError: for another number of rows, values that are missing, infinite or
            neither numbers nor text, and unknown levels.
        """
        values = as_column(self.name, z, rows)
        if self.levels is None:
            return (numbers(self.name, values) - self.center) / self.scale
        values = levels_of(self.name, values)
        codes = encode_known(values, self.levels)
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


def learn_attribute(penalty: Penalty, z: ArrayLike, y: NDArray[Any]) -> Attribute:
    """Learn how ``penalty`` sees these training rows.

    Raises:
      TypeError, ValueError: as `Attribute.encode`; for an attribute that does not vary; and for
        a class of y with fewer than two rows where the penalty is given y.
    """
    name = penalty.name
    values = as_column(name, z, len(y))
    levels: tuple[str, ...] | None = None
    center, scale, distinct = 0.0, 1.0, 0
    if is_text(values):
        values = levels_of(name, values)
        levels = tuple(sorted(set(values.tolist())))
    else:
        values = numbers(name, values)
        if values.ndim == 1 and len(values):
            # Halves, so that the range of any data is a finite number.
            low, high = values.min() / 2, values.max() / 2
            center, scale = low + high, high - low
            distinct = len(np.unique(values))
    if values.ndim == 2 and not is_one_hot(values):
        raise ValueError(
            f"{name} of shape {values.shape} must be one-hot, a single 1 in every row: the levels"
            " of one categorical attribute. Give each of several attributes a penalty of its own."
        )
    categorical = levels is not None or values.ndim == 2
    if categorical and penalty.statistic is not None and not penalty.statistic.categorical:
        raise ValueError(
            f"{name} is categorical, which {penalty.measure!r} does not take; the measures that"
            f" do are {', '.join(map(repr, CATEGORICAL_MEASURES))}, or a function of"
            " one-hot columns."
        )
    check_varies(name, values)
    classes = edges = None
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
    elif penalty.given not in (None, "polynomials"):
        edges = np.unique(np.quantile(y, np.arange(1, penalty.given) / penalty.given))
        edges = edges[edges > y.min()]
    return Attribute(name, distinct, center, scale, levels, classes, edges)


def check_varies(name: str, values: NDArray[Any], rows: str = "rows") -> None:
    """Raise where an attribute is the same in all rows, or there are none."""
    if not (values != values[:1]).any():
        what = (
            f"it is {values[0].tolist()!r} in all {len(values)}" if len(values) else "there are no"
        )
        raise ValueError(f"{name} must vary, or nothing can depend on it: {what} {rows}.")


def matched(protected: Any, penalties: Sequence[Penalty]) -> list[Any]:
    """Return the protected attribute of each penalty.

    ``protected`` is one array for all of them, or a mapping (of several: a data frame) by name.
    """
    if len(penalties) > 1 and hasattr(protected, "columns"):
        protected = {name: protected[name] for name in protected.columns}
    if not isinstance(protected, Mapping):
        return [protected] * len(penalties)
    names = [penalty.name for penalty in penalties]
    absent = [name for name in names if name not in protected]
    if absent:
        raise ValueError(
            f"protected must have an entry for each penalty's name; there is none for"
            f" {', '.join(map(repr, absent))} (it has {', '.join(map(repr, protected))})."
        )
    return [protected[name] for name in names]


def as_column(name: str, values: Any, rows: int) -> NDArray[Any]:
    """Return an array of ``rows`` rows, ``(n,)`` or ``(n, c)``."""
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2) or array.shape[0] != rows:
        raise ValueError(
            f"{name} must have one value for each of the {rows} rows; got shape {array.shape}."
        )
    return array


def named_column(X: Any, protected: Any) -> Any:  # noqa: N803
    """Return a column of X where ``protected`` is its name or its position, else ``protected``.

    Raises:
      ValueError: if X has no such column.
    """
    if isinstance(protected, int | np.integer):
        columns = np.asarray(X)
        if columns.ndim != 2 or not -columns.shape[1] <= protected < columns.shape[1]:
            raise ValueError(f"X of shape {columns.shape} has no column {protected}.")
        return columns[:, protected]
    if not isinstance(protected, str):
        return protected
    names = getattr(X, "columns", None)
    if names is None:
        raise ValueError(
            f"protected={protected!r} names a column, but X has no column names; pass a data"
            " frame, or the attribute itself."
        )
    if protected not in list(names):
        raise ValueError(
            f"protected={protected!r} is not a column of X; its columns are"
            f" {', '.join(map(str, names))}."
        )
    return np.asarray(X[protected])


def numbers(name: str, values: Any, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return values as finite real numbers, of ``dtype``.

    Raises:
      TypeError: for anything but numbers.
      ValueError: for values that are missing, infinite or too large for the dtype, saying how
        many and where.
      RuntimeError: in a process that was forked where JAX ran: it is JAX that takes them.
    """
    refuse_forked()
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        try:
            if array.dtype.kind not in "OUS":
                raise TypeError
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                f"{name} must hold real numbers; got dtype {array.dtype}."
                " Encode categories as numbers or one-hot columns first."
            ) from None
    with np.errstate(over="ignore"):
        array = array.astype(np.float64).astype(dtype)
    wrong = ~np.isfinite(array)
    if wrong.any():
        where = ", ".join(map(str, np.argwhere(wrong)[0]))
        raise ValueError(
            f"{name} has {int(wrong.sum())} value(s) that are NaN, infinite or too large for"
            f" {np.dtype(dtype).name}, the first at ({where}); {_MEND}"
        )
    return array


def standardisation(x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return center and scale of each input; columns of 0 and 1 are left, constants keep scale."""
    with np.errstate(over="ignore"):
        center, scale = x.mean(axis=0), x.std(axis=0)
    if not np.isfinite(scale).all():  # squares that overflow
        size = np.maximum(np.abs(x).max(axis=0), 1)
        scale = (x / size).std(axis=0) * size
    binary = np.isin(x, (0.0, 1.0)).all(axis=0)
    constant = (x == x[:1]).all(axis=0)
    return np.where(binary, 0.0, center), np.where(binary | constant, 1.0, scale)


def is_one_hot(values: NDArray[Any]) -> bool:
    """Return whether every row of ``(n, c)`` has a single 1 among zeros."""
    return bool(np.isin(values, (0, 1)).all() and (values.sum(axis=1) == 1).all())


def is_text(values: NDArray[Any]) -> bool:
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
        raise ValueError(f"{name} has {missing} missing value(s); {_MEND}")
    return np.array([str(value) for value in values.tolist()])


_MEND = "drop these rows, or fill them in."


def make_rows(
    x: ArrayLike,
    y: ArrayLike,
    protected: Any,
    penalties: Sequence[Penalty],
    attributes: Sequence[Attribute] | None,
    dtype: DTypeLike,
) -> tuple[Rows, tuple[Attribute, ...]]:
    """Check rows, put them on the device, and learn how the penalties see the attributes.

    Args:
      x, y, protected: as `FairTrainer.fit` takes them.
      penalties: of the training.
      attributes: learned on the training rows; None where these are they.
      dtype: of the network.

    Raises:
      TypeError, ValueError: for data that cannot be trained on.
    """
    x, y = numbers("x", x, dtype), numbers("y", y, dtype)
    if x.ndim != 2 or 0 in x.shape:
        raise ValueError(f"x must have shape (n, p), n and p >= 1; got shape {x.shape}.")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim not in (1, 2) or len(y) != len(x):
        raise ValueError(
            f"x and y must have the same number of rows; got shapes {x.shape} and {y.shape}."
        )
    if protected is None and penalties:
        raise ValueError("protected must be given: the penalties need it.")
    z = matched(protected, penalties)
    if attributes is None:
        attributes = [learn_attribute(p, values, y) for p, values in zip(penalties, z, strict=True)]
    groups = [
        y if penalty.given == "polynomials" else attribute.group(y)
        for penalty, attribute in zip(penalties, attributes, strict=True)
    ]
    rows = Rows(
        x=jax.device_put(x),
        y=jax.device_put(y),
        z=tuple(
            jnp.asarray(attribute.encode(values, len(x)), dtype)
            for attribute, values in zip(attributes, z, strict=True)
        ),
        group=tuple(None if group is None else jax.device_put(group) for group in groups),
    )
    return rows, tuple(attributes)


def make_constraint(
    given: tuple[ArrayLike, Protected],
    rows: Rows,
    penalties: Sequence[Penalty],
    attributes: Sequence[Attribute],
) -> Rows:
    """Return rows for the penalties alone, which need no targets.

    Args:
      given: ``(x, protected)``, as `FairTrainer.fit` takes them.
      rows, penalties, attributes: of the training.

    Raises:
      TypeError, ValueError: for other rows, and penalties that need more of them.
    """
    if not isinstance(given, tuple) or len(given) != 2:
        raise ValueError("constraint_rows must be (x, protected), of rows not trained on.")
    for penalty in penalties:
        if penalty.given is not None or penalty.memory > 1:
            raise ValueError(
                f"constraint_rows are for penalties without given and memory; {penalty.name!r} has"
                f" given={penalty.given!r} and memory={penalty.memory}."
            )
    x, protected = given
    targets = np.zeros(len(np.asarray(x)))
    found, _ = make_rows(x, targets, protected, penalties, attributes, rows.x.dtype)
    if found.x.shape[1] != rows.x.shape[1]:
        needed = f"the {rows.x.shape[1]} inputs of the training rows"
        raise ValueError(f"constraint_rows must have {needed}; got x of shape {found.x.shape}.")
    for penalty, z in zip(penalties, found.z, strict=True):
        check_varies(penalty.name, np.asarray(z), "constraint rows")
        if penalty.statistic is not None and len(z) < (least := penalty.least_rows(z)):
            raise ValueError(
                f"{penalty.name}: of {len(z)} constraint rows the measure is 1 whatever the"
                f" prediction. At least {least} are needed: take more, or lower degrees."
            )
    return found


def check_sizes(
    penalties: Sequence[Penalty],
    attributes: Sequence[Attribute],
    rows: Rows,
    batch_size: int | None,
) -> None:
    """Raise where a batch will have too few rows for a penalty, or a memory could add none.

    Args:
      penalties, attributes: of the training.
      rows: all training rows.
      batch_size: None where a step has all of them.
    """
    if batch_size is None and any(penalty.memory > 1 for penalty in penalties):
        raise ValueError("memory is for batches, but every step has all rows; leave it at 1.")
    n = rows.x.shape[0]
    for penalty, attribute, z, group in zip(penalties, attributes, rows.z, rows.group, strict=True):
        if penalty.statistic is None:
            continue
        least, share, where = penalty.least_rows(z), 1.0, ""
        if attribute.group_names:
            counts = np.bincount(np.asarray(group), minlength=attribute.groups)
            share, where = counts.min() / n, f" of {attribute.group_names[counts.argmin()]}"
        expected = (n if batch_size is None else batch_size * penalty.memory) * share
        if expected < least:
            raise ValueError(
                f"{attribute.name}: a batch has about {expected:.0f} row(s){where}; with so few"
                " the measure is 1 whatever the prediction, and constrains nothing. At least"
                f" {least} are needed: take larger batches, more memory or lower degrees."
            )
