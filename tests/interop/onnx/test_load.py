"""ONNX models as graphs: the results of onnxruntime, on every backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, ShapeError
from graphc.interop.onnx import load
from graphc.ir import toposort
from graphc.link import as_numpy
from tests.interop.onnx.models import BACKENDS, by_onnxruntime, normal, parsed, with_initializers


@dataclass
class Case:
    """A model, and the arrays that it is called with."""

    model: Any
    feeds: Mapping[str, Any]


CASES: dict[str, Callable[[], Case]] = {}


def case(function: Callable[[], Case]) -> Callable[[], Case]:
    CASES[function.__name__] = function
    return function


@case
def heads_split_by_computed_shapes() -> Case:
    """What PyTorch exports of x.view(batch, length, heads, -1).transpose(1, 2)."""
    text = """
    main (float[n, m, 8] x) => (float[n, 2, m, m] y)
    <int64 zero = {0}, int64 one = {1}, int64[1] two = {2}, int64[1] rest = {-1}, float s = {0.5}>
    {
      shape = Shape(x)
      n = Gather(shape, zero)
      m = Gather(shape, one)
      axis = Constant <value_ints = [0]> ()
      n1 = Unsqueeze(n, axis)
      m1 = Unsqueeze(m, axis)
      wanted = Concat <axis = 0> (n1, m1, two, rest)
      split = Reshape(x, wanted)
      q = Transpose <perm = [0, 2, 1, 3]> (split)
      k = Transpose <perm = [0, 2, 3, 1]> (split)
      scores = MatMul(q, k)
      scaled = Mul(scores, s)
      y = Softmax <axis = -1> (scaled)
    }"""
    return Case(parsed(text), {"x": normal(3, 5, 8)})


@case
def expand_by_a_computed_choice() -> Case:
    """What PyTorch exports of x.expand(n, -1, 4): lengths of -1 are replaced by 1."""
    text = """
    main (float[n, 3, 1] x) => (float[n, 3, 4] y)
    <int64[1] three = {3}, int64[1] minus = {-1}, int64[1] four = {4}>
    {
      n = Shape <start = 0, end = 1> (x)
      wanted = Concat <axis = 0> (n, minus, four)
      count = Constant <value_ints = [3]> ()
      ones = ConstantOfShape <value = int64[1] {1}> (count)
      open = Equal(wanted, minus)
      lengths = Where(open, ones, wanted)
      y = Expand(x, lengths)
    }"""
    return Case(parsed(text), {"x": normal(2, 3, 1)})


@case
def half_of_a_length() -> Case:
    text = """
    main (float[n, 6] x) => (float[k, 6] y, float[n, 6] z, int64[n] places)
    <int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64[1] begin = {0}, int64[1] axis = {0}>
    {
      shape = Shape(x)
      n = Gather(shape, zero)
      half = Div(n, two)
      end = Unsqueeze(half, axis)
      y = Slice(x, begin, end, axis)
      none = ConstantOfShape <value = float[1] {1.5}> (shape)
      z = Sub(x, none)
      places = Range(zero, n, one)
    }"""
    return Case(parsed(text), {"x": normal(5, 6)})


@case
def convolutions_with_strides_and_groups() -> Case:
    text = """
    main (float[n, 4, 9, 8] x) => (float[n, 6, a, b] y, float[n, 4, c, d] z, float[n, 2, e, f] u)
    {
      y = Conv <strides = [2, 3], pads = [1, 0, 2, 1], dilations = [2, 1]> (x, w, b)
      z = Conv <group = 4, auto_pad = "SAME_UPPER", strides = [2, 2]> (x, v)
      u = ConvTranspose <strides = [2, 2], output_padding = [1, 0], pads = [0, 1, 1, 0]> (x, t)
    }"""
    model = with_initializers(
        parsed(text),
        w=normal(6, 4, 3, 2, seed=1),
        b=normal(6, seed=2),
        v=normal(4, 1, 3, 3, seed=3),
        t=normal(4, 2, 3, 2, seed=4),
    )
    return Case(model, {"x": normal(2, 4, 9, 8)})


@case
def pooling() -> Case:
    text = """
    main (float[n, 3, 8, 7] x) => (float[n, 3, a, b] y, float[n, 3, c, d] z, float[n, 3, 1, 1] u)
    {
      y = MaxPool <kernel_shape = [3, 2], strides = [2, 2], ceil_mode = 1> (x)
      z = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)
      u = GlobalAveragePool(x)
    }"""
    return Case(parsed(text), {"x": normal(2, 3, 8, 7)})


@case
def layer_of_a_transformer_in_another_domain() -> Case:
    text = """
    main (float[n, m, 8] x) => (float[n, m, 8] y)
    {
      h, mean, inverse = LayerNormalization <axis = -1> (x, scale, bias)
      g = com.microsoft.Gelu(h)
      q = com.microsoft.FusedMatMul <alpha = 0.5, transB = 1> (g, w)
      y = Add(q, x)
    }"""
    model = with_initializers(
        parsed(text, more=', "com.microsoft" : 1'),
        scale=normal(8, seed=1),
        bias=normal(8, seed=2),
        w=normal(8, 8, seed=3),
    )
    return Case(model, {"x": normal(2, 3, 8)})


def recurrent(operator: str, gates: int, **attributes: Any) -> Case:
    """A layer of 2 directions, with lengths of sequences."""
    n = 4
    node = helper.make_node(
        operator, ["x", "w", "r", "b", "counts"], ["y", "last"], hidden_size=n, **attributes
    )
    known = {
        "w": normal(2, gates * n, 3, seed=1),
        "r": normal(2, gates * n, n, seed=2),
        "b": normal(2, 2 * gates * n, seed=3),
    }
    given = [
        helper.make_tensor_value_info("x", 1, ["t", "n", 3]),
        helper.make_tensor_value_info("counts", 6, ["n"]),
    ]
    results = [helper.make_tensor_value_info(name, 1, None) for name in ("y", "last")]
    graph = helper.make_graph([node], "main", given, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    feeds = {"x": normal(6, 3, 3), "counts": np.array([6, 2, 4], "int32")}
    return Case(with_initializers(model, **known), feeds)


@case
def lstm_of_sequences() -> Case:
    return recurrent("LSTM", 4, direction="bidirectional")


@case
def gru_of_sequences() -> Case:
    return recurrent("GRU", 3, direction="bidirectional", linear_before_reset=1)


@case
def loop_of_a_trip_count_that_is_an_input() -> Case:
    text = """
    main (int64 count, float[3] x) => (float[3] last, float[k, 3] rows)
    <bool yes = {1}>
    {
      last, rows = Loop (count, yes, x) <body =
        step (int64 i, bool goes_on, float[3] h) => (bool again, float[3] next, float[3] row)
        {
          again = Identity(goes_on)
          f = Cast <to = 1> (i)
          moved = Add(h, f)
          next = Tanh(moved)
          row = Add(next, x)
        }>
    }"""
    return Case(parsed(text), {"count": np.array(4), "x": normal(3)})


@case
def loop_that_ends_early() -> Case:
    text = """
    main (float x) => (float last, float[k] rows)
    <int64 most = {20}, bool yes = {1}, float bound = {50.0}, float two = {2.0}>
    {
      last, rows = Loop (most, yes, x) <body =
        step (int64 i, bool goes_on, float h) => (bool again, float next, float row)
        {
          next = Mul(h, two)
          again = Less(next, bound)
          row = Neg(next)
        }>
    }"""
    return Case(parsed(text), {"x": np.array(1.5, "float32")})


@case
def loop_without_a_trip_count() -> Case:
    text = """
    main (int64 x) => (int64 last)
    <bool yes = {1}, int64 three = {3}, int64 bound = {100}>
    {
      last = Loop (, yes, x) <body =
        step (int64 i, bool goes_on, int64 h) => (bool again, int64 next)
        {
          next = Mul(h, three)
          again = Less(next, bound)
        }>
    }"""
    return Case(parsed(text), {"x": np.array(2)})


@case
def scan_in_two_directions() -> Case:
    text = """
    main (float[2] h, float[t, 2] x) => (float[2] last, float[t, 2] y, float[2, t] z)
    {
      last, y, z = Scan <num_scan_inputs = 1, scan_input_directions = [1],
          scan_output_directions = [1, 0], scan_output_axes = [0, 1], body =
        step (float[2] a, float[2] b) => (float[2] next, float[2] u, float[2] v)
        {
          c = Mul(a, b)
          next = Sin(c)
          u = Identity(next)
          v = Neg(a)
        }> (h, x)
    }"""
    return Case(parsed(text), {"h": normal(2), "x": normal(5, 2)})


@case
def branch_that_sees_what_is_around_it() -> Case:
    text = """
    main (bool which, float[n] x) => (float[n] y)
    {
      z = Exp(x)
      y = If (which) <
        then_branch = yes () => (float[n] a) { a = Add(z, x) },
        else_branch = no () => (float[n] b) { b = Neg(z) }>
    }"""
    return Case(parsed(text), {"which": np.array(False), "x": normal(4)})


@case
def function_with_an_attribute() -> Case:
    text = """
    main (float[n] x) => (float[n] y)
    {
      a = local.twice <alpha = 0.3> (x)
      y = local.twice (a)
    }
    <domain: "local", opset_import: ["" : 17]>
    leaky <alpha> (x) => (y) { y = LeakyRelu <alpha: float = @alpha> (x) }
    <domain: "local", opset_import: ["" : 17, "local" : 1]>
    twice <alpha: float = 0.2> (x) => (y)
    {
      half = local.leaky <alpha: float = @alpha> (x)
      y = Neg(half)
    }"""
    return Case(parsed(text, more=', "local" : 1'), {"x": normal(5)})


@case
def rows_gathered_and_scattered() -> Case:
    text = """
    main (float[n, 3] x, int64[k] places, float[k, 3] u) => (float[n, 3] y, float[k, 3] z)
    <int64[1] axis = {1}>
    {
      z = Gather(x, places)
      index = Unsqueeze(places, axis)
      y = ScatterND <reduction = "max"> (x, index, u)
    }"""
    feeds = {"x": normal(4, 3), "places": np.array([2, 0, 2]), "u": normal(3, 3, seed=1)}
    return Case(parsed(text, opset=18), feeds)


@case
def quantised_weights() -> Case:
    text = """
    main (float[n, 8] x) => (float[n, 6] y, uint8[n, 6] q)
    <uint8 zero = {7}, float step = {0.05}>
    {
      w = DequantizeLinear <axis = 1> (codes, scales, zeros)
      y = MatMul(x, w)
      q = QuantizeLinear(y, step, zero)
    }"""
    codes = np.random.default_rng(0).integers(-128, 128, (8, 6)).astype("int8")
    model = with_initializers(
        parsed(text),
        codes=codes,
        scales=np.linspace(0.01, 0.02, 6, dtype="float32"),
        zeros=np.arange(6).astype("int8"),
    )
    return Case(model, {"x": normal(4, 8)})


@case
def products_with_packed_codes() -> Case:
    text = """
    main (float[n, 64] x) => (float[n, 16] y)
    {
      y = com.microsoft.MatMulNBits <K = 64, N = 16, bits = 4, block_size = 32> (x, w, s, z)
    }"""
    rng = np.random.default_rng(0)
    model = with_initializers(
        parsed(text, more=', "com.microsoft" : 1'),
        w=rng.integers(0, 256, (16, 2, 16)).astype("uint8"),
        s=rng.uniform(0.01, 0.02, 32).astype("float32"),
        z=rng.integers(0, 256, 16).astype("uint8"),
    )
    return Case(model, {"x": normal(3, 64)})


@case
def trees() -> Case:
    """Two trees of scikit-learn's shape: less or equal goes to the left."""
    attributes = {
        "nodes_treeids": [0, 0, 0, 1, 1, 1, 1, 1],
        "nodes_nodeids": [0, 1, 2, 0, 1, 2, 3, 4],
        "nodes_featureids": [0, 0, 0, 1, 0, 2, 0, 0],
        "nodes_values": [0.1, 0.0, 0.0, -0.2, 0.0, 0.3, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ" if inner else "LEAF" for inner in (1, 0, 0, 1, 0, 1, 0, 0)],
        "nodes_truenodeids": [1, 0, 0, 1, 0, 3, 0, 0],
        "nodes_falsenodeids": [2, 0, 0, 2, 0, 4, 0, 0],
        "target_treeids": [0, 0, 1, 1, 1],
        "target_nodeids": [1, 2, 1, 3, 4],
        "target_ids": [0, 0, 0, 0, 0],
        "target_weights": [1.0, 2.0, 0.25, 0.5, 0.75],
    }
    domain = "ai.onnx.ml"
    nodes = [
        helper.make_node("Scaler", ["x"], ["s"], domain=domain, offset=[0.1], scale=[2.0]),
        helper.make_node(
            "TreeEnsembleRegressor", ["s"], ["y"], domain=domain, n_targets=1, **attributes
        ),
        helper.make_node(
            "LinearClassifier",
            ["s"],
            ["label", "p"],
            domain=domain,
            classlabels_ints=[3, 5, 8],
            coefficients=normal(9, seed=1).tolist(),
            intercepts=[0.1, 0.2, 0.3],
            post_transform="SOFTMAX",
        ),
    ]
    results = [
        helper.make_tensor_value_info("y", 1, ["n", 1]),
        helper.make_tensor_value_info("label", 7, ["n"]),
        helper.make_tensor_value_info("p", 1, ["n", 3]),
    ]
    given = [helper.make_tensor_value_info("x", 1, ["n", 3])]
    graph = helper.make_graph(nodes, "main", given, results)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return Case(model, {"x": normal(7, 3)})


@case
def attributes_of_opset_9() -> Case:
    """Axes, bounds and lengths were attributes then, and a softmax went over all last axes."""
    text = """
    main (float[n, 2, 3] x) => (float[n, 1, 4] a, float[n, 2, 3] b, float[n, 2, 2] c,
                                float[n, 2, 6] d, float[n, 2, 2] values, int64[n, 2, 2] places)
    <float[3] scales = {1.0, 1.0, 2.0}>
    {
      b = Softmax(x)
      d = Upsample <mode = "nearest"> (x, scales)
      sliced = Slice <axes = [2], starts = [1], ends = [2147483647]> (x)
      c = Clip <min = -0.5, max = 0.5> (sliced)
      values, places = TopK <k = 2> (x)
      total = ReduceSum <axes = [1, 2], keepdims = 0> (x)
      row = Unsqueeze <axes = [1, 2]> (total)
      wide = Pad <pads = [0, 0, 1, 0, 0, 2], value = 1.5> (row)
      left, right = Split <axis = 2, split = [1, 3]> (wide)
      a = Concat <axis = 2> (right, left)
    }"""
    return Case(parsed(text, opset=9), {"x": normal(2, 2, 3)})


@case
def resampled_images() -> Case:
    text = """
    main (float[n, 1, 6, 5] x) => (float[n, 1, 9, 5] a, float[n, 1, 12, 10] b, float[n, 1, 4, 3] c)
    <float[4] up = {1.0, 1.0, 1.5, 1.0}, float[4] twice = {1.0, 1.0, 2.0, 2.0}>
    {
      a = Resize <mode = "nearest", nearest_mode = "floor"> (x, , up)
      b = Resize <mode = "cubic", coordinate_transformation_mode = "align_corners"> (x, , twice)
      n = Shape <end = 2> (x)
      wanted = Concat <axis = 0> (n, small)
      c = Resize <mode = "linear"> (x, , , wanted)
    }"""
    model = with_initializers(parsed(text), small=np.array([4, 3]))
    return Case(model, {"x": normal(2, 1, 6, 5)})


@pytest.mark.parametrize("mode", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_a_model_computes_what_onnxruntime_does(name: str, mode: str) -> None:
    made = CASES[name]()
    wanted = by_onnxruntime(made.model, made.feeds)
    found = load(made.model, mode=mode)(**made.feeds)
    assert [*found] == [*wanted]
    for result, y in wanted.items():
        value = as_numpy(found[result])
        assert (value.dtype, value.shape) == (y.dtype, y.shape)
        if result == "q":  # a number in the middle of two may be rounded to either
            assert abs(value.astype(int) - y).max() <= 1
        else:
            np.testing.assert_allclose(value, y, rtol=2e-4, atol=2e-5)


def test_nothing_computes_shapes_once_a_model_is_loaded() -> None:
    made = heads_split_by_computed_shapes()
    (y,) = load(made.model).outputs.values()
    integers = {
        node.op.name for node in toposort([y]) if getattr(node.type, "dtype", "") == "int64"
    }
    assert integers == {"length"}


# Training, sharing, and what the model says.

DENSE = "main (float[n, 3] x) => (float[n, 2] y) { p = MatMul(x, w)  q = Add(p, b)  y = Tanh(q) }"


def dense() -> Any:
    return with_initializers(parsed(DENSE), w=normal(3, 2, seed=1), b=normal(2, seed=2))


def test_initializers_become_shared_variables_and_are_trained() -> None:
    model = load(dense(), mode="NUMPY", shared=True)
    assert [*model.shared] == ["w", "b"]
    y = model.outputs["y"]
    loss = (y**2).mean()
    updates = [(w, w - 0.5 * graphc.grad(loss, w)) for w in model.shared.values()]
    step = graphc.function([model.inputs["x"]], loss, updates=updates, mode="NUMPY")
    x = normal(8, 3)
    losses = [float(step(x)) for _ in range(30)]
    assert losses[-1] < 0.1 * losses[0]
    assert (model.get_value("b") != normal(2, seed=2)).all()


def test_gradients_are_those_of_finite_differences() -> None:
    model = load(dense(), shared=["w"])
    w, x = model.shared["w"], model.inputs["x"]
    assert not isinstance(model.initializers["b"], graphc.Shared)
    f = graphc.function([x], graphc.grad(model.outputs["y"].sum(), w), mode="NUMPY")
    at, given = normal(3, 2, seed=1).astype(float), normal(4, 3).astype(float)
    bias = normal(2, seed=2)

    def total(w: Any) -> float:
        return float(np.tanh(given @ w + bias).sum())

    wanted = np.empty_like(at)
    for place in np.ndindex(*at.shape):
        moved = np.zeros_like(at)
        moved[place] = 1e-6
        wanted[place] = (total(at + moved) - total(at - moved)) / 2e-6
    np.testing.assert_allclose(f(given.astype("float32")), wanted, rtol=1e-4)


def test_a_model_says_its_names_and_lengths() -> None:
    proto = dense()
    proto.producer_name = "tests"
    model = load(proto)
    assert repr(model) == "main: (x: float32[n, 3]) -> (y: float32[n, 2])"
    assert model.shapes == {"x": ["n", 3], "y": ["n", 2]}
    assert model.metadata == {"producer": "tests"}
    assert [*model.initializers] == ["w", "b"]
    np.testing.assert_array_equal(model.get_value("w"), normal(3, 2, seed=1))


def test_values_of_initializers_are_set_where_they_are_shared() -> None:
    model = load(dense(), mode="NUMPY", shared=["b"])
    model.set_value("b", np.zeros(2, "float32"))
    x = normal(2, 3)
    np.testing.assert_allclose(model(x)["y"], np.tanh(x @ normal(3, 2, seed=1)), rtol=1e-5)
    with pytest.raises(ArgumentError, match=r"w is no shared variable.*\n.*shared=\['w'\]"):
        model.set_value("w", normal(3, 2))
    with pytest.raises(ArgumentError, match="uses no initializer 'v'"):
        model.get_value("v")


def test_an_input_stands_for_a_more_precise_type_or_for_numbers() -> None:
    text = "main (float[n] x, int64[k] shape) => (float[a, b] y) { y = Reshape(x, shape) }"
    x = gt.tensor("x", dtype="float32", shape=(6,))
    model = load(parsed(text), mode="NUMPY", givens={"x": x, "shape": [3, -1]})
    assert model.outputs["y"].type.shape == (3, 2)
    assert not model.inputs
    with pytest.raises(ShapeError, match="6 elements"):
        load(parsed(text), givens={"x": x, "shape": [4, -1]})
    with pytest.raises(ArgumentError, match="no input 'z'"):
        load(parsed(text), givens={"z": 1})


def test_a_model_is_saved_as_a_function_of_graphc(tmp_path: Path) -> None:
    made = lstm_of_sequences()
    file = tmp_path / "model.graphc"
    model = load(made.model)
    model.function(mode="NUMPY").export(file)
    wanted = by_onnxruntime(made.model, made.feeds)
    found = graphc.load(file, mode="NUMPY")(**made.feeds)
    np.testing.assert_allclose(found["y"], wanted["y"], rtol=2e-4, atol=2e-5)


def test_weights_stay_packed() -> None:
    (y,) = load(products_with_packed_codes().model).outputs.values()
    packed = [node for node in toposort([y]) if node.op.name == "AffineQuantized"]
    assert [node.type.shape for node in packed] == [(64, 16)]


def test_what_decides_the_graph_is_no_shared_variable() -> None:
    text = """
    main (float[1, 4] x) => (float[1, 8] y) <float[2] scales = {1.0, 2.0}>
    { y = Resize <mode = "nearest"> (x, , scales) }"""
    assert not load(parsed(text), shared=True).shared
    with pytest.raises(ArgumentError, match="'scales' decide what the graph is"):
        load(parsed(text), shared=["scales"])


# Files.


def test_external_data_are_read_beside_the_model(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save_model(
        dense(), path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    x = normal(2, 3)
    wanted = by_onnxruntime(dense(), {"x": x})["y"]
    np.testing.assert_allclose(load(path, mode="NUMPY")(x)["y"], wanted, rtol=1e-5)
    with pytest.raises(ArgumentError, match=r"another file, 'weights.bin'.\n.*path of the model"):
        load(path.read_bytes())


def test_bytes_are_a_model() -> None:
    x = normal(2, 3)
    wanted = by_onnxruntime(dense(), {"x": x})["y"]
    np.testing.assert_allclose(
        load(dense().SerializeToString(), mode="NUMPY")(x)["y"], wanted, rtol=1e-5
    )
