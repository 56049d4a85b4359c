"""graphc as a mode of PyTensor: a linker that compiles PyTensor's graphs by graphc."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

try:
    from pytensor.compile.mode import Mode
    from pytensor.graph.rewriting.db import RewriteDatabaseQuery
    from pytensor.link.basic import JITLinker
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "graphc.interop.pytensor.mode needs PyTensor.\nInstall it: pip install 'graphc[pymc]'.",
        name=error.name,
    ) from error
from graphc.compile.function import function
from graphc.compile.mode import Mode as GraphcMode, get_mode
from graphc.compile.streams import key_from
from graphc.errors import UnsupportedOperationError
from graphc.interop.pytensor import forks, variables
from graphc.interop.pytensor.application import Refusal
from graphc.interop.pytensor.convert import Conversion
from graphc.interop.pytensor.packed import Packing
from graphc.site import Site, here, mark_own, where

EXCLUDED = {
    "cxx_only": "operations of C code",
    "BlasOpt": "products as calls of BLAS, which the backends choose themselves",
    "inplace": "operations that overwrite their arguments",
    "fusion": "elementwise operations put together, which the backends do themselves",
    "local_careduce_fusion": "the same of reductions",
    "scan_save_mem": "buffers of loops that hold few rows, where graphc keeps none",
    "scan_save_mem_prealloc": "the same, by the name of one rewrite",
    "scan_save_mem_no_prealloc": "the same, by the name of another",
    "scan_reduce_trace": "the same, by the name in newer versions",
    "scan_reduce_trace_prealloc": "the same",
    "scan_make_inplace": "loops that overwrite their arguments",
    "reuse_decomposition_multiple_solves": "factorisations kept, which graphc shares",
    "reuse_lu_decomposition_multiple_solves": "the same, by its older name",
}
"""Rewrites of PyTensor whose results graphc would undo, and what they make."""


MINIMAL = ("minimum_compile", "canonicalize_db")
"""The rewrites of ``mode``: the required ones, and the ones of ``canonicalize`` requested by name.

