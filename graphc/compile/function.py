"""Functions: a graph compiled for a backend, with its inputs, outputs and updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import cached_property, partial
from time import perf_counter
from typing import Any

import numpy as np

from graphc.compile.arguments import MISSING, In, converted
from graphc.compile.cache import compiled
from graphc.compile.events import Stats
from graphc.compile.implicit import (
    described,
    implicit_inputs,
    label_of,
    opened_inputs,
    opened_outputs,
)
from graphc.compile.mode import Mode, get_mode
from graphc.compile.pipeline import Built, built
from graphc.compile.plan import Plan
from graphc.compile.pure import Pure
from graphc.compile.quick import quick
from graphc.compile.recipe import (
    OnUnused,
    Recipe,
    Returns,
    as_in,
    as_output,
    asked_of,
    check_givens,
    check_inputs,
    givens_of,
    updates_of,
)
from graphc.compile.recompile import WORTH, Sighting, called, sight
from graphc.compile.records import Compiled
from graphc.compile.shared import Shared
from graphc.compile.state import stateful
from graphc.compile.verify import Verified, verified
from graphc.errors import (
    ArgumentError,
    BoundsError,
    GraphcError,
    RecompileError,
)
from graphc.ir import (
    Graph,
    Node,
    TensorType,
    flatten,
    flatten_like,
    here,
    rebuild,
    replaced,
    where,
    wholes,
)
from graphc.link import Executable, Ledger, Program
from graphc.tensor import Tensor
from graphc.tensor.captured import end_of_trace

__all__ = ["Function", "function"]


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
    implicit = implicit_inputs(containers)
    containers = opened_inputs(containers) if implicit else containers
    ins = tuple(as_in(x, allow_input_downcast) for x in flatten(containers))
    swaps = givens_of(givens)
    pairs = updates_of(updates, swaps)
    wanted: list[Any] = [as_output(y) for y in flatten(outputs)] if outputs is not None else []
    wanted = replaced(wanted, swaps) if swaps else wanted
    outputs = None if outputs is None else opened_outputs(outputs, wanted, ins)
    recipe = Recipe(rebuild(containers, list(ins)), outputs, pairs, get_mode(mode), name, returns)
    ends = [*(() if outputs is None else flatten(outputs)), *(new for _, new in pairs)]
    check_givens(swaps, ends, ins)
    together = [[x.variable for x in flatten(whole)] for whole in wholes(recipe.inputs)]
    check_inputs(ins, ends, on_unused_input, implicit, together)
    end_of_trace()
    return Function(recipe)


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
        self._shared, self._asked = asked_of(recipe, [wanted.variable for wanted in self._ins])
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
        self._labels = [label_of(x) for x in recipe.inputs]
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
        return Graph(inputs, replaced(own.outputs[: len(self.asked.outputs)], same))

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
        labels = self._labels
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
        if isinstance(wanted, In) and value is not MISSING:
            return [value]
        if value is MISSING:
            values = [x.value for x in flatten(wanted)]
            if not values or any(x is MISSING for x in values):
                raise ArgumentError(
                    f"{self}: the argument {self._labels[place] or place!r} is missing.",
                    f"The arguments are {self._signature()}.",
                    where(here()),
                )
            return values
        try:
            return flatten_like(wanted, value)
        except ValueError as error:
            raise ArgumentError(
                f"The argument {self._labels[place] or place!r} of {self} has not the structure of "
                f"its input: {error}.",
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
        found = error
        with suppress(Exception):  # only then is it another error
            if self._made is None and not isinstance(error, RecompileError):
                found = self._raised(lambda: self._by_own(args)) or error
            if isinstance(found, BoundsError) and not self.mode.backend.eager:
                found = self._raised(lambda: self._by_numpy(args)) or found
        return found

    @staticmethod
    def _raised(call: Callable[[], Any]) -> GraphcError | None:
        try:
            call()
        except GraphcError as error:
            return error
        return None

    def _by_own(self, args: Sequence[Any]) -> None:
        """Run what is made of this function's own graph; updates are dropped."""
        program = Compiled(self._asked, replace(self._own, donated=()), Ledger())
        arrays = [_held(x, type, self.mode) for x, type in self._captured(program)]
        self._bound(program, (), arrays)(*args)

    def _by_numpy(self, args: Sequence[Any]) -> None:
        """Run the graph as it was written by NumPy, which knows each index."""
        own = built(replace(self._asked, mode=Mode("NUMPY", excluding=["all"])))
        leaves = [self.leaves[i].op.array for i in own.slots]  # type: ignore[attr-defined]
        own.program.run(*self._values(args), *leaves)

    def _values(self, args: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """What the graph's inputs are in a call, in their own dtypes."""
        values = [*map(self.mode.backend.numpy, args), *[x.get_value() for x in self._shared]]
        pairs = zip(values, self.asked.inputs, strict=True)
        return [np.asarray(x, y.type.numpy_dtype) for x, y in pairs]

    def _signature(self) -> str:
        return ", ".join(described(x, i) for i, x in enumerate(self._recipe.inputs))

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
            len(own.told),
        )

    @cached_property
    def pure(self) -> Pure:
        """It as a function of the backend's library, which may differentiate, batch and compile it.

        Derivatives and batches are graphc's. Shared variables' values are passed and given: see
        ``Pure``.

        Example:
            >>> import jax, graphc, graphc.tensor as gt
            >>> x = gt.vector("x")
            >>> f = graphc.function([x], (x**3).sum())
            >>> print(jax.grad(f.pure)(jax.numpy.array([1.0, 2.0])))
            [ 3. 12.]
        """
        return Pure(
            repr(self),
            self._asked,
            self._baked,
            outputs=self._recipe.outputs,
            arranged=self._arranged,
            wanted=self._ins,
        )

    @property
    def _baked(self) -> list[int]:
        """The captured arrays whose values are part of the program, by place."""
        return [i for i in range(len(self.leaves)) if i not in self._compiled.slots]

    def verify(self, /, *args: Any, **kwargs: Any) -> Verified:
        """Run it for these arguments, and each of its operations by NumPy beside that.

        Shared variables are read, and not updated.

        Args:
            args: The arguments, as for a call.
            kwargs: Those passed by name.

        Returns:
            True where both agree but for rounding; otherwise it tells the first operation that they
            disagree on, its line and its values.

        Raises:
            CheckError: A condition of the graph does not hold.

        Example:
            >>> import graphc, graphc.tensor as gt
            >>> x = gt.vector("x")
            >>> f = graphc.function([x], gt.log(1 + x).sum(), mode="JAX")
            >>> f.verify([1.0, 2.0])
            function(x: float64[?]) in Mode('JAX'): all 2 operations agree with NumPy.
        """
        own = self._own
        leaves = [self.leaves[i].op.array for i in own.slots]  # type: ignore[attr-defined]
        values = self._values(self._converted(self._arranged(args, kwargs)))
        return verified(repr(self), self.mode, own.program, self.asked, values, leaves)

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
