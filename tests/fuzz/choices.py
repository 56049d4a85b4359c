"""Where graphc differs from NumPy on purpose, and where the documentation says so.

A program whose result depends on one of these is compared as far as the choice leaves it defined.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CHOICES", "Choice"]


@dataclass(frozen=True)
class Choice:
    """A difference.

    Attributes:
        page: The file that documents it, in docs/.
        says: Words of that page.
        effect: How the fuzzer takes it into account.
    """

    page: str
    says: str
    effect: str


CHOICES = {
    "unknown ones": Choice(
        "migrating.md",
        "only a length known to be 1 broadcasts",
        "a program that broadcasts another length of 1 may be refused, or has NumPy's result",
    ),
    "indices out of bounds": Choice(
        "backends.md",
        "An integer index out of bounds is clamped when reading and ignored when writing",
        "JAX and MLX are not asked to raise NumPy's IndexError",
    ),
    "failing algorithms": Choice(
        "linalg.md",
        "If an algorithm fails on a matrix, or the matrix contains NaN or infinity, its result",
        "no backend is asked to raise NumPy's LinAlgError",
    ),
    "values that decide a shape": Choice(
        "arrays.md",
        "JAX programs have fixed shapes",
        "with a row marked by_value, or until, a program may be refused by JAX, and for a batch",
    ),
    "casts out of range": Choice(
        "backends.md",
        "a float cast to an integer type that cannot",
        "a program with such a cast is not compared",
    ),
    "values set twice": Choice(
        "backends.md",
        "If several values are set at one position, the remaining value is undefined",
        "a program that sets one place twice is not compared",
    ),
    "no NaN is kept": Choice(
        "rewrites.md",
        "a NaN may become a number",
        "a program with a value that is not finite is compared as it is written, on all backends",
    ),
    "signs of zeros": Choice(
        "rewrites.md",
        "The sign of a zero is not kept",
        "the tolerance of rewritten programs is that of both signs",
    ),
    "the last row of no step": Choice(
        "loops.md",
        "turns out to be zero at run time, the last state is the initial state",
        "the oracle's last state of a loop is that",
    ),
    "infinity times zero": Choice(
        "derivatives.md",
        "the chain rule multiplies infinity by zero",
        "slopes are not compared where a row marked cusp gives 0",
    ),
    "what is not computed": Choice(
        "rewrites.md",
        "Expressions that are not computed are not checked",
        "a rewritten program need not raise for operands that its results do not depend on",
    ),
    "dtypes of MLX": Choice(
        "backends.md",
        "MLX lacks the following",
        "a program with complex128 is not run on MLX",
    ),
}
"""The differences by name."""
