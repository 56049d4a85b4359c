"""When fused kernels are compiled: once a program's unfused runs have taken long enough.

On the processor the C++ compiler takes about a second for each kernel, and many programs have
ended by then. So a program first runs one operation at a time. Once its runs have taken a fraction
of the time that its kernels would take, a thread compiles them; the program runs unfused until the
kernels are ready.

Until then, MLX traces a program once and runs it without Python: MLX offers this for functions that
are saved and loaded, which run unfused.
"""

from __future__ import annotations

import atexit
import io
import math
import os
import re
import shutil
import tempfile
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from time import perf_counter, time
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import mlx.core as mx

from graphc.link.mlx.arrays import device_of, put_bounded
from graphc.link.mlx.compiler import has_kernels, new_kernels, note_kernels
from graphc.link.mlx.devices import device_choice

if TYPE_CHECKING:
    from graphc.link.mlx.segments import CompiledFunction

LEAST = 0.25
"""Seconds of all calls together before a program's kernels are counted."""

SHARE = 0.25
"""Ratio of a program's running time to its kernels' compile time at which they are compiled."""

KERNEL = re.compile(r'label ="(Compiled\w+)"')
"""A fused kernel in MLX's picture of a program."""


class Tier:
    """The functions of one executable, and how long they have run unfused.

    Attributes:
        options: Options of the mode.
        key: Key of the program's graph.
        spent: Seconds of calls in which a function ran unfused.
        price: Value of ``spent`` at which the kernels are compiled, or counted at first.
        kernels: Approximate number of kernels of the functions examined; None before.
        is_fused: Whether kernels were compiled.
        was_unfused: Whether a function ran unfused in the current call.
    """

    def __init__(self, options: Mapping[str, Any], key: str, price: float) -> None:
        self.options = options
        self.key = key
        self.spent = 0.0
        self.price = price
        self.kernels: int | None = None
        self._candidates: dict[CompiledFunction, Sequence[Any]] | None = None
        self._is_busy = False
        self._unfusable: set[CompiledFunction] = set()
        self.is_fused = False
        self.was_unfused = False
        if key:
            TIERS[key] = self

    def __str__(self) -> str:
        if self.kernels is None:
            return f"not counted before calls took {self.price:.2g} s"
        number = f"about {self.kernels}"
        if self.is_fused:
            return f"{number}, compiled once calls had taken {self.spent:.2g} s"
        return f"{number}, to be compiled once calls take {self.price:.2g} s"

    def note(self, function: CompiledFunction, arrays: Sequence[Any]) -> None:
        """Note that a function runs unfused for these arrays."""
        if function not in self._unfusable:
            self.was_unfused = True
            if self._candidates is not None:
                self._candidates.setdefault(function, arrays)

    def after_call(self, seconds: float) -> None:
        """Add the seconds of a call in which functions ran unfused, and start compilation."""
        self.was_unfused = False
        self.spent += seconds
        functions, self._candidates = self._candidates, None
        if functions:
            # Another thread can read evaluated arrays only.
            mx.eval([*functions.values()])
            self._is_busy = True
            WORKER.put(lambda: self._compile(functions))
        elif self.spent >= self.price and not self._is_busy:
            self._candidates = {}

    def _compile(self, functions: dict[CompiledFunction, Sequence[Any]]) -> None:
        """Compile the kernels of these functions, or only count them."""
        device = self.options.get("device")
        try:
            with mx.stream(device_of(self.options)) if device else nullcontext():
                self._fuse(functions)
        except Exception:  # whatever MLX or the C++ compiler raise: unfused, the functions run
            self._unfusable |= functions.keys()
        finally:
            self._is_busy = False

    def _fuse(self, functions: dict[CompiledFunction, Sequence[Any]]) -> None:
        traced = {f: f.outputs(arrays) for f, arrays in functions.items()}
        names = [name for ys in traced.values() for name in kernels_of(ys)]
        expected = len(set(names))
        self.price = SHARE * expected * SECONDS.each
        compiled = (self.kernels or 0) * self.is_fused
        self.kernels = compiled + expected
        if self.spent < self.price:
            return
        since, start = time(), perf_counter()
        for ys in traced.values():
            mx.eval(ys)
        # While MLX waits for the C++ compiler, it looks up no kernels: fuse only now.
        for function in traced:
            function.fuse()
        self.is_fused = True
        SECONDS.set_time(new_kernels(since), perf_counter() - start)
        note_kernels(self.key)


