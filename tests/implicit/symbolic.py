"""Classes of implicit arrays as users write them, for tests of graphs, and what they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
from graphc.implicit import ImplicitArray, aux_field, register
from graphc.implicit.namespace import numpy_like
from graphc.implicit.treedef import Treedef, dtype_of, lengths_of
from graphc.ir import Graph, Node, TensorType
from graphc.link import as_numpy
from graphc.tensor.linalg.dot import DotGeneral
from tests.modes import uncompiled

__all__ = [
    "Coded",
    "Outer",
    "Table",
    "coded",
    "dense",
    "like",
    "outer",
    "shapes_in",
    "slope",
    "table",
    "values",
    "walk",
]

RANDOM = np.random.default_rng(7)


@dataclass(frozen=True, repr=False)
class Coded(ImplicitArray):
    """``codes * scale`` by columns: codes (\\*batch, m, n) of integers, scale (\\*batch, n)."""

    codes: Any
    scale: Any
    bits: int = aux_field(default=8)

    def check(self) -> None:
        columns = {lengths_of(x)[-1] for x in (self.codes, self.scale) if x is not None} - {None}
        if len(columns) > 1:
            raise ValueError(f"codes and scale have {columns} columns")

    @classmethod
    def spec(cls, shape: Any, dtype: Any, **options: Any) -> Any:
        scale = TensorType(dtype, (*shape[:-2], shape[-1]))
        return cls(TensorType("int8", shape), scale, **options)

    def materialize(self) -> Any:
        xp = numpy_like(self.codes, self.scale)
        return xp.cast(self.codes, dtype_of(self.scale)) * self.scale[..., None, :]


@register(DotGeneral)
def _product(x: Any, w: Coded, *, contract: Any, batch_axes: Any) -> Any:
    if w.ndim != 2 or contract != ((x.ndim - 1,), (0,)):
        return NotImplemented
    return (x @ gt.cast(w.codes, str(w.dtype))) * w.scale


@register(gt.multiply)
def _times(w: Coded, c: Any) -> Any:
    return NotImplemented if getattr(c, "ndim", 0) else Coded(w.codes, w.scale * c, w.bits)


@register(gt.multiply)
def _times_from_left(c: Any, w: Coded) -> Any:
    return _times(w, c)


@dataclass(frozen=True, repr=False)
class Outer(ImplicitArray):
    """``u`` times ``v``, stacks of such too; nothing handles it."""

    u: Any
    v: Any

    def materialize(self) -> Any:
        return self.u[..., :, None] * self.v[..., None, :]


@dataclass(frozen=True, repr=False)
class Table(ImplicitArray):
    """``u`` times ``v``, a matrix only; nothing handles it."""

    u: Any
    v: Any

    def materialize(self) -> Any:
        return self.u[:, None] * self.v


def coded(*shape: int, seed: int = 0, bits: int = 8) -> Coded:
    random = np.random.default_rng(seed)
    codes = random.integers(-8, 8, shape).astype(np.int8)
    return Coded(codes, random.normal(size=(*shape[:-2], shape[-1])), bits)


def outer(*shape: int, seed: int = 0) -> Outer:
    random = np.random.default_rng(seed)
    *batch, m, n = shape
    return Outer(random.normal(size=(*batch, m)), random.normal(size=(*batch, n)))


def table(m: int, n: int, seed: int = 0) -> Table:
    random = np.random.default_rng(seed)
    return Table(random.normal(size=m), random.normal(size=n))


def like(x: ImplicitArray, name: str | None = None) -> Any:
    """A symbolic input for such arrays."""
    treedef, leaves = Treedef.of(x)
    types = [TensorType(dtype_of(leaf), lengths_of(leaf)) for leaf in leaves]
    return gt.implicit(treedef.build(types), name=name)


def dense(x: Any) -> np.ndarray[Any, Any]:
    """What it stands for, by NumPy."""
    treedef, leaves = Treedef.of(x)
    found = treedef.build([as_numpy(leaf) for leaf in leaves])
    while isinstance(found, ImplicitArray):
        found = found.materialize()
    return np.asarray(found)


def walk(h: Any, *weights: Any) -> Any:
    """The states of a recurrent network with these weights, one a step."""
    states = []
    for u in weights:
        h = np.tanh(h @ u)
        states.append(h)
    return np.stack(states)


def values(outputs: Any, given: dict[Any, Any], mode: str = "NUMPY") -> Any:
    """What symbolic outputs are, given values of inputs."""
    f = graphc.function([*given], outputs, uncompiled(mode), returns="numpy")
    return f(*given.values())


def slope(f: Callable[..., Any], place: int, *at: Any) -> np.ndarray[Any, Any]:
    """The gradient of a function of arrays by one of them, by differences."""
    z = at[place]
    found = np.zeros_like(z)
    for i in np.ndindex(z.shape):
        e = np.zeros_like(z)
        e[i] = 1e-6
        sides = [f(*at[:place], z + s * e, *at[place + 1 :]) for s in (1, -1)]
        found[i] = (sides[0] - sides[1]) / 2e-6
    return found


def shapes_in(outputs: Sequence[Node], inputs: Sequence[Node]) -> set[tuple[int | None, ...]]:
    """The shapes of all arrays that a graph computes, those in its loops and branches too."""
    return _shapes(graphc.function([*inputs], [*outputs], "NUMPY", on_unused_input="ignore").graph)


def _shapes(graph: Graph) -> set[tuple[int | None, ...]]:
    found = set()
    for node in graph.nodes:
        if isinstance(node.type, TensorType) and node not in graph.inputs:
            found.add(node.type.shape)
        for held in node.op.graphs():
            found |= _shapes(held)
    return found
