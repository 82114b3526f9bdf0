"""Modules that are trained for being quantized at run time."""

from flambeau.ao.nn.qat.dynamic.modules.linear import Linear as Linear
