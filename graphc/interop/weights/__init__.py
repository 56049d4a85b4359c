"""Weights in files of other libraries, read and written in their packing."""

from graphc.interop.weights.adapter_load import load_adapter
from graphc.interop.weights.adapter_save import save_adapter
from graphc.interop.weights.files import Weights
from graphc.interop.weights.gguf_load import load_gguf
from graphc.interop.weights.gguf_save import save_gguf
from graphc.interop.weights.safetensors_load import load_safetensors
from graphc.interop.weights.safetensors_save import save_safetensors

__all__ = [
    "Weights",
    "load_adapter",
    "load_gguf",
    "load_safetensors",
    "save_adapter",
    "save_gguf",
    "save_safetensors",
]
