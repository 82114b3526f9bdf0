"""flambeau.special: special functions under their names in torch.special.

The operators are those of flambeau.ops; most are torch's own under a second name. Used by programs only.
"""

from __future__ import annotations

from flambeau.base.naming import adopt
from flambeau.core.operator.variants import NAMESPACE, renamed
from flambeau.ops.elementwise.bessel import (
    airy_ai,
    bessel_j0,
    bessel_j1,
    bessel_y0,
    bessel_y1,
    modified_bessel_i0,
    modified_bessel_i1,
    modified_bessel_k0,
    modified_bessel_k1,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    spherical_bessel_j0,
)
from flambeau.ops.elementwise.math import entr, erfcx, i0e, i1, i1e, log_ndtr, ndtr, ndtri, zeta
from flambeau.ops.elementwise.orthogonal_polynomials import (
    chebyshev_polynomial_t,
    chebyshev_polynomial_u,
    chebyshev_polynomial_v,
    chebyshev_polynomial_w,
    hermite_polynomial_h,
    hermite_polynomial_he,
    laguerre_polynomial_l,
    legendre_polynomial_p,
    shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
)
from flambeau.ops.elementwise.ternary import xlog1py

_OF_TORCH = {
    "digamma": "digamma", "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "exp2": "exp2", "expit": "sigmoid",
    "expm1": "expm1", "gammainc": "igamma", "gammaincc": "igammac", "gammaln": "lgamma", "i0": "i0",
    "log1p": "log1p", "log_softmax": "log_softmax", "logit": "logit",
    "logsumexp": "logsumexp", "multigammaln": "mvlgamma", "polygamma": "polygamma", "psi": "digamma",
    "round": "round", "sinc": "sinc", "softmax": "softmax", "xlogy": "xlogy"}
globals().update({name: renamed(NAMESPACE[of], name) for name, of in _OF_TORCH.items() if of in NAMESPACE})

__all__ = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "chebyshev_polynomial_t",
    "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w", "hermite_polynomial_h",
    "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p", "modified_bessel_i0", "modified_bessel_i1",
    "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w", "spherical_bessel_j0", "entr", "erfcx", "i0e", "i1", "i1e", "log_ndtr",
    "ndtr", "ndtri", "xlog1py", "zeta",
    *(name for name, of in _OF_TORCH.items() if of in NAMESPACE)]

adopt(globals(), __all__)
