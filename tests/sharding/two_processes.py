"""A model over a mesh of two processes; ``test_sharding.py`` runs each, and compares the numbers.

Run by hand: ``python -m tests.sharding.two_processes 0 12345 out.npz`` and the same with 1.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental.multihost_utils import process_allgather

import graphc
import graphc.tensor as gt
from graphc.errors import CheckpointError, ShardingError
from graphc.implicit import Kronecker

__all__ = ["trained"]


def trained(mode: Any) -> list[Any]:
    """What three steps of a recurrent model give, and the variables after them."""
    random = np.random.default_rng(0)
    x = gt.tensor3("x", sharding=(None, "data"))
    w = graphc.shared(random.normal(size=(6, 6)) / 3, "w", sharding=(None, "model"))
    b = graphc.shared(np.zeros(6), "b")
    k = graphc.shared(
        Kronecker(random.normal(size=(4, 2)), random.normal(size=(2, 3))),
        "k",
        sharding=("data", "model"),
    )
    noise = gt.random.RandomStream(1).normal(size=(8, 6))

    def advance(row: Any, h: Any) -> Any:
        return gt.shard(gt.tanh(h @ w + row + b), ("data", "model"))

    states = graphc.scan(advance, x, gt.zeros((8, 6)))
    loss = graphc.Assert("positive")(((states[-1] - noise) ** 2).mean(), gt.all(states < 1))
    factor = gt.linalg.cholesky(states @ states.mT + 8 * gt.eye(8))
    outputs = [loss, graphc.Out(states[-1] @ k.T, sharding=("data",)), factor]
    updates = [(p, p - 0.1 * graphc.grad(loss, p)) for p in (w, b)]
    updates.append((k, 0.5 * k))
    f = graphc.function([x], outputs, updates=updates, mode=mode)
    value = random.normal(size=(5, 8, 6))
    for _ in range(3):
        found = f(value)
    return [*found, *[p.get_value(borrow=True) for p in (w, b, *k.inputs)]]


def saved_and_shared(w: Any, process: int, path: Path, mode: Any) -> None:
    """Batches of two processes, and a checkpoint that each of them writes a part of."""
    rows = np.arange(8.0).reshape(4, 2) + 8 * process
    x = gt.matrix("x", sharding=("data", None))
    batch = graphc.distributed.global_array(rows, x, mode)
    assert batch.shape == (8, 2)
    count = graphc.shared(0, "count")
    weighted = graphc.function(
        [x], (x * w).sum(), updates=[(w, w + x), (count, count + 1)], mode=mode
    )
    assert float(weighted(batch)) == 2 * np.arange(16).sum()
    assert count.get_value() == 1
    folder, step = path.with_name("saved"), graphc.shared(process, "step")
    before = w.get_value(borrow=True)
    graphc.distributed.save_checkpoint(folder, {"w": w, "step": step})
    w.set_value(np.zeros((8, 2)))
    step.set_value(7)
    graphc.distributed.load_checkpoint(folder, {"w": w, "step": step}, mode)
    found = w.get_value(borrow=True)
    assert found.sharding == before.sharding
    for part, wanted in zip(found.addressable_shards, before.addressable_shards, strict=True):
        np.testing.assert_array_equal(part.data, wanted.data)
    assert int(step.get_value()) == 0  # what all processes have in common is the first one's
    columns = graphc.shared(np.zeros((8, 2)), sharding=(None, "model"))
    graphc.distributed.load_checkpoint(folder, {"w": columns}, mode, partial=True)
    for part in columns.get_value(borrow=True).addressable_shards:
        np.testing.assert_array_equal(part.data, (np.arange(16.0).reshape(8, 2) + 2)[part.index])
    names = ["w", "w" if process == 0 else "exq"]
    with pytest.raises(CheckpointError, match="by process 1" if process == 0 else "no exq"):
        graphc.distributed.load_checkpoint(folder, dict.fromkeys(names, w), mode, partial=True)
    graphc.distributed.print_once("once")


def refused(mode: graphc.Mode, process: int) -> None:
    """Values that are not the same in both processes, and that are to be parts of one array."""
    key = graphc.shared(np.full(2, process), "key")
    x = gt.vector("x", sharding=("data",))
    draw = graphc.function([], key.sum(), mode=mode)
    with pytest.raises(ShardingError, match="variable key is not the same in all processes"):
        draw()
    with pytest.raises(ShardingError, match=r"argument x.* is not the same in all processes"):
        graphc.function([x], x.sum(), mode=mode)(np.full(8, process / 1.0))
    divided = graphc.function([x], x + 1, mode=mode, returns="numpy")
    with pytest.raises(ShardingError, match="returns='native'"):
        divided(np.ones(8))


def main(process: int, port: str, path: str) -> None:
    jax.config.update("jax_num_cpu_devices", 4)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    graphc.distributed.initialize(f"localhost:{port}", 2, process)
    mode = graphc.Mode("JAX", mesh=graphc.mesh(data=4, model=2), returns="native")
    found = trained(mode)
    w = graphc.shared(np.ones((8, 2)), sharding=("data",))
    graphc.function([], [], updates=[(w, w + 1)], mode=mode)()
    with pytest.raises(ShardingError, match="several processes"):
        w.get_value()
    saved_and_shared(w, process, Path(path), mode)
    refused(mode, process)
    with jax.enable_x64(True):
        whole = [process_allgather(y, tiled=True) for y in found]
    np.savez(path, *whole)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
