"""Which operators of aten a public call is to PyTorch's tracer, where that differs from what torch.export records.

Rules have the form of those in export._operators: they get `op`, which records an operator, and the arguments. Used by recorder.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.export._functional import interpolate
from flambeau.export._operators import split
from flambeau.jit.tracing import indexing
from flambeau.jit.tracing.sizes import size_of
from flambeau.jit.tracing.warnings import DATAFLOW, RESULTS, warn

__all__ = ["BODY", "CUDNN", "FUNCTIONAL", "FUNCTIONS", "METHODS", "NAMES", "convolution", "dtype_of_number"]

Op = Callable[..., Any]
METHODS: dict[str, Callable[..., Any]] = {"__getitem__": indexing.getitem, "__setitem__": indexing.setitem}
FUNCTIONS: dict[str, Callable[..., Any]] = {}
FUNCTIONAL: dict[str, Callable[..., Any]] = {}
NAMES: dict[str, str] = {}
BODY: frozenset[str] = frozenset()
#: Operators whose last argument is whether cuDNN may be used.
CUDNN = frozenset({"batch_norm", "instance_norm", "layer_norm", "group_norm"})


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    METHODS[function.__name__] = function
    return function


def dtype_of_number(x: Any) -> Any:
    """The dtype of the constant that a number among tensors is."""
    kinds = ((bool, torch.bool), (int, torch.int64), (float, torch.float64), (complex, torch.complex128))
    return next(d for cls, d in kinds if isinstance(x, cls))


def convolution(name: str, values: list[Any]) -> tuple[str, list[Any]] | None:
    """The operator that a convolution is recorded as, and its arguments; None for anything else."""
    dims = {"conv1d": 1, "conv2d": 2, "conv3d": 3, "conv_transpose1d": 1, "conv_transpose2d": 2, "conv_transpose3d": 3}.get(name)
    if dims is None and name != "convolution":
        return None
    flags = [False, False, True, True]
    if name == "convolution":
        return "_convolution", [*values, *flags]
    if name.startswith("conv_transpose"):
        x, weight, bias, stride, padding, output_padding, groups, dilation = values
        return "_convolution", [x, weight, bias, _n(stride, dims), _n(padding, dims), _n(dilation, dims), True,
                                _n(output_padding, dims), groups, *flags]  # fmt: skip
    x, weight, bias, stride, padding, dilation, groups = values
    if isinstance(padding, str):
        return "_convolution_mode", [x, weight, bias, _n(stride, dims), padding, _n(dilation, dims), groups]
    return "_convolution", [x, weight, bias, _n(stride, dims), _n(padding, dims), _n(dilation, dims), False, [0] * (dims or 0),
                            groups, *flags]  # fmt: skip


def _n(value: Any, dims: int | None) -> list[Any]:
    values = [value] if isinstance(value, int) else list(value)
    return values * (dims or 1) if len(values) == 1 else values


# ---------------------------------------------------------------- conversions


@_method
def contiguous(op: Op, self: Any, memory_format: Any = torch.contiguous_format) -> Any:
    """A copy in C order, unless that is how the elements lie."""
    return op("contiguous", self, memory_format=memory_format)


# ---------------------------------------------------------------- what leaves the graph


@_method
def size(op: Op, self: Any, dim: Any = None) -> Any:
    """Sizes are tensors that are part of the graph."""
    return size_of(self, dim)


@_method
def numel(op: Op, self: Any) -> Any:
    """The number of elements, a tensor of the graph."""
    return size_of(self, "numel")


METHODS["nelement"] = FUNCTIONS["numel"] = numel


@_method
def __len__(op: Op, self: Any) -> int:
    """The first size, as a number."""
    warn(
        "Using len to get tensor shape",
        " might cause the trace to be incorrect. Recommended usage would be tensor.shape[0]. Passing a tensor of different shape "
        "might lead to errors or silently give incorrect results.",
    )
    return len(self)


@_method
def __iter__(op: Op, self: Any) -> Any:
    """The parts of the first dimension."""
    if not self.dim():
        raise TypeError("iteration over a 0-d tensor")
    warn(
        "Iterating over a tensor",
        " might cause the trace to be incorrect. Passing a tensor of different shape won't change the number of iterations "
        "executed (and might lead to errors or silently give incorrect results).",
    )
    return iter(op("unbind", self, 0))


@_method
def numpy(op: Op, self: Any, *, force: bool = False) -> Any:
    """An array, which is a constant."""
    warn("Converting a tensor to a NumPy array", DATAFLOW)
    plain = op("resolve_neg", op("resolve_conj", self))
    return plain.numpy(force=force)


# ---------------------------------------------------------------- constants


def _constant(op: Op, data: Any, dtype: Any) -> Any:
    made = torch.tensor(data, dtype=dtype)
    return op("to.device", made, made.device, made.dtype, False, False, None)


def tensor(
    op: Op, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Any:
    """A constant."""
    warn("torch.tensor", RESULTS)
    if isinstance(data, torch.Tensor):
        made = op("detach", op("to.device", data.detach().clone(), data.device, dtype or data.dtype, False, False, None))
    else:
        made = op("detach", _constant(op, _values(data), dtype))
    return made.requires_grad_() if requires_grad else made


def as_tensor(op: Op, data: Any, dtype: Any = None, device: Any = None) -> Any:
    """A tensor in a dtype; a constant of anything else."""
    warn("torch.as_tensor", RESULTS)
    if not isinstance(data, torch.Tensor):
        return _constant(op, _values(data), dtype)
    return op("to.device", data, torch.device(device or data.device), dtype or data.dtype, False, False, None)


def _values(data: Any) -> Any:
    """Nested lists with numbers for tensors of one."""
    if isinstance(data, (list, tuple)):
        return [_values(item) for item in data]
    return data.item() if isinstance(data, torch.Tensor) and not data.dim() else data


def from_numpy(op: Op, ndarray: Any) -> Any:
    """A constant."""
    warn("torch.from_numpy", RESULTS)
    return op("lift_fresh", torch.from_numpy(ndarray))


def _shape_as_tensor(op: Op, input: Any) -> Any:
    """The sizes, which one operator gives."""
    return op("_shape_as_tensor", input)


FUNCTIONS["_shape_as_tensor"] = _shape_as_tensor
FUNCTIONS["tensor"], FUNCTIONS["as_tensor"], FUNCTIONS["from_numpy"] = tensor, as_tensor, from_numpy


@_method
def new_tensor(op: Op, self: Any, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """A constant of the tensor's dtype."""
    made = op("detach", _constant(op, _values(data), dtype or self.dtype))
    return made.requires_grad_() if requires_grad else made


