"""Products with packed codes in JAX: blocks are decoded in the cache, one at a time.

The number of rows of x selects one of three methods. A few rows are multiplied by each code as it
is decoded, in registers: sums of several terms, which XLA makes one loop. More rows are multiplied
by blocks that are decoded one after the other, as XLA has a fast product of matrices. In both
methods the codes at one position in all words, which lie side by side, make a *plane*. If a word
has eight codes, a plane has every eighth column of the matrix, and is decoded by one shift of all
words. Many rows, for which decoding hardly counts, are multiplied by blocks of the matrix in its
order (``quantized_blocks.py``): planes would need copies of x and the product in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from graphc.implicit.quantized.coding import Coding, shorten_groups
from graphc.implicit.quantized.matmul import round_rows
from graphc.link.jax.applied import Rules
from graphc.link.jax.devices import current_kind, device_choice
from graphc.link.jax.explicit import explicit_mesh
from graphc.link.jax.implicit import quantized_blocks, quantized_shards
from graphc.link.jax.implicit.numpy_like import NAMESPACE
from graphc.link.jax.implicit.quantized_blocks import CHEAP, codes_at, values_of, zeros
from graphc.link.jax.jaxprs import replace_at
from graphc.link.jax.varying import varying_together

BLOCK = 2**18
"""The elements of a block: 1 MB of float32, half of a core's cache, a tenth of a large matrix."""

MAX_ROWS_BY_ROWS = {("affine", 4): 4, ("affine", 8): 2, ("integer", 4): 4, ("integer", 8): 2}
"""The most rows of x that are multiplied in registers, if words are of w's rows; default: 1.

The codes are decoded again for each row, which is slow if decoding is expensive.
"""

TERMS = 16
"""The rows of words whose products are added up in one loop: XLA does not vectorize fewer."""


def matmul(coding: Coding, transposed: bool, x: Any, packed: Any, *numbers: Any) -> Any:
    """Return ``x @ w``, the value of ``QuantizedMatmul``, for equal batch axes of all arrays.

    The product has derivatives with respect to x, scales and biases in both modes, and batches.
    The gradient with respect to x is a product with packed codes too.
    """
    mesh = explicit_mesh((x, packed, *numbers))
    if mesh is not None:
        arrays = (x, packed, *numbers)
        return quantized_shards.matmul_shards(matmul, coding, transposed, mesh, arrays)
    coding, *numbers = shorten_groups(NAMESPACE, coding, *numbers)  # type: ignore[assignment]
    x, packed, *numbers = varying_together([x, packed, *numbers])  # type: ignore[assignment]
    if x.ndim > 2:
        one = partial(matmul, coding, transposed)
        n = packed.shape[-2] if transposed else coding.columns_of(packed.shape[-1])
        shape = (*x.shape[:-1], n)
        if 0 in (*shape, *packed.shape):
            return zeros(shape, x)
        flat = [array.reshape(-1, *array.shape[-2:]) for array in (x, packed, *numbers)]
        return lax.map(lambda arrays: one(*arrays), tuple(flat)).reshape(shape)
    return _Product(coding, transposed)(x, packed, *numbers)


@dataclass(frozen=True)
class _Product(Rules):
    """The product of two matrices: linear in x, and in scales and biases together.

    Attributes:
        coding: The coding of the words.
        transposed: Whether the words code w's transpose.
    """

    coding: Coding
    transposed: bool

    def __call__(self, *arrays: Any) -> Any:
        return self.apply(varying_together(arrays))[0]

    def run(self, *arrays: Any) -> list[Any]:
        return [
            _forward(*arrays, coding=self.coding, transposed=self.transposed, kind=current_kind())
        ]

    def jvp(self, arrays: Sequence[Any], tangents: Sequence[Any]) -> Any:
        x, packed, *numbers = arrays
        x_tangent, _, *part_tangents = tangents
        # The derivative ignores that rows of x may be rounded to integers.
        product, terms = _Product(self.coding.plain, self.transposed), []
        if x_tangent is not None:
            terms.append(product(x_tangent, packed, *numbers))
        if any(t is not None for t in part_tangents):
            pairs = zip(numbers, part_tangents, strict=True)
            ts = [jnp.zeros_like(y) if t is None else t for y, t in pairs]
            terms.append(product(x, packed, *ts))
        return [self(*arrays)], [sum(terms[1:], terms[0]) if terms else None]

    def transpose(self, arrays: Sequence[Any], is_linear: Sequence[bool], gs: Sequence[Any]) -> Any:
        """Return cotangents: for x, a product with the transpose of the same words."""
        (g,), (x, packed, *numbers) = gs, arrays
        if is_linear[0]:
            back = _Product(self.coding, not self.transposed)
            return [back(g, packed, *numbers), None, *[None] * len(numbers)]
        grads = _part_gradients(self.coding, self.transposed, x, packed, g)
        pairs = zip(grads, is_linear[2:], strict=True)
        return [None, None, *[grad if flag else None for grad, flag in pairs]]

    def batch(self, arrays: Sequence[Any], axes: Sequence[int | None], axis: Any) -> list[Any]:
        """Batch x as more rows; batches of matrices run one after the other."""
        x, *rest = arrays
        if all(d is None for d in axes[1:]):
            y = self(x.reshape(x.shape[0] * x.shape[1], x.shape[2]), *rest)
            return [y.reshape(*x.shape[:2], y.shape[1])]
        batched = [i for i, d in enumerate(axes) if d is not None]

        def one(elements: Sequence[Any]) -> Any:
            return self(*replace_at(arrays, batched, elements))

        return [lax.map(one, [arrays[i] for i in batched])]


