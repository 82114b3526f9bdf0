"""Learning-rate schedulers, under PyTorch's names."""

from flambeau.base.naming import adopt
from flambeau.optim.lr_scheduler.base import EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING
from flambeau.optim.lr_scheduler.base import LRScheduler, _LRScheduler
from flambeau.optim.lr_scheduler.composed import ChainedScheduler, SequentialLR
from flambeau.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from flambeau.optim.lr_scheduler.cyclic import CyclicLR, OneCycleLR
from flambeau.optim.lr_scheduler.decay import ConstantLR, ExponentialLR, LinearLR, MultiStepLR, PolynomialLR, StepLR
from flambeau.optim.lr_scheduler.functions import LambdaLR, MultiplicativeLR
from flambeau.optim.lr_scheduler.plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
    "_LRScheduler",
]

adopt(globals(), __all__)