PyMC requests a rewrite that makes the density ``-inf`` where parameters are invalid.
"""


class Usage:
    """Whether a linker or a copy of it has compiled anything, shared by the copies."""

    def __init__(self) -> None:
        self.compiled: list[bool] = []


class GraphcLinker(JITLinker):  # type: ignore[misc]
    """A linker that compiles a graph to one graphc function.

    Args:
        mode: graphc's mode.
    """

    required_rewrites = ("minimum_compile",)
    incompatible_rewrites = tuple(EXCLUDED)

    def __init__(self, mode: str | GraphcMode | None = None, **kwargs: Any) -> None:
        self.mode = None if mode is None else get_mode(mode)
        for folder in variables.folders():  # their frames are not the user's line
            mark_own(folder)
        self.usage = Usage()
        super().__init__(**kwargs)

    def accept(self, *args: Any, **kwargs: Any) -> Any:
        """Take a graph to compile."""
        self.usage.compiled[:] = [True]
        return super().accept(*args, **kwargs)

    def fgraph_convert(self, fgraph: Any, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        """Return a function of the values of the graph's inputs and shared variables."""
        if not fgraph.outputs:
            return lambda *values: None  # PyTensor wants None, not an empty list
        ins = _inputs(fgraph)
        values = dict(zip(fgraph.inputs, ins, strict=True))
        outs = Conversion(closed=True).outputs(fgraph.outputs, values)
        generators = [i for i, x in enumerate(fgraph.inputs) if variables.is_generator(x)]
        drawn = [i for i, y in enumerate(fgraph.outputs) if variables.is_generator(y)]
        # New values of shared variables, which other functions of PyTensor overwrite in place.
        updated = [i for i in getattr(fgraph, "update_mapping", None) or () if i not in drawn]
        compiled = self._compile(ins, outs, [*drawn, *updated], fgraph.name)
        if not generators and not updated:
            return compiled
        return _with_state(compiled, generators, drawn, updated)

    def _compile(
        self, ins: Sequence[Any], outs: Sequence[Any], states: Sequence[int], name: str | None
    ) -> Callable[..., Any]:
        """Compile the graphc function; many small results are packed into one array."""
        mode = get_mode(self.mode)
        packing = None if mode.backend.eager else Packing.of(outs, states)
        compiled: Callable[..., Any] = function(
            ins,
            [*outs] if packing is None else packing.pack(outs),
            mode=mode,
            on_unused_input="ignore",
            returns="numpy",
            name=name,
        )
        if packing is None:
            return compiled
        unpack = packing.unpack
        return lambda *values: unpack(compiled(*values))

    def create_thunk_inputs(self, storage_map: dict[Any, list[Any]]) -> list[list[Any]]:
        """Return the storage of the graph's inputs."""
        return [storage_map[x] for x in self.fgraph.inputs]

    def jit_compile(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, which graphc has compiled, bound to one process."""
        backend = get_mode(self.mode).backend
        return fn if backend.eager else forks.check_process(fn, backend.name)


def _inputs(fgraph: Any) -> list[Any]:
    for y in fgraph.outputs:
        if variables.is_sparse(y):
            raise UnsupportedOperationError(
                f"mode: a result of the function is a sparse matrix, {y}: {y.type}.",
                "Return pytensor.sparse.dense_from_sparse(y).",
            )
    try:
        return [variables.input_of(x) for x in fgraph.inputs]
    except Refusal as refusal:
        shown = ", ".join(f"{x}: {x.type}" for x in fgraph.inputs)
        raise UnsupportedOperationError(
            f"mode: {refusal}. The inputs and shared variables are {shown}.", "Use from_pytensor."
        ) from None


def _with_state(
    compiled: Callable[..., Any],
    generators: Sequence[int],
    drawn: Sequence[int],
    updated: Sequence[int],
) -> Callable[..., Any]:
    """Wrap a function of keys to take NumPy generators, and copy new values of shared variables."""

    def call(*values: Any) -> list[Any]:
        arguments = list(values)
        for i in generators:
            arguments[i] = key_from(arguments[i])
        results = list(compiled(*arguments))
        for i in drawn:
            results[i] = np.random.default_rng(results[i])
        for i in updated:
            results[i] = np.array(results[i])
        return results

    return call


def mode(mode: str | GraphcMode | None = None, *, rewrites: bool = False) -> Any:
    """Return a mode of PyTensor in which graphc compiles and runs functions.

    ``pytensor.function``, ``pm.sample(compile_kwargs={"mode": ...})`` and everything else that
    takes a mode of PyTensor take it. Shared variables stay PyTensor's. A random generator stays
    NumPy's: a call draws its key from a copy, and leaves a new generator made of the last key. A
    mode in which nothing was compiled warns when it is deleted, as something has ignored it.

    Args:
        mode: ``"JAX"``, ``"MLX"``, ``"NUMPY"`` or a ``graphc.Mode`` (default: ``config.mode``).
        rewrites: Let PyTensor rewrite the graph first. By default only required rewrites run,
            which compiles faster; graphc rewrites the graph too.

    Returns:
        A ``pytensor.compile.mode.Mode``.

    Raises:
        ModuleNotFoundError: If PyTensor is not installed.

    Example:
        >>> import numpy as np, pytensor, pytensor.tensor as pt
        >>> import graphc.interop.pytensor as gp
        >>> x = pt.vector("x")
        >>> f = pytensor.function([x], pt.exp(x).sum(), mode=gp.mode("JAX"))
        >>> float(f(np.zeros(3)))
        3.0
    """
    include = ["fast_run"] if rewrites else MINIMAL
    linker = GraphcLinker(mode)
    # mode.including(...) makes another mode with this linker, so the linker is watched.
    weakref.finalize(linker.usage, _check_use, linker.usage.compiled, here())
    return Mode(linker, RewriteDatabaseQuery(include=include))


def _check_use(compiled: list[bool], site: Site | None) -> None:
    """Warn if nothing was compiled in a mode, as something has ignored it."""
    if compiled or site is None:
        return
    line = str(where(site)).rpartition(":")[2]
    warnings.warn_explicit(
        "Nothing was compiled in this mode of graphc. pm.sample ignores compile_kwargs with "
        'nuts_sampler="nutpie", "numpyro" and "blackjax"; graphc.interop.pymc.sample runs these '
        "samplers by graphc.",
        UserWarning,
        site[0].co_filename,
        int(line),
    )
