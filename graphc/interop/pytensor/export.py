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

from graphc import ir
from graphc.compile.arguments import goes_into, is_weak, shown
from graphc.compile.mode import Mode, get_mode
from graphc.compile.shared import Shared
from graphc.errors import ArgumentError, DTypeError, UnusedInputError
from graphc.implicit.expand import expanded
from graphc.implicit.node import ImplicitTensor
from graphc.implicit.policy import enforce_policy
from graphc.interop.pytensor import rewrites as rewrites, variables
from graphc.interop.pytensor.operation import apply_graph, pytensor_type
from graphc.interop.pytensor.variables import LinkedValue, is_variable
from graphc.tensor.core.tensor import FILL, Tensor, holds_mask


def to_pytensor(
    tensors: Any,
    givens: Mapping[Any, Any] | None = None,
    *,
    shared: Literal["linked", "copied"] = "linked",
    mode: str | Mode | None = None,
) -> Any:
    """Convert graphc's arrays to PyTensor variables, for its graphs and PyMC's models.

    The variables are the outputs of one operation, which runs graphc's graph by ``mode``;
    PyTensor's JAX linker and modes of graphc compile the graph with the rest. Derivatives of any
    order are graphc's. The graph may hold loops, implicit arrays and attention.

    An input without a given value becomes a variable without a value, the same one in each
    conversion. An array that ``from_pytensor`` made of a variable becomes that variable again.

    Args:
        tensors: An array, or a nested list, tuple or dict of arrays.
        givens: Values of inputs, of shared variables or of other nodes: PyTensor variables,
            numbers or arrays.
        shared: ``"linked"``: a shared variable has one value in both libraries, which from then on
            lies in PyTensor's memory. ``"copied"``: PyTensor's variable begins with a copy. A
            default update becomes PyTensor's, so that keys of random streams advance there too.
        mode: Where the graph runs: ``"JAX"``, ``"MLX"``, ``"NUMPY"`` or a ``graphc.Mode`` (default:
            ``config.mode``).

    Returns:
        Variables, in the same containers.

    Raises:
        ArgumentError: If there is no symbolic array where one is expected, a value is no array, or
            ``shared`` is unknown.
        UnusedInputError: If a value is given for a node that no array depends on.
        DTypeError: If a value has another dtype, or PyTensor lacks the dtype of an array.
        ShapeError: If a value has another rank or another static length.

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
    outputs = [_as_output(y) for y in ir.flatten(tensors)]
    values = {_replaceable_node(x): value for x, value in dict(givens or {}).items()}
    _check_givens(values, outputs)
    conversion = _Conversion(values, linked=shared == "linked", mode=get_mode(mode))
    return ir.rebuild(tensors, conversion.outputs(outputs))


class _Conversion:
    """One call of ``to_pytensor``: variables for nodes, and how shared variables are treated."""

    def __init__(self, values: Mapping[ir.Node, Any], *, linked: bool, mode: Mode) -> None:
        self.linked = linked
        self.mode = mode
        self.done: dict[ir.Node, Any] = {x: _as_variable(x, value) for x, value in values.items()}

    def outputs(self, wanted: Sequence[ir.Node]) -> list[Any]:
        """Return the variables for arrays; all computed ones come from one operation."""
        self._add_root_variables(wanted)
        computed = [y for y in dict.fromkeys(wanted) if y not in self.done]
        ins = [*self.done]
        dense = [_densify(y, x) for y, x in zip(computed, expanded(computed, ins), strict=True)]
        applied = apply_graph(ins, dense, [self.done[x] for x in ins], self.mode)
        for y, variable in zip(computed, applied, strict=True):
            variable.name = y.name
        by_node = dict(zip(computed, applied, strict=True))
        return [by_node[y] if y in by_node else self.done[y] for y in wanted]

    def _add_root_variables(self, wanted: Sequence[ir.Node]) -> None:
        needed = ir.toposort(wanted, self.done)
        roots = [x for x in needed if isinstance(x.op, ir.Input)]
        for x in roots:
            self.done[x] = self._root_variable(x)
        for x in roots:
            if x.op.default_update is not None and self.done[x].default_update is None:  # type: ignore[attr-defined]
                (self.done[x].default_update,) = self.outputs([x.op.default_update])  # type: ignore[attr-defined]

    def _root_variable(self, x: ir.Node) -> Any:
        existing = variables.counterpart(x)
        if existing is not None and (self.linked or not isinstance(x, Shared)):
            return existing
        variable = (
            pytensor_type(x.type)(x.name) if not isinstance(x, Shared) else self._shared_variable(x)
        )
        if self.linked or not isinstance(x, Shared):
            variables.note(variables.converted, variable, x)
        return variable

    def _shared_variable(self, x: Shared) -> Any:
        store = x.op.store
        current = store.current
        if self.linked and isinstance(current, LinkedValue):
            # PyTensor's variable is gone, and functions of it may be left.
            type = pytensor_type(x.type)
            return TensorSharedVariable(type, None, None, container=current.container, name=x.name)
        variable = pytensor.shared(x.get_value(), x.name, shape=x.type.shape)
        if self.linked:
            variables.link(store, variable.container)
        return variable


def _check_givens(values: Mapping[ir.Node, Any], outputs: Sequence[ir.Node]) -> None:
    """Raise if a value is given for a node that no output reads, as it was written."""
    used = {x for node in ir.toposort(outputs, values) for x in node.inputs}.union(outputs)
    unused = [x for x in values if x not in used | ir.all_read(outputs)]
    if unused:
        raise UnusedInputError(
            f"to_pytensor: givens has {unused[0]!r}, which no array depends on.", "Leave it out."
        )


def _as_output(y: Any) -> Tensor:
    if isinstance(y, ir.Wrapper):
        raise ArgumentError(
            f"to_pytensor: {y!r} has names of axes, which variables lack.", "Give its .values."
        )
    if not isinstance(y, Tensor):
        raise ArgumentError(
            f"to_pytensor: {y!r} is no symbolic array.",
            "Give what graphc.function would take as outputs, before it is compiled.",
        )
    return y


def _replaceable_node(x: Any) -> ir.Node:
    x = ir.unwrap(x)
    if isinstance(x, ImplicitTensor):
        raise ArgumentError(
            f"to_pytensor: givens has the implicit {x!r}, which is no variable of PyTensor.",
            "Give values of its fields: x.array has them.",
        )
    if not isinstance(x, Tensor) or isinstance(x.op, ir.Constant | ir.Leaf):
        raise ArgumentError(
            f"to_pytensor: givens has {x!r}, which is no input or other part of a graph.",
            "Give {graphc's input: PyTensor's variable}.",
        )
    return x


def _as_variable(x: ir.Node, value: Any) -> Any:
    if is_variable(value):
        return value
    if isinstance(value, ir.Node | ir.Wrapper):
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


def _densify(y: ir.Node, dense: ir.Node) -> ir.Node:
    if not isinstance(dense, ImplicitTensor):
        return y
    enforce_policy(dense.array, "to_pytensor", y.where)
    return dense.dense()
