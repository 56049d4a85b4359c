"""A batch at once gives what its elements give one by one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError, ShapeError, UnsupportedOperationError
from graphc.ir import Node, Op, toposort
from graphc.tensor import Tensor
from graphc.tensor.arrays.vectorize import batched
from tests.reference import evaluate

BATCH = 3


def batch_of(value: np.ndarray) -> np.ndarray:
    """Arrays of one shape that differ; integers keep their values, so that they stay indices."""
    if value.dtype.kind in "fc":
        return np.stack([value * (1 + k / 8) for k in range(BATCH)])
    return np.stack([np.roll(value, k) for k in range(BATCH)])


def check_batches(f: Callable[..., Any], *values: np.ndarray) -> None:
    """f of batches is the batch of f's, whichever are batched, of static length or not."""
    xs = [gt.tensor(shape=v.shape, dtype=v.dtype) for v in values]
    ys = f(*xs)
    ys = list(ys) if isinstance(ys, list | tuple) else [ys]
    for flags in itertools.product([False, True], repeat=len(values)):
        given = [batch_of(v) if flag else v for v, flag in zip(values, flags, strict=True)]
        expected = [
            evaluate(
                ys, {x: v[k] if flag else v for x, v, flag in zip(xs, given, flags, strict=True)}
            )
            for k in range(BATCH)
        ]
        for size in (BATCH, None) if any(flags) else ():
            batches = [gt.tensor(shape=(size, *v.shape), dtype=v.dtype) for v in values]
            replaced = {x: b for x, b, flag in zip(xs, batches, flags, strict=True) if flag}
            outputs = batched(ys, replaced)
            found = evaluate(
                outputs, {replaced.get(x, x): v for x, v in zip(xs, given, strict=True)}
            )
            for i, y in enumerate(found):
                np.testing.assert_allclose(y, np.stack([e[i] for e in expected]), rtol=1e-12)
                assert outputs[i].type.shape[1:] == ys[i].type.shape


X = np.random.default_rng(1).standard_normal((4, 3, 2))
OPERATIONS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "where": (lambda c, a, b: gt.where(c > 0, a, b), (X, X[0], X[0, 0])),
    "cast": (lambda x: x.astype("float32").astype("float64"), (X,)),
    "clip": (gt.clip, (X, -abs(X[0]), abs(X[0, 0]))),
    "reshape": (lambda x: x.reshape(2, -1), (X,)),
    "ravel": (lambda x: x.ravel(), (X,)),
    "reshape by a length": (lambda x, y: x.reshape(y.shape[0] * 0 + 6, -1), (X, X[0])),
    "transpose": (lambda x: x.transpose(2, 0, 1), (X,)),
    "expand_dims": (lambda x: gt.expand_dims(x, (0, 2, -1)), (X,)),
    "squeeze": (lambda x: x[:1].squeeze(0), (X,)),
    "broadcast_to": (lambda x: gt.broadcast_to(x[:, None, :1], (5, 4, 3, 6)), (X[:, 0],)),
    "broadcast_to scalar": (lambda x: gt.broadcast_to(x, (1, 2)), (X[0, 0, 0],)),
    "concatenate": (lambda x, y: gt.concatenate([x, y, x], 1), (X, X[:, :2])),
    "stack": (lambda x, y: gt.stack([x, y], -1), (X, X + 1)),
    "sum": (lambda x: x.sum((0, 2)), (X,)),
    "sum of all": (lambda x: x.sum(), (X,)),
    "prod": (lambda x: x.prod(1, keepdims=True), (X,)),
    "max": (lambda x: x.max(-1), (X,)),
    "min": (lambda x: x.min((0, 1)), (X,)),
    "all": (lambda x: (x > 0).all(0), (X,)),
    "any": (lambda x: (x > 0).any(0), (X,)),
    "argmax": (lambda x: x.argmax(1), (X,)),
    "argmin of all": (lambda x: x.argmin(), (X,)),
    "softmax": (lambda x: gt.softmax(x, 1), (X,)),
    "log_softmax": (lambda x: gt.log_softmax(x, (0, 2)), (X,)),
    "logsumexp": (lambda x: gt.logsumexp(x, 0, keepdims=True), (X,)),
    "dot": (gt.dot, (X, X[0, :2])),
    "dot of vectors": (gt.dot, (X[0, :, 0], X[1, :, 0])),
    "matmul": (lambda a, b: a @ b, (X, X.swapaxes(1, 2))),
    "matmul of a matrix": (lambda a, b: a @ b, (X[0].T, X)),
    "tensordot": (lambda a, b: gt.tensordot(a, b, ([0, 2], [2, 0])), (X, X.transpose(2, 1, 0))),
    "length": (lambda x: x * gt.as_tensor(x.shape[0], dtype="float64"), (X,)),
    "norm": (lambda x: gt.norm(x, axis=1), (X,)),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_brings_a_rule(name: str) -> None:
    f, values = OPERATIONS[name]
    check_batches(f, *[np.asarray(v) for v in values])


