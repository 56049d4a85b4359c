"""Generated code for calls: arguments are checked, shared variables are read and replaced.

A call costs a few microseconds, most of them in the backend; a Python loop over the arguments or
the shared variables would add half as much again. So the code is generated for the number of inputs
and for the shared variables of a function.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from graphc.compile.shared import Shared, sharding_of
from graphc.errors import ArgumentError
from graphc.ir import TensorType
from graphc.link import Backend, Executable, as_numpy
from graphc.link.backend import ArrayHome, Dispatch
from graphc.link.source import compiled_code


@dataclass(frozen=True)
class Outputs:
    """The outputs of a call among the results of a program.

    Attributes:
        is_one: Whether a call returns one array, and not several or none.
        is_only: Whether that array is the program's only result, which the program returns itself.
        is_native: Whether results are returned as the backend's arrays.
        build: Builds the structure of several outputs from their arrays; None for a list.
    """

    is_one: bool
    is_only: bool
    is_native: bool
    build: Callable[[Sequence[Any]], Any] | None = None

    def lines(self, updates: int) -> list[str]:
        """Return the code that returns the outputs, given ``results`` and the number of updates."""
        if self.is_one:
            arrays = "results" if self.is_only else "results[0]"
            return self._return(arrays, f"numpy({arrays})")
        arrays = f"results[:-{updates}]" if updates else "results"
        return self._return(arrays, f"[numpy(y) for y in {arrays}]")

    def _return(self, native: str, numpy: str) -> list[str]:
        outputs = native if self.is_native else numpy
        line = f"return {outputs if self.build is None else f'build({outputs})'}"
        if self.is_native:
            return [line]
        return [
            "try:",
            f"    {line}",
            "except Exception as error:",
            "    raise conversion_error(error, results)",
        ]


@dataclass(frozen=True)
class ProgramCall:
    """A program, and how a call passes arguments and returns outputs.

    Attributes:
        execute: The program, which takes arguments, shared variables' values and captured arrays.
        inputs: The types of the arguments in the program.
        convert: Converts a tuple of arguments to arrays of these types that the backend takes.
        leaves: The captured arrays, a list whose elements may be converted later.
        outputs: The outputs of the call among the program's results.
        backend: The program's backend.
        options: The options of the mode.
    """

    execute: Executable
    inputs: Sequence[TensorType]
    convert: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    leaves: list[Any]
    outputs: Outputs
    backend: Backend
    options: Mapping[str, Any]

    def plain(self) -> Executable:
        """Return a function of the arguments, for a program without shared variables."""
        return self._function([*self._run(()), *self.outputs.lines(0)], {})

    def stateful(
        self,
        shared: Mapping[Shared, TensorType],
        updates: Sequence[tuple[Shared, bool]],
        donated: Collection[int],
    ) -> Executable:
        """Return a function of the arguments that reads shared variables and replaces their values.

        Args:
            shared: The variables, in the order in which the program takes them, and their types in
                it.
            updates: The variables that get new values, and for each whether nothing else refers to
                its new value.
            donated: The positions of the variables whose buffers are reused.
        """
        backend, options = self.backend, self.options
        count = range(len(shared))
        homes = [backend.home(sharding_of(x), options) for x in shared]
        namespace: dict[str, Any] = {
            "refuse_traced": partial(_refuse_traced, backend),
        }
        # All functions lock variables by age: different orders could deadlock.
        ages = [x.serial for x in shared]
        before = [*(f"acquire{i}()" for i in sorted(count, key=ages.__getitem__)), "try:"]
        for i, ((x, type), home) in enumerate(zip(shared.items(), homes, strict=True)):
            dtype = backend.own_dtype(type)
            foreign = f"v{i}.__class__ is not kind"
            # A function of the same library may have stored the value in another dtype.
            foreign += "" if dtype is type.numpy_dtype else f" or v{i}.dtype != o{i}"
            # A function of another mode may have stored the value on other devices.
            foreign += "" if home is None else f" or v{i}.sharding not in h{i}"
            foreign += f" or not c{i}.owned" if i in donated else ""
            before += [f"    c{i} = s{i}.current", f"    v{i} = c{i}.value"]
            before.append(f"    if {foreign}: v{i} = present{i}()")
            store = x.op.store
            namespace |= {
                f"s{i}": store,
                f"o{i}": dtype,
                f"acquire{i}": store.lock.acquire,
                f"release{i}": store.lock.release,
                f"h{i}": () if home is None else home.known,
                f"present{i}": _CurrentValue(x, type, home, i in donated, backend, options),
            }
        after = []
        if updates:
            after.append("    if results[-1].__class__ is not kind: refuse_traced()")
        positions = {x: i for i, x in enumerate(shared)}
        for k, (x, fresh) in enumerate(updates):
            i, last = positions[x], k - len(updates)
            after.append(f"    c{i}.value = results[{last}]; c{i}.owned = {fresh}")
        after += ["finally:", *[f"    release{i}()" for i in count]]
        after += self.outputs.lines(len(updates))
        run = [f"    {line}" for line in self._run([f"v{i}" for i in count])]
        return self._function([*before, *run, *after], namespace)

    def _run(self, values: Sequence[str]) -> list[str]:
        """Return the code that sets ``results``, given the names of shared variables' values."""
        arguments = [f"a{i}" for i in range(len(self.inputs))]
        passed = ", ".join([*arguments, *values, *["*leaves"] * bool(self.leaves)])
        if not isinstance(self.execute, Dispatch):
            return [f"results = execute({passed})"]
        if self.execute.again is None:
            return [f"results = execute.run({passed})"]
        # The same as execute(...), with one frame less.
        return [
            "failed = None",
            "try:",
            f"    results = execute.run({passed})",
            "except Exception as error:",
            "    failed = error",
            "if failed is not None:",
            "    try:",
            f"        results = execute.again(failed, ({passed}{',' * bool(passed)}))",
            "    finally:",
            "        del failed",
        ]

    def _function(self, lines: Sequence[str], names: Mapping[str, Any]) -> Executable:
        """Return a function of the arguments, which converts another class or dtype of array."""
        arguments = [f"a{i}" for i in range(len(self.inputs))]
        head = []
        if arguments:
            # NumPy's dtypes are one object each; MLX makes its own anew for every array.
            admitted = " and ".join(
                f"({a}.__class__ is kind or {a}.__class__ is array)"
                f" and ({a}.dtype is d_{a} or {a}.dtype == own_{a})"
                for a in arguments
            )
            every = "".join(f"{a}, " for a in arguments)
            head.append(f"if not ({admitted}): {every}= convert(({every}))")
        text = [f"def call({', '.join(arguments)}):", *head, *lines]
        namespace: dict[str, Any] = {
            **names,
            "array": np.ndarray,
            "convert": self.convert,
            "execute": self.execute,
            "numpy": self.backend.numpy_result,
            "conversion_error": self.backend.conversion_error,
            "build": self.outputs.build,
            "kind": self.backend.kinds[-1],
            "leaves": self.leaves,
            **{f"d_a{i}": type.numpy_dtype for i, type in enumerate(self.inputs)},
            **{f"own_a{i}": self.backend.own_dtype(type) for i, type in enumerate(self.inputs)},
        }
        exec(compiled_code("\n    ".join(text), "call"), namespace)
        return namespace["call"]  # type: ignore[no-any-return]


