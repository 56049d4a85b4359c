"""Lengths that only the run decides: each operation computes what is right for them, or refuses.

A length that is not declared is never repeated. Every case of ``cases/``, and every operation that
takes index arrays, is called with each length replaced: by 1, by 0 and by one more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import BoundsError, DynamicShapeError, GraphcError, UnsupportedOperationError
from graphc.ir import TensorType, is_inexact
from graphc.link import names
from tests.contract.case import Case
from tests.contract.differences import SMOOTH, slopes
from tests.contract.operands import arrays, symbols
from tests.contract.operations import FAMILIES
from tests.contract.tolerance import assert_agree
from tests.contract.values import plain
from tests.modes import lacks, uncompiled

BACKENDS = names()
Arrays = list[np.ndarray[Any, Any]]


FEW = {
    "convolve: ": "a convolution of no elements is refused where that is declared",
    "signal: ": "a convolution of no elements is refused where that is declared",
    "difference: ": "too few elements for a slope are refused where they are declared",
    "pad: ": "a mean of no elements is refused where that is declared",
    "statistics: ": "of one declared variable the result has no axes, as in NumPy",
    "determinant: slogdet of pos": "the sign is known, and the matrix is not computed",
    "subgraph: kept, with a loop": "an element of an empty array is not computed",
}
"""Cases whose results for a length of 0 or 1 are others where it is declared, with the reason."""

UNUSED = {
    "least squares: singular values": "the right-hand side is not used",
    "determinant: slogdet of pos, sign": "the sign of a positive definite matrix is 1",
    "toeplitz: product": "the operation alone; the lengths of a matrix are compared before it",
}
"""Cases whose results do not depend on an operand, with the reason."""


def with_other_lengths(values: Sequence[Any]) -> Iterator[Arrays]:
    """The arrays with one length of one of them replaced; elements of small integers stay small."""
    for i, x in enumerate(values):
        for axis, n in enumerate(x.shape):
            for m in {0, 1, n + 1} - {n}:
                shape = (*x.shape[:axis], m, *x.shape[axis + 1 :])
                other = (
                    plain(x.dtype.name, shape, i) if x.dtype.kind in "fc" else np.resize(x, shape)
                )
                yield [*values[:i], other.astype(x.dtype), *values[i + 1 :]]


def with_gradients(y: Any, xs: Sequence[Any]) -> list[Any]:
    """The result, and the gradients of a cost with respect to the floating operands."""
    floats = [x for x in xs if is_inexact(x.dtype)]
    if not is_inexact(y.dtype) or not floats:
        return [y]
    cost = gt.sum(gt.real(y * gt.conj(y)))
    return [y, *graphc.grad(cost, floats, disconnected_inputs="ignore")]


def outputs_of(case: Case, xs: Sequence[Any]) -> list[Any]:
    y = case.symbolic(*xs)
    return with_gradients(y, xs) if case.differentiated and not case.special else [y]


def declared(case: Case, values: Arrays) -> Any:
    """What the program of arrays of these declared lengths gives, in NumPy as it is written."""
    xs = [TensorType(x.dtype, x.shape)() for x in values]
    mode = uncompiled("NUMPY", excluding=["all"])
    f = graphc.function(xs, outputs_of(case, xs), mode, on_unused_input="ignore", returns="numpy")
    return f(*values)


def dtype_of(case: Case, backend: str) -> str:
    wanted = "float32" if backend == "MLX" and "float64" not in case.dtypes else "float64"
    return wanted if wanted in case.dtypes else case.dtypes[0]


@pytest.mark.sample(every=12, backend="NUMPY")
@pytest.mark.sample(every=36, backend="JAX")
@pytest.mark.sample(every=24, backend="MLX")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_an_operation_computes_what_declared_lengths_give_or_refuses(
    family: str, backend: str
) -> None:
    for name, case in FAMILIES[family].items():
        values = arrays(case, dtype_of(case, backend))
        if case.static or case.values or any(lacks(backend, x.dtype.name) for x in values):
            continue
        if f"{family}: {name}" in UNUSED:
            continue
        xs = symbols(case, values)
        try:
            outputs = outputs_of(case, xs)
            mode = uncompiled(backend)
            f = graphc.function(xs, outputs, mode, on_unused_input="ignore", returns="numpy")
        except UnsupportedOperationError:
            continue  # complex results of real operands, which MLX lacks
        few = f"{family}: {name}".startswith(tuple(FEW))
        for given in with_other_lengths(values):
            if few and min(n for x in given for n in x.shape) < 2:
                continue
            what = f"{family}: {name}, of shapes {[x.shape for x in given]}"
            try:
                with np.errstate(all="ignore"):
                    found = f(*given)
            except GraphcError:
                continue
            confirm(what, found, given, lambda given=given, case=case: declared(case, given))


def confirm(what: str, found: Sequence[Any], given: Arrays, wanted: Callable[[], Any]) -> None:
    """Raise unless the results are what other lengths give, and gradients fit their arrays."""
    floats = [x for x in given if x.dtype.kind in "fc"]
    if len(found) > 1:
        assert [g.shape for g in found[1:]] == [x.shape for x in floats], what
    try:
        expected = wanted()
    except BoundsError:
        return  # JAX and MLX read the element that is nearest
    except GraphcError as error:
        pytest.fail(f"{what}: {found}, where declared lengths are refused: {error}")
    for y, z in zip(found, expected, strict=True):
        assert y.shape == z.shape, what
        scale = np.abs(z).max(initial=1)
        if is_inexact(z.dtype.name):
            # Of a float16, eps is 1e-3.
            error = max(1e-4, 8 * float(np.finfo(z.dtype).eps))
            within = error * (scale if np.isfinite(scale) else 1)
            np.testing.assert_allclose(y, z, error, within, err_msg=what)
        else:
            assert_agree(y, z, what)


def _put(x: Any, index: Any, value: Any) -> Any:
    y = np.array(x)
    y[index] = value
    return y


def _added(x: Any, index: Any, value: Any) -> Any:
    y = np.array(x)
    np.add.at(y, index, value)
    return y


def _chosen(i: Any, choices: Any) -> Any:
    if np.max(i, initial=0) >= len(choices):
        raise IndexError("no such choice")
    return np.choose(i, choices)


def _along(x: Any, i: Any, v: Any, write: Any) -> Any:
    grid = np.arange(x.shape[1])[None]
    return write(x, (i, grid), v)


X = np.arange(20.0).reshape(5, 4) / 8 - 1
ROWS, COLUMNS = np.array([2, 0, 3]), np.array([1, 3, 0])
MASK = np.array([True, False, True, True, False])
TABLE = np.array([[1, 0, 2, 4], [3, 2, 0, 0], [2, 4, 4, 1]])
V, U = np.array([0.5, -0.25, 2.0, 0.75, 1.5]), X[:3] ** 2 + 0.5

INDICES: dict[str, tuple[Any, Any, Arrays]] = {
    "two vectors": (lambda x, i, j: x[i, j], lambda x, i, j: x[i, j], [X, ROWS, COLUMNS]),
    "a vector and a column": (
        lambda x, i, j: x[i, j[:, None]], lambda x, i, j: x[i, j[:, None]], [X, ROWS, COLUMNS]
    ),
    "a vector, a slice": (lambda x, i: x[i, 1:], lambda x, i: x[i, 1:], [X, ROWS]),
    "a mask": (lambda x, m: x[m], lambda x, m: x[m], [X, MASK]),
    "a mask and a vector": (lambda x, m, i: x[m, i], lambda x, m, i: x[m, i], [X, MASK, ROWS]),
    "take_along_axis": (
        lambda x, k: gt.take_along_axis(x, k, 0), lambda x, k: np.take_along_axis(x, k, 0),
        [X, TABLE],
    ),
    "put_along_axis": (
        lambda x, k, v: gt.put_along_axis(x, k, v, 0),
        lambda x, k, v: _along(x, k, v, _put), [X, TABLE, U],
    ),
    "put_along_axis, accumulating": (
        lambda x, k, v: gt.put_along_axis(x, k, v, 0, accumulate=True),
        lambda x, k, v: _along(x, k, v, _added), [X, TABLE, U],
    ),
    "choose": (gt.choose, _chosen, [COLUMNS, X[:, :3]]),
    "ravel_multi_index": (
        lambda i, j: gt.ravel_multi_index((i, j), (5, 4)),
        lambda i, j: np.ravel_multi_index((i, j), (5, 4)), [ROWS, COLUMNS],
    ),
    "repeat": (lambda x, i: gt.repeat(x, i, 0), lambda x, i: np.repeat(x, i, 0), [X[:3], ROWS]),
}  # fmt: skip
"""Functions with index arrays as operands: graphc's, NumPy's, and operands."""

PARTS: dict[str, tuple[Any, Any]] = {
    "a slice": (lambda x, *_: x[:3, 0], np.s_[:3, 0]),
    "a slice with a step": (lambda x, *_: x[4:1:-1, 0], np.s_[4:1:-1, 0]),
    "a whole axis": (lambda x, *_: x[:, 0], np.s_[:, 0]),
    "rows of a slice": (lambda x, *_: x[1:4], np.s_[1:4]),
    "rows of a vector": (lambda x, i, m: x[i], "i"),
    "elements of a vector": (lambda x, i, m: x[i, 1], "i"),
    "columns of a vector": (lambda x, i, m: x[1:4, i], "i"),
    "elements of a mask": (lambda x, i, m: x[m, 1], "m"),
    "rows of a mask": (lambda x, i, m: x[m], "m"),
}
"""Parts of a matrix."""


def _index(part: str, i: Any, m: Any) -> Any:
    kind = PARTS[part][1]
    if not isinstance(kind, str):
        return kind
    chosen = i if kind == "i" else m
    if part.startswith("columns"):
        return np.s_[1:4], chosen
    return (chosen, 1) if part.startswith("elements") else (chosen,)


def _update(part: str, name: str, rank: int) -> tuple[Any, Any, Arrays]:
    """A part that is set or increased by a value of this rank: graphc's, NumPy's, and operands."""
    write = _put if name == "set" else _added

    def build(x: Any, i: Any, m: Any, v: Any) -> Any:
        return getattr(PARTS[part][0](x, i, m), name)(v)

    def by_numpy(x: Any, i: Any, m: Any, v: Any) -> Any:
        return write(x, _index(part, i, m), v)

    shape = X[_index(part, ROWS, MASK)].shape
    return build, by_numpy, [X, ROWS, MASK, np.resize(V, shape[len(shape) - rank :])]


INDICES |= {
    f"{name} {part} to {rank} axes": _update(part, name, rank)
    for part in PARTS
    for name in ("set", "inc")
    for rank in range(1, 1 + X[_index(part, ROWS, MASK)].ndim)
}


@pytest.mark.sample(every=9, backend="JAX")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", INDICES)
def test_an_index_computes_what_numpy_does_or_refuses(name: str, backend: str) -> None:
    build, by_numpy, values = INDICES[name]
    xs = [TensorType(x.dtype, (None,) * x.ndim)() for x in values]
    outputs, mode = with_gradients(build(*xs), xs), uncompiled(backend)
    try:
        f = graphc.function(xs, outputs, mode, on_unused_input="ignore", returns="numpy")
    except DynamicShapeError:
        assert backend == "JAX"
        assert "mask" in name
        return
    for given in (values, *with_other_lengths(values)):
        what = f"{name}, of shapes {[x.shape for x in given]}"
        try:
            found = f(*given)
        except GraphcError:
            assert given is not values, what
            continue
        try:
            expected = by_numpy(*given)
        except IndexError:
            assert backend != "NUMPY", what  # others read what is nearest, and write nothing
            continue
        assert found[0].shape == expected.shape, what
        np.testing.assert_allclose(found[0], expected, 1e-6, err_msg=what)
        floats = [k for k, x in enumerate(given) if x.dtype.kind == "f"]

        def cost(*moved: Any, given: Any = given, floats: Any = floats) -> Any:
            whole = dict(zip(floats, moved, strict=True))
            return (by_numpy(*[whole.get(k, x) for k, x in enumerate(given)]) ** 2).sum()

        wanted = slopes(cost, [given[k] for k in floats]) if len(found) > 1 else []
        for g, slope in zip(found[1:], wanted, strict=True):
            assert g.shape == slope.shape, what
            np.testing.assert_allclose(g, slope, SMOOTH, SMOOTH, err_msg=what)
