"""Sums over the processes with which MLX exchanges arrays."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from graphc.link.mlx.backend import backend
from graphc.link.mlx.distributed import exchange_group
from graphc.tensor.core.all_sum import AllMean, AllSum


@backend.lower(AllSum)
def all_sum(op: AllSum, x: Any) -> Any:
    """Return the sum over the processes."""
    group = exchange_group(op, x)
    return x if group is None else mx.distributed.all_sum(x)


@backend.lower(AllMean)
def all_mean(op: AllMean, x: Any) -> Any:
    """Return the mean over the processes."""
    group = exchange_group(op, x)
    return x if group is None else mx.distributed.all_sum(x) / mx.array(group.size, x.dtype)
