"""Every public function has a type for each parameter and a result that is known."""

from __future__ import annotations

import ast
import inspect
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import graphc
import graphc.random
import graphc.tensor as gt
from graphc.random.generator import DISTRIBUTIONS
from graphc.tensor.core import methods
from graphc.tensor.core.elementwise import Elementwise
from graphc.tensor.core.methods import METHODS

PATHS = (
    *("graphc", "graphc.tensor", "graphc.tensor.fft", "graphc.tensor.linalg"),
    *("graphc.tensor.signal", "graphc.tensor.special", "graphc.random", "graphc.grad"),
    *("graphc.loop", "graphc.optimize", "graphc.attention", "graphc.implicit", "graphc.interop"),
    *("graphc.capture", "graphc.compile", "graphc.compile.events"),
)
MODULES = [import_module(path) for path in PATHS]

FOREIGN = {
    # Numbers, and arrays of any library or nested in any way.
    *("get_scalar_constant_value", "get_underlying_scalar_constant_value"),
    *("causal", "noop_mask", "aux_field", "materialize_handler", "materialize_nested"),
    *("materialized", "numpy_like", "quantize", "tree_map", "tree_map_with_path", "unflatten"),
    *("with_fields", "to_stored_value", "device_put", "partition_specs", "shardings"),
    *("calibrate", "combine", "dequantize", "frozen", "merge", "trainable"),
}
"""The public functions whose result no type can say."""


def functions() -> Iterator[tuple[str, Any]]:
    """The public functions, and the methods of the classes that users make objects of."""
    for module in MODULES:
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, FunctionType):
                yield f"{module.__name__}.{name}", value
    for cls in (gt.Tensor, graphc.Shared, graphc.Function, gt.random.RandomStream):
        for name, value in vars(cls).items():
            if isinstance(value, FunctionType) and not name.startswith("_"):
                yield f"{cls.__name__}.{name}", value


FUNCTIONS = dict(functions())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_has_types(name: str) -> None:
    signature = inspect.signature(FUNCTIONS[name])
    parameters = [p for p in signature.parameters.values() if p.name != "self"]
    assert [p.name for p in parameters if p.annotation is p.empty] == []
    assert signature.return_annotation is not signature.empty


OF_PROTOCOLS = {"foldl", "foldr"}
"""The functions that a protocol types; ``loops.py`` shows their results."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_says_what_it_gives(name: str) -> None:
    function = FUNCTIONS[name]
    first = next(iter(typing.get_overloads(function)), function)
    gives = inspect.signature(first).return_annotation
    assert (gives == "Any") == (function.__name__ in FOREIGN | OF_PROTOCOLS)


def test_elementwise_functions_take_and_give_arrays() -> None:
    rows = [getattr(gt, name) for name in gt.__all__]
    signatures = [inspect.signature(row) for row in rows if isinstance(row, Elementwise)]
    taken = {p.annotation for signature in signatures for p in signature.parameters.values()}
    assert taken == {"TensorLike"}
    assert {signature.return_annotation for signature in signatures} == {"Tensor"}
    assert gt.TensorLike
    assert gt.Axis


@pytest.mark.parametrize("name", ["exp", "add", "sum", "clip", "where", "grad"])
def test_the_types_of_a_function_can_be_looked_up(name: str) -> None:
    function = getattr(gt, name)
    call = type(function).__call__ if isinstance(function, Elementwise) else function
    assert "return" in typing.get_type_hints(call)


# What is declared for type checkers alone.


def tree_of(module_path: str | None) -> ast.Module:
    return ast.parse(Path(module_path or "").read_text(encoding="utf-8"))


def test_methods_are_declared_for_type_checkers() -> None:
    (declared,) = (
        block
        for node in ast.walk(tree_of(methods.__file__))
        if isinstance(node, ast.ClassDef)
        for block in node.body
        if isinstance(block, ast.If)
    )
    names = {
        target.id for node in declared.body if isinstance(node, ast.Assign)
        for target in node.targets if isinstance(target, ast.Name)
    }  # fmt: skip
    assert {name for name in names if not name.startswith("_")} == {*METHODS, "conjugate"}
    assert [name for name in names if not hasattr(gt.Tensor, name)] == []


def test_a_method_has_the_signature_of_its_function() -> None:
    x = gt.vector("x")
    for name in METHODS:
        function = getattr(gt, name)
        own = [*inspect.signature(getattr(x, name)).parameters.values()]
        assert own == [*inspect.signature(function).parameters.values()][1:]
        assert inspect.getdoc(getattr(x, name)) == inspect.getdoc(function)
        assert name in dir(x)


STUB = Path(graphc.random.__file__).with_name("signatures.pyi")
BY_NAME = {"rng", "dtype", "return_next_rng"}


def declared_parameters(node: ast.FunctionDef) -> list[tuple[str, str]]:
    """The names and the defaults of a declared function, but for those that are given by name."""
    given, defaults = node.args.args, node.args.defaults
    padded = [None] * (len(given) - len(defaults)) + [*defaults]
    named = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    pairs = [*zip(given, padded, strict=True), *named]
    return [
        (x.arg, "" if default is None else ast.unparse(default))
        for x, default in pairs
        if x.arg not in BY_NAME | {"self"}
    ]


def test_draws_are_declared_as_they_are() -> None:
    body = ast.parse(STUB.read_text(encoding="utf-8")).body
    (cls,) = (node for node in body if isinstance(node, ast.ClassDef) and node.name == "Draws")
    of_class = [node for node in cls.body if isinstance(node, ast.FunctionDef)]
    of_module = [node for node in body if isinstance(node, ast.FunctionDef)]
    assert {node.name for node in of_class} == DISTRIBUTIONS.keys()
    assert sorted(node.name for node in of_module) == sorted([*DISTRIBUTIONS, *DISTRIBUTIONS])
    for node in [*of_class, *of_module]:
        parameters = inspect.signature(DISTRIBUTIONS[node.name]).parameters.values()
        assert declared_parameters(node) == [
            (p.name, "" if p.default is p.empty else repr(p.default))
            for p in parameters
            if p.name not in BY_NAME
        ]


def test_editors_complete_public_names_alone() -> None:
    for module in MODULES[:6]:
        shown = {name for name in dir(module) if not name.startswith("__")}
        assert not shown & {"TYPE_CHECKING", "np", "Any", "lazy", "annotations"}
        assert {*module.__all__} <= shown
    assert isinstance(gt.fft, ModuleType)
    assert {"fft", "linalg", "random", "special", "newaxis"} <= {*dir(gt)}
