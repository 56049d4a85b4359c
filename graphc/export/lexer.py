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
    """A token of a text: its kind, its text and its offset."""

    kind: str
    text: str
    offset: int

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
        match = TOKEN.match(self._text, self._next)
        if match is not None and match.lastgroup == "space":
            self._next = match.end()
            match = TOKEN.match(self._text, self._next)
        if match is not None:
            self.token = Token(str(match.lastgroup), match.group(), self._next)
            self._next = match.end()
        elif self._next == len(self._text):
            self.token = Token("end", END, self._next)
        else:
            self.fail(f"{self._text[self._next]!r} begins no token", self._next)
        return before

    def fail(self, problem: str, offset: int | None = None, remedy: str = "") -> NoReturn:
        """Raise an error with the line and column of an offset, by default of the present token.

        Raises:
            FormatError: Always.
        """
        at = self.token.offset if offset is None else offset
        line = self._text.count("\n", 0, at) + 1
        column = at - self._text.rfind("\n", 0, at)
        sentence = f"{problem.removesuffix('.')}."
        raise FormatError(f"Graph text, line {line}, column {column}: {sentence}", remedy)

    def take(self, kind: str, what: str) -> Token:
        """Return a token of a kind, and go on.

        Raises:
            FormatError: If the present token is of another kind.
        """
        if self.token.kind != kind:
            self.fail(f"expected {what}, got {self.token}")
        return self.advance()

    def accept(self, text: str) -> bool:
        """Return whether the present token is this sign or word, and skip it if so."""
        is_next = self.token.text == text and self.token.kind in {"sign", "word"}
        if is_next:
            self.advance()
        return is_next

    def expect(self, text: str) -> None:
        """Skip this sign or word.

        Raises:
            FormatError: If the present token is another one.
        """
        if not self.accept(text):
            self.fail(f"expected {text!r}, got {self.token}")

    def read_list(self, end: str, read: Callable[[], Any]) -> list[Any]:
        """Return the items between commas up to a closing bracket; a trailing comma is allowed."""
        items = []
        while not self.accept(end):
            items.append(read())
            if not self.accept(","):
                self.expect(end)
                break
        return items

    def string(self) -> str:
        """Return the next token as a string."""
        token = self.take("string", "a string")
        return self.unquote(token.text, token.offset)

    def unquote(self, text: str, offset: int) -> str:
        """Return the string of a text in quotes."""
        try:
            string = str(json.loads(text))
            string.encode()  # half a surrogate pair is no character
            return string
        except ValueError:
            self.fail(f"{text} is no string", offset)

    def integer(self) -> int:
        """Return the next token as an integer."""
        token = self.token
        number = self.number()
        if not isinstance(number, int):
            self.fail(f"expected an integer, got {token}", token.offset)
        return number

    def number(self) -> int | float:
        """Return the next token as a number, an integer if it has digits only."""
        token = self.take("number", "a number")
        try:
            return int(token.text) if token.text.lstrip("-").isdecimal() else float(token.text)
        except ValueError:  # Python limits the digits that it converts
            self.fail(f"{token.text[:20]}... has too many digits", token.offset)
