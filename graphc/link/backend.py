"""The contract of a backend: a name, its arrays, how it compiles, a lowering for each operation.

A backend is a folder beside this file; its name in capitals is the mode. Every file of the folder
is imported when the mode is first used, and enters its lowerings then.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from graphc.errors import ModeError, UnsupportedOperationError
from graphc.ir import Check, Constant, Graph, Node, Op, Pick, TensorType, here, where
from graphc.link.checks import equal_lengths
from graphc.tensor.elementwise import Elementwise
from graphc.tensor.shape import Length, Shape

if TYPE_CHECKING:
    from graphc.link.program import Program

__all__ = ["Backend", "Executable", "load", "names"]

F = TypeVar("F", bound=Callable[..., Any])

Executable = Callable[..., Any]
"""Takes the graph's inputs and leaves as the backend's arrays, and gives the outputs in a list; of
a program with a single output, that output."""


@dataclass(frozen=True)
class Backend:
    """Where graphs run.

    Attributes:
        name: What ``mode=`` calls it.
        array: An array of any kind as this backend's, of that type; a copy unless it is its own.
        numpy: One of the backend's arrays as a NumPy array.
        compile: Turns a program into what runs; takes the options of the mode and the arguments
            whose buffers may be reused.
        kinds: The classes of arrays that it takes as they are.
        eager: Values are at hand while the program runs, so that shapes may depend on them.
        describe: The device and versions in a line, given the options.
        options: The options that a mode may have.
        gains: Names of rules that are optional, and pay here.
    """

    name: str
    array: Callable[[Any, TensorType, Mapping[str, Any]], Any]
    numpy: Callable[[Any], Any]
    compile: Callable[[Program, Mapping[str, Any], tuple[int, ...]], Executable]
    kinds: tuple[type, ...]
    eager: bool
    describe: Callable[[Mapping[str, Any]], str]
    options: frozenset[str] = frozenset()
    gains: frozenset[str] = frozenset()
    # Several results are a tuple on every backend.
    lowerings: dict[Any, Callable[..., Any]] = field(default_factory=lambda: {Pick: Pick.perform})

    def lower(self, *ops: type[Op] | Elementwise) -> Callable[[F], F]:
        """Enter the decorated function as the lowering of these operations.

        It takes the operation and the inputs' values. A subclass without a lowering of its own
        has its parent's.
        """

        def enter(f: F) -> F:
            for op in ops:
                self.lowerings[op] = f
            return f

        return enter

    def lowering(self, op: Op) -> Callable[..., Any] | None:
        """What computes that operation here, given it and the inputs' values."""
        if isinstance(op, Elementwise) and op in self.lowerings:
            return self.lowerings[op]
        for cls in type(op).__mro__:
            if cls in self.lowerings:
                return self.lowerings[cls]
        return None

    def bind(self, node: Node) -> Callable[..., Any]:
        """What computes a node, given the values of its inputs."""
        found = self.lowering(node.op)
        assert found is not None, node
        return partial(found, node.op)

    def around(
        self, node: Node, compute: Callable[..., Any], *, on_host: bool
    ) -> Callable[..., Any]:
        """What computes a node, given what does where all lengths are known."""
        return compute

    def equal_lengths(self, node: Node, check: Check, operands: Sequence[Any]) -> None:
        """Raise where two lengths that must be equal are not, while a program is traced."""
        equal_lengths(node, check, operands)

    def callback(self, node: Node) -> Callable[..., Any]:
        """What computes a node by its NumPy reference, for ``fallback="numpy"``."""
        raise UnsupportedOperationError(
            f"mode={self.name!r} can't call NumPy for {node!r}.", "Use mode='NUMPY'.", node.where
        )

    def missing(self, graph: Graph, elsewhere: Container[Node] = ()) -> list[Node]:
        """The nodes of operations that have no lowering here, but for those computed elsewhere.

        So too in the graphs that operations hold.
        """
        passed = {*graph.inputs, *graph.leaves}
        found: list[Node] = []
        for node in graph.nodes:
            if node in passed or node in elsewhere or isinstance(node.op, Constant):
                continue
            if self.lowering(node.op) is None:
                found.append(node)
            inside = [inner for held in node.op.graphs() for inner in self.missing(held)]
            # A length is known wherever a backend traces.
            found += [inner for inner in inside if not isinstance(inner.op, Length | Shape)]
        return found

    def check(self, graph: Graph, elsewhere: Container[Node] = ()) -> None:
        """Raise where operations have no lowering: all of them, with the user's lines.

        Raises:
            UnsupportedOperationError: Names them.
        """
        missing = self.missing(graph, elsewhere)
        if missing:
            lines = sorted({f"  {node.op.name}   {node.where or ''}".rstrip() for node in missing})
            raise UnsupportedOperationError(
                f"mode={self.name!r} has no lowering for:\n" + "\n".join(lines),
                f"Write one with @backend.lower(...), run them by NumPy with Mode({self.name!r}, "
                "fallback='numpy'), or use mode='NUMPY'.",
            )


_loaded: dict[str, Backend] = {}
_lock = threading.Lock()


def names() -> list[str]:
    """The backends there are."""
    here = Path(__file__).parent
    return sorted(m.name.upper() for m in pkgutil.iter_modules([str(here)]) if m.ispkg)


def load(name: str) -> Backend:
    """The backend of that name, with every lowering of its folder.

    Raises:
        ModeError: No such backend, or its library is not installed.
    """
    known = _loaded.get(name)
    if known is not None:
        return known
    if name not in names():
        raise ModeError(
            f"mode={name!r} names no backend.", f"There are {', '.join(names())}.", where(here())
        )
    package = f"graphc.link.{name.lower()}"
    with _lock:
        try:
            folder = importlib.import_module(package)
            for module in pkgutil.iter_modules(folder.__path__):
                importlib.import_module(f"{package}.{module.name}")
        except ModuleNotFoundError as error:
            if error.name is not None and error.name.startswith("graphc"):
                raise
            raise ModeError(
                f"mode={name!r} needs the package {error.name}, which is not installed.",
                f"Install it: pip install {error.name}.",
            ) from error
        found: Backend = importlib.import_module(f"{package}.backend").backend
        _loaded[name] = found
    return found