ARRAY = np.random.default_rng(2).standard_normal((4, 5, 6))
VALUE = np.random.default_rng(3).standard_normal(6)
ROWS_AT, COLUMNS_AT = np.array([0, 2, 1]), np.array([[1], [3]])
INDICES: dict[str, Callable[..., Any]] = {
    "x[i]": lambda x, i, j: x[i],
    "x[:, i]": lambda x, i, j: x[:, i],
    "x[i, :, j]": lambda x, i, j: x[i, :, j],
    "x[1, :, i]": lambda x, i, j: x[1, :, i],
    "x[:, i, j]": lambda x, i, j: x[:, i, j],
    "x[..., i, None]": lambda x, i, j: x[..., i, None],
    "x[i[0], :, i[1]]": lambda x, i, j: x[i[0], :, i[1]],
    "x[::-1, 1:3, i]": lambda x, i, j: x[::-1, 1:3, i],
    "x[None, :, 2, i]": lambda x, i, j: x[None, :, 2, i],
    "x[:, i[0]]": lambda x, i, j: x[:, i[0]],
    "x[i, None, j]": lambda x, i, j: x[i, None, j],
    "x[2]": lambda x, i, j: x[2],
    "x[:, 1:-1]": lambda x, i, j: x[:, 1:-1],
}


@pytest.mark.parametrize("index", INDICES)
def test_parts_of_a_batch_are_the_batch_of_parts(index: str) -> None:
    check_batches(INDICES[index], ARRAY, ROWS_AT, COLUMNS_AT)


@pytest.mark.parametrize("index", INDICES)
def test_a_batch_is_changed_as_its_elements_are(index: str) -> None:
    def changed(x: Tensor, i: Tensor, j: Tensor, v: Tensor) -> list[Tensor]:
        part = INDICES[index](x, i, j)
        fitting = v[: part.type.shape[-1]]
        return [part.inc(fitting), part.set(part * 2), part.inc(v[1])]

    check_batches(changed, ARRAY, ROWS_AT, COLUMNS_AT, VALUE)


def test_the_results_of_a_vectorized_graph_have_the_structure_of_the_outputs() -> None:
    x, xs = gt.vector("x"), gt.matrix("xs")
    results = graphc.vectorize_graph({"sum": x.sum(), "parts": (x * 2, [x])}, {x: xs})
    assert results["sum"].ndim == 1
    assert results["parts"] == (xs * 2, [xs])


def test_an_output_that_does_not_depend_on_the_batch_is_repeated() -> None:
    x, y, b = gt.vector(), gt.vector(), gt.matrix()
    (z,) = batched([gt.exp(y)], {x: b})
    (value,) = evaluate([z], {b: np.zeros((2, 3)), y: np.zeros(4)})
    np.testing.assert_array_equal(value, np.ones((2, 4)))


def test_lengths_are_the_same_for_the_whole_batch() -> None:
    x, b = gt.matrix(), gt.tensor3()
    outputs = batched([x.shape[1], x.shape, x.size], {x: b})
    found = evaluate(outputs, {b: np.zeros((2, 3, 4))})
    assert [v.tolist() for v in found] == [[4, 4], [[3, 4], [3, 4]], [12, 12]]


def test_what_does_not_depend_on_the_batch_stays_one_node() -> None:
    x, y, b = gt.vector(), gt.vector(), gt.matrix()
    kept = gt.exp(y)
    (z,) = batched([x * kept], {x: b})
    assert kept in z.inputs


def test_new_nodes_belong_to_the_line_of_the_old() -> None:
    x, b = gt.vector(), gt.matrix()
    y = gt.exp(x).sum()
    (z,) = batched([y], {x: b})
    assert z.where == y.where


def test_a_batch_of_no_elements_is_empty() -> None:
    x, b = gt.vector(), gt.matrix()
    (y,) = batched([(x[::-1] * 2).sum()], {x: b})
    assert evaluate([y], {b: np.zeros((0, 3))})[0].shape == (0,)


