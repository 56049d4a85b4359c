"""Calls over a mesh: arguments are transferred to its devices, results are over the user's mesh."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from graphc.link.backend import Executable
from graphc.link.call_spec import CallSpec
from graphc.link.jax.mesh import MAX_ACCEPTED, MeshHome, MeshLayout


class _Argument:
    """An argument of a call.

    Attributes:
        home: The sharding that the argument must have.
        is_static: Whether its value decides a shape, so that it stays on the host.
        is_compared: Whether processes have compared a value of the argument.
        shapes: The shapes of NumPy arrays that the program accepted.
    """

    def __init__(
        self,
        position: int,
        layout: MeshLayout,
        home: MeshHome,
        name: Callable[[int], str],
        static: bool,
    ) -> None:
        self.position = position
        self.layout = layout
        self.home = home
        self.name = name
        self.is_static = static
        self.is_compared = False
        self.shapes: set[tuple[int, ...]] = set()

    def __str__(self) -> str:
        return f"The {self.name(self.position)}"

    def put(self, x: Any) -> Any:
        """Transfer a value to the sharding of the argument.

        Raises:
            ShardingError: If the user put the value on other devices, if the axes of the mesh do
                not divide a length, or if processes give different first values.
        """
        if isinstance(x, jax.core.Tracer):
            return x if self.is_static else self.home.constrain(x)
        if self.is_static:
            return np.asarray(x) if isinstance(x, jax.Array) else x
        if self.layout.takes_numpy and isinstance(x, np.ndarray):
            self.home.check(x, self)
            if len(self.shapes) >= MAX_ACCEPTED:
                self.shapes.clear()
            self.shapes.add(x.shape)
            return x
        self.home.check_devices(x, self)
        if self.is_compared:
            return self.home.put(x, self)
        # One comparison detects a local batch; a comparison costs as much as a call.
        self.is_compared = True
        return self.home.keep(x, self)


def on_mesh(
    execute: Executable, layout: MeshLayout, spec: CallSpec, kind: Any, name: Callable[[int], str]
) -> Executable:
    """Wrap an executable so that its arguments are transferred to the mesh if necessary.

    Messages name an argument by ``name`` of its position; ``kind`` is the class of JAX's arrays.
    """
    homes = [layout.home(sharding) for sharding in spec.shardings]
    expected = [_Argument(i, layout, home, name, i in spec.static) for i, home in enumerate(homes)]
    accepted = [(home.known, x.shapes) for home, x in zip(homes, expected, strict=True)]
    finish = _finish(layout, kind)
    ambient = jax.sharding.get_abstract_mesh
    array = np.ndarray

    # Every call runs this function: each line costs.
    def call(*arguments: Any) -> Any:
        x: Any
        for x, (shardings, shapes) in zip(arguments, accepted, strict=True):
            if (
                x.sharding not in shardings
                if x.__class__ is kind
                else x.__class__ is not array or x.shape not in shapes
            ):
                with mesh_context(layout):
                    pairs = zip(expected, arguments, strict=True)
                    arguments = tuple([argument.put(x) for argument, x in pairs])
                break
        if ambient().empty:
            return finish(execute(*arguments))
        with mesh_context(layout):
            results = execute(*arguments)
        return finish(results)

    return call


def _finish(layout: MeshLayout, kind: Any) -> Callable[[Any], Any]:
    """Return a function that prepares the results of a call for the user."""

    def wait(results: Any) -> Any:
        for y in results if isinstance(results, list | tuple) else (results,):
            if y.__class__ is kind:  # not a tracer
                y.block_until_ready()
        return results

    def finish(results: Any) -> Any:
        results = results if layout.mesh is layout.user_mesh else layout.to_user_mesh(results)
        return wait(results) if layout.waits else results

    return finish


@contextmanager
def mesh_context(layout: MeshLayout) -> Iterator[None]:
    """Set JAX's mesh to the layout's in this context, if the user's code has set another one."""
    if jax.sharding.get_abstract_mesh().empty:
        yield
        return
    context: Any
    try:
        context = jax.set_mesh(layout.mesh)
    except ValueError:
        # jax.set_mesh does not work while JAX traces the call.
        context = jax.sharding.use_abstract_mesh(layout.mesh.abstract_mesh)
    with context:
        yield
