"""The collectives of a program that XLA compiled for a mesh, and the operations that need them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from math import prod
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from graphc.errors import ShardingWarning
from graphc.ir import Graph, Node, TensorType
from graphc.link.call_spec import CallSpec
from graphc.link.jax.divided import lowered_for_choices
from graphc.link.jax.hlo import ProgramText, Scoped, Scopes
from graphc.link.jax.mesh import Layout
from graphc.link.jax.origins import in_loop, origin
from graphc.link.jax.placed import within
from graphc.link.jax.traced import TracedProgram
from graphc.link.placement import Collective, Gathered, Memory, Placement
from graphc.link.program import Program, observing
from graphc.loop import Loop
from graphc.site import frames_up
from graphc.tensor.core.sharding import Shard

KINDS = frozenset(
    {
        *("all-gather", "all-reduce", "all-to-all", "collective-broadcast", "collective-permute"),
        *("ragged-all-to-all", "reduce-scatter"),
    }
)
"""The instructions in which devices exchange data; some begin with one, and end with another."""

REDUCTIONS = frozenset({"all-reduce", "reduce-scatter"})
"""Those that compute what an operation gives; others bring an operation what it takes."""

START = "-start"
"""How the name of one that begins ends."""

DECLARED = "sharding_constraint"
"""The last part of the name of what a declared sharding asks for."""


def collectives(text: ProgramText) -> Iterator[tuple[str, str, int]]:
    """Yield the instructions in which devices exchange data: name, kind and bytes."""
    for name in text.lines:
        kind, operands = text.call(name)
        plain = kind.removesuffix(START)
        if plain in KINDS:
            given = sum(text.size(x) for x in operands)
            # What begins gives its operands beside its results.
            got = text.size(name) - (given if kind.endswith(START) else 0)
            yield name, plain, max(given, got)


def gathered(
    text: ProgramText, shapes: Mapping[int, Sequence[int]]
) -> Iterator[tuple[int, str, int]]:
    """Yield the arguments that become whole because an operation needs them so.

    Args:
        text: The program.
        shapes: For each argument that is declared as divided, its lengths.

    Yields:
        The argument's place, the instruction that makes it whole, and the bytes of the whole; of a
        part that each step of a loop makes whole those of that.
    """
    for name in text.lines:
        kind, operands = text.call(name)
        if kind.removesuffix(START) != "all-gather":
            continue
        for x in operands:
            found = origin(text, x)
            if found is not None and found.argument in shapes:
                size = prod(shapes[found.argument]) * text.itemsize(x) * found.share
                if text.size(name) >= size:
                    yield found.argument, name, int(size)


def causes(text: ProgramText, name: str, kind: str) -> list[Scopes]:
    """The scopes of the operations that need a collective.

    XLA names some of those that move an array after what made it, and not after what takes it.
    """
    own = text.scopes(name)
    if kind in REDUCTIONS or text.written(name).endswith(DECLARED):
        return own
    seen, left, found = {name}, [name], list[Scopes]()
    while left:
        for user in text.users.get(left.pop(), ()):
            scopes = [path for path in text.scopes(user) if path not in own]
            found += scopes
            if not scopes and user not in seen:
                seen.add(user)
                left.append(user)
    return [*dict.fromkeys(found)] or own


def warn_of_gathered(
    program: Callable[[], Program],
    spec: CallSpec,
    compiled: jax.stages.Compiled,
    passed: Mapping[int, Sequence[int]],
) -> None:
    """Warn of arguments that are declared as divided, and that the program makes whole.

    Args:
        program: Gives the program.
        spec: How it is called.
        compiled: The executable.
        passed: The places of the arguments that it takes, and their shapes.
    """
    divided = _divided(spec, program().graph, dict(enumerate(passed.items())))
    if not divided:
        return
    text = ProgramText(compiled.as_text() or "")
    shapes = {i: shape for i, (_, shape) in divided.items()}
    for i, (size, names) in _by_argument(text, shapes).items():
        argument = program().arguments[divided[i][0]]
        told = str(Gathered(argument, size, (), in_loop(text, names[0])))
        warnings.warn(
            f"{told[0].upper()}{told[1:]}. f.plan(*args) names the line that needs it so: divide "
            "another axis, or declare there that it is meant: gt.shard(x, ()).",
            ShardingWarning,
            stacklevel=frames_up(),
        )


def _divided(
    spec: CallSpec, graph: Graph, passed: Mapping[int, tuple[int, Sequence[int]]]
) -> dict[int, tuple[int, Sequence[int]]]:
    """Of what is passed, a call's arguments that are divided, and that the graph leaves so."""
    declared = {*_declared(graph, {})}
    return {
        i: (place, shape)
        for i, (place, shape) in passed.items()
        if place < spec.given
        and any(entry is not None for entry in spec.shardings[place] or ())
        and graph.inputs[place] not in declared
    }


