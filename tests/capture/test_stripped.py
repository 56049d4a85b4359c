"""Which stripped functions are equal: those of equal code and structure, whatever the arrays."""

from __future__ import annotations

import functools
import operator
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graphc.capture import Stripped, lift, rebuild

W = np.arange(12.0)


class Untouchable(np.ndarray):
    """An array that takes offence at being compared, hashed or asked for its truth."""

    def __eq__(self, other: object) -> Any:
        raise AssertionError("compared")

    def __ne__(self, other: object) -> Any:
        raise AssertionError("compared")

    def __bool__(self) -> bool:
        raise AssertionError("asked for its truth")

    __hash__ = None  # type: ignore[assignment]


class Foreign:
    """An array of a library that nobody knows, just as touchy."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape
        self.dtype = np.dtype("float64")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.zeros(self.shape)

    def __eq__(self, other: object) -> Any:
        raise AssertionError("compared")

    def __bool__(self) -> bool:
        raise AssertionError("asked for its truth")

    __hash__ = None  # type: ignore[assignment]


def stripped(function: Callable[..., Any]) -> Stripped:
    return lift(function).stripped


def capturing(value: Any) -> Callable[[], Any]:
    return lambda: value


def made(source: str, **variables: Any) -> Callable[..., Any]:
    """The function ``f`` of some source, with globals of its own."""
    exec(source, variables)
    f: Callable[..., Any] = variables["f"]
    return f


@pytest.mark.parametrize("make", [lambda: np.zeros(20).view(Untouchable), lambda: Foreign(4, 5)])
def test_arrays_are_never_compared(make: Callable[[], Any]) -> None:
    def two(a: Any, b: Any) -> Callable[..., Any]:
        return functools.partial(lambda x, y=a, **rest: (x, y, b), b=b, held=(a, [b], {"a": a}))

    one, other = lift(two(make(), make())), lift(two(make(), make()))
    assert one.stripped == other.stripped
    assert hash(one.stripped) == hash(other.stripped)
    assert {one.stripped: 1}[other.stripped] == 1
    assert one.stripped.digest() == other.stripped.digest()
    assert len(one.leaves) == 2
    rebuild(*one)


def test_small_arrays_of_unknown_libraries_are_compared_by_content() -> None:
    assert stripped(capturing(Foreign(3))) == stripped(capturing(Foreign(3)))
    assert stripped(capturing(Foreign(3))) != stripped(capturing(Foreign(3, 1)))


def test_functions_of_one_factory_are_equal_whatever_arrays_they_capture() -> None:
    assert stripped(capturing(np.ones(12))) == stripped(capturing(np.zeros((30, 7), "int8")))
    assert stripped(capturing(jnp.ones(12))) == stripped(capturing(W))


def test_functions_written_twice_are_equal_wherever_they_stand() -> None:
    source = "def f(x):\n    return x * W\n"
    assert stripped(made(source, W=W)) == stripped(made(f"\n\n\n{source}", W=W + 1))


DIFFERENT = {
    "1 and 1.0": (1, 1.0),
    "1 and True": (1, True),
    "0.0 and -0.0": (0.0, -0.0),
    "signs in complex": (complex(0.0, 1.0), complex(-0.0, 1.0)),
    "text and bytes": ("a", b"a"),
    "NumPy's scalars and Python's": (np.float64(1.0), 1.0),
    "dtypes of scalars": (np.float32(1.0), np.float64(1.0)),
    "values of small arrays": (np.array([1.0, 2.0]), np.array([1.0, 3.0])),
    "dtypes of small arrays": (np.ones(2, "int32"), np.ones(2, "uint32")),
    "shapes of small arrays": (np.ones((2, 1)), np.ones((1, 2))),
    "libraries of small arrays": (np.ones(2, "float32"), jnp.ones(2, "float32")),
    "weak small arrays": (jnp.asarray(1.0), jnp.float32(1.0)),
    "tuple and list": ((W,), [W]),
    "tuple and list of numbers": ((1,), [1]),
    "order of a dict": ({"a": W, "b": 1}, {"b": 1, "a": W}),
    "keys of a dict": ({"a": W}, {"b": W}),
    "keys 1 and True": ({1: W}, {True: W}),
    "nesting": (((W,), 1), (W, (1,))),
    "sets": ({1, 2}, {1, 3}),
    "frozen sets": ({1}, frozenset({1})),
    "slices": (slice(1), slice(2)),
    "ranges": (range(3), range(0, 6, 2)),
    "functions of libraries": (jnp.tanh, jnp.sin),
    "builtin functions": (min, max),
    "ufuncs": (np.exp, np.log),
    "methods of compiled classes": (str.upper, str.lower),
    "methods of one name": (list.__len__, dict.__len__),
    "classes": (int, float),
    "getters": (operator.itemgetter(0), operator.itemgetter(1)),
    "getters of items and of attributes": (operator.itemgetter("a"), operator.attrgetter("a")),
    "long texts": ("a" * 1000, "a" * 999 + "b"),
    "long text and bytes": ("a" * 1000, b"a" * 1000),
    "dtypes": (np.dtype("int8"), np.dtype("int16")),
    "arrays and numbers": (W, 1.0),
    "None and False": (None, False),
    "shared and apart": ((W, W), (W, W.copy())),
}


@pytest.mark.parametrize("name", DIFFERENT)
@pytest.mark.parametrize("where", ["cell", "default", "global", "partial", "attribute"])
def test_different_captures_under_equal_code_are_never_equal(name: str, where: str) -> None:
    class Holder:
        def __init__(self, value: Any) -> None:
            self.value = value

        def read(self) -> Any:
            return self.value

    def identity(value: Any) -> Any:
        return value

    def default(value: Any) -> Callable[..., Any]:
        def f(x: Any = value) -> Any:
            return x

        return f

    ways: dict[str, Callable[[Any], Callable[..., Any]]] = {
        "cell": capturing,
        "default": default,
        "global": lambda value: made("def f(): return value", value=value),
        "partial": lambda value: functools.partial(identity, value),
        "attribute": lambda value: Holder(value).read,
    }
    a, b = (ways[where](value) for value in DIFFERENT[name])
    assert stripped(a) != stripped(b)
    assert stripped(a) == stripped(ways[where](DIFFERENT[name][0]))
    assert stripped(a).digest() != stripped(b).digest() or stripped(a).digest() is None


EQUAL = [
    float("nan"),
    np.float32("nan"),
    np.array([np.nan, -0.0]),
    complex("nan+nanj"),
    (1, ("a", float("nan"))),
    10**30,
    "long " * 100,
    slice(None, 3),
]


@pytest.mark.parametrize("value", EQUAL, ids=repr)
def test_equal_values_are_equal_whichever_objects_they_are(value: Any) -> None:
    import copy  # noqa: PLC0415 (the only use)

    other = copy.deepcopy(value) if not isinstance(value, str) else "".join(list(value))
    assert stripped(capturing(value)) == stripped(capturing(other))
    # Two captures of one object, and of two equal ones.
    assert stripped(capturing([value, value])) == stripped(capturing([value, other]))


CODE = [
    "def f(x): return x * 2",
    "def f(x): return x * 2.0",
    "def f(x): return x * True",
    "def f(x): return x * (2, 1)",
    "def f(x): return x * (2, 1.0)",
    "def f(x): return x * (2, True)",
    "def f(x): return x * 0.0",
    "def f(x): return x * -0.0",
    "def f(x): return x + 2",
    "def f(y): return y * 2",
    "def f(x, /): return x * 2",
    "def f(*, x): return x * 2",
    "def f(*x): return x * 2",
    "def f(**x): return x * 2",
    "def f(x): return x.a",
    "def f(x): return x.b",
    "def f(x): return (lambda: x * 2)()",
    "def f(x): return (lambda: x * 2.0)()",
    "def f(x): return (lambda: (lambda: x * 2)())()",
    "def f(x): return (lambda: (lambda: x * 2.0)())()",
    "def f(x): yield x * 2",
    "async def f(x): return x * 2",
    "def f(x):\n try: return x\n except ValueError: return 2",
    "def f(x):\n try: return x\n except KeyError: return 2",
    "def f(x): return x in {1, 2}",
    "def f(x): return x in {1.0, 2}",
    "def g(x): return x * 2\nf = g",
    "f = lambda x: x * 2",
    "import math\ndef f(x): return math.sin(x)",
    "import numpy as math\ndef f(x): return math.sin(x)",
    "from math import sin\ndef f(x): return sin(x)",
    "from numpy import sin\ndef f(x): return sin(x)",
    "def sin(x): return x\ndef f(x): return sin(x)",
    "def sin(x): return -x\ndef f(x): return sin(x)",
    "def f(x): return sin(x)",
]


def test_code_that_differs_is_never_equal() -> None:
    found = [stripped(made(source)) for source in CODE]
    assert len(set(found)) == len(CODE)
    assert len({x.digest() for x in found}) == len(CODE)
    assert [stripped(made(source)) for source in CODE] == found


def test_different_code_in_a_helper_is_never_equal() -> None:
    def using(helper: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: helper(x)  # noqa: PLW0108 (a closure is what it is about)

    assert stripped(using(lambda x: x * W)) != stripped(using(lambda x: x + W))


@pytest.mark.parametrize("window", [8, 16])
def test_defaults_tell_functions_apart(window: int) -> None:
    def mask(w: int) -> Callable[..., Any]:
        def f(q: int, k: int, w: int = w) -> bool:
            return q - k < w

        return f

    assert stripped(mask(window)) == stripped(mask(window))
    assert stripped(mask(window)) != stripped(mask(32))


def test_how_cells_are_shared_tells_functions_apart() -> None:
    def shared(w: Any) -> Any:
        return (lambda: w), (lambda: w)

    def apart(w: Any) -> Any:
        return shared(w)[0], shared(w)[1]

    assert stripped(capturing(shared(W))) == stripped(capturing(shared(W + 1)))
    assert stripped(capturing(shared(W))) != stripped(capturing(apart(W)))


def test_objects_of_other_classes_are_never_equal() -> None:
    @dataclass(frozen=True)
    class A:
        w: Any

    @dataclass(frozen=True)
    class B:
        w: Any

    assert stripped(capturing(A(W))) == stripped(capturing(A(W + 1)))
    assert stripped(capturing(A(W))) != stripped(capturing(B(W)))


def test_a_changed_method_is_another_function() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = W

        def step(self, x: Any) -> Any:
            return self.scale(x) * self.w

        def scale(self, x: Any) -> Any:
            return x * made("def f(x): return x")(2)

    before = stripped(Model().step)
    assert stripped(Model().step) == before
    Model.scale = lambda self, x: x * len(str(x))  # type: ignore[assignment,method-assign]
    assert stripped(Model().step) != before


def test_unread_attributes_and_globals_do_not_count() -> None:
    class Model:
        def __init__(self, rest: Any) -> None:
            self.w = W
            self.rest = rest

        def step(self, x: Any) -> Any:
            return x * self.w

    assert stripped(Model(iter(())).step) == stripped(Model(np.ones(99)).step)
    source = "def f(x): return x * W"
    assert stripped(made(source, W=W, other=1)) == stripped(made(source, W=W, other=2))


def test_other_globals_of_a_helper_are_never_equal() -> None:
    source = "def h(x): return x * scale\ndef f(x): return h(x)"
    assert stripped(made(source, scale=2)) == stripped(made(source, scale=2))
    assert stripped(made(source, scale=2)) != stripped(made(source, scale=3))
    assert stripped(made(source, scale=2)) != stripped(made(source))


def test_a_global_that_hides_a_builtin_is_seen() -> None:
    source = "def f(x): return max(x, 1)"
    assert stripped(made(source)) != stripped(made(source, max=min))


def test_what_is_mutated_in_place_is_fresh_at_the_next_lift() -> None:
    held = {"w": np.ones(12), "n": 1}
    f = capturing(held)
    before = stripped(f)
    held["w"] *= 2  # type: ignore[operator]
    assert stripped(f) == before
    assert lift(f).leaves[0][0] == 2
    held["n"] = 2
    assert stripped(f) != before


def test_a_rebound_variable_is_fresh_at_the_next_lift() -> None:
    w = np.ones(12)
    f = lambda x: x * w  # noqa: E731 (as users write it)
    before = lift(f)
    w = np.zeros(12)
    after = lift(f)
    assert before.stripped == after.stripped
    assert after.leaves[0] is w
    assert before.leaves[0] is not w


# Digests.

PORTABLE = """
import functools, sys
import jax, jax.numpy as jnp, numpy as np
from graphc.capture import lift
from types import SimpleNamespace
W, n = np.ones(12), 3
settings = SimpleNamespace(c=np.ones(12), a=np.ones(12), d=1.5, b="b", unread=iter(()))

