"""torch.ao.nn.quantized.dynamic: modules with integer weights whose inputs are quantized while they run."""

from flambeau.ao.nn.quantized.dynamic.modules import *
