"""Functions: a graph compiled for a backend, with its inputs, outputs and updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

import numpy as np

from graphc.compile.arguments import MISSING, In, Out, converted
from graphc.compile.cache import CompiledProgram, compiled
from graphc.compile.calls import CallCode, Outputs, ProgramCall
from graphc.compile.events import Stats
from graphc.compile.implicit import (
    described,
    implicit_inputs,
    label_of,
    opened_inputs,
    opened_outputs,
)
from graphc.compile.mode import Mode, get_mode
from graphc.compile.pipeline import LoweredProgram, lower_program
from graphc.compile.plan import Plan, padding_of, placement_of
from graphc.compile.pure import Pure
from graphc.compile.recompile import WORTHWHILE_CALLS, FunctionRecord, counted_call, record_function
from graphc.compile.shared import Shared
from graphc.compile.specification import (
    FunctionSpec,
    OnUnused,
    Returns,
    as_in,
    as_output,
    check_givens,
    check_inputs,
    default_updates,
    givens_of,
    signature_of,
    swapped,
    updates_of,
)
from graphc.compile.verify import Verification, verified
from graphc.errors import (
    ArgumentError,
    BoundsError,
    GraphcError,
    RecompileError,
)
from graphc.ir import (
    Graph,
    TensorType,
    flatten,
    flatten_like,
    paths,
    rebuild,
    replaced,
    toposort,
    wholes,
)
from graphc.lazy import provided
from graphc.link import CompileContext, Executable, Program
from graphc.link.placement import Placement
from graphc.link.shortcut import NotAdmittedError, Shortcut
from graphc.tensor import Tensor
from graphc.tensor.core.captured import end_of_trace
from graphc.tensor.core.tensor import ArrayOrNumber

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from graphc.compile.profile import Profile

    Result = TypeVar("Result", default=Any)
else:
    from typing import TypeVar

    Result = TypeVar("Result")

Name = TypeVar("Name")


@overload
def function(
    inputs: Sequence[Any] | Any,
    outputs: None = None,
    mode: str | Mode | None = None,
    updates: Any = None,
    givens: Any = None,
    name: str | None = None,
    *,
    on_unused_input: OnUnused = "raise",
    allow_input_downcast: bool | None = None,
    no_default_updates: Any = False,
    returns: Returns = "native",
) -> Function[None]: ...


@overload
def function(
    inputs: Sequence[Any] | Any,
    outputs: ArrayOrNumber | Out,
    mode: str | Mode | None = None,
    updates: Any = None,
    givens: Any = None,
    name: str | None = None,
    *,
    on_unused_input: OnUnused = "raise",
    allow_input_downcast: bool | None = None,
    no_default_updates: Any = False,
    returns: Literal["numpy"],
) -> Function[np.ndarray[Any, Any]]: ...


@overload
def function(
    inputs: Sequence[Any] | Any,
    outputs: list[Tensor] | tuple[Tensor, ...],
    mode: str | Mode | None = None,
    updates: Any = None,
    givens: Any = None,
    name: str | None = None,
    *,
    on_unused_input: OnUnused = "raise",
    allow_input_downcast: bool | None = None,
    no_default_updates: Any = False,
    returns: Literal["numpy"],
) -> Function[list[np.ndarray[Any, Any]]]: ...


@overload
def function(
    inputs: Sequence[Any] | Any,
    outputs: ArrayOrNumber | Out,
    mode: str | Mode | None = None,
    updates: Any = None,
    givens: Any = None,
    name: str | None = None,
    *,
    on_unused_input: OnUnused = "raise",
    allow_input_downcast: bool | None = None,
    no_default_updates: Any = False,
    returns: Returns = "native",
) -> Function[Any]: ...


@overload
def function(
    inputs: Sequence[Any] | Any,
    outputs: list[Any] | tuple[Any, ...],
    mode: str | Mode | None = None,
    updates: Any = None,
    givens: Any = None,
    name: str | None = None,
    *,
    on_unused_input: OnUnused = "raise",
    allow_input_downcast: bool | None = None,
    no_default_updates: Any = False,
    returns: Returns = "native",
) -> Function[list[Any]]: ...


@overload
def function(
    inputs: Sequence[Any] | Any,
    outputs: dict[Name, Any],
    mode: str | Mode | None = None,
    updates: Any = None,
    givens: Any = None,
    name: str | None = None,
    *,
    on_unused_input: OnUnused = "raise",
    allow_input_downcast: bool | None = None,
    no_default_updates: Any = False,
    returns: Returns = "native",
) -> Function[dict[Name, Any]]: ...


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
    no_default_updates: Any = False,
    returns: Returns = "native",
) -> Function:
    """Compile a graph into a Python function.

    Args:
        inputs: Symbolic arrays or ``graphc.In``, or nested lists, tuples and dicts of them; an
            argument of a call has the structure of its input.
        outputs: A symbolic array, or a nested list, tuple or dict of them; a call returns that
            structure, a list for a tuple of outputs. None for a function that only updates.
        mode: ``"JAX"``, ``"MLX"``, ``"NUMPY"`` or a ``graphc.Mode``; ``config.mode`` by default.
        updates: Pairs, or a dict, of shared variables and their new values, which they take after
            the outputs are computed.
        givens: Pairs, or a dict, of parts of the graph and their replacements.
        name: The function's name in messages.
        on_unused_input: ``"raise"``, ``"warn"`` or ``"ignore"`` where no output needs an input.
        allow_input_downcast: True: arguments of any dtype are cast; False: none is cast to
            anything narrower; None: Python numbers are.
        no_default_updates: True, or a list of shared variables: these keep their values, and are
            not updated by default, as keys of a ``RandomStream`` otherwise are.
        returns: ``"native"`` for the backend's arrays, ``"numpy"`` for NumPy's.

    Returns:
        A function that takes arguments by place or by name.

    Raises:
        MissingInputError: The outputs depend on an input that is not given.
        UnusedInputError: No output depends on an input.
        ArgumentError: A malformed input, output, update or given.
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
        raise ArgumentError(f"returns={returns!r}: expected 'native' or 'numpy'.")
    containers = tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,)
    implicit = implicit_inputs(containers)
    containers = opened_inputs(containers) if implicit else containers
    ins = tuple(as_in(x, allow_input_downcast) for x in flatten(containers))
    swaps = givens_of(givens)
    pairs = updates_of(updates, swaps)
    nodes: list[Any] = [as_output(y) for y in flatten(outputs)] if outputs is not None else []
    written = nodes
    nodes = replaced(nodes, swaps) if swaps else nodes
    outputs = None if outputs is None else opened_outputs(outputs, nodes, ins)
    outputs = list(outputs) if type(outputs) is tuple else outputs
    ends = [*(() if outputs is None else flatten(outputs)), *(new for _, new in pairs)]
    variables = [x.variable for x in ins]
    order = toposort(ends, variables)
    more = default_updates(order, pairs, no_default_updates, swaps, variables)
    pairs += more
    spec = FunctionSpec(
        rebuild(containers, list(ins)), outputs, pairs, get_mode(mode), name, returns
    )
    ends = [*(() if outputs is None else flatten(outputs)), *(new for _, new in pairs)]
    check_givens(swaps, ends, ins)
    together = [[x.variable for x in flatten(whole)] for whole in wholes(spec.inputs)]
    check_inputs(ins, ends, on_unused_input, implicit, together, written, None if more else order)
    end_of_trace()
    return Function(spec)


