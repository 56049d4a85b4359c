"""Arrays, and trees of them, converted to packed codes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import fields_of, is_implicit, with_fields
from graphc.implicit.namespace import numpy_like
from graphc.implicit.policy import materialize_nested
from graphc.implicit.quantized.affine import AffineQuantized
from graphc.implicit.quantized.base import Quantized
from graphc.implicit.quantized.coding import GROUP_SIZES
from graphc.implicit.quantized.encode import encode
from graphc.implicit.quantized.nf4 import NF4
from graphc.implicit.quantized.one_bit import OneBit
from graphc.implicit.quantized.selection import Rules, Where, by_rules, chosen, is_array
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.implicit.trees import tree_map
from graphc.ir import dtype_name, is_complex, is_inexact

KINDS: dict[str, tuple[type[Quantized], dict[str, Any]]] = {
    "int8": (AffineQuantized, {"bits": 8}),
    "int4": (AffineQuantized, {"bits": 4}),
    "int2": (AffineQuantized, {"bits": 2}),
    "nf4": (NF4, {}),
    "1bit": (OneBit, {}),
}
"""The class of each kind, and its static fields."""


class Recipe(NamedTuple):
    """How an array is quantized.

    Attributes:
        cls: The class.
        options: Its static fields, but for ``transposed``.
        axis: The packed axis, -1 or -2.
    """

    cls: type[Quantized]
    options: dict[str, Any]
    axis: int


SHOWN = 3
"""So many places are named in an error."""


def quantize(
    tree: Any,
    kind: str | Rules = "int4",
    *,
    where: Where = None,
    group_size: int = 64,
    axis: int = -1,
) -> Any:
    """An array, or the arrays of a tree, as packed codes of a few bits with a scale for each group.

    Args:
        tree: A floating array with two axes or more, of NumPy, JAX or MLX, symbolic or traced; or a
            nested container of arrays. Implicit arrays in it stay as they are.
        kind: ``"int8"``, ``"int4"`` or ``"int2"`` (``AffineQuantized``), ``"nf4"`` (``NF4``) or
            ``"1bit"`` (``OneBit``); or rules for a tree, a mapping whose keys are regular
            expressions and whose values are a kind, a mapping of ``kind=``, ``group_size=`` and
            ``axis=``, or None. The first that is found in an array's path, its keys joined by
            ``/``, applies; None, and no rule at all, leave the array as it is.
        where: Which arrays of a tree: a function of a path, a tuple of keys, and an array; or a
            compiled regular expression, found anywhere in the path's keys joined by ``/``; or a
            pattern of the whole with ``*`` and ``?``. By default all floating ones of two axes or
            more.
        group_size: How many neighbours share a scale: 32, 64 or 128.
        axis: Along which axis they are neighbours, and packed: -1 or -2. Under JAX's processor
            ``x @ w`` is faster with -2 where x has few rows, up to 8 for int4 and one for int8;
            with -1 where it has more, and for NF4; MLX's processor is faster with -1.

    Returns:
        An implicit array of the same library, shape and dtype; or a tree like the one given.

    Raises:
        ImplicitArrayError: The axis's length is no multiple of ``group_size``; there is a NaN or an
            infinity (not looked for where the values are not known); no such kind or size; an array
            that was requested cannot be quantized; ``where`` or a rule fits none.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> tree = {"layers": [{"w": rng.standard_normal((64, 128)), "b": np.zeros(128)}]}
        >>> quantize(tree, "int8", where="layers/*/w")["layers"][0]["w"]
        AffineQuantized(uint32[64, 32], float64[64, 2], float64[64, 2], bits=8, group_size=64,
         transposed=False)
        >>> quantize(tree, {r"/w$": {"kind": "nf4", "axis": -2}})["layers"][0]["w"]
        NF4(uint32[128, 8], float64[128, 1], group_size=64, transposed=True)
    """
    options = {"group_size": group_size, "axis": axis}
    if isinstance(kind, Mapping):
        if where is not None:
            raise _refuse("quantize(rules, where=...).", "A rule says which arrays it is for.")
        recipes = [(key, value and recipe_of(value, options)) for key, value in kind.items()]
        return by_rules(tree, recipes, _converted)
    recipe = recipe_of(kind, options)
    if is_array(tree):
        if where is not None:
            raise _refuse("quantize(where=...) of an array.", "It chooses arrays of a tree.")
        return _converted(tree, "the array", recipe)
    return chosen(tree, where, lambda x, name: _converted(x, name, recipe))


def dequantize(tree: Any) -> Any:
    """A quantized array, or those of a tree, as whole arrays of the same library.

    Args:
        tree: An array, or a nested container. Quantized arrays nested in other implicit arrays, as
            the base of a ``LoRA``, become whole there.

    Returns:
        What was given, with whole arrays in place of quantized ones.

    Example:
        >>> import numpy as np
        >>> dequantize([quantize(np.ones((2, 64)), "int8"), np.zeros(1)])[0].shape
        (2, 64)
    """
    return tree_map(_dequantized, tree)


def _dequantized(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(map(_dequantized, x))
    if isinstance(x, Quantized):
        return materialize_nested(x, full=True)
    if not is_implicit(x):
        return x
    return with_fields(x, {name: _dequantized(part) for name, part in fields_of(x).items()})


def recipe_of(kind: Any, options: Mapping[str, Any]) -> Recipe:
    """The recipe of a kind, or of a mapping of options, with defaults for others."""
    given = {"kind": kind} if isinstance(kind, str) else dict(kind)
    given = {**options, **given}
    unknown = given.keys() - {"kind", *options}
    if unknown or "kind" not in given:
        raise _refuse(
            f"quantize: a rule {kind!r}.",
            f"It is a kind, None, or a mapping of 'kind' and {', '.join(map(repr, options))}.",
        )
    axis = given.pop("axis")
    cls, static = _class_of(given.pop("kind"))
    static = {**static, **given}
    cls.coding_of(**static)
    if axis not in {-1, -2}:
        raise _refuse(f"quantize(axis={axis}).", "Pack along one of the last two axes: -1 or -2.")
    return Recipe(cls, static, axis)


def _class_of(kind: str) -> tuple[type[Quantized], dict[str, Any]]:
    if kind not in KINDS:
        problem = f"quantize(kind={kind!r})."
        raise _refuse(problem, f"Take one of {', '.join(map(repr, KINDS))}.")
    return KINDS[kind]


def _converted(x: Any, name: str, recipe: Recipe) -> Any:
    cls, options, axis = recipe
    _check(x, name, options["group_size"], axis)
    given, xp = x, numpy_like(x)
    if xp.name == "MLX":
        # Computed in NumPy's steps, which are MLX's own.
        x, xp = _from_mlx(xp, x), numpy_like(np.zeros(()))
    _check_values(xp, x, name)
    transposed = axis == -2
    x = xp.swapaxes(x, -1, -2) if transposed else x
    parts = encode(xp, cls.coding_of(**options), x)
    if xp.name == "NumPy":
        # NumPy keeps the order of a transpose in memory; MLX would copy such words at each product.
        parts = tuple(map(np.ascontiguousarray, parts))
    if given is not x and numpy_like(given).name == "MLX":
        xp = numpy_like(given)
        words, *others = (type(given)(part) for part in parts)
        parts = (words, *[xp.cast(part, str(dtype_name(dtype_of(given)))) for part in others])
    return cls(*parts, transposed=transposed, **options)


def _from_mlx(xp: Any, x: Any) -> Any:
    return np.asarray(xp.cast(x, "float32") if dtype_of(x).itemsize < 4 else x)


def _check(x: Any, name: str, group_size: int, axis: int) -> None:
    shape, dtype = lengths_of(x), dtype_name(dtype_of(x))
    if len(shape) < 2 or not is_inexact(dtype) or is_complex(dtype):
        raise _refuse(
            f"quantize: {name} is {dtype}{list(shape)}.",
            "Floating arrays of two axes or more can be quantized; leave others out by where=.",
        )
    n = shape[axis]
    if n is not None and n % group_size:
        fitting = [size for size in (128, 64, 32) if n % size == 0]
        remedy = f"Take group_size={fitting[0]}" if fitting else "Pad it"
        other = shape[-3 - axis]
        if other is not None and other % group_size == 0:
            remedy += f", or axis={-3 - axis}, of length {other}"
        raise _refuse(
            f"quantize: {name} has length {n} along axis {axis}, which groups of {group_size} do "
            "not divide.",
            f"{remedy}, or leave the array out by where=.",
        )


SAFE = 4 * max(GROUP_SIZES)
"""A group's range and the sum of its magnitudes are less than so many times its largest element."""

