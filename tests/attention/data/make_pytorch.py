"""PyTorch's answers to the examples, as they are kept in ``pytorch.npz``.

``python -m tests.attention.data.make_pytorch`` writes them, where PyTorch is installed.
"""

from __future__ import annotations

import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.attention.flex_attention import (
    AuxRequest,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    or_masks,
)

from tests.attention.examples import EXAMPLES, Example, Functions

__all__ = ["STORED", "TABLES", "answers"]

STORED = Path(__file__).parent / "pytorch.npz"

TABLES = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices")

LIBRARY = types.SimpleNamespace(
    where=torch.where, tanh=torch.tanh, and_masks=and_masks, or_masks=or_masks
)


def answers(example: Example) -> dict[str, np.ndarray]:
    """PyTorch's results by name.

    ``out`` and ``lse`` are those of ``flex_attention``. On the CPU it gives gradients by captured
    tensors, but none by q, k and v: these are autograd's, of the dense formula with the mask of
    ``create_mask`` and the same score function.
    """
    captured = {name: torch.tensor(x) for name, x in example.captured.items()}
    for name in example.floating:
        captured[name].requires_grad_()
    functions = example.functions(LIBRARY, **captured)
    q, k, v, g_out = map(torch.tensor, example.inputs)
    block_mask = _block_mask(example, functions)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        out, auxiliary = flex_attention(
            q,
            k,
            v,
            score_mod=functions.score,
            block_mask=block_mask,
            scale=example.scale,
            enable_gqa=example.heads[0] != example.heads[1],
            return_aux=AuxRequest(lse=True),
        )
    found = {"out": out, "lse": auxiliary.lse}
    if example.floating:
        leaves = [captured[name] for name in example.floating]
        found |= dict(zip(example.floating, _gradients(out, g_out, leaves), strict=True))
    operands = [x.requires_grad_() for x in (q, k, v)]
    dense = _dense(example, functions, *operands)
    torch.testing.assert_close(dense, out, rtol=1e-12, atol=1e-13)
    found |= dict(zip("qkv", _gradients(dense, g_out, operands), strict=True))
    if block_mask is not None:
        found |= {name: getattr(block_mask, name) for name in TABLES}
    return {name: x.detach().numpy() for name, x in found.items()}


def _gradients(y: Any, g: Any, leaves: list[Any]) -> Any:
    return torch.autograd.grad((g * y).sum(), leaves, retain_graph=True)


def _block_mask(example: Example, functions: Functions) -> Any:
    if functions.mask is None:
        return None
    return create_block_mask(
        functions.mask,
        example.mask_batch,
        example.mask_heads,
        *example.lengths,
        device="cpu",
        BLOCK_SIZE=example.block,
    )


def _dense(example: Example, functions: Functions, q: Any, k: Any, v: Any) -> Any:
    """Attention as a formula over whole matrices, which autograd differentiates."""
    group = example.heads[0] // example.heads[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if example.scale is None else example.scale)
    if functions.score is not None:
        at = torch.meshgrid(*map(torch.arange, scores.shape), indexing="ij")
        scores = functions.score(scores, *at)
    if functions.mask is not None:
        keep = create_mask(functions.mask, *scores.shape, device="cpu")
        alive = keep.any(-1, keepdim=True)
        # A row without keys would be NaN, and so would its gradient.
        scores = scores.masked_fill(~keep & alive, -torch.inf)
        return torch.where(alive, scores.softmax(-1), 0.0) @ v
    return scores.softmax(-1) @ v


if __name__ == "__main__":
    results = {
        f"{name}.{part}": value
        for name, example in EXAMPLES.items()
        for part, value in answers(example).items()
    }
    np.savez_compressed(STORED, **results)
