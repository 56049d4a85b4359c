"""Every public name of PyTensor's is here with its defaults, or has a row in ``migrating.md``."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

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
