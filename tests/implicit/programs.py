"""Small programs of every kind that JAX has, each on a weight that may be implicit.

There is one int8 array, and one handler of ``dot_general``. A program is a function of a weight w,
(6, 6), and dense x, (5, 6); it calls ``implicit`` where a user would. It is one of three:

- *hit*: the handler is reached, and nothing becomes whole.
- *dense*: right, but the weight becomes whole in some place; what it is registered with says why.
- *error*: what can't be; the message says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.implicit import ImplicitArray, implicit, register

HITS: list[str] = []
"""What the handler has computed."""


@dataclass(frozen=True, repr=False)
class Int8(ImplicitArray):
    """Integers and one factor, or a stack of such."""

    values: Any
    scale: Any

    def materialize(self) -> Any:
        return self.values.astype(self.scale.dtype) * self.scale[..., None, None]


@register("dot_general")
def product(
    a: jax.Array | Int8,
    b: jax.Array | Int8,
    *,
    dimension_numbers: Any,
    preferred_element_type: Any = None,
    **_: Any,
) -> Any:
    """A product by the integers, times the factors."""
    if isinstance(a, Int8) and isinstance(b, Int8):
        return NotImplemented
    side = 0 if isinstance(a, Int8) else 1
    given = (a, b)[side]
    stacked = given.scale.ndim
    if min(dimension_numbers[0][side]) < stacked:
        return NotImplemented
    parts = [x.values.astype(x.scale.dtype) if isinstance(x, Int8) else x for x in (a, b)]
    y = lax.dot_general(*parts, dimension_numbers, preferred_element_type=preferred_element_type)
    HITS.append("dot_general")
    axes = axes_of(side, given.ndim, y.ndim, dimension_numbers)
    order = [axis for axis in axes if 0 <= axis < stacked]
    lengths = [given.shape[axis] if axis in order else 1 for axis in axes]
    return (y * given.scale.transpose(order).reshape(lengths)).astype(y.dtype)


def axes_of(side: int, ndim: int, result: int, dimension_numbers: Any) -> list[int]:
    """For each axis of a product, which axis of the operand on that side it is; -1 for none."""
    contract, batch = dimension_numbers
    free = [i for i in range(ndim) if i not in (*contract[side], *batch[side])]
    others = [-1] * (result - len(free) - len(batch[side]))
    return [*batch[side], *([*free, *others] if side == 0 else [*others, *free])]


Run = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Program:
    """A program and what becomes of it.

    Attributes:
        run: Of the weight and x.
        kind: ``"hit"``, ``"dense"`` or ``"error"``.
        why: Why the weight becomes whole, or the error's message.
        stack: How many weights w has; None for a single one.
    """

    run: Run
    kind: str
    why: str = ""
    stack: int | None = None


PROGRAMS: dict[str, Program] = {}


def entered(kind: str, why: str = "", stack: int | None = None) -> Callable[[Run], Run]:
    def enter(run: Run) -> Run:
        assert run.__name__ not in PROGRAMS
        PROGRAMS[run.__name__] = Program(run, kind, why, stack)
        return run

    return enter


hit = entered("hit")
stacked = entered("hit", stack=5)


def dense(why: str) -> Callable[[Run], Run]:
    return entered("dense", why)


ENTRYWISE = "elementwise operations have no handler"
ELSEWHERE = "an operation that moves elements has no handler"


def simple(kind: str, why: str, /, **functions: Callable[..., Any]) -> None:
    """Enter programs that are one implicit function of x and w."""
    for name, f in functions.items():

        def run(w: Any, x: Any, f: Callable[..., Any] = f) -> Any:
            return implicit(f)(x, w)

        run.__name__ = name
        entered(kind, why)(run)


simple(
    "hit",
    "",
    right=lambda x, w: x @ w,
    left=lambda x, w: w @ x.T,
    dot=jnp.dot,
    matmul=jnp.matmul,
    einsum=lambda x, w: jnp.einsum("ij,jk->ik", x, w),
    einsum_other_axis=lambda x, w: jnp.einsum("ij,kj->ik", x, w),
    einsum_of_three_axes=lambda x, w: jnp.einsum("bij,jk->bik", x[None], w),
    einsum_of_three_arrays=lambda x, w: jnp.einsum("ij,jk,lk->il", x, w, x),
    dot_general=lambda x, w: lax.dot_general(x, w, (((1,), (0,)), ((), ()))),
    preferred_type=lambda x, w: jnp.matmul(x, w, preferred_element_type=jnp.float32),
    half_precision=lambda x, w: jnp.matmul(
        x.astype(jnp.bfloat16), w, preferred_element_type=jnp.float32
    ),
    precision=partial(jnp.matmul, precision="highest"),
    tensordot=lambda x, w: jnp.tensordot(x, w, 1),
    inner=jnp.inner,
    vector_matrix=lambda x, w: x[0] @ w,
    matrix_vector=lambda x, w: w @ x[0],
    batched_input=lambda x, w: jnp.stack([x, 2 * x]) @ w,
    multi_dot=lambda x, w: jnp.linalg.multi_dot([x, w, x.T]),
    chained=lambda x, w: x @ w @ w,
    vmapped_rows=lambda x, w: jax.vmap(lambda row: row @ w)(x),
    vmapped_twice=lambda x, w: jax.vmap(jax.vmap(lambda a: a * (x @ w)))(x),
    jitted=jax.jit(jnp.matmul),
    jitted_twice=jax.jit(lambda x, w: jax.jit(jnp.matmul)(x, w) + 1),
    relu=lambda x, w: jax.nn.relu(x @ w),
    silu=lambda x, w: jax.nn.silu(x @ w),
    gelu=lambda x, w: jax.nn.gelu(x @ w),
    softmax=lambda x, w: jax.nn.softmax(x @ w),
    logsumexp=lambda x, w: jax.nn.logsumexp(x @ w, axis=1),
    checkpoint=jax.checkpoint(lambda x, w: jnp.tanh(x @ w)),
    scoped=jax.named_call(jnp.matmul, name="product"),
    stopped=lambda x, w: x @ lax.stop_gradient(w),
    behind_a_barrier=lambda x, w: jnp.matmul(*lax.optimization_barrier((x, w))),
    where_beside=lambda x, w: jnp.where(x > 0, x @ w, 0.0),
    sliced_result=lambda x, w: lax.dynamic_slice(x @ w, (1, 1), (2, 2)),
    shape_in_python=lambda x, w: (x @ w) * w.shape[0] / w.ndim / w.size,
    random_beside=lambda x, w: x @ w + jax.random.normal(jax.random.key(0), x.shape),
    dropout=lambda x, w: jnp.where(jax.random.bernoulli(jax.random.key(1), 0.5, x.shape), x, 0) @ w,
    normalised=lambda x, w: ((y := x @ w) - y.mean(1, keepdims=True)) / (y.std(1) + 1)[:, None],
)

simple(
    "dense",
    ELSEWHERE,
    transposed_first=lambda x, w: x @ w.T,
    reshaped=lambda x, w: x @ w.reshape(36).reshape(6, 6),
    part_of_it=lambda x, w: x[:, :3] @ w[:3],
    dynamic_part_of_it=lambda x, w: lax.dynamic_slice(w, (x[0, 0].astype(int), 0), (2, 6)),
    looked_up=lambda x, w: w[jnp.array([[0, 3], [5, 5]])],
    concatenated=lambda x, w: x @ jnp.concatenate([w, w], 1),
    sorted_entries=lambda x, w: jnp.sort(w, axis=0),
)
simple(
    "dense",
    ENTRYWISE,
    plus_one=lambda x, w: x @ (w + 1),
    masked=lambda x, w: x @ jnp.where(jnp.tri(6) > 0, w, 0),
    exponential=lambda x, w: jnp.exp(w),
    cast=lambda x, w: w.astype(jnp.float16).astype(jnp.float32),
    relu_of_it=lambda x, w: x @ jax.nn.relu(w),
    clipped=lambda x, w: x @ jnp.clip(w, -0.5, 0.5),
)
simple(
    "dense",
    "an operation on all elements has no handler",
    summed=lambda x, w: jnp.sum(w) + x,
    normed=lambda x, w: x / jnp.linalg.norm(w),
    cumulated=lambda x, w: x @ jnp.cumsum(w, 0),
    largest=lambda x, w: jnp.argmax(w, 1),
    solved=lambda x, w: jnp.linalg.solve(w + 9 * jnp.eye(6), x.T),
    squared=lambda x, w: w @ w,
    convolved=lambda x, w: lax.conv(x[None, None], w[None, None, :3, :3], (1, 1), "SAME"),
    by_callback=lambda x, w: jax.pure_callback(
        np.asarray, jax.ShapeDtypeStruct((6, 6), jnp.float32), w
    ),
)


# Around and within compiled functions.


@hit
def jit_around(w: Any, x: Any) -> Any:
    return jax.jit(implicit(jnp.matmul))(x, w)


@hit
def jit_with_static_arguments(w: Any, x: Any) -> Any:
    @partial(jax.jit, static_argnames="times")
    def f(x: Any, w: Any, times: int) -> Any:
        return times * (x @ w)

    return implicit(f)(x, w, times=3)


@hit
def jit_with_donation(w: Any, x: Any) -> Any:
    donating = jax.jit(lambda x, w: jnp.tanh(x @ w)[:, :6], donate_argnums=0)
    return implicit(lambda x, w: donating(x + 1, w))(x, w)


@hit
def jit_around_with_donation(w: Any, x: Any) -> Any:
    return jax.jit(implicit(lambda x, w: x @ w), donate_argnums=0)(x + 1, w)


@hit
def compiled_ahead(w: Any, x: Any) -> Any:
    return jax.jit(implicit(jnp.matmul)).lower(x, w).compile()(x, w)


@hit
def shapes_alone(w: Any, x: Any) -> Any:
    y = jax.eval_shape(implicit(jnp.matmul), x, w)
    return jnp.zeros(y.shape, y.dtype)


@hit
def as_a_program(w: Any, x: Any) -> Any:
    program = jax.make_jaxpr(implicit(jnp.matmul))(x, w)
    return jnp.stack(jax.core.eval_jaxpr(program.jaxpr, program.consts, *jax.tree.leaves((x, w))))


@hit
def static_numbers_beside(w: Any, x: Any) -> Any:
    return implicit(lambda x, w, name, n: {"sum": x @ w, "diff": -(x @ w)}[name] * n)(
        x, w, "diff", 2
    )


# Containers of weights.


class Layer(NamedTuple):
    w: Any
    b: Any


@partial(jax.tree_util.register_dataclass, data_fields=["first", "others"], meta_fields=["name"])
@dataclass(frozen=True)
class Network:
    first: Layer
    others: list[dict[str, Any]]
    name: str = "network"


def layers(x: Any, network: Network) -> Any:
    x = jnp.tanh(x @ network.first.w + network.first.b)
    for layer in network.others:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x


def network_of(w: Any) -> Network:
    b = jnp.linspace(0, 1, 6)
    return Network(Layer(w, b), [{"w": w, "b": 2 * b}, {"w": w, "b": -b}])


@hit
def in_containers(w: Any, x: Any) -> Any:
    return implicit(layers)(x, network_of(w))


@hit
def by_keyword(w: Any, x: Any) -> Any:
    return implicit(lambda *, inputs, weight: inputs @ weight)(weight=w, inputs=x)


@hit
def beside_none(w: Any, x: Any) -> Any:
    return implicit(lambda x, tree: x @ tree["w"] if tree["b"] is None else x)(
        x, {"w": w, "b": None}
    )


@hit
def gradient_by_biases(w: Any, x: Any) -> Any:
    def loss(b: Any, w: Any) -> Any:
        return (layers(x, Network(Layer(w, b), [{"w": w, "b": b}])) ** 2).sum()

    return implicit(jax.grad(loss))(jnp.ones(6), w)


@hit
def results_in_containers(w: Any, x: Any) -> Any:
    return implicit(lambda x, w: {"y": (x @ w, [x]), "shape": w.shape})(x, w)["y"]


@hit
def captured_in_operators(w: Any, x: Any) -> Any:
    return implicit(lambda x: x @ w)(x)


@hit
def captured_in_functions(w: Any, x: Any) -> Any:
    return implicit(lambda x: jnp.dot(x, w))(x)


@hit
def in_operators_alone(w: Any, x: Any) -> Any:
    return x @ w


@hit
def decorated(w: Any, x: Any) -> Any:
    @implicit
    def f(x: Any, w: Any) -> Any:
        return x @ w

    return f(x, w)


@hit
def implicit_within_implicit(w: Any, x: Any) -> Any:
    return implicit(lambda x, w: jnp.tanh(implicit(jnp.matmul)(x, w)))(x, w)


def one_device() -> jax.sharding.Mesh:
    return jax.make_mesh((1,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))


@hit
def on_one_device_of_a_mesh(w: Any, x: Any) -> Any:
    mesh = one_device()
    rows, every = jax.sharding.PartitionSpec("rows"), jax.sharding.PartitionSpec()
    f = jax.shard_map(
        lambda x, w: lax.psum(x @ w, "rows"), mesh=mesh, in_specs=(rows, every), out_specs=every
    )
    return implicit(f)(x, w)


@hit
def on_a_mesh_around(w: Any, x: Any) -> Any:
    mesh = one_device()
    rows, every = jax.sharding.PartitionSpec("rows"), jax.sharding.PartitionSpec()
    f = implicit(lambda x, w: x @ w)
    return jax.shard_map(f, mesh=mesh, in_specs=(rows, every), out_specs=rows)(x, w)


@stacked
def vmap_of_a_stack(w: Any, x: Any) -> Any:
    return implicit(jax.vmap(jnp.matmul, (None, 0)))(x, w)


@stacked
def vmap_around_a_stack(w: Any, x: Any) -> Any:
    return jax.vmap(implicit(jnp.matmul), (None, 0))(x, w)


@stacked
def vmap_of_both(w: Any, x: Any) -> Any:
    return implicit(jax.vmap(jnp.matmul))(x, w)


@stacked
def batched_product(w: Any, x: Any) -> Any:
    return implicit(jnp.matmul)(jnp.stack([x] * 5), w)


@stacked
def vmap_around_a_gradient(w: Any, x: Any) -> Any:
    return jax.vmap(jax.grad(implicit(lambda x, w: (x @ w).sum())))(x, w)


@stacked
def one_of_a_stack(w: Any, x: Any) -> Any:
    return implicit(lambda x, w: x @ w[2])(x, w)
