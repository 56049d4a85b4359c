"""Several processes that exchange MLX's arrays, and their agreement on the next exchange.

MLX sends bytes without a description. Processes that send arrays of different lengths would
misread each other's bytes, or wait forever. So each compiled function with sums over processes
first compares the shapes and dtypes of these sums with the other processes. MLX is lazy, so the
exchanges of a function are known once it has been traced.
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
"""Prefixes of MLX's messages about other processes."""

RANK, HOSTS = "MLX_RANK", "MLX_HOSTFILE"
"""Environment variables of ``mlx.launch``: the number of this process, and the file of hosts."""


def initialize() -> None:
    """Join the other processes that ``mlx.launch`` has started; it may have started only this one.

    Raises:
        ArgumentError: If ``mlx.launch`` did not start this process, or it has joined already.
        DistributedError: If the other processes cannot be reached.
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
    """Return whether ``mlx.launch`` started several processes: for one, the host file is empty."""
    if not os.environ.get(RANK):
        return False
    hosts = os.environ.get(HOSTS)
    with suppress(OSError):
        return not hosts or bool(Path(hosts).read_text(encoding="utf-8").strip())
    return True


def _gather(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the arrays of all processes along a new first axis."""
    flat = from_numpy(np.frombuffer(x.tobytes(), np.uint8))
    gathered = mx.distributed.all_gather(flat, stream=mx.cpu)
    try:
        mx.eval(gathered)  # NumPy ignores an error while it reads an array
    except RuntimeError as error:
        raise lost_process(error) from error
    return np.frombuffer(to_numpy(gathered).tobytes(), x.dtype).reshape((-1, *x.shape))


def lost_process(error: RuntimeError) -> RuntimeError:
    """Return graphc's error if MLX reports the end of another process, else ``error``."""
    if not str(error).startswith(CONNECTIONS):
        return error
    return DistributedError(
        f"Another process of this program has ended, or cannot be reached: {error}.",
        "Its own error says why. Start all of them again, from the last checkpoint.",
    )


class _Exchanges(threading.local):
    records: list[str] | None = None


_exchanges = _Exchanges()


def exchange_group(op: AllReduce, x: Any) -> ProcessGroup | None:
    """Return the group that an array is summed over, and record the sum; None for a single process.

    Raises:
        DistributedError: If there are other processes, and this one has not joined them by MLX.
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
    if _exchanges.records is not None:
        _exchanges.records.append(f"{op.name} {name_of(x)}{[*x.shape]}")
    return group


@contextmanager
def record_exchanges() -> Iterator[list[str]]:
    """Collect the sums over processes that are traced within the context."""
    before, _exchanges.records = _exchanges.records, []
    try:
        yield _exchanges.records
    finally:
        _exchanges.records = before


def agree(exchanges: str) -> None:
    """Compare the next sums with the other processes.

    Raises:
        DistributedError: If another process sums something else, or has ended.
    """
    group = process_group()
    assert group is not None
    digest = blake2b(exchanges.encode(), digest_size=8).digest()
    digests = group.gather(np.frombuffer(digest, np.uint8))
    others = [i for i, other in enumerate(digests) if bytes(other) != digest]
    if others:
        raise DistributedError(
            f"Process {group.rank} is about to exchange {exchanges}, and process {others[0]} "
            "something else.",
            "All processes have to call the same functions in the same order, with arrays of equal "
            "lengths in all_sum and all_mean.",
        )
