"""``graphc show``, ``graphc run`` and ``graphc verify``: functions in files."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import graphc
from graphc.errors import ArgumentError, GraphcError
from graphc.ir import flatten, paths


def show(path: str, *, text: bool) -> int:
    """Print the inputs, results and arrays of a function in a file, and its graph as text."""
    try:
        model = graphc.load(path, verify=False)
    except (GraphcError, OSError) as error:
        return _report_error(error)
    graph_text = graphc.serialize(model.graph, lines=not text).text
    lines = [] if text else [*describe(model), ""]
    sys.stdout.write("\n".join([*lines, graph_text]))
    return 0


def run(path: str, texts: Sequence[str], mode: str | None, output: str | None) -> int:
    """Call a function in a file, and print the results or save them to a NumPy file."""
    try:
        model = graphc.load(path, mode)
        arguments = dict(argument(text) for text in texts)
        results = model.function(returns="numpy")(**arguments)
    except (GraphcError, OSError) as error:
        return _report_error(error)
    named = dict(zip(paths(results, "output"), flatten(results), strict=True))
    if output is not None:
        np.savez(output, **named)
        return 0
    for name, y in named.items():
        sys.stdout.write(f"{name} = {np.array2string(np.asarray(y), separator=', ')}\n")
    return 0


def verify(path: str, texts: Sequence[str], modes: Sequence[str] | None) -> int:
    """Print how results of a function in a file differ from backend to backend."""
    try:
        examples = [dict(argument(text) for text in texts)] if texts else None
        report = graphc.load(path).verify(examples, modes)
    except (GraphcError, OSError) as error:
        return _report_error(error)
    sys.stdout.write(f"{report}\n")
    return 0 if report else 1


def describe(model: Any) -> list[str]:
    """Return the description of a loaded function as lines."""
    manifest = model.manifest
    updated = {*manifest["updates"]}
    arrays = [
        (name, f"{_type(entry)}{'   updated by each call' if name in updated else ''}")
        for name, entry in manifest["arrays"].items()
    ]
    names = [path for path in paths(model.outputs, "output") if manifest["results"]]
    sections = {
        "inputs": [(x["name"] or "unnamed", _type(x)) for x in manifest["inputs"]],
        "results": [*zip(names, map(_type, manifest["results"]), strict=True)],
        "arrays": arrays,
    }
    licence = f", licence {manifest['licence']}" if manifest["licence"] else ""
    if manifest.get("examples"):
        sections["calls"] = [("recorded", str(manifest["examples"]))]
    title = f"{manifest['name'] or 'a function'}, by graphc {manifest['graphc']}{licence}"
    lines = [title]
    for section, rows in sections.items():
        width = max((len(name) for name, _ in rows), default=0)
        lines += [section, *[f"  {name:{width}}  {shown}" for name, shown in rows]] if rows else []
    return lines


def argument(text: str) -> tuple[str, Any]:
    """Return the name and value of an argument, ``x=input.npy`` or ``x=[1.0, 2.0]``.

    Raises:
        ArgumentError: If the text has another form.

    Example:
        >>> argument("x=[1.0, 2.0]")
        ('x', [1.0, 2.0])
    """
    name, sign, value = text.partition("=")
    form = "Write x=input.npy, or a number or list, x=[1.0,2.0]."
    if not sign:
        raise ArgumentError(f"{text!r} gives no argument a value.", form)
    try:
        if Path(value).suffix == ".npy":
            return name, np.load(value, allow_pickle=False)
        return name, json.loads(value)
    except ValueError as error:
        raise ArgumentError(f"{text!r}: {error}.", form) from error


def _type(entry: Mapping[str, Any]) -> str:
    lengths = ", ".join("?" if n is None else str(n) for n in entry["shape"])
    return f"{entry['dtype']}[{lengths}]"


def _report_error(error: Exception) -> int:
    problem = error.problem if isinstance(error, GraphcError) else str(error)
    remedy = f"\n{error.remedy}" if isinstance(error, GraphcError) and error.remedy else ""
    sys.stderr.write(f"graphc: {problem}{remedy}\n")
    return 1
