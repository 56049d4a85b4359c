"""The collectives of a program that XLA compiled for a mesh, and the operations that need them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from math import prod
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from graphc.errors import ShardingWarning
from graphc.ir import Graph, Node
from graphc.link.call_spec import CallSpec
from graphc.link.jax.executables import fix_arguments
from graphc.link.jax.hlo import ProgramText, Scoped, Scopes, in_loop, origin
from graphc.link.jax.mesh import MeshLayout
from graphc.link.jax.mesh_calls import mesh_context
from graphc.link.jax.partitions import lower_for_partitions
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
"""The instructions in which devices exchange data; some are split into a start and an end."""

REDUCTIONS = frozenset({"all-reduce", "reduce-scatter"})
"""The collectives that compute an operation's result; others move an operation's operands."""

START = "-start"
"""The suffix of the opcode that starts a collective."""

DECLARED = "sharding_constraint"
"""The last part of the name of a collective that a declared sharding needs."""


def collectives(text: ProgramText) -> Iterator[tuple[str, str, int]]:
    """Yield the instructions in which devices exchange data: name, kind and bytes."""
    for name in text.lines:
        kind, operands = text.call(name)
        plain = kind.removesuffix(START)
        if plain in KINDS:
            sent = sum(text.size(x) for x in operands)
            # The result of a start contains its operands.
            received = text.size(name) - (sent if kind.endswith(START) else 0)
            yield name, plain, max(sent, received)


def gathered_arguments(
    text: ProgramText, shapes: Mapping[int, Sequence[int]]
) -> Iterator[tuple[int, str, int]]:
    """Yield the arguments that are replicated because an operation needs all their elements.

    Args:
        text: The compiled program.
        shapes: The shape of each argument that is declared as sharded, by its position.

    Yields:
        The position of the argument, the instruction that gathers it, and the gathered bytes: of
        the argument, or of the slice that each step of a loop gathers.
    """
    for name in text.lines:
        kind, operands = text.call(name)
        if kind.removesuffix(START) != "all-gather":
            continue
        for x in operands:
            source = origin(text, x)
            if source is not None and source.argument in shapes:
                size = prod(shapes[source.argument]) * text.itemsize(x) * source.share
                if text.size(name) >= size:
                    yield source.argument, name, int(size)


def causes(text: ProgramText, name: str, kind: str) -> list[Scopes]:
    """Return the scopes of the operations that need a collective.

    XLA names some collectives that move an array after the array's producer, not its users.
    """
    own = text.scopes(name)
    if kind in REDUCTIONS or text.op_name(name).endswith(DECLARED):
        return own
    seen, waiting, needing = {name}, [name], list[Scopes]()
    while waiting:
        for user in text.users.get(waiting.pop(), ()):
            scopes = [path for path in text.scopes(user) if path not in own]
            needing += scopes
            if not scopes and user not in seen:
                seen.add(user)
                waiting.append(user)
    return [*dict.fromkeys(needing)] or own


def warn_of_gathers(
    program: Callable[[], Program],
    spec: CallSpec,
    compiled: jax.stages.Compiled,
    passed: Mapping[int, Sequence[int]],
) -> None:
    """Warn of arguments that are declared as sharded and that the program gathers."""
    sharded = _sharded_arguments(spec, program().graph, dict(enumerate(passed.items())))
    if not sharded:
        return
    text = ProgramText(compiled.as_text() or "")
    shapes = {i: shape for i, (_, shape) in sharded.items()}
    for i, (size, names) in _gathers_by_argument(text, shapes).items():
        argument = program().arguments[sharded[i][0]]
        problem = str(Gathered(argument, size, (), in_loop(text, names[0])))
        warnings.warn(
            f"{problem[0].upper()}{problem[1:]}. f.plan(*args) names the line that needs the full "
            "array: shard another axis, or declare the gather there: gt.shard(x, ()).",
            ShardingWarning,
            stacklevel=frames_up(),
        )


def _sharded_arguments(
    spec: CallSpec, graph: Graph, passed: Mapping[int, tuple[int, Sequence[int]]]
) -> dict[int, tuple[int, Sequence[int]]]:
    """Return the arguments of a call that are declared as sharded and are not resharded."""
    declared = {*_declared_nodes(graph, {})}
    return {
        i: (position, shape)
        for i, (position, shape) in passed.items()
        if position < spec.passed
        and any(entry is not None for entry in spec.shardings[position] or ())
        and graph.inputs[position] not in declared
    }


def _declared_nodes(graph: Graph, outside: Mapping[Node, Node]) -> Iterator[Node]:
    """Yield the nodes whose sharding a graph declares, in loops and branches too.

    Args:
        graph: The graph.
        outside: The node outside of a nested graph that each input of it is, or is an element of.
    """
    for node in graph.nodes:
        if isinstance(node.op, Shard):
            yield from (outside.get(x, x) for x in node.inputs)
        for nested, positions in zip(node.op.graphs(), node.op.passes(), strict=False):
            passed = [None if i is None else node.inputs[i] for i in positions]
            if isinstance(node.op, Loop):
                first = node.op.carries
                passed[first : first + node.op.sequences] = node.op.parts(node.inputs).xs
            pairs = zip(nested.inputs, passed, strict=False)
            inner = {p: outside.get(x, x) for p, x in pairs if x is not None}
            yield from _declared_nodes(nested, inner)


def _gathers_by_argument(
    text: ProgramText, shapes: Mapping[int, Sequence[int]]
) -> dict[int, tuple[int, list[str]]]:
    """Return the size of each gathered argument, and the instructions that gather it."""
    gathers: dict[int, tuple[int, list[str]]] = {}
    for position, name, size in gathered_arguments(text, shapes):
        gathers.setdefault(position, (size, []))[1].append(name)
    return gathers


def placement(
    program: Program,
    spec: CallSpec,
    layout: MeshLayout,
    arguments: Sequence[Any],
    donated: Sequence[int],
    *,
    wide: bool,
) -> Placement:
    """Compile a program for a mesh, with a scope for each operation, and read the result."""
    scoped = Scoped()
    with observing(scoped):
        rebuilt = Program(program.graph, program.backend, program.host)
        traced = TracedProgram(spec, lambda: rebuilt, layout)
        compiled = _compile(traced, spec, layout, arguments, donated, wide=wide)
    text = ProgramText(compiled.as_text() or "")
    passed = [i for i in range(len(arguments)) if i not in spec.static]
    numbered = {k: (i, arguments[i].shape) for k, i in enumerate(passed)}
    sharded = _sharded_arguments(spec, program.graph, numbered)
    shapes = {k: shape for k, (_, shape) in sharded.items()}
    nodes = scoped.nodes
    shardings = jax.tree.leaves(compiled.output_shardings)
    return Placement(
        str(layout.axes),
        tuple(map(_sharding_text, shardings, program.graph.outputs)),
        tuple(_group_collectives(text, nodes)),
        tuple(
            Gathered(
                program.arguments[sharded[k][0]],
                size,
                _innermost([p for name in names for p in causes(text, name, "all-gather")], nodes),
                in_loop(text, names[0]),
            )
            for k, (size, names) in _gathers_by_argument(text, shapes).items()
        ),
        _memory(compiled),
    )


def _memory(compiled: jax.stages.Compiled) -> Memory | None:
    sizes = compiled.memory_analysis()
    if sizes is None:
        return None
    return Memory(
        sizes.argument_size_in_bytes,
        sizes.output_size_in_bytes,
        sizes.alias_size_in_bytes,
        sizes.temp_size_in_bytes,
    )


def _compile(
    traced: TracedProgram,
    spec: CallSpec,
    layout: MeshLayout,
    arguments: Sequence[Any],
    donated: Sequence[int],
    *,
    wide: bool,
) -> Any:
    static = {i: np.asarray(arguments[i]) for i in spec.static}
    positions = [i for i in range(len(arguments)) if i not in static]
    types = [
        jax.ShapeDtypeStruct(x.shape, x.numpy_dtype, sharding=layout.home(sharding).sharding)  # type: ignore[no-untyped-call]
        for x, sharding in ((arguments[i], spec.shardings[i]) for i in positions)
    ]
    reused = tuple(k for k, i in enumerate(positions) if i in donated)
    with ExitStack() as stack:
        stack.enter_context(mesh_context(layout))
        if wide:
            stack.enter_context(jax.enable_x64(True))
        _, lowered = lower_for_partitions(
            # JAX caches the trace of a function; a new function is traced again.
            lambda: jax.jit(fix_arguments(traced.function, static), donate_argnums=reused),
            lambda jitted, types: jitted.trace(*types),
            types,
        )
        return lowered.compile()


def _sharding_text(sharding: Any, y: Node) -> str:
    """Return the sharding of a result as users write it."""
    if not isinstance(sharding, NamedSharding):
        return str(sharding)
    entries = tuple(sharding.spec)
    return repr((*entries, *(None,) * (y.type.ndim - len(entries))))


def _group_collectives(text: ProgramText, nodes: Sequence[Node]) -> Iterator[Collective]:
    """Yield the collectives; collectives of one kind for the same operations are one group."""
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
