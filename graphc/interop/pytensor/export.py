"""``to_pytensor``: graphc's arrays as variables of PyTensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

try:
    import pytensor
    import pytensor.tensor as pt
    from pytensor.tensor.sharedvar import TensorSharedVariable
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "graphc.interop.pytensor.to_pytensor needs PyTensor.\n"
        "Install it: pip install 'graphc[pymc]'.",
        name=error.name,
    ) from error

from graphc.compile.arguments import goes_into, is_weak, shown
from graphc.compile.mode import Mode, get_mode
from graphc.compile.shared import Shared
from graphc.errors import ArgumentError, DTypeError, UnusedInputError
from graphc.implicit.expand import expanded
from graphc.implicit.node import ImplicitTensor
from graphc.implicit.policy import enforce_policy
from graphc.interop.pytensor import rewrites as rewrites, variables
from graphc.interop.pytensor.operation import applied, own_type
from graphc.interop.pytensor.variables import LinkedStore, is_variable
from graphc.ir import (
    Constant,
    Input,
    Leaf,
    Node,
    Wrapper,
    all_read,
    flatten,
    rebuild,
    toposort,
    unwrapped,
)
from graphc.tensor.core.tensor import FILL, Tensor, holds_mask


def to_pytensor(
    tensors: Any,
    givens: Mapping[Any, Any] | None = None,
    *,
    shared: Literal["linked", "copied"] = "linked",
    mode: str | Mode | None = None,
) -> Any:
    """graphc's arrays as variables of PyTensor, to stand in its graphs and in PyMC's models.

    They are the outputs of one operation, which runs graphc's graph by ``mode``; PyTensor's JAX
    linker compiles it with the rest, and modes of graphc rewrite it with the rest. Its derivatives,
    of any order, are graphc's. It may hold whatever a graph may: loops, implicit arrays, attention.

    An input that no value is given for is a variable without a value, the same one in each
    conversion; what ``from_pytensor`` made of a variable is that variable again.

    Args:
        tensors: An array, or a nested list, tuple or dict of arrays.
        givens: Values of inputs, of shared variables or of other parts of the graph: PyTensor's
            variables, numbers or arrays.
        shared: ``"linked"``: a shared variable has one value in both libraries, which from then on
            lies in PyTensor's memory. ``"copied"``: PyTensor's begins with a copy. A default
            update becomes PyTensor's, so that keys of random streams advance there too.
        mode: Where it runs: ``"JAX"``, ``"MLX"``, ``"NUMPY"`` or a ``graphc.Mode``; ``config.mode``
            by default.

    Returns:
        Variables, in the same containers.

    Raises:
        ArgumentError: What is no symbolic array, or a value that is no array; an unknown
            ``shared``.
        UnusedInputError: No array depends on what a value is given for.
        DTypeError: A value of another dtype, or an array of a dtype that PyTensor lacks.
        ShapeError: A value of another rank, or of another static length.

    Example:
        >>> import graphc.tensor as gt, pytensor, pytensor.tensor as pt
        >>> from graphc.interop.pytensor import to_pytensor
        >>> x, a = gt.vector("x"), pt.scalar("a")
        >>> y = to_pytensor((gt.exp(x) ** 2).sum(), {x: a * pt.arange(3)}, mode="NUMPY")
        >>> f = pytensor.function([a], [y, pt.grad(y, a)])
        >>> [round(float(value), 3) for value in f(0.5)]
        [11.107, 34.993]
    """
    if shared not in {"linked", "copied"}:
        raise ArgumentError(f"to_pytensor: shared={shared!r}.", 'Expected "linked" or "copied".')
    outputs = [_output(y) for y in flatten(tensors)]
    given = {_part(x): value for x, value in dict(givens or {}).items()}
    _check_used(given, outputs)
    conversion = _Conversion(given, linked=shared == "linked", mode=get_mode(mode))
    return rebuild(tensors, conversion.outputs(outputs))


class _Conversion:
    """One call of ``to_pytensor``: what stands for parts of graphs, and how it treats them."""

    def __init__(self, given: Mapping[Node, Any], *, linked: bool, mode: Mode) -> None:
        self.linked = linked
        self.mode = mode
        self.done: dict[Node, Any] = {x: _value(x, value) for x, value in given.items()}

    def outputs(self, wanted: Sequence[Node]) -> list[Any]:
        """The variables for arrays; all that are computed come from one operation."""
        self._add_roots(wanted)
        computed = [y for y in dict.fromkeys(wanted) if y not in self.done]
        ins = sorted(self.done, key=lambda x: x.serial)
        dense = [_dense(y, x) for y, x in zip(computed, expanded(computed, ins), strict=True)]
        made = applied(ins, dense, [self.done[x] for x in ins], self.mode)
        for y, variable in zip(computed, made, strict=True):
            variable.name = y.name
        found = dict(zip(computed, made, strict=True))
        return [found[y] if y in found else self.done[y] for y in wanted]

    def _add_roots(self, wanted: Sequence[Node]) -> None:
        """Enter a variable for each input and each shared variable."""
        needed = toposort(wanted, self.done)
        roots = [x for x in needed if isinstance(x.op, Input)]
        for x in roots:
            self.done[x] = self._root(x)
        for x in roots:
            if x.op.default_update is not None and self.done[x].default_update is None:  # type: ignore[attr-defined]
                (self.done[x].default_update,) = self.outputs([x.op.default_update])  # type: ignore[attr-defined]

    def _root(self, x: Node) -> Any:
        known = variables.counterpart(x)
        if known is not None and (self.linked or not isinstance(x, Shared)):
            return known
        made = own_type(x.type)(x.name) if not isinstance(x, Shared) else self._shared(x)
        if self.linked or not isinstance(x, Shared):
            variables.note(variables.known, made, x)
        return made

    def _shared(self, x: Shared) -> Any:
        store = x.op.store
        if self.linked and isinstance(store, LinkedStore):
            # PyTensor's variable is gone, and functions of it may be left.
            kind = own_type(x.type)
            return TensorSharedVariable(kind, None, None, container=store.container, name=x.name)
        made = pytensor.shared(x.get_value(), x.name, shape=x.type.shape)
        if self.linked:
            variables.link(store, made.container)
        return made


def _check_used(given: Mapping[Node, Any], outputs: Sequence[Node]) -> None:
    """Raise where values are given for what no output reads, as it was written."""
    used = {x for node in toposort(outputs, given) for x in node.inputs}.union(outputs)
    unused = [x for x in given if x not in used | all_read(outputs)]
    if unused:
        raise UnusedInputError(
            f"to_pytensor: givens has {unused[0]!r}, which no array depends on.", "Leave it out."
        )


def _output(y: Any) -> Tensor:
    """An array that may become a variable."""
    if isinstance(y, Wrapper):
        raise ArgumentError(
            f"to_pytensor: {y!r} has names of axes, which variables lack.", "Give its .values."
        )
    if not isinstance(y, Tensor):
        raise ArgumentError(
            f"to_pytensor: {y!r} is no symbolic array.",
            "Give what graphc.function would take as outputs, before it is compiled.",
        )
    return y


def _part(x: Any) -> Node:
    """A part of a graph that may have a value."""
    x = unwrapped(x)
    if isinstance(x, ImplicitTensor):
        raise ArgumentError(
            f"to_pytensor: givens has the implicit {x!r}, which is no variable of PyTensor.",
            "Give values of its fields: x.array has them.",
        )
    if not isinstance(x, Tensor) or isinstance(x.op, Constant | Leaf):
        raise ArgumentError(
            f"to_pytensor: givens has {x!r}, which is no input or other part of a graph.",
            "Give {graphc's input: PyTensor's variable}.",
        )
    return x


def _value(x: Node, value: Any) -> Any:
    """A variable for a part of a graph, given one, or a number or an array."""
    if is_variable(value):
        return value
    if isinstance(value, Node | Wrapper):
        raise ArgumentError(
            f"to_pytensor: givens has {value!r} for {x!r}, which is graphc's.",
            "Give PyTensor's variable, or replace it before: graphc.clone_replace(y, {x: value}).",
        )
    if holds_mask(value):
        raise ArgumentError(f"to_pytensor: givens has a masked array for {x!r}.", FILL)
    array = np.asarray(value)
    if not goes_into(array, x.type, is_weak(value)):
        raise DTypeError(
            f"to_pytensor: givens has {shown(value)} for {x!r}.",
            f"Cast it: value.astype({x.type.dtype!r}).",
        )
    return pt.constant(array.astype(x.type.dtype))


def _dense(y: Node, made: Node) -> Node:
    """An array as PyTensor's are: an implicit one becomes whole, as far as the policy allows."""
    if not isinstance(made, ImplicitTensor):
        return y
    enforce_policy(made.array, "to_pytensor", y.where)
    return made.dense()
