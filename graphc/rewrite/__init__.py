"""Equal graphs, better graphs: rules, the engine that applies them, and what they did."""

from graphc.rewrite.explain import Explanation, explain
from graphc.rewrite.passes import PassReport, Rewritten, optimize
from graphc.rewrite.rule import Equation, equation, rewrite, scalar_value

__all__ = [
    "Equation",
    "Explanation",
    "PassReport",
    "Rewritten",
    "equation",
    "explain",
    "optimize",
    "rewrite",
    "scalar_value",
]