class Function(Generic[Result]):
    """A compiled graph: call it with a value for each input, by position or by name.

    Calls from many threads are safe: those that use a shared variable that one of them updates take
    turns.

    Attributes:
        name: Its name in messages.
        mode: The mode it was compiled for.
        requested: The graph before rewriting; its last outputs are shared variables' new values.
        leaves: The arrays that the graph captures, in the order that graphs of equal keys share.
        stats: Its compilations, their cost and causes.
        record: The record by which needless compilations are detected.
    """

    stats: Stats
    record: FunctionRecord

    _compared = False
    # Whether an array of the backend's own has come in another dtype than its input's.
    _converts = False

    def __init__(self, spec: FunctionSpec) -> None:
        start = perf_counter()
        self._spec = spec
        self.name = spec.name
        self._ins: list[In] = flatten(spec.inputs)
        self._shared, self._signature = signature_of(
            spec, [parameter.variable for parameter in self._ins]
        )
        self.mode = self._signature.mode
        self.requested = self._signature.graph
        self.leaves = self._signature.leaves()
        self._compiled, self._lowered = compiled(self._signature, self.leaves)
        program = self._compiled
        backend = self.mode.backend
        self._arrays = [_held(x, type, self.mode) for x, type in self._captured(program)]
        changed = [x for x, _ in spec.updates]
        self._code = self._bound(program, changed, self._arrays)
        self._execute: Executable = self._code.function()
        self._kinds: frozenset[Any] = frozenset(backend.kinds)
        self._types = program.spec.arguments[: len(self._ins)]
        self._dtypes = [(type.numpy_dtype, backend.own_dtype(type)) for type in self._types]
        self._strict = any(parameter.strict for parameter in self._ins)
        self._flat = all(isinstance(x, In) for x in spec.inputs)
        self._labels = [label_of(x) for x in spec.inputs]
        self.__class__ = _NewFunction
        record_function(self, seconds=perf_counter() - start)

    @property
    def key(self) -> str:
        """The structural key of the requested graph."""
        return self.requested.key()

    @property
    def pattern(self) -> tuple[Any, ...]:
        """The graph's mapping to a call: the number of arguments, the updates, a single result."""
        return self._signature.arguments, self._signature.updated, self._signature.single

    def _captured(self, program: CompiledProgram) -> list[tuple[Any, TensorType]]:
        """The arrays that a program takes, and their types in it."""
        types = program.spec.arguments[program.spec.inputs :]
        return [
            (self.leaves[i].op.array, type)  # type: ignore[attr-defined]
            for i, type in zip(program.slots, types, strict=True)
        ]

    def _bound(
        self, program: CompiledProgram, changed: Sequence[Shared], arrays: list[Any]
    ) -> CallCode:
        """A program's call with captured arrays and this function's shared variables.

        Args:
            program: Takes the arguments, the variables' values and the arrays.
            changed: The variables that get new values.
            arrays: The captured arrays, a list whose elements may be converted later.
        """
        count = len(self._ins)
        call = ProgramCall(program.execute, count, arrays, self._outputs())
        if not self._shared:
            return call.plain()
        types = program.spec.arguments[count : program.spec.inputs]
        return call.stateful(
            dict(zip(self._shared, types, strict=True)),
            [*zip(changed, program.fresh, strict=False)],
            [i - count for i in program.donated],
            self.mode.backend,
            self.mode.options,
        )

    def _settle(self) -> None:
        """Make later calls take the fast path."""
        backend, options = self.mode.backend, self.mode.options
        types = [type for _, type in self._captured(self._compiled)]
        pairs = zip(self._arrays, types, strict=True)
        self._arrays[:] = [
            x if isinstance(x, backend.kinds[-1]) else backend.array(x, type, options)
            for x, type in pairs
        ]
        self.__class__ = Function
        if self._flat and not self._strict:
            self.__class__ = self._code.direct_class(
                Function, self._dtypes, backend.kinds, trusting=not self._converts
            )

    @property
    def _exchanges(self) -> bool:
        """Whether a call exchanges arrays with other processes."""
        # Imported here: few programs are of several processes.
        all_sum = import_module("graphc.tensor.core.all_sum")
        return all_sum.joined() is not None and all_sum.holds_sums(self.requested.nodes)

    def _refuse_different(self) -> None:
        """Raise where new values are of sums over processes, and the old ones differ in these."""
        self._compared = True
        if self._exchanges:
            news = self.requested.outputs[self._signature.results :]
            updates = [*zip([x for x, _ in self._spec.updates], news, strict=True)]
            import_module("graphc.compile.broadcast").refuse_different(self.requested, updates)

    @cached_property
    def _own_program(self) -> LoweredProgram:
        """The program made of this function's own graph, with the lines of its own code."""
        return lower_program(self._signature) if self._lowered is None else self._lowered

    @property
    def _program(self) -> Program:
        return self._own_program.program

    @cached_property
    def graph(self) -> Graph:
        """The requested graph, rewritten."""
        own = self._own_program.graph
        swaps = dict(zip(own.inputs, self.requested.inputs, strict=True))
        same = {x: new for x, new in swaps.items() if x.type is new.type}
        same |= {
            x: self.leaves[x.op.place]  # type: ignore[attr-defined]
            for x in own.leaves
            if self.leaves[x.op.place].type is x.type  # type: ignore[attr-defined]
        }
        inputs = [same.get(x, x) for x in own.inputs]
        return Graph(inputs, replaced(own.outputs[: len(self.requested.outputs)], same))

    def _outputs(self) -> Outputs:
        """How a call's outputs are made of the program's results."""
        outputs = self._spec.outputs
        numpy = self.mode.backend.numpy if self._spec.returns == "numpy" else None
        if isinstance(outputs, Tensor):
            return Outputs(not self._signature.single, numpy)
        if outputs is None:
            return Outputs(False, lambda results: None)
        if isinstance(outputs, list) and all(isinstance(y, Tensor) for y in outputs):
            return Outputs(False, numpy and (lambda results: [numpy(y) for y in results]))
        return Outputs(
            False,
            lambda results: rebuild(outputs, [numpy(y) for y in results] if numpy else results),
        )

    # Calling.

    def __call__(self, /, *args: Any, **kwargs: Any) -> Result:
        """Return the outputs for values of the inputs.

        Raises:
            ArgumentError: A wrong number, name, kind, rank or static length of an argument.
            DTypeError: An argument's dtype cannot be converted to its input's.
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
            return self._execute(*args)  # type: ignore[no-any-return]
        except GraphcError as error:
            raise self._explained(error, args) from error.__cause__

    def _arranged(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The arguments by position, one for each array."""
        containers = self._spec.inputs
        if len(args) > len(containers):
            s = "" if len(containers) == 1 else "s"
            raise ArgumentError(
                f"{self}: expected {len(containers)} argument{s}, got {len(args)}.",
                f"They are {self._parameters()}.",
            )
        labels = self._labels
        given: list[Any] = [*args, *[MISSING] * (len(containers) - len(args))]
        for name, value in kwargs.items():
            if labels.count(name) != 1:
                raise ArgumentError(
                    f"{self} has no single input called {name!r}.",
                    f"They are {self._parameters()}.",
                )
            place = labels.index(name)
            if given[place] is not MISSING:
                problem = f"{self}: the argument {name!r} is given twice."
                raise ArgumentError(problem, "Give it by position or by name.")
            given[place] = value
        found: list[Any] = []
        for place, (container, value) in enumerate(zip(containers, given, strict=True)):
            found += self._values_in(place, container, value)
        return tuple(found)

    def _values_in(self, place: int, container: Any, value: Any) -> list[Any]:
        if isinstance(container, In) and value is not MISSING:
            return [value]
        if value is MISSING:
            values = [x.value for x in flatten(container)]
            if not values or any(x is MISSING for x in values):
                raise ArgumentError(
                    f"{self}: the argument {self._labels[place] or place!r} is missing.",
                    f"The arguments are {self._parameters()}.",
                )
            return values
        try:
            return flatten_like(container, value)
        except ValueError as error:
            raise ArgumentError(
                f"The argument {self._labels[place] or place!r} of {self} lacks its input's "
                f"structure: {error}.",
                "Give containers of the same kinds, lengths and keys.",
            ) from error

    def _refused(self, failed: Exception, args: tuple[Any, ...], values: tuple[Any, ...]) -> Any:
        """The results of a call that the executable's shortcut failed.

        Args:
            failed: Its error.
            args: The arguments, whose dtypes need not be those of their inputs.
            values: What else the program takes.

        Raises:
            NotAdmittedError: An argument is to be converted.
        """
        pairs = zip(args, self._dtypes, strict=True)
        if any(x.dtype not in either for x, either in pairs):
            self._converts = True
            self._settle()
            raise NotAdmittedError
        shortcut = Shortcut.of(self._compiled.execute)
        assert shortcut is not None
        assert shortcut.again is not None
        return shortcut.again(failed, (*args, *values))

    def _converted(self, args: Sequence[Any]) -> tuple[Any, ...]:
        backend = self.mode.backend
        kind = backend.kinds[-1]
        found = tuple(
            converted(x, parameter, type, i, backend)
            for i, (x, parameter, type) in enumerate(zip(args, self._ins, self._types, strict=True))
        )
        pairs = zip(args, found, strict=True)
        if any(x.__class__ is kind and y is not x for x, y in pairs):
            self._converts = True
        return found

    # Errors.

    def _explained(self, error: GraphcError, args: Sequence[Any]) -> GraphcError:
        """The error with this function's own names and lines, where its program is shared."""
        found = error
        if self._exchanges:
            return error  # other processes do not run it again
        with suppress(Exception):  # the first error stands where there is no better one
            if self._lowered is None and not isinstance(error, RecompileError):
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
        """Run a program made of this function's own graph; updates are dropped."""
        program = CompiledProgram(
            self._signature, replace(self._own_program, donated=()), CompileContext()
        )
        arrays = [_held(x, type, self.mode) for x, type in self._captured(program)]
        self._bound(program, (), arrays).function()(*args)

    def _by_numpy(self, args: Sequence[Any]) -> None:
        """Run the graph as it was written by NumPy, which knows each index."""
        own = lower_program(replace(self._signature, mode=Mode("NUMPY", excluding=["all"])))
        leaves = [self.leaves[i].op.array for i in own.slots]  # type: ignore[attr-defined]
        with np.errstate(all="ignore"):
            own.program.run(*self._values(args), *leaves)

    def _values(self, args: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """The values of the graph's inputs in a call, in their own dtypes."""
        values = [*map(self.mode.backend.numpy, args), *[x.get_value() for x in self._shared]]
        pairs = zip(values, self.requested.inputs, strict=True)
        return [np.asarray(x, y.type.numpy_dtype) for x, y in pairs]

    def _values_in_call(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> list[np.ndarray[Any, Any]]:
        """The values of the requested graph's inputs in a call: arguments, then shared ones.

        Args:
            args: The arguments by position.
            kwargs: The others by name.

        Raises:
            ArgumentError: A wrong number, name, kind or rank of an argument.
            DTypeError: An argument's dtype does not go into its input's.
        """
        return self._values(self._converted(self._arranged(args, kwargs)))

    def _parameters(self) -> str:
        return ", ".join(described(x, i) for i, x in enumerate(self._spec.inputs))

    def __repr__(self) -> str:
        return f"function {self.name}" if self.name else f"function({self._parameters()})"

    if not TYPE_CHECKING:  # to type checkers, a missing attribute is one

        def __getattr__(self, name: str) -> Any:
            absent = import_module("graphc.absent")
            problem = absent.problem_of_attribute("A compiled function", name)
            raise AttributeError(problem, name=name, obj=self)

    @property
    def gives(self) -> list[str]:
        """What each output of the graphs is; new values of shared variables come last."""
        outputs = self._spec.outputs
        found = [] if outputs is None else paths(outputs, "output")
        return [*found, *(f"new value of {x.op.name}" for x, _ in self._spec.updates)]

    def show(
        self,
        path: str | Path | None = None,
        *,
        limit: int = 400,
        browser: bool | None = None,
    ) -> Path:
        """Draw the graph on a page of HTML, as rewritten and as written: see ``graphc.show``.

        Args:
            path: The file to write, by default a new one among the system's temporary files.
            limit: How many nodes are drawn, those nearest to the outputs.
            browser: Whether to open the page in a browser; by default, if no path is given and
                Python runs in a terminal.

        Returns:
            The path of the page.
        """
        shown: Path = provided(__name__, "show")(self, path, limit=limit, browser=browser)
        return shown

    def export(  # noqa: PLR0913 (each of them is one choice)
        self,
        path: str | Path,
        *,
        dynamic: Mapping[str, Sequence[str | int | None]] | None = None,
        licence: str | None = None,
        programs: Sequence[str] = (),
        platforms: Sequence[str] | None = None,
        derivatives: int | Literal["grad"] = 0,
        lengths: Mapping[str, Sequence[int]] | None = None,
        examples: Sequence[Mapping[str, Any] | Sequence[Any]] = (),
    ) -> None:
        """Write the function to a file, from which ``graphc.load`` makes it again.

        The file has the graph as text, the present values of shared variables and the captured
        arrays. No code is in it. It is replaced when it is whole. A name that ends in ``.onnx``
        makes an ONNX model instead, which other runtimes take for inference.

        Args:
            path: The file, such as ``"model.graphc"`` or ``"model.onnx"``.
            dynamic: For inputs by name: a name for each axis of unknown length, None for others,
                ``{"x": ("n", None)}``. In a program, lengths of equal names are equal, and a number
                in the place of a name is the length.
            licence: The terms on which others may use it, for whoever reads the file.
            programs: ``("JAX",)`` adds a program that JAX runs without graphc, and the Python file
                that loads it; ``("JAX", "MLX")`` one for MLX, too.
            platforms: What JAX's program is to run on, ``("cpu", "cuda")``; by default what JAX
                has. MLX's runs on the kind of device that it is written on.
            derivatives: How many times JAX's program can be differentiated in reverse; ``"grad"``
                is once.
            lengths: For names in ``dynamic``, the lengths that MLX's program takes, where it cannot
                take all: ``{"n": (10, 20)}``.
            examples: Arguments of calls, each as a dict by name or a list. They are recorded with
                NumPy's results, so that ``graphc verify`` and ``graphc.load(path).verify()`` can
                compare each backend's with these.

        Raises:
            ExportError: An operation holds a Python function or is of a class of yours; the outputs
                are in other containers than lists, and dicts with strings for keys; JAX or MLX
                cannot write the program, as where a length is to be known; or ONNX lacks an
                operation.
            ArgumentError: ``dynamic`` does not fit the inputs, or ``lengths`` the names in it, or
                an ONNX model has no such option.

        Example:
            >>> import pathlib, tempfile, graphc, graphc.tensor as gt
            >>> x = gt.matrix("x")
            >>> file = pathlib.Path(tempfile.mkdtemp()) / "model.graphc"
            >>> graphc.function([x], x.sum(0)).export(file, dynamic={"x": ("n", None)})
            >>> graphc.load(file)
            model.graphc: (x: float64[n, ?]) -> (float64[?])
        """
        chosen = provided(__name__, "Programs")(programs, platforms, derivatives, lengths or {})
        provided(__name__, "export")(
            self._spec,
            self.requested,
            path,
            dynamic=dynamic,
            licence=licence,
            programs=chosen,
            calls=[provided(__name__, "arguments_of")(self, x) for x in examples],
        )

    def _repr_html_(self) -> str:
        return provided(__name__, "repr_html")(self)  # type: ignore[no-any-return]

    def plan(self, /, *args: Any, **kwargs: Any) -> Plan:
        """The plan of the program: its steps, with dtypes and the user's lines, and its rewrites.

        In a mode with a mesh of devices it has the sharding of each output, each collective of the
        compiled program: how often, how many bytes on a device, and for which line; and the memory
        that a call needs on each device. The program is compiled for that. Its ``placement`` has
        the same as objects.

        Args:
            args: Arguments that lengths are taken from, as for a call, where the types of the
                inputs leave some open; anything with a ``shape`` will do where no value decides a
                shape, such as a ``jax.ShapeDtypeStruct``.
            kwargs: Arguments passed by name.

        Raises:
            ArgumentError: A wrong number or name of an argument.

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
        own = self._own_program
        values = self._planned(args, kwargs)
        return Plan(
            repr(self),
            self.mode,
            own.program,
            own.passes,
            own.graph.inputs[len(self._ins) :],
            self._signature.results,
            len(own.failures),
            self._placement(values),
            padding_of(own.program, self.mode, values, len(self._ins)),
        )

    def _planned(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments of a plan, or their types, and the values of all others."""
        types = [x.type for x in self._signature.graph.inputs[: len(self._ins)]]
        given = self._arranged(args, kwargs) if args or kwargs else types
        held = [x.op.store.value for x in self._shared]
        slots = self._own_program.slots
        leaves = [self.leaves[i].op.array for i in slots]  # type: ignore[attr-defined]
        return [*given, *held, *leaves]

    def _placement(self, values: Sequence[Any]) -> Placement | None:
        """How the program lies on the mode's mesh; None where lengths are not known."""
        if self.mode.mesh_axes is None:
            return None
        own = self._own_program
        return placement_of(own.program, self.mode, values, len(self._ins), own.donated)

    @cached_property
    def pure(self) -> Pure:
        """The function as a pure one of the backend's library, which may transform it.

        It can be differentiated, batched and compiled; derivatives and batches are graphc's. Values
        of shared variables are passed and returned: see ``Pure``.

        Example:
            >>> import jax, graphc, graphc.tensor as gt
            >>> x = gt.vector("x")
            >>> f = graphc.function([x], (x**3).sum())
            >>> print(jax.grad(f.pure)(jax.numpy.array([1.0, 2.0])))
            [ 3. 12.]
        """
        return Pure(
            repr(self),
            self._signature,
            self._baked,
            outputs=self._spec.outputs,
            arranged=self._arranged,
            parameters=self._ins,
        )

    @property
    def _baked(self) -> list[int]:
        """The captured arrays whose values are part of the program, by place."""
        return [i for i in range(len(self.leaves)) if i not in self._compiled.slots]

    def verify(self, /, *args: Any, **kwargs: Any) -> Verification:
        """Run the function, and compare each of its operations with NumPy's.

        Shared variables are read, and not updated.

        Args:
            args: The arguments, as for a call.
            kwargs: The arguments passed by name.

        Returns:
            A result that is true where both agree up to rounding; otherwise it shows the first
            operation that differs, its line and its values.

        Raises:
            CheckError: A condition of the graph does not hold.

        Example:
            >>> import graphc, graphc.tensor as gt
            >>> x = gt.vector("x")
            >>> f = graphc.function([x], gt.log(1 + x).sum(), mode="JAX")
            >>> f.verify([1.0, 2.0])
            function(x: float64[?]) in Mode('JAX'): all 2 operations agree with NumPy.
        """
        own = self._own_program
        leaves = [self.leaves[i].op.array for i in own.slots]  # type: ignore[attr-defined]
        values = self._values_in_call(args, kwargs)
        return verified(repr(self), self.mode, own.program, self.requested, values, leaves)

    def profile(self, /, *args: Any, repeat: int = 5, fused: bool = True, **kwargs: Any) -> Profile:
        """Call the function with the clock running, and show where the time goes.

        The program is rewritten and compiled anew, and called several times. NUMPY times each
        operation, also in the steps of loops; JAX each fusion that it compiled, by its profiler;
        MLX each compiled segment. Shared variables are read, and not updated.

        Args:
            args: The arguments, as for a call.
            repeat: The number of calls that are measured; times are those of one call.
            fused: False: JAX and MLX compute and time each operation by itself.
            kwargs: The arguments passed by name; inputs called ``repeat`` and ``fused`` need their
                position.

        Returns:
            A profile, with a row for the operations of each line: time, calls and bytes. The last
            row is the time that is in no other. ``save("profile.html")`` draws it.

        Raises:
            ArgumentError: A wrong argument, as for a call; or ``repeat`` is no positive integer.
            CheckError: A condition of the graph does not hold.

        Example:
            >>> import graphc, graphc.tensor as gt
            >>> a = gt.matrix("a")
            >>> f = graphc.function([a], gt.exp(a @ a).sum(), name="f", mode="NUMPY")
            >>> f.profile([[1.0, 2.0], [3.0, 4.0]])
            function f in mode NUMPY: NumPy ..., on the host
            5 calls of ... (... without measurement): each operation timed
                  time      %   calls     bytes  line      operation
            ...
             ... elsewhere
             ... total
            compiled in ...
        """
        # Most programs never need it.
        from graphc.compile.profile import profiled  # noqa: PLC0415

        values = self._converted(self._arranged(args, kwargs))
        leaves = [x.op.array for x in self.leaves]  # type: ignore[attr-defined]
        inputs = self._values(values)
        try:
            return profiled(repr(self), self._signature, leaves, inputs, repeat, fused=fused)
        except GraphcError as error:
            raise self._explained(error, values) from error.__cause__

    # Copying.

    def copy(
        self,
        *,
        swap: Mapping[Any, Any] | None = None,
        delete_updates: bool = False,
        name: str | None = None,
    ) -> Function:
        """Return the function with other shared variables, or without its updates.

        Args:
            swap: For each shared variable, the one of the same dtype and rank that takes its place.
            delete_updates: Whether calls leave all shared variables as they are.
            name: The copy's name in messages; this function's by default.

        Raises:
            ArgumentError: ``swap`` has something other than shared variables, or one that the
                function does not depend on.
            DTypeError: A variable that takes the place of one of another type.

        Example:
            >>> import graphc, graphc.tensor as gt
            >>> x, state, other = gt.iscalar("x"), graphc.shared(0), graphc.shared(10)
            >>> add = graphc.function([x], state, updates=[(state, state + x)], mode="NUMPY")
            >>> int(add(1)), int(add.copy(swap={state: other})(5)), int(other.get_value())
            (0, 10, 15)
        """
        absent = [x for x in swap or {} if x not in self._shared]
        if absent:
            raise ArgumentError(f"swap: {self} does not depend on {absent[0]!r}.")
        spec = swapped(self._spec, swap or {})
        updates = () if delete_updates else spec.updates
        return Function(replace(spec, updates=updates, name=name or spec.name))

    def __reduce__(self) -> tuple[Any, ...]:
        return Function, (self._spec,)

    def __copy__(self) -> Function:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Function:
        """A function of its own, with shared variables of its own."""
        return Function(swapped(self._spec, {x: deepcopy(x, memo) for x in self._shared}))


class _NewFunction(Function[Result]):
    # Its calls are counted, and the first is judged; after some calls it settles.
    __doc__ = Function.__doc__

    def __call__(self, /, *args: Any, **kwargs: Any) -> Result:
        with counted_call(self):
            if self.stats.calls >= WORTHWHILE_CALLS:
                self._settle()
            elif not self._compared and self._signature.updated and self.mode.name == "MLX":
                self._refuse_different()
            return Function.__call__(self, *args, **kwargs)


# To users there is one class of functions.
_NewFunction.__name__ = _NewFunction.__qualname__ = Function.__name__


SMALL = 2**20
"""The bytes up to which first calls pass an array as NumPy's: a copy to a device takes longer."""


def _held(array: np.ndarray[Any, Any], type: TensorType, mode: Mode) -> Any:
    """An array with its present values."""
    if array.nbytes > SMALL:
        return mode.backend.array(array, type, mode.options)
    with np.errstate(over="ignore"):
        return np.array(array, type.numpy_dtype)
