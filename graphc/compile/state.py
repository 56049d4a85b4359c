"""The shared variables of a function: read, given away where that is safe, and replaced.

As with ``quick``, the code is written out for the variables there are: loops over them would cost
about as much as the backend's own call.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from graphc.compile.quick import code_of
from graphc.compile.shared import Shared, Store
from graphc.errors import ArgumentError
from graphc.ir import TensorType, here, where
from graphc.link import Backend, Executable, as_numpy

__all__ = ["stateful"]


def stateful(
    execute: Executable,
    shared: Mapping[Shared, TensorType],
    updates: Sequence[tuple[Shared, bool]],
    given_away: Collection[int],
    backend: Backend,
    options: Mapping[str, Any],
) -> Executable:
    """What executes with the shared variables' values, and puts their new ones in their place.

    Args:
        execute: Takes the arguments, the shared values and the leaves; gives the outputs, and
            after them the new values.
        shared: The variables, in the order in which all functions lock them, and the types that
            the program takes their values as.
        updates: Those that get new values, and whether each new value is nobody else's.
        given_away: The places of those whose buffers are reused.
        backend: Where the values live.
        options: Of the mode.

    Returns:
        Takes the arguments, and the leaves as ``leaves=``; gives the outputs.
    """
    count = range(len(shared))
    lines = [f"acquire{i}()" for i in count]
    lines.append("try:")
    types = list(shared.values())
    own = [backend.own_dtype(type) for type in types]
    for i in count:
        foreign = f"v{i}.__class__ is not kind"
        # A function of the same library may have left it in another dtype.
        foreign += "" if own[i] is types[i].numpy_dtype else f" or v{i}.dtype != o{i}"
        foreign += f" or not s{i}.owned" if i in given_away else ""
        lines += [f"    v{i} = s{i}.value", f"    if {foreign}: v{i} = present{i}()"]
    values = "".join(f"v{i}, " for i in count)
    lines.append(f"    results = execute(*args, {values}*leaves)")
    if updates:
        lines.append("    if results[-1].__class__ is not kind: traced()")
    places = {x: i for i, x in enumerate(shared)}
    for k, (x, fresh) in enumerate(updates):
        i, place = places[x], k - len(updates)
        lines.append(f"    s{i}.value = results[{place}]; s{i}.owned = {fresh}")
    lines.append(f"    return results[:-{len(updates)}]" if updates else "    return results")
    lines.append("finally:")
    lines += [f"    release{i}()" for i in count]
    source = "\n    ".join(["def call(*args, leaves=()):", *lines])
    namespace: dict[str, Any] = {
        "execute": execute,
        "kind": backend.kinds[-1],
        "traced": partial(_refuse_traced, backend),
    }
    for i, x in enumerate(shared):
        store = x.op.store
        namespace |= {
            f"s{i}": store,
            f"o{i}": own[i],
            f"acquire{i}": store.lock.acquire,
            f"release{i}": store.lock.release,
            f"present{i}": _Present(store, types[i], i in given_away, backend, options),
        }
    exec(code_of(source, "state"), namespace)
    call: Executable = namespace["call"]
    return call


def _refuse_traced(backend: Backend) -> None:
    raise ArgumentError(
        f"A function that updates shared variables was called while {backend.name} traces: the new "
        "values are not there yet.",
        "Call it outside of what is traced, compiled or transformed by the library, or return the "
        "new values as outputs.",
        where(here()),
    )


class _Present:
    """A variable's value in the backend's form, and nobody else's where it is given away."""

    def __init__(
        self,
        store: Store,
        type: TensorType,
        given_away: bool,
        backend: Backend,
        options: Mapping[str, Any],
    ) -> None:
        self.store = store
        self.type = type
        self.given_away = given_away
        self.backend = backend
        self.options = options

    def __call__(self) -> Any:
        store, backend, type = self.store, self.backend, self.type
        value = store.value
        if not isinstance(value, backend.kinds[-1]) or backend.dtype(value) != type.numpy_dtype:
            value = value if isinstance(value, backend.kinds) else as_numpy(value)
            store.value = backend.array(value, type, self.options)
            store.owned = True
        if self.given_away and not store.owned:
            return backend.array(backend.numpy(store.value), type, self.options)
        return store.value
