"""Compiled functions as pure functions of the backend's library: all state is passed and returned.

The library may differentiate, batch and compile them. Derivatives and batches are graphc's own:
each is the function of another graph, derived from the first one on demand, and has derivatives and
batches in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property, partial
from typing import Any

import numpy as np

from graphc.compile.arguments import In, convert, goes_into, shown
from graphc.compile.cache import CompiledProgram, get_program
from graphc.compile.guard import without_checks
from graphc.compile.mode import Mode
from graphc.compile.pipeline import Signature
from graphc.compile.placement import is_sharded
from graphc.compile.shared import Shared, sharding_of
from graphc.errors import ArgumentError, DTypeError
from graphc.grad.forward import push
from graphc.grad.reverse import cotangents, typed_like
from graphc.ir import Constant, Graph, Node, TensorType, rebuild, replace_nodes, to_gathered_form
from graphc.ir.law import named_checks
from graphc.link import Executable
from graphc.link.checks import admit, compare_lengths, unequal_arguments
from graphc.link.compile_context import ExecutableCache
from graphc.loop.subgraph import inline_subgraphs
from graphc.tensor.arrays.create import zeros_like
from graphc.tensor.arrays.vectorize import batched
from graphc.tensor.core.tensor import Tensor


class PureProgram:
    """A graph as a function of arrays that a backend's library can transform.

    Attributes:
        arguments: The types of its arguments.
        results: The types of its results.
    """

    arguments: tuple[TensorType, ...]
    results: tuple[TensorType, ...]

    def __init__(self, inputs: Sequence[Any], outputs: Sequence[Any], mode: Mode) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.mode = mode
        self.arguments = tuple(x.type for x in self.inputs)
        self.results = tuple(y.type for y in self.outputs)
        self._derived: dict[Any, PureProgram] = {}
        self._fixed = ExecutableCache[PureProgram]()
        self._linear: tuple[PureProgram, bool, tuple[int, ...], tuple[int, ...]] | None = None

    @cached_property
    def _compiled(self) -> tuple[CompiledProgram, list[Any]]:
        """The compiled program, and the arrays that it captures."""
        outputs = inline_subgraphs(self.outputs, self.inputs)
        graph = Graph(self.inputs, to_gathered_form(outputs, self.inputs))
        signature = Signature(graph, len(self.inputs), (), False, self.mode)
        leaves = signature.leaves()
        program, _ = get_program(signature, leaves)
        types = program.spec.arguments[len(self.inputs) :]
        arrays: list[Any] = [leaves[i].op.array for i in program.slots]  # type: ignore[attr-defined]
        backend, options = self.mode.backend, self.mode.options
        captured = [backend.array(x, t, options) for x, t in zip(arrays, types, strict=True)]
        return program, captured

    @property
    def static(self) -> tuple[int, ...]:
        """The arguments whose values decide shapes, by position."""
        return self._compiled[0].spec.static

    def run(self, *arrays: Any) -> Sequence[Any]:
        """Return the results for arrays of the arguments' dtypes; the library may trace it."""
        program, captured = self._compiled
        return program.traceable(*arrays, *captured)  # type: ignore[no-any-return]

    @cached_property
    def bound(self) -> Executable:
        """The function that the library differentiates and batches by the rules below."""
        return self.mode.backend.transformable(self)

    # Rules.

    def _derive(self, key: Any, make: Callable[[], PureProgram]) -> PureProgram:
        # Libraries cache traces by the object's identity.
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    def jvp(self, moved: tuple[int, ...], wanted: tuple[int, ...]) -> PureProgram:
        """Return the program of tangents of some results, given arguments and their tangents."""
        return self._derive(("pushed", moved, wanted), lambda: self._tangents(moved, wanted))

    def _tangents(self, moved: tuple[int, ...], wanted: tuple[int, ...]) -> PureProgram:
        tangents = {i: typed_like(self.inputs[i], "tangent") for i in moved}
        pushed = push(
            [self.outputs[i] for i in wanted], {self.inputs[i]: t for i, t in tangents.items()}
        )
        outputs = [
            zeros_like(self.outputs[i]) if t is None else t
            for i, t in zip(wanted, pushed, strict=True)
        ]
        program = PureProgram([*self.inputs, *tangents.values()], outputs, self.mode)
        program._linear = self, True, moved, wanted
        return program

    def vjp(self, wanted: tuple[int, ...], given: tuple[int, ...]) -> PureProgram:
        """Return the program of gradients for some arguments, given arguments and cotangents."""
        return self._derive(("pulled", wanted, given), lambda: self._gradients(wanted, given))

    def _gradients(self, wanted: tuple[int, ...], given: tuple[int, ...]) -> PureProgram:
        formals = {i: typed_like(self.outputs[i], "cotangent") for i in given}
        by_output: dict[Node, Tensor] = {}
        for i, g in formals.items():
            y = self.outputs[i]
            by_output[y] = by_output[y] + g if y in by_output else g
        xs = [self.inputs[i] for i in wanted]
        gradients = cotangents(by_output, xs)
        outputs = [zeros_like(x) if g is None else g for x, g in zip(xs, gradients, strict=True)]
        program = PureProgram([*self.inputs, *formals.values()], outputs, self.mode)
        program._linear = self, False, wanted, given
        return program

    def transpose(
        self, wanted: tuple[int, ...], given: tuple[int, ...]
    ) -> tuple[PureProgram, range]:
        """Return the transpose of a program that is linear in the wanted arguments.

        Returns:
            The transpose, and the arguments that it takes before the cotangents.
        """
        count = len(self.inputs)
        if self._linear is not None and min(wanted) >= len(self._linear[0].inputs):
            base, forwards, ins, outs = self._linear
            first = len(base.inputs)
            if forwards:
                chosen = tuple(ins[i - first] for i in wanted), tuple(outs[i] for i in given)
                return base.vjp(*chosen), range(first)
            chosen = tuple(ins[i] for i in given), tuple(outs[i - first] for i in wanted)
            return base.jvp(*chosen), range(first)
        return self.vjp(wanted, given), range(count)

    def batch(self, flags: tuple[bool, ...]) -> PureProgram:
        """Return the program over a batch, the leading axis of flagged arguments and results."""
        return self._derive(("batched", flags), lambda: self._batch(flags))

    def _batch(self, flags: tuple[bool, ...]) -> PureProgram:
        rows = {
            x: TensorType(x.type.dtype, (None, *x.type.shape))(x.name)
            for x, flag in zip(self.inputs, flags, strict=True)
            if flag
        }
        outputs = batched(self.outputs, rows)
        return PureProgram([rows.get(x, x) for x in self.inputs], outputs, self.mode)

    def fixed(self, values: Mapping[int, np.ndarray[Any, Any]]) -> PureProgram:
        """Return the program with fixed values of some arguments, which are arguments no more."""
        key = tuple((i, x.shape, x.tobytes()) for i, x in values.items())

        def make() -> PureProgram:
            swaps: dict[Node, Node] = {
                self.inputs[i]: Node.make(Constant.of(x)) for i, x in values.items()
            }
            inputs = [x for x in self.inputs if x not in swaps]
            return PureProgram(inputs, replace_nodes(self.outputs, swaps), self.mode)

        return self._fixed.get_or_add(key, make)


