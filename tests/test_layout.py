"""The promise of the layout: a subject has one name in every folder, and a library one folder."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import graphc

ROOT = Path(graphc.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
LOWER = ("tensor", "grad", "loop", "random", "implicit", "attention")
SUBJECTS = {path.name for folder in LOWER for path in (ROOT / folder).glob("*.py")}
SUBJECTS |= {path.name for path in (ROOT / "tensor").rglob("*.py")}
SUBJECTS |= {f"{path.name}.py" for path in (ROOT / "implicit").glob("*/")}
BACKENDS = sorted(path.parent for path in (ROOT / "link").glob("*/backend.py"))
COMMON = {
    *("__init__.py", "backend.py", "arrays.py", "gaps.py", "compiler.py", "probes.py"),
    *("pure.py", "profile.py", "fusions.py"),
    # Lengths that it does not know, what is on the host, what is compiled between that, as what.
    *("traced.py", "executables.py", "call_key.py", "specialized.py", "serialized.py", "jaxprs.py"),
    *("bounded.py", "host.py", "segments.py", "kernels.py", "watch.py"),
}
"""What all subjects have in common, in a backend's folder above its lowerings."""
BOUNDED = Path("arrays/bounded_index.py")
"""Indexing of arrays of whose lengths JAX knows bounds alone; it has no operation of its own."""
PACKAGES = ("tensor/linalg/__init__.py", "tensor/signal/__init__.py", "tensor/special/__init__.py")
EXPORTING = ("tensor/__init__.py", "tensor/fft.py", *PACKAGES)
"""Modules of the folder that users import names from."""
LIBRARIES = {"jax": "link/jax", "mlx": "link/mlx", "pytensor": "interop/pytensor"}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported(path: Path) -> Iterator[str]:
    """The full names of what a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_a_file_of_rules_is_named_after_its_subject() -> None:
    assert {path.name for path in (ROOT / "rewrite" / "rules").glob("*.py")} <= SUBJECTS


@pytest.mark.parametrize("folder", BACKENDS, ids=relative)
def test_a_file_of_lowerings_is_named_after_its_subject(folder: Path) -> None:
    assert {path.name for path in folder.glob("*.py")} <= COMMON
    lower = folder / "lower"
    assert {path.name for path in lower.glob("*.py")} <= SUBJECTS
    inside = {path.relative_to(lower) for path in lower.glob("*/*.py")}
    assert {path for path in inside if not (ROOT / "tensor" / path).exists()} <= {BOUNDED}


@pytest.mark.parametrize("path", sorted((ROOT / "tensor").glob("*/*.py")), ids=relative)
def test_the_tests_of_a_subject_are_in_a_folder_of_the_same_name(path: Path) -> None:
    found = Path(__file__).with_name("tensor").rglob(f"test_{path.name}")
    assert {test.parent.name for test in found} <= {path.parent.name}


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_a_library_is_imported_in_its_own_folder(path: Path) -> None:
    for library, folder in LIBRARIES.items():
        if not relative(path).startswith(folder):
            assert library not in {name.split(".")[0] for name in imported(path)}


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_only_public_names_of_libraries_are_used(path: Path) -> None:
    assert "jax._src" not in path.read_text(encoding="utf-8")
    assert not [name for name in imported(path) if name.startswith(("jax._", "jaxlib", "mlx._"))]
    assert not re.search(r"\bmx\._[a-z]", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_every_file_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def functions(module: ModuleType) -> set[str]:
    """The names of the public functions that a module defines."""
    found = {name for name, value in vars(module).items() if inspect.isfunction(value)}
    own = {name for name in found if getattr(module, name).__module__ == module.__name__}
    return {name for name in own if not name.startswith("_")}


@pytest.mark.parametrize("path", sorted((ROOT / "tensor").rglob("*.py")), ids=relative)
def test_all_is_where_users_import_and_complete_there(path: Path) -> None:
    dotted = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
    module = import_module(dotted.removesuffix(".__init__"))
    if relative(path) not in EXPORTING:
        assert not hasattr(module, "__all__")
        return
    own = functions(module)
    if relative(path) in PACKAGES:
        own |= functions(import_module(f"{module.__name__}.{path.parent.name}"))
    assert own <= {*module.__all__}
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


OTHERS = {"config.py", "errors.py", "compile/events.py", *EXPORTING}
INNER = [path for path in FILES if path.stem != "__init__" and relative(path) not in OTHERS]


@pytest.mark.parametrize("path", INNER, ids=relative)
def test_a_file_that_users_do_not_import_from_lists_names_only_to_pass_them_on(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    listed = re.search(r"^__all__\b.*?\[(.*?)\]$", text, re.DOTALL | re.MULTILINE)
    names = {name.rsplit(".", 1)[-1] for name in imported(path)}
    assert listed is None or names & set(re.findall(r"\w+", listed[1]))


@pytest.mark.parametrize("folder", BACKENDS, ids=relative)
def test_a_backend_is_named_after_its_folder(folder: Path) -> None:
    name = folder.name.upper()
    assert name in graphc.link.names()
    assert graphc.link.load(name).name == name
