"""Every case of a loop: the table that the files in ``loop_cases/`` fill."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.contract.loop_case import CASES

__all__ = ["CASES"]

for _file in sorted(Path(__file__).with_name("loop_cases").glob("*.py")):
    import_module(f"tests.contract.loop_cases.{_file.stem}")
