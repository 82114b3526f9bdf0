"""The operators, one family a file. Importing a family registers its functions in the namespace and on Tensor."""

# ruff: noqa: F401, I001

from flambeau.core import tracking

from flambeau.ops import (
    activation,
    adaptive_pool,
    combine,
    compare,
    conv,
    copy,
    create,
    cross_entropy,
    distance,
    dropout,
    embedding,
    extrema,
    fold,
    functions,
    index,
    interop,
    join,
    loss,
    magnitude,
    mask,
    matmul,
    norm,
    pad,
    pointwise,
    pool,
    random,
    reduce,
    scan,
    scatter,
    softmax,
    sort,
    unique,
    variance,
    view,
)
