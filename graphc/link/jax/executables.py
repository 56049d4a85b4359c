"""Executables of a function that JAX traces: compiled, or loaded without tracing it.

What is compiled in this process is called through ``jax.jit``, whose dispatch is in C++ and knows
every setting of JAX. Where it would trace, the executable that another process compiled for such
arguments is loaded instead. A loaded executable takes arrays of one shape, dtype and device and
knows no settings; where it does not apply, another is found, loaded or compiled. ``jax.jit`` does
not ask again where it has traced, as for the same arrays on another device: such compilations are
not recorded. Where arguments may be NumPy's or JAX's by turns, over a mesh, what was compiled is
called itself, like a loaded executable: ``jax.jit`` would compile it for both.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from time import perf_counter
from typing import Any

import jax
import jax.extend.core

from graphc.errors import GraphcError
from graphc.link.backend import Dispatch, Executable
from graphc.link.compile_context import CompileContext
from graphc.link.jax.call_key import PRECISION, SETTINGS, CallKey, KnownArguments, settings
from graphc.link.jax.divided import lowered_for_choices
from graphc.link.jax.serialized import LoadedExecutable, pack, unpack
from graphc.progress import stage, tell

# Older releases have it in jax.core, where newer ones warn of it.
_home: Any = jax.extend.core if hasattr(jax.extend.core, "get_opaque_trace_state") else jax.core
trace_state: Callable[[], Any] = _home.get_opaque_trace_state

MAX_ENTRIES = 256
"""The most executables that are known at a time, the oldest going first; ``jax.jit`` has its own
cache."""

with jax.ensure_compile_time_eval():
    UNTRACED = trace_state()
    """The state of a thread in which nothing is being traced."""


Inspect = Callable[[jax.stages.Compiled, Mapping[int, tuple[int, ...]]], None]


Choose = Callable[[Executable], None]
Again = Callable[[Exception, tuple[Any, ...]], Any]


class AbsentError(Exception):
    """There is no executable for such arguments yet."""


@dataclass(frozen=True, eq=False)
class CacheEntry:
    """The executable of a call key.

    Attributes:
        run: Takes the arguments of such calls.
        traces: Whether it is ``jax.jit``, which traces where it has to.
    """

    run: Executable
    traces: bool


class Executables:
    """The executables of a function, by call key.

    Args:
        function: Traceable by JAX.
        donated: The arguments whose buffers may be reused.
        context: Where executables are stored and recorded.
        known: The arguments that the function is specialized for.
        pure: Whether a call gives values while JAX traces other code.
        foreign: Whether it runs the user's code, which may depend on any setting of JAX.

    Attributes:
        inspect: Looks at what was compiled, given the places and shapes of its arguments.
        places: Over a mesh, the shardings that arguments of NumPy get; where there are none, all
            arguments are JAX's.
        over_mesh: Whether it runs over a mesh, also where no argument says so.
    """

    inspect: Inspect | None = None
    places: Sequence[Any] = ()
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
        self._lock = threading.RLock()
        self._thread = threading.local()
        self._choose: Choose = _none

    def _new_jit(self, key: CallKey) -> Any:
        """``jax.jit`` of the function for calls of a key, which traces it where this thread may.

        Each entry has one of its own: once its dispatch in C++ has met an error for arguments of
        some shapes, it leaves such calls to Python, which takes several times as long.
        """

        def program(*arguments: Any) -> Any:
            if not getattr(self._thread, "may_trace", False):
                raise AbsentError
            self._thread.traced = True
            return self.function(*arguments)

        known = key.shardings if self.places else None
        if known is None:
            return jax.jit(program, donate_argnums=self.donated)
        # It puts NumPy arrays there faster than ``jax.device_put``.
        return jax.jit(program, donate_argnums=self.donated, in_shardings=known)

    @cached_property
    def _inner(self) -> Executable:
        """The function as part of other code that JAX traces; nothing is stored or recorded."""
        return jax.jit(self.function, donate_argnums=self.donated)

    def lower(self, *arguments: Any) -> jax.stages.Lowered:
        """Lower the program for such arguments."""
        return self._lowered(CallKey.of(arguments, self.places), arguments)[1]

    def _lowered(self, key: CallKey, arguments: Sequence[Any]) -> tuple[Any, jax.stages.Lowered]:
        return lowered_for_choices(partial(self._new_jit, key), self._traced, arguments)

    def _traced(self, jitted: Any, arguments: Sequence[Any]) -> jax.stages.Traced:
        with self._tracing():
            return jitted.trace(*arguments)  # type: ignore[no-any-return]

    # Calls.

    def caller(self, *, wide: bool = False) -> Executable:
        """Return a function that calls the executable for its arguments.

        Args:
            wide: Whether it turns 64-bit dtypes on.
        """
        dispatch: Any = Dispatch(_none, self._again)
        self._choose = partial(setattr, dispatch, "run")
        if wide:
            self._choose, dispatch.again = _widened(self._choose, self._again)
        dispatch.lower = self.lower
        return dispatch  # type: ignore[no-any-return]

    def _again(self, failed: Exception, arguments: tuple[Any, ...]) -> Any:
        """Return the results of a call that failed, if only because its executable was missing."""
        if settings.jax_disable_jit or any(isinstance(x, jax.core.Tracer) for x in arguments):
            return self._inner(*arguments)
        key = CallKey.of(arguments, self.places)
        key.refuse_scattered()
        entry = self._entries.get(key)
        is_absent = isinstance(failed, AbsentError)
        if entry is not None and not is_absent and entry is self._last_called(entry, arguments):
            return self._failed(failed, entry, arguments)
        if entry is None:
            entry = self._new_entry(key, arguments)
        elif is_absent and entry.traces:
            try:
                return self._known_jit(entry, arguments)
            except AbsentError:
                entry = self._forgotten(key)
        self._by_shapes[_shapes(arguments)] = entry
        if entry.traces:
            return self._jit(entry, arguments)
        return entry.run(*arguments) if self._applies() else self._inner(*arguments)

    def _last_called(self, entry: CacheEntry, arguments: Sequence[Any]) -> CacheEntry | None:
        """The entry that a call went to, where ``entry`` is the right one."""
        if len(self._entries) == 1:
            return entry
        return self._by_shapes.get(_shapes(arguments))

    def _failed(self, failed: Exception, entry: CacheEntry, arguments: Sequence[Any]) -> Any:
        """Raise the error of the right executable; where JAX looks for NaNs, as ``jit`` does."""
        if not entry.traces and (settings.jax_debug_nans or settings.jax_debug_infs):
            return self._inner(*arguments)
        raise failed

    def _applies(self) -> bool:
        """Whether an executable does what ``jax.jit`` would."""
        return self.pure or trace_state() == UNTRACED

    def _known_jit(self, entry: CacheEntry, arguments: tuple[Any, ...]) -> Any:
        """Call ``jax.jit`` where it has traced; its error is that the user cleared its caches."""
        results = entry.run(*arguments)
        self._by_shapes[_shapes(arguments)] = entry
        return results

    def _forgotten(self, key: CallKey) -> CacheEntry:
        """A new entry in the place of one whose caches were cleared, which met an error by that."""
        entry = CacheEntry(self._new_jit(key), traces=True)
        with self._lock:
            self._enter(key, entry)
        return entry

    def _jit(self, entry: CacheEntry, arguments: tuple[Any, ...]) -> Any:
        """Call ``jax.jit`` for the first time, which compiles where the user cleared its caches."""
        start = perf_counter()
        with self._tracing():
            results = entry.run(*arguments)
            traced = self._thread.traced
        if traced:
            self._record("compile", arguments, perf_counter() - start)
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

    # Entries.

    def _new_entry(self, key: CallKey, arguments: tuple[Any, ...]) -> CacheEntry:
        """The entry of a key: loaded where another process has stored it, or compiled."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                self.context.before_compile(self.known.shapes(arguments), self.known.items())
                compile = partial(self._compile, key, arguments)
                load = partial(self._load, key, arguments)
                # What lies on no device does not say for which devices a file is to be loaded.
                is_kept = key.devices is not None and (key.is_placed or not self.over_mesh)
                name = self._name(key) if is_kept else None
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
            """Trace the program, which has the error of the check."""
            _, checks = jax.eval_shape(self.function, *like)
            return checks[number].error(a, b)  # type: ignore[no-any-return]

        try:
            loaded = unpack(data, key.devices or (), error)
        except Exception:  # whatever JAX does not accept, it can compile
            return None
        self._record("load", arguments, perf_counter() - start)
        return self._entry(key, loaded)

    def _entry(self, key: CallKey, loaded: LoadedExecutable) -> CacheEntry:
        """The entry of an executable, which refuses calls of other keys."""
        by = range(len(SETTINGS)) if self.foreign else [PRECISION] if loaded.precise else []
        return CacheEntry(_guarded(loaded, key, by, pure=self.pure), traces=False)

    def _compile(
        self, key: CallKey, arguments: tuple[Any, ...]
    ) -> tuple[CacheEntry, Callable[[], bytes | None]]:
        start = perf_counter()
        with stage("JAX traces", blocking=True):
            jitted, lowered = self._lowered(key, arguments)
            tell("XLA compiles")
            compiled = lowered.compile()
        if self.inspect is not None:
            self.inspect(compiled, self.known.places(arguments))
        self._record("compile", arguments, perf_counter() - start)

        def serialized() -> bytes | None:
            # JAX cannot serialize what it has read from its own cache: it fails when it runs.
            cached = settings.jax_enable_compilation_cache and settings.jax_compilation_cache_dir
            return None if cached else pack(lowered, compiled)

        if self.places and key.shardings and key.devices:
            # ``jax.jit`` would compile once more where NumPy arrays and those of JAX take turns.
            return self._entry(key, LoadedExecutable(compiled, precise=True)), serialized
        return CacheEntry(jitted, traces=True), serialized

    def _record(self, kind: Any, arguments: tuple[Any, ...], seconds: float) -> None:
        self.context.record(kind, self.known.shapes(arguments), self.known.items(), seconds)

    def _enter(self, key: CallKey, entry: CacheEntry) -> None:
        """Add an entry, and choose the fastest dispatch for all entries."""
        entries = self._entries
        entries[key] = entry
        if len(entries) > MAX_ENTRIES:
            entries.popitem(last=False)
            self._by_shapes.clear()
        self._choose(entry.run if len(entries) == 1 else _among(self._by_shapes))


