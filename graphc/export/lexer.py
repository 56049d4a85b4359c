"""The tokens of graph text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from graphc.errors import FormatError

TOKEN = re.compile(
    r"""
    (?P<space>  (?: [ \t\r\n]+ | //[^\n]* )+ )
  | (?P<value>  % (?: \d+ | [A-Za-z_][\w.]* | "(?:[^"\\\n]|\\.)*" ) )
  | (?P<formal> \# \d+ )
  | (?P<graph>  @ \w+ )
  | (?P<number> -? (?: \d+ (?: \.\d+ )? (?: [eE][-+]?\d+ )? | inf\b | nan\b ) )
  | (?P<word>   [A-Za-z_][\w.-]* )
  | (?P<string> "(?:[^"\\\n]|\\.)*" )
  | (?P<sign>   [(){}\[\],:=?] )
    """,
    re.VERBOSE | re.ASCII,
)
END = "the end of the text"


class Token(NamedTuple):
    """A token of a text: its kind, its text and its place."""

    kind: str
    text: str
    place: int

    def __str__(self) -> str:
        return self.text if self.kind == "end" else repr(self.text)


class Lexer:
    """A text, token by token.

    Attributes:
        token: The present token.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self.token = Token("end", END, 0)
        self._next = 0
        self.advance()

    def advance(self) -> Token:
        """Go to the next token, and return the present one."""
        before = self.token
        found = TOKEN.match(self._text, self._next)
        if found is not None and found.lastgroup == "space":
            self._next = found.end()
            found = TOKEN.match(self._text, self._next)
        if found is not None:
            self.token = Token(str(found.lastgroup), found.group(), self._next)
            self._next = found.end()
        elif self._next == len(self._text):
            self.token = Token("end", END, self._next)
        else:
            self.fail(f"{self._text[self._next]!r} begins no token", self._next)
        return before

    def fail(self, problem: str, place: int | None = None, remedy: str = "") -> NoReturn:
        """Raise the error of a place, by default of the present token.

        Raises:
            FormatError: Always; it names the line and column.
        """
        at = self.token.place if place is None else place
        line = self._text.count("\n", 0, at) + 1
        column = at - self._text.rfind("\n", 0, at)
        raise FormatError(f"Graph text, line {line}, column {column}: {problem}.", remedy)

    def take(self, kind: str, what: str) -> Token:
        """Return a token of a kind, and go on.

        Raises:
            FormatError: The present token is of another kind.
        """
        if self.token.kind != kind:
            self.fail(f"expected {what}, got {self.token}")
        return self.advance()

    def found(self, text: str) -> bool:
        """Return whether the present token is this sign or word, and go on if it is."""
        is_there = self.token.text == text and self.token.kind in {"sign", "word"}
        if is_there:
            self.advance()
        return is_there

    def expect(self, text: str) -> None:
        """Go on from this sign or word.

        Raises:
            FormatError: The present token is another one.
        """
        if not self.found(text):
            self.fail(f"expected {text!r}, got {self.token}")

    def listed(self, end: str, read: Callable[[], Any]) -> list[Any]:
        """Return what is read between commas up to a closing bracket; a comma may be the last."""
        found = []
        while not self.found(end):
            found.append(read())
            if not self.found(","):
                self.expect(end)
                break
        return found

    def string(self) -> str:
        """Return the string that comes next."""
        token = self.take("string", "a string")
        return self.unquoted(token.text, token.place)

    def unquoted(self, text: str, place: int) -> str:
        """Return the string of a text in quotes."""
        try:
            found = str(json.loads(text))
            found.encode()  # half a surrogate pair is no character
            return found
        except ValueError:
            self.fail(f"{text} is no string", place)

    def integer(self) -> int:
        """Return the integer that comes next."""
        token = self.token
        found = self.number()
        if not isinstance(found, int):
            self.fail(f"expected an integer, got {token}", token.place)
        return found

    def number(self) -> int | float:
        """Return the number that comes next: an integer where it has digits alone."""
        token = self.take("number", "a number")
        try:
            return int(token.text) if token.text.lstrip("-").isdecimal() else float(token.text)
        except ValueError:  # Python converts so many digits alone
            self.fail(f"{token.text[:20]}... has too many digits", token.place)