def test_a_long_chain_is_vectorised_without_recursion() -> None:
    x, b = gt.scalar(), gt.vector()
    y = x
    for _ in range(20_000):
        y = gt.sin(y)
    (z,) = batched([y], {x: b})
    assert len(toposort([z])) == 20_001


def test_a_graph_grows_by_few_nodes_whatever_the_batch() -> None:
    def nodes(size: int) -> int:
        x, b = gt.tensor(shape=(3, 3)), gt.tensor(shape=(size, 3, 3))
        y = gt.softmax(x @ x, 1)[gt.argmax(x, 1)].sum()
        return len(toposort(batched([y], {x: b})))

    assert nodes(2) == nodes(1000)


REFUSED: dict[str, Callable[[Tensor], Any]] = {
    "a slice": lambda n: gt.constant(np.arange(3.0))[:n],
    "a length": gt.zeros,
    "a range": gt.arange,
    "a unit matrix": gt.eye,
    "places": lambda n: gt.nonzero(gt.expand_dims(n, 0))[0],
    "a shape": lambda n: gt.zeros(6).reshape(n, -1),
}


@pytest.mark.parametrize("what", REFUSED)
def test_shapes_that_differ_within_a_batch_are_refused(what: str) -> None:
    n, b = gt.lscalar(), gt.lvector()
    with pytest.raises(UnsupportedOperationError, match="differ from one element"):
        batched([REFUSED[what](n)], {n: b})


def test_a_replacement_that_is_no_batch_is_refused() -> None:
    x = gt.tensor(shape=(3,))
    with pytest.raises(ShapeError, match="not a batch of"):
        batched([x], {x: gt.tensor(shape=(2, 4))})


def test_batches_of_two_lengths_are_refused() -> None:
    x, y = gt.scalar(), gt.scalar()
    with pytest.raises(ShapeError, match="different lengths, 2, 3, meet in input"):
        batched([x + y], {x: gt.tensor(shape=(2,)), y: gt.tensor(shape=(3,))})


def test_an_operation_without_a_rule_is_named() -> None:
    class Plain(Op):
        def infer(self, x: Any) -> Any:
            return x

    x, b = gt.vector(), gt.matrix()
    y: Node = Tensor.make(Plain(), x)
    with pytest.raises(UnsupportedOperationError, match="Plain has no rule for batches"):
        batched([y], {x: b})


# Several batch axes.

LEADING: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "one each": ((5,), (5,)),
    "only the first": ((5,), ()),
    "only the second": ((), (5,)),
    "none": ((), ()),
    "against each other": ((5, 1), (4,)),
    "of two ranks": ((4,), (5, 4)),
    "three axes": ((5, 1, 2), (4, 1)),
    "an axis of length 1": ((1,), (4,)),
    "axes of length 1 alone": ((1, 1), (1,)),
    "no elements": ((0, 1), (3,)),
}


def looped(f: Callable[..., Any], values: list[np.ndarray], cores: list[int]) -> np.ndarray:
    """f at every place of the batches, broadcast against each other."""
    heads = [v.shape[: v.ndim - core] for v, core in zip(values, cores, strict=True)]
    batch = np.broadcast_shapes(*heads)
    full = [
        np.broadcast_to(v, (*batch, *v.shape[len(head) :]))
        for v, head in zip(values, heads, strict=True)
    ]
    y = f(*[np.zeros(v.shape[len(batch) :]) for v in full])
    out = np.empty((*batch, *np.shape(y)))
    for place in np.ndindex(*batch):
        out[place] = f(*[v[place] for v in full])
    return out


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("name", LEADING)
def test_batches_of_any_rank_broadcast(name: str, static: bool) -> None:
    x, m = gt.tensor(shape=(3,)), gt.tensor(shape=(3, 2))
    shapes = [(*head, *core) for head, core in zip(LEADING[name], [(3,), (3, 2)], strict=True)]
    values = [np.random.default_rng(i).normal(size=shape) for i, shape in enumerate(shapes)]
    batches = [
        gt.tensor(shape=tuple(n if static or n == 1 else None for n in shape)) for shape in shapes
    ]
    if not static:
        x, m = gt.vector(), gt.matrix()
    y = graphc.vectorize_graph(gt.exp(x @ m) + x.sum(), {x: batches[0], m: batches[1]})
    (found,) = evaluate([y], dict(zip(batches, values, strict=True)))
    expected = looped(lambda x, m: np.exp(x @ m) + x.sum(), values, [1, 2])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert y.type.admits(y.type.with_shape(expected.shape))
    assert not static or y.type.shape == expected.shape