def _part_gradients(coding: Coding, transposed: bool, x: Any, packed: Any, g: Any) -> Any:
    """Return the gradients with respect to scales, plane by plane, and to biases."""
    along, across = (g, x) if transposed else (x, g)
    planes = _planes(coding, across)
    shape = packed.shape[0], packed.shape[1] // coding.words_per_group

    def add(total: Any, i: Any) -> Any:
        plane = lax.dynamic_index_in_dim(planes, i, 1, keepdims=False)
        terms = along.T @ plane * values_of(coding, codes_at(coding, packed, i), g.dtype)
        return total + terms.reshape(*shape, coding.units_per_group).sum(-1), None

    scale_gradient, _ = lax.scan(add, zeros(shape, g), jnp.arange(coding.per_unit))
    if not coding.has_biases:
        return (scale_gradient,)
    return scale_gradient, along.T @ _group_sums(coding, across)


def _planes(coding: Coding, x: Any) -> Any:
    """Return columns (m, units * per_unit) by their position in a unit: (m, per_unit, units)."""
    shape = x.shape[0], x.shape[1] // coding.per_unit, coding.per_unit
    return jnp.swapaxes(x.reshape(shape), 1, 2)


def _group_sums(coding: Coding, x: Any) -> Any:
    return x.reshape(x.shape[0], x.shape[1] // coding.group_size, coding.group_size).sum(-1)


@partial(jax.jit, static_argnames=("coding", "transposed", "kind"))
def _forward(
    x: Any, packed: Any, *numbers: Any, coding: Coding, transposed: bool, kind: str
) -> Any:
    scales, *biases = numbers
    rows, words = packed.shape
    if 0 in (*x.shape, rows, words):
        n = rows if transposed else coding.columns_of(words)
        return zeros((x.shape[0], n), x)
    if coding.kind == "w8a8":
        return _by_integers(coding, x, packed, scales)
    y = _method(coding, transposed, x, scales, kind)(coding, x, packed, scales)
    for bias in biases:
        y = y + _bias_product(coding, transposed, x, bias)
    return y


def _by_integers(coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """Return rows of x as int8 times words of w's columns, added up in int32 group by group."""
    rows, scale = round_rows(NAMESPACE, x)
    # A code is its number plus 128: flipping the highest bit gives the number as int8.
    bytes_ = lax.bitcast_convert_type(packed ^ jnp.uint32(0x80808080), jnp.int8)
    m, (n, groups) = rows.shape[0], scales.shape
    # XLA would multiply a single row by a copy of the matrix in a wider dtype.
    a = jnp.pad(rows.astype(jnp.int8), [(0, int(m == 1)), (0, 0)])
    b = bytes_.reshape(n, -1)

    def add(y: Any, i: Any) -> Any:
        a_group, b_group = (_block(array, i, coding.group_size, 1) for array in (a, b))
        numbers = (((1,), (1,)), ((), ()))
        sums = lax.dot_general(a_group, b_group, numbers, preferred_element_type=jnp.int32)
        return y + sums[:m].astype(x.dtype) * scales[:, i], None

    return lax.scan(add, zeros((m, n), x), jnp.arange(groups))[0] * scale


def _method(coding: Coding, transposed: bool, x: Any, scales: Any, kind: str) -> Callable[..., Any]:
    m, rows = x.shape[0], scales.shape[0]
    # Registers and planes are for a CPU's caches: a GPU's blocks are in the matrix's order.
    if kind == "gpu" or quantized_blocks.are_many(coding, transposed, m, rows):
        by_blocks = quantized_blocks.by_rows if transposed else quantized_blocks.by_columns
        return partial(by_blocks, device_choice("decoded elements", kind))
    if transposed:
        is_few = m == 1 or _is_few_by_columns(coding, x, scales)
        return _few_by_columns if is_few and coding.unit_words == 1 else _blocks_of_rows
    is_few = m <= MAX_ROWS_BY_ROWS.get((coding.kind, coding.bits), 1) and rows % TERMS == 0
    return _few_by_rows if is_few and coding.unit_words == 1 else _blocks_of_columns


def _bias_product(coding: Coding, transposed: bool, x: Any, biases: Any) -> Any:
    """Return the product with biases: a group has one bias, so sums over groups suffice."""
    if transposed:
        return lax.dot_general(_group_sums(coding, x), biases, (((1,), (1,)), ((), ())))
    return jnp.repeat(x @ biases, coding.group_size, axis=1)


def _divisor(n: int, limit: int) -> int:
    """Return the largest divisor of n that does not exceed a limit, at least 1."""
    return next(d for d in range(max(1, min(n, limit)), 0, -1) if n % d == 0)


def _block(x: Any, i: Any, size: int, axis: int = 0) -> Any:
    """Return the i-th block of a size along an axis."""
    return lax.dynamic_slice_in_dim(x, i * size, size, axis)


# A few rows of x.


def _few_by_rows(coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """Return rows of words times elements of x, of which many are added up in one loop."""
    m, (rows, words) = x.shape[0], packed.shape
    groups, per_group, per_word = scales.shape[1], coding.words_per_group, coding.per_unit
    # As many sums of TERMS rows are computed at once as fill a block.
    # For several rows of x, XLA keeps two such blocks.
    size = BLOCK if m == 1 else BLOCK // 2
    count = _divisor(rows // TERMS, size // (m * words * per_word))
    transposed = x.T

    def add(total: Any, i: Any) -> Any:
        take = partial(_block, i=i, size=count * TERMS)
        sums = _sums_by_rows(coding, count, take(transposed), take(packed), take(scales))
        # A loop, as XLA would fuse a sum over an axis into the loops above.
        return lax.scan(lambda total, term: (total + term, None), total, sums)[0], None

    zero = zeros((per_word, groups, m, per_group), x)
    total, _ = lax.scan(add, zero, jnp.arange(rows // (count * TERMS)))
    return jnp.transpose(total, (2, 1, 3, 0)).reshape(m, -1)


def _sums_by_rows(coding: Coding, count: int, x: Any, packed: Any, scales: Any) -> Any:
    """Return sums over TERMS rows: (count, plane, group, row of x, word)."""
    groups = scales.shape[1]
    positions = jnp.arange(coding.per_unit)[:, None, None, None]
    packed = packed.reshape(count, TERMS, 1, groups, 1, -1)
    scales = scales.reshape(count, TERMS, 1, groups, 1, 1)
    x = x.reshape(count, TERMS, 1, 1, -1, 1)
    total: Any = 0
    for i in range(TERMS):
        values = values_of(coding, codes_at(coding, packed[:, i], positions), x.dtype)
        total = total + x[:, i] * (values * scales[:, i])
    return total


PRODUCTS = 128
"""The products that are added up in one loop over a row of words, for one row of x."""

GROUPS = 4
"""The groups in one loop for several rows of x: decoded values stay in registers for all rows."""

MAX_ROWS_BY_COLUMNS = 8
"""The most rows of x that are multiplied in registers, if words are of w's columns."""


def _is_few_by_columns(coding: Coding, x: Any, scales: Any) -> bool:
    """Return whether decoding once for several rows of x is fast, exact and small.

    The sums, one per word of a group for each row of x, and a copy of the words must take at most
    a tenth of w. In 16 bits every sum would be rounded, not only the sums of blocks.
    """
    m, groups = int(x.shape[0]), int(scales.shape[1])
    if coding.kind not in {"affine", "integer"} or coding.bits not in {4, 8}:
        return False
    if x.dtype.itemsize < 4:
        return False
    fits = 10 * (m + GROUPS) <= groups * coding.per_unit
    return fits and m <= MAX_ROWS_BY_COLUMNS and groups % GROUPS == 0


def _few_by_columns(coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """Return words times elements of x by position in a group, summed over the positions."""
    m, (rows, groups) = x.shape[0], scales.shape
    per_group, per_word = coding.words_per_group, coding.per_unit
    # Reading a table is sixteen instructions, and takes longer to compile.
    products = PRODUCTS if coding.kind in CHEAP else PRODUCTS // 4
    count = GROUPS if m > 1 else _divisor(groups, max(1, products // per_word))
    shape = (m, groups, per_group, per_word)
    planes = jnp.transpose(x.reshape(shape), (1, 3, 0, 2))
    words = packed.reshape(rows, 1, groups, per_group)

    def add(total: Any, i: Any) -> Any:
        blocks = _block(planes, i, count), _block(words, i, count, 2), _block(scales, i, count, 1)
        for k in range(count):
            total = total + _group_products(coding, k, *blocks)
        return total, None

    zero = zeros((rows, m, per_group), x)
    total = (
        add(zero, 0)[0] if count == groups else lax.scan(add, zero, jnp.arange(groups // count))[0]
    )
    return (total.reshape(rows * m, per_group) @ jnp.ones(per_group, x.dtype)).reshape(rows, m).T


def _group_products(coding: Coding, k: int, planes: Any, words: Any, scales: Any) -> Any:
    """Return the products of the k-th group: (row of words, row of x, word)."""
    total: Any = 0
    for position in range(coding.per_unit):
        values = values_of(coding, codes_at(coding, words[:, :, k], position), planes.dtype)
        total = total + values * planes[k, position]
    return total * scales[:, k, None, None]


# Many rows of x.


def _blocks_of_columns(coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """Return the product by planes of blocks of units, (rows, units), one after the other."""
    m, units = x.shape[0], packed.shape[1] // coding.unit_words
    unit = coding.units_per_group
    width = min(units, max(unit, COLUMNS // unit * unit))
    count, per_unit = units // width, coding.per_unit

    def product(_: None, i: Any) -> Any:
        words = _block(packed, i // per_unit, width * coding.unit_words, 1)
        factors = _block(scales, i // per_unit, width // unit, 1)
        return None, _plane_product(coding, x, words, factors, i % per_unit)

    _, y = lax.scan(product, None, jnp.arange(count * per_unit))
    y = y.reshape(count, per_unit, m, width).transpose(2, 0, 3, 1).reshape(m, -1)
    done = count * width
    if done == units:
        return y
    rest = packed[:, done * coding.unit_words :], scales[:, done // unit :]
    return jnp.concatenate([y, _blocks_of_columns(coding, x, *rest)], 1)


COLUMNS = 256
"""The columns of a block: products of narrower matrices are slower."""


def _plane_product(coding: Coding, x: Any, packed: Any, scales: Any, position: Any) -> Any:
    """Return the product with a plane, decoded by blocks of rows."""
    rows, units = packed.shape[0], packed.shape[1] // coding.unit_words
    size = max(1, BLOCK // units)
    if rows <= size:
        return x @ _plane(coding, packed, scales, position, x.dtype)
    count, transposed = rows // size, x.T

    def add(y: Any, i: Any) -> Any:
        plane = _plane(coding, _block(packed, i, size), _block(scales, i, size), position, x.dtype)
        return y + _block(transposed, i, size).T @ plane, None

    y, _ = lax.scan(add, zeros((x.shape[0], units), x), jnp.arange(count))
    done = count * size
    if done == rows:
        return y
    return y + x[:, done:] @ _plane(coding, packed[done:], scales[done:], position, x.dtype)


MIN_BLOCK_ROWS = 128
"""The least number of rows of a block: products of matrices with fewer rows are slower."""


def _blocks_of_rows(coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """Return the product by blocks of rows, whose planes are multiplied by planes of x."""
    rows, units = packed.shape[0], packed.shape[1] // coding.unit_words
    # XLA keeps a copy of the words, and a transposed one, beside the block.
    size = min(rows, max(MIN_BLOCK_ROWS, BLOCK // 8 // units))
    count, planes = rows // size, jnp.moveaxis(_planes(coding, x), 1, 0)

    def product(_: None, i: Any) -> Any:
        block = _block(packed, i, size), _block(scales, i, size)
        return None, _sum_over_planes(coding, planes, *block)

    _, y = lax.scan(product, None, jnp.arange(count))
    y = jnp.swapaxes(y, 0, 1).reshape(x.shape[0], -1)
    done = count * size
    if done == rows:
        return y
    return jnp.concatenate([y, _sum_over_planes(coding, planes, packed[done:], scales[done:])], 1)


def _sum_over_planes(coding: Coding, planes: Any, packed: Any, scales: Any) -> Any:
    """Return the product of x, given by its columns' planes, with rows of words."""

    def add(y: Any, plane_of_x: Any) -> Any:
        position, x = plane_of_x
        plane = _plane(coding, packed, scales, position, x.dtype)
        return y + lax.dot_general(x, plane, (((1,), (1,)), ((), ()))), None

    zero = zeros((planes.shape[1], packed.shape[0]), planes)
    return lax.scan(add, zero, (jnp.arange(coding.per_unit), planes))[0]


def _plane(coding: Coding, packed: Any, scales: Any, position: Any, dtype: Any) -> Any:
    """Return the decoded elements at one position in their words."""
    values = values_of(coding, codes_at(coding, packed, position), dtype)
    groups = values.reshape(*scales.shape, coding.units_per_group) * scales[..., None]
    return groups.reshape(values.shape)
