"""Whatever a text or a file says, reading it ends in a graph or in one kind of error."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

import graphc
from graphc.errors import FormatError
from tests.export.mutations import mutated, mutated_file
from tests.export.texts import GRAPHS, REFUSED, of_contract
from tests.export.training_step import model

CHUNK = 500
CHUNKS = 6


@cache
def texts() -> list[Any]:
    """Texts of some kinds of graphs."""
    some = [ys for name, ys in of_contract() if name not in REFUSED][::7]
    return [graphc.serialize(ys) for ys in (*some, *(made() for made in GRAPHS.values()))]


@pytest.mark.parametrize(
    "chunk", [0, *[pytest.param(i, marks=pytest.mark.exhaustive) for i in range(1, CHUNKS)]]
)
@pytest.mark.whole
def test_a_damaged_text_is_a_graph_or_an_error(chunk: int) -> None:
    random = Random(chunk)
    read = refused = 0
    for _ in range(CHUNK):
        text, arrays = random.choice(texts())
        try:
            graph = graphc.deserialize(mutated(text, random), arrays)
        except FormatError:
            refused += 1
        else:
            graph.key()
            graphc.serialize(graph)
            read += 1
    assert read
    assert refused


@pytest.mark.parametrize(
    "chunk", [0, *[pytest.param(i, marks=pytest.mark.exhaustive) for i in range(1, CHUNKS)]]
)
@pytest.mark.whole
def test_a_damaged_file_is_a_function_or_an_error(chunk: int, tmp_path: Path) -> None:
    file = tmp_path / "model.graphc"
    model().export(file)
    data = file.read_bytes()
    random = Random(chunk)
    read = refused = 0
    for _ in range(CHUNK):
        file.unlink()  # it may be mapped
        file.write_bytes(mutated_file(data, random))
        try:
            found = graphc.load(file, verify=random.random() < 0.7)
        except FormatError:
            refused += 1
        else:
            assert found.inputs
            assert found.graph.key()
            read += 1
    assert read
    assert refused
