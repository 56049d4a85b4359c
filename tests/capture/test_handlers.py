"""What cannot be captured is refused by name; what only looks alike is not."""

from __future__ import annotations

import asyncio
import itertools
import threading
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from graphc.capture import lift, rebuild
from graphc.errors import ArgumentError

W = np.arange(12.0)
SOURCE = "train.py"


def f_of(source: str, **variables: Any) -> Callable[..., Any]:
    """The function ``f`` of some source; or of ``make(w)`` in it, a closure over an array."""
    exec(compile(source, f"/home/me/{SOURCE}", "exec"), variables)
    if "make" in variables:
        made: Callable[..., Any] = variables["make"](np.arange(12.0))
        return made
    f: Callable[..., Any] = variables["f"]
    return f


class Holder:
    """An object with some content."""

    def __init__(self, value: Any = None) -> None:
        self.value = value
        self.n = 0
        self.items: list[Any] = []


WRITES = {
    "a cell by nonlocal": (
        "def make(n):\n def f(x):\n  nonlocal n\n  n = n + x\n  return n\n return f",
        "`n` (closure of make.<locals>.f, train.py:2) is written to by the function",
        "train.py:4",
    ),
    "a cell by a nested function": (
        "def make(n):\n def f(x):\n  def g():\n   nonlocal n\n   n += x\n"
        "  g()\n  return n\n return f",
        "`n` (closure of make.<locals>.f, train.py:2) is written to by the function",
        "train.py:5",
    ),
    "a cell by a sibling that is called": (
        "def make(n):\n def put(x):\n  nonlocal n\n  n = x\n"
        " def f(x):\n  put(x)\n  return n\n return f",
        "`n` (closure of make.<locals>.put, train.py:2) is written to by the function",
        "train.py:4",
    ),
    "a deleted cell": (
        "def make(n):\n def f(x):\n  nonlocal n\n  del n\n return f",
        "`n` (closure of make.<locals>.f, train.py:2) is written to by the function",
        "train.py:4",
    ),
    "a global": (
        "n = 0\ndef f(x):\n global n\n n = n + 1\n return x * n",
        "`n` (global of f, train.py:2) is written to by the function",
        "train.py:4",
    ),
    "a global by a helper": (
        "n = 0\ndef count():\n global n\n n += 1\ndef f(x):\n count()\n return x * n",
        "`n` (global of count, train.py:2) is written to by the function",
        "train.py:4",
    ),
    "an item of an array": (
        "def make(w):\n def f(x):\n  w[0] = x\n  return w\n return f",
        "`w` (closure of make.<locals>.f, train.py:2) is changed in place by the function",
        "train.py:3",
    ),
    "an item at a computed place": (
        "def make(w):\n def f(x):\n  w[x + len([1, 2])] = x * 2\n  return w\n return f",
        "`w` (closure of make.<locals>.f, train.py:2) is changed in place",
        "train.py:3",
    ),
    "an item by adding to it": (
        "def make(w):\n def f(x):\n  w[0] += x\n  return w\n return f",
        "`w` (closure of make.<locals>.f, train.py:2) is changed in place",
        "train.py:3",
    ),
    "a slice": (
        "def make(w):\n def f(x):\n  w[1:x] = 0\n  return w\n return f",
        "`w` (closure of make.<locals>.f, train.py:2) is changed in place",
        "train.py:3",
    ),
    "a deleted item": (
        "held = {'a': 1}\ndef f(x):\n del held['a']\n return x",
        "`held` (global of f, train.py:2) is changed in place",
        "train.py:3",
    ),
    "a list that grows": (
        "log = []\ndef f(x):\n log.append(x)\n return x",
        "`log` (global of f, train.py:2) is changed in place by the function (append)",
        "test_handlers.py",
    ),
    "a default that grows": (
        "def f(x, log=[]):\n log.append(x)\n return x",
        "`log` (default argument of f, train.py:1) is changed in place by the function (append)",
        "test_handlers.py",
    ),
    "an item of a default": (
        "def f(x, known={}):\n known[x] = 1\n return x",
        "`known` (default argument of f, train.py:1) is changed in place by the function",
        "train.py:2",
    ),
    "a sorted array": (
        "def make(w):\n def f(x):\n  w.sort()\n  return w\n return f",
        "`w` (closure of make.<locals>.f, train.py:2) is changed in place by the function (sort)",
        "test_handlers.py",
    ),
    "an attribute of an object": (
        "def make(w):\n def f(x):\n  h.n = x\n  return w\n return f",
        "`h.n` (global of make.<locals>.f, train.py:2) is written to by the function",
        "train.py:3",
    ),
    "an attribute by adding to it": (
        "def make(w):\n def f(x):\n  h.n += x\n  return w\n return f",
        "`h.n` (global of make.<locals>.f, train.py:2) is written to by the function",
        "train.py:3",
    ),
    "a list in an object": (
        "def make(w):\n def f(x):\n  h.items.append(x)\n  return w\n return f",
        "`h.items` (global of make.<locals>.f, train.py:2) is changed in place",
        "test_handlers.py",
    ),
    "an item of an attribute": (
        "def make(w):\n def f(x):\n  h.items[0] = x\n  return w\n return f",
        "`h.items` (global of make.<locals>.f, train.py:2) is changed in place",
        "train.py:3",
    ),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_the_function_writes_to_is_refused_by_name_and_line(name: str) -> None:
    source, message, where = WRITES[name]
    with pytest.raises(ArgumentError) as error:
        lift(f_of(source, h=Holder()))
    assert str(error.value).startswith(message)
    # A call of a method has no line of its own: that of the call of lift is shown.
    assert error.value.where.startswith(where)
    assert error.value.remedy


class Counter:
    """Methods that change their object."""

    def __init__(self) -> None:
        self.n = 0
        self.log: list[Any] = []

    def writes(self, x: Any) -> Any:
        self.n = x
        return x

    def adds(self, x: Any) -> Any:
        self.n += x
        return x

    def deletes(self, x: Any) -> Any:
        del self.n
        return x

    def appends(self, x: Any) -> Any:
        self.log.append(x)
        return x

    def through_another(self, x: Any) -> Any:
        return self.adds(x)

    def __call__(self, x: Any) -> Any:
        return self.adds(x)


WRITERS = [
    *(Counter.writes, Counter.adds, Counter.deletes, Counter.through_another, Counter.__call__),
]


@pytest.mark.parametrize("method", WRITERS)
def test_a_method_that_writes_to_self_is_refused(method: Any) -> None:
    place = r"\(.*test_handlers\.py:\d+\)"
    with pytest.raises(ArgumentError, match=rf"^`self\.n` {place} is written to"):
        lift(method.__get__(Counter()))


def test_a_method_that_changes_what_self_holds_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"^`self\.log` \(Counter\.appends, .*\(append\)"):
        lift(Counter().appends)


