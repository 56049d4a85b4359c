"""The reference: each public name has an entry, and each entry says what its reader needs."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import graphc.tensor as gt
from graphc.ir.types import TensorType
from graphc.random.generator import DISTRIBUTIONS
from graphc.tensor.arrays.create import CONSTRUCTORS, PLURALS
from graphc.tensor.core.elementwise import Elementwise

PAGES = Path(__file__).parents[1] / "docs" / "api"
MODULES = {
    "graphc": "graphc",
    "graphc.tensor": "gt",
    "graphc.tensor.linalg": "gt.linalg",
    "graphc.tensor.signal": "gt.signal",
    "graphc.tensor.fft": "gt.fft",
    "graphc.random": "gt.random",
    "graphc.grad": "graphc.grad",
    "graphc.optimize": "gt.optimize",
    "graphc.attention": "graphc.attention",
    "graphc.implicit": "graphc.implicit",
    "graphc.capture": "graphc.capture",
}
"""The modules that have a page, and what users call them."""

LETTERED = {*CONSTRUCTORS, *PLURALS} - {"scalar", "vector", "matrix", "row", "col"}
LETTERED -= {f"tensor{n}" for n in range(3, 8)} | {f"tensor{n}s" for n in range(3, 8)}
LETTERED -= {"scalars", "vectors", "matrices", "rows", "cols"}
"""The constructors by dtype, which one page explains together."""

INTERNAL = {"needs_elements"}  # lowerings call it, users do not


def _functions() -> dict[str, Any]:
    found: dict[int, tuple[str, Any]] = {}
    for path, short in MODULES.items():
        module = import_module(path)
        for name in module.__all__:
            value = getattr(module, name)
            plain = callable(value) and not isinstance(value, type | Elementwise | TensorType)
            if plain and name not in LETTERED | INTERNAL:
                found.setdefault(id(value), (f"{short}.{name}", value))
    return dict(found.values())


FUNCTIONS = _functions()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_entry_says_what_is_returned_and_shows_an_example(name: str) -> None:
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    summary = text.partition("\n\n")[0]
    assert len(summary.split()) > 3, "a name in other words"
    gives = inspect.signature(FUNCTIONS[name]).return_annotation not in {None, "None"}
    told = re.search(r"^Returns:$", text, re.MULTILINE) or not summary.startswith("Make")
    assert not gives or told
    assert ">>> " in text


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_entry_names_the_errors_that_its_function_raises(name: str) -> None:
    function = inspect.unwrap(FUNCTIONS[name])
    if not inspect.isfunction(function):
        return
    raised = set(re.findall(r"raise (\w+Error)\(", inspect.getsource(function)))
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    elsewhere = re.search(r"(arguments|errors)[\w ,]* (as|are) ", text)
    missing = [error for error in raised if error not in text]
    assert elsewhere or not missing


def _listed(page: Path) -> list[str]:
    blocks = re.findall(
        r"^\.\. (?:functions|draws)::\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    return re.sub(r":of: \S+", "", " ".join(blocks)).split()


def test_each_function_of_arrays_is_on_one_page() -> None:
    pages = sorted((PAGES / "tensor").glob("*.md"))
    listed = [name for page in pages for name in _listed(page)]
    assert len(listed) == len({*listed})
    other = {"fft", "linalg", "random", "signal", "special", "optimize", "implicit"}
    aliases = {
        name
        for name in gt.__all__
        if name not in listed and _is_another_name_in(gt, name, {*listed})
    }
    assert {*gt.__all__} - {*listed} - LETTERED - aliases - other == set()
    assert {f"tensor/{page.stem}" for page in pages} <= {
        *(PAGES / "tensor.md").read_text("utf-8").split()
    }


def test_each_distribution_is_on_the_page() -> None:
    assert sorted(_listed(PAGES / "random.md")) == sorted(DISTRIBUTIONS)


@pytest.mark.parametrize("name", ["linalg", "fft", "signal"])
def test_each_function_of_a_module_is_on_its_page_or_on_one_of_arrays(name: str) -> None:
    module = getattr(gt, name)
    text = (PAGES / f"{name}.md").read_text("utf-8").split()
    public = {x for x in module.__all__ if inspect.isroutine(getattr(module, x))} - INTERNAL
    assert not [x for x in public - {*text} if not _is_another_name_in(module, x, {*text})]


def _is_another_name_in(module: Any, name: str, listed: set[str]) -> bool:
    value = getattr(module, name)
    return any(getattr(module, other) is value for other in listed & {*module.__all__})
