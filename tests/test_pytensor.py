"""Every public name of PyTensor's is here with its defaults, or has a row in ``migrating.md``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import GraphcError
from graphc.tensor.arrays.create import CONSTRUCTORS

ROOT = Path(__file__).parents[1]
MIGRATING = (ROOT / "docs" / "migrating.md").read_text(encoding="utf-8")
LINES = (ROOT / "tests" / "data" / "pytensor.tsv").read_text(encoding="utf-8").splitlines()
TABLE = dict(line.split("\t") for line in LINES if not line.startswith("#"))
NAMED = {
    name for code in re.findall(r"`([^`]+)`", MIGRATING) for name in re.findall(r"[\w.]+", code)
}


def found(name: str) -> Any:
    """What has PyTensor's name in graphc; None where nothing has."""
    path, _, last = name.replace("pytensor", "graphc", 1).rpartition(".")
    try:
        return getattr(import_module(path), last, None)
    except ModuleNotFoundError:
        return None


@pytest.mark.parametrize("name", TABLE)
def test_a_name_of_pytensor_is_here_or_has_a_row(name: str) -> None:
    short = re.sub(r"^pytensor\.(tensor\.)?", "", name)
    assert found(name) is not None or short in NAMED


FUNCTIONS = {
    name: arguments
    for name, arguments in TABLE.items()
    if arguments != "row" and callable(found(name)) and name.split(".")[-1] not in CONSTRUCTORS
}
DIFFERENT = {
    ("pytensor.In", "value"),  # a marker stands for nothing
    ("pytensor.map", "return_updates"),
    *((f"pytensor.{name}", "return_updates") for name in ("scan", "scan.foldl", "scan.foldr")),
    ("pytensor.scan.reduce", "return_updates"),
    ("pytensor.tensor.jacobian", "vectorize"),
    ("pytensor.tensor.take_along_axis", "axis"),
}
"""Defaults that differ, each with a row of its own."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_argument_of_pytensor_has_its_default_or_a_row(name: str) -> None:
    parameters = inspect.signature(found(name)).parameters
    for argument, default in re.findall(r"(\w+)=([^,()]+)", FUNCTIONS[name]):
        if argument in parameters:
            same = repr(parameters[argument].default) == default.strip()
            assert same or (name, argument) in DIFFERENT, argument
        else:
            assert f"{argument}=" in MIGRATING, argument


# What scripts import by the paths of modules.

IMPORTED = {
    "compile": "Function In MissingInputError Mode Out SharedVariable UnusedInputError as_op "
    "function get_default_mode get_mode shared wrap_py",
    "compile.builders": "OpFromGraph",
    "compile.function": "function",
    "compile.io": "In Out",
    "compile.mode": "Mode get_default_mode get_mode predefined_modes",
    "compile.ops": "as_op wrap_py",
    "compile.sharedvalue": "SharedVariable shared",
    "configdefaults": "config",
    "gradient": "DisconnectedInputError Lop Rop disconnected_grad grad grad_clip grad_scale "
    "hessian jacobian pullback pushforward verify_grad zero_grad",
    "graph": "Op Variable ancestors clone_replace graph_inputs graph_replace vectorize_graph",
    "graph.basic": "Apply Constant Variable ancestors graph_inputs",
    "graph.replace": "clone_replace graph_replace vectorize_graph",
    "graph.traversal": "ancestors explicit_graph_inputs graph_inputs",
    "ifelse": "ifelse",
    "printing": "Print debugprint dprint pp pprint",
    "raise_op": "Assert CheckAndRaise",
    "scan": "foldl foldr map reduce scan until",
    "scan.basic": "scan",
    "scan.utils": "until",
    "tensor.basic": "alloc arange as_tensor as_tensor_variable constant eye join stack switch "
    "where zeros_like",
    "tensor.blas": "batched_dot",
    "tensor.einsum": "einsum",
    "tensor.extra_ops": "bincount cumsum diff repeat searchsorted squeeze unique",
    "tensor.fft": "irfft rfft",
    "tensor.functional": "vectorize",
    "tensor.interpolate": "interp interpolate1d",
    "tensor.math": "abs dot exp log logsumexp matmul max maximum mean sigmoid sum tanh",
    "tensor.nlinalg": "det diag eigh inv matrix_dot matrix_inverse norm pinv slogdet svd trace",
    "tensor.optimize": "minimize minimize_scalar root root_scalar",
    "tensor.pad": "pad",
    "tensor.random": "RandomStream default_rng normal rng shared_rng uniform",
    "tensor.random.basic": "categorical dirichlet multivariate_normal normal",
    "tensor.random.type": "random_generator_type",
    "tensor.random.utils": "RandomStream",
    "tensor.reshape": "join_dims pack split_dims unpack",
    "tensor.shape": "reshape shape shape_padleft specify_shape",
    "tensor.signal.conv": "convolve1d convolve2d",
    "tensor.slinalg": "block_diag cho_solve cholesky expm kron lu solve solve_discrete_are "
    "solve_discrete_lyapunov solve_sylvester solve_triangular",
    "tensor.sort": "argsort sort",
    "tensor.special": "beta betaln factorial log_softmax poch softmax",
    "tensor.subtensor": "inc_subtensor set_subtensor take",
    "tensor.type": "TensorType discrete_dtypes dmatrix float_dtypes integer_dtypes lscalar matrix "
    "scalar tensor vector",
    "tensor.variable": "TensorConstant TensorVariable",
    "tensor.xlogx": "xlogx xlogy0",
    "xtensor": "as_xtensor broadcast concat dot full_like linalg math ones_like random signal "
    "where xtensor xtensor_constant zeros_like",
    "xtensor.linalg": "cholesky solve",
    "xtensor.math": "add dot exp gt lt maximum sqrt where",
    "xtensor.random": "normal rng shared_rng",
    "xtensor.random.basic": "as_xrv categorical normal",
    "xtensor.random.type": "as_rng",
    "xtensor.random.variable": "rng shared_rng",
    "xtensor.reduction": "cumsum mean std sum",
    "xtensor.shape": "broadcast concat stack transpose unstack",
    "xtensor.type": "XTensorType XTensorVariable as_xtensor xtensor xtensor_shared",
    "xtensor.vectorization": "vectorize_graph",
}


@pytest.mark.parametrize("path", IMPORTED)
def test_what_scripts_import_by_a_path_is_there_or_has_a_row(path: str) -> None:
    missing = [n for n in IMPORTED[path].split() if found(f"pytensor.{path}.{n}") is None]
    assert not [name for name in missing if f"{path.removeprefix('tensor.')}.{name}" not in NAMED]


# The nine differences that open the page.


class Old:
    """What a script of PyTensor's does, in graphc."""

    def __init__(self) -> None:
        self.x, self.i = gt.dvector("x"), gt.bvector("i")
        self.f = graphc.function([self.x], self.x * 2)


