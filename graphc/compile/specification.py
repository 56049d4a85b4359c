"""A function's specification, validated: inputs, outputs, updates and givens."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, overload

import numpy as np

from graphc import ir
from graphc.compile.arguments import In, Out, WrappedIn, goes_into, is_weak
from graphc.compile.implicit import Structures
from graphc.compile.mode import Mode, Returns, get_mode
from graphc.compile.pipeline import Signature, problems
from graphc.compile.shared import Shared, sharding_of
from graphc.config import RETURNS, config
from graphc.errors import (
    ArgumentError,
    DTypeError,
    GraphcError,
    ShardingError,
    UnusedInputError,
    remedy_for,
)
from graphc.implicit.expand import expanded
from graphc.implicit.node import ImplicitTensor
from graphc.ir.law import named_checks
from graphc.ir.sharding import with_role
from graphc.loop.subgraph import inline_subgraphs
from graphc.site import frames_up
from graphc.tensor import Tensor, as_tensor, shard
from graphc.tensor.core.shape import Length
from graphc.tensor.core.sharding import Shard
from graphc.tensor.core.specify import specify_named

OnUnused = Literal["raise", "warn", "ignore"]


@dataclass(frozen=True)
class FunctionSpec:
    """The specification of a function, from which it can be rebuilt."""

    inputs: tuple[Any, ...]
    outputs: Any
    updates: tuple[tuple[Shared, Tensor], ...]
    mode: Mode
    name: str | None
    returns: Returns
    structures: Structures = ()


def swap_variables(spec: FunctionSpec, swaps: Mapping[Any, Any]) -> FunctionSpec:
    """Return a specification with some shared variables replaced.

    Raises:
        ArgumentError: If ``swaps`` has something other than shared variables.
        DTypeError: If a replacement has another type.
    """
    wrong = [x for pair in swaps.items() for x in pair if not isinstance(x, Shared)]
    if wrong:
        raise ArgumentError(f"swap: {wrong[0]!r} is no shared variable.")
    nodes = givens_of(swaps)
    outputs = spec.outputs
    if outputs is not None:
        outputs = ir.rebuild(outputs, ir.replace_nodes(ir.flatten(outputs), nodes))
    pairs = [(swaps.get(x, x), new) for x, new in spec.updates]
    return replace(spec, outputs=outputs, updates=updates_of(pairs, nodes))


def returned_arrays(returns: Returns | None, mode: Mode) -> Returns:
    """Return which arrays a function returns, by its argument, its mode or ``config``.

    Raises:
        ArgumentError: If ``returns`` names no kind of arrays.
    """
    if returns is not None and returns not in RETURNS:
        raise ArgumentError(f"returns={returns!r}: expected 'numpy', 'native' or None.")
    return returns or mode.returns or config.returns


def as_in(x: Any, allow_downcast: bool | None) -> In:
    """Return an input as an ``In``."""
    parameter = x if isinstance(x, In) else In(x)
    if isinstance(parameter.variable, ir.Wrapper):
        parameter = WrappedIn.of(parameter)
    variable = parameter.variable
    if not isinstance(variable, Tensor) or isinstance(variable.op, ir.Constant | ir.Leaf):
        is_array = hasattr(variable, "shape") and not isinstance(variable, Tensor)
        advice = "; of a BlockMask, with mask.variables(name)" if is_array else ""
        remedy = f"Make inputs with gt.scalar, gt.vector, gt.matrix, gt.tensor{advice}."
        raise ArgumentError(
            f"The input {variable!r} is no symbolic variable.", remedy_for(variable, remedy)
        )
    if isinstance(variable, Shared):
        raise ArgumentError(
            f"The input {variable!r} is a shared variable, which has its own value.",
            "Leave it out; replace it with givens=[(variable, expression)] to pass a value.",
        )
    if parameter.allow_downcast is None and allow_downcast is not None:
        return replace(parameter, allow_downcast=allow_downcast)
    return parameter


def as_output(y: Any) -> Tensor:
    """Return an output as a symbolic array."""
    sharding = y.sharding if isinstance(y, Out) else None
    y = y.variable if isinstance(y, Out) else y
    if isinstance(y, ir.Wrapper):
        sharding, y = y.positional(sharding), y.values
    try:
        return shard(y, sharding)
    except DTypeError as error:
        raise ArgumentError(f"The output {y!r} is no symbolic array: {error.problem}") from error


def _pairs(values: Any, what: str) -> list[tuple[Any, Any]]:
    if values is None:
        return []
    pairs = list(values.items() if isinstance(values, Mapping) else _as_list(values))
    if [pair for pair in pairs if not isinstance(pair, tuple | list) or len(pair) != 2]:
        raise ArgumentError(
            f"{what}={values!r}: expected pairs of a variable and an expression, or a dict."
        )
    return [ir.unwrap_pair(old, new) for old, new in pairs]


def _as_list(values: Any) -> Iterable[Any]:
    return values if isinstance(values, list | tuple) or hasattr(values, "__next__") else [values]


def _is_of_type(new: Tensor, old: Tensor) -> bool:
    """Return whether a tensor can replace another: equal dtype and rank, compatible lengths."""
    pairs = zip(new.type.shape, old.type.shape, strict=False)
    return (
        new.dtype == old.dtype
        and new.ndim == old.ndim
        and not [1 for n, m in pairs if n is not None and m is not None and n != m]
    )


def givens_of(givens: Any) -> dict[ir.Node, ir.Node]:
    """Return the nodes that ``givens`` replaces, and their replacements."""
    swaps: dict[ir.Node, ir.Node] = {}
    for old, new in _pairs(givens, "givens"):
        new = as_tensor(new)
        if not isinstance(old, Tensor) or not _is_of_type(new, old):
            raise DTypeError(
                f"givens: {new!r} can't replace {old!r}.",
                "Give it the same dtype, rank and lengths.",
            )
        swaps[old] = new
        if isinstance(old, ImplicitTensor) and new.op == old.op:
            # A gradient reads the fields themselves.
            pairs = zip(old.inputs, new.inputs, strict=True)
            swaps.update({x: y for x, y in pairs if isinstance(x.op, ir.Input)})
    return swaps


def compare_named(
    swaps: Mapping[ir.Node, ir.Node], outputs: Sequence[ir.Node]
) -> Mapping[ir.Node, ir.Node]:
    """Return replacements whose lengths the run compares where inputs of ``outputs`` share names.

    Args:
        swaps: The nodes that are replaced, and their replacements.
        outputs: The outputs before the replacement.
    """
    if not _have_names(swaps):
        return swaps
    inputs = [x for x in ir.toposort(outputs) if isinstance(x.op, ir.Input)]
    arrays = specify_named(inputs, [swaps.get(x, x) for x in inputs], "givens")
    return {**swaps, **{x: y for x, y in zip(inputs, arrays, strict=True) if x in swaps}}


def _have_names(nodes: Iterable[ir.Node]) -> bool:
    """Return whether a node is an input that names lengths."""
    return any(isinstance(x.op, ir.Input) and x.op.dims for x in nodes)


def check_givens(
    swaps: Mapping[ir.Node, ir.Node], ends: Sequence[ir.Node], ins: Sequence[In]
) -> None:
    """Raise if the graph reads a field of an implicit array that ``givens`` replaces."""
    replaced_arrays = [x for x in swaps if isinstance(x, ImplicitTensor) and x.op != swaps[x].op]
    if not replaced_arrays:
        return
    needed = {*ir.toposort(ends)} - {x.variable for x in ins} - {*swaps}
    for x in replaced_arrays:
        fields = [field for field in x.inputs if isinstance(field.op, ir.Input) and field in needed]
        if fields:
            raise ArgumentError(
                f"givens: {swaps[x]!r} can't replace {x!r} here: the graph, perhaps a gradient, "
                f"reads its field {fields[0]!r}.",
                "Give an implicit array of the same form, or replace it before differentiating.",
            )


def updates_of(updates: Any, swaps: Mapping[ir.Node, ir.Node]) -> tuple[tuple[Shared, Tensor], ...]:
    """Return shared variables and their new values, after ``givens``."""
    result: dict[Shared, Tensor] = {}
    for variable, new in _pairs(updates, "updates"):
        for x, y in _by_field(variable, new, swaps):
            if x in result:
                raise ArgumentError(f"updates: {x!r} is updated twice.", "Combine the two updates.")
            result[x] = y
    return tuple(result.items())


def default_updates(
    order: Sequence[ir.Node],
    updates: Sequence[tuple[Shared, Tensor]],
    excluded: Any,
    swaps: Mapping[ir.Node, ir.Node],
    variables: Sequence[ir.Node],
) -> tuple[tuple[Shared, Tensor], ...]:
    """Return the default updates of shared variables that a graph reads and does not update.

    Args:
        order: The nodes that outputs and new values depend on, in topological order.
        updates: The explicit updates.
        excluded: True to update no variable by default, or a list of variables to exclude.
        swaps: The nodes that ``givens`` replaces, and their replacements.
        variables: The function's inputs.
    """
    if isinstance(excluded, bool | np.bool_):
        if excluded:
            return ()
        excluded = ()
    excluded = [ir.unwrap(x) for x in _as_list(excluded)]
    wrong = [x for x in excluded if not isinstance(x, Shared)]
    if wrong:
        raise ArgumentError(
            f"no_default_updates: {wrong[0]!r} is no shared variable.",
            "Give True, or a list of shared variables.",
        )
    done = {*(x for x, _ in updates), *excluded}
    defaults: list[tuple[Shared, Tensor]] = []
    while True:
        read = [x for x in order if isinstance(x, Shared) and x not in done]
        done.update(read)
        new = [(x, x.default_update) for x in read]
        pairs = updates_of([(x, y) for x, y in new if y is not None], swaps)
        if not pairs:
            return tuple(defaults)
        defaults += pairs
        order = ir.toposort([y for _, y in pairs], variables)


def _by_field(
    variable: Any, new: Any, swaps: Mapping[ir.Node, ir.Node]
) -> Iterable[tuple[Any, Any]]:
    """Return the update of a shared variable, or the updates of the fields of an implicit one."""
    if not isinstance(variable, ImplicitTensor):
        return [(variable, ir.replace_nodes([_as_new_value(variable, new)], swaps)[0])]
    (result,) = expanded(ir.replace_nodes([as_tensor(new)], swaps))
    if result.op != variable.op:
        raise ArgumentError(
            f"updates: {variable.array!r} can't become {_form(result)}, which has another form.",
            "Update its fields, as updates={w.array.scale: ...}, or keep the form in what is "
            "computed: it is never replaced by a whole array.",
            result.where,
        )
    pairs = zip(variable.inputs, result.inputs, strict=True)
    return [(field, _as_new_value(field, value)) for field, value in pairs]


def _form(x: ir.Node) -> str:
    return repr(x.array if isinstance(x, ImplicitTensor) else x)


def _as_new_value(variable: Any, new: Any) -> Tensor:
    if not isinstance(variable, Shared):
        raise ArgumentError(
            f"updates: {variable!r} is no shared variable.", "Make it with graphc.shared(value)."
        )
    if not isinstance(new, Tensor) and goes_into(np.asarray(new), variable.type, is_weak(new)):
        new = as_tensor(new, dtype=variable.dtype)
    new = as_tensor(new)
    if not _is_of_type(new, variable):
        raise DTypeError(f"updates: {variable!r} can't become {new!r}.", _remedy(new, variable))
    return new  # type: ignore[no-any-return]


def _remedy(new: Tensor, variable: Shared) -> str:
    if new.ndim != variable.ndim:
        return f"Give it {variable.ndim} axes, not {new.ndim}."
    if new.dtype == variable.dtype:
        return f"Give it the shape of {variable.type!r}."
    if ir.is_complex(new.dtype) and not ir.is_complex(variable.dtype):
        return "Take its real part, new.real, or declare the variable complex."
    if ir.is_inexact(new.dtype) and not ir.is_inexact(variable.dtype):
        return (
            f"Declare the variable with that dtype, as in graphc.shared(0.0), or convert the "
            f"value: new.astype({variable.dtype!r})."
        )
    return f"Convert it: new.astype({variable.dtype!r})."


def check_inputs(  # noqa: PLR0913, PLR0917 (one caller)
    ins: Sequence[In],
    outputs: Sequence[ir.Node],
    on_unused: OnUnused,
    implicit: Sequence[ImplicitTensor] = (),
    groups: Sequence[Sequence[ir.Node]] = (),
    written: Sequence[ir.Node] = (),
    order: Sequence[ir.Node] | None = None,
) -> None:
    """Raise if inputs are missing, occur twice or are not used.

    An input is used if the expression reads it before ``givens`` or after, if only for a static
    shape or a constant derivative. One used field is enough for an implicit array, and for an
    object of ``groups``.
    """
    if on_unused not in {"raise", "warn", "ignore"}:
        raise ArgumentError(f"on_unused_input={on_unused!r}: expected 'raise', 'warn' or 'ignore'.")
    variables = [parameter.variable for parameter in ins]
    unique = set(variables)
    if len(unique) != len(variables):
        twice = next(x for x in unique if variables.count(x) > 1)
        raise ArgumentError(f"The input {twice!r} occurs twice.", "Leave one out.")
    needed = ir.toposort(outputs, unique) if order is None else order
    missing = [x for x in needed if isinstance(x.op, ir.Input) and not isinstance(x, Shared)]
    ir.refuse_missing(missing, variables)
    used = {x for node in needed for x in node.inputs}.union(outputs)
    if on_unused != "ignore" and not unique <= used:
        used |= ir.all_read([*outputs, *written]) | {x for x in unique if x in ir.read_by(x)}
    together = [*[x.inputs for x in implicit], *groups]
    used.update(*[values for values in together if not used.isdisjoint(values)])
    for x in variables:
        if x not in used and on_unused != "ignore":
            parent = next((y for y in implicit if x in y.inputs), None)
            subject = repr(x) if parent is None else f"{parent.name}: {parent.array!r}"
            message = f"No output depends on the input {subject}."
            if on_unused == "raise":
                raise UnusedInputError(message, "Leave it out, or pass on_unused_input='ignore'.")
            warnings.warn(message, stacklevel=frames_up())


def mode_over(mode: Mode, shared: Sequence[Shared]) -> Mode:
    """Return the mode, on the mesh of the shared variables if it has neither mesh nor device.

    Raises:
        ShardingError: If the shared variables are on several meshes.
    """
    has_place = "mesh" in mode.options or "device" in mode.options
    if has_place or "mesh" not in mode.backend.options:
        return mode
    by_mesh = {x.op.mesh: x for x in shared if x.op.mesh is not None}
    if len(by_mesh) > 1:
        (first, one), (second, other), *_ = by_mesh.items()
        raise ShardingError(
            f"The shared variables {one!r} and {other!r} are on two meshes, {first} and {second}.",
            "Say which one the function runs over: mode=graphc.Mode('JAX', mesh=mesh).",
        )
    return mode.change(mesh=next(iter(by_mesh))) if by_mesh else mode


def signature_of(spec: FunctionSpec, variables: list[ir.Node]) -> tuple[list[Shared], Signature]:
    """Return the shared variables and the signature of a function."""
    outputs = ir.flatten(spec.outputs) if spec.outputs is not None else []
    ends = [*outputs, *(new for _, new in spec.updates)]
    # A computed node that is an input becomes a plain input: a rewrite could otherwise produce it.
    cut: dict[ir.Node, ir.Node] = {
        x: ir.Node.input(x.type) for x in variables if not isinstance(x.op, ir.Input)
    }
    if cut:
        ends = ir.replace_nodes(ends, cut)
        variables = [cut.get(x, x) for x in variables]
    same = same_lengths(variables)
    ends = ir.replace_nodes(ends, same) if same else ends
    order = ir.toposort(ends, variables)
    reads = [x for x in order if isinstance(x, Shared)]
    shared = [*dict.fromkeys([*reads, *(x for x, _ in spec.updates)])]
    indices = {x: len(variables) + i for i, x in enumerate(shared)}
    mode = mode_over(spec.mode, shared)
    if mode.mesh_axes is not None:
        pairs = zip(spec.updates, ends[len(outputs) :], strict=True)
        ends[len(outputs) :] = [_shard_new_value(new, x) for (x, _), new in pairs]
    inputs = [*variables, *shared]
    if mode.mesh_axes is None and ir.is_gathered({type(node.op) for node in order}):
        graph = ir.Graph.in_order(inputs, ends, [x for x in order if x not in indices])
    else:
        # With any set of rules, only the chosen branch of a conditional is computed.
        graph = ir.Graph(inputs, ir.to_gathered_form(inline_subgraphs(ends, variables), variables))
    signature = Signature(
        graph,
        len(variables),
        tuple([indices[x] for x, _ in spec.updates]),
        isinstance(spec.outputs, Tensor) and not spec.updates,
        mode,
        ends,
    )
    return shared, signature


def same_lengths(variables: Sequence[ir.Node]) -> dict[ir.Node, ir.Node]:
    """Return the lengths that have names, and for each the length of the first axis of that name.

    A program compares these lengths when it is called.
    """
    return {
        Tensor.make(Length(n), variables[b]): Tensor.make(Length(m), variables[a])
        for a, m, b, n in named_checks(variables)
    }


def _shard_new_value(new: Tensor, variable: Shared) -> Tensor:
    role = with_role(f"the new value of {variable.op.name}", variable.op)
    return Tensor.make(Shard(sharding_of(variable), role), new)


Replacements = Iterable[tuple[Any, Any]] | Mapping[Any, Any] | None
Outputs = TypeVar("Outputs")


@overload
def clone_replace(output: Tensor, replace: Replacements = None) -> Tensor: ...


@overload
def clone_replace(output: Outputs, replace: Replacements = None) -> Outputs: ...


def clone_replace(output: Any, replace: Replacements = None) -> Any:
    """Replace parts of a graph.

    Args:
        output: A symbolic array, or a nested list, tuple or dict of them.
        replace: Pairs, or a dict, of parts of the graph and their replacements, of the same dtype
            and rank.

    Returns:
        The structure of ``output``.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x, y = gt.scalars("x", "y")
        >>> graphc.clone_replace(gt.exp(x), {x: y}) is gt.exp(y)
        True
    """
    outputs = ir.flatten(output)
    swaps = givens_of(replace)
    nodes = [ir.unwrap(y) for y in outputs]
    # An output does not come to depend on an input that another output alone reads.
    groups = [[y] for y in nodes] if _have_names(swaps) else [nodes]
    results = [y for group in groups for y in ir.replace_nodes(group, compare_named(swaps, group))]
    return ir.rebuild(
        output, [ir.wrap_like(y, new) for y, new in zip(outputs, results, strict=True)]
    )


def check(outputs: Any, mode: str | Mode | None = None) -> list[GraphcError]:
    """Return the errors that keep a graph from being compiled; nothing is compiled.

    Args:
        outputs: A symbolic array, or a nested list, tuple or dict of them.
        mode: The mode to compile for; ``config.mode`` by default.

    Returns:
        A list of errors with the user's lines and remedies: one of all that the backend lacks, one
        where a shape depends on values that it does not have, and one of a sharding that does not
        fit the mode's mesh; empty if it can be compiled.

    Raises:
        ArgumentError: An output is no symbolic array.
        ModeError: No such backend.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.zvector("x")
        >>> graphc.check(gt.exp(x), "JAX")
        []
        >>> print(graphc.check(gt.exp(x), "MLX")[0])
        mode='MLX' does not support complex128: ...
    """
    nodes = [as_output(y) for y in ir.flatten(outputs)]
    inputs = [x for x in ir.toposort(nodes) if isinstance(x.op, ir.Input)]
    signature = Signature(
        ir.Graph(inputs, ir.to_gathered_form(nodes, inputs)), len(inputs), (), False, get_mode(mode)
    )
    return problems(signature)
