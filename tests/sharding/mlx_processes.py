"""What holds in two processes of MLX; ``test_all_sum.py`` runs each of them.

By hand: ``mlx.launch -n 2 python -m tests.sharding.mlx_processes folder``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import DistributedError

__all__ = ["trained"]


def trained(rows: slice, *, differently: bool = False) -> list[np.ndarray[Any, Any]]:
    """Three steps of a recurrent model with some rows of a batch: losses, and the variables."""
    random = np.random.default_rng(0)
    x, t = gt.ftensor3("x"), gt.fvector("t")
    w = graphc.shared((random.normal(size=(6, 6)) / 3).astype("float32"), "w")
    v = graphc.shared(random.normal(size=6).astype("float32"), "v")
    speed = graphc.shared(np.zeros(6, "float32"), "speed")
    batch = random.normal(size=(40, 8, 6)).astype("float32")  # more steps than a chunk has
    targets = random.normal(size=8).astype("float32")

    def advance(row: Any, h: Any) -> Any:
        return gt.tanh(h @ w + row)

    states = graphc.scan(advance, x, gt.zeros((x.shape[1], 6), dtype="float32"))
    loss = ((states[-1] @ v - t) ** 2).mean()
    by_w, by_v = (gt.all_mean(g) for g in graphc.grad(loss, [w, v]))
    by_w = by_w / gt.maximum(gt.sqrt((by_w**2).sum()), 0.1)  # not linear: the mean comes first
    new = np.float32(0.5) * speed + by_v
    rate = np.float32(0.1)
    updates = [(w, w - rate * by_w), (speed, new), (v, v - rate * new)]
    # Without a C++ compiler: its kernels would take most of the time, and ``summed`` has some.
    mode = graphc.Mode("MLX", compile=False)
    step = graphc.function([x, t], gt.all_mean(loss), updates=updates, mode=mode)
    if differently:
        w.set_value(np.full((6, 6), os.getpid(), "float32"))
        with pytest.raises(DistributedError, match=r"w: .* is not the same in all processes"):
            step(batch[:, rows], targets[rows])
        w.set_value(trained_start() if rows.start == 0 else w.get_value())
        graphc.distributed.broadcast([w, v, speed])
    losses = [float(step(batch[:, rows], targets[rows])) for _ in range(3)]
    return [np.array(losses), *[p.get_value() for p in (w, v, speed)]]


def trained_start() -> np.ndarray[Any, Any]:
    """The first value of the weights."""
    return (np.random.default_rng(0).normal(size=(6, 6)) / 3).astype("float32")


def summed(rank: int) -> None:
    """Sums in loops, in float64, and their derivatives."""
    own, weights = np.random.default_rng(rank).normal(size=(2, 50, 3))
    both = [np.random.default_rng(i).normal(size=(2, 50, 3)) for i in range(2)]
    x, g = gt.dmatrix("x"), gt.dmatrix("g")
    y = graphc.scan(lambda row, h: h + gt.all_sum(row * row), x, gt.zeros(3))
    # Cotangents of all processes count, so the sum over processes of <y, g> has this gradient.
    f = graphc.function([x, g], [y, graphc.grad((y * g).sum(), x)], mode="MLX")
    value, slope = f(own, weights)
    expected = np.cumsum(sum(a**2 for a, _ in both), 0)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    cotangent = np.cumsum(sum(b for _, b in both)[::-1], 0)[::-1]
    np.testing.assert_allclose(slope, 2 * own * cotangent, rtol=1e-12)


def refused(rank: int) -> None:
    """What processes do that does not fit together, and what knows nothing of the others."""
    x = gt.fvector("x")
    total = graphc.function([x], gt.all_sum(x), mode="MLX")
    np.testing.assert_array_equal(total([1.0, 2.0]), [2.0, 4.0])
    with pytest.raises(DistributedError, match=rf"all_sum float32\[{2 + rank}\], and process"):
        total(np.ones(2 + rank, "float32"))
    np.testing.assert_array_equal(total([1.0, 2.0]), [2.0, 4.0])
    for mode in ("NUMPY", "JAX"):
        with pytest.raises(DistributedError, match=f"in mode {mode}, in process {rank} of 2"):
            graphc.function([x], gt.all_sum(x), mode=mode)([1.0, 2.0])
    names = graphc.shared(np.zeros(2 + rank))
    with pytest.raises(DistributedError, match="and another one others"):
        graphc.distributed.broadcast([names])


def saved(rank: int, folder: Path) -> None:
    """A checkpoint, which the first process writes."""
    w = graphc.shared(np.full(3, 1.0 + rank), "w")
    graphc.distributed.save_checkpoint(folder, [w])
    w.set_value(np.zeros(3))
    graphc.distributed.load_checkpoint(folder, [w])
    np.testing.assert_array_equal(w.get_value(), np.ones(3))
    graphc.distributed.print_once("once")


def main(folder: Path) -> None:
    """Run all of it; process 1 ends first."""
    graphc.distributed.initialize(backend="MLX")
    rank = int(os.environ["MLX_RANK"])
    found = trained(slice(4 * rank, 4 * rank + 4), differently=True)
    np.savez(folder / f"{rank}.npz", *found)
    summed(rank)
    refused(rank)
    saved(rank, folder / "saved")
    if rank == 0:
        x = gt.fvector("x")
        total = graphc.function([x], gt.all_sum(x), mode="MLX")
        with pytest.raises(DistributedError, match="has ended, or cannot be reached"):
            total([1.0])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
