"""Calls that are recorded in a file, and what each backend and program gives for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from graphc.compile.function import function
from graphc.compile.mode import Mode, get_mode
from graphc.compile.verify import agree, ambiguous_nodes, distance, sensitivity
from graphc.errors import ArgumentError, FormatError, GraphcError, VerificationError
from graphc.export import runtime, safetensors
from graphc.export.runtime import Array, arrays_in, as_complex
from graphc.ir import Graph, Node, flatten, paths, preview, replaced
from graphc.link import load as load_backend, names
from graphc.loop.evaluate import evaluate

EXAMPLES = "examples.safetensors"

Call = tuple[Sequence[Array], Sequence[Array]]
"""The values of a graph's inputs, and of its outputs."""

Run = Callable[[Sequence[Array]], Sequence[Any]]


def results_of(graph: Graph, values: Sequence[Array]) -> list[Array]:
    """Return a graph's outputs by NumPy."""
    held = [x.op.array for x in graph.leaves]  # type: ignore[attr-defined]
    whole = Graph([*graph.inputs, *graph.leaves], graph.outputs)
    with np.errstate(all="ignore"):
        found = evaluate(whole, *values, *held)
    return [np.asarray(y, t.type.numpy_dtype) for y, t in zip(found, graph.outputs, strict=True)]


def recorded(graph: Graph, calls: Sequence[Sequence[Array]], count: int) -> list[Any]:
    """Return the part of a file that holds calls, with their results by NumPy.

    Args:
        graph: The function's.
        calls: For each the values of the arguments and then of the shared variables.
        count: How many arguments there are.
    """
    arrays: dict[str, Array] = {}
    for i, values in enumerate(calls):
        arrays |= {f"{i}.argument.{k}": np.asarray(x) for k, x in enumerate(values[:count])}
        found = results_of(graph, values)
        arrays |= {f"{i}.result.{k}": y for k, y in enumerate(found)}
    return safetensors.chunks(arrays)


def _read(data: Any, graph: Graph, state: Sequence[Array], manifest: Mapping[str, Any]) -> Any:
    """The recorded calls of a file."""
    arrays = arrays_in(data)

    def group(i: int, kind: str, nodes: Sequence[Node]) -> list[Array]:
        pairs = enumerate(nodes)
        return [as_complex(arrays[f"{i}.{kind}.{k}"], x.type.dtype) for k, x in pairs]

    arguments = graph.inputs[: len(graph.inputs) - len(state)]
    return [
        ([*group(i, "argument", arguments), *state], group(i, "result", graph.outputs))
        for i in range(manifest["examples"])
    ]


@dataclass(frozen=True)
class Outcome:
    """What a backend or program gave.

    Attributes:
        name: Its name, such as ``"JAX"`` or ``"program for JAX"``.
        agrees: Whether its results are the expected ones; None where it did not run.
        about: The largest difference, the first wrong result, or why it did not run.
    """

    name: str
    agrees: bool | None
    about: str

    def __str__(self) -> str:
        verdict = {True: "agrees", False: "differs", None: "not run"}[self.agrees]
        return f"  {self.name:<16} {verdict:<8} {self.about}"


@dataclass(frozen=True)
class ModelVerification:
    """Results of a function in a file, compared on each backend; true where all that ran agree.

    Attributes:
        title: The file, and how many calls were compared.
        outcomes: One for each backend and each program.
    """

    title: str
    outcomes: Sequence[Outcome]

    def __bool__(self) -> bool:
        verdicts = {x.agrees for x in self.outcomes}
        return True in verdicts and False not in verdicts

    def __str__(self) -> str:
        return "\n".join([self.title, *map(str, self.outcomes)])

    __repr__ = __str__

    def raise_if_different(self) -> None:
        """Raise where results differ.

        Raises:
            VerificationError: Shows all outcomes.
        """
        if not self:
            raise VerificationError(str(self))


