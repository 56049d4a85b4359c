"""Scan, with PyTensor's arguments: a step over sequences and past outputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Unpack, overload

from graphc.config import config
from graphc.errors import ArgumentError
from graphc.ir import Node
from graphc.loop.arguments import number_of_steps, title_of
from graphc.loop.checkpoint import Checkpoint
from graphc.loop.recurrence import ScanArguments, ScanResults
from graphc.loop.taps import sequence, state, to_list
from graphc.site import constant_index, expects_updates, frames_up, unpacking_targets
from graphc.tensor.core.tensor import OUTPUTS_ALONE, Tensor

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
    """Apply a step repeatedly: to the elements of sequences and to its own past outputs.

    A step may use any symbolic array from outside, named in ``non_sequences`` or not.

    Args:
        fn: The step: a function of the elements of the sequences for all their taps, then of the
            past outputs for all their taps, then of the non-sequences. It returns an output or a
            list of outputs; or these and ``until(condition)``, which ends the scan after that
            step; or these, a dict of updates of shared variables, and perhaps ``until``.
        sequences: Arrays whose axis 0 is time, or dicts ``input=``, ``taps=``: with the taps
            ``[-1, 0, 1]`` step t gets the elements t - 1, t and t + 1, beginning where all of
            them exist. One, or a list.
        outputs_info: For each output: None where a step does not read it; its value before the
            first step, where a step reads the last one; or a dict ``initial=``, ``taps=``, where
            it reads others: with the taps ``[-3, -1]`` the initial value has three rows, the
            oldest first. ``traced=False`` in a dict returns the last value alone. A Python number
            as an initial value takes the dtype that a step gives it.
        non_sequences: Arguments that are the same in every step. One, or a list.
        n_steps: The number of steps: an integer, also symbolic. By default, as many as the shortest
            sequence has elements; longer ones are cut.
        truncate_gradient: The number of last steps that gradients go back through; -1 for all.
        go_backwards: Walk through the sequences from their ends; outputs stay in the order of the
            steps.
        mode: None: a loop is compiled with the function that it is part of.
        name: The scan's name in messages.
        profile: False: ``f.plan()`` shows how a loop was compiled.
        allow_gc: Accepted for PyTensor compatibility: backends free memory when they can.
        strict: Refuse shared variables that are used and not in ``non_sequences``.
        return_list: Return a list also of a single output.
        return_updates: Return a pair of the outputs and a dict of the shared variables' last
            values. None: the setting ``config.scan_returns_updates``, which is False.
        checkpoint: Store a state for the gradient once in this number of steps, and recompute
            the steps between; ``"sqrt"`` for the square root of the number of steps, so that memory
            grows as this root.
        unroll: The number of steps that a backend may unroll.

    Returns:
        For each output, its values at all steps, along a new axis 0; initial values are not among
        them. One array, or a list. With ``return_updates``, a pair of the outputs and a dict.

    Raises:
        ArgumentError: If the number of steps is unknown or negative, the number of outputs is not
            the length of ``outputs_info``, an output is no array, taps are wrong or
            keys unknown; or if the user's line unpacks outputs and updates where outputs are
            returned alone.
        DTypeError: If a step changes the dtype of a state, or the number of steps is no integer.
        ShapeError: If a step changes the shape of a state, the taps reach back further than the
            initial values, or a sequence is shorter than ``n_steps``.

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
    title = check_options(name, "scan", mode, profile)
    results = ScanArguments(
        title,
        fn,
        [sequence(title, i, x) for i, x in enumerate(to_list(sequences))],
        [state(title, i, x) for i, x in enumerate(to_list(outputs_info))],
        to_list(non_sequences),
        backwards=bool(go_backwards),
        strict=strict,
    ).run(number_of_steps(title, n_steps), truncate_gradient, checkpoint, unroll)
    return select_results(title, results, results.outputs(), return_list, return_updates)


def check_options(name: Any, kind: str, mode: Any, profile: Any) -> str:
    """Return the loop's name in messages; raise for options that loops lack."""
    title = title_of(name, kind)
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


def select_results(
    title: str, results: ScanResults, outputs: list[Any], as_list: bool, return_updates: bool | None
) -> Any:
    """Return one output or a list, with the updates on request."""
    with_updates = config.scan_returns_updates if return_updates is None else return_updates
    updates = results.updates
    explicit = [x for x in updates if x not in results.draws]
    if explicit and not with_updates:
        raise ArgumentError(
            f"{title}: a step updates {', '.join(repr(x) for x in explicit)}.",
            "Ask for the new values: outputs, updates = scan(..., return_updates=True), and "
            "graphc.function(..., updates=updates).",
        )
    if return_updates is None and not with_updates:
        _check_unpacking(title, outputs)
    selected: Any = outputs
    if not as_list and len(outputs) < 2:
        selected = outputs[0] if outputs else None
    return (selected, updates) if with_updates else selected


def _check_unpacking(title: str, outputs: Sequence[Any]) -> None:
    """Refuse a user's line that expects updates beside the outputs; warn where it may do so.

    Two targets for two outputs, or for an output of two steps, are right unless their names say
    that the second one takes updates.
    """
    targets = unpacking_targets()
    if targets is None or len(targets) != 2:
        if constant_index() == 0 and outputs:
            _warn(f"{title}(...)[0] is the first {'output' if len(outputs) > 1 else 'step'}.")
        return
    written = ", ".join(x if isinstance(x, str) else "[...]" for x in targets)
    discards = isinstance(targets[1], str) and not targets[1].strip("_")
    if len(outputs) == 2 and isinstance(targets[0], str) and discards:
        _warn(f"{title}: {written} = ...: {targets[1]} is the second output.")
    elif expects_updates(targets) or not (len(outputs) == 2 or _has_two_steps(outputs)):
        remedy = OUTPUTS_ALONE
        if len(outputs) == 2:
            remedy += f" If {targets[1]} is the second output, add return_updates=False."
        raise ArgumentError(f"{title}: {written} = ... expects outputs and updates.", remedy)
    elif len(outputs) == 1:
        _warn(f"{title}: {written} = ...: they are the two steps.")


def _has_two_steps(outputs: Sequence[Any]) -> bool:
    # Wrappers are not iterable, so only an array can be unpacked into steps.
    return len(outputs) == 1 and isinstance(outputs[0], Node) and outputs[0].type.shape[:1] == (2,)


def _warn(problem: str) -> None:
    warnings.warn(f"{problem} {OUTPUTS_ALONE}", UserWarning, stacklevel=frames_up())
