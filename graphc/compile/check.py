"""What a backend cannot do of a graph, before anything is compiled."""

from __future__ import annotations

from typing import Any

from graphc.compile.mode import Mode, get_mode
from graphc.compile.pipeline import Asked, problems
from graphc.compile.recipe import as_output
from graphc.errors import GraphcError
from graphc.ir import Graph, Input, flatten, gathered, toposort

__all__ = ["check"]


def check(outputs: Any, mode: str | Mode | None = None) -> list[GraphcError]:
    """What keeps a graph from being compiled, with the user's lines; nothing is compiled.

    Args:
        outputs: A symbolic array, or a nested list, tuple or dict of them.
        mode: Where it is to run; ``config.mode`` by default.

    Returns:
        Errors, each with what is wrong and a remedy: one of all that the backend lacks, and one
        where a shape depends on values that it does not have. None where it can be compiled.

    Raises:
        ArgumentError: An output is no symbolic array.
        ModeError: No such backend.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.zvector("x")
        >>> graphc.check(gt.exp(x), "JAX")
        []
        >>> print(graphc.check(gt.exp(x), "MLX")[0])
        mode='MLX' has no complex128; ...
    """
    wanted = [as_output(y) for y in flatten(outputs)]
    inputs = [x for x in toposort(wanted) if isinstance(x.op, Input)]
    asked = Asked(Graph(inputs, gathered(wanted, inputs)), len(inputs), (), False, get_mode(mode))
    return problems(asked)
