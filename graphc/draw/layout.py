"""Layouts in layers: each node below what it is made of, few crossings, few bends.

A layout has two parts. ``arranged`` finds the layers and the order in each; it knows no sizes.
``placed`` finds coordinates for boxes of given sizes. ``viewer.js`` has the second part too, as
the boxes of a page grow when they are opened.

Source: Sugiyama, Tagawa & Toda, IEEE Trans. Syst. Man Cybern. 11(2), 1981; the positions within a
layer are the least-squares ones, by pooling adjacent violators.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SWEEPS = 6
"""How often the layers are put in order, downwards and upwards in turn; more find little."""

PASSES = 8
"""How often the positions in each layer are fitted to those of the layers beside it."""

GAP = 22.0
"""The least distance between two boxes of a layer."""

LAYER_GAP = 34.0
"""The least distance between layers, in which edges bend."""

STEEP = 16.0
"""How far aside an edge goes for each pixel that the distance between its layers grows."""

HIGHEST_GAP = 90.0
"""The most distance between layers."""

STIFF = 6.0
"""How much more a long edge resists a bend than a box resists a shift."""


@dataclass(frozen=True, slots=True)
class Link:
    """A piece of an edge, between two layers.

    Attributes:
        start: The item in the upper layer.
        end: The item in the lower layer.
        port: Which operand of a node it leads to; None where it leads on to a longer edge.
        ports: How many operands that node has.
    """

    start: int
    end: int
    port: int | None = None
    ports: int = 0


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Layers of items from left to right; items are nodes, and the bends of edges between them.

    Attributes:
        nodes: How many nodes there are, the first items.
        layers: The items of each layer, those without inputs further up.
        links: The pieces of edges.
    """

    nodes: int
    layers: tuple[tuple[int, ...], ...]
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """Coordinates of an arrangement.

    Attributes:
        centers: The middle of each item.
        tops: Where each layer begins.
        bottoms: Where it ends.
        width: Of all.
        height: Of all.
    """

    centers: tuple[float, ...]
    tops: tuple[float, ...]
    bottoms: tuple[float, ...]
    width: float
    height: float


def arranged(inputs: Sequence[Sequence[int]]) -> Arrangement:
    """Return the layers of a graph and the order in each.

    Args:
        inputs: The inputs of each node, which are earlier nodes.

    Example:
        >>> arranged([(), (), (0, 1), (2,)]).layers
        ((0, 1), (2,), (3,))
    """
    level = _levels(inputs)
    layers: list[list[int]] = [[] for _ in range(max(level, default=-1) + 1)]
    for node in _visited(inputs):
        layers[level[node]].append(node)
    links = _links(inputs, level, layers)
    return Arrangement(len(inputs), _ordered(layers, links), tuple(links))


def _levels(inputs: Sequence[Sequence[int]]) -> list[int]:
    """The layer of each node: the longest path to it; what has no inputs is just above its use."""
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


def _visited(inputs: Sequence[Sequence[int]]) -> list[int]:
    """All nodes, in the order in which a walk from the last ones meets them."""
    used = {x for xs in inputs for x in xs}
    stack = [node for node in range(len(inputs)) if node not in used][::-1]
    found: dict[int, None] = {}
    while stack:
        node = stack.pop()
        if node not in found:
            found[node] = None
            stack += inputs[node][::-1]
    return list(found)


def _links(
    inputs: Sequence[Sequence[int]], level: Sequence[int], layers: list[list[int]]
) -> list[Link]:
    """The pieces of all edges; the longer edges of a node share theirs, which enter the layers."""
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


def _ordered(layers: list[list[int]], links: Sequence[Link]) -> tuple[tuple[int, ...], ...]:
    """The layers with their items in the best of the orders that the sweeps find."""
    above: dict[int, list[tuple[int, float]]] = {}
    below: dict[int, list[tuple[int, float]]] = {}
    for link in links:
        # The operands of a node end side by side at it.
        shift = 0.0 if link.port is None else (link.port + 1) / (link.ports + 1) - 0.5
        above.setdefault(link.end, []).append((link.start, 0.0))
        below.setdefault(link.start, []).append((link.end, shift))
    best, fewest = [*map(tuple, layers)], _crossings(layers, below)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        beside, order = (above, layers) if sweep % 2 == 0 else (below, layers[::-1])
        place = {item: float(i) for layer in layers for i, item in enumerate(layer)}
        for layer in order:
            wanted = {item: _mean(place, beside.get(item), place[item]) for item in layer}
            layer.sort(key=wanted.__getitem__)
            place.update((item, float(i)) for i, item in enumerate(layer))
        found = _crossings(layers, below)
        if found < fewest:
            best, fewest = [*map(tuple, layers)], found
    return tuple(best)