LARGEST = {
    # What is in half width is computed in single; its scales are kept in half.
    "float16": 65504 / 4,
    "bfloat16": 3.3e38 / SAFE,
    "float32": 3.4e38 / SAFE,
    "float64": 1.7e308 / SAFE,
}


def _check_values(xp: Any, x: Any, name: str) -> None:
    """Raise where there are numbers that are none, if the values are known."""
    if xp.name == "graphc" or (xp.name == "JAX" and isinstance(x, sys.modules["jax"].core.Tracer)):
        return
    values = np.abs(np.asarray(x).astype("float64"))
    wrong = np.argwhere(~np.isfinite(values))
    largest, most = values.max(initial=0), LARGEST[dtype_name(dtype_of(x))]
    if not len(wrong) and largest > most:
        raise _refuse(
            f"quantize: {name} has an element of magnitude {largest:.3g}: the range of its group "
            f"may overflow beyond {most:.3g}.",
            "Scale the array down, or cast it to a wider dtype.",
        )
    if len(wrong):
        places = ", ".join(str(tuple(map(int, place))) for place in wrong[:SHOWN])
        raise _refuse(
            f"quantize: {name} has {len(wrong)} elements that are NaN or infinite, at {places}"
            f"{', …' if len(wrong) > SHOWN else ''}.",
            "Replace them: a group with one of them has no scale.",
        )


def _refuse(problem: str, remedy: str) -> ImplicitArrayError:
    return ImplicitArrayError(problem, remedy)
