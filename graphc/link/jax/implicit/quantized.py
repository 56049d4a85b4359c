"""Products with packed codes in JAX: blocks are decoded in the cache, one at a time.

Three ways, by the number of rows of x. A few are multiplied by each code as it is decoded, in
registers: sums of so many terms that XLA makes one loop of them. More are multiplied by blocks that
are decoded one after the other, as XLA has a fast product of matrices. In both, codes of one place
in their words, which lie side by side, make a *plane*: its columns are every eighth of the matrix
where a word has eight codes, and to take the codes apart is one shift of all words. Many rows, for
which decoding hardly counts, are multiplied by blocks as they are in the matrix
(``quantized_blocks.py``): planes would need x and the product in another order, copies as large.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from graphc.implicit.quantized.coding import Coding, shorten_groups
from graphc.implicit.quantized.matmul import round_rows
from graphc.link.jax.explicit import explicit_mesh
from graphc.link.jax.implicit import quantized_blocks, quantized_shards
from graphc.link.jax.implicit.numpy_like import NAMESPACE
from graphc.link.jax.implicit.quantized_blocks import CHEAP, zeros
from graphc.link.jax.implicit.quantized_codes import codes_at, values_of
from graphc.link.jax.varying import varying_together

BLOCK = 2**18
"""The elements of a block: 1 MB of float32, half of the cache of a core and a tenth of a large
matrix."""

FEW = {("affine", 4): 4, ("affine", 8): 2, ("integer", 4): 4, ("integer", 8): 2}
"""So many rows of x, where words are of w's rows, are multiplied in registers; else one alone.

