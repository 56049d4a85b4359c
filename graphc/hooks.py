"""Functions that a layer calls and a higher layer has: declared here, provided by ``providers.py``.

Imports point down the layers. A method such as ``x.eval()`` needs the compiler, which is above the
arrays; it calls a hook, whose type says what the hook takes and returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    import numpy as np

    from graphc.attention.jax_arrays import JaxAttention
    from graphc.compile.function import Function
    from graphc.implicit.jax_arrays import JaxImplicit
    from graphc.tensor.core.tensor import Tensor

P = ParamSpec("P")
R = TypeVar("R")


class Hook(Generic[P, R]):
    """A function that is declared without a body, and provided once."""

    __slots__ = ("_function", "_subject")

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self._function: Callable[P, R] | None = None

    def provide(self, function: Callable[P, R]) -> Callable[P, R]:
        """Set the function; usable as a decorator.

        Raises:
            TypeError: If the hook has a function.
        """
        if self._function is not None:
            raise TypeError(f"The hook for {self._subject} has {self._function}.")
        self._function = function
        return function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function.

        Raises:
            TypeError: If no function was provided.
        """
        if self._function is None:
            raise TypeError(f"The hook for {self._subject} has no function.")
        return self._function(*args, **kwargs)


drawing: Hook[[Any], str] = Hook("the HTML of a node, a graph or a function")
named_type: Hook[[Any], str] = Hook("the text of a node's type")
evaluate: Hook[[Tensor, Mapping[Any, Any] | None, Any], np.ndarray[Any, Any]] = Hook("x.eval()")
compile_function: Hook[..., Function] = Hook("functions that lower layers compile")
shared_key: Hook[[], Tensor] = Hook("a key of draws without one")
export_function: Hook[..., None] = Hook("f.export()")
vectorize_xtensors: Hook[[Any, Mapping[Any, Any]], Any] = Hook("batches of named arrays")
shared_xtensor: Hook[..., Any] = Hook("shared variables of xarray's arrays")
implicit_handlers: Hook[[], None] = Hook("graphc's handlers of operations on implicit arrays")
jax_implicit: Hook[[], JaxImplicit] = Hook("implicit arrays of JAX arrays")
jax_attention: Hook[[], JaxAttention] = Hook("attention of JAX arrays")
