"""Distance covariance of two variables by sorting, in O(n log n)."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, custom_batching, lax

from hgr_jax.core.numerics import fill_padding, row_count, row_mask

PREFIX_CHUNK = 64
"""Number of rows that are compared pair by pair, and whose prefix sums are one matrix product."""


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def products_by_sorting(unbiased: bool, a: Array, b: Array, count: Array | None) -> Array:
    """Return `pair_sums.centred_products` of the distances of ``a`` and ``b``, both ``(n,)``.

    Given their orders, a distance is linear in the data and the product of two is bilinear:

        ab = sum_i a_i g_i,    g_i = d ab / d a_i = 2 / n^2  sum_j sign(a_i - a_j) B_ij

    with B the centred distances of b, and likewise for aa and bb.  The sum over j is small where a
    and b are independent, so that no large terms cancel in ab.
    """
    return _in_float64(unbiased, False, a, b, count)[0]


@products_by_sorting.defjvp
def products_by_sorting_jvp(
    unbiased: bool, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Array, Array]:
    products, (slope_a, slope_b), own_slopes, rows = _in_float64(unbiased, True, *primals)
    da, db = (x[rows] for x in tangents[:2])
    return products, jnp.stack(
        [slope_a @ da + slope_b @ db, 2 * (own_slopes[0] @ da), 2 * (own_slopes[1] @ db)]
    )


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _in_float64(
    unbiased: bool, both: bool, a: Array, b: Array, count: Array | None
) -> tuple[Array, list[Array], list[Array], Array]:
    """Compute `_products_and_slopes` in float64, traced or not; return it in the dtype of ``a``.

    Float32 loses percents of a value near 0, where columns have ties.
    """

    def compute(a: Array, b: Array, count: Array | None) -> Any:
        x, y = (lax.convert_element_type(each, jnp.float64) for each in (a, b))
        *numbers, rows = _products_and_slopes(unbiased, x, y, count, both=both)
        products, slopes, own_slopes = jax.tree.map(
            lambda x: lax.convert_element_type(x, a.dtype), numbers
        )
        return products, slopes, own_slopes, lax.convert_element_type(rows, jnp.int32)

    @custom_batching.custom_vmap
    def one(a: Array, b: Array, count: Array | None) -> Any:
        with jax.enable_x64(True):  # of this thread, in this block
            return compute(a, b, count)

    @one.def_vmap
    def several(size: int, batched: Any, *arguments: Any) -> Any:
        axes = jax.tree.map(lambda is_batched: 0 if is_batched else None, tuple(batched))
        with jax.enable_x64(True):  # JAX would batch products in the dtypes outside of the block
            results = jax.vmap(compute, axes, axis_size=size)(*arguments)
        return results, jax.tree.map(lambda _: True, results)

    return one(a, b, count)


@_in_float64.defjvp
def _in_float64_jvp(
    unbiased: bool, both: bool, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Any, Any]:
    """Differentiate once more in the dtype of the data: float64 has no transpose outside."""
    a, b, count = primals

    def own_dtype(a: Array, b: Array) -> tuple[Array, list[Array], list[Array]]:
        return _products_and_slopes(unbiased, a, b, count, both=both)[:3]

    results = _in_float64(unbiased, both, *primals)
    moved = jax.jvp(own_dtype, (a, b), tuple(tangents[:2]))[1]
    no_move = jnp.zeros(results[3].shape, jax.dtypes.float0)
    return results, (*moved, no_move)


def _products_and_slopes(
    unbiased: bool, a: Array, b: Array, count: Array | None, *, both: bool
) -> tuple[Array, list[Array], list[Array], Array]:
    """Return the products ab, aa, bb, and their derivatives, all rows in the order of ``a``.

    Distances D of row sums S = ``centred + level + total`` are centred as

        (factor D_ij - centred_i - centred_j - level + excess) / factor

    Terms common to all rows are kept apart and division comes last, because a rounding error that
    is the same in all rows would not average out.

    Returns:
      The products; the derivative of ab by a (and by b if ``both``); half the derivatives of aa
      by a and of bb by b; the row of the data at each place of the order of ``a``.
    """
    rows, orders = _orders(a, b, count)
    number, mask = row_count(count, a), row_mask(count, a.shape[0])

    def centre(x: Array) -> tuple[Array, Array]:
        """Return ``x (2, n)`` less its means, 0 in rows that are not data; and the means."""
        data = x if mask is None else jnp.where(mask[None], x, 0)
        mean = lax.stop_gradient(jnp.sum(data, axis=1) / number)
        data = data - mean[:, None]
        return data if mask is None else jnp.where(mask[None], data, 0), mean

    # A constant changes no distance; sums of numbers near 0 keep more digits.
    values, _ = centre(jnp.stack([a[rows], b[rows]]))
    # sum_j sign(x_i - x_j): rows below less rows above.
    balance = (orders.less + orders.past - orders.number).astype(a.dtype)
    below = orders.below(values)
    signed, total = orders.signed(below), below[0, :, -1]
    # Row sums of distances, sum_j |x_i - x_j| = x_i balance_i - sum_j sign(x_i - x_j) x_j: prefix
    # sums along the order take O(n) where the distances themselves are O(n^2).
    sums = jnp.stack([balance[v] * values[v] - signed[v, v] for v in (0, 1)])
    centred, level = centre(sums)
    below_sums = orders.below(centred)
    # The sum of centred values is rounding: in exact arithmetic it is 0.
    middle = below_sums[0, :, -1] / number
    excess = middle - total
    if unbiased:
        excess = excess + (level + (middle + total)) / (number - 1)
    signed_sums = orders.signed(below_sums) - middle[None, :, None] * number
    factor = number - 2 if unbiased else number
    scale = 2 / (number * (number - 3 if unbiased else number)) / factor

    def slope(order: int, other: int, signed_distances: Array) -> Array:
        """Return the slope from ``sum_j sign(x_i - x_j) |y_i - y_j|``: distances of y centred."""
        centring = signed_sums[order, other] - balance[order] * excess[other]
        return scale * ((factor * signed_distances - balance[order] * sums[other]) - centring)

    # With x = y the signed sum of distances needs no second order: sign(x) |x| = x.
    own_slopes = [slope(v, v, number * values[v] - below[0, v, -1]) for v in (0, 1)]
    others = (1, 0) if both else (1,)
    concordance = _concordance(orders, values, below, others)
    slopes = [slope(1 - v, v, concordance[i]) for i, v in enumerate(others)]
    products = jnp.stack(
        [values[0] @ slopes[0], values[0] @ own_slopes[0], values[1] @ own_slopes[1]]
    )
    products = without_rounding(products, *(level / factor), squares=False)
    return products, slopes, own_slopes, rows


class _SortedOrders(NamedTuple):
    """The orders of a and of b ``(2, n)``; rows are numbered in the order of a, padding last.

    Attributes:
      number: of rows that are data.
      along: the row at each place of the order.
      less, past: numbers of rows with a smaller value than each row, and with at most its value.
    """

    number: Array | int
    along: Array
    less: Array
    past: Array

    def below(self, x: Array) -> Array:
        """Return, for each order and row of ``x (c, n)``, its prefix sums, ``(2, c, n + 1)``."""
        return _prefix_sums(jnp.stack([x, x[:, self.along[1]]]))

    def signed(self, below: Array) -> Array:
        """Return ``sum_j sign(value_i - value_j) x_j``, plus the sum of x, for each order and x."""
        less, past = (
            jnp.take_along_axis(below, place[:, None], axis=2) for place in (self.less, self.past)
        )
        return less + past


def _orders(a: Array, b: Array, count: Array | None) -> tuple[Array, _SortedOrders]:
    """Return the order of the rows by ``a``, then ``b``, and both orders in terms of it."""
    index = lax.iota(jnp.int32, a.shape[0])
    a, b = (fill_padding(lax.stop_gradient(x), count, jnp.inf) for x in (a, b))
    a, b, rows = lax.sort((a, b, index), num_keys=2)
    sorted_b, along = lax.sort((b, index), num_keys=1)
    less, past = (
        jnp.stack([jnp.searchsorted(x, y, side=side) for x, y in ((a, a), (sorted_b, b))])
        for side in ("left", "right")
    )
    number = a.shape[0] if count is None else count
    return rows, _SortedOrders(number, jnp.stack([index, along]), less, past)


def _concordance(
    orders: _SortedOrders, values: Array, below: Array, variables: tuple[int, ...]
) -> list[Array]:
    """Return ``sum_j sign(x_i - x_j) |y_i - y_j|``, ``(n,)``, with each of ``variables`` as y.

    It is the sum of s_ij (y_i - y_j) over rows j of another x, with s_ij = 1 if rows i and j are in
    the same order by both variables, else -1.
    """
    index, along = orders.along
    place = jnp.zeros_like(index).at[along].set(index, unique_indices=True)
    counts, sums = _dominated(along, place, values[jnp.array(variables)])
    number = (4 * counts - 2 * index - 2 * place + (orders.number - 1)).astype(values.dtype)
    results = []
    for v, dominated in zip(variables, sums, strict=True):
        y, prefix = values[v], below[:, v]
        agreeing = 4 * dominated - 2 * (prefix[0, :-1] + prefix[1, place]) + prefix[0, -1] - y
        less, past, prefix = orders.less[1 - v], orders.past[1 - v], prefix[1 - v]
        tied = (past - less).astype(y.dtype) * y - (prefix[past] - prefix[less])
        results.append(number * y - agreeing - jnp.where(past - less > 1, tied, 0))
    return results


def _dominated(along: Array, place: Array, columns: Array) -> tuple[Array, Array]:
    """Return the number and the sum of ``columns`` of the rows before each row in both orders.

    The rows, in the second order, are repeatedly split by halves of the first order.  When row i
    goes to the right half of its block, the earlier rows of the block that go left are before i in
    both orders.  Blocks of `PREFIX_CHUNK` rows are compared pair by pair.
    """
    count = along.shape[0]
    filled = -(-count // PREFIX_CHUNK) * PREFIX_CHUNK
    extra = lax.iota(jnp.int32, filled - count) + count
    along, place = jnp.concatenate([along, extra]), jnp.concatenate([place, extra])
    columns = jnp.pad(columns, [(0, 0), (0, filled - count)])
    index = lax.iota(jnp.int32, filled)

    def split(carry: tuple[Array, Array, Array, Array], level: Array) -> tuple[Any, None]:
        along, place, counts, sums = carry
        start = (index >> (level + 1)) << (level + 1)
        left = ((along >> level) & 1) == 0
        flags = jnp.ones((1, filled), columns.dtype)
        halves = jnp.where(left[None], jnp.concatenate([flags, columns])[:, along], 0)
        parts = _restarting_sums(halves, start[::PREFIX_CHUNK] // PREFIX_CHUNK)
        lefts = parts[0].astype(jnp.int32)
        counts = counts + jnp.where(left, 0, lefts)[place]
        sums = sums + jnp.where(left[None], 0, parts[1:])[:, place]
        moved = jnp.where(left, start + lefts, index + (1 << level) - lefts)
        along = jnp.zeros_like(along).at[moved].set(along, unique_indices=True)
        return (along, moved[place], counts, sums), None

    ranks = place.reshape(-1, PREFIX_CHUNK)
    before = ranks[:, :, None] > ranks[:, None, :]
    before &= jnp.tril(jnp.ones((PREFIX_CHUNK, PREFIX_CHUNK), bool), -1)[None]
    parts = columns.reshape(-1, filled // PREFIX_CHUNK, PREFIX_CHUNK)
    counts = jnp.sum(before, axis=2, dtype=jnp.int32).reshape(filled)
    sums = jnp.sum(jnp.where(before[None], parts[:, :, None, :], 0), axis=3)
    sums = sums.reshape(-1, filled)
    levels = jnp.arange(
        (filled - 1).bit_length() - 1, PREFIX_CHUNK.bit_length() - 2, -1, dtype=jnp.int32
    )
    (_, _, counts, sums), _ = lax.scan(split, (along, place, counts, sums), levels)
    return counts[:count], sums[:, :count]


def _prefix_sums(x: Array) -> Array:
    """Return sums of the first 0, 1, ..., n of ``x (..., n)``, ``(..., n + 1)``."""
    count = x.shape[-1]
    chunks = count // PREFIX_CHUNK + 1
    x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, chunks * PREFIX_CHUNK - count)])
    return _restarting_sums(x, jnp.zeros(chunks, jnp.int32))[..., : count + 1]


def _restarting_sums(x: Array, start: Array) -> Array:
    """Return sums of the entries of ``x (..., n)`` before each.

    Sums in a chunk of `PREFIX_CHUNK` entries start at the chunk that ``start (m,)`` gives for it.
    """
    shape, chunks = x.shape, start.shape[0]
    x = x.reshape(*shape[:-1], chunks, PREFIX_CHUNK)
    earlier = jnp.triu(jnp.ones((PREFIX_CHUNK, PREFIX_CHUNK), x.dtype), 1)
    inside = jnp.matmul(x, earlier, precision=lax.Precision.HIGHEST)
    index = lax.iota(jnp.int32, chunks)

    def shifted(part: Array, by: Array | int) -> Array:
        return jnp.where(index - by >= start, part[..., jnp.maximum(index - by, 0)], 0)

    def double(step: Array, part: Array) -> Array:
        return part + shifted(part, jnp.left_shift(1, step))

    whole = shifted(jnp.sum(x, axis=-1), 1)
    whole = lax.fori_loop(0, (chunks - 1).bit_length(), double, whole)
    return (whole[..., None] + inside).reshape(shape)


def without_rounding(
    products: Array, mean_a: Array, mean_b: Array, *, squares: bool = True
) -> Array:
    """Set the mean squares among the products ab, aa, bb to 0 if they are rounding.

    Of sums of squares, or of sums whose terms are as large as the squared mean distances.
    """
    noise = 16 * float(jnp.finfo(products.dtype).eps)
    floor = jnp.square(lax.stop_gradient(jnp.stack([mean_a, mean_b])))
    floor = floor * (noise**2 if squares else noise)
    return jnp.concatenate([products[:1], jnp.where(products[1:] <= floor, 0, products[1:])])
