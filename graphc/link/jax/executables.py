"""A function that JAX traces, and its executables: compiled, or loaded without being traced.

What is compiled in this process is called through ``jax.jit``, whose dispatch is in C++ and knows
of every setting of JAX. Where it would trace, it asks first: what another process compiled for such
arguments is loaded in its place. Such an executable takes arrays of one kind on one device and
knows of no settings; where it does not apply, another is found, loaded or compiled. ``jax.jit``
does not ask where it has traced, as for the same arrays on another device: nobody is told of that.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from time import perf_counter
from typing import Any

import jax
import jax.extend.core

from graphc.errors import GraphcError
from graphc.link.backend import Executable
from graphc.link.jax.kinds import DECIDING, PRECISION, Kind, Known, settings
from graphc.link.jax.saved import Saved, pack, unpack
from graphc.link.ledger import Ledger

__all__ = ["Executables", "in_64_bits"]

# Older releases have it in jax.core, where newer ones warn of it.
_home: Any = jax.extend.core if hasattr(jax.extend.core, "get_opaque_trace_state") else jax.core
trace_state: Callable[[], Any] = _home.get_opaque_trace_state

MOST = 256
"""How many executables are known at a time, the oldest being forgotten; ``jax.jit`` keeps its own.
"""

with jax.ensure_compile_time_eval():
    UNTRACED = trace_state()
    """The state of a thread in which nothing is being traced."""


class AbsentError(Exception):
    """There is no executable for such arguments yet."""


@dataclass(frozen=True, eq=False)
class Entry:
    """What runs calls of a kind.

    Attributes:
        run: Takes their arguments.
        loaded: Whether it was loaded.
    """

    run: Executable
    loaded: bool


class Executables:
    """The executables of a function.

    Args:
        function: Traceable by JAX.
        donated: The arguments whose buffers may be reused.
        ledger: Where executables are kept, and who is told of them.
        known: What of the arguments the function knows already.
        pure: Whether calling it while JAX traces other code may give values.
        foreign: Whether it runs code of the user's, which may go by any setting of JAX.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        donated: tuple[int, ...],
        ledger: Ledger,
        known: Known,
        *,
        pure: bool,
        foreign: bool,
    ) -> None:
        self.function = function
        self.donated = donated
        self.ledger = ledger
        self.known = known
        self.pure = pure
        self.foreign = foreign
        self._entries: OrderedDict[Kind, Entry] = OrderedDict()
        self._by_shapes: dict[tuple[Any, ...], Entry] = {}
        self._loaded = 0
        self._lock = threading.RLock()
        self._thread = threading.local()

        def program(*arguments: Any) -> Any:
            if not (getattr(self._thread, "may_trace", False) or settings.jax_disable_jit):
                raise AbsentError
            self._thread.traced = True
            return function(*arguments)

        self._jitted = jax.jit(program, donate_argnums=donated)

    @cached_property
    def _inner(self) -> Executable:
        """What is part of other code that JAX traces; nobody is told of it, and nothing kept."""
        return jax.jit(self.function, donate_argnums=self.donated)

    def lower(self, *arguments: Any) -> jax.stages.Lowered:
        """The program as XLA gets it for such arguments."""
        with self._tracing():
            return self._jitted.lower(*arguments)

    # Calls.

    def caller(self, *, wide: bool = False) -> Executable:
        """What calls the executable that the arguments need.

        Args:
            wide: Whether it computes in 64 bits, and turns these on.
        """
        again, enable = self._again, jax.enable_x64
        run: Executable = _none

        def choose(chosen: Executable) -> None:
            nonlocal run
            run = chosen

        self._choose = choose

        # One of these two is all that most calls pass through: each line costs.
        def call(*arguments: Any) -> Any:
            try:
                return run(*arguments)
            except Exception as error:
                failed = error
            try:
                return again(failed, arguments)
            finally:
                # It holds this frame, and so the arguments.
                del failed

        def call_wide(*arguments: Any) -> Any:
            try:
                if settings.jax_enable_x64:
                    return run(*arguments)
                with enable(True):
                    return run(*arguments)
            except Exception as error:
                failed = error
            try:
                with enable(True):
                    return again(failed, arguments)
            finally:
                del failed

        found: Any = call_wide if wide else call
        found.lower = self.lower
        return found  # type: ignore[no-any-return]

    def _again(self, failed: Exception, arguments: tuple[Any, ...]) -> Any:
        """The results of a call that did not find its executable; raises what else failed."""
        if settings.jax_disable_jit or any(isinstance(x, jax.core.Tracer) for x in arguments):
            return self._inner(*arguments)
        kind = Kind.of(arguments)
        entry = self._entries.get(kind)
        is_absent = isinstance(failed, AbsentError)
        if entry is not None and not is_absent and entry is self._tried(entry, arguments):
            return self._failed(failed, entry, arguments)
        if entry is None:
            entry = self._made(kind, arguments)
        self._by_shapes[_shapes(arguments)] = entry
        if entry.loaded and not self._applies():
            return self._inner(*arguments)
        return entry.run(*arguments) if entry.loaded else self._jit(arguments)

    def _tried(self, entry: Entry, arguments: Sequence[Any]) -> Entry | None:
        """Which entry a call went to, if this is the right one."""
        if not self._loaded or len(self._entries) == 1:
            return entry
        return self._by_shapes.get(_shapes(arguments))

    def _failed(self, failed: Exception, entry: Entry, arguments: Sequence[Any]) -> Any:
        """Raise the error of the right executable; where JAX looks for NaNs, as ``jit`` does."""
        if entry.loaded and (settings.jax_debug_nans or settings.jax_debug_infs):
            return self._inner(*arguments)
        raise failed

    def _applies(self) -> bool:
        """Whether a loaded executable does what ``jax.jit`` would."""
        return self.pure or trace_state() == UNTRACED

    def _jit(self, arguments: tuple[Any, ...]) -> Any:
        """The results of what was compiled here; again where JAX was told to forget it."""
        start = perf_counter()
        with self._tracing():
            results = self._jitted(*arguments)
            traced = self._thread.traced
        if traced:
            self._tell("compile", arguments, perf_counter() - start)
        return results

    @contextmanager
    def _tracing(self) -> Iterator[None]:
        """Within, this thread may trace."""
        thread = self._thread
        before = getattr(thread, "may_trace", False)
        thread.may_trace, thread.traced = True, False
        try:
            yield
        finally:
            thread.may_trace = before

    # Making one.

    def _made(self, kind: Kind, arguments: tuple[Any, ...]) -> Entry:
        """The executable for calls of a kind: the one of another process, or a new one."""
        with self._lock:
            entry = self._entries.get(kind)
            if entry is None:
                self.ledger.wanted(self.known.shapes(arguments), self.known.items())
                keeps = self.ledger.keeps and kind.place is not None
                name = self._name(kind) if keeps else None
                with self.ledger.locked(name) if name else nullcontext():
                    entry = self._load(name, kind, arguments) if name else None
                    entry = entry or self._compile(name, arguments)
                self._enter(kind, entry)
        return entry

    def _name(self, kind: Kind) -> str:
        text = f"{kind.text()}; {self.donated}; {self.known!r}"
        return blake2b(text.encode(), digest_size=20).hexdigest()

    def _load(self, name: str, kind: Kind, arguments: tuple[Any, ...]) -> Entry | None:
        if not self._applies():
            return None
        start = perf_counter()
        data = self.ledger.load(name)
        if data is None:
            return None
        like = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arguments]  # type: ignore[no-untyped-call]

        def error(number: int, a: int, b: int) -> GraphcError:
            """The error of a check, which is the program's: it is traced for that."""
            _, checks = jax.eval_shape(self.function, *like)
            return checks[number].error(a, b)  # type: ignore[no-any-return]

        try:
            saved = unpack(data, kind.place, error)
        except Exception:  # whatever JAX does not take, it can compile
            return None
        self._tell("load", arguments, perf_counter() - start)
        by = range(len(DECIDING)) if self.foreign else [PRECISION] if saved.precise else []
        return Entry(_guarded(saved, kind, by, pure=self.pure), loaded=True)

    def _compile(self, name: str | None, arguments: tuple[Any, ...]) -> Entry:
        start = perf_counter()
        lowered = self.lower(*arguments)
        compiled = lowered.compile()
        self._tell("compile", arguments, perf_counter() - start)
        # JAX cannot write again what it has read from its own cache: it fails when it runs.
        cached = settings.jax_enable_compilation_cache and settings.jax_compilation_cache_dir
        data = pack(lowered, compiled) if name and not cached else None
        if name and data is not None:
            self.ledger.save(name, data)
        return Entry(self._jitted, loaded=False)

    def _tell(self, what: Any, arguments: tuple[Any, ...], seconds: float) -> None:
        self.ledger.made(what, self.known.shapes(arguments), self.known.items(), seconds)

    def _enter(self, kind: Kind, entry: Entry) -> None:
        """Have calls go the shortest way that serves all kinds known."""
        entries = self._entries
        entries[kind] = entry
        if len(entries) > MOST:
            entries.popitem(last=False)
            self._by_shapes.clear()
        self._loaded = sum(entry.loaded for entry in entries.values())
        if not self._loaded:
            self._choose(self._jitted)
        elif len(entries) == 1:
            self._choose(entry.run)
        else:
            self._choose(_among(self._by_shapes))