Each decodes the codes again, which is slow where decoding is expensive.
"""

TERMS = 16
"""Rows whose products are added up in one loop: fewer XLA does not vectorise."""


def matmul(coding: Coding, transposed: bool, x: Any, packed: Any, *parts: Any) -> Any:
    """``x @ w``, as ``QuantizedMatmul`` has it; of any batch axes, which are equal in all.

    It has derivatives with respect to x, scales and biases in both modes, and batches. That by x
    is a product with packed codes too.
    """
    mesh = explicit_mesh((x, packed, *parts))
    if mesh is not None:
        return quantized_shards.sharded(matmul, coding, transposed, mesh, (x, packed, *parts))
    coding, *parts = shorten_groups(NAMESPACE, coding, *parts)  # type: ignore[assignment]
    x, packed, *parts = varying_together([x, packed, *parts])  # type: ignore[assignment]
    if x.ndim > 2:
        one = partial(matmul, coding, transposed)
        n = packed.shape[-2] if transposed else coding.columns_of(packed.shape[-1])
        shape = (*x.shape[:-1], n)
        if 0 in (*shape, *packed.shape):
            return zeros(shape, x)
        flat = [part.reshape(-1, *part.shape[-2:]) for part in (x, packed, *parts)]
        return lax.map(lambda each: one(*each), tuple(flat)).reshape(shape)
    return _bound(coding, transposed, x, packed, *parts)


product_p = Primitive("quantized_matmul")
"""The product of two matrices: linear in x, and in scales and biases together."""


def _bound(coding: Coding, transposed: bool, *arrays: Any) -> Any:
    given = varying_together(arrays)
    return product_p.bind(*given, coding=coding, transposed=transposed)  # type: ignore[no-untyped-call]


@product_p.def_abstract_eval  # type: ignore[untyped-decorator]
def _abstract(x: Any, packed: Any, *parts: Any, coding: Coding, transposed: bool) -> Any:
    n = packed.shape[0] if transposed else coding.columns_of(packed.shape[1])
    # All vary over the same axes of a mesh, as the result does.
    return x.update(shape=(x.shape[0], n), weak_type=False)


@product_p.def_impl  # type: ignore[untyped-decorator]
@partial(jax.jit, static_argnames=("coding", "transposed"))
def _compiled(*arrays: Any, coding: Coding, transposed: bool) -> Any:
    return _forward(coding, transposed, *arrays)


def _lowered(*arrays: Any, coding: Coding, transposed: bool) -> Any:
    return _forward(coding, transposed, *arrays)


mlir.register_lowering(product_p, mlir.lower_fun(_lowered, multiple_results=False))


def _jvp(primals: Any, tangents: Any, *, coding: Coding, transposed: bool) -> Any:
    x, packed, *parts = primals
    by_x, _, *by_parts = tangents
    y = _bound(coding, transposed, *primals)
    found = []
    # Rows that are rounded to integers have the derivative of those that are not.
    coding = coding.plain
    if type(by_x) is not ad.Zero:
        found.append(_bound(coding, transposed, by_x, packed, *parts))
    if any(type(part) is not ad.Zero for part in by_parts):
        whole = [ad.instantiate_zeros(part) for part in by_parts]  # type: ignore[no-untyped-call]
        found.append(_bound(coding, transposed, x, packed, *whole))
    return y, sum(found[1:], found[0]) if found else jnp.zeros_like(y)


def _transpose(
    g: Any, x: Any, packed: Any, *parts: Any, coding: Coding, transposed: bool
) -> list[Any]:
    """Differentiate with respect to x: a product with the transpose of the same words."""
    if type(g) is ad.Zero:
        return [None] * (2 + len(parts))
    if ad.is_undefined_primal(x):  # type: ignore[no-untyped-call]
        return [_bound(coding, not transposed, g, packed, *parts), None, *[None] * len(parts)]
    found = _to_parts(coding, transposed, (x, packed), g)
    flags = map(ad.is_undefined_primal, parts)
    return [None, None, *[y if wanted else None for y, wanted in zip(found, flags, strict=True)]]


def _batch(arrays: Any, axes: Any, *, coding: Coding, transposed: bool) -> tuple[Any, int]:
    """Batch x as more rows; batches of matrices run one after the other."""
    one = partial(_bound, coding, transposed)
    x, *rest = arrays
    if all(axis is None for axis in axes[1:]):
        x = jnp.moveaxis(x, axes[0], 0)
        y = one(x.reshape(x.shape[0] * x.shape[1], x.shape[2]), *rest)
        return y.reshape(*x.shape[:2], y.shape[1]), 0
    flags = [axis is not None for axis in axes]
    given = zip(arrays, axes, flags, strict=True)
    moved = [jnp.moveaxis(x, axis, 0) for x, axis, flag in given if flag]

    def each(some: Any) -> Any:
        left = iter(some)
        return one(*[next(left) if flag else x for x, flag in zip(arrays, flags, strict=True)])

    return lax.map(each, moved), 0


ad.primitive_jvps[product_p] = _jvp
ad.primitive_transposes[product_p] = _transpose
batching.primitive_batchers[product_p] = _batch


def _to_parts(coding: Coding, transposed: bool, held: Any, g: Any) -> Any:
    """Return the cotangents of scales, one plane of codes at a time, and of biases."""
    x, packed = held
    along, across = (g, x) if transposed else (x, g)
    planes = _planes(coding, across)
    shape = packed.shape[0], packed.shape[1] // coding.words_per_group

    def add(total: Any, i: Any) -> Any:
        plane = lax.dynamic_index_in_dim(planes, i, 1, keepdims=False)
        moved = along.T @ plane * values_of(coding, codes_at(coding, packed, i), g.dtype)
        return total + moved.reshape(*shape, coding.units_per_group).sum(-1), None

    total = zeros(shape, g)
    by_scales, _ = lax.scan(add, total, jnp.arange(coding.per_unit))
    if not coding.has_biases:
        return (by_scales,)
    return by_scales, along.T @ _group_sums(coding, across)


def _planes(coding: Coding, x: Any) -> Any:
    """Columns (m, units * per_unit) by their place in a unit, (m, per_unit, units)."""
    shape = x.shape[0], x.shape[1] // coding.per_unit, coding.per_unit
    return jnp.swapaxes(x.reshape(shape), 1, 2)


def _group_sums(coding: Coding, x: Any) -> Any:
    """The sums of each group of columns."""
    return x.reshape(x.shape[0], x.shape[1] // coding.group_size, coding.group_size).sum(-1)


def _forward(coding: Coding, transposed: bool, x: Any, packed: Any, *parts: Any) -> Any:
    scales, *biases = parts
    rows, words = packed.shape
    if 0 in (*x.shape, rows, words):
        n = rows if transposed else coding.columns_of(words)
        return zeros((x.shape[0], n), x)
    if coding.kind == "w8a8":
        return _by_integers(coding, x, packed, scales)
    y = _way(coding, transposed, x, scales)(coding, x, packed, scales)
    for bias in biases:
        y = y + _with_biases(coding, transposed, x, bias)
    return y


def _by_integers(coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """Rows of x as int8 times words of w's columns, added up in int32 group by group."""
    rows, scale = round_rows(NAMESPACE, x)
    # A code is 128 more than its number: its highest bit is the other one.
    bytes_ = lax.bitcast_convert_type(packed ^ jnp.uint32(0x80808080), jnp.int8)
    m, (n, groups) = rows.shape[0], scales.shape
    # A single row XLA multiplies with a wide copy of the matrix.
    a = jnp.pad(rows.astype(jnp.int8), [(0, int(m == 1)), (0, 0)])
    b = bytes_.reshape(n, -1)

    def add(y: Any, i: Any) -> Any:
        left, right = (_taken(part, i, coding.group_size, 1) for part in (a, b))
        numbers = (((1,), (1,)), ((), ()))
        sums = lax.dot_general(left, right, numbers, preferred_element_type=jnp.int32)
        return y + sums[:m].astype(x.dtype) * scales[:, i], None

    return lax.scan(add, zeros((m, n), x), jnp.arange(groups))[0] * scale


