"""Which handler is found for which operands."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

import graphc.tensor as gt
from graphc.errors import AmbiguousHandlerError, ImplicitArrayError
from graphc.implicit import ImplicitArray, register, unregister
from graphc.implicit.dispatch import dispatch
from graphc.implicit.registry import handlers_for
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.dot import DotGeneral


@dataclass(frozen=True)
class A(ImplicitArray):
    x: Any

    def materialize(self) -> Any:
        return self.x


@dataclass(frozen=True)
class B(A):
    pass


@dataclass(frozen=True)
class C(B):
    pass


@dataclass(frozen=True)
class Other(ImplicitArray):
    x: Any

    def materialize(self) -> Any:
        return self.x


ONE = np.ones(2)
TARGET = lax.igamma_p
"""A primitive that nothing else handles."""


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[list[Any]]:
    """Handlers that a test enters, and forgets after it."""
    entered: list[Any] = []
    yield entered
    for target, f in entered:
        unregister(target, f)


@pytest.fixture
def enter(forgotten: list[Any]) -> Any:
    def entering(f: Any, target: Any = TARGET, precedence: int = 0) -> Any:
        register(target, precedence)(f)
        forgotten.append((target, f))
        return f

    return entering


def names(*operands: Any, target: Any = TARGET) -> list[str]:
    return [f.__name__ for f in handlers_for(target, operands)]


def test_the_nearest_class_goes_first(enter: Any) -> None:
    def of_a(x: A, y: Any) -> None: ...
    def of_b(x: B, y: Any) -> None: ...

    enter(of_a)
    enter(of_b)
    assert names(C(ONE), ONE) == ["of_b", "of_a"]
    assert names(B(ONE), ONE) == ["of_b", "of_a"]
    assert names(A(ONE), ONE) == ["of_a"]
    assert names(Other(ONE), ONE) == []


def test_a_union_fits_any_of_its_classes(enter: Any) -> None:
    def of_either(x: B | Other, y: A | np.ndarray) -> None: ...

    enter(of_either)
    assert names(C(ONE), ONE) == names(Other(ONE), A(ONE)) == ["of_either"]
    assert names(A(ONE), ONE) == names(Other(ONE), 1.0) == []


def test_a_higher_precedence_goes_before_a_nearer_class(enter: Any) -> None:
    def near(x: B, y: Any) -> None: ...
    def far(x: A, y: Any) -> None: ...

    enter(near)
    enter(far, precedence=1)
    assert names(B(ONE), ONE) == ["far", "near"]


def test_two_that_fit_equally_well_are_an_error_that_names_both(enter: Any) -> None:
    def left(x: B, y: A) -> None: ...
    def right(x: A, y: B) -> None: ...

    enter(left)
    enter(right)
    with pytest.raises(AmbiguousHandlerError, match=r"left.*right") as error:
        names(B(ONE), B(ONE))
    assert "test_registry.py" in str(error.value)
    assert names(B(ONE), A(ONE)) == ["left"]

    def both(x: B, y: B) -> None: ...

    enter(both)
    assert next(iter(handlers_for(TARGET, [B(ONE), B(ONE)]))) is both


def test_equal_signatures_are_refused_without_precedence(enter: Any) -> None:
    def first(x: A, y: Any) -> None: ...
    def second(x: A, y: Any) -> None: ...

    enter(first)
    with pytest.raises(ImplicitArrayError, match=r"first.*second"):
        register(TARGET)(second)
    enter(second, precedence=-1)
    assert names(A(ONE), ONE) == ["first", "second"]


def test_one_that_gives_not_implemented_leaves_it_to_the_next(enter: Any) -> None:
    seen = []

    def near(x: B, y: Any) -> Any:
        seen.append("near")
        return NotImplemented

    def far(x: A, y: Any) -> Any:
        seen.append("far")
        return y

    enter(near)
    enter(far)
    assert dispatch(TARGET, [B(ONE), ONE], {}) is ONE
    assert seen == ["near", "far"]


def test_the_class_is_asked_last(enter: Any) -> None:
    @dataclass(frozen=True)
    class WithDefault(A):
        @classmethod
        def default_handler(cls, target: Any, *operands: Any, **parameters: Any) -> Any:
            return target, len(operands), parameters

    assert dispatch(TARGET, [ONE, WithDefault(ONE)], {"n": 3}) == (TARGET, 2, {"n": 3})

    def of_a(x: Any, y: A, **parameters: Any) -> Any:
        return parameters

    enter(of_a)
    assert dispatch(TARGET, [ONE, WithDefault(ONE)], {"n": 3}) == {"n": 3}


def default(answer: Any) -> Any:
    """A default handler that gives always the same."""

    def default_handler(cls: Any, target: Any, *operands: Any, **parameters: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return classmethod(default_handler)


def test_default_handlers_of_two_classes_are_an_error_that_names_both() -> None:
    first = type("First", (A,), {"default_handler": default(ONE)})
    second = type("Second", (A,), {"default_handler": default(ONE)})
    fails = type("Fails", (A,), {"default_handler": default(KeyError("mine"))})
    modest = type("Modest", (A,), {"default_handler": default(NotImplemented)})
    pattern = r"First\.default_handler \(test_registry.py:\d+\) and .*{}\.default_handler"
    for other in (second, fails):
        with pytest.raises(AmbiguousHandlerError, match=pattern.format(other.__name__)):
            dispatch(TARGET, [first(ONE), other(ONE)], {})
    assert dispatch(TARGET, [modest(ONE), first(ONE)], {}) is ONE
    assert dispatch(TARGET, [first(ONE), modest(ONE)], {}) is ONE


def test_the_default_handler_of_a_subclass_goes_first() -> None:
    base = type("Base", (A,), {"default_handler": default(1)})
    heir = type("Heir", (base,), {"default_handler": default(2)})
    left, right = type("Left", (base,), {}), type("Right", (base,), {})
    assert dispatch(TARGET, [base(ONE), heir(ONE)], {}) == 2
    assert dispatch(TARGET, [left(ONE), right(ONE)], {}) == 1


def test_nothing_is_handled_where_no_operand_is_implicit(enter: Any) -> None:
    def anything(x: Any, y: Any) -> None: ...

    enter(anything)
    assert names(ONE, ONE) == []
    assert names(A(ONE), ONE) == ["anything"]
    assert dispatch(TARGET, [ONE, ONE], {}) is NotImplemented


def test_any_number_of_operands(enter: Any) -> None:
    def all_of_a(*xs: A, axis: int) -> None: ...

    enter(all_of_a)
    assert names(A(ONE), B(ONE), C(ONE)) == ["all_of_a"]
    assert names(A(ONE), ONE) == []


def test_arrays_of_jax_are_told_by_its_class_while_it_traces(enter: Any) -> None:
    def with_jax(x: A, y: jax.Array) -> None: ...

    enter(with_jax)
    found = []
    jax.make_jaxpr(lambda y: found.extend(names(A(ONE), y)) or y)(1.0)
    assert found == ["with_jax"]
    assert names(A(ONE), ONE) == []


def test_a_primitive_is_found_by_its_name(enter: Any) -> None:
    def by_name(x: A, y: Any) -> None: ...

    enter(by_name, "igamma")
    assert names(A(ONE), ONE) == ["by_name"]


def test_an_unknown_name_is_an_error_that_lists_near_ones() -> None:
    with pytest.raises(ImplicitArrayError, match="dot_general"):
        register("dot_genral")
    with pytest.raises(ImplicitArrayError, match="neither"):
        register(3)


@pytest.mark.sample(every=6)
def test_operations_are_found_by_class_and_by_row(enter: Any) -> None:
    def product(a: Any, b: A, *, contract: Any, batch_axes: Any) -> Any:
        return contract, batch_axes

    def tanh(x: A) -> None: ...

    enter(product, DotGeneral)
    enter(tanh, gt.tanh)
    op = DotGeneral(((1,), (0,)))
    assert names(ONE, A(ONE), target=op)[0] == "product"
    assert names(A(ONE), target=gt.tanh) == ["tanh"]
    assert names(A(ONE), target=gt.sin) == []


def test_symbolic_operands_are_told_by_their_class(enter: Any) -> None:
    def symbolic(x: A, y: Tensor) -> None: ...

    enter(symbolic)
    assert names(A(ONE), gt.vector()) == ["symbolic"]


def test_an_annotation_that_is_no_class_is_refused() -> None:
    def wrong(x: "A | 3") -> None: ...

    with pytest.raises(ImplicitArrayError, match="annotations"):
        register(TARGET)(wrong)


def test_one_that_is_not_there_cannot_be_forgotten() -> None:
    with pytest.raises(ImplicitArrayError, match="no handler"):
        unregister(TARGET, test_any_number_of_operands)


def test_a_definition_that_runs_again_takes_its_own_place(enter: Any) -> None:
    def define(n: int) -> Any:
        def handler(x: A, y: Any) -> Any:
            return n

        return handler

    register(TARGET)(define(1))
    enter(define(2))
    assert dispatch(TARGET, [A(ONE), ONE], {}) == 2
    assert names(A(ONE), ONE) == ["handler"]
