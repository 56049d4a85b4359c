"""All rows: importing the files of ``rows/`` fills the table."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from pathlib import Path

from tests.fuzz.row import TABLE as TABLE

FILES = sorted(file.name for file in pkgutil.iter_modules([str(Path(__file__).parent / "rows")]))

for _file in FILES:
    import_module(f"tests.fuzz.rows.{_file}")
