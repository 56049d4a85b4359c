"""What tracing costs where an operand is implicit, a primitive, beside plain JAX and other systems.

Programs of hundreds of primitives are traced anew at each call, on an int8 weight with a handler of
``dot_general``; by hand, JAX traces the same code on a dense weight. Where quax or eformer is
installed, graphc is timed beside it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.table import Line, benchmark, write
from benchmarks.timing import agree, compared
from graphc.implicit import ImplicitArray, implicit, register

STEPS = 40
"""Of each program: enough that what is done once a call does not count."""

TARGET = 4.0
"""A primitive is traced for the interpreter, and again as that binds it; so are handlers' own."""


@dataclass(frozen=True)
class Int8(ImplicitArray):
    """Integers, and one factor."""

    values: jax.Array
    scale: jax.Array

    def materialize(self) -> jax.Array:
        return self.values.astype(self.scale.dtype) * self.scale


@register("dot_general")
def product(x: jax.Array, w: Int8, **parameters: Any) -> jax.Array:
    return lax.dot_general_p.bind(x, w.values.astype(x.dtype), **parameters) * w.scale


def products(x: Any, w: Any) -> Any:
    for i in range(STEPS):
        x = jnp.tanh(x @ w + i) * x
    return x


def dense_beside(x: Any, w: Any) -> Any:
    y = x @ w
    for i in range(2 * STEPS):
        y = jnp.tanh(y + i) * x
    return y


def loops(x: Any, w: Any) -> Any:
    for i in range(STEPS // 4):
        x, _ = lax.scan(lambda c, row: (jnp.tanh(c @ w + row), None), x, jnp.full((3, 8), i, "f"))
    return x


def gradient(x: Any, w: Any) -> Any:
    return jax.grad(lambda x: products(x, w).sum())(x)


def rules(x: Any, w: Any) -> Any:
    for _ in range(STEPS // 4):
        x = jax.nn.silu(jax.nn.relu(x @ w))
    return x


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "products, 4 primitives a step": products,
    "dense primitives beside one product": dense_beside,
    "scans": loops,
    "gradient of products": gradient,
    "relu and silu of products": rules,
}


def operands() -> tuple[jax.Array, Int8]:
    values = jax.random.randint(jax.random.key(0), (8, 8), -100, 100, jnp.int8)
    return jax.random.normal(jax.random.key(1), (8, 8)), Int8(values, jnp.float32(0.01))


def traced(wrap: Callable[..., Any], f: Callable[..., Any], x: Any, w: Any) -> Callable[[], int]:
    """Traces the function as one that JAX has not seen, and counts its equations."""

    def run() -> int:
        fresh = partial(f)
        return len(jax.make_jaxpr(wrap(fresh))(x, w).jaxpr.eqns)

    return run


def primitives(f: Callable[..., Any], x: Any, w: Any) -> int:
    """How many equations the program has, those within loops and rules too."""
    return _count(jax.make_jaxpr(f)(x, w).jaxpr)


def _count(jaxpr: Any) -> int:
    inner = [
        getattr(part, "jaxpr", part)
        for eqn in jaxpr.eqns
        for part in jax.tree.leaves(list(eqn.params.values()), is_leaf=_has_equations)
        if _has_equations(part)
    ]
    return len(jaxpr.eqns) + sum(map(_count, inner))


def _has_equations(x: Any) -> bool:
    return hasattr(getattr(x, "jaxpr", x), "eqns")


@benchmark("implicit tracing")
def beside_jax() -> Iterator[Line]:
    x, w = operands()
    whole = w.materialize()
    for name, f in PROGRAMS.items():
        agree(implicit(f)(x, w), f(x, whole), rtol=1e-3)
        ours, theirs = traced(implicit, f, x, w), traced(lambda f: f, f, x, whole)
        ratio = compared(ours, theirs, blocks=20)
        count = primitives(f, x, whole)
        each = 1e6 / count
        write(
            f"  {name}: {count} primitives, {ratio.graphc * each:.0f} microseconds each beside "
            f"{ratio.hand * each:.0f}"
        )
        yield Line(f"tracing: {name}", ratio, TARGET)


# Other systems.

Other = tuple[Callable[..., Any], Any]
"""What makes a function take implicit arrays, and the weight as one of them."""


def _handler_of(cls: type) -> Callable[..., Any]:
    def handler(x: Any, w: Any, **parameters: Any) -> Any:
        return lax.dot_general_p.bind(x, w.values.astype(x.dtype), **parameters) * w.scale

    # They read annotations as objects, which are texts in this file.
    handler.__annotations__ = {"x": jax.Array, "w": cls}
    return handler


def with_quax(w: Int8) -> Other:
    quax = import_module("quax")

    class Value(quax.ArrayValue):  # type: ignore[misc, name-defined]
        values: jax.Array
        scale: jax.Array

        def aval(self) -> Any:
            return jax.core.ShapedArray(self.values.shape, self.scale.dtype)

        def materialise(self) -> jax.Array:
            return self.values.astype(self.scale.dtype) * self.scale

    quax.register(lax.dot_general_p)(_handler_of(Value))
    return quax.quaxify, Value(w.values, w.scale)


def with_eformer(w: Int8) -> Other:
    jaximus = import_module("eformer.jaximus")

    @dataclass
    class Value(jaximus.ImplicitArray):  # type: ignore[misc, name-defined]
        values: jax.Array
        scale: jax.Array

        def materialize(self) -> jax.Array:
            return self.values.astype(self.scale.dtype) * self.scale

    jaximus.register("dot_general")(_handler_of(Value))
    return jaximus.implicit, Value(values=w.values, scale=w.scale)


OTHERS: dict[str, Callable[[Int8], Other]] = {"quax": with_quax, "eformer": with_eformer}


def others(w: Int8) -> Iterator[tuple[str, Any, Any]]:
    """The names of libraries that can be imported, what wraps a function, and the weight."""
    for name, made in OTHERS.items():
        try:
            wrap, other = made(w)
        except ImportError as error:
            write(f"  {name} is not timed, as it can't be imported: {error}")
            continue
        yield name, wrap, other


@benchmark("implicit tracing others")
def beside_others() -> Iterator[Line]:
    x, w = operands()
    for name, wrap, other in others(w):
        for program in ("products, 4 primitives a step", "dense primitives beside one product"):
            f = PROGRAMS[program]
            agree(implicit(f)(x, w), wrap(f)(x, other), rtol=1e-3)
            ours, theirs = traced(implicit, f, x, w), traced(wrap, f, x, other)
            ratio = compared(ours, theirs, blocks=20)
            yield Line(f"tracing beside {name}: {program}", ratio, 1.0)
