"""Placements: how a compiled program lies on a mesh of devices, and what these tell each other."""

from __future__ import annotations

from dataclasses import dataclass

from graphc.ir import Node


@dataclass(frozen=True)
class Collective:
    """An operation in which devices exchange data.

    Attributes:
        kind: XLA's name of it: ``"all-reduce"``, ``"all-gather"``, ``"reduce-scatter"``,
            ``"all-to-all"`` or ``"collective-permute"``.
        count: How often the program has it.
        bytes: The size on one device of what they give or get, whichever is more, of all together.
        nodes: The operations that need it; several where XLA merged what each of them needs.
        loop: The loop that does it in each step; None outside of loops.
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
    """An argument that is declared as divided, and that every device gets whole.

    Attributes:
        argument: The input.
        bytes: Its size; where a step of a loop makes a part of it whole, that part's.
        nodes: The operations that need it whole.
        in_steps: Whether each step of a loop makes it whole.
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
        arguments: Those of the device's parts of arguments, shared variables among them.
        results: Those of its parts of results, new values of shared variables among them.
        reused: Those of results that lie where arguments were.
        temporary: Those of all that is computed on the way and is kept at the same time.
    """

    arguments: int
    results: int
    reused: int
    temporary: int

    @property
    def total(self) -> int:
        """All of them, what is reused once."""
        return self.arguments + self.results - self.reused + self.temporary

    def __str__(self) -> str:
        reused = f" ({self.reused:,} in their place)" if self.reused else ""
        return (
            f"{self.total:,} bytes on each device: {self.arguments:,} of arguments, "
            f"{self.results:,} of results{reused}, {self.temporary:,} on the way"
        )


@dataclass(frozen=True)
class Placement:
    """How a compiled program lies on a mesh.

    Attributes:
        mesh: The mesh.
        results: How each result lies: an entry for each axis.
        collectives: What the devices exchange.
        gathered: The arguments that are made whole.
        memory: What a call needs on one device; None where the compiler does not say.
    """

    mesh: str
    results: tuple[str, ...]
    collectives: tuple[Collective, ...]
    gathered: tuple[Gathered, ...]
    memory: Memory | None
