"""Mask and score functions written for JAX, as graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from graphc.attention.blocks import Tiling
from graphc.attention.checks import check_captured_dtypes
from graphc.attention.mods import Mod, leaf_of, mask_of, score_of, uses
from graphc.attention.undecided import symbolic_tables
from graphc.capture import Lifted, Stripped
from graphc.ir import Graph, Node, TensorType, replace_nodes, toposort
from graphc.link.jax.attention.functions import as_argument, call, captured_arrays
from graphc.link.jax.attention.programs import CACHE_SIZE, Run, compiled
from graphc.link.jax.backend import WIDE
from graphc.link.jax.from_jaxpr.convert import JaxprConversion, trace
from graphc.link.jax.varying import varying_together
from graphc.link.jax.wrap.function import is_key
from graphc.link.jax.wrap.types import needs_x64
from graphc.loop.step import with_formals
from graphc.tensor.core.tensor import Tensor


class ArrayType(NamedTuple):
    """The type of an array that a function captures, on which its graph depends.

    Attributes:
        shape: The shape; of random keys, the shape of their words.
        dtype: The dtype.
        weak: Whether JAX promotes the array like a Python number.
        keys: The generator of random keys, which a graph takes as their words; None for numbers.
    """

    shape: tuple[Any, ...]
    dtype: str
    weak: bool = False
    keys: str | None = None

    @classmethod
    def of(cls, x: Any) -> ArrayType:
        """Return the type of an array, concrete or traced, or of a number."""
        kind = jax.typeof(x)
        if not is_key(kind.dtype):
            return cls(kind.shape, str(kind.dtype), kind.weak_type)
        words = jax.eval_shape(jax.random.key_data, kind)
        return cls(words.shape, str(words.dtype), keys=str(jax.random.key_impl(x)))


class Placeholder(NamedTuple):
    """A symbolic array in the place of a captured one, and the type that JAX gives the latter."""

    array: Tensor
    type: ArrayType


def placeholders(types: Sequence[ArrayType]) -> list[Placeholder]:
    """Return an input of a graph for each captured array."""
    return [Placeholder(TensorType(x.dtype, x.shape)(), x) for x in types]


def words(x: Any) -> Any:
    """Return an array as a graph takes it: random keys as their words."""
    return jax.random.key_data(x) if is_key(jax.typeof(x).dtype) else x


Types = tuple[tuple[ArrayType, ...], bool]
"""The types of captured arrays, and whether JAX has 64-bit dtypes."""


def types_of(arrays: Sequence[Any]) -> Types:
    """Return what the graph of a function depends on besides the function."""
    settings: Any = jax.config
    return tuple(map(ArrayType.of, arrays)), bool(settings.jax_enable_x64)


def captured_values(what: str, function: Lifted) -> tuple[Types, list[np.ndarray[Any, Any]]]:
    """Return the types of the arrays that a function captures, and the arrays as JAX has them."""
    with jax.ensure_compile_time_eval():
        arrays = captured_arrays(what, function)
        return types_of(arrays), [_to_numpy(x) for x in arrays]


def _to_numpy(x: Any) -> np.ndarray[Any, Any]:
    x = words(x)
    return np.asarray(x, jax.typeof(x).dtype)


def _placeholder(what: str, name: str, x: Any) -> Placeholder:
    if isinstance(x, Placeholder):
        return x
    if isinstance(x, Node):
        return Placeholder(x, ArrayType(x.type.shape, x.type.dtype))  # type: ignore[arg-type]
    with jax.ensure_compile_time_eval():
        array = as_argument(what, name, x)
        check_captured_dtypes(what, [name], [array])
        leaf = leaf_of(words(jnp.asarray(array)), f"{what} captures {name}", name)
        return Placeholder(leaf, ArrayType.of(array))


OWN_DERIVATIVES = frozenset({"custom_jvp_call", "custom_vjp_call"})
"""Primitives whose derivatives a kernel for JAX takes from JAX, as it differentiates a score."""


def call_mod(
    what: str,
    function: Lifted,
    parameters: Sequence[Tensor],
    opaque: frozenset[str] = frozenset(),
) -> Tensor:
    """Return the result of a function that is written for JAX, as a graph.

    Args:
        what: The function's name in messages.
        function: The function, with arrays of any library, symbolic ones or placeholders.
        parameters: The symbolic scalars that it is called with.
        opaque: The names of primitives that are left to JAX.

    Raises:
        DTypeError: If the function returns no number, or no bool for a mask.
        ShapeError: If the function returns no scalar.
        SymbolicValueError: If the function needs the value of a scalar, as a Python ``if`` does.
        ArgumentError: If the function takes other arguments, or is written for symbolic arrays.
    """
    names = zip(function.stripped.names, function.leaves, strict=True)
    captured = [_placeholder(what, name, x) for name, x in names]
    types = [ArrayType((), x.type.dtype) for x in parameters] + [x.type for x in captured]
    tensors = [*parameters, *[x.array for x in captured]]
    count = len(parameters)

    def run(*arrays: Any) -> Any:
        pairs = zip(arrays[count:], captured, strict=True)
        leaves = [x if y.type.keys is None else _keys(x, y.type.keys) for x, y in pairs]
        return call(what, function.stripped, [*arrays[:count], *leaves])

    wide = needs_x64([x.dtype for x in types])
    weak = [i for i, x in enumerate(types) if x.weak]
    program, _, lengths, inputs = trace(run, tensors, wide, weak)
    (y,) = JaxprConversion(lengths, wide, opaque).run(program, inputs)
    return y


def _keys(x: Any, generator: str) -> Any:
    return jax.random.wrap_key_data(x, impl=generator)


class ModProgram(NamedTuple):
    """A function that is written for JAX, as a graph.

    Attributes:
        graph: The graph of a ``Mod``.
        arrays: The arrays that the graph captures, as a function of those that the function does.
        uses: Whether a mask depends on the index of the sequence, and on the index of the head.
    """

    graph: Graph
    arrays: Callable[..., Sequence[Any]]
    uses: tuple[bool, bool] = (True, True)

    def captured(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arrays that the graph captures."""
        return tuple(self.arrays(*map(words, arrays)))


