"""Type rules run on expressions give the lengths that results have, and those that are compared."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import GraphcError, InvalidGraphError, RuntimeShapeError
from graphc.implicit import ImplicitArray
from graphc.ir import Node, Op, Pick, TensorType, TupleType, toposort
from graphc.ir.law import MARKS, _law, checks_of, deciding_inputs, law
from graphc.ir.lengths import SymbolicLength, agree, common, is_symbol
from graphc.link import names
from graphc.rewrite.facts.lengths import length_of
from tests.contract.case import Case
from tests.contract.operands import arrays, symbols
from tests.contract.operations import FAMILIES
from tests.rewrite.exact import values_of

CASES = [
    pytest.param(case, id=f"{family}-{name}")
    for family, cases in FAMILIES.items()
    for name, case in cases.items()
    if not case.static
]

FUNCTIONS: dict[str, Any] = {
    "min": min,
    "max": max,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "slice": lambda n, *bounds: len(range(n)[slice(*bounds)]),
    "arange": lambda *bounds: len(np.arange(*bounds)),
    "count": np.count_nonzero,
    "total": np.sum,
}


def number(length: Any, operands: list[np.ndarray[Any, Any]]) -> Any:
    """Return an expression's value for operands; None where NumPy has no function for it."""
    if not isinstance(length, SymbolicLength):
        return length
    result = length.constant
    for atom, k in length.terms:
        if is_symbol(atom):
            x = operands[atom[1]]
            value: Any = x if atom[0] == "value" else x.shape[atom[2]]
        else:
            name, *arguments = atom
            if name not in FUNCTIONS:
                return None
            value = FUNCTIONS[name](*[number(n, operands) for n in arguments])
        result += k * value
    return result


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("case", CASES)
def test_a_type_rule_gives_the_lengths_of_results(case: Case) -> None:
    given = arrays(case, "float64" if "float64" in case.dtypes else case.dtypes[0])
    xs = symbols(case, given)
    results = case.symbolic(*xs)
    nodes = [
        node
        for node in toposort(results if isinstance(results, list | tuple) else [results])
        if node.inputs and isinstance(node.type, TensorType) and not node.op.graphs()
    ]
    operands = list(dict.fromkeys(x for node in nodes for x in source_of(node).inputs))
    arrays_only = [x for x in operands if isinstance(x.type, TensorType)]
    try:
        values = values_of([*nodes, *arrays_only], dict(zip(xs, given, strict=True)))
    except GraphcError:
        pytest.skip("an operation without a NumPy reference")
    array_of = dict(zip([*nodes, *arrays_only], map(np.asarray, values), strict=True))
    for node in nodes:
        source = source_of(node)
        if source.op.graphs() or any(isinstance(x.type, TupleType) for x in source.inputs):
            continue
        rule = law(source.op, tuple([x.type for x in source.inputs]))
        item = node.op.index if isinstance(node.op, Pick) else 0
        inputs = [array_of[x] for x in source.inputs]
        shape = rule.results[item] if rule.results else ()
        for n, m in zip(shape, array_of[node].shape, strict=False):
            value = number(n, inputs)
            assert value is None or value == m, (node, shape)
        for i, k, j, axis in rule.checks:
            assert inputs[i].shape[k] == inputs[j].shape[axis], node


def source_of(node: Node) -> Node:
    """Return the node that computes a result: of one of several, the node that has them all."""
    return node.inputs[0] if isinstance(node.op, Pick) else node


def test_foreign_type_rules_see_numbers_alone() -> None:
    seen: list[Any] = []

    def infer_shape(shape: Any) -> Any:
        seen.append(shape)
        return shape

    v = gt.vector("v")
    y = graphc.wrap_py([v.type], [v.type], infer_shape=infer_shape)(lambda a: a + 1)(v)
    y = y[0] if isinstance(y, list) else y
    assert length_of(y, 0) is length_of(v, 0)
    assert all(n is None or isinstance(n, int) for (n,) in seen)


def is_loopable(n: Any) -> bool:
    """Fail where a loop over a length is long; ``except Exception`` does not catch it."""
    if isinstance(n, int) and n > 10_000:
        pytest.fail(f"A function is run for an array of length {n}.")
    return True


@dataclass(frozen=True)
class Looping(ImplicitArray):
    x: Any

    @property
    def shape(self) -> Any:
        assert is_loopable(self.x.shape[0])
        return self.x.shape

    @property
    def dtype(self) -> Any:
        return self.x.dtype

    def materialize(self) -> Any:
        return self.x


def rows_stacked(x: Any) -> Any:
    assert is_loopable(x.shape[0])
    return jnp.stack([x[i] for i in range(x.shape[0])])


def same_shape(shape: Any) -> Any:
    assert is_loopable(shape[0])
    return shape


@pytest.mark.parametrize("kind", ["wrap_jax", "wrap_py", "implicit"])
def test_foreign_code_may_loop_over_lengths(kind: str) -> None:
    v = gt.vector("v")
    if kind == "wrap_jax":
        y = graphc.wrap_jax(rows_stacked)(v)
    elif kind == "wrap_py":
        y = graphc.wrap_py([v.type], [v.type], infer_shape=same_shape)(lambda a: a + 0)(v)
    else:
        y = gt.as_tensor(Looping(v))
    length_of(y, 0)
    assert graphc.function([v], y + 1, mode="NUMPY")([1.0, 2.0, 4.0]).tolist() == [2, 3, 5]


