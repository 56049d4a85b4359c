"""Models that are damaged, or that graphc lacks operations for: clear errors, bounded memory."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from graphc.errors import (
    ArgumentError,
    DTypeError,
    FormatError,
    GraphcError,
    UnsupportedOperationError,
)
from graphc.interop.onnx import load
from tests.interop.onnx.models import parsed, with_initializers
from tests.interop.onnx.test_load import CASES, dense


def message(error: type[Exception], model: Any, **options: Any) -> str:
    with pytest.raises(error) as caught:
        load(model, **options)
    return str(caught.value)


def test_one_error_names_all_that_is_missing() -> None:
    text = """
    main (float[n] x) => (float[n] y)
    {
      a = RandomUniformLike(x)
      b = Mystery(a)
      [third] c = elsewhere.Thing(b)
      d = Round(c)
      e = If (yes) <then_branch = t () => (float[n] f) { f = Unheard(d) },
                    else_branch = u () => (float[n] g) { g = Neg(d) }>
      y = local.inner(e)
    }
    <domain: "local", opset_import: ["" : 17]>
    inner (x) => (y) { y = Hidden(x) }"""
    model = parsed(text, more=', "local" : 1, "elsewhere" : 3')
    found = message(UnsupportedOperationError, with_initializers(model, yes=np.array(True)))
    for part in (
        "RandomUniformLike (the node that computes 'a'): it draws random numbers",
        "Mystery (the node that computes 'b'): unknown operator of the domain 'ai.onnx'",
        "elsewhere.Thing (node 'third'): unknown operator of the domain 'elsewhere', version 3",
        "Unheard",
        "Hidden",
    ):
        assert part in found


def test_attributes_that_are_missing_are_named_together() -> None:
    text = """
    main (float[n] x, int64[k] axes) => (float[n] y)
    {
      a, mask = Dropout(x, half, yes)
      b = Exp(a)
      c = Cast <to = 22> (x)
      y = ReduceSum(x, axes)
    }"""
    model = with_initializers(parsed(text), half=np.array(0.5, "float32"), yes=np.array(True))
    found = message(UnsupportedOperationError, model)
    assert "Dropout (the node that computes 'a'): training_mode" in found
    assert "Cast (the node that computes 'c'): integers of 2 or 4 bits" in found
    assert "ReduceSum (the node that computes 'y'): the axes 'axes' must be numbers" in found
    assert "Exp" not in found


def test_an_error_of_a_node_names_it() -> None:
    text = "main (float[2, 3] x, float[2, 3] z) => (float[2] y) { y = MatMul(x, z) }"
    found = message(GraphcError, parsed(text))
    assert found.startswith("onnx.load: MatMul (the node that computes 'y'): Product of ")
    text = "main (float[2, 3] x) => (float[2] y) { y = Softmax <axis = 7> (x) }"
    found = message(FormatError, parsed(text))
    assert "Softmax (the node that computes 'y') is not as the standard says" in found
    assert "there is no axis 7 of 2" in found


@pytest.mark.parametrize(
    ("opset", "wanted"),
    [(5, r"opset 5; 7 to 28 are read.\n.*convert_version"), (99, "opset 99; 7 to 28")],
)
def test_other_opsets_are_refused(opset: int, wanted: str) -> None:
    with pytest.raises(FormatError, match=wanted):
        load(parsed("main (float[n] x) => (float[n] y) { y = Exp(x) }", opset=opset))


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    assert "is no model" in message(ArgumentError, 3)
    assert "no ONNX model" in message(FormatError, b"\x00\xff no model")
    assert "no ONNX model" in message(FormatError, b"")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.onnx")


def test_inputs_without_a_place_in_a_graph_are_refused() -> None:
    assert "the dtype str" in message(
        DTypeError, parsed("main (string[n] x) => (string[n] y) { y = Identity(x) }")
    )
    assert "2 or 4 bits" in message(
        DTypeError, parsed("main (int4[n] x) => (float[n] y) { y = Cast <to = 1> (x) }")
    )
    model = parsed("main (float[n] x) => (float[n] y) { y = Exp(x) }")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    assert "how many axes the input 'x' has" in message(FormatError, model)


def test_names_that_a_model_lacks_are_refused() -> None:
    assert "no initializer 'v'.\nIt has: w, b." in message(ArgumentError, dense(), shared=["v"])
    text = "main (float[n] x) => (float[n] y) { y = Add(x, z) }"
    assert "'z' is used, and nothing before computes it" in message(FormatError, parsed(text))


def test_an_output_of_another_dtype_than_declared_is_refused() -> None:
    text = "main (float[n] x) => (int64[n] y) { y = Exp(x) }"
    assert "the model declares it as int64" in message(FormatError, parsed(text))


# Memory is taken for what a model holds, not for what it says.


def peak(model: Any) -> float:
    """The most memory that loading a model takes, in MB, whether it can be loaded or not."""
    tracemalloc.start()
    try:
        load(model)
    except GraphcError:
        pass
    finally:
        taken = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
    return taken


def tensor(dims: list[int], data: bytes, kind: int = TensorProto.FLOAT) -> Any:
    return TensorProto(name="w", dims=dims, data_type=kind, raw_data=data)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.INT4, TensorProto.UINT2])
def test_lengths_of_an_initializer_take_no_memory(kind: int) -> None:
    model = parsed("main (float[n] x) => (float[n] y) { y = Add(x, w) }")
    model.graph.initializer.append(tensor([10**6, 10**6], b"1234", kind))
    assert peak(model) < 4
    assert "1000000000000 elements" in message(FormatError, model)


@pytest.mark.parametrize(
    "body",
    [
        "s = Constant <value_ints = [100000, 100000]> ()  y = ConstantOfShape(s)",
        "s = Constant <value_ints = [100000, 100000]> ()  y = Expand(w, s)",
        "s = Constant <value_ints = [1000000000]> ()  y = Tile(w, s)",
        "a = Constant <value_int = 0> ()  b = Constant <value_int = 10000000000> () "
        "c = Constant <value_int = 1> ()  d = Range(a, b, c)  y = Cast <to = 1> (d)",
        "y = MaxPool <kernel_shape = [30000, 30000]> (x)",
        "s = Constant <value_floats = [1.0, 1.0, 100000.0, 100000.0]> ()  y = Resize(x, , s)",
        "y = com.microsoft.MatMulNBits <K = 1000000, N = 1000000, block_size = 32> (x, w, w)",
        "y = ai.onnx.ml.LinearRegressor <targets = 1000000000, coefficients = [1.0]> (x)",
    ],
)
def test_lengths_in_nodes_take_no_memory(body: str) -> None:
    text = f"main (float[1, 1, 9, 9] x) => (float[] y) <float[1] w = {{1.0}}> {{ {body} }}"
    model = parsed(text, more=', "com.microsoft" : 1, "ai.onnx.ml" : 3')
    assert peak(model) < 64


def test_functions_that_call_themselves_or_others_too_often_are_refused() -> None:
    text = """
    main (float[n] x) => (float[n] y) { y = local.f(x) }
    <domain: "local", opset_import: ["" : 17, "local" : 1]>
    f (x) => (y) { a = Neg(x)  y = local.f(a) }"""
    found = message(FormatError, parsed(text, more=', "local" : 1'))
    assert "A function may call itself" in found


def test_external_data_outside_of_the_folder_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(64))
    for location, problem in (("../secret", "outside"), ("/etc/passwd", "outside")):
        model = dense()
        w = model.graph.initializer[0]
        w.ClearField("raw_data")
        w.data_location = TensorProto.EXTERNAL
        w.external_data.add(key="location", value=location)
        path = folder / "model.onnx"
        path.write_bytes(model.SerializeToString())
        assert problem in message(FormatError, path)


def test_external_data_that_are_cut_off_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save_model(
        dense(), path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    (tmp_path / "weights.bin").write_bytes(bytes(7))
    assert "has no 24 bytes at 0 for the tensor 'w'" in message(FormatError, path)


# Mutations: bytes, and fields of messages.

NUMBERS = (-1, 0, 1, 2, 7, 13, 2**31 - 1, 2**31, -(2**63), 2**63 - 1)


def with_other_bytes(data: bytes, random: Random) -> bytes:
    found = bytearray(data)
    for _ in range(random.randint(1, 8)):
        found[random.randrange(len(found))] = random.randrange(256)
    return bytes(found)


def with_other_fields(model: Any, random: Random) -> Any:
    """A copy of a model with some numbers, names or nodes changed."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    nodes = made.graph.node
    for _ in range(random.randint(1, 3)):
        if nodes:
            random.choice(CHANGES)(made.graph, random.choice(nodes), random)
    return made


