"""Graphs for every rule that is a function of a node: the files in ``examples/``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from graphc.ir import Node
from tests.rewrite.arrays import VALUES, Example

EXAMPLES: dict[str, list[Example]] = {}
LEFT_ALONE: dict[str, list[Node]] = {}

for _file in sorted(Path(__file__).with_name("examples").glob("*.py")):
    _module = import_module(f"tests.rewrite.examples.{_file.stem}")
    EXAMPLES |= _module.EXAMPLES
    LEFT_ALONE |= _module.LEFT_ALONE
    VALUES |= getattr(_module, "VALUES", {})
