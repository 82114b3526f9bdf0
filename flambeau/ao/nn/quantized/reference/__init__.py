"""torch.ao.nn.quantized.reference: float modules that know how their weights are quantized. Stands on its modules."""

from flambeau.ao.nn.quantized.reference.modules import *
from flambeau.ao.nn.quantized.reference.modules import __all__ as __all__