# ---------------------------------------------------------------- Python in PyTorch


def _spread(name: str) -> None:
    def rule(op: Op, self: Any, dim: Any = None, *args: Any, **kwargs: Any) -> Any:
        if "correction" in kwargs or isinstance(dim, bool) or (dim is None and not args and not kwargs):
            return NotImplemented
        return op(name + ".dim", self, dim, *args, **kwargs)

    FUNCTIONS[name] = rule


_spread("var_mean")
_spread("std_mean")


def _with_default(size: Any, x: Any) -> list[Any]:
    """An output size with the input's own for None."""
    sizes = size_of(x, None)
    return [own if n is None else n for n, own in zip(size, sizes[len(sizes) - len(size) :])]


def _adaptive(name: str, dims: int) -> None:
    def rule(op: Op, input: Any, output_size: Any, *args: Any) -> Any:
        size = [output_size] * dims if isinstance(output_size, int) or output_size is None else list(output_size)
        return op(name, input, _with_default(size, input)) if None in size else NotImplemented

    FUNCTIONAL[name] = rule


_adaptive("adaptive_avg_pool2d", 2)
_adaptive("adaptive_avg_pool3d", 3)


def _scaled(op: Op, input: Any, dim: int, factor: Any) -> Any:
    """A size times a factor, rounded down, as a tensor of the graph."""
    size = op("floor", op("mul", op("to.dtype", size_of(input, dim), torch.float64), factor))
    return op("to.dtype", size, torch.int64)


FUNCTIONAL["interpolate"] = functools.partial(interpolate, scaled=_scaled)


def _split(op: Op, tensor: Any, split_size: Any = None, dim: int = 0, **kwargs: Any) -> Any:
    """Parts; a size that is a tensor becomes a number, as in PyTorch's Python."""
    size = kwargs.get("split_size_or_sections", split_size)
    return split(op, tensor, size if isinstance(size, (list, tuple)) else int(size), dim)


METHODS["split"] = FUNCTIONS["split"] = _split
_MODES = {"sum": 0, "mean": 1, "max": 2}


def embedding_bag(
    op: Op,
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Sums, means or maxima of rows of a table."""
    if max_norm is not None:
        return NotImplemented
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                             f"sequences. However, found offsets of type {offsets.__class__}")  # fmt: skip
        steps = size_of(input, "numel"), size_of(input, 1)
        offsets = op("arange", 0, *steps, dtype=input.dtype, device=input.device)
        input = op("reshape", input, [-1])
        if per_sample_weights is not None:
            per_sample_weights = op("reshape", per_sample_weights, [-1])
    flags = scale_grad_by_freq, _MODES[mode], sparse, per_sample_weights, include_last_offset, padding_idx
    return op("embedding_bag.padding_idx", weight, input, offsets, *flags)[0]


FUNCTIONAL["embedding_bag"] = embedding_bag


def ctc_loss(
    op: Op,
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: Any = 0,
    zero_infinity: bool = False,
) -> Any:
    """The losses, whose reduction, if it is left out, isn't that of the operator of this name."""
    number = reduction if isinstance(reduction, int) else ("none", "mean", "sum").index(reduction)
    lengths = [list(x) if isinstance(x, tuple) else x for x in (input_lengths, target_lengths)]
    kind = "Tensor" if isinstance(lengths[0], torch.Tensor) else "IntList"
    return op(f"ctc_loss.{kind}", log_probs, targets, *lengths, blank, number, zero_infinity)


FUNCTIONS["ctc_loss"] = ctc_loss
FUNCTIONAL["ctc_loss"] = lambda op, *args, reduction="mean", **kwargs: (
    ctc_loss(op, *args, **kwargs) if len(args) > 5 else ctc_loss(op, *args, reduction=reduction, **kwargs)
)
