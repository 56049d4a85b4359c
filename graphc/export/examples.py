"""Recorded calls in a file, and their results on each backend and program."""

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
from graphc.export import archive, runtime
from graphc.export.runtime import Array, arrays_in, as_complex
from graphc.ir import Graph, Node, flatten, paths, preview, replace_nodes
from graphc.link import load as load_backend, names
from graphc.loop.evaluate import evaluate

EXAMPLES = "examples.safetensors"

Call = tuple[Sequence[Array], Sequence[Array]]
"""The values of a graph's inputs, and of its outputs."""

Run = Callable[[Sequence[Array]], Sequence[Any]]


def results_of(graph: Graph, values: Sequence[Array]) -> list[Array]:
    """Return a graph's outputs, computed by NumPy."""
    held = [x.op.array for x in graph.leaves]  # type: ignore[attr-defined]
    closed = Graph([*graph.inputs, *graph.leaves], graph.outputs)
    with np.errstate(all="ignore"):
        results = evaluate(closed, *values, *held)
    return [np.asarray(y, t.type.numpy_dtype) for y, t in zip(results, graph.outputs, strict=True)]


def record_calls(graph: Graph, calls: Sequence[Sequence[Array]], count: int) -> list[Any]:
    """Return the part of a file that holds calls, with their results by NumPy.

    Args:
        graph: The function's graph.
        calls: For each call the values of the arguments, then of the shared variables.
        count: The number of arguments.
    """
    arrays: dict[str, Array] = {}
    for i, values in enumerate(calls):
        arrays |= {f"{i}.argument.{k}": np.asarray(x) for k, x in enumerate(values[:count])}
        results = results_of(graph, values)
        arrays |= {f"{i}.result.{k}": y for k, y in enumerate(results)}
    return archive.array_chunks(arrays)


def _recorded_calls(
    data: Any, graph: Graph, state: Sequence[Array], manifest: Mapping[str, Any]
) -> Any:
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
    """The outcome of the calls on one backend or program.

    Attributes:
        name: The name, such as ``"JAX"`` or ``"program for JAX"``.
        agrees: Whether the results are the expected ones; None if there are none.
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
    """Results of a function in a file, compared on each backend; true if all that ran agree.

    Attributes:
        title: The file, and how many calls were compared.
        outcomes: An outcome for each backend and each program.
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
        """Raise an error if results differ.

        Raises:
            VerificationError: If results differ; the message shows all outcomes.
        """
        if not self:
            raise VerificationError(str(self))


def verify_calls(
    model: Any,
    path: str | os.PathLike[str],
    examples: Sequence[Any] | None,
    modes: Sequence[str | Mode] | None,
) -> ModelVerification:
    """Run calls on backends and by the programs of a file, as ``Loaded.verify`` documents.

    Args:
        model: The function with the state in the file.
        path: The file.
        examples: Arguments of calls; None for the recorded ones.
        modes: The modes to run; all backends by default.
    """
    manifest, _, file_parts = runtime.open_file(path)
    graph, count = model.graph, len(model.inputs)
    state = [x.get_value() for x in graph.inputs[count:]]
    calls: list[Call]
    if examples is not None:
        arguments = [arguments_of(model.function("NUMPY"), x) for x in examples]
        calls = [(values, results_of(graph, values)) for values in arguments]
    elif EXAMPLES in file_parts:
        try:
            calls = _recorded_calls(file_parts[EXAMPLES], graph, state, manifest)
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
    """Return a graph as a compiled function of its arguments and state."""
    load_backend(get_mode(mode).backend.name)
    inputs = [x.type() for x in graph.inputs]
    outputs = replace_nodes(graph.outputs, dict(zip(graph.inputs, inputs, strict=True)))
    compiled = function(inputs, list(outputs), mode, on_unused_input="ignore", returns="numpy")
    return lambda values: compiled(*values)


def _by_program(path: str | os.PathLike[str], name: str, field: str) -> Run:
    """Return a program of a file as a function of its arguments, with the state in the file."""
    model = runtime.load(path, name)
    held = [model.arrays[x] for x in model.manifest[field]["arrays"]]
    count = len(model.manifest["inputs"])
    return lambda values: model.program(*values[:count], *held)


class _Check:
    """A comparison of results with the expected ones of calls."""

    def __init__(self, graph: Graph, labels: Sequence[str], calls: Sequence[Call]) -> None:
        self.graph = graph
        self.labels = labels
        self.calls = calls
        self.ambiguous = ambiguous_nodes(graph)

    def outcome(self, name: str, make: Callable[[], Run]) -> Outcome:
        """Run all calls and compare their results."""
        largest = 0.0
        try:
            run = make()
            for i, (values, expected) in enumerate(self.calls):
                results = [np.asarray(y) for y in run(values)]
                wrong = self.first_wrong(values, results, expected)
                if wrong is not None:
                    return Outcome(name, False, f"call {i}, {wrong}")
                largest = max([largest, *map(_largest_finite_difference, results, expected)])
        except (GraphcError, ValueError) as error:
            problem = error.problem if isinstance(error, GraphcError) else str(error)
            return Outcome(name, None, problem)
        ignored = [self.labels[k] for k, y in enumerate(self.graph.outputs) if y in self.ambiguous]
        note = f"; not unique, and left out: {', '.join(ignored)}" if ignored else ""
        return Outcome(name, True, f"largest difference {largest:.2g}{note}")

    def first_wrong(
        self, values: Sequence[Array], results: Sequence[Array], expected: Sequence[Array]
    ) -> str | None:
        """Return the first result that differs by more than rounding, and both values."""
        for k, (y, wanted) in enumerate(zip(self.graph.outputs, expected, strict=True)):

            def change(k: int = k) -> Array:
                def result(xs: Sequence[Array]) -> Array:
                    return results_of(self.graph, xs)[k]

                return sensitivity(result, values, result(values))

            if y not in self.ambiguous and not agree(y.type.dtype, results[k], wanted, change):
                return f"{self.labels[k]}: {preview(results[k])}, expected {preview(wanted)}"
        return None


def _largest_finite_difference(actual: Array, expected: Array) -> float:
    if actual.shape != expected.shape or not expected.size:
        return 0.0
    error = distance(actual, expected)
    return float(np.max(error, initial=0.0, where=np.isfinite(error)))
