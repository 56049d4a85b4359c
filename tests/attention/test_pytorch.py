"""Attention equals PyTorch's ``flex_attention`` on its documented examples, in float64.

What PyTorch gave is stored; ``data/README.md`` says how. Where it is installed, it is asked again.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc.attention as ga
from tests.attention import reference
from tests.attention.examples import EXAMPLES, Example, Functions
from tests.attention.worlds import TABLES, Given, answers, in_worlds

STORED = Path(__file__).parent / "data" / "pytorch.npz"

INSTALLED = importlib.util.find_spec("torch") is not None

NEAR = {"rtol": 1e-12, "atol": 1e-13}
"""Sums of up to thirty terms of order one that may cancel."""


@cache
def stored() -> dict[str, dict[str, np.ndarray]]:
    """PyTorch's results by example, then by name."""
    found: dict[str, dict[str, np.ndarray]] = {name: {} for name in EXAMPLES}
    with np.load(STORED) as archive:
        for key, value in archive.items():
            name, part = key.split(".")
            found[name][part] = value
    return found


def check(found: dict[str, np.ndarray], expected: dict[str, Any], example: Example) -> None:
    for name, value in expected.items():
        if name not in TABLES:
            assert found[name].dtype == np.float64
            np.testing.assert_allclose(found[name], value, **NEAR, err_msg=name)
    if TABLES[0] in expected:
        check_blocks(found, expected, example)


def check_blocks(found: dict[str, np.ndarray], expected: dict[str, Any], example: Example) -> None:
    """The same blocks; PyTorch never has full ones in a last row of fewer queries."""
    block = example.block if isinstance(example.block, tuple) else (example.block,) * 2
    whole = example.lengths[0] // block[0]
    for name in TABLES:
        assert found[name].dtype == expected[name].dtype
        np.testing.assert_array_equal(found[name][:, :, :whole], expected[name][:, :, :whole], name)
    own, theirs = (reference.unpacked([x[name] for name in TABLES]) for x in (found, expected))
    np.testing.assert_array_equal(own == reference.EMPTY, theirs == reference.EMPTY)


@pytest.mark.sample(every=10, rest=3)
@pytest.mark.parametrize(("name", "world"), in_worlds(EXAMPLES))
def test_results_gradients_and_blocks_are_those_of_pytorch(name: str, world: str) -> None:
    example = EXAMPLES[name]
    check(answers(world, example, Given(*example.inputs)), stored()[name], example)


READY: dict[str, Callable[..., Functions]] = {
    "causal": lambda library: Functions(ga.causal),
    "alibi": lambda library, slopes: Functions(ga.causal, ga.alibi(slopes=slopes)),
    "soft_capping": lambda library: Functions(ga.causal, ga.soft_cap(1.5)),
    "sliding_window": lambda library: Functions(ga.sliding_window(7)),
    "prefix_lm": lambda library, prefix: Functions(ga.prefix_lm(prefix)),
    "documents": lambda library, documents: Functions(
        ga.and_masks(ga.document(documents), ga.causal)
    ),
    "learned_relative_bias": lambda library, bias: Functions(score=ga.relative_bias(bias)),
}
"""The examples whose functions are there already."""


@pytest.mark.sample(every=4, rest=2)
@pytest.mark.parametrize(("name", "world"), in_worlds(READY))
def test_ready_functions_give_what_pytorch_does(name: str, world: str) -> None:
    example = replace(EXAMPLES[name], functions=READY[name])
    check(answers(world, example, Given(*example.inputs)), stored()[name], example)


@pytest.mark.skipif(not INSTALLED, reason="PyTorch is an optional dependency of the tests")
@pytest.mark.parametrize("name", EXAMPLES)
def test_pytorch_still_gives_what_is_stored(name: str) -> None:
    from tests.attention.data import make_pytorch  # noqa: PLC0415 (it imports torch)

    found = make_pytorch.answers(EXAMPLES[name])
    assert found.keys() == stored()[name].keys()
    check(found, stored()[name], EXAMPLES[name])
