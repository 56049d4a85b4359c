"""What is found in a function, and that it computes the same when it is put together again."""

from __future__ import annotations

import functools
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest

import graphc.tensor as gt
from graphc.capture import lift, rebuild
from graphc.errors import ArgumentError
from graphc.tensor.core.runtime import Runtime, runtime

W = np.arange(12.0)
B = np.arange(12.0) + 1


def swapped(function: Callable[..., Any], old: Any = None, new: Any = None) -> Any:
    """The function put together again, with another array in the place of one of its leaves."""
    stripped, leaves = lift(function)
    assert lift(rebuild(stripped, leaves)).stripped == stripped
    assert old is None or any(x is old for x in leaves)
    return rebuild(stripped, [new if x is old and old is not None else x for x in leaves])


def closure(w: Any) -> Callable[[Any], Any]:
    return lambda x: x * w


def with_default(x: Any, w: Any = W) -> Any:
    return x * w


def with_keyword_default(x: Any, *, w: Any = W) -> Any:
    return x * w


def with_global(x: Any) -> Any:
    return x * W


def with_nested_code(x: Any) -> Any:
    inner = lambda: x * W  # noqa: E731 (as users write it)
    return sum([x * W for _ in range(1)]) + inner() - inner()


def through_a_helper(x: Any) -> Any:
    return with_global(x)


def recursive(x: Any, n: int = 3) -> Any:
    return recursive(x, n - 1) if n else x * W


def recursive_closure(w: Any) -> Callable[..., Any]:
    def repeat(x: Any, n: int = 3) -> Any:
        return repeat(x, n - 1) if n else x * w

    return repeat


def even(x: Any, n: int) -> Any:
    return odd(x, n - 1) if n else x * W


def odd(x: Any, n: int) -> Any:
    return even(x, n - 1) if n else x / W


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


class Model:
    """Methods of every kind that read attributes of ``self``."""

    scale = 2.0

    def __init__(self, w: Any) -> None:
        self.w = w
        self.unread = np.zeros(1000)
        self.log: list[Any] = []
        self.file = object()
        self.inner = SimpleNamespace(w=w, unread=np.zeros(100))
        self.parameters = {"w": w, "rest": (w, [w])}

    def step(self, x: Any) -> Any:
        return x * self.w

    def through_another(self, x: Any) -> Any:
        return self.step(x) * self.scale / self.scale

    def through_an_object(self, x: Any) -> Any:
        return x * self.inner.w

    def through_a_dict(self, x: Any) -> Any:
        return x * self.parameters["w"]

    def through_a_comprehension(self, x: Any) -> Any:
        return sum(x * self.w for _ in range(1))

    @property
    def doubled(self) -> Any:
        return self.w * 2

    def through_a_property(self, x: Any) -> Any:
        return x * self.doubled / 2

    @functools.cached_property
    def kept(self) -> Any:
        return self.w * 2

    def through_a_cached_property(self, x: Any) -> Any:
        return x * self.kept / 2

    @staticmethod
    def static(x: Any) -> Any:
        return x * W

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return x * W * cls.scale / cls.scale

    def through_static(self, x: Any) -> Any:
        return self.static(x) + 0 * self.of_class(x)

    @functools.partial(jax.jit, static_argnums=0)
    def compiled(self, x: Any) -> Any:
        return x * self.w

    def __call__(self, x: Any) -> Any:
        return self.step(x)


class Below(Model):
    """A method that calls the one it overrides."""

    def step(self, x: Any) -> Any:
        return super().step(x) + 0.0


class Slotted:
    __slots__ = ("unread", "w")

    def __init__(self, w: Any) -> None:
        self.w = w

    def step(self, x: Any) -> Any:
        return x * self.w


@dataclass(frozen=True)
class Layer:
    w: Any
    n: int = 3

    def __call__(self, x: Any) -> Any:
        return x * self.w


class Operators:
    def __init__(self, w: Any) -> None:
        self.w = w

    def __rmul__(self, x: Any) -> Any:
        return x * self.w

    def __getitem__(self, i: Any) -> Any:
        return self.w[i]


Pair = namedtuple("Pair", "w n")


