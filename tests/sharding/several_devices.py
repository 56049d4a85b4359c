"""What holds over a mesh of eight devices; ``test_sharding.py`` runs it in a process of its own."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import graphc
import graphc.tensor as gt
from graphc.attention import flex_attention
from graphc.compile.cache import PROGRAMS
from graphc.errors import BoundsError, CheckError, ShardingError, ShardingWarning
from graphc.implicit import LowRank, quantize

HERE = "several_devices.py"
GATHERED = pytest.mark.filterwarnings("ignore::graphc.errors.ShardingWarning")
"""For programs that need an argument whole: a sort, an element by an index, what lies elsewhere."""

MESH = graphc.mesh(data=4, model=2)
EXPLICIT = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
MODE = graphc.Mode("JAX", mesh=MESH)
RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return RANDOM.normal(size=shape)


def named(mesh: Mesh, *entries: Any) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec(*entries))


def on(mesh: Mesh, value: Any, *entries: Any) -> jax.Array:
    with jax.enable_x64(True):
        return jax.device_put(value, named(mesh, *entries))


def lies(y: Any, *entries: Any, mesh: Mesh = MESH) -> bool:
    return bool(y.sharding.is_equivalent_to(named(mesh, *entries), y.ndim))


# The same numbers.

Program = tuple[Sequence[Any], Sequence[Any]]


def step() -> Program:
    """Gradients of a scan whose state is divided, with and without checkpoints."""
    x = gt.tensor3("x", sharding=(None, "data", None))
    w = gt.matrix("w", sharding=(None, "model"))

    def advance(row: Any, h: Any) -> Any:
        return gt.shard(gt.tanh(h @ w + row), ("data", "model"))

    states = graphc.scan(advance, x, gt.zeros((8, 6)))
    last = graphc.scan(advance, x, gt.zeros((8, 6)), checkpoint=4)[-1]
    loss, other = (states[-1] ** 2).sum(), (last**2).sum()
    return [x, w], [loss, states, *graphc.grad(loss, [x, w]), *graphc.grad(other, [x, w])]


def until() -> Program:
    x = gt.vector("x", sharding=("data",))

    def halved(h: Any) -> Any:
        return h / 2, graphc.until(h.sum() < 1)

    states = graphc.scan(halved, outputs_info=x, n_steps=50)
    return [x], [states, graphc.grad(states[-1].sum(), x)]


def batched_linear_algebra() -> Program:
    x = gt.tensor3("x", sharding=("data", None, None))
    a = x @ x.mT + 4 * gt.eye(3)
    factor, (values, vectors) = gt.linalg.cholesky(a), gt.linalg.eigh(a)
    logs = gt.linalg.slogdet(a)[1]
    solved = gt.linalg.solve(a, x)
    slopes = graphc.grad(logs.sum() + factor.sum() + solved.sum(), x)
    again = vectors @ (values[..., None] * vectors.mT)
    return [x], [factor, values, again, logs, solved, slopes, gt.linalg.schur(x[0])[0]]


def draws() -> Program:
    stream = gt.random.RandomStream(3)
    made = [stream.normal(size=(8, 4)), stream.gamma(2.0, size=(8,)), stream.permutation(10)]
    halves = stream.integers(0, 100, size=(16,))
    return [], [gt.shard(made[0], ("data",)), *made[1:], gt.shard(halves, (("data", "model"),))]


def shapes_by_value() -> Program:
    x, n = gt.vector("x", sharding=("data",)), gt.lscalar("n")
    powers = graphc.scan(lambda h: h * 1.5, outputs_info=x, n_steps=n)
    return [x, n], [x[:n].sum(), gt.arange(n), powers[-1]]


def branches_and_orders() -> Program:
    x = gt.vector("x", sharding=("data",))
    chosen = graphc.ifelse(x.sum() > 0, x * 2, gt.shard(x - 1, ("model",)))
    return [x], [chosen, gt.sort(x), gt.cumsum(x), x[::-1], gt.concatenate([x, x]), gt.fft.fft(x)]


def batches() -> Program:
    x, v = gt.matrix("x", sharding=("data", None)), gt.vector("v")
    rows = graphc.vectorize_graph(gt.shard(gt.tanh(v) * v[0], ("model",)), {v: x})
    return [x], [rows, graphc.jacobian(gt.shard(gt.sin(x[0]), ("model",)), x)]


def attention() -> Program:
    q, k, v = (gt.tensor4(name, sharding=("data", "model", None, None)) for name in "qkv")
    y = flex_attention(q, k, v)
    return [q, k, v], [y, *graphc.grad((y**2).sum(), [q, k, v])]


LEFT, RIGHT = normal(64, 2), normal(2, 64)
PACKED = quantize(normal(64, 64), "int4")


def implicit() -> Program:
    x = gt.matrix("x", sharding=("data", None))
    w, q = graphc.shared(LowRank(LEFT, RIGHT)), graphc.shared(PACKED)
    loss = ((x @ w @ q) ** 2).mean()
    return [x], [x @ w, x @ q, *graphc.grad(loss, [x, w.inputs[0]])]


CASES: dict[Callable[[], Program], list[Any]] = {
    step: [normal(8, 8, 6), normal(6, 6)],
    until: [np.arange(1.0, 9.0)],
    batched_linear_algebra: [normal(8, 3, 3)],
    draws: [],
    shapes_by_value: [np.arange(8.0), 5],
    branches_and_orders: [normal(8)],
    batches: [normal(8, 6)],
    attention: [normal(4, 2, 16, 8) for _ in range(3)],
    implicit: [normal(8, 64)],
}


@GATHERED
@pytest.mark.whole
@pytest.mark.parametrize("program", CASES, ids=lambda program: program.__name__)
def test_numbers_are_the_same_over_a_mesh(program: Callable[[], Program]) -> None:
    arguments = CASES[program]
    found, wanted = (graphc.function(*program(), mode=mode)(*arguments) for mode in (MODE, "NUMPY"))
    for y, reference in zip(found, wanted, strict=True):
        assert len(y.devices()) == 8
        np.testing.assert_allclose(np.asarray(y), reference, rtol=1e-12, atol=1e-12)


# Where arrays lie.


def trained(mode: graphc.Mode, *, mesh: Mesh) -> None:
    """A step of two layers over a mesh, against NumPy."""
    x, t = gt.matrix("x", sharding=("data", None)), gt.matrix("t", sharding=("data",))
    start = [normal(16, 32), normal(32, 4), np.zeros(4)]
    w = graphc.shared(start[0], "w", sharding=(None, "model"))
    v = graphc.shared(start[1], "v", sharding=("model",))
    b = graphc.shared(start[2], "b")
    hidden = gt.shard(gt.tanh(x @ w), ("data", "model"))
    y = hidden @ v + b
    loss = ((y - t) ** 2).mean()
    updates = [(p, p - 0.1 * graphc.grad(loss, p)) for p in (w, v, b)]
    outputs = [loss, graphc.Out(y, sharding=("data",))]
    arguments = normal(8, 16), normal(8, 4)
    results = []
    for chosen in (mode, "NUMPY"):
        for p, value in zip((w, v, b), start, strict=True):
            p.set_value(value)
        f = graphc.function([x, t], outputs, updates=updates, mode=chosen)
        for _ in range(3):
            found = f(*arguments)
        results.append([*map(np.asarray, found), *[p.get_value() for p in (w, v, b)]])
        if chosen is mode:
            assert lies(found[1], "data", mesh=mesh)
            assert found[1].sharding.mesh == mesh
            assert found[0].sharding.mesh == mesh
            held = [p.get_value(borrow=True) for p in (w, v, b)]
            for value, entries in zip(held, [(None, "model"), ("model",), ()], strict=True):
                assert lies(value, *entries, mesh=mesh)
                assert value.sharding.mesh == mesh
            assert f.stats.compiles == 1
    for a, reference in zip(*results, strict=True):
        np.testing.assert_allclose(a, reference, rtol=1e-12, atol=1e-12)


def test_shared_variables_and_outputs_lie_as_declared() -> None:
    trained(MODE, mesh=MESH)


def test_numpy_results_are_gathered_and_native_results_stay_on_the_mesh() -> None:
    x = gt.matrix("x", sharding=("data", None))
    y = graphc.Out(2 * x, sharding=("data", "model"))
    value = normal(8, 4)
    native = graphc.function([x], y, mode=MODE, returns="native")(value)
    assert lies(native, "data", "model")
    gathered = graphc.function([x], y, mode=MODE, returns="numpy")(value)
    assert type(gathered) is np.ndarray
    assert gathered.flags.writeable
    np.testing.assert_array_equal(gathered, 2 * value)


@GATHERED
def test_a_mesh_with_explicit_axes_is_taken_as_it_is() -> None:
    mode = graphc.Mode("JAX", mesh=EXPLICIT)
    trained(mode, mesh=EXPLICIT)
    x = gt.matrix("x", sharding=("data", None))
    f = graphc.function([x], [x.T @ x, gt.shard(2 * x, (None, "model"))], mode=mode)
    value = normal(8, 4)
    # JAX refuses the product where explicit axes would decide how it is divided.
    with jax.set_mesh(EXPLICIT), jax.enable_x64(True):
        product, doubled = f(on(EXPLICIT, value, "data"))
        np.testing.assert_allclose(jnp.sin(product), np.sin(value.T @ value), rtol=1e-12)
        inside = jax.jit(lambda a: f(a)[1])(value)
    assert doubled.sharding == named(EXPLICIT, None, "model") == inside.sharding


def test_logical_names_stand_for_axes_of_the_mesh() -> None:
    axes = {"batch": ("data", "model"), "hidden": "model", "embedding": None}
    mode = graphc.Mode("JAX", mesh=MESH, logical_axes=axes)
    x = gt.matrix("x", sharding=("batch", "embedding"))
    f = graphc.function([x], [gt.shard(x, ("data", "hidden")), graphc.Out(x, sharding=("batch",))])
    f = graphc.function([x], list(f.requested.outputs), mode=mode)
    first, second = f(normal(8, 4))
    assert lies(first, "data", "model")
    assert lies(second, ("data", "model"))
    twice = gt.matrix("x", sharding=("batch", "hidden"))
    with pytest.raises(ShardingError, match="has the axis 'model' of the mesh 2 times"):
        graphc.function([twice], 2 * twice, mode=mode)


def test_a_shared_variable_keeps_the_sharding_of_its_array() -> None:
    value = normal(8, 4)
    w = graphc.shared(on(MESH, value, "model"), "w")
    assert w.op.sharding == ("model", None)
    f = graphc.function([], w.sum(0), updates=[(w, w[::-1] + 1)])
    assert f.mode.options["mesh"] is MESH  # the variable's own
    before = w.get_value(borrow=True)
    np.testing.assert_allclose(f(), value.sum(0), rtol=1e-12)
    assert lies(w.get_value(borrow=True), "model")
    np.testing.assert_array_equal(before, value)  # it was the user's, and is not overwritten
    np.testing.assert_allclose(w.get_value(), value[::-1] + 1)
    w.set_value(value)
    assert lies(w.get_value(borrow=True), "model")
    other = copy.deepcopy(w)
    f()
    assert lies(other.get_value(borrow=True), "model")
    np.testing.assert_array_equal(other.get_value(), value)
    assert graphc.function([], w.sum(), mode="NUMPY")() == pytest.approx((value + 1).sum())
    placed = graphc.shared(value, sharding=named(MESH, "data", "model"))
    assert lies(placed.get_value(borrow=True), "data", "model")


def test_an_update_reuses_the_memory_of_a_divided_value() -> None:
    w = graphc.shared(np.ones(8), "w", sharding=("data",))
    f = graphc.function([], [], updates=[(w, 2 * w)], mode=MODE)
    f()
    before = w.op.store.value
    f()
    assert before.is_deleted()
    np.testing.assert_array_equal(w.get_value(), np.full(8, 4.0))


def test_a_variable_without_a_sharding_warns_of_the_one_that_it_does_not_keep() -> None:
    w = graphc.shared(np.zeros((8, 4)))
    with pytest.warns(UserWarning, match="keeps a value of 8 devices as one whole array"):
        w.set_value(on(MESH, normal(8, 4), "data"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        w.set_value(jax.device_put(np.ones((8, 4)), jax.devices()[1]))


def test_functions_of_other_modes_take_turns_with_a_variable() -> None:
    w = graphc.shared(np.zeros(8), "w", sharding=("data",))
    mesh = graphc.mesh(data=2, devices=jax.devices()[:2])
    modes = [
        MODE,
        "NUMPY",
        "JAX",
        graphc.Mode("JAX", mesh=mesh),
        graphc.Mode("JAX", device="cpu:3"),
    ]
    functions = [graphc.function([], [], updates=[(w, w + 1)], mode=mode) for mode in modes]
    for f in functions * 2:
        f()
    np.testing.assert_array_equal(w.get_value(), np.full(8, 10.0))


# What does not fit.


def test_a_sharding_that_does_not_fit_the_mesh_fails_with_its_line() -> None:
    x = gt.matrix("x", sharding=("rows", None))
    y = gt.matrix("y", shape=(6, None), sharding=("data", None))
    z = gt.shard(gt.ones((3, 8)), ("model",))
    for outputs, problem in ((x * 2, "no axis 'rows'"), (y * 2, "length 6"), (z * 2, "length 3")):
        with pytest.raises(ShardingError, match=problem) as caught:
            graphc.function([v for v in (x, y) if outputs is v * 2], outputs, mode=MODE)
        assert str(caught.value.where).startswith(HERE)
        assert [type(e) for e in graphc.check(outputs, MODE)] == [ShardingError]


def test_a_length_that_a_call_decides_has_to_be_divisible() -> None:
    x = gt.matrix("x", sharding=("data", None))
    f = graphc.function([x], gt.shard(2 * x, (None, "model")), mode=MODE)
    with pytest.raises(ShardingError, match=r"argument x.*\n?.*length 6 .* 4 equal parts"):
        f(np.ones((6, 4)))
    with pytest.raises(ShardingError, match="axis 1 of length 3") as caught:
        f(np.ones((8, 3)))
    assert str(caught.value.where).startswith(HERE)
    with pytest.raises(graphc.errors.ArgumentError, match=r"float64\[\?, \?\]"):
        f(np.ones(8))


@GATHERED
def test_arrays_that_the_user_put_on_other_devices_are_refused() -> None:
    x, y = gt.fvector("x", sharding=("data",)), gt.fvector("y")
    f = graphc.function([x, y], x * y, mode=MODE)
    value = np.arange(8, dtype=np.float32)
    small = graphc.mesh(data=2, devices=jax.devices()[:2])
    for wrong in (jax.device_put(value, jax.devices()[3]), on(small, value, "data")):
        for arguments in ((wrong, value), (value, wrong)):
            with pytest.raises(ShardingError, match=r"lies on cpu:.* the function runs over mesh"):
                f(*arguments)
    backwards = Mesh(np.array(jax.devices()[::-1]), "a")
    # Arrays where JAX put them, or elsewhere on the mesh, are brought to their places.
    for right in (jnp.asarray(value), on(MESH, value, "model"), on(backwards, value, "a")):
        np.testing.assert_array_equal(f(right, right), value**2)
    plain = graphc.function([x, y], x * y, mode="JAX")
    first, second = (jax.device_put(value, device) for device in jax.devices()[:2])
    with pytest.raises(ShardingError, match=r"array 0 .* lies on cpu:0, and the array 1 on cpu:1"):
        plain(first, second)


def test_results_of_no_array_are_on_the_mesh_too() -> None:
    n = gt.lscalar("n")
    f = graphc.function([n], [gt.arange(n), gt.ones(8)], mode=MODE)
    assert all(len(y.devices()) == 8 for y in f(5))


def test_variables_on_two_meshes_need_a_mode_that_says_which() -> None:
    w = graphc.shared(on(MESH, np.ones(8), "data"))
    other = graphc.mesh(a=8)
    v = graphc.shared(on(other, np.ones(8), "a"))
    with pytest.raises(ShardingError, match="are on two meshes"):
        graphc.function([], w.sum() + v.sum())


@GATHERED
def test_checks_hold_over_a_mesh() -> None:
    x, i = gt.vector("x", sharding=("data",)), gt.lscalar("i")
    positive = graphc.Assert("x is to be positive")(x, x > 0)
    f = graphc.function([x, i], [positive[i]], mode=MODE.change(check_bounds=True))
    assert float(f(np.ones(8), 3)[0]) == 1.0
    with pytest.raises(CheckError, match="positive"):
        f(-np.ones(8), 3)
    with pytest.raises(BoundsError):
        f(np.ones(8), 30)


# What is kept.


@pytest.mark.parametrize("mesh", [MESH, EXPLICIT], ids=["automatic", "explicit"])
def test_executables_are_kept_by_the_shape_of_the_mesh(mesh: Mesh, tmp_path: Path) -> None:
    def step(mesh: Mesh, sharding: Any) -> tuple[Any, Any]:
        PROGRAMS.clear()
        x = gt.matrix("x", shape=(8, 4), sharding=sharding)
        w = graphc.shared(np.ones((4, 4)), "w", sharding=(None, "model"))
        factor = gt.linalg.cholesky(w.T @ w + gt.eye(4))
        outputs = [(x @ w).sum(), graphc.Out(x @ w, sharding=("data",)), factor]
        mode = graphc.Mode("JAX", mesh=mesh)
        f = graphc.function([x], outputs, updates=[(w, w + 1)], mode=mode)
        found = [f(np.ones((8, 4))) for _ in range(3)][-1]
        assert float(found[0]) == 8 * 4 * 4 * 3
        assert lies(found[1], "data", mesh=mesh)
        assert lies(w.get_value(borrow=True), None, "model", mesh=mesh)
        return f.stats.compiles, f.stats.loads

    with graphc.config.change_flags(cache_dir=tmp_path):
        assert step(mesh, ("data",)) == (1, 0)
        assert step(mesh, ("data",)) == (0, 1)
        assert step(mesh, (None, "data")) == (1, 0)
        other = Mesh(mesh.devices.reshape(2, 4), mesh.axis_names, axis_types=mesh.axis_types)
        assert step(other, ("data",)) == (1, 0)
        assert step(other, ("data",)) == (0, 1)
        # JAX loads what was compiled for these devices in this order.
        backwards = Mesh(mesh.devices[::-1], mesh.axis_names, axis_types=mesh.axis_types)
        assert step(backwards, ("data",)) == (1, 0)
        assert step(backwards, ("data",)) == (0, 1)


def test_programs_over_other_devices_are_others() -> None:
    x = gt.vector("x", sharding=("data",))
    halves = [graphc.mesh(data=4, devices=jax.devices()[i : i + 4]) for i in (0, 4)]
    functions = [graphc.function([x], 2 * x, mode=graphc.Mode("JAX", mesh=m)) for m in halves]
    for f, mesh in zip(functions, halves, strict=True):
        assert f(np.arange(8.0)).sharding.device_set == {*mesh.devices.flat}


# What a plan tells.


def exchanged(f: Any, *arguments: Any) -> list[Any]:
    """The collectives of a function, in the order of their kinds."""
    return sorted(f.plan(*arguments).placement.collectives, key=lambda made: made.kind)


def test_a_pair_of_layers_divided_by_columns_and_rows_needs_one_all_reduce() -> None:
    x = gt.matrix("x", sharding=("data", None))
    w = graphc.shared(normal(16, 32), "w", sharding=(None, "model"))
    v = graphc.shared(normal(32, 4), "v", sharding=("model", None))
    hidden = gt.shard(gt.tanh(x @ w), ("data", "model"))
    y = hidden @ v
    f = graphc.function([x], graphc.Out(y, sharding=("data",)), mode=MODE)
    (made,) = exchanged(f, normal(8, 16))
    assert (made.kind, made.count, made.bytes, made.loop) == ("all-reduce", 1, 2 * 4 * 8, None)
    assert [node.where for node in made.nodes] == [y.where]
    assert f.plan(normal(8, 16)).placement.results == ("('data', None)",)


def test_the_gradient_of_a_divided_batch_needs_one_all_reduce_a_weight() -> None:
    x, t = gt.matrix("x", sharding=("data", None)), gt.matrix("t", sharding=("data", None))
    weights = [graphc.shared(normal(16, 32), "w"), graphc.shared(normal(32, 4), "v")]
    loss = ((gt.tanh(x @ weights[0]) @ weights[1] - t) ** 2).mean()
    f = graphc.function([x, t], graphc.grad(loss, weights), mode=MODE)
    shapes = [jax.ShapeDtypeStruct((8, n), np.float32) for n in (16, 4)]
    found = exchanged(f, *shapes)
    assert {made.kind for made in found} == {"all-reduce"}
    assert sum(made.count for made in found) in {1, 2}  # XLA may merge both
    assert sum(made.bytes for made in found) == (16 * 32 + 32 * 4) * 8
    assert f.plan(*shapes).placement.results == ("(None, None)",) * 2


def test_a_collective_in_a_loop_is_one_of_each_step() -> None:
    x = gt.tensor3("x", sharding=(None, "data", None))
    w = graphc.shared(normal(6, 32), "w", sharding=(None, "model"))
    v = graphc.shared(normal(32, 6), "v", sharding=("model", None))

    def step(row: Any, h: Any) -> Any:
        return gt.shard(gt.tanh(gt.shard(h @ w, ("data", "model"))) @ v + row, ("data",))

    states = graphc.scan(step, x, gt.zeros((8, 6)))
    f = graphc.function([x], graphc.Out(states, sharding=(None, "data")), mode=MODE)
    (made,) = exchanged(f, normal(5, 8, 6))
    assert (made.kind, made.count, made.bytes) == ("all-reduce", 1, 2 * 6 * 8)
    assert made.loop is not None
    assert "each step of the loop of several_devices.py" in str(f.plan(normal(5, 8, 6)))


def test_a_declared_sharding_that_is_not_kept_warns() -> None:
    a = gt.matrix("a", sharding=("data", None))
    y = gt.linalg.cholesky(a)
    f = graphc.function([a], y, mode=MODE)
    value = np.eye(8)
    problem = r"argument a: float64.* sharding=\('data', None\), is gathered whole.*512 bytes"
    with pytest.warns(ShardingWarning, match=problem):
        f(value)
    f(value)
    text = str(f.plan(value))
    assert "warning: the argument a" in text
    assert f"for cholesky   {y.where}" in text
    (told,) = f.plan(value).placement.gathered
    assert (told.bytes, [node.op.name for node in told.nodes]) == (512, ["cholesky"])
    # It is meant where the graph says so.
    graphc.function([a], gt.linalg.cholesky(gt.shard(a, ())), mode=MODE)(value)


def test_a_plan_counts_the_memory_of_a_device() -> None:
    x = gt.matrix("x", shape=(8, 64), sharding=("data", None))
    w = graphc.shared(normal(64, 32), "w", shape=(64, 32), sharding=(None, "model"))
    y = gt.tanh(x @ w)
    updates = [(w, w - 0.1 * graphc.grad((y**2).sum(), w))]
    f = graphc.function([x], graphc.Out(y, sharding=("data", "model")), updates=updates, mode=MODE)
    memory = f.plan().placement.memory
    rows, weights, table = 2 * 64 * 8, 64 * 16 * 8, 16  # a pointer for each of two results
    assert memory.arguments == rows + weights
    assert memory.results == 2 * 16 * 8 + weights + table
    assert memory.reused == weights
    assert 0 < memory.temporary < memory.total
    assert memory.total == memory.arguments + memory.results - weights + memory.temporary
    assert f"{rows + weights:,} of arguments" in str(f.plan())


def test_a_plan_says_which_lengths_it_lacks() -> None:
    x = gt.matrix("x", sharding=("data", None))
    f = graphc.function([x], x.sum(0), mode=MODE)
    assert f.plan().placement is None
    assert "over mesh(data=4, model=2): call plan(*args)" in str(f.plan())
    assert "x: float64[?, ?]   (sharding=('data', None))" in str(f.plan())
    assert "all-reduce" in str(f.plan(x=normal(8, 4)))
    y = gt.matrix("y", shape=(8, 4), sharding=(None, "model"))
    assert "no collectives" in str(graphc.function([y], y.sum(0), mode=MODE).plan())
    assert graphc.function([x], x.sum(0), mode="JAX").plan(normal(8, 4)).placement is None


# Beside JAX's own code.


def test_a_function_over_a_mesh_is_transformed_by_jax() -> None:
    x = gt.matrix("x", sharding=("data", None))
    f = graphc.function([x], gt.shard(gt.sin(x), ("data", "model")).sum(), mode=MODE)
    value = normal(8, 4)
    with jax.enable_x64(True):
        slopes = jax.jit(jax.grad(f.pure))(value)
        np.testing.assert_allclose(slopes, np.cos(value), rtol=1e-12)
        assert len(slopes.devices()) == 8
        with jax.set_mesh(EXPLICIT):
            np.testing.assert_allclose(f(value), np.sin(value).sum(), rtol=1e-12)


def test_the_state_of_a_pure_function_lies_as_declared() -> None:
    x = gt.matrix("x", sharding=("data", None))
    w = graphc.shared(np.ones((4, 6)), "w", sharding=(None, "model"))
    step = graphc.function([x], (x @ w).sum(), updates=[(w, w + 1)], mode=MODE).pure
    with jax.enable_x64(True):
        state = step.state()
        assert lies(state["w"], None, "model")
        total, state = jax.jit(step)(state, np.ones((8, 4)))
    assert float(total) == 8 * 4 * 6
    assert lies(state["w"], None, "model")
    np.testing.assert_array_equal(state["w"], np.full((4, 6), 2.0))


def test_an_argument_may_be_written_to_after_a_call() -> None:
    x = gt.matrix("x", sharding=("data", None))
    f = graphc.function([x], [x, x + 0], mode=MODE)
    # Such memory is a processor's array as it is.
    memory = np.empty(8 * 1024 * 8 + 64, np.uint8)
    start = -memory.ctypes.data % 64
    value = memory[start : start + 8 * 1024 * 8].view("float64").reshape(8, 1024)
    value[:] = 1
    found = f(value)
    value[:] = 2
    for y in found:
        assert np.asarray(y).max() == 1


def test_verification_and_profiles_run_over_a_mesh() -> None:
    x = gt.matrix("x", sharding=("data", None))
    f = graphc.function([x], gt.shard(gt.exp(x), ("data", "model")).sum(), mode=MODE)
    assert f.verify(normal(8, 4))
    assert "exp" in str(f.profile(normal(8, 4), repeat=1))
