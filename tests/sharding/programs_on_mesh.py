"""Whole programs over a mesh of eight devices: loops, names of dimensions, pickles."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import graphc
import graphc.tensor as gt
import graphc.xtensor as gx
from graphc.compile.cache import PROGRAMS
from graphc.errors import ModeError, ShardingError, ShardingWarning
from graphc.link import load
from graphc.link.jax.portable import PortableMesh
from tests.link.row_norms import RowNorms, norms
from tests.sharding.several_devices import EXPLICIT, MESH, MODE, lies, named, normal, on

EVERY = jax.sharding.PartitionSpec()
ROOT = Path(__file__).parents[2]

# Arguments of NumPy.


@pytest.mark.parametrize("first", ["NumPy", "mesh"])
def test_arrays_of_numpy_and_on_the_mesh_share_an_executable(first: str) -> None:
    x, scale = gt.matrix("x", sharding=("data", None)), gt.scalar("scale")
    n = gt.lscalar("n")
    w = graphc.shared(np.zeros(4), "w", sharding=("model",))
    outputs = [graphc.Out(scale * x, sharding=("data",)), gt.arange(n)]
    f = graphc.function([x, scale, n], outputs, updates=[(w, w + x.sum(0))], mode=MODE)
    value = normal(8, 4)
    kinds = [value, on(MESH, value, "data")]
    for given in (kinds if first == "NumPy" else kinds[::-1]) * 2:
        found, numbers = f(given, 2.0, 3)
        np.testing.assert_array_equal(found, 2 * value)
        np.testing.assert_array_equal(numbers, [0, 1, 2])
        assert lies(found, "data")
    np.testing.assert_allclose(w.get_value(), 4 * value.sum(0), rtol=1e-12)
    assert f.stats.compiles == 1


def test_an_operation_of_a_user_is_computed_where_its_rows_are() -> None:
    backend = load("JAX")
    backend.lower(RowNorms)(lambda op, x: jnp.sqrt((x * x).sum(1)))
    x = gt.matrix("x", sharding=("data", None))
    f = graphc.function([x], RowNorms()(x), mode=MODE, returns="native")
    value = normal(8, 3)
    result = f(value)
    np.testing.assert_allclose(result, norms(value), rtol=1e-12)
    assert lies(result, "data")


# Arguments that are made whole.


def in_a_branch(x: Any, h: Any) -> Any:
    return graphc.ifelse(h.sum() > 0, gt.linalg.cholesky(x), x * 2)


def of_each_step(x: Any, h: Any) -> Any:
    return graphc.scan(lambda row, h: gt.tanh(row[gt.argmax(h)] + h), x, h)


def within_two_loops(x: Any, h: Any) -> Any:
    def inner(row: Any, h: Any) -> Any:
        return graphc.scan(lambda h: gt.tanh(row[gt.argmax(h)] + h), outputs_info=h, n_steps=3)[-1]

    return graphc.scan(inner, x, h)


@pytest.mark.parametrize(
    ("program", "size", "each"),
    [
        (in_a_branch, 2560, ""),
        (of_each_step, 512, " in each step of a loop"),
        (within_two_loops, 512, " in each step of a loop"),
    ],
)
def test_an_argument_that_is_made_whole_in_a_loop_or_a_branch_warns(
    program: Callable[[Any, Any], Any], size: int, each: str
) -> None:
    x, h = gt.tensor3("x", sharding=(None, "data", None)), gt.vector("h")
    f = graphc.function([x, h], program(x, h), mode=MODE)
    values = np.stack([np.eye(8)] * 5), np.ones(8)
    problem = rf"argument x: .* is gathered whole on every device, {size:,} bytes{each}\."
    with pytest.warns(ShardingWarning, match=problem):
        f(*values)
    (told,) = f.plan(*values).placement.gathered
    assert (told.bytes, told.in_steps) == (size, bool(each))
    assert told.nodes


def test_what_a_step_declares_as_whole_is_meant() -> None:
    x, h = gt.tensor3("x", sharding=(None, "data", None)), gt.vector("h")
    y = graphc.scan(lambda row, h: gt.tanh(gt.shard(row, ())[gt.argmax(h)] + h), x, h)
    graphc.function([x, h], y, mode=MODE)(np.stack([np.eye(8)] * 5), np.ones(8))


def test_what_a_step_makes_of_an_argument_may_be_gathered() -> None:
    x, h = gt.matrix("x", sharding=("data", None)), gt.matrix("h")
    y = graphc.scan(lambda h: gt.linalg.cholesky(x + h @ h.T), outputs_info=h, n_steps=3)
    f = graphc.function([x, h], y, mode=MODE)
    found = f(np.eye(8), np.eye(8))
    reference = graphc.function([x, h], y, mode="NUMPY")(np.eye(8), np.eye(8))
    np.testing.assert_allclose(found, reference, rtol=1e-12, atol=1e-12)


# Dimensions with names.


def test_arrays_are_divided_by_the_names_of_their_dimensions() -> None:
    x = gx.xtensor("x", dims=("shop", "month"), sharding={"month": "data"})
    w = gx.xtensor_shared(
        np.ones((4, 8)), dims=("month", "shop"), name="w", sharding={"shop": "model"}
    )
    y = gx.shard(x * w, {"month": ("data", "model"), "shop": "*"})
    outputs = [graphc.Out(y, sharding={"month": "model"}), graphc.grad((y * y).sum(), w)]
    f = graphc.function([x], outputs, updates=[(w, w + 1)], mode=MODE)
    value = np.arange(64.0).reshape(8, 8)
    w.set_value(np.ones((8, 8)))
    found, slope = f(value)
    assert lies(found, None, "model")
    assert lies(w.get_value(borrow=True), None, "model")
    np.testing.assert_allclose(found, value, rtol=1e-12)
    np.testing.assert_allclose(slope, 2 * value.T**2, rtol=1e-12)
    with pytest.raises(ShardingError, match=r"argument x: float64\[shop=.* axis 1 of length 6"):
        f(np.ones((8, 6)))
    batch = graphc.distributed.global_array(value, x, MODE)
    assert lies(batch, None, "data")


# Programs without arguments.


def test_a_program_that_takes_no_arrays_runs_over_the_mesh_in_every_process(tmp_path: Path) -> None:
    # An executable that is loaded for fewer devices than it has ends the process.
    def made() -> list[Any]:
        PROGRAMS.clear()
        n = gt.lscalar("n")
        outputs = [
            graphc.Out(gt.arange(n), sharding=("data",)),
            gt.shard(2.0 * gt.arange(8.0), ("model",)),
            graphc.Out(gt.ones((8, 4)), sharding=(None, "data")),
        ]
        alone = graphc.function([], outputs[1:], mode=MODE)()
        return [*graphc.function([n], outputs, mode=MODE)(8), *alone]

    with graphc.config.change_flags(cache_dir=tmp_path):
        for _ in range(2):
            found = made()
            entries = [("data",), ("model",), (None, "data"), ("model",), (None, "data")]
            assert all(lies(y, *own) for y, own in zip(found, entries, strict=True))
    np.testing.assert_array_equal(found[3], 2.0 * np.arange(8))


# What is refused.


def test_a_mesh_may_have_some_explicit_axes_and_no_manual_ones() -> None:
    types = AxisType.Explicit, AxisType.Auto
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=types)
    x = gt.matrix("x", sharding=("data", None))
    w = graphc.shared(np.ones((4, 6)), "w", sharding=("model",))
    outputs = [graphc.Out(x @ w, sharding=("data", "model")), graphc.Out(w, sharding=("model",))]
    f = graphc.function([x], outputs, updates=[(w, 2 * w)], mode=graphc.Mode("JAX", mesh=mesh))
    product, held = f(np.ones((8, 4)))
    np.testing.assert_array_equal(product, np.full((8, 6), 4.0))
    assert lies(product, "data", "model", mesh=mesh)
    assert lies(held, "model", mesh=mesh)
    manual = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Manual,))
    with pytest.raises(ModeError, match="has manual axes"):
        graphc.Mode("JAX", mesh=manual)


def test_a_new_value_that_does_not_divide_names_its_variable() -> None:
    w = graphc.shared(np.ones(8), "w", sharding=("data",))
    f = graphc.function([], [], updates=[(w, w[:6])], mode=MODE)
    with pytest.raises(ShardingError, match="the new value of w: axis 0 of length 6"):
        f()


# Functions of JAX within.


def test_a_function_of_jax_may_name_the_mesh() -> None:
    x = gt.matrix("x", sharding=("data", None))

    def product(a: Any) -> Any:
        return jax.lax.with_sharding_constraint(a, named(MESH, "model")) @ a.T

    def total(a: Any) -> Any:
        add = partial(jax.lax.psum, axis_name="data")
        return jax.shard_map(add, mesh=MESH, in_specs=named(MESH, "data").spec, out_specs=EVERY)(a)

    outputs = [graphc.wrap_jax(product)(x), graphc.wrap_jax(total)(x)]
    outputs.append(graphc.grad((outputs[0] ** 2).sum() + outputs[1].sum(), x))
    value = normal(8, 4)
    found = graphc.function([x], outputs, mode=MODE)(value)
    reference = [value @ value.T, value.reshape(4, 2, 4).sum(0), 4 * value @ value.T @ value + 1]
    for y, wanted in zip(found, reference, strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-12, atol=1e-12)


# Pickles.


def restored(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("mesh", [MESH, EXPLICIT], ids=["automatic", "explicit"])
def test_a_function_over_a_mesh_is_copied_with_it(mesh: Any) -> None:
    mode = graphc.Mode("JAX", mesh=mesh, logical_axes={"batch": "data"})
    assert copy.deepcopy(mode) is mode
    assert restored(mode) == mode
    x = gt.matrix("x", sharding=("batch", None))
    w = graphc.shared(normal(4, 4), "w", sharding=(None, "model"))
    f = graphc.function([x], x @ w, updates=[(w, w + 1)], mode=mode)
    value = normal(8, 4)
    copies = restored(f), copy.deepcopy(f)
    wanted = np.asarray(f(value))
    for g in copies:
        found = g(value)
        assert g.mode.options["mesh"] is mesh  # JAX has one object for equal meshes
        assert found.sharding.mesh == mesh
        np.testing.assert_array_equal(found, wanted)


def test_a_variable_on_a_mesh_is_pickled_with_it() -> None:
    w = graphc.shared(normal(8, 4), "w", sharding=named(MESH, "data"))
    f = restored(graphc.function([], w.sum(0)))
    assert f.mode.options["mesh"] is MESH
    again = restored(w)
    assert again.op.mesh is MESH
    assert lies(again.get_value(borrow=True), "data")
    np.testing.assert_allclose(f(), w.get_value().sum(0), rtol=1e-12)


def test_a_mode_with_a_device_is_pickled_by_its_place() -> None:
    mode = graphc.Mode("JAX", device=jax.devices()[3])
    assert restored(mode) == mode


ELSEWHERE = """
import pickle, sys, warnings
from graphc.errors import ModeError, ShardingWarning
variable, function = sys.argv[1:]
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    w = pickle.loads(open(variable, "rb").read())
print(w.get_value().sum(), *[x.message for x in told if x.category is ShardingWarning])
try:
    pickle.loads(open(function, "rb").read())
except ModeError as error:
    print(error)
"""


def test_another_process_needs_as_many_devices_of_the_kind(tmp_path: Path) -> None:
    x = gt.matrix("x", sharding=("data", None))
    w = graphc.shared(np.ones((8, 4)), "w", sharding=named(MESH, "data"))
    paths = tmp_path / "w", tmp_path / "f"
    f = graphc.function([x], x + w, mode=MODE)
    for path, value in zip(paths, (w, f), strict=True):
        path.write_bytes(pickle.dumps(value))
    command = [sys.executable, "-W", "ignore::UserWarning", "-c", ELSEWHERE, *map(str, paths)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "32.0 The shared variable w is loaded without its mesh" in done.stdout
    assert "8 devices of the kind 'cpu', and there are 2 here" in done.stdout


def test_a_mesh_is_made_of_other_devices_where_its_own_are_not() -> None:
    half = graphc.mesh(a=2, b=2, devices=jax.devices()[4:][::-1])
    made = PortableMesh.of(half)
    assert made.indices == (7, 6, 5, 4)
    assert made.mesh() == half
    elsewhere = replace(made, indices=(21, 20, 11, 10)).mesh()
    assert [device.id for device in elsewhere.devices.flat] == [3, 2, 1, 0]