def test_each_output_has_the_batch_axes_of_what_it_depends_on() -> None:
    x, y, z = gt.tensor(shape=(3,)), gt.tensor(shape=(3,)), gt.scalar()
    xs, ys = gt.tensor(shape=(5, 1, 3)), gt.tensor(shape=(4, 3))
    kept = gt.exp(z)
    outputs = graphc.vectorize_graph((x * 2, y.sum(), x @ y, kept), {x: xs, y: ys})
    assert [made.type.shape for made in outputs] == [(5, 1, 3), (4,), (5, 4), ()]
    assert outputs[-1] is kept
    assert isinstance(outputs, tuple)


def test_batches_that_never_meet_may_differ_in_length() -> None:
    x, y = gt.scalar(), gt.scalar()
    outputs = graphc.vectorize_graph([x + 1, y + 1], {x: gt.dvector(), y: gt.tensor(shape=(7,))})
    assert [made.type.shape for made in outputs] == [(None,), (7,)]


def test_replacements_are_put_in_at_once() -> None:
    x, y = gt.scalar("x"), gt.scalar("y")
    xs, ys = gt.stack([y, y + 1]), gt.tensor(shape=(3, 2))
    made = graphc.vectorize_graph(x * 10 + y, {x: xs, y: ys})
    (found,) = evaluate([made], {y: 4.0, ys: np.arange(6.0).reshape(3, 2)})
    np.testing.assert_array_equal(found, [[40, 51], [42, 53], [44, 55]])


def test_a_computed_part_may_be_replaced_and_lengths_get_the_batch() -> None:
    x, b = gt.vector(), gt.tensor3()
    inner = gt.exp(x)
    made = graphc.vectorize_graph([inner.sum(), inner.shape[0]], {inner: b})
    found = evaluate(made, {b: np.ones((2, 3, 4))})
    np.testing.assert_array_equal(found[0], np.full((2, 3), 4.0))
    np.testing.assert_array_equal(found[1], np.full((2, 3), 4))


def test_no_broadcast_array_is_made_of_what_lacks_an_axis() -> None:
    x, y = gt.tensor(shape=(3,)), gt.tensor(shape=(3,))
    xs, ys = gt.tensor(shape=(500, 1, 3)), gt.tensor(shape=(400, 3))
    made = graphc.vectorize_graph(gt.exp(x) @ y, {x: xs, y: ys})
    sizes = [np.prod(node.type.shape) for node in toposort([made]) if node is not made]
    assert max(sizes) <= 1500


