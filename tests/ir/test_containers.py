"""Containers: what is taken apart, in which order, and which structures are equal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from graphc.ir import STATIC, flatten, flatten_like, is_container, paths, rebuild, value_class


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass(frozen=True, eq=False)
class Layer:
    """Weights, and what they are for."""

    weight: Any
    scale: float = field(metadata={STATIC: True})
    parts: tuple[Any, ...] = ()


@value_class
@dataclass(frozen=True)
class Whole:
    x: int


class Untouchable:
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    def __bool__(self) -> bool:
        raise AssertionError("asked for its truth")


NESTED = {"a": [1, (2, Point(3, 4))], "b": Layer(5, 0.5, (6,)), "c": Whole(7)}


def test_values_come_in_order() -> None:
    assert flatten(NESTED) == [1, 2, 3, 4, 5, 6, Whole(7)]
    assert [is_container(x) for x in (NESTED, Point(0, 0), Layer(0, 0.0), Whole(0), None)] == [
        *(True, True, True, False, False)
    ]


def test_values_are_put_in_their_places_again() -> None:
    made = rebuild(NESTED, list("abcdefg"))
    assert made["a"] == ["a", ("b", Point("c", "d"))]
    assert (made["b"].weight, made["b"].scale, made["b"].parts, made["c"]) == (
        "e",
        0.5,
        ("f",),
        "g",
    )


def test_paths_lead_to_the_values() -> None:
    assert paths(NESTED, "s") == [
        *("s['a'][0]", "s['a'][1][0]", "s['a'][1][1].x", "s['a'][1][1].y"),
        *("s['b'].weight", "s['b'].parts[0]", "s['c']"),
    ]


def test_a_container_of_equal_structure_is_taken_apart_in_order() -> None:
    other = {"c": "g", "b": Layer("e", 0.5, ["f"]), "a": ("a", ["b", ("c", "d")])}
    assert flatten_like(NESTED, other) == list("abcdefg")


OTHERS = {
    "another class": (Layer(0, 0.5), Point(0, 0), "expected a Layer, got a Point"),
    "another number": (Layer(0, 0.5), Layer(0, 0.25), "Layer.scale is 0.5, not 0.25"),
    "another type": (Layer(0, 1.0), Layer(0, 1), "Layer.scale is 1.0, not 1"),
    "more parts": (Layer(0, 1.0, (1,)), Layer(0, 1.0), "in Layer.parts, expected a sequence of 1"),
    "other keys": ({"a": 0}, {"b": 0}, r"expected a dict with the keys \['a'\]"),
    "within": ([Layer(Layer(0, 1.0), 1.0)], [Layer(Layer(0, 2.0), 1.0)], "in Layer.weight, Layer"),
}


@pytest.mark.parametrize(("like", "other", "message"), OTHERS.values(), ids=OTHERS)
def test_a_container_of_another_structure_is_refused(like: Any, other: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        flatten_like(like, other)


class Code:
    """Something that reads like others of it, as functions do."""

    def __repr__(self) -> str:
        return "code"


def test_what_reads_alike_is_told_apart() -> None:
    with pytest.raises(ValueError, match="is code, not another, though both read alike"):
        flatten_like(Layer(0, Code()), Layer(0, Code()))  # type: ignore[arg-type]


def test_values_are_never_compared() -> None:
    one, other = [Layer(Untouchable(), 0.5, (Untouchable(),)) for _ in range(2)]
    found = flatten_like(one, other)
    assert [x is y for x, y in zip(found, (other.weight, *other.parts), strict=True)] == [True] * 2
    assert rebuild(one, found).weight is other.weight
