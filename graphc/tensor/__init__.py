"""Symbolic arrays, written as in NumPy: ``import graphc.tensor as gt``."""

from typing import TYPE_CHECKING

from numpy import e, euler_gamma, inf, nan, newaxis as newaxis, pi

from graphc import lazy
from graphc.ir import TensorType
from graphc.tensor import fft as fft, linalg as linalg, signal as signal, special as special
from graphc.tensor.arrays.broadcast import (
    broadcast_arrays,
    broadcast_shape,
    broadcast_to,
    fill,
    second,
)
from graphc.tensor.arrays.constants import (
    get_scalar_constant_value,
    get_underlying_scalar_constant_value,
)
from graphc.tensor.arrays.create import (
    CONSTRUCTORS,
    PLURALS,
    alloc,
    arange,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    identity,
    identity_like,
    ones,
    ones_like,
    tensor,
    tensor_copy,
    zeros,
    zeros_like,
)
from graphc.tensor.arrays.cumulative import (
    cummax,
    cummin,
    cumprod,
    cumsum,
    cumulative_prod,
    cumulative_sum,
    logcumsumexp,
    trapezoid,
    unwrap,
)
from graphc.tensor.arrays.diagonal import (
    alloc_diag,
    diag,
    diagonal,
    extract_diag,
    fill_diagonal,
    fill_diagonal_offset,
    trace,
)
from graphc.tensor.arrays.difference import (
    diff,
    ediff1d,
    gradient,
)
from graphc.tensor.arrays.edit import (
    append,
    delete,
    insert,
)
from graphc.tensor.arrays.grid import (
    geomspace,
    indices,
    ix_,
    linspace,
    logspace,
    meshgrid,
    mgrid,
    ogrid,
)
from graphc.tensor.arrays.index import (
    flip,
    getitem,
    inc_subtensor,
    set_subtensor,
)
from graphc.tensor.arrays.join import (
    block,
    column_stack,
    concat_with_broadcast,
    concatenate,
    dstack,
    horizontal_stack,
    hstack,
    join,
    make_vector,
    stack,
    stacklists,
    vertical_stack,
    vstack,
)
from graphc.tensor.arrays.nonzero import argwhere, flatnonzero, nonzero, nonzero_values
from graphc.tensor.arrays.pack import (
    join_dims,
    pack,
    split_dims,
    unpack,
)
from graphc.tensor.arrays.rearrange import (
    fliplr,
    flipud,
    roll,
    rot90,
)
from graphc.tensor.arrays.reduce import (
    all,
    any,
    argmax,
    argmin,
    logsumexp,
    max,
    max_and_argmax,
    min,
    prod,
    sum,
)
from graphc.tensor.arrays.repeat import (
    repeat,
    tile,
)
from graphc.tensor.arrays.select import (
    choose,
    compress,
    count_nonzero,
    extract,
    inverse_permutation,
    one_hot,
    permute_row_elements,
    put_along_axis,
    ravel_multi_index,
    relu,
    select,
    take,
    take_along_axis,
    to_one_hot,
    unravel_index,
)
from graphc.tensor.arrays.sets import (
    intersect1d,
    isin,
    setdiff1d,
    setxor1d,
    union1d,
    unique,
)
from graphc.tensor.arrays.sort import (
    argpartition,
    argsort,
    lexsort,
    partition,
    searchsorted,
    sort,
    top_k,
)
from graphc.tensor.arrays.split import (
    array_split,
    dsplit,
    hsplit,
    split,
    unstack,
    vsplit,
)
from graphc.tensor.arrays.triangle import (
    tri,
    tril,
    tril_indices,
    tril_indices_from,
    triu,
    triu_indices,
    triu_indices_from,
)
from graphc.tensor.arrays.vectorize import (
    vectorize,
)
from graphc.tensor.core.arithmetic import (
    angle,
    bitwise_count,
    cbrt,
    ceil_intdiv,
    complex_from_polar,
    copysign,
    divmod,
    fabs,
    float_power,
    fmax,
    fmin,
    fmod,
    frexp,
    gcd,
    heaviside,
    hypot,
    iscomplex,
    iscomplexobj,
    isreal,
    isrealobj,
    largest,
    lcm,
    ldexp,
    logaddexp2,
    modf,
    ndim,
    nextafter,
    positive,
    signbit,
    smallest,
    spacing,
)
from graphc.tensor.core.axes import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    atleast_Nd,
    dimshuffle,
    expand_dims,
    matrix_transpose,
    moveaxis,
    shape_padaxis,
    shape_padleft,
    shape_padright,
    slice_at_axis,
    squeeze,
    swapaxes,
    transpose,
)
from graphc.tensor.core.elementwise import (
    abs,
    add,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    cast,
    ceil,
    clip,
    complex,
    conj,
    divide,
    equal,
    floor,
    floor_divide,
    greater,
    greater_equal,
    imag,
    invert,
    isfinite,
    isinf,
    isnan,
    left_shift,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    real,
    reciprocal,
    remainder,
    right_shift,
    sign,
    sqrt,
    square,
    subtract,
    trunc,
    where,
)
from graphc.tensor.core.exponential import (
    exp,
    exp2,
    expm1,
    log,
    log1mexp,
    log1p,
    log2,
    log10,
    log_sigmoid,
    logaddexp,
    power,
    sigmoid,
    softplus,
)
from graphc.tensor.core.rounding import (
    around,
    iround,
    rint,
    round,
    round_half_away_from_zero,
    round_half_to_even,
)
from graphc.tensor.core.shape import (
    flatten,
    get_vector_length,
    is_flat,
    ravel,
    reshape,
    shape,
    shape_tuple,
    size,
)
from graphc.tensor.core.sharding import shard
from graphc.tensor.core.specify import specify_broadcastable, specify_shape
from graphc.tensor.core.tensor import (
    Axis as Axis,
    Tensor,
    TensorLike as TensorLike,
    as_tensor,
    constant,
)
from graphc.tensor.core.trigonometric import (
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    cos,
    cosh,
    deg2rad,
    rad2deg,
    sin,
    sinh,
    tan,
    tanh,
)
from graphc.tensor.linalg import (
    cross,
    kron,
    matrix_dot,
    matrix_norm,
    matrix_power,
    multi_dot,
    norm,
    vander,
    vector_norm,
)
from graphc.tensor.linalg.assume import assume
from graphc.tensor.linalg.dot import (
    batched_dot,
    dot,
    inner,
    matmul,
    matvec,
    outer,
    tensordot,
    vdot,
    vecdot,
    vecmat,
)
from graphc.tensor.linalg.einsum import (
    einsum,
)
from graphc.tensor.signal.convolve import convolve, correlate
from graphc.tensor.signal.interpolate import (
    interp,
    interpolate1d,
)
from graphc.tensor.signal.pad import (
    pad,
)
from graphc.tensor.signal.polynomial import (
    polyadd,
    polyder,
    polyint,
    polymul,
    polysub,
    polyval,
)
from graphc.tensor.signal.window import (
    bartlett,
    blackman,
    hamming,
    hanning,
    kaiser,
)
from graphc.tensor.special.bessel import (
    i0,
    i0e,
    i1,
    i1e,
    iv,
    ive,
    j0,
    j1,
    jv,
    kn,
    kv,
    kve,
)
from graphc.tensor.special.beta import (
    beta,
    betainc,
    betainc_by_a,
    betainc_by_b,
    betaincinv,
    betaln,
)
from graphc.tensor.special.gamma import (
    chi2sf,
    digamma,
    factorial,
    gamma,
    gammainc,
    gammainc_by_a,
    gammaincc,
    gammainccinv,
    gammaincinv,
    gammal,
    gammaln,
    gammau,
    multigammaln,
    poch,
    polygamma,
    tri_gamma,
    zeta,
)
from graphc.tensor.special.hypergeometric import (
    hyp2f1,
    hyp2f1_by_a,
    hyp2f1_by_b,
    hyp2f1_by_c,
)
from graphc.tensor.special.special import (
    entr,
    erf,
    erfc,
    erfcinv,
    erfcx,
    erfinv,
    expi,
    kl_div,
    log_ndtr,
    log_softmax,
    logit,
    ndtr,
    ndtri,
    ndtri_exp,
    owens_t,
    rel_entr,
    sinc,
    softmax,
    xlog1py,
    xlogy,
)
from graphc.tensor.statistics.histogram import (
    bincount,
    digitize,
    histogram,
    histogram_bin_edges,
)
from graphc.tensor.statistics.nans import (
    isneginf,
    isposinf,
    nan_to_num,
    nanargmax,
    nanargmin,
    nancumprod,
    nancumsum,
    nanmax,
    nanmean,
    nanmin,
    nanprod,
    nanstd,
    nansum,
    nanvar,
)
from graphc.tensor.statistics.quantile import (
    median,
    nanmedian,
    nanpercentile,
    nanquantile,
    percentile,
    quantile,
)
from graphc.tensor.statistics.statistics import (
    allclose,
    array_equal,
    average,
    corrcoef,
    cov,
    isclose,
    mean,
    ptp,
    std,
    var,
)

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
scalar, bscalar, wscalar, iscalar, lscalar, fscalar, dscalar, cscalar, zscalar = (
    CONSTRUCTORS[letter + "scalar"] for letter in ("", *"bwilfdcz")
)
vector, bvector, wvector, ivector, lvector, fvector, dvector, cvector, zvector = (
    CONSTRUCTORS[letter + "vector"] for letter in ("", *"bwilfdcz")
)
row, brow, wrow, irow, lrow, frow, drow, crow, zrow = (
    CONSTRUCTORS[letter + "row"] for letter in ("", *"bwilfdcz")
)
col, bcol, wcol, icol, lcol, fcol, dcol, ccol, zcol = (
    CONSTRUCTORS[letter + "col"] for letter in ("", *"bwilfdcz")
)
matrix, bmatrix, wmatrix, imatrix, lmatrix, fmatrix, dmatrix, cmatrix, zmatrix = (
    CONSTRUCTORS[letter + "matrix"] for letter in ("", *"bwilfdcz")
)
tensor3, btensor3, wtensor3, itensor3, ltensor3, ftensor3, dtensor3, ctensor3, ztensor3 = (
    CONSTRUCTORS[letter + "tensor3"] for letter in ("", *"bwilfdcz")
)
tensor4, btensor4, wtensor4, itensor4, ltensor4, ftensor4, dtensor4, ctensor4, ztensor4 = (
    CONSTRUCTORS[letter + "tensor4"] for letter in ("", *"bwilfdcz")
)
tensor5, btensor5, wtensor5, itensor5, ltensor5, ftensor5, dtensor5, ctensor5, ztensor5 = (
    CONSTRUCTORS[letter + "tensor5"] for letter in ("", *"bwilfdcz")
)
tensor6, btensor6, wtensor6, itensor6, ltensor6, ftensor6, dtensor6, ctensor6, ztensor6 = (
    CONSTRUCTORS[letter + "tensor6"] for letter in ("", *"bwilfdcz")
)
tensor7, btensor7, wtensor7, itensor7, ltensor7, ftensor7, dtensor7, ctensor7, ztensor7 = (
    CONSTRUCTORS[letter + "tensor7"] for letter in ("", *"bwilfdcz")
)

