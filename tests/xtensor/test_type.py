"""Arrays with named dimensions: how they are made, shown, compared, copied and refused."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
import graphc.xtensor as gx
from graphc.errors import ArgumentError, DTypeError, FrozenError, ShapeError, SymbolicValueError
from tests.xtensor.by_name import Named, given


def test_an_input_has_a_name_dimensions_lengths_and_a_dtype() -> None:
    x = gx.xtensor("x", dims=("city", "year"), shape=(3, None), dtype="int32")
    assert repr(x) == "x: int32[city=3, year=?]"
    assert (x.name, x.dims, x.ndim, x.dtype) == ("x", ("city", "year"), 2, "int32")
    assert (x.type.shape, x.type.numpy_dtype) == ((3, None), np.dtype("int32"))
    assert gx.xtensor(dims="city").dtype == graphc.config.floatX


def test_types_are_values_that_make_inputs() -> None:
    kind = gx.XTensorType("floatX", dims=("a",), shape=(2,))
    assert kind == gx.xtensor(dims=("a",), shape=(2,)).type
    assert kind.clone(dtype="bool", dims=("b", "c"), shape=(1, None)) == gx.XTensorType(
        bool, dims=("b", "c"), shape=(1, None)
    )
    assert (kind("x").name, kind.ndim) == ("x", 1)


def test_equal_graphs_with_equal_names_are_equal() -> None:
    x, m = gx.xtensor("x", dims=("a", "b")), gt.matrix("m")
    assert x + 1 == x + 1
    assert len({x.sum("a"), x.sum("a"), x.sum("b")}) == 2
    assert gx.as_xtensor(m, dims=("a", "b")) != gx.as_xtensor(m, dims=("b", "a"))
    assert gx.as_xtensor(m, dims=("a", "b")).values is m
    assert copy.deepcopy(x) is not None
    assert pickle.loads(pickle.dumps(x)).dims == x.dims


def test_what_becomes_an_array_with_names() -> None:
    array = np.arange(12.0).reshape(3, 4)
    x = gx.as_xtensor(array, dims=("a", "b"), name="data")
    assert (x.name, x.type.shape) == ("data", (3, 4))
    assert gx.as_xtensor(x) is x
    assert gx.as_xtensor(2).dims == gx.as_xtensor(gt.scalar()).dims == ()
    assert gx.as_xtensor(Named(array, ("b", "a"))).dims == ("b", "a")
    assert gx.xtensor_constant(array, "data", dims=("a", "b")).data.tolist() == array.tolist()


REFUSED: dict[str, tuple[Callable[[gx.XTensor], Any], type[Exception], str]] = {
    "no names": (lambda x: gx.as_xtensor([1.0]), ArgumentError, "a list of shape .* has no names"),
    "no symbol": (lambda x: gx.XTensor(np.ones(1), "a"), ArgumentError, "Use .*as_xtensor"),  # type: ignore[arg-type]
    "a number of names": (lambda x: gx.as_xtensor([1.0], dims=("a", "b")), ShapeError, "1 axes"),
    "other names": (lambda x: gx.as_xtensor(x, dims=("b", "a")), ArgumentError, "Leave dims out"),
    "no numbers": (lambda x: gx.as_xtensor(["a"], dims="a"), DTypeError, "is not a dtype"),
    "no string": (lambda x: gx.xtensor(dims=(1,)), ArgumentError, "1 is no name"),  # type: ignore[arg-type]
    "an axis": (lambda x: x.sum(0), ArgumentError, "dimension 0 is no name"),  # type: ignore[arg-type]
    "twice": (lambda x: gx.xtensor(dims=("a", "a")), ArgumentError, "'a' comes twice"),
    "lengths": (
        lambda x: gx.xtensor(dims="a", shape=(1, 2)),
        ShapeError,
        "2 lengths, .* 'a'|2 len",
    ),
    "an attribute": (lambda x: setattr(x, "dims", ()), FrozenError, "Setting .dims of x0"),
    "an item": (lambda x: x.__setitem__(0, 1), SymbolicValueError, r"x\[index\].set\(value\)"),
    "bool": (bool, SymbolicValueError, "The truth value of the symbolic x0"),
    "int": (int, SymbolicValueError, "int"),
    "float": (float, SymbolicValueError, "float"),
    "complex": (complex, SymbolicValueError, "complex"),
    "index": (lambda x: [1][x], SymbolicValueError, "A Python integer"),
    "len": (len, SymbolicValueError, "x.sizes has"),
    "iteration": (list, SymbolicValueError, r"x.isel\(dim=i\)"),
    "search": (lambda x: 1 in x, SymbolicValueError, "A search"),
    "NumPy": (np.asarray, SymbolicValueError, "A NumPy array of the symbolic x0"),
    "a value": (gx.xtensor_shared, ArgumentError, "is symbolic|no names"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_it_is_not_is_refused_on_its_line(what: str) -> None:
    f, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as found:
        f(given("ab")[0])
    assert getattr(found.value, "where", "").startswith("test_type.py:")


def test_only_the_name_can_be_set() -> None:
    x = gx.xtensor("x", dims="a")
    y = x * 2
    y.name = "twice"
    assert (y.name, y.rename("two").name, x.copy()) == ("twice", "two", x)


METHODS = {
    **dict.fromkeys(("all", "any", "max", "mean", "min", "prod", "sum"), "dim=None"),
    **dict.fromkeys(("cumprod", "cumsum"), "dim=None"),
    **dict.fromkeys(("std", "var"), "dim=None ddof=0"),
    **dict.fromkeys(("head", "tail", "thin"), "indexers=None indexers_kwargs"),
    **dict.fromkeys(("inc", "set"), "value"),
    **dict.fromkeys(("stack", "unstack"), "dim dims"),
    "astype": "dtype",
    "broadcast_like": "other exclude=None",
    "clip": "min max",
    "conj": "",
    "copy": "name=None",
    "diff": "dim n=1",
    "dot": "other dim=None",
    "expand_dims": "dim=None create_index_for_new_dim=None axis=None dim_kwargs",
    "isel": "indexers=None drop=False missing_dims='raise' indexers_kwargs",
    "rename": "new_name_or_name_dict=None names",
    "sel": "args kwargs",
    "squeeze": "dim=None drop=None axis=None",
    "transpose": "dim missing_dims='raise'",
    "where": "cond other=None drop=False",
}
"""PyTensor's methods with their arguments and defaults."""


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_pytensors_arguments_in_its_order(name: str) -> None:
    own = list(inspect.signature(getattr(gx.XTensor, name)).parameters.values())[1:]
    for argument, p in zip(METHODS[name].split(), own, strict=True):
        wanted, _, default = argument.partition("=")
        assert wanted == p.name
        assert not default or default == repr(p.default)


def test_attributes_that_there_are_not_say_where_to_look() -> None:
    x, _ = given("ab")
    assert x.as_numpy is x
    with pytest.raises(AttributeError, match=r"no attribute 'sort'. x.values.sort is that"):
        x.sort()
    with pytest.raises(AttributeError, match=r"no attribute 'exq'.$"):
        _ = x.exq


def test_pytensors_names_are_at_its_paths() -> None:
    from graphc.xtensor.random.variable import shared_rng  # noqa: PLC0415

    from graphc.xtensor.type import XTensorVariable  # noqa: PLC0415

    assert (XTensorVariable, shared_rng) == (gx.XTensor, gx.random.shared_rng)
    assert graphc.xtensor.math.exp is gx.math.exp
