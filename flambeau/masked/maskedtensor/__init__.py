"""torch.masked.maskedtensor: tensors with a mask, PyTorch's prototype: `core` the class, the other modules what operators do.

An operator is answered by its function's name, from the table `core.RULES` that the modules fill: elementwise ones compute on
the data and keep the mask (`unary`, `binary`), reductions leave out what is masked (`reductions`), views and joins are done to
data and mask alike (`passthrough`), and some change between layouts (`conversions`).
"""

from flambeau.masked.maskedtensor import binary, conversions, core, creation, passthrough, reductions, unary
from flambeau.masked.maskedtensor.core import MaskedTensor, is_masked_tensor
