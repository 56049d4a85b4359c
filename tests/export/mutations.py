"""Texts and files with mistakes in them, such as a damaged disk or an attacker makes."""

from __future__ import annotations

import re
from random import Random

__all__ = ["mutated"]

PIECES = (
    *("%0", "%x", "#0", "@main", "@loop0", *"()[]{},:=?", "None", "True", "-1", "1e308", "nan"),
    *("99999999999999999999999", "float64", "int8", "bool[3]", '"a"', '"', "Sum", "Loop", "exp"),
    *("axes=(0,)", "Range(0, 1, 2)", "graph", "return", "update", "shared", "leaf", "constant"),
    *("generator", "parameter", "sharding=", "CSR(data=array)", "complex128((1.0, 2.0))", "// "),
    *("\x00", "\ud800", "é", "(" * 200, "[" * 200, '"\\ud800"', "ValueError", "unnamed", "at"),
)
WORD = re.compile(r"[\w.%#@-]+")


def mutated(text: str, random: Random) -> str:
    """A text after a few random edits: of characters, of words and of lines."""
    for _ in range(random.choice((1, 1, 2, 5))):
        text = random.choice((_cut, _inserted, _retyped, _exchanged, _copied, _lines))(text, random)
    return text


def _cut(text: str, random: Random) -> str:
    at = random.randrange(len(text) + 1)
    return text[:at] + text[at + random.randrange(1, 6) :]


def _inserted(text: str, random: Random) -> str:
    at = random.randrange(len(text) + 1)
    return text[:at] + random.choice(PIECES) + text[at:]


def _retyped(text: str, random: Random) -> str:
    at = random.randrange(len(text) + 1)
    return text[:at] + chr(random.randrange(32, 127)) + text[at + 1 :]


def _exchanged(text: str, random: Random) -> str:
    start, end = _word(text, random)
    return text[:start] + random.choice(PIECES) + text[end:]


def _copied(text: str, random: Random) -> str:
    start, end = _word(text, random)
    first, last = _word(text, random)
    return text[:start] + text[first:last] + text[end:]


def _lines(text: str, random: Random) -> str:
    lines = text.split("\n")
    at = random.randrange(len(lines))
    if random.random() < 0.5:
        del lines[at]
    else:
        lines.insert(random.randrange(len(lines)), lines[at])
    return "\n".join(lines)


def _word(text: str, random: Random) -> tuple[int, int]:
    return random.choice([found.span() for found in WORD.finditer(text)] or [(0, 0)])