WRONG: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "too few axes": (lambda x: {x: gt.scalar()}, ShapeError, "last axes are not those"),
    "another length": (lambda x: {x: gt.tensor(shape=(5, 4))}, ShapeError, "last axes"),
    "another dtype": (lambda x: {x: gt.fmatrix()}, DTypeError, "the dtypes differ"),
    "no array": (lambda x: {"x": x}, ArgumentError, "not an array of the graph"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_replacement_is_refused_with_the_users_line(what: str) -> None:
    replace, error, message = WRONG[what]
    x = gt.tensor(shape=(3,))
    with pytest.raises(error, match=message) as caught:
        graphc.vectorize_graph(x * 2, replace(x))
    assert "test_vectorize.py:" in str(caught.value)


# Derivatives of batches.


def model(x: Tensor, w: Tensor) -> Tensor:
    return gt.tanh(x @ w).sum() + gt.softmax(w @ gt.ones((2,)), 0)[0]


def test_the_gradient_of_a_batch_is_the_batch_of_gradients() -> None:
    x, w, xs = gt.tensor(shape=(3,)), gt.tensor(shape=(3, 2)), gt.tensor(shape=(5, 3))
    y = model(x, w)
    over = graphc.vectorize_graph(y, {x: xs})
    ours = [*graphc.grad(over.sum(), [xs, w]), graphc.jacobian(over, w)]
    one = graphc.grad(y, [x, w])
    rng = np.random.default_rng(0)
    values = {xs: rng.normal(size=(5, 3)), w: rng.normal(size=(3, 2))}
    each = [evaluate(one, {x: row, w: values[w]}) for row in values[xs]]
    by_x, by_w, slopes = evaluate(ours, values)
    np.testing.assert_allclose(by_x, [g for g, _ in each])
    np.testing.assert_allclose(by_w, np.sum([g for _, g in each], 0))
    np.testing.assert_allclose(slopes, [g for _, g in each])


@pytest.mark.parametrize("derive", [
    lambda y, x: y, lambda y, x: graphc.grad(y.sum(), x), graphc.jacobian,
    lambda y, x: graphc.hessian(y.sum(), x),
])  # fmt: skip
def test_no_operation_is_repeated_for_the_elements_of_a_batch(derive: Any) -> None:
    def operations(size: int) -> list[str]:
        x, w, xs = gt.tensor(shape=(3,)), gt.tensor(shape=(3, 2)), gt.tensor(shape=(size, 3))
        y = graphc.vectorize_graph(model(x, w), {x: xs})
        return [node.op.name for node in toposort([derive(y, w)])]

    assert operations(2) == operations(1000)


# Functions.


def test_a_function_of_elements_becomes_one_of_batches() -> None:
    @graphc.vectorize(signature="(n),(n,m)->(m),()")
    def f(x: Tensor, m: Tensor) -> list[Tensor]:
        """Documented."""
        assert (x.ndim, m.ndim) == (1, 2)
        return [gt.exp(x @ m), x.sum()]

    x, m = gt.tensor(shape=(4, 1, 3)), gt.tensor(shape=(5, None, 2))
    outputs = f(x, m)
    assert f.__doc__ == "Documented."
    assert [y.type.shape for y in outputs] == [(4, 5, 2), (4, 5)]
    given = [np.random.default_rng(i).normal(size=s) for i, s in enumerate([(4, 1, 3), (5, 3, 2)])]
    first, second = evaluate(outputs, {x: given[0], m: given[1]})
    np.testing.assert_allclose(first, looped(lambda x, m: np.exp(x @ m), given, [1, 2]))
    np.testing.assert_allclose(second, looped(lambda x, m: x.sum(), given, [1, 2]))


def test_without_a_signature_elements_are_scalars() -> None:
    def f(a: Any, b: Any, power: int = 1) -> Any:
        assert {getattr(x, "ndim", 0) for x in (a, b)} == {0}
        return (a + 10 * b) ** power

    x, y = gt.tensor(shape=(2, 1)), gt.tensor(shape=(3,))
    made = graphc.vectorize(f, excluded={"power"})(x, b=y, power=2)
    plain = np.vectorize(f, excluded={"power"})
    values = [np.arange(2.0).reshape(2, 1), np.arange(3.0)]
    (found,) = evaluate([made], dict(zip((x, y), values, strict=True)))
    np.testing.assert_array_equal(found, plain(values[0], b=values[1], power=2))


def test_one_element_is_passed_on_as_it_is() -> None:
    x = gt.vector()
    assert graphc.vectorize(lambda v: v.sum(), "(n)->()")(x) is x.sum()


def test_a_result_that_is_the_same_for_all_is_there_for_each() -> None:
    x, z = gt.tensor(shape=(4, 3)), gt.scalar()
    assert gt.vectorize(lambda v: z, "(n)->()")(x).type.shape == (4,)


def f_of(signature: str, *shapes: Any) -> Callable[[], Any]:
    return lambda: graphc.vectorize(lambda *xs: xs[0], signature)(
        *[gt.tensor(shape=shape) for shape in shapes]
    )


NO_FUNCTION: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no signature": (f_of("n->m", (3,)), ArgumentError, "not a signature"),
    "no arrow": (f_of("(n)", (3,)), ArgumentError, "not a signature"),
    "too many arguments": (f_of("(n)->(n)", (3,), (3,)), ArgumentError, "2 arguments"),
    "too few axes": (f_of("(n,m)->(n,m)", (3,)), ShapeError, "does not have the core axes"),
    "lengths that differ": (f_of("(n),(n)->(n)", (3,), (4,)), ShapeError, "has length 4"),
    "a length of the signature": (f_of("(2)->(2)", (3,)), ShapeError, "has length 3"),
    "another result": (f_of("(n)->()", (3,)), ShapeError, "the result"),
    "several results": (f_of("(n)->(n),(n)", (3,)), ArgumentError, "1 results"),
    "batches that differ": (
        lambda: graphc.vectorize(lambda a, b: a + b)(gt.tensor(shape=(2,)), gt.tensor(shape=(3,))),
        ShapeError,
        "different lengths",
    ),
}


@pytest.mark.parametrize("what", NO_FUNCTION)
def test_a_wrong_call_is_refused_with_the_users_line(what: str) -> None:
    make, error, message = NO_FUNCTION[what]
    with pytest.raises(error, match=message) as caught:
        make()
    assert "test_vectorize.py:" in str(caught.value)
