"""Several processes, each with its own devices: they begin together, and agree on what was done."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jax.experimental.multihost_utils import process_allgather

from graphc.errors import ArgumentError, ShardingError
from graphc.ir.sharding import as_sharding, value_sharding
from graphc.ir.wrapper import unwrapped
from graphc.link.jax.mesh import Layout, layout_of
from graphc.tensor.core.all_sum import ProcessGroup, join, process_group

Region = tuple[slice, ...]
"""A part of an array: a slice of each axis, with a start and a stop."""


def initialize(
    coordinator_address: str | None,
    num_processes: int | None,
    process_id: int | None,
    options: Mapping[str, Any],
) -> None:
    """Join the other processes, as ``jax.distributed.initialize`` does.

    Raises:
        ValueError: An argument is missing, and the environment does not tell it.
        RuntimeError: It was called before, or JAX has been used already.
    """
    jax.distributed.initialize(coordinator_address, num_processes, process_id, **options)
    join(ProcessGroup("JAX", jax.process_index(), jax.process_count(), _all))


def print_once(*values: object, **options: Any) -> None:
    """Print in process 0, and do nothing in the others; a process that is alone prints.

    Args:
        values: What ``print`` takes.
        options: What ``print`` takes by name.

    Example:
        >>> import graphc
        >>> graphc.distributed.print_once("step", 3, sep=": ")
        step: 3
    """
    if process() == 0:
        print(*values, **options)  # noqa: T201 (it is what the user asks for)


def global_array(local: Any, sharding: Any, mesh: Any) -> jax.Array:
    """Make one array of the parts that the processes have, such as their parts of a batch.

    Each process calls it with its own part, and all parts have the same shape. No data moves
    between processes. An axis that is not divided among processes has to be the same in all.

    Args:
        local: This process's part, an array of NumPy or JAX, or numbers in lists.
        sharding: How the whole is divided: an entry for each axis, or an input that was declared
            with one, ``gt.matrix("x", sharding=("data", None))``.
        mesh: The mode with the mesh, or the mesh.

    Returns:
        A JAX array over the devices of the mesh. An axis over which processes divide the array is
        as long as their parts together.

    Raises:
        ArgumentError: There is no mesh.
        ShardingError: The sharding does not fit the mesh, or lengths cannot be divided evenly.

    Example:
        >>> import numpy as np, graphc, graphc.tensor as gt
        >>> mode = graphc.Mode("JAX", mesh=graphc.mesh(data=1))
        >>> x = gt.matrix("x", sharding=("data", None))
        >>> total = graphc.function([x], x.sum(), mode=mode)
        >>> batch = graphc.distributed.global_array(np.ones((4, 3)), x, mode)
        >>> batch.shape, float(total(batch))
        ((4, 3), 12.0)
    """
    layout = _layout(mesh)
    part = np.asarray(local)
    subject = getattr(sharding, "name", None) or "global_array"
    given = _declared(sharding)
    named = layout.home(value_sharding(given, (None,) * part.ndim, subject)).sharding
    # An axis of a part that the process's devices do not divide evenly has no whole.
    with jax.enable_x64(True):
        try:
            found: jax.Array = jax.make_array_from_process_local_data(named, part)  # type: ignore[no-untyped-call]
        except ValueError as error:
            declared = as_sharding(given, part.ndim, subject)
            raise ShardingError(
                f"{subject}: a part of shape {part.shape} cannot be divided as {declared} over "
                f"this process's devices of {layout.axes}.",
                "Give each process a part whose lengths its own devices divide evenly.",
            ) from error
    return found


def _declared(sharding: Any) -> Any:
    """The sharding of an input; what is none itself."""
    op = getattr(unwrapped(sharding), "op", None)
    if op is None:
        return sharding
    found = getattr(op, "sharding", None)
    if found is None:
        raise ShardingError(
            f"global_array: {sharding!r} was declared without a sharding.",
            'Declare one: gt.matrix("x", sharding=("data", None)).',
        )
    return found


def _layout(mesh: Any) -> Layout:
    options = getattr(mesh, "options", {"mesh": mesh})
    found = layout_of(options) if hasattr(options.get("mesh"), "devices") else None
    if found is None:
        raise ArgumentError(
            f"global_array: {mesh!r} has no mesh of devices.",
            "Give graphc.mesh(data=4), or the mode that has it.",
        )
    return found


# What checkpoints need.


def process() -> int:
    """The number of this process; 0 where it is alone."""
    group = process_group()
    if group is not None:
        return group.rank
    return jax.process_index() if jax.distributed.is_initialized() else 0


def processes() -> int:
    """How many processes there are."""
    group = process_group()
    if group is not None:
        return group.size
    return jax.process_count() if jax.distributed.is_initialized() else 1


def token() -> str:
    """A random name, the same in all processes."""
    own = np.frombuffer(secrets.token_bytes(8), np.uint32)
    return bytes(np.asarray(gathered(own)[0], np.uint32)).hex()


def succeeded(is_done: bool) -> list[bool]:
    """Whether each process has done something; all of them wait for each other."""
    return [bool(x) for x in gathered(np.array(is_done))]


def gathered(own: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What each process has, along a new first axis."""
    if processes() == 1:
        return own[None]
    group = process_group()
    return _all(own) if group is None else group.gather(own)


def _all(own: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(process_allgather(own))


def own_parts(value: jax.Array) -> Iterator[tuple[tuple[int, ...], Any]]:
    """The parts of an array that this process is to keep, copied, and where each begins.

    Over all processes, these are the whole array once.
    """
    for shard in value.addressable_shards:
        if shard.replica_id == 0:
            starts = tuple(s.start or 0 for s in shard.index)
            yield starts, np.array(shard.data)


def from_parts(
    shape: tuple[int, ...], sharding: Any, read: Callable[[Region], np.ndarray[Any, Any]]
) -> jax.Array:
    """An array that lies so, of which this process reads what its own devices have."""

    def part(index: Any) -> Any:
        bounds = [s.indices(n) for s, n in zip(index, shape, strict=True)]
        return read(tuple(slice(start, stop) for start, stop, _ in bounds))

    with jax.enable_x64(True):
        return jax.make_array_from_callback(shape, sharding, part)
