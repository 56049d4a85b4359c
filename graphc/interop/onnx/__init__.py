"""ONNX models as graphs: to run on every backend, to differentiate, to rewrite, to export."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphc.compile import Mode
    from graphc.interop.onnx.model import OnnxModel

__all__ = ["load"]


def load(
    model: str | os.PathLike[str] | Any,
    mode: str | Mode | None = None,
    *,
    shared: bool | Collection[str] = False,
    givens: Mapping[str, Any] | None = None,
) -> OnnxModel:
    """An ONNX model as a graph of graphc's operations.

    The graph is compiled for every backend, differentiated, batched, rewritten, explained and
    exported like any other. Opsets 7 to 28 are read, those of ``com.microsoft`` and ``ai.onnx.ml``
    as far as {doc}`interop` lists their operators. Functions of the model are written out, and so
    are operators that the standard defines by others. No code is run, whatever the file holds, and
    memory is taken for what it holds, not for what it says.

    Lengths that the model gives a name are unknown; they may be given by ``givens``. A
    length that is unknown does not broadcast: where it may be 1, give it.

    Args:
        model: The path of a file, whose external data are mapped into memory; its bytes; or an
            ``onnx.ModelProto``.
        mode: What calls are computed by, as for ``graphc.function``; ``config.mode`` by default.
        shared: The initializers that become shared variables, by name; ``True``: all floating ones
            that have an axis. The others are captured: as they are small or large, constants of
            the graph or arrays that are passed to the compiled program.
        givens: For inputs by name, what stands in their place: a symbolic array, of a more precise
            type for example, or an array, whose values may then decide shapes.

    Returns:
        The model: a function of its inputs, and the graph to compile and differentiate.

    Raises:
        UnsupportedOperationError: Some nodes have operators or attributes that graphc has nothing
            for. One error names all of them, with the reasons.
        FormatError: It is no ONNX model, or is damaged.
        DTypeError: An input has a dtype that symbolic arrays lack, as strings have.
        ArgumentError: ``shared`` or ``givens`` name what the model does not have.
        OSError: The file cannot be read.
        ImportError: The package ``onnx`` is missing.

    Example:
        >>> import graphc, onnx.parser
        >>> from graphc.interop.onnx import load
        >>> text = '''<ir_version: 8, opset_import: ["" : 17]>
        ... agraph (float[n, 2] x) => (float[n] y) <float[2] w = {1.0, 2.0}>
        ... { p = MatMul(x, w)  y = Tanh(p) }'''
        >>> model = load(onnx.parser.parse_model(text), mode="NUMPY", shared=True)
        >>> model
        agraph: (x: float32[n, 2]) -> (y: float32[n])
        >>> model([[0.0, 0.0], [1.0, 0.0]])["y"].round(3)
        array([0.   , 0.762], dtype=float32)
        >>> slope = graphc.grad(model.outputs["y"].sum(), model.shared["w"])
        >>> slope.eval({model.inputs["x"]: [[0.5, 0.0]]}, mode="NUMPY").round(3)
        array([0.393, 0.   ], dtype=float32)
    """
    # A program that loads no ONNX model does not load onnx.
    from graphc.interop.onnx.convert import converted  # noqa: PLC0415
    from graphc.interop.onnx.model import OnnxModel  # noqa: PLC0415

    return OnnxModel(converted(model, shared, givens or {}), mode)
