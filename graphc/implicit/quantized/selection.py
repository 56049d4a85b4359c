"""Selection of arrays of a tree by rules, patterns and functions of their paths."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import is_implicit
from graphc.implicit.namespace import numpy_like
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.implicit.trees import Path, is_array as is_leaf, tree_map_with_path
from graphc.ir import dtype_name, is_inexact

T = TypeVar("T")

Where = Callable[[Path, Any], bool] | re.Pattern[str] | str | None

Rules = Mapping[str, Any]
"""From regular expressions to a kind, a mapping of options, or None."""


def is_array(x: Any) -> bool:
    """Return whether an object is an array of any library, also symbolic or traced."""
    return is_leaf(x) or numpy_like(x).name == "graphc"


def path_string(path: Path) -> str:
    """Return a path as rules and patterns see it: its keys joined by ``/``."""
    return "/".join(map(str, path))


def convert_selected(
    tree: Any, choices: Sequence[tuple[Where, T | None]], convert: Callable[[Any, str, T], Any]
) -> Any:
    """Return a tree whose dense arrays are converted by the first choice that selects them.

    Args:
        tree: A nested container, or an array, whose path is empty.
        choices: Selections of arrays, as ``where`` of ``quantize``, each with an argument for
            ``convert``; None to leave arrays unchanged.
        convert: Called with an array, its description for errors, and the argument of its choice.

    Raises:
        ImplicitArrayError: If a selection that is not None is the first one of no array.
    """
    tests = [(predicate(where), recipe) for where, recipe in choices]
    used: set[int] = set()

    def convert_by_first(path: Path, x: Any) -> Any:
        if is_implicit(x) or not is_array(x):
            return x
        for i, (selects, recipe) in enumerate(tests):
            if selects(path, x):
                used.add(i)
                name = f"the array at {path_string(path)!r}"
                return x if recipe is None else convert(x, name, recipe)
        return x

    result = tree_map_with_path(convert_by_first, tree)
    for i, (where, _) in enumerate(choices):
        if i not in used and where is not None:
            shown = where.pattern if isinstance(where, re.Pattern) else where
            raise ImplicitArrayError(
                f"quantize: {shown!r} fits no array of the tree.",
                "A pattern is compared with keys joined by '/', such as layers/0/w; of several "
                "rules, the first that is found applies.",
            )
    return result


def compile_rule(rule: str) -> re.Pattern[str]:
    """Return the pattern of a rule.

    Raises:
        ImplicitArrayError: If the rule is no regular expression.
    """
    try:
        return re.compile(rule)
    except re.error as error:
        raise ImplicitArrayError(
            f"quantize: the rule {rule!r} is no regular expression: {error}.",
            "Escape what has a meaning there, by re.escape.",
        ) from error


def predicate(where: Where) -> Callable[[Path, Any], bool]:
    """Return a function that selects arrays by path and value, as ``where`` of ``quantize``."""
    match where:
        case None:
            return lambda path, x: len(lengths_of(x)) > 1 and is_inexact(dtype_name(dtype_of(x)))
        case str():
            return lambda path, x: fnmatchcase(path_string(path), where)
        case re.Pattern():
            return lambda path, x: where.search(path_string(path)) is not None
    return where
