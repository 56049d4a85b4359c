"""Modules and names of other libraries that graphc lacks, and what to use; read by errors alone."""

from __future__ import annotations

COMPILER = "PyTensor's compiler has no counterpart; docs/rewrites.md shows custom rewrites."

SPARSE = "Use graphc.implicit.CSR, CSC or BCOO; all functions of arrays take them."
CHECKS = "Use graphc.Mode(name, check_nan=True, check_inf=True), f.verify or f.profile."

REMEDIES = {
    "assumptions": "Use graphc.tensor.assume.",
    "breakpoint": "Use graphc.Print, or mode='NUMPY' and graphc.wrap_py with a breakpoint.",
    "compile": COMPILER,
    "compile.debug": CHECKS,
    "compile.debugmode": CHECKS,
    "compile.monitormode": CHECKS,
    "compile.nanguardmode": "Use graphc.Mode(name, check_nan=True, check_inf=True).",
    "compile.profiling": "Use f.profile(*args).",
    "conditional": "Use graphc.ifelse.",
    "d3viz": "Use f.show(), or graphc.show(graph).",
    "gof": COMPILER,
    "graph.features": COMPILER,
    "graph.fg": "Use graphc.Graph(inputs, outputs), which never changes.",
    "graph.rewriting": "Use graphc.explain to see rewrites; docs/rewrites.md shows how to add one.",
    "interop.onnx": (
        "A package such as jaxonnxruntime turns an ONNX model into a function of JAX, which "
        "graphc.interop.jax.from_jaxpr reads; f.export writes ONNX models."
    ),
    "ipython": "Variables and functions draw themselves in a notebook.",
    "link": "A backend is chosen by mode=.",
    "misc": "PyTensor's tools for its developers have no counterpart.",
    "sandbox": "Use graphc.random.RandomStream.",
    "scalar": "Use graphc.tensor: a scalar is an array without axes.",
    "sparse": SPARSE,
    "tensor.basic_opt": COMPILER,
    "tensor.blockwise": "Use graphc.vectorize.",
    "tensor.fourier": "Use graphc.tensor.fft.",
    "tensor.inplace": "Graphs never change: use functions of graphc.tensor.",
    "tensor.nnet": "Use graphc.tensor: sigmoid, softplus, softmax, signal.conv2d.",
    "tensor.random.op": "Use graphc.random.RandomStream(seed).gen(function, ...).",
    "tensor.raw_random": "Use graphc.random.RandomStream.",
    "tensor.rewriting": COMPILER,
    "tensor.shared_randomstreams": "Use graphc.random.RandomStream.",
    "tensor.signal": "Use convolve1d and convolve2d of graphc.tensor.signal.",
    "tensor.symbolic": "Use graphc.OpFromGraph.",
    "tensor.type_other": "Slices and None are Python's.",
    "tensor.var": "Use graphc.tensor.variable.",
    "tensor.xlogx": "Use graphc.tensor.xlogy.",
    "typed_list": "Use a Python list of arrays, or one array with an axis more.",
    "updates": "Use a dict, or a list of pairs.",
}
"""What to use in place of a module, or of one inside it, by its path without ``graphc.``."""

OWN_OPERATIONS = (
    "Decorate a function of NumPy arrays by graphc.wrap_py, or write an Op with infer, perform and "
    "pullback; docs/operations.md shows both."
)
NAMES = {
    "Apply": OWN_OPERATIONS,
    "COp": OWN_OPERATIONS,
    "Constant": 'Ask hasattr(x, "data").',
    "Elemwise": "Call functions of graphc.tensor.",
    "FunctionGraph": "Use graphc.Graph(inputs, outputs), which never changes.",
    "RandomVariable": "Use graphc.random.RandomStream(seed).gen(function, ...).",
    "TensorConstant": 'Ask hasattr(x, "data").',
    "scan_checkpoints": "Use graphc.scan(..., checkpoint=...).",
}
"""What to use in place of a name that PyTensor's modules have."""

PROGRAM = "f.plan() lists what was compiled, graphc.dprint(f) and f.show() show its graph."
REQUESTED = "f.requested is the graph as it was written, with inputs and outputs."
ATTRIBUTES = {
    "fgraph": PROGRAM,
    "fn": PROGRAM,
    "input_storage": REQUESTED,
    "maker": PROGRAM,
    "output_storage": REQUESTED,
    "trust_input": "Arguments of the right type are hardly checked: leave it out.",
    "vm": PROGRAM,
}
"""What to use in place of an attribute of PyTensor's compiled functions."""

DRAWS = "Keys are gt.random.key(seed); gt.random has the distributions: integers(0, 10, rng=key)."

