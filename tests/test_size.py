"""The size of graphc only goes down, unless a commit says why."""

from __future__ import annotations

from pathlib import Path

import graphc

MAX_LINES, MAX_FILES = 139_558, 690


def test_graphc_grows_no_more() -> None:
    files = [*Path(graphc.__file__).parent.rglob("*.py")]
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    assert lines <= MAX_LINES
    assert len(files) <= MAX_FILES
