"""A compiled function as one of the backend's library: all it reads is passed, all it does given.

The library may differentiate, batch and compile it. Its derivatives and batches are graphc's: each
is the function of another graph, made of the first one when it is asked for, and has derivatives
and batches in turn.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np

from graphc.compile.arguments import In, converted, goes_into, shown
from graphc.compile.cache import compiled
from graphc.compile.guard import without_checks
from graphc.compile.mode import Mode
from graphc.compile.pipeline import Asked
from graphc.compile.records import Compiled
from graphc.compile.shared import Shared
from graphc.config import config
from graphc.errors import ArgumentError, DTypeError
from graphc.grad.forward import push
from graphc.grad.reverse import cotangents, typed_like
from graphc.ir import Constant, Graph, Node, TensorType, gathered, here, rebuild, replaced, where
from graphc.link import Executable
from graphc.tensor.create import zeros_like
from graphc.tensor.tensor import Tensor
from graphc.tensor.vectorize import batched

__all__ = ["Core", "Pure"]


class Core:
    """A graph as a function of arrays that a backend's library can transform.

    Attributes:
        arguments: The types of what it takes.
        results: The types of what it gives.
    """

    arguments: tuple[TensorType, ...]
    results: tuple[TensorType, ...]

    def __init__(self, inputs: Sequence[Any], outputs: Sequence[Any], mode: Mode) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.mode = mode
        self.arguments = tuple(x.type for x in self.inputs)
        self.results = tuple(y.type for y in self.outputs)
        self._derived: dict[Any, Core] = {}
        self._fixed: OrderedDict[Any, Core] = OrderedDict()
        self._linear: tuple[Core, bool, tuple[int, ...], tuple[int, ...]] | None = None

    @cached_property
    def _compiled(self) -> tuple[Compiled, list[Any]]:
        """What runs it, and the arrays whose values are part of it."""
        graph = Graph(self.inputs, gathered(list(self.outputs), self.inputs))
        asked = Asked(graph, len(self.inputs), (), False, self.mode)
        leaves = asked.leaves()
        program, _ = compiled(asked, leaves)
        types = program.outline.arguments[len(self.inputs) :]
        arrays: list[Any] = [leaves[i].op.array for i in program.slots]  # type: ignore[attr-defined]
        backend, options = self.mode.backend, self.mode.options
        held = [backend.array(x, t, options) for x, t in zip(arrays, types, strict=True)]
        return program, held

    @property
    def static(self) -> tuple[int, ...]:
        """The arguments whose values decide shapes."""
        return self._compiled[0].outline.static

    def run(self, *arrays: Any) -> Sequence[Any]:
        """The results for arrays of the arguments' dtypes; the library may trace it."""
        program, held = self._compiled
        return program.traceable(*arrays, *held)  # type: ignore[no-any-return]

    @cached_property
    def bound(self) -> Executable:
        """It, as what the library differentiates and batches by the rules below."""
        return self.mode.backend.transformable(self)

    # Rules.

    def _kept(self, key: Any, make: Callable[[], Core]) -> Core:
        # The same object each time: libraries remember what they traced by it.
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    def pushed(self, moved: tuple[int, ...], wanted: tuple[int, ...]) -> Core:
        """The tangents of wanted results, given the arguments and tangents of some of them."""
        return self._kept(("pushed", moved, wanted), lambda: self._pushed(moved, wanted))

    def _pushed(self, moved: tuple[int, ...], wanted: tuple[int, ...]) -> Core:
        tangents = {i: typed_like(self.inputs[i], "tangent") for i in moved}
        found = push(
            [self.outputs[i] for i in wanted], {self.inputs[i]: t for i, t in tangents.items()}
        )
        outputs = [
            zeros_like(self.outputs[i]) if t is None else t
            for i, t in zip(wanted, found, strict=True)
        ]
        made = Core([*self.inputs, *tangents.values()], outputs, self.mode)
        made._linear = self, True, moved, wanted
        return made

    def pulled(self, wanted: tuple[int, ...], given: tuple[int, ...]) -> Core:
        """The gradients by wanted arguments, given the arguments and cotangents of results."""
        return self._kept(("pulled", wanted, given), lambda: self._pulled(wanted, given))

    def _pulled(self, wanted: tuple[int, ...], given: tuple[int, ...]) -> Core:
        parts = {i: typed_like(self.outputs[i], "cotangent") for i in given}
        known: dict[Node, Tensor] = {}
        for i, g in parts.items():
            y = self.outputs[i]
            known[y] = known[y] + g if y in known else g
        xs = [self.inputs[i] for i in wanted]
        found = cotangents(known, xs)
        outputs = [zeros_like(x) if g is None else g for x, g in zip(xs, found, strict=True)]
        made = Core([*self.inputs, *parts.values()], outputs, self.mode)
        made._linear = self, False, wanted, given
        return made

    def transposed(self, wanted: tuple[int, ...], given: tuple[int, ...]) -> tuple[Core, range]:
        """The transpose of what is linear in the wanted arguments, by the results given.

        Returns:
            It, and which of the arguments it takes before the cotangents.
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

    def batched(self, flags: tuple[bool, ...]) -> Core:
        """All results for a batch, the leading axis of those arguments that are flagged."""
        return self._kept(("batched", flags), lambda: self._batched(flags))

    def _batched(self, flags: tuple[bool, ...]) -> Core:
        rows = {
            x: TensorType(x.type.dtype, (None, *x.type.shape))(x.name)
            for x, flag in zip(self.inputs, flags, strict=True)
            if flag
        }
        outputs = batched(self.outputs, rows)
        return Core([rows.get(x, x) for x in self.inputs], outputs, self.mode)

    def fixed(self, values: Mapping[int, np.ndarray[Any, Any]]) -> Core:
        """The same with these values for some arguments, which it then does not take."""
        key = tuple((i, x.shape, x.tobytes()) for i, x in values.items())
        found = self._fixed.get(key)
        if found is None:
            swaps: dict[Node, Node] = {
                self.inputs[i]: Node.make(Constant.of(x)) for i, x in values.items()
            }
            inputs = [x for x in self.inputs if x not in swaps]
            found = self._fixed[key] = Core(inputs, replaced(self.outputs, swaps), self.mode)
            if len(self._fixed) > config.specializations:
                self._fixed.popitem(last=False)
        self._fixed.move_to_end(key)
        return found


class Pure:
    """A function of the backend's library, which may transform it: ``f.pure``.

    It takes what ``f`` takes. Where ``f`` has shared variables, their values come first, as a dict;
    where it updates them, the result is a pair of the outputs and the dict of new values. It
    changes nothing, and reads nothing but its arguments.

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
        asked: Asked,
        baked: Sequence[int],
        *,
        outputs: Any,
        arranged: Callable[..., Sequence[Any]],
        wanted: Sequence[In],
    ) -> None:
        self._title = title
        self._outputs = outputs
        self._arranged = arranged
        self._results = asked.results
        graph = without_checks(asked.graph)
        self._shared: list[Shared] = [*graph.inputs[asked.arguments :]]  # type: ignore[list-item]
        self.names = _names(self._shared)
        self._updated = [self.names[i - asked.arguments] for i in asked.updated]
        leaves = [x for i, x in enumerate(asked.leaves()) if i not in baked]
        swaps = {x: Node.input(x.type, x.name) for x in (*self._shared, *leaves)}
        inputs: list[Any] = [swaps.get(x, x) for x in (*graph.inputs, *leaves)]
        mode = asked.mode.unchecked()
        self._core = Core(inputs, replaced(graph.outputs, swaps), mode)
        self._wanted = [*wanted, *[In(x) for x in inputs[asked.arguments :]]]
        self._backend, self._options = mode.backend, mode.options
        self._leaves = leaves

    @cached_property
    def _held(self) -> list[Any]:
        """The arrays that the graph captured."""
        array, options = self._backend.array, self._options
        return [array(x.op.array, x.type, options) for x in self._leaves]  # type: ignore[attr-defined]

    def state(self) -> dict[str, Any]:
        """The present values of the shared variables, by name, as the library's arrays."""
        array, options = self._backend.free_array, self._options
        return {
            name: array(x.get_value(), x.type, options)
            for name, x in zip(self.names, self._shared, strict=True)
        }

    def __repr__(self) -> str:
        return f"{self._title}.pure"

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
        found = self._found([*arrays, *self._held])
        outputs = self._rebuilt(found[: self._results])
        if not self._updated:
            return outputs
        new = zip(self._updated, found[self._results :], strict=True)
        return outputs, {**state, **dict(new)}

    def _found(self, arrays: Sequence[Any]) -> Sequence[Any]:
        core = self._core
        values: dict[int, np.ndarray[Any, Any]] = {}
        for i in core.static:
            # What is traced has no value; the backend says so where it needs it.
            with suppress(TypeError, ValueError):
                values[i] = np.array(self._backend.numpy(arrays[i]))
        if values:
            core = core.fixed(values)
            arrays = [x for i, x in enumerate(arrays) if i not in values]
        return core.bound(*arrays)  # type: ignore[no-any-return]

    def _state_of(self, args: Sequence[Any]) -> Mapping[str, Any]:
        state = args[0] if args else None
        if not isinstance(state, Mapping) or set(state) != set(self.names):
            given = sorted(state, key=str) if isinstance(state, Mapping) else "nothing"
            raise ArgumentError(
                f"{self!r} takes the values of {', '.join(self.names)} first; {given} was given.",
                f"Pass a dict of them, such as {self!r}.state().",
                where(here()),
            )
        return state

    def _argument(self, place: int, given: Any) -> Any:
        """One of the library's arrays as it is, where its dtype goes; anything else as NumPy's."""
        backend, wanted = self._backend, self._wanted[place]
        target: TensorType = wanted.variable.type
        if not isinstance(given, backend.kinds[1:]):
            return converted(given, wanted, target, place, backend)
        dtype = backend.dtype(given)
        weak = getattr(given, "weak_type", False)
        if not weak and not goes_into(np.empty(0, dtype), target, weak=False):
            raise DTypeError(
                f"The argument {wanted.label or place!r} is wanted as {target!r}; {shown(given)} "
                "was given.",
                f"Cast it: value.astype({target.dtype!r}).",
                where(here()),
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
    """A name for each, its own or one that no other has."""
    own = [x.op.given_name for x in shared]
    return [
        name if name is not None and own.count(name) == 1 else f"{name or 'shared'}{i}"
        for i, name in enumerate(own)
    ]
