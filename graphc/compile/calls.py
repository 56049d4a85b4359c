"""Generated code for calls: arguments go straight to the program, shared variables are replaced.

A call costs a few microseconds, most of them in the backend; a Python loop over the arguments or
the shared variables would add half as much again. So the code is generated for the number of inputs
and for the shared variables of a function.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from types import CodeType
from typing import Any

import numpy as np

from graphc.compile.shared import Shared, sharding_of
from graphc.errors import ArgumentError, GraphcError
from graphc.ir import TensorType
from graphc.link import Backend, Executable, as_numpy
from graphc.link.backend import Home
from graphc.link.shortcut import NotAdmittedError, Shortcut, with_cells
from graphc.site import INTERNAL


@lru_cache(1024)
def compiled_code(source: str, what: str) -> CodeType:
    """Compile generated source text; functions of equal signature share the code."""
    return compile(source, f"{INTERNAL}{what}>", "exec")


@dataclass(frozen=True)
class CallCode:
    """Code of a call whose arguments, ``a0``, ``a1``, ..., are arrays of the right dtypes.

    Attributes:
        execute: Takes the arguments, then ``values``, then ``leaves``.
        arguments: How many there are.
        values: The names of the shared variables' values.
        leaves: The captured arrays, a list whose elements may be converted later.
        lines: What is done, given the lines that make ``results``; the last one returns the
            outputs.
        names: What the lines refer to.
    """

    execute: Executable
    arguments: int
    values: Sequence[str]
    leaves: list[Any]
    lines: Callable[[Sequence[str]], Sequence[str]]
    names: Mapping[str, Any]

    @property
    def _given(self) -> list[str]:
        return [f"a{i}" for i in range(self.arguments)]

    def function(self) -> Executable:
        """A function of the arguments."""
        passed = [*self._given, *self.values, *["*leaves"] * bool(self.leaves)]
        lines = self.lines([f"results = execute({', '.join(passed)})"])
        names = {"execute": self.execute, "leaves": self.leaves}
        return self._compiled(f"def call({', '.join(self._given)}):", lines, names)  # type: ignore[no-any-return]

    def direct_class(
        self,
        base: type,
        dtypes: Sequence[tuple[Any, Any]],
        kinds: tuple[type, ...],
        *,
        trusting: bool,
    ) -> type:
        """A subclass whose calls are no more than this code.

        They are where each argument is one of the backend's kinds of array and has its input's
        dtype; all other calls go to the base class.

        Args:
            base: The class of functions.
            dtypes: NumPy's dtype of each input, and the backend's own, which may be the same.
            kinds: The classes of arrays taken as they are, the backend's own last.
            trusting: Whether the library is left to refuse its own arrays of other dtypes, where it
                does. Such a call then takes thousands of times as long as a check.
        """
        shortcut = Shortcut.of(self.execute)
        is_left = trusting and shortcut is not None and shortcut.again is not None
        names = self._given
        given = "".join(f"{a}, " for a in names)
        right = [
            _admission(i, own is dtype, kinds[-1] is np.ndarray, is_left=is_left)
            for i, (dtype, own) in enumerate(dtypes)
        ]
        # Parameters by position only leave every name free for an input: self, a0.
        parameters = "".join(f"{a}=absent, " for a in names)
        lines = [
            f"if {' and '.join([*right, 'not rest', 'not named'])}:",
            "    try:",
            *[f"        {line}" for line in self.lines(self._straight(shortcut))],
            "    except GraphcError as error:",
            f"        raise self._explained(error, ({given})) from error.__cause__",
            "    except NotAdmittedError:",
            "        pass",
            f"args = [a for a in ({given}) if a is not absent]",
            "return base.__call__(self, *args, *rest, **named)",
        ]
        namespace: dict[str, Any] = {
            "GraphcError": GraphcError,
            "NotAdmittedError": NotAdmittedError,
            "absent": object(),
            "array": np.ndarray,
            "base": base,
            "execute": self.execute,
            "kind": kinds[-1],
            **{f"d{i}_": dtype for i, (dtype, _) in enumerate(dtypes)},
            **{f"o{i}_": own for i, (_, own) in enumerate(dtypes)},
            **{f"l{i}": leaf for i, leaf in enumerate(self.leaves)},
        }
        head = f"def __call__(self, {parameters}/, *rest, **named):"
        if shortcut is None:
            call = self._compiled(head, lines, namespace)
        else:
            inside = [head, *[f"    {line}" for line in lines], "return __call__"]
            made = self._compiled("def made(run):", inside, namespace)(None)
            call = with_cells(made, [shortcut.cell])
        members = {"__call__": call, "__doc__": base.__doc__, "__module__": base.__module__}
        return type(base.__name__, (base,), members)

    def _straight(self, shortcut: Shortcut | None) -> list[str]:
        """The lines that make results, by the shortcut where the executable has one."""
        held = [*self.values, *[f"l{i}" for i in range(len(self.leaves))]]
        passed = ", ".join([*self._given, *held])
        if shortcut is None:
            return [f"results = execute({passed})"]
        if shortcut.again is None:
            return [f"results = run({passed})"]
        given, others = ("".join(f"{x}, " for x in names) for names in (self._given, held))
        return [
            "failed = None",
            "try:",
            f"    results = run({passed})",
            "except Exception as error:",
            "    failed = error",
            "if failed is not None:",
            "    try:",
            f"        results = self._refused(failed, ({given}), ({others}))",
            "    finally:",
            # It holds this frame, and so the arguments.
            "        del failed",
        ]

    def _compiled(self, head: str, lines: Sequence[str], names: Mapping[str, Any]) -> Any:
        namespace = {**self.names, **names}
        exec(compiled_code("\n    ".join([head, *lines]), "call"), namespace)
        return namespace[head.split("(", maxsplit=1)[0].removeprefix("def ")]


def _admission(i: int, is_numpy_dtype: bool, is_numpy: bool, *, is_left: bool) -> str:
    """The condition that an argument is an array as the program takes it.

    Args:
        i: Its number.
        is_numpy_dtype: Whether the backend's own arrays have NumPy's dtypes.
        is_numpy: Whether the backend's own arrays are NumPy's.
        is_left: Whether the backend's own arrays may have any dtype.
    """
    # NumPy's dtypes are one object each; other libraries make theirs anew for every array.
    one = f"a{i}.dtype is d{i}_"
    own = f"a{i}.__class__ is kind"
    numpy = f"a{i}.__class__ is array and {one}"
    if is_numpy:
        return f"{own} and {one}"
    if is_left:
        return f"({own} or {numpy})"
    return f"({own} and {one if is_numpy_dtype else f'a{i}.dtype == o{i}_'} or {numpy})"


@dataclass(frozen=True)
class Outputs:
    """What a call returns of a program's results.

    Attributes:
        first: Whether it is the first result alone, and not all but shared variables' new values.
        finish: Makes it of that; None where it is that.
    """

    first: bool
    finish: Callable[[Any], Any] | None

    def code(self, updates: int) -> str:
        """The expression for the outputs, given ``results`` with so many new values."""
        found = "results[0]" if self.first else f"results[:-{updates}]" if updates else "results"
        return found if self.finish is None else f"finish({found})"


@dataclass(frozen=True)
class ProgramCall:
    """How a program is called.

    Attributes:
        execute: Takes the arguments, the values of shared variables and the captured arrays.
        arguments: How many arguments there are.
        leaves: The captured arrays, a list whose elements may be converted later.
        outputs: What the call returns.
    """

    execute: Executable
    arguments: int
    leaves: list[Any]
    outputs: Outputs

    def _code(
        self,
        values: Sequence[str],
        lines: Callable[[Sequence[str]], Sequence[str]],
        names: Mapping[str, Any],
    ) -> CallCode:
        names = {**names, "finish": self.outputs.finish}
        return CallCode(self.execute, self.arguments, values, self.leaves, lines, names)

    def plain(self) -> CallCode:
        """Code of a call without shared variables."""
        end = f"return {self.outputs.code(0)}"
        return self._code((), lambda call: [*call, end], {})

    def stateful(
        self,
        shared: Mapping[Shared, TensorType],
        updates: Sequence[tuple[Shared, bool]],
        donated: Collection[int],
        backend: Backend,
        options: Mapping[str, Any],
    ) -> CallCode:
        """Code that passes the values of shared variables, and replaces them by new ones.

        Args:
            shared: The variables, in the order in which all functions lock them, and the types by
                which the program takes them.
            updates: The variables that get new values, and for each whether nothing else refers to
                its new value.
            donated: The places of the variables whose buffers are reused.
            backend: Where the values live.
            options: Of the mode.
        """
        count = range(len(shared))
        types = list(shared.values())
        own = [backend.own_dtype(type) for type in types]
        homes = [backend.home(sharding_of(x), options) for x in shared]
        known = [() if home is None else home.known for home in homes]
        before = [*(f"acquire{i}()" for i in count), "try:"]
        for i in count:
            foreign = f"v{i}.__class__ is not kind"
            # A function of the same library may have left it in another dtype.
            foreign += "" if own[i] is types[i].numpy_dtype else f" or v{i}.dtype != o{i}"
            # A function of another mode may have left it elsewhere.
            foreign += "" if homes[i] is None else f" or v{i}.sharding not in h{i}"
            foreign += f" or not s{i}.owned" if i in donated else ""
            before += [f"    v{i} = s{i}.value", f"    if {foreign}: v{i} = present{i}()"]
        after = []
        if updates:
            after.append("    if results[-1].__class__ is not kind: traced()")
        places = {x: i for i, x in enumerate(shared)}
        for k, (x, fresh) in enumerate(updates):
            i, place = places[x], k - len(updates)
            after.append(f"    s{i}.value = results[{place}]; s{i}.owned = {fresh}")
        after += ["finally:", *[f"    release{i}()" for i in count]]
        after.append(f"return {self.outputs.code(len(updates))}")
        namespace: dict[str, Any] = {
            "kind": backend.kinds[-1],
            "traced": partial(_refuse_traced, backend),
        }
        for i, x in enumerate(shared):
            store = x.op.store
            namespace |= {
                f"s{i}": store,
                f"o{i}": own[i],
                f"acquire{i}": store.lock.acquire,
                f"release{i}": store.lock.release,
                f"h{i}": known[i],
                f"present{i}": _CurrentValue(x, types[i], homes[i], i in donated, backend, options),
            }

        def lines(call: Sequence[str]) -> list[str]:
            return [*before, *[f"    {line}" for line in call], *after]

        return self._code([f"v{i}" for i in count], lines, namespace)


def _refuse_traced(backend: Backend) -> None:
    raise ArgumentError(
        f"A function that updates shared variables was called while {backend.name} traces, when "
        "the new values are not known.",
        "Call it outside of code that the library traces, compiles or transforms, or return the "
        "new values as outputs.",
    )


class _CurrentValue:
    """A variable's value as the backend's array, and for donation as one that only it refers to."""

    def __init__(
        self,
        variable: Shared,
        type: TensorType,
        home: Home | None,
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
            value = self._placed(value)
            store.converted(value)
        elif self.home is not None:
            value = self.home.keep(value, self.subject)
            if value is not store.value:
                # It may share memory with what it was made of.
                store.value, store.owned = value, False
        if self.donated and not store.owned:
            return backend.copied(value, type, self.options)
        return value

    def _placed(self, value: Any) -> Any:
        """A value as the backend's array, where the variable's values are to be."""
        if self.home is None:
            return self.backend.array(value, self.type, self.options)
        array = np.asarray(self.backend.numpy(value), self.type.numpy_dtype)
        return self.home.keep(array, self.subject)
