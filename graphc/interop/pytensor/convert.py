"""The conversion: a walk over PyTensor's graph in which each operation's converter is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

import numpy as np

from graphc import errors
from graphc.interop.pytensor import variables
from graphc.interop.pytensor.application import Application, Refusal
from graphc.interop.pytensor.table import converter_of, converter_of_foreign
from graphc.interop.pytensor.variables import is_variable
from graphc.ir import Constant, Input, Leaf
from graphc.ir.walk import dependencies_first
from graphc.site import derived_from, where
from graphc.tensor.core.elementwise import cast
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import Tensor, as_tensor

REMEDY = (
    "Write a converter for it, @graphc.interop.pytensor.register(TheOp), or let PyTensor compute "
    "it: from_pytensor(..., givens={its result: an input or a value})."
)
UNKNOWN: Any = object()
"""The placeholder of a value that could not be converted."""


def from_pytensor(
    variables: Any,
    *,
    inputs: Sequence[Any] | None = None,
    shared: Literal["linked", "copied"] = "linked",
    givens: Mapping[Any, Any] | None = None,
) -> Any:
    """Convert PyTensor variables to graphc arrays, to compile, differentiate and batch them.

    A variable without an owner is one array in all conversions, so that the inputs of a function
    are converted by ``from_pytensor(x)``. Names, dtypes and static lengths are kept. Large
    constants are captured: their values are no part of a compiled program.

    Args:
        variables: A PyTensor variable, or a list, tuple or dict of them, which may be nested.
        inputs: The variables that may be inputs (default: every variable without a value). A
            computed variable among them becomes an input too.
        shared: ``"linked"``: a shared variable has one value in both libraries. A graphc function
            reads at its next call what PyTensor sets, and PyTensor reads what a graphc function
            updates; each call of a compiled backend transfers it. ``"copied"``: graphc's variable
            begins with a copy of the value, and keeps it on the backend's device.
        givens: Replacements of variables: graphc arrays, numbers or NumPy arrays, or PyTensor
            variables, to which the other replacements apply too.

    Returns:
        Arrays, in the same containers. Random generators become keys. The key of a generator with
        a value is a shared variable, drawn from a copy of the generator, with a warning.

    Raises:
        UnsupportedOperationError: If some operations have no converter. One error names all of
            them, with their inputs and types.
        MissingInputError: If a variable without a value is not among ``inputs``.
        ArgumentError: If there is no PyTensor variable where one is expected, or ``shared`` is
            unknown.

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
        raise errors.ArgumentError(
            f"from_pytensor: shared={shared!r}.", 'Expected "linked" or "copied".'
        )
    conversion = Conversion(linked=shared == "linked", closed=inputs is not None)
    wanted, rebuild = _flatten(variables)
    values: dict[Any, Any] = {}
    for variable in inputs or ():
        _check_variable(variable)
        values[variable] = conversion.input_for(variable)
    replacements = dict(givens or {})
    for variable, value in replacements.items():
        _check_variable(variable)
        if not is_variable(value):
            values[variable] = _replacement(variable, value)
    # Each is converted without its own replacement, so that {x: 2 * x} ends.
    symbolic = {x: y for x, y in replacements.items() if is_variable(y)}
    replaced = conversion.outputs(list(symbolic.values()), dict(values))
    values.update(zip(symbolic, replaced, strict=True))
    return rebuild(conversion.outputs(wanted, values))


