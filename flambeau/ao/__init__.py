"""torch.ao: architecture optimisation; see flambeau.ao.quantization."""

from flambeau.ao import nn as nn
from flambeau.ao import quantization as quantization
