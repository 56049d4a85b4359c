"""Equal graphs are one object, which nobody can change and nothing keeps alive."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import FrozenError, InvalidGraphError, ShapeError
from graphc.ir import (
    Constant,
    Graph,
    Input,
    Leaf,
    Node,
    TensorType,
    dprint,
    node as table,
    pprint,
    toposort,
)
from graphc.tensor import Tensor

LONG = 200_000

EQUAL: dict[str, Callable[[Tensor], Any]] = {
    "an operation": gt.exp,
    "a Python number": lambda x: x + 1,
    "a small array": lambda x: x * np.array([1.0, 2.0, 3.0]),
    "an index": lambda x: x[1:-1, None],
    "a reduction": lambda x: x.sum(axis=0, keepdims=True),
    "a nested expression": lambda x: gt.softmax(gt.tanh(x) @ gt.ones((3, 3)), axis=-1),
    "operands of a sum in either order": lambda x: x + gt.exp(x),
    "a gradient": lambda x: graphc.grad((x**3).sum(), x),
    "NaN": lambda x: x + np.nan,
}


@pytest.mark.parametrize("what", EQUAL)
def test_equal_graphs_are_one_object(what: str) -> None:
    x = gt.tensor("x", shape=(4, 3))
    assert EQUAL[what](x) is EQUAL[what](x)


def test_operands_of_a_commutative_row_have_one_order() -> None:
    x, y = gt.scalars(2)
    assert x + 1 is 1 + x
    assert gt.exp(x) + gt.sin(y) is gt.sin(y) + gt.exp(x)
    assert x - y is not y - x


def test_operands_of_equal_structure_stay_as_they_were_written_until_the_function_is_compiled() -> (
    None
):
    w, v = gt.constant(np.arange(20.0)), gt.constant(np.arange(20.0, 40.0))
    x, y = gt.vectors(2)
    for a, b in ((x, y), (w, v), (gt.exp(x), gt.exp(y)), (gt.exp(w), gt.exp(v))):
        (first, second) = a + b, b + a
        assert first.inputs == (a, b)
        assert second.inputs == (b, a)
        f = graphc.function([x, y], [first / second, x, y], mode="NUMPY")
        assert sum(node.op is gt.add for node in f.graph.nodes) == 0


def nan_of(payload: int) -> np.ndarray:
    return np.array(0x7FF8_0000_0000_0000 | payload, np.uint64).view(np.float64)


DIFFERENT: dict[str, tuple[Any, Any]] = {
    "zeros of either sign": (0.0, -0.0),
    "NaNs of two payloads": (nan_of(1), nan_of(2)),
    "dtypes": (np.float32(1), np.float64(1)),
    "True and 1": (True, 1),
    "1 and 1.0": (1, 1.0),
    "int8 and uint8": (np.int8(1), np.uint8(1)),
    "a scalar and a vector of it": (1.0, [1.0]),
    "complex zeros": (0j, complex(0.0, -0.0)),
    "arrays of equal bytes and other shapes": (np.zeros((2, 3)), np.zeros((3, 2))),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_constants_that_differ_are_two_objects(what: str) -> None:
    a, b = map(gt.constant, DIFFERENT[what])
    assert a is not b
    assert Graph([], [a]).key() != Graph([], [b]).key()


def test_a_constant_keeps_the_bits_of_its_value() -> None:
    assert np.signbit(gt.constant(-0.0).op.perform())
    assert gt.constant(nan_of(5)).op.perform().view(np.uint64)[()] & 0xFF == 5


def test_large_arrays_are_compared_by_identity() -> None:
    array = np.zeros(100)
    assert gt.constant(array) is gt.constant(array)
    assert gt.constant(array) is not gt.constant(array.copy())
    assert isinstance(gt.constant(array).op, Leaf)
    assert isinstance(gt.constant(array, bake=True).op, Constant)


def test_a_constant_holds_the_value_of_when_it_was_made() -> None:
    array = np.array([1.0, 2.0])
    x = gt.constant(array)
    array[0] = 9
    assert x.op.perform().tolist() == [1.0, 2.0]


def test_inputs_are_distinct_whatever_their_names() -> None:
    assert gt.scalar("x") is not gt.scalar("x")


def test_an_inputs_name_is_a_string() -> None:
    with pytest.raises(InvalidGraphError, match="a string, not 3"):
        Input(TensorType("float64"), 3)  # type: ignore[arg-type]


def test_nothing_holds_a_graph_alive() -> None:
    gc.collect()
    # Its entries, not their number: a graph of another test may still die meanwhile.
    before = set(table._table.values())
    x = gt.vector("x")
    y = graphc.grad(gt.exp(x * np.arange(20.0)).sum() ** 2, x)
    # Constants, and operations on nothing else, are shared with graphs that others may hold.
    references = [weakref.ref(node) for node in toposort([y]) if x in toposort([node])]
    assert len(set(table._table.values()) - before) >= len(references) > 5
    del x, y
    gc.collect()
    assert [r for r in references if r() is not None] == []
    assert set(table._table.values()) <= before


def test_a_leaf_lets_go_of_its_array() -> None:
    array = np.zeros(100)
    reference = weakref.ref(array)
    y = gt.constant(array) + 1
    del array, y
    gc.collect()
    assert reference() is None


def test_threads_that_build_the_same_graph_get_the_same_objects() -> None:
    x = gt.scalar("x")
    threads, found = 8, []
    start = threading.Barrier(threads)

    def build() -> None:
        start.wait()
        y = x
        for i in range(500):
            y = gt.sin(y * float(i)) + gt.full((2, i + 1), 1.0).sum()
        found.append(y)

    workers = [threading.Thread(target=build) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == threads
    assert len(set(map(id, found))) == 1


CHANGES: dict[str, Callable[[Node], Any]] = {
    "its inputs": lambda x: setattr(x, "inputs", ()),
    "its operation": lambda x: setattr(x, "op", None),
    "a new attribute": lambda x: setattr(x, "tag", 1),
    "an attribute away": lambda x: delattr(x, "op"),
    "its type's dtype": lambda x: setattr(x.type, "dtype", "int8"),
    "its graph's outputs": lambda x: setattr(Graph([x], [x]), "outputs", ()),
    "a node by its class": lambda x: Tensor(x.op, ()),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_graph_cannot_be_changed(what: str) -> None:
    with pytest.raises(FrozenError):
        CHANGES[what](gt.scalar("x"))


def test_a_frozen_error_names_the_users_line() -> None:
    x = gt.scalar("x")
    with pytest.raises(FrozenError, match=r"test_node\.py:\d+"):
        x.op = gt.scalar("y").op


# Names.


def test_a_name_can_be_set_and_changes_no_graph() -> None:
    x = gt.vector("x")
    y = gt.exp(x)
    key, known = Graph([x], [y + 1]).key(), hash(y)
    y.name = "rate"
    assert (y.name, repr(y), repr(y + 1)) == (
        "rate",
        "rate: float64[x.0]",
        "rate + 1.0: float64[x.0]",
    )
    assert gt.exp(x) is y
    assert (Graph([x], [y + 1]).key(), hash(y)) == (key, known)
    y.name = None
    assert (y.name, repr(y)) == (None, "exp(x): float64[x.0]")


def test_equal_expressions_share_the_name_that_was_set_last() -> None:
    x = gt.vector("x")
    first, second = gt.exp(x), gt.exp(x)
    first.name, second.name = "first", "second"
    assert first.name == "second"


def test_errors_call_what_is_computed_by_the_name_that_was_set() -> None:
    y = gt.exp(gt.vector("x", shape=(3,)))
    y.name = "rate"
    with pytest.raises(ShapeError, match=r"add\(ones: float64\[2\], rate: float64\[3\]\)"):
        y + gt.vector("ones", shape=(2,))


def test_an_input_a_shared_variable_and_an_array_can_be_renamed() -> None:
    x, w, big = gt.vector("x"), graphc.shared(1.0), gt.constant(np.arange(20.0), "big")
    x.name, w.name, big.name = "y", "w", "table"
    assert [repr(each) for each in (x, w, big)] == [
        *("y: float64[?]", "w: float64[]", "table: float64[20]")
    ]
    f = graphc.function([x], (x + w).sum(), mode="NUMPY")
    assert f(y=[1.0, 2.0]) == 5.0


def test_a_name_is_a_string() -> None:
    with pytest.raises(InvalidGraphError, match="a string, not 3"):
        gt.exp(gt.vector("x")).name = 3  # type: ignore[assignment]


# Owners.


def test_an_owner_says_what_gives_a_node() -> None:
    x, w = gt.vectors("x", "w")
    owner = (x * w).owner
    assert owner is not None
    assert owner.op.name == "multiply"
    assert set(owner.inputs) == {x, w}
    assert owner.outputs == (x * w,)
    assert owner == (x * w).owner


def test_each_of_several_outputs_has_the_same_owner() -> None:
    q, r = gt.linalg.qr(gt.matrix("a", shape=(3, 2)))
    assert q.owner == r.owner
    assert q.owner.outputs == (q, r)
    (a,) = q.owner.inputs
    assert a.name == "a"


def test_what_has_a_value_has_no_owner() -> None:
    for x in (gt.scalar("x"), graphc.shared(1.0), gt.constant(2.0), gt.constant(np.ones(20))):
        assert x.owner is None


def test_an_owner_cannot_be_changed() -> None:
    owner = gt.exp(gt.scalar("x")).owner
    assert owner is not None
    with pytest.raises(AttributeError):
        owner.op = None  # type: ignore[misc, assignment]


def test_an_operations_parameters_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        gt.vector().sum().op.axes = (1,)


def test_a_copy_is_the_node_itself() -> None:
    x = gt.exp(gt.scalar("x"))
    assert copy.copy(x) is x
    assert copy.deepcopy(x) is x


def test_a_pickled_graph_of_constants_comes_back_as_the_same_object() -> None:
    y = gt.exp(gt.constant([1.0, 2.0]))[::-1]
    assert pickle.loads(pickle.dumps(y)) is y


def test_inputs_shared_within_one_pickle_stay_one_object() -> None:
    x = gt.scalar("x")
    a, b, c = pickle.loads(pickle.dumps((x, gt.exp(x), gt.sin(x) + 1)))
    assert a is not x
    assert b is gt.exp(a)
    assert c is gt.sin(a) + 1
    assert a.name == "x"


def test_a_pickled_graph_has_the_key_it_had() -> None:
    x, w = gt.vector("x"), gt.constant(np.arange(20.0), name="w")
    graph = Graph([x], [(x * w).sum(), graphc.grad((x * w).sum(), x)])
    back = pickle.loads(pickle.dumps(graph))
    assert back.key() == graph.key()
    assert [leaf.op.array.tolist() for leaf in back.leaves] == [np.arange(20.0).tolist()]
    assert back.inputs[0] in back.nodes


@pytest.fixture(scope="module")
def chain() -> tuple[Tensor, Tensor]:
    x = gt.scalar("x")
    y = x
    for _ in range(LONG):
        y = -y
    return x, y


@pytest.mark.exhaustive
def test_a_long_chain_has_a_key(chain: tuple[Tensor, Tensor]) -> None:
    x, y = chain
    graph = Graph([x], [y])
    assert len(graph) == LONG + 1
    assert graph.key() != Graph([x], [-y]).key()


@pytest.mark.exhaustive
def test_a_long_chain_prints_in_linear_size(chain: tuple[Tensor, Tensor]) -> None:
    text = dprint(chain[1], file="str")
    assert text is not None
    assert LONG <= len(text.splitlines()) < 2 * LONG
    assert len(text) < 200 * LONG
    assert len(pprint(chain[1])) < 1000


@pytest.mark.exhaustive
def test_a_long_chain_differentiates(chain: tuple[Tensor, Tensor]) -> None:
    x, y = chain
    assert len(toposort([graphc.grad(y, x)])) > LONG


@pytest.mark.exhaustive
def test_a_long_chain_pickles(chain: tuple[Tensor, Tensor]) -> None:
    x, y = chain
    back = pickle.loads(pickle.dumps(Graph([x], [y])))
    assert back.key() == Graph([x], [y]).key()


@pytest.mark.exhaustive
def test_a_long_chain_is_freed_on_a_small_stack() -> None:
    gc.collect()
    before = len(table._table)
    y = gt.scalar()
    for _ in range(LONG):
        y = gt.sin(y)
    held = [y]
    del y
    default = threading.stack_size(128 * 1024)
    try:
        worker = threading.Thread(target=held.clear)
        worker.start()
        worker.join()
    finally:
        threading.stack_size(default)
    gc.collect()
    assert len(table._table) == before
