"""The operators, one family a file. Importing a family registers its functions in the namespace and on Tensor."""

# ruff: noqa: F401, I001

from flambeau.core import tracking

from flambeau.ops import (
    conv,
    copy,
    create,
    index,
    interop,
    mask,
    matmul,
    pointwise,
    random,
    reduce,
    scatter,
    softmax,
    view,
)
