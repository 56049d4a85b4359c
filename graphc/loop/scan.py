"""Scan, with PyTensor's arguments: a step over sequences and past outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack, overload

from graphc.errors import ArgumentError
from graphc.loop.arguments import number_of_steps, titled
from graphc.loop.checkpoint import Checkpoint
from graphc.loop.recurrence import Recurrence, ScanResults
from graphc.loop.taps import listed, sequence, state
from graphc.loop.unpacking import takes_updates
from graphc.tensor.core.tensor import Tensor

if TYPE_CHECKING:
    from graphc.loop.signatures import No, OfScan, One, Other, Several, Updates, Yes


@overload
def scan(
    fn: One,
    sequences: Any = None,
    outputs_info: Any = None,
    non_sequences: Any = None,
    n_steps: Any = None,
    *,
    return_list: No = False,
    return_updates: No | None = None,
    **options: Unpack[OfScan],
) -> Tensor: ...


@overload
def scan(
    fn: Several,
    sequences: Any = None,
    outputs_info: Any = None,
    non_sequences: Any = None,
    n_steps: Any = None,
    *,
    return_list: No = False,
    return_updates: No | None = None,
    **options: Unpack[OfScan],
) -> list[Tensor]: ...


@overload
def scan(
    fn: Other,
    sequences: Any = None,
    outputs_info: Any = None,
    non_sequences: Any = None,
    n_steps: Any = None,
    *,
    return_list: No = False,
    return_updates: No | None = None,
    **options: Unpack[OfScan],
) -> Any: ...


@overload
def scan(
    fn: Callable[..., Any],
    sequences: Any = None,
    outputs_info: Any = None,
    non_sequences: Any = None,
    n_steps: Any = None,
    *,
    return_list: Yes,
    return_updates: No | None = None,
    **options: Unpack[OfScan],
) -> list[Tensor]: ...


@overload
def scan(
    fn: Callable[..., Any],
    sequences: Any = None,
    outputs_info: Any = None,
    non_sequences: Any = None,
    n_steps: Any = None,
    *,
    return_list: bool = False,
    return_updates: Yes,
    **options: Unpack[OfScan],
) -> tuple[Any, Updates]: ...


def scan(  # noqa: PLR0913, PLR0917 (PyTensor's arguments)
    fn: Callable[..., Any],
    sequences: Any = None,
    outputs_info: Any = None,
    non_sequences: Any = None,
    n_steps: Any = None,
    truncate_gradient: int = -1,
    go_backwards: bool = False,
    mode: None = None,
    name: str | None = None,
    profile: bool = False,
    allow_gc: bool | None = None,
    strict: bool = False,
    return_list: bool = False,
    return_updates: bool | None = None,
    *,
    checkpoint: Checkpoint = None,
    unroll: int | None = None,
) -> Any:
    """A step applied over and over: to elements of sequences, and to what it gave before.

    A step may use any symbolic array from outside, named in ``non_sequences`` or not.

    Args:
        fn: The step: a function of the elements of the sequences for all their taps, then of the
            past outputs for all their taps, then of the non-sequences. It returns an output or a
            list of outputs; or these and ``until(condition)``, which ends the scan after that
            step; or these, a dict of updates of shared variables, and perhaps ``until``.
        sequences: Arrays whose axis 0 is time, or dicts ``input=``, ``taps=``: with the taps
            ``[-1, 0, 1]`` a step gets the elements before, at and after its own, beginning where
            all of them are there. One, or a list.
        outputs_info: For each output: None where a step does not read it; its value before the
            first step, where a step reads the last one; or a dict ``initial=``, ``taps=``, where
            it reads others: with the taps ``[-3, -1]`` the initial value has three rows, the
            oldest first. ``traced=False`` in a dict gives the last value alone. A Python number
            as an initial value takes the dtype that a step gives it.
        non_sequences: What every step gets as it is. One, or a list.
        n_steps: How many steps: an integer, also symbolic. By default, as many as the shortest
            sequence has elements; longer ones are cut.
        truncate_gradient: Through how many of the last steps gradients go back; -1 for all.
        go_backwards: Walk through the sequences from their ends; outputs stay in the order of the
            steps.
        mode: None: a loop is compiled with the function that it is part of.
        name: What messages call it.
        profile: False: ``f.plan()`` shows what became of a loop.
        allow_gc: Accepted for PyTensor compatibility: backends free memory when they can.
        strict: Refuse shared variables that are used and not given.
        return_list: Return a list also of a single output.
        return_updates: Return a dict of the shared variables' last values too. None: where the
            line unpacks it, as ``outputs, updates = scan(...)`` does, with a DeprecationWarning.
        checkpoint: Store states for the gradient only after so many steps, and do the steps
            between again; ``"sqrt"`` for the square root of the number of steps, so that memory
            grows as this root.
        unroll: How many steps a backend may write out at a time.

    Returns:
        For each output, its values at all steps, along a new axis 0; initial values are not among
        them. One array, or a list. With ``return_updates``, a pair of that and of a dict.

    Raises:
        ArgumentError: No way to know the number of steps, or it is negative; outputs that are not
            as many as ``outputs_info`` has entries, or no arrays; wrong taps; unknown keys.
        DTypeError: A state whose dtype is another after a step; a number of steps that is no
            integer.
        ShapeError: A state whose shape is another after a step; fewer initial values than the taps
            reach back; a sequence that is shorter than ``n_steps``.

    Example:
        >>> import numpy as np, graphc, graphc.tensor as gt
        >>> x, a = gt.vector("x"), gt.scalar("a")
        >>> smooth = graphc.scan(lambda x_t, y: a * y + (1 - a) * x_t, x, outputs_info=0.0)
        >>> f = graphc.function([x, a], smooth, mode="NUMPY")
        >>> f(np.ones(3), 0.5).tolist()
        [0.5, 0.75, 0.875]
        >>> fibonacci = graphc.scan(
        ...     lambda b, a: a + b, outputs_info=dict(initial=[0, 1], taps=[-2, -1]), n_steps=6
        ... )
        >>> fibonacci.eval(mode="NUMPY").tolist()
        [1, 2, 3, 5, 8, 13]
    """
    title = checked_title(name, "scan", mode, profile)
    found = Recurrence(
        title,
        fn,
        [sequence(title, i, x) for i, x in enumerate(listed(sequences))],
        [state(title, i, x) for i, x in enumerate(listed(outputs_info))],
        listed(non_sequences),
        backwards=bool(go_backwards),
        strict=strict,
    ).run(number_of_steps(title, n_steps), truncate_gradient, checkpoint, unroll)
    return arranged(title, found, found.shown(), return_list, return_updates)


def checked_title(name: Any, kind: str, mode: Any, profile: Any) -> str:
    """The loop's name in messages, where the other arguments are what a loop can have."""
    title = titled(name, kind)
    if mode is not None:
        raise ArgumentError(
            f"{title}: mode={mode!r}.",
            "A loop is compiled with the function that it is part of: give that the mode.",
        )
    if profile:
        raise ArgumentError(
            f"{title}: profile={profile!r}.",
            "Loops have no profile of their own; f.plan() shows what became of them.",
        )
    return title


def arranged(
    title: str, results: ScanResults, outputs: list[Any], as_list: bool, both: bool | None
) -> Any:
    """Outputs as they were asked for: one by itself or a list, and the updates, too."""
    updates = results.updates
    both = takes_updates(title, outputs) if both is None else both
    explicit = [x for x in updates if x not in results.draws]
    if explicit and not both:
        raise ArgumentError(
            f"{title}: a step updates {', '.join(repr(x) for x in explicit)}.",
            "Ask for the new values: outputs, updates = scan(..., return_updates=True), and "
            "graphc.function(..., updates=updates).",
        )
    found: Any = outputs
    if not as_list and len(outputs) < 2:
        found = outputs[0] if outputs else None
    return (found, updates) if both else found
