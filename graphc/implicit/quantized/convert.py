"""Arrays, and trees of arrays, converted to packed codes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import is_implicit, map_fields
from graphc.implicit.namespace import numpy_like
from graphc.implicit.policy import materialize_nested
from graphc.implicit.quantized.base import PackedVector, Quantized
from graphc.implicit.quantized.coding import DIGITS, WORD, Coding
from graphc.implicit.quantized.encode import encode
from graphc.implicit.quantized.kinds import ELEMENTS, NF4, AffineQuantized, OneBit, ScaledQuantized
from graphc.implicit.quantized.microscaled import GROUPS, Microscaled, encode_microscaled
from graphc.implicit.quantized.selection import (
    Rules,
    Where,
    compile_rule,
    convert_selected,
    is_array,
)
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
"""The class and the static fields of each kind."""

DEFAULT_GROUP = 64
"""The default number of neighbours that share a scale."""

DEFAULT_GROUPS = {"ternary5": 80}
"""The default of kinds for which ``DEFAULT_GROUP`` codes do not fill words."""


class Recipe(NamedTuple):
    """The options with which an array is quantized.

    Attributes:
        cls: The class.
        options: Its static fields, except those below, ``transposed`` and ``padding``.
        group_size: The number of neighbours that share a scale, -1 for all along the axis.
        axis: The packed axis, -1 or -2.
        channel_axes: The axes whose slices have separate scales; None if groups have.
    """

    cls: type[Quantized]
    options: dict[str, Any]
    group_size: int
    axis: int
    channel_axes: tuple[int, ...] | None

    def coding_for(self, n: int | None) -> Coding:
        """Return the encoding for a packed axis of length n."""
        if n is None or self.group_size != -1:
            return self.cls.coding_of(group_size=self.group_size, **self.options)
        units = self.cls.coding_of(group_size=WORD * DIGITS, **self.options).per_unit
        return self.cls.coding_of(group_size=max(1, -(-n // units)) * units, **self.options)

    def encode(
        self, xp: Any, coding: Coding, x: Any, padding: int, shared: tuple[int, ...] = ()
    ) -> Any:
        """Quantize an array whose last axis is the packed one and consists of complete groups.

        Args:
            xp: The functions of the array's library.
            coding: The encoding.
            x: Floating numbers.
            padding: The number of zeros at the end that are padding.
            shared: Axes before the last, along which scales are equal.
        """
        build: Any = self.cls
        settings: dict[str, Any] = {"transposed": self.axis == -2, "padding": padding}
        settings |= self.options
        if self.cls is Microscaled:
            return build(*encode_microscaled(xp, coding, x), **settings)
        fields = encode(xp, coding, x, shared, padding)
        return build(*fields, group_size=coding.group_size, **settings)


SHOWN = 3
"""The number of elements whose indices an error shows."""


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
    """Quantize an array, or the arrays of a tree, to packed codes with a scale for each group.

    Args:
        tree: A floating array with two axes or more, of NumPy, JAX or MLX, symbolic or traced; or a
            nested container of arrays. Implicit arrays in the container stay unchanged.
        kind: ``"int8"``, ``"int6"``, ``"int5"``, ``"int4"``, ``"int3"`` or ``"int2"``
            (``AffineQuantized``), ``"nf4"`` (``NF4``), ``"1bit"`` (``OneBit``), ``"ternary"``,
            ``"ternary5"``, ``"float8_e4m3fn"``, ``"float8_e5m2"``, ``"float4_e2m1fn"``, ``"w8a8"``
            (``ScaledQuantized``), ``"mxfp4"``, ``"mxfp8"`` or ``"nvfp4"`` (``Microscaled``). Or
            rules for a tree: a mapping whose keys are regular expressions and whose values are a
            kind, a mapping of ``kind`` and of the arguments below except ``where``, or None. The
            first expression that is found in an array's path, its keys joined by ``/``, applies;
            None, and no matching rule, leave the array unchanged.
        where: Selects arrays of a tree: a function of a path, a tuple of keys, and an array; or a
            compiled regular expression, found anywhere in the path's keys joined by ``/``; or a
            pattern with ``*`` and ``?`` that matches all of the joined path. By default all
            floating arrays of two axes or more.
        group_size: The number of neighbours that share a scale, by default 64, and 80 for
            ``"ternary5"``: a multiple of the number of codes that fill a word, 8 for 4 bits and 20
            for ``"ternary5"``; MLX has kernels for 32 and multiples of it. -1 means all along the
            axis. A shorter last group is padded. ``Microscaled`` formats define their own.
        axis: The axis along which groups lie and codes are packed: -1 or -2. On JAX's CPU ``x @ w``
            is faster with -2 if x has few rows, up to 8 for int4 and one for int8; with -1 if it
            has more, and for NF4. MLX's CPU is faster with -1.
        symmetric: For ``"int8"`` to ``"int2"``: without biases, as ``ScaledQuantized``.
        channel_axes: The axes whose slices have separate scales, such as ``(-1,)`` for output
            channels of ``x @ w``; ``()`` means one scale for the array. The packed axis is another
            axis, and ``axis`` must not be given.

    Returns:
        An implicit array of the same library, shape and dtype; or a tree with the same nesting.

    Raises:
        ImplicitArrayError: If an array contains NaN or infinity (not checked where values are
            unknown), if there is no such kind or size, if a selected array cannot be quantized, or
            if ``where`` or a rule matches no array.

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
            raise ImplicitArrayError(
                "quantize(rules, where=...).", "A rule says which arrays it is for."
            )
        rules = [(compile_rule(k), x and recipe_of(x, options)) for k, x in kind.items()]
        return convert_selected(tree, rules, _convert)
    recipe = recipe_of(kind, options)
    if is_array(tree):
        if where is not None:
            raise ImplicitArrayError(
                "quantize(where=...) of an array.", "Omit where: it selects arrays of a tree."
            )
        return _convert(tree, "the array", recipe)
    return convert_selected(tree, [(where, recipe)], _convert)