@lru_cache(CACHE_SIZE)
def mask_program(stripped: Stripped, types: Types) -> ModProgram:
    """Return the graph of a mask function that captures arrays of these types."""
    check_captured_dtypes("mask_mod", stripped.names, types[0])
    arrays = placeholders(types[0])
    mod = mask_of(Lifted(stripped, tuple(arrays)), call_mod)
    return _program(mod, arrays, types)._replace(uses=uses(mod.graph))


@lru_cache(CACHE_SIZE)
def score_program(stripped: Stripped, types: Types, dtype: str) -> ModProgram:
    """Return the graph of a score function that captures arrays of these types."""
    check_captured_dtypes("score_mod", stripped.names, types[0])
    arrays = placeholders(types[0])
    convert = partial(call_mod, opaque=OWN_DERIVATIVES)
    return _program(score_of(Lifted(stripped, tuple(arrays)), dtype, convert), arrays, types)


def _program(mod: Mod, arrays: Sequence[Placeholder], types: Types) -> ModProgram:
    inputs = [x.array for x in arrays]
    if not types[1]:
        mod = _inline_wide(mod, inputs)
    if all(x in inputs for x in mod.captured):
        positions = [inputs.index(x) for x in mod.captured]
        return ModProgram(mod.graph, lambda *arrays: [arrays[i] for i in positions])
    return ModProgram(mod.graph, compiled(inputs, mod.captured))


def traced_tables(function: Lifted, tiling: Tiling) -> Sequence[Any]:
    """Return the tables of a mask function that captures tracers, which have no gradient.

    Args:
        function: The mask function and its arrays.
        tiling: The blocks.

    Returns:
        Counts and indices of partial blocks, then of full ones, int32.
    """
    arrays = jax.lax.stop_gradient(captured_arrays("mask_mod", function))
    types = types_of(arrays)
    pairs = zip(arrays, types[0], strict=True)
    operands = varying_together([jnp.asarray(words(x), t.dtype) for x, t in pairs])
    return _tables_program(function.stripped, types, tiling)(*operands)


@lru_cache(CACHE_SIZE)
def _tables_program(stripped: Stripped, types: Types, tiling: Tiling) -> Run:
    captured = placeholders(types[0])
    mod = mask_of(Lifted(stripped, tuple(captured)), call_mod)
    return compiled([x.array for x in captured], symbolic_tables(mod, tiling))


def _inline_wide(mod: Mod, inputs: Sequence[Tensor]) -> Mod:
    """Return a function that itself computes the 64-bit arrays that it captures.

    Without jax_enable_x64, JAX narrows the arrays that enter the kernel, as the indices of a slice;
    within the kernel's graph they keep their dtype.

    Args:
        mod: The function, whose captured arrays are computed from ``inputs``.
        inputs: The placeholders of the arrays that the user's function captures.
    """
    wide = [x for x in mod.captured if x.type.dtype in WIDE and x not in inputs]
    if not wide:
        return mod
    captured = [x for x in mod.captured if x not in wide]
    used = set(toposort(wide))
    captured += [x for x in inputs if x in used and x not in captured]
    count = len(mod.graph.inputs) - len(mod.captured)
    scalars, formals = mod.graph.inputs[:count], mod.graph.inputs[count:]
    outputs = replace_nodes(mod.graph.outputs, dict(zip(formals, mod.captured, strict=True)))
    return Mod(with_formals([*scalars, *captured], outputs), tuple(captured))
