"""Symbolic arrays, written as in NumPy: ``import graphc.tensor as gt``."""

from typing import TYPE_CHECKING

from numpy import (
    e as e,
    euler_gamma as euler_gamma,
    inf as inf,
    nan as nan,
    newaxis as newaxis,
    pi as pi,
)

from graphc import lazy
from graphc.ir import TensorType as TensorType
from graphc.tensor import fft as fft, linalg as linalg, signal as signal, special as special
from graphc.tensor.arrays.broadcast import *
from graphc.tensor.arrays.constants import *
from graphc.tensor.arrays.create import *
from graphc.tensor.arrays.create import CONSTRUCTORS, PLURALS
from graphc.tensor.arrays.cumulative import *
from graphc.tensor.arrays.diagonal import *
from graphc.tensor.arrays.difference import *
from graphc.tensor.arrays.edit import *
from graphc.tensor.arrays.grid import *
from graphc.tensor.arrays.index import *
from graphc.tensor.arrays.join import *
from graphc.tensor.arrays.nonzero import *
from graphc.tensor.arrays.pack import *
from graphc.tensor.arrays.rearrange import *
from graphc.tensor.arrays.reduce import *
from graphc.tensor.arrays.repeat import *
from graphc.tensor.arrays.select import *
from graphc.tensor.arrays.sets import *
from graphc.tensor.arrays.sort import *
from graphc.tensor.arrays.split import *
from graphc.tensor.arrays.triangle import *
from graphc.tensor.arrays.vectorize import *
from graphc.tensor.core.arithmetic import *
from graphc.tensor.core.axes import *
from graphc.tensor.core.elementwise import *
from graphc.tensor.core.exponential import *
from graphc.tensor.core.rounding import *
from graphc.tensor.core.shape import *
from graphc.tensor.core.sharding import *
from graphc.tensor.core.specify import *
from graphc.tensor.core.tensor import *
from graphc.tensor.core.trigonometric import *
from graphc.tensor.linalg.assume import *
from graphc.tensor.linalg.dot import *
from graphc.tensor.linalg.einsum import *
from graphc.tensor.linalg.linalg import *
from graphc.tensor.linalg.norm import *
from graphc.tensor.signal.convolve import *
from graphc.tensor.signal.interpolate import *
from graphc.tensor.signal.pad import *
from graphc.tensor.signal.polynomial import *
from graphc.tensor.signal.window import *
from graphc.tensor.special.bessel import *
from graphc.tensor.special.beta import *
from graphc.tensor.special.gamma import *
from graphc.tensor.special.hypergeometric import *
from graphc.tensor.special.special import *
from graphc.tensor.statistics.histogram import *
from graphc.tensor.statistics.nans import *
from graphc.tensor.statistics.quantile import *
from graphc.tensor.statistics.statistics import *

if TYPE_CHECKING:
    from graphc import optimize as optimize, random as random
    from graphc.grad.jacobian import hessian as hessian, jacobian as jacobian
    from graphc.grad.reverse import grad as grad
    from graphc.implicit.node import implicit as implicit
    from graphc.tensor.core.all_sum import all_mean as all_mean, all_sum as all_sum
else:
    # Names of higher layers, which graphc/__init__.py provides.
    __getattr__, __dir__ = lazy.attributes(
        globals(), "Axis TensorLike fft linalg newaxis signal special"
    )

# Other names that PyTensor and NumPy have for the same.
acos = arccos
acosh = arccosh
asin = arcsin
asinh = arcsinh
atan = arctan
atan2 = arctan2
atanh = arctanh
bitwise_invert = invert
bitwise_left_shift = left_shift
bitwise_right_shift = right_shift
concat = concatenate
degrees = rad2deg
radians = deg2rad
permute_dims = transpose
sqr = square
neg = negative
sub = subtract
mul = multiply
true_div = divide
true_divide = divide
int_div = floor_divide
floor_div = floor_divide
mod = remainder
pow = power
eq = equal
neq = not_equal
lt = less
le = less_equal
gt = greater
ge = greater_equal
and_ = bitwise_and
or_ = bitwise_or
xor = bitwise_xor
bitwise_not = invert
expit = sigmoid
log1pexp = softplus
sgn = sign
switch = where
conjugate = conj
absolute = abs
as_tensor_variable = as_tensor
asarray = as_tensor
fix = trunc
popcount = bitwise_count
dense_dot = dot
amax = max
amin = min
psi = digamma
TensorVariable = Tensor

# The constructors, floatX and with a dtype's letter in front.
(
    scalar, bscalar, wscalar, iscalar, lscalar, fscalar, dscalar, cscalar, zscalar,
    vector, bvector, wvector, ivector, lvector, fvector, dvector, cvector, zvector,
    row, brow, wrow, irow, lrow, frow, drow, crow, zrow,
    col, bcol, wcol, icol, lcol, fcol, dcol, ccol, zcol,
    matrix, bmatrix, wmatrix, imatrix, lmatrix, fmatrix, dmatrix, cmatrix, zmatrix,
    tensor3, btensor3, wtensor3, itensor3, ltensor3, ftensor3, dtensor3, ctensor3, ztensor3,
    tensor4, btensor4, wtensor4, itensor4, ltensor4, ftensor4, dtensor4, ctensor4, ztensor4,
    tensor5, btensor5, wtensor5, itensor5, ltensor5, ftensor5, dtensor5, ctensor5, ztensor5,
    tensor6, btensor6, wtensor6, itensor6, ltensor6, ftensor6, dtensor6, ctensor6, ztensor6,
    tensor7, btensor7, wtensor7, itensor7, ltensor7, ftensor7, dtensor7, ctensor7, ztensor7,
) = CONSTRUCTORS.values()  # fmt: skip

# Several at once.
(
    scalars, bscalars, wscalars, iscalars, lscalars, fscalars, dscalars, cscalars, zscalars,
    vectors, bvectors, wvectors, ivectors, lvectors, fvectors, dvectors, cvectors, zvectors,
    rows, brows, wrows, irows, lrows, frows, drows, crows, zrows,
    cols, bcols, wcols, icols, lcols, fcols, dcols, ccols, zcols,
    matrices, bmatrices, wmatrices, imatrices, lmatrices, fmatrices, dmatrices, cmatrices,
    zmatrices,
    tensor3s, btensor3s, wtensor3s, itensor3s, ltensor3s, ftensor3s, dtensor3s, ctensor3s,
    ztensor3s,
    tensor4s, btensor4s, wtensor4s, itensor4s, ltensor4s, ftensor4s, dtensor4s, ctensor4s,
    ztensor4s,
    tensor5s, btensor5s, wtensor5s, itensor5s, ltensor5s, ftensor5s, dtensor5s, ctensor5s,
    ztensor5s,
    tensor6s, btensor6s, wtensor6s, itensor6s, ltensor6s, ftensor6s, dtensor6s, ctensor6s,
    ztensor6s,
    tensor7s, btensor7s, wtensor7s, itensor7s, ltensor7s, ftensor7s, dtensor7s, ctensor7s,
    ztensor7s,
) = PLURALS.values()  # fmt: skip

INTERNAL = "Axis CONSTRUCTORS INTERNAL PLURALS TYPE_CHECKING TensorLike newaxis"
__all__ = list(lazy.public_names(globals(), INTERNAL))
