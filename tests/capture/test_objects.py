"""Attributes of objects, classes and modules, and what libraries make of functions."""

from __future__ import annotations

import contextlib
import enum
import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import sparse

import graphc
import graphc.tensor as gt
from graphc.capture import lift, rebuild
from graphc.errors import ArgumentError

W = np.arange(12.0)
J = jnp.arange(12.0)


class Shared:
    """Attributes that all of its objects have, and that are computed."""

    weights = W
    scale = 2.0

    def by_self(self, x: Any) -> Any:
        return x * self.weights

    def by_type(self, x: Any) -> Any:
        return x * type(self).weights

    def by_getattr(self, x: Any) -> Any:
        return x * getattr(self, "weights")  # noqa: B009 (as users write it)

    def __getattr__(self, name: str) -> Any:
        if name == "computed":
            return self.weights * 1
        raise AttributeError(name)

    def by_a_computed_one(self, x: Any) -> Any:
        return x * self.computed

    def scaled(self, x: Any) -> Any:
        return x * self.__class__.scale


WAYS = [Shared.by_self, Shared.by_type, Shared.by_getattr, Shared.by_a_computed_one]


@pytest.mark.parametrize("way", WAYS)
def test_arrays_of_a_class_are_leaves_of_its_objects(way: Any) -> None:
    f = way.__get__(Shared())
    stripped, leaves = lift(f)
    assert [x is W for x in leaves] == [True]
    np.testing.assert_array_equal(rebuild(stripped, [W + 1])(2.0), 2 * (W + 1))
    assert Shared.weights is W


def test_objects_of_a_rebuilt_class_are_still_of_the_class() -> None:
    shared = Shared()
    made = rebuild(*lift(lambda: (shared, type(shared).weights)))()[0]
    assert isinstance(made, Shared)
    assert type(made).__qualname__ == "Shared"


def test_numbers_of_a_class_are_compared_each_time() -> None:
    class Table:
        scale = 2.0

        @classmethod
        def scaled(cls, x: Any) -> Any:
            return x * cls.scale

    for read in (lambda: Table.scale, lambda: Table.scaled(1.0), Table.scaled):
        before = lift(read).stripped
        assert lift(read).stripped == before
        Table.scale += 1
        assert lift(read).stripped != before
    found = Shared()
    before = lift(found.scaled).stripped
    Shared.scale = 3.0
    try:
        assert lift(found.scaled).stripped != before
    finally:
        Shared.scale = 2.0


def test_a_class_that_makes_objects_within_is_looked_into() -> None:
    @dataclass
    class Row:
        n: int
        more: list[int] = field(default_factory=lambda: [1])

        def scaled(self, x: Any) -> Any:
            return x * self.n * factor["n"]

    factor = {"n": 2}
    f = lambda x: Row(3).scaled(x)  # noqa: E731 (as users write it)
    before = lift(f)
    assert rebuild(*before)(1.0) == 6.0
    assert lift(f).stripped == before.stripped
    factor["n"] = 3
    assert lift(f).stripped != before.stripped


def test_the_machinery_of_a_class_does_not_count() -> None:
    class Tracked:
        def __get__(self, owner: Any, cls: Any = None) -> int:
            return 1

    class Model:
        tracked = Tracked()
        open_files = iter(())

        @property
        def n(self) -> Any:
            return factor["n"]

    factor = {"n": 2}
    f = lambda x: (Row(x, Model().n), Row.n, Model.open_files)[0]  # noqa: E731 (as users write it)
    g = lambda x: Row(x, Model().n + Model().tracked)  # noqa: E731 (as users write it)
    with pytest.raises(ArgumentError, match=r"`Model\.open_files` .* can be iterated only once"):
        lift(f)
    before = lift(g)
    assert rebuild(*before)(1.0) == Row(1.0, 3)
    factor["n"] = 3
    assert lift(g).stripped != before.stripped


def test_an_array_in_a_class_that_makes_objects_within_is_refused() -> None:
    class Model:
        def step(self, x: Any) -> Any:
            return x * W

    with pytest.raises(ArgumentError, match=r"`Model\.step` .* captures an array and belongs to"):
        lift(lambda x: Model().step(x))
    made = Model
    with pytest.raises(ArgumentError, match=r"`made\.step` .* captures an array and belongs to"):
        lift(lambda x: [made][0]().step(x))