async def waits() -> None: ...


def yields() -> Iterator[int]:
    yield 1


UNFIXED: dict[str, tuple[Callable[[], Any], str]] = {
    "generator": (yields, "generator, which can be iterated only once"),
    "iterator": (lambda: iter([1]), "list_iterator, which can be iterated only once"),
    "zip": (lambda: zip([1], [2], strict=True), "zip, which can be iterated only once"),
    "counter": (itertools.count, "count, which can be iterated only once"),
    "random generator": (lambda: np.random.default_rng(0), "has no fixed content"),
    "lock": (threading.Lock, "has no fixed content"),
    "bytearray": (lambda: bytearray(3), "has no fixed content"),
    "deque": (deque, "has no fixed content"),
    "view of a dict": ({}.keys, "has no fixed content"),
    "array of objects": (lambda: np.array([{}, 1], object), "is an array of Python objects"),
    "method of a list": (lambda: [].append, "has no fixed content"),
    "method of a generator": (lambda: np.random.default_rng(0).normal, "has no fixed content"),
    "set of objects": (lambda: {object}, "is a set of more than numbers and text"),
    "dict with odd keys": (lambda: {yields: 1}, "which cannot be compared by value"),
}


@pytest.mark.parametrize("name", UNFIXED)
@pytest.mark.parametrize("where", ["cell", "default", "attribute", "item"])
def test_what_has_no_fixed_content_is_refused_by_name(name: str, where: str) -> None:
    make, message = UNFIXED[name]
    value = make()

    def default(x: Any = value) -> Any:
        return x

    holder, table = Holder(value), {"a": (value,)}
    ways: dict[str, tuple[Callable[..., Any], str, str]] = {
        "cell": (lambda: value, "value", "closure"),
        "default": (default, "x", "default argument"),
        "attribute": (lambda: holder.value, "holder.value", "closure"),
        "item": (lambda: table, "table['a'][0]", "closure"),
    }
    function, variable, kind = ways[where]
    with pytest.raises(ArgumentError) as error:
        lift(function)
    named, context = error.value.problem.split(" ", 1)
    assert named in (f"`{variable}`", f"`{variable}.__self__`")
    assert context.startswith(f"({kind} of test_what_has_no")
    assert "test_handlers.py:" in context
    assert message in context


