"""Graphs in narrower dtypes: no part keeps the wider one, and what is computed is the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir import Graph, Node, TensorType
from graphc.link import load
from graphc.link.legalize import inline, narrow_dtypes
from graphc.tensor.core.elementwise import ROWS, Elementwise
from tests.contract.operands import arrays, symbols
from tests.contract.operations import FAMILIES

NARROWER = {"float64": "float32", "complex128": "complex64"}
MODE = graphc.Mode("MLX", compile=False, float64="downcast")


def wide(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph, and of those it holds, that have a dtype that was to go."""
    for node in graph.nodes:
        types = getattr(node.type, "items", (node.type,))
        if any(getattr(type, "dtype", None) in NARROWER for type in types):
            yield node
        for held in node.op.graphs():
            yield from wide(held)


def test_a_definition_keeps_what_its_function_knows_of_lengths() -> None:
    half_known = gt.tensor("half_known", shape=(3, None))
    y = gt.linalg.inv(half_known)
    assert y.type.shape == (3, 3)
    (found,) = inline(Graph([half_known], [y]), load("NUMPY")).outputs
    assert found is not y
    assert found.type is y.type
    # A step of a loop admits no less.
    powers = graphc.scan(lambda v: y @ v, outputs_info=gt.ones(3), n_steps=2)
    f = graphc.function([half_known], powers[-1], mode=graphc.Mode("NUMPY", excluding=["all"]))
    np.testing.assert_allclose(f(2 * np.eye(3)), np.full(3, 0.25))


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_of_an_operation_stays_wide(family: str) -> None:
    for name, case in FAMILIES[family].items():
        for dtype in {"int16", *NARROWER}.intersection(case.dtypes):
            xs = symbols(case, arrays(case, dtype))
            graph = inline(Graph(xs, [case.symbolic(*xs)]), load("NUMPY"))
            assert not [*wide(narrow_dtypes(graph, NARROWER))], (name, dtype)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_nothing_of_a_row_stays_wide(row: Elementwise) -> None:
    for dtype in ("int32", *NARROWER):
        if row.domain(dtype) is not None:
            xs = [TensorType(dtype, (None,))() for _ in range(row.arity)]
            assert not [*wide(narrow_dtypes(Graph(xs, [row(*xs)]), NARROWER))], dtype


def test_a_graph_without_such_dtypes_is_itself() -> None:
    x = gt.fvector("x")
    graph = Graph([x], [gt.tanh(x * 2) + gt.arange(3, dtype="float32"), x.shape[0]])
    assert narrow_dtypes(graph, NARROWER) == graph
    x = gt.vector("x")
    graph = Graph([x], [gt.tanh(x)])
    assert narrow_dtypes(graph, {}) is graph


def test_inputs_keep_their_names_lengths_and_order() -> None:
    x, n, y = gt.vector("x", shape=(3,)), gt.lscalar("n"), gt.matrix("y")
    found = narrow_dtypes(Graph([x, n, y], [y @ x * n]), NARROWER)
    assert [repr(v) for v in found.inputs] == ["x: float32[3]", "n: int64[]", "y: float32[?, ?]"]
    assert found.inputs[1] is n
    assert found.outputs[0].where.startswith("test_narrowed.py:")


def step(decay: Any) -> Any:
    return lambda now, last: gt.tanh(decay * last + (1 - decay) * now)


x, decay, k = gt.vector("x"), gt.scalar("decay"), gt.lvector("k")
STATES = graphc.scan(step(decay), sequences=x, outputs_info=x[0] * 0)
TABLE = np.linspace(-1, 1, 40)
PROGRAMS: dict[str, Any] = {
    "loop": STATES,
    "gradient of a loop": graphc.grad((STATES**2).sum(), decay),
    "loop that stops": graphc.scan(
        lambda y: (y * 2, graphc.until(y * 2 > 100)), outputs_info=decay, n_steps=50
    )[-1],
    "branch": graphc.cond(x.sum() > 0, lambda: gt.exp(x), lambda: x * k.sum()),
    "large constant": x.sum() * TABLE,
    "integers": gt.sqrt(k) + k / 3 + gt.mean(k),
    "casts": x.astype("int32") / 7 + x.astype("complex128").imag + x.astype("float64"),
    "made": gt.arange(0.0, 3.0, 0.5).sum() + gt.eye(3)[1] + gt.zeros(3),
    "complex": gt.abs(x * (1 + 2j)) + gt.angle(x + 1j),
    "statistics": gt.std(x) + gt.logsumexp(x) + gt.softmax(x)[1] + gt.median(x),
    "matrices": gt.outer(x, x) @ x,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_computes_the_same_in_float32(name: str) -> None:
    given = [np.array([0.5, -1.25, 2.5]), 0.75, np.array([1, 5, 2])]
    inputs = [x, decay, k]
    wanted = graphc.function(inputs, PROGRAMS[name], "NUMPY", on_unused_input="ignore")(*given)
    f = graphc.function(inputs, PROGRAMS[name], MODE, on_unused_input="ignore", returns="numpy")
    assert not [*wide(f.graph)]
    found = f(*given)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, 2e-6, 2e-6)


def test_arguments_of_both_dtypes_are_taken() -> None:
    y = gt.vector("y")
    f = graphc.function([y], y * 3, MODE, returns="numpy")
    for given in (
        [0.1, 0.2],
        np.array([0.1, 0.2]),
        np.float32([0.1, 0.2]),
        mx.array([0.1, 0.2]),
        mx.array([0.1, 0.2], mx.float64),
    ):
        assert f(given).dtype == np.float32
        np.testing.assert_allclose(f(given), [0.3, 0.6], 1e-6)
    strict = graphc.function([graphc.In(y, strict=True)], y * 3, MODE)
    strict(np.ones(2))
    strict(np.ones(2, np.float32))
    for wrong in (np.ones(2, complex), mx.array([1j])):
        with pytest.raises(graphc.errors.DTypeError, match=r"'y': expected float64\[\?\]"):
            f(wrong)
    with pytest.raises(graphc.errors.DTypeError, match="strict"):
        strict(np.ones(2, np.float16))


def test_shared_variables_stay_what_they_are_declared() -> None:
    w = graphc.shared(np.array([1 / 3, 2.0]), name="w")
    narrow = graphc.function([], w.sum(), MODE, updates=[(w, w * 2)], returns="numpy")
    assert "w: float32[?]   (shared)" in str(narrow.plan())
    wide_too = [graphc.function([], w, m, updates=[(w, w + 1)]) for m in ("MLX", "NUMPY", "JAX")]
    assert narrow().dtype == np.float32
    assert w.get_value().dtype == np.float64
    np.testing.assert_allclose(w.get_value(), [2 / 3, 4.0], 1e-7)
    for f in wide_too:
        assert graphc.link.as_numpy(f()).dtype == np.float64
    narrow()
    np.testing.assert_allclose(w.get_value(), [2 * (2 / 3 + 3), 14.0], 1e-7)


def test_what_float32_cannot_hold_is_infinite() -> None:
    y = gt.scalar("y")
    f = graphc.function([y], [y * 1e300, y], MODE, returns="numpy")
    assert [float(v) for v in f(1.0)] == [np.inf, 1.0]
    assert float(f(1e300)[1]) == np.inf
