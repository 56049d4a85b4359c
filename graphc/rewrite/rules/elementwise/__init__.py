"""Rules of functions applied to each element, in files of what they speak of.

Two laws hold for all of them. What comes out is not infinite or NaN where the formula as it was
written is not, up to the rounding of the largest and smallest numbers: so ``(a / b) * c`` does not
become ``(a * c) / b``, and ``x * y + x * z`` not ``x * (y + z)``, unless y and z are known to be
small. And where the formula as it was written keeps its digits, so does what comes out: so
``1 - p + 1e-10`` keeps its two constants, of which one would be lost in the other.

The other way round is welcome: ``x * y / y`` becomes ``x``, also where ``x * y`` overflows or y is
0, and what is NaN in the formula alone may then be a number. Nor is the sign of a real zero kept,
or of what is divided by one: ``0 - x`` becomes ``-x``. On it hangs on which side of a cut a complex
number is, so that the rules of signs are of real numbers.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