def test_objects_keep_their_class_where_no_operator_captures_an_array() -> None:
    class Layer:
        def __init__(self) -> None:
            self.w = W

        def __call__(self, x: Any) -> Any:
            return x * self.w

    class Offset(Layer):
        def __call__(self, x: Any) -> Any:
            return x * self.w + W

    plain, offset = Layer(), Offset()
    made = rebuild(*lift(lambda x: (plain(x), offset(x), plain, offset)))(1.0)
    assert type(made[2]) is Layer
    assert isinstance(made[3], Offset)
    np.testing.assert_array_equal(made[1], 2 * W)


def test_an_operator_reads_the_new_array() -> None:
    class Offset:
        def __radd__(self, x: Any) -> Any:
            return x + W

    offset = Offset()
    stripped, _ = lift(lambda x: x + offset)
    np.testing.assert_array_equal(rebuild(stripped, [W + 1])(1.0), W + 2)


def test_attributes_that_are_not_captured_are_not_there() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = W
            self.file = iter(())

        def step(self, x: Any) -> Any:
            return x * self.w

    made = rebuild(*lift(Model().step))
    with pytest.raises(AttributeError):
        made.__self__.file  # type: ignore[attr-defined]  # noqa: B018 (it is what is tested)


def test_frozen_objects_with_slots_are_rebuilt() -> None:
    class Frozen:
        __slots__ = ("w",)

        def __init__(self, w: Any) -> None:
            object.__setattr__(self, "w", w)

        def __setattr__(self, name: str, value: Any) -> None:
            raise AttributeError(name)

        def step(self, x: Any) -> Any:
            return x * self.w

    stripped, _ = lift(Frozen(W).step)
    np.testing.assert_array_equal(rebuild(stripped, [W + 1])(1.0), W + 1)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Row(NamedTuple):
    w: Any
    n: int


def test_members_of_an_enumeration_are_themselves() -> None:
    color = Color.RED
    f = lambda: color is Color.RED  # noqa: E731 (as users write it)
    before = lift(f)
    assert rebuild(*before)() is True
    color = Color.BLUE
    assert lift(f).stripped != before.stripped


def test_typed_named_tuples_are_rebuilt() -> None:
    row = Row(W, 2)
    stripped, _ = lift(lambda x: (row, x * row.w * row.n))
    made, y = rebuild(stripped, [W + 1])(1.0)
    assert type(made) is Row
    np.testing.assert_array_equal(y, 2 * (W + 1))


