"""Shards of fields are the fields of a shard, or are of another shape."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from graphc import implicit
from graphc.errors import ImplicitArrayError
from graphc.implicit.partition import leaf_specs
from graphc.implicit.treedef import Treedef

rng = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return rng.normal(size=shape).astype("float32")


def of_codes(kind: str, axis: int) -> Any:
    return implicit.quantize(normal(2, 128, 128), kind, axis=axis, group_size=32)


ARRAYS = {
    "low rank": implicit.LowRank(normal(2, 8, 3), normal(2, 3, 12)),
    "lora": implicit.LoRA(normal(2, 8, 12), normal(2, 8, 3), normal(2, 3, 12), normal(2)),
    "lora of codes": implicit.LoRA(of_codes("int4", -2), normal(2, 128, 3), normal(2, 3, 128)),
    "kronecker": implicit.Kronecker(normal(2, 4, 8), normal(2, 3, 5)),
    "blocks": implicit.BlockDiagonal(normal(2, 4, 3, 3)),
    "unequal blocks": implicit.BlockDiagonal((normal(2, 4, 4), normal(2, 8, 8))),
    "diagonal": implicit.Diagonal(normal(2, 8)),
    "identity": implicit.Identity(normal(2), 8),
    "fill": implicit.Fill(normal(), (4, 8, 8)),
    "one hot": implicit.OneHot(rng.integers(0, 8, size=(2, 8)), 8),
    "weighted": implicit.OneHot(rng.integers(0, 8, size=(2, 8)), 8, normal(2, 8), axis=-2),
    "toeplitz": implicit.Toeplitz(normal(2, 8), normal(2, 8)),
    **{
        f"{kind} {axis}": of_codes(kind, axis)
        for kind in ("int4", "nf4", "1bit")
        for axis in (-1, -2)
    },
}
EXACT = {"low rank", "lora", "lora of codes", "kronecker", "int4 -1", "nf4 -2", "1bit -1"}
SPECS = list(product(("a", None), ("b", None), ("c", None)))


def shard(x: Any, spec: Any) -> Any:
    """The second half along each axis that is sharded, or the one there is."""
    index = [
        slice(n // 2, None) if name else slice(None) for n, name in zip(x.shape, spec, strict=True)
    ]
    return x[tuple(index)]


@pytest.mark.whole
@pytest.mark.parametrize("name", ARRAYS)
def test_shards_of_fields_are_the_shard_or_of_another_shape(name: str) -> None:
    x = ARRAYS[name]
    treedef, leaves = Treedef.of(x)
    for spec in SPECS:
        specs = leaf_specs(x, spec)
        parts = [shard(leaf, each) for leaf, each in zip(leaves, specs, strict=True)]
        found, wanted = np.asarray(treedef.build(parts)), shard(np.asarray(x), spec)
        if name in EXACT:
            assert found.shape == wanted.shape
        if found.shape == wanted.shape:
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_specs_are_checked() -> None:
    with pytest.raises(ImplicitArrayError, match="4 entries"):
        leaf_specs(ARRAYS["diagonal"], (None,) * 4)
