"""Programs within programs are entered: handlers are reached in them, and nothing becomes whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from graphc.errors import MaterializeError
from graphc.implicit import ImplicitArray, aux_field, is_implicit, materializations, register
from graphc.implicit.functions import implicit
from graphc.link.jax import releases
from tests.implicit.scaled import array, assert_like, hits, made

X = array(2, 4)
W = made(4, 4)
STACK = made(3, 4, 4)

VARYING = (
    (lambda x: lax.pcast(x, "i", to="varying"))
    if hasattr(lax, "pcast")
    else (lambda x: lax.pvary(x, "i"))
)


def step(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


def sharded(function: Any, inside: Any, outside: Any) -> Any:
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    return jax.shard_map(function, mesh=mesh, in_specs=inside, out_specs=outside)


P = jax.sharding.PartitionSpec


def cg(matvec: Any, b: Any) -> Any:
    return jax.scipy.sparse.linalg.cg(matvec, b)[0]


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "straight": (lambda x, w: step(x, w) + 1, (X, W)),
    "jit": (jax.jit(step), (X, W)),
    "jit in jit": (jax.jit(lambda x, w: jax.jit(step)(x, w) * 2), (X, W)),
    "jit with an implicit result": (lambda x, w: jax.jit(lambda w: w * 2)(w), (X, W)),
    "scan, const": (lambda x, w: lax.scan(lambda c, _: (step(c, w), c), x, length=3), (X, W)),
    "scan, stack": (lambda x, w: lax.scan(lambda c, u: (step(c, u), c), x, w), (X, STACK)),
    "scan, carry": (
        lambda x, w: lax.scan(lambda c, _: ((step(*c), c[1]), c[0]), (x, w), length=3),
        (X, W),
    ),
    "scan, carry that changes": (
        lambda x, w: lax.scan(lambda c, _: ((step(*c), c[1] * 2), None), (x, w), length=3),
        (X, W),
    ),
    "scan, stack as result": (
        lambda x, w: lax.scan(lambda c, u: (step(c, u), u * 2), x, w),
        (X, STACK),
    ),
    "scan, const as result": (lambda x, w: lax.scan(lambda c, _: (c, w), x, length=2), (X, W)),
    "scan backwards, unrolled": (
        lambda x, w: lax.scan(lambda c, u: (step(c, u), c), x, w, reverse=True, unroll=2),
        (X, STACK),
    ),
    "scan in scan": (
        lambda x, w: lax.scan(
            lambda c, _: lax.scan(lambda c, u: (step(c, u), None), c, w), x, length=2
        ),
        (X, STACK),
    ),
    "scan over nothing": (
        lambda x, w: lax.scan(lambda c, u: (step(c, u), c), x, w),
        (X, made(0, 4, 4)),
    ),
    "map": (lambda x, w: lax.map(lambda u: x @ u, w), (X, STACK)),
    "while, const": (
        lambda x, w: lax.while_loop(
            lambda c: c[1] < 3, lambda c: (step(c[0], w), c[1] + 1), (x, 0)
        ),
        (X, W),
    ),
    "while, const of the condition": (
        lambda x, w: lax.while_loop(lambda c: (c @ w).sum() < 9.0, lambda c: c + 1.5, x),
        (abs(X), W),
    ),
    "while, carry": (
        lambda x, w: lax.while_loop(
            lambda c: c[1] < 3, lambda c: (step(c[0], c[2]), c[1] + 1, c[2] * 0.5), (x, 0, w)
        ),
        (X, W),
    ),
    "fori": (lambda x, w: lax.fori_loop(0, 3, lambda _, c: step(c, w), x), (X, W)),
    "fori with a traced bound": (
        lambda x, w: lax.fori_loop(0, jnp.int32(x.shape[0]), lambda _, c: step(c, w), x),
        (X, W),
    ),
    "cond": (lambda x, w: lax.cond(x.sum() > 0, step, lambda x, w: x, x, w), (X, W)),
    "cond, implicit result": (
        lambda x, w: lax.cond(
            x.sum() > 0, lambda x, w: (x @ w, w), lambda x, w: (x, w * 2.0), x, w
        ),
        (X, W),
    ),
    "switch": (
        lambda x, w: lax.switch(
            1, [lambda x, w: x, lambda x, w: x @ (w * 2), lambda x, w: x + 1], x, w
        ),
        (X, W),
    ),
    "checkpoint": (
        jax.checkpoint(step, policy=jax.checkpoint_policies.dots_saveable),
        (X, W),
    ),
    "a named value": (
        lambda x, w: x @ checkpoint_name(w, "w"),
        (X, W),
    ),
    "a barrier": (lambda x, w: jnp.matmul(*lax.optimization_barrier((x, w))), (X, W)),
    "another device": (lambda x, w: x @ jax.device_put(w, jax.devices()[0]), (X, W)),
    "no derivative": (lambda x, w: x @ lax.stop_gradient(w), (X, W)),
    "a linear system": (
        lambda x, w: lax.custom_linear_solve(lambda v: 3 * v + w @ v, x[0], cg, symmetric=True),
        (X, W),
    ),
    "a custom derivative": (lambda x, w: jax.nn.relu(jax.nn.silu(x @ w)), (X, W)),
    "grad": (lambda x, w: jax.grad(lambda x: step(x, w).sum())(x), (X, W)),
    "grad of scan": (
        lambda x, w: jax.grad(lambda x: lax.scan(lambda c, u: (step(c, u), None), x, w)[0].sum())(
            x
        ),
        (X, STACK),
    ),
    "grad of checkpoint": (
        lambda x, w: jax.grad(lambda x: jax.checkpoint(step)(x, w).sum())(x),
        (X, W),
    ),
    "hessian": (lambda x, w: jax.hessian(lambda v: (jnp.sin(v @ w)).sum())(x[0]), (X, W)),
    "jvp": (lambda x, w: jax.jvp(lambda x: step(x, w), (x,), (x,)), (X, W)),
    "linearize": (lambda x, w: jax.linearize(lambda x: step(x, w), x)[1](x), (X, W)),
    "vmap": (lambda x, w: jax.vmap(lambda v: v @ w)(x), (X, W)),
    "vmap over a stack": (lambda x, w: jax.vmap(lambda u: x @ u)(w), (X[0], STACK)),
    "shard_map": (
        sharded(lambda x, w: lax.psum(x @ w, "i"), (P("i"), P()), P()),
        (X, W),
    ),
    "shard_map, implicit result": (
        sharded(lambda x, w: (x @ w, w), (P("i"), P()), (P("i"), P())),
        (X, W),
    ),
    "shard_map of a stack": (
        sharded(
            lambda x, w: lax.scan(lambda c, u: (c @ u, u), VARYING(x), w), (P(), P("i")), P("i")
        ),
        (X, STACK),
    ),
    "associative scan of rows": (
        lambda x, w: lax.associative_scan(jnp.add, x @ w),
        (X, W),
    ),
}
DENSE = {"jit with an implicit result", "scan, const as result"}
"""Programs without a product."""


@pytest.mark.sample(every=6)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_handlers_are_reached_and_nothing_becomes_whole(name: str, compiled: bool) -> None:
    program, args = PROGRAMS[name]
    run = implicit(program, materialize="error")
    with hits() as taken:
        found = (jax.jit(run) if compiled else run)(*args)
        assert name in DENSE or "dot_general" in taken
    args = tuple(x.materialize() if is_implicit(x) else x for x in args)
    assert_like(found, program(*args))


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if "scan" in name])
def test_scans_are_entered_where_jax_does_not_count_operands(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphc.link.jax.releases.COUNTS", {"no such name"})
    test_handlers_are_reached_and_nothing_becomes_whole(name, compiled=False)


def test_a_scan_whose_carries_come_first_is_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(x: Any, w: Any, rows: Any) -> Any:
        return lax.scan(lambda c, r: (c @ w + r, c.sum()), x, rows)

    given = (X, array(4, 4), array(3, 2, 4))
    (eqn,) = jax.make_jaxpr(program)(*given).eqns
    assert [x.aval.shape for x in eqn.invars] == [(4, 4), (2, 4), (3, 2, 4)]
    order = (1, 0, 2)
    params = {
        **{name: eqn.params[name] for name in ("length", "reverse", "unroll")},
        "jaxpr": releases._reorder_parameters(eqn.params["jaxpr"], order),
    }
    other = eqn.replace(invars=[eqn.invars[i] for i in order], params=params)
    monkeypatch.setattr(releases, "_carries_first", lambda: True)
    body, groups = releases.scan_operands(other)
    arrays = [[given[i] for i in group] for group in groups]
    assert [x[0].shape for x in arrays] == [(4, 4), (2, 4), (3, 2, 4)]
    last, sums = releases.bind_scan(other, body, *arrays)
    assert_like((last, sums), program(*given))


@dataclass(frozen=True, repr=False)
class Filled(ImplicitArray):
    """One value in every place: no field of it has an axis."""

    value: jax.Array
    lengths: tuple[int, ...] = aux_field()

    def materialize(self) -> Any:
        return jnp.broadcast_to(self.value, self.lengths)


@register("dynamic_slice")
def _slice(x: Filled, *_: jax.Array, slice_sizes: Any, **__: Any) -> Any:
    return Filled(x.value, tuple(slice_sizes))


@register("squeeze")
def _squeezed(x: Filled, *, dimensions: Any) -> Any:
    lengths = [n for i, n in enumerate(x.lengths) if i not in dimensions]
    return Filled(x.value, tuple(lengths))


@register("reshape")
def _reshaped(x: Filled, *, new_sizes: Any, **_: Any) -> Any:
    return Filled(x.value, tuple(new_sizes))


@register("mul")
def _multiplied(x: jax.Array, y: Filled, **_: Any) -> Any:
    return x * y.value


@pytest.mark.parametrize("reverse", [False, True])
def test_what_is_no_stack_gives_elements_by_its_handlers(reverse: bool) -> None:
    def program(x: Any, rows: Any, others: Any) -> Any:
        def body(c: Any, row: Any) -> Any:
            a, (b, y) = row
            return c * a + b, (a.reshape(4, 2), c * y)

        return lax.scan(body, x, (rows, (others, rows)), reverse=reverse)

    rows = Filled(jnp.float32(0.5), (3, 2, 4))
    others = array(3, 2, 4)
    run = implicit(program, materialize="error")
    wanted = program(X, rows.materialize(), others)
    for call in (run, jax.jit(run)):
        with pytest.raises(MaterializeError, match="for scan"):
            call(X, rows, others)  # the rows of the result have no stack

    def used(x: Any, rows: Any, others: Any) -> Any:
        last, (_, products) = program(x, rows, others)
        return last, products

    run = implicit(used, materialize="error")
    assert_like(run(X, rows, others), (wanted[0], wanted[1][1]))


def test_results_stay_implicit_where_their_form_is_kept() -> None:
    x, w = X, W
    for name in ("jit with an implicit result", "cond, implicit result"):
        found = implicit(PROGRAMS[name][0])(x, w)
        assert any(map(is_implicit, jax.tree.leaves(found, is_leaf=is_implicit)))
    (_, kept), _ = implicit(PROGRAMS["scan, carry"][0])(x, w)
    assert is_implicit(kept)
    _, rows = implicit(PROGRAMS["scan, stack as result"][0])(x, STACK)
    assert is_implicit(rows)
    assert rows.shape == (3, 4, 4)


MIXED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[str]]] = {
    "a carry that becomes dense": (
        lambda x, w: lax.scan(lambda c, _: ((step(*c), c[1] + 1), None), (x, w), length=3),
        (X, W),
        ["scan"],
    ),
    "a carry that becomes implicit": (
        lambda x, w: lax.scan(lambda c, _: (w, None), jnp.zeros((4, 4)), length=3),
        (X, W),
        ["scan"],
    ),
    "a carry of another static field": (
        lambda x, w: lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, w), (0, jnp.sin(w))),
        (X, W),
        ["sin", "while"],
    ),
    "branches of different forms": (
        lambda x, w: lax.cond(x.sum() > 0, lambda w: w, lambda w: w + 1, w),
        (X, W),
        ["add", "cond"],
    ),
    "a matrix that is no stack": (
        lambda x, w: lax.scan(lambda c, row: (c + row, None), jnp.zeros(4), w),
        (X, W),
        ["scan"],
    ),
    "a callback": (
        lambda x, w: jax.pure_callback(lambda w: w, jax.typeof(x), x) @ jnp.cos(w),
        (X, W),
        ["cos"],
    ),
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", MIXED)
def test_what_no_form_holds_becomes_whole_once_and_is_told(name: str, compiled: bool) -> None:
    program, args, wanted = MIXED[name]
    run = implicit(program)
    with materializations() as told:
        found = (jax.jit(run) if compiled else run)(*args)
    with materializations() as again:
        jax.jit(partial(run))(*args)  # a new function to JAX
    assert told == again
    assert_like(found, program(*[x.materialize() if is_implicit(x) else x for x in args]))
    assert sorted({x.what for x in told}) == wanted
    assert all(x.where and x.where.startswith("test_interpreter_control.py:") for x in told)
