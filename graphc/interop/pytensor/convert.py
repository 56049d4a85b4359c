"""The conversion: a walk over PyTensor's graph in which each operation's converter is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

import numpy as np

from graphc.errors import (
    ArgumentError,
    DTypeError,
    GraphcError,
    InvalidGraphError,
    MissingInputError,
    UnsupportedOperationError,
)
from graphc.interop.pytensor import variables
from graphc.interop.pytensor.application import Application, Refusal
from graphc.interop.pytensor.table import converter_of
from graphc.interop.pytensor.variables import is_variable
from graphc.ir import Constant, Input, Leaf
from graphc.ir.walk import ordered
from graphc.site import derived_from, where
from graphc.tensor.core.elementwise import cast
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import Tensor, as_tensor

REMEDY = (
    "Write a converter for it, @graphc.interop.pytensor.register(TheOp), or let PyTensor compute "
    "it: from_pytensor(..., givens={its result: an input or a value})."
)
UNKNOWN: Any = object()
"""What stands for a value that could not be converted."""


def from_pytensor(
    variables: Any,
    *,
    inputs: Sequence[Any] | None = None,
    shared: Literal["linked", "copied"] = "linked",
    givens: Mapping[Any, Any] | None = None,
) -> Any:
    """PyTensor variables as graphc arrays: graphs to compile, differentiate and batch like others.

    A variable that nothing computes is one array in all conversions, so that the inputs of a
    function are found by converting them: ``from_pytensor(x)``. Names, dtypes and static lengths
    are kept. Large constants are captured: their values are no part of a compiled program.

    Args:
        variables: A PyTensor variable, or a list, tuple or dict of them, which may be nested.
        inputs: The variables that may be inputs; also computed ones, which then are inputs in place
            of what computes them. By default, every variable without a value is one.
        shared: ``"linked"``: a shared variable has one value in both libraries. What PyTensor sets
            holds at the next call of a graphc function, and what a graphc function updates is
            what PyTensor reads next; each call of a compiled backend transfers it. ``"copied"``:
            graphc's variable begins with a copy of the value, and keeps it on the backend's device.
        givens: Values of variables in place of what computes them: graphc arrays, numbers or NumPy
            arrays, or PyTensor variables, for which the other values hold too.

    Returns:
        Arrays, in the same containers. Random generators are keys: those with a value, of which a
        copy draws the key, are shared variables; a warning says it.

    Raises:
        UnsupportedOperationError: Some operations have no converter. One error names all of them,
            with their inputs and types.
        MissingInputError: A variable without a value is not among ``inputs``.
        ArgumentError: What is no PyTensor variable, or an unknown ``shared``.

    Example:
        >>> import graphc, pytensor.tensor as pt
        >>> from graphc.interop.pytensor import from_pytensor
        >>> x = pt.vector("x")
        >>> a, y = from_pytensor([x, (pt.exp(x) ** 2).sum()])
        >>> f = graphc.function([a], [y, graphc.grad(y, a)], mode="NUMPY")
        >>> [value.tolist() for value in f([0.0, 0.0])]
        [2.0, [2.0, 2.0]]
    """
    if shared not in {"linked", "copied"}:
        raise ArgumentError(f"from_pytensor: shared={shared!r}.", 'Expected "linked" or "copied".')
    conversion = Conversion(linked=shared == "linked", closed=inputs is not None)
    wanted, rebuild = _flat(variables)
    given: dict[Any, Any] = {}
    for variable in inputs or ():
        _check_variable(variable)
        given[variable] = conversion.input_for(variable)
    replacements = dict(givens or {})
    for variable, value in replacements.items():
        _check_variable(variable)
        if not is_variable(value):
            given[variable] = _given(variable, value)
    # Each is converted without its own replacement: {x: 2 * x} is no endless loop.
    symbolic = {x: y for x, y in replacements.items() if is_variable(y)}
    found = conversion.outputs(list(symbolic.values()), dict(given))
    given.update(zip(symbolic, found, strict=True))
    return rebuild(conversion.outputs(wanted, given))


@dataclass
class Conversion:
    """One call of ``from_pytensor``: what it has found missing, and how it treats variables.

    Attributes:
        linked: Whether shared variables share their value with PyTensor.
        closed: Whether no inputs are allowed but those that are given.
        overrides: Converters to use in place of others, by the names of PyTensor's classes.
        missing: What has no converter, with the reason.
        default_updates: Shared variables that have one, of both libraries.
    """

    linked: bool = True
    closed: bool = False
    overrides: Mapping[str, Any] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    default_updates: dict[Any, Any] = field(default_factory=dict)

    def outputs(self, wanted: Sequence[Any], given: Mapping[Any, Any]) -> list[Any]:
        """The values of variables, for given values of some.

        Raises:
            UnsupportedOperationError: Some operations have no converter; it names all of them.
        """
        done = dict(given)
        found = self._walked(wanted, done)
        while self.default_updates:
            variable, made = self.default_updates.popitem()
            (made.op.default_update,) = self._walked([variable.default_update], done)
        self._check()
        return found

    def input_for(self, variable: Any) -> Any:
        """An input in the place of a variable; the same one in each conversion."""
        is_free = variable.owner is None and not variables.has_value(variable)
        made = variables.known if is_free else variables.cut
        if variable not in made:
            variables.note(made, variable, variables.input_of(variable))
        return made[variable]

    def inner(self, graph: Any, values: Sequence[Any]) -> list[Any]:
        """The outputs of a graph inside an operation, for values of its inputs."""
        pairs = zip(graph.inputs, values, strict=True)
        return self._walked(graph.outputs, {x: _specified(y, x) for x, y in pairs})

    def scalar(self, at: Application, values: Sequence[Any]) -> list[Any]:
        """What a scalar operation gives for arrays.

        Raises:
            Refusal: It has no converter.
        """
        found = self.converter(at.op)(at, *values)
        return list(found) if isinstance(found, list | tuple) else [found]

    def converter(self, op: Any) -> Any:
        """The converter of an operation inside another one.

        Raises:
            Refusal: It has none.
        """
        convert = converter_of(type(op))
        if convert is None:
            raise Refusal(f"{type(op).__name__} in it has no converter")
        return convert

    def _walked(self, wanted: Sequence[Any], done: dict[Any, Any]) -> list[Any]:
        """The values of variables, each of which is entered in what is done."""
        for variable in ordered(wanted, _needs, done):
            if variable.owner is None:
                done[variable] = self._root(variable)
            else:
                node = variable.owner
                with derived_from(variables.site_of(variable)):
                    results = self._results(node, done)
                done.update(zip(node.outputs, results, strict=True))
        return [done[variable] for variable in wanted]

    def _root(self, variable: Any) -> Any:
        """What stands for a variable that nothing computes."""
        is_copied = hasattr(variable, "container") and not self.linked
        if not is_copied and variable in variables.known:
            return variables.known[variable]
        try:
            made = self._new_root(variable)
        except Refusal as refusal:
            self.missing[f"{variables.named(variable)}: {refusal}"] = None
            return UNKNOWN
        if not is_copied:
            variables.note(variables.known, variable, made)
        return made

    def _new_root(self, variable: Any) -> Any:
        if hasattr(variable, "data"):
            return variables.constant_of(variable)
        if hasattr(variable, "container"):
            made = variables.shared_of(variable, self.linked)
            if getattr(variable, "default_update", None) is not None:
                self.default_updates[variable] = made
            return made
        if self.closed:
            raise MissingInputError(
                f"from_pytensor: {variables.named(variable)} has no value and is not among the "
                "inputs.",
                "Add it to inputs=, or give it a value: givens={variable: value}.",
            )
        return variables.input_of(variable)

    def _results(self, node: Any, done: Mapping[Any, Any]) -> Sequence[Any]:
        """What stands for the outputs of a node; new inputs where it has no converter."""
        types = tuple(variables.tensor_type(y) for y in node.outputs)
        values = [done[x] for x in node.inputs]
        kind = type(node.op)
        convert = self.overrides.get(kind.__name__) or converter_of(kind)
        try:
            if convert is None:
                raise Refusal("it has no converter")
            if any(x is UNKNOWN for x in values):
                return [_unknown(t) for t in types]
            found = convert(Application(node.op, node.inputs, types, done, self), *values)
            several = list(found) if isinstance(found, list | tuple) else [found]
            return [_declared(y, x) for y, x in zip(several, node.outputs, strict=True)]
        except (Refusal, DTypeError) as refused:
            shown = ", ".join(variables.named(x) for x in node.inputs)
            why = refused.problem if isinstance(refused, DTypeError) else str(refused)
            line = where(variables.site_of(node.outputs[0]))
            self.missing[f"{node.op}({shown}): {why}" + (f"   {line}" if line else "")] = None
            return [_unknown(t) for t in types]
        except GraphcError:
            # An operation on what stands for something missing may fail for no reason of its own.
            self._check()
            raise

    def _check(self) -> None:
        """Raise if something is missing."""
        if self.missing:
            n = len(self.missing)
            count = "1 operation" if n == 1 else f"{n} operations"
            raise UnsupportedOperationError(
                f"from_pytensor: {count} of PyTensor cannot be converted:\n"
                + "\n".join(f"  {line}" for line in self.missing),
                REMEDY,
            )


def _needs(variable: Any) -> Sequence[Any]:
    return () if variable.owner is None else variable.owner.inputs


def _unknown(type: Any) -> Any:
    return UNKNOWN if type is None else type()


def _declared(y: Any, variable: Any) -> Any:
    """A result with the dtype and the lengths that PyTensor declares, and its variable's name."""
    wanted = variables.tensor_type(variable)
    if wanted is None or not isinstance(y, Tensor):
        return y
    if "ScalarType" in variables.kinds(variable):
        return cast(y, wanted.dtype)  # in a graph of scalar operations, which may be of arrays
    if y.ndim != wanted.ndim:
        raise InvalidGraphError(
            f"from_pytensor: the converter of {variable.owner.op} gave {y!r} for "
            f"{variables.named(variable)}.",
            "It must give an array of that rank.",
        )
    y = _specified(cast(y, wanted.dtype), variable)
    if variable.name and y.name is None and not isinstance(y.op, Input | Leaf | Constant):
        y.name = variable.name
    return y


