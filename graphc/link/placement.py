"""Placements: the shardings of a compiled program on a mesh, and the data that devices exchange."""

from __future__ import annotations

from dataclasses import dataclass

from graphc.ir import Node


@dataclass(frozen=True)
class Collective:
    """An operation in which devices exchange data.

    Attributes:
        kind: XLA's name: ``"all-reduce"``, ``"all-gather"``, ``"reduce-scatter"``,
            ``"all-to-all"`` or ``"collective-permute"``.
        count: The number of these operations in the program.
        bytes: The size on one device of all operands or all results, whichever is larger.
        nodes: The operations that need the exchange; several if XLA merged exchanges.
        loop: The loop that exchanges data in each step; None outside of loops.
    """

    kind: str
    count: int
    bytes: int
    nodes: tuple[Node, ...]
    loop: Node | None

    def __str__(self) -> str:
        lines = dict.fromkeys(x.where for x in self.nodes if x.where)
        names = dict.fromkeys(x.op.name for x in self.nodes)
        each = "" if self.loop is None else f", each step of the loop of {self.loop.where}"
        of = f" for {', '.join(names)}" if names else ""
        where = f"   {', '.join(lines)}" if lines else ""
        return f"{self.count} {self.kind} of {self.bytes:,} bytes{of}{each}{where}"


@dataclass(frozen=True)
class Gathered:
    """An argument that is declared as sharded, and that every device gathers in full.

    Attributes:
        argument: The input.
        bytes: The size of the gathered array; in a loop, the size that each step gathers.
        nodes: The operations that need the full array.
        in_steps: Whether each step of a loop gathers it.
    """

    argument: Node
    bytes: int
    nodes: tuple[Node, ...]
    in_steps: bool = False

    def __str__(self) -> str:
        sharding = self.argument.op.sharding  # type: ignore[attr-defined]
        lines = dict.fromkeys(f"{x.op.name}   {x.where or ''}".rstrip() for x in self.nodes)
        need = f" for {', '.join(lines)}" if lines else ""
        each = " in each step of a loop" if self.in_steps else ""
        return (
            f"the argument {self.argument!r}, declared with sharding={sharding!r}, is gathered "
            f"whole on every device, {self.bytes:,} bytes{each}{need}"
        )


@dataclass(frozen=True)
class Memory:
    """The bytes that a call needs on one device, as the compiler counts them.

    Attributes:
        arguments: The bytes of the device's shards of arguments and shared variables.
        results: The bytes of the device's shards of results and of shared variables' new values.
        reused: The bytes of results that reuse arguments' buffers.
        temporary: The most bytes of intermediate results at one time.
    """

    arguments: int
    results: int
    reused: int
    temporary: int

    @property
    def total(self) -> int:
        """The sum, which counts reused bytes once."""
        return self.arguments + self.results - self.reused + self.temporary

    def __str__(self) -> str:
        reused = f" ({self.reused:,} in their place)" if self.reused else ""
        return (
            f"{self.total:,} bytes on each device: {self.arguments:,} of arguments, "
            f"{self.results:,} of results{reused}, {self.temporary:,} on the way"
        )


@dataclass(frozen=True)
class Placement:
    """The shardings, collectives and memory of a compiled program on a mesh.

    Attributes:
        mesh: The mesh.
        results: The partition spec of each result: an entry for each axis.
        collectives: The exchanges of data between devices.
        gathered: The sharded arguments that every device gathers in full.
        memory: The bytes that a call needs on one device; None if the compiler does not tell.
    """

    mesh: str
    results: tuple[str, ...]
    collectives: tuple[Collective, ...]
    gathered: tuple[Gathered, ...]
    memory: Memory | None