def _widened(choose: Choose, again: Again) -> tuple[Choose, Again]:
    """How calls are dispatched that have 64-bit dtypes on.

    To ask JAX whether they are takes a part of a call that counts. So it is not asked before a call
    has found them off: by that call it is traced again, or its arguments are refused.

    Args:
        choose: Sets the function that calls go to.
        again: Gives the results of a call that this function failed, 64-bit dtypes being on.
    """
    enable = jax.enable_x64
    chosen: Executable = _none
    is_asked = False

    def run(*arguments: Any) -> Any:
        if settings.jax_enable_x64:
            return chosen(*arguments)
        with enable(True):
            return chosen(*arguments)

    def choose_wide(found: Executable) -> None:
        nonlocal chosen
        chosen = found
        choose(run if is_asked else found)

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


def in_64_bits(execute: Executable) -> Executable:
    """An executable with 64-bit dtypes turned on while it is called."""
    enable = jax.enable_x64

    def call(*arguments: Any) -> Any:
        if settings.jax_enable_x64:
            return execute(*arguments)
        with enable(True):
            return execute(*arguments)

    return call


def on_device(execute: Executable, device: Any) -> Executable:
    """An executable that runs on a device, to which its arguments are put."""

    def call(*arguments: Any) -> Any:
        with jax.default_device(device):
            return execute(*jax.device_put(arguments, device))

    return call


def _none(*arguments: Any) -> Any:
    raise AbsentError


def _shapes(arguments: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([x.shape for x in arguments])


def _among(entries: Mapping[tuple[Any, ...], CacheEntry]) -> Executable:
    """Dispatch to one of several executables by the arguments' shapes."""
    find = entries.get

    def run(*arguments: Any) -> Any:
        entry = find(tuple([x.shape for x in arguments]))
        if entry is None:
            raise AbsentError
        return entry.run(*arguments)

    return run


def _guarded(
    loaded: LoadedExecutable, key: CallKey, by: Sequence[int], *, pure: bool
) -> Executable:
    """A loaded executable that refuses to run where JAX's settings ask for another one.

    Args:
        loaded: The executable.
        key: The call key it was loaded for.
        by: The settings that it depends on, by their places in ``SETTINGS``.
        pure: Whether a call gives values while JAX traces other code.
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
