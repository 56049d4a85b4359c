"""Serialization of JAX's executables: they are loaded without tracing or knowing the program.

The bytes are JAX's own, which it reads with pickle, so they must come from a place where only the
user can write. A header before them has the structure of the results and what must be initialized.
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
from graphc.link.jax.bounded import Guard, LengthCheck, Ragged
from graphc.link.jax.counts import Count, as_json, from_json

LENGTH_BYTES = 4
"""The size of the header's length."""

CUSTOM_CALL = re.compile(r"\bcustom_call(?: @(\w+))?")
"""A call of a library's function, in a lowered program's text."""

SHARDINGS = frozenset({"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"})
"""The calls by which a program says how arrays are divided; the compiler replaces them."""

PRODUCT = re.compile(r"\b(?:dot_general|dot|convolution)\b")
"""Operations whose precision depends on ``jax.default_matmul_precision``."""

CheckError = Callable[[int, int, int], GraphcError]
"""Makes the error of a check, given its number and the two lengths that should be equal."""


@dataclass(frozen=True)
class LoadedExecutable:
    """An executable that was deserialized.

    Attributes:
        run: Takes arrays of the shapes, dtypes and device it was compiled for.
        precise: Whether it depends on ``jax.default_matmul_precision``.
    """

    run: Callable[..., Any]
    precise: bool


def pack(lowered: jax.stages.Lowered, compiled: jax.stages.Compiled) -> bytes | None:
    """Serialize an executable; None where it is of use in this process alone.

    That is so where it calls back into Python, or calls functions of another library than LAPACK,
    which ``unpack`` initializes.
    """
    arguments: Any
    results: Any
    text = lowered.as_text()
    called = [name for name in CUSTOM_CALL.findall(text) if name not in SHARDINGS]
    if not all(name.startswith("lapack_") for name in called):
        return None
    try:
        payload, arguments, results = serialize(compiled)
    except (ValueError, TypeError, AttributeError, RuntimeError, PicklingError):
        return None  # JAX raises any of these where it or the device cannot serialize
    head = json.dumps(
        {
            "arguments": arguments.num_leaves,
            "results": _structure(tree_unflatten(results, range(results.num_leaves))),
            "lapack": bool(called),
            "precise": bool(called) or bool(PRODUCT.search(text)),
        }
    ).encode()
    return b"".join((len(head).to_bytes(LENGTH_BYTES, "little"), head, payload))


def unpack(data: bytes, devices: Sequence[jax.Device], error: CheckError) -> LoadedExecutable:
    """Deserialize what ``pack`` gave, for a device or those of a mesh.

    Raises:
        Exception: Of any kind, where ``pack`` did not give these bytes for the devices.
    """
    end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little")
    head = json.loads(data[LENGTH_BYTES:end])
    if head["lapack"]:
        _initialize_lapack()
    arguments = tree_structure(((0,) * head["arguments"], {}))
    results = tree_structure(_with_structure(head["results"], error))
    run = deserialize_and_load(
        data[end:], arguments, results, backend=devices[0].client, execution_devices=devices
    )
    return LoadedExecutable(run, head["precise"])


@cache
def _initialize_lapack() -> None:
    """Make JAX load LAPACK, as it does when it lowers a call; an earlier call would crash."""
    matrix = jax.ShapeDtypeStruct((1, 1), np.float32)  # type: ignore[no-untyped-call]
    jax.jit(jax.lax.linalg.cholesky).lower(matrix)


def _structure(results: Any) -> dict[str, Any]:
    """The structure of results, which have a number in place of each array."""
    if isinstance(results, tuple):
        found, checks = results
        return {
            "bounded": [
                [_of_count(n) for n in y.counts] if isinstance(y, Ragged) else None for y in found
            ],
            "checks": [_of_check(check) for check in checks],
        }
    return {"list": len(results)} if isinstance(results, list) else {"single": True}


def _with_structure(structure: dict[str, Any], error: CheckError) -> Any:
    """Results of a structure, a number in place of each array."""
    if "bounded" in structure:
        found = [_placeholder(how) for how in structure["bounded"]]
        given = enumerate(structure["checks"])
        return found, [_check(how, _error_of(i, error)) for i, how in given]
    return [0] * structure["list"] if "list" in structure else 0


def _of_count(count: Count | None) -> Any:
    return count and [count.low, count.high, as_json(count.formula)]


def _placeholder(how: Sequence[Any] | None) -> Any:
    if how is None:
        return 0
    counts = [n and Count(0, n[0], n[1], from_json(n[2])) for n in how]
    return Ragged(0, tuple(counts))


def _of_check(check: LengthCheck | Guard) -> Any:
    if isinstance(check, Guard):
        return [check.at_least, as_json(check.a), as_json(check.b)]
    return [check.at_least]


def _check(how: Sequence[Any], error: Callable[[int, int], GraphcError]) -> Any:
    at_least, *formulas = how
    if not formulas:
        return LengthCheck(0, 0, error, at_least)
    a, b = map(from_json, formulas)
    assert a is not None
    assert b is not None
    return Guard(a, b, at_least)


def _error_of(number: int, error: CheckError) -> Callable[[int, int], GraphcError]:
    return lambda a, b: error(number, a, b)
