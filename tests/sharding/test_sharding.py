"""Shardings that graphs declare: their form, and what they are where there is no mesh.

What needs several devices is in ``several_devices.py``, which runs in a process of its own.
"""

from __future__ import annotations

import copy
import os
import pickle
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import graphc
import graphc.tensor as gt
import graphc.xtensor as gx
from graphc.errors import ArgumentError, ModeError, ShardingError
from graphc.implicit import (
    CSR,
    Diagonal,
    ImplicitArray,
    ImplicitTensor,
    Kronecker,
    LoRA,
    LowRank,
    expanded,
)
from tests.sharding.conftest import EIGHT
from tests.sharding.two_processes import trained

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).name


def run(arguments: list[str], **environment: str) -> str:
    """What a new process prints; it has to succeed."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_holds_on_eight_devices() -> None:
    # One process for all files: each takes seconds to begin.
    pytest_of = ["-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    eight = {"XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8"}
    assert " passed" in run([*pytest_of, *(f"tests/sharding/{name}" for name in EIGHT)], **eight)


def test_two_processes_compute_what_one_device_does(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    module = [sys.executable, "-m", "tests.sharding.two_processes"]
    paths = [tmp_path / f"{i}.npz" for i in range(2)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [*module, str(i), port, str(path)],
                    cwd=ROOT,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
            for i, path in enumerate(paths)
        ]
        for i, process in enumerate(processes):
            printed, _ = process.communicate()
            assert process.returncode == 0, printed
            assert ("once" in printed.splitlines()) == (i == 0)
    # One process reads what two have written.
    w = graphc.shared(np.zeros((8, 2)), "w")
    graphc.distributed.load_checkpoint(tmp_path / "saved", [w], partial=True)
    np.testing.assert_array_equal(w.get_value(), np.arange(16.0).reshape(8, 2) + 2)
    wanted = [*map(np.asarray, trained("JAX"))]
    for path in paths:
        with np.load(path) as found:
            for y, reference in zip(found.values(), wanted, strict=True):
                np.testing.assert_allclose(y, reference, rtol=1e-12, atol=1e-12)


def test_a_sharding_has_an_entry_for_each_axis() -> None:
    x = gt.tensor("x", ndim=3, sharding=["data"])
    assert x.op.sharding == ("data", None, None)
    spec = PartitionSpec(("data", "model"), None)
    assert gt.dmatrix("x", sharding=spec).op.sharding == (("data", "model"), None)
    left = PartitionSpec(PartitionSpec.UNCONSTRAINED, ("model",))
    assert gt.shard(gt.matrix("x"), left).op.sharding == ("*", "model")
    assert gt.matrix("x", sharding=()).op.sharding == (None, None)
    assert gt.matrix("x").op.sharding is None


WRONG = {
    "an axis twice": ((("data", "model"), "data"), "has the axis 'data' of the mesh 2 times"),
    "more entries than axes": (("data", None, None), "has 3 entries, and the array 2 axes"),
    "a name alone": ("data", "is no tuple"),
    "a number": ((0, None), "0 is no entry"),
    "an open entry": (("*", None), "leaves an axis to the compiler"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_sharding_fails_where_it_is_written(case: str) -> None:
    given, problem = WRONG[case]
    with pytest.raises(ShardingError, match=problem) as caught:
        gt.matrix("x", sharding=given)
    assert str(caught.value.where).startswith(HERE)
    with pytest.raises(ShardingError, match=problem):
        graphc.shared(np.ones((8, 2)), sharding=given)
    if case != "an open entry":
        with pytest.raises(ShardingError, match=problem):
            gt.shard(gt.matrix("x"), given)


@dataclass(frozen=True)
class Scaled(ImplicitArray):
    """A class that does not say how it is divided."""

    values: Any
    factor: Any

    def materialize(self) -> Any:
        return self.values * self.factor[..., None]


def test_fields_of_an_implicit_array_are_sharded_as_its_class_says() -> None:
    left, right = gt.matrices("left", "right")
    w = gt.as_tensor(Kronecker(left, right))
    assert gt.shard(w, ("data",)).inputs == (
        gt.shard(left, ("data", None)),
        gt.shard(right, (None, None)),
    )
    assert gt.shard(w, ("*", "model")).inputs[0] is gt.shard(left, ("*", "model"))
    # Of what an expression is, handlers decide.
    turned = gt.shard(w.T, (None, "data"))
    (y,) = expanded([turned])
    assert y.inputs == (gt.shard(left.T, (None, "data")), gt.shard(right.T, (None, None)))


def test_a_stack_of_any_class_is_divided_along_its_first_axis() -> None:
    stack = Scaled(np.ones((8, 3)), np.arange(8.0))
    w = graphc.shared(stack, "w", sharding=("data",))
    assert [x.op.sharding for x in w.inputs] == [("data", None), ("data",)]
    with pytest.raises(ShardingError, match=r"axis 1 of Scaled.* over 'data'"):
        graphc.shared(stack, "w", sharding=(None, "data"))
    with pytest.raises(ShardingError, match="no field of a Scaled can be divided so"):
        gt.shard(gt.as_tensor(Scaled(np.ones(3), np.ones(()))), ("data",))


UNDIVIDED: dict[str, tuple[Any, Any, str]] = {
    "both axes of a diagonal": (Diagonal(np.ones(4)), ("data", "model"), "axis 0 of Diagonal"),
    "sparse": (
        CSR(np.ones(4), np.arange(4), np.arange(5), (4, 4)),
        (None, "data"),
        "axis 1 of CSR",
    ),
    "within another": (
        LoRA(Diagonal(np.ones(4)), np.ones((4, 1)), np.ones((1, 4))),
        ("data", "model"),
        "axis 0 of Diagonal",
    ),
    "an axis twice": (Diagonal(np.ones(4)), ("data", "data"), "axis 'data' of the mesh 2 times"),
}


@pytest.mark.parametrize("case", UNDIVIDED)
def test_an_implicit_array_that_cannot_be_divided_so_fails_where_that_is_written(case: str) -> None:
    value, sharding, problem = UNDIVIDED[case]
    for declare in (
        lambda: graphc.shared(value, "w", sharding=sharding),
        lambda: gt.implicit(value, name="w", sharding=sharding),
        lambda: gt.shard(value, sharding),
    ):
        with pytest.raises(ShardingError, match=problem) as caught:
            declare()
        assert str(caught.value.where).startswith(HERE)


def test_dimensions_with_names_are_sharded_by_these() -> None:
    x = gx.xtensor("x", dims=("time", "place"), sharding={"place": "data"})
    assert x.values.op.sharding == (None, "data")
    assert pickle.loads(pickle.dumps(x)).values.op.sharding == (None, "data")
    assert gx.xtensor("x", dims=("time",), sharding=("data",)).values.op.sharding == ("data",)
    w = gx.xtensor_shared(np.ones((2, 4)), dims=("place", "time"), sharding={"time": "data"})
    assert w.values.op.sharding == (None, "data")
    assert graphc.shared(gx.as_xtensor([1.0], "time"), sharding={"time": "a"}).values.op.sharding
    y = gx.shard(x * w, {"time": ("data", "model"), "place": "*"})
    assert y.dims == ("time", "place")
    assert y.values is gt.shard((x * w).values, (("data", "model"), "*"))
    f = graphc.function([x], graphc.Out(y, sharding={"place": "model"}), mode="NUMPY")
    (out,) = f.requested.outputs
    assert out.op.sharding == (None, "model")
    np.testing.assert_array_equal(f(np.ones((4, 2))), np.ones((4, 2)))


def test_a_sharding_of_a_dimension_that_is_not_there_fails() -> None:
    x = gx.xtensor("x", dims=("time",))
    for declare in (
        lambda: gx.xtensor("x", dims=("time",), sharding={"place": "data"}),
        lambda: gx.shard(x, {"place": "data"}),
        lambda: gx.xtensor_shared([1.0], dims=("time",), sharding={"place": "data"}),
        lambda: graphc.function([x], graphc.Out(x, sharding={"place": "data"})),
    ):
        with pytest.raises(ShardingError, match="there is no dimension 'place'") as caught:
            declare()
        assert "The dimensions are 'time'" in str(caught.value)
        assert str(caught.value.where).startswith(HERE)


def test_an_implicit_array_has_the_lengths_of_its_fields() -> None:
    with pytest.raises(ArgumentError, match="its lengths follow from those of its fields"):
        graphc.shared(Diagonal(np.ones(4)), shape=(4, 4))


def test_a_clone_of_what_is_sharded_in_a_graph_is_a_plain_input() -> None:
    assert gt.shard(gt.vector("x"), ("*",)).clone().op.sharding is None


def test_a_graph_refuses_the_devices_of_a_sharding() -> None:
    with pytest.raises(ShardingError, match=r"sharding=s.spec.*\n?.*mesh=s.mesh"):
        gt.vector("x", sharding=NamedSharding(graphc.mesh(data=1), PartitionSpec("data")))


@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
def test_without_a_mesh_an_implicit_array_is_itself(mode: str) -> None:
    value = LowRank(np.arange(8.0).reshape(4, 2), np.arange(6.0).reshape(2, 3))
    w = graphc.shared(value, "w", sharding=("data", "model"))
    v = gt.implicit(value, name="v", sharding=("data", None))
    u = gt.shard(w, (None, "*"))
    assert isinstance(u, ImplicitTensor)
    outputs = [gt.ones(4) @ u, gt.ones(4) @ gt.shard(2.0 * v, ("*", "model"))]
    f = graphc.function([v], outputs, updates=[(w, 2.0 * w)], mode=mode)
    found = [*map(np.asarray, f(value))]
    np.testing.assert_allclose(found[0], np.asarray(value).sum(0), rtol=1e-6)
    np.testing.assert_allclose(found[1], 2 * np.asarray(value).sum(0), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(w.get_value()), 2 * np.asarray(value), rtol=1e-6)


@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
def test_without_a_mesh_an_array_is_itself(mode: str) -> None:
    x = gt.matrix("x", sharding=("data", None))
    w = graphc.shared(np.arange(6.0).reshape(2, 3), sharding=(None, "model"))
    y = gt.shard(x @ w, ("data", "model"))
    outputs = [graphc.Out(y, sharding=("data",)), graphc.grad(y.sum(), x)]
    f = graphc.function([x], outputs, updates=[(w, 2 * w)], mode=mode)
    values = np.arange(8.0).reshape(4, 2)
    found, slope = map(np.asarray, f(values))
    held = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(found, values @ held, rtol=1e-6)
    np.testing.assert_allclose(slope, np.broadcast_to(held.sum(1), (4, 2)), rtol=1e-6)
    np.testing.assert_allclose(w.get_value(), 2 * held, rtol=1e-6)
    assert " shard(" not in str(f.plan())


def test_without_a_mesh_rules_see_through_a_sharding() -> None:
    x = gt.vector("x")
    (y,) = graphc.function([x], gt.log(gt.shard(1 + x, ("data",))), mode="NUMPY").graph.outputs
    assert y is gt.log1p(x)


def test_a_sharding_is_a_part_of_what_a_program_is() -> None:
    def key(sharding: Any) -> str:
        x = gt.vector("x", sharding=sharding)
        return graphc.Graph([x], [gt.exp(x)]).key()

    assert len({key(None), key((None,)), key(("data",)), key(("model",))}) == 4
    assert key(("data",)) == key(["data"])
    assert gt.vector("x", sharding=("data",)).type is gt.vector("x").type
    x = gt.vector("x")
    assert gt.shard(x, ("data",)) is gt.shard(x, ["data"])
    assert x.clone().op.sharding is None
    assert gt.vector("x", sharding=("data",)).clone().op.sharding == ("data",)


def test_derivatives_and_batches_of_a_sharded_array_are_sharded() -> None:
    x, v = gt.matrix("x"), gt.vector("v")
    y = gt.shard(x, ("data", "model"))
    g = gt.matrix("g")
    assert graphc.pullback(y, x, g) is gt.shard(g, ("data", "model"))
    assert graphc.pushforward(y, x, g) is gt.shard(g, ("data", "model"))
    row = gt.shard(v, ("model",))
    assert graphc.vectorize_graph(row, {v: x}) is gt.shard(x, ("*", "model"))


def test_a_copy_of_a_shared_variable_is_sharded_too() -> None:
    w = graphc.shared(np.ones((4, 2)), "w", sharding=("data",))
    for other in (copy.deepcopy(w), pickle.loads(pickle.dumps(w))):
        assert other.op.sharding == ("data", None)
        np.testing.assert_array_equal(other.get_value(), w.get_value())


def test_options_of_meshes_are_checked() -> None:
    mesh = graphc.mesh(data=1)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"mesh": 3}, "no mesh of devices"),
        ({"mesh": mesh, "device": "cpu"}, "both mesh= and device="),
        ({"logical_axes": {"batch": "data"}}, "the mode has none"),
        ({"mesh": mesh, "logical_axes": {"batch": "model"}}, "has the axes data"),
        ({"mesh": mesh, "logical_axes": ["data"]}, "is no dict"),
    ]
    for options, problem in wrong:
        with pytest.raises(ModeError, match=problem):
            graphc.Mode("JAX", **options)
    for backend in ("NUMPY", "MLX"):
        with pytest.raises(ModeError, match="has no option mesh"):
            graphc.Mode(backend, mesh=mesh)


@pytest.mark.gpu
def test_a_mesh_has_the_devices_there_are() -> None:
    count = jax.device_count()
    assert dict(graphc.mesh(data=-1).shape) == {"data": count}
    assert dict(graphc.mesh(data=1, model=-1).shape) == {"data": 1, "model": count}
    assert [*graphc.mesh(data=1, devices=[jax.devices()[-1]]).devices.flat] == [jax.devices()[-1]]
    wrong: list[dict[str, Any]] = [{"data": 2 * count}, {"data": 0}, {"data": -1, "model": -1}, {}]
    for axes in wrong:
        with pytest.raises(ArgumentError, match=r"mesh\("):
            graphc.mesh(**axes)


@pytest.mark.gpu
def test_the_mesh_of_the_default_mode_is_known_while_a_graph_is_built() -> None:
    with graphc.config.change_flags(mode=graphc.Mode("JAX", mesh=graphc.mesh(data=1))):
        gt.vector("x", sharding=("data",))
        with pytest.raises(ShardingError, match="the mesh has no axis 'model'") as caught:
            gt.vector("x", sharding=("model",))
    assert str(caught.value.where).startswith(HERE)
