"""A loaded ONNX model: its graph, and a function of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.compile import Function, Shared, function
from graphc.errors import ArgumentError
from graphc.ir import Leaf, flatten
from graphc.link import as_numpy

if TYPE_CHECKING:
    from graphc.compile import Mode
    from graphc.interop.onnx.convert import Converted


class OnnxModel:
    """An ONNX model as a graph: call it, or compile its graph anew; ``load`` makes it.

    A call takes a value for each input, by position or by name, and returns the results by name.

    Attributes:
        mode: What calls are computed by.
        name: The name of its graph.
        inputs: The symbolic inputs, by name.
        outputs: The symbolic results, by name; a sequence of ONNX is a list.
        shapes: The lengths of inputs and outputs as the model has them, by name: integers, names of
            unknown lengths, None. ``f.export(path, dynamic=...)`` takes those of inputs.
        metadata: What the model says of itself: its producer, its description, and the rest.
    """

    def __init__(self, converted: Converted, mode: str | Mode | None) -> None:
        self.mode = mode
        self.name = converted.name
        self.inputs = converted.inputs
        self.outputs = converted.outputs
        self.shapes = converted.shapes
        self.metadata = converted.metadata
        self._initializers = converted.initializers
        self._called: Function | None = None

    @property
    def initializers(self) -> dict[str, Any]:
        """The initializers that the graph uses, by name: constants, captured and shared arrays."""
        return dict(self._initializers)

    @property
    def shared(self) -> dict[str, Any]:
        """The initializers that are shared variables, by name."""
        return {name: x for name, x in self._initializers.items() if isinstance(x, Shared)}

    def function(self, mode: str | Mode | None = None, **options: Any) -> Function:
        """Compile it.

        Args:
            mode: As for ``graphc.function``; by default this object's.
            options: As for ``graphc.function``: ``updates``, ``name``.

        Returns:
            A function of the inputs, by position or by name, that returns a dict of the results.
        """
        options = {"name": self.name, "on_unused_input": "ignore", **options}
        mode = self.mode if mode is None else mode
        return function(list(self.inputs.values()), self.outputs, mode, **options)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return the results for values of the inputs, a dict by name."""
        if self._called is None:
            self._called = self.function()
        return self._called(*args, **kwargs)

    def get_value(self, name: str) -> np.ndarray[Any, Any]:
        """Return a copy of the present value of an initializer.

        Args:
            name: Its name.

        Raises:
            ArgumentError: The graph uses no such initializer.
        """
        if name not in self._initializers:
            known = ", ".join(self._initializers) or "none"
            raise ArgumentError(f"{self.name} uses no initializer {name!r}.", f"It uses: {known}.")
        x: Any = self._initializers[name]
        if isinstance(x, Shared):
            return x.get_value()
        return np.array(as_numpy(x.op.array if isinstance(x.op, Leaf) else x.op.value))

    def set_value(self, name: str, value: Any) -> None:
        """Replace the value of a shared variable, which compiles nothing again.

        Args:
            name: Its name.
            value: An array of its dtype and shape.

        Raises:
            ArgumentError: It is no shared variable; ``load(..., shared=[name])`` makes it one.
        """
        if name not in self.shared:
            raise ArgumentError(
                f"{name} is no shared variable of {self.name}.",
                f"Load the model with shared=[{name!r}].",
            )
        self.shared[name].set_value(value)

    def __repr__(self) -> str:
        given = [f"{name}: {_shown(x, self.shapes.get(name))}" for name, x in self.inputs.items()]
        found = [f"{name}: {_shown(x, self.shapes.get(name))}" for name, x in self.outputs.items()]
        return f"{self.name}: ({', '.join(given)}) -> ({', '.join(found)})"


def _shown(x: Any, declared: list[Any] | None) -> str:
    if isinstance(x, Mapping | list):
        return f"[{', '.join(_shown(part, None) for part in flatten(x))}]"
    names = declared if declared is not None and len(declared) == x.ndim else [None] * x.ndim
    pairs = zip(x.type.shape, names, strict=True)
    return f"{x.dtype}[{', '.join(str(n if n is not None else m or '?') for n, m in pairs)}]"
