"""What a graph is: types, nodes, graphs, their keys and print. No operation, no backend."""

from graphc.ir.check import check, check_same_interface
from graphc.ir.containers import (
    STATIC,
    flatten,
    flatten_like,
    is_container,
    paths,
    rebuild,
    value_class,
)
from graphc.ir.dtypes import (
    DTYPES,
    dtype_name,
    is_complex,
    is_float,
    is_inexact,
    is_integer,
    is_numeric,
    numpy_dtype,
    promote,
    real_dtype,
)
from graphc.ir.gather import GATHERED, GATHERERS, gathered
from graphc.ir.graph import Graph, refuse_missing, replaced
from graphc.ir.node import TINY, Constant, Input, Leaf, Node, Parameter, Pick, picks, toposort
from graphc.ir.op import Check, Op, encode, is_own_class
from graphc.ir.print import dprint, pprint, preview, tree
from graphc.ir.site import (
    INTERNAL,
    Site,
    derived_from,
    frames_up,
    here,
    is_own,
    mark_own,
    where,
)
from graphc.ir.slot import Slot
from graphc.ir.types import Shape, TensorType, TupleType, Type

__all__ = [
    "DTYPES",
    "GATHERED",
    "GATHERERS",
    "INTERNAL",
    "STATIC",
    "TINY",
    "Check",
    "Constant",
    "Graph",
    "Input",
    "Leaf",
    "Node",
    "Op",
    "Parameter",
    "Pick",
    "Shape",
    "Site",
    "Slot",
    "TensorType",
    "TupleType",
    "Type",
    "check",
    "check_same_interface",
    "derived_from",
    "dprint",
    "dtype_name",
    "encode",
    "flatten",
    "flatten_like",
    "frames_up",
    "gathered",
    "here",
    "is_complex",
    "is_container",
    "is_float",
    "is_inexact",
    "is_integer",
    "is_numeric",
    "is_own",
    "is_own_class",
    "mark_own",
    "numpy_dtype",
    "paths",
    "picks",
    "pprint",
    "preview",
    "promote",
    "real_dtype",
    "rebuild",
    "refuse_missing",
    "replaced",
    "toposort",
    "tree",
    "value_class",
    "where",
]
