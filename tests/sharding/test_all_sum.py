"""Sums over processes: two of MLX, each with half a batch, and one that is alone."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DistributedError, DTypeError
from graphc.ir import toposort
from graphc.rewrite import optimize
from graphc.tensor.core.all_sum import AllSum
from tests.sharding.mlx_processes import trained

ROOT = Path(__file__).parents[2]


def two_processes(folder: Path) -> list[str]:
    """What the two processes print; both have to succeed."""
    hosts = folder / "hosts.json"
    with ExitStack() as stack:
        free = [stack.enter_context(socket.socket()) for _ in range(2)]
        for x in free:
            x.bind(("127.0.0.1", 0))
        hosts.write_text(json.dumps([[f"127.0.0.1:{x.getsockname()[1]}"] for x in free]))
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MLX_HOSTFILE": str(hosts),
        "GRAPHC_CACHE_DIR": os.environ["TMPDIR"],  # kernels of earlier runs
    }
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.sharding.mlx_processes", str(folder)],
                    cwd=ROOT,
                    env={**environment, "MLX_RANK": str(rank)},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
            for rank in range(2)
        ]
        printed = [process.communicate()[0] for process in processes]
        assert [process.returncode for process in processes] == [0, 0], "\n".join(printed)
    return printed


def test_two_processes_with_half_a_batch_train_as_one_with_all_of_it(tmp_path: Path) -> None:
    printed = two_processes(tmp_path)
    assert ["once" in text.splitlines() for text in printed] == [True, False]
    alone = trained(slice(0, 8))
    for rank in range(2):
        with np.load(tmp_path / f"{rank}.npz") as found:
            for y, expected in zip(found.values(), alone, strict=True):
                np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_a_sum_of_constants_is_left_to_the_program() -> None:
    # Other processes have constants of their own.
    (y,) = optimize(graphc.Graph([], [gt.all_sum(2.0) + 0 * gt.all_mean(1.0)])).graph.outputs
    assert {type(node.op) for node in toposort([y])} > {AllSum}


def test_sums_have_numbers() -> None:
    with pytest.raises(DTypeError, match="bool has no sum"):
        gt.all_sum(gt.vector("x") > 0)
    with pytest.raises(DTypeError, match="a mean is floating"):
        gt.all_mean(gt.ivector("x"))


def test_a_process_that_was_launched_with_others_has_to_join_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    x, hosts = gt.fvector("x"), tmp_path / "hosts.json"
    f = graphc.function([x], gt.all_sum(x) + 1, mode="MLX")
    monkeypatch.setenv("MLX_RANK", "0")
    monkeypatch.setenv("MLX_HOSTFILE", str(hosts))
    hosts.write_text("")  # as mlx.launch -n 1 writes it
    graphc.distributed.initialize(backend="MLX")
    np.testing.assert_array_equal(f([1.0, 2.0]), [2.0, 3.0])
    hosts.write_text('[["127.0.0.1:1"], ["127.0.0.1:2"]]')
    with pytest.raises(DistributedError, match=r"has not joined them[\s\S]*backend='MLX'"):
        f([1.0, 2.0, 3.0])  # for lengths that MLX has not traced


def test_over_a_mesh_arrays_are_whole() -> None:
    x = gt.matrix("x", sharding=("data", None))
    mesh = graphc.mesh(data=1)
    f = graphc.function([x], gt.all_sum(x.sum()), mode=graphc.Mode("JAX", mesh=mesh))
    assert float(f(np.ones((2, 3)))) == 6
    spec = PartitionSpec("data")
    divided = jax.shard_map(
        graphc.function([x], gt.all_sum(x)).pure, mesh=mesh, in_specs=spec, out_specs=spec
    )
    with pytest.raises(ArgumentError, match=r"within jax\.shard_map"):
        divided(np.ones((2, 3)))


def test_initialize_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLX_RANK", raising=False)
    initialize = graphc.distributed.initialize
    with pytest.raises(ArgumentError, match=r"MLX_RANK is not set[\s\S]*mlx\.launch"):
        initialize(backend="MLX")
    with pytest.raises(ArgumentError, match="takes no address"):
        initialize("localhost:1234", backend="MLX")
    with pytest.raises(ArgumentError, match="'NUMPY' joins no processes"):
        initialize(backend="NUMPY")  # type: ignore[arg-type]


def test_a_process_that_is_alone_keeps_what_it_broadcasts() -> None:
    w, noise = graphc.shared(np.arange(3.0)), gt.random.RandomStream(1)
    graphc.distributed.broadcast([w, noise])
    assert w.get_value().tolist() == [0, 1, 2]
    with pytest.raises(ArgumentError, match="is no shared variable"):
        graphc.distributed.broadcast([gt.vector("x")])