def test_a_coroutine_is_refused() -> None:
    coroutine = waits()
    with pytest.raises(ArgumentError, match=r"`coroutine` \(closure of .*iterated only once"):
        lift(lambda: coroutine)
    asyncio.run(coroutine)


def test_a_descriptor_of_the_users_is_refused() -> None:
    class Tracked:
        def __get__(self, owner: Any, cls: Any = None) -> Any:
            return W

    class Model:
        w = Tracked()

        def step(self, x: Any) -> Any:
            return x * self.w

    with pytest.raises(ArgumentError, match=r"`self\.w` .* is a descriptor, not an attribute"):
        lift(Model().step)


def test_an_array_of_a_class_that_is_used_as_a_whole_is_refused() -> None:
    class Table:
        weights = np.arange(12.0)

    with pytest.raises(ArgumentError, match=r"`Table\.weights` .* used as a whole"):
        lift(lambda x: (Table(), x * Table.weights))
    stripped, leaves = lift(lambda x: x * Table.weights)
    assert rebuild(stripped, [leaves[0] + 1])(1.0)[0] == 1.0


def test_an_array_behind_super_is_refused() -> None:
    class Base:
        def step(self, x: Any) -> Any:
            return x * W

    class Derived(Base):
        def step(self, x: Any) -> Any:
            return super().step(x)

    with pytest.raises(ArgumentError, match=r"`self\.step` .* is found by super\(\)"):
        lift(Derived().step)


# What is not refused.

FINE = {
    "its own list": "def f(x):\n log = []\n log.append(x)\n return len(log)",
    "its own dict": "def f(x):\n d = {}\n d[x] = 1\n d['a'] = n\n return len(d) + n",
    "its own cell": ("def f(x):\n y = 0\n def g():\n  nonlocal y\n  y += x\n g()\n return y + n"),
    "what it is given": "def f(x):\n y = [x]\n def g(y): y[0] += 1\n g(y)\n return y[0] + n",
    "what a default replaces": (
        "def f(x, out=None):\n out = out or [0]\n out[0] = x\n return out[0]"
    ),
    "an index that is captured": "def f(x):\n y = [0, x, 0, 0]\n y[n] = 1\n return y[1]",
    "a value that is captured": "def f(x):\n y = {}\n y['a'] = n\n y[n] = n\n return x",
    "an element of what is captured": (
        "held = {'a': [1]}\ndef f(x):\n y = list(held['a'])\n y[0] = x\n return y[0]"
    ),
    "chained comparison": "def f(x): return 0 < n < x",
    "walrus": "def f(x): return (y := n) + y + x",
    "chained assignment": "def f(x):\n y = z = n\n return y + z + x",
    "own class": "def f(x):\n class A:\n  y = n\n A.y = x\n return A.y",
    "own object": "def f(x):\n h = Holder()\n h.n = x\n h.items.append(n)\n return h.n",
    "a branch in an index": "def f(x):\n y = [0] * 9\n y[n if x else 0] = 1\n return sum(y)",
    "a sorted copy": "def f(x): return sorted(held)[0] + x",
    "a method called update": "def f(x): return update.append(x)",
    "import": "def f(x):\n import math as m\n return m.sin(x) + n",
    "handlers": (
        "def f(x):\n try:\n  return x + held[99]\n except IndexError as error:\n  return n"
    ),
    "a method of text": "def f(x): return word.upper() + word.join(['a', 'b'])",
    "a star": "def f(x): return max(*held, x)",
    "keywords": "def f(x): return dict(**{'a': x}, b=n)['a']",
    "a generator of its own": "def f(x): return sum(y * n for y in held if y > x)",
    "match": "def f(x):\n match x:\n  case 2: return n\n  case _: return held",
}


@pytest.mark.parametrize("name", FINE)
def test_what_does_not_change_a_capture_is_lifted(name: str) -> None:
    update = types.SimpleNamespace(append=lambda x: x + 1)
    variables = {"n": 3, "held": [4, 5], "Holder": Holder, "update": update, "word": "b"}
    f = f_of(FINE[name], **variables)
    assert rebuild(*lift(f))(2) == f(2)


def test_a_variable_that_a_sibling_may_write_is_read_afresh() -> None:
    def make(n: Any) -> tuple[Callable[[], Any], Callable[[Any], None]]:
        def put(value: Any) -> None:
            nonlocal n
            n = value

        return (lambda: n), put

    read, put = make(1)
    before = lift(read)
    put(2)
    assert [rebuild(*before)(), rebuild(*lift(read))()] == [1, 2]
