"""torch.ao.nn.intrinsic.quantized: modules of several with integer weights. Stands on its modules."""

from flambeau.ao.nn.intrinsic.quantized import dynamic as dynamic
from flambeau.ao.nn.intrinsic.quantized.modules import *
from flambeau.ao.nn.intrinsic.quantized.modules import __all__ as __all__
