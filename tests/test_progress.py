"""The line about long compilations, on a terminal of the test's own."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc import config, progress
from graphc.progress import Line, Ticker, stage, tell, terminal


class Terminal(io.StringIO):
    """A terminal that remembers what was written to it."""

    def isatty(self) -> bool:
        return True

    @property
    def shown(self) -> str:
        """What is on its last line."""
        shown = ""
        for part in self.getvalue().split("\r")[1:]:
            shown = part + shown[len(part) :]
        return shown.rstrip()


class Watched:
    """A line whose clock is set and whose thread is run by the test."""

    def __init__(self) -> None:
        self.now = 0.0
        self.terminal = Terminal()
        self.tickers: list[Ticker] = []
        self.line = Line(lambda: self.now, lambda: self.terminal, self.spawn)

    def spawn(self, run: Callable[[], None], arguments: tuple[()]) -> None:
        self.tickers.append(run.__self__)  # type: ignore[attr-defined]


def test_a_line_is_written_over_itself_and_removed_at_the_end() -> None:
    watched = Watched()
    watched.line.enter("JAX traces")
    watched.line.watch()
    (ticker,) = watched.tickers
    watched.now = 12.4
    ticker.draw()
    assert watched.terminal.shown == "graphc: JAX traces ... 12 s"
    watched.line.tell("XLA")
    ticker.draw()
    assert watched.terminal.shown == "graphc: XLA ... 12 s"
    watched.line.leave()
    assert watched.terminal.shown == ""
    ticker.draw()
    assert watched.terminal.shown == ""


def test_stages_within_a_stage_take_over_its_line_and_its_seconds() -> None:
    watched = Watched()
    watched.line.enter("outer")
    watched.now = 3.0
    watched.line.enter(lambda: "inner")
    assert watched.line.text() == "graphc: inner ... 3 s"
    watched.line.leave()
    assert watched.line.text() == "graphc: outer ... 3 s"


def test_a_short_compilation_starts_no_thread() -> None:
    watched = Watched()
    watched.line.enter("rewriting")
    watched.now = progress.WORTHWHILE / 2
    watched.line.tell("canonicalize")
    assert not watched.tickers
    watched.now = progress.WORTHWHILE * 2
    watched.line.tell("stabilize")
    watched.line.tell("specialize")
    assert len(watched.tickers) == 1
    watched.line.leave()
    assert watched.terminal.getvalue() == ""


def test_what_is_told_outside_of_a_stage_is_ignored() -> None:
    watched = Watched()
    watched.now = 10.0
    watched.line.tell("nothing")
    assert not watched.tickers


def test_the_thread_waits_draws_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.01)
    monkeypatch.setattr(progress, "EVERY", 0.01)
    drawn, ended = threading.Event(), threading.Event()

    class Signalling(Terminal):
        def write(self, text: str) -> int:
            drawn.set()
            return super().write(text)

    def spawn(run: Callable[[], None], arguments: tuple[()]) -> None:
        threading.Thread(target=lambda: (run(), ended.set()), daemon=True).start()

    shown = Signalling()
    line = Line(screen=lambda: shown, spawn=spawn)
    line.enter("XLA compiles")
    line.watch()
    assert drawn.wait(60)
    line.leave()
    assert ended.wait(60)
    assert shown.getvalue().startswith("\rgraphc: XLA compiles ... 0 s")
    assert shown.shown == ""


def test_a_terminal_that_is_gone_harms_nothing() -> None:
    watched = Watched()
    watched.line.enter("XLA compiles")
    watched.line.watch()
    watched.tickers[0].draw()
    watched.terminal.close()
    watched.line.leave()


@pytest.mark.parametrize(
    ("setting", "stream", "is_shown"),
    [
        ("auto", Terminal, True),
        ("auto", io.StringIO, False),
        ("on", io.StringIO, True),
        ("off", Terminal, False),
        ("on", lambda: None, False),
        ("auto", type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"}), True),
    ],
)
def test_the_setting_and_the_stream_decide_whether_it_is_shown(
    setting: str, stream: Any, is_shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", stream())
    with config.change_flags(progress=setting):
        assert (terminal() is not None) is is_shown


TOLD = {
    "JAX": ["rewriting, canonicalize", "XLA compiles"],
    "MLX": ["rewriting, canonicalize", "first call on MLX: 0 kernels compiled"],
    "NUMPY": ["rewriting, canonicalize"],
}


def test_each_backend_tells_what_it_does(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    class Telling(Line):
        """A line that draws at once whatever it is told."""

        def watch(self) -> None:
            told.append(self.text())

    monkeypatch.setattr(progress, "WORTHWHILE", -1.0)
    monkeypatch.setattr(progress._thread_local, "line", Telling())
    x = gt.vector("x")
    f = graphc.function([x], gt.sort(gt.log(1 + gt.exp(gt.sin(x) * gt.tanh(x)))), mode=mode)
    f(np.ones(3))
    after = len(told)
    f(np.ones(3))
    assert len(told) == after
    for text in TOLD[mode]:
        assert any(text in line for line in told), told


def test_mlx_starts_no_thread_for_a_kernel_or_two(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    monkeypatch.setattr(progress._thread_local, "line", watched.line)
    x = gt.vector("x")
    graphc.function([x], gt.exp(x) * 3, mode="MLX")(np.ones(3))
    assert not watched.tickers
    states = graphc.scan(gt.sin, outputs_info=x, n_steps=40)
    graphc.function([x], states[-1], mode="MLX")(np.ones(3))
    assert len(watched.tickers) == 1


def test_an_error_in_a_stage_removes_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    monkeypatch.setattr(progress._thread_local, "line", watched.line)

    def failing() -> None:
        with stage("rewriting", blocking=True):
            tell("rewriting: one")
            watched.tickers[0].draw()
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert watched.terminal.shown == ""
    assert "rewriting: one" in watched.terminal.getvalue()
