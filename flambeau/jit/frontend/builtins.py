"""Which Python function is which operator: torch.add is aten::add, math.floor is aten::floor.

Stands on the package's namespaces and operators; used by python_values.
"""

from __future__ import annotations

import cmath
import functools
import math
from types import FunctionType, ModuleType
from typing import Any

from flambeau.dispatcher.dispatch_modes import graph_operator
from flambeau.jit.frontend.operators import is_operator

__all__ = ["operator_of"]

# Functions of torch.nn.functional that are operators in PyTorch; the others are programs.
_FUNCTIONAL = (
    "adaptive_avg_pool1d avg_pool1d avg_pool2d avg_pool3d bilinear celu_ channel_shuffle conv1d conv2d conv3d conv_tbc "
    "conv_transpose1d "
    "conv_transpose2d conv_transpose3d cosine_similarity elu_ gelu hardshrink leaky_relu_ linear logsigmoid one_hot "
    "pairwise_distance pdist "
    "pixel_shuffle pixel_unshuffle prelu relu_ rrelu_ selu_ softplus softshrink threshold_ scaled_dot_product_attention "
    "native_channel_shuffle"
).split()
_RECURRENT = "lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell".split()
_SPARSE = {
    "mm": "_sparse_mm", "addmm": "_sparse_addmm", "softmax": "_sparse_softmax", "log_softmax": "_sparse_log_softmax",
    "sampled_addmm": "sparse_sampled_addmm",
}  # fmt: skip
_RENAMED = {"logsigmoid": "log_sigmoid"}
_MATH = {
    name: name for name in (
        "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh degrees erf erfc exp expm1 fabs factorial floor "
        "fmod frexp gamma "
        "gcd isfinite isinf isnan ldexp lgamma log log10 log1p modf pow radians sin sinh sqrt tan tanh").split()
} | {"remainder": "mathremainder"}  # fmt: skip
# In PyTorch's torch namespace, but no operators there.
_NOT = frozenset(
    "is_tensor set_default_dtype compile save load typename is_storage split stft istft unique unique_consecutive".split()
)


@functools.cache
def _table() -> dict[int, str]:
    import flambeau as torch

    found: dict[int, str] = {}

    def enter(where: Any, prefix: str, names: Any = None) -> None:
        for name in names if names is not None else dir(where):
            symbol = f"aten::{prefix}{_RENAMED.get(name, name)}"
            if name.startswith("__") or not is_operator(symbol):  # asked first: reading the name may load its room
                continue
            value = getattr(where, name, None)
            if value is not None and callable(value) and not isinstance(value, (type, ModuleType)):
                found.setdefault(id(value), symbol)

    names = [name for name in dir(torch) if name not in _NOT]
    enter(torch, "", names)
    enter(torch, "", _RECURRENT)
    enter(torch.nn.functional, "", _FUNCTIONAL)
    for prefix, module in (("linalg_", torch.linalg), ("special_", torch.special), ("fft_", torch.fft)):
        enter(module, prefix)
    for names, module in (
        (_MATH, math),
        (
            {name: name for name in ("acos acosh asin asinh atan atanh cos cosh exp log log10 sin sinh sqrt tan tanh").split()},
            cmath,
        ),
    ):
        for name, own in names.items():
            found[id(getattr(module, name))] = f"aten::{own}"
    for name, symbol in _SPARSE.items():
        found[id(getattr(torch.sparse, name))] = f"aten::{symbol}"
    for name, symbol in {
        "split": "split",
        "stft": "stft",
        "istft": "istft",
        "is_grad_enabled": "is_grad_enabled",
        "_set_grad_enabled": "set_grad_enabled",
    }.items():
        value = getattr(torch, name, None)
        if value is not None:
            found.setdefault(id(value), f"aten::{symbol}")
    return found


def operator_of(function: Any) -> str | None:
    """The operator that a Python function is; None if it is none."""
    found = _table().get(id(function))
    if found is None and isinstance(function, FunctionType):
        found = graph_operator(function) or None
    return found
