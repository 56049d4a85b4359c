"""Serialization of JAX's executables, which are loaded without a trace or the program.

JAX reads its bytes with pickle, so they must come from a folder where only the user can write. A
header before them has the structure of the results and the libraries that must be initialized.
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
"""A call of a library function, in the text of a lowered program."""

SHARDINGS = frozenset({"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"})
"""The calls that declare shardings; the compiler replaces them."""

PRODUCT = re.compile(r"\b(?:dot_general|dot|convolution)\b")
"""Operations whose precision depends on ``jax.default_matmul_precision``."""

CheckError = Callable[[int, int, int], GraphcError]
"""Creates the error of a check, given its number and the two lengths that should be equal."""


@dataclass(frozen=True)
class LoadedExecutable:
    """A deserialized executable.

    Attributes:
        run: A function of arrays with the shapes, dtypes and device of the executable.
        precise: Whether the executable depends on ``jax.default_matmul_precision``.
    """

    run: Callable[..., Any]
    precise: bool


def pack(lowered: jax.stages.Lowered, compiled: jax.stages.Compiled) -> bytes | None:
    """Serialize an executable; return None if only this process can run it.

    Other processes cannot run an executable that calls back into Python, or that calls a library
    other than LAPACK, which ``unpack`` initializes.
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
        return None  # JAX raises any of these if it or the device cannot serialize
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
    """Deserialize the bytes of ``pack`` for a device, or for the devices of a mesh.

    Raises:
        Exception: Of any kind, if the bytes are not from ``pack`` for these devices.
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
    """Make JAX load LAPACK, as JAX does when it lowers a call; an earlier call would crash."""
    matrix = jax.ShapeDtypeStruct((1, 1), np.float32)  # type: ignore[no-untyped-call]
    jax.jit(jax.lax.linalg.cholesky).lower(matrix)


def _structure(results: Any) -> dict[str, Any]:
    """Describe the structure of results, a pytree with a number instead of each array."""
    if isinstance(results, tuple):
        ys, checks = results
        return {
            "bounded": [
                [_count_to_json(n) for n in y.counts] if isinstance(y, Ragged) else None for y in ys
            ],
            "checks": [_check_to_json(check) for check in checks],
        }
    return {"list": len(results)} if isinstance(results, list) else {"single": True}


def _with_structure(structure: dict[str, Any], error: CheckError) -> Any:
    """Return results with a structure, a number instead of each array."""
    if "bounded" in structure:
        ys = [_placeholder(counts) for counts in structure["bounded"]]
        checks = enumerate(structure["checks"])
        return ys, [_check_from_json(fields, _error_of(i, error)) for i, fields in checks]
    return [0] * structure["list"] if "list" in structure else 0


def _count_to_json(count: Count | None) -> Any:
    return count and [count.low, count.high, as_json(count.formula)]


def _placeholder(counts: Sequence[Any] | None) -> Any:
    if counts is None:
        return 0
    return Ragged(0, tuple([n and Count(0, n[0], n[1], from_json(n[2])) for n in counts]))


def _check_to_json(check: LengthCheck | Guard) -> Any:
    if isinstance(check, Guard):
        return [check.at_least, as_json(check.a), as_json(check.b)]
    return [check.at_least]


def _check_from_json(fields: Sequence[Any], error: Callable[[int, int], GraphcError]) -> Any:
    at_least, *formulas = fields
    if not formulas:
        return LengthCheck(0, 0, error, at_least)
    a, b = map(from_json, formulas)
    assert a is not None
    assert b is not None
    return Guard(a, b, at_least)


def _error_of(number: int, error: CheckError) -> Callable[[int, int], GraphcError]:
    return lambda a, b: error(number, a, b)
