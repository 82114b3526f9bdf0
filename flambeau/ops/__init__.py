"""The operators, one family a file. Importing a family registers its functions in the namespace and on Tensor."""

# ruff: noqa: I001

from flambeau.core.autograd import tensor_methods

from flambeau.ops.elementwise import (
    activation,
    bessel,
    ternary,
    comparison,
    complex_numbers,
    fake_quantize,
    math,
    incomplete_gamma,
    orthogonal_polynomials,
    arithmetic,
)
from flambeau.ops.nn import (
    adaptive_pool,
    attention,
    average_pool,
    embedding_bag,
    batch_norm,
    conv,
    cross_entropy,
    ctc_loss,
    dropout,
    embedding,
    grid_sample,
    interpolate,
    fractional_pool,
    loss,
    margin_loss,
    norm,
    max_pool,
)
from flambeau.ops.sorting import combinations, sort, unique
from flambeau.ops.creation import from_data, copy, factories, new_methods, window_functions
from flambeau.ops.reduction import (
    covariance,
    extrema,
    finite_differences,
    histogram,
    vector_norm,
    quantile,
    sum,
    scan,
    segment_reduce,
    softmax,
    variance,
)
from flambeau.ops.aten import internals
from flambeau.ops.linalg import (
    distance,
    einsum,
    grouped_mm,
    matrix_functions,
    cholesky,
    spectral as linalg_decompositions,
    lu,
    qr,
    solve,
    lowrank,
    matmul,
    matrix_norm,
    cdist,
    scaled_mm,
)
from flambeau.ops.interop import dlpack, python, untyped_storage
from flambeau.ops.views import expand, fold, cat, pad, rearrange, triangle, view
from flambeau.ops.tensor_methods import predicates, deprecated, sparse
from flambeau.ops.fft import transforms, frequencies, stft
from flambeau.ops.random import gamma, samplers, factories
from flambeau.ops.indexing import index, mask, scatter, index_select
