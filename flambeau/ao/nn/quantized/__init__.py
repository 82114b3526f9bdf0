"""torch.ao.nn.quantized: modules that compute with integers. Stands on its modules."""

from flambeau.ao.nn.quantized import functional as functional
from flambeau.ao.nn.quantized.modules import *
from flambeau.ao.nn.quantized.modules import MaxPool2d as MaxPool2d
from flambeau.ao.nn.quantized.modules import __all__ as __all__
