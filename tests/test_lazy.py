"""What importing graphc and a first function load; the names that are imported on first use."""

from __future__ import annotations

import ast
import functools
import json
import re
import subprocess
import sys
from collections.abc import Collection
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import graphc
import graphc.implicit
import graphc.random
import graphc.tensor as gt
from graphc.absent import NAMES, OPTIONS, OTHERS, REMEDIES, TENSOR_ATTRIBUTES
from graphc.lazy import PATHS, SOURCES, AbsentFinder, attributes, import_provided, provide

MODULES = [graphc, gt, graphc.implicit, graphc.random]


def run(script: str) -> str:
    """What a script prints in a fresh interpreter."""
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def loaded_by(script: str) -> set[str]:
    """The modules that a script loads in a fresh interpreter, beside NumPy's and Python's own."""
    report = "import sys, json, numpy; before = set(sys.modules)\n{}\n"
    report += "found = {{*sys.modules}} - before\n"
    report += "print(json.dumps([x for x in found if hasattr(sys.modules[x], '__file__')]))"
    found = json.loads(run(report.format(script)).splitlines()[-1])
    return {name for name in found if name.split(".")[0] not in sys.stdlib_module_names}


def folders(modules: Collection[str]) -> set[str]:
    return {".".join(name.split(".")[:2]) for name in modules}


# What is loaded.


def test_import_loads_what_builds_graphs_and_nothing_else() -> None:
    found = loaded_by("import graphc, graphc.tensor")
    names = [
        "config",
        "context",
        "errors",
        "grad",
        "hooks",
        "ir",
        "lazy",
        "loop",
        "providers",
        "site",
        "tensor",
    ]
    assert folders(found) == {"graphc", *(f"graphc.{name}" for name in names)}
    # The __init__.py of a folder lists names, or nothing.
    root = Path(graphc.__file__).parents[1]
    files = [name for name in found if not root.joinpath(*name.split(".")).is_dir()]
    assert len(files) < 130


ATTENTION = """
import jax.numpy as jnp, numpy as np
from graphc.attention import create_block_mask, document, flex_attention
x = jnp.ones((1, 2, 8, 4))
documents = create_block_mask(document(np.arange(8) // 3), 1, 1, 8, 8)
window = create_block_mask(lambda b, h, i, j: jnp.abs(i - j) < 3, 1, 1, 8, 8)
flex_attention(x, x, x, block_mask=documents)
flex_attention(x, x, x, lambda s, b, h, i, j: s - jnp.abs(i - j), window)
"""


def test_flex_attention_of_jax_arrays_loads_no_implicit_arrays_and_no_sparse_matrices() -> None:
    found = loaded_by(ATTENTION)
    assert "graphc.link.jax.attention.kernel" in found
    assert "graphc.link.jax.implicit" not in found
    assert "scipy.sparse" not in found


FIVE = """
import graphc, graphc.tensor as gt
x = gt.vector("x")
f = graphc.function([x], gt.exp(gt.tanh(x) * 2 + 1).sum(), mode={!r})
f([1.0, 2.0])
"""


@pytest.mark.parametrize("mode", graphc.link.names())
def test_a_first_function_loads_no_implicit_arrays_no_attention_of_jax_no_drawing(
    mode: str,
) -> None:
    folders = ("graphc.link.jax.implicit", "graphc.link.jax.attention", "graphc.draw")
    folders += ("graphc.implicit.quantized",)
    if mode != "MLX":  # which divides programs at attention and counts random bits
        folders += ("graphc.implicit.structures", "graphc.attention", "graphc.capture")
        folders += ("graphc.random",)
    if mode == "NUMPY":
        folders += tuple(f"graphc.compile.{name}" for name in ("plan", "pure", "verify"))
    assert not [name for name in loaded_by(FIVE.format(mode)) if name.startswith(folders)]


@pytest.mark.parametrize(
    "line",
    [
        "print((Diagonal(np.ones(2)) @ gt.constant(np.ones(2))).eval(mode='NUMPY'))",
        "print(np.asarray(Diagonal(np.ones(2))).sum(0))",
        "print((gt.constant(np.ones(2)) @ Diagonal(np.ones(2))).eval(mode='NUMPY'))",
        "print(gt.as_tensor(Diagonal(np.ones(2)) * 1.0).sum(0).eval(mode='NUMPY'))",
        "print(np.asarray((Diagonal(np.ones(2)) + Diagonal(np.zeros(2))).values))",
        "print(implicit.tree_map(lambda x: x, Diagonal(np.ones(2))).values)",
    ],
)
def test_an_implicit_array_is_the_first_thing_a_program_uses(line: str) -> None:
    imports = "import numpy as np, graphc.tensor as gt\nfrom graphc import implicit\n"
    assert run(f"{imports}from graphc.implicit import Diagonal\n{line}") == "[1. 1.]\n"