def other_number(_: Any, node: Any, random: Random) -> None:
    for attribute in node.attribute:
        attribute.i = random.choice(NUMBERS)
        if attribute.ints:
            attribute.ints[random.randrange(len(attribute.ints))] = random.choice(NUMBERS)


def other_operand(graph: Any, node: Any, random: Random) -> None:
    if node.input:
        other = random.choice([*random.choice(graph.node).output, "", "none"])
        node.input[random.randrange(len(node.input))] = other


def other_operator(graph: Any, node: Any, random: Random) -> None:
    node.op_type = random.choice(graph.node).op_type


def other_lengths(graph: Any, _: Any, random: Random) -> None:
    for tensor in graph.initializer:
        tensor.dims[:] = random.choices(NUMBERS, k=random.randint(0, 3))


def no_attribute(_: Any, node: Any, random: Random) -> None:
    if node.attribute:
        del node.attribute[random.randrange(len(node.attribute))]


def no_node(graph: Any, node: Any, _: Random) -> None:
    graph.node.remove(node)


CHANGES = (other_number, other_operand, other_operator, other_lengths, no_attribute, no_node)


@pytest.mark.parametrize("kind", ["bytes", "fields"])
@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(("heads", "loop_of"))])
def test_a_mutated_model_is_loaded_or_refused(name: str, kind: str) -> None:
    mutate(name, kind, 10)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["bytes", "fields"])
@pytest.mark.parametrize("name", CASES)
def test_any_mutated_model_is_loaded_or_refused(name: str, kind: str) -> None:
    mutate(name, kind, 40)


def mutate(name: str, kind: str, count: int) -> None:
    model, random = CASES[name]().model, Random(0)
    data = model.SerializeToString()
    tracemalloc.start()
    for _ in range(count):
        made = (
            with_other_bytes(data, random) if kind == "bytes" else with_other_fields(model, random)
        )
        with suppress(GraphcError):
            load(made)
    taken = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    assert taken < 64