def _way(coding: Coding, transposed: bool, x: Any, scales: Any) -> Callable[..., Any]:
    m, rows = x.shape[0], scales.shape[0]
    if quantized_blocks.are_many(coding, transposed, m, rows):
        return quantized_blocks.by_rows if transposed else quantized_blocks.by_columns
    if transposed:
        few = m == 1 or _is_few_by_columns(coding, x, scales)
        few = few and coding.unit_words == 1
        return _few_by_columns if few else _blocks_of_rows
    few = m <= FEW.get((coding.kind, coding.bits), 1) and rows % TERMS == 0
    few = few and coding.unit_words == 1
    return _few_by_rows if few else _blocks_of_columns


def _with_biases(coding: Coding, transposed: bool, x: Any, biases: Any) -> Any:
    """Add the biases' product: each belongs to a group, so sums over groups suffice."""
    if transposed:
        return lax.dot_general(_group_sums(coding, x), biases, (((1,), (1,)), ((), ())))
    return jnp.repeat(x @ biases, coding.group_size, axis=1)


def _divisor(n: int, limit: int) -> int:
    """The largest divisor that is no larger than a limit, 1 at least."""
    return next(d for d in range(max(1, min(n, limit)), 0, -1) if n % d == 0)


def _taken(x: Any, i: Any, size: int, axis: int = 0) -> Any:
    """The i-th of an axis's parts of a size."""
    return lax.dynamic_slice_in_dim(x, i * size, size, axis)


# A few rows of x.


