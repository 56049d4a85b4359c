"""graphc: symbolic arrays, derivatives and loops, compiled for JAX or MLX, or run by NumPy.

Example:
    >>> import graphc
    >>> import graphc.tensor as gt
    >>> x = gt.vector("x")
    >>> loss = (gt.tanh(x) ** 2).sum()
    >>> step = graphc.function([x], [loss, graphc.grad(loss, x)], mode="NUMPY")
    >>> [y.tolist() for y in step([0.0, 1000.0])]
    [1.0, [0.0, 0.0]]
"""

import sys
from typing import TYPE_CHECKING

from graphc import errors, lazy, providers as _providers  # noqa: F401 (it provides what lower layers call)
from graphc.config import config
from graphc.errors import CapturedConstantWarning, RecompileWarning
from graphc.grad import (
    Lop,
    Rop,
    disconnected_grad,
    grad,
    grad_clip,
    grad_scale,
    hessian,
    hessian_vector_product,
    jacobian,
    pullback,
    pushforward,
    subgraph_grad,
    verify_grad,
    zero_grad,
)
from graphc.ir import Graph, Op, dprint, pprint
from graphc.loop import (
    OpFromGraph,
    cond,
    custom_pullback,
    foldl,
    foldr,
    ifelse,
    loop,
    map,
    reduce,
    scan,
    switch_case,
    until,
    while_loop,
)
from graphc.tensor.arrays.vectorize import vectorize, vectorize_graph
from graphc.tensor.core.assertion import Assert, CheckAndRaise
from graphc.tensor.core.print import Print
from graphc.tensor.core.runtime import runtime
from graphc.tensor.core.tensor import as_tensor

# Other names that PyTensor has for the same.
as_symbolic = as_tensor
pp = pprint

if TYPE_CHECKING:
    # PyTensor's paths of the modules; `graphc.grad` is the function.
    import graphc.grad as gradient
    import graphc.tensor.core.assertion as raise_op
    import graphc.tensor.core.print as printing
    from graphc import (
        attention as attention,
        capture as capture,
        compile as compile,
        distributed as distributed,
        draw as draw,
        export as export,
        implicit as implicit,
        interop as interop,
        link as link,
        optimize as optimize,
        random as random,
        rewrite as rewrite,
        xtensor as xtensor,
    )
    from graphc.compile import events
    from graphc.compile.ahead import compile_ahead
    from graphc.compile.arguments import In, Out
    from graphc.compile.events import expect_compiles, internal
    from graphc.compile.function import Function, function
    from graphc.compile.mode import Mode, get_mode
    from graphc.compile.recompile import mark_internal, recompile
    from graphc.compile.shared import Shared, shared
    from graphc.compile.specification import check, clone_replace
    from graphc.draw.show import show
    from graphc.export import deserialize, load, serialize
    from graphc.interop.wrap import wrap_jax
    from graphc.interop.wrap_py import as_op, wrap_py
    from graphc.link.jax.mesh import mesh
    from graphc.rewrite.explain import explain
else:
    # Imported when they are first used: most programs need few of them.
    lazy.provide(
        __name__,
        modules=(
            "graphc.attention",
            "graphc.capture",
            "graphc.compile",
            "graphc.compile.events",
            "graphc.distributed",
            "graphc.draw",
            "graphc.export",
            "graphc.implicit",
            "graphc.interop",
            "graphc.link",
            "graphc.optimize",
            "graphc.random",
            "graphc.rewrite",
            "graphc.xtensor",
        ),
        names={
            "graphc.compile.ahead": "compile_ahead",
            "graphc.compile.arguments": "In Out",
            "graphc.compile.events": "expect_compiles internal",
            "graphc.compile.function": "Function function",
            "graphc.compile.mode": "Mode get_mode",
            "graphc.compile.recompile": "mark_internal recompile",
            "graphc.compile.shared": "Shared shared",
            "graphc.compile.specification": "check clone_replace",
            "graphc.draw.show": "show",
            "graphc.export": "deserialize load serialize",
            "graphc.interop.wrap": "wrap_jax",
            "graphc.interop.wrap_py": "as_op wrap_py",
            "graphc.link.jax.mesh": "mesh",
            "graphc.rewrite.explain": "explain",
        },
    )
    __getattr__, __dir__ = lazy.attributes(globals(), "__version__ as_tensor ir tensor")

