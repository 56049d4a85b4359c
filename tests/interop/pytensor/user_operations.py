"""Operations of a user's package."""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op


class Cubed(Op):  # type: ignore[misc]
    """An operation of a user's package, with a gradient."""

    __props__ = ()

    def make_node(self, x: Any) -> Any:
        x = pt.as_tensor(x)
        return Apply(self, [x], [x.type()])

    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = inputs[0] ** 3

    def pullback(self, inputs: Any, outputs: Any, gradients: Any) -> Any:
        return [gradients[0] * 3 * inputs[0] ** 2]

    L_op = pullback

    def infer_shape(self, *arguments: Any) -> Any:
        *_, shapes = arguments
        return shapes
