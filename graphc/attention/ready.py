"""Common mask and score functions, built from their parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from graphc.attention.combine import MaskMod
from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.implicit.namespace import has_jax, numpy_like
from graphc.implicit.treedef import lengths_of
from graphc.ir import Node
from graphc.tensor.core.elementwise import equal
from graphc.tensor.core.runtime import runtime

ScoreMod = Callable[[Any, Any, Any, Any, Any], Any]
"""A function of a score, batch, head, query and key: the new score."""


# Masks.


def causal(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    """Return ``q_idx >= kv_idx``: a query sees the keys up to its own position.

    Pass ``causal`` itself as a mask function.

    Example:
        >>> from graphc.attention import create_block_mask
        >>> create_block_mask(causal, None, None, 3, 3).to_dense()[0, 0].astype(int)
        array([[1, 0, 0],
               [1, 1, 0],
               [1, 1, 1]])
    """
    return q_idx >= kv_idx


def sliding_window(width: Any, *, both_sides: bool = False) -> MaskMod:
    """Return the mask function ``0 <= q_idx - kv_idx < width``: a query sees the last keys.

    Args:
        width: The number of keys that a query sees, its own included: a positive number, or an
            integer scalar, also symbolic or traced. Other widths need no other program.
        both_sides: Whether queries see later keys too: ``abs(q_idx - kv_idx) < width``.

    Raises:
        ArgumentError: If ``width`` is not an integer, or below 1.

    Example:
        >>> from graphc.attention import create_block_mask
        >>> create_block_mask(sliding_window(2), None, None, 4, 4).to_dense()[0, 0].astype(int)
        array([[1, 0, 0, 0],
               [1, 1, 0, 0],
               [0, 1, 1, 0],
               [0, 0, 1, 1]])
    """
    return SlidingWindow(_width(width), bool(both_sides))


@dataclass(frozen=True, eq=False, repr=False)
class SlidingWindow:
    """The mask function that ``sliding_window`` returns."""

    width: Any
    both_sides: bool

    def __repr__(self) -> str:
        return "sliding_window"

    def __call__(self, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        ahead = kv_idx - q_idx < self.width if self.both_sides else q_idx >= kv_idx
        return ahead & (q_idx - kv_idx < self.width)


def prefix_lm(lengths: Any) -> MaskMod:
    """Return the mask function ``kv_idx < lengths[b] or q_idx >= kv_idx``.

    A query sees the keys of the prefix, and the keys up to its own position.

    Args:
        lengths: The lengths of the prefix: an integer, or integers (B,), one for each batch;
            arrays of any library, symbolic ones too.

    Raises:
        ArgumentError: If ``lengths`` are not integers.
        ShapeError: If ``lengths`` have two axes or more.

    Example:
        >>> import numpy as np
        >>> from graphc.attention import create_block_mask
        >>> mask = create_block_mask(prefix_lm(np.array([0, 2])), 2, None, 3, 3)
        >>> mask.to_dense()[1, 0].astype(int)
        array([[1, 1, 0],
               [1, 1, 0],
               [1, 1, 1]])
    """
    return PrefixLM(_integers("prefix_lm", lengths, most=1))


@dataclass(frozen=True, eq=False, repr=False)
class PrefixLM:
    """The mask function that ``prefix_lm`` returns."""

    lengths: Any

    def __repr__(self) -> str:
        return "prefix_lm"

    def __call__(self, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        return (kv_idx < _at(self.lengths, b)) | (q_idx >= kv_idx)


def document(ids: Any, kv_ids: Any = None) -> MaskMod:
    """Return the mask function ``ids[b, q_idx] == kv_ids[b, kv_idx]``.

    A query sees the keys of the same document. Packed sequences often combine it with another mask:
    ``and_masks(causal, document(ids))``.

    Args:
        ids: The document of each query: integers (L,), or (B, L) for each batch; arrays of any
            library, symbolic ones too. Other ids need no other program.
        kv_ids: The document of each key; ``ids`` by default.

    Raises:
        ArgumentError: If ``ids`` or ``kv_ids`` are not integers.
        ShapeError: If ``ids`` or ``kv_ids`` have no axis, or three or more.

    Example:
        >>> import numpy as np
        >>> from graphc.attention import create_block_mask
        >>> mask = create_block_mask(document(np.array([0, 0, 1])), None, None, 3, 3)
        >>> mask.to_dense()[0, 0].astype(int)
        array([[1, 1, 0],
               [1, 1, 0],
               [0, 0, 1]])
    """
    ids = _integers("document", ids, least=1, most=2)
    kv_ids = ids if kv_ids is None else _integers("document", kv_ids, least=1, most=2)
    return Document(ids, kv_ids)


@dataclass(frozen=True, eq=False, repr=False)
class Document:
    """The mask function that ``document`` returns."""

    ids: Any
    kv_ids: Any

    def __repr__(self) -> str:
        return "document"

    def __call__(self, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        query, key = _at(self.ids, b, q_idx), _at(self.kv_ids, b, kv_idx)
        if isinstance(query, Node) or isinstance(key, Node):
            return equal(query, key)  # ``==`` compares nodes by identity here
        return query == key


# Scores.


def alibi(heads: int | None = None, *, slopes: Any = None) -> ScoreMod:
    """Return the score function ``score - slopes[h] * (q_idx - kv_idx)``.

    Used with a causal mask: scores decrease with the distance. For n heads, a power of two, the
    slopes are ``2**(-8/n)``, ``2**(-16/n)``, …, ``2**-8``, in float32. For another number, the
    slopes of the next lower power of two are followed by every second slope of the next higher one.

    Args:
        heads: The number of heads, from which the slopes are computed.
        slopes: Slopes (H,), instead of ``heads``: floats, also symbolic or traced; gradients flow
            to them.

    Raises:
        ArgumentError: If not exactly one of ``heads`` and ``slopes`` is given, or if ``heads`` is
            not a positive integer.
        ShapeError: If ``slopes`` is not a vector.
        DTypeError: If ``slopes`` is not floating.

    Example:
        >>> float(alibi(8)(0.0, 0, 7, 5, 3))
        -0.0078125

    Source: Press, Smith & Lewis, Train Short, Test Long, ICLR 2022.
    """
    if (heads is None) == (slopes is None):
        raise ArgumentError(
            f"alibi(heads={heads!r}, slopes={slopes!r}): expected one of the two.",
            "Give the number of heads, or their slopes.",
        )
    return Alibi(_floats("alibi", slopes if heads is None else _slopes(heads), 1, 1))


@dataclass(frozen=True, eq=False, repr=False)
class Alibi:
    """The score function that ``alibi`` returns."""

    slopes: Any

    def __repr__(self) -> str:
        return "alibi"

    def __call__(self, score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        slope = _as_score(_at(self.slopes, h), score)
        return score - slope * _as_score(q_idx - kv_idx, score)


def _slopes(heads: Any) -> np.ndarray[Any, Any]:
    if not isinstance(heads, Integral) or isinstance(heads, bool) or heads < 1:
        raise ArgumentError(
            f"alibi({heads!r}): expected a positive integer.", "Give the number of heads."
        )
    heads = int(heads)
    power = 1 << (heads.bit_length() - 1)
    first = 2.0 ** (-8.0 * np.arange(1, power + 1) / power)
    between = 2.0 ** (-4.0 * np.arange(1, 2 * power, 2) / power)
    return np.concatenate([first, between[: heads - power]]).astype(np.float32)


def relative_bias(table: Any) -> ScoreMod:
    """Return the score function ``score + table[h, clip(q_idx - kv_idx, -m, m) + m]``.

    The function adds a learned number for each head and distance. Column 0 holds the distance
    ``-m``, for keys after the query.

    Args:
        table: Floats (H, 2 m + 1), or (2 m + 1,) for all heads, also symbolic, of unknown lengths
            too, or traced; gradients flow to them.

    Raises:
        ShapeError: If ``table`` has another number of axes, or an even number of columns.
        RuntimeShapeError: If a symbolic table has an even number of columns when the program runs.
        DTypeError: If ``table`` is not floating.

    Example:
        >>> import numpy as np
        >>> add = relative_bias(np.array([[-1.0, 0.0, 1.0]]))
        >>> [float(add(10.0, 0, 0, 5, kv_idx)) for kv_idx in (3, 4, 5, 6, 7)]
        [11.0, 11.0, 10.0, 9.0, 9.0]

    Source: Shaw, Uszkoreit & Vaswani, Self-Attention with Relative Position Representations, NAACL
    2018; as a bias, Raffel et al., JMLR 21(140), 2020.
    """
    table = _floats("relative_bias", table, 1, 2)
    columns = lengths_of(table)[-1]
    if columns is None:
        return _symbolic_bias(table)
    if columns % 2 == 0:
        raise ShapeError(
            f"relative_bias: a table of {columns} columns.",
            "Give 2 m + 1: for the distances from -m to m.",
        )
    return RelativeBias(table, columns // 2)


def _symbolic_bias(table: Any) -> ScoreMod:
    """Return the bias of a symbolic table, whose number of columns is checked at run time."""
    xp = numpy_like(table)
    far = xp.cast((xp.shape_of(table)[-1] - 1) // 2, "int32")  # as indices are
    lengths = [*(None for _ in lengths_of(table)[:-1]), 2 * far + 1]
    return RelativeBias(xp.specify_shape(table, lengths), far)


@dataclass(frozen=True, eq=False, repr=False)
class RelativeBias:
    """The score function that ``relative_bias`` returns."""

    table: Any
    far: Any

    def __repr__(self) -> str:
        return "relative_bias"

    def __call__(self, score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        distance = q_idx - kv_idx
        column = numpy_like(distance).clip(distance, -self.far, self.far) + self.far
        return score + _as_score(_at(self.table, h, column), score)


def soft_cap(cap: Any) -> ScoreMod:
    """Return the score function ``cap * tanh(score / cap)``, between ``-cap`` and ``cap``.

    Args:
        cap: A positive number, or a floating scalar, also symbolic or traced. Other caps need no
            other program.

    Raises:
        ArgumentError: If ``cap`` is a number that is not positive.
        ShapeError: If ``cap`` is an array but no scalar.
        DTypeError: If ``cap`` is an array that is not floating.

    Example:
        >>> f"{float(soft_cap(50.0)(100.0, 0, 0, 0, 0)):.4f}"
        '48.2014'

    Source: Gemma Team, Gemma 2, arXiv:2408.00118, 2024.
    """
    if _is_array(cap):
        cap = _floats("soft_cap", cap, 0, 0)
    elif isinstance(cap, bool | complex) or not isinstance(cap, int | float) or not cap > 0:
        raise ArgumentError(f"soft_cap({cap!r}).", "Give a positive number.")
    else:
        cap = runtime(float(cap))
    return SoftCap(cap)


@dataclass(frozen=True, eq=False, repr=False)
class SoftCap:
    """The score function that ``soft_cap`` returns."""

    cap: Any

    def __repr__(self) -> str:
        return "soft_cap"

    def __call__(self, score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        bound = _as_score(self.cap, score)
        return bound * numpy_like(score, bound).tanh(score / bound)


# Helpers.


def _at(x: Any, *indices: Any) -> Any:
    """Return an element of an array of any library, at the last indices if it has fewer axes."""
    axes = len(lengths_of(x))
    if isinstance(x, np.ndarray) and has_jax(*indices):
        x = numpy_like(*indices).asarray(x)  # NumPy's arrays take no indices that JAX traces
    return x[indices[len(indices) - axes :]]


def _as_score(x: Any, score: Any) -> Any:
    """Return a number in the score's dtype; plain numbers need no cast."""
    if not hasattr(score, "dtype") and isinstance(x, np.ndarray | np.generic):
        return x.item()
    if not hasattr(score, "dtype") or isinstance(x, float | int):
        return x
    return numpy_like(x, score).cast(x, score.dtype)


