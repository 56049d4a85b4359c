"""The shortest way from a call to the compiled program.

A call costs a few microseconds, most of them in the backend; a loop over the arguments in Python
would add half as much again. So each function gets a class whose ``__call__`` is written out for
its number of inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from graphc.errors import GraphcError
from graphc.ir import INTERNAL

__all__ = ["code_of", "quick"]


@lru_cache(1024)
def code_of(source: str, what: str) -> CodeType:
    """Generated source text as code: functions of equal signature share it."""
    return compile(source, f"{INTERNAL}{what}>", "exec")


def quick(
    base: type,
    dtypes: Sequence[tuple[Any, Any]],
    kinds: frozenset[type],
    execute: Callable[..., Any],
) -> type:
    """A subclass whose calls go straight to ``execute``.

    That is where each argument is one of the backend's kinds of array and of its input's dtype;
    all other calls are the base's.

    Args:
        base: The class of functions.
        dtypes: NumPy's dtype of each input, and the backend's own, which may be the same.
        kinds: The classes of arrays taken as they are.
        execute: Takes an array for each input.
    """
    names = [f"a{i}" for i in range(len(dtypes))]
    right = []
    for i, (a, (dtype, own)) in enumerate(zip(names, dtypes, strict=True)):
        # NumPy's dtypes are one object each; other libraries make theirs anew for every array.
        of_own = "" if own is dtype else f" or {a}.dtype == o{i}"
        right.append(f"{a}.__class__ in kinds and ({a}.dtype is d{i}{of_own})")
    # Parameters by position only leave every name free for an input: self, a0.
    source = f"""
def __call__(self, {"".join(f"{a}=absent, " for a in names)}/, *rest, **named):
    if {" and ".join([*right, "not rest", "not named"])}:
        try:
            return execute({", ".join(names)})
        except GraphcError as error:
            raise self._told(error, ({"".join(f"{a}, " for a in names)})) from error.__cause__
    args = [a for a in ({"".join(f"{a}, " for a in names)}) if a is not absent]
    return base.__call__(self, *args, *rest, **named)
"""
    namespace: dict[str, Any] = {
        "GraphcError": GraphcError,
        "absent": object(),
        "base": base,
        "execute": execute,
        "kinds": kinds,
        **{f"d{i}": dtype for i, (dtype, _) in enumerate(dtypes)},
        **{f"o{i}": own for i, (_, own) in enumerate(dtypes)},
    }
    exec(code_of(source, "quick call"), namespace)
    members = {
        "__call__": namespace["__call__"],
        "__doc__": base.__doc__,
        "__module__": base.__module__,
    }
    return type(base.__name__, (base,), members)
