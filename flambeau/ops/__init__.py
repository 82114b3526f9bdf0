"""The operators, one family a file. Importing a family registers its functions in the namespace and on Tensor."""

# ruff: noqa: F401, I001

from flambeau.core import tracking

from flambeau.ops import (
    adaptive_pool,
    conv,
    copy,
    create,
    dropout,
    embedding,
    index,
    interop,
    join,
    mask,
    matmul,
    norm,
    pointwise,
    pool,
    random,
    reduce,
    scatter,
    softmax,
    view,
)
