"""Compiled functions as pure functions of the backend's library: all state is passed and returned.

The library may differentiate, batch and compile them. Derivatives and batches are graphc's own:
each is the function of another graph, derived from the first one on demand, and has derivatives and
batches in turn.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from graphc.compile.arguments import In, converted, goes_into, shown
from graphc.compile.cache import CompiledProgram, compiled
from graphc.compile.guard import without_checks
from graphc.compile.mode import Mode
from graphc.compile.pipeline import Signature
from graphc.compile.placement import is_divided
from graphc.compile.shared import Shared, sharding_of
from graphc.config import config
from graphc.errors import ArgumentError, DTypeError
from graphc.grad.forward import push
from graphc.grad.reverse import cotangents, typed_like
from graphc.ir import Constant, Graph, Node, TensorType, gathered, rebuild, replaced
from graphc.link import Executable
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
        self._fixed: OrderedDict[Any, PureProgram] = OrderedDict()
        self._linear: tuple[PureProgram, bool, tuple[int, ...], tuple[int, ...]] | None = None

    @cached_property
    def _compiled(self) -> tuple[CompiledProgram, list[Any]]:
        """The compiled program, and the arrays that it captures."""
        graph = Graph(self.inputs, gathered(list(self.outputs), self.inputs))
        signature = Signature(graph, len(self.inputs), (), False, self.mode)
        leaves = signature.leaves()
        program, _ = compiled(signature, leaves)
        types = program.spec.arguments[len(self.inputs) :]
        arrays: list[Any] = [leaves[i].op.array for i in program.slots]  # type: ignore[attr-defined]
        backend, options = self.mode.backend, self.mode.options
        held = [backend.array(x, t, options) for x, t in zip(arrays, types, strict=True)]
        return program, held

    @property
    def static(self) -> tuple[int, ...]:
        """The arguments whose values decide shapes, by position."""
        return self._compiled[0].spec.static

    def run(self, *arrays: Any) -> Sequence[Any]:
        """Return the results for arrays of the arguments' dtypes; the library may trace it."""
        program, held = self._compiled
        return program.traceable(*arrays, *held)  # type: ignore[no-any-return]

    @cached_property
    def bound(self) -> Executable:
        """The function that the library differentiates and batches by the rules below."""
        return self.mode.backend.transformable(self)

    # Rules.

    def _kept(self, key: Any, make: Callable[[], PureProgram]) -> PureProgram:
        # Libraries cache what they traced by the object's identity.
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    def pushed(self, moved: tuple[int, ...], wanted: tuple[int, ...]) -> PureProgram:
        """The tangents of some results, given the arguments and tangents of some of them."""
        return self._kept(("pushed", moved, wanted), lambda: self._pushed(moved, wanted))

    def _pushed(self, moved: tuple[int, ...], wanted: tuple[int, ...]) -> PureProgram:
        tangents = {i: typed_like(self.inputs[i], "tangent") for i in moved}
        found = push(
            [self.outputs[i] for i in wanted], {self.inputs[i]: t for i, t in tangents.items()}
        )
        outputs = [
            zeros_like(self.outputs[i]) if t is None else t
            for i, t in zip(wanted, found, strict=True)
        ]
        made = PureProgram([*self.inputs, *tangents.values()], outputs, self.mode)
        made._linear = self, True, moved, wanted
        return made

    def pulled(self, wanted: tuple[int, ...], given: tuple[int, ...]) -> PureProgram:
        """The gradients with respect to some arguments, given the arguments and cotangents."""
        return self._kept(("pulled", wanted, given), lambda: self._pulled(wanted, given))

    def _pulled(self, wanted: tuple[int, ...], given: tuple[int, ...]) -> PureProgram:
        parts = {i: typed_like(self.outputs[i], "cotangent") for i in given}
        known: dict[Node, Tensor] = {}
        for i, g in parts.items():
            y = self.outputs[i]
            known[y] = known[y] + g if y in known else g
        xs = [self.inputs[i] for i in wanted]
        found = cotangents(known, xs)
        outputs = [zeros_like(x) if g is None else g for x, g in zip(xs, found, strict=True)]
        made = PureProgram([*self.inputs, *parts.values()], outputs, self.mode)
        made._linear = self, False, wanted, given
        return made

    def transposed(
        self, wanted: tuple[int, ...], given: tuple[int, ...]
    ) -> tuple[PureProgram, range]:
        """The transpose of a program that is linear in the wanted arguments, for given results.

        Returns:
            The transpose, and the arguments that it takes before the cotangents.
        """
        count = len(self.inputs)
        if self._linear is not None and min(wanted) >= len(self._linear[0].inputs):
            base, forwards, ins, outs = self._linear
            first = len(base.inputs)
            if forwards:
                chosen = tuple(ins[i - first] for i in wanted), tuple(outs[i] for i in given)
                return base.pulled(*chosen), range(first)
            chosen = tuple(ins[i] for i in given), tuple(outs[i - first] for i in wanted)
            return base.pushed(*chosen), range(first)
        return self.pulled(wanted, given), range(count)

    def batched(self, flags: tuple[bool, ...]) -> PureProgram:
        """The program over a batch, the leading axis of the flagged arguments and all results."""
        return self._kept(("batched", flags), lambda: self._batched(flags))

    def _batched(self, flags: tuple[bool, ...]) -> PureProgram:
        rows = {
            x: TensorType(x.type.dtype, (None, *x.type.shape))(x.name)
            for x, flag in zip(self.inputs, flags, strict=True)
            if flag
        }
        outputs = batched(self.outputs, rows)
        return PureProgram([rows.get(x, x) for x in self.inputs], outputs, self.mode)

    def fixed(self, values: Mapping[int, np.ndarray[Any, Any]]) -> PureProgram:
        """The program with fixed values of some arguments, which it no longer takes."""
        key = tuple((i, x.shape, x.tobytes()) for i, x in values.items())
        found = self._fixed.get(key)
        if found is None:
            swaps: dict[Node, Node] = {
                self.inputs[i]: Node.make(Constant.of(x)) for i, x in values.items()
            }
            inputs = [x for x in self.inputs if x not in swaps]
            found = self._fixed[key] = PureProgram(inputs, replaced(self.outputs, swaps), self.mode)
            if len(self._fixed) > config.specializations:
                self._fixed.popitem(last=False)
        self._fixed.move_to_end(key)
        return found


