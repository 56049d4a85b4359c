"""Every page of Markdown wraps its prose at 100 columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("docs", "graphc", "examples", "benchmarks")
PAGES = sorted([*ROOT.glob("*.md"), *(p for name in FOLDERS for p in (ROOT / name).rglob("*.md"))])

UNBROKEN = re.compile(r"\||!\[|\S+$")
"""How a line begins that may be longer: a row of a table, an image, one long word."""


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines outside of fenced code."""
    fenced = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_prose_wraps_at_100_columns(page: Path) -> None:
    long = [n for n, line in prose(page) if len(line) > 100 and not UNBROKEN.match(line.strip())]
    assert not long, f"lines {long}"
