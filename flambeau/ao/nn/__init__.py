"""torch.ao.nn: modules of quantized models, which are those of torch.nn.quantized."""

import sys

from flambeau.nn import quantized as quantized

sys.modules[f"{__name__}.quantized"] = quantized
