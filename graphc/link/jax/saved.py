"""JAX's executables as bytes, and back: without tracing anything, or knowing the program.

The bytes are JAX's own, which it reads with pickle: they must come from where only the user can
write. Before them stand the structure of the results and what the process must have ready.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pickle import PicklingError
from typing import Any

import jax
import numpy as np
from jax.experimental.serialize_executable import deserialize_and_load, serialize
from jax.tree_util import tree_structure, tree_unflatten

from graphc.errors import GraphcError
from graphc.link.jax.bounded import Count, Equal, Ragged

__all__ = ["Saved", "pack", "unpack"]

HEAD = 4
"""How many bytes say how long the header is."""

CUSTOM_CALL = re.compile(r"\bcustom_call(?: @(\w+))?")
"""In a lowered program's text, a function of a library that it calls."""

PRODUCT = re.compile(r"\b(?:dot_general|dot|convolution)\b")
"""Operations whose digits follow ``jax.default_matmul_precision``."""

Later = Callable[[int, int, int], GraphcError]
"""The error of a check, by the check's number, given two lengths that should be equal."""


@dataclass(frozen=True)
class Saved:
    """An executable that was loaded.

    Attributes:
        run: Takes arrays of the shapes, dtypes and device that it was compiled for.
        precise: Whether it depends on ``jax.default_matmul_precision``.
    """

    run: Callable[..., Any]
    precise: bool


def pack(lowered: jax.stages.Lowered, compiled: jax.stages.Compiled) -> bytes | None:
    """An executable as bytes; None where it is of use in this process alone.

    That is so of what calls back into Python, and of what calls a library's functions, unless that
    is LAPACK, which ``unpack`` makes ready.
    """
    arguments: Any
    results: Any
    text = lowered.as_text()
    called = CUSTOM_CALL.findall(text)
    if not all(name.startswith("lapack_") for name in called):
        return None
    try:
        payload, arguments, results = serialize(compiled)
    except (ValueError, TypeError, AttributeError, RuntimeError, PicklingError):
        return None  # JAX's errors, of all these kinds, where it or the device cannot do this
    head = json.dumps(
        {
            "arguments": arguments.num_leaves,
            "results": _described(tree_unflatten(results, range(results.num_leaves))),
            "lapack": bool(called),
            "precise": bool(called) or bool(PRODUCT.search(text)),
        }
    ).encode()
    return b"".join((len(head).to_bytes(HEAD, "little"), head, payload))


def unpack(data: bytes, device: Any, error: Later) -> Saved:
    """What ``pack`` gave, ready to run on that device.

    Raises:
        Exception: Of any kind, where this is not what ``pack`` gave for the device.
    """
    end = HEAD + int.from_bytes(data[:HEAD], "little")
    head = json.loads(data[HEAD:end])
    if head["lapack"]:
        _make_lapack_ready()
    arguments = tree_structure(((0,) * head["arguments"], {}))
    results = tree_structure(_like(head["results"], error))
    run = deserialize_and_load(
        data[end:], arguments, results, backend=device.client, execution_devices=[device]
    )
    return Saved(run, head["precise"])


@cache
def _make_lapack_ready() -> None:
    """JAX looks for LAPACK's functions when it lowers one of them; before, calling one crashes."""
    matrix = jax.ShapeDtypeStruct((1, 1), np.float32)  # type: ignore[no-untyped-call]
    jax.jit(jax.lax.linalg.cholesky).lower(matrix)


def _described(results: Any) -> dict[str, Any]:
    """The structure of results, which hold a number in the place of each array."""
    if isinstance(results, tuple):
        found, checks = results
        return {
            "bounded": [
                [y.axis, y.count.low, y.count.high] if isinstance(y, Ragged) else None
                for y in found
            ],
            "checks": [check.at_least for check in checks],
        }
    return {"list": len(results)} if isinstance(results, list) else {"single": True}


def _like(described: dict[str, Any], error: Later) -> Any:
    """Results of that structure."""
    if "bounded" in described:
        found = [_one_like(how) for how in described["bounded"]]
        checks = [
            Equal(0, 0, _error_of(i, error), at_least)
            for i, at_least in enumerate(described["checks"])
        ]
        return found, checks
    return [0] * described["list"] if "list" in described else 0


def _one_like(how: Sequence[int] | None) -> Any:
    return 0 if how is None else Ragged(0, Count(0, how[1], how[2]), how[0])


def _error_of(number: int, error: Later) -> Callable[[int, int], GraphcError]:
    return lambda a, b: error(number, a, b)
