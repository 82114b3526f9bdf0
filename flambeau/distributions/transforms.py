"""All transforms, under PyTorch's name for the module; each family is in a file of its own."""

from __future__ import annotations

from flambeau.base.naming import adopt
from flambeau.distributions.transform import (
    ComposeTransform,
    IndependentTransform,
    Transform,
    _InverseTransform,  # noqa: F401 - what pickles name
    identity_transform,
)
from flambeau.distributions.transforms_arrays import (
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    ReshapeTransform,
    SoftmaxTransform,
    StickBreakingTransform,
)
from flambeau.distributions.transforms_elementwise import (
    AbsTransform,
    AffineTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
)
from flambeau.distributions.transforms_joined import CatTransform, StackTransform

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]

adopt(globals(), [*__all__, "_InverseTransform"])