BITES: dict[str, tuple[Callable[[Old], Any], str]] = {
    "a mode": (lambda s: graphc.function([s.x], s.x, mode="FAST_RUN"), "names no backend"),
    "an attribute": (lambda s: setattr(s.x, "tag", 1), "never changes"),
    "a mask": (lambda s: graphc.function([s.x], s.x[s.x > 0])([1.0]), "is not known"),
    "an operation": (lambda s: type("Old", (graphc.Op,), {"make_node": id}), "make_node"),
    "a Python number": (lambda s: s.i + 300, "does not fit int8"),
    "a flag": (lambda s: setattr(graphc.config, "optimizer", "fast_run"), "No setting"),
    "a test value": (lambda s: s.x.tag, "no test values"),
    "the compiler": (lambda s: s.f.maker, "maker"),
}


@pytest.mark.parametrize("what", BITES)
def test_what_bites_first_is_an_error(what: str) -> None:
    attempt, message = BITES[what]
    with pytest.raises((GraphcError, AttributeError, TypeError), match=message):
        attempt(Old())


def test_the_remedies_of_what_bites_first_work() -> None:
    x = gt.dvector("x")
    assert isinstance(graphc.scan(lambda t: t * 2, [x]), gt.Tensor)
    out, updates = graphc.scan(lambda t: t * 2, [x], return_updates=True)
    assert (out.type, updates) == (x.type, {})
    assert (gt.constant(1).dtype, (gt.bvector().astype("int16") + 300).dtype) == ("int64", "int16")


def test_streams_are_as_the_page_says() -> None:
    f = graphc.function([], gt.random.RandomStream(1).normal())
    is_told = "`RandomStream` is the same in each call" in MIGRATING.partition("## Imports")[0]
    assert is_told == (f() == f())
