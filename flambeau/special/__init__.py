"""flambeau.special: special functions under their names in torch.special.

The operators are those of flambeau.ops; most are torch's own under a second name. Used by programs only.
"""

from __future__ import annotations

from flambeau.core.derive import NAMESPACE
from flambeau.ops.combine import xlog1py
from flambeau.ops.functions import entr, erfcx, i0e, i1, i1e, log_ndtr, ndtr, ndtri, zeta

_OF_TORCH = {
    "digamma": "digamma", "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "exp2": "exp2", "expit": "sigmoid", "expm1": "expm1",
    "gammaln": "lgamma", "i0": "i0", "log1p": "log1p", "log_softmax": "log_softmax", "logit": "logit", "logsumexp": "logsumexp",
    "multigammaln": "mvlgamma", "polygamma": "polygamma", "psi": "digamma", "round": "round", "sinc": "sinc",
    "softmax": "softmax", "xlogy": "xlogy"}
globals().update({name: NAMESPACE[of] for name, of in _OF_TORCH.items() if of in NAMESPACE})

__all__ = ["entr", "erfcx", "i0e", "i1", "i1e", "log_ndtr", "ndtr", "ndtri", "xlog1py", "zeta",
           *(name for name, of in _OF_TORCH.items() if of in NAMESPACE)]
