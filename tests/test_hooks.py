"""Functions that a layer calls and a higher layer provides."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import graphc
from graphc import hooks
from graphc.hooks import Hook

ROOT = Path(graphc.__file__).parent
PLUGINS = {
    *("rewrite/rules/__init__.py", "rewrite/rules/elementwise/__init__.py"),
    *("export/onnx/lowering.py", "export/names.py"),
    *("link/backend.py", "link/profile.py", "link/probe.py"),
}
"""Files that import every file of a folder, or a backend by its name."""
OTHERS = {"interop/pymc/settings.py", "interop/wrap_py.py", "link/jax/wrap/captured.py"}
"""Files that import a module of another library, or of the user, by its name."""


def test_every_hook_is_provided_by_a_higher_layer() -> None:
    declared = [hook for hook in vars(hooks).values() if isinstance(hook, Hook)]
    assert declared
    assert [hook._subject for hook in declared if hook._function is None] == []


def test_a_hook_calls_the_function_that_was_provided() -> None:
    hook: Hook[[int], str] = Hook("text")
    with pytest.raises(TypeError, match="The hook for text has no function"):
        hook(3)

    @hook.provide
    def shown(x: int) -> str:
        return f"<{x}>"

    assert hook(3) == shown(3) == "<3>"
    with pytest.raises(TypeError, match="The hook for text has"):
        hook.provide(shown)


def test_only_folders_of_plugins_are_imported_by_strings() -> None:
    def imports_by_string(path: Path) -> bool:
        calls = [n.func for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        names = {x.attr if isinstance(x, ast.Attribute) else getattr(x, "id", "") for x in calls}
        return bool(names & {"import_module", "__import__"})

    files = {x.relative_to(ROOT).as_posix() for x in ROOT.rglob("*.py") if imports_by_string(x)}
    assert files <= PLUGINS | OTHERS | {"lazy.py"}