def _refuse_traced(backend: Backend) -> None:
    raise ArgumentError(
        f"A function that updates shared variables was called while {backend.name} traces, when "
        "the new values are not known.",
        "Call it outside of code that the library traces, compiles or transforms, or return the "
        "new values as outputs.",
    )


class _CurrentValue:
    """A variable's value as the backend's array; for donation, one without other references."""

    def __init__(
        self,
        variable: Shared,
        type: TensorType,
        home: ArrayHome | None,
        donated: bool,
        backend: Backend,
        options: Mapping[str, Any],
    ) -> None:
        self.subject = variable.op.subject
        self.store = variable.op.store
        self.type = type
        self.home = home
        self.donated = donated
        self.backend = backend
        self.options = options

    def __call__(self) -> Any:
        store, backend, type = self.store, self.backend, self.type
        value = store.value
        if not isinstance(value, backend.kinds[-1]) or backend.dtype(value) != type.numpy_dtype:
            value = value if isinstance(value, backend.kinds) else as_numpy(value)
            value = self._to_backend(value)
            store.current.replace_by_copy(value)
        elif self.home is not None:
            value = self.home.keep(value, self.subject)
            if value is not store.value:
                # The array may share memory with the old one.
                store.set(value, owned=False)
        if self.donated and not store.current.owned:
            return backend.copy(value, type, self.options)
        return value

    def _to_backend(self, value: Any) -> Any:
        """Convert a value to the backend's array, on the devices of the variable."""
        if self.home is None:
            return self.backend.array(value, self.type, self.options)
        array = np.asarray(self.backend.numpy(value), self.type.numpy_dtype)
        return self.home.keep(array, self.subject)
