"""Public names: all are documented, and have PyTensor's arguments or a row that says not."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import graphc
import graphc.tensor as gt
from graphc.tensor.create import CONSTRUCTORS
from graphc.tensor.elementwise import Elementwise

MIGRATING = (Path(__file__).parents[1] / "docs" / "migrating.md").read_text(encoding="utf-8")

PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (graphc, gt)
    for name in module.__all__
}
FUNCTIONS = {
    name: value
    for name, value in PUBLIC.items()
    if callable(value)
    and not isinstance(value, Elementwise)
    and name.split(".")[-1] not in CONSTRUCTORS
}

FAMILIAR = {"x", "a", "b", "xs", "axis", "keepdims", "dtype", "shape"}
"""Parameters whose meaning is NumPy's and needs no words."""


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_there_and_has_a_first_line(name: str) -> None:
    value = PUBLIC[name]
    text = value.meaning if isinstance(value, Elementwise) else inspect.getdoc(value)
    assert text
    assert isinstance(value, Elementwise) or text.split("\n\n")[0].rstrip().endswith(".")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_tells_its_arguments_or_shows_an_example(name: str) -> None:
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    told = re.search(r"^(Args|Attributes|Example|Returns):$", text, re.MULTILINE)
    elsewhere = re.search(r"arguments.* as (for|there)", text, re.DOTALL | re.IGNORECASE)
    parameters = set(inspect.signature(FUNCTIONS[name]).parameters)
    assert told or elsewhere or parameters <= FAMILIAR


def test_public_names_come_once() -> None:
    for module in (graphc, gt):
        assert len(module.__all__) == len(set(module.__all__))


def test_gradient_is_the_module_of_barriers_too() -> None:
    assert graphc.gradient.zero_grad is graphc.zero_grad
    assert graphc.gradient.__all__ == sorted(graphc.gradient.__all__)


# PyTensor's arguments, after the arrays that come first.

