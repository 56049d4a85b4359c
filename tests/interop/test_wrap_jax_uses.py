"""Which arguments a wrapped JAX function looks at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import graphc
import graphc.tensor as gt

FUNCTIONS: dict[str, tuple[Callable[..., Any], list[bool]]] = {
    "one": (lambda x, y, z: x + 1, [True, False, False]),
    "two": (lambda x, y, z: (x + 1, jnp.abs(z)), [True, False, True]),
    "none": (lambda x, y, z: jnp.zeros(3), [False, False, False]),
    "what is not used any more": (lambda x, y, z: (x * y, z)[1], [False, False, True]),
    "in a compiled function": (jax.jit(lambda x, y, z: x * 2), [True, False, False]),
    "in two": (lambda x, y, z: jax.jit(jax.jit(lambda a, b: b))(x, y), [False, True, False]),
    "in a loop": (
        lambda x, y, z: lax.fori_loop(0, 3, lambda i, c: c + y, x),
        [True, True, False],
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_that_are_not_looked_at_are_told(name: str) -> None:
    f, wanted = FUNCTIONS[name]
    found: Any = graphc.wrap_jax(f)(gt.scalar("x"), gt.scalar("y"), gt.scalar("z"))
    node = (found[0] if isinstance(found, tuple) else found).inputs[0]
    assert [*node.op.looks_at(*[x.type for x in node.inputs])] == wanted


def test_of_unknown_lengths_nothing_is_told() -> None:
    y: Any = graphc.wrap_jax(lambda x, y: x)(gt.vector("x"), gt.vector("y"))
    while not y.op.name.startswith("wrap_jax"):
        y = y.inputs[0]
    assert [*y.op.looks_at(*[x.type for x in y.inputs])] == [True, True]