def test_compiling_for_numpy_takes_no_other_library() -> None:
    libraries = {name.split(".")[0] for name in loaded_by(FIVE.format("NUMPY"))}
    assert not libraries & {"jax", "mlx", "scipy"}


@pytest.mark.parametrize("mode", graphc.link.names())
def test_compiling_draws_nothing_from_numpys_global_generator(mode: str) -> None:
    script = "import numpy\nnumpy.random.seed(1)\n" + FIVE.format(mode)
    drawn = run(script + "print(numpy.random.randint(2**30))")
    assert int(drawn) == np.random.RandomState(1).randint(2**30)


# Names imported on first use.


def declared(module: ModuleType) -> dict[str, tuple[str, str]]:
    """Each name that a module imports for type checkers alone, with its source."""
    tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in imports
        for alias in node.names
        if alias.name != "*"  # all that a stub declares is imported at run time too
    }


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_type_checkers_see_the_names_that_are_imported_on_first_use(module: ModuleType) -> None:
    found = declared(module)
    assert found
    assert found.keys() == SOURCES[module.__name__].keys()
    for name, (path, attribute) in found.items():
        given = import_provided(module.__name__, name)
        if isinstance(given, ModuleType):
            assert given is import_module(f"{path}.{attribute}")
        else:
            assert given is getattr(import_module(path), attribute)
        assert getattr(module, name) is given
        assert name in dir(module)


def test_a_name_is_imported_once_and_kept() -> None:
    namespace = {"__name__": "tests.test_lazy"}
    provide("tests.test_lazy", modules=["os.path"], names={"math": "tau"})
    attribute, names = attributes(namespace)
    assert names() == ["__name__", "path", "tau"]
    assert namespace == {"__name__": "tests.test_lazy"}
    assert attribute("path") is import_module("os.path")
    assert namespace["path"] is import_module("os.path")
    assert attribute("tau") == namespace["tau"] == import_module("math").tau


def test_an_unknown_name_of_an_operation_is_refused_where_pytensor_is_missing() -> None:
    script = """
import sys
sys.modules["pytensor"] = None
import graphc.implicit, graphc.interop.pytensor
try:
    graphc.implicit.register("SolveTriangles")
except graphc.errors.ImplicitArrayError as error:
    print("SolveTriangular" in str(error))
"""
    assert run(script) == "True\n"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_an_unknown_name_is_an_ordinary_error(module: ModuleType) -> None:
    with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'exq'"):
        _ = module.exq
    with pytest.raises(ImportError, match="cannot import name 'exq'"):
        exec(f"from {module.__name__} import exq")


def test_every_way_of_asking_works_in_a_fresh_interpreter() -> None:
    script = "import pydoc, graphc; pydoc.render_doc(graphc); print(graphc.function.__name__)"
    assert run(script) == "function\n"
    assert run("from graphc import *; print(function.__name__, grad.__name__)") == "function grad\n"
    script = "import graphc.tensor as gt; print(gt.zeros(2).eval(mode='NUMPY'))"
    assert run(script) == "[0. 0.]\n"
    script = "import graphc; print(graphc.random.normal(size=3).type, graphc.optimize.__name__)"
    assert run(script) == "float64[3] graphc.optimize\n"
    script = "from graphc.tensor import grad, implicit, random; print(random.RandomStream.__name__)"
    assert run(script) == "RandomStream\n"


def test_functions_keep_their_names_whatever_is_imported_later() -> None:
    script = """
import graphc, graphc.tensor.linalg, graphc.compile, graphc.grad.reverse, graphc.loop.scan
print(type(graphc.grad).__name__, type(graphc.loop).__name__, type(graphc.config).__name__)
print(graphc.gradient.__name__, graphc.printing.__name__, graphc.raise_op.__name__)
"""
    assert run(script).split() == [
        *("function", "function", "Config"),
        *("graphc.gradient", "graphc.printing", "graphc.raise_op"),
    ]


# Paths of modules without a file.


HOMES = (
    *(
        "graphc",
        "graphc.compile",
        "graphc.draw.show",
        "graphc.errors",
        "graphc.graph",
        "graphc.grad",
    ),
    *("graphc.ir", "graphc.optimize", "graphc.random", "graphc.tensor", "graphc.tensor.linalg"),
    *("graphc.tensor.core.assertion", "graphc.tensor.signal"),
    "graphc.xtensor.random",
)


def test_every_path_has_names_which_are_those_of_other_modules() -> None:
    homes = [import_module(name) for name in HOMES]
    for path in PATHS:
        module = import_module(path)
        assert dir(module)
        for name in dir(module):
            own = [getattr(home, name, None) for home in homes]
            other = SOURCES.get(path, {}).get(name, ("", name))[1]
            assert other != name or getattr(module, name) in own
    assert import_module("graphc.compile.sharedvalue").SharedVariable is graphc.compile.Shared
    assert import_module("graphc.graph.basic").Variable is graphc.ir.Node
    types = import_module("graphc.tensor.type")
    assert {*types.discrete_dtypes} == {*types.all_dtypes} - {*types.continuous_dtypes}
    assert import_module("graphc.tensor.random.type").random_generator_type is graphc.random.rng


