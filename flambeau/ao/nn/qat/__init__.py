"""torch.ao.nn.qat: modules whose weights are rounded as quantized ones while they are trained. Stands on its modules."""

from flambeau.ao.nn.qat.modules import *
