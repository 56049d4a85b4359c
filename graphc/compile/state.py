"""The shared variables of a function: read, given away where that is safe, and replaced."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from graphc.compile.shared import Shared
from graphc.link import Backend, Executable

__all__ = ["stateful"]


def stateful(
    execute: Executable,
    shared: Sequence[Shared],
    updates: Sequence[tuple[Shared, bool]],
    given_away: Collection[int],
    backend: Backend,
    options: Mapping[str, Any],
) -> Executable:
    """What executes with the shared variables' values, and puts their new ones in their place.

    Args:
        execute: Takes the arguments, the shared values and the leaves; gives the outputs, and
            after them the new values.
        shared: The variables, in the order in which all functions lock them.
        updates: Those that get new values, and whether each new value is nobody else's.
        given_away: The places of those whose buffers are reused.
        backend: Where the values live.
        options: Of the mode.

    Returns:
        Takes the arguments, and the leaves as ``leaves=``; gives the outputs.
    """
    stores = [x.op.store for x in shared]
    replaced = [(x.op.store, fresh) for x, fresh in updates]
    kind = backend.kinds[-1]
    places = [(x, x.op.store, i in given_away) for i, x in enumerate(shared)]

    def call(*args: Any, leaves: Sequence[Any] = ()) -> Any:
        for store in stores:
            store.lock.acquire()
        try:
            values = [
                store.value
                if store.value.__class__ is kind and (store.owned or not given)
                else _present(variable, given, backend, options)
                for variable, store, given in places
            ]
            results = execute(*args, *values, *leaves)
            if not replaced:
                return results
            n = len(results) - len(replaced)
            for (store, fresh), value in zip(replaced, results[n:], strict=True):
                store.value = value
                store.owned = fresh
            return results[:n]
        finally:
            for store in stores:
                store.lock.release()

    return call


def _present(
    variable: Shared, given_away: bool, backend: Backend, options: Mapping[str, Any]
) -> Any:
    """A value in the backend's form, and nobody else's where it is given away."""
    store = variable.op.store
    if not isinstance(store.value, backend.kinds[-1]):
        store.value = backend.array(store.value, variable.type, options)
        store.owned = True
    if given_away and not store.owned:
        return backend.array(backend.numpy(store.value), variable.type, options)
    return store.value
