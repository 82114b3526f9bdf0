"""torch.masked: reductions and normalisations of the elements that a mask chooses, and tensors with a mask of their own.

`_ops` has the functions, `maskedtensor` the tensors: MaskedTensor, of which PyTorch offers a prototype.
"""

from flambeau.base.naming import adopt
from flambeau.masked._ops import (
    _canonical_dim,
    _combine_input_and_mask,
    _input_mask,
    _output_mask,
    _reduction_identity,
    _where,
    amax,
    amin,
    argmax,
    argmin,
    cumprod,
    cumsum,
    log_softmax,
    logaddexp,
    logsumexp,
    mean,
    median,
    norm,
    normalize,
    prod,
    softmax,
    softmin,
    std,
    sum,
    var,
)
from flambeau.masked.maskedtensor.core import MaskedTensor, is_masked_tensor
from flambeau.masked.maskedtensor.creation import as_masked_tensor, masked_tensor

__all__ = [
    "MaskedTensor", "amax", "amin", "argmax", "argmin", "as_masked_tensor", "cumprod", "cumsum", "is_masked_tensor",
    "log_softmax", "logaddexp", "logsumexp", "masked_tensor", "mean", "median", "norm", "normalize", "prod", "softmax",
    "softmin", "std", "sum", "var",
]  # fmt: skip
