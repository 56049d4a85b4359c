"""Rules of elementwise functions, in files by subject.

All of them obey two laws. The result is infinite or NaN only where the original formula is, up to
the rounding of the largest and smallest numbers: ``(a / b) * c`` does not become ``(a * c) / b``,
nor ``x * y + x * z`` ``x * (y + z)``, unless y and z are known to be small. And the result keeps
its digits where the original formula does: ``1 - p + 1e-10`` keeps both constants, as their sum
rounds to 1.

Improvements are welcome: ``x * y / y`` becomes ``x``, also where ``x * y`` overflows or y is 0, so
that a NaN may become a number. The sign of a real zero, and of a quotient by one, may change:
``0 - x`` becomes ``-x``. The signs of zeros select the branch of a complex function, so that the
rules of signs are of real numbers.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
