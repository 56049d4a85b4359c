"""Examples of the rules in graphc/rewrite/rules/branch.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import graphc.tensor as gt
from graphc.ir import Graph, Node, Pick
from graphc.loop.branch import Switch, choice
from graphc.loop.step import Formal
from tests.rewrite.arrays import Example, make, n, scalar, w

positive = gt.greater(scalar, 0)
number = gt.constant(1)


def switch(index: Any, *results: Callable[[Any], list[Any]], place: int = 0) -> Node:
    """One of the results of branches that take w."""
    formal: Any = Node.make(Formal(0, w.type))
    branches = tuple(Graph([formal], f(formal)) for f in results)
    return make(Pick(place), Node.make(Switch(branches), index, w))


def held(index: Any) -> Node:
    """One of three sums."""
    return switch(index, *(lambda x, i=i: [gt.exp(x) + i] for i in (1, 2, 3)))


EXAMPLES: dict[str, list[Example]] = {
    "switch_by_constant": [
        (held(number), gt.exp(w) + 2),
        (held(gt.constant(-5)), gt.exp(w) + 1),
        (held(gt.constant(9)), gt.exp(w) + 3),
        (held(gt.constant(True)), gt.exp(w) + 2),
    ],
    "switch_of_equal_results": [
        (switch(n, lambda x: [x, -x], lambda x: [gt.exp(x), -x], place=1), -w),
        (switch(n, lambda x: [x, x], lambda x: [gt.exp(x), x], place=1), w),
    ],
    "switch_by_not": [
        (
            switch(gt.logical_not(positive), lambda x: [x], lambda x: [-x]),
            switch(positive, lambda x: [-x], lambda x: [x]),
        ),
        (
            switch(gt.logical_not(positive), *(lambda x, i=i: [x + i] for i in range(3))),
            switch(positive, lambda x: [x + 1], lambda x: [x + 0]),
        ),
    ],
    "switch_by_bool": [
        (choice(positive.astype("int8"), w, gt.exp(w)), choice(positive, w, gt.exp(w))),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "switch_by_constant": [choice(n, w, gt.exp(w))],
    "switch_of_equal_results": [choice(n, w, gt.exp(w))],
    "switch_by_not": [choice(gt.invert(n), w, -w)],
    "switch_by_bool": [choice(n.astype("int8"), w, gt.exp(w))],
}
