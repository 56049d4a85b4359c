"""Attention by functions of single elements: masks in blocks, scores that functions change."""

from graphc.attention.call import flex_attention
from graphc.attention.combine import and_masks, noop_mask, or_masks
from graphc.attention.create import create_block_mask
from graphc.attention.mask import BlockMask
from graphc.attention.ready import (
    alibi,
    causal,
    document,
    prefix_lm,
    relative_bias,
    sliding_window,
    soft_cap,
)
from graphc.lazy import listing

__all__ = [
    "BlockMask",
    "alibi",
    "and_masks",
    "causal",
    "create_block_mask",
    "document",
    "flex_attention",
    "noop_mask",
    "or_masks",
    "prefix_lm",
    "relative_bias",
    "sliding_window",
    "soft_cap",
]

__dir__ = listing(globals())  # without the files of the folder
