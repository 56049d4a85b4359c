"""Functions: a graph compiled for a backend, with its inputs, outputs and updates."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from time import perf_counter
from typing import Any, Literal

import numpy as np

from graphc.compile.arguments import MISSING, In, Out, converted, goes_into, is_weak
from graphc.compile.cache import compiled
from graphc.compile.events import Stats
from graphc.compile.mode import Mode, get_mode
from graphc.compile.pipeline import Asked, Built, built
from graphc.compile.plan import Plan
from graphc.compile.quick import quick
from graphc.compile.recompile import WORTH, Sighting, called, sight
from graphc.compile.records import Compiled
from graphc.compile.shared import Shared
from graphc.compile.state import stateful
from graphc.errors import (
    ArgumentError,
    DTypeError,
    GraphcError,
    RecompileError,
    UnusedInputError,
)
from graphc.ir import (
    Constant,
    Graph,
    Input,
    Leaf,
    Node,
    TensorType,
    flatten,
    flatten_like,
    gathered,
    here,
    rebuild,
    refuse_missing,
    replaced,
    toposort,
    where,
)
from graphc.link import Executable, Ledger, Program
from graphc.tensor import Tensor, as_tensor
from graphc.tensor.captured import end_of_trace

__all__ = ["Function", "function"]

OnUnused = Literal["raise", "warn", "ignore"]
Returns = Literal["native", "numpy"]


@dataclass(frozen=True)
class Recipe:
    """What a function was asked to be: enough to make it again."""

    inputs: tuple[Any, ...]
    outputs: Any
    updates: tuple[tuple[Shared, Tensor], ...]
    mode: Mode
    name: str | None
    returns: Returns


def function(  # noqa: PLR0913 (PyTensor's arguments)
    inputs: Sequence[Any] | Any,
    outputs: Any = None,
    mode: str | Mode | None = None,
    updates: Any = None,
    givens: Any = None,
    name: str | None = None,
    *,
    on_unused_input: OnUnused = "raise",
    allow_input_downcast: bool | None = None,
    returns: Returns = "native",
) -> Function:
    """Compile a graph into a Python function.

    Args:
        inputs: Symbolic arrays or ``graphc.In``, or nested lists, tuples and dicts of them; an
            argument of a call has the structure of its input.
        outputs: A symbolic array, or a nested list, tuple or dict of them; a call returns that
            structure. None for a function that only updates.
        mode: ``"JAX"``, ``"MLX"``, ``"NUMPY"`` or a ``graphc.Mode``; ``config.mode`` by default.
        updates: Pairs, or a dict, of shared variables and their new values, which they take after
            the outputs are computed.
        givens: Pairs, or a dict, of parts of the graph and what stands in their place.
        name: What messages call it.
        on_unused_input: ``"raise"``, ``"warn"`` or ``"ignore"`` where no output needs an input.
        allow_input_downcast: True: arguments of any dtype are cast; False: none is cast to
            anything narrower; None: Python numbers are.
        returns: ``"native"`` for the backend's arrays, ``"numpy"`` for NumPy's.

    Returns:
        A function that takes arguments by place or by name.

    Raises:
        MissingInputError: The outputs depend on an input that is not given.
        UnusedInputError: No output depends on an input.
        ArgumentError: Something that is no input, output, update or given.
        DTypeError: An update or a given of another dtype.
        UnsupportedOperationError: The backend lacks operations; names all of them.
        DynamicShapeError: A shape depends on values that a compiled backend does not have.
        ModeError: No such backend.

    Example:
        >>> import numpy as np, graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> f = graphc.function([x], {"mean": x.mean(), "sum": x.sum()}, mode="NUMPY")
        >>> {name: float(y) for name, y in f(np.array([1.0, 2.0, 3.0])).items()}
        {'mean': 2.0, 'sum': 6.0}
    """
    if returns not in {"native", "numpy"}:
        raise ArgumentError(f"returns={returns!r}: it is 'native' or 'numpy'.")
    containers = tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,)
    ins = tuple(_as_in(x, allow_input_downcast) for x in flatten(containers))
    swaps = _givens(givens)
    pairs = _updates(updates, swaps)
    wanted: list[Any] = [_output(y) for y in flatten(outputs)] if outputs is not None else []
    wanted = replaced(wanted, swaps) if swaps else wanted
    recipe = Recipe(
        rebuild(containers, list(ins)),
        None if outputs is None else rebuild(outputs, wanted),
        pairs,
        get_mode(mode),
        name,
        returns,
    )
    _check_inputs(ins, [*wanted, *(new for _, new in pairs)], on_unused_input)
    end_of_trace()
    return Function(recipe)


def _as_in(x: Any, allow_downcast: bool | None) -> In:
    wanted = x if isinstance(x, In) else In(x)
    variable = wanted.variable
    if not isinstance(variable, Tensor) or isinstance(variable.op, Constant | Leaf):
        raise ArgumentError(
            f"The input {variable!r} is no symbolic variable.",
            "Make inputs with gt.scalar, gt.vector, gt.matrix, gt.tensor.",
            where(here()),
        )
    if isinstance(variable, Shared):
        raise ArgumentError(
            f"The input {variable!r} is a shared variable, which has its own value.",
            "Leave it out; replace it with givens=[(variable, expression)] to pass a value.",
            where(here()),
        )
    if wanted.allow_downcast is None and allow_downcast is not None:
        return replace(wanted, allow_downcast=allow_downcast)
    return wanted


def _output(y: Any) -> Tensor:
    y = y.variable if isinstance(y, Out) else y
    try:
        return as_tensor(y)  # type: ignore[no-any-return]
    except DTypeError as error:
        raise ArgumentError(
            f"The output {y!r} is no symbolic array: {error.problem}", "", where(here())
        ) from error


def _pairs(given: Any, what: str) -> list[tuple[Any, Any]]:
    if given is None:
        return []
    pairs = list(given.items() if isinstance(given, Mapping) else _listed(given))
    if [pair for pair in pairs if not isinstance(pair, tuple | list) or len(pair) != 2]:
        raise ArgumentError(
            f"{what}={given!r}: pairs of a variable and an expression, or a dict, are wanted.",
            "",
            where(here()),
        )
    return [(old, new) for old, new in pairs]


def _listed(given: Any) -> Iterable[Any]:
    return given if isinstance(given, list | tuple) or hasattr(given, "__next__") else [given]


def _is_of_type(new: Tensor, old: Tensor) -> bool:
    """Whether it may take the other's place: no known length is another's."""
    pairs = zip(new.type.shape, old.type.shape, strict=False)
    return (
        new.dtype == old.dtype
        and new.ndim == old.ndim
        and not [1 for n, m in pairs if n is not None and m is not None and n != m]
    )


def _givens(givens: Any) -> dict[Node, Node]:
    swaps: dict[Node, Node] = {}
    for old, new in _pairs(givens, "givens"):
        new = as_tensor(new)
        if not isinstance(old, Tensor) or not _is_of_type(new, old):
            raise DTypeError(
                f"givens: {new!r} can't stand for {old!r}.",
                "Give it the same dtype, rank and lengths.",
                where(here()),
            )
        swaps[old] = new
    return swaps


def _updates(updates: Any, swaps: Mapping[Node, Node]) -> tuple[tuple[Shared, Tensor], ...]:
    result: dict[Shared, Tensor] = {}
    for variable, new in _pairs(updates, "updates"):
        if not isinstance(variable, Shared):
            raise ArgumentError(
                f"updates: {variable!r} is no shared variable.",
                "Make it with graphc.shared(value).",
                where(here()),
            )
        if variable in result:
            raise ArgumentError(f"updates: {variable!r} comes twice.", "", where(here()))
        if not isinstance(new, Tensor) and goes_into(np.asarray(new), variable.type, is_weak(new)):
            new = as_tensor(new, dtype=variable.dtype)
        new = as_tensor(new)
        if not _is_of_type(new, variable):
            raise DTypeError(
                f"updates: {variable!r} can't become {new!r}.",
                f"Give it the same dtype, rank and lengths, as with .astype({variable.dtype!r}).",
                where(here()),
            )
        (result[variable],) = replaced([new], swaps)  # type: ignore[assignment]
    return tuple(result.items())


def _check_inputs(ins: Sequence[In], outputs: Sequence[Node], on_unused: OnUnused) -> None:
    if on_unused not in {"raise", "warn", "ignore"}:
        raise ArgumentError(f"on_unused_input={on_unused!r}: it is 'raise', 'warn' or 'ignore'.")
    variables = [wanted.variable for wanted in ins]
    given = set(variables)
    if len(given) != len(variables):
        twice = next(x for x in given if variables.count(x) > 1)
        raise ArgumentError(f"The input {twice!r} comes twice.", "", where(here()))
    needed = toposort(outputs, given)
    missing = [x for x in needed if isinstance(x.op, Input) and not isinstance(x, Shared)]
    refuse_missing(missing, variables)
    used = {x for node in needed for x in node.inputs}.union(outputs)
    for x in variables:
        if x not in used and on_unused != "ignore":
            message = f"No output depends on the input {x!r}."
            if on_unused == "raise":
                raise UnusedInputError(
                    message, "Leave it out, or pass on_unused_input='ignore'.", where(here())
                )
            warnings.warn(message, stacklevel=3)


class Function:
    """A compiled graph: call it with a value for each input, by place or by name.

    Calls are safe from many threads: those that share a variable that one of them updates take
    turns.

    Attributes:
        name: What messages call it.
        mode: Where it runs.
        asked: What it was asked to compute; the shared variables' new values are its last outputs.
        leaves: The captured arrays of that, in the order that graphs of equal keys share.
        stats: What compiling it cost, and why.
        sighting: What is remembered of it.
    """

    stats: Stats
    sighting: Sighting

    def __init__(self, recipe: Recipe) -> None:
        start = perf_counter()
        self._recipe = recipe
        self.name = recipe.name
        self.mode = recipe.mode
        self._ins: list[In] = flatten(recipe.inputs)
        self._shared, self._asked = _asked(recipe, [wanted.variable for wanted in self._ins])
        self.asked = self._asked.graph
        self.leaves = self._asked.leaves()
        self._compiled, self._made = compiled(self._asked, self.leaves)
        program = self._compiled
        backend = self.mode.backend
        self._arrays = [_held(x, type, self.mode) for x, type in self._captured(program)]
        changed = [x for x, _ in recipe.updates]
        self._execute: Executable = self._bound(program, changed, self._arrays)
        self._kinds: frozenset[Any] = frozenset(backend.kinds)
        self._types = program.outline.arguments[: len(self._ins)]
        self._dtypes = [(type.numpy_dtype, backend.own_dtype(type)) for type in self._types]
        self._strict = any(wanted.strict for wanted in self._ins)
        self._flat = all(isinstance(x, In) for x in recipe.inputs)
        self.__class__ = _Young
        sight(self, seconds=perf_counter() - start)

    @property
    def key(self) -> str:
        """The structural key of what was asked."""
        return self.asked.key()

    @property
    def pattern(self) -> tuple[Any, ...]:
        """How the graph's inputs and outputs are a call's arguments, results and updates."""
        return self._asked.arguments, self._asked.updated, self._asked.single

    def _captured(self, program: Compiled) -> list[tuple[Any, TensorType]]:
        """The arrays that a program takes, and as what."""
        types = program.outline.arguments[program.outline.inputs :]
        return [
            (self.leaves[i].op.array, type)  # type: ignore[attr-defined]
            for i, type in zip(program.slots, types, strict=True)
        ]

    def _bound(self, program: Compiled, changed: Sequence[Shared], arrays: list[Any]) -> Executable:
        """What runs a program with captured arrays and this function's shared variables.

        Args:
            program: Takes the arguments, the variables' values and the arrays.
            changed: The variables that get new values.
            arrays: The captured ones, which may be put into another form later.
        """
        backend, options = self.mode.backend, self.mode.options
        execute, outline = program.execute, program.outline
        if self._shared:
            first = len(self._ins)
            types = outline.arguments[first : outline.inputs]
            shared = dict(zip(self._shared, types, strict=True))
            updates = [*zip(changed, program.fresh, strict=False)]
            donated = [i - first for i in program.donated]
            execute = stateful(execute, shared, updates, donated, backend, options)
            execute = partial(execute, leaves=arrays) if arrays else execute
            arrays = []
        return _finished(execute, self._finisher(), arrays)

    def _settle(self) -> None:
        """Have later calls take the shortest way."""
        backend, options = self.mode.backend, self.mode.options
        types = [type for _, type in self._captured(self._compiled)]
        pairs = zip(self._arrays, types, strict=True)
        self._arrays[:] = [
            x if isinstance(x, backend.kinds[-1]) else backend.array(x, type, options)
            for x, type in pairs
        ]
        is_plain = self._flat and not self._strict
        settled = quick(Function, self._dtypes, self._kinds, self._execute)
        self.__class__ = settled if is_plain else Function

    @cached_property
    def _own(self) -> Built:
        """The program made of this function's own graph, with the lines of its own code."""
        return built(self._asked) if self._made is None else self._made

    @property
    def _program(self) -> Program:
        return self._own.program

    @cached_property
    def graph(self) -> Graph:
        """What it computes: what was asked, rewritten."""
        own = self._own.graph
        swaps = dict(zip(own.inputs, self.asked.inputs, strict=True))
        same = {x: new for x, new in swaps.items() if x.type is new.type}
        same |= {
            x: self.leaves[x.op.place]  # type: ignore[attr-defined]
            for x in own.leaves
            if self.leaves[x.op.place].type is x.type  # type: ignore[attr-defined]
        }
        inputs = [same.get(x, x) for x in own.inputs]
        return Graph(inputs, replaced(own.outputs, same))

    def _finisher(self) -> Callable[[Any], Any] | None:
        """What makes the outputs of what was computed; None where that is them."""
        outputs = self._recipe.outputs
        numpy = self.mode.backend.numpy if self._recipe.returns == "numpy" else None
        if outputs is None:
            return lambda results: None
        if self._asked.single:
            return numpy
        if isinstance(outputs, Tensor):
            return lambda results: numpy(results[0]) if numpy else results[0]
        if isinstance(outputs, list) and all(isinstance(y, Tensor) for y in outputs) and not numpy:
            return None
        return lambda results: rebuild(outputs, [numpy(y) for y in results] if numpy else results)

    # Calling.

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """The outputs for these values of the inputs.

        Raises:
            ArgumentError: A wrong number, name, kind, rank or static length of an argument.
            DTypeError: An argument's dtype does not go into its input's.
            RuntimeShapeError: Lengths that must be equal are not.
            OperationError: An operation failed.
        """
        dtypes = self._dtypes
        if kwargs or len(args) != len(dtypes) or not self._flat:
            args = self._arranged(args, kwargs)
        kinds = self._kinds
        for x, either in zip(args, dtypes, strict=True):
            if self._strict or x.__class__ not in kinds or x.dtype not in either:
                args = self._converted(args)
                break
        try:
            return self._execute(*args)
        except GraphcError as error:
            raise self._told(error, args) from error.__cause__

    def _arranged(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The arguments by place, one for each array."""
        containers = self._recipe.inputs
        if len(args) > len(containers):
            raise ArgumentError(
                f"{self}: {len(args)} arguments were given; it takes {len(containers)}.",
                f"They are {self._signature()}.",
                where(here()),
            )
        labels = [x.label if isinstance(x, In) else None for x in containers]
        given: list[Any] = [*args, *[MISSING] * (len(containers) - len(args))]
        for name, value in kwargs.items():
            if labels.count(name) != 1:
                raise ArgumentError(
                    f"{self} has no single input called {name!r}.",
                    f"They are {self._signature()}.",
                    where(here()),
                )
            place = labels.index(name)
            if given[place] is not MISSING:
                raise ArgumentError(f"The argument {name!r} is given twice.", "", where(here()))
            given[place] = value
        found: list[Any] = []
        for place, (wanted, value) in enumerate(zip(containers, given, strict=True)):
            found += self._parts(place, wanted, value)
        return tuple(found)

    def _parts(self, place: int, wanted: Any, value: Any) -> list[Any]:
        if isinstance(wanted, In):
            if value is MISSING:
                value = wanted.value
            if value is MISSING:
                raise ArgumentError(
                    f"{self}: the argument {wanted.label or place!r} is missing.",
                    f"The arguments are {self._signature()}.",
                    where(here()),
                )
            return [value]
        try:
            return flatten_like(wanted, value)
        except ValueError as error:
            raise ArgumentError(
                f"The argument {place} of {self} has not the structure of its input: {error}.",
                "Give containers of the same kinds, lengths and keys.",
                where(here()),
            ) from error

    def _converted(self, args: Sequence[Any]) -> tuple[Any, ...]:
        backend = self.mode.backend
        return tuple(
            converted(x, wanted, type, i, backend)
            for i, (x, wanted, type) in enumerate(zip(args, self._ins, self._types, strict=True))
        )

    # Telling.

    def _told(self, error: GraphcError, args: Sequence[Any]) -> GraphcError:
        """The error with this function's names and lines, where it shares another's program."""
        if self._made is None and not isinstance(error, RecompileError):
            own = replace(self._own, donated=())
            program = Compiled(self._asked, own, Ledger())
            arrays = [_held(x, type, self.mode) for x, type in self._captured(program)]
            execute = self._bound(program, (), arrays)
            with suppress(Exception):  # only then is it another error
                try:
                    execute(*args)
                except GraphcError as found:
                    return found
        return error

    def _signature(self) -> str:
        return ", ".join(f"{x.label or i}: {x.variable.type!r}" for i, x in enumerate(self._ins))

    def __repr__(self) -> str:
        return f"function {self.name}" if self.name else f"function({self._signature()})"

    def plan(self) -> Plan:
        """What will run: every step with its dtype and the user's line, and what was rewritten.

        Example:
            >>> import graphc, graphc.tensor as gt
            >>> x = gt.vector("x")
            >>> print(graphc.function([x], gt.log(1 + x), mode="NUMPY").plan())
            function(x: float64[?]) in mode NUMPY: NumPy ..., on the host
              a0 = x: float64[?]
              v1 = log1p(a0): float64[?]   ...
              return v1
            rewritten: ...
        """
        own = self._own
        return Plan(
            repr(self),
            self.mode,
            own.program,
            own.passes,
            own.graph.inputs[len(self._ins) :],
            self._asked.results,
        )

    # Copying.

    def __reduce__(self) -> tuple[Any, ...]:
        return Function, (self._recipe,)

    def __copy__(self) -> Function:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Function:
        """A function of its own, with shared variables of its own."""
        copies: dict[Node, Node] = {x: deepcopy(x, memo) for x in self._shared}
        recipe = self._recipe
        outputs = recipe.outputs
        if outputs is not None:
            outputs = rebuild(outputs, replaced(flatten(outputs), copies))
        updates = tuple((copies[x], replaced([new], copies)[0]) for x, new in recipe.updates)
        return Function(replace(recipe, outputs=outputs, updates=updates))  # type: ignore[arg-type]


class _Young(Function):
    # One that was not called often yet: its calls are counted, and the first is judged.
    __doc__ = Function.__doc__

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        with called(self):
            if self.stats.calls >= WORTH:
                self._settle()
            return Function.__call__(self, *args, **kwargs)


SMALL = 2**20
"""Bytes of an array that the first calls take as NumPy's: a device takes longer to get it."""


def _held(array: np.ndarray[Any, Any], type: TensorType, mode: Mode) -> Any:
    """An array's values of now."""
    if array.nbytes > SMALL:
        return mode.backend.array(array, type, mode.options)
    with np.errstate(over="ignore"):
        return np.array(array, type.numpy_dtype)


def _finished(
    execute: Executable, finish: Callable[[Any], Any] | None, leaves: Sequence[Any]
) -> Executable:
    """What takes arguments that are right and gives what a call returns."""
    if finish is None and not leaves:
        return execute
    if finish is None:
        return lambda *args: execute(*args, *leaves)
    return lambda *args: finish(execute(*args, *leaves))


def _asked(recipe: Recipe, variables: list[Node]) -> tuple[list[Shared], Asked]:
    """The shared variables, and the graph of all that a function takes and gives."""
    outputs = flatten(recipe.outputs) if recipe.outputs is not None else []
    ends = [*outputs, *(new for _, new in recipe.updates)]
    # A computed node that is an input is nothing but an input here, or a rewrite of something
    # else could give that very node.
    cut: dict[Node, Node] = {
        x: Node.input(x.type) for x in variables if not isinstance(x.op, Input)
    }
    if cut:
        ends = replaced(ends, cut)
        variables = [cut.get(x, x) for x in variables]
    found = [x for x in toposort(ends, variables) if isinstance(x, Shared)]
    shared = sorted({*found, *(x for x, _ in recipe.updates)}, key=lambda x: x.serial)
    places = {x: len(variables) + i for i, x in enumerate(shared)}
    asked = Asked(
        # Whatever rules there are, of branches only the chosen one is computed.
        Graph([*variables, *shared], gathered(ends, variables)),
        len(variables),
        tuple([places[x] for x, _ in recipe.updates]),
        isinstance(recipe.outputs, Tensor) and not recipe.updates,
        recipe.mode,
    )
    return shared, asked


def clone_replace(
    output: Any, replace: Iterable[tuple[Any, Any]] | Mapping[Any, Any] | None = None
) -> Any:
    """A graph with parts replaced by others.

    Args:
        output: A symbolic array, or a nested list, tuple or dict of them.
        replace: Pairs, or a dict, of parts of the graph and what stands in their place, of the
            same dtype and rank.

    Returns:
        The structure of ``output``.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x, y = gt.scalars("x", "y")
        >>> graphc.clone_replace(gt.exp(x), {x: y}) is gt.exp(y)
        True
    """
    return rebuild(output, replaced(flatten(output), _givens(replace)))