class Pure:
    """A compiled function as a pure function of the backend's library: ``f.pure``.

    The arguments are the same as for ``f``. If ``f`` has shared variables, a dict of their values
    comes first; if ``f`` updates them, the result is a pair of the outputs and the dict of new
    values. A call has no side effects, and reads nothing but its arguments.

    Attributes:
        names: The shared variables' names in that dict.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x, w = gt.vector("x"), graphc.shared([1.0, 2.0], name="w")
        >>> y = (w * x).sum()
        >>> step = graphc.function([x], y, updates={w: w + x}, mode="JAX").pure
        >>> y, state = step(step.state(), [3.0, 4.0])
        >>> print(y, state["w"], w.get_value())
        11.0 [4. 6.] [1. 2.]
    """

    def __init__(
        self,
        title: str,
        signature: Signature,
        baked: Sequence[int],
        *,
        outputs: Any,
        arranged: Callable[..., Sequence[Any]],
        parameters: Sequence[In],
    ) -> None:
        self._title = title
        self._outputs = outputs
        self._arranged = arranged
        self._results = signature.results
        graph = without_checks(Graph(signature.graph.inputs, signature.ends))
        self._shared: list[Shared] = [*graph.inputs[signature.arguments :]]  # type: ignore[list-item]
        self.names = _names(self._shared)
        self._updated = [self.names[i - signature.arguments] for i in signature.updated]
        leaves = [x for i, x in enumerate(signature.leaves()) if i not in baked]
        swaps = {
            x: Node.input(x.type, x.name, getattr(x.op, "sharding", None))
            for x in (*self._shared, *leaves)
        }
        inputs: list[Any] = [swaps.get(x, x) for x in (*graph.inputs, *leaves)]
        mode = signature.mode.without_checks()
        self._program = PureProgram(inputs, replace_nodes(graph.outputs, swaps), mode)
        self._named_checks = named_checks(inputs)
        self._parameters = [*parameters, *[In(x) for x in inputs[signature.arguments :]]]
        self._backend, self._options = mode.backend, mode.options
        self._leaves = leaves
        self._has_rules = True

    @cached_property
    def plain(self) -> Pure:
        """The same function, which the library differentiates and batches operation by operation.

        ``mx.export_function`` saves it; it does not save functions with custom derivatives.

        Example:
            >>> import graphc, graphc.tensor as gt, mlx.core as mx
            >>> v = gt.vector("v", dtype="float32")
            >>> f = graphc.function([v], (v**2).sum(), mode="MLX")
            >>> import pathlib, tempfile
            >>> file = str(pathlib.Path(tempfile.mkdtemp()) / "f.mlxfn")
            >>> mx.export_function(file, f.pure.plain, mx.zeros(2))
            >>> mx.import_function(file)(mx.array([1.0, 2.0]))[0].item()
            5.0
        """
        plain = copy(self)
        plain._title += ".pure"
        plain._has_rules = False
        return plain

    @cached_property
    def _captured_arrays(self) -> list[Any]:
        array, options = self._backend.array, self._options
        return [array(x.op.array, x.type, options) for x in self._leaves]  # type: ignore[attr-defined]

    def state(self) -> dict[str, Any]:
        """Return the present values of the shared variables, by name, as the library's arrays."""
        return {name: self._present(x) for name, x in zip(self.names, self._shared, strict=True)}

    def _present(self, x: Shared) -> Any:
        backend, options = self._backend, self._options
        with x.op.store.lock:
            value = x.get_value(borrow=is_sharded(x.op.store.value))
        array = backend.free_array(value, x.type, options)
        home = backend.home(sharding_of(x), options)
        return array if home is None else home.put(array, x.op.name)

    def __repr__(self) -> str:
        return f"{self._title}.{'pure' if self._has_rules else 'plain'}"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs, or a pair of them and the new state.

        Raises:
            ArgumentError: A wrong number, name, kind or rank of an argument, or another state.
            DTypeError: An argument's dtype does not fit its input's.
            DynamicShapeError: A shape depends on the value of a traced array.
        """
        state: Mapping[str, Any] = {}
        if self.names:
            state, args = self._state_of(args), args[1:]
        values = [*self._arranged(args, kwargs), *[state[name] for name in self.names]]
        arrays = [self._argument(i, x) for i, x in enumerate(values)]
        results = self._run([*self._declare_sharding(arrays), *self._captured_arrays])
        outputs = self._rebuild(results[: self._results])
        if not self._updated:
            return outputs
        new = zip(self._updated, results[self._results :], strict=True)
        return outputs, {**state, **dict(new)}

    def _declare_sharding(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """Put the arguments on the mode's mesh, or declare to the library that they are there."""
        homes = [
            self._backend.home(p.variable.op.sharding, self._options) for p in self._parameters
        ]
        if None in homes:
            return arrays
        static = self._program.static
        return [
            x
            if i in static
            else home.put_or_constrain(x, f"The argument {self._parameters[i].label or i}")
            for i, (x, home) in enumerate(zip(arrays, homes, strict=False))
            if home is not None
        ]

    def _run(self, arrays: Sequence[Any]) -> Sequence[Any]:
        program = self._program
        # Of a batch the library passes an element, so that its program can't compare these lengths.
        for i in {i for a, _, b, _ in self._named_checks for i in (a, b)}:
            admit(i, program.inputs[i], arrays[i])
        error = partial(unequal_arguments, program.inputs)
        compare_lengths(self._named_checks, arrays, self._backend.equal_lengths, error)
        values: dict[int, np.ndarray[Any, Any]] = {}
        for i in program.static:
            # A traced array has no value; the backend raises where it needs one.
            with suppress(TypeError, ValueError):
                values[i] = np.array(self._backend.numpy(arrays[i]))
        if values:
            program = program.fixed(values)
            arrays = [x for i, x in enumerate(arrays) if i not in values]
        run = program.bound if self._has_rules else program.run
        return run(*arrays)

    def _state_of(self, args: Sequence[Any]) -> Mapping[str, Any]:
        state = args[0] if args else None
        if not isinstance(state, Mapping) or set(state) != set(self.names):
            names = sorted(state, key=str) if isinstance(state, Mapping) else "nothing"
            raise ArgumentError(
                f"{self!r} takes the values of {', '.join(self.names)} first, got {names}.",
                f"Pass a dict of them, such as {self!r}.state().",
            )
        return state

    def _argument(self, index: int, value: Any) -> Any:
        """Return the library's array itself if its dtype fits; convert any other value."""
        backend, parameter = self._backend, self._parameters[index]
        target: TensorType = parameter.variable.type
        if not isinstance(value, backend.kinds[1:]):
            return convert(value, parameter, target, index, backend)
        dtype = backend.dtype(value)
        weak = getattr(value, "weak_type", False)
        if not weak and not goes_into(np.empty(0, dtype), target, weak=False):
            raise DTypeError(
                f"The argument {parameter.label or index!r}: expected {target!r}, got "
                f"{shown(value)}.",
                f"Cast it: value.astype({target.dtype!r}).",
            )
        return value

    def _rebuild(self, results: Sequence[Any]) -> Any:
        match self._outputs:
            case None:
                return None
            case Tensor():
                return results[0]
            case outputs:
                return rebuild(outputs, list(results))


def _names(shared: Sequence[Shared]) -> list[str]:
    """Return a unique name for each shared variable, the user's if that is unique."""
    given_names = [x.op.given_name for x in shared]
    return [
        name if name is not None and given_names.count(name) == 1 else f"{name or 'shared'}{i}"
        for i, name in enumerate(given_names)
    ]