def _integers(what: str, x: Any, least: int = 0, most: int = 0) -> Any:
    """Return integers of any library; a Python integer as an int32 array."""
    array = x if _is_array(x) else np.asarray(x)
    if not _dtype_of(array).startswith(("int", "uint")):
        raise ArgumentError(
            f"{what}: expected integers, got {_dtype_of(array)}.", "Convert them with astype."
        )
    _check_axes(what, array, least, most)
    return array if _is_array(x) else array.astype(np.int32)


def _width(width: Any) -> Any:
    width = _integers("sliding_window", width)
    if isinstance(width, np.ndarray) and width < 1:
        raise ArgumentError(
            f"sliding_window({width}): a query would see no key.",
            "Give the number of keys that a query sees, its own included.",
        )
    return width


def _floats(what: str, x: Any, least: int, most: int) -> Any:
    """Return floats of any library; a Python float as a float32 array."""
    array = x if _is_array(x) else np.asarray(x, np.float32)
    dtype = _dtype_of(array)
    if not dtype.startswith(("float", "bfloat")):
        raise DTypeError(f"{what}: expected floats, got {dtype}.", "Convert them with astype.")
    _check_axes(what, array, least, most)
    return array


def _check_axes(what: str, x: Any, least: int, most: int) -> None:
    if not least <= len(lengths_of(x)) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise ShapeError(
            f"{what}: an array of the shape {lengths_of(x)} was given.",
            f"Give one of {wanted} axes.",
        )


def _is_array(x: Any) -> bool:
    # NumPy's scalars are part of a program, arrays without axes are not.
    return hasattr(x, "dtype") and hasattr(x, "shape") and not isinstance(x, np.generic)


def _dtype_of(x: Any) -> str:
    return str(x.dtype).rpartition(".")[2]  # without a library's name