# Several at once.
scalars, bscalars, wscalars, iscalars, lscalars, fscalars, dscalars, cscalars, zscalars = (
    PLURALS[letter + "scalars"] for letter in ("", *"bwilfdcz")
)
vectors, bvectors, wvectors, ivectors, lvectors, fvectors, dvectors, cvectors, zvectors = (
    PLURALS[letter + "vectors"] for letter in ("", *"bwilfdcz")
)
rows, brows, wrows, irows, lrows, frows, drows, crows, zrows = (
    PLURALS[letter + "rows"] for letter in ("", *"bwilfdcz")
)
cols, bcols, wcols, icols, lcols, fcols, dcols, ccols, zcols = (
    PLURALS[letter + "cols"] for letter in ("", *"bwilfdcz")
)
matrices, bmatrices, wmatrices, imatrices, lmatrices, fmatrices, dmatrices, cmatrices, zmatrices = (
    PLURALS[letter + "matrices"] for letter in ("", *"bwilfdcz")
)
(
    tensor3s,
    btensor3s,
    wtensor3s,
    itensor3s,
    ltensor3s,
    ftensor3s,
    dtensor3s,
    ctensor3s,
    ztensor3s,
) = (PLURALS[letter + "tensor3s"] for letter in ("", *"bwilfdcz"))
(
    tensor4s,
    btensor4s,
    wtensor4s,
    itensor4s,
    ltensor4s,
    ftensor4s,
    dtensor4s,
    ctensor4s,
    ztensor4s,
) = (PLURALS[letter + "tensor4s"] for letter in ("", *"bwilfdcz"))
(
    tensor5s,
    btensor5s,
    wtensor5s,
    itensor5s,
    ltensor5s,
    ftensor5s,
    dtensor5s,
    ctensor5s,
    ztensor5s,
) = (PLURALS[letter + "tensor5s"] for letter in ("", *"bwilfdcz"))
(
    tensor6s,
    btensor6s,
    wtensor6s,
    itensor6s,
    ltensor6s,
    ftensor6s,
    dtensor6s,
    ctensor6s,
    ztensor6s,
) = (PLURALS[letter + "tensor6s"] for letter in ("", *"bwilfdcz"))
(
    tensor7s,
    btensor7s,
    wtensor7s,
    itensor7s,
    ltensor7s,
    ftensor7s,
    dtensor7s,
    ctensor7s,
    ztensor7s,
) = (PLURALS[letter + "tensor7s"] for letter in ("", *"bwilfdcz"))