OTHERS = {
    "graphc": {
        "checkpoint": "Use graphc.scan(..., checkpoint=...).",
        "fori_loop": "Use graphc.scan(step, outputs_info=[x], n_steps=n).",
        "jit": "Use graphc.function([x], y, mode='JAX').",
        "jvp": "Use graphc.pushforward.",
        "lax": "Use graphc.scan, graphc.ifelse and graphc.tensor.",
        "no_grad": "Use graphc.disconnected_grad(x) for what has no gradient.",
        "numpy": "Use graphc.tensor.",
        "pmap": "Use graphc.Mode(name, mesh=...); docs/sharding.md shows how.",
        "stop_gradient": "Use graphc.disconnected_grad(x).",
        "value_and_grad": "Use graphc.function([x], [y, graphc.grad(y, x)]).",
        "vjp": "Use graphc.pullback.",
        "vmap": "Use graphc.vectorize(function, signature).",
    },
    "graphc.tensor": {
        "array": "Use gt.as_tensor.",
        "cat": "Use gt.concatenate.",
        "from_numpy": "Use gt.as_tensor.",
        "jit": "Use graphc.function([x], y, mode='JAX').",
        "nn": "Use gt.relu, softmax, sigmoid, softplus, one_hot, signal.conv2d.",
        "nnet": "Use gt.relu, softmax, sigmoid, softplus, one_hot, signal.conv2d.",
        "trapz": "Use gt.trapezoid.",
    },
    "graphc.random": {
        "PRNGKey": DRAWS,
        "rand": DRAWS,
        "randint": DRAWS,
        "randn": DRAWS,
        "seed": DRAWS,
    },
}
"""What to use in place of names of JAX, NumPy, PyTorch and Theano, by module."""

DTYPES = {
    *("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("bfloat16", "float16", "float32", "float64", "complex64", "complex128"),
}
"""Dtypes, which are names of NumPy, JAX and PyTorch."""

TENSOR_ATTRIBUTES = {
    "at": "Write x[index].set(value), or .inc(value), which return a new array.",
    "backward": "Use graphc.grad(loss, x).",
    "cpu": "A mode says where functions run.",
    "cuda": "A mode says where functions run.",
    "data": "Only constants have data; x.eval({...}) computes a value.",
    "detach": "Use graphc.disconnected_grad(x).",
    "get_value": "Only shared variables have values; x.eval({...}) computes one. The keys of a "
    "RandomStream are in stream.state_updates, and stream.seed(seed) sets them.",
    "grad": "Use graphc.grad(loss, x).",
    "item": "x.eval({...}) computes the value.",
    "numpy": "x.eval({...}) computes the value.",
    "permute": "Use x.transpose(axes).",
    "requires_grad": "graphc.grad(loss, x) takes any floating array.",
    "set_value": "Only shared variables have values: graphc.shared(value).",
    "tag": "There are no test values: x.eval({...}) computes a value.",
    "to": "x.astype(dtype) converts; a mode says where functions run.",
    "tolist": "x.eval({...}) computes the value.",
    "unsqueeze": "Use gt.expand_dims(x, axis).",
    "view": "Use x.reshape(shape).",
}
"""What to use in place of attributes of other libraries' arrays."""

OPTIONS = {
    "accept_inplace": "Graphs never change.",
    "profile": "Call f.profile(*args).",
    "rebuild_strict": "Leave it out: replacements always have the types of what they replace.",
    "strict": "Use graphc.In(x, strict=True).",
    "trust_input": "Leave it out: arguments of the right type are hardly checked.",
}
"""What to write in place of arguments of PyTensor's and Theano's ``function``."""

PAGE = "docs/migrating.md says where PyTensor's names are, and why some are missing."


def problem_of_name(path: str, name: str) -> str:
    """Return the error's text for a name that PyTensor's path of a module lacks."""
    remedy = f" {NAMES[name]}" if name in NAMES else ""
    return f"{path} has no {name!r}.{remedy} {PAGE}"


def remedy_of_name(module: str, name: str) -> str:
    """Return what to write for a name that a module of graphc lacks; empty for unknown names.

    Example:
        >>> remedy_of_name("graphc", "jit")
        "Use graphc.function([x], y, mode='JAX')."
    """
    if module == "graphc.tensor" and name in DTYPES:
        dtype = name.rstrip("_")
        return f'Write dtype="{dtype}", or x.astype("{dtype}").'
    return OTHERS.get(module, {}).get(name) or NAMES.get(name, "")


def problem_of_tensor_attribute(name: str) -> str:
    """Return the error's text for an attribute that a symbolic array lacks."""
    remedy = f" {TENSOR_ATTRIBUTES[name]}" if name in TENSOR_ATTRIBUTES else ""
    return f"A symbolic array has no attribute {name!r}.{remedy}"


def problem_of_attribute(title: str, name: str) -> str:
    """Return the error's text for an attribute that a compiled function lacks."""
    remedy = f" {ATTRIBUTES[name]}" if name in ATTRIBUTES else ""
    return f"{title} has no attribute {name!r}.{remedy}"


def problem(path: str) -> str:
    """Return the error's text for the import of a missing module: the problem and the remedy.

    Example:
        >>> print(problem("graphc.typed_list"))
        No module named 'graphc.typed_list'. Use a Python list of arrays, or one array with
        an axis more. docs/migrating.md says where PyTensor's names are, and why some are missing.
    """
    names = path.split(".")[1:]
    packages = [".".join(names[:n]) for n in range(len(names), 0, -1)]
    remedy = next((f" {REMEDIES[p]}" for p in packages if p in REMEDIES), "")
    return f"No module named {path!r}.{remedy} {PAGE}"
