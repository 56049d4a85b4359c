"""Special functions, as in ``scipy.special``."""

from graphc.lazy import listing
from graphc.tensor.special.bessel import i0, i0e, i1, i1e, iv, ive, j0, j1, jv, kn, kv, kve
from graphc.tensor.special.beta import beta, betainc, betainc_by_a, betainc_by_b, betaincinv, betaln
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
from graphc.tensor.special.hypergeometric import hyp2f1, hyp2f1_by_a, hyp2f1_by_b, hyp2f1_by_c
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

__all__ = [
    "beta", "betainc", "betainc_by_a", "betainc_by_b", "betaincinv", "betaln", "chi2sf", "digamma",
    "entr", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "expi", "factorial", "gamma", "gammainc",
    "gammainc_by_a", "gammaincc", "gammainccinv", "gammaincinv", "gammal", "gammaln", "gammau",
    "hyp2f1", "hyp2f1_by_a", "hyp2f1_by_b", "hyp2f1_by_c", "i0", "i0e", "i1", "i1e", "iv", "ive",
    "j0", "j1", "jv", "kl_div", "kn", "kv", "kve", "log_ndtr", "log_softmax", "logit",
    "multigammaln", "ndtr", "ndtri", "ndtri_exp", "owens_t", "poch", "polygamma", "rel_entr",
    "sinc", "softmax", "tri_gamma", "xlog1py", "xlogy", "zeta",
]  # fmt: skip

__dir__ = listing(globals())  # without the files of the folder