def _mean(
    place: dict[int, float], beside: Sequence[tuple[int, float]] | None, otherwise: float
) -> float:
    if not beside:
        return otherwise
    return sum(place[item] + shift for item, shift in beside) / len(beside)


def _crossings(layers: Iterable[Sequence[int]], below: dict[int, list[tuple[int, float]]]) -> int:
    """How many pairs of links cross."""
    place = {item: i for layer in layers for i, item in enumerate(layer)}
    count = 0
    for layer in layers:
        ends: list[float] = []
        for item in layer:
            own = [place[end] + shift for end, shift in below.get(item, ())]
            count += sum(len(ends) - bisect_right(ends, end) for end in own)
            for end in own:
                insort(ends, end)
    return count


def placed(arrangement: Arrangement, sizes: Sequence[tuple[float, float]]) -> Placement:
    """Return coordinates in which no boxes of a layer overlap.

    Args:
        arrangement: Layers and links.
        sizes: The width and height of each node's box.
    """
    nodes = arrangement.nodes
    items = sum(map(len, arrangement.layers))
    widths = [size[0] for size in sizes] + [0.0] * (items - nodes)
    centers = _centers(arrangement, widths)
    left = min((x - w / 2 for x, w in zip(centers, widths, strict=True)), default=0.0)
    centers = [x - left for x in centers]
    gaps = _gaps(arrangement, centers)
    tops, bottoms, y = [], [], 0.0
    for layer, gap in zip(arrangement.layers, gaps, strict=True):
        tops.append(y)
        y += max((sizes[item][1] for item in layer if item < nodes), default=0.0)
        bottoms.append(y)
        y += gap
    width = max((x + w / 2 for x, w in zip(centers, widths, strict=True)), default=0.0)
    return Placement(
        tuple(centers), tuple(tops), tuple(bottoms), width, bottoms[-1] if bottoms else 0.0
    )


def _gaps(arrangement: Arrangement, centers: Sequence[float]) -> list[float]:
    """The distance below each layer: more where an edge goes far aside, or it would be flat."""
    aside = dict.fromkeys(range(len(centers)), 0.0)
    for link in arrangement.links:
        far = abs(centers[link.start] - centers[link.end])
        aside[link.start] = max(aside[link.start], far)
    return [
        min(HIGHEST_GAP, LAYER_GAP + max(aside[item] for item in layer) / STEEP)
        for layer in arrangement.layers
    ]


def _centers(arrangement: Arrangement, widths: Sequence[float]) -> list[float]:
    """The middles of the items: near those of their neighbours, in order and apart."""
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
            for item, x in zip(layer, _apart(layer, wanted, weights, widths), strict=True):
                centers[item] = x
    return centers


def port_shift(link: Link, width: float) -> float:
    """How far from the middle of a box an edge ends at it."""
    return 0.0 if link.port is None else width * ((link.port + 1) / (link.ports + 1) - 0.5)


def _middle(
    centers: Sequence[float], beside: Sequence[tuple[int, float]] | None, otherwise: float
) -> float:
    if not beside:
        return otherwise
    return sum(centers[item] + shift for item, shift in beside) / len(beside)


def _apart(
    layer: Sequence[int], wanted: Sequence[float], weights: Sequence[float], widths: Sequence[float]
) -> list[float]:
    """The positions nearest to those wanted in which no two items overlap."""
    offsets, x = [], 0.0
    for i, item in enumerate(layer):
        x += (widths[layer[i - 1]] + widths[item]) / 2 + GAP if i else 0.0
        offsets.append(x)
    # Without the offsets, apart means ascending: blocks that descend are pooled to their mean.
    blocks: list[tuple[float, float, int]] = []
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        mean, total, count = want - offset, weight, 1
        while blocks and blocks[-1][0] > mean:
            other, heavy, more = blocks.pop()
            mean = (other * heavy + mean * total) / (heavy + total)
            total, count = total + heavy, count + more
        blocks.append((mean, total, count))
    flat = [mean for mean, _, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(flat, offsets, strict=True)]
