"""Programs of several processes: they begin together, share batches, print once and save.

JAX is the engine, ``jax.distributed`` and its arrays, and MLX where its processes each have a part
of a batch; the page on shardings shows complete programs.
"""

from __future__ import annotations

from typing import Any, Literal

from graphc.compile.broadcast import broadcast
from graphc.compile.checkpoint import has_checkpoint, load_checkpoint, save_checkpoint
from graphc.errors import ArgumentError
from graphc.link.jax.distributed import global_array, initialize as _begin, print_once

__all__ = [
    "broadcast",
    "global_array",
    "has_checkpoint",
    "initialize",
    "load_checkpoint",
    "print_once",
    "save_checkpoint",
]


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    backend: Literal["JAX", "MLX"] = "JAX",
    **options: Any,
) -> None:
    """Join the other processes of a program.

    Call it once in each process, before anything is computed. With JAX, meshes then have the
    devices of all processes. The arguments are passed to ``jax.distributed.initialize``, which
    finds missing arguments in the environments that it knows: on TPUs, and under Slurm, Open MPI
    and Kubernetes.

    With MLX, each process computes with its own arrays, and ``graphc.tensor.all_sum`` and
    ``all_mean`` reduce over all processes. ``mlx.launch -n 2 python script.py`` starts the
    processes, which find each other by ``MLX_RANK`` and ``MLX_HOSTFILE`` in the environment.

    Args:
        coordinator_address: Host and port of process 0, ``"10.0.0.1:1234"``.
        num_processes: The number of processes.
        process_id: The number of this one, from 0.
        backend: ``"JAX"``, or ``"MLX"``, which takes no other argument.
        options: ``heartbeat_timeout_seconds=100``, after which the others count a silent process
            as dead, and end; ``initialization_timeout``, ``local_device_ids`` and others.

    Raises:
        ArgumentError: There is no such backend; with MLX: other arguments, the process was not
            started by ``mlx.launch``, or it was called before.
        DistributedError: MLX cannot reach another process.
        ValueError: An argument for JAX is missing, and the environment does not tell it.
        RuntimeError: With JAX, it was called before, or JAX has been used already.

    Example:
        >>> import os, graphc
        >>> if "SLURM_JOB_ID" in os.environ:
        ...     graphc.distributed.initialize()
        >>> if "MLX_RANK" in os.environ:
        ...     graphc.distributed.initialize(backend="MLX")
    """
    if backend == "JAX":
        _begin(coordinator_address, num_processes, process_id, options)
    elif backend != "MLX":
        raise ArgumentError(
            f"initialize: backend={backend!r} joins no processes.", "Give 'JAX' or 'MLX'."
        )
    elif options or any(x is not None for x in (coordinator_address, num_processes, process_id)):
        raise ArgumentError(
            "initialize: MLX takes no address or number of a process, nor options of JAX's.",
            "mlx.launch tells each process of the others; its hostfile has their addresses.",
        )
    else:
        # Imported here: MLX need not be installed.
        from graphc.link.mlx import distributed  # noqa: PLC0415

        distributed.initialize()
