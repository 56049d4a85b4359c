"""Which arrays of a tree are converted: by rules, patterns and functions of their paths."""

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
"""For each regular expression a kind, a mapping of options, or None."""


def is_array(x: Any) -> bool:
    """Whether it is an array of any library, or a symbolic or traced one."""
    return is_leaf(x) or numpy_like(x).name == "graphc"


def written(path: Path) -> str:
    """A path as rules and patterns see it: its keys joined by ``/``."""
    return "/".join(map(str, path))


def chosen(tree: Any, where: Where, convert: Callable[[Any, str], Any]) -> Any:
    """A tree in which the arrays that are chosen are converted; implicit ones stay.

    Args:
        tree: A nested container.
        where: As of ``quantize``.
        convert: Is called with an array and what it is called in errors.

    Raises:
        ImplicitArrayError: ``where`` is given and fits none.
    """
    wanted, found = chooser(where), 0

    def converted(path: Path, x: Any) -> Any:
        nonlocal found
        if not _is_dense(x) or not wanted(path, x):
            return x
        found += 1
        return convert(x, _called(path))

    made = tree_map_with_path(converted, tree)
    if where is not None and not found:
        raise ImplicitArrayError(
            f"quantize(where={where!r}) fits no array of the tree.",
            "A pattern is compared with keys joined by '/', as layers/0/w.",
        )
    return made


def by_rules(
    tree: Any,
    rules: Sequence[tuple[str, T | None]],
    convert: Callable[[Any, str, T], Any],
) -> Any:
    """A tree whose arrays are converted by the first rule that is found in their path.

    Args:
        tree: A nested container, or an array, whose path is empty.
        rules: Regular expressions, each with what ``convert`` is told; None to leave arrays alone.
        convert: Is called with an array, what it is called in errors, and what its rule says.

    Raises:
        ImplicitArrayError: A rule is no regular expression, or the first to fit no array.
    """
    patterns = [_compiled(rule) for rule, _ in rules]
    used: set[int] = set()

    def converted(path: Path, x: Any) -> Any:
        if not _is_dense(x):
            return x
        name = written(path)
        for i, pattern in enumerate(patterns):
            if pattern.search(name):
                used.add(i)
                recipe = rules[i][1]
                return x if recipe is None else convert(x, _called(path), recipe)
        return x

    made = tree_map_with_path(converted, tree)
    for i, (rule, _) in enumerate(rules):
        if i not in used:
            raise ImplicitArrayError(
                f"quantize: the rule {rule!r} applies to no array of the tree.",
                "It is looked for in keys joined by '/', as layers/0/w, and rules before it go "
                "first.",
            )
    return made


def _compiled(rule: str) -> re.Pattern[str]:
    try:
        return re.compile(rule)
    except re.error as error:
        raise ImplicitArrayError(
            f"quantize: the rule {rule!r} is no regular expression: {error}.",
            "Escape what has a meaning there, by re.escape.",
        ) from error


def _is_dense(x: Any) -> bool:
    return not is_implicit(x) and is_array(x)


def _called(path: Path) -> str:
    return f"the array at {written(path)!r}"


def chooser(where: Where) -> Callable[[Path, Any], bool]:
    match where:
        case None:
            return lambda path, x: len(lengths_of(x)) > 1 and is_inexact(dtype_name(dtype_of(x)))
        case str():
            return lambda path, x: fnmatchcase(written(path), where)
        case re.Pattern():
            return lambda path, x: where.search(written(path)) is not None
    return where
