"""Arrays, and trees of them, converted to packed codes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import fields_of, is_implicit, with_fields
from graphc.implicit.namespace import numpy_like
from graphc.implicit.policy import materialize_nested
from graphc.implicit.quantized.affine import AffineQuantized
from graphc.implicit.quantized.base import PackedVector, Quantized
from graphc.implicit.quantized.coding import DIGITS, WORD, Coding
from graphc.implicit.quantized.encode import encode
from graphc.implicit.quantized.microscaled import GROUPS, Microscaled, microscaled
from graphc.implicit.quantized.nf4 import NF4
from graphc.implicit.quantized.one_bit import OneBit
from graphc.implicit.quantized.scaled import ELEMENTS, ScaledQuantized
from graphc.implicit.quantized.selection import Rules, Where, by_rules, chosen, is_array
from graphc.implicit.treedef import Treedef, dtype_of, lengths_of
from graphc.implicit.trees import tree_map
from graphc.ir import dtype_name, is_complex, is_inexact

KINDS: dict[str, tuple[type[Quantized], dict[str, Any]]] = {
    **{f"int{bits}": (AffineQuantized, {"bits": bits}) for bits in (8, 6, 5, 4, 3, 2)},
    "nf4": (NF4, {}),
    "1bit": (OneBit, {}),
    **{
        name: (ScaledQuantized, {"element": name})
        for name in ELEMENTS
        if not name.startswith("int")
    },
    **{name: (Microscaled, {"format": name}) for name in GROUPS},
}
"""The class of each kind, and its static fields."""

DEFAULT_GROUP = 64
"""So many neighbours share a scale."""

DEFAULT_GROUPS = {"ternary5": 80}
"""Of kinds that do not fill words by so many."""


class Recipe(NamedTuple):
    """How an array is quantized.

    Attributes:
        cls: The class.
        options: Its static fields, but for those below, ``transposed`` and ``padding``.
        group_size: How many neighbours share a scale, -1 for all along the axis.
        axis: The packed axis, -1 or -2.
        channel_axes: The axes whose slices have scales of their own; None where groups have.
    """

    cls: type[Quantized]
    options: dict[str, Any]
    group_size: int
    axis: int
    channel_axes: tuple[int, ...] | None

    def coding_for(self, n: int | None) -> Coding:
        """The coding of a packed axis of a length."""
        if n is None or self.group_size != -1:
            return self.cls.coding_of(group_size=self.group_size, **self.options)
        units = self.cls.coding_of(group_size=WORD * DIGITS, **self.options).per_unit
        return self.cls.coding_of(group_size=max(1, -(-n // units)) * units, **self.options)

    def built(
        self, xp: Any, coding: Coding, x: Any, padding: int, shared: tuple[int, ...] = ()
    ) -> Any:
        """The quantized array of one whose packed axis is the last, of whole groups.

        Args:
            xp: The functions of the array's library.
            coding: What the codes mean.
            x: Floating numbers.
            padding: So many zeros at the end are none of the array.
            shared: Axes before the last, along which groups have equal scales.
        """
        build: Any = self.cls
        settings: dict[str, Any] = {"transposed": self.axis == -2, "padding": padding}
        settings |= self.options
        if self.cls is Microscaled:
            return build(*microscaled(xp, coding, x), **settings)
        parts = encode(xp, coding, x, shared, padding)
        return build(*parts, group_size=coding.group_size, **settings)


SHOWN = 3
"""So many places are named in an error."""


def quantize(  # noqa: PLR0913 (the choices that a kind has)
    tree: Any,
    kind: str | Rules = "int4",
    *,
    where: Where = None,
    group_size: int | None = None,
    axis: int = -1,
    symmetric: bool = False,
    channel_axes: Sequence[int] | None = None,
) -> Any:
    """An array, or the arrays of a tree, as packed codes of a few bits with a scale for each group.

    Args:
        tree: A floating array with two axes or more, of NumPy, JAX or MLX, symbolic or traced; or a
            nested container of arrays. Implicit arrays in it stay as they are.
        kind: ``"int8"``, ``"int6"``, ``"int5"``, ``"int4"``, ``"int3"`` or ``"int2"``
            (``AffineQuantized``), ``"nf4"`` (``NF4``), ``"1bit"`` (``OneBit``), ``"ternary"``,
            ``"ternary5"``, ``"float8_e4m3fn"``, ``"float8_e5m2"``, ``"float4_e2m1fn"``, ``"w8a8"``
            (``ScaledQuantized``), ``"mxfp4"``, ``"mxfp8"`` or ``"nvfp4"`` (``Microscaled``). Or
            rules for a tree: a mapping whose keys are regular expressions and whose values are a
            kind, a mapping of ``kind`` and of the arguments below but ``where``, or None. The first
            that is found in an array's path, its keys joined by ``/``, applies; None, and no rule
            at all, leave the array as it is.
        where: Which arrays of a tree: a function of a path, a tuple of keys, and an array; or a
            compiled regular expression, found anywhere in the path's keys joined by ``/``; or a
            pattern of the whole with ``*`` and ``?``. By default all floating ones of two axes or
            more.
        group_size: How many neighbours share a scale, 64 by default, 80 of ``"ternary5"``: a
            multiple of the codes that fill a word, 8 of 4 bits and 20 of ``"ternary5"``; MLX has
            kernels for 32 and multiples of it. -1 is for all along the axis. A last group that is
            shorter is padded. ``Microscaled`` has its own.
        axis: Along which axis they are neighbours, and packed: -1 or -2. Under JAX's processor
            ``x @ w`` is faster with -2 where x has few rows, up to 8 for int4 and one for int8;
            with -1 where it has more, and for NF4; MLX's processor is faster with -1.
        symmetric: Of ``"int8"`` to ``"int2"``: without biases, as ``ScaledQuantized``.
        channel_axes: The axes whose slices have scales of their own, as ``(-1,)`` for output
            channels of ``x @ w``; ``()`` is one scale for all. The packed axis is another, and
            ``axis`` is not given.

    Returns:
        An implicit array of the same library, shape and dtype; or a tree like the one given.

    Raises:
        ImplicitArrayError: There is a NaN or an infinity (not looked for where the values are not
            known); no such kind or size; an array that was requested cannot be quantized; ``where``
            or a rule fits none.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> tree = {"layers": [{"w": rng.standard_normal((64, 128)), "b": np.zeros(128)}]}
        >>> quantize(tree, "int8", where="layers/*/w")["layers"][0]["w"]
        AffineQuantized(uint32[64, 32], float64[64, 2], float64[64, 2], bits=8, group_size=64,
         transposed=False)
        >>> quantize(tree, {r"/w$": {"kind": "nf4", "axis": -2}})["layers"][0]["w"]
        NF4(uint32[128, 8], float64[128, 1], group_size=64, transposed=True)
        >>> quantize(rng.standard_normal((64, 100)), "int8", symmetric=True, channel_axes=(-1,))
        ScaledQuantized(uint32[100, 16], float64[100, 1], element='int8', group_size=64,
         transposed=True)
    """
    options: dict[str, Any] = {"group_size": group_size, "axis": axis, "symmetric": symmetric}
    options["channel_axes"] = channel_axes
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
    if isinstance(x, Quantized | PackedVector):
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
    cls, static = _class_of(given["kind"])
    if given["symmetric"]:
        if cls not in {AffineQuantized, ScaledQuantized}:
            kind = given["kind"]
            raise _refuse(f"quantize({kind!r}, symmetric=True).", "It has no biases anyway.")
        cls, static = ScaledQuantized, {"element": given["kind"]}
    axis = given["axis"]
    if axis not in {-1, -2}:
        raise _refuse(f"quantize(axis={axis}).", "Pack along one of the last two axes: -1 or -2.")
    if static.get("element") == "w8a8" and axis != -2 and given["channel_axes"] is None:
        raise _refuse(
            f"quantize('w8a8', axis={axis}): products add up along the other axis.",
            "Give axis=-2, along which x @ w sums, or channel_axes=(-1,).",
        )
    size, channels = _groups_of(cls, given)
    if size != -1:
        cls.coding_of(group_size=size, **static)
    return Recipe(cls, static, size, axis, channels)


def _groups_of(
    cls: type[Quantized], given: Mapping[str, Any]
) -> tuple[int, tuple[int, ...] | None]:
    """The size of groups, and the axes of channels."""
    kind, size, channels = given["kind"], given["group_size"], given["channel_axes"]
    if size is not None and cls is Microscaled:
        problem = f"quantize({kind!r}, group_size={size})."
        raise _refuse(problem, f"It has groups of {GROUPS[kind]}.")
    if channels is None:
        default = DEFAULT_GROUPS.get(kind, DEFAULT_GROUP)
        return default if size is None else size, None
    if size is not None or given["axis"] != -1 or cls is Microscaled:
        raise _refuse(
            f"quantize({kind!r}, channel_axes={channels}, group_size={size}).",
            "A scale is for a channel or for a group; give one of the two, and no axis.",
        )
    return -1, tuple(channels)


def _class_of(kind: str) -> tuple[type[Quantized], dict[str, Any]]:
    if kind not in KINDS:
        problem = f"quantize(kind={kind!r})."
        raise _refuse(problem, f"Take one of {', '.join(map(repr, KINDS))}.")
    return KINDS[kind]


def _converted(x: Any, name: str, recipe: Recipe) -> Any:
    _check(x, name)
    recipe, shared = placed(recipe, len(lengths_of(x)), name)
    given, xp = x, numpy_like(x)
    if xp.name == "MLX":
        # Computed in NumPy's steps, which are MLX's own.
        x, xp = _from_mlx(xp, x), numpy_like(np.zeros(()))
    _check_values(xp, x, name)
    transposed = recipe.axis == -2
    x = xp.swapaxes(x, -1, -2) if transposed else x
    n = lengths_of(x)[-1]
    if n is None and recipe.group_size == -1:
        raise _refuse(f"quantize: {name} has an unknown length along axis {recipe.axis}.", SHAPED)
    coding = recipe.coding_for(n)
    # An unknown length is one of whole groups.
    padding = 0 if n is None else -n % coding.group_size
    if padding:
        x = xp.concatenate([x, xp.zeros((*xp.shape_of(x)[:-1], padding), dtype_of(x))], -1)
    made = recipe.built(xp, coding, x, padding, shared)
    treedef, parts = Treedef.of(made)
    if xp.name == "NumPy":
        # NumPy keeps the order of a transpose in memory; MLX would copy such words at each product.
        parts = [*map(np.ascontiguousarray, parts)]
    if given is not x and numpy_like(given).name == "MLX":
        xp, dtype = numpy_like(given), str(dtype_name(dtype_of(given)))
        parts = [type(given)(part) for part in parts]
        parts = [part if _is_code(part) else xp.cast(part, dtype) for part in parts]
    return treedef.build(parts)


SHAPED = "Give it a shape, as by gt.matrix(shape=...) or gt.specify_shape."


def _is_code(part: Any) -> bool:
    return not is_inexact(dtype_name(dtype_of(part)))


def placed(recipe: Recipe, ndim: int, name: str) -> tuple[Recipe, tuple[int, ...]]:
    """The recipe with the packed axis of channels, and the axes of scales that are alike."""
    channels = recipe.channel_axes
    if channels is None:
        return recipe, ()
    own = {axis % ndim for axis in channels if -ndim <= axis < ndim}
    packed = next((axis for axis in (-1, -2) if axis % ndim not in own), None)
    if len(own) < len(channels) or packed is None:
        raise _refuse(
            f"quantize: channel_axes={channels} of {name}, which has {ndim} axes.",
            "Give axes that it has, each once; of the last two at most one.",
        )
    # The packed axis is moved to the end.
    places = [axis for axis in range(ndim) if axis != packed % ndim]
    shared = tuple([i for i, axis in enumerate(places) if axis not in own])
    return recipe._replace(axis=packed), shared


def _from_mlx(xp: Any, x: Any) -> Any:
    return np.asarray(xp.cast(x, "float32") if dtype_of(x).itemsize < 4 else x)


def _check(x: Any, name: str) -> None:
    shape, dtype = lengths_of(x), dtype_name(dtype_of(x))
    if len(shape) < 2 or not is_inexact(dtype) or is_complex(dtype):
        raise _refuse(
            f"quantize: {name} is {dtype}{list(shape)}.",
            "Floating arrays of two axes or more can be quantized; leave others out by where=.",
        )


SAFE = 512
"""A group's range is less than so many times its largest element, and so is a sum of magnitudes of
128."""

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
