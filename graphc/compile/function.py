"""Functions: a graph compiled for a backend, with its inputs, outputs and updates."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

import numpy as np

from graphc import hooks
from graphc.compile.arguments import MISSING, In, Out, convert_arguments
from graphc.compile.cache import CompiledProgram, get_program
from graphc.compile.calls import Outputs, ProgramCall
from graphc.compile.events import Stats
from graphc.compile.implicit import (
    Structures,
    describe_input,
    implicit_inputs,
    label_of,
    structures_in,
    unpack_inputs,
    unpack_outputs,
)
from graphc.compile.mode import Mode, Returns, get_mode
from graphc.compile.pipeline import LoweredProgram, lower_program
from graphc.compile.recompile import WORTHWHILE_CALLS, FunctionRecord, counted_call, record_function
from graphc.compile.shared import Shared
from graphc.compile.specification import (
    FunctionSpec,
    OnUnused,
    as_in,
    as_output,
    check_givens,
    check_inputs,
    compare_named,
    default_updates,
    givens_of,
    returned_arrays,
    signature_of,
    swap_variables,
    updates_of,
)
from graphc.config import config
from graphc.errors import (
    ArgumentError,
    GraphcError,
    NarrowingWarning,
    RecompileError,
)
from graphc.ir import (
    Graph,
    TensorType,
    flatten,
    flatten_like,
    objects_with_static_fields,
    paths,
    rebuild,
    replace_nodes,
    toposort,
)
from graphc.link import CompileContext, Executable, Program
from graphc.link.placement import Placement
from graphc.site import foreign_frames, frames_up
from graphc.tensor import Tensor
from graphc.tensor.core.captured import end_of_trace
from graphc.tensor.core.tensor import ArrayOrNumber

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from graphc.compile.plan import Plan
    from graphc.compile.profile import Profile
    from graphc.compile.pure import Pure
    from graphc.compile.verify import Verification

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
    returns: Returns | None = None,
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
    returns: Literal["numpy"] | None = None,
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
    returns: Literal["numpy"] | None = None,
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
    returns: Returns | None = None,
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
    returns: Returns | None = None,
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
    returns: Returns | None = None,
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
    returns: Returns | None = None,
    **others: Any,
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
        no_default_updates: True, or a list of shared variables that are not updated by default, as
            keys of a ``RandomStream`` otherwise are.
        returns: ``"numpy"`` for writable NumPy arrays with their own memory; ``"native"`` for the
            backend's arrays on its devices; by default the mode's ``returns``, or else
            ``config.returns``, which is ``"numpy"``.
        others: Refused, with what to write for other arguments of PyTensor's ``function``.

    Returns:
        A function that takes arguments by position or by name.

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
    for option in others:
        from graphc.absent import OPTIONS  # noqa: PLC0415 (for errors alone)

        raise ArgumentError(f"function has no argument {option!r}.", OPTIONS.get(option, ""))
    mode = get_mode(mode)
    returns = returned_arrays(returns, mode)
    containers = tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,)
    implicit = implicit_inputs(containers)
    containers = unpack_inputs(containers) if implicit else containers
    ins = tuple(as_in(x, allow_input_downcast) for x in flatten(containers))
    nodes: list[Any] = [as_output(y) for y in flatten(outputs)] if outputs is not None else []
    swaps = compare_named(givens_of(givens), nodes)
    pairs = updates_of(updates, swaps)
    before = nodes
    nodes = replace_nodes(nodes, swaps) if swaps else nodes
    structures = structures_in([*nodes, *(new for _, new in pairs)])
    outputs = None if outputs is None else unpack_outputs(outputs, nodes, ins)
    outputs = list(outputs) if type(outputs) is tuple else outputs
    ends = [*(() if outputs is None else flatten(outputs)), *(new for _, new in pairs)]
    variables = [x.variable for x in ins]
    order = toposort(ends, variables)
    extra = default_updates(order, pairs, no_default_updates, swaps, variables)
    pairs += extra
    spec = FunctionSpec(
        rebuild(containers, list(ins)), outputs, pairs, mode, name, returns, structures
    )
    ends = [*(() if outputs is None else flatten(outputs)), *(new for _, new in pairs)]
    check_givens(swaps, ends, ins)
    together = [[x.variable for x in flatten(y)] for y in objects_with_static_fields(spec.inputs)]
    check_inputs(ins, ends, on_unused_input, implicit, together, before, None if extra else order)
    end_of_trace()
    return _create(spec)


def _create(spec: FunctionSpec) -> Function:
    try:
        return Function(spec)
    except GraphcError as error:
        raise _shorten(error) from _cause_of(error)


def _shorten(error: GraphcError) -> GraphcError:
    return error if config.traceback == "full" else error.shorten()


def _cause_of(error: GraphcError) -> BaseException | None:
    """Return the cause, past errors of graphc without the user's frames, which are restated."""
    cause = error.__cause__
    seen: set[BaseException | None] = {error, None}  # an error may be its own cause
    if config.traceback == "full":
        return cause
    while cause not in seen and isinstance(cause, GraphcError):
        if foreign_frames(cause.__traceback__) is not None:
            break
        seen.add(cause)
        cause = cause.__cause__
    return None if cause in seen else cause