def test_a_constant_length_that_equals_a_mark_is_unknown() -> None:
    v = gt.vector("v")
    for start, step in MARKS:
        for n in [start, start + step]:
            f = graphc.wrap_py([v.type], [v.type], infer_shape=lambda s, n=n: (n,))
            y = f(lambda a, n=n: np.ones(n))(v)
            assert law(y.owner.op, (v.type,)).results == ((None,),)


LENGTHS: dict[str, Any] = {
    "the smaller": min,
    "the larger": max,
    "at most 4": lambda n, m: min(n, 4),
    "at least 100": lambda n, m: max(n, 100),
}


@pytest.mark.parametrize("name", LENGTHS)
@pytest.mark.parametrize("is_swapped", [False, True])
def test_lengths_that_foreign_type_rules_compute_are_unknown(name: str, is_swapped: bool) -> None:
    def computed(n: Any, m: Any) -> Any:
        return LENGTHS[name](*((m, n) if is_swapped else (n, m)))

    def infer_shape(a: Any, b: Any) -> Any:
        return (None if None in (*a, *b) else computed(*a, *b),)

    x, y = gt.vectors("x", "y")
    f = graphc.wrap_py([x.type, y.type], [x.type], infer_shape=infer_shape)
    z = f(lambda a, b: np.zeros(computed(len(a), len(b))))(x, y)
    n = graphc.function([x, y], z.shape[0], mode="NUMPY")
    assert [n(np.ones(a), np.ones(b)) for a, b in [(3, 6), (7, 2)]] == [
        computed(3, 6),
        computed(7, 2),
    ]


def test_methods_that_infer_replaces_are_refused() -> None:
    with pytest.raises(InvalidGraphError, match="agree"):

        class Old(Op):
            def checks(self, *types: Any) -> Any:
                return [(0, 0, 1, 0)]


def test_values_that_decide_a_length_are_known_to_the_type_rule() -> None:
    x, k, i = gt.matrix("x"), gt.lscalar("k"), gt.lvector("i")
    assert deciding_inputs(x[i, k:]) == (2,)
    assert deciding_inputs(x[k:].set(1.0)) == (2,)
    assert deciding_inputs(gt.arange(0, k)) == (0, 1, 2)
    assert deciding_inputs(gt.zeros((k, 3))) == (1,)
    assert deciding_inputs(gt.specify_shape(x, (k, None))) == (1,)
    assert deciding_inputs(gt.exp(x)) == ()


def test_a_number_and_an_unknown_length_are_compared() -> None:
    x, y = gt.tensor("x", shape=(2, 5)), gt.tensor("y", shape=(None, None))
    assert checks_of(x + y) == ((0, 0, 1, 0), (0, 1, 1, 1))
    assert checks_of(gt.linalg.cholesky(y)) == ((0, 0, 0, 1),)


@dataclass(frozen=True, slots=True)
class RowNorms(Op):
    """The norms of rows, times a weight for each row, as a user would write it."""

    def infer(self, x: TensorType, weights: TensorType) -> TensorType:
        if not agree(x.shape[0], weights.shape[0]):
            raise graphc.errors.ShapeError(f"row_norms({x!r}, {weights!r}): lengths differ.")
        return x.with_shape((common(x.shape[0], weights.shape[0]),))

    def perform(self, x: Any, weights: Any) -> Any:
        return np.linalg.norm(x, axis=1) * np.resize(weights, x.shape[0])


@pytest.mark.parametrize("backend", names())
def test_a_users_operation_compares_lengths_by_its_type_rule(backend: str) -> None:
    x, w = gt.matrix("x"), gt.vector("w")
    mode = graphc.Mode(backend) if backend == "NUMPY" else graphc.Mode(backend, fallback="numpy")
    f = graphc.function([x, w], RowNorms()(x, w), mode, returns="numpy")
    np.testing.assert_allclose(f([[3.0, 4.0], [0.0, 2.0]], [1.0, 5.0]), [5.0, 10.0])
    with pytest.raises(RuntimeShapeError, match="differ in length"):
        f(np.ones((2, 4)), np.ones(3))


def test_no_constant_is_kept_alive() -> None:
    array = np.ones(7)
    x = gt.as_tensor(array)
    before = sys.getrefcount(x.op)
    assert not deciding_inputs(x)
    after = sys.getrefcount(x.op)
    assert after == before


def test_carries_keep_their_lengths_and_rows_are_as_many_as_steps() -> None:
    x, h, k = gt.vector("x"), gt.matrix("h"), gt.lscalar("k")
    ys = graphc.scan(lambda a, c: c * 2 + a, sequences=[x], outputs_info=[h])
    (loop,) = ys.inputs
    assert str(law(loop.op, tuple([y.type for y in loop.inputs])).results) == (
        "((#1.0, #1.1), (#2.0, None, None))"
    )
    assert (length_of(ys, 1), length_of(ys, 2)) == (length_of(h, 0), length_of(h, 1))
    assert length_of(ys, 0) is length_of(x, 0)
    (loop,) = graphc.scan(lambda c: c * 2, outputs_info=[h], n_steps=k).inputs
    assert str(law(loop.op, tuple([y.type for y in loop.inputs])).results[1][0]) == "#0"
    assert deciding_inputs(loop) == (0,)


def test_type_rules_of_graphc_fail_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    v = gt.vector("v")
    y = gt.exp(v)[1:]

    def wrong(self: Any, *types: Any) -> Any:
        raise RuntimeError("wrong")

    monkeypatch.setattr(type(y.op), "infer", wrong)
    with pytest.raises(RuntimeError, match="wrong"):
        _law(y.op, (v.type,))
