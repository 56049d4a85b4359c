"""Python functions in graphs: called by every backend, alone, in batches and in loops."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError, GraphcError, ShapeError
from graphc.ir import DTYPES, Graph, numpy_dtype
from graphc.link import names
from tests.modes import lacks, uncompiled

VECTOR = gt.TensorType("float64", (None,))
SCALAR = gt.TensorType("float64", ())


def run(inputs: Any, outputs: Any, backend: str, *values: Any) -> list[Any]:
    return graphc.function(inputs, outputs, uncompiled(backend), returns="numpy")(*values)  # type: ignore[no-any-return]


@graphc.wrap_py(VECTOR, VECTOR, infer_shape=lambda shape: shape)
def ranks(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The place of each element among all."""
    return np.argsort(np.argsort(x)).astype(float)


@graphc.wrap_py([VECTOR, gt.TensorType("int64", ())], [SCALAR, gt.TensorType("int32", (2,))])
def both(x: Any, k: Any) -> Any:
    return x.sum() * k, [k, k + 1]


@graphc.wrap_py(VECTOR, VECTOR, infer_shape=lambda shape: shape)
def tripled(x: Any) -> Any:
    return 3 * x


def test_it_keeps_its_name_and_its_text() -> None:
    x = gt.vector("x")
    assert ranks.__doc__ == "The place of each element among all."
    assert ranks(x) is ranks(x)
    assert ranks(x).inputs[0].op.name == "ranks"
    assert graphc.as_op is graphc.wrap_py


@pytest.mark.parametrize("backend", names())
def test_its_results_are_part_of_the_program(backend: str) -> None:
    x = gt.vector("x")
    total, pair = both(2 * x, 3)
    found = run([x], [ranks(x) * 10, total + 1, pair], backend, [0.5, 0.1, 0.3])
    for y, expected in zip(found, [[20, 0, 10], 6.4, [3, 4]], strict=True):
        np.testing.assert_allclose(y, expected)
    assert found[2].dtype == np.int32


@pytest.mark.parametrize("backend", names())
def test_a_batch_and_a_loop_call_it_for_each_element(backend: str) -> None:
    rows, k = gt.tensor("rows", shape=(None, None)), gt.lvector("k")
    at_once = graphc.vectorize(ranks, "(n)->(n)")(rows)
    sums = graphc.vectorize(both, "(n),()->(),(m)")(rows, k)
    steps = graphc.scan(ranks, sequences=rows)
    values = np.array([[0.5, 0.1, 0.3], [1.0, 2.0, 3.0]])
    found = run([rows, k], [at_once, *sums, steps], backend, values, [2, 3])
    places = [[2, 0, 1], [0, 1, 2]]
    for y, expected in zip(found, [places, [1.8, 18], [[2, 3], [3, 4]], places], strict=True):
        np.testing.assert_allclose(y, expected)


@pytest.mark.parametrize("backend", names())
def test_it_takes_and_gives_every_dtype_and_empty_arrays(backend: str) -> None:
    dtypes = [dtype for dtype in DTYPES if not lacks(backend, dtype)]
    types = [gt.TensorType(dtype, (None, 3)) for dtype in dtypes]
    turned = graphc.wrap_py(types, types, infer_shape=lambda *shapes: shapes)(
        lambda *arrays: [np.flip(x, 0) for x in arrays]
    )
    xs = [type() for type in types]
    f = graphc.function(xs, turned(*xs), uncompiled(backend), returns="numpy")
    for rows in (0, 1, 2):
        values = [np.arange(rows * 3).reshape(rows, 3).astype(numpy_dtype(d)) for d in dtypes]
        for y, x in zip(f(*values), values, strict=True):
            assert y.dtype == x.dtype
            np.testing.assert_array_equal(y, x[::-1])


@settings(max_examples=15, deadline=None)
@given(arrays.arrays(np.float64, st.integers(0, 5), elements=st.floats(-10, 10)))
def test_it_gives_what_the_function_gives(value: np.ndarray[Any, Any]) -> None:
    x = gt.vector("x")
    (y,) = run([x], [ranks(x)], "NUMPY", value)
    np.testing.assert_array_equal(y, np.argsort(np.argsort(value)))


@pytest.mark.parametrize("backend", names())
def test_it_has_a_gradient_where_it_is_given_one(backend: str) -> None:
    @graphc.custom_pullback(lambda g, y, x: g * y)
    @graphc.wrap_py(VECTOR, VECTOR, infer_shape=lambda shape: shape)
    def exponential(x: Any) -> Any:
        return np.exp(x)

    x = gt.vector("x")
    y = exponential(x)
    second = graphc.grad(graphc.grad(y.sum(), x).sum(), x)
    value = np.array([0.5, -1.0])
    np.testing.assert_allclose(run([x], [y, second], backend, value), [np.exp(value)] * 2)
    with pytest.raises(GraphcError, match="no derivative"):
        graphc.grad(ranks(x).sum(), x)


@pytest.mark.parametrize("backend", names())
def test_who_writes_into_an_argument_changes_nothing_else(backend: str) -> None:
    @graphc.wrap_py(VECTOR, VECTOR, infer_shape=lambda shape: shape)
    def spoiled(x: Any) -> Any:
        x[...] = -1
        return x

    x = gt.vector("x")
    value = np.array([1.0, 2.0])
    assert [y.tolist() for y in run([x], [spoiled(x), x + 0], backend, value)] == [[-1, -1], [1, 2]]
    assert value.tolist() == [1, 2]


