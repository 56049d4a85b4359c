"""Several processes, each with its own devices: their start, global arrays and agreement."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jax.experimental.multihost_utils import process_allgather

from graphc.errors import ArgumentError, ShardingError
from graphc.ir.containers import unwrap
from graphc.ir.sharding import as_sharding, value_sharding
from graphc.link.jax.mesh import MeshLayout, layout_of
from graphc.tensor.core.all_sum import ProcessGroup, join, process_group

Region = tuple[slice, ...]
"""A region of an array: a slice of each axis, with a start and a stop."""


def initialize(
    coordinator_address: str | None,
    num_processes: int | None,
    process_id: int | None,
    options: Mapping[str, Any],
) -> None:
    """Join the other processes, as ``jax.distributed.initialize`` does.

    Raises:
        ValueError: If an argument is missing and the environment does not define it.
        RuntimeError: If this process has joined already, or has used JAX already.
    """
    jax.distributed.initialize(coordinator_address, num_processes, process_id, **options)
    join(ProcessGroup("JAX", jax.process_index(), jax.process_count(), _allgather))


def print_once(*values: object, **options: Any) -> None:
    """Print in process 0 alone; a single process prints.

    Args:
        values: The arguments of ``print``.
        options: The keyword arguments of ``print``.

    Example:
        >>> import graphc
        >>> graphc.distributed.print_once("step", 3, sep=": ")
        step: 3
    """
    if process() == 0:
        print(*values, **options)  # noqa: T201 (it is what the user asks for)


def global_array(local: Any, sharding: Any, mesh: Any) -> jax.Array:
    """Make one global array from the local arrays of all processes, such as their batches.

    Every process calls this function, with local arrays of equal shapes. No data moves between
    processes. Along an axis that is not sharded over processes, all local arrays must be equal.

    Args:
        local: The local array of this process: a NumPy or JAX array, or numbers in lists.
        sharding: The sharding of the global array: an entry for each axis, or an input that was
            declared with a sharding, ``gt.matrix("x", sharding=("data", None))``.
        mesh: The mesh, or a mode with a mesh.

    Returns:
        A JAX array over the devices of the mesh. The length of an axis that is sharded over
        processes is the sum of the local lengths.

    Raises:
        ArgumentError: If there is no mesh.
        ShardingError: If the sharding does not fit the mesh, or the mesh does not divide a length.

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
    entries = _declared_sharding(sharding)
    named = layout.home(value_sharding(entries, (None,) * part.ndim, subject)).sharding
    with jax.enable_x64(True):
        try:
            y: jax.Array = jax.make_array_from_process_local_data(named, part)  # type: ignore[no-untyped-call]
        except ValueError as error:
            declared = as_sharding(entries, part.ndim, subject)
            raise ShardingError(
                f"{subject}: a part of shape {part.shape} cannot be sharded as {declared} over "
                f"this process's devices of {layout.axes}.",
                "Give each process a part whose lengths the numbers of its devices divide.",
            ) from error
    return y


def _declared_sharding(sharding: Any) -> Any:
    """Return the declared sharding of an input, or the sharding itself."""
    op = getattr(unwrap(sharding), "op", None)
    if op is None:
        return sharding
    declared = getattr(op, "sharding", None)
    if declared is None:
        raise ShardingError(
            f"global_array: {sharding!r} was declared without a sharding.",
            'Declare one: gt.matrix("x", sharding=("data", None)).',
        )
    return declared


def _layout(mesh: Any) -> MeshLayout:
    options = getattr(mesh, "options", {"mesh": mesh})
    layout = layout_of(options) if hasattr(options.get("mesh"), "devices") else None
    if layout is None:
        raise ArgumentError(
            f"global_array: {mesh!r} has no mesh of devices.",
            "Give graphc.mesh(data=4), or the mode that has it.",
        )
    return layout


# Checkpoints.


def process() -> int:
    """Return the number of this process; 0 for a single process."""
    group = process_group()
    if group is not None:
        return group.rank
    return jax.process_index() if jax.distributed.is_initialized() else 0


def processes() -> int:
    group = process_group()
    if group is not None:
        return group.size
    return jax.process_count() if jax.distributed.is_initialized() else 1


def token() -> str:
    """Return a random name, the same in all processes."""
    own = np.frombuffer(secrets.token_bytes(8), np.uint32)
    return bytes(np.asarray(allgather(own)[0], np.uint32)).hex()


def gather_success(is_done: bool) -> list[bool]:
    """Return whether each process has succeeded; all processes wait for each other."""
    return [bool(x) for x in allgather(np.array(is_done))]


def allgather(own: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the arrays of all processes along a new first axis."""
    if processes() == 1:
        return own[None]
    group = process_group()
    return _allgather(own) if group is None else group.gather(own)


def _allgather(own: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(process_allgather(own))


def own_parts(value: jax.Array) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yield copies of the shards that this process stores, each after its start indices.

    All processes together store each element once.
    """
    for shard in value.addressable_shards:
        if shard.replica_id == 0:
            starts = tuple(s.start or 0 for s in shard.index)
            yield starts, np.array(shard.data)


def from_parts(
    shape: tuple[int, ...], sharding: Any, read: Callable[[Region], np.ndarray[Any, Any]]
) -> jax.Array:
    """Make an array with a sharding; this process reads the shards of its devices."""

    def part(index: Any) -> Any:
        bounds = [s.indices(n) for s, n in zip(index, shape, strict=True)]
        return read(tuple(slice(start, stop) for start, stop, _ in bounds))

    with jax.enable_x64(True):
        return jax.make_array_from_callback(shape, sharding, part)