class Function(Generic[Result]):
    """A compiled graph: call it with a value for each input, by position or by name.

    Calls from many threads are safe: those that use a shared variable that one of them updates take
    turns.

    Attributes:
        name: The name in messages.
        mode: The mode that the function was compiled for.
        requested: The graph before rewriting; its last outputs are shared variables' new values.
        leaves: The arrays that the graph captures, in the order that graphs of equal keys share.
        stats: The function's compilations, their cost and causes.
        record: The record for the detection of needless compilations.
    """

    stats: Stats
    record: FunctionRecord

    _is_new = True
    """Whether calls are still counted."""
    _direct: tuple[int, Executable | None] = (-1, None)
    """The number of arguments of calls that go straight to a function, and that function."""
    _compared = False
    """Whether shared variables were compared with those of other processes."""

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
        self._compiled, self._lowered = get_program(self._signature, self.leaves)
        program = self._compiled
        self._arrays = [_initial_array(x, type, self.mode) for x, type in self._captures(program)]
        changed = [x for x, _ in spec.updates]
        self._execute = self._bind_program(program, changed, self._arrays)
        self._labels = [label_of(x) for x in spec.inputs]
        record_function(self, seconds=perf_counter() - start)

    @property
    def key(self) -> str:
        """The structural key of the requested graph."""
        return self.requested.key()

    @property
    def structures(self) -> Structures:
        """The implicit arrays of the requested graph."""
        return self._spec.structures

    @property
    def pattern(self) -> tuple[Any, ...]:
        """How a call maps to the graph: the number of arguments, the updates, a single result."""
        return self._signature.arguments, self._signature.updated, self._signature.single

    def _captures(self, program: CompiledProgram) -> list[tuple[Any, TensorType]]:
        types = program.spec.arguments[program.spec.inputs :]
        return [
            (self.leaves[i].op.array, type)  # type: ignore[attr-defined]
            for i, type in zip(program.slots, types, strict=True)
        ]

    def _bind_program(
        self, program: CompiledProgram, changed: Sequence[Shared], arrays: list[Any]
    ) -> Executable:
        """Return a program's call with captured arrays and this function's shared variables.

        Args:
            program: A program of the arguments, the variables' values and the arrays.
            changed: The variables that get new values.
            arrays: The captured arrays, a list whose elements may be converted later.
        """
        count = len(self._ins)
        types = program.spec.arguments
        backend = self.mode.backend
        convert = partial(
            convert_arguments, parameters=self._ins, targets=types[:count], backend=backend
        )
        outputs, options = self._outputs(), self.mode.options
        call = ProgramCall(
            program.execute, types[:count], convert, arrays, outputs, backend, options
        )
        if not self._shared:
            return call.plain()
        return call.stateful(
            dict(zip(self._shared, types[count : program.spec.inputs], strict=True)),
            [*zip(changed, program.fresh, strict=False)],
            [i - count for i in program.donated],
        )

    def _settle(self) -> None:
        """Convert captured arrays to the backend's, and stop counting calls."""
        backend, options = self.mode.backend, self.mode.options
        types = [type for _, type in self._captures(self._compiled)]
        pairs = zip(self._arrays, types, strict=True)
        self._arrays[:] = [
            x if isinstance(x, backend.kinds[-1]) else backend.array(x, type, options)
            for x, type in pairs
        ]
        self._is_new = False
        if all(isinstance(x, In) for x in self._spec.inputs):
            self._direct = len(self._ins), self._execute

    @property
    def _exchanges_with_processes(self) -> bool:
        # Imported here: few programs run in several processes.
        from graphc.tensor.core import all_sum  # noqa: PLC0415

        return all_sum.process_group() is not None and all_sum.holds_sums(self.requested.nodes)

    def _refuse_different(self) -> None:
        """Raise if variables that a sum over processes updates differ between processes."""
        self._compared = True
        if self._exchanges_with_processes:
            news = self.requested.outputs[self._signature.results :]
            updates = [*zip([x for x, _ in self._spec.updates], news, strict=True)]
            from graphc.compile.broadcast import refuse_different  # noqa: PLC0415

            refuse_different(self.requested, updates)

    @cached_property
    def _own_program(self) -> LoweredProgram:
        """The program of this function's graph, which has the lines of its code."""
        return lower_program(self._signature) if self._lowered is None else self._lowered

    @property
    def _program(self) -> Program:
        return self._own_program.program

    @cached_property
    def graph(self) -> Graph:
        """The requested graph, rewritten."""
        lowered = self._own_program.graph
        swaps = dict(zip(lowered.inputs, self.requested.inputs, strict=True))
        same = {x: new for x, new in swaps.items() if x.type is new.type}
        same |= {
            x: self.leaves[x.op.position]  # type: ignore[attr-defined]
            for x in lowered.leaves
            if self.leaves[x.op.position].type is x.type  # type: ignore[attr-defined]
        }
        inputs = [same.get(x, x) for x in lowered.inputs]
        return Graph(inputs, replace_nodes(lowered.outputs[: len(self.requested.outputs)], same))

    def _outputs(self) -> Outputs:
        """Return the outputs of a call among the program's results, and their conversion."""
        outputs = self._spec.outputs
        # NumPy's results need no copy.
        is_native = self._spec.returns == "native" or self.mode.backend.kinds[-1] is np.ndarray
        if isinstance(outputs, Tensor):
            return Outputs(True, self._signature.single, is_native)
        if isinstance(outputs, list) and all(isinstance(y, Tensor) for y in outputs):
            return Outputs(False, False, is_native)
        if outputs is None:
            return Outputs(False, False, is_native, lambda results: None)
        return Outputs(False, False, is_native, partial(rebuild, outputs))

    # Calling.

    def __call__(self, /, *args: Any, **kwargs: Any) -> Result:
        """Return the outputs for values of the inputs.

        Raises:
            ArgumentError: A wrong number, name, kind, rank or static length of an argument.
            DTypeError: An argument's dtype cannot be converted to its input's.
            RuntimeShapeError: Lengths that must be equal are not.
            OperationError: An operation failed.
        """
        # One attribute, as each one slows down a small call.
        count, execute = self._direct
        if kwargs or len(args) != count:
            return self._other_call(args, kwargs)
        try:
            return execute(*args)  # type: ignore[misc, no-any-return]
        except GraphcError as error:
            raise _shorten(self._explain(error, args)) from _cause_of(error)

    def _other_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Result:
        """Call by name, with containers, or while calls are still counted."""
        if not self._is_new:
            return self._call_by_position(args, kwargs)
        with counted_call(self):
            if self.record.counted >= WORTHWHILE_CALLS:
                self._settle()
            elif not self._compared and self._signature.updated and self.mode.name == "MLX":
                self._refuse_different()
            if self.record.counted == 1:
                self._warn_of_narrowing()
            return self._call_by_position(args, kwargs)

    def _call_by_position(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Result:
        args = self._arrange_arguments(args, kwargs)
        try:
            return self._execute(*args)  # type: ignore[no-any-return]
        except GraphcError as error:
            raise _shorten(self._explain(error, args)) from _cause_of(error)

    def _warn_of_narrowing(self) -> None:
        if self._spec.returns != "native" or self.record.site.is_internal:
            return
        types = self._compiled.spec.results[: self._signature.results]
        if any(self.mode.backend.narrows(type.numpy_dtype) for type in types):
            _warn_of_narrowing(self.mode.name)

    def _arrange_arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        containers = self._spec.inputs
        if len(args) > len(containers):
            s = "" if len(containers) == 1 else "s"
            raise ArgumentError(
                f"{self}: expected {len(containers)} argument{s}, got {len(args)}.",
                f"They are {self._parameters()}.",
            )
        labels = self._labels
        values: list[Any] = [*args, *[MISSING] * (len(containers) - len(args))]
        for name, value in kwargs.items():
            if labels.count(name) != 1:
                nested = flatten([c for c in containers if isinstance(c, list | tuple | dict)])
                if any(x.label == name for x in nested) and name not in labels:
                    problem = f"{self}: the input {name!r} is in a list, tuple or dict of inputs."
                    raise ArgumentError(
                        problem, "Pass one argument of that structure, by position."
                    )
                raise ArgumentError(
                    f"{self} has no single input called {name!r}.",
                    f"They are {self._parameters()}.",
                )
            index = labels.index(name)
            if values[index] is not MISSING:
                problem = f"{self}: the argument {name!r} is given twice."
                raise ArgumentError(problem, "Give it by position or by name.")
            values[index] = value
        arrays: list[Any] = []
        for index, (container, value) in enumerate(zip(containers, values, strict=True)):
            arrays += self._values_in(index, container, value)
        return tuple(arrays)

    def _values_in(self, index: int, container: Any, value: Any) -> list[Any]:
        if isinstance(container, In) and value is not MISSING:
            return [value]
        if value is MISSING:
            values = [x.value for x in flatten(container)]
            if not values or any(x is MISSING for x in values):
                raise ArgumentError(
                    f"{self}: the argument {self._labels[index] or index!r} is missing.",
                    f"The arguments are {self._parameters()}.",
                )
            return values
        try:
            return flatten_like(container, value)
        except ValueError as error:
            raise ArgumentError(
                f"The argument {self._labels[index] or index!r} of {self} lacks its input's "
                f"structure: {error}.",
                "Give containers of the same kinds, lengths and keys.",
            ) from error

    # Errors.

    def _explain(self, error: GraphcError, args: tuple[Any, ...]) -> GraphcError:
        """Return the error with this function's own names and lines, if its program is shared."""
        if self._exchanges_with_processes:
            return error  # other processes do not repeat the call
        if self._lowered is None and not isinstance(error, RecompileError):
            with suppress(Exception):  # the first error remains if there is no better one
                own_args = self._convert(args)
                return self._error_of(lambda: self._run_own_program(own_args)) or error
        return error

    @staticmethod
    def _error_of(call: Callable[[], Any]) -> GraphcError | None:
        try:
            call()
        except GraphcError as error:
            return error
        return None

    def _run_own_program(self, args: Sequence[Any]) -> None:
        """Run a program of this function's graph, without updates."""
        program = CompiledProgram(
            self._signature, replace(self._own_program, donated=()), CompileContext()
        )
        arrays = [_initial_array(x, type, self.mode) for x, type in self._captures(program)]
        self._bind_program(program, (), arrays)(*args)

    def _values(self, args: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        values = [*map(self.mode.backend.numpy, args), *[x.get_value() for x in self._shared]]
        pairs = zip(values, self.requested.inputs, strict=True)
        return [np.asarray(x, y.type.numpy_dtype) for x, y in pairs]

    def _convert(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        targets = self._compiled.spec.arguments[: len(self._ins)]
        return convert_arguments(args, self._ins, targets, self.mode.backend)

    def _values_in_call(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> list[np.ndarray[Any, Any]]:
        """Return the values of the requested graph's inputs: arguments, then shared variables.

        Args:
            args: The arguments by position.
            kwargs: The others by name.
        """
        return self._values(self._convert(self._arrange_arguments(args, kwargs)))

    def _parameters(self) -> str:
        return ", ".join(describe_input(x, i) for i, x in enumerate(self._spec.inputs))

    def __repr__(self) -> str:
        return f"function {self.name}" if self.name else f"function({self._parameters()})"

    if not TYPE_CHECKING:  # to type checkers, a missing attribute is one

        def __getattr__(self, name: str) -> Any:
            from graphc.absent import problem_of_attribute  # noqa: PLC0415 (for errors alone)

            problem = problem_of_attribute("A compiled function", name)
            raise AttributeError(problem, name=name, obj=self)

    @property
    def gives(self) -> list[str]:
        """The names of the graph's outputs; new values of shared variables come last."""
        outputs = self._spec.outputs
        names = [] if outputs is None else paths(outputs, "output")
        return [*names, *(f"new value of {x.op.name}" for x, _ in self._spec.updates)]

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
            limit: The number of nodes to draw, those nearest to the outputs.
            browser: Whether to open the page in a browser; by default, if no path is given and
                Python runs in a terminal.

        Returns:
            The path of the page.
        """
        from graphc.draw.show import show  # noqa: PLC0415 (few programs draw)

        return show(self, path, limit=limit, browser=browser)

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
        """Write the function to a file that ``graphc.load`` reads.

        The file has the graph as text, the present values of shared variables and the captured
        arrays, and no code. An existing file is replaced only by a complete one. A name that ends
        in ``.onnx`` makes an ONNX model instead, which other runtimes take for inference.

        Args:
            path: The file, such as ``"model.graphc"`` or ``"model.onnx"``.
            dynamic: For inputs by name: a name for each axis of unknown length, None for others,
                ``{"x": ("n", None)}``. In a program, lengths of equal names are equal; a number
                instead of a name is a static length.
            licence: The terms on which others may use the file.
            programs: ``("JAX",)`` adds a program that JAX runs without graphc, and the Python file
                that loads it; ``("JAX", "MLX")`` one for MLX, too.
            platforms: Platforms that JAX's program runs on, ``("cpu", "cuda")``; by default those
                that JAX has. MLX's program runs on the kind of device that writes it.
            derivatives: Number of times that JAX's program can be differentiated in reverse mode;
                ``"grad"`` is 1.
            lengths: For names in ``dynamic``, the lengths that MLX's program takes, if it cannot
                take all: ``{"n": (10, 20)}``.
            examples: Arguments of calls, each as a dict by name or a list. The file records them
                with NumPy's results, to which ``graphc verify`` and ``graphc.load(path).verify()``
                compare each backend's results.

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
        hooks.export_function(
            self,
            path,
            dynamic=dynamic,
            licence=licence,
            programs=programs,
            platforms=platforms,
            derivatives=derivatives,
            lengths=lengths,
            examples=examples,
        )

    def _repr_html_(self) -> str:
        return hooks.drawing(self)

    def plan(self, /, *args: Any, **kwargs: Any) -> Plan:
        """Return the plan of the program: its steps with dtypes and lines, and its rewrites.

        In a mode with a mesh of devices, the program is compiled, and the plan has the sharding of
        each output, each collective with its count, its bytes on a device and its line, and the
        memory that a call needs on each device. ``placement`` of the plan has them as objects.

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
              v1 = log1p(a0): float64[x.0]   ...
              return v1
            rewritten: ...
        """
        from graphc.compile.plan import Plan, dense_arrays, padding_of  # noqa: PLC0415 (few programs print one)

        lowered = self._own_program
        values = self._plan_arguments(args, kwargs)
        return Plan(
            repr(self),
            self.mode,
            lowered.program,
            lowered.passes,
            lowered.graph.inputs[len(self._ins) :],
            self._signature.results,
            len(lowered.failures),
            self._placement(values),
            padding_of(lowered.program, self.mode, values, len(self._ins)),
            dense_arrays(lowered.program, self.mode, values),
        )

    def _plan_arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the arguments of a plan, or their types, then the values of other inputs."""
        types = [x.type for x in self._signature.graph.inputs[: len(self._ins)]]
        arguments = self._arrange_arguments(args, kwargs) if args or kwargs else types
        stored = [x.op.store.value for x in self._shared]
        slots = self._own_program.slots
        leaves = [self.leaves[i].op.array for i in slots]  # type: ignore[attr-defined]
        return [*arguments, *stored, *leaves]

    def _placement(self, values: Sequence[Any]) -> Placement | None:
        """Return the program's placement on the mode's mesh; None if lengths are not static."""
        if self.mode.mesh_axes is None:
            return None
        from graphc.compile.plan import placement_of  # noqa: PLC0415 (few have a mesh)

        lowered = self._own_program
        return placement_of(lowered.program, self.mode, values, len(self._ins), lowered.donated)

    @cached_property
    def pure(self) -> Pure:
        """The function as a pure function of the backend's library, which may transform it.

        It can be differentiated, batched and compiled; derivatives and batches are graphc's. Values
        of shared variables are passed and returned: see ``Pure``.

        Example:
            >>> import jax, graphc, graphc.tensor as gt
            >>> x = gt.vector("x")
            >>> f = graphc.function([x], (x**3).sum())
            >>> print(jax.grad(f.pure)(jax.numpy.array([1.0, 2.0])))
            [ 3. 12.]
        """
        from graphc.compile.pure import Pure  # noqa: PLC0415 (few programs take it)

        return Pure(
            repr(self),
            self._signature,
            self._baked,
            outputs=self._spec.outputs,
            arranged=self._arrange_arguments,
            parameters=self._ins,
        )

    @property
    def _baked(self) -> list[int]:
        """The indices of the captured arrays whose values are part of the program."""
        return [i for i in range(len(self.leaves)) if i not in self._compiled.slots]

    def verify(self, /, *args: Any, **kwargs: Any) -> Verification:
        """Run the function, and compare its results and each of its operations with NumPy's.

        The results come from the compiled program. NumPy computes the requested graph, with the
        arrays that the graph captures. Shared variables are read, and not updated.

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
        from graphc.compile.verify import verify  # noqa: PLC0415 (few programs are compared)

        lowered = self._own_program
        leaves = [self.leaves[i].op.array for i in lowered.slots]  # type: ignore[attr-defined]
        arguments = self._convert(self._arrange_arguments(args, kwargs))
        values = self._values(arguments)
        results = self._results(arguments, values[len(arguments) :])
        arrays = [*values, *leaves]
        return verify(repr(self), self.mode, lowered.program, self.requested, arrays, results)

    def _results(
        self, args: Sequence[Any], shared: Sequence[np.ndarray[Any, Any]]
    ) -> Sequence[np.ndarray[Any, Any]]:
        """Return the results of the compiled program for these values of shared variables."""
        program, backend, options = self._compiled, self.mode.backend, self.mode.options
        types = program.spec.arguments[len(args) :]
        arrays = [x for x, _ in self._captures(program)]
        # A program may reuse the buffers of variables, so they are copied.
        copies = [
            backend.array(x, type, options)
            for x, type in zip([*shared, *arrays], types, strict=True)
        ]
        results = program.execute(*args, *copies)
        return [*map(backend.numpy, [results] if self._signature.single else results)]

    def profile(self, /, *args: Any, repeat: int = 5, fused: bool = True, **kwargs: Any) -> Profile:
        """Call the function several times, and return where the time goes.

        The program is rewritten and compiled anew, and called several times. NUMPY times each
        operation, also in the steps of loops; JAX each fusion that it compiled, by its profiler;
        MLX each compiled segment. Shared variables are read, and not updated.

        Args:
            args: The arguments, as for a call.
            repeat: The number of measured calls; times are per call.
            fused: False: JAX and MLX compute and time each operation by itself.
            kwargs: The arguments passed by name; inputs called ``repeat`` and ``fused`` need their
                position.

        Returns:
            A profile, with a row for the operations of each line: time, calls and bytes. The last
            row is the remaining time. ``save("profile.json")`` writes a trace to draw.

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
             ... elsewhere: the call, its arguments and results
             ... total
            compiled in ...
        """
        # Imported here: most programs never profile.
        from graphc.compile.profile import profile_program  # noqa: PLC0415

        values = self._convert(self._arrange_arguments(args, kwargs))
        leaves = [x.op.array for x in self.leaves]  # type: ignore[attr-defined]
        inputs = self._values(values)
        try:
            return profile_program(repr(self), self._signature, leaves, inputs, repeat, fused=fused)
        except GraphcError as error:
            raise self._explain(error, values) from error.__cause__

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
            swap: Shared variables, and for each a replacement of the same dtype and rank.
            delete_updates: Whether calls update no shared variables.
            name: The copy's name in messages; this function's by default.

        Raises:
            ArgumentError: ``swap`` has something other than shared variables, or one that the
                function does not depend on.
            DTypeError: If a replacement has another type.

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
        spec = swap_variables(self._spec, swap or {})
        updates = () if delete_updates else spec.updates
        return Function(replace(spec, updates=updates, name=name or spec.name))

    def __reduce__(self) -> tuple[Any, ...]:
        return Function, (self._spec,)

    def __copy__(self) -> Function:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Function:
        return Function(swap_variables(self._spec, {x: deepcopy(x, memo) for x in self._shared}))


@cache
def _warn_of_narrowing(library: str) -> None:
    """Warn once in a process that a library computes in 32 bits with results of 64."""
    warnings.warn(
        f"A function returns {library}'s arrays of 64 bits, and jax_enable_x64 is off: {library} "
        "computes in 32 bits with them. Take NumPy arrays, returns='numpy'; turn jax_enable_x64 "
        "on; or call f.pure.",
        NarrowingWarning,
        stacklevel=frames_up(),
    )


SMALL = 2**20
"""The bytes up to which first calls pass an array as NumPy's: a copy to a device takes longer."""


def _initial_array(array: np.ndarray[Any, Any], type: TensorType, mode: Mode) -> Any:
    if array.nbytes > SMALL:
        return mode.backend.array(array, type, mode.options)
    with np.errstate(over="ignore"):
        return np.array(array, type.numpy_dtype)
