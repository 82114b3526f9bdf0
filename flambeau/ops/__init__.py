"""The operators, one family a file. Importing a family registers its functions in the namespace and on Tensor."""

from flambeau.core import tracking  # noqa: F401 - the autograd face of Tensor comes first

from flambeau.ops import pointwise, view, copy, create, random, interop  # noqa: F401, E402, I001
