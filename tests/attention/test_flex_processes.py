"""Programs of attention are found again by later processes, whatever the mask's documents are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.attention import reference
from tests.attention.worlds import GRAPHS
from tests.compile.processes import answer, started

STEP = """
import graphc.attention as ga
from tests.attention import reference

mode, seed = sys.argv[1], int(sys.argv[2])
traced_by_python(mode)
q, k, v, g, _ = reference.problem(5, lengths=(12, 12))
ids = np.sort(np.random.default_rng(seed).integers(0, 3, 12)).astype(np.int32)
slopes = np.array([0.5, 0.25]) * seed

inputs = [gt.tensor(dtype="float64", shape=x.shape) for x in (q, k, v)]
mask = ga.create_block_mask(
    ga.and_masks(ga.causal, lambda b, h, q, k: ids[q] == ids[k]), None, None, 12, 12, BLOCK_SIZE=4
)
score = lambda s, b, h, q, k: s + slopes[h] * gt.tanh(s) * (k - q)
out = ga.flex_attention(*inputs, score_mod=score, block_mask=mask)
kinds = []
with graphc.events.subscribe(lambda event: kinds.append(event.kind)):
    f = graphc.function(inputs, [out, graphc.grad((out * g).sum(), inputs[1])], mode=mode)
    found = f(q, k, v)
print(json.dumps([len(rewrites), kinds, values(found)]))
"""


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("mode", GRAPHS)
def test_a_second_process_with_other_documents_finds_the_program(tmp_path: Path, mode: str) -> None:
    runs = [answer(started(STEP, tmp_path / "cache", mode, str(seed))) for seed in (1, 2)]
    assert [rewrites for rewrites, *_ in runs] == [1, 0]
    if mode == "JAX":  # the others keep the rewritten graph, and no executable
        assert [kinds for _, kinds, _ in runs] == [["compile"], ["load"]]
    q, k, v, g, _ = reference.problem(5, lengths=(12, 12))
    far = np.arange(12) - np.arange(12)[:, None]
    for seed, (*_, (out, by_k)) in zip((1, 2), runs, strict=True):
        ids = np.sort(np.random.default_rng(seed).integers(0, 3, 12))
        slope = np.array([0.5, 0.25])[:, None, None] * seed * far
        scores = reference.forward(q, k, v).scores
        # The score function is not affine: its slope at each score stands for its factor.
        final = scores + slope * np.tanh(scores)
        mask = (ids[:, None] == ids) & (far <= 0)
        expected = reference.forward(q, k, v, mask=mask, times=0.0, plus=final).out
        np.testing.assert_allclose(out, expected, rtol=1e-11, atol=1e-12)
        by_final = reference.backward(q, k, v, g, mask=mask, times=0.0, plus=final).final
        by_score = by_final * (1 + slope * (1 - np.tanh(scores) ** 2))
        exact = np.einsum("bhqk,bhqe->bhke", by_score, q) / 2
        np.testing.assert_allclose(by_k, exact, rtol=1e-11, atol=1e-12)
