"""flambeau.special: special functions under their names in torch.special.

The operators are those of flambeau.ops; most are torch's own under a second name. Used by programs only.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.naming import adopt
from flambeau.core.modes import interception
from flambeau.core.operator.publishing import renamed
from flambeau.ops.elementwise import arithmetic, incomplete_gamma, math, ternary
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
from flambeau.ops.reduction import softmax, vector_norm

# Functions of torch under a second name are objects of their own.
_OF_TORCH: dict[str, Any] = {
    "digamma": math.digamma,
    "erf": math.erf,
    "erfc": math.erfc,
    "erfinv": math.erfinv,
    "exp2": math.exp2,
    "expit": math.sigmoid,
    "expm1": math.expm1,
    "gammainc": incomplete_gamma.igamma,
    "gammaincc": incomplete_gamma.igammac,
    "gammaln": math.lgamma,
    "i0": math.i0,
    "log1p": math.log1p,
    "log_softmax": softmax.log_softmax,
    "logit": math.logit,
    "logsumexp": vector_norm.logsumexp,
    "multigammaln": math.mvlgamma,
    "polygamma": math.polygamma,
    "psi": math.digamma,
    "round": arithmetic.round,
    "sinc": math.sinc,
    "softmax": softmax.softmax,
    "xlogy": ternary.xlogy,
}
globals().update({name: renamed(function, name) for name, function in _OF_TORCH.items()})

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "spherical_bessel_j0",
    "entr",
    "erfcx",
    "i0e",
    "i1",
    "i1e",
    "log_ndtr",
    "ndtr",
    "ndtri",
    "xlog1py",
    "zeta",
    *_OF_TORCH,
]

adopt(globals(), __all__)
interception.provide(lambda: [globals()[name] for name in _OF_TORCH])