WAYS = """
from graphc.tensor.random.utils import RandomStream
import graphc, graphc.scan, graphc.tensor.shape, graphc.tensor.random.utils, graphc.compile.builders
import graphc.tensor.nlinalg as nlinalg
from graphc.scan import foldl, scan, until
from graphc.gradient import grad
from graphc.tensor.math import sum as total
from graphc.compile import UnusedInputError, as_op
from graphc.tensor.slinalg import *

assert graphc.random.RandomStream is RandomStream
assert graphc.tensor.random.utils.RandomStream is RandomStream
assert graphc.scan is scan and graphc.until is until and graphc.foldl is foldl
assert graphc.tensor.shape([1]).type.shape == (1,) and graphc.tensor.sum is total
assert graphc.compile.builders.OpFromGraph is graphc.OpFromGraph and as_op is graphc.as_op
assert nlinalg.det is graphc.tensor.linalg.det and solve is graphc.tensor.linalg.solve
assert graphc.errors.UnusedInputError is UnusedInputError and graphc.gradient.grad is grad
"""


def test_a_path_may_be_imported_first_and_functions_stay_functions() -> None:
    run(WAYS)


def test_a_name_that_a_path_has_not_points_at_the_page() -> None:
    with pytest.raises(ImportError, match=r"graphc.tensor.math has no 'exq'. docs/migrating.md"):
        exec("from graphc.tensor.math import exq")
    assert not hasattr(import_module("graphc.tensor.math"), "exq")
    with pytest.raises(ImportError, match=r"has no 'Apply'. .*wrap_py, .* docs/operations.md"):
        exec("from graphc.graph.basic import Apply")
    with pytest.raises(AttributeError, match=r"graphc.graph has no 'exq'. docs/migrating.md"):
        _ = import_module("graphc.graph").exq


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("tensor.exq", "docs/migrating.md"),
        ("scan.op", "docs/migrating.md"),
        ("compile.nanguardmode", "check_nan=True"),
        ("tensor.nnet.conv", "signal.conv2d"),
        ("graph.rewriting.basic", "docs/rewrites.md"),
        ("interop.onnx", "graphc.interop.jax.from_jaxpr"),
    ],
)
def test_the_import_of_a_module_that_is_not_there_says_what_to_do(path: str, remedy: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=re.escape(remedy)) as error:
        exec(f"from graphc.{path} import x")
    assert f"graphc.{path}".startswith(error.value.name or "?")


def test_modules_and_names_that_are_said_to_be_absent_are() -> None:
    assert not [name for name in NAMES for path in PATHS if hasattr(import_module(path), name)]
    for path in REMEDIES.keys() - {"compile", "link", "tensor.signal"}:
        with pytest.raises(ModuleNotFoundError, match=re.escape(REMEDIES[path])):
            import_module(f"graphc.{path}")


@pytest.mark.parametrize("module", OTHERS)
def test_names_of_other_libraries_answer_with_what_to_write(module: str) -> None:
    for name, remedy in OTHERS[module].items():
        text = re.escape(f"module {module!r} has no attribute {name!r}. {remedy}")
        with pytest.raises(AttributeError, match=text):
            getattr(import_module(module), name)
        with pytest.raises(ImportError, match=text):
            exec(f"from {module} import {name}")


def test_dtypes_are_no_names_of_arrays() -> None:
    with pytest.raises(AttributeError, match=r'Write dtype="int8", or x.astype\("int8"\)'):
        _ = graphc.tensor.int8


@pytest.mark.parametrize("name", TENSOR_ATTRIBUTES)
def test_attributes_of_other_libraries_arrays_answer_with_what_to_write(name: str) -> None:
    x = graphc.tensor.vector("x")
    with pytest.raises(AttributeError, match=re.escape(TENSOR_ATTRIBUTES[name])):
        getattr(x, name)
    assert not hasattr(x, name)


def test_remedies_name_what_there_is() -> None:
    texts = [*TENSOR_ATTRIBUTES.values(), *OPTIONS.values()]
    texts += [text for remedies in OTHERS.values() for text in remedies.values()]
    names = {"graphc": graphc, "gt": graphc.tensor}
    for path in re.findall(r"\b(?:graphc|gt)(?:\.\w+)+", " ".join(texts)):
        first, *parts = path.split(".")
        assert functools.reduce(getattr, parts, names[first]) is not None, path


def test_only_imports_that_fail_reach_the_last_finder() -> None:
    # Other libraries may have put finders behind it since.
    assert sys.meta_path.index(AbsentFinder) > sys.meta_path.index(PathFinder)
    assert AbsentFinder.find_spec("json.absent", json.__path__) is None
    assert AbsentFinder.find_spec("graphc.tensor.absent", ["elsewhere"]) is None
    assert "graphc.absent" not in loaded_by("import graphc, graphc.tensor, graphc.scan.utils")