def dequantize(tree: Any) -> Any:
    """Return the dense array of a quantized one, or a tree with dense arrays.

    Args:
        tree: An array, or a nested container. Quantized arrays nested in other implicit arrays,
            such as the base of a ``LoRA``, become dense there.

    Returns:
        The array or tree, with dense arrays of the same library instead of quantized ones.

    Example:
        >>> import numpy as np
        >>> dequantize([quantize(np.ones((2, 64)), "int8"), np.zeros(1)])[0].shape
        (2, 64)
    """
    return tree_map(_dequantize, tree)


def _dequantize(x: Any) -> Any:
    if isinstance(x, Quantized | PackedVector):
        return materialize_nested(x, full=True)
    return map_fields(_dequantize, x) if is_implicit(x) else x


def recipe_of(kind: Any, options: Mapping[str, Any]) -> Recipe:
    """Return the recipe of a kind, or of a mapping of options, with defaults for others."""
    settings = {"kind": kind} if isinstance(kind, str) else dict(kind)
    settings = {**options, **settings}
    unknown = settings.keys() - {"kind", *options}
    if unknown or "kind" not in settings:
        raise ImplicitArrayError(
            f"quantize: a rule {kind!r}.",
            f"Give a kind, None, or a mapping of 'kind' and {', '.join(map(repr, options))}.",
        )
    if (kind := settings["kind"]) not in KINDS:
        problem = f"quantize(kind={kind!r})."
        raise ImplicitArrayError(problem, f"Take one of {', '.join(map(repr, KINDS))}.")
    cls, static = KINDS[kind]
    if settings["symmetric"]:
        if cls not in {AffineQuantized, ScaledQuantized}:
            raise ImplicitArrayError(
                f"quantize({kind!r}, symmetric=True).", "This kind has no biases: omit symmetric."
            )
        cls, static = ScaledQuantized, {"element": kind}
    axis = settings["axis"]
    if axis not in {-1, -2}:
        raise ImplicitArrayError(
            f"quantize(axis={axis}).", "Pack along one of the last two axes: -1 or -2."
        )
    if static.get("element") == "w8a8" and axis != -2 and settings["channel_axes"] is None:
        raise ImplicitArrayError(
            f"quantize('w8a8', axis={axis}): products add up along the other axis.",
            "Give axis=-2, along which x @ w sums, or channel_axes=(-1,).",
        )
    size, channels = _groups_of(cls, settings)
    if size != -1:
        cls.coding_of(group_size=size, **static)
    return Recipe(cls, static, size, axis, channels)


def _groups_of(
    cls: type[Quantized], settings: Mapping[str, Any]
) -> tuple[int, tuple[int, ...] | None]:
    kind, size, channels = settings["kind"], settings["group_size"], settings["channel_axes"]
    if size is not None and cls is Microscaled:
        problem = f"quantize({kind!r}, group_size={size})."
        raise ImplicitArrayError(
            problem, f"The format has groups of {GROUPS[kind]}: omit group_size."
        )
    if channels is None:
        default = DEFAULT_GROUPS.get(kind, DEFAULT_GROUP)
        return default if size is None else size, None
    if size is not None or settings["axis"] != -1 or cls is Microscaled:
        raise ImplicitArrayError(
            f"quantize({kind!r}, channel_axes={channels}, group_size={size}).",
            "A scale is for a channel or for a group; give one of the two, and no axis.",
        )
    return -1, tuple(channels)


