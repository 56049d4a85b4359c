"""When fused kernels are compiled: once a program that runs without them has taken long enough.

On the processor the C++ compiler takes about a second for each kernel; many a program has done all
that it is made for by then. So it first runs an operation at a time (``replay.py``). Once it has
taken a part of the time that its kernels would take, a thread compiles these, and the program goes
on as before until they are there.
"""

from __future__ import annotations

import atexit
import io
import math
import os
import re
import shutil
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from time import perf_counter, time
from typing import Any, Protocol
from weakref import WeakValueDictionary

import mlx.core as mx

from graphc.link.mlx.arrays import device_of
from graphc.link.mlx.compiler import has_kernels, new_kernels, note_kernels

LEAST = 0.25
"""Seconds that a program takes, all calls together, before its kernels are counted."""

SHARE = 0.25
"""The part of the time for its kernels that a program takes before they are compiled."""

KERNEL = re.compile(r'label ="(Compiled\w+)"')
"""A fused kernel, in MLX's picture of a program."""


class Fusable(Protocol):
    """A function that can run unfused, and fused."""

    def outputs(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """Its results for these arrays, traced by MLX and not evaluated."""

    def fuse(self) -> None:
        """Run fused from now on."""


class Tier:
    """The functions of one executable, and how long they have run unfused.

    Attributes:
        options: The mode's.
        key: That of the program's graph.
        spent: Seconds of calls in which a function ran unfused.
        price: Seconds after which the kernels are compiled, or counted at first.
        kernels: How many the functions have that were looked at, about; None before.
        is_fused: Whether kernels were compiled.
    """

    def __init__(self, options: Mapping[str, Any], key: str, price: float) -> None:
        self.options = options
        self.key = key
        self.spent = 0.0
        self.price = price
        self.kernels: int | None = None
        self._found: dict[Fusable, Sequence[Any]] | None = None
        self._is_busy = False
        self._refused: set[Fusable] = set()
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

    def note(self, function: Fusable, arrays: Sequence[Any]) -> None:
        """A function runs unfused, for these arrays."""
        if function not in self._refused:
            self.was_unfused = True
            if self._found is not None:
                self._found.setdefault(function, arrays)

    def after_call(self, seconds: float) -> None:
        """A call is over, in which functions ran unfused."""
        self.was_unfused = False
        self.spent += seconds
        found, self._found = self._found, None
        if found:
            # Another thread can read what is evaluated.
            mx.eval([*found.values()])
            self._is_busy = True
            WORKER.put(lambda: self._compile(found))
        elif self.spent >= self.price and not self._is_busy:
            self._found = {}

    def _compile(self, found: dict[Fusable, Sequence[Any]]) -> None:
        """Compile the kernels of these functions, or find out what that takes."""
        device = self.options.get("device")
        try:
            with mx.stream(device_of(self.options)) if device else nullcontext():
                self._fuse(found)
        except Exception:  # whatever MLX or the C++ compiler raise: unfused they do run
            self._refused |= found.keys()
        finally:
            self._is_busy = False

    def _fuse(self, found: dict[Fusable, Sequence[Any]]) -> None:
        traced = {f: f.outputs(arrays) for f, arrays in found.items()}
        names = [name for ys in traced.values() for name in kernels_of(ys)]
        expected = len(set(names))
        self.price = SHARE * expected * SECONDS.each
        counted = (self.kernels or 0) * self.is_fused
        self.kernels = counted + expected
        if self.spent < self.price:
            return
        since, start = time(), perf_counter()
        for ys in traced.values():
            mx.eval(ys)
        # MLX looks kernels up in none of them while it waits for the C++ compiler.
        for function in traced:
            function.fuse()
        self.is_fused = True
        SECONDS.measured(new_kernels(since), perf_counter() - start)
        note_kernels(self.key)


TIERS: WeakValueDictionary[str, Tier] = WeakValueDictionary()
"""By the keys of programs."""


class _Seconds:
    """How long the C++ compiler takes for a kernel, as measured in this process."""

    def __init__(self) -> None:
        self.each = 0.5

    def measured(self, kernels: int, seconds: float) -> None:
        """So many took so long."""
        if kernels:
            self.each = seconds / kernels


SECONDS = _Seconds()


def kernels_of(ys: Sequence[Any]) -> list[str]:
    """The names of the fused kernels in what MLX traced: equal ones may be in it several times."""
    picture = io.StringIO()
    mx.export_to_dot(picture, *ys)
    return KERNEL.findall(picture.getvalue())


def tier_of(options: Mapping[str, Any], key: Callable[[], str], *, at_once: bool) -> bool | Tier:
    """How the functions of an executable run: fused, by Python's calls of MLX, or by a tier.

    Args:
        options: The mode's.
        key: Gives that of the program's graph.
        at_once: Whether nothing of the program may run once more, as the thread has it do.
    """
    chosen: bool | str = options.get("compile", "auto")
    if isinstance(chosen, bool):
        return chosen
    if at_once or device_of(options).type != mx.cpu:
        return True
    if shutil.which("g++") is None:
        return Tier(options, "", math.inf)
    name = key()
    return True if has_kernels(name) else Tier(options, name, LEAST)


class _Worker:
    """The thread that compiles kernels: one job after the other, each a thread's."""

    def __init__(self) -> None:
        self._jobs: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, job: Callable[[], None]) -> None:
        """Run it when those before it are done."""
        with self._lock:
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="graphc-mlx", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Wait until all is done."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def stop(self) -> None:
        """Wait until the kernel that is compiled is there; no other is."""
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
