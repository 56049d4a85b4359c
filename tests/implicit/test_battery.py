"""Programs of every kind with one implicit array and one handler: right, and how it was done."""

from __future__ import annotations

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tests.implicit.loops  # noqa: F401 (it fills PROGRAMS)
from graphc.errors import MaterializeError
from graphc.implicit import materializations, materializing, register, unregister
from tests.implicit.compare import assert_same
from tests.implicit.programs import HITS, PROGRAMS, Int8, Program, product


def operands(program: Program) -> tuple[Int8, jax.Array]:
    rng = np.random.default_rng(0)
    lead = () if program.stack is None else (program.stack,)
    values = jnp.asarray(rng.integers(-100, 100, (*lead, 6, 6)), jnp.int8)
    scale = jnp.full(lead, 0.01, jnp.float32)
    return Int8(values, scale), jnp.asarray(rng.normal(size=(5, 6)), jnp.float32)


def dense_of(w: Int8) -> jax.Array:
    return jnp.asarray(np.asarray(w))


def named(kind: str) -> list[str]:
    return [name for name, program in PROGRAMS.items() if program.kind == kind]


@pytest.mark.sample(every=8)
@pytest.mark.parametrize("name", named("hit"))
def test_the_handler_is_reached_and_nothing_becomes_whole(name: str) -> None:
    program = PROGRAMS[name]
    w, x = operands(program)
    # What was made with the handler before is made again.
    unregister("dot_general", product)
    register("dot_general")(product)
    HITS.clear()
    with materializing("error"):
        found = program.run(w, x)
    assert HITS
    assert_same(found, program.run(dense_of(w), x))


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("name", named("dense"))
def test_what_has_no_handler_is_right_and_told_of(name: str) -> None:
    program = PROGRAMS[name]
    w, x = operands(program)
    with materializations() as report:
        found = program.run(w, x)
    assert report
    assert all(record.type == "Int8" for record in report)
    assert_same(found, program.run(dense_of(w), x))


@pytest.mark.parametrize("name", named("dense"))
def test_what_has_no_handler_is_an_error_if_asked_for(name: str) -> None:
    program = PROGRAMS[name]
    w, x = operands(program)
    with materializing("error"), pytest.raises(MaterializeError, match="Int8"):
        program.run(w, x)


@pytest.mark.parametrize("name", named("error"))
def test_what_cannot_be_says_so(name: str) -> None:
    program = PROGRAMS[name]
    w, x = operands(program)
    with pytest.raises(TypeError, match=program.why):
        program.run(w, x)


def test_most_programs_reach_the_handler() -> None:
    kinds = Counter(program.kind for program in PROGRAMS.values())
    assert set(kinds) == {"hit", "dense", "error"}
    assert kinds["hit"] > 4 * kinds["dense"]
