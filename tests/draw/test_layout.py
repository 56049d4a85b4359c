"""Layouts: nodes below their inputs, nothing on top of anything, edges from box to box."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from graphc.draw.layout import GAP, Arrangement, arrange, position_boxes


def random_wiring(seed: int, most: int = 60) -> list[list[int]]:
    """The inputs of each node of a random graph."""
    random = Random(seed)
    wiring: list[list[int]] = []
    for node in range(random.randrange(1, most)):
        count = min(node, random.choice([0, 1, 1, 2, 2, 3]))
        recent = range(max(0, node - random.choice([3, 10, most])), node)
        wiring.append([random.choice(recent) for _ in range(count)])
    return wiring


WIRINGS = [[], [[]], [[], [0, 0]], [[], [], [1, 0]], *map(random_wiring, range(60))]


def layer_of(arrangement: Arrangement) -> dict[int, int]:
    return {item: i for i, layer in enumerate(arrangement.layers) for item in layer}


def sources(arrangement: Arrangement) -> dict[tuple[int, int], int]:
    """The node at the beginning of each edge, by the node and the operand at its end."""
    before = {x.end: x.start for x in arrangement.links if x.port is None}
    found = {}
    for link in arrangement.links:
        if link.port is not None:
            start = link.start
            while start >= arrangement.nodes:
                start = before[start]
            found[link.end, link.port] = start
    return found


@pytest.mark.parametrize("wiring", WIRINGS)
def test_layers_increase_and_every_node_and_edge_is_there_once(wiring: list[list[int]]) -> None:
    arrangement = arrange(wiring)
    layer = layer_of(arrangement)
    assert len(layer) == sum(map(len, arrangement.layers))
    assert {item for item in layer if item < len(wiring)} == {*range(len(wiring))}
    for node, inputs in enumerate(wiring):
        assert all(layer[x] < layer[node] for x in inputs)
    assert all(layer[x.start] + 1 == layer[x.end] for x in arrangement.links)
    edges = {(node, i): x for node, inputs in enumerate(wiring) for i, x in enumerate(inputs)}
    assert sources(arrangement) == edges


@pytest.mark.parametrize("wiring", WIRINGS)
def test_no_boxes_overlap(wiring: list[list[int]]) -> None:
    random = Random(len(wiring))
    arrangement = arrange(wiring)
    sizes = [(random.uniform(20, 300), random.uniform(10, 200)) for _ in wiring]
    at = position_boxes(arrangement, sizes)
    widths = [w for w, _ in sizes] + [0.0] * (len(at.centers) - len(sizes))
    for i, layer in enumerate(arrangement.layers):
        for a, b in pairwise(layer):
            assert at.centers[b] - at.centers[a] >= (widths[a] + widths[b]) / 2 + GAP - 1e-6
        for item in layer:
            assert at.centers[item] - widths[item] / 2 >= -1e-6
            assert at.centers[item] + widths[item] / 2 <= at.width + 1e-6
            assert item >= len(sizes) or at.tops[i] + sizes[item][1] <= at.bottoms[i] + 1e-6
    assert all(bottom < top for bottom, top in zip(at.bottoms, at.tops[1:], strict=False))
    assert at.height == (at.bottoms[-1] if at.bottoms else 0)


def test_what_has_no_inputs_is_just_above_its_first_use() -> None:
    chain = [[], [0], [1], [2], [], [3, 4]]
    layer = layer_of(arrange(chain))
    assert layer[4] == layer[3]


def test_edges_that_need_not_cross_do_not() -> None:
    # Two chains whose nodes are numbered in turn, and whose last nodes are in the other order.
    chains = [[], [], [1], [0], [2], [3]]
    arrangement = arrange(chains)
    order = [[item for item in layer if item < 6] for layer in arrangement.layers]
    first = {0, 3, 5}
    assert len({layer[0] in first for layer in order}) == 1


def test_a_chain_is_a_straight_line() -> None:
    at = position_boxes(arrange([[], [0], [1], [2]]), [(10, 10), (90, 10), (30, 10), (50, 10)])
    assert at.centers == pytest.approx([45.0] * 4)


def test_operands_are_side_by_side_in_their_order() -> None:
    (first, *_) = arrange([[], [], [], [2, 0, 1]]).layers
    assert first == (2, 0, 1)
