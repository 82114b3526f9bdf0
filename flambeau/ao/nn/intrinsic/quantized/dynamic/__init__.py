"""torch.ao.nn.intrinsic.quantized.dynamic: modules of several whose inputs are quantized while they run."""

from flambeau.ao.nn.intrinsic.quantized.dynamic.modules.linear_relu import LinearReLU as LinearReLU
