"""ONNX models for tests: small ones as text, and what onnxruntime computes by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime

BACKENDS = ("NUMPY", "JAX", "MLX")


def parsed(text: str, opset: int = 17, more: str = "") -> Any:
    """A model from the text of its graph, in the language of ``onnx.parser``."""
    head = f'<ir_version: 9, opset_import: ["" : {opset}{more}]>'
    return onnx.parser.parse_model(f"{head}\n{text}")


def by_onnxruntime(model: Any, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """The results of onnxruntime, by name."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [x.name for x in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def with_initializers(model: Any, **arrays: Any) -> Any:
    """The model with arrays as initializers."""
    for name, array in arrays.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    return model


def normal(*shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    """Normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
