"""Several processes that exchange MLX's arrays, and the agreement on what they exchange next.

MLX sends bytes without saying of what: processes that give arrays of different lengths would read
each other's as something else, or wait forever. So each compiled function that has sums over
processes first compares with the others what these sums are of. MLX computes nothing before it is
asked to: what a function will exchange is known when it has been traced.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from graphc.errors import ArgumentError, DistributedError
from graphc.link.mlx.arrays import from_numpy, name_of, to_numpy
from graphc.link.mlx.compiler import keep_kernels_apart
from graphc.tensor.core.all_sum import AllReduce, ProcessGroup, join, process_group

NAME = "MLX"

CONNECTIONS = ("[ring]", "[mpi]", "[nccl]", "[jaccl]")
"""What messages of MLX about other processes begin with."""

RANK, HOSTS = "MLX_RANK", "MLX_HOSTFILE"
"""The environment variables by which ``mlx.launch`` tells a process its number, and the others."""


def initialize() -> None:
    """Join the other processes that ``mlx.launch`` has started; it may have started but one.

    Raises:
        ArgumentError: This process was not started by it, or has joined already.
        DistributedError: The others cannot be reached.
    """
    if process_group() is not None:
        raise ArgumentError(
            "initialize: this process has joined others already.", "Call it once, at first."
        )
    if os.environ.get(RANK) and not _has_others():
        return
    try:
        group = mx.distributed.init(strict=True, backend="any")
    except RuntimeError as error:
        if not os.environ.get(RANK):
            raise ArgumentError(
                f"initialize(backend='MLX'): {RANK} is not set in the environment.",
                "Start it by mlx.launch -n 2 python script.py; a process that is alone does "
                "without.",
            ) from error
        raise DistributedError(
            f"initialize(backend='MLX'): {error}.",
            f"Start all processes at about the same time, with one {HOSTS}.",
        ) from error
    keep_kernels_apart(group.rank())
    join(ProcessGroup(NAME, group.rank(), group.size(), _gather))


def _has_others() -> bool:
    """Whether ``mlx.launch`` has started several processes; for one, the file of hosts is empty."""
    if not os.environ.get(RANK):
        return False
    hosts = os.environ.get(HOSTS)
    with suppress(OSError):
        return not hosts or bool(Path(hosts).read_text(encoding="utf-8").strip())
    return True


def _gather(own: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes of all processes, as arrays along a new first axis."""
    flat = from_numpy(np.frombuffer(own.tobytes(), np.uint8))
    gathered = mx.distributed.all_gather(flat, stream=mx.cpu)
    try:
        mx.eval(gathered)  # NumPy, as it reads an array, takes an error for no reason to stop
    except RuntimeError as error:
        raise lost_process(error) from error
    found = to_numpy(gathered)
    return np.frombuffer(found.tobytes(), own.dtype).reshape((-1, *own.shape))


def lost_process(error: RuntimeError) -> RuntimeError:
    """The error, or graphc's where MLX says that another process has ended."""
    if not str(error).startswith(CONNECTIONS):
        return error
    return DistributedError(
        f"Another process of this program has ended, or cannot be reached: {error}.",
        "Its own error says why. Start all of them again, from the last checkpoint.",
    )


class _Exchanges(threading.local):
    found: list[str] | None = None


_exchanges = _Exchanges()


def exchanged(op: AllReduce, x: Any) -> ProcessGroup | None:
    """The group that an array is summed over, or None for a process that is alone; it is noted.

    Raises:
        DistributedError: There are other processes, and this one has not joined them by MLX.
    """
    group = process_group()
    if group is None and _has_others():
        raise DistributedError(
            f"{op.name}: mlx.launch has started several processes, and this one has not joined "
            "them.",
            "Call graphc.distributed.initialize(backend='MLX') at first.",
        )
    if group is None or group.backend != NAME:
        op.refuse_others(NAME)
        return None
    if _exchanges.found is not None:
        _exchanges.found.append(f"{op.name} {name_of(x)}{[*x.shape]}")
    return group


@contextmanager
def noting() -> Iterator[list[str]]:
    """A context that gives a list of what is summed within it."""
    before, _exchanges.found = _exchanges.found, []
    try:
        yield _exchanges.found
    finally:
        _exchanges.found = before


def agree(exchanges: str) -> None:
    """Compare with the other processes what is summed next.

    Raises:
        DistributedError: Another one sums something else, or has ended.
    """
    group = process_group()
    assert group is not None
    digest = blake2b(exchanges.encode(), digest_size=8).digest()
    found = group.gather(np.frombuffer(digest, np.uint8))
    others = [i for i, x in enumerate(found) if bytes(x) != digest]
    if others:
        raise DistributedError(
            f"Process {group.rank} is about to exchange {exchanges}, and process {others[0]} "
            "something else.",
            "All processes have to call the same functions in the same order, with arrays of equal "
            "lengths in all_sum and all_mean.",
        )
