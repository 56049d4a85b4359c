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


def convert_where(tree: Any, where: Where, convert: Callable[[Any, str, T], Any], recipe: T) -> Any:
    """Return a tree in which selected arrays are converted; implicit ones are unchanged.

    Args:
        tree: A nested container.
        where: As for ``quantize``.
        convert: Called with an array, its description for errors, and the recipe.
        recipe: The last argument of ``convert``.

    Raises:
        ImplicitArrayError: If ``where`` is given and matches no array.
    """
    result, used = _convert_arrays(tree, [(predicate(where), recipe)], convert)
    if where is not None and not used:
        raise ImplicitArrayError(
            f"quantize(where={where!r}) fits no array of the tree.",
            "A pattern is compared with keys joined by '/', as layers/0/w.",
        )
    return result


def convert_by_rules(
    tree: Any,
    rules: Sequence[tuple[str, T | None]],
    convert: Callable[[Any, str, T], Any],
) -> Any:
    """Return a tree whose arrays are converted by the first rule found in their path.

    Args:
        tree: A nested container, or an array, whose path is empty.
        rules: Regular expressions, each with an argument for ``convert``; None to leave arrays
            unchanged.
        convert: Called with an array, its description for errors, and the argument of its rule.

    Raises:
        ImplicitArrayError: If a rule is no regular expression, or is the first match of no array.
    """
    choices = [(predicate(_compile(rule)), recipe) for rule, recipe in rules]
    result, used = _convert_arrays(tree, choices, convert)
    for i, (rule, _) in enumerate(rules):
        if i not in used:
            raise ImplicitArrayError(
                f"quantize: the rule {rule!r} applies to no array of the tree.",
                "A rule is searched in keys joined by '/', such as layers/0/w, and the first rule "
                "that is found applies.",
            )
    return result


def _convert_arrays(
    tree: Any,
    choices: Sequence[tuple[Callable[[Path, Any], bool], T | None]],
    convert: Callable[[Any, str, T], Any],
) -> tuple[Any, set[int]]:
    """Convert each dense array by the first choice that selects it; return which were used."""
    used: set[int] = set()

    def convert_by_first(path: Path, x: Any) -> Any:
        if is_implicit(x) or not is_array(x):
            return x
        for i, (selects, recipe) in enumerate(choices):
            if selects(path, x):
                used.add(i)
                name = f"the array at {path_string(path)!r}"
                return x if recipe is None else convert(x, name, recipe)
        return x

    return tree_map_with_path(convert_by_first, tree), used


def _compile(rule: str) -> re.Pattern[str]:
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
