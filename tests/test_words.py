"""Names and docstrings of graphc are in the words of the field and in plain sentences."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import graphc

ROOT = Path(graphc.__file__).parent

PUBLIC_TWICE = {"Drawing", "Sum"}
"""Structures of matrices that users know by these names, and operations with the same names."""

PARTICIPLE = re.compile(r"_?[a-z]{2,}ed|_?(made|found|given|known|taken|kept|held|told|said)")
FIELD_WORDS = {
    *("sorted", "reversed", "masked", "shared", "embed", "seed", "feed", "need", "tied", "shed"),
    *("expanded", "searchsorted", "nested", "fixed", "cached", "batched"),
}
"""Participles of NumPy, SciPy, JAX and Python, and verbs that end like one."""

MAX_PARTICIPLES = 11
"""The functions that are still named by a participle; most are methods of ``Structured``."""

OPENERS = ("That ", "Those ", "It ", "They ", "What ", "Of ", "So ", "Such ", "Whose ", "These ")
FILLERS = re.compile(
    r"\b(of\s+its\s+own|so\s+many|(that|those)\s+of\s+the|in\s+each\s+other|is\s+told)\b"
)
WORDS = re.compile(r"\b(divided\s+over|laid\s+out|taken\s+apart|put\s+together|dear)\b")


@cache
def trees() -> dict[str, ast.Module]:
    paths = sorted(ROOT.rglob("*.py"))
    return {str(x.relative_to(ROOT)): ast.parse(x.read_text(encoding="utf-8")) for x in paths}


def docstrings() -> Iterator[tuple[str, str]]:
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield f"{path}:{getattr(node, 'lineno', 1)}", text


def test_a_class_name_stands_in_one_file() -> None:
    names = Counter(
        name
        for tree in trees().values()
        for name in {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    )
    assert {name for name, number in names.items() if number > 1} == PUBLIC_TWICE


def test_functions_are_named_by_verbs_and_nouns() -> None:
    named = [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and PARTICIPLE.fullmatch(node.name)
        and node.name.lstrip("_") not in FIELD_WORDS
        and not any("property" in ast.unparse(each) for each in node.decorator_list)
    ]
    assert len(named) <= MAX_PARTICIPLES, named


@pytest.mark.parametrize("pattern", [FILLERS, WORDS], ids=["fillers", "words"])
def test_docstrings_have_no_words_that_say_nothing(pattern: re.Pattern[str]) -> None:
    assert [
        (where, found[0]) for where, text in docstrings() if (found := pattern.search(text))
    ] == []


def test_docstrings_and_their_entries_begin_with_a_noun_or_a_verb() -> None:
    entry = re.compile(r"^\s+\w+: (It|They|That|Those)\b.*$", re.MULTILINE)
    assert [where for where, text in docstrings() if text.startswith(OPENERS)] == []
    assert [
        (where, found[0]) for where, text in docstrings() if (found := entry.search(text))
    ] == []
