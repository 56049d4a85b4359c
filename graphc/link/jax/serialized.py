"""Serialization of JAX's executables, which are loaded without a trace or the program.

JAX reads its bytes with pickle, so they must come from a folder where only the user can write. A
header before them has the structure of the results and the libraries that must be initialized.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import jax
import numpy as np
from jax.experimental.serialize_executable import deserialize_and_load, serialize
from jax.tree_util import tree_structure, tree_unflatten

from graphc.errors import GraphcError
from graphc.link.padding.program import PaddedResults

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
    """A deserialized executable; ``precise`` if it depends on ``jax.default_matmul_precision``."""

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
        structure = tree_unflatten(results, range(results.num_leaves))
        head = pickle.dumps(
            {
                "arguments": arguments.num_leaves,
                # The traced program has the errors, which are functions.
                "results": _with_errors(structure, lambda i: i),
                "lapack": bool(called),
                "precise": bool(called) or bool(PRODUCT.search(text)),
            }
        )
    except (ValueError, TypeError, AttributeError, RuntimeError, pickle.PicklingError):
        # JAX raises any of these if it or the device cannot serialize; a RecursionError, which is
        # a RuntimeError, comes from formulas of lengths in formulas.
        return None
    return b"".join((len(head).to_bytes(LENGTH_BYTES, "little"), head, payload))


def unpack(data: bytes, devices: Sequence[jax.Device], error: CheckError) -> LoadedExecutable:
    """Deserialize the bytes of ``pack`` for a device, or for the devices of a mesh.

    Raises:
        Exception: Of any kind, if the bytes are not from ``pack`` for these devices.
    """
    end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little")
    head = pickle.loads(data[LENGTH_BYTES:end])
    if head["lapack"]:
        _initialize_lapack()
    arguments = tree_structure(((0,) * head["arguments"], {}))
    results = tree_structure(_with_errors(head["results"], partial(partial, error)))
    run = deserialize_and_load(
        data[end:], arguments, results, backend=devices[0].client, execution_devices=devices
    )
    return LoadedExecutable(run, head["precise"])


@cache
def _initialize_lapack() -> None:
    """Make JAX load LAPACK, as JAX does when it lowers a call; an earlier call would crash."""
    matrix = jax.ShapeDtypeStruct((1, 1), np.float32)  # type: ignore[no-untyped-call]
    jax.jit(jax.lax.linalg.cholesky).lower(matrix)


def _with_errors(results: Any, error: Callable[[int], Any]) -> Any:
    """Return results with the error of each comparison that has one, given its number."""
    if not isinstance(results, PaddedResults):
        return results
    comparisons = [
        c if c.error is None else replace(c, error=error(i))
        for i, c in enumerate(results.comparisons)
    ]
    return replace(results, comparisons=tuple(comparisons))
