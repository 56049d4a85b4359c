"""Programs with arguments that decide shapes: an executable for each set of their values.

Arguments that decide lengths of slices alone are passed, and there is one for each set of lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from graphc.errors import DynamicShapeError
from graphc.link.backend import Executable
from graphc.link.call_spec import CallSpec
from graphc.link.checks import admit
from graphc.link.compile_context import CompileContext, ExecutableCache
from graphc.link.integers import IntegerCode
from graphc.link.jax.call_key import KnownArguments
from graphc.link.jax.executables import Executables, Inspect, fix_arguments, in_64_bits
from graphc.link.jax.traced import TracedProgram
from graphc.link.slices import with_lengths_of_slices
from graphc.link.source import compiled_code

MAX_EXACT = 4
"""The number of executables for exact numbers of steps before one is compiled for all numbers."""

MIN_STEPS = 32
"""The length of the shortest buffer for a number of steps that changes between calls."""


def _value(argument: Any, position: int) -> np.ndarray[Any, Any]:
    """Return the value of an argument that decides a shape.

    Raises:
        DynamicShapeError: If JAX traces the caller, so that the value is unknown.
    """
    try:
        return np.asarray(argument)
    except jax.errors.TracerArrayConversionError as error:
        raise DynamicShapeError(
            f"The argument {position} decides a shape or a number of steps, and is not known while "
            "JAX traces the code that calls the function.",
            "Make it static there, as with static_argnums of jax.jit, or pass a Python integer; a "
            "batch x[i * n + gt.arange(n)] of a fixed n takes any i.",
        ) from error


class Specialized:
    """Executables for each set of values of the arguments that decide shapes.

    When there are more than ``config.specializations``, the least recently used executable is
    dropped. Numbers of steps that keep changing share one executable, whose buffers are long
    enough for all of them.

    Attributes:
        call: A function that calls the executable for its arguments.
    """

    def __init__(
        self,
        traced: TracedProgram,
        spec: CallSpec,
        donated: tuple[int, ...],
        context: CompileContext,
        inspect: Inspect | None = None,
        shardings: Sequence[Any] = (),
    ) -> None:
        self.inspect = inspect
        self.shardings = shardings
        self.traced = traced
        self.static = spec.static
        self.exact = tuple(i for i in spec.static if i not in spec.sliced)
        self.pure = spec.single
        self.foreign = spec.facts["foreign"]
        types = spec.arguments
        # Narrower integers wrap around at lengths that exist; counts are int64.
        self.counts = frozenset(i for i in spec.counts if types[i].numpy_dtype.itemsize >= 4)
        self.sliced = frozenset(spec.sliced)
        self.donated = donated
        self.context = context
        self.executables = ExecutableCache[Executable]()
        self.compile_count = 0
        self.bounds: set[int] = set()
        self._key, self.call = self._write(spec)

    def _write(self, spec: CallSpec) -> tuple[Callable[..., Any], Executable]:
        """Return generated functions of the arguments: their key, and a call by that key.

        The key has the values that decide shapes, and the lengths of slices.
        """
        graph = spec.lengths
        assert graph is not None
        code = IntegerCode(graph)
        values = [code.content(graph.inputs[i]) for i in self.exact]
        lengths = [code.integer(n) for n in graph.outputs]
        key = "".join(f"{name}, " for name in (*values, *lengths))
        arguments = [f"a{i}" for i in range(len(spec.arguments))]
        passed = ", ".join([a for i, a in enumerate(arguments) if i not in self.exact])
        every = ", ".join(arguments)
        text = [
            f"def key({every}):",
            *(f"    {line}" for line in (*code.lines, f"return ({key})")),
            f"def call({every}):",
            "    try:",
            *(f"        {line}" for line in (*code.lines, f"values = ({key})")),
            "        execute = executables[values]",
            "        use(values)",
            "    except Exception:",
            f"        return other({every})",
            f"    return execute({passed})",
        ]
        code.namespace |= {
            "executables": self.executables,
            "use": self.executables.move_to_end,
            "other": self._other_call,
        }
        exec(compiled_code("\n".join(text), "call"), code.namespace)
        return code.namespace["key"], code.namespace["call"]

    def _other_call(self, *arguments: Any) -> Any:
        """Call an executable that is not there yet, or one for all values up to bounds."""
        values = {i: _value(arguments[i], i) for i in self.static}
        try:
            key = self._key(*arguments)
        except (TypeError, ValueError):
            for i in self.static:
                admit(i, self.traced.program().arguments[i], arguments[i])
            raise
        bounds: Mapping[int, int] = {}
        if self.compile_count >= MAX_EXACT and key not in self.executables:
            bounds = self._bounds(values, arguments)
        try:
            return self._call(bounds, values, key, arguments)
        except DynamicShapeError:
            if not bounds:
                raise
        # The arguments decide a shape that a bound does not fix.
        self.counts = frozenset()
        return self._call({}, values, key, arguments)

    def _call(
        self,
        bounds: Mapping[int, int],
        values: Mapping[int, Any],
        key: tuple[Any, ...],
        arguments: Sequence[Any],
    ) -> Any:
        """Call the executable for these values and lengths, or for all values up to bounds."""
        lengths = key[len(self.exact) :]
        if bounds:
            exact = [x for i, x in zip(self.exact, key, strict=False) if i not in bounds]
            key = (*bounds.items(), *exact, *lengths)
        execute = self.executables.get_or_add(key, lambda: self._compile(bounds, values, lengths))
        return execute(*[x for i, x in enumerate(arguments) if i in bounds or i not in self.exact])

    def _compile(
        self, bounds: Mapping[int, int], values: Mapping[int, Any], lengths: tuple[int, ...]
    ) -> Executable:
        self.compile_count += 1
        copies = {i: x.copy() for i, x in values.items()}
        fixed = {i: copies[i] for i in self.exact if i not in bounds}
        sliced = {i: copies[i] for i in self.sliced}
        axes = {(i, -1): (1, n) for i, n in bounds.items()}
        function = partial(self.traced.trace_buffers, axes=axes) if bounds else self.traced.function
        function = fix_arguments(function, fixed)

        def program(*passed: Any) -> Any:
            with with_lengths_of_slices(lengths):
                return function(*passed)

        # Lengths below a bound are checked after the run; an error must leave arguments intact.
        reused = () if bounds else [i for i in self.donated if i not in fixed]
        donated = tuple(i - sum(j < i for j in fixed) for i in reused)
        specialization = KnownArguments(fixed, bounds, (), lengths, sliced)
        executables = Executables(
            program, donated, self.context, specialization, pure=self.pure, foreign=self.foreign
        )
        executables.inspect = self.inspect
        executables.shardings = [x for i, x in enumerate(self.shardings) if i not in fixed]
        executables.over_mesh = self.traced.layout is not None
        caller = executables.caller()
        execute = self.traced.trim(caller) if bounds or self.traced.is_padded else caller
        return in_64_bits(execute) if bounds else execute

    def _bounds(self, values: Mapping[int, Any], arguments: Sequence[Any]) -> dict[int, int]:
        """Return buffer lengths for numbers of steps: a sequence's length or a power of two."""
        lengths = {x.shape[0] for x in arguments if x.ndim}
        bounds = {}
        for i in sorted(self.counts):
            n = int(values[i])
            if n > 0:
                enough = max(1 << (n - 1).bit_length(), MIN_STEPS)
                fitting = [k for k in lengths | self.bounds if n <= k <= 4 * enough]
                bounds[i] = min(fitting, default=enough)
        self.bounds.update(bounds.values())
        return bounds