def _specified(y: Any, variable: Any) -> Any:
    """An array with the lengths that PyTensor declares; others are known better than there."""
    wanted = variables.tensor_type(variable)
    if wanted is None or not isinstance(y, Tensor) or y.ndim != wanted.ndim:
        return y
    pairs = zip(y.type.shape, wanted.shape, strict=True)
    lacks = any(n is None and m is not None for n, m in pairs)
    return specify_shape(y, wanted.shape) if lacks else y


def _check_variable(variable: Any) -> None:
    if not is_variable(variable):
        raise ArgumentError(
            f"from_pytensor: {variable!r} is no PyTensor variable.",
            "Give variables, or a list, tuple or dict of them; pip install 'graphc[pymc]' installs "
            "PyTensor.",
        )


def _given(variable: Any, value: Any) -> Any:
    """A value in the place of a variable, which has its dtype."""
    type = variables.tensor_type(variable)
    made = (
        as_tensor(value)
        if type is None or isinstance(value, Tensor)
        else as_tensor(np.asarray(value, type.dtype))
    )
    if type is not None and (made.dtype != type.dtype or made.ndim != type.ndim):
        raise ArgumentError(
            f"from_pytensor: givens has {made!r} for {variables.named(variable)}.",
            "Give a value of that dtype and rank.",
        )
    return made


def _flat(given: Any) -> tuple[list[Any], Any]:
    """The variables in containers, and a function that puts values in their places."""
    if isinstance(given, dict):
        inner, rebuild = _flat(list(given.values()))
        return inner, lambda values: dict(zip(given, rebuild(values), strict=True))
    if not isinstance(given, list | tuple):
        _check_variable(given)
        return [given], lambda values: values[0]
    parts = [_flat(x) for x in given]

    def filled(values: Sequence[Any]) -> Any:
        left = iter(values)
        return type(given)([rebuild(list(islice(left, len(inner)))) for inner, rebuild in parts])

    return [x for inner, _ in parts for x in inner], filled