# PyTensor has these beside its arrays too; a lower layer cannot import them.
lazy.provide(
    "graphc.tensor",
    modules=("graphc.optimize", "graphc.random"),
    names={
        "graphc.grad": "grad hessian jacobian",
        "graphc.implicit.node": "implicit",
        "graphc.tensor.core.all_sum": "all_mean all_sum",  # few programs need it
    },
)
lazy.provide(
    "graphc.tensor.linalg",
    names={
        "graphc.implicit.krylov.conjugate": "SolverInfo",
        "graphc.implicit.krylov.functions": "bicgstab cg eigsh inv_quad_logdet lanczos "
        "low_rank_preconditioner pivoted_cholesky stochastic_logdet",
        "graphc.implicit.krylov.lanczos": "Tridiagonal",
        "graphc.implicit.krylov.logdet": "StochasticLogdet",
        "graphc.implicit.krylov.pivoted": "LowRankPreconditioner",
        "graphc.implicit.sparse_cholesky": "SparseCholesky sparse_cholesky",
    },
)
lazy.provide(
    "graphc.random",
    names={"graphc.compile.streams": "RandomStream SharedGenerator default_rng shared_rng"},
)
# The paths of PyTensor's modules: the names of these modules.
lazy.add_paths(
    {
        "graphc": "graphc.configdefaults graphc.ifelse graphc.scan graphc.scan.basic "
        "graphc.scan.utils graphc.scan.views",
        "graphc.compile": "graphc.compile.builders graphc.compile.io graphc.compile.ops "
        "graphc.compile.sharedvalue",
        "graphc.grad": "graphc.gradient",
        "graphc.graph": "graphc.graph.basic graphc.graph.op graphc.graph.replace "
        "graphc.graph.traversal graphc.graph.type",
        "graphc.optimize": "graphc.tensor.optimize",
        "graphc.random": "graphc.random.basic graphc.random.type graphc.random.utils "
        "graphc.random.variable graphc.tensor.random graphc.tensor.random.basic "
        "graphc.tensor.random.type graphc.tensor.random.utils graphc.tensor.random.variable",
        "graphc.tensor": "graphc.tensor.basic graphc.tensor.blas graphc.tensor.einsum "
        "graphc.tensor.elemwise graphc.tensor.extra_ops graphc.tensor.functional "
        "graphc.tensor.interpolate graphc.tensor.math graphc.tensor.pad graphc.tensor.reshape "
        "graphc.tensor.shape graphc.tensor.sharedvar graphc.tensor.sort graphc.tensor.subtensor "
        "graphc.tensor.type graphc.tensor.variable",
        "graphc.tensor.linalg graphc.tensor": "graphc.tensor.nlinalg graphc.tensor.slinalg "
        "graphc.tensor.linalg.constructors graphc.tensor.linalg.decomposition "
        "graphc.tensor.linalg.products graphc.tensor.linalg.solvers graphc.tensor.linalg.summary",
        "graphc.tensor.signal": "graphc.tensor.signal.conv",
        "graphc.xtensor.random": "graphc.xtensor.random.basic graphc.xtensor.random.type "
        "graphc.xtensor.random.variable",
        "": "graphc.graph graphc.printing graphc.raise_op",
    }
)
lazy.provide(
    "graphc.compile",
    names={
        "graphc.compile.shared": "SharedVariable=Shared",
        "graphc.errors": "MissingInputError UnusedInputError",
        "graphc.interop.wrap_py": "as_op wrap_py",
        "graphc.loop": "OpFromGraph",
    },
)
lazy.provide(
    "graphc.gradient",
    names={
        "graphc.errors": "DisconnectedInputError",
        "graphc.grad": "pushforward_through_pullback=pushforward",
        "graphc.tensor.arrays.vectorize": "vectorize_graph",
    },
)
lazy.provide(
    "graphc.graph",
    names={
        "graphc.compile.specification": "clone_replace graph_replace=clone_replace",
        "graphc.ir": "Op Type Variable=Node ancestors explicit_graph_inputs graph_inputs",
        "graphc.tensor.arrays.vectorize": "vectorize_graph",
    },
)
lazy.provide(
    "graphc.printing",
    names={
        "graphc.draw.show": "pydotprint",
        "graphc.ir": "debugprint=dprint dprint pp=pprint pprint",
        "graphc.tensor.core.print": "Print",
    },
)
lazy.provide(
    "graphc.tensor.type",
    names={
        "graphc.ir.dtypes": "all_dtypes=DTYPES complex_dtypes=COMPLEX continuous_dtypes=CONTINUOUS "
        "discrete_dtypes=DISCRETE float_dtypes=FLOATS int_dtypes=SIGNED integer_dtypes=INTEGERS "
        "uint_dtypes=UNSIGNED",
    },
)
for _path in ("random", "tensor.random"):
    lazy.provide(f"graphc.{_path}.type", names={"graphc.random": "random_generator_type=rng"})
lazy.provide(
    "graphc.raise_op", names={"graphc.tensor.core.assertion": "Assert CheckAndRaise assert_op"}
)

sys.meta_path.append(lazy.AbsentFinder)

__version__ = "0.1.0"

__all__ = [
    "Assert",
    "CapturedConstantWarning",
    "CheckAndRaise",
    "Function",
    "Graph",
    "In",
    "Lop",
    "Mode",
    "Op",
    "OpFromGraph",
    "Out",
    "Print",
    "RecompileWarning",
    "Rop",
    "Shared",
    "as_op",
    "as_symbolic",
    "check",
    "clone_replace",
    "compile_ahead",
    "cond",
    "config",
    "custom_pullback",
    "deserialize",
    "disconnected_grad",
    "dprint",
    "errors",
    "events",
    "expect_compiles",
    "explain",
    "foldl",
    "foldr",
    "function",
    "get_mode",
    "grad",
    "grad_clip",
    "grad_scale",
    "gradient",
    "hessian",
    "hessian_vector_product",
    "ifelse",
    "internal",
    "jacobian",
    "load",
    "loop",
    "map",
    "mark_internal",
    "mesh",
    "pp",
    "pprint",
    "printing",
    "pullback",
    "pushforward",
    "raise_op",
    "recompile",
    "reduce",
    "runtime",
    "scan",
    "serialize",
    "shared",
    "show",
    "subgraph_grad",
    "switch_case",
    "until",
    "vectorize",
    "vectorize_graph",
    "verify_grad",
    "while_loop",
    "wrap_jax",
    "wrap_py",
    "zero_grad",
]
