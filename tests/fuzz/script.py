"""Programs as scripts: NumPy's result and graphc's, printed one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.batches import SIZE, Batch, batch
from tests.fuzz.case import Fault
from tests.fuzz.program import Program

__all__ = ["report", "script"]

HEAD = """\
import numpy as np
from numpy import inf, nan

import graphc
import graphc.tensor as gt
from tests.fuzz.functions import NAMESPACE
from tests.fuzz.program import laid

globals().update(NAMESPACE)
"""


def report(fault: Fault) -> str:
    """A fault as a script to run in the repository's root, which says in its head what is wrong."""
    rules = "as written" if not fault.mode.rewritten else "rewritten"
    what = f"Seed {fault.program.seed}, {fault.mode.backend} {rules}: {fault.kind}.\n\n{fault.what}"
    text = script(fault.program, fault.mode.options(), fault.kind == "slope", fault.mode.declaring)
    many = batch(fault.program) if fault.mode.vectorized else None
    more = "" if many is None else "\n".join(_batched(fault.program, many))
    return f'r"""{what}\n"""\n\n{text}{more}'


def _batched(program: Program, many: Batch) -> Iterator[str]:
    """The code that goes on with a batch of one of a program's variables."""
    shape = f".reshape({many.values.shape})"
    yield f"\nvalues = np.array({many.values.tolist()!r}, {many.values.dtype.name!r}){shape}"
    names = [v.name for v in program.variables]
    others = [name for name in names if name != many.name]
    given = ", ".join("x" if name == many.name else f"{name}_value" for name in names)
    yield f"print('NumPy, one by one:', *[program({given}) for x in values], sep='\\n')"
    typed = f"dtype={many.name}.dtype, shape=({SIZE}, *{many.name}.type.shape)"
    yield f"many = gt.tensor('many', {typed})"
    outputs = ", ".join(many.outputs)
    yield f"together = graphc.vectorize_graph([{outputs}], {{{many.name}: many}})"
    yield f"f = graphc.function([many, {', '.join(others)}], together, mode='NUMPY',"
    yield "    on_unused_input='ignore', returns='numpy')"
    arguments = ", ".join(["values", *(f"{name}_value" for name in others)])
    yield f"print('graphc, together:', f({arguments}), sep='\\n')"


def script(
    program: Program, mode: str = "'NUMPY'", slope: bool = False, declaring: str = ""
) -> str:
    """The code of a program in both languages."""
    return "\n".join([HEAD, *_lines(program, mode, slope, declaring)])


def _lines(program: Program, mode: str, slope: bool, declaring: str) -> Iterator[str]:
    names = [v.name for v in program.variables]
    outputs = ", ".join(program.outputs)
    states = [f"({v.name}, {v.update})" for v in program.states()]
    for v in program.variables:
        yield f"{v.name}_value = {v.value_text()}"
    yield f"\n\ndef program({', '.join(names)}):"
    for call in program.calls:
        yield from ("    " + line for line in call.render("numpy"))
    updates = ", ".join(v.update or v.name for v in program.states())
    yield f"    return [{outputs}], [{updates}]"
    yield "\n"
    values = ", ".join(f"{name}_value" for name in names)
    yield f"print('NumPy:', *program({values}), sep='\\n')"
    for v in program.variables:
        yield f"{v.name} = {v.declared(declaring)}"
    for call in program.calls:
        yield from call.render("graphc")
    inputs = [v.name for v in program.variables if v.update is None]
    if slope:
        floating = [v.name for v in program.variables if v.dtype == "float64"]
        cost = " + ".join(f"gt.sum({y})" for y in program.outputs)
        outputs += f", *graphc.grad({cost}, [{', '.join(floating)}], disconnected_inputs='ignore')"
    yield f"f = graphc.function([{', '.join(inputs)}], [{outputs}], mode=graphc.Mode({mode}),"
    yield f"    updates=[{', '.join(states)}], on_unused_input='ignore', returns='numpy')"
    arguments = ", ".join(f"{name}_value" for name in inputs)
    yield f"print('graphc:', f({arguments}), sep='\\n')"
    if states:
        yield f"print([x.get_value() for x in [{', '.join(v.name for v in program.states())}]])"
