"""Calls over a mesh: arguments are brought to its devices, and results are the user's mesh's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from graphc.link.backend import Executable
from graphc.link.call_spec import CallSpec
from graphc.link.jax.mesh import MOST_KNOWN, Home, Layout


class _Argument:
    """An argument of a call.

    Attributes:
        home: Where it is to be.
        is_static: Whether its value decides a shape, so that it stays on the host.
        is_compared: Whether processes have compared a value of it.
        shapes: Of NumPy arrays that the program takes as they are.
    """

    def __init__(
        self, place: int, layout: Layout, home: Home, name: Callable[[int], str], static: bool
    ) -> None:
        self.place = place
        self.layout = layout
        self.home = home
        self.name = name
        self.is_static = static
        self.is_compared = False
        self.shapes: set[tuple[int, ...]] = set()

    def __str__(self) -> str:
        return f"The {self.name(self.place)}"

    def placed(self, x: Any) -> Any:
        """Bring a value to its place.

        Raises:
            ShardingError: The user put it on other devices, a length cannot be divided, or the
                first value is not the same in all processes.
        """
        if isinstance(x, jax.core.Tracer):
            return x if self.is_static else self.home.constrained(x)
        if self.is_static:
            return np.asarray(x) if isinstance(x, jax.Array) else x
        if self.layout.takes_hosted and isinstance(x, np.ndarray):
            self.home.check(x, self)
            if len(self.shapes) >= MOST_KNOWN:
                self.shapes.clear()
            self.shapes.add(x.shape)
            return x
        self.home.refuse(x, self)
        if self.is_compared:
            return self.home.put(x, self)
        # Once tells a local batch from a whole one, and each time would cost as much as a call.
        self.is_compared = True
        return self.home.keep(x, self)


def on_mesh(
    execute: Executable, layout: Layout, spec: CallSpec, kind: Any, name: Callable[[int], str]
) -> Executable:
    """An executable whose arguments are brought to the mesh where they are not there yet.

    Args:
        execute: Takes arrays on the mesh.
        layout: The mesh.
        spec: How the program is called.
        kind: The class of JAX's arrays.
        name: Names an argument in messages, given its place.
    """
    homes = [layout.home(sharding) for sharding in spec.shardings]
    taken = [_Argument(i, layout, home, name, i in spec.static) for i, home in enumerate(homes)]
    known = [(home.known, argument.shapes) for home, argument in zip(homes, taken, strict=True)]
    finish = _finish(layout, kind)
    ambient = jax.sharding.get_abstract_mesh
    array = np.ndarray

    # All calls pass through this: each line costs.
    def call(*arguments: Any) -> Any:
        x: Any
        for x, (good, shapes) in zip(arguments, known, strict=True):
            if (
                x.sharding not in good
                if x.__class__ is kind
                else x.__class__ is not array or x.shape not in shapes
            ):
                with within(layout):
                    pairs = zip(taken, arguments, strict=True)
                    arguments = tuple([argument.placed(x) for argument, x in pairs])
                break
        if ambient().empty:
            return finish(execute(*arguments))
        with within(layout):
            found = execute(*arguments)
        return finish(found)

    return call


def _finish(layout: Layout, kind: Any) -> Callable[[Any], Any]:
    """A function from the results of a call to what it returns."""

    def wait(found: Any) -> Any:
        for y in _each(found):
            if y.__class__ is kind:  # else JAX traces it
                y.block_until_ready()
        return found

    def finish(found: Any) -> Any:
        found = found if layout.mesh is layout.given else layout.returned(found)
        return wait(found) if layout.waits else found

    return finish


def _each(results: Any) -> Sequence[Any]:
    return results if isinstance(results, list | tuple) else (results,)


@contextmanager
def within(layout: Layout) -> Iterator[None]:
    """A context in which JAX has this mesh where the user's code has set another one."""
    if jax.sharding.get_abstract_mesh().empty:
        yield
        return
    context: Any
    try:
        context = jax.set_mesh(layout.mesh)
    except ValueError:
        # JAX traces the call.
        context = jax.sharding.use_abstract_mesh(layout.mesh.abstract_mesh)
    with context:
        yield
