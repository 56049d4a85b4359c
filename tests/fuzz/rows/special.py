"""Special functions, SciPy's, on arguments where they are defined."""

from __future__ import annotations

from tests.fuzz.row import elementwise, row

DOUBLE = frozenset({"float64"})

UNARY = (
    "erf", "erfc", "erfcx", "erfinv", "gamma", "gammaln", "digamma", "i0", "i1", "i0e", "j0", "j1",
    "expit", "logit", "ndtr", "ndtri", "log_ndtr", "entr", "expi",
)  # fmt: skip
BINARY = ("xlogy", "xlog1py", "beta", "betaln", "gammainc", "gammaincc", "rel_entr", "kl_div")

WITHOUT_SLOPE = {
    **dict.fromkeys(("i0e", "kl_div"), "np.any({0} == 0)"),
    **dict.fromkeys(("gammainc", "gammaincc"), "np.any({0} == 0) or np.any({1} == 0)"),
    "xlogy": "np.any({1} <= 0)",
    "xlog1py": "np.any({1} <= -1)",
}
"""Where a function has no derivative, or an infinite one, as ``exp(-abs(x))`` at 0."""

for _arity, _names in ((1, UNARY), (2, BINARY)):
    for _name in _names:
        _slots = ", ".join(f"{{{i}}}" for i in range(_arity))
        row(
            f"special.{_name}",
            f"{_name}({_slots})" if "beta" in _name else f"scipy.special.{_name}({_slots})",
            elementwise(_arity, DOUBLE),
            f"gt.{_name}({_slots})",
            weight=1,
            ulps=2000,
            broadcasts=True,
            # They cross 0 where the terms that they are made of do not.
            accumulates=_name in {"gammaln", "betaln", "digamma"},
            cusp=_name in {"entr", "rel_entr", "xlogy"},
            edge=WITHOUT_SLOPE.get(_name, "False"),
        )