def _few_by_rows(coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """Rows of words times elements of x, many added up in one loop."""
    m, (rows, words) = x.shape[0], packed.shape
    groups, per_group, per_word = scales.shape[1], coding.words_per_group, coding.per_unit
    # Sums of so many rows each are made at once, no more than fill a block.
    # Of several rows of x, XLA keeps two such blocks.
    most = BLOCK if m == 1 else BLOCK // 2
    many = _divisor(rows // TERMS, most // (m * words * per_word))
    transposed = x.T

    def add(total: Any, i: Any) -> Any:
        take = partial(_taken, i=i, size=many * TERMS)
        sums = _sums_by_rows(coding, many, take(transposed), take(packed), take(scales))
        # One after the other: XLA would make a sum over an axis part of the loops above.
        return lax.scan(lambda total, each: (total + each, None), total, sums)[0], None

    zero = zeros((per_word, groups, m, per_group), x)
    total, _ = lax.scan(add, zero, jnp.arange(rows // (many * TERMS)))
    return jnp.transpose(total, (2, 1, 3, 0)).reshape(m, -1)


def _sums_by_rows(coding: Coding, many: int, x: Any, packed: Any, scales: Any) -> Any:
    """The sums over TERMS rows each, (many, plane, group, row of x, word)."""
    groups = scales.shape[1]
    places = jnp.arange(coding.per_unit)[:, None, None, None]
    packed = packed.reshape(many, TERMS, 1, groups, 1, -1)
    scales = scales.reshape(many, TERMS, 1, groups, 1, 1)
    x = x.reshape(many, TERMS, 1, 1, -1, 1)
    total: Any = 0
    for i in range(TERMS):
        values = values_of(coding, codes_at(coding, packed[:, i], places), x.dtype)
        total = total + x[:, i] * (values * scales[:, i])
    return total


PRODUCTS = 128
"""So many products are added up in one loop where a row of words is read along, for one x."""

GROUPS = 4
"""So many groups are for several rows of x: what is decoded stays in registers for all of them."""

MOST = 8
"""So many rows of x are multiplied in registers where words are of w's columns."""


def _is_few_by_columns(coding: Coding, x: Any, scales: Any) -> bool:
    """Whether to decode once for several rows of x is fast and exact, and takes a tenth of w.

    Besides there are as many sums as words in a group for each row of x, and a copy of the words.
    In half width every sum would be rounded, not only those of whole blocks.
    """
    m, groups = int(x.shape[0]), int(scales.shape[1])
    if coding.kind not in {"affine", "integer"} or coding.bits not in {4, 8}:
        return False
    if x.dtype.itemsize < 4:
        return False
    fits = 10 * (m + GROUPS) <= groups * coding.per_unit
    return fits and m <= MOST and groups % GROUPS == 0


def _few_by_columns(coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """Words times elements of x, by their place in a group; then the sums over the places."""
    m, (rows, groups) = x.shape[0], scales.shape
    per_group, per_word = coding.words_per_group, coding.per_unit
    # A table is sixteen instructions, and to compile takes as much longer.
    most = PRODUCTS if coding.kind in CHEAP else PRODUCTS // 4
    many = GROUPS if m > 1 else _divisor(groups, max(1, most // per_word))
    shape = (m, groups, per_group, per_word)
    planes = jnp.transpose(x.reshape(shape), (1, 3, 0, 2))
    words = packed.reshape(rows, 1, groups, per_group)

    def add(total: Any, i: Any) -> Any:
        some = _taken(planes, i, many), _taken(words, i, many, 2), _taken(scales, i, many, 1)
        for k in range(many):
            total = total + _group(coding, k, *some)
        return total, None

    zero = zeros((rows, m, per_group), x)
    total = (
        add(zero, 0)[0] if many == groups else lax.scan(add, zero, jnp.arange(groups // many))[0]
    )
    return (total.reshape(rows * m, per_group) @ jnp.ones(per_group, x.dtype)).reshape(rows, m).T


def _group(coding: Coding, k: int, planes: Any, words: Any, scales: Any) -> Any:
    """The products of the k-th group, (row of words, row of x, word)."""
    total: Any = 0
    for place in range(coding.per_unit):
        values = values_of(coding, codes_at(coding, words[:, :, k], place), planes.dtype)
        total = total + values * planes[k, place]
    return total * scales[:, k, None, None]


# Many rows of x.


def _blocks_of_columns(coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """Planes of some of the units, (rows, units), one after the other."""
    m, units = x.shape[0], packed.shape[1] // coding.unit_words
    unit = coding.units_per_group
    wide = min(units, max(unit, COLUMNS // unit * unit))
    count, per_unit = units // wide, coding.per_unit

    def block(_: None, i: Any) -> Any:
        some = _taken(packed, i // per_unit, wide * coding.unit_words, 1)
        factors = _taken(scales, i // per_unit, wide // unit, 1)
        return None, _by_blocks_of_rows(coding, x, some, factors, i % per_unit)

    _, y = lax.scan(block, None, jnp.arange(count * per_unit))
    y = y.reshape(count, per_unit, m, wide).transpose(2, 0, 3, 1).reshape(m, -1)
    rest = count * wide
    if rest == units:
        return y
    more = packed[:, rest * coding.unit_words :], scales[:, rest // unit :]
    return jnp.concatenate([y, _blocks_of_columns(coding, x, *more)], 1)


COLUMNS = 256
"""So many columns of a block: with fewer, products of matrices are slower."""


def _by_blocks_of_rows(coding: Coding, x: Any, packed: Any, scales: Any, place: Any) -> Any:
    """The product with a plane, of which no more rows than fill a block are decoded at a time."""
    rows, units = packed.shape[0], packed.shape[1] // coding.unit_words
    some = max(1, BLOCK // units)
    if rows <= some:
        return x @ _plane(coding, packed, scales, place, x.dtype)
    count, transposed = rows // some, x.T

    def add(y: Any, i: Any) -> Any:
        plane = _plane(coding, _taken(packed, i, some), _taken(scales, i, some), place, x.dtype)
        return y + _taken(transposed, i, some).T @ plane, None

    y, _ = lax.scan(add, zeros((x.shape[0], units), x), jnp.arange(count))
    rest = count * some
    if rest == rows:
        return y
    return y + x[:, rest:] @ _plane(coding, packed[rest:], scales[rest:], place, x.dtype)


LEAST = 128
"""So many rows of a block at least: with fewer, products of matrices are slower."""


def _blocks_of_rows(coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """Planes of some rows, (rows, words), whose products with planes of x are added up."""
    rows, units = packed.shape[0], packed.shape[1] // coding.unit_words
    # XLA keeps copies of the words and a transposed one beside the block.
    some = min(rows, max(LEAST, BLOCK // 8 // units))
    count, planes = rows // some, jnp.moveaxis(_planes(coding, x), 1, 0)

    def block(_: None, i: Any) -> Any:
        return None, _by_planes(coding, planes, _taken(packed, i, some), _taken(scales, i, some))

    _, y = lax.scan(block, None, jnp.arange(count))
    y = jnp.swapaxes(y, 0, 1).reshape(x.shape[0], -1)
    rest = count * some
    if rest == rows:
        return y
    return jnp.concatenate([y, _by_planes(coding, planes, packed[rest:], scales[rest:])], 1)


def _by_planes(coding: Coding, planes: Any, packed: Any, scales: Any) -> Any:
    """The product of rows with x, of which ``planes`` has the columns by their place in a word."""

    def add(y: Any, each: Any) -> Any:
        place, x = each
        plane = _plane(coding, packed, scales, place, x.dtype)
        return y + lax.dot_general(x, plane, (((1,), (1,)), ((), ()))), None

    zero = zeros((planes.shape[1], packed.shape[0]), planes)
    return lax.scan(add, zero, (jnp.arange(coding.per_unit), planes))[0]


def _plane(coding: Coding, packed: Any, scales: Any, place: Any, dtype: Any) -> Any:
    """The elements at one place in their words, decoded."""
    values = values_of(coding, codes_at(coding, packed, place), dtype)
    groups = values.reshape(*scales.shape, coding.units_per_group) * scales[..., None]
    return groups.reshape(values.shape)
