"""What every structure is put through: the operations of ``cases.py``, each run in several ways.

A test file of a structure has a function ``make`` of a random generator, which gives an implicit
array of NumPy's arrays and the same as a whole array, and ``STRUCTURED``, the names of the
operations in which it must not become whole::

    STRUCTURED = named("x @ w; w[1]; w * 2")

    @pytest.mark.parametrize(("case", "way"), runs(ndim=2))
    def test_operations(case: Case, way: str) -> None:
        check(make, case, way, STRUCTURED)

An operation that is named there runs under the policy "error", so that a handler that is lost fails
the test; the others may materialise. Values are compared with NumPy's in float64, gradients with
those through the whole array, dtypes with what the operation gives for whole arrays.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Sequence
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.implicit import ImplicitArray, materialize_nested, materializing
from graphc.implicit.functions import implicit
from graphc.implicit.treedef import Treedef
from graphc.ir import dtype_name, is_complex, is_inexact, numpy_dtype
from graphc.link import as_numpy
from tests.implicit.cases import CASES, Case, operands_for
from tests.modes import uncompiled

__all__ = ["CORE", "FEW", "Case", "check", "named", "runs"]

Make = Callable[[np.random.Generator], tuple[ImplicitArray, np.ndarray[Any, Any]]]

FEW = ("jit", "NUMPY")
"""How all operations are run."""

CORE = ("eager", "vmap", "vmap inside", "gradient", "JAX", "MLX", "graph gradient")
"""How the main ones are run besides."""


def runs(ndim: int, ways: Collection[str] = (*FEW, *CORE)) -> list[Any]:
    """Pairs of an operation of arrays of so many axes and a way to run it.

    JAX compiles each program, so only every other operation that is no main one runs in it.
    """
    return [
        pytest.param(case, way, id=f"{case.name}: {way}")
        for i, case in enumerate(CASES)
        for way in ways
        if ndim in case.ndims
        if way in FEW or case.is_core
        if way != "jit" or case.is_core or i % 2
        if case.is_smooth or "gradient" not in way
    ]


def named(*lists: str) -> frozenset[str]:
    """The operations whose names stand in these lists, between semicolons.

    Raises:
        AssertionError: There is none of a name.
    """
    names = frozenset(" ".join(name.split()) for names in lists for name in names.split(";"))
    unknown = names - {case.name for case in CASES} - {""}
    assert not unknown, unknown
    return names


def check(make: Make, case: Case, way: str, structured: Collection[str]) -> None:
    """Raise where an operation gives something else than for the whole array.

    Args:
        make: Gives the implicit array and the whole one.
        case: The operation.
        way: One of ``FEW`` or ``CORE``.
        structured: The names of the operations in which the array must not become whole. Within
            ``"vmap inside"`` it may, as operations have one axis more there.
    """
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    array, whole = make(rng)
    operands = operands_for(rng, whole.shape, whole.dtype)
    policy = "error" if case.name in structured and way != "vmap inside" else "allow"
    with jax.enable_x64(True):
        WAYS[way](case, policy, (array, whole, operands), lambda: make(rng))


# Values in JAX.

Given = tuple[ImplicitArray, Any, SimpleNamespace]


def _in_jax(case: Case) -> Callable[[Any, dict[str, Any]], Any]:
    def compute(w: Any, operands: dict[str, Any]) -> Any:
        return case.compute(jnp, w, SimpleNamespace(**operands))

    return compute


def _as_jax(x: Any) -> Any:
    return jax.tree.map(jnp.asarray, x)


def _by_jax(wrap: Callable[..., Any]) -> Callable[..., None]:
    def run(case: Case, policy: str, given: Given, more: Any) -> None:
        array, whole, operands = given
        compute = _in_jax(case)
        arguments = _as_jax(vars(operands))
        wanted = jax.eval_shape(compute, _as_jax(whole), arguments)
        with materializing(policy):
            found = wrap(implicit(compute))(_as_jax(array), arguments)
        _compare(found, _expected(case, whole, operands), wanted)

    return run


def _vmapped(transformed: Callable[..., Any]) -> Callable[..., None]:
    def run(case: Case, policy: str, given: Given, more: Any) -> None:
        array, whole, operands = given
        other, other_whole = more()
        both = jax.tree.map(lambda a, b: jnp.stack([a, b]), array, other)
        twice = jax.tree.map(lambda a: jnp.stack([a, a]), vars(operands))
        compute = _in_jax(case)
        wanted = jax.eval_shape(compute, _as_jax(whole), _as_jax(vars(operands)))
        with materializing(policy):
            found = transformed(compute)(both, twice)
        for i, x in enumerate((whole, other_whole)):
            mine = [np.asarray(part)[i] for part in _parts(found)]
            _compare(mine, _expected(case, x, operands), wanted)

    return run


def _gradient(case: Case, policy: str, given: Given, more: Any) -> None:
    """By the operands and the array's fields that are floating numbers."""
    array, whole, operands = given
    leaves, tree = jax.tree.flatten((array, vars(operands)))
    smooth = [is_inexact(dtype_name(x.dtype)) for x in leaves]
    compute = _in_jax(case)
    loss = _loss(_expected(case, whole, operands))

    def total(function: Any, floats: Sequence[Any]) -> Any:
        rest = iter(floats)
        parts = [next(rest) if flag else x for x, flag in zip(leaves, smooth, strict=True)]
        found = _parts(function(*jax.tree.unflatten(tree, parts)))
        return loss(jnp, [materialize_nested(y, full=True) for y in found])

    def through_whole(w: Any, operands: dict[str, Any]) -> Any:
        return compute(materialize_nested(w, full=True), operands)

    floats = [jnp.asarray(x) for x, flag in zip(leaves, smooth, strict=True) if flag]
    with materializing(policy):
        found = jax.jit(jax.grad(lambda xs: total(implicit(compute), xs)))(floats)
    wanted = jax.jit(jax.grad(lambda xs: total(through_whole, xs)))(floats)
    results = _parts(jax.eval_shape(compute, _as_jax(whole), _as_jax(vars(operands))))
    _same(found, wanted, [y.dtype for y in results])


