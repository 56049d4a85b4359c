"""The promise of the layout: a subject has one name in every folder, and a library one folder."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import graphc
import graphc.random as gr
import graphc.tensor as gt

ROOT = Path(graphc.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
LOWER = ("tensor", "grad", "loop", "random", "implicit", "attention")
SUBJECTS = {path.name for folder in LOWER for path in (ROOT / folder).glob("*.py")}
SUBJECTS |= {path.name for path in (ROOT / "tensor").rglob("*.py")}
SUBJECTS |= {f"{path.name}.py" for path in (ROOT / "implicit").glob("*/")}
BACKENDS = sorted(path.parent for path in (ROOT / "link").glob("*/backend.py"))
COMMON = {
    *("__init__.py", "backend.py", "arrays.py", "gaps.py", "compiler.py", "probes.py"),
    "devices.py",
    *("pure.py", "applied.py", "profile.py", "fusions.py", "mesh.py", "mesh_calls.py"),
    *("distributed.py", "hlo.py", "collectives.py", "portable.py"),
    # Lengths that it does not know, what is on the host, what is compiled between that, as what.
    *("traced.py", "executables.py", "call_key.py", "specialized.py", "serialized.py", "jaxprs.py"),
    # Programs that jax.export writes, whose lengths are symbols, and those that MLX saves.
    *("exported.py", "symbolic.py", "lengths.py", "plans.py", "saved.py"),
    # Functions that users wrote for JAX, in all of its releases.
    *("unknown_lengths.py", "releases.py", "primitives.py"),
    # Over a mesh of devices: what arrays vary over, explicit axes, and what XLA divides.
    *("varying.py", "explicit.py", "partitions.py"),
    *("buckets.py", "host.py", "segments.py"),
    *("watch.py", "written.py"),
    "tiers.py",
}
"""What all subjects have in common, in a backend's folder above its lowerings."""
PACKAGES = ("tensor/linalg/__init__.py", "tensor/signal/__init__.py", "tensor/special/__init__.py")
EXPORTING = ("tensor/__init__.py", "tensor/fft.py", *PACKAGES)
"""Modules of the folder that users import names from."""
MAX_WITHOUT_TEST = 398
"""The source files that have no test file of their name at the mirrored path; it only goes down."""
LIBRARIES: dict[str, tuple[str, ...]] = {
    "gguf": ("interop/weights",),
    "jax": ("link/jax", "export/runtime.py", "interop/pymc/chains.py"),
    "onnx": ("export/onnx",),
    "mlx": ("link/mlx", "export/runtime.py"),
    "pymc": ("interop/pymc",),
    "pytensor": ("interop/pytensor",),
}
"""The libraries, and where they are imported."""


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(text(path))


@cache
def imported(path: Path) -> frozenset[str]:
    """The full names of what a file imports."""
    names = set[str]()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)


def where(holds: Callable[[Path], object], paths: Iterable[Path] = FILES) -> list[str]:
    """The files of which something holds."""
    return [relative(path) for path in paths if holds(path)]


def test_a_file_of_rules_is_named_after_its_subject() -> None:
    assert {path.name for path in (ROOT / "rewrite" / "rules").glob("*.py")} <= SUBJECTS


@pytest.mark.parametrize("folder", BACKENDS, ids=relative)
def test_a_file_of_lowerings_is_named_after_its_subject(folder: Path) -> None:
    assert {path.name for path in folder.glob("*.py")} <= COMMON
    lower = folder / "lower"
    assert {path.name for path in lower.glob("*.py")} <= SUBJECTS
    inside = {path.relative_to(lower) for path in lower.glob("*/*.py")}
    assert not {path for path in inside if not (ROOT / "tensor" / path).exists()}


def test_the_tests_of_a_subject_are_in_a_folder_of_the_same_name() -> None:
    tests = [*Path(__file__).with_name("tensor").rglob("test_*.py")]

    def is_elsewhere(path: Path) -> bool:
        found = {test.parent.name for test in tests if test.name == f"test_{path.name}"}
        return not found <= {path.parent.name}

    assert where(is_elsewhere, (ROOT / "tensor").glob("*/*.py")) == []


def test_source_files_have_their_test_file_at_the_mirrored_path() -> None:
    tests = Path(__file__).parent

    def has_none(path: Path) -> bool:
        return not (tests / path.relative_to(ROOT)).with_name(f"test_{path.name}").exists()

    sources = [path for path in FILES if path.stem not in ("__init__", "__main__")]
    without = where(has_none, sources)
    assert len(without) <= MAX_WITHOUT_TEST, without


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_is_imported_in_its_own_folder(library: str) -> None:
    others = [path for path in FILES if not relative(path).startswith(LIBRARIES[library])]
    assert where(lambda x: library in {name.split(".")[0] for name in imported(x)}, others) == []


def test_only_public_names_of_libraries_are_used() -> None:
    private = ("jax._", "jaxlib", "mlx._")
    assert where(lambda x: [name for name in imported(x) if name.startswith(private)]) == []
    assert where(lambda x: "jax._src" in text(x) or re.search(r"\bmx\._[a-z]", text(x))) == []


def test_every_file_says_what_it_is() -> None:
    assert where(lambda x: ast.get_docstring(tree(x)) is None) == []


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
        assert {*getattr(module, "__all__", ())} <= {*gt.__all__, "Axis", "TensorLike"}
        return
    own = functions(module)
    if relative(path) in PACKAGES:
        own |= functions(import_module(f"{module.__name__}.{path.parent.name}"))
    assert own <= {*module.__all__}
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


NAMED = {relative(path) for path in (ROOT / "xtensor").glob("*.py")}
"""PyTensor's scripts import from each file of this folder by its path."""
OTHERS = {"config.py", "errors.py", "compile/events.py", *EXPORTING, *NAMED}
INNER = [path for path in FILES if path.stem != "__init__" and relative(path) not in OTHERS]


def test_a_file_that_users_do_not_import_from_lists_names_only_to_pass_them_on() -> None:
    def lists_its_own(path: Path) -> bool:
        listed = re.search(r"^__all__\b.*?\[(.*?)\]$", text(path), re.DOTALL | re.MULTILINE)
        names = {name.rsplit(".", 1)[-1] for name in imported(path)} | {*gt.__all__, *gr.__all__}
        return listed is not None and names.isdisjoint(re.findall(r"\w+", listed[1]))

    assert where(lists_its_own, INNER) == []


@pytest.mark.parametrize("folder", BACKENDS, ids=relative)
def test_a_backend_is_named_after_its_folder(folder: Path) -> None:
    name = folder.name.upper()
    assert name in graphc.link.names()
    assert graphc.link.load(name).name == name
