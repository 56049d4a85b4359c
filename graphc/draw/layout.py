"""Layouts in layers: each node below its operands, with few crossings and few bends.

A layout has two parts. ``arrange`` finds the layers and the order in each, without sizes.
``position_boxes`` finds coordinates for boxes of given sizes. ``viewer.js`` has the second part
too, as the boxes of a page grow when they are opened.

Source: Sugiyama, Tagawa & Toda, IEEE Trans. Syst. Man Cybern. 11(2), 1981; the positions within a
layer are the least-squares ones, by pooling adjacent violators.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SWEEPS = 6
"""The number of sweeps that order the layers, alternately downwards and upwards."""

PASSES = 8
"""The number of times that positions in each layer are fitted to the adjacent layers."""

GAP = 22.0
"""The least distance between two boxes of a layer."""

LAYER_GAP = 34.0
"""The least distance between layers, in which edges bend."""

STEEP = 16.0
"""The sideways distance of an edge, in pixels, that widens the gap of its layers by one pixel."""

HIGHEST_GAP = 90.0
"""The most distance between layers."""

STIFF = 6.0
"""The weight of a long edge's bend, relative to a box's shift."""


@dataclass(frozen=True, slots=True)
class Link:
    """A piece of an edge, between two layers.

    Attributes:
        start: The item in the upper layer.
        end: The item in the lower layer.
        port: The number of the operand that it leads to; None if it leads to the next piece.
        ports: The number of operands of that node.
    """

    start: int
    end: int
    port: int | None = None
    ports: int = 0


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Layers of items from left to right; items are nodes, and the bends of edges between them.

    Attributes:
        nodes: The number of nodes, which are the first items.
        layers: The items of each layer, from the top.
        links: The pieces of edges.
    """

    nodes: int
    layers: tuple[tuple[int, ...], ...]
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Coordinates of an arrangement.

    Attributes:
        centers: The horizontal center of each item.
        tops: The top of each layer.
        bottoms: The bottom of each layer.
        width: The width of the drawing.
        height: The height of the drawing.
    """

    centers: tuple[float, ...]
    tops: tuple[float, ...]
    bottoms: tuple[float, ...]
    width: float
    height: float


def arrange(inputs: Sequence[Sequence[int]]) -> Arrangement:
    """Return the layers of a graph and the order in each.

    Args:
        inputs: The inputs of each node, which are earlier nodes.

    Example:
        >>> arrange([(), (), (0, 1), (2,)]).layers
        ((0, 1), (2,), (3,))
    """
    level = _levels(inputs)
    layers: list[list[int]] = [[] for _ in range(max(level, default=-1) + 1)]
    for node in _depth_first(inputs):
        layers[level[node]].append(node)
    links = _links(inputs, level, layers)
    return Arrangement(len(inputs), _order(layers, links), tuple(links))


def _levels(inputs: Sequence[Sequence[int]]) -> list[int]:
    """Return the layer of each node, its longest path; sources are just above their use."""
    level: list[int] = []
    for xs in inputs:
        level.append(1 + max((level[x] for x in xs), default=-1))
    nearest: dict[int, int] = {}
    for node, xs in enumerate(inputs):
        for x in xs:
            nearest[x] = min(level[node], nearest.get(x, level[node]))
    for node, below in nearest.items():
        if not inputs[node]:
            level[node] = below - 1
    return level


def _depth_first(inputs: Sequence[Sequence[int]]) -> list[int]:
    used = {x for xs in inputs for x in xs}
    stack = [node for node in range(len(inputs)) if node not in used][::-1]
    visited: dict[int, None] = {}
    while stack:
        node = stack.pop()
        if node not in visited:
            visited[node] = None
            stack += inputs[node][::-1]
    return list(visited)


def _links(
    inputs: Sequence[Sequence[int]], level: Sequence[int], layers: list[list[int]]
) -> list[Link]:
    """Return the pieces of all edges; long edges of a node share pieces, which enter the layers."""
    trunks: dict[int, list[int]] = {}
    links: list[Link] = []
    count = len(inputs)
    for node, xs in enumerate(inputs):
        for port, x in enumerate(xs):
            trunk = trunks.setdefault(x, [x])
            while level[x] + len(trunk) < level[node]:
                links.append(Link(trunk[-1], count))
                layers[level[x] + len(trunk)].append(count)
                trunk.append(count)
                count += 1
            links.append(Link(trunk[level[node] - level[x] - 1], node, port, len(xs)))
    return links


def _order(layers: list[list[int]], links: Sequence[Link]) -> tuple[tuple[int, ...], ...]:
    """Return the layers with their items in the best order of all sweeps."""
    above: dict[int, list[tuple[int, float]]] = {}
    below: dict[int, list[tuple[int, float]]] = {}
    for link in links:
        # Edges to the operands of a node end side by side.
        shift = 0.0 if link.port is None else (link.port + 1) / (link.ports + 1) - 0.5
        above.setdefault(link.end, []).append((link.start, 0.0))
        below.setdefault(link.start, []).append((link.end, shift))
    best, fewest = [*map(tuple, layers)], _crossings(layers, below)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        beside, order = (above, layers) if sweep % 2 == 0 else (below, layers[::-1])
        position = {item: float(i) for layer in layers for i, item in enumerate(layer)}
        for layer in order:
            wanted = {item: _mean(position, beside.get(item), position[item]) for item in layer}
            layer.sort(key=wanted.__getitem__)
            position.update((item, float(i)) for i, item in enumerate(layer))
        crossings = _crossings(layers, below)
        if crossings < fewest:
            best, fewest = [*map(tuple, layers)], crossings
    return tuple(best)


def _mean(
    position: dict[int, float], beside: Sequence[tuple[int, float]] | None, otherwise: float
) -> float:
    if not beside:
        return otherwise
    return sum(position[item] + shift for item, shift in beside) / len(beside)


def _crossings(layers: Iterable[Sequence[int]], below: dict[int, list[tuple[int, float]]]) -> int:
    position = {item: i for layer in layers for i, item in enumerate(layer)}
    count = 0
    for layer in layers:
        ends: list[float] = []
        for item in layer:
            targets = [position[end] + shift for end, shift in below.get(item, ())]
            count += sum(len(ends) - bisect_right(ends, end) for end in targets)
            for end in targets:
                insort(ends, end)
    return count


def position_boxes(arrangement: Arrangement, sizes: Sequence[tuple[float, float]]) -> Coordinates:
    """Return coordinates in which no boxes of a layer overlap.

    Args:
        arrangement: Layers and links.
        sizes: The width and height of each node's box.
    """
    nodes = arrangement.nodes
    items = sum(map(len, arrangement.layers))
    widths = [size[0] for size in sizes] + [0.0] * (items - nodes)
    centers = _centers(arrangement, widths)
    leftmost = min((x - w / 2 for x, w in zip(centers, widths, strict=True)), default=0.0)
    centers = [x - leftmost for x in centers]
    gaps = _gaps(arrangement, centers)
    tops, bottoms, y = [], [], 0.0
    for layer, gap in zip(arrangement.layers, gaps, strict=True):
        tops.append(y)
        y += max((sizes[item][1] for item in layer if item < nodes), default=0.0)
        bottoms.append(y)
        y += gap
    width = max((x + w / 2 for x, w in zip(centers, widths, strict=True)), default=0.0)
    return Coordinates(
        tuple(centers), tuple(tops), tuple(bottoms), width, bottoms[-1] if bottoms else 0.0
    )


def _gaps(arrangement: Arrangement, centers: Sequence[float]) -> list[float]:
    """Return the distance below each layer, larger where an edge would be flat."""
    aside = dict.fromkeys(range(len(centers)), 0.0)
    for link in arrangement.links:
        far = abs(centers[link.start] - centers[link.end])
        aside[link.start] = max(aside[link.start], far)
    return [
        min(HIGHEST_GAP, LAYER_GAP + max(aside[item] for item in layer) / STEEP)
        for layer in arrangement.layers
    ]


def _centers(arrangement: Arrangement, widths: Sequence[float]) -> list[float]:
    """Return the horizontal centers of items: near their neighbours, in order, without overlap."""
    above: dict[int, list[tuple[int, float]]] = {}
    below: dict[int, list[tuple[int, float]]] = {}
    for link in arrangement.links:
        shift = port_shift(link, widths[link.end])
        above.setdefault(link.end, []).append((link.start, -shift))
        below.setdefault(link.start, []).append((link.end, shift))
    centers = [0.0] * len(widths)
    for layer in arrangement.layers:
        x = -sum(widths[item] + GAP for item in layer) / 2
        for item in layer:
            centers[item] = x + widths[item] / 2
            x += widths[item] + GAP
    for turn in range(PASSES):
        downwards = turn % 2 == 0
        beside = above if downwards else below
        for layer in arrangement.layers if downwards else arrangement.layers[::-1]:
            wanted = [_middle(centers, beside.get(item), centers[item]) for item in layer]
            weights = [
                (STIFF if item >= arrangement.nodes else 1.0) if beside.get(item) else 0.1
                for item in layer
            ]
            for item, x in zip(layer, _separate(layer, wanted, weights, widths), strict=True):
                centers[item] = x
    return centers


def port_shift(link: Link, width: float) -> float:
    """Return the distance of an edge's end from the center of its box."""
    return 0.0 if link.port is None else width * ((link.port + 1) / (link.ports + 1) - 0.5)


def _middle(
    centers: Sequence[float], beside: Sequence[tuple[int, float]] | None, otherwise: float
) -> float:
    if not beside:
        return otherwise
    return sum(centers[item] + shift for item, shift in beside) / len(beside)


def _separate(
    layer: Sequence[int], wanted: Sequence[float], weights: Sequence[float], widths: Sequence[float]
) -> list[float]:
    """Return the positions nearest to the wanted ones in which no two items overlap."""
    offsets, x = [], 0.0
    for i, item in enumerate(layer):
        x += (widths[layer[i - 1]] + widths[item]) / 2 + GAP if i else 0.0
        offsets.append(x)
    # Minus the offsets, positions must ascend: descending blocks are pooled to their mean.
    blocks: list[tuple[float, float, int]] = []
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        mean, total, count = want - offset, weight, 1
        while blocks and blocks[-1][0] > mean:
            other, heavy, size = blocks.pop()
            mean = (other * heavy + mean * total) / (heavy + total)
            total, count = total + heavy, count + size
        blocks.append((mean, total, count))
    flat = [mean for mean, _, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(flat, offsets, strict=True)]
