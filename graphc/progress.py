"""Progress of long compilations: after two seconds, a line shows the current stage.

A thread rewrites the line. The thread starts once a compilation has taken longer than a thread
costs, or at once for a stage that blocks. If nobody looks, nothing is written and no thread starts:
see ``config.progress``.
"""

from __future__ import annotations

import _thread
import shutil
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TextIO

from graphc.config import config

DELAY = 2.0
"""Seconds before a line is shown."""

EVERY = 0.25
"""Seconds from one state of a line to the next."""

WORTHWHILE = 0.02
"""Seconds of work after which a thread, which takes 30 microseconds to start, costs little."""

Text = str | Callable[[], str]
"""The text of a stage, or a function that returns it when the line is drawn."""


def terminal() -> TextIO | None:
    """Return the stream of the line: standard error, or None if ``config.progress`` shows none."""
    stream = sys.stderr
    if stream is None or config.progress == "off":
        return None
    is_notebook = type(stream).__module__.startswith("ipykernel")
    return stream if config.progress == "on" or is_notebook or stream.isatty() else None


class Ticker:
    """The thread that draws a line after a delay, and then repeatedly.

    Args:
        line: The line to draw.
        stream: The stream to which the thread writes.
    """

    def __init__(self, line: Line, stream: TextIO) -> None:
        self._line = line
        self._stream = stream
        self._width = 0
        self._drawing = threading.Lock()
        self._stopped = threading.Lock()
        self._stopped.acquire()

    def run(self) -> None:
        """Draw the line repeatedly until ``stop`` is called."""
        pause = max(0.0, DELAY - self._line.seconds)
        # ``stop`` releases the lock. An exception would end up on the user's screen.
        with suppress(OSError, ValueError):
            while not self._stopped.acquire(timeout=pause):
                self.draw()
                pause = EVERY

    def draw(self) -> None:
        """Write the line over its previous text, unless ``stop`` was called."""
        text = self._line.text()
        text = text[: shutil.get_terminal_size().columns - 1]
        with self._drawing:
            if self._stopped.locked():
                self._write(f"\r{text.ljust(self._width)}")
                self._width = len(text)

    def stop(self) -> None:
        """End the thread, and remove the line."""
        with self._drawing:
            self._stopped.release()
            if self._width:
                with suppress(OSError, ValueError):
                    self._write(f"\r{' ' * self._width}\r")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class Line:
    """The line about the compilation that runs in a thread.

    Args:
        clock: Returns the time in seconds.
        screen: Returns the stream of the line, or None to show no line.
        spawn: Runs a function in a new thread.
    """

    def __init__(
        self,
        clock: Callable[[], float] = monotonic,
        screen: Callable[[], TextIO | None] = terminal,
        spawn: Callable[[Callable[[], None], tuple[()]], object] = _thread.start_new_thread,
    ) -> None:
        self._clock = clock
        self._screen = screen
        self._spawn = spawn
        self._texts: list[Text] = []
        self._start = 0.0
        self._ticker: Ticker | None = None

    @property
    def seconds(self) -> float:
        """Seconds since the compilation began."""
        return self._clock() - self._start

    def text(self) -> str:
        """Return the line's text: the innermost stage, and the seconds so far."""
        texts = [text if isinstance(text, str) else text() for text in self._texts[-1:]]
        return f"graphc: {''.join(texts)} ... {self.seconds:.0f} s"

    def enter(self, text: Text) -> None:
        """Begin a stage."""
        if not self._texts:
            self._start = self._clock()
        self._texts.append(text)

    def tell(self, text: Text) -> None:
        """Replace the text of the innermost stage."""
        if self._texts:
            self._texts[-1] = text
            if self._ticker is None and self.seconds > WORTHWHILE:
                self.watch()

    def watch(self) -> None:
        """Start the thread that shows the line, if the line is shown at all."""
        if self._ticker is None and (stream := self._screen()) is not None:
            self._ticker = Ticker(self, stream)
            self._spawn(self._ticker.run, ())

    def leave(self) -> None:
        """End the innermost stage; the end of the outermost stage removes the line."""
        self._texts.pop()
        if not self._texts and self._ticker is not None:
            self._ticker.stop()
            self._ticker = None


class _Thread(threading.local):
    def __init__(self) -> None:
        self.line = Line()


_thread_local = _Thread()


class stage:  # noqa: N801 (reads as a statement)
    """A context for a stage of a compilation; stages within it take over its line.

    Args:
        text: The stage's text, such as ``"rewriting"``, or a function that returns it.
        blocking: Whether nothing in the stage calls ``tell``, so that the thread starts at once.

    Example:
        >>> with stage("rewriting"):
        ...     for name in ("canonicalize", "stabilize"):
        ...         tell(f"rewriting: {name}")
    """

    __slots__ = ("_blocking", "_line", "_text")

    def __init__(self, text: Text, *, blocking: bool = False) -> None:
        self._text = text
        self._blocking = blocking

    def __enter__(self) -> None:
        self._line = _thread_local.line
        self._line.enter(self._text)
        if self._blocking:
            self._line.watch()

    def __exit__(self, *error: object) -> None:
        self._line.leave()


def tell(text: Text) -> None:
    """Set the text of this thread's innermost stage; outside of a stage, do nothing."""
    _thread_local.line.tell(text)