# Modules.


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package of the user's own: what is in no folder of installed ones."""
    folder = tmp_path / "my_project"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "data.py").write_text("import numpy as np\nweights = np.arange(12.0)\nn = 2\n")
    (folder / "model.py").write_text(
        "from my_project import data\nfrom my_project.data import n\n"
        "def scaled(x):\n    return x * data.weights * n\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "my_project"
    for name in [x for x in sys.modules if x.startswith("my_project")]:
        del sys.modules[name]


def test_functions_of_the_users_modules_are_looked_into(package: str) -> None:
    model = importlib.import_module(f"{package}.model")
    root = importlib.import_module(package)
    for f in (model.scaled, lambda x: 1 * model.scaled(x), lambda x: 1 * root.model.scaled(x)):
        stripped, leaves = lift(f)
        assert [x is sys.modules["my_project.data"].weights for x in leaves] == [True]
        np.testing.assert_array_equal(rebuild(stripped, [W + 1])(1.0), 2 * (W + 1))
        assert stripped.digest() is not None


def test_a_number_of_the_users_module_is_compared(package: str) -> None:
    data = importlib.import_module(f"{package}.data")
    f = lambda: data.n  # noqa: E731 (as users write it)
    before = lift(f)
    data.n = 3
    assert lift(f).stripped != before.stripped
    assert [rebuild(*before)(), rebuild(*lift(f))()] == [2, 3]


def test_a_module_that_is_handed_on_has_what_is_read_of_it(package: str) -> None:
    data = importlib.import_module(f"{package}.data")

    def helper(module: Any, x: Any) -> Any:
        return x * module.weights

    stripped, _ = lift(lambda x: helper(data, x))
    np.testing.assert_array_equal(rebuild(stripped, [W + 1])(1.0), W + 1)


def test_functions_of_libraries_are_known_by_their_names() -> None:
    f = lambda x: jnp.tanh(jax.nn.relu(np.exp(x)) + len("a"))  # noqa: E731 (as users write it)
    stripped, leaves = lift(f)
    assert leaves == ()
    assert rebuild(stripped, ()).__globals__["jnp"] is jnp  # type: ignore[attr-defined]


# What libraries make of the user's functions.


def replaced(function: Callable[..., Any]) -> Callable[..., Any]:
    stripped, leaves = lift(function)
    return rebuild(stripped, [x + 1 if x is J or x is W else x for x in leaves])


def summed(x: Any) -> Any:
    return (x * J).sum()


def test_derivatives_of_captured_functions_are_rebuilt() -> None:
    slope = jax.grad(summed)
    both = jax.value_and_grad(summed)
    kept = jax.checkpoint(summed)
    f = lambda x: (slope(x), both(x)[0], kept(x))  # noqa: E731 (as users write it)
    np.testing.assert_allclose(f(2.0), [66, 132, 132])
    np.testing.assert_allclose(replaced(f)(2.0), [78, 156, 156])


def test_derivatives_of_the_users_own_are_kept() -> None:
    @jax.custom_vjp
    def own(x: Any) -> Any:
        return summed(x)

    own.defvjp(lambda x: (own(x), x), lambda _, g: (100 * g * J.sum(),))

    @jax.custom_jvp
    def other(x: Any) -> Any:
        return summed(x)

    other.defjvp(lambda x, t: (other(x[0]), 100 * t[0] * J.sum()))
    for f in (lambda x: 1 * own(x), lambda x: 1 * other(x), own, other):
        assert jax.grad(rebuild(*lift(f)))(2.0) == 6600
        assert jax.grad(replaced(f))(2.0) == 7800


def test_sparse_arrays_of_jax_are_taken_apart() -> None:
    matrix = sparse.BCOO.fromdense(jnp.eye(12))
    lifted = lift(lambda x: matrix @ (x * J))
    assert set(lifted.stripped.names) == {"J", "matrix.data", "matrix.indices"}
    doubled = jax.tree.map(lambda x: x * 2 if x.dtype == J.dtype else x, lifted)
    np.testing.assert_allclose(rebuild(*doubled)(1.0), 4 * J)


def test_compiled_functions_and_graphs_are_themselves() -> None:
    x = gt.vector("x")
    compiled = graphc.function([x], 2 * x, mode="NUMPY")
    f = lambda: compiled([1.0])  # noqa: E731 (as users write it)
    before = lift(f)
    assert rebuild(*before)().tolist() == [2.0]
    assert lift(f).stripped == before.stripped
    compiled = graphc.function([x], 2 * x, mode="NUMPY")
    assert lift(f).stripped != before.stripped


def test_a_mesh_is_itself() -> None:
    mesh = jax.make_mesh((1,), ("data",))
    assert rebuild(*lift(lambda: mesh))() is mesh


def test_context_managers_of_the_users_are_looked_into() -> None:
    @contextlib.contextmanager
    def opened() -> Iterator[Any]:
        yield W

    def f(x: Any) -> Any:
        with opened() as w:
            return x * w

    np.testing.assert_array_equal(replaced(f)(1.0), W + 1)


def test_partial_of_jax_keeps_its_class() -> None:
    f = jax.tree_util.Partial(lambda w, x: w * x, W)
    made = replaced(f)
    assert type(made) is jax.tree_util.Partial
    np.testing.assert_array_equal(made(1.0), W + 1)


def test_a_table_of_implementations_that_remembers_its_users_is_refused() -> None:
    @functools.singledispatch
    def scaled(x: Any) -> Any:
        return x * W

    with pytest.raises(ArgumentError, match=r"`scaled\.dispatch\."):
        lift(lambda x: 1 * scaled(x))


def test_long_chains_of_closures_are_taken_apart_and_put_together() -> None:
    def after(g: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: g(x)  # noqa: PLW0108 (a closure is what it is about)

    f = lambda x: x * W  # noqa: E731 (as users write it)
    for _ in range(5000):
        f = after(f)
    stripped, leaves = lift(f)
    assert len(leaves) == 1
    rebuild(stripped, leaves)
