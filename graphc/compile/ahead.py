"""Programs compiled ahead of their first call, into the cache on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from graphc.compile.cache import ProgramContext, kept_by, program_in
from graphc.config import config
from graphc.errors import ArgumentError
from graphc.ir import TensorType

if TYPE_CHECKING:
    from graphc.compile.function import Function

T = TypeVar("T")

OFF = "Set graphc.config.cache_dir, or GRAPHC_CACHE_DIR in the environment, to a directory."


class _Kept(BaseException):
    """An executable is on disk: the call that it was for goes no further.

    It is no error: what catches errors of a call is not to meet it.
    """


class _AheadContext(ProgramContext):
    """Keeps the executable of a call, in place of which it ends the call.

    Attributes:
        compiled: Whether one was compiled; otherwise it was on disk.
    """

    compiled = False

    def executable(
        self,
        name: str | None,
        load: Callable[[bytes], T | None],
        compile: Callable[[], tuple[T, Callable[[], bytes | None]]],
    ) -> NoReturn:
        def compiled() -> tuple[T, Callable[[], bytes | None]]:
            self.compiled = True
            return compile()

        super().executable(name, load, compiled)
        if not self.has_executable(name):
            raise ArgumentError(
                "compile_ahead: the executable cannot be kept on disk: it calls back into Python "
                "or another library, lies on devices without a mesh, or the cache has no room.",
                "f.plan() shows what is called; config.cache_bytes is the size of the cache.",
            )
        raise _Kept

    def before_compile(self, shapes: Sequence[tuple[int, ...]], values: Mapping[int, Any]) -> None:
        """Allow any number of shapes."""

    def record(self, *_: Any) -> None:
        """Record nothing: there is no call."""


def compile_ahead(function: Function[Any], /, *shapes: Any, **named: Any) -> bool:
    """Compile a function for arguments of given shapes and keep the result on disk; run nothing.

    A later process that makes the same function, and calls it with such arguments, loads what is
    kept instead of compiling it. ``graphc cache export`` moves it to other machines.

    For JAX an executable is kept, for the mode's device or mesh. Captured arrays and the present
    values of shared variables are part of no executable, only their shapes are. For MLX and NUMPY,
    what is kept is the rewritten graph; MLX compiles kernels when it first runs.

    Args:
        function: Made by ``graphc.function``.
        shapes: For each input a tuple of lengths; or anything with a ``shape``, such as a
            ``jax.ShapeDtypeStruct``, whose dtype is the input's. Where an argument's value decides
            a shape, its value. JAX's arrays are taken as they are, with their devices. Without any
            arguments, the lengths are those of the inputs' types.
        named: The same by the inputs' names.

    Returns:
        Whether it was compiled; False where it was on disk already.

    Raises:
        ArgumentError: The cache on disk is off; the program or its executable is of use in this
            process alone; for JAX: a wrong number or name of an argument, a length is not known.
        DTypeError: A value does not go into its input's dtype.

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
    context = _AheadContext(*kept_by(signature))
    if not context.is_kept:
        raise ArgumentError(
            f"compile_ahead: {function!r} has operations, rules or lowerings of your own, and "
            "graphc cannot tell later whether their code has changed.",
            "Programs of graphc's own operations are kept.",
        )
    program, lowered, _ = program_in(context, signature, function.leaves)
    context.save_program()
    if not function.mode.backend.keeps_executables:
        return lowered is not None
    given = _stand_ins(function, shapes, named)
    arrays = [array for array, _ in function._captured(program)]
    changed = [x for x, _ in function._spec.updates]
    with suppress(_Kept):
        function._bound(program, changed, arrays).function()(*given)
        raise ArgumentError(
            "compile_ahead: JAX compiles nothing, as jax_disable_jit is set.", "Unset it."
        )
    return context.compiled


def _stand_ins(
    function: Function[Any], shapes: Sequence[Any], named: Mapping[str, Any]
) -> Sequence[Any]:
    """Arguments of these shapes, as the program takes them; where none are given, of the types'."""
    types = [parameter.variable.type for parameter in function._ins]
    given = function._arranged(shapes, named) if shapes or named else types
    static = function._compiled.spec.static
    arrays = [
        x if i in static or isinstance(x, function.mode.backend.kinds) else _zeros(x, type, i)
        for i, (x, type) in enumerate(zip(given, types, strict=True))
    ]
    return function._converted(arrays)


def _zeros(given: Any, type: TensorType, place: int) -> np.ndarray[Any, Any]:
    """An array of a shape and an input's dtype, of which no element is read."""
    shape = given if isinstance(given, tuple) else getattr(given, "shape", None)
    if shape is None:
        shape = np.shape(given)
    if not all(isinstance(n, int | np.integer) for n in shape):
        raise ArgumentError(
            f"compile_ahead: a length of argument {place} of {type!r} is not known.",
            "Give its shape, a tuple of integers.",
        )
    return np.zeros(shape, type.numpy_dtype)
