"""Generated code for integers, beside NumPy's own arithmetic on scalars."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError
from graphc.ir import Graph
from graphc.link.host import SliceLength
from graphc.link.integers import IntegerCode
from graphc.tensor.core.tensor import Tensor

EDGES = (-(2**31), -(2**31) + 1, -7, -1, 0, 1, 3, 2**30, 2**31 - 1)


def compute(inputs: Sequence[Any], outputs: Sequence[Any], *values: Any) -> list[Any]:
    graph = Graph(inputs, outputs)
    code = IntegerCode(graph)
    names = [code.integer(y) for y in graph.outputs]
    arguments = ", ".join(f"a{i}" for i in range(len(inputs)))
    lines = "".join(f"    {line}\n" for line in (*code.lines, f"return [{', '.join(names)}]"))
    exec(f"def compute({arguments}):\n{lines}", code.namespace)
    return code.namespace["compute"](*values)  # type: ignore[no-any-return]


SCALARS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - b,
    "product": lambda a, b: a * b + 1,
    "opposite": lambda a, b: -a,
    "quotient": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "larger": np.maximum,
    "smaller": np.minimum,
    "comparisons": lambda a, b: (a < b) * 8 + (a <= b) * 4 + np.equal(a, b) * 2 + (a > b),
    "other comparisons": lambda a, b: np.not_equal(a, b) * 2 + (a >= b),
    "bits": lambda a, b: a & b,
    "widened": lambda a, b: a.astype("int64") * b,
    "narrowed": lambda a, b: (a + b).astype("int8"),
    "unsigned": lambda a, b: a.astype("uint16") - b.astype("uint16"),
    "truth": lambda a, b: a.astype("bool").astype("int32") + b,
}


@pytest.mark.parametrize("name", SCALARS)
def test_integers_wrap_around_like_those_of_numpy(name: str) -> None:
    a, b = gt.iscalars("a", "b")
    y = SCALARS[name](a, b)
    for m in EDGES:
        for n in EDGES:
            values = np.int32(m), np.int32(n)
            with np.errstate(all="ignore"):
                expected = SCALARS[name](*values)
            assert compute([a, b], [y], *values) == [int(expected)], (m, n)


def test_a_condition_chooses_between_integers() -> None:
    a, b = gt.iscalars("a", "b")
    y = gt.where(a < b, a * 2, b - 1)
    assert [compute([a, b], [y], m, 4) for m in (3, 4)] == [[6], [3]]


@pytest.mark.parametrize("bounds", [(0, 3), (-4, 2), (5, 90), (-90, -1), (4, 4), (6, 2)])
def test_a_slice_has_the_length_that_numpy_gives(bounds: tuple[int, int]) -> None:
    x, i, j = gt.vector("x"), *gt.iscalars("i", "j")
    n = Tensor.make(SliceLength(0), i, j, x.shape[0])
    start, stop = bounds
    given = np.zeros(11), np.int32(start), np.int32(stop)
    assert compute([x, i, j], [n], *given) == [len(given[0][start:stop])]


def test_other_values_are_computed_by_numpy() -> None:
    x, i = gt.imatrix("x"), gt.iscalar("i")
    rows, columns = gt.shape(x)
    values = np.arange(12, dtype="int32").reshape(3, 4)
    y = x[i].sum() + gt.floor(gt.sqrt(i.astype("float64"))).astype("int32")
    numbers = [y, rows * columns, x[i, -1], i + 1]
    expected = [values[2].sum() + 1, 12, values[2, -1], 3]
    assert compute([x, i], numbers, values, np.int32(2)) == expected
    assert compute([x, i], numbers, jnp.asarray(values), jnp.int32(2)) == expected


def test_arrays_are_equal_in_a_key_if_their_elements_are() -> None:
    x = gt.ivector("x")
    code = IntegerCode(Graph([x], []))
    text = code.content(x)

    def content(*values: int) -> Any:
        namespace = {**code.namespace, "a0": np.array(values, "int32")}
        exec("\n".join([*code.lines, f"y = {text}"]), namespace)
        return namespace["y"]

    assert content(1, 2) == content(1, 2) != content(2, 1)


def test_a_bound_of_another_rank_is_refused() -> None:
    x, i = gt.vector("x"), gt.iscalar("i")
    f = graphc.function([x, i], x[i : i + 2], "JAX")
    for _ in range(2):
        with pytest.raises(ArgumentError, match=re.escape("expected int32[], got an array of")):
            f(np.arange(10.0), np.array([1, 2], "int32"))
        assert f(np.arange(10.0), 3).shape == (2,)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_bound_far_before_the_first_element_is_the_first_element(dtype: str) -> None:
    x, i = gt.vector("x", dtype=dtype), gt.lscalar("i")
    f = graphc.function([x, i], x[i:7], "JAX", returns="numpy")
    values = np.arange(10.0).astype(dtype)
    for start in (-(2**32) + 5, -4, 2**32 + 3):
        np.testing.assert_array_equal(f(values, start), values[start:7])