@pytest.mark.parametrize("backend", names())
def test_what_it_keeps_and_writes_into_later_changes_no_result(backend: str) -> None:
    kept = np.zeros(2)

    @graphc.wrap_py(VECTOR, VECTOR, infer_shape=lambda shape: shape)
    def counted(x: Any) -> Any:
        kept[...] += x
        return kept

    x = gt.vector("x")
    f = graphc.function([x], counted(x), uncompiled(backend), returns="numpy")
    first, second = f([1.0, 2.0]), f([1.0, 2.0])
    assert (first.tolist(), second.tolist()) == ([1, 2], [2, 4])


def test_equal_programs_of_other_functions_are_not_shared() -> None:
    x = gt.vector("x")
    made = [
        graphc.wrap_py(VECTOR, SCALAR)(function)(x)
        for function in (lambda v: v.sum(), lambda v: v.max())
    ]
    first, second = made
    assert Graph([x], [first]).key() == Graph([x], [second]).key()
    found = [run([x], [y], "NUMPY", [1.0, 2.0])[0] for y in made]
    assert [float(y) for y in found] == [3.0, 2.0]


def test_lengths_are_told_by_infer_shape() -> None:
    def shapes(x: Any, k: Any) -> Any:
        return [(x[0],), (2, *x)]

    two = graphc.wrap_py(
        [VECTOR, SCALAR], [VECTOR, gt.TensorType("float64", (None, None))], infer_shape=shapes
    )(lambda x, k: (x, np.stack([x, x])))
    a, b = two(gt.tensor(shape=(3,)), gt.scalar())
    assert (a.type.shape, b.type.shape) == ((3,), (2, 3))
    assert two(gt.vector(), gt.scalar())[1].type.shape == (2, None)


def test_constructors_stand_for_types_and_one_result_is_an_array() -> None:
    def shapes(fgraph: Any, node: Any, given: Any) -> Any:
        assert fgraph is node is None
        return [given[1]]

    @graphc.as_op(itypes=[gt.dmatrix, gt.dvector], otypes=[gt.dvector], infer_shape=shapes)
    def solved(a: Any, b: Any) -> Any:
        return np.linalg.solve(a, b)

    a, b = gt.dmatrix("a", shape=(2, 2)), gt.dvector("b")
    y = solved(a, b)
    assert y.type == gt.TensorType("float64", (None,))
    (found,) = run([a, b], [y], "NUMPY", [[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0])
    assert found.tolist() == [1.0, 0.5]
    with graphc.config.change_flags(floatX="float32"):
        single = graphc.as_op(itypes=gt.vector, otypes=gt.scalar)(lambda x: x.sum())
        assert single(gt.fvector()).dtype == "float32"


# Errors.


def test_what_is_wrong_is_told() -> None:
    x = gt.vector("x")
    with pytest.raises(ArgumentError, match="not a type"):
        graphc.wrap_py(["float64"], VECTOR)
    with pytest.raises(ArgumentError, match="not a function"):
        graphc.wrap_py(VECTOR, VECTOR)(1)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="takes 1 arrays"):
        ranks(x, x)
    with pytest.raises(DTypeError, match="ranks takes"):
        ranks(gt.lvector())
    with pytest.raises(ShapeError, match="ranks takes"):
        ranks(gt.scalar())
    other = graphc.wrap_py(VECTOR, VECTOR, infer_shape=lambda shape: (1, *shape))(lambda v: v)
    with pytest.raises(ShapeError, match="infer_shape says"):
        other(x)
    few = graphc.wrap_py(VECTOR, [VECTOR] * 2, infer_shape=lambda shape: [shape])(lambda v: v)
    with pytest.raises(ArgumentError, match="for 2 results"):
        few(x)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda v: v.astype(complex), "complex128"),
        (lambda v: v[None], "otypes"),
        (lambda v: (v, v), "2 arrays"),
    ],
)
def test_a_result_that_is_not_as_told_is_an_error(function: Any, message: str) -> None:
    x = gt.vector("x")
    y = graphc.wrap_py(VECTOR, VECTOR)(function)(x)
    with pytest.raises(GraphcError, match=message):
        run([x], [y], "NUMPY", [1.0])


def test_jax_needs_to_know_the_lengths_of_results() -> None:
    x = gt.vector("x")
    y = graphc.wrap_py(VECTOR, VECTOR)(lambda v: v)(x)
    with pytest.raises(GraphcError, match="shape"):
        run([x], [y], "JAX", [1.0])


def test_infer_shape_takes_pytensors_form_without_fgraph(mode: str) -> None:
    def shapes(node: Any, input_shapes: Any) -> Any:
        assert node is None
        return [input_shapes[0]]

    double = graphc.wrap_py([gt.dvector], [gt.dvector], infer_shape=shapes)(lambda x: 2 * x)
    x = gt.dvector("x", shape=(3,))
    assert double(x).type.shape == (3,)
    (y,) = run([x], [double(x)], mode, [1.0, 2.0, 3.0])
    assert y.tolist() == [2.0, 4.0, 6.0]


def test_a_graph_with_a_decorated_function_of_a_module_is_pickled(mode: str) -> None:
    x = gt.vector("x", shape=(3,))
    y = tripled(x) + 1
    inputs, again = pickle.loads(pickle.dumps([[x], y]))
    (values,) = run(inputs, [again], mode, [1.0, 2.0, 3.0])
    assert values.tolist() == [4.0, 7.0, 10.0]
    data = pickle.dumps(y).replace(b"tripled", b"missing")
    with pytest.raises(ArgumentError, match="missing, which is not there"):
        pickle.loads(data)
