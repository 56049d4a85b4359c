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

import graphc.attention
import graphc.grad
import graphc.implicit
import graphc.loop
import graphc.optimize
import graphc.random
import graphc.tensor.assertion
import graphc.tensor.print  # noqa: F401 (puts the folders among the modules)
from graphc import errors
from graphc.compile import (
    Function,
    In,
    Mode,
    Out,
    Shared,
    check,
    clone_replace,
    events,
    function,
    get_mode,
    shared,
    streams,
)
from graphc.compile.events import expect_compiles, internal
from graphc.compile.recompile import mark_internal, recompile
from graphc.config import config
from graphc.errors import CapturedConstantWarning, RecompileWarning
from graphc.ir import Graph, Op, dprint, pprint

# PyTensor's names for the modules; its function `grad` takes the name of the folder.
gradient = sys.modules["graphc.grad"]
printing = sys.modules["graphc.tensor.print"]
raise_op = sys.modules["graphc.tensor.assertion"]

from graphc.grad import (  # noqa: E402
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
    verify_grad,
    zero_grad,
)
from graphc.implicit import node  # noqa: E402
from graphc.interop import as_op, wrap_jax, wrap_py  # noqa: E402
from graphc.loop import (  # noqa: E402
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
from graphc.rewrite import explain  # noqa: E402
from graphc.tensor.assertion import Assert, CheckAndRaise  # noqa: E402
from graphc.tensor.print import Print  # noqa: E402
from graphc.tensor.runtime import runtime  # noqa: E402
from graphc.tensor.vectorize import vectorize, vectorize_graph  # noqa: E402

# PyTensor has these beside its arrays too; a lower layer cannot import them.
vars(sys.modules["graphc.tensor"]).update(
    grad=grad,
    hessian=hessian,
    implicit=node.implicit,
    jacobian=jacobian,
    optimize=sys.modules["graphc.optimize"],
    random=sys.modules["graphc.random"],
)
vars(sys.modules["graphc.random"]).update({name: vars(streams)[name] for name in streams.__all__})

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
    "check",
    "clone_replace",
    "cond",
    "config",
    "custom_pullback",
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
    "loop",
    "map",
    "mark_internal",
    "pprint",
    "pullback",
    "pushforward",
    "recompile",
    "reduce",
    "runtime",
    "scan",
    "shared",
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
