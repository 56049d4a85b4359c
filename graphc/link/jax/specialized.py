"""Programs with arguments that decide shapes: an executable for each set of their values."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from graphc.config import config
from graphc.errors import DynamicShapeError
from graphc.link.backend import Executable
from graphc.link.call_spec import CallSpec
from graphc.link.compile_context import CompileContext
from graphc.link.jax.call_key import KnownArguments
from graphc.link.jax.counts import Count
from graphc.link.jax.executables import Executables, Inspect, in_64_bits
from graphc.link.jax.traced import TracedProgram

FEW = 4
"""How many numbers of steps get an executable of their own before one is made for all."""

SHORT = 32
"""No buffer is made shorter than that for a number of steps that may be another one next time."""


def _known(argument: Any, place: int) -> np.ndarray[Any, Any]:
    """Return the value of an argument that decides a shape."""
    try:
        return np.asarray(argument)
    except jax.errors.TracerArrayConversionError as error:
        raise DynamicShapeError(
            f"The argument {place} decides a shape or a number of steps, and is not known while "
            "JAX traces the code that calls the function.",
            "Make it static there, as with static_argnums of jax.jit, or pass a Python integer.",
        ) from error


class Specialized:
    """Executables for each set of values of the arguments that decide shapes.

    The least recently used one goes when there are more than ``config.specializations``. Numbers of
    steps that keep changing share one, whose buffers are long enough for all.
    """

    def __init__(
        self,
        traced: TracedProgram,
        spec: CallSpec,
        donated: tuple[int, ...],
        context: CompileContext,
        inspect: Inspect | None = None,
        places: Sequence[Any] = (),
    ) -> None:
        self.inspect = inspect
        self.places = places
        self.traced = traced
        self.static = spec.static
        self.pure = spec.single
        self.foreign = spec.facts["foreign"]
        self.counts = frozenset(spec.counts)
        self.donated = donated
        self.context = context
        self.known: OrderedDict[Any, Executable] = OrderedDict()
        self.made = 0
        self.bounds: set[int] = set()
        self.lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        values = {i: _known(arguments[i], i) for i in self.static}
        execute = self._found({}, values)
        if execute is None:
            bounds = self._bounds(values, arguments) if self.made >= FEW else {}
            if bounds:
                execute = self._found(bounds, values) or self._made(bounds, values)
                try:
                    return execute(*arguments)
                except DynamicShapeError:
                    # They decide more than that.
                    self.counts = frozenset()
            execute = self._made({}, values)
        return execute(*arguments)

    def _key(self, bounds: Mapping[int, int], values: Mapping[int, Any]) -> Any:
        static = (x for i, x in values.items() if i not in bounds)
        return (*bounds.items(), *((x.dtype.char, x.shape, x.tobytes()) for x in static))

    def _found(self, bounds: Mapping[int, int], values: Mapping[int, Any]) -> Executable | None:
        key = self._key(bounds, values)
        with self.lock:
            execute = self.known.get(key)
            if execute is not None:
                self.known.move_to_end(key)
        return execute

    def _made(self, bounds: Mapping[int, int], values: Mapping[int, Any]) -> Executable:
        """Return the function for these values, or for all values up to bounds."""
        # Two threads may come here for one set of values.
        key = self._key(bounds, values)
        with self.lock:
            execute = self.known.get(key)
            if execute is None:
                self.made += 1
                execute = self.known[key] = self._specialized(bounds, values)
                if len(self.known) > config.specializations:
                    self.known.popitem(last=False)
        return execute

    def _specialized(self, bounds: Mapping[int, int], values: Mapping[int, Any]) -> Executable:
        fixed = {i: x.copy() for i, x in values.items() if i not in bounds}
        function = self.traced.bounded if bounds else self.traced.function

        def specialized(*rest: Any) -> Any:
            left = iter(rest)
            arguments = []
            for i in range(len(rest) + len(fixed)):
                x = fixed[i] if i in fixed else next(left)
                arguments.append(Count(x, 1, bounds[i]) if i in bounds else x)
            return function(*arguments)

        # A length below its bound is compared with others when the program has run.
        reused = () if bounds else [i for i in self.donated if i not in fixed]
        donated = tuple(i - sum(j < i for j in fixed) for i in reused)
        known = KnownArguments(fixed, bounds)
        executables = Executables(
            specialized, donated, self.context, known, pure=self.pure, foreign=self.foreign
        )
        executables.inspect = self.inspect
        executables.places = [x for i, x in enumerate(self.places) if i not in fixed]
        executables.over_mesh = self.traced.layout is not None
        made = executables.caller()
        execute = self.traced.cut(made) if bounds or self.traced.is_bounded else made

        def call(*arguments: Any) -> Any:
            return execute(*[x for i, x in enumerate(arguments) if i not in fixed])

        return in_64_bits(call) if bounds else call

    def _bounds(self, values: Mapping[int, Any], arguments: Sequence[Any]) -> dict[int, int]:
        """Return buffer lengths for numbers of steps: a sequence's length or a power of two."""
        lengths = {x.shape[0] for x in arguments if x.ndim}
        found = {}
        for i in sorted(self.counts):
            n = int(values[i])
            if n > 0:
                enough = max(1 << (n - 1).bit_length(), SHORT)
                fitting = [k for k in lengths | self.bounds if n <= k <= 4 * enough]
                found[i] = min(fitting, default=enough)
        self.bounds.update(found.values())
        return found
