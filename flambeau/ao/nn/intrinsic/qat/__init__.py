"""torch.ao.nn.intrinsic.qat: fused modules that are trained with rounded weights. Stands on its modules."""

from flambeau.ao.nn.intrinsic.qat.modules import *
