"""``x.eval()``: the value of a symbolic array, by a function that is cached."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np

from graphc.compile.function import Function, function
from graphc.compile.mode import get_mode
from graphc.errors import ArgumentError
from graphc.implicit.node import Implicit
from graphc.ir import Input, Node, toposort, unwrap, unwrap_pair
from graphc.tensor import Tensor

_functions: OrderedDict[Any, Function] = OrderedDict()
_lock = threading.Lock()
MAX_FUNCTIONS = 32
"""The most functions that ``eval`` caches, the least recently used going first."""


def evaluate(
    x: Tensor, values: Mapping[Any, Any] | None = None, *, mode: Any = None
) -> np.ndarray[Any, Any]:
    """Compute the value of a symbolic array.

    Args:
        x: The array.
        values: Values for the inputs it depends on, by the input or its name.
        mode: The mode of the computation; ``config.mode`` by default.

    Returns:
        A NumPy array.

    Raises:
        MissingInputError: If ``x`` depends on an input without a value.
        ArgumentError: If no input has a name in ``values``.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.scalar("x")
        >>> float((x + 1).eval({"x": 2.0}, mode="NUMPY"))
        3.0
    """
    x = unwrap(x)
    inputs = _values_by_node(x, {} if values is None else values)
    chosen = get_mode(mode)
    rules = chosen.excluded, chosen.included
    key = (x, tuple(inputs), chosen.name, rules, tuple(sorted(chosen.options.items())))
    with _lock:
        compiled = _functions.get(key)
        if compiled is not None:
            _functions.move_to_end(key)
    if compiled is None:
        compiled = function(list(inputs), x, mode=chosen, on_unused_input="ignore", returns="numpy")
        compiled.record.disown()
        if compiled.leaves:
            return compiled(*inputs.values())  # not cached: it holds the arrays' present values
        with _lock:
            _functions[key] = compiled
            if len(_functions) > MAX_FUNCTIONS:
                _functions.popitem(last=False)
    return compiled(*inputs.values())


def _values_by_node(x: Tensor, values: Mapping[Any, Any]) -> dict[Node, Any]:
    if not isinstance(values, Mapping):
        raise ArgumentError(f"eval of {x!r}: expected a dict of values, got {values!r}.")
    result: dict[Node, Any] = {}
    inputs = []
    if any(isinstance(key, str) for key in values):
        inputs = [x for x in toposort([x]) if isinstance(x.op, Input | Implicit)]
    for key, value in (unwrap_pair(*each) for each in values.items()):
        nodes = [node for node in inputs if node.name == key] if isinstance(key, str) else [key]
        if len(nodes) != 1 or not isinstance(nodes[0], Tensor):
            many = (
                f"{len(nodes)} inputs are called {key!r}" if nodes[1:] else f"{key!r} is no input"
            )
            raise ArgumentError(f"eval of {x!r}: {many}.", "Give values by the inputs themselves.")
        result[nodes[0]] = value
    return result