TIERS: WeakValueDictionary[str, Tier] = WeakValueDictionary()
"""Tiers by the keys of their programs."""


class _KernelSeconds:
    """The time that the C++ compiler takes for a kernel, as measured in this process."""

    def __init__(self) -> None:
        self.each = 0.5

    def set_time(self, kernels: int, seconds: float) -> None:
        """Set the time per kernel from a number of kernels and their total time."""
        if kernels:
            self.each = seconds / kernels


SECONDS = _KernelSeconds()


def kernels_of(ys: Sequence[Any]) -> list[str]:
    """Return the names of the fused kernels in traced arrays, with repetitions."""
    picture = io.StringIO()
    mx.export_to_dot(picture, *ys)
    return KERNEL.findall(picture.getvalue())


def tier_of(options: Mapping[str, Any], key: Callable[[], str], *, at_once: bool) -> bool | Tier:
    """Return how an executable's functions run: True if fused, False if unfused, or a tier.

    Args:
        options: Options of the mode.
        key: Function that returns the key of the program's graph.
        at_once: Whether no operation may run twice, as the compiling thread would make it.
    """
    asked: bool | str = options.get("compile", "auto")
    if isinstance(asked, bool):
        return asked
    if at_once or not device_choice("fuses by C++", options):
        return True
    if shutil.which("g++") is None:
        return Tier(options, "", math.inf)
    name = key()
    return True if has_kernels(name) else Tier(options, name, LEAST)


class _Worker:
    """A thread that compiles kernels, one job after the other."""

    def __init__(self) -> None:
        self._jobs: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, job: Callable[[], None]) -> None:
        """Run a job after all jobs before it."""
        with self._lock:
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="graphc-mlx", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        thread = self._thread
        if thread is not None:
            thread.join()

    def stop(self) -> None:
        """Drop all jobs, and wait for the kernel that is being compiled."""
        self._jobs.clear()
        if self._thread is None:
            return
        path = os.environ.get("PATH")
        # MLX compiles all kernels of a function, unless it finds no compiler.
        os.environ["PATH"] = ""
        try:
            self.wait()
        finally:
            if path is None:
                del os.environ["PATH"]
            else:
                os.environ["PATH"] = path

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._thread = None
                    return
                job = self._jobs.popleft()
            job()


WORKER = _Worker()
atexit.register(WORKER.stop)


REFUSED = re.compile(r"\[(export_function|import_function|write|read)\]|no Stream\(")
"""Errors of MLX if it cannot save a program, or cannot run one in this thread."""


class Replayed(threading.local):
    """A function that MLX traces for each combination of shapes, and then runs without Python.

    Python's function ``plain`` is called instead if MLX cannot save it, and in all threads but the
    first, where MLX cannot run loaded programs.
    """

    def __init__(self, traced: Callable[..., Any], plain: Callable[..., Any]) -> None:
        self.traced = traced
        self.plain = plain
        self.programs: OrderedDict[Any, Callable[..., Any]] = OrderedDict()

    def __call__(self, *arrays: Any) -> list[Any]:
        """Return the results."""
        shapes = tuple([x.shape for x in arrays])
        program = self.programs.get(shapes)
        if program is None:
            program = (_thread.replays and saved_program(self.traced, arrays)) or self.plain
            put_bounded(self.programs, shapes, program)
        return [*program(*arrays)]


def saved_program(function: Callable[..., Any], arrays: Sequence[Any]) -> Callable[..., Any] | None:
    """Return MLX's saved and loaded program for arrays of these shapes, or None."""
    try:
        with tempfile.NamedTemporaryFile(prefix="graphc-", suffix=".mlxfn") as file:
            mx.export_function(file.name, function, *arrays)
            program: Any = mx.import_function(file.name)
    except OSError:
        return None
    except (RuntimeError, ValueError) as error:
        if REFUSED.search(str(error)):
            return None
        raise
    return program  # type: ignore[no-any-return]


class _ThreadAbilities(threading.local):
    """Whether MLX runs loaded programs in this thread."""

    def __init__(self) -> None:
        program = saved_program(lambda x: [x + x], [mx.array(1.0)])
        self.replays = program is not None
        try:
            if program:
                mx.eval(program(mx.array(1.0)))
        except RuntimeError:
            self.replays = False


_thread = _ThreadAbilities()