# Values of graphs.


def _by_graph(mode: str) -> Callable[..., None]:
    def run(case: Case, policy: str, given: Given, more: Any) -> None:
        array, whole, operands = _narrow(given) if mode == "MLX" else given
        inputs, w, inside = _symbols(array, operands)
        outputs = _parts(case.compute(gt, w, inside))
        with materializing(policy):
            f = graphc.function(inputs, outputs, mode=uncompiled(mode), on_unused_input="ignore")
            found = f(array, *vars(operands).values())
        _compare(found, _expected(case, whole, operands), [y.type for y in outputs])

    return run


def _graph_gradient(case: Case, policy: str, given: Given, more: Any) -> None:
    """By the operands and the array's fields that are floating numbers."""
    array, whole, operands = given
    inputs, w, inside = _symbols(array, operands)
    loss = _loss(_expected(case, whole, operands))
    by = [x for x in (*Treedef.of(w.array)[1], *vars(inside).values()) if is_inexact(x.dtype)]

    def gradients(of: Any, policy: str) -> Any:
        with materializing(policy):
            total = loss(gt, _parts(case.compute(gt, of, inside)))
            found = graphc.grad(total, by, disconnected_inputs="ignore")
            f = graphc.function(inputs, found, mode="NUMPY", on_unused_input="ignore")
            return f(array, *vars(operands).values())

    results = [y.dtype for y in _parts(case.compute(gt, w, inside))]
    _same(gradients(w, policy), gradients(w.dense(), "allow"), results)


def _symbols(array: ImplicitArray, operands: SimpleNamespace) -> tuple[Any, Any, SimpleNamespace]:
    """The inputs of a function, the array's symbol, and those of the operands by name."""
    w = gt.implicit(array, name="w")
    inside = {
        name: gt.tensor(name, dtype=dtype_name(x.dtype), shape=x.shape)
        for name, x in vars(operands).items()
    }
    return [w, *inside.values()], w, SimpleNamespace(**inside)