def _declared(graph: Graph, outside: Mapping[Node, Node]) -> Iterator[Node]:
    """Yield what a graph declares the sharding of, in loops and branches too.

    Args:
        graph: The graph.
        outside: What its inputs stand for, or are elements of.
    """
    for node in graph.nodes:
        if isinstance(node.op, Shard):
            yield from (outside.get(x, x) for x in node.inputs)
        for held, places in zip(node.op.graphs(), node.op.passes(), strict=False):
            given = [None if i is None else node.inputs[i] for i in places]
            if isinstance(node.op, Loop):
                first = node.op.carries
                given[first : first + node.op.sequences] = node.op.parts(node.inputs).xs
            pairs = zip(held.inputs, given, strict=False)
            yield from _declared(held, {p: outside.get(x, x) for p, x in pairs if x is not None})


def _by_argument(
    text: ProgramText, shapes: Mapping[int, Sequence[int]]
) -> dict[int, tuple[int, list[str]]]:
    """For each argument that becomes whole, its size and the instructions that make it so."""
    found: dict[int, tuple[int, list[str]]] = {}
    for place, name, size in gathered(text, shapes):
        found.setdefault(place, (size, []))[1].append(name)
    return found


def placement(
    program: Program,
    spec: CallSpec,
    layout: Layout,
    arguments: Sequence[Any],
    donated: Sequence[int],
    *,
    wide: bool,
) -> Placement:
    """Compile a program for a mesh, with a scope for each operation, and read the result.

    Args:
        program: The program.
        spec: How it is called.
        layout: The mesh.
        arguments: The type of each argument, or its value where that decides a shape.
        donated: The arguments whose buffers may be reused.
        wide: Whether it computes in 64 bits.
    """
    scoped = Scoped()
    with observing(scoped):
        rebuilt = Program(program.graph, program.backend, program.host)
        traced = TracedProgram(spec, lambda: rebuilt, layout)
        compiled = _compiled(traced, spec, layout, arguments, donated, wide=wide)
    text = ProgramText(compiled.as_text() or "")
    passed = [i for i in range(len(arguments)) if i not in spec.static]
    places = {k: (i, arguments[i].shape) for k, i in enumerate(passed)}
    divided = _divided(spec, program.graph, places)
    shapes = {k: shape for k, (_, shape) in divided.items()}
    nodes = scoped.nodes
    return Placement(
        str(layout.axes),
        tuple(map(_written, jax.tree.leaves(compiled.output_shardings), program.graph.outputs)),
        tuple(_grouped(text, nodes)),
        tuple(
            Gathered(
                program.arguments[divided[k][0]],
                size,
                _innermost([p for name in names for p in causes(text, name, "all-gather")], nodes),
                in_loop(text, names[0]),
            )
            for k, (size, names) in _by_argument(text, shapes).items()
        ),
        _memory(compiled),
    )


def _memory(compiled: jax.stages.Compiled) -> Memory | None:
    found = compiled.memory_analysis()
    if found is None:
        return None
    return Memory(
        found.argument_size_in_bytes,
        found.output_size_in_bytes,
        found.alias_size_in_bytes,
        found.temp_size_in_bytes,
    )


def _compiled(
    traced: TracedProgram,
    spec: CallSpec,
    layout: Layout,
    arguments: Sequence[Any],
    donated: Sequence[int],
    *,
    wide: bool,
) -> Any:
    static = {i: np.asarray(arguments[i]) for i in spec.static}

    def function(*rest: Any) -> Any:
        left = iter(rest)
        return traced.function(
            *[static[i] if i in static else next(left) for i in range(len(arguments))]
        )

    passed = [i for i in range(len(arguments)) if i not in static]
    given = [_described(layout, arguments[i], spec.shardings[i]) for i in passed]
    reused = tuple(k for k, i in enumerate(passed) if i in donated)
    with ExitStack() as stack:
        stack.enter_context(within(layout))
        if wide:
            stack.enter_context(jax.enable_x64(True))
        _, lowered = lowered_for_choices(
            # JAX knows a function again that it has traced.
            lambda: jax.jit(partial(function), donate_argnums=reused),
            lambda jitted, types: jitted.trace(*types),
            given,
        )
        return lowered.compile()


def _described(layout: Layout, type: TensorType, sharding: Any) -> jax.ShapeDtypeStruct:
    where = layout.home(sharding).sharding
    return jax.ShapeDtypeStruct(type.shape, type.numpy_dtype, sharding=where)  # type: ignore[no-untyped-call]


def _written(sharding: Any, y: Node) -> str:
    """A result's sharding as users write it."""
    if not isinstance(sharding, NamedSharding):
        return str(sharding)
    entries = tuple(sharding.spec)
    return repr((*entries, *(None,) * (y.type.ndim - len(entries))))


def _grouped(text: ProgramText, nodes: Sequence[Node]) -> Iterator[Collective]:
    """Yield the collectives, those of one kind that one line needs together."""
    groups: dict[Any, list[int]] = {}
    for name, kind, size in collectives(text):
        paths = causes(text, name, kind)
        loops = [nodes[k] for path in paths for k in path[:-1] if isinstance(nodes[k].op, Loop)]
        key = kind, _innermost(paths, nodes), loops[0] if loops else None
        groups.setdefault(key, []).append(size)
    for (kind, needed, loop), sizes in groups.items():
        yield Collective(kind, len(sizes), sum(sizes), needed, loop)


def _innermost(paths: Sequence[Scopes], nodes: Sequence[Node]) -> tuple[Node, ...]:
    return tuple(dict.fromkeys(nodes[path[-1]] for path in paths))
