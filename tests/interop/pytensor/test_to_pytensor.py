"""graphc's graphs as operations of PyTensor, on each of its linkers."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.sparse
from pytensor.compile.mode import Mode as PytensorMode
from pytensor.gradient import DisconnectedInputError, NullTypeGradError, verify_grad
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.blockwise import Blockwise

import graphc
import graphc.tensor as gt
from graphc import implicit
from graphc.attention import create_block_mask, flex_attention
from graphc.errors import (
    ArgumentError,
    CheckError,
    DTypeError,
    MaterializeError,
    ModeError,
    RuntimeShapeError,
    ShapeError,
    UnusedInputError,
)
from graphc.interop.pytensor import forks, from_pytensor, mode as graphc_mode, to_pytensor
from tests.interop.pytensor.graphs import recurrence
from tests.interop.pytensor.oracle import PYTHON

# What PyTensor deprecates in one version is missing in another.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

FAST_RUN = PytensorMode("vm", "fast_run")
"""All rewrites of PyTensor."""

random = np.random.default_rng(0)
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[Any]]] = {}
"""A graph of graphc, the same of PyTensor, and values of its inputs."""


def case(name: str, own: Callable[..., Any], theirs: Callable[..., Any], *values: Any) -> None:
    CASES[name] = own, theirs, [np.asarray(x) for x in values]


case(
    "elements",
    lambda x, w: (gt.exp(x) * w).sum(),
    lambda x, w: (pt.exp(x) * w).sum(),
    random.normal(size=3),
    2.0,
)
case(
    "solve",
    lambda a, b: gt.linalg.solve(a @ a.T + 3 * gt.eye(3), b),
    lambda a, b: pt.linalg.solve(a @ a.T + 3 * pt.eye(3), b),
    random.normal(size=(3, 3)),
    random.normal(size=3),
)
case(
    "scan",
    lambda x, a: graphc.scan(lambda now, last: a * gt.tanh(last) + now, x, gt.zeros(())),
    lambda x, a: recurrence(
        lambda now, last, a: a * pt.tanh(last) + now, x, pt.zeros(()), non_sequences=[a]
    ),
    random.normal(size=5),
    0.7,
)
case(
    "several",
    lambda x: [gt.logsumexp(x, axis=1), x.T * np.arange(12.0)[:2]],
    lambda x: [pt.logsumexp(x, axis=1), x.T * np.arange(12.0)[:2]],
    random.normal(size=(2, 4)),
)
case(
    "index",
    lambda x, i: [x[i] ** 2, gt.argmax(x), gt.sort(x)[::-1]],
    lambda x, i: [x[i] ** 2, pt.argmax(x), pt.sort(x)[::-1]],
    random.normal(size=4),
    np.array([2, 0, 2]),
)
case(
    "float32",
    lambda x: (gt.sin(x) * np.linspace(0.5, 1.5, 12).astype("float32")).sum(),
    lambda x: (pt.sin(x) * np.linspace(0.5, 1.5, 12).astype("float32")).sum(),
    random.normal(size=12).astype("float32"),
)


def variable(x: Any, like: Any) -> Any:
    return pt.tensor(x, dtype=like.dtype.name, shape=(None,) * like.ndim)


def listed(found: Any) -> list[Any]:
    return [*found] if isinstance(found, list | tuple) else [found]


def derived(outputs: list[Any], inputs: list[Any], second: bool) -> list[Any]:
    """Outputs with the gradients of their sum, and the gradients of these."""
    cost = sum((y * y).sum() for y in outputs if y.dtype.startswith("float"))
    xs = [x for x in inputs if x.dtype.startswith("float")]
    slopes = pt.grad(cost, xs)
    curvatures = pt.grad(sum((g * g).sum() for g in slopes), xs) if second else []
    return [*outputs, *slopes, *curvatures]


LINKERS: dict[str, Callable[[], Any]] = {
    "py": lambda: PYTHON,
    "vm": lambda: FAST_RUN,
    "JAX": lambda: "JAX",
    "graphc": lambda: graphc_mode("NUMPY"),
}
PLACES = [("py", "NUMPY"), ("py", "JAX"), ("py", "MLX"), ("vm", "NUMPY")]
PLACES += [("JAX", "NUMPY"), ("JAX", "JAX"), ("graphc", "NUMPY")]


def check(name: str, linker: Any, own: str) -> None:
    build, reference, values = CASES[name]
    arrays = [
        gt.tensor(f"x{i}", dtype=v.dtype.name, shape=(None,) * v.ndim) for i, v in enumerate(values)
    ]
    xs = [variable(f"x{i}", v) for i, v in enumerate(values)]
    found = to_pytensor(listed(build(*arrays)), dict(zip(arrays, xs, strict=True)), mode=own)
    wanted = listed(reference(*xs))
    assert [y.type.dtype for y in found] == [y.type.dtype for y in wanted]
    # Second derivatives of scans are wrong in some versions of PyTensor.
    second = name != "scan"
    f = pytensor.function(xs, derived(found, xs, second), mode=linker)
    g = pytensor.function(xs, derived(wanted, xs, second), mode=PYTHON)
    tolerance = 1e-4 if values[0].dtype == "float32" else 1e-9
    for y, expected in zip(f(*values), g(*values), strict=True):
        assert (np.dtype(y.dtype), y.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(y, expected, tolerance, tolerance)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("place", PLACES, ids="-".join)
def test_a_graph_has_the_values_and_derivatives_of_pytensors(
    name: str, place: tuple[str, str]
) -> None:
    check(name, LINKERS[place[0]](), place[1])


@pytest.mark.filterwarnings("ignore:Numba will use object mode")
@pytest.mark.parametrize(
    "name", ["elements", pytest.param("several", marks=pytest.mark.exhaustive)]
)
def test_numba_calls_it_in_object_mode(name: str) -> None:
    check(name, "NUMBA", "NUMPY")


def test_its_gradient_is_that_of_finite_differences(mode: str) -> None:
    x, w = gt.vector("x"), gt.scalar("w")
    y = gt.tanh(x * w) / (1 + x**2)
    verify_grad(
        lambda *given: to_pytensor(y, dict(zip([x, w], given, strict=True)), mode=mode),
        [np.array([0.1, -0.5]), np.array(2.0)],
        rng=np.random.default_rng(0),
        mode=PYTHON,
    )


def test_second_derivatives_of_a_scan_are_those_of_finite_differences() -> None:
    x, a = gt.vector("x"), gt.scalar("a")
    y = graphc.scan(lambda now, last: a * gt.tanh(last) + now, x, gt.zeros(()))

    def slope(p: Any, q: Any) -> Any:
        return pt.grad((to_pytensor(y, {x: p, a: q}, mode="NUMPY") ** 2).sum(), p)

    values = [np.array([0.5, -0.3, 0.8]), np.array(0.7)]
    verify_grad(slope, values, rng=np.random.default_rng(0), mode=PYTHON)


def test_its_tangents_are_those_of_pytensor() -> None:
    x, w, t = pt.vector("x"), pt.scalar("w"), pt.vector("t")
    a, b = gt.vector("a"), gt.scalar("b")
    y = to_pytensor(gt.tanh(a) * b, {a: x, b: w}, mode="NUMPY")
    push = getattr(pytensor.gradient, "pushforward", None)
    if push is None:
        found = pytensor.gradient.Rop(y, x, t, use_op_rop_implementation=True)
    else:
        found = push(y, x, t, use_op_pushforward=True)
    values = np.array([0.1, 0.2]), 2.0, np.array([1.0, -1.0])
    made = pytensor.function([x, w, t], found, mode=PYTHON)(*values)
    np.testing.assert_allclose(made, 2 * values[2] / np.cosh(values[0]) ** 2, 1e-12)


# Variables.


def test_inputs_are_the_same_variables_in_each_conversion_and_back() -> None:
    x = gt.matrix("x")
    p, q = to_pytensor([x, {"y": gt.exp(x)}], mode="NUMPY")
    assert to_pytensor(x) is p
    assert from_pytensor(p) is x
    assert (p.name, p.type.dtype, p.type.shape) == ("x", "float64", (None, None))
    assert from_pytensor(q["y"]) is gt.exp(x)
    z = pt.vector("z")
    assert to_pytensor(from_pytensor(z)) is z


def test_values_are_variables_numbers_and_arrays_in_the_place_of_any_part() -> None:
    x, a, n = gt.vector("x"), gt.scalar("a"), gt.scalar("n", dtype="int64")
    inner = gt.exp(x)
    given = {inner: pt.arange(3, dtype="float64"), a: 2, n: np.int32(1)}
    y = to_pytensor(inner * a + n, given, mode="NUMPY")
    assert y.eval().tolist() == [1.0, 3.0, 5.0]


def test_static_lengths_of_values_are_those_of_results() -> None:
    x = gt.matrix("x")
    y = to_pytensor(x @ x.T, {x: pt.tensor("p", shape=(3, None))}, mode="NUMPY")
    assert y.type.shape == (3, 3)


def test_lengths_are_known_without_computing_the_result() -> None:
    x, p = gt.matrix("x"), pt.matrix("p")
    y = to_pytensor(gt.exp(x) @ x.T, {x: p}, mode="NUMPY")
    f = pytensor.function([p], y.shape, mode=FAST_RUN)
    assert f(np.ones((2, 3))).tolist() == [2, 2]
    assert not operations(f)
    z = to_pytensor(x[x > 0], {x: p}, mode="NUMPY")
    assert pytensor.function([p], z.shape)([[1.0, -1.0]]).tolist() == [1]


def operations(f: Any) -> list[Any]:
    """graphc's operations in a compiled function."""
    return [node for node in f.maker.fgraph.toposort() if str(node.op).startswith("graphc(")]


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda x: to_pytensor(x * 2, {x: pt.fvector("p")}), DTypeError, r"p: float32.*given for"),
        (lambda x: to_pytensor(x * 2, {x: pt.matrix("p")}), ShapeError, "another shape"),
        (lambda x: to_pytensor(x * 2, {x: np.array([1j])}), DTypeError, "complex128"),
        (
            lambda x: to_pytensor(x * 2, {x: np.ma.masked_array([1.0], [True])}),
            ArgumentError,
            "masked array",
        ),
        (lambda x: to_pytensor(x * 2, {x: gt.exp(x)}), ArgumentError, "clone_replace"),
        (lambda x: to_pytensor(x * 2, {pt.vector(): x}), ArgumentError, "is no input"),
        (lambda x: to_pytensor(x * 2, {gt.vector("z"): 1.0}), UnusedInputError, "z: float64"),
        (lambda x: to_pytensor(graphc.function([x], x)), ArgumentError, "before it is compiled"),
        (lambda x: to_pytensor(x, shared="both"), ArgumentError, "linked"),
        (lambda x: to_pytensor(x.astype("bfloat16") * 2, mode="JAX"), DTypeError, "bfloat16"),
        (lambda x: to_pytensor(graphc.xtensor.as_xtensor(x, "i")), ArgumentError, r"\.values"),
        (
            lambda x: to_pytensor(
                graphc.random.normal(rng=(key := gt.random.rng("key"))),
                {key: pt.random.type.random_generator_type()},
            ),
            ArgumentError,
            "Give a variable of dense arrays",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_users_line(
    build: Callable[..., Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text) as caught:
        build(gt.vector("x"))
    assert Path(__file__).name in str(caught.value)


# State.


@pytest.mark.parametrize("linker", ["py", "JAX"])
def test_a_shared_variable_has_one_value_in_both_libraries(linker: str) -> None:
    x, w = gt.vector("x"), graphc.shared(2.0, name="w")
    before = graphc.function([x], x * w, updates={w: w + 1}, mode="JAX", returns="numpy")
    p, v, y = to_pytensor([x, w, (x * w).sum()], mode="JAX")
    f = pytensor.function([p], [y, pt.grad(y, v)], mode=LINKERS[linker]())
    assert [float(value) for value in f([1.0, 2.0])] == [6.0, 3.0]
    assert before([1.0]).tolist() == [2.0]
    assert (float(v.get_value()), float(f([1.0])[0])) == (3.0, 3.0)
    v.set_value(np.array(10.0))
    assert (float(w.get_value()), float(f([1.0])[0])) == (10.0, 10.0)
    w.set_value(4.0)
    assert float(f([1.0])[0]) == 4.0
    pytensor.function([], [], updates={v: v * 2})()
    assert before([1.0]).tolist() == [8.0]


def test_a_shared_variable_stays_linked_when_pytensors_is_gone() -> None:
    w = graphc.shared(2.0, name="w")
    f = pytensor.function([], to_pytensor(w * 2, mode="NUMPY"))
    known = to_pytensor(w)
    known.set_value(np.array(5.0))
    del known
    assert float(f()) == 10.0
    assert float(to_pytensor(w).get_value()) == 5.0


def test_a_copied_shared_variable_keeps_its_own_value() -> None:
    w = graphc.shared(2.0, name="w")
    v, y = to_pytensor([w, w * 2], shared="copied", mode="NUMPY")
    v.set_value(np.array(5.0))
    assert (float(w.get_value()), float(y.eval())) == (2.0, 10.0)


def test_the_key_of_a_stream_advances_as_graphcs_does() -> None:
    own, other = (gt.random.RandomStream(seed=3).normal(size=2) for _ in range(2))
    f = pytensor.function([], to_pytensor(own, mode="NUMPY"))
    g = graphc.function([], other, mode="NUMPY")
    for _ in range(3):
        np.testing.assert_array_equal(f(), g())


def test_a_key_is_an_input_like_others() -> None:
    key = gt.random.rng("key")
    p, y = to_pytensor([key, gt.random.normal(rng=key, size=2)], mode="NUMPY")
    value = gt.random.key(5).eval(mode="NUMPY")
    found = pytensor.function([p], y)(value)
    assert np.array_equal(found, gt.random.normal(rng=gt.random.key(5), size=2).eval(mode="NUMPY"))


# Derivatives that do not exist.


def test_what_has_no_derivative_is_disconnected() -> None:
    x, i = gt.vector("x"), gt.scalar("i", dtype="int64")
    p, q, y, z = to_pytensor([x, i, x[i] ** 2, graphc.disconnected_grad(x).sum()], mode="NUMPY")
    assert y.owner.op.connection_pattern(y.owner) == [[True, False], [False, False]]
    (slope,) = pytensor.function([p, q], pt.grad(y, [p]))([1.0, 2.0], 1)
    assert slope.tolist() == [0.0, 4.0]
    with pytest.raises(DisconnectedInputError):
        pt.grad(z, p)


def test_a_missing_derivative_is_an_error_where_it_is_asked_for_alone() -> None:
    @graphc.wrap_py(itypes=gt.dvector, otypes=gt.dvector, infer_shape=lambda shape: shape)
    def halved(x: Any) -> Any:
        return x / 2

    x, w = gt.vector("x"), gt.scalar("w")
    p, q, y = to_pytensor([x, w, (halved(x) * w).sum()], mode="NUMPY")
    assert float(pytensor.function([p, q], pt.grad(y, q))([2.0, 4.0], 3.0)) == 3.0
    with pytest.raises(NullTypeGradError, match="halved"):
        pt.grad(y, p)


# What PyTensor makes of it.


def test_equal_graphs_are_one_operation_and_other_arrays_another() -> None:
    p, data = pt.vector("p"), np.arange(12.0)

    def build(values: Any) -> Any:
        x = gt.vector("x")
        return to_pytensor((gt.exp(x) * values).sum(), {x: p}, mode="NUMPY")

    one, same, other = build(data), build(data), build(data + 1)
    assert one.owner.op == same.owner.op
    assert hash(one.owner.op) == hash(same.owner.op)
    assert one.owner.op != other.owner.op
    f = pytensor.function([p], [one, same, other], mode=PytensorMode("py", "fast_compile"))
    assert len(operations(f)) == 2
    assert float(f(np.zeros(12))[2]) == data.sum() + 12


def test_a_captured_array_has_the_values_of_when_a_function_is_compiled() -> None:
    data, x, p = np.ones(12), gt.vector("x"), pt.vector("p")
    f, again = (to_pytensor((x * data).sum(), {x: p}, mode="NUMPY") for _ in range(2))
    assert float(f.eval({p: np.ones(12)})) == 12.0
    data[:] = 2
    assert float(again.eval({p: np.ones(12)})) == 24.0


def test_gradients_that_nothing_needs_are_not_computed() -> None:
    x, w = gt.vector("x"), gt.vector("w")
    p, v, y = to_pytensor([x, w, (gt.exp(x) * w).sum()], mode="NUMPY")
    f = pytensor.function([p, v], pt.grad(y, v), mode=FAST_RUN)
    (node,) = operations(f)
    assert len(node.outputs) == 1
    assert f([0.0, 0.0], [2.0, 3.0]).tolist() == [1.0, 1.0]


def test_a_value_and_its_gradient_are_one_operation() -> None:
    x, p = gt.vector("x"), pt.vector("p")
    y = to_pytensor((gt.exp(x) ** 2).sum(), {x: p * 2}, mode="NUMPY")
    f = pytensor.function([p], [y, pt.grad(y, p)], mode=FAST_RUN)
    assert len(operations(f)) == 1
    np.testing.assert_allclose(f([0.5])[1], [4 * np.e**2], 1e-12)
    # A gradient of the value's own function needs the value first.
    g = pytensor.function([p], [y, pt.grad(y**2, p)], mode=FAST_RUN)
    assert len(operations(g)) == 2
    np.testing.assert_allclose(g([0.5])[1], [8 * np.e**4], 1e-12)


@pytest.mark.parametrize("linker", ["py", "vm", "JAX", "graphc"])
def test_a_batch_is_one_operation(linker: str) -> None:
    x, w = gt.vector("x"), gt.scalar("w")
    p, v, y = to_pytensor([x, w, (gt.exp(x) * w).sum()], mode="NUMPY")
    rows, row = pt.matrix("rows"), pt.vector("row")
    ys, slopes = vectorize_graph([y, pt.grad(y, p)], {p: rows, v: row})
    outputs = [ys, slopes, pt.grad((ys**2).sum(), row)]
    f = pytensor.function([rows, row], outputs, mode=LINKERS[linker]())
    data, factors = random.normal(size=(4, 3)), np.arange(4.0)
    e = np.exp(data)
    wanted = [e.sum(1) * factors, e * factors[:, None], 2 * e.sum(1) ** 2 * factors]
    for found, expected in zip(f(data, factors), wanted, strict=True):
        np.testing.assert_allclose(found, expected, 1e-12)
    if linker == "vm":
        assert not [x for x in f.maker.fgraph.apply_nodes if isinstance(x.op, Blockwise)]
        assert len(operations(f)) == 2


def test_it_is_pickled_and_copied_with_the_arrays_that_it_captures() -> None:
    x, p = gt.vector("x"), pt.vector("p")
    y = to_pytensor((x * np.arange(12.0)).sum(), {x: p}, mode="NUMPY")
    f = pytensor.function([p], [y, pt.grad(y, p)], mode=PYTHON)
    for made in (pickle.loads(pickle.dumps(f)), copy.deepcopy(f)):
        found, slope = made(np.ones(12))
        assert (float(found), slope.tolist()) == (66.0, list(range(12)))
    assert copy.deepcopy(y.owner.op) is y.owner.op


LOAD = """
import pickle, sys
x, y = pickle.loads(bytes.fromhex(sys.argv[1]))
import pytensor
f = pytensor.function([x], [y, pytensor.grad(y, x)], mode=pytensor.compile.mode.Mode("py"))
kinds = [type(node.op).__name__ for node in f.maker.fgraph.apply_nodes]
print(f([1.0, 2.0])[1], kinds.count("GraphcOp"))
"""


def test_an_operation_that_another_process_unpickles_is_rewritten_there() -> None:
    x, p = gt.vector("x"), pt.vector("p")
    data = pickle.dumps((p, to_pytensor((x**3).sum(), {x: p}, mode="NUMPY")))
    command = [sys.executable, "-c", LOAD, data.hex()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[", "3.", "12.]", "1"]


# Errors while it runs.


def test_an_error_names_the_line_of_graphcs_graph(mode: str) -> None:
    x, b = gt.vector("x"), gt.vector("b")
    y = x + b
    p, q, z = to_pytensor([x, b, y], mode=mode)
    f = pytensor.function([p, q], z, mode=PYTHON)
    with pytest.raises(RuntimeShapeError, match=r"x \+ b") as caught:
        f([1.0, 2.0], [1.0, 2.0, 3.0])
    assert Path(__file__).name in str(caught.value)


def test_a_failing_check_raises_and_pytensors_jax_warns_that_it_has_none() -> None:
    x, p = gt.vector("x"), pt.vector("p")
    y = to_pytensor(graphc.Assert("not positive")(x, gt.all(x > 0)), {x: p}, mode="NUMPY")
    with pytest.raises(CheckError, match="not positive"):
        pytensor.function([p], y)([-1.0])
    f = pytensor.function([p], y, mode="JAX")
    with pytest.warns(UserWarning, match="checks conditions"):
        f([-1.0])


def test_a_forked_process_is_refused_where_the_library_would_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, p = gt.vector("x"), pt.vector("p")
    on_jax, on_host = (
        pytensor.function([p], to_pytensor(x * 2, {x: p}, mode=mode)) for mode in ("JAX", "NUMPY")
    )
    assert on_jax([1.0]).tolist() == on_host([1.0]).tolist() == [2.0]
    monkeypatch.setattr(forks, "_forks", -1)  # as in another process
    assert on_host([1.0]).tolist() == [2.0]
    with pytest.raises(ModeError, match=r"mp_ctx=.forkserver"):
        on_jax([1.0])


# What else a graph may hold.


@pytest.mark.parametrize("linker", ["py", "JAX", "graphc"])
def test_implicit_arrays_stay_implicit(linker: str) -> None:
    dense = np.where(abs(values := random.normal(size=(6, 4))) > 1, values, 0)
    sparse = implicit.CSR.from_scipy(scipy.sparse.csr_array(dense))
    x, p = gt.vector("x"), pt.vector("p")
    with implicit.materializing("error"):
        y = to_pytensor(gt.tanh(gt.as_tensor(sparse) @ x), {x: p}, mode="NUMPY")
        f = pytensor.function([p], [y, pt.grad(y.sum(), p)], mode=LINKERS[linker]())
        found, slope = f(np.arange(4.0))
    np.testing.assert_allclose(found, np.tanh(dense @ np.arange(4.0)), 1e-12)
    np.testing.assert_allclose(slope, dense.T @ (1 - np.asarray(found) ** 2), 1e-12)


def test_a_shared_implicit_array_is_shared_field_by_field() -> None:
    u, v = random.normal(size=(4, 2)), random.normal(size=(2, 3))
    w = graphc.shared(implicit.LowRank(u, v), name="w")
    x, p = gt.vector("x"), pt.vector("p")
    y, whole = to_pytensor([w @ x, w * 2], {x: p}, mode="NUMPY")
    w.set_value(implicit.LowRank(2 * u, v))
    f = pytensor.function([p], [y, whole])
    found, doubled = f(np.ones(3))
    np.testing.assert_allclose(found, 2 * u @ v.sum(1), 1e-12)
    np.testing.assert_allclose(doubled, 4 * u @ v, 1e-12)
    with implicit.materializing("error"), pytest.raises(MaterializeError, match="to_pytensor"):
        to_pytensor(w * 2)
    with pytest.raises(ArgumentError, match="values of its fields"):
        to_pytensor(w @ x, {w: pt.matrix()})


@pytest.mark.parametrize("linker", ["py", pytest.param("JAX", marks=pytest.mark.exhaustive)])
def test_attention_with_a_captured_bias_and_a_mask(linker: str) -> None:
    shape, bias = (1, 2, 8, 4), gt.as_tensor(random.normal(size=8))
    q, k, v = (gt.tensor(name, shape=shape) for name in "qkv")
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 8, 8, BLOCK_SIZE=4)
    y = flex_attention(q, k, v, lambda score, b, h, i, j: score + bias[j], block_mask=mask)
    a, b, c, found = to_pytensor([q, k, v, y], mode="NUMPY")
    scores = pt.matmul(a, b.swapaxes(-1, -2)) / 2 + bias.eval(mode="NUMPY")
    scores = pt.where(np.tril(np.ones((8, 8), bool)), scores, -np.inf)
    wanted = pt.matmul(pt.special.softmax(scores, axis=-1), c)
    values = [random.normal(size=shape) for _ in range(3)]
    pairs = [
        pytensor.function([a, b, c], [y, *pt.grad((y**2).sum(), [a, b, c])], mode=m)(*values)
        for y, m in ((found, LINKERS[linker]()), (wanted, PYTHON))
    ]
    for one, other in zip(*pairs, strict=True):
        np.testing.assert_allclose(one, other, 1e-9, 1e-9)


@pytest.mark.parametrize("linker", ["py", "JAX"])
def test_it_stands_in_the_step_of_pytensors_scan(linker: str) -> None:
    x = gt.scalar("x")
    last = recurrence(
        lambda now, before: to_pytensor(gt.tanh(x), {x: before}, mode="NUMPY") + now,
        rows := pt.vector("rows", shape=(3,)),
        pt.zeros(()),
    )[-1]
    f = pytensor.function([rows], [last, pt.grad(last, rows)], mode=LINKERS[linker]())
    found, slope = f([0.5, 0.1, 0.2])
    one, two = 0.5, np.tanh(0.5) + 0.1
    np.testing.assert_allclose(found, np.tanh(two) + 0.2, 1e-12)
    by_two = 1 - np.tanh(two) ** 2
    np.testing.assert_allclose(slope, [by_two * (1 - np.tanh(one) ** 2), by_two, 1], 1e-12)
