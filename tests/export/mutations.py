"""Texts and files with mistakes in them, such as a damaged disk or an attacker makes."""

from __future__ import annotations

import io
import json
import re
import zipfile
from hashlib import sha256
from random import Random
from typing import Any

__all__ = ["mutated", "mutated_file"]

PIECES = (
    *("0", '"x"', '"main"', '"loop0"', *"[]{},:?", "null", "true", "-1", "1e308", "NaN"),
    *("99999999999999999999999", "float64", "int8", "bool[3]", '"a"', '"', "Sum", "Loop", "exp"),
    *('"axes": [0]', '{"Range": [0, 1, 2]}', "graph", "return", '"updates": {"w": 0}, ', "shared"),
    *("leaf", "constant", '"kind": "GeneratorInput", ', '"position": 0, ', '"sharding": [], '),
    *('"dims": ["n"], ', '"buckets": [2], ', '{"CSR": {"data": "array"}}', '{"Hole": []}', "[]"),
    *(
        '{"complex128": [1.0, 2.0]}',
        '{"float32": 0.5}',
        '{"int8": "ff", "shape": [1]}',
        "NamedInput",
    ),
    *(
        "\x00",
        "\ud800",
        "é",
        "(" * 200,
        "[" * 200,
        '"\\ud800"',
        '{"exception": "ValueError"}',
        '"name": null, ',
        '"at": ',
    ),
)
WORD = re.compile(r"[\w.-]+")


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


VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**64, 10**30, 1e308, float("nan"), "", "x", "w", "float64", "F64"),
    *([], {}, [[[]]], ["w"], {"a": 0}, [2**63], [-1, 3]),
)


def mutated_file(data: bytes, random: Random) -> bytes:
    """A file of a function with other bytes, or with other contents and right checksums."""
    way = random.randrange(4)
    if way == 0:
        changed = bytearray(data)
        for _ in range(random.choice((1, 1, 3, 10))):
            changed[random.randrange(len(data))] = random.randrange(256)
        return bytes(changed)
    if way == 1:
        at = random.randrange(len(data))
        return data[:at] + data[at + random.choice((1, 10, 400, len(data))) :]
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    return _zipped(parts, random, _json if way == 2 else None)


def _zipped(parts: dict[str, bytes], random: Random, of_manifest: Any) -> bytes:
    manifest = json.loads(parts.pop("manifest.json"))
    if of_manifest is None:
        parts["arrays.safetensors"] = _arrays(parts["arrays.safetensors"], random)
        parts["graph.txt"] = mutated(parts["graph.txt"].decode(), random).encode("utf-8", "replace")
        for name, part in parts.items():
            sums = {"bytes": len(part), "sha256": sha256(part).hexdigest()}
            manifest["parts"][name] = sums
    else:
        manifest = of_manifest(manifest, random)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", random.choice((0, 0, 0, 8))) as new:
        for name, part in {**parts, "manifest.json": json.dumps(manifest).encode()}.items():
            new.writestr(name, part)
    return made.getvalue()


def _json(value: Any, random: Random) -> Any:
    """A value of JSON with another one somewhere in it."""
    if not isinstance(value, dict | list) or not value or random.random() < 0.2:
        return random.choice(VALUES)
    changed: Any = value.copy()
    place = random.choice([*value] if isinstance(value, dict) else range(len(value)))
    if random.random() < 0.15:
        del changed[place]
    else:
        changed[place] = _json(value[place], random)
    return changed


def _arrays(data: bytes, random: Random) -> bytes:
    """A file of arrays with another header."""
    length = int.from_bytes(data[:8], "little")
    if random.random() < 0.2:
        return random.randrange(2**64).to_bytes(8, "little") + data[8:]
    header = json.loads(data[8 : 8 + length])
    if random.random() < 0.7:
        header = _json(header, random)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]