def helper(x, *, k={1: "a", "b": (1.0, None)}):
    return x * W + n * k[1] + settings.a * settings.d + settings.c * len(settings.b)

class Model:
    def __init__(self): self.w = W
    def step(self, x): return x * self.w

def f(x, window=frozenset({"a", "b", "c"}), small=np.arange(3)):
    return jax.vmap(jax.grad(lambda y: jnp.tanh(helper(y)).sum()))(x)

for function in (f, functools.partial(f, window={3, 1, 2}), helper, jax.nn.relu):
    print(lift(function).stripped.digest())
print(lift(Model().step).stripped.digest())
"""


@pytest.mark.exhaustive
def test_digests_are_equal_in_every_process() -> None:
    def digests(seed: str) -> Iterator[str]:
        run = subprocess.run(
            [sys.executable, "-c", PORTABLE],
            *(),
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "JAX_PLATFORMS": "cpu", "PATH": ""},
        )
        return iter(run.stdout.split())

    first, second = list(digests("1")), list(digests("2"))
    assert first == second
    assert len(set(first)) == 5
    assert all(len(x) == 40 for x in first[:4])
    # A class of the user's may have another body in another process.
    assert first[4] == "None"


def test_a_stripped_function_does_not_keep_arrays_alive() -> None:
    import gc  # noqa: PLC0415 (the only use)
    import weakref  # noqa: PLC0415 (the only use)

    class Model:
        def __init__(self) -> None:
            self.w = np.ones(100)

        def step(self, x: Any) -> Any:
            return x * self.w + sum(y.sum() for y in more["a"])

    more = {"a": [np.ones(50), np.ones(60)]}
    model = Model()
    arrays = [weakref.ref(model.w), *map(weakref.ref, more["a"])]
    kept = stripped(model.step)
    del model
    more.clear()
    gc.collect()
    assert [array() for array in arrays] == [None] * 3
    assert len(kept.names) == 3


def test_equality_with_others_is_left_to_them() -> None:
    assert stripped(capturing(1)) != "a string"
    assert stripped(capturing(1)).__eq__("a string") is NotImplemented
    assert "value" in repr(stripped(capturing(W)))


def test_a_jitted_function_is_the_function_it_compiles() -> None:
    assert stripped(jax.jit(capturing(W))) == stripped(capturing(W))