class Pure:
    """A compiled function as a pure function of the backend's library: ``f.pure``.

    It takes the arguments of ``f``. Where ``f`` has shared variables, their values come first, as a
    dict; where it updates them, the result is a pair of the outputs and the dict of new values. It
    has no side effects, and reads nothing but its arguments.

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
        graph = without_checks(signature.graph)
        self._shared: list[Shared] = [*graph.inputs[signature.arguments :]]  # type: ignore[list-item]
        self.names = _names(self._shared)
        self._updated = [self.names[i - signature.arguments] for i in signature.updated]
        leaves = [x for i, x in enumerate(signature.leaves()) if i not in baked]
        swaps = {
            x: Node.input(x.type, x.name, getattr(x.op, "sharding", None))
            for x in (*self._shared, *leaves)
        }
        inputs: list[Any] = [swaps.get(x, x) for x in (*graph.inputs, *leaves)]
        mode = signature.mode.unchecked()
        self._program = PureProgram(inputs, replaced(graph.outputs, swaps), mode)
        self._parameters = [*parameters, *[In(x) for x in inputs[signature.arguments :]]]
        self._backend, self._options = mode.backend, mode.options
        self._leaves = leaves
        self._has_rules = True

    @cached_property
    def plain(self) -> Pure:
        """The same function, of which the library derives and batches each operation itself.

        ``mx.export_function`` saves it; it does not save functions with derivatives of their own.

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
        found = copy(self)
        found._title += ".pure"
        found._has_rules = False
        return found

    @cached_property
    def _held(self) -> list[Any]:
        """The arrays that the graph captured."""
        array, options = self._backend.array, self._options
        return [array(x.op.array, x.type, options) for x in self._leaves]  # type: ignore[attr-defined]

    def state(self) -> dict[str, Any]:
        """The present values of the shared variables, by name, as the library's arrays."""
        return {name: self._present(x) for name, x in zip(self.names, self._shared, strict=True)}

    def _present(self, x: Shared) -> Any:
        backend, options = self._backend, self._options
        with x.op.store.lock:
            value = x.get_value(borrow=is_divided(x.op.store.value))
        found = backend.free_array(value, x.type, options)
        home = backend.home(sharding_of(x), options)
        return found if home is None else home.put(found, x.op.name)

    def __repr__(self) -> str:
        return f"{self._title}.{'pure' if self._has_rules else 'plain'}"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """The outputs, or a pair of them and the new state.

        Raises:
            ArgumentError: A wrong number, name, kind or rank of an argument, or another state.
            DTypeError: An argument's dtype does not go into its input's.
            DynamicShapeError: A shape depends on a value that is not known while it is traced.
        """
        state: Mapping[str, Any] = {}
        if self.names:
            state, args = self._state_of(args), args[1:]
        given = [*self._arranged(args, kwargs), *[state[name] for name in self.names]]
        arrays = [self._argument(i, x) for i, x in enumerate(given)]
        found = self._found([*self._placed(arrays), *self._held])
        outputs = self._rebuilt(found[: self._results])
        if not self._updated:
            return outputs
        new = zip(self._updated, found[self._results :], strict=True)
        return outputs, {**state, **dict(new)}

    def _placed(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """The arguments over the mode's mesh, of which the library has to know."""
        homes = [
            self._backend.home(p.variable.op.sharding, self._options) for p in self._parameters
        ]
        if None in homes:
            return arrays
        static = self._program.static
        return [
            x if i in static else home.told(x, f"The argument {self._parameters[i].label or i}")
            for i, (x, home) in enumerate(zip(arrays, homes, strict=False))
            if home is not None
        ]

    def _found(self, arrays: Sequence[Any]) -> Sequence[Any]:
        program = self._program
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
            given = sorted(state, key=str) if isinstance(state, Mapping) else "nothing"
            raise ArgumentError(
                f"{self!r} takes the values of {', '.join(self.names)} first, got {given}.",
                f"Pass a dict of them, such as {self!r}.state().",
            )
        return state

    def _argument(self, place: int, given: Any) -> Any:
        """Return an array of the library as it is, if its dtype fits; convert any other value."""
        backend, parameter = self._backend, self._parameters[place]
        target: TensorType = parameter.variable.type
        if not isinstance(given, backend.kinds[1:]):
            return converted(given, parameter, target, place, backend)
        dtype = backend.dtype(given)
        weak = getattr(given, "weak_type", False)
        if not weak and not goes_into(np.empty(0, dtype), target, weak=False):
            raise DTypeError(
                f"The argument {parameter.label or place!r}: expected {target!r}, got "
                f"{shown(given)}.",
                f"Cast it: value.astype({target.dtype!r}).",
            )
        return given

    def _rebuilt(self, found: Sequence[Any]) -> Any:
        match self._outputs:
            case None:
                return None
            case Tensor():
                return found[0]
            case outputs:
                return rebuild(outputs, list(found))


def _names(shared: Sequence[Shared]) -> list[str]:
    """A unique name for each shared variable, its own if that is unique."""
    own = [x.op.given_name for x in shared]
    return [
        name if name is not None and own.count(name) == 1 else f"{name or 'shared'}{i}"
        for i, name in enumerate(own)
    ]