@dataclass
class Conversion:
    """One call of ``from_pytensor``: how it treats variables, and which converters it misses.

    Attributes:
        linked: Whether shared variables share their value with PyTensor.
        closed: Whether inputs other than the given ones are errors.
        overrides: Converters to use instead of others, by the names of PyTensor's classes.
        missing: Operations without a converter, with the reason.
        default_updates: Pairs of PyTensor's and graphc's shared variables with a default update.
    """

    linked: bool = True
    closed: bool = False
    overrides: Mapping[str, Any] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    default_updates: dict[Any, Any] = field(default_factory=dict)

    def outputs(self, wanted: Sequence[Any], values: Mapping[Any, Any]) -> list[Any]:
        """Return the converted values of variables, for given values of some.

        Raises:
            UnsupportedOperationError: If operations have no converter; the error names all of them.
        """
        done = dict(values)
        outputs = self._convert(wanted, done)
        while self.default_updates:
            variable, shared = self.default_updates.popitem()
            (shared.op.default_update,) = self._convert([variable.default_update], done)
        self._check_missing()
        return outputs

    def input_for(self, variable: Any) -> Any:
        """Return the input for a variable, the same in each conversion."""
        is_free = variable.owner is None and not variables.has_value(variable)
        inputs = variables.converted if is_free else variables.cut
        if variable not in inputs:
            variables.note(inputs, variable, variables.input_of(variable))
        return inputs[variable]

    def inner(self, graph: Any, values: Sequence[Any]) -> list[Any]:
        """Return the outputs of a graph inside an operation, for values of its inputs.

        Raises:
            Refusal: If an operation in the graph has no converter, and its result is no array.
        """
        pairs = zip(graph.inputs, values, strict=True)
        outputs = self._convert(graph.outputs, {x: _specify_lengths(y, x) for x, y in pairs})
        if any(y is UNKNOWN for y in outputs):
            raise Refusal("an operation in it has no converter")
        return outputs

    def scalar(self, at: Application, values: Sequence[Any]) -> list[Any]:
        """Return the results of a scalar operation applied to arrays.

        Raises:
            Refusal: If the operation has no converter.
        """
        results = self.converter(at.op)(at, *values)
        return list(results) if isinstance(results, list | tuple) else [results]

    def converter(self, op: Any) -> Any:
        """Return the converter of an operation inside another one.

        Raises:
            Refusal: If there is none.
        """
        convert = converter_of(type(op))
        if convert is None:
            raise Refusal(f"{type(op).__name__} in it has no converter")
        return convert

    def _convert(self, wanted: Sequence[Any], done: dict[Any, Any]) -> list[Any]:
        for variable in dependencies_first(wanted, _needs, done):
            if variable.owner is None:
                done[variable] = self._convert_root(variable)
            else:
                node = variable.owner
                with derived_from(variables.site_of(variable)):
                    results = self._convert_node(node, done)
                done.update(zip(node.outputs, results, strict=True))
        return [done[variable] for variable in wanted]

    def _convert_root(self, variable: Any) -> Any:
        is_copied = hasattr(variable, "container") and not self.linked
        if not is_copied and variable in variables.converted:
            return variables.converted[variable]
        try:
            x = self._new_root(variable)
        except Refusal as refusal:
            self.missing[f"{variables.describe(variable)}: {refusal}"] = None
            return UNKNOWN
        if not is_copied:
            variables.note(variables.converted, variable, x)
        return x

    def _new_root(self, variable: Any) -> Any:
        if hasattr(variable, "data"):
            return variables.constant_of(variable)
        if hasattr(variable, "container"):
            x = variables.shared_of(variable, self.linked)
            if getattr(variable, "default_update", None) is not None:
                self.default_updates[variable] = x
            return x
        if self.closed:
            raise errors.MissingInputError(
                f"from_pytensor: {variables.describe(variable)} has no value and is not among the "
                "inputs.",
                "Add it to inputs=, or give it a value: givens={variable: value}.",
            )
        return variables.input_of(variable)

    def _convert_node(self, node: Any, done: Mapping[Any, Any]) -> Sequence[Any]:
        """Return the outputs of a node; new inputs where it has no converter."""
        types = tuple(variables.tensor_type(y) for y in node.outputs)
        values = [done[x] for x in node.inputs]
        kind = type(node.op)
        convert = (
            self.overrides.get(kind.__name__) or converter_of_foreign(node.op) or converter_of(kind)
        )
        try:
            if convert is None:
                raise Refusal("it has no converter")
            if any(x is UNKNOWN for x in values):
                return [_placeholder(t) for t in types]
            result = convert(Application(node.op, node.inputs, types, done, self), *values)
            results = list(result) if isinstance(result, list | tuple) else [result]
            return [_conform(y, x) for y, x in zip(results, node.outputs, strict=True)]
        except (Refusal, errors.DTypeError) as refused:
            shown = ", ".join(variables.describe(x) for x in node.inputs)
            why = refused.problem if isinstance(refused, errors.DTypeError) else str(refused)
            line = where(variables.site_of(node.outputs[0]))
            self.missing[f"{node.op}({shown}): {why}" + (f"   {line}" if line else "")] = None
            return [_placeholder(t) for t in types]
        except errors.GraphcError:
            # The placeholder of a missing operation may be the cause.
            self._check_missing()
            raise

    def _check_missing(self) -> None:
        if self.missing:
            n = len(self.missing)
            count = "1 operation" if n == 1 else f"{n} operations"
            raise errors.UnsupportedOperationError(
                f"from_pytensor: {count} of PyTensor cannot be converted:\n"
                + "\n".join(f"  {line}" for line in self.missing),
                REMEDY,
            )


