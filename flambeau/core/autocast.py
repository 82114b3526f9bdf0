"""What autocast does to an operator: which ones compute in the lower precision, which in float32, which in the widest type given.

The lists are those of PyTorch for the CPU, by the operator's name. Generated variants come here only while a special mode is on.
Stands on core.modes; used by core.derive and core.declare.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from flambeau.base.dtype import float32, promote_types
from flambeau.core.modes import autocast_cast, get_autocast_dtype, local
from flambeau.core.tensor import Tensor

#: Computed in the type of the block.
LOWER = frozenset(
    """
    addbmm addmm baddbmm bmm chain_matmul conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d
    conv_transpose3d convolution einsum inner linalg_multi_dot linalg_vecdot linear linear_cross_entropy lstm
    matmul matrix_power mm multi_dot prelu rnn_relu rnn_tanh scaled_dot_product_attention
    tensordot vecdot
""".split()
)

#: Computed in float32.
FLOAT32 = frozenset(
    """
    adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy binary_cross_entropy_with_logits cdist
    cholesky cholesky_ex cholesky_inverse cholesky_solve cosine_embedding_loss cross_entropy cross_entropy_loss ctc_loss
    eig eigh eigvals eigvalsh fft_fft fft_fft2 fft_fftn fft_hfft fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_irfft
    fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn fractional_max_pool2d fractional_max_pool3d geqrf grid_sample
    grid_sampler grid_sampler_2d grid_sampler_3d hinge_embedding_loss householder_product huber_loss inv inv_ex inverse
    kl_div l1_loss linalg_cholesky linalg_cholesky_ex linalg_cond linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh
    linalg_householder_product linalg_inv linalg_inv_ex linalg_lstsq linalg_matrix_rank linalg_pinv linalg_qr
    linalg_solve linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve local_response_norm lstsq lu_solve
    margin_ranking_loss matrix_rank max_pool3d max_unpool2d max_unpool3d mse_loss multi_margin_loss
    multilabel_margin_loss nanquantile nll_loss nll_loss2d orgqr ormqr pad pinv pinverse poisson_nll_loss polar prod qr
    quantile smooth_l1_loss soft_margin_loss solve stft svd svdvals tensorinv tensorsolve trace triangular_solve
    triplet_margin_loss view_as_complex
""".split()
)

#: Computed in the widest type of the arguments.
PROMOTE = frozenset(("cat", "index_copy", "stack"))

#: Made of listed operators, but not touched by PyTorch's autocast.
UNTOUCHED = frozenset(("bilinear",))

LISTED = LOWER | FLOAT32 | PROMOTE | UNTOUCHED


def autocasting(operator: Any) -> bool:
    """Whether autocast is on in this thread and concerns the operator."""
    return operator.name in LISTED and bool(local.autocast_enabled.get("cpu"))


def _floats(arguments: Sequence[Any]) -> Iterator[Any]:
    for x in arguments:
        if isinstance(x, Tensor):
            if x._layout.dtype.is_floating_point:
                yield x
        elif isinstance(x, (tuple, list)):
            yield from _floats(x)


def _cast(x: Any, to: Any) -> Any:
    if isinstance(x, Tensor):
        return autocast_cast(x, to)
    if isinstance(x, (tuple, list)) and any(isinstance(y, Tensor) for y in x):
        return type(x)([_cast(y, to) for y in x])
    return x


def _pads_by_copying(given: Sequence[Any], named: dict[str, Any]) -> bool:
    """Whether a call of `pad` repeats or mirrors values, which PyTorch lists (but for mirrored volumes)."""
    mode = named.get("mode", given[2] if len(given) > 2 else "constant")
    sizes = named.get("pad", given[1] if len(given) > 1 else ())
    return mode == "replicate" or (mode == "reflect" and len(sizes) < 6)


@contextlib.contextmanager
def cast_arguments(
    operator: Any, given: Sequence[Any], named: dict[str, Any]
) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """The arguments as autocast wants them for the operator; inside the block autocast is off."""
    name, to = operator.name, None
    if name in LISTED and local.autocast_enabled.get("cpu") and (name != "pad" or _pads_by_copying(given, named)):
        if name in LOWER:
            to = get_autocast_dtype("cpu")
        elif name in FLOAT32:
            to = float32
        elif name in PROMOTE:
            for x in _floats([*given, *named.values()]):
                to = x._layout.dtype if to is None else promote_types(to, x._layout.dtype)
    if to is not None:
        given, named = [_cast(x, to) for x in given], {n: _cast(x, to) for n, x in named.items()}
    before = local.autocast_enabled
    local.autocast_enabled = {}
    try:
        yield list(given), named
    finally:
        local.autocast_enabled = before
