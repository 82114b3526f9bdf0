"""Which operators of aten the functions of torch.nn.functional are: the other half of `_operators`, with its rules' form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.export._operators import Op

__all__ = ["RULES"]

#: By the name in torch.nn.functional.
RULES: dict[str, Callable[..., Any]] = {}
_NUMBER_OF = {"none": 0, "mean": 1, "sum": 2}


def _rule(function: Callable[..., Any]) -> Callable[..., Any]:
    RULES[function.__name__] = function
    return function


def _activation(name: str, *extra: tuple[str, Any], own: bool = False) -> None:
    """A function of one tensor, further arguments with defaults, and `inplace`."""

    def rule(op: Op, input: Any, *args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        values = list(args[: len(extra)])
        if len(args) > len(extra):
            inplace = args[len(extra)]
        values += [kwargs.get(n, default) for n, default in extra[len(values) :]]
        return op(name + "_" * bool(inplace), input, *values)

    RULES[name] = rule


for _name in ("relu", "relu6", "selu", "silu", "mish", "hardswish", "hardsigmoid", "sigmoid", "tanh"):
    _activation(_name)
_activation("elu", ("alpha", 1.0))
_activation("celu", ("alpha", 1.0))
_activation("leaky_relu", ("negative_slope", 0.01))
_activation("hardtanh", ("min_val", -1.0), ("max_val", 1.0))
_activation("threshold", ("threshold", None), ("value", None))


def _dropout(name: str, default: bool = False) -> None:
    def rule(op: Op, input: Any, p: float = 0.5, training: bool = default, inplace: bool = False) -> Any:
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        return op(name + "_" * inplace, input, p, training)

    RULES[name] = rule


_dropout("dropout", True)
_dropout("alpha_dropout")
_dropout("feature_alpha_dropout")


def _probabilities(name: str) -> None:
    def rule(op: Op, input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
        return NotImplemented if dim is None else op(name, input, dim, dtype)

    RULES[name] = rule


_probabilities("softmax")
_probabilities("log_softmax")


@_rule
def batch_norm(
    op: Op,
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Batch norm; the last argument is cuDNN's."""
    return op("batch_norm", input, weight, bias, running_mean, running_var, training, momentum, eps, False)


