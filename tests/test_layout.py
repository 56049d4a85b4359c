"""The promise of the layout: a subject has one name in every folder, and a library one folder."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import graphc

ROOT = Path(graphc.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
LOWER = ("tensor", "grad", "loop", "random", "implicit", "attention")
SUBJECTS = {path.name for folder in LOWER for path in (ROOT / folder).glob("*.py")}
SUBJECTS |= {"implicit.py", *(f"{path.name}.py" for path in (ROOT / "implicit").glob("*/"))}
BACKENDS = sorted(path.parent for path in (ROOT / "link").glob("*/backend.py"))
COMMON = {
    *("__init__.py", "backend.py", "arrays.py", "gaps.py", "compiler.py", "probes.py"),
    "pure.py",
    # Lengths that it does not know, what is on the host, what is compiled between that, as what.
    *("traced.py", "executables.py", "kinds.py", "specialized.py", "saved.py"),
    *("bounded.py", "bounded_index.py", "host.py", "segments.py", "kernels.py", "watch.py"),
}
"""What all subjects have in common."""
LIBRARIES = {
    "jax": ("link/jax", "interop", "implicit/jax", "attention/jax"),
    "mlx": ("link/mlx", "interop"),
}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported(path: Path) -> Iterator[str]:
    """The full names of what a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("folder", [ROOT / "rewrite" / "rules", *BACKENDS], ids=relative)
def test_a_file_of_rules_or_lowerings_is_named_after_its_subject(folder: Path) -> None:
    found = {path.name for path in folder.glob("*.py")}
    assert found <= {*SUBJECTS, *COMMON}


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_a_library_is_imported_in_its_own_folder(path: Path) -> None:
    for library, folders in LIBRARIES.items():
        if not relative(path).startswith(folders):
            assert library not in {name.split(".")[0] for name in imported(path)}


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_only_public_names_of_libraries_are_used(path: Path) -> None:
    assert "jax._src" not in path.read_text(encoding="utf-8")
    assert not [name for name in imported(path) if name.startswith(("jax._", "jaxlib", "mlx._"))]
    assert not re.search(r"\bmx\._[a-z]", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_every_file_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("folder", BACKENDS, ids=relative)
def test_a_backend_is_named_after_its_folder(folder: Path) -> None:
    name = folder.name.upper()
    assert name in graphc.link.names()
    assert graphc.link.load(name).name == name


FRESH = """
import sys, time
import numpy
before = time.process_time()
import graphc, graphc.tensor
print(time.process_time() - before)
print([name for name in ("jax", "mlx", "scipy.stats", "matplotlib") if name in sys.modules])
"""


def test_import_takes_no_backend_and_little_time(tmp_path: Path) -> None:
    # As where graphc is installed: the first run compiles its files, the others find them so.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(tmp_path)
    command = [sys.executable, "-c", FRESH]
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        for _ in range(4)
    ]
    seconds, modules = zip(*(run.stdout.splitlines() for run in runs), strict=True)
    assert set(modules) == {"[]"}
    # Of the processor, and so also on a machine that runs other tests meanwhile.
    assert min(map(float, seconds)) < 0.3


def test_compiling_for_numpy_takes_no_other_library() -> None:
    script = (
        "import sys, graphc, graphc.tensor as gt\n"
        "x = gt.vector('x')\n"
        "graphc.function([x], graphc.grad((x**2).sum(), x), mode='NUMPY')([1.0])\n"
        "sys.exit('jax' in sys.modules or 'mlx' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