def _convert(x: Any, name: str, recipe: Recipe) -> Any:
    _check(x, name)
    recipe, shared = resolve_channels(recipe, len(lengths_of(x)), name)
    original, xp = x, numpy_like(x)
    if xp.name == "MLX":
        # NumPy's functions compute the same codes as MLX's own quantization.
        x = np.asarray(xp.cast(x, "float32") if dtype_of(x).itemsize < 4 else x)
        xp = numpy_like(x)
    _check_values(xp, x, name)
    transposed = recipe.axis == -2
    x = xp.swapaxes(x, -1, -2) if transposed else x
    n = lengths_of(x)[-1]
    if n is None and recipe.group_size == -1:
        raise ImplicitArrayError(
            f"quantize: {name} has an unknown length along axis {recipe.axis}.", SHAPED
        )
    coding = recipe.coding_for(n)
    # An unknown length is assumed to be a multiple of the group's.
    padding = 0 if n is None else -n % coding.group_size
    if padding:
        x = xp.concatenate([x, xp.zeros((*xp.shape_of(x)[:-1], padding), dtype_of(x))], -1)
    treedef, leaves = Treedef.of(recipe.encode(xp, coding, x, padding, shared))
    if xp.name == "NumPy":
        # NumPy keeps the order of a transpose in memory; MLX would copy such words at each product.
        leaves = [*map(np.ascontiguousarray, leaves)]
    if original is not x and numpy_like(original).name == "MLX":
        xp, dtype = numpy_like(original), str(dtype_name(dtype_of(original)))
        leaves = [type(original)(leaf) for leaf in leaves]
        leaves = [xp.cast(x, dtype) if is_inexact(dtype_name(dtype_of(x))) else x for x in leaves]
    return treedef.build(leaves)


SHAPED = "Give it a shape, as by gt.matrix(shape=...) or gt.specify_shape."


def resolve_channels(recipe: Recipe, ndim: int, name: str) -> tuple[Recipe, tuple[int, ...]]:
    """Return the recipe with its packed axis, and the axes along which scales are equal."""
    channels = recipe.channel_axes
    if channels is None:
        return recipe, ()
    own = {axis % ndim for axis in channels if -ndim <= axis < ndim}
    packed = next((axis for axis in (-1, -2) if axis % ndim not in own), None)
    if len(own) < len(channels) or packed is None:
        raise ImplicitArrayError(
            f"quantize: channel_axes={channels} of {name}, which has {ndim} axes.",
            "Give axes that it has, each once; of the last two at most one.",
        )
    # The packed axis is moved to the end.
    others = [axis for axis in range(ndim) if axis != packed % ndim]
    shared = tuple([i for i, axis in enumerate(others) if axis not in own])
    return recipe._replace(axis=packed), shared


def _check(x: Any, name: str) -> None:
    shape, dtype = lengths_of(x), dtype_name(dtype_of(x))
    if len(shape) < 2 or not is_inexact(dtype) or is_complex(dtype):
        raise ImplicitArrayError(
            f"quantize: {name} is {dtype}{list(shape)}.",
            "Floating arrays of two axes or more can be quantized; exclude others with where=.",
        )


SAFE = 512
"""An upper bound of a group's range, and of a sum of 128 magnitudes, over the largest magnitude."""

LARGEST = {
    # Half precision is computed in single precision, but its scales are stored in half precision.
    "float16": 65504 / 4,
    "bfloat16": 3.3e38 / SAFE,
    "float32": 3.4e38 / SAFE,
    "float64": 1.7e308 / SAFE,
}


def _check_values(xp: Any, x: Any, name: str) -> None:
    """Raise an error if known values contain NaN, infinity or numbers that may overflow."""
    if xp.name == "graphc" or (xp.name == "JAX" and isinstance(x, sys.modules["jax"].core.Tracer)):
        return
    values = np.abs(np.asarray(x).astype("float64"))
    wrong = np.argwhere(~np.isfinite(values))
    largest, limit = values.max(initial=0), LARGEST[dtype_name(dtype_of(x))]
    if not len(wrong) and largest > limit:
        raise ImplicitArrayError(
            f"quantize: {name} has an element of magnitude {largest:.3g}: the range of its group "
            f"may overflow beyond {limit:.3g}.",
            "Scale the array down, or cast it to a wider dtype.",
        )
    if len(wrong):
        indices = ", ".join(str(tuple(map(int, index))) for index in wrong[:SHOWN])
        raise ImplicitArrayError(
            f"quantize: {name} has {len(wrong)} elements that are NaN or infinite, at {indices}"
            f"{', …' if len(wrong) > SHOWN else ''}.",
            "Replace them: a group with one of them has no scale.",
        )