def _narrow(given: Given) -> Given:
    """In float32, where MLX has nothing wider."""
    treedef, leaves = Treedef.of(given[0])
    parts = [x.astype("float32") if x.dtype == "float64" else x for x in leaves]
    operands = {
        name: x.astype("float32") if x.dtype == "float64" else x
        for name, x in vars(given[2]).items()
    }
    array = treedef.build(parts)
    return array, given[1].astype(array.dtype), SimpleNamespace(**operands)


WAYS: dict[str, Callable[..., None]] = {
    "eager": _by_jax(lambda f: f),
    "jit": _by_jax(jax.jit),
    "vmap": _vmapped(lambda f: jax.vmap(implicit(f))),
    "vmap inside": _vmapped(lambda f: implicit(jax.vmap(f))),
    "gradient": _gradient,
    "NUMPY": _by_graph("NUMPY"),
    "JAX": _by_graph("JAX"),
    "MLX": _by_graph("MLX"),
    "graph gradient": _graph_gradient,
}


# What is compared.


def _parts(found: Any) -> list[Any]:
    return list(found) if isinstance(found, list | tuple) else [found]


def _wide(x: Any) -> Any:
    if not is_inexact(dtype_name(x.dtype)):
        return x
    return x.astype("complex128" if is_complex(dtype_name(x.dtype)) else "float64")


def _expected(case: Case, whole: Any, operands: SimpleNamespace) -> list[Any]:
    """NumPy's values, in float64 or complex128."""
    wide = SimpleNamespace(**{name: _wide(x) for name, x in vars(operands).items()})
    with np.errstate(all="ignore"):
        return [np.asarray(x) for x in _parts(case.compute(np, _wide(whole), wide))]


def _loss(expected: Sequence[Any]) -> Callable[..., Any]:
    """A scalar that depends on each element of some results in its own way."""
    weights = [np.cos(np.arange(x.size).reshape(x.shape)) for x in expected]

    def loss(xp: Any, parts: Sequence[Any]) -> Any:
        pairs = zip(parts, weights, strict=True)
        return sum(xp.sum(part * weight.astype(dtype_name(part.dtype))) for part, weight in pairs)

    return loss


def _compare(found: Any, expected: Sequence[Any], wanted: Any) -> None:
    """Values, shapes and dtypes, of each result."""
    for y, right, kind in zip(_parts(found), expected, _parts(wanted), strict=True):
        given = y if isinstance(y, ImplicitArray) else as_numpy(y)
        assert dtype_name(given.dtype) == dtype_name(kind.dtype)
        _close(given, right, kind.dtype)


def _same(found: Sequence[Any], wanted: Sequence[Any], results: Sequence[Any]) -> None:
    """Gradients, as exact as the narrowest dtype on their way; sums of them may cancel."""
    size = max([1, *[float(np.max(np.abs(b), initial=0)) for b in wanted]])
    for a, b in zip(found, wanted, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        narrowest = min((b.dtype, *map(numpy_dtype, map(dtype_name, results))), key=_digits)
        _close(a, b, narrowest, size)


def _digits(dtype: Any) -> int:
    return int(jnp.finfo(dtype).nmant)


def _close(found: Any, expected: Any, dtype: Any, least: float = 1e-30) -> None:
    """Equal as far as a result of that dtype can be, by the largest element or that at least."""
    found = as_numpy(materialize_nested(found, full=True))
    right = np.asarray(expected)
    assert found.shape == right.shape
    if not is_inexact(dtype_name(dtype)):
        np.testing.assert_array_equal(found, right)
        return
    name = dtype_name(dtype)
    rounding = float(jnp.finfo(name).eps) * (6 if jnp.finfo(name).bits == 16 else 100)
    size = np.max(np.abs(right), initial=0, where=np.isfinite(right))
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_allclose(
            _wide(found), _wide(right), rounding, rounding * max(size, least)
        )