PYTENSOR = {
    "graphc.In": "variable name=None value update mutable strict=False allow_downcast=None "
    "autoname implicit borrow shared",
    "graphc.Lop": "f wrt eval_points consider_constant=None disconnected_inputs='raise' "
    "return_disconnected='zero'",
    "graphc.Mode": "linker optimizer db",
    "graphc.Out": "variable borrow=False",
    "graphc.Rop": "f wrt eval_points disconnected_outputs='raise' return_disconnected='zero' "
    "use_op_rop_implementation",
    "graphc.clone_replace": "output replace=None rebuild_strict",
    "graphc.function": "inputs outputs=None mode=None updates=None givens=None "
    "no_default_updates accept_inplace name=None rebuild_strict allow_input_downcast=None profile "
    "on_unused_input trust_input",
    "graphc.grad": "cost wrt consider_constant=None disconnected_inputs='raise' add_names "
    "known_grads=None return_disconnected='zero' null_gradients",
    "graphc.grad_clip": "x lower_bound upper_bound",
    "graphc.grad_scale": "x multiplier",
    "graphc.hessian": "cost wrt consider_constant=None disconnected_inputs='raise'",
    "graphc.hessian_vector_product": "cost wrt p grad_kwargs",
    "graphc.jacobian": "expression wrt consider_constant=None "
    "disconnected_inputs='raise' vectorize",
    "graphc.pullback": "f wrt cotangents consider_constant=None disconnected_inputs='raise' "
    "return_disconnected='zero'",
    "graphc.pushforward": "f wrt tangents disconnected_outputs='raise' return_disconnected='zero'",
    "graphc.shared": "value name=None strict=False allow_downcast=None",
    "graphc.verify_grad": "fun pt n_tests=2 rng=None eps=None out_type abs_tol=None rel_tol=None "
    "mode cast_to_output_type no_debug_ref",
    "graphc.tensor.all": "x axis=None keepdims=False",
    "graphc.tensor.any": "x axis=None keepdims=False",
    "graphc.tensor.arange": "start stop=None step=1 dtype=None",
    "graphc.tensor.argmax": "x axis=None keepdims=False",
    "graphc.tensor.argmin": "x axis=None keepdims=False",
    "graphc.tensor.as_tensor": "x name=None ndim=None",
    "graphc.tensor.broadcast_to": "x shape",
    "graphc.tensor.cast": "x dtype",
    "graphc.tensor.concatenate": "x axis=0",
    "graphc.tensor.constant": "x name=None ndim dtype=None",
    "graphc.tensor.dot": "x x",
    "graphc.tensor.empty": "shape dtype=None",
    "graphc.tensor.empty_like": "x dtype=None",
    "graphc.tensor.expand_dims": "x axis",
    "graphc.tensor.eye": "n m=None k=0 dtype=None",
    "graphc.tensor.flatten": "x ndim=1",
    "graphc.tensor.flip": "x axis=None",
    "graphc.tensor.full": "shape fill_value dtype=None",
    "graphc.tensor.full_like": "x fill_value dtype=None",
    "graphc.tensor.identity_like": "x dtype=None",
    "graphc.tensor.inc_subtensor": "x x inplace set_instead_of_inc tolerate_inplace_aliasing "
    "ignore_duplicates",
    "graphc.tensor.logsumexp": "x axis=None keepdims=False",
    "graphc.tensor.matmul": "x x dtype",
    "graphc.tensor.matrix": "name=None dtype=None shape=(None,_None)",
    "graphc.tensor.max": "x axis=None keepdims=False initial",
    "graphc.tensor.mean": "x axis=None dtype=None keepdims=False acc_dtype",
    "graphc.tensor.min": "x axis=None keepdims=False initial",
    "graphc.tensor.moveaxis": "x source destination",
    "graphc.tensor.nonzero": "x return_matrix",
    "graphc.tensor.norm": "x ord=None axis=None keepdims=False",
    "graphc.tensor.ones": "shape dtype=None",
    "graphc.tensor.ones_like": "x dtype=None opt",
    "graphc.tensor.outer": "x x",
    "graphc.tensor.prod": "x axis=None dtype=None keepdims=False acc_dtype no_zeros_in_input",
    "graphc.tensor.reshape": "x newshape ndim=None",
    "graphc.tensor.set_subtensor": "x x inplace tolerate_inplace_aliasing",
    "graphc.tensor.squeeze": "x axis=None",
    "graphc.tensor.stack": "x axis=0",
    "graphc.tensor.std": "x axis=None ddof=0 keepdims=False corrected",
    "graphc.tensor.sum": "x axis=None dtype=None keepdims=False acc_dtype",
    "graphc.tensor.swapaxes": "x axis1 axis2",
    "graphc.tensor.take": "x indices axis=None mode",
    "graphc.tensor.tensor": "name=None dtype=None shape=None",
    "graphc.tensor.tensordot": "x x axes",
    "graphc.tensor.transpose": "x axes=None",
    "graphc.tensor.var": "x axis=None ddof=0 keepdims=False corrected",
    "graphc.tensor.vector": "name=None dtype=None shape=(None,)",
    "graphc.tensor.zeros": "shape dtype=None",
    "graphc.tensor.zeros_like": "x dtype=None opt",
}
"""PyTensor's parameters in order; ``x`` is an array; a default is there where ours is to be it."""


@pytest.mark.parametrize("name", PYTENSOR)
def test_arguments_are_pytensors_or_the_difference_has_a_row(name: str) -> None:
    ours = inspect.signature(PUBLIC[name]).parameters
    theirs = [written.partition("=")[::2] for written in PYTENSOR[name].split()]
    names = {parameter for parameter, _ in theirs}
    arrays = [parameter for parameter, _ in theirs].count("x")
    assert arrays <= len(ours)
    for parameter, default in theirs[arrays if "x" in names else 0 :]:
        if parameter not in ours:
            assert f"`{parameter}=`" in MIGRATING
            continue
        assert not default or str(ours[parameter].default) == default.strip("'").replace("_", " ")
        places = list(ours)
        inserted = set(places[arrays : places.index(parameter)]) - names
        keyword = ours[parameter].kind is inspect.Parameter.KEYWORD_ONLY
        assert keyword or not inserted or f"`{name.rpartition('.')[2]}`" in MIGRATING


@pytest.mark.parametrize(
    "word",
    [
        "default mode",
        "`==`",
        "`x.name = ...`",
        "int64",
        "`In(update=...)`",
        "`default_update`",
        "`trust_input=`",
        "`profile=`",
        "`get_value(borrow=True)`",
        "`eval`",
        "shared variable's shape",
        "complex gradient",
        "ties",
        "`vectorize=`",
        "returns",
        "x[mask]",
        "strict",
    ],
)
def test_each_known_difference_has_a_row(word: str) -> None:
    rows = [line for line in MIGRATING.splitlines() if line.startswith("| ")]
    assert [row for row in rows if word in row]


def test_every_row_of_differences_is_complete() -> None:
    differences = MIGRATING.partition("## Differences")[2]
    for row in (line for line in differences.splitlines() if line.startswith("| ")):
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert len(cells) == 4
        assert all(cells)