__all__ = [
    "Tensor", "TensorType", "TensorVariable", "abs", "absolute", "acos", "acosh", "add", "all",
    "allclose", "alloc", "alloc_diag", "amax", "amin", "and_", "angle", "any", "append", "arange",
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin",
    "argpartition", "argsort", "argwhere", "around", "array_equal", "array_split", "as_tensor",
    "as_tensor_variable", "asarray", "asin", "asinh", "assume", "atan", "atan2", "atanh",
    "atleast_1d", "atleast_2d", "atleast_3d", "atleast_Nd", "average", "bartlett", "batched_dot",
    "bcol", "bcols",
    "beta", "betainc", "betainc_by_a", "betainc_by_b", "betaincinv", "betaln", "bincount",
    "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_not",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "blackman", "block", "bmatrices", "bmatrix",
    "broadcast_arrays", "broadcast_shape", "broadcast_to", "brow", "brows", "bscalar", "bscalars",
    "btensor3", "btensor3s", "btensor4", "btensor4s", "btensor5", "btensor5s", "btensor6",
    "btensor6s", "btensor7", "btensor7s", "bvector", "bvectors", "cast", "cbrt", "ccol", "ccols",
    "ceil", "ceil_intdiv", "chi2sf", "choose", "clip", "cmatrices", "cmatrix", "col", "cols",
    "column_stack", "complex", "complex_from_polar", "compress", "concat", "concat_with_broadcast",
    "concatenate", "conj", "conjugate", "constant", "convolve", "copysign", "corrcoef", "correlate",
    "cos", "cosh", "count_nonzero", "cov", "cross", "crow", "crows", "cscalar", "cscalars",
    "ctensor3", "ctensor3s", "ctensor4", "ctensor4s", "ctensor5", "ctensor5s", "ctensor6",
    "ctensor6s", "ctensor7", "ctensor7s", "cummax", "cummin", "cumprod", "cumsum",
    "cumulative_prod", "cumulative_sum", "cvector", "cvectors", "dcol", "dcols", "deg2rad",
    "degrees", "delete", "dense_dot", "diag", "diagonal", "diff", "digamma", "digitize",
    "dimshuffle", "divide", "divmod", "dmatrices", "dmatrix", "dot", "drow", "drows", "dscalar",
    "dscalars", "dsplit", "dstack", "dtensor3", "dtensor3s", "dtensor4", "dtensor4s", "dtensor5",
    "dtensor5s", "dtensor6", "dtensor6s", "dtensor7", "dtensor7s", "dvector", "dvectors", "e",
    "ediff1d", "einsum", "empty", "empty_like", "entr", "eq", "equal", "erf", "erfc", "erfcinv",
    "erfcx", "erfinv", "euler_gamma", "exp", "exp2", "expand_dims", "expi", "expit", "expm1",
    "extract", "extract_diag", "eye", "fabs", "factorial", "fcol", "fcols", "fill", "fill_diagonal",
    "fill_diagonal_offset", "fix", "flatnonzero", "flatten", "flip", "fliplr", "flipud",
    "float_power", "floor", "floor_div", "floor_divide", "fmatrices", "fmatrix", "fmax", "fmin",
    "fmod", "frexp", "frow", "frows", "fscalar", "fscalars", "ftensor3", "ftensor3s", "ftensor4",
    "ftensor4s", "ftensor5", "ftensor5s", "ftensor6", "ftensor6s", "ftensor7", "ftensor7s", "full",
    "full_like", "fvector", "fvectors", "gamma", "gammainc", "gammainc_by_a", "gammaincc",
    "gammainccinv", "gammaincinv", "gammal", "gammaln", "gammau", "gcd", "ge", "geomspace",
    "get_scalar_constant_value", "get_underlying_scalar_constant_value", "get_vector_length",
    "getitem", "gradient", "greater", "greater_equal", "gt", "hamming", "hanning", "heaviside",
    "histogram", "histogram_bin_edges", "horizontal_stack", "hsplit", "hstack", "hyp2f1",
    "hyp2f1_by_a", "hyp2f1_by_b", "hyp2f1_by_c", "hypot", "i0", "i0e", "i1", "i1e", "icol", "icols",
    "identity", "identity_like", "imag", "imatrices", "imatrix", "inc_subtensor", "indices", "inf",
    "inner", "insert", "int_div", "interp", "interpolate1d", "intersect1d", "inverse_permutation",
    "invert", "iround", "irow", "irows", "is_flat", "iscalar", "iscalars", "isclose", "iscomplex",
    "iscomplexobj", "isfinite", "isin", "isinf", "isnan", "isneginf", "isposinf", "isreal",
    "isrealobj", "itensor3", "itensor3s", "itensor4", "itensor4s", "itensor5", "itensor5s",
    "itensor6", "itensor6s", "itensor7", "itensor7s", "iv", "ive", "ivector", "ivectors", "ix_",
    "j0", "j1", "join", "join_dims", "jv", "kaiser", "kl_div", "kn", "kron", "kv", "kve", "largest",
    "lcm", "lcol", "lcols", "ldexp", "le", "left_shift", "less", "less_equal", "lexsort",
    "linspace", "lmatrices", "lmatrix", "log", "log1mexp", "log1p", "log1pexp", "log2", "log10",
    "log_ndtr", "log_sigmoid", "log_softmax", "logaddexp", "logaddexp2", "logcumsumexp",
    "logical_and", "logical_not", "logical_or", "logical_xor", "logit", "logspace", "logsumexp",
    "lrow", "lrows", "lscalar", "lscalars", "lt", "ltensor3", "ltensor3s", "ltensor4", "ltensor4s",
    "ltensor5", "ltensor5s", "ltensor6", "ltensor6s", "ltensor7", "ltensor7s", "lvector",
    "lvectors", "make_vector", "matmul", "matrices", "matrix", "matrix_dot", "matrix_norm",
    "matrix_power", "matrix_transpose", "matvec", "max", "max_and_argmax", "maximum", "mean",
    "median", "meshgrid", "mgrid", "min", "minimum", "mod", "modf", "moveaxis", "mul", "multi_dot",
    "multigammaln", "multiply", "nan", "nan_to_num", "nanargmax", "nanargmin", "nancumprod",
    "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile", "nanprod",
    "nanquantile", "nanstd", "nansum", "nanvar", "ndim", "ndtr", "ndtri", "ndtri_exp", "neg",
    "negative", "neq", "nextafter", "nonzero", "nonzero_values", "norm", "not_equal", "ogrid",
    "one_hot",
    "ones", "ones_like", "or_", "outer", "owens_t", "pack", "pad", "partition", "percentile",
    "permute_dims", "permute_row_elements", "pi", "poch", "polyadd", "polyder", "polygamma",
    "polyint", "polymul", "polysub", "polyval", "popcount", "positive", "pow", "power", "prod",
    "psi", "ptp", "put_along_axis", "quantile", "rad2deg", "radians", "ravel", "ravel_multi_index",
    "real", "reciprocal", "rel_entr", "relu", "remainder", "repeat", "reshape", "right_shift",
    "rint", "roll", "rot90", "round", "round_half_away_from_zero", "round_half_to_even", "row",
    "rows",
    "scalar", "scalars", "searchsorted", "second", "select", "set_subtensor", "setdiff1d",
    "setxor1d", "sgn", "shape", "shape_padaxis", "shape_padleft", "shape_padright", "shape_tuple",
    "shard",
    "sigmoid", "sign", "signbit", "sin", "sinc", "sinh", "size", "slice_at_axis", "smallest",
    "softmax", "softplus", "sort", "spacing", "specify_broadcastable", "specify_shape", "split",
    "split_dims", "sqr", "sqrt", "square", "squeeze", "stack", "stacklists", "std", "sub",
    "subtract", "sum", "swapaxes", "switch", "take", "take_along_axis", "tan", "tanh", "tensor",
    "tensor3", "tensor3s", "tensor4", "tensor4s", "tensor5", "tensor5s", "tensor6", "tensor6s",
    "tensor7", "tensor7s", "tensor_copy", "tensordot", "tile", "to_one_hot", "top_k", "trace",
    "transpose", "trapezoid", "tri", "tri_gamma", "tril", "tril_indices", "tril_indices_from",
    "triu", "triu_indices", "triu_indices_from", "true_div", "true_divide", "trunc", "union1d",
    "unique", "unpack", "unravel_index", "unstack", "unwrap", "vander", "var", "vdot", "vecdot",
    "vecmat", "vector", "vector_norm", "vectorize", "vectors", "vertical_stack", "vsplit", "vstack",
    "wcol", "wcols", "where", "wmatrices", "wmatrix", "wrow", "wrows", "wscalar", "wscalars",
    "wtensor3", "wtensor3s", "wtensor4", "wtensor4s", "wtensor5", "wtensor5s", "wtensor6",
    "wtensor6s", "wtensor7", "wtensor7s", "wvector", "wvectors", "xlog1py", "xlogy", "xor", "zcol",
    "zcols", "zeros", "zeros_like", "zeta", "zmatrices", "zmatrix", "zrow", "zrows", "zscalar",
    "zscalars", "ztensor3", "ztensor3s", "ztensor4", "ztensor4s", "ztensor5", "ztensor5s",
    "ztensor6", "ztensor6s", "ztensor7", "ztensor7s", "zvector", "zvectors",
]  # fmt: skip