def _needs(variable: Any) -> Sequence[Any]:
    return () if variable.owner is None else variable.owner.inputs


def _placeholder(type: Any) -> Any:
    return UNKNOWN if type is None else type()


def _conform(y: Any, variable: Any) -> Any:
    """Give a result the dtype, the lengths and the name that PyTensor declares."""
    wanted = variables.tensor_type(variable)
    if wanted is None or not isinstance(y, Tensor):
        return y
    if "ScalarType" in variables.kinds(variable):
        return cast(y, wanted.dtype)  # in a graph of scalar operations, which may be of arrays
    if y.ndim != wanted.ndim:
        raise errors.InvalidGraphError(
            f"from_pytensor: the converter of {variable.owner.op} gave {y!r} for "
            f"{variables.describe(variable)}.",
            "It must give an array of that rank.",
        )
    y = _specify_lengths(cast(y, wanted.dtype), variable)
    if variable.name and y.name is None and not isinstance(y.op, Input | Leaf | Constant):
        y.name = variable.name
    return y


def _specify_lengths(y: Any, variable: Any) -> Any:
    wanted = variables.tensor_type(variable)
    if wanted is None or not isinstance(y, Tensor) or y.ndim != wanted.ndim:
        return y
    pairs = zip(y.type.shape, wanted.shape, strict=True)
    lacks = any(n is None and m is not None for n, m in pairs)
    return specify_shape(y, wanted.shape) if lacks else y


def _check_variable(variable: Any) -> None:
    if not is_variable(variable):
        raise errors.ArgumentError(
            f"from_pytensor: {variable!r} is no PyTensor variable.",
            "Give variables, or a list, tuple or dict of them; pip install 'graphc[pymc]' installs "
            "PyTensor.",
        )


def _replacement(variable: Any, value: Any) -> Any:
    type = variables.tensor_type(variable)
    x = (
        as_tensor(value)
        if type is None or isinstance(value, Tensor)
        else as_tensor(np.asarray(value, type.dtype))
    )
    if type is not None and (x.dtype != type.dtype or x.ndim != type.ndim):
        raise errors.ArgumentError(
            f"from_pytensor: givens has {x!r} for {variables.describe(variable)}.",
            "Give a value of that dtype and rank.",
        )
    return x


def _flatten(nested: Any) -> tuple[list[Any], Any]:
    """Return the variables in containers, and a function that nests values as they are."""
    if isinstance(nested, dict):
        inner, rebuild = _flatten(list(nested.values()))
        return inner, lambda values: dict(zip(nested, rebuild(values), strict=True))
    if not isinstance(nested, list | tuple):
        _check_variable(nested)
        return [nested], lambda values: values[0]
    items = [_flatten(x) for x in nested]

    def rebuild_all(values: Sequence[Any]) -> Any:
        remaining = iter(values)
        return type(nested)(
            [rebuild(list(islice(remaining, len(inner)))) for inner, rebuild in items]
        )

    return [x for inner, _ in items for x in inner], rebuild_all
