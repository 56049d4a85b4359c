"""Random graphs, rewritten or not, on every backend: equal but for rounding, and no NaN is new.

A failure tells the graph's seed, the smallest part that shows it and the rule to blame.
``GRAPHC_FUZZ=17 pytest tests/rewrite/test_random_graphs.py -k "[0]"`` begins with the graph of
seed 17, and ``GRAPHC_FUZZ_GRAPHS=100000`` makes that many.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import Phase, given, seed, settings, strategies as st

from tests.rewrite.blame import faults, report
from tests.rewrite.random_graphs import Sample, random_graph

START = int(os.environ.get("GRAPHC_FUZZ", "0"))
GRAPHS = int(os.environ.get("GRAPHC_FUZZ_GRAPHS", "1200"))
CHUNKS = 48
BATCH = 13
"""How many graphs are one function: compiling takes longer than everything else."""


@pytest.mark.sample(every=24)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_rewritten_graph_has_the_values_of_the_one_written(chunk: int) -> None:
    seeds = st.integers(0, 2**24 - 1).map(lambda i: START + 2**24 * chunk + i)
    batches = st.lists(seeds, min_size=BATCH, max_size=BATCH, unique=True)

    @seed(START + chunk)
    @settings(
        max_examples=-(-GRAPHS // (CHUNKS * BATCH)),
        derandomize=False,
        phases=[Phase.generate],
    )
    @given(batches.map(lambda chosen: [random_graph(i) for i in chosen]))
    def check(samples: list[Sample]) -> None:
        found = faults(samples)
        assert not found, "\n\n".join(report(fault) for fault in found[:3])

    check()
