"""Graphs as text: what is written is read again, by this process, by others and by releases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ExportError, FormatError
from graphc.export.names import find_operation, find_structure, kinds_of, name_of
from graphc.export.values import array_json, array_of
from graphc.export.write import as_graph
from graphc.implicit import ImplicitArray
from graphc.ir import DTYPES, Graph, Leaf, numpy_dtype
from graphc.tensor.core.elementwise import ROWS
from tests.contract.operations import graphc_operations
from tests.export.texts import GRAPHS, REFUSED, every_operation, model, names_in, of_contract
from tests.fuzz.generate import program
from tests.fuzz.together import built
from tests.rewrite.random_graphs import random_graph

RELEASES = sorted(Path(__file__).with_name("data").glob("*.txt"))
CHUNK = 50


def read_again(outputs: Any) -> Graph:
    """A graph that was written and read; the text of that is the same again."""
    graph = as_graph(outputs)
    text, arrays = graphc.serialize(graph)
    found = graphc.deserialize(text, arrays)
    assert found.key() == graph.key()
    again = graphc.serialize(found)
    assert again.text == text
    assert {name: x.tobytes() for name, x in again.arrays.items()} == {
        name: np.asarray(x).tobytes() for name, x in arrays.items()
    }
    types = [[x.type for x in part] for part in (graph.inputs, graph.outputs)]
    assert types == [[x.type for x in part] for part in (found.inputs, found.outputs)]
    return found


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_is_read_as_it_was_written(name: str) -> None:
    graph = as_graph(GRAPHS[name]())
    found = read_again(graph)
    assert [x.name for x in found.inputs] == [x.name for x in graph.inputs]
    assert [type(x.op) for x in found.inputs] == [type(x.op) for x in graph.inputs]
    assert [x.op.sharding for x in found.inputs] == [x.op.sharding for x in graph.inputs]


def test_every_case_of_the_contract_is_read_as_it_was_written() -> None:
    refused = set()
    for name, outputs in of_contract():
        try:
            read_again(outputs)
        except ExportError:
            refused.add(name)
    assert refused == REFUSED


@pytest.mark.parametrize(
    "chunk", [0, *[pytest.param(i, marks=pytest.mark.exhaustive) for i in range(1, 5)]]
)
@pytest.mark.whole
def test_random_graphs_are_read_as_they_were_written(chunk: int) -> None:
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        one = program(seed)
        names = built(one)
        read_again([gt.as_tensor(names[y]) for y in one.outputs])
        read_again(random_graph(seed).outputs)


def test_operands_that_commute_are_read_in_the_order_in_which_they_were_written() -> None:
    x, y = gt.vector("x"), gt.vector("y")
    read_again([gt.equal(x, y), gt.equal(y, x), x + y, gt.exp(y) + gt.exp(x)])


def test_a_graph_that_was_read_computes_the_same() -> None:
    graph = model()
    found = read_again(graph)
    x = np.linspace(-1, 1, 12).reshape(4, 3)
    for each in (graph, found):
        f = graphc.function(list(each.inputs[:1]), list(each.outputs), mode="NUMPY")
        each_loss, each_slope, each_count, _ = f(x)[:4]
        following = f(x)
        if each is graph:
            loss, slope, count = each_loss, each_slope, each_count
            after = following[2]
    assert (each_loss, each_count, following[2]) == (loss, count, after)
    np.testing.assert_array_equal(each_slope, slope)
    assert int(after) == int(count) + 1  # the default update went along


def test_every_operation_has_a_name() -> None:
    for cls in graphc_operations():
        assert cls.__qualname__ == "Elementwise" or find_operation(cls.__qualname__) is cls
        assert kinds_of(cls) is not None
    for name in ("LoRA", "CSR", "OneHot", "AffineQuantized"):
        assert issubclass(find_structure(name), ImplicitArray)
    assert find_operation("PythonCall") is None
    assert find_operation("Elementwise") is None
    assert find_structure("register") is None
    assert name_of(Leaf(np.zeros(3))) is None


@pytest.mark.parametrize("path", RELEASES, ids=lambda path: path.stem)
def test_the_texts_of_earlier_releases_are_read(path: Path) -> None:
    arrays = np.load(path.with_suffix(".npz"), allow_pickle=False)
    text = path.read_text(encoding="utf-8")
    graph = graphc.deserialize(text, {name: arrays[name] for name in arrays.files})
    assert len(names_in(graph)) > (240 if path.stem.endswith("operations") else 10)


def test_row_exchanges_of_a_text_of_0_1_0_are_the_same_permutation() -> None:
    exchanges = {"int32": [2, 2, 3, 3]}
    lines = [
        {"graphc-graph": 1},
        {"graph": "main"},
        # The second operand had an element for each row.
        {
            "node": 0,
            "op": "PivotsToPermutation",
            "of": [exchanges, {"int8": [0, 0, 0, 0]}],
            "type": "int32[4]",
        },
        {"return": [0]},
    ]
    (y,) = graphc.deserialize("\n".join(map(json.dumps, lines))).outputs
    found = graphc.function([], y, mode="NUMPY")()
    rows = [*range(4)]
    for i, k in enumerate(exchanges["int32"]):
        rows[i], rows[k] = rows[k], rows[i]
    assert found.tolist() == rows


def test_a_release_writes_every_operation() -> None:
    """The text that ``python -m tests.export.golden`` writes has nearly all; fields are alike."""
    names = names_in(read_again(every_operation()))
    operations = {cls.__qualname__ for cls in graphc_operations()} - {"Elementwise"}
    assert names >= {*ROWS}
    assert len(operations - names) < len(operations) / 20


def test_another_process_reads_it_and_writes_it_again() -> None:
    script = (
        "import sys, json, graphc, numpy as np\n"
        "import graphc.tensor as gt\n"
        "older = gt.exp(gt.constant(2.0)), gt.constant(1.0) * 3  # no other process has these\n"
        "for text, arrays in json.load(sys.stdin):\n"
        "    arrays = {name: np.array(x, d).reshape(n) for name, (x, d, n) in arrays.items()}\n"
        "    graph = graphc.deserialize(text, arrays)\n"
        "    assert graphc.serialize(graph).text == text\n"
        "    print(graph.key())\n"
    )
    graphs = [as_graph(GRAPHS[name]()) for name in ("model", "rows", "minimum", "commuting_twins")]
    given = [
        (text, {name: (x.tolist(), x.dtype.name, x.shape) for name, x in arrays.items()})
        for text, arrays in map(graphc.serialize, graphs)
    ]
    found = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    ).stdout
    assert found.split() == [graph.key() for graph in graphs]


def test_names_and_lines_go_along() -> None:
    x = gt.vector("x")
    y = gt.exp(x)
    y.name = "x"  # as the input is called
    z = y + 1
    z.name = "the sum"
    text, arrays = graphc.serialize(z, lines=True)
    line = {"node": 0, "op": "exp", "of": ["x"], "type": "float64[?]", "name": "x", "at": y.where}
    assert json.dumps(line) in text
    assert '{"node": "the sum", "op": "add"' in text
    graph = graphc.deserialize(text, arrays)
    (found,) = graph.outputs
    assert (found.name, found.where, found.inputs[1].name) == ("the sum", z.where, "x")


def test_a_shared_variable_can_be_one_that_is_there() -> None:
    w = graphc.shared([1.0, 2.0], name="w")
    text, arrays = graphc.serialize(w * 2)
    graph = graphc.deserialize(text, shared={"w": w})
    assert graph.outputs[0] is w * 2
    new = graphc.deserialize(text, arrays).inputs[0]
    new.set_value([5.0])
    assert w.get_value().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_array_has_the_same_bits_again(dtype: str) -> None:
    made = numpy_dtype(dtype)
    bits = np.random.default_rng(0).integers(0, 256, 64 * made.itemsize, np.uint8)
    several = np.zeros(64, made) if dtype == "bool" else bits.view(made)
    numbers = np.array([0, 1, 2, 100]).astype(made)
    for array in (*several.reshape(-1, 4), numbers, numbers[:0], numbers.reshape(2, 1, 2)):
        lines = ({"graphc-graph": 1}, {"graph": "main"}, {"return": [array_json(array)]})
        read = graphc.deserialize("\n".join(map(json.dumps, lines))).outputs[0]
        assert read.op.value.tobytes() == array.tobytes()
        assert read.op.value.shape == array.shape
    one = [1.0, 0.0] if dtype.startswith("complex") else 1
    assert array_json(numbers[1]) == {dtype: one}


def test_a_text_is_json_of_any_parser() -> None:
    """JSON has no infinite numbers and no NaN; a name may have any character."""
    x = gt.vector("a\u2028b")
    row = np.array([np.nan, np.inf, -np.inf, -0.0])
    y = gt.concatenate([graphc.grad_clip(x, -1, np.inf) * -np.inf, row, np.float32(row[:2])])
    text, arrays = graphc.serialize([y, gt.constant([1, complex(np.nan, -np.inf)])])

    def refuse(number: str) -> None:
        raise AssertionError(number)

    lines = [json.loads(line, parse_constant=refuse) for line in text.splitlines()]
    assert '"high": {"float": "inf"}' in text
    assert '{"float64": "-inf"}' in text
    raw = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    found = graphc.deserialize(raw, arrays)
    assert graphc.serialize(found).text == text


def test_numbers_that_do_not_fit_are_refused() -> None:
    for dtype, value in (
        ("int8", 128),
        ("bool", 1),
        ("uint8", -1),
        ("int8", 1.0),
        ("float32", "a"),
        ("float32", 1e300),
        ("complex64", [1e300, 0.0]),
        ("int8", "inf"),
    ):
        with pytest.raises(FormatError, match=f"no array of {dtype}"):
            array_of({dtype: value})


# Refusals.


@dataclass(frozen=True, slots=True)
class Cube(graphc.Op):
    def infer(self, x: Any) -> Any:
        return x


def test_an_operation_of_the_users_is_refused_by_name() -> None:
    x = gt.vector("x")
    with pytest.raises(ExportError, match=r"Cube is an operation .*\n.*make its result an input"):
        graphc.serialize(Cube()(x))
    called = graphc.wrap_py([gt.dvector], [gt.dvector])(lambda x: x)
    with pytest.raises(ExportError, match="is an operation of a Python function"):
        graphc.serialize(called(x))
    with pytest.raises(ExportError, match="is a function of Python's, which has no text"):
        graphc.serialize(graphc.Print("x", global_fn=print)(x))
    with pytest.raises(ExportError, match="is no graph"):
        graphc.serialize([1, 2])


X = '"x", "type": "float64[?]"'


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('h": 1', 'h": 2', r"line 1: version 2 .*\n.*newer graphc"),
        ("graphc-graph", "graph", "line 1: expected 'graphc-graph'"),
        ('"Sum"', '"Sun"', "line 5: there is no operation Sun"),
        ("[0]}", "[0.5]}", r"Sum: axes is \(0.5,\)"),
        ("axes", "axis", "Sum has no parameter 'axis'"),
        ('"axes": [0]', "", "Sum: axes is missing"),
        ('"float64[]"', '"float32[]"', r"sum gives float64\[\], not float32"),
        ('["x"]', '["x", "x"]', "line 4: exp takes 1 operands"),
        ('["x"]', '["y"]', "line 4: there is no 'y' here"),
        ('"node": 1', '"node": 0', "line 5: there are two 0"),
        ('"node": 1', '"node": 1.5', "line 5: 1.5 is no name or number"),
        ('"of": ["x"], ', "", r"line 4: TypeError: .* missing .*'of'"),
        ('"of": ["x"], ', '"off": [], "of": ["x"], ', "line 4: TypeError: .* argument 'off'"),
        ("[1]}", "[1,, 1]}", "line 6: JSONDecodeError: .* column 15"),
        ('{"return": [1]}\n', "", "line 5: main has no end"),
        ('{"input"', '{"output"', "line 3: expected 'input' or 'node' or 'return', got 'output'"),
        ("float64[?]", "float64[-1]", "'float64\\[-1\\]' is no type of an array"),
        ("float64[?]", "float65[?]", "'float65\\[\\?\\]' is no type of an array"),
        (X, X + ', "dims": 3', r"dims=3 has no name or None for each axis"),
        (X, X + ', "dims": [5]', r"dims=\(5,\): 5 is no name of an unknown length"),
        (X, '"x", "type": "float64[3]", "dims": ["n"]', "'n' is no name of an unknown length"),
        (X, X + ', "dims": ["2"]', r"'2' is no name of a length\.   "),
        ("[0]}", 100_000 * "[", "line 5: brackets are nested too deeply"),
        (
            "[0]}",
            900 * "[" + 900 * "]" + "}",
            "line 5: brackets are nested too deeply",
        ),
        ("[0]}", f"[{'9' * 5000}]}}", "ValueError: Exceeds the limit"),
        ("[0]}", "[NaN]}", "line 5: NaN is no number of JSON"),
        ("[0]}", "[1e400]}", "line 5: 1e400 is no number of JSON"),
        ('"axes": [0]', '"axes": [0], "axes": [1]', "line 5: a field occurs twice"),
        ('"of": ["x"]', '"of": "x"', "line 4: expected a list, got 'x'"),
        ('{"return": [1]}', '{"return": "x"}', "line 6: expected a list, got 'x'"),
        ('"op": "exp"', '"op": ["exp"]', r"line 4: there is no operation \['exp'\]"),
        (X, X + ', "kind": "Formal", "position": 1.5', "line 3: position=1.5 is no index"),
        (X, X + ', "kind": []', r"line 3: kind=\[\]: expected 'Input' or"),
        (X, X + ', "axes": "x"', "line 3: expected a list, got 'x'"),
        ('{"graphc-graph": 1}', "graphc-graph 1", "line 1: expected a JSON object, got 'graphc-"),
        ('{"graph": "main"}', '{"graph": null}', "line 2: None is no name of a graph"),
    ],
)
def test_a_text_with_a_mistake_is_refused_at_its_place(old: str, new: str, problem: str) -> None:
    text, arrays = graphc.serialize(gt.exp(gt.vector("x")).sum())
    assert old in text
    with pytest.raises(FormatError, match=problem):
        graphc.deserialize(text.replace(old, new), arrays)


def test_a_text_that_ends_early_is_refused() -> None:
    """A nested graph alone is not the graph."""
    text, arrays = graphc.serialize(graphc.scan(lambda u, h: h + u, gt.vector("x"), 0.0))
    lines = text.splitlines()
    assert any('"graph": "loop' in line for line in lines)
    for n in range(len(lines)):
        with pytest.raises(FormatError, match=f"line {n}: .* has no end"):
            graphc.deserialize("\n".join(lines[:n]), arrays)


def test_a_text_in_bytes_is_refused() -> None:
    with pytest.raises(FormatError, match="expected a string, got bytes"):
        graphc.deserialize(b'{"graphc-graph": 1}')  # type: ignore[arg-type]


def test_an_array_that_is_missing_or_of_another_type_is_named() -> None:
    text, arrays = graphc.serialize(gt.as_tensor(np.arange(12.0)) * gt.vector("x"))
    assert list(arrays) == ["leaf0"]
    with pytest.raises(FormatError, match=r"there is no array 'leaf0'"):
        graphc.deserialize(text)
    with pytest.raises(FormatError, match=r"the array 'leaf0' is float64\[13\]"):
        graphc.deserialize(text, {"leaf0": np.arange(13.0)})
