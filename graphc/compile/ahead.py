"""Programs compiled ahead of their first call, into the cache on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from graphc.compile.cache import ProgramContext, context_arguments, load_or_lower
from graphc.config import config
from graphc.errors import ArgumentError
from graphc.ir import TensorType

if TYPE_CHECKING:
    from graphc.compile.function import Function

T = TypeVar("T")

OFF = "Set graphc.config.cache_dir, or GRAPHC_CACHE_DIR in the environment, to a directory."


class _ExecutableSaved(BaseException):
    """Ends a call whose executable is on disk; no ``Exception``, so that no handler catches it."""


class _AheadContext(ProgramContext):
    """A context that saves the executable of a call and ends the call.

    Attributes:
        compiled: Whether the executable was compiled; otherwise it was on disk.
    """

    compiled = False

    def executable(
        self,
        name: str | None,
        load: Callable[[bytes], T | None],
        compile: Callable[[], tuple[T, Callable[[], bytes | None]]],
    ) -> NoReturn:
        def compile_and_note() -> tuple[T, Callable[[], bytes | None]]:
            self.compiled = True
            return compile()

        super().executable(name, load, compile_and_note)
        if not self.has_executable(name):
            raise ArgumentError(
                "compile_ahead: the executable cannot be kept on disk: it calls back into Python "
                "or another library, lies on devices without a mesh, or the cache has no room.",
                "f.plan() shows what is called; config.cache_bytes is the size of the cache.",
            )
        raise _ExecutableSaved

    def before_compile(self, shapes: Sequence[tuple[int, ...]], values: Mapping[int, Any]) -> None:
        """Allow any number of shapes."""

    def record(self, *_: Any) -> None:
        """Record nothing: there is no call."""


def compile_ahead(function: Function[Any], /, *shapes: Any, **named: Any) -> bool:
    """Compile a function for arguments of these shapes into the cache on disk, and call nothing.

    A later process that makes the same function, and calls it with arguments of these shapes, loads
    the result instead of compiling.

    For JAX an executable is saved, for the mode's device or mesh. It depends on the shapes of
    captured arrays and shared variables, not on their values. For MLX and NUMPY the rewritten
    graph is saved; MLX compiles kernels when it first runs.

    Args:
        function: Made by ``graphc.function``.
        shapes: For each input a tuple of lengths; or anything with a ``shape``, such as a
            ``jax.ShapeDtypeStruct``, whose dtype is the input's. Where an argument's value decides
            a shape, its value. JAX's arrays are passed unchanged, with their devices. Without any
            arguments, the inputs' types decide the lengths.
        named: The same by the inputs' names.

    Returns:
        Whether it was compiled; False where it was on disk already.

    Raises:
        ArgumentError: The cache on disk is off; the program or its executable is of use in this
            process alone; for JAX: a wrong number or name of an argument, a length is not known.
        DTypeError: A value does not fit its input's dtype.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.matrix("x")
        >>> f = graphc.function([x], (x @ x.T).sum())
        >>> graphc.compile_ahead(f, (64, 3))  # here GRAPHC_CACHE_DIR is "off"
        Traceback (most recent call last):
            ...
        graphc.errors.ArgumentError: compile_ahead: the cache on disk is off...
    """
    if config.cache_dir is None:
        raise ArgumentError("compile_ahead: the cache on disk is off.", OFF)
    signature = function._signature
    context = _AheadContext(*context_arguments(signature))
    if not context.is_kept:
        raise ArgumentError(
            f"compile_ahead: {function!r} has operations, rules or lowerings of your own, and "
            "graphc cannot tell later whether their code has changed.",
            "Programs of graphc's own operations are kept.",
        )
    program, lowered, _ = load_or_lower(context, signature, function.leaves)
    context.save_program()
    if not function.mode.backend.keeps_executables:
        return lowered is not None
    arguments = _stand_ins(function, shapes, named)
    arrays = [array for array, _ in function._captures(program)]
    changed = [x for x, _ in function._spec.updates]
    with suppress(_ExecutableSaved):
        function._bind_program(program, changed, arrays)(*arguments)
        raise ArgumentError(
            "compile_ahead: JAX compiles nothing, as jax_disable_jit is set.", "Unset it."
        )
    return context.compiled


def _stand_ins(
    function: Function[Any], shapes: Sequence[Any], named: Mapping[str, Any]
) -> Sequence[Any]:
    """Return arguments of these shapes, as the program takes them; of the types' by default."""
    types = [parameter.variable.type for parameter in function._ins]
    values = function._arrange_arguments(shapes, named) if shapes or named else types
    static = function._compiled.spec.static
    arrays = [
        x if i in static or isinstance(x, function.mode.backend.kinds) else _zeros(x, type, i)
        for i, (x, type) in enumerate(zip(values, types, strict=True))
    ]
    return function._convert(tuple(arrays))


def _zeros(value: Any, type: TensorType, index: int) -> np.ndarray[Any, Any]:
    shape = value if isinstance(value, tuple) else getattr(value, "shape", None)
    if shape is None:
        shape = np.shape(value)
    if not all(isinstance(n, int | np.integer) for n in shape):
        raise ArgumentError(
            f"compile_ahead: a length of argument {index} of {type!r} is not known.",
            "Give its shape, a tuple of integers.",
        )
    return np.zeros(shape, type.numpy_dtype)