def of(value: Any, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that captures a value and multiplies by what it reads of it."""
    return lambda x: x * read(value)


def calling(layer: Any) -> Callable[[Any], Any]:
    return lambda x: layer(x) * 1


def renaming(layer: Any) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        other = layer
        return other(x)

    return f


def operating(v: Any) -> Callable[[Any], Any]:
    return lambda x: x * v + 0 * v[1]


CAPTURES: dict[str, Callable[[], Callable[..., Any]]] = {
    "closure": lambda: closure(W),
    "default": lambda: with_default,
    "keyword default": lambda: with_keyword_default,
    "global": lambda: with_global,
    "nested code": lambda: with_nested_code,
    "helper": lambda: through_a_helper,
    "recursive function": lambda: recursive,
    "recursive closure": lambda: recursive_closure(W),
    "mutually recursive": lambda: lambda x: even(x, 4),
    "partial argument": lambda: functools.partial(lambda w, x: x * w, W),
    "partial keyword": lambda: functools.partial(with_default, w=W),
    "partial of a closure": lambda: functools.partial(closure(W)),
    "wrapped": lambda: decorated(with_global),
    "wrapped twice": lambda: decorated(decorated(closure(W))),
    "cached": lambda: functools.lru_cache(lambda x: x * W),
    "tuple": lambda: of((W, 1), lambda v: v[0]),
    "list": lambda: of([1, [W]], lambda v: v[1][0]),
    "dict": lambda: of({"a": {"b": W}}, lambda v: v["a"]["b"]),
    "ordered dict": lambda: of(OrderedDict(a=W), lambda v: v["a"]),
    "named tuple": lambda: of(Pair(W, 2), lambda v: v.w),
    "functions in a tuple": lambda: of((closure(W), abs), lambda v: v[0](1.0)),
    "functions in a dict": lambda: of({1: closure(W)}, lambda v: v[1](1.0)),
    "namespace": lambda: of(SimpleNamespace(w=W), lambda v: v.w),
    "bound method": lambda: Model(W).step,
    "method that calls another": lambda: Model(W).through_another,
    "attribute of an attribute": lambda: Model(W).through_an_object,
    "item of an attribute": lambda: Model(W).through_a_dict,
    "self in a comprehension": lambda: Model(W).through_a_comprehension,
    "property": lambda: Model(W).through_a_property,
    "cached property": lambda: Model(W).through_a_cached_property,
    "static method": lambda: Model.static,
    "class method": lambda: Model.of_class,
    "static method of self": lambda: Model(W).through_static,
    "method below jit": lambda: Model(W).compiled,
    "super": lambda: Below(W).step,
    "slots": lambda: Slotted(W).step,
    "callable object": lambda: Model(W),
    "dataclass": lambda: Layer(W),
    "captured object": lambda: of(Layer(W), lambda v: v.w),
    "called object": lambda: calling(Layer(W)),
    "object in a tuple": lambda: of((Layer(W),), lambda v: v[0](1.0)),
    "operators of an object": lambda: operating(Operators(W)),
    "renamed object": lambda: renaming(Layer(W)),
    "a library's closure": lambda: jax.vmap(closure(W)),
    "jit": lambda: jax.jit(closure(W)),
}


@pytest.mark.parametrize("name", CAPTURES)
def test_a_captured_array_is_a_leaf_and_is_replaced_everywhere(name: str) -> None:
    x = np.ones(3)[:, None] if name == "a library's closure" else 2.0
    right = np.asarray(CAPTURES[name]()(x))
    np.testing.assert_allclose(swapped(CAPTURES[name]())(x), right, rtol=1e-6)
    np.testing.assert_allclose(swapped(CAPTURES[name](), W, 10 * W)(x), 10 * right, rtol=1e-6)


@pytest.mark.parametrize("name", CAPTURES)
def test_the_only_leaf_is_the_array_that_is_read(name: str) -> None:
    assert [x is W for x in lift(CAPTURES[name]()).leaves] == [True]


CALLS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "keyword": lambda model: lambda x: model(x=x),
    "unpacked": lambda model: lambda *x: model(*x) * 1,
    "unpacked keywords": lambda model: lambda *x, **n: model(*x, **n) * 1,
    "operand": lambda model: lambda x: 2 * model(x) + 1,
    "item": lambda model: lambda x, y: [x, model(y), model(model(x))],
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_of_an_object_reads_what_its_method_reads(name: str) -> None:
    assert lift(CALLS[name](Model(W))).stripped.names == ("model.w",)


PASSED: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "argument": lambda model: lambda f: f(model),
    "argument beside a keyword": lambda model: lambda f: f(model, n=1),
    "keyword": lambda model: lambda f: f(1, model=model),
    "operand that is called": lambda model: lambda x: (-model)(x) * 1,
    "iterated": lambda model: lambda x: [x * each for each in model],
}


@pytest.mark.parametrize("name", PASSED)
def test_an_object_that_is_passed_on_may_be_read_as_a_whole(name: str) -> None:
    assert "model.unread" in lift(PASSED[name](Model(W))).stripped.names


def test_original_functions_are_left_as_they_were() -> None:
    model = Model(W)
    rebuild(lift(model.through_a_property).stripped, [B])(1.0)
    rebuild(lift(through_a_helper).stripped, [B])(1.0)
    assert model.w is W
    assert globals()["W"] is W
    assert vars(model).keys() == vars(Model(W)).keys()


def test_an_array_captured_in_several_ways_is_one_leaf() -> None:
    alias = W

    def f(x: Any, w: Any = W) -> Any:
        return x * w + alias + W

    stripped, leaves = lift(functools.partial(f, w=W))
    assert len(leaves) == 1
    np.testing.assert_array_equal(rebuild(stripped, [B])(1.0), 3 * B)


def test_equal_arrays_are_two_leaves() -> None:
    a, b = np.ones(12), np.ones(12)
    stripped, leaves = lift(lambda x: x * a + b)
    assert stripped.names == ("a", "b")
    assert [leaves[0] is a, leaves[1] is b] == [True, True]


def test_a_helper_captured_twice_has_the_new_value_both_times() -> None:
    helper = closure(W)

    def f(x: Any, again: Any = helper) -> Any:
        return helper(x) + again(x)

    np.testing.assert_array_equal(swapped(f, W, B)(1.0), 2 * B)


def test_a_shared_cell_is_shared_again() -> None:
    def make(w: Any) -> tuple[Any, Any]:
        return (lambda: w), (lambda: w)

    first, second = make(W)
    one, other = swapped(lambda: (first, second), W, B)()
    assert one.__closure__[0] is other.__closure__[0]
    assert one() is other() is B


def test_functions_of_one_module_share_what_they_read() -> None:
    one, other = swapped(lambda: (even, odd), W, B)()
    assert one.__globals__ is other.__globals__
    assert one.__globals__["odd"] is other


def test_an_object_captured_twice_is_one_object() -> None:
    layer = Layer(W)
    a, b = swapped(lambda: (layer, [layer][0]), W, B)()
    assert a is b
    assert type(a) is Layer
    assert a.w is B


def test_a_list_that_holds_its_own_reader_is_put_together() -> None:
    held: list[Any] = []

    def f(x: Any) -> Any:
        return x * W if held[0] is f else x

    held.append(f)
    np.testing.assert_array_equal(swapped(f, W, B)(1.0), B)


def test_a_method_in_a_dict_of_its_object_is_put_together() -> None:
    class Table:
        def __init__(self) -> None:
            self.w = W
            self.ways = {"step": self.step}

        def step(self, x: Any) -> Any:
            return x * self.w

        def run(self, x: Any) -> Any:
            return self.ways["step"](x)

    np.testing.assert_array_equal(swapped(Table().run, W, B)(1.0), B)


def test_user_modules_are_looked_into() -> None:
    module = ModuleType("settings_of_mine")
    exec("def scaled(x):\n    return x * weight\n", vars(module))
    vars(module).update(weight=W, unread=B)
    f = of(module, lambda m: m.scaled(1.0))
    np.testing.assert_array_equal(swapped(f, W, B)(2.0), 2 * B)
    g = lambda x: module.scaled(x) + module.weight  # noqa: E731 (as users write it)
    assert [x is W for x in lift(g).leaves] == [True]


def test_attributes_of_functions_are_captured() -> None:
    def f(x: Any) -> Any:
        return x * helper.weight

    def helper() -> None: ...

    helper.weight = W  # type: ignore[attr-defined]
    np.testing.assert_array_equal(swapped(f, W, B)(1.0), B)


def test_and_masks_captures_through_its_tuple_of_functions() -> None:
    def and_masks(*masks: Any) -> Any:
        def mask(*indices: Any) -> Any:
            return all(m(*indices) for m in masks)

        return mask

    document = np.repeat([0, 1], 8)

    def causal(b: int, h: int, q: int, k: int) -> Any:
        return q >= k

    mask = and_masks(causal, lambda b, h, q, k: document[q] == document[k])
    other = swapped(mask, document, np.zeros(16, int))
    assert [mask(0, 0, 9, 3), other(0, 0, 9, 3), other(0, 0, 3, 9)] == [False, True, False]


def test_super_reads_attributes_through_the_method_it_finds() -> None:
    class Base:
        def step(self, x: Any) -> Any:
            return x * self.w  # type: ignore[attr-defined]

    class Derived(Base):
        def __init__(self) -> None:
            self.w = W

        def step(self, x: Any) -> Any:
            return super().step(x) + 1

    np.testing.assert_array_equal(swapped(Derived().step, W, B)(1.0), B + 1)


# What is a leaf.


@pytest.mark.parametrize("size", [9, 10])
@pytest.mark.parametrize("make", [np.ones, jnp.ones], ids=["numpy", "jax"])
def test_arrays_of_ten_elements_are_leaves_and_smaller_ones_are_not(size: int, make: Any) -> None:
    a = make(size)
    assert len(lift(lambda x: x * a).leaves) == (size >= 10)


def test_mlx_arrays_of_ten_elements_are_leaves() -> None:
    big, small = mx.ones(10), mx.ones(9)
    _, leaves = lift(lambda x: x * big)
    assert leaves[0] is big
    f = lambda x: x * small  # noqa: E731 (as users write it)
    before = lift(f)
    assert before.leaves == ()
    small[0] = 5.0
    assert lift(f).stripped != before.stripped
    assert rebuild(*before)(1.0).tolist() == [1.0] * 9


def test_numbers_marked_runtime_are_leaves() -> None:
    rate = runtime(0.5)
    f = lambda x: x * rate  # noqa: E731 (as users write it)
    stripped, leaves = lift(f)
    assert leaves == (0.5,)
    assert isinstance(leaves[0], Runtime)
    assert rebuild(stripped, [0.25])(2.0) == 0.5
    assert lift(rebuild(stripped, [0.25])) == (stripped, (0.25,))


def test_symbolic_arrays_are_leaves_whatever_their_rank() -> None:
    x, scale = gt.vector("x"), gt.scalar("scale")
    assert set(lift(lambda y: y * x + scale).leaves) == {x, scale}


def test_what_jax_traces_is_a_leaf_even_if_it_is_small() -> None:
    def run(w: Any) -> Any:
        stripped, leaves = lift(lambda x: x * w)
        assert len(leaves) == 1
        return rebuild(stripped, [leaves[0] + 1])(2.0)

    assert float(jax.jit(run)(3.0)) == 8.0


def test_keys_of_jax_are_leaves() -> None:
    key = jax.random.key(0)
    assert lift(lambda: jax.random.normal(key, (2,))).leaves[0] is key


def test_a_small_array_is_as_it_was_when_lifted() -> None:
    a = np.array([1.0, 2.0])
    lifted = lift(lambda: a * 1)
    a[0] = 5.0
    assert rebuild(*lifted)().tolist() == [1.0, 2.0]


def test_a_number_is_as_it_was_when_lifted() -> None:
    variables = {"n": 3}
    exec("f = lambda: n", variables)
    lifted = lift(variables["f"])  # type: ignore[arg-type]
    variables["n"] = 4
    assert rebuild(*lifted)() == 3
    assert lift(variables["f"]).stripped != lifted.stripped  # type: ignore[arg-type]


def test_names_say_how_the_user_reaches_a_leaf() -> None:
    model, layer = Model(W), Layer(B)
    more = {"a": [np.ones(20)]}
    f = lambda x: model.step(x) + layer(x) + more["a"][0]  # noqa: E731 (as users write it)
    assert set(lift(f).stripped.names) == {"model.w", "layer.w", "more['a'][0]"}
    assert lift(model.step).stripped.names == ("self.w",)
    assert lift(functools.partial(with_default, w=W)).stripped.names == ("w",)


def test_a_rebuilt_function_keeps_its_name_and_signature() -> None:
    g = swapped(with_keyword_default, W, B)
    kept = ("__name__", "__qualname__", "__module__", "__doc__")
    assert [getattr(g, x) for x in kept] == [getattr(with_keyword_default, x) for x in kept]
    assert swapped(decorated(with_global)).__wrapped__.__name__ == "with_global"


def test_as_many_leaves_as_there_were_are_wanted() -> None:
    stripped, _ = lift(closure(W))
    with pytest.raises(ArgumentError, match=r"expected 1 leaves, got 2.\nIts leaves are: w"):
        rebuild(stripped, [W, W])


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(ArgumentError, match="expected a function"):
        lift(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", [closure(W), None, lift(closure(W))], ids=["function", "None", "lifted"]
)
def test_what_is_rebuilt_is_a_stripped_function(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match=r"expected a stripped function.\nGive both parts"):
        rebuild(wrong, (W,))


@pytest.mark.parametrize("method", [str.upper, np.ndarray.sum, float.__add__], ids=repr)
def test_a_method_of_a_compiled_class_is_known_by_its_name(method: Any) -> None:
    def use(x: Any) -> Any:
        return method, x, W.sum()

    stripped, leaves = lift(use)
    assert rebuild(stripped, leaves)(1.0)[0] is method
    assert lift(use).stripped == stripped
    assert stripped.digest() is not None
    assert stripped.digest() == lift(use).stripped.digest()


class Anything:
    """Answers to any name."""

    def __getattr__(self, name: str) -> Any:
        return W

    def weighted(self, x: Any) -> Any:
        return (x * self.weights).sum()


def test_an_object_that_answers_to_any_name_is_no_named_one() -> None:
    assert float(rebuild(*lift(Anything().weighted))(2.0)) == float(2 * W.sum())


def test_an_elementwise_function_is_known_by_its_name() -> None:
    apply, tanh = gt.exp, gt.tanh
    stripped, leaves = lift(lambda x: tanh(apply(x)))
    x = gt.vector("x")
    assert leaves == ()
    assert rebuild(stripped, leaves)(x) is gt.tanh(gt.exp(x))
    other = gt.sinh
    assert lift(lambda x: tanh(other(x))).stripped != stripped
