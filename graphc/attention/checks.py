"""Checks of queries, keys, values and block masks of any library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

from graphc.attention.inputs import compute_dtype, default_scale
from graphc.errors import ArgumentError, DTypeError, GraphcError, ShapeError
from graphc.implicit.treedef import lengths_of
from graphc.ir import Node, TensorType
from graphc.ir.dtypes import DTYPES, FLOATS, is_jax_key

if TYPE_CHECKING:
    from graphc.attention.mask import BlockMask

NAME = "flex_attention"

AXES = ("batch", "heads", "length", "dim")
"""The axes of queries, keys and values."""


class AttentionLengths(NamedTuple):
    """The lengths of attention; None for a length that is known at run time only.

    Attributes:
        batch: The number of sequences.
        heads: The number of heads of queries.
        key_heads: The number of heads of keys and values, which divides ``heads``.
        queries: The length of the queries.
        keys: The length of keys and values.
        dim: The last axis of queries and keys.
        value_dim: The last axis of the values, and of the result.
    """

    batch: int | None
    heads: int | None
    key_heads: int | None
    queries: int | None
    keys: int | None
    dim: int | None
    value_dim: int | None


def check_dtypes(query: TensorType, key: TensorType, value: TensorType) -> str:
    """Check the dtypes of attention, and return the dtype of scores: float64 or float32.

    Args:
        query: The type of the queries.
        key: The type of the keys.
        value: The type of the values.

    Raises:
        DTypeError: If a dtype is not floating, or dtypes differ.

    Example:
        >>> x = TensorType("bfloat16", (2, 4, 128, 64))
        >>> check_dtypes(x, x, x)
        'float32'
    """
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dtype not in FLOATS:
            raise DTypeError(
                f"{NAME}: {name} is {x}; expected a floating dtype.",
                f"Use one of {', '.join(FLOATS)}, as {name}.astype('float32').",
            )
    if not query.dtype == key.dtype == value.dtype:
        raise DTypeError(
            f"{NAME}({query}, {key}, {value}): their dtypes differ.",
            "Convert them to one dtype with astype.",
        )
    return compute_dtype(query.dtype)


def resolve_scale(scale: Any, dim: int | None) -> float | None:
    """Return the factor of products of queries and keys: by default ``1 / sqrt(dim)``.

    Args:
        scale: A number, or None.
        dim: The length of the last axis of queries and keys, or None.

    Returns:
        A plain number; None for the default where ``dim`` is not known.

    Raises:
        ArgumentError: If ``scale`` is not a finite number.

    Example:
        >>> resolve_scale(None, 64), resolve_scale(2, 64)
        (0.125, 2.0)
    """
    if scale is None:
        return None if dim is None else default_scale(dim)
    if getattr(scale, "shape", None) == () and not isinstance(scale, Node):
        # A JAX tracer has no value and is refused below.
        with suppress(TypeError, ValueError):
            scale = float(scale)
    if not isinstance(scale, Real) or isinstance(scale, bool) or not math.isfinite(scale):
        raise ArgumentError(
            f"{NAME}: scale is {scale!r}; expected a finite number.",
            "An array multiplies scores in score_mod: lambda score, b, h, q_idx, kv_idx: score * "
            "tau, with scale=1.",
        )
    return float(scale)


def check_shapes(
    query: TensorType,
    key: TensorType,
    value: TensorType,
    block_mask: BlockMask | None = None,
    enable_gqa: bool = False,
) -> AttentionLengths:
    """Check the lengths of attention against each other, and return them.

    Args:
        query: The type of an array of (batch, heads, length, dim); any length may be None.
        key: The type of the keys: as many sequences as the queries, and as long as the values.
        value: The type of the values; its last axis may have another length.
        block_mask: A mask for these lengths, or None.
        enable_gqa: Whether several heads of queries may share a head of keys.

    Returns:
        The lengths, each from a type or from the mask.

    Raises:
        ShapeError: If an argument does not have four axes, or if lengths differ from each other
            or from the mask's.
        ArgumentError: If there are more heads of queries than of keys without ``enable_gqa``, or
            if ``block_mask`` is not a block mask.

    Example:
        >>> q = TensorType("float32", (2, 8, None, 64))
        >>> k = TensorType("float32", (2, 2, 128, 64))
        >>> sizes = check_shapes(q, k, k, enable_gqa=True)
        >>> sizes.heads, sizes.key_heads, sizes.queries, sizes.keys
        (8, 2, None, 128)
    """
    _check_ranks(query, key, value)
    types = (query, key, value)
    batch = _common_length("numbers of sequences (axis 0)", types, [x.shape[0] for x in types])
    key_heads = _common_length(
        "heads of key and value (axis 1)", types, [key.shape[1], value.shape[1]]
    )
    keys = _common_length(
        "lengths of key and value (axis 2)", types, [key.shape[2], value.shape[2]]
    )
    dim = _common_length("last axes of query and key", types, [query.shape[3], key.shape[3]])
    heads, queries = query.shape[1], query.shape[2]
    _check_heads(types, heads, key_heads, enable_gqa)
    sizes = AttentionLengths(batch, heads, key_heads, queries, keys, dim, value.shape[3])
    if block_mask is None:
        return sizes
    lengths = _check_mask(block_mask, sizes)
    return sizes._replace(queries=lengths[0], keys=lengths[1])


def _call(types: Sequence[TensorType]) -> str:
    return f"{NAME}({', '.join(map(repr, types))})"


def _check_ranks(*types: TensorType) -> None:
    for name, x in zip(("query", "key", "value"), types, strict=True):
        if x.ndim != len(AXES):
            axes = "1 axis" if x.ndim == 1 else f"{x.ndim} axes"
            raise ShapeError(
                f"{_call(types)}: {name} has {axes}, not ({', '.join(AXES)}).",
                "Add an axis of length 1 for a batch of one, as x[None]; or map over leading axes.",
            )


def _common_length(
    what: str, types: Sequence[TensorType], lengths: Sequence[int | None]
) -> int | None:
    """Return the common length; None if no length is known."""
    static = [n for n in lengths if n is not None]
    if len(set(static)) > 1:
        text = " and ".join(map(str, static))
        raise ShapeError(
            f"{_call(types)}: {what} differ: {text}.",
            "query is (batch, heads, length, dim), key and value are (batch, key heads, key "
            "length, dim).",
        )
    return static[0] if static else None


def _check_heads(
    types: Sequence[TensorType], heads: int | None, key_heads: int | None, enable_gqa: bool
) -> None:
    if heads is None or key_heads is None or heads == key_heads:
        return
    if not enable_gqa:
        raise ArgumentError(
            f"{_call(types)}: {heads} heads of queries and {key_heads} of keys.",
            "Give enable_gqa=True to let several heads of queries share a head of keys.",
        )
    if not key_heads or heads % key_heads:
        raise ShapeError(
            f"{_call(types)}: {heads} heads of queries are no multiple of {key_heads} of keys.",
            "Each head of keys is shared by equally many heads of queries.",
        )


def _check_mask(mask: Any, sizes: AttentionLengths) -> tuple[int, int]:
    """Check a mask against the lengths, and return its numbers of queries and keys."""
    lengths: tuple[int, int] | None = getattr(mask, "seq_lengths", None)
    if lengths is None:
        raise ArgumentError(
            f"{NAME}: block_mask is a {type(mask).__name__}, not a BlockMask.",
            "Create one: create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN).",
        )
    for name, length, expected in zip(
        ("queries", "keys"), lengths, (sizes.queries, sizes.keys), strict=True
    ):
        if expected is not None and expected != length:
            raise _mismatch(
                f"there are {expected} {name}, and the mask is for {length}",
                "Create the mask for these lengths, or take a part of it: "
                "mask.for_lengths(q_len, kv_len) where these are shorter.",
            )
    counts = mask.kv_num_blocks
    if not hasattr(counts, "shape"):  # a mapped tree may hold anything
        raise ArgumentError(
            f"{NAME}: block_mask holds {counts!r} instead of an array.",
            "Give a mask of arrays, as create_block_mask makes it.",
        )
    batch, heads = lengths_of(counts)[:2]
    for name, count, expected in (
        ("sequences", batch, sizes.batch),
        ("heads", heads, sizes.heads),
    ):
        if count not in (None, 1) and expected is not None and count != expected:
            raise _mismatch(
                f"there are {expected} {name}, and the mask is for {count}",
                "Create it for as many, or with None for one mask for all.",
            )
    return lengths


def check_mask_broadcast(
    mask: BlockMask, depends: Sequence[bool], sizes: AttentionLengths
) -> AttentionLengths:
    """Return the lengths of attention, where a mask of one batch or head may serve for all.

    Args:
        mask: The mask.
        depends: Whether the mask function depends on the batch, and on the head.
        sizes: The lengths that are known.

    Returns:
        The lengths, with the mask's number of batches or heads if its function depends on it.

    Raises:
        ShapeError: If the mask has one batch or head, the arrays have more, and the mask function
            depends on the index.
    """
    fields, letters = ("batch", "heads"), ("b", "h")
    for field, letter, count, depends_on_index in zip(
        fields, letters, mask.shape[:2], depends, strict=True
    ):
        length = getattr(sizes, field)
        if depends_on_index and length not in {None, count}:
            raise _mismatch(
                f"there are {length} {'sequences' if field == 'batch' else field}, and the mask is "
                f"for one, while its function looks at {letter}",
                "Create the mask for as many: create_block_mask(mask_mod, B, H, ...), not None.",
            )
        if depends_on_index or count != 1:
            sizes = sizes._replace(**{field: count})
    return sizes


def _mismatch(problem: str, remedy: str) -> GraphcError:
    return ShapeError(f"{NAME}: {problem}.", remedy)


def check_captured_dtypes(what: str, names: Sequence[str], arrays: Sequence[Any]) -> None:
    """Raise an error for captured arrays of 4-bit integers, float8 and the like.

    Args:
        what: The function's name in messages.
        names: The names of the arrays in messages.
        arrays: The arrays of NumPy or JAX, or their types; anything else passes.

    Raises:
        DTypeError: If the numbers of an array have a dtype that symbolic arrays lack.
    """
    for name, x in zip(names, arrays, strict=True):
        dtype = str(getattr(x, "dtype", "bool"))
        if dtype in DTYPES or is_jax_key(dtype) or not dtype.startswith(("int", "uint", "float")):
            continue
        other, remark = "bfloat16", "which holds the same numbers"
        if not dtype.startswith("float"):
            other = dtype.rstrip("0123456789") + "8"
        elif dtype in {"float96", "float128"}:
            other, remark = "float64", "which rounds the numbers"
        raise DTypeError(
            f"{what} captures `{name}` of {dtype}, which is not a dtype of symbolic arrays.",
            f"Capture {name}.astype({other!r}), {remark}.",
        )
