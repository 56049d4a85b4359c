"""The functions of the hooks in ``hooks.py``; a higher layer is imported at the first call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graphc import hooks

if TYPE_CHECKING:
    import numpy as np

    from graphc.attention.jax_arrays import JaxAttention
    from graphc.compile.function import Function
    from graphc.implicit.jax_arrays import JaxImplicit
    from graphc.tensor.core.tensor import Tensor


@hooks.drawing.provide
def _drawing(x: Any) -> str:
    from graphc.draw.show import repr_html

    return repr_html(x)


@hooks.named_type.provide
def _named_type(x: Any) -> str:
    from graphc.rewrite.facts.named import named_type

    return named_type(x)


@hooks.evaluate.provide
def _evaluate(x: Tensor, values: Mapping[Any, Any] | None, mode: Any) -> np.ndarray[Any, Any]:
    from graphc.compile.evaluate import evaluate

    return evaluate(x, values, mode=mode)


@hooks.compile_function.provide
def _compile_function(*args: Any, **kwargs: Any) -> Function:
    from graphc.compile.function import function

    return function(*args, **kwargs)


@hooks.shared_key.provide
def _shared_key() -> Tensor:
    from graphc.compile.streams import shared_rng

    return shared_rng(seed=None, name="rng")


@hooks.export_function.provide
def _export_function(*args: Any, **kwargs: Any) -> None:
    from graphc.export.model import export_function

    export_function(*args, **kwargs)


@hooks.shared_xtensor.provide
def _shared_xtensor(value: Any, **options: Any) -> Any:
    from graphc.xtensor.type import xtensor_shared

    return xtensor_shared(value, **options)


@hooks.vectorize_xtensors.provide
def _vectorize_xtensors(outputs: Any, replace: Mapping[Any, Any]) -> Any:
    from graphc.xtensor.vectorization import vectorize_graph

    return vectorize_graph(outputs, replace)


@hooks.implicit_handlers.provide
def _implicit_handlers() -> None:
    from graphc.implicit import linalg, loops, operations, systems  # noqa: F401 (they register)


@hooks.jax_implicit.provide
def _jax_implicit() -> JaxImplicit:
    from graphc.link.jax import implicit

    return implicit


@hooks.jax_attention.provide
def _jax_attention() -> JaxAttention:
    from graphc.link.jax import attention

    return attention