def in_64_bits(execute: Executable) -> Executable:
    """The same with 64-bit dtypes turned on while it is called."""
    enable = jax.enable_x64

    def call(*arguments: Any) -> Any:
        if settings.jax_enable_x64:
            return execute(*arguments)
        with enable(True):
            return execute(*arguments)

    return call


def _none(*arguments: Any) -> Any:
    raise AbsentError


def _shapes(arguments: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([x.shape for x in arguments])


def _among(entries: Mapping[tuple[Any, ...], Entry]) -> Executable:
    """What calls one of several executables, by the arguments' shapes."""
    find = entries.get

    def run(*arguments: Any) -> Any:
        entry = find(tuple([x.shape for x in arguments]))
        if entry is None:
            raise AbsentError
        return entry.run(*arguments)

    return run


def _guarded(saved: Saved, kind: Kind, by: Sequence[int], *, pure: bool) -> Executable:
    """A loaded executable that refuses to run where another setting decides on another one.

    Args:
        saved: The executable.
        kind: What it was loaded for.
        by: The settings that it goes by, by their places among those that decide.
        pure: Whether calling it while JAX traces other code may give values.
    """
    run = saved.run
    several = len(jax.devices()) > 1
    if pure and not by and not several:
        return run
    pairs = [(DECIDING[i], kind.settings[i]) for i in by]
    mesh = jax.sharding.get_abstract_mesh

    def call(*arguments: Any) -> Any:
        if (
            all(getattr(settings, name, None) == value for name, value in pairs)
            and (pure or trace_state() == UNTRACED)
            and (not several or (settings.jax_default_device == kind.device and mesh().empty))
        ):
            return run(*arguments)
        raise AbsentError

    return call