def verified(
    model: Any,
    path: str | os.PathLike[str],
    examples: Sequence[Any] | None,
    modes: Sequence[str | Mode] | None,
) -> ModelVerification:
    """Run calls on backends and by the programs of a file; ``Loaded.verify`` says how.

    Args:
        model: The function as it is in the file.
        path: The file.
        examples: Arguments of calls; None for the recorded ones.
        modes: What runs them; all backends by default.
    """
    manifest, _, parts = runtime.opened(path)
    graph, count = model.graph, len(model.inputs)
    state = [x.get_value() for x in graph.inputs[count:]]
    calls: list[Call]
    if examples is not None:
        given = [arguments_of(model.function("NUMPY"), x) for x in examples]
        calls = [(values, results_of(graph, values)) for values in given]
    elif EXAMPLES in parts:
        try:
            calls = _read(parts[EXAMPLES], graph, state, manifest)
        except (LookupError, TypeError, ValueError) as error:
            raise FormatError(
                f"{path}: its recorded calls are damaged: {error}.", "Write it again with f.export."
            ) from error
    else:
        raise ArgumentError(
            f"{Path(path).name} has no recorded calls to verify.",
            "Give arguments, as for a call; or record some: f.export(..., examples=[{...}]).",
        )
    check = _Check(graph, _labels(model, manifest), calls)
    outcomes = [check.outcome(_name(x), partial(_by_mode, graph, x)) for x in modes or names()]
    outcomes += [
        check.outcome(f"program for {name}", partial(_by_program, path, name, field))
        for name, field in runtime.FIELDS.items()
        if field in manifest
    ]
    source = "recorded" if examples is None else "given"
    plural = "" if len(calls) == 1 else "s"
    return ModelVerification(f"{Path(path).name}: {len(calls)} {source} call{plural}", outcomes)


def arguments_of(f: Any, example: Any) -> list[Array]:
    """Return the values of a function's arguments and shared variables in a call.

    Args:
        f: The function.
        example: A dict of arguments by name, or a list of them.
    """
    args, kwargs = ((), example) if isinstance(example, Mapping) else (example, {})
    return f._values_in_call(args, kwargs)  # type: ignore[no-any-return]


def _name(mode: str | Mode) -> str:
    return mode if isinstance(mode, str) else repr(mode)


def _labels(model: Any, manifest: Mapping[str, Any]) -> list[str]:
    results = paths(model.outputs, "output") if flatten(model.outputs) else []
    return [*results, *(f"{name} after the call" for name in manifest["updates"])]


def _by_mode(graph: Graph, mode: str | Mode) -> Run:
    """A graph as a function that takes and returns its state."""
    load_backend(get_mode(mode).backend.name)
    inputs = [x.type() for x in graph.inputs]
    outputs = replaced(graph.outputs, dict(zip(graph.inputs, inputs, strict=True)))
    made = function(inputs, list(outputs), mode, on_unused_input="ignore", returns="numpy")
    return lambda values: made(*values)


def _by_program(path: str | os.PathLike[str], name: str, field: str) -> Run:
    """A program of a file, which takes the state by name."""
    model = runtime.load(path, name)
    held = [model.arrays[x] for x in model.manifest[field]["arrays"]]
    count = len(model.manifest["inputs"])
    return lambda values: model.program(*values[:count], *held)


class _Check:
    """Compares results with those of calls."""

    def __init__(self, graph: Graph, labels: Sequence[str], calls: Sequence[Call]) -> None:
        self.graph = graph
        self.labels = labels
        self.calls = calls
        self.ambiguous = ambiguous_nodes(graph)

    def outcome(self, name: str, make: Callable[[], Run]) -> Outcome:
        """What is made gave for all calls."""
        largest = 0.0
        try:
            run = make()
            for i, (values, expected) in enumerate(self.calls):
                found = [np.asarray(y) for y in run(values)]
                wrong = self.first_wrong(values, found, expected)
                if wrong is not None:
                    return Outcome(name, False, f"call {i}, {wrong}")
                largest = max([largest, *map(_apart, found, expected)])
        except (GraphcError, ValueError) as error:
            problem = error.problem if isinstance(error, GraphcError) else str(error)
            return Outcome(name, None, problem)
        left = [self.labels[k] for k, y in enumerate(self.graph.outputs) if y in self.ambiguous]
        aside = f"; not unique, and left out: {', '.join(left)}" if left else ""
        return Outcome(name, True, f"largest difference {largest:.2g}{aside}")

    def first_wrong(
        self, values: Sequence[Array], found: Sequence[Array], expected: Sequence[Array]
    ) -> str | None:
        """The first result that differs by more than rounding, and both values."""
        for k, (y, wanted) in enumerate(zip(self.graph.outputs, expected, strict=True)):

            def change(k: int = k) -> Array:
                def result(xs: Sequence[Array]) -> Array:
                    return results_of(self.graph, xs)[k]

                return sensitivity(result, values, result(values))

            if y not in self.ambiguous and not agree(y.type.dtype, found[k], wanted, change):
                return f"{self.labels[k]}: {preview(found[k])}, expected {preview(wanted)}"
        return None


def _apart(found: Array, expected: Array) -> float:
    """The largest finite difference."""
    if found.shape != expected.shape or not expected.size:
        return 0.0
    error = distance(found, expected)
    return float(np.max(error, initial=0.0, where=np.isfinite(error)))
