"""Graphs to write as text: of every kind of operation, of the contract's cases and of models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import graphc
import graphc.tensor as gt
import graphc.xtensor as gx
from graphc.attention import causal, create_block_mask, flex_attention
from graphc.export.names import name_of
from graphc.export.write import as_graph
from graphc.implicit import CSR, LoRA, quantize
from graphc.ir import Constant, Graph, Input, Leaf, flatten
from graphc.tensor.core.elementwise import ROWS
from tests.contract.loops import CASES
from tests.contract.operands import arrays, symbols
from tests.contract.operations import FAMILIES

__all__ = ["GRAPHS", "REFUSED", "every_operation", "model", "names_in", "of_contract"]

REFUSED = {
    *("implicit, of two fields", "implicit, nested", "implicit, of nothing"),
    *("print, Print", "print, of nothing", "subgraph, with a pullback"),
}
"""Cases of the contract with functions or classes of the test's own."""


def of_contract() -> Iterator[tuple[str, Any]]:
    """The outputs of each case of the contract, of the first of its dtypes that it takes."""
    for family, cases in FAMILIES.items():
        for name, case in cases.items():
            dtype = "float64" if "float64" in case.dtypes else case.dtypes[-1]
            yield f"{family}, {name}", case.symbolic(*symbols(case, arrays(case, dtype)))
    for name, loop in CASES.items():
        yield name, loop.build(*loop.symbols())


def names_in(graph: Graph) -> set[str]:
    """The names of all operations of a graph, and of those in the graphs that they hold."""
    found = set[str]()
    for node in graph.canonical()[len(graph.inputs) :]:
        if not isinstance(node.op, Constant | Input | Leaf):
            found |= {str(name_of(node.op))}.union(*map(names_in, node.op.graphs()))
    return found


def model() -> Graph:
    """A recurrent network with a mask, noise and a counter: what a user would save."""
    x = gt.matrix("x")
    w = graphc.shared(np.linspace(-1, 1, 9).reshape(3, 3), name="layers.0.weight")
    b = graphc.shared(np.float32([0.1, -0.0, np.inf]), name="bias[0]", shape=(3,))
    count = graphc.shared(0, name="count")
    count.default_update = count + 1
    stream = gt.random.RandomStream(7)
    table = np.arange(12.0).reshape(4, 3)

    def step(row: Any, h: Any) -> Any:
        return gt.tanh(h @ w + row * gt.cast(gt.clip(b, -1, 1), "float64"))

    states = graphc.scan(step, x, gt.zeros(3))
    states.name = "states"
    noise = stream.normal(size=(3,))
    chosen = graphc.ifelse(count > 2, states[-1] + table[1:].sum(0), states[0] * 2)
    loss = ((chosen - noise) ** 2).sum()
    loss.name = "loss"
    f = graphc.function([x], [loss, graphc.grad(loss, w), count, states[::-2]], mode="NUMPY")
    return f.requested


def named_dimensions() -> Any:
    x = gx.xtensor("x", dims=("city", "the year"), shape=(3, None), sharding={"city": "data"})
    return [(x * 2).sum("the year").values]


def special_constants() -> Any:
    odd = np.array([0x7FF8000000000123, 0xFFF0000000000000], np.uint64).view(np.float64)
    wide = np.array([complex(-0.0, np.nan), complex(1, -0.0)])
    return [
        gt.vector("x") + gt.constant(odd, bake=True),
        gt.constant(wide) * gt.sum(gt.constant(np.zeros((0, 2)), bake=True)),
        gt.constant(np.arange(30.0), "thirty", bake=True) * gt.vector("y"),
        gt.constant(np.float32(0.1)),
    ]


def inputs_of_every_kind() -> Any:
    generator = gt.random.rng("key")
    following, draw = generator.normal(size=3)
    plain = gt.tensor("twice", shape=(None, 3), sharding=("data", None))
    other = gt.tensor("twice", shape=(None, 3))
    odd = gt.vector('say "x"\n%1')
    nameless = gt.tensor(shape=("n",))
    return [following, draw, gt.shard(plain, ("data", None)) + other, odd * nameless]


def commuting_twins() -> Any:
    """Operands that only their age tells apart, met in the other order."""
    first, second = np.arange(10.0), np.arange(10.0)
    a, b = gt.exp(gt.as_tensor(first)), gt.exp(gt.as_tensor(second))
    return [gt.sin(b), a + b, b * a]


def block_mask() -> Any:
    q, k, v = [gt.tensor(name, dtype="float32", shape=(1, 2, 16, 8)) for name in "qkv"]
    mask = create_block_mask(causal, None, None, 16, 16, BLOCK_SIZE=8).variables("mask")
    y = flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s / (1 + h), block_mask=mask)
    return [y, *graphc.grad(y.sum(), [q, k])]


def minimum() -> Any:
    x, a = gt.scalar("x"), gt.scalar("a")
    options = {"tol": 1e-9, "options": {"maxiter": np.int64(50)}, "bounds": [(None, 9.0)]}
    found, success = gt.optimize.minimize((x - a) ** 2, x, "L-BFGS-B", optimizer_kwargs=options)
    return [found, success, graphc.grad(found, a)]


def checked() -> Any:
    x = gt.vector("x")
    return [graphc.Assert("x rises")(x, x[0] < x[-1]), graphc.Print("x", ("shape",))(x)]


def barriers() -> Any:
    x = gt.scalar("x")
    return [graphc.zero_grad(x), graphc.grad_scale(x, -0.0), graphc.grad_clip(x, -1, np.inf)]


def structures() -> Any:
    """Implicit arrays, nested and of several static fields."""
    x = gt.tensor("x", dtype="float32", shape=(8,))
    sparse = gt.implicit(CSR, (8, 8), "float32", name="a", nse=9)
    base = quantize(np.linspace(-1, 1, 512, dtype="float32").reshape(8, 64))
    a, b = gt.tensor(dtype="float32", shape=(8, 2)), gt.tensor(dtype="float32", shape=(2, 64))
    lora = LoRA(base, a, b)
    return [sparse @ x, gt.as_tensor(sparse), gt.as_tensor(lora)]


def rows() -> Any:
    """Every elementwise function, of the first dtype that it takes."""
    found = []
    for row in ROWS.values():
        dtype = next(d for d in ("float64", "int64", "bool") if row.domain(d) is not None)
        found.append(row(*[gt.tensor(dtype=dtype, shape=(3,)) for _ in range(row.arity)]))
    return found


GRAPHS: dict[str, Any] = {
    made.__name__: made
    for made in (
        *(model, named_dimensions, special_constants, inputs_of_every_kind, commuting_twins),
        *(block_mask, minimum, checked, barriers, structures, rows),
    )
}
"""Graphs by name."""


def every_operation() -> Graph:
    """A graph with every operation that the contract has cases of, of few cases."""
    outputs: list[Any] = []
    made = [ys for name, ys in of_contract() if name not in REFUSED]
    made += [make() for make in (rows, block_mask, minimum, checked, barriers, structures)]
    found = [(ys, names_in(as_graph(ys))) for ys in made]
    left = set[str]().union(*[names for _, names in found])
    for ys, names in sorted(found, key=lambda pair: -len(pair[1])):
        outputs += flatten(ys) if names & left else []
        left -= names
    return as_graph(outputs)