@_rule
def instance_norm(
    op: Op,
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Instance norm; the last argument is cuDNN's."""
    return op("instance_norm", input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False)


@_rule
def layer_norm(op: Op, input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Layer norm; the last argument is cuDNN's."""
    return op("layer_norm", input, list(normalized_shape), weight, bias, eps, False)


@_rule
def group_norm(op: Op, input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Group norm; the last argument is cuDNN's."""
    return op("group_norm", input, num_groups, weight, bias, eps, False)


@_rule
def rms_norm(op: Op, input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """RMS norm."""
    return op("rms_norm", input, list(normalized_shape), weight, eps)


@_rule
def embedding(
    op: Op,
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Rows of a table."""
    if max_norm is not None:
        return NotImplemented
    row = -1 if padding_idx is None else padding_idx + len(weight) * (padding_idx < 0)
    return op("embedding", weight, input, row, scale_grad_by_freq, sparse)


@_rule
def embedding_bag(
    op: Op,
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Sums, means or maxima of rows of a table; bags of one size are cut like those of different sizes."""
    number = {"sum": 0, "mean": 1, "max": 2}.get(mode)
    if max_norm is not None or number is None or input.dim() > 2:
        return NotImplemented
    if input.dim() == 2:
        step = input.shape[1]
        offsets = op("arange.start_step", 0, input.numel(), step, dtype=input.dtype, device=input.device)
        input = op("reshape", input, [-1])
        per_sample_weights = None if per_sample_weights is None else op("reshape", per_sample_weights, [-1])
    settings = (scale_grad_by_freq, number, sparse, per_sample_weights, include_last_offset, padding_idx)
    return op("embedding_bag.padding_idx", weight, input, offsets, *settings)[0]


def _reduction(kwargs: dict[str, Any]) -> int:
    if kwargs.get("size_average") is not None or kwargs.get("reduce") is not None:
        raise NotImplementedError("torch.export: size_average= and reduce= are not implemented in flambeau; use reduction=")
    word = kwargs.get("reduction", "mean")
    if word not in _NUMBER_OF:
        raise ValueError(f"{word} is not a valid value for reduction")
    return _NUMBER_OF[word]


def _loss(name: str, *names: str, default: dict[str, Any] | None = None, broadcast: bool = False) -> None:
    """A loss of input, target and further arguments by name, in the order of the operator; REDUCTION stands for its number."""

    def rule(op: Op, input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and "weight" in names:
            kwargs, args = {**kwargs, "weight": args[0]}, ()
        if args:
            return NotImplemented
        if broadcast:
            input, target = op("broadcast_tensors", [input, target])
        number = _reduction(kwargs)
        rest = [number if n == "reduction" else kwargs.get(n, (default or {}).get(n)) for n in names]
        return op(_LOSSES.get(name, name), input, target, *rest)

    RULES[name] = rule


_LOSSES = {"cross_entropy": "cross_entropy_loss", "nll_loss": "nll_loss_nd"}
_loss("mse_loss", "reduction", broadcast=True)
_loss("l1_loss", "reduction", broadcast=True)
_loss("smooth_l1_loss", "reduction", "beta", default={"beta": 1.0}, broadcast=True)
_loss("huber_loss", "reduction", "delta", default={"delta": 1.0}, broadcast=True)
_loss("soft_margin_loss", "reduction")
_loss("binary_cross_entropy", "weight", "reduction")
_loss("binary_cross_entropy_with_logits", "weight", "pos_weight", "reduction")
_loss("nll_loss", "weight", "reduction", "ignore_index", default={"ignore_index": -100})
_loss(
    "cross_entropy",
    "weight",
    "reduction",
    "ignore_index",
    "label_smoothing",
    default={"ignore_index": -100, "label_smoothing": 0.0},
)


@_rule
def pad(op: Op, input: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Any:
    """A border."""
    return op("pad", input, list(pad), mode, value)


def _scaled(op: Op, input: Any, dim: int, factor: Any) -> Any:
    """A size times a factor, rounded down."""
    return torch.sym_int(torch.sym_float(input.shape[dim]) * factor)


@_rule
def interpolate(
    op: Op,
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
    scaled: Callable[..., Any] = _scaled,
) -> Any:
    """Another resolution. scaled: what works out a size by a factor."""
    dims = input.dim() - 2
    linear = {1: "linear1d", 2: "bilinear2d", 3: "trilinear3d"}.get(dims)
    known = ("nearest", "nearest-exact", "area", "linear", "bilinear", "trilinear", "bicubic")
    if mode not in known or (antialias and (dims != 2 or mode not in ("bilinear", "bicubic"))):
        raise NotImplementedError(
            f"torch.export: interpolate with mode={mode!r}, antialias={antialias} is not implemented in "
            "flambeau; use 'nearest', 'bilinear' or 'bicubic'"
        )
    if size is not None and (scale_factor is not None or recompute_scale_factor):
        return NotImplemented  # the function itself says what is wrong
    sizes = None if size is None else [size] * dims if not isinstance(size, (list, tuple)) else list(size)
    scales = None
    if scale_factor is not None:
        scales = list(scale_factor) if isinstance(scale_factor, (list, tuple)) else [scale_factor] * dims
        if recompute_scale_factor or mode == "area":
            sizes, scales = [scaled(op, input, i + 2, s) for i, s in enumerate(scales)], None
        else:
            scales = [torch.sym_float(s) for s in scales]
    if mode == "area":
        return op(f"adaptive_avg_pool{dims}d", input, sizes)
    if mode in ("nearest", "nearest-exact"):
        name = "upsample_nearest" if mode == "nearest" else "_upsample_nearest_exact"
        return op(f"{name}{dims}d.vec", input, sizes, scales)
    if antialias:
        return op(f"_upsample_{mode}2d_aa.vec", input, sizes, bool(align_corners), scales)
    return op(f"upsample_{'bicubic2d' if mode == 'bicubic' else linear}.vec", input, sizes, bool(align_corners), scales)


def _max_pool(dims: int) -> None:
    def rule(
        op: Op,
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        name = f"max_pool{dims}d" + ("_with_indices" * bool(return_indices))
        steps = [] if stride is None else stride
        each = [kernel_size, steps, padding, dilation]
        return op(name, input, *[[x] * dims if isinstance(x, (int, torch.SymInt)) else list(x) for x in each], ceil_mode)

    RULES[f"max_pool{dims}d"] = rule


for _dims in (1, 2, 3):
    _max_pool(_dims)


def _adaptive_max_pool(dims: int) -> None:
    def rule(op: Op, input: Any, output_size: Any, return_indices: bool = False) -> Any:
        size = [output_size] * dims if isinstance(output_size, (int, torch.SymInt)) else list(output_size)
        if None in size:
            return NotImplemented
        made = op(f"adaptive_max_pool{dims}d", input, size)
        return made if return_indices else made[0]

    RULES[f"adaptive_max_pool{dims}d"] = rule


for _dims in (1, 2, 3):
    _adaptive_max_pool(_dims)


@_rule
def kl_div(op: Op, input: Any, target: Any, *args: Any, log_target: bool = False, **kwargs: Any) -> Any:
    """The divergence; a mean over the batch is a sum, divided."""
    if args:
        return NotImplemented
    batch = kwargs.get("reduction") == "batchmean" and input.dim() != 0
    number = 2 if batch else _reduction(kwargs)
    made = op("kl_div", input, target, number, **({"log_target": True} if log_target else {}))
    return op("div", made, input.shape[0]) if batch else made


@_rule
def tanhshrink(op: Op, input: Any) -> Any:
    """x - tanh(x)."""
    return op("sub", input, op("tanh", input))


@_rule
def softsign(op: Op, input: Any) -> Any:
    """x / (|x| + 1)."""
    return op("div", input, op("add", op("abs", input), 1))


def _max_unpool(dims: int) -> None:
    def rule(
        op: Op, input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
    ) -> Any:
        kernel, steps, pads = (
            [x] * dims if isinstance(x, (int, torch.SymInt)) else list(x)
            for x in (kernel_size, kernel_size if stride is None else stride, padding)
        )
        size = list(output_size)[-dims:] if output_size is not None else [
            (n - 1) * s + k - 2 * p for n, s, k, p in zip(input.shape[-dims:], steps, kernel, pads)]  # fmt: skip
        if dims == 3:
            return op("max_unpool3d", input, indices, size, steps, pads)
        if dims == 1:
            return op("squeeze", op("max_unpool2d", op("unsqueeze", input, -1), op("unsqueeze", indices, -1), [*size, 1]), -1)
        return op("max_unpool2d", input, indices, size)

    RULES[f"max_unpool{dims}d"] = rule


for _dims in (1, 2, 3):
    _max_unpool(_dims)


def _lp_pool(dims: int) -> None:
    def rule(op: Op, input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
        kernel = [kernel_size] * dims if isinstance(kernel_size, int) else list(kernel_size)
        steps = [] if stride is None else [stride] * dims if isinstance(stride, int) else list(stride)
        count = 1
        for k in kernel:
            count *= k
        mean = op(f"avg_pool{dims}d", op("pow", input, norm_type), kernel, steps, [0] * dims, ceil_mode)
        size = op("mul", op("sign", mean), op("relu", op("abs", mean)))
        return op("pow", op("mul", size, count), 1.0 / norm_type)

    RULES[f"lp_pool{dims}d"] = rule


for _dims in (1, 2, 3):
    _lp_pool(_dims)


@_rule
def poisson_nll_loss(
    op: Op,
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    size_average: Any = None,
    eps: float = 1e-8,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """Poisson's loss."""
    number = _reduction({"size_average": size_average, "reduce": reduce, "reduction": reduction})
    return op("poisson_nll_loss", input, target, log_input, full, eps, number)
