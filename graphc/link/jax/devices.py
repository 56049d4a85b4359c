"""Choices that depend on the device: one table, which a program reads for the device it runs on.

JAX's own ``lax.platform_dependent`` chooses between two functions when a program is lowered:
convolutions in groups and operations of LAPACK use it. The choices below are numbers and names.
None of the values for GPUs was measured yet: each follows from the reason beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Any

import jax

from graphc.ir import Graph, Node, Op
from graphc.link.backend import DeviceChoice
from graphc.link.jax.call_key import settings
from graphc.loop.loop import Loop

GPUS = frozenset({"gpu", "cuda", "rocm"})
"""JAX's names of GPUs: of devices, and of platforms that programs are lowered for."""

CHOICES: Mapping[str, DeviceChoice] = {
    "unrolled operations": DeviceChoice(
        cpu=1,
        gpu=64,
        reason="a step of a scan is several launches on a GPU, and XLA fuses steps written out",
        source="https://github.com/jax-ml/jax/issues/2491",
    ),
    "rewrites": DeviceChoice(
        cpu=frozenset(),
        gpu=frozenset({"linear_recurrence", "work_before_loop"}),
        reason="few operations of many elements take less time on a GPU than launches in a loop",
        source="https://github.com/jax-ml/jax/issues/2491",
    ),
    "decoded elements": DeviceChoice(
        cpu=2**17,
        gpu=2**24,
        reason="a block of packed codes fits a core's cache on a CPU, and fills a GPU",
        source="benchmarks/implicit_matmul.py on CPUs; 32 MB of bfloat16 on GPUs",
    ),
}
"""The choices by name."""

CPU_ONLY: set[type[Op]] = set()
"""Operations that JAX has on CPUs alone; for other devices a program calls NumPy."""

DECODING: set[type[Op]] = set()
"""Products with packed codes."""

_platform: ContextVar[str | None] = ContextVar("platform", default=None)


@contextmanager
def compiling_for(platforms: Iterable[str] | None) -> Iterator[None]:
    """Trace programs, in this context, for platforms; None or several kinds for the default one."""
    kinds = set(map(kind_of, platforms or ()))
    token = _platform.set(kinds.pop() if len(kinds) == 1 else None)
    try:
        yield
    finally:
        _platform.reset(token)


def kind_of(platform: str) -> str:
    """Return the column of the table for a platform: ``"gpu"``, else ``"cpu"``."""
    return "gpu" if platform in GPUS else "cpu"


def current_kind() -> str:
    """Return the kind of device that a program is traced for."""
    return kind_of(_platform.get() or default_platform())


def default_platform() -> str:
    """Return the platform of JAX's default device."""
    device = settings.jax_default_device
    if isinstance(device, str):
        return device
    return str((device or jax.devices()[0]).platform)


def device_choice(name: str, platform: str | None = None) -> Any:
    """Return a choice for a platform; None for the platform that a program is traced for."""
    return CHOICES[name].on(kind_of(platform) if platform else current_kind())


def unrolled_steps(op: Loop, steps: Any, platform: str | None = None) -> int:
    """Return the number of steps that a scan writes out: the user's, or by the size of a step."""
    size = sum(bool(node.inputs) for node in op.step.nodes)
    is_nested = any(node.op.graphs() for node in op.step.nodes)
    if op.unroll > 1 or is_nested or not isinstance(steps, int):
        return op.unroll
    most = max(1, device_choice("unrolled operations", platform) // max(size, 1))
    # Turns of equal length: a remainder would be written out after the loop.
    turns = -(-steps // most)
    return -(-steps // max(turns, 1)) or 1


def plan_notes(graph: Graph, platform: str, calls_back: Callable[[Node], bool]) -> dict[Node, str]:
    """Return a plan's notes: the cost of calls of NumPy, and weights that a GPU decodes at once."""
    notes = {}
    for node in _nodes_of(graph):
        is_elsewhere = type(node.op) in CPU_ONLY and platform != "cpu"
        if is_elsewhere or (node.op.by_numpy and calls_back(node)):
            notes[node] = f"NumPy on the host: the device waits, and {_bytes(node)} cross"
        elif type(node.op) in DECODING and kind_of(platform) == "gpu":
            columns, rows = node.type.shape[-1], node.inputs[0].type.shape[-1]
            if columns and rows and rows * columns <= device_choice("decoded elements", platform):
                notes[node] = (
                    "the weight is decoded at once: dense, unless XLA fuses it into the product"
                )
    return notes


def _bytes(node: Node) -> str:
    types = [t for x in (*node.inputs, node) for t in getattr(x.type, "items", (x.type,))]
    if not all(t.is_static for t in types):
        return "operands and results"
    return f"{sum(prod(t.shape) * t.numpy_dtype.itemsize for t in types):,} bytes"


def plan_choices(graph: Graph, platform: str) -> dict[str, str]:
    """Return a plan's line on the choices that were made for the device, if there were any."""
    nodes = [*_nodes_of(graph)]
    loops = [(x.op, x.op.steps) for x in nodes if isinstance(x.op, Loop)]
    unrolled = [unrolled_steps(op, n, platform) for op, n in loops if op.unroll == 1]
    texts = [f"{n} steps of a scan written out at a time" for n in {*unrolled} if n > 1]
    if any(type(x.op) in DECODING for x in nodes):
        count = device_choice("decoded elements", platform)
        texts.append(f"products decode some {count:,} packed elements at a time")
    return {f"for {platform}": "; ".join(texts)} if texts else {}


def _nodes_of(graph: Graph) -> Iterator[Node]:
    """Yield the nodes of a graph, and of the graphs of its operations."""
    for node in graph.nodes:
        yield node
        for nested in node.op.graphs():
            yield from _nodes_of(nested)
