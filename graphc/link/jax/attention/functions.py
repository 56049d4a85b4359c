"""Mask and score functions written in JAX, as functions of scalars and captured arrays."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from graphc.attention.mods import INDICES, check_parameters, line_of_function
from graphc.capture import Lifted, Stripped, rebuild
from graphc.capture.identity import is_library_file
from graphc.errors import ArgumentError, DTypeError, SymbolicValueError
from graphc.ir import Node
from graphc.link.jax.wrap.types import NEEDS_VALUES
from graphc.site import is_own, where
from graphc.tensor.core.runtime import Runtime


def call(what: str, stripped: Stripped, arguments: Sequence[Any]) -> jax.Array:
    """Return the result of a mask or score function for JAX's scalars.

    Args:
        what: The function's name in messages, ``"mask_mod"`` or ``"score_mod"``.
        stripped: The user's function without the arrays that it captures.
        arguments: The scalars that the function takes, and the arrays that it captures.

    Raises:
        DTypeError: If the function returns no number.
        SymbolicValueError: If the function needs the value of a scalar.
        ArgumentError: If the function takes other arguments, or is written for symbolic arrays.
    """
    names = ("score", *INDICES) if what == "score_mod" else INDICES
    count = len(names)
    function = rebuild(stripped, arguments[count:])
    check_parameters(what, stripped, function, names)
    try:
        y = function(*arguments[:count])
    except NEEDS_VALUES as error:
        _raise_needs_value(what, stripped, error)
    except DTypeError as error:
        raise ArgumentError(
            f"{what} cannot be called with JAX's scalars, as graphc.tensor's functions are for "
            "symbolic arrays.",
            "Write it with operators or jax.numpy, or give symbolic queries, keys and values.",
            _line_in(error.__traceback__) or line_of_function(stripped),
        ) from error
    if isinstance(y, Node):
        raise ArgumentError(
            f"{what} returns the symbolic {y!r}, and the queries are JAX arrays.",
            "Write it with operators or jax.numpy, or give symbolic queries, keys and values.",
            line_of_function(stripped),
        )
    if not isinstance(y, jax.Array | np.ndarray | np.generic | bool | int | float | complex):
        raise DTypeError(
            f"{what} returns {type(y).__name__}; expected a scalar.",
            "Return a number that is computed from its arguments.",
            line_of_function(stripped),
        )
    return jnp.asarray(y)


def captured_arrays(what: str, lifted: Lifted) -> tuple[Any, ...]:
    """Return the arrays that a function captures as arguments of JAX functions.

    Args:
        what: The function's name in messages.
        lifted: The function and its arrays.

    Raises:
        ArgumentError: If a captured array is symbolic, or not an array of numbers.
    """
    pairs = zip(lifted.stripped.names, lifted.leaves, strict=True)
    return tuple([as_argument(what, name, x) for name, x in pairs])


def as_argument(what: str, name: str, x: Any) -> Any:
    """Return a captured array as an argument of a JAX function, under its name in messages."""
    if isinstance(x, jax.Array):
        return x
    if isinstance(x, Runtime):  # a plain number is weak to JAX as well
        return x.number
    if isinstance(x, Node):
        raise ArgumentError(
            f"{what} captures `{name}`, which is symbolic ({x!r}), and the queries are JAX arrays.",
            "Give symbolic queries, keys and values, or capture an array that has values.",
        )
    try:
        array = np.asarray(x)
        copy = jnp.array(array)  # later changes of the array must not reach the program
    except TypeError as error:
        raise ArgumentError(
            f"{what} captures `{name}`, which is no array to JAX: {error}",
            "Capture arrays of numbers.",
        ) from error
    check_lossless(what, name, array)
    return copy


def check_lossless(what: str, name: str, x: Any) -> None:
    """Raise an error if JAX would change numbers, such as those that decided a mask's blocks.

    Without jax_enable_x64, JAX narrows 64-bit arrays. A mask function's floating numbers must stay
    the same too, a score function's need not.

    Raises:
        ArgumentError: If JAX's dtype does not hold the numbers.
    """
    if x.dtype.itemsize < 8 or x.dtype.kind not in ("iuf" if what == "mask_mod" else "iu"):
        return
    narrow = x.astype(jax.dtypes.canonicalize_dtype(x.dtype))
    if narrow.dtype == x.dtype or np.array_equal(narrow, x, equal_nan=x.dtype.kind == "f"):
        return
    remedy = "Number them from 0 on, as by numpy.unique(x, return_inverse=True)"
    if x.dtype.kind == "f":
        remedy = "Capture them in float32, x.astype('float32'), when you make the mask"
    raise ArgumentError(
        f"{what} captures `{name}` of {x.dtype}, whose numbers JAX's {narrow.dtype} does not hold.",
        f"{remedy}; or turn jax_enable_x64 on.",
    )


def _raise_needs_value(what: str, stripped: Stripped, error: Exception) -> NoReturn:
    text = str(error).strip().split("\n")[0].rstrip(".")
    raise SymbolicValueError(
        f"{what} needs the value of an array, which is not known while JAX traces it: {text}.",
        "Write jnp.where for a Python if, & and | for and and or, jnp for np; index arrays, not "
        "lists.",
        _line_in(error.__traceback__) or line_of_function(stripped),
    ) from error


def _line_in(traceback: TracebackType | None) -> str | None:
    """Return the innermost line of the user's code in a traceback."""
    line = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not is_own(traceback.tb_frame) and not is_library_file(code.co_filename):
            line = where((code, traceback.tb_lasti))
        traceback = traceback.tb_next
    return line
