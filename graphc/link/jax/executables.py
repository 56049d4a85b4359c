"""Executables of a function that JAX traces: compiled, or loaded without tracing it.

Executables compiled in this process are called through ``jax.jit``, whose dispatch is in C++ and
knows every setting of JAX. If ``jax.jit`` would trace, the executable that another process compiled
for the same kind of arguments is loaded instead. A loaded executable takes arrays of one shape,
dtype and device and knows no settings; if it does not apply, another executable is looked up,
loaded or compiled. ``jax.jit`` does not ask again after it has traced, as for the same arrays on
another device: such compilations are not recorded. Over a mesh, an argument may be a NumPy array in
one call and a JAX array in the next; then the compiled executable is called directly, like a loaded
one, because ``jax.jit`` would compile it for both.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from time import perf_counter
from typing import Any

import jax
import jax.extend.core

from graphc.errors import GraphcError
from graphc.link.backend import Dispatch, Executable
from graphc.link.compile_context import CompileContext
from graphc.link.jax.call_key import PRECISION, SETTINGS, CallKey, KnownArguments, settings
from graphc.link.jax.devices import compiling_for, current_kind
from graphc.link.jax.partitions import lower_for_partitions
from graphc.link.jax.releases import trace_state
from graphc.link.jax.serialized import LoadedExecutable, pack, unpack
from graphc.progress import stage, tell

MAX_ENTRIES = 256
"""The most entries at a time, the oldest removed first; ``jax.jit`` has its own cache."""

with jax.ensure_compile_time_eval():
    UNTRACED = trace_state()
    """The state of a thread in which nothing is being traced."""


Inspect = Callable[[jax.stages.Compiled, Mapping[int, tuple[int, ...]]], None]
Choose = Callable[[Executable], None]
Again = Callable[[Exception, tuple[Any, ...]], Any]


class AbsentError(Exception):
    """No executable for the arguments of a call has been compiled yet."""


@dataclass(frozen=True, eq=False)
class CacheEntry:
    """The executable of a call key.

    Attributes:
        run: The executable, a function of the arguments of a call.
        traces: Whether ``run`` is a ``jax.jit`` function, which traces if necessary.
    """

    run: Executable
    traces: bool


class Executables:
    """The executables of a function, by call key.

    Args:
        function: A function that JAX can trace.
        donated: The arguments whose buffers may be reused.
        context: Stores and records executables.
        known: The arguments that the function is specialized for.
        pure: Whether a call returns values while JAX traces other code.
        foreign: Whether the function runs the user's code, which may depend on any setting of JAX.

    Attributes:
        inspect: A function that inspects a compiled program, given the shapes of its arguments by
            their positions; None for no inspection.
        shardings: Over a mesh, the sharding of each argument if that is a NumPy array; empty if
            all arguments are JAX arrays.
        over_mesh: Whether the function runs over a mesh, even if no argument is on one.
    """

    inspect: Inspect | None = None
    shardings: Sequence[Any] = ()
    over_mesh: bool = False

    def __init__(
        self,
        function: Callable[..., Any],
        donated: tuple[int, ...],
        context: CompileContext,
        known: KnownArguments,
        *,
        pure: bool,
        foreign: bool,
    ) -> None:
        self.function = function
        self.donated = donated
        self.context = context
        self.known = known
        self.pure = pure
        self.foreign = foreign
        self._entries: OrderedDict[CallKey, CacheEntry] = OrderedDict()
        self._by_shapes: dict[tuple[Any, ...], CacheEntry] = {}
        self._inners: dict[str, Executable] = {}
        self._lock = threading.RLock()
        self._thread = threading.local()
        self._choose: Choose = _none

    def _new_jit(self, key: CallKey) -> Any:
        """Return ``jax.jit`` of the function for calls of a key, traced only where this thread may.

        Each entry has a separate ``jax.jit`` function: after an error for arguments of some shapes,
        the dispatch in C++ leaves calls with these shapes to Python, which is several times slower.
        """

        def program(*arguments: Any) -> Any:
            if not getattr(self._thread, "may_trace", False):
                raise AbsentError
            self._thread.traced = True
            return self.function(*arguments)

        shardings = key.shardings if self.shardings else None
        if shardings is None:
            return jax.jit(program, donate_argnums=self.donated)
        # With in_shardings, jax.jit transfers NumPy arrays faster than jax.device_put does.
        return jax.jit(program, donate_argnums=self.donated, in_shardings=shardings)

    def _inner(self, *arguments: Any) -> Any:
        """Call the function as part of other code that JAX traces; nothing is stored or recorded.

        JAX caches the trace of a function, so each kind of device has a function.
        """
        jitted = self._inners.get(current_kind())
        if jitted is None:
            jitted = jax.jit(partial(self.function), donate_argnums=self.donated)
            self._inners[current_kind()] = jitted
        return jitted(*arguments)

    def lower(self, *arguments: Any) -> jax.stages.Lowered:
        return self._lower(CallKey.of(arguments, self.shardings), arguments)[1]

    def _lower(self, key: CallKey, arguments: Sequence[Any]) -> tuple[Any, jax.stages.Lowered]:
        with compiling_for(key.devices and [key.devices[0].platform]):
            return lower_for_partitions(partial(self._new_jit, key), self._trace, arguments)

    def _trace(self, jitted: Any, arguments: Sequence[Any]) -> jax.stages.Traced:
        with self._allow_tracing():
            return jitted.trace(*arguments)  # type: ignore[no-any-return]

    # Calls.

    def caller(self, *, wide: bool = False) -> Executable:
        """Return a function that calls the executable for its arguments, in 64 bits if ``wide``."""
        dispatch: Any = Dispatch(_none, self._again)
        self._choose = partial(setattr, dispatch, "run")
        if wide:
            self._choose, dispatch.again = _enable_64_bits(self._choose, self._again)
        dispatch.lower = self.lower
        return dispatch  # type: ignore[no-any-return]

    def _again(self, failed: Exception, arguments: tuple[Any, ...]) -> Any:
        """Call the right executable after a call failed, usually for lack of an executable."""
        if settings.jax_disable_jit or any(isinstance(x, jax.core.Tracer) for x in arguments):
            return self._inner(*arguments)
        key = CallKey.of(arguments, self.shardings)
        key.check_devices()
        entry = self._entries.get(key)
        is_absent = isinstance(failed, AbsentError)
        if entry is not None and not is_absent and entry is self._last_entry(entry, arguments):
            return self._raise_failure(failed, entry, arguments)
        if entry is None:
            entry = self._find_or_compile(key, arguments)
        elif is_absent and entry.traces:
            with suppress(AbsentError):  # the user may have cleared JAX's caches
                results = entry.run(*arguments)
                self._by_shapes[_shapes(arguments)] = entry
                return results
            entry = self._renew_entry(key)
        self._by_shapes[_shapes(arguments)] = entry
        if entry.traces:
            return self._call_jit(entry, arguments)
        return entry.run(*arguments) if self._applies() else self._inner(*arguments)

    def _last_entry(self, entry: CacheEntry, arguments: Sequence[Any]) -> CacheEntry | None:
        """Return the entry that the failed call went to, given the entry of its key."""
        if len(self._entries) == 1:
            return entry
        return self._by_shapes.get(_shapes(arguments))

    def _raise_failure(self, failed: Exception, entry: CacheEntry, arguments: Sequence[Any]) -> Any:
        """Raise the error of the right executable; if JAX checks for NaNs, the error of ``jit``."""
        if not entry.traces and (settings.jax_debug_nans or settings.jax_debug_infs):
            return self._inner(*arguments)
        raise failed

    def _applies(self) -> bool:
        """Return whether an executable returns what ``jax.jit`` would."""
        return self.pure or trace_state() == UNTRACED

    def _renew_entry(self, key: CallKey) -> CacheEntry:
        """Replace an entry whose ``jax.jit`` function met an error because caches were cleared."""
        entry = CacheEntry(self._new_jit(key), traces=True)
        with self._lock:
            self._enter(key, entry)
        return entry

    def _call_jit(self, entry: CacheEntry, arguments: tuple[Any, ...]) -> Any:
        """Call a new ``jax.jit`` function, which compiles if the user cleared JAX's caches."""
        start = perf_counter()
        with self._allow_tracing():
            results = entry.run(*arguments)
            traced = self._thread.traced
        if traced:
            self._record("compile", arguments, perf_counter() - start)
        return results

    @contextmanager
    def _allow_tracing(self) -> Iterator[None]:
        thread = self._thread
        before = getattr(thread, "may_trace", False)
        thread.may_trace, thread.traced = True, False
        try:
            yield
        finally:
            thread.may_trace = before

    # Entries.

    def _find_or_compile(self, key: CallKey, arguments: tuple[Any, ...]) -> CacheEntry:
        """Return the entry of a key: loaded if another process has stored it, else compiled."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                self.context.before_compile(self.known.shapes(arguments), self.known.items())
                compile = partial(self._compile, key, arguments)
                load = partial(self._load, key, arguments)
                # Over a mesh, uncommitted arguments do not tell the devices to load a file for.
                is_stored = key.devices is not None and (key.is_committed or not self.over_mesh)
                name = self._name(key) if is_stored else None
                entry = self.context.executable(name, load, compile)
                self._enter(key, entry)
        return entry

    def _name(self, key: CallKey) -> str:
        text = f"{key.text()}; {self.donated}; {self.known!r}"
        return blake2b(text.encode(), digest_size=20).hexdigest()

    def _load(self, key: CallKey, arguments: tuple[Any, ...], data: bytes) -> CacheEntry | None:
        if not self._applies():
            return None
        start = perf_counter()
        like = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arguments]  # type: ignore[no-untyped-call]

        def error(number: int, a: int, b: int) -> GraphcError:
            # The traced program has the error of the check.
            results = jax.eval_shape(self.function, *like)
            return results.comparisons[number].error(a, b)  # type: ignore[no-any-return]

        try:
            loaded = unpack(data, key.devices or (), error)
        except Exception:  # JAX can compile whatever it does not load
            return None
        self._record("load", arguments, perf_counter() - start)
        return self._guard_entry(key, loaded)

    def _guard_entry(self, key: CallKey, loaded: LoadedExecutable) -> CacheEntry:
        """Return the entry of an executable that refuses calls of other keys."""
        by = range(len(SETTINGS)) if self.foreign else [PRECISION] if loaded.precise else []
        return CacheEntry(_guard(loaded, key, by, pure=self.pure), traces=False)

    def _compile(
        self, key: CallKey, arguments: tuple[Any, ...]
    ) -> tuple[CacheEntry, Callable[[], bytes | None]]:
        start = perf_counter()
        with stage("JAX traces", blocking=True):
            jitted, lowered = self._lower(key, arguments)
            tell("XLA compiles")
            compiled = lowered.compile()
        if self.inspect is not None:
            self.inspect(compiled, self.known.shapes_by_position(arguments))
        self._record("compile", arguments, perf_counter() - start)

        def serialize() -> bytes | None:
            # An executable that JAX read from its own cache fails after it is serialized.
            cached = settings.jax_enable_compilation_cache and settings.jax_compilation_cache_dir
            return None if cached else pack(lowered, compiled)

        if self.shardings and key.shardings and key.devices:
            # jax.jit would compile a second time when a NumPy array becomes a JAX array.
            return self._guard_entry(key, LoadedExecutable(compiled, precise=True)), serialize
        return CacheEntry(jitted, traces=True), serialize

    def _record(self, kind: Any, arguments: tuple[Any, ...], seconds: float) -> None:
        self.context.record(kind, self.known.shapes(arguments), self.known.items(), seconds)

    def _enter(self, key: CallKey, entry: CacheEntry) -> None:
        """Add an entry, and choose the fastest dispatch for all entries."""
        entries = self._entries
        entries[key] = entry
        if len(entries) > MAX_ENTRIES:
            entries.popitem(last=False)
            self._by_shapes.clear()
        self._choose(entry.run if len(entries) == 1 else _dispatch(self._by_shapes))


def _enable_64_bits(choose: Choose, again: Again) -> tuple[Choose, Again]:
    """Return functions like ``choose`` and ``again`` for calls with 64-bit dtypes on.

    Asking JAX for its setting takes a noticeable part of a call. So JAX is not asked before a call
    has met 64-bit dtypes turned off: that call would trace, or its arguments would be refused.

    Args:
        choose: Sets the function that calls go to.
        again: Returns the results of a call that this function failed, with 64-bit dtypes on.
    """
    enable = jax.enable_x64
    chosen: Executable = _none
    is_asked = False

    def run(*arguments: Any) -> Any:
        if settings.jax_enable_x64:
            return chosen(*arguments)
        with enable(True):
            return chosen(*arguments)

    def choose_wide(execute: Executable) -> None:
        nonlocal chosen
        chosen = execute
        choose(run if is_asked else execute)

    def again_wide(failed: Exception, arguments: tuple[Any, ...]) -> Any:
        nonlocal is_asked
        is_off = not settings.jax_enable_x64
        with enable(True):
            if is_off and not is_asked:
                is_asked = True
                choose_wide(chosen)
                try:
                    return chosen(*arguments)
                except Exception as error:
                    failed = error
            try:
                return again(failed, arguments)
            finally:
                del failed

    return choose_wide, again_wide


def fix_arguments(function: Callable[..., Any], fixed: Mapping[int, Any]) -> Callable[..., Any]:
    """Return a new function of the other arguments, given those at some positions."""

    def call(*passed: Any) -> Any:
        rest, positions = iter(passed), range(len(fixed) + len(passed))
        return function(*[fixed[i] if i in fixed else next(rest) for i in positions])

    return call


def in_64_bits(execute: Executable) -> Executable:
    enable = jax.enable_x64

    def call(*arguments: Any) -> Any:
        if settings.jax_enable_x64:
            return execute(*arguments)
        with enable(True):
            return execute(*arguments)

    return call


def on_device(execute: Executable, device: Any) -> Executable:
    def call(*arguments: Any) -> Any:
        with jax.default_device(device):
            return execute(*jax.device_put(arguments, device))

    return call


def _none(*arguments: Any) -> Any:
    raise AbsentError


def _shapes(arguments: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([x.shape for x in arguments])


def _dispatch(entries: Mapping[tuple[Any, ...], CacheEntry]) -> Executable:
    """Return a function that dispatches to one of several executables by arguments' shapes."""
    find = entries.get

    def run(*arguments: Any) -> Any:
        entry = find(tuple([x.shape for x in arguments]))
        if entry is None:
            raise AbsentError
        return entry.run(*arguments)

    return run


def _guard(loaded: LoadedExecutable, key: CallKey, by: Sequence[int], *, pure: bool) -> Executable:
    """Return a loaded executable that raises if JAX's settings ask for another one.

    Args:
        loaded: The executable.
        key: The call key that it was loaded for.
        by: The settings that it depends on, by their positions in ``SETTINGS``.
        pure: Whether a call returns values while JAX traces other code.
    """
    run = loaded.run
    several = len(jax.devices()) > 1
    if pure and not by and not several:
        return run
    pairs = [(SETTINGS[i], key.settings[i]) for i in by]
    mesh = jax.sharding.get_abstract_mesh

    def call(*arguments: Any) -> Any:
        if (
            all(getattr(settings, name, None) == value for name, value in pairs)
            and (pure or trace_state() == UNTRACED)
            and (not several or (settings.jax_default_device == key.device and mesh().empty))
        ):
            return run(*arguments)
        raise AbsentError

    return call
